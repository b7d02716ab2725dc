//! The one table of keywords.
//!
//! Each word of the language is declared once: where it is allowed, the shape of its arguments, whether it is
//! supported, a line that says what it does and an example. The parser dispatches by this table, error messages
//! suggest from it, and `explain` and the reference are rendered from it.

mod acme;
mod bind;
mod global;
mod option;
mod other;
mod peers;
mod program;
mod proxy;
mod resolvers;
mod sections;
mod server;
mod values;

use std::{collections::HashMap, ops::BitOr, sync::OnceLock};

use crate::{
    diagnostics::Problem,
    keywords::bind::BindDraft,
    line::Line,
    model::{HttpAction, StreamAction, TcpAction},
    scope::{Scope, ServerDraft},
};

pub use values::{VALUES, Value};

/// What a keyword stands under. Keywords are unique by group and name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// Words that begin a section.
    Section,
    /// `.if`, `.endif`, `.warning`.
    Directive,
    /// First word of a line in `global`.
    Global,
    /// `stats X` in `global`.
    GlobalStats,
    /// First word of a line in `defaults`, `frontend`, `backend`, `listen`.
    Proxy,
    /// `option X`.
    Option,
    /// `timeout X`.
    Timeout,
    /// `stats X` in a proxy.
    Stats,
    /// Words of a `bind` line (and `stats socket`).
    Bind,
    /// Words of `server` and `default-server`.
    Server,
    /// `http-request X`.
    HttpRequest,
    /// `http-response X`.
    HttpResponse,
    /// `http-after-response X`.
    HttpAfterResponse,
    /// `tcp-request connection X`.
    TcpRequestConnection,
    /// `tcp-request session X`.
    TcpRequestSession,
    /// `tcp-request content X`.
    TcpRequestContent,
    /// `tcp-response content X`.
    TcpResponseContent,
    /// `http-check X`.
    HttpCheck,
    /// `tcp-check X`.
    TcpCheck,
    /// Lines of `userlist`.
    Userlist,
    /// Lines of `peers`.
    Peers,
    /// Lines of `resolvers`.
    Resolvers,
    /// Lines of `mailers`.
    Mailers,
    /// Lines of `program`.
    Program,
    /// Lines of `http-errors`.
    HttpErrors,
    /// Lines of `ring`.
    Ring,
    /// Lines of `cache`.
    Cache,
    /// Lines of `fcgi-app`.
    FcgiApp,
    /// Lines of `log-forward`.
    LogForward,
    /// Lines of `crt-store`.
    CrtStore,
    /// Lines of `acme`.
    Acme,
}

/// Proxy sections in which a keyword has a meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sections(u8);

impl Sections {
    /// No proxy section: the group says it all.
    pub const NONE: Self = Self(0);
    /// `defaults`.
    pub const DEFAULTS: Self = Self(1);
    /// `frontend` (and `listen`).
    pub const FRONTEND: Self = Self(2);
    /// `backend` (and `listen`).
    pub const BACKEND: Self = Self(4);
    /// `defaults` only when it has a name.
    pub const NAMED_DEFAULTS: Self = Self(8);
    /// `defaults` and `frontend`.
    pub const DEFAULTS_FRONTEND: Self = Self(1 | 2);
    /// `defaults` and `backend`.
    pub const DEFAULTS_BACKEND: Self = Self(1 | 4);
    /// `frontend` and `backend`.
    pub const FRONTEND_BACKEND: Self = Self(2 | 4);
    /// All.
    pub const ALL: Self = Self(1 | 2 | 4);

    /// Whether all of `other` are among these.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any of `other` is among these.
    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOr for Sections {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.with(other)
    }
}

