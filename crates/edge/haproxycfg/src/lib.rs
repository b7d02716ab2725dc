//! The haproxy.cfg language: HAProxy 2.6's, read into a typed [`model::Config`], and what is wrong with it.
//!
//! This crate is pure: files come from a [`source::Files`], the environment is an argument, names of hosts stay
//! names. The same files and environment always give the same configuration.
//!
//! A line is cut into words ([`lexer`]), its first word is looked up in the one [`table`] of keywords, and the parser
//! found there changes what the [`scope::Scope`] holds. When everything has been read, names are resolved and
//! HAProxy's checks of the whole are done ([`finish`]). The table is also what `explain` and the reference are made
//! of.

mod bytes;
mod secrets;

pub mod address;
pub mod args;
pub mod bridge;
pub mod condition;
pub mod diagnostics;
pub mod dispatch;
pub mod dynamic;
pub mod explain;
pub mod finish;
pub mod keywords;
pub mod lexer;
pub mod line;
mod missing;
pub mod model;
pub mod nginx;
pub mod parser;
pub mod reference;
pub mod rules;
pub mod scope;
pub mod source;
pub mod table;
pub mod units;

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    diagnostics::{Diagnostic, Diagnostics, Severity},
    model::{Config, InitAddr},
    scope::{Scope, State},
    source::Files,
};

pub use explain::{explain, is_explained, names};
pub use reference::reference;

/// What the command line and the machine add to the configuration.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The host's name: what `node`, `localpeer` and `log-send-hostname` are when they have no other value.
    pub hostname: String,
    /// `-L`.
    pub localpeer: Option<String>,
    /// `-n`: wins over `maxconn` of the global section.
    pub maxconn: Option<u32>,
    /// `-dW`: warnings are errors, as with `zero-warning`.
    pub zero_warning: bool,
    /// `-dR`: no address has several sockets, as with `noreuseport`.
    pub noreuseport: bool,
    /// `-N`: `maxconn` of proxies that have none.
    pub proxy_maxconn: Option<u32>,
    /// `-m`: megabytes that the process may use; 0 is no limit.
    pub memory_max_mb: u64,
    /// `-dr`: a server whose name has no address begins without one.
    pub tolerates_unresolved: bool,
    /// `-dV`: servers' certificates are not verified, as with `ssl-server-verify none` before everything else.
    pub servers_unverified: bool,
    /// `-dD`: what is only worth a look is said too.
    pub diagnoses: bool,
}

/// What reading a configuration gave.
#[derive(Debug)]
pub struct Parsed {
    /// The configuration, unless there is any alert.
    pub config: Option<Config>,
    /// Everything there is to say about it, in order.
    pub diagnostics: Vec<Diagnostic>,
}

/// What `-c` says of a configuration, and how HAProxy then exits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is valid: 0.
    Valid,
    /// It is valid, and nothing would listen: 2.
    NoListener,
    /// It is refused: 1.
    Invalid,
}

impl Verdict {
    /// The exit code.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Valid => 0,
            Self::Invalid => 1,
            Self::NoListener => 2,
        }
    }

    /// What HAProxy prints on stdout.
    #[must_use]
    pub fn message(self) -> Option<&'static str> {
        match self {
            Self::Valid => Some("Configuration file is valid"),
            Self::NoListener => Some("Configuration file has no error but will not start (no listener) => exit(2)."),
            Self::Invalid => None,
        }
    }
}

impl Parsed {
    /// The verdict.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match &self.config {
            None => Verdict::Invalid,
            Some(config) if config.has_listener() => Verdict::Valid,
            Some(_) => Verdict::NoListener,
        }
    }

    /// Whether there is any warning; HAProxy then prints `Warnings were found.`
    #[must_use]
    pub fn has_warnings(&self) -> bool {
        self.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Warning)
    }
}

