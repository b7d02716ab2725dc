//! What a keyword parser may see and change: the section it stands in, everything read so far, files, and diagnostics.

use std::{collections::BTreeMap, sync::Arc};

use sample::{Condition, Expr, LogFormat, Place, Regex, VariableName};

use crate::{
    diagnostics::{Diagnostic, Diagnostics, Problem, Severity},
    line::Line,
    model::{Global, Location, Proxy, ProxyIndex, ProxyKind, Server, ServerIndex, Userlist},
    rules,
    source::Files,
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
    pub(crate) simple: crate::proxy::Pending,
}

/// A server while it is read.
#[derive(Clone, Debug)]
pub struct ServerDraft {
    /// What is known for sure.
    pub server: Server,
    pub(crate) pending: crate::server::Pending,
}

/// Everything read so far.
#[derive(Debug, Default)]
pub struct State {
    /// The `global` sections.
    pub global: Global,
    /// `defaults` sections in order.
    pub defaults: Vec<ProxyDraft>,
    /// Frontends, backends and listens in order. Their place is their [`ProxyIndex`].
    pub proxies: Vec<ProxyDraft>,
    /// `userlist` sections by name.
    pub userlists: BTreeMap<String, Userlist>,
    /// What the rule parsers keep that belongs to no proxy (`http-errors` sections and the like).
    pub rules: rules::Shared,
    pub(crate) simple: crate::global::Pending,
}

/// What a keyword parser may see and change.
pub struct Scope<'a> {
    /// Everything read so far.
    pub state: &'a mut State,
    /// The section that is being read.
    pub section: Section,
    pub(crate) diagnostics: &'a mut Diagnostics,
    pub(crate) files: &'a dyn Files,
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
            Section::Proxy(index) => {
                self.state.proxies.get(index).is_some_and(|draft| draft.proxy.kind.has_frontend())
            }
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
            Section::Proxy(index) => match self.state.proxies.get(index).map(|draft| draft.proxy.kind) {
                Some(ProxyKind::Frontend) => "frontend",
                Some(ProxyKind::Backend) => "backend",
                _ => "proxy",
            },
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
