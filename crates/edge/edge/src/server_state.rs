//! States of servers out of a file: `load-server-state-from-file`, in the form that `show servers state` prints.
//!
//! Read once, when the worker process starts: a reload keeps states in memory.

use std::{
    collections::HashMap,
    fmt::Display,
    fs,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use balance::{AdminState, AgentSnapshot, CheckResult, CheckStatus, OperationalState, ServerId, ServerSnapshot};
use haproxycfg::model::{Config, Global, LoadServerState, Proxy, Server, ServerPort};
use live::{Instance, resolve::Known};

/// The one version of the form.
const VERSION: &str = "1";
/// Fields of a line that are looked at; there may be more.
const FIELDS_LEAST: usize = 18;
/// Bits of `srv_check_state`: checks are switched on.
const CHECK_ENABLED: u32 = 0x04;
/// Checks pause.
const CHECK_PAUSED: u32 = 0x08;
/// Larger files are no state files.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// States by the names of backend and server.
#[derive(Debug, Default)]
pub struct SavedStates(HashMap<(Arc<str>, String), Saved>);

/// What a line says of a server.
#[derive(Clone, Debug)]
struct Saved {
    snapshot: ServerSnapshot,
    address: Option<IpAddr>,
    port: u16,
    host: Option<String>,
    /// The service that it was a part of.
    service: Option<String>,
}

impl SavedStates {
    /// Reads the files that the configuration names. What cannot be read is left out, and told to `warn`.
    #[must_use]
    pub fn read(config: &Config, warn: fn(&dyn Display)) -> Self {
        let global = &config.global;
        let mut saved = Self::default();
        let global_file = global.server_state_file.as_ref().and_then(|name| {
            let path = path(global, name);
            match fs::File::open(&path) {
                Ok(_) => parse_file(&path, "config: ", "global server state file", warn),
                Err(error) => {
                    let error = plain(&error);
                    warn(&format_args!("config: Can't open global server state file '{}': {error}", path.display()));
                    None
                }
            }
        });
        let backends = config.proxies.iter().filter(|proxy| proxy.kind.has_backend() && !proxy.disabled);
        for proxy in backends.filter(|proxy| !proxy.servers.is_empty()) {
            match proxy.load_server_state {
                LoadServerState::None => {}
                LoadServerState::Global => saved.take(proxy, global_file.as_deref().unwrap_or_default()),
                LoadServerState::Local => {
                    let path = path(global, proxy.server_state_file_name.as_deref().unwrap_or(&proxy.name));
                    let subject = format!("Proxy '{}': ", proxy.name);
                    match fs::File::open(&path) {
                        Ok(_) => {
                            let lines = parse_file(&path, &subject, "server state file", warn);
                            saved.take(proxy, lines.as_deref().unwrap_or_default());
                        }
                        Err(error) => {
                            let error = plain(&error);
                            let path = path.display();
                            warn(&format_args!("{subject}Can't open server state file '{path}': {error}."));
                        }
                    }
                }
            }
        }
        saved
    }

    fn take(&mut self, proxy: &Proxy, lines: &[(String, Saved)]) {
        for (_, saved) in lines.iter().filter(|(backend, _)| **backend == *proxy.name) {
            self.0.insert((Arc::clone(&proxy.name), saved.snapshot.name.clone()), saved.clone());
        }
    }

    /// What is known of a server of a backend.
    #[must_use]
    pub fn known(&self, backend: &str, server: &Server) -> Option<Known> {
        let saved = self.0.get(&(Arc::from(backend), server.name.to_string()))?;
        let is_same = saved.service == server.service;
        let service_host = saved.host.clone().filter(|_| is_same && server.service.is_some());
        let address = saved.address.filter(|_| is_same);
        Some(Known { address, is_saved: true, service_host: service_host.zip(Some(saved.port)) })
    }

    /// Brings the servers of a new instance into their states.
    pub fn apply(&self, instance: &Instance) {
        let now_ms = instance.process.milliseconds(Instant::now());
        for proxy in &instance.proxies {
            let mut farm = proxy.farm();
            for server in proxy.servers.iter() {
                let key = (Arc::clone(&proxy.settings().name), server.config.name.to_string());
                if let Some(saved) = self.0.get(&key) {
                    farm.restore(ServerId::new(server.index.0 as usize), &saved.snapshot, now_ms);
                    // NOTE: as in HAProxy the port of the file wins over that of the configuration, even if that is newer.
                    if saved.port > 0
                        && server.config.service.is_none()
                        && matches!(server.config.port, ServerPort::Fixed(_))
                    {
                        server.set_port(saved.port);
                    }
                }
            }
        }
    }
}

/// Says what is wrong with a state file, for [`SavedStates::read`].
pub fn warn(text: &dyn Display) {
    runtime::log::write(runtime::log::Level::Warning, format_args!("{text}"));
}

/// The system's words for an error, without its number.
fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

/// A file's place: below `server-state-base` unless it is absolute.
fn path(global: &Global, name: &str) -> PathBuf {
    global.server_state_base.as_ref().map_or_else(|| PathBuf::from(name), |base| PathBuf::from(base).join(name))
}

fn parse_file(path: &Path, subject: &str, what: &str, warn: fn(&dyn Display)) -> Option<Vec<(String, Saved)>> {
    let size = fs::metadata(path).map_or(0, |metadata| metadata.len());
    let text = if size > FILE_BYTES_MAX { Vec::new() } else { fs::read(path).unwrap_or_default() };
    let text = String::from_utf8_lossy(&text);
    match parse(&text) {
        Ok(lines) => Some(lines),
        Err(0) => {
            warn(&format_args!("{subject}Can't get version of the {what} '{}'.", path.display()));
            None
        }
        Err(line) => {
            warn(&format_args!("{subject}corrupted {what} '{}' at line {line}.", path.display()));
            None
        }
    }
}

/// The states of a file with their backends' names; the number of the line that is malformed otherwise, 0 for the first one,
/// which is the version.
fn parse(text: &str) -> Result<Vec<(String, Saved)>, usize> {
    let mut lines = text.lines();
    if lines.next().map(str::trim) != Some(VERSION) {
        return Err(0);
    }
    let mut found = Vec::new();
    for (number, line) in lines.enumerate().map(|(index, line)| (index + 1, line.trim())) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        if fields.len() < FIELDS_LEAST {
            return Err(number);
        }
        // A line whose numbers are none that a server may have is left out.
        found.extend(state(&fields));
    }
    Ok(found)
}

