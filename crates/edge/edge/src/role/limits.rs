//! Descriptors: how many connections they are enough for, and whether they are enough for those that are configured.

use haproxycfg::model::Config;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that every process has: standard ones, logs, files that are open for a moment.
const BASE: u64 = 10;
/// Descriptors of a worker thread: its event loop, its wake-up, its parking, its ring.
const EACH_WORKER: u64 = 5;
/// The greatest `maxconn` that is chosen without being configured.
const CONNECTIONS_MAX: u64 = 1 << 20;

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

/// The most connections at a time that so many descriptors allow: as HAProxy reckons, two for each, to the client and to the
/// server, and half a one for pipes and idle connections.
pub fn connections(config: &Config, workers: usize, descriptors: u64) -> u32 {
    let connections = (descriptors.saturating_sub(overhead(config, workers)) * 2 / 5).clamp(1, CONNECTIONS_MAX);
    u32::try_from(connections).unwrap_or(u32::MAX)
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
/// that is more than this process may open so far, and raises it.
///
/// # Errors
/// When it cannot be raised.
pub fn raise(config: &Config, workers: usize) -> Result<Option<u64>, String> {
    let Some(maxconn) = config.global.maxconn else { return Ok(None) };
    let needed = overhead(config, workers) + 2 * u64::from(maxconn);
    let limit = getrlimit(Resource::Nofile);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_enough_for_as_many_connections_as_in_haproxy() {
        let mut config = Config::default();
        config.global.tune.bufsize = 16_384;
        for (megabytes, connections) in [(1, 28), (10, 280), (50, 1_400), (100, 2_800), (0, 1)] {
            assert_eq!(connections_within(&config, megabytes), connections, "{megabytes}");
        }
    }
}
