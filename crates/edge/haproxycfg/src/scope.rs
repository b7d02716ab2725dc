//! What a keyword parser may see and change: the section it stands in, everything read so far, files, and diagnostics.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Arc,
};

use sample::{AclSet, PatternReferences, PublicKeys, Reference};

use crate::{
    address::{self, Accepts, Address, Family, Host},
    diagnostics::{Diagnostic, Diagnostics, FATAL_ERRORS_MAX, Problem, Severity},
    keywords,
    line::Line,
    model::{
        CacheSection, FcgiApp, Global, LogForward, Peers, Program, Proxy, ProxyIndex, ProxyKind, Resolvers, Ring,
        Server, ServerIndex, StickTable, TableIndex, Userlist,
    },
    rules,
    source::{Files, ReadError},
};

/// The section that is being read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Section {
    /// None yet.
    #[default]
    None,
    /// `global`.
    Global,
    /// `defaults`: index of [`State::defaults`].
    Defaults(usize),
    /// `frontend`, `backend` or `listen`: index of [`State::proxies`].
    Proxy(usize),
    /// Another section, by the group of its lines.
    Other(crate::table::Group),
    /// A section that could not be opened: its lines are skipped.
    Skipped,
}

/// A proxy or `defaults` section while it is read.
#[derive(Clone, Debug, Default)]
pub struct ProxyDraft {
    /// What is known for sure.
    pub proxy: Proxy,
    /// What the rule parsers (`rules`) keep until all names are known.
    pub rules: rules::Pending,
    /// The line of its section.
    pub line: Option<Line>,
    pub(crate) simple: keywords::proxy::Pending,
    /// ACLs declared in it, which no other section sees.
    pub(crate) acls: AclSet,
}

/// A name in an expression, and the line that it stands in.
#[derive(Clone, Debug)]
pub struct NamedReference {
    /// The name and what it must be.
    pub reference: Reference,
    /// Where it stands.
    pub line: Line,
    /// The `defaults` section or proxy that it stands in.
    pub section: Section,
}

/// From this many servers on, those of a section are found by hash.
const HASH_SERVERS_FROM: usize = 32;

/// A server while it is read.
#[derive(Clone, Debug)]
pub struct ServerDraft {
    /// What is known for sure.
    pub server: Server,
    pub(crate) pending: keywords::server::Pending,
}

/// Places of servers by name, of the first `count` of a section.
#[derive(Debug, Default)]
pub(crate) struct ServersByName {
    count: usize,
    places: HashMap<Arc<str>, usize>,
}

/// Everything read so far.
#[derive(Default)]
pub struct State {
    /// The `global` sections.
    pub global: Global,
    /// `defaults` sections in order.
    pub defaults: Vec<ProxyDraft>,
    /// Frontends, backends and listens in order. Their place is their [`ProxyIndex`].
    pub proxies: Vec<ProxyDraft>,
    /// `stick-table` lines in order. Their place is their [`TableIndex`].
    pub stick_tables: Vec<StickTable>,
    /// `resolvers` sections in order.
    pub resolvers: Vec<Resolvers>,
    /// `peers` sections in order.
    pub peers: Vec<Peers>,
    pub(crate) peers_draft: keywords::peers::Pending,
    /// `userlist` sections by name.
    pub userlists: BTreeMap<String, Userlist>,
    /// `ring` sections in order.
    pub rings: Vec<Ring>,
    /// `log-forward` sections in order.
    pub log_forwards: Vec<LogForward>,
    /// `program` sections in order.
    pub programs: Vec<Program>,
    /// `cache` sections in order.
    pub caches: Vec<CacheSection>,
    /// `fcgi-app` sections in order.
    pub fcgi_apps: Vec<FcgiApp>,
    pub(crate) acme: keywords::acme::Pending,
    /// What the rule parsers keep that belongs to no proxy (`http-errors` sections and the like).
    pub rules: rules::Shared,
    pub(crate) simple: keywords::global::Pending,
    pub(crate) tls: keywords::tls::Defaults,
    /// Proxies by name, in order.
    pub(crate) names: HashMap<Arc<str>, Vec<u32>>,
    /// The servers of large sections by name.
    pub(crate) servers_by_name: RefCell<HashMap<u32, ServersByName>>,
    /// Places of `defaults` sections by name.
    pub(crate) defaults_by_name: HashMap<Arc<str>, Vec<usize>>,
    pub(crate) patterns: PatternReferences,
    pub(crate) keys: PublicKeys,
    /// Files whose lists of patterns rules change, and where these rules stand.
    pub(crate) pattern_changes: Vec<(String, Line, usize)>,
    pub(crate) asks_request_body: bool,
    pub(crate) asks_response_body: bool,
    pub(crate) references: Vec<NamedReference>,
}

/// What a keyword parser may see and change.
pub struct Scope<'a> {
    /// Everything read so far.
    pub state: &'a mut State,
    /// The section that is being read.
    pub section: Section,
    pub(crate) diagnostics: &'a mut Diagnostics,
    pub(crate) files: &'a dyn Files,
    /// The keyword that opened the section.
    pub(crate) section_keyword: String,
    /// The name of the section, or its keyword if it has none: `.SECTION`.
    pub(crate) section_name: String,
    /// Stands in where a proxy is asked for outside of one.
    pub(crate) outside: ProxyDraft,
}