fn state(fields: &[&str]) -> Option<(String, Saved)> {
    let field = |index: usize| fields.get(index).copied().unwrap_or_default();
    let byte = |index: usize| field(index).parse::<u8>().ok();
    let number = |index: usize| field(index).parse::<u32>().ok();
    let (check_state, agent_state) = (number(13)?, number(14).unwrap_or(0));
    let snapshot = ServerSnapshot {
        name: field(3).to_owned(),
        number: number(2)?,
        state: OperationalState::from_code(byte(5)?)?,
        admin: AdminState::from_bits(byte(6)?),
        user_weight: number(7).filter(|weight| *weight <= 256)?,
        initial_weight: number(8).filter(|weight| *weight <= 256)?,
        last_change_s: field(9).parse().ok()?,
        down_time_s: 0,
        check_status: CheckStatus::from_code(byte(10)?)?,
        check_result: match byte(11)? {
            0 => CheckResult::Unknown,
            1 => CheckResult::Neutral,
            2 => CheckResult::Failed,
            3 => CheckResult::Passed,
            4 => CheckResult::ConditionallyPassed,
            _ => return None,
        },
        check_health: number(12)?,
        // A bit that says that there is a check at all, and one that it is switched on.
        agent: (agent_state & 0x02 > 0).then_some(AgentSnapshot {
            enabled: agent_state & CHECK_ENABLED > 0,
            last: None,
            // Its words are asked for anew.
            health: 1,
        }),
        check_enabled: (check_state & 0x02 > 0).then_some(check_state & CHECK_ENABLED > 0),
        check_paused: check_state & CHECK_PAUSED > 0,
        check_info: String::new(),
        check_code: 0,
        check_duration_ms: None,
        maxconn: None,
    };
    let text = |index: usize| Some(field(index)).filter(|text| !matches!(*text, "" | "-")).map(str::to_owned);
    let saved = Saved {
        snapshot,
        address: field(4).parse().ok(),
        port: field(18).parse().unwrap_or(0),
        host: text(17),
        service: text(19),
    };
    Some((field(1).to_owned(), saved))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "3 app 1 s1 127.0.0.1 2 1 5 10 77 6 3 4 6 0 0 0 - 80 - 0 0 - - 0";

    #[test]
    fn files() {
        let (backend, saved) = parse(&format!("1\n# names\n{LINE}\n")).unwrap().remove(0);
        let state = &saved.snapshot;
        assert_eq!((saved.address, saved.port), ("127.0.0.1".parse().ok(), 80));
        assert_eq!((backend.as_str(), state.name.as_str(), state.state), ("app", "s1", OperationalState::Running));
        assert_eq!((state.user_weight, state.initial_weight, state.last_change_s), (5, 10, 77));
        assert!(state.admin.contains(AdminState::FORCED_MAINT));
        assert_eq!(state.check_enabled, Some(true));
        for (text, expected) in
            [("", Err(0)), ("2\n", Err(0)), ("1\n", Ok(0)), ("1\n# x\n\n3 app 1 s1\n", Err(3)), ("1\nx", Err(1))]
        {
            assert_eq!(parse(text).map(|found| found.len()), expected, "{text:?}");
        }
        for (from, to) in [(" 2 1 5", " 9 1 5"), (" 5 10", " 257 10"), (" 6 3 4", " 99 3 4"), (" 6 3 4", " 6 9 4")] {
            assert!(parse(&format!("1\n{}\n", LINE.replacen(from, to, 1))).unwrap().is_empty(), "{to}");
        }
    }
}
