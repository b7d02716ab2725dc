//! Servers that are declared at run time: the words of `add server` on the stats socket.
//!
//! They are those of a `server` line, without `default-server` and without some keywords, as in HAProxy 2.6; errors come
//! one at a time, without a place.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    diagnostics::{Diagnostics, Problem},
    finish,
    keywords::server::set_address,
    lexer::is_name_character,
    line::{Line, Word},
    missing,
    model::{Config, Location, Proxy, ProxyIndex, Server, ServerIndex},
    scope::{ProxyDraft, Scope, Section, ServerDraft, State},
    source::NoFiles,
    table::{self, Group, Parse},
};

/// Keywords of `server` lines that HAProxy 2.6 does not accept for such servers.
const REFUSED: &[&str] = &[
    "cookie",
    "init-addr",
    "log-proto",
    "max-reuse",
    "namespace",
    "no-agent-check",
    "no-check",
    "no-check-send-proxy",
    "no-check-ssl",
    "no-send-proxy-v2-ssl",
    "no-send-proxy-v2-ssl-cn",
    "no-ssl",
    "non-stick",
    "redir",
    "resolve-net",
    "resolve-opts",
    "resolve-prefer",
    "resolvers",
    "socks4",
    "ssl-reuse",
    "stick",
    "tcp-ut",
];

/// A server as a command declares it.
#[derive(Clone, Debug)]
pub struct DynamicServer {
    /// The server; `id` is 0 unless it was given.
    pub server: Server,
    /// `enabled`: it does not begin in maintenance.
    pub is_ready: bool,
}

/// What is there already: a server's number, name and place.
pub type Known = (u32, Arc<str>, Location);

/// Reads the words behind `add server`: name, address and keywords. `known` are the servers of the backend.
///
/// # Errors
/// HAProxy's words for what is wrong.
pub fn server(
    config: &Config,
    backend: ProxyIndex,
    known: &[Known],
    name: &str,
    words: &[&str],
) -> Result<DynamicServer, String> {
    let proxy =
        usize::try_from(backend.0).ok().and_then(|index| config.proxies.get(index)).ok_or("No such backend.")?;
    let line = line(name, words);
    if words.is_empty() {
        return Err("'server' expects <name> and <addr>[:<port>] as arguments.".to_owned());
    }
    if let Some(character) = name.chars().find(|character| !is_name_character(*character)) {
        return Err(format!("character '{character}' is not permitted in server name '{name}'."));
    }
    let mut state = state(proxy, known, config.global.environment.clone());
    let mut diagnostics = Diagnostics::default();
    let mut scope = Scope::new(&mut state, &mut diagnostics, &NoFiles);
    scope.section = Section::Proxy(0);
    let mut draft = ServerDraft::default();
    draft.server.name = name.into();
    draft.server.location = line.location();
    set_address(&mut scope, &line, 2, &mut draft).map_err(|problem| text(&problem))?;
    let is_ready = keywords(&mut scope, &line, &mut draft)?;
    if draft.server.check && draft.pending.track.is_some() {
        return Err("unable to enable checks and tracking at the same time!".to_owned());
    }
    draft.server.tls = crate::keywords::tls::server::finish(&scope, &draft).map_err(|problem| text(&problem))?;
    let mut server = draft.server;
    server.is_id_forced = draft.pending.is_id_forced;
    if let Some(track) = &draft.pending.track {
        server.track = Some(followed(config, backend, known, track)?);
    }
    if let Some(problem) = finish::missing_check_port(proxy, &server).or_else(|| missing::agent_port(&server)) {
        return Err(problem);
    }
    if server.minconn > server.maxconn {
        server.maxconn = server.minconn;
    } else if server.minconn == 0 {
        server.minconn = server.maxconn;
    }
    Ok(DynamicServer { server, is_ready })
}

