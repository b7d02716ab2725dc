//! What a process can have: workers, and connections by its descriptors and memory; whether that is enough for what is
//! configured.

use haproxycfg::model::Config;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Workers at most, as HAProxy has threads.
pub const WORKERS_MAX: usize = 64;

/// Descriptors that every process has: standard ones, logs, files that are open for a moment.
const BASE: u64 = 10;
/// Descriptors of a worker thread: its event loop, its wake-up, its parking, its ring.
const EACH_WORKER: u64 = 5;
/// The greatest `maxconn` that is chosen without being configured.
const CONNECTIONS_MAX: u64 = 1 << 20;
/// The least `maxconn` that is chosen without a warning: HAProxy does not start when descriptors are not enough for it.
const CONNECTIONS_EXPECTED: u64 = 100;
/// Descriptors of a connection: to the client and to the server.
const EACH_CONNECTION: u64 = 2;

/// Descriptors that are used without any client.
fn overhead(config: &Config, workers: usize) -> u64 {
    let listeners = config.proxies.iter().map(|proxy| proxy.binds.len()).sum::<usize>();
    let listeners = listeners + config.global.stats_sockets.len();
    let logs = config.log_forwards.iter();
    let logs = logs.map(|forward| forward.binds.len() + forward.datagram_binds.len() + forward.maxconn as usize);
    let logs: usize = logs.sum();
    let servers = config.proxies.iter().flat_map(|proxy| &proxy.servers);
    let checks = servers.filter(|server| server.check).count();
    // A socket of each worker for a listener, and what the process holds of it.
    BASE + EACH_WORKER * workers as u64 + (listeners * (workers + 1) + checks + logs) as u64
}

/// The most connections at a time that so many descriptors allow. Pipes have no part: they are opened only where there is
/// plenty (`net::splice`), as bodies go through a buffer as well.
pub fn connections(config: &Config, workers: usize, descriptors: u64) -> u32 {
    let connections = descriptors.saturating_sub(overhead(config, workers)) / EACH_CONNECTION;
    u32::try_from(connections.clamp(1, CONNECTIONS_MAX)).unwrap_or(u32::MAX)
}

/// What is to be said when no `maxconn` is configured and descriptors are enough for few connections only.
fn few(config: &Config, workers: usize, descriptors: u64) -> Option<String> {
    let connections = connections(config, workers, descriptors);
    if u64::from(connections) >= CONNECTIONS_EXPECTED {
        return None;
    }
    let wanted = overhead(config, workers) + EACH_CONNECTION * CONNECTIONS_EXPECTED;
    Some(format!(
        "[haproxy.main()] FD limit ({descriptors}) is enough for maxconn={connections} only: further connections wait \
         until others end. Please raise 'ulimit -n' to {wanted} or more, or set 'maxconn' if that is meant."
    ))
}

/// What a stream needs at most besides its two buffers, as HAProxy reckons.
const STREAM_BYTES: u64 = 3_000;

/// The most connections at a time that so many megabytes allow, to two digits: as HAProxy reckons, with all buffers in use and
/// 3% for the rest.
pub fn connections_within(config: &Config, megabytes: u64) -> u32 {
    let each = STREAM_BYTES + 2 * config.global.tune.bufsize as u64;
    let connections = (megabytes << 20) / 100 * 97 / each;
    let digits = connections.checked_ilog10().unwrap_or(0).saturating_sub(1);
    let unit = 10_u64.pow(digits);
    u32::try_from((connections / unit * unit).clamp(1, CONNECTIONS_MAX)).unwrap_or(u32::MAX)
}

