//! `show routes`: where requests come in, what is asked of them, and who answers, in the order in which it is tried.

use std::fmt::Write as _;

use haproxycfg::model::{Config, HttpAction, Proxy, ProxyIndex};
use live::{Instance, LiveProxy};
use net::Target;

use super::{
    line::Line,
    reply::Reply,
    session::{Context, Session},
};

/// All proxies, or the one of that name.
pub(super) fn show(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let Some(edge) = context.control.edge() else { return Reply::error("Nothing runs.") };
    let (instance, wanted) = (edge.instance(), line.word(2));
    let mut out = String::new();
    for proxy in instance.proxies.iter().filter(|proxy| wanted.is_empty() || *proxy.settings().name == *wanted) {
        write(&mut out, &instance, proxy);
    }
    if out.is_empty() && !wanted.is_empty() {
        return Reply::error("No such proxy.");
    }
    Reply::Text(out)
}

fn written(target: &Target) -> String {
    match target {
        Target::Unresolved => "(has no address yet)".to_owned(),
        Target::Inet(address) => address.to_string(),
        Target::Unix(path) => format!("unix@{path}"),
        Target::Abstract(name) => format!("abns@{name}"),
    }
}

fn name(config: &Config, index: ProxyIndex) -> &str {
    usize::try_from(index.0).ok().and_then(|index| config.proxies.get(index)).map_or("?", |proxy| &*proxy.name)
}

fn write(out: &mut String, instance: &Instance, live: &LiveProxy) {
    let settings: &Proxy = live.settings();
    let kind = match (settings.kind.has_frontend(), settings.kind.has_backend()) {
        (true, true) => "listen",
        (true, false) => "frontend",
        _ => "backend",
    };
    let _ = writeln!(out, "{kind} {}", settings.name);
    let mut entry = |what: &str, text: String| {
        let _ = writeln!(out, "  {what:<16} {text}");
    };
    for bind in &settings.binds {
        let protocol = if bind.tls.is_some() { " (TLS)" } else { "" };
        entry("bind", format!("{}{protocol}", bind.address.written()));
    }
    if let Some(stats) = &settings.stats {
        entry("statistics", stats.uri.clone());
    }
    for rule in &settings.http_request {
        if let HttpAction::UseService(service) = &rule.action {
            let (when, place) = (if rule.condition.is_some() { " under a condition" } else { "" }, &rule.location);
            entry("use-service", format!("{}{when} ({}:{})", service.name(), place.file, place.line));
        }
    }
    if settings.accelerator.is_some() {
        entry("cache", "by a VCL program".to_owned());
    }
    if settings.shared_cache.is_some() {
        entry("cache", "shared-cache".to_owned());
    }
    for rule in &settings.use_backend {
        entry("use_backend", rule.written.to_string());
    }
    if let Some(index) = settings.default_backend {
        entry("default_backend", name(&instance.config, index).to_owned());
    }
    for rule in &settings.files.folders {
        let prefix = rule.action.prefix.as_ref();
        let prefix =
            prefix.map(|prefix| format!("{} in ", String::from_utf8_lossy(prefix.as_bytes()))).unwrap_or_default();
        let when = if rule.condition.is_some() { " under a condition" } else { "" };
        entry("files", format!("{prefix}{}{when}", rule.action.path.display()));
    }
    for line in &settings.cgi {
        entry("cgi", format!("{} in {}", String::from_utf8_lossy(&line.prefix), line.folder.display()));
    }
    if let Some(app) = &settings.fcgi_app {
        entry("use-fcgi-app", app.name.to_string());
    }
    for server in live.servers.iter() {
        entry("server", format!("{} {}", server.config.name, written(&server.target())));
    }
}