/// How far a keyword is supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// It does what HAProxy's does.
    Supported,
    /// It is read and has no effect, which harms nobody: a warning that says why.
    Harmless(&'static str),
    /// It is an error that says so and with what it comes.
    NotYet(&'static str),
    /// HAProxy 2.6 refuses it too: an error that names the replacement.
    Removed(&'static str),
    /// It works, with a warning that names the replacement.
    Deprecated(&'static str),
}

/// A parser of a whole line.
pub type LineParser = fn(&mut Scope<'_>, &Line) -> Result<(), Problem>;
/// A parser of one word of a `bind` line and its arguments; moves the index past them.
pub type BindParser = fn(&mut Scope<'_>, &Line, &mut usize, &mut BindDraft) -> Result<(), Problem>;
/// A parser of one word of a `server` line and its arguments; moves the index past them.
pub type ServerParser = fn(&mut Scope<'_>, &Line, &mut usize, &mut ServerDraft) -> Result<(), Problem>;
/// A parser of an action: the index stands at the action's name and is moved past its arguments, to `if` or the end.
pub type HttpActionParser = fn(&mut Scope<'_>, &Line, &mut usize) -> Result<HttpAction, Problem>;
/// As [`HttpActionParser`].
pub type TcpActionParser = fn(&mut Scope<'_>, &Line, &mut usize) -> Result<TcpAction, Problem>;

/// As [`HttpActionParser`], of an action that rules of both modes have.
pub type StreamActionParser = fn(&mut Scope<'_>, &Line, &mut usize) -> Result<StreamAction, Problem>;

/// What parses a keyword.
#[derive(Clone, Copy, Debug)]
pub enum Parse {
    /// Nothing: it is refused or ignored.
    Nothing,
    /// The parser of the keyword it stands under.
    Parent,
    /// A whole line.
    Line(LineParser),
    /// A word of a `bind` line.
    Bind(BindParser),
    /// A word of a `server` line.
    Server(ServerParser),
    /// An action of `http-*`.
    HttpAction(HttpActionParser),
    /// An action of `tcp-*`.
    TcpAction(TcpActionParser),
    /// An action of `http-*` and `tcp-*`.
    StreamAction(StreamActionParser),
}

/// A keyword of the language. Built by a chain of `const` calls, see the tables.
#[derive(Clone, Copy, Debug)]
pub struct Keyword {
    /// What it stands under.
    pub group: Group,
    /// The word. One that ends in `*` stands for every word that begins like it (`set-var(*`).
    pub name: &'static str,
    /// Where in the configuration it may stand.
    pub sections: Sections,
    /// Arguments, as in the manual: `<required> [<optional>]`.
    pub arguments: &'static str,
    /// How far it is supported.
    pub support: Support,
    /// A sentence.
    pub doc: &'static str,
    /// A line of configuration that uses it.
    pub example: &'static str,
    /// Chapter of HAProxy 2.6's manual, or of a later one as `3.2:12.8`; empty for an addition of Tidegate.
    pub chapter: &'static str,
    /// What parses it.
    pub parse: Parse,
    /// Whether `no` and `default` may stand before it.
    pub negatable: bool,
    /// Whether a section without the right side is an error rather than a warning.
    pub strict: bool,
    /// Whether it is refused unless `expose-experimental-directives` stands before it.
    pub experimental: bool,
}

impl Keyword {
    /// A supported keyword parsed by its parent.
    #[must_use]
    pub const fn new(group: Group, name: &'static str, arguments: &'static str, chapter: &'static str) -> Self {
        Self {
            group,
            name,
            sections: Sections::NONE,
            arguments,
            support: Support::Supported,
            doc: "",
            example: "",
            chapter,
            parse: Parse::Parent,
            negatable: false,
            strict: false,
            experimental: false,
        }
    }

    /// Proxy sections where it may stand.
    #[must_use]
    pub const fn sections(mut self, sections: Sections) -> Self {
        self.sections = sections;
        self
    }

    /// What it does, in a sentence, and an example.
    #[must_use]
    pub const fn doc(mut self, doc: &'static str, example: &'static str) -> Self {
        self.doc = doc;
        self.example = example;
        self
    }

    /// Parsed as a whole line.
    #[must_use]
    pub const fn line(mut self, parser: LineParser) -> Self {
        self.parse = Parse::Line(parser);
        self
    }

    /// Parsed as a word of a `bind` line.
    #[must_use]
    pub const fn bind(mut self, parser: BindParser) -> Self {
        self.parse = Parse::Bind(parser);
        self
    }

    /// Parsed as a word of a `server` line.
    #[must_use]
    pub const fn server(mut self, parser: ServerParser) -> Self {
        self.parse = Parse::Server(parser);
        self
    }

    /// Parsed as an action of `http-*`.
    #[must_use]
    pub const fn http(mut self, parser: HttpActionParser) -> Self {
        self.parse = Parse::HttpAction(parser);
        self
    }

    /// Parsed as an action of `tcp-*`.
    #[must_use]
    pub const fn tcp(mut self, parser: TcpActionParser) -> Self {
        self.parse = Parse::TcpAction(parser);
        self
    }

    /// Parsed as an action of `http-*` and `tcp-*`.
    #[must_use]
    pub const fn stream(mut self, parser: StreamActionParser) -> Self {
        self.parse = Parse::StreamAction(parser);
        self
    }

    /// Not supported yet; `why` continues "is not supported yet: ".
    #[must_use]
    pub const fn not_yet(mut self, why: &'static str) -> Self {
        self.support = Support::NotYet(why);
        self.parse = Parse::Nothing;
        self
    }

    /// Without effect; `why` continues "has no effect: ".
    #[must_use]
    pub const fn without_effect(mut self, why: &'static str) -> Self {
        self.support = Support::Harmless(why);
        self
    }

    /// Read without its arguments being looked at, and has no effect.
    #[must_use]
    pub const fn harmless(mut self, why: &'static str) -> Self {
        self.support = Support::Harmless(why);
        self.parse = Parse::Nothing;
        self
    }

    /// Gone from HAProxy too; the whole message.
    #[must_use]
    pub const fn removed(mut self, message: &'static str) -> Self {
        self.support = Support::Removed(message);
        self.parse = Parse::Nothing;
        self
    }

    /// Works, but warns with this message.
    #[must_use]
    pub const fn deprecated(mut self, message: &'static str) -> Self {
        self.support = Support::Deprecated(message);
        self
    }

    /// May follow `no` and `default`.
    #[must_use]
    pub const fn negatable(mut self) -> Self {
        self.negatable = true;
        self
    }

    /// A section without the right side is an error.
    #[must_use]
    pub const fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// Refused unless `expose-experimental-directives` stands before it.
    #[must_use]
    pub const fn experimental(mut self) -> Self {
        self.experimental = true;
        self
    }
}

/// Every keyword, table by table.
pub fn all() -> impl Iterator<Item = &'static Keyword> {
    TABLES.iter().chain(crate::rules::TABLES).flat_map(|table| table.iter())
}

const TABLES: &[&[Keyword]] = &[
    sections::KEYWORDS,
    global::KEYWORDS,
    proxy::KEYWORDS,
    option::KEYWORDS,
    bind::KEYWORDS,
    server::KEYWORDS,
    other::KEYWORDS,
    peers::KEYWORDS,
    program::KEYWORDS,
    resolvers::KEYWORDS,
    acme::KEYWORDS,
];

struct Index {
    exact: HashMap<(Group, &'static str), &'static Keyword>,
    prefixes: Vec<&'static Keyword>,
}

fn index() -> &'static Index {
    static INDEX: OnceLock<Index> = OnceLock::new();
    INDEX.get_or_init(|| {
        let mut index = Index { exact: HashMap::new(), prefixes: Vec::new() };
        for keyword in all() {
            if keyword.name.ends_with('*') {
                index.prefixes.push(keyword);
            } else {
                index.exact.insert((keyword.group, keyword.name), keyword);
            }
        }
        index
    })
}

/// The keyword of this name.
#[must_use]
pub fn find(group: Group, word: &str) -> Option<&'static Keyword> {
    let index = index();
    if let Some(keyword) = index.exact.get(&(group, word)) {
        return Some(keyword);
    }
    index.prefixes.iter().copied().find(|keyword| {
        keyword.group == group && keyword.name.strip_suffix('*').is_some_and(|prefix| word.starts_with(prefix))
    })
}

/// Names of a group that may be suggested: those that would be understood.
pub fn supported_names(group: Group) -> impl Iterator<Item = &'static str> {
    all()
        .filter(move |keyword| keyword.group == group && !matches!(keyword.support, Support::Removed(_)))
        .map(|keyword| keyword.name.trim_end_matches(['*', '(']))
}

/// Where else a word would be understood; continues "the word ...".
#[must_use]
pub fn elsewhere(group: Group, word: &str) -> Option<String> {
    let keyword = all().find(|keyword| keyword.group != group && keyword.name == word)?;
    Some(format!("belongs to {}", keyword.group.place()))
}

impl Group {
    /// Where the keywords of this group stand, for people.
    #[must_use]
    pub fn place(self) -> &'static str {
        match self {
            Self::Section => "the beginning of a section",
            Self::Directive => "any place, on a line of its own",
            Self::Global => "the global section",
            Self::GlobalStats => "'stats' in the global section",
            Self::Proxy => "defaults, frontend, backend and listen sections",
            Self::Option => "'option'",
            Self::Timeout => "'timeout'",
            Self::Stats => "'stats' in a proxy",
            Self::Bind => "'bind' lines",
            Self::Server => "'server' and 'default-server' lines",
            Self::HttpRequest => "'http-request'",
            Self::HttpResponse => "'http-response'",
            Self::HttpAfterResponse => "'http-after-response'",
            Self::TcpRequestConnection => "'tcp-request connection'",
            Self::TcpRequestSession => "'tcp-request session'",
            Self::TcpRequestContent => "'tcp-request content'",
            Self::TcpResponseContent => "'tcp-response content'",
            Self::HttpCheck => "'http-check'",
            Self::TcpCheck => "'tcp-check'",
            Self::Userlist => "userlist sections",
            Self::Peers => "peers sections",
            Self::Resolvers => "resolvers sections",
            Self::Mailers => "mailers sections",
            Self::Program => "program sections",
            Self::HttpErrors => "http-errors sections",
            Self::Ring => "ring sections",
            Self::Cache => "cache sections",
            Self::FcgiApp => "fcgi-app sections",
            Self::LogForward => "log-forward sections",
            Self::CrtStore => "crt-store sections",
            Self::Acme => "acme sections",
        }
    }
}

impl Group {
    /// The words before a keyword of this group.
    #[must_use]
    pub fn prefix(self) -> &'static str {
        match self {
            Self::GlobalStats | Self::Stats => "stats",
            Self::Option => "option",
            Self::Timeout => "timeout",
            Self::Bind => "bind ...",
            Self::Server => "server ...",
            Self::HttpRequest => "http-request",
            Self::HttpResponse => "http-response",
            Self::HttpAfterResponse => "http-after-response",
            Self::TcpRequestConnection => "tcp-request connection",
            Self::TcpRequestSession => "tcp-request session",
            Self::TcpRequestContent => "tcp-request content",
            Self::TcpResponseContent => "tcp-response content",
            Self::HttpCheck => "http-check",
            Self::TcpCheck => "tcp-check",
            _ => "",
        }
    }
}
