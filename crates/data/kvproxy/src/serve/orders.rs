//! What whoever looks after the cluster orders about servers that know no slots: lines of the topology's file, and files beside it.
//!
//! ```text
//! topology.nodes   stamp 17            lease: topology.lease   17 845000
//!                  redis 10.0.0.1:6379                         stamp, milliseconds since the machine was started
//!                  hold 0-99           topology.secrets        {"10.0.0.1:6379": {"user": ..., "password": ...}}
//!                  <lines of CLUSTER NODES>
//! ```

use std::{collections::BTreeMap, fs, path::Path};

use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;

use crate::proxy::{Credentials, Lease, Orders};

/// Bytes of a lease at most.
const LEASE_MAX: usize = 64;

/// Milliseconds since the machine was started, those in which it slept among them.
pub fn machine_ms() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    let (seconds, nanoseconds) = (u64::try_from(time.tv_sec).unwrap_or(0), u64::try_from(time.tv_nsec).unwrap_or(0));
    seconds * 1000 + nanoseconds / 1_000_000
}

/// The orders in a topology's file, and the lines of its nodes.
///
/// # Errors
///
/// A line that is none.
pub fn read(text: &str, path: &Path) -> Result<(Orders, String), String> {
    let mut orders = Orders::default();
    let mut nodes = String::new();
    let mut secrets = None;
    for line in text.lines() {
        let wrong = || format!("'{line}' is not understood: is it of a later version?");
        match line.split_once(' ') {
            Some(("epoch", _)) => {}
            Some(("stamp", number)) => orders.stamp = number.parse().map_err(|_| wrong())?,
            Some(("redis", address)) => {
                let (host, port) = address.rsplit_once(':').ok_or_else(wrong)?;
                let port = port.parse().map_err(|_| wrong())?;
                let secrets = secrets.get_or_insert_with(|| read_secrets(&path.with_extension("secrets")));
                orders.servers.push((host.to_owned(), port, secrets.remove(address)));
            }
            Some(("hold", range)) => {
                let (first, last) = range.split_once('-').ok_or_else(wrong)?;
                orders.held.push((first.parse().map_err(|_| wrong())?, last.parse().map_err(|_| wrong())?));
            }
            _ => {
                nodes.push_str(line);
                nodes.push('\n');
            }
        }
    }
    Ok((orders, nodes))
}

/// What servers let clients in by; nothing of those that let everybody in, or if the file cannot be read: they refuse, and say so.
fn read_secrets(path: &Path) -> BTreeMap<String, Credentials> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let known: BTreeMap<String, Value> = serde_json::from_str(&text).unwrap_or_default();
    let credentials = |value: &Value| {
        let word = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        Some(Credentials { user: word("user"), password: word("password")? })
    };
    known.into_iter().filter_map(|(address, value)| Some((address, credentials(&value)?))).collect()
}

/// The lease beside a topology's file; one that is not there is over.
pub fn read_lease(path: &Path) -> Lease {
    let text = fs::read_to_string(path.with_extension("lease")).unwrap_or_default();
    let words = text.get(..LEASE_MAX.min(text.len())).unwrap_or_default().trim().split_once(' ');
    let lease = words.and_then(|(stamp, until)| Some(Lease { stamp: stamp.parse().ok()?, until: until.parse().ok()? }));
    lease.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_told_from_nodes() {
        let text = "epoch 4\nstamp 17\nredis 10.0.0.1:6379\nhold 0-99\nhold 5-5\nn1 10.0.0.1:6379@16379 master - 0 0 1 connected 0-99\n";
        let (orders, nodes) = read(text, Path::new("/nowhere/topology.nodes")).unwrap();
        assert_eq!((orders.stamp, orders.held), (17, vec![(0, 99), (5, 5)]));
        assert_eq!(orders.servers, [("10.0.0.1".to_owned(), 6379, None)]);
        assert_eq!(nodes, "n1 10.0.0.1:6379@16379 master - 0 0 1 connected 0-99\n");
        for bad in ["stamp x", "redis 10.0.0.1", "hold 5", "redis a:x"] {
            assert!(read(bad, Path::new("/nowhere/topology.nodes")).is_err(), "{bad}");
        }
    }
}