impl Scope<'_> {
    /// The proxy or `defaults` section that is being read. Outside of one, an empty draft that nobody reads.
    pub fn proxy(&mut self) -> &mut ProxyDraft {
        let draft = match self.section {
            Section::Defaults(index) => self.state.defaults.get_mut(index),
            Section::Proxy(index) => self.state.proxies.get_mut(index),
            _ => None,
        };
        draft.unwrap_or(&mut self.outside)
    }

    /// The problem with the name nearest to `word`. There may be thousands of names, so it is looked for only as often as an
    /// error is likely to be read.
    pub(crate) fn near(&self, problem: Problem, word: &str, names: impl FnOnce() -> Vec<Arc<str>>) -> Problem {
        if self.diagnostics.alerts() >= FATAL_ERRORS_MAX {
            return problem;
        }
        problem.nearest(word, names().iter().map(|name| &**name))
    }

    /// Whether a proxy or `defaults` section is being read.
    #[must_use]
    pub fn in_proxy(&self) -> bool {
        matches!(self.section, Section::Defaults(_) | Section::Proxy(_))
    }

    /// Whether a `defaults` section is being read.
    #[must_use]
    pub fn in_defaults(&self) -> bool {
        matches!(self.section, Section::Defaults(_))
    }

    /// Whether the `defaults` section that is being read has a name; false elsewhere.
    #[must_use]
    pub fn in_named_defaults(&self) -> bool {
        match self.section {
            Section::Defaults(index) => {
                self.state.defaults.get(index).is_some_and(|draft| !draft.proxy.name.is_empty())
            }
            _ => false,
        }
    }

    /// Whether the section that is being read accepts connections (`frontend`, `listen`, also `defaults`).
    #[must_use]
    pub fn has_frontend(&self) -> bool {
        match self.section {
            Section::Proxy(index) => self.state.proxies.get(index).is_some_and(|draft| draft.proxy.kind.has_frontend()),
            _ => self.in_defaults(),
        }
    }

    /// Whether the section that is being read has servers (`backend`, `listen`, also `defaults`).
    #[must_use]
    pub fn has_backend(&self) -> bool {
        match self.section {
            Section::Proxy(index) => self.state.proxies.get(index).is_some_and(|draft| draft.proxy.kind.has_backend()),
            _ => self.in_defaults(),
        }
    }

    /// `frontend`, `backend`, `proxy` (for `listen`) or `defaults`: what HAProxy calls the section in messages.
    #[must_use]
    pub fn kind_word(&self) -> &'static str {
        match self.section {
            Section::Proxy(index) => {
                let kind = self.state.proxies.get(index).map_or(ProxyKind::Listen, |draft| draft.proxy.kind);
                kind.word()
            }
            _ => "defaults",
        }
    }

    /// An error that does not end the parser which reports it. (To end it, return the problem.)
    pub fn alert(&mut self, line: &Line, problem: Problem) {
        self.diagnostics.push(Diagnostic::on_line(Severity::Alert, line, problem));
    }

    /// A warning.
    pub fn warn(&mut self, line: &Line, problem: Problem) {
        self.diagnostics.push(Diagnostic::on_line(Severity::Warning, line, problem));
    }

    /// A diagnostic about the configuration as a whole.
    pub fn whole(&mut self, severity: Severity, message: impl Into<String>) {
        self.diagnostics.push(Diagnostic::whole(severity, message));
    }

    /// The backend (or listen) of this name. Complete only in `finish`, when all sections have been read.
    #[must_use]
    pub fn backend_named(&self, name: &str) -> Option<ProxyIndex> {
        self.proxy_named(name, ProxyKind::has_backend)
    }

    /// The frontend (or listen) of this name.
    #[must_use]
    pub fn frontend_named(&self, name: &str) -> Option<ProxyIndex> {
        self.proxy_named(name, ProxyKind::has_frontend)
    }
}

