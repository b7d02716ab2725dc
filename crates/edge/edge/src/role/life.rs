//! What is said of proxies when the process is told to pause, to show its servers or to end, in HAProxy's words.

use std::sync::atomic::Ordering::Relaxed;

use live::{Instance, LiveProxy};
use logs::{AdminLog, LogLevel, Severity};

/// What a proxy has served so far: connections of clients, and what its backend was given.
fn served(proxy: &LiveProxy) -> (u64, u64) {
    let connections = proxy.frontend.traffic.sum(|part| part.connections.value());
    let sessions = proxy.backend.traffic.sum(|part| part.sessions.value());
    (connections, sessions)
}

/// Says that a proxy accepts nothing any more.
pub(super) fn proxy_stopped(log: &AdminLog, proxy: &LiveProxy) {
    let (connections, sessions) = served(proxy);
    log.proxy_stopped(&proxy.log_targets, &proxy.settings().name, connections, sessions);
}

/// Says that the process ends when its connections have: those who listened first, as HAProxy does.
pub(super) fn stopped(log: &AdminLog, instance: &Instance) {
    let (listening, others): (Vec<_>, Vec<_>) =
        instance.proxies.iter().filter(|proxy| !is_stopped(proxy)).partition(|proxy| !proxy.listeners.is_empty());
    for proxy in listening.into_iter().chain(others) {
        proxy_stopped(log, proxy);
    }
}

fn is_stopped(proxy: &LiveProxy) -> bool {
    proxy.stopped.load(Relaxed) || proxy.settings().disabled
}

/// Notes that all listeners pause or go on (SIGTTOU, SIGTTIN), and says so of those for which that is new.
pub(super) fn paused(log: &AdminLog, instance: &Instance, paused: bool) {
    for proxy in instance.proxies.iter().filter(|proxy| !proxy.listeners.is_empty() && !is_stopped(proxy)) {
        if proxy.paused.swap(paused, Relaxed) == paused {
            continue;
        }
        let settings = proxy.settings();
        if paused {
            log.proxy_paused(&proxy.log_targets, settings.kind, &settings.name);
        } else {
            log.proxy_resumed(&proxy.log_targets, settings.kind, &settings.name);
        }
    }
}

/// Says that `hard-stop-after` is over, and which proxies still have connections.
pub(super) fn hard_stopped(log: &AdminLog, instance: &Instance) {
    log.hard_stop(&instance.log_targets);
    for proxy in &instance.proxies {
        let left = proxy.frontend.sessions.value();
        if left > 0 {
            log.proxy_hard_stopped(&proxy.log_targets, &proxy.settings().name, left);
        }
    }
}

/// Writes how all servers and proxies are (SIGHUP).
pub(super) fn states(log: &AdminLog, instance: &Instance) {
    log.console(Severity::Warning, "SIGHUP received, dumping servers states.");
    for proxy in &instance.proxies {
        let head = format!("SIGHUP received, dumping servers states for proxy {}.", proxy.settings().name);
        log.log(&proxy.log_targets, LogLevel::Notice, &head);
        for line in proxy_states(proxy) {
            log.both(&proxy.log_targets, LogLevel::Notice, Severity::Warning, format_args!("{line}"));
        }
    }
}

fn proxy_states(proxy: &LiveProxy) -> Vec<String> {
    let name = &proxy.settings().name;
    let farm = proxy.farm();
    let mut lines = Vec::new();
    for server in proxy.servers.iter() {
        let id = balance::ServerId::new(server.index.0 as usize);
        let word = if farm.is_up(id) { "UP" } else { "DOWN" };
        let (active, queued) = (farm.served(id), farm.server_queued(id));
        let total = server.side.traffic.sum(|part| part.sessions.value());
        lines.push(format!(
            "SIGHUP: Server {name}/{} is {word}. Conn: {active} act, {queued} pend, {total} tot.",
            server.config.name
        ));
    }
    let health = match (lines.is_empty(), farm.active(), farm.backup()) {
        (true, ..) => "has no servers.".to_owned(),
        (false, 0, 0) => "has no server available !".to_owned(),
        (false, 0, _) => "is running on backup servers !".to_owned(),
        (false, active, backup) => format!("has {active} active servers and {backup} backup servers available."),
    };
    let (connections, sessions) = served(proxy);
    lines.push(format!(
        "SIGHUP: Proxy {name} {health} Conn: act(FE+BE): {}+{}, {} pend ({} unass), tot(FE+BE): {connections}+{sessions}.",
        proxy.frontend.sessions.value(),
        farm.streams(),
        farm.queued_total(),
        farm.queued(),
    ));
    lines
}
