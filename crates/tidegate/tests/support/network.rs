//! A network of two ends whose cable can be pulled: the other end is in a network name space of its own.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpStream},
    os::fd::AsFd,
    process::Command,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    thread,
};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::{PATIENCE, Wire};

/// Two ends; removed when dropped.
#[derive(Debug)]
pub struct Network {
    name: String,
    /// The address of this end.
    pub here: Ipv4Addr,
    /// The address of the other end.
    pub there: Ipv4Addr,
}

fn run(words: &str) -> Result<(), String> {
    let mut parts = words.split(' ');
    let program = parts.next().unwrap();
    let output = Command::new(program).args(parts).output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{words}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

impl Network {
    /// Makes one; `None` where that is not allowed.
    pub fn new() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let (pid, number) = (std::process::id(), NEXT.fetch_add(1, Relaxed));
        // Addresses for measurements between networks (RFC 2544), which nobody routes; four to a network.
        let base = 0xC612_0000 + (pid.wrapping_mul(8) + number).wrapping_mul(4) % 0x2_0000;
        let network =
            Self { name: format!("tg{pid}n{number}"), here: Ipv4Addr::from(base + 1), there: Ipv4Addr::from(base + 2) };
        let (name, here, there) = (&network.name, network.here, network.there);
        let steps = [
            format!("ip netns add {name}"),
            format!("ip link add {name}a type veth peer name {name}b netns {name}"),
            format!("ip address add {here}/30 dev {name}a"),
            format!("ip link set {name}a up"),
            format!("ip -n {name} address add {there}/30 dev {name}b"),
            format!("ip -n {name} link set lo up"),
            format!("ip -n {name} link set {name}b up"),
        ];
        for step in steps {
            if let Err(reason) = run(&step) {
                eprintln!("skipped: no network of our own: {reason}");
                return None;
            }
        }
        Some(network)
    }

    /// The name of the other end's name space.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Pulls the cable, or puts it in again. Nobody is told: packets get lost.
    pub fn set_connected(&self, connected: bool) {
        let state = if connected { "up" } else { "down" };
        run(&format!("ip -n {0} link set {0}b {state}", self.name)).unwrap();
    }

    /// Does something at the other end: sockets that are made there stay there.
    #[track_caller]
    pub fn at_other_end<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let place = std::fs::File::open(format!("/run/netns/{}", self.name)).unwrap();
        thread::scope(|scope| {
            let worker = scope.spawn(|| {
                move_into_link_name_space(place.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
                work()
            });
            worker.join().unwrap()
        })
    }

    /// A client at the other end.
    #[track_caller]
    pub fn connect(&self, address: SocketAddr) -> Wire {
        Wire::new(self.at_other_end(|| TcpStream::connect_timeout(&address, PATIENCE).unwrap()))
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = run(&format!("ip link delete {}a", self.name));
        let _ = run(&format!("ip netns delete {}", self.name));
    }
}