impl Scope<'_> {
    /// The server of this name in a proxy. Complete only in `finish`.
    #[must_use]
    pub fn server_named(&self, proxy: ProxyIndex, name: &str) -> Option<ServerIndex> {
        let draft = self.state.proxies.get(usize::try_from(proxy.0).ok()?)?;
        let servers = &draft.proxy.servers;
        let index = if servers.len() < HASH_SERVERS_FROM {
            servers.iter().position(|server| &*server.name == name)?
        } else {
            let mut all = self.state.servers_by_name.borrow_mut();
            let known = all.entry(proxy.0).or_default();
            // While the section is read there are ever more of them.
            for (place, server) in servers.iter().enumerate().skip(known.count) {
                known.places.entry(Arc::clone(&server.name)).or_insert(place);
            }
            known.count = servers.len();
            *known.places.get(name)?
        };
        u32::try_from(index).ok().map(ServerIndex)
    }

    /// Notes that something names a server for good.
    pub fn refer_to(&mut self, proxy: ProxyIndex, server: ServerIndex) {
        let draft = usize::try_from(proxy.0).ok().and_then(|place| self.state.proxies.get_mut(place));
        let servers = draft.map(|draft| &mut draft.proxy.servers);
        let server = usize::try_from(server.0).ok().and_then(|place| servers?.get_mut(place));
        if let Some(server) = server {
            server.is_referenced = true;
        }
    }

    /// The stick table of this name. Complete only in `finish`.
    #[must_use]
    pub fn stick_table_named(&self, name: &str) -> Option<TableIndex> {
        let index = self.state.stick_tables.iter().position(|table| &*table.definition.name == name)?;
        u32::try_from(index).ok().map(TableIndex)
    }

    /// The stick table at a place.
    #[must_use]
    pub fn stick_table(&self, index: TableIndex) -> Option<&StickTable> {
        self.state.stick_tables.get(index.0 as usize)
    }

    /// The `peers` section of this name. Complete only in `finish`.
    #[must_use]
    pub fn peers_named(&self, name: &str) -> Option<&Peers> {
        // As in HAProxy, the last one.
        self.state.peers.iter().rev().find(|peers| &*peers.name == name)
    }

    fn proxy_named(&self, name: &str, has_side: fn(ProxyKind) -> bool) -> Option<ProxyIndex> {
        let has_side = |index: &u32| {
            let index = usize::try_from(*index).unwrap_or(usize::MAX);
            self.state.proxies.get(index).is_some_and(|draft| has_side(draft.proxy.kind))
        };
        self.state.names.get(name)?.iter().copied().find(has_side).map(ProxyIndex)
    }

    /// The value of an environment variable.
    #[must_use]
    pub fn variable_of_environment(&self, name: &str) -> Option<&str> {
        self.state.global.environment.get(name).map(String::as_str)
    }

    /// An address, of which a name has to be known now: HAProxy looks such names up once, while it reads the configuration.
    ///
    /// # Errors
    /// HAProxy's message.
    pub fn address(&self, text: &str, accepts: Accepts) -> Result<Address, String> {
        let accepts = Accepts { name: true, ..accepts };
        let mut address = address::parse(text, accepts, &self.state.global.environment)?;
        if let Host::Name(name, family) = &address.host {
            let ip = self.host(name, *family).ok_or_else(|| format!("invalid address: '{name}' in '{text}'"))?;
            address.host = Host::Ip(ip);
        }
        Ok(address)
    }

    /// The first address of a host, of a family if one is wanted.
    #[must_use]
    pub fn host(&self, name: &str, family: Option<Family>) -> Option<IpAddr> {
        if name == "localhost" {
            // The one name that means the same everywhere.
            let is_v6 = family == Some(Family::V6);
            return Some(if is_v6 { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() });
        }
        let is_wanted = |address: &IpAddr| match family {
            None => true,
            Some(Family::V4) => address.is_ipv4(),
            Some(Family::V6) => address.is_ipv6(),
        };
        self.files.lookup(name).into_iter().find(is_wanted)
    }

    /// The path that stands for `path` under `default-path`.
    #[must_use]
    pub fn resolve_path(&self, path: &str) -> String {
        join(self.state.simple.current_directory.as_deref(), path)
    }

    /// The contents of a file, `default-path` applied.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(&self, path: &str) -> Result<Arc<[u8]>, ReadError> {
        self.files.read(&self.resolve_path(path))
    }

    /// The contents of the file that the word at `index` names.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read_file(&self, line: &Line, index: usize) -> Result<Arc<[u8]>, Problem> {
        let path = line.word(index);
        self.read(path).map_err(|error| Problem::new(format!("cannot open file '{path}' : {error}.")).at(index))
    }

    /// What messages call the section: `global`, `defaults`, `frontend`, `backend`, `listen`.
    #[must_use]
    pub fn section_word(&self) -> &str {
        &self.section_keyword
    }
}

impl<'a> Scope<'a> {
    /// Before the first line of the first file.
    pub(crate) fn new(state: &'a mut State, diagnostics: &'a mut Diagnostics, files: &'a dyn Files) -> Self {
        Self {
            state,
            section: Section::None,
            diagnostics,
            files,
            section_keyword: String::new(),
            section_name: String::new(),
            outside: ProxyDraft::default(),
        }
    }

    /// A file begins: no section is open, and relative paths may be relative to the file.
    pub(crate) fn enter_file(&mut self, path: &str) {
        self.leave_section();
        self.state.simple.current_directory = self.state.simple.default_path.directory(path);
    }

    /// A file ends, and its last section with it.
    pub(crate) fn leave_file(&mut self) {
        self.leave_section();
        self.state.simple.current_directory = None;
    }

    fn leave_section(&mut self) {
        self.section = Section::None;
        self.section_keyword.clear();
        self.section_name.clear();
    }
}

/// `path` below `directory` if it is relative and there is one.
pub(crate) fn join(directory: Option<&str>, path: &str) -> String {
    match directory {
        Some(directory) if !path.starts_with('/') && !directory.is_empty() => format!("{directory}/{path}"),
        _ => path.to_owned(),
    }
}
