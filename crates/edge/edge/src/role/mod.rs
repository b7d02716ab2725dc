//! The edge as a role of the runtime: configuration in, workers that serve it out.
//!
//! A process of its own checks a configuration with [`EdgeRole::check`]; the master ships everything it read, as one bundle,
//! to the worker process; the worker reads the same bytes again and makes an instance of them. A reload makes a second instance while
//! the first serves, hands it to every worker thread, and only then closes what is no longer listened on.

mod accept;
mod backend_entries;
mod certificates;
mod files;
mod folders;
mod identities;
mod life;
mod listeners;
mod management;
mod pages;
mod payload;
mod plugins;
mod programs;
mod quic;
mod service;
mod sessions;
mod ways;

use std::collections::BTreeMap;

use admin::cli::master::MasterConversation;
use haproxycfg::{
    Parsed,
    diagnostics::{Diagnostic, Prefix, Severity},
    model::{CliLevel, Config, InitAddr, Location, Namespace, Server},
    source::Recorder,
};
use live::limits::{self, worker_count};
use live::resolve::{self, Recorded, SystemLookup};
use runtime::process::{CheckReason, Conversation, Load, Plan, ProcessSettings, Role};

use self::files::WithGiven;
use self::payload::Payload;
pub use self::{files::OsFiles, listeners::Owner, management::Management, service::EdgeService};
use crate::server_state::SavedStates;

/// Names of the master's control sockets, by the level of who talks there.
const CONTROL_USER: &str = "master-socket user";
const CONTROL_OPERATOR: &str = "master-socket operator";
const CONTROL_ADMIN: &str = "master-socket admin";

/// The name of a control socket of the master (`-S`) for people of this level.
#[must_use]
pub fn control_name(level: CliLevel) -> &'static str {
    match level {
        CliLevel::User => CONTROL_USER,
        CliLevel::Operator => CONTROL_OPERATOR,
        CliLevel::Admin => CONTROL_ADMIN,
    }
}

/// What the command line says about the configuration.
#[derive(Clone, Debug, Default)]
pub struct EdgeOptions {
    /// `-f`: files and folders.
    pub sources: Vec<String>,
    /// `-n`, `-N`, `-L` and the name of the machine.
    pub language: haproxycfg::Options,
    /// A configuration that stands on the command line and in no file.
    pub given: Option<Given>,
    /// Print nothing but errors (`-q`).
    pub quiet: bool,
    /// Print what `quiet` in the configuration would keep back (`-V`).
    pub verbose: bool,
    /// Whether messages about servers are printed on standard error too.
    pub console: bool,
    /// Whether `daemon` in the configuration has no effect (`-db`, `-d`).
    pub foreground: bool,
    /// Whether other processes end for the sake of this one (`-sf`, `-st`).
    pub takes_over: bool,
    /// Whether there is a master whatever the configuration says.
    pub has_master: bool,
    /// Where the master takes commands (`-S`), as HAProxy lists addresses.
    pub master_sockets: Vec<String>,
    /// `-dS`: no splicing.
    pub no_splice: bool,
    /// A manager whose programs answer requests (varnishd's).
    pub management: Option<Management>,
    /// Plugins that the program has.
    pub plugins: plugin::Plugins,
}

/// A text that is read in the place of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The file.
    pub name: String,
    /// What stands in it.
    pub text: String,
}

impl EdgeOptions {
    /// Whether nothing but errors is printed: by the command line or by `quiet` in the configuration.
    #[must_use]
    pub fn is_quiet(&self, config: Option<&Config>) -> bool {
        self.quiet || !self.verbose && config.is_some_and(|config| config.global.quiet)
    }
}

/// The edge.
#[derive(Debug)]
pub struct EdgeRole {
    options: EdgeOptions,
}

impl EdgeRole {
    /// An edge that runs what `options` name.
    #[must_use]
    pub fn new(options: EdgeOptions) -> Self {
        Self { options }
    }
}

/// Reads a configuration from the files of this machine.
#[must_use]
pub fn read(options: &EdgeOptions) -> (Parsed, Payload) {
    let files = WithGiven { given: options.given.as_ref(), others: OsFiles };
    let recorder = Recorder::new(&files);
    // What is not UTF-8 there must not end the program.
    let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
    let environment: BTreeMap<String, String> =
        std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect();
    let mut parsed = haproxycfg::parse(&options.sources, &recorder, environment.clone(), &options.language);
    let mut addresses = Recorded::default();
    if let Some(config) = &mut parsed.config {
        addresses = Recorded::of(config, &SystemLookup);
        let needs_last = |server: &Server| server.fqdn.is_some() && server.init_addr.contains(&InitAddr::Last);
        let is_needed = config.proxies.iter().flat_map(|proxy| &proxy.servers).any(needs_last);
        // The worker reads them again, and says what is wrong with them.
        let saved = if is_needed { SavedStates::read(config, |_| {}) } else { SavedStates::default() };
        let mut said = resolve::settle(config, &addresses, &|backend, server| saved.known(backend, server));
        said.extend(missing_namespaces(config));
        let mut wrong = missing_threads(config);
        wrong.extend(identities::missing(config));
        wrong.extend(folders::missing(config));
        wrong.extend(programs::problems(config, options));
        wrong.extend(plugins::problems(config, options.plugins));
        if !wrong.is_empty() {
            wrong.push(Diagnostic::whole(Severity::Alert, "Fatal errors found in configuration."));
        }
        said.extend(wrong);
        let fails = said.iter().any(|diagnostic| diagnostic.severity == Severity::Alert);
        parsed.diagnostics.extend(said);
        if fails {
            parsed.config = None;
        }
    }
    let payload = Payload {
        sources: options.sources.clone(),
        environment,
        hostname: options.language.hostname.clone(),
        localpeer: options.language.localpeer.clone(),
        maxconn: options.language.maxconn,
        proxy_maxconn: options.language.proxy_maxconn,
        memory_max_mb: options.language.memory_max_mb,
        tolerates_unresolved: options.language.tolerates_unresolved,
        addresses,
        bundle: recorder.into_bundle(),
    };
    (parsed, payload)
}