/// Reads a configuration. `sources` are the `-f` arguments, files and folders, in order.
#[must_use]
pub fn parse(
    sources: &[String],
    files: &dyn Files,
    environment: BTreeMap<String, String>,
    options: &Options,
) -> Parsed {
    let mut diagnostics = Diagnostics::default();
    let paths = match source::expand(sources, files) {
        Ok(paths) => paths,
        Err(message) => {
            diagnostics.push(Diagnostic::whole(Severity::Alert, message));
            return Parsed { config: None, diagnostics: diagnostics.into_vec() };
        }
    };
    if paths.is_empty() {
        let message = format!("No file that ends in .cfg is in '{}'.", sources.join("', '"));
        diagnostics.push(Diagnostic::whole(Severity::Alert, message));
        return Parsed { config: None, diagnostics: diagnostics.into_vec() };
    }
    let mut state = start(environment, options);
    let mut may_go_on = true;
    let mut scope = Scope::new(&mut state, &mut diagnostics, files);
    for path in &paths {
        may_go_on = parser::read_file(&mut scope, path);
        if !may_go_on {
            break;
        }
    }
    if may_go_on {
        let alerts_before = scope.diagnostics.alerts();
        let mut whole = Diagnostics::default();
        std::mem::swap(scope.diagnostics, &mut whole);
        finish::finish(&mut scope);
        std::mem::swap(scope.diagnostics, &mut whole);
        // After errors, warnings about the whole say little: half of it is missing.
        for diagnostic in whole.into_vec() {
            if alerts_before == 0 || diagnostic.severity == Severity::Alert {
                scope.diagnostics.push(diagnostic);
            }
        }
    }
    if !options.diagnoses {
        diagnostics.keep_serious();
    }
    let has_warnings = diagnostics.as_slice().iter().any(|diagnostic| diagnostic.severity == Severity::Warning);
    if diagnostics.alerts() > 0 {
        diagnostics.push(Diagnostic::whole(Severity::Alert, "Fatal errors found in configuration."));
    } else if state.global.zero_warning && has_warnings {
        let message = "Some warnings were found and 'zero-warning' is set. Aborting.";
        diagnostics.push(Diagnostic::whole(Severity::Alert, message));
    }
    let config = (diagnostics.alerts() == 0).then(|| end(state, &paths, options));
    Parsed { config, diagnostics: diagnostics.into_vec() }
}

/// The state before the first line.
fn start(environment: BTreeMap<String, String>, options: &Options) -> State {
    let mut state = State::default();
    let localpeer = options.localpeer.clone().unwrap_or_else(|| options.hostname.clone());
    state.global.environment = environment;
    state.global.environment.insert("HAPROXY_LOCALPEER".to_owned(), localpeer.clone());
    state.global.localpeer = Some(localpeer);
    state.global.strict_limits = true;
    state.simple.is_localpeer_forced = options.localpeer.is_some();
    state.simple.proxy_maxconn = options.proxy_maxconn;
    state.simple.is_without_reuseport = options.noreuseport;
    state.global.zero_warning = options.zero_warning;
    state.tls.servers_unverified = options.servers_unverified;
    state
}

/// The configuration that was read.
fn end(state: State, paths: &[String], options: &Options) -> Config {
    let mut global = state.global;
    let mut proxies: Vec<_> = state.proxies.into_iter().map(|draft| draft.proxy).collect();
    if options.tolerates_unresolved {
        let servers = proxies.iter_mut().flat_map(|proxy| &mut proxy.servers);
        servers.for_each(|server| server.init_addr.push(InitAddr::None));
    }
    global.environment.insert("HAPROXY_CFGFILES".to_owned(), paths.join(";"));
    global.maxconn = options.maxconn.or(global.maxconn);
    global.memory_max_mb = options.memory_max_mb;
    global.node.get_or_insert_with(|| options.hostname.clone());
    let is_origin = |proxy: &model::Proxy| !(proxy.files.folders.is_empty() && proxy.cgi.is_empty());
    Config {
        global,
        has_origins: proxies.iter().any(is_origin),
        proxies: proxies.into_iter().map(Arc::new).collect(),
        resolvers: state.resolvers,
        userlists: state.userlists,
        rings: state.rings,
        log_forwards: state.log_forwards,
        stick_tables: state.stick_tables,
        peers: state.peers,
        programs: state.programs,
        caches: state.caches,
        acme: state.acme.finished.0,
        acme_certificates: state.acme.finished.1,
        asks_request_body: state.asks_request_body,
        asks_response_body: state.asks_response_body,
        patterns: state.patterns,
        tls_files: state.tls.files,
    }
}