/// Finds out whether the configured `maxconn` can be had. Returns the limit of descriptors that is needed for it where
/// that is more than this process may open so far, and raises it. Warns when none is configured and few can be had.
///
/// # Errors
/// When it cannot be raised.
pub fn raise(config: &Config, workers: usize) -> Result<Option<u64>, String> {
    let limit = getrlimit(Resource::Nofile);
    let Some(maxconn) = config.global.maxconn else {
        let descriptors = config.global.ulimit_n.or(limit.maximum).unwrap_or(u64::MAX);
        if let Some(text) = few(config, workers, descriptors) {
            runtime::log::print(runtime::log::Level::Warning, &text);
        }
        return Ok(None);
    };
    let needed = overhead(config, workers) + EACH_CONNECTION * u64::from(maxconn);
    if let Some(set) = config.global.ulimit_n {
        return if set < needed {
            Err(format!(
                "[haproxy.main()] FD limit ({set}) too low for maxconn={maxconn}/maxsock={needed}. Please raise \
                 'ulimit-n' to {needed} or more to avoid any trouble."
            ))
        } else {
            Ok(None)
        };
    }
    match limit.maximum {
        Some(maximum) if maximum < needed => {
            let wanted = Rlimit { current: Some(needed), maximum: Some(needed) };
            setrlimit(Resource::Nofile, wanted)
                .map(|()| Some(needed))
                .map_err(|_| format!("[haproxy.main()] Cannot raise FD limit to {needed}, limit is {maximum}."))
        }
        _ => Ok(None),
    }
}

/// Workers that a configuration runs on.
#[must_use]
pub fn worker_count(config: &Config) -> usize {
    let usable = std::thread::available_parallelism().map_or(1, usize::from);
    config.global.nbthread.map_or(usable, |count| count as usize).clamp(1, WORKERS_MAX)
}

/// The most that `set maxconn global` may give: what the configuration says, or what the descriptors allow, two for
/// each connection.
#[must_use]
pub fn hard_maxconn(config: &Config) -> u32 {
    config.global.maxconn.unwrap_or_else(|| {
        let descriptors_max = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let by_descriptors = connections(config, worker_count(config), descriptors_max);
        match config.global.memory_max_mb {
            0 => by_descriptors,
            megabytes => by_descriptors.min(connections_within(config, megabytes)),
        }
    })
}

/// How many connections the process may have, to clients and to servers, before idle ones to servers are given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleMarks {
    /// From so many on no more are kept idle (`tune.pool-low-fd-ratio`).
    pub low: u64,
    /// With more than so many, one is closed for each that is opened (`tune.pool-high-fd-ratio`).
    pub high: u64,
}

impl IdleMarks {
    /// Those of a configuration: shares of the descriptors that its `maxconn` needs, as in HAProxy.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let workers = worker_count(config);
        let descriptors = overhead(config, workers) + EACH_CONNECTION * u64::from(hard_maxconn(config));
        let share = |percent: u8| descriptors * u64::from(percent) / 100;
        let tune = &config.global.tune;
        Self { low: share(tune.pool_low_fd_percent), high: share(tune.pool_high_fd_percent) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_enough_for_as_many_connections_as_in_haproxy() {
        let config = Config::default();
        // HAProxy with a listener, a stats socket and two threads: 498, 2034, 9986.
        for (descriptors, connections) in [(1_024, 502), (4_096, 2_038), (20_000, 9_990), (0, 1)] {
            assert_eq!(super::connections(&config, 2, descriptors), connections, "{descriptors}");
        }
        assert!(few(&config, 2, 200).is_some_and(|text| text.contains("maxconn=90 only")));
        assert_eq!(few(&config, 2, 220), None);
    }

    #[test]
    fn idle_connections_may_take_a_share_of_the_descriptors() {
        let mut config = Config::default();
        (config.global.maxconn, config.global.nbthread) = (Some(990), Some(2));
        assert_eq!(IdleMarks::new(&config), IdleMarks { low: 400, high: 500 });
        (config.global.tune.pool_low_fd_percent, config.global.tune.pool_high_fd_percent) = (0, 100);
        assert_eq!(IdleMarks::new(&config), IdleMarks { low: 0, high: 2_000 });
    }

    #[test]
    fn memory_is_enough_for_as_many_connections_as_in_haproxy() {
        let mut config = Config::default();
        config.global.tune.bufsize = 16_384;
        for (megabytes, connections) in [(1, 28), (10, 280), (50, 1_400), (100, 2_800), (0, 1)] {
            assert_eq!(connections_within(&config, megabytes), connections, "{megabytes}");
        }
    }
}