/// Network namespaces that servers and listeners name and that are not there.
fn missing_namespaces(config: &Config) -> Vec<Diagnostic> {
    let servers = config.proxies.iter().flat_map(|proxy| proxy.servers.iter().map(move |server| (proxy, server)));
    let of_servers = servers.filter_map(|(proxy, server)| match &server.namespace {
        Some(Namespace::Named(name)) => {
            Some((&**name, server.location.clone(), format!("'server {}/{}' : ", proxy.name, server.name)))
        }
        _ => None,
    });
    let binds = config.proxies.iter().flat_map(|proxy| &proxy.binds);
    let of_binds =
        binds.filter_map(|bind| Some((bind.namespace.as_deref()?, bind.location.clone(), "'bind' : ".into())));
    let is_missing = |(name, ..): &(&str, _, _)| runtime::open_namespace(name).is_err();
    let say = |(name, location, subject): (&str, _, String)| Diagnostic {
        prefix: Prefix::Place,
        location: Some(location),
        ..Diagnostic::whole(Severity::Alert, format!("{subject}Cannot open namespace '{name}'."))
    };
    of_servers.chain(of_binds).filter(is_missing).map(say).collect()
}

/// Listeners that none of the workers would serve.
fn missing_threads(config: &Config) -> Vec<Diagnostic> {
    let workers = u32::try_from(worker_count(config)).unwrap_or(u32::MAX);
    let lines = config.proxies.iter().flat_map(|proxy| proxy.binds.iter().map(move |bind| (&**proxy, bind)));
    let are_missing = |threads: &[u32]| !threads.is_empty() && threads.iter().all(|thread| *thread > workers);
    let say = |(proxy, bind): (&haproxycfg::model::Proxy, &haproxycfg::model::Bind)| {
        let (address, Location { file, line }) = (bind.address.written(), &bind.location);
        let message = format!(
            "Proxy '{}': 'thread' directive contains threads that belong to no group in 'bind {address}' at [{file}:{line}].",
            proxy.name
        );
        Diagnostic::whole(Severity::Alert, message)
    };
    lines.filter(|(_, bind)| are_missing(&bind.threads)).map(say).collect()
}

/// Everything that reading a configuration has to say, as HAProxy prints it.
#[must_use]
pub fn render(parsed: &Parsed) -> String {
    let pid = runtime::log::process_number();
    parsed.diagnostics.iter().map(|diagnostic| diagnostic.render(pid)).collect()
}

fn settings(config: &Config) -> ProcessSettings {
    let global = &config.global;
    ProcessSettings {
        uid: identities::user(global.user.as_ref().map(|(user, _)| user)),
        gid: identities::group(global.group.as_ref().map(|(group, _)| group)),
        groups: None,
        chroot: global.chroot.as_ref().map(Into::into),
        descriptors_max: global.ulimit_n,
        memory_max: Some(global.memory_max_mb << 20).filter(|bytes| *bytes > 0),
        lax_limits: !global.strict_limits,
        dumpable: global.set_dumpable,
        gains_rights: global.insecure_setuid,
        hard_stop_after: global.hard_stop_after,
        grace: global.grace,
    }
}

impl Role for EdgeRole {
    type Service = EdgeService;

    fn check(&mut self, reason: CheckReason) -> Result<Plan, String> {
        let (parsed, payload) = read(&self.options);
        let text = render(&parsed);
        let Some(config) = parsed.config else {
            // The runtime puts its own tag before the text, so warnings come after the first alert.
            let tag = format!("[ALERT]    ({}) : ", runtime::log::process_number());
            let (before, after) = text.split_once(&tag).unwrap_or(("", &text));
            return Err(format!("{}\n{before}", after.trim_end()).trim_end().to_owned());
        };
        if !text.is_empty() && !self.options.quiet && reason != CheckReason::Probe {
            eprint!("{text}");
        }
        if !config.has_listener() {
            return Err(
                "no frontend, listen section or stats socket of the configuration listens anywhere; add a 'bind' line"
                    .to_owned(),
            );
        }
        let workers = worker_count(&config);
        let mut settings = settings(&config);
        match limits::raise(&config, workers) {
            Ok(raised) => settings.descriptors_max = settings.descriptors_max.or(raised),
            Err(text) if config.global.strict_limits => return Err(text),
            Err(text) => runtime::log::print(runtime::log::Level::Warning, &text),
        }
        Ok(Plan {
            listeners: listeners::specs(&config),
            workers,
            settings,
            programs: programs::plan(&config, &self.options),
            blob: payload.to_bytes(),
        })
    }

    fn open(&mut self, first: &Load) -> Result<EdgeService, String> {
        EdgeService::open(&self.options, first)
    }

    fn conversation(&self, name: &str) -> Box<dyn Conversation> {
        let level = match name {
            CONTROL_USER => CliLevel::User,
            CONTROL_OPERATOR => CliLevel::Operator,
            _ => CliLevel::Admin,
        };
        Box::new(MasterConversation::new(level))
    }
}