fn line(name: &str, words: &[&str]) -> Line {
    let all = ["server", name].into_iter().chain(words.iter().copied());
    let words: Vec<Word> = all.clone().map(|word| Word::new(word.as_bytes().to_vec(), 0..0)).collect();
    Line::new("CLI".into(), 0, &all.collect::<Vec<_>>().join(" "), words)
}

/// What a server line needs to see of its backend.
fn state(proxy: &Proxy, known: &[Known], environment: BTreeMap<String, String>) -> State {
    let mut draft = ProxyDraft::default();
    draft.proxy.name = Arc::clone(&proxy.name);
    draft.proxy.kind = proxy.kind;
    draft.proxy.mode = proxy.mode;
    draft.simple.server_ids = known.iter().map(|(id, name, place)| (*id, (place.clone(), Arc::clone(name)))).collect();
    let mut state = State { proxies: vec![draft], ..State::default() };
    state.global.environment = environment;
    state
}

/// Reads the keywords; whether the server is in service at once.
fn keywords(scope: &mut Scope<'_>, line: &Line, draft: &mut ServerDraft) -> Result<bool, String> {
    let (mut index, mut is_ready) = (3, false);
    while !line.word(index).is_empty() {
        let word = line.word(index);
        if REFUSED.contains(&word) {
            return Err(format!("'{word}' option is not accepted for dynamic server"));
        }
        match word {
            "enabled" => is_ready = true,
            "disabled" => is_ready = false,
            // A weight that is not there is none, and none is 0.
            "weight" if line.word(index + 1).is_empty() => {
                draft.server.weight = 0;
                return Ok(is_ready);
            }
            _ => {}
        }
        let is_known = table::find(Group::Server, word).is_some();
        let keyword = scope.lookup(line, index, Group::Server).map_err(|problem| match is_known {
            true => problem.message,
            false => text(&problem),
        })?;
        match keyword.parse {
            // HAProxy puts a full stop behind what a keyword's parser says, even if there is one.
            Parse::Server(parser) => {
                parser(scope, line, &mut index, draft).map_err(|problem| format!("{}.", text(&problem)))?;
            }
            _ => index += 1 + keyword.arguments.split_ascii_whitespace().count(),
        }
    }
    Ok(is_ready)
}

fn text(problem: &Problem) -> String {
    match &problem.nearest {
        Some(nearest) => format!("{}; did you mean '{nearest}' maybe ?", problem.message),
        None => problem.message.clone(),
    }
}

/// The server that another one tracks: one of the configuration.
fn followed(
    config: &Config,
    own: ProxyIndex,
    known: &[Known],
    track: &str,
) -> Result<(ProxyIndex, ServerIndex), String> {
    let (backend, name) = match track.rsplit_once('/') {
        Some((backend, name)) => {
            let place = config.proxies.iter().position(|proxy| proxy.kind.has_backend() && *proxy.name == *backend);
            let place = place.and_then(|place| u32::try_from(place).ok()).map(ProxyIndex);
            (place.ok_or_else(|| format!("unable to find required proxy '{backend}' for tracking."))?, name)
        }
        None => (own, track),
    };
    let proxy = usize::try_from(backend.0).ok().and_then(|index| config.proxies.get(index));
    let proxy = proxy.ok_or("No such backend.")?;
    let Some(place) = proxy.servers.iter().position(|server| *server.name == *name) else {
        if backend == own && known.iter().any(|(_, known, _)| **known == *name) {
            return Err(format!("unable to use {}/{name} for tracking as it is a dynamic server.", proxy.name));
        }
        return Err(format!("unable to find required server '{name}' for tracking."));
    };
    let tracked = proxy.servers.get(place);
    if tracked.is_none_or(|server| !server.check && server.track.is_none()) {
        return Err(format!(
            "unable to use {}/{name} for tracking as it does not have any check nor agent enabled.",
            proxy.name
        ));
    }
    Ok((backend, ServerIndex(u32::try_from(place).unwrap_or(u32::MAX))))
}
