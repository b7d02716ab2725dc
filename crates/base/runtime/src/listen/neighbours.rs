//! Who else listens on an address. With `SO_REUSEPORT` the kernel lets several processes of a user do so and gives each
//! connection to one of them, without a word.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The state of a listening socket in the kernel's tables.
const LISTENING: &str = "0A";
/// Lines of such a table that are read at most. Listening sockets stand first in it.
const LINES_MAX: usize = 100_000;

/// A process that listens on an address, as far as this one may know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Neighbour {
    /// Its number and the name of its program; `None` when the system does not tell this user.
    process: Option<(u32, String)>,
}

impl std::fmt::Display for Neighbour {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.process {
            Some((pid, name)) => write!(formatter, "process {pid} ({name})"),
            None => formatter.write_str("another process, which this user may not look at,"),
        }
    }
}

impl Neighbour {
    /// Its process number, where it is known.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(|(pid, _)| *pid)
    }
}

/// Somebody who listens on exactly this address by a socket that is none of `own` (inode numbers).
pub(crate) fn neighbour(address: SocketAddr, own: &[u64]) -> Option<Neighbour> {
    let table = if address.is_ipv4() { "/proc/self/net/tcp" } else { "/proc/self/net/tcp6" };
    let lines = BufReader::new(File::open(table).ok()?).lines().skip(1).take(LINES_MAX);
    let inode = lines
        .map_while(Result::ok)
        .map_while(|line| listener(&line))
        .find(|(there, inode)| same(*there, address) && !own.contains(inode))
        .map(|(_, inode)| inode)?;
    Some(Neighbour { process: holder(inode) })
}

/// Addresses without what a socket has besides: IPv6's scope and flow.
fn same(left: SocketAddr, right: SocketAddr) -> bool {
    (left.ip(), left.port()) == (right.ip(), right.port())
}

/// The address and the inode of a line about a listening socket; nothing for another one.
fn listener(line: &str) -> Option<(SocketAddr, u64)> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (ip, port) = fields.next()?.split_once(':')?;
    let is_listening = fields.nth(1)? == LISTENING;
    let inode = fields.nth(5)?.parse().ok().filter(|_| is_listening)?;
    // The kernel writes words of four bytes in the order of the machine.
    let words: Option<Vec<u32>> =
        (0..ip.len()).step_by(8).map(|at| u32::from_str_radix(ip.get(at..at + 8)?, 16).ok()).collect();
    let ip = match words?.as_slice() {
        [word] => IpAddr::V4(Ipv4Addr::from(word.to_ne_bytes())),
        &[a, b, c, d] => {
            let mut bytes = [0; 16];
            let all = [a, b, c, d].into_iter().flat_map(u32::to_ne_bytes);
            bytes.iter_mut().zip(all).for_each(|(place, byte)| *place = byte);
            IpAddr::V6(Ipv6Addr::from(bytes))
        }
        _ => return None,
    };
    Some((SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?), inode))
}

/// The process that has a socket open, and its program's name: of several the one that the others come from.
fn holder(inode: u64) -> Option<(u32, String)> {
    let link = format!("socket:[{inode}]");
    let has_it = |pid: &u32| {
        let Ok(descriptors) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
        descriptors
            .flatten()
            .any(|entry| std::fs::read_link(entry.path()).is_ok_and(|to| to.as_os_str() == link.as_str()))
    };
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let holders: Vec<u32> = pids.filter(has_it).collect();
    let first = holders.iter().find(|pid| parent(**pid).is_none_or(|parent| !holders.contains(&parent)))?;
    let name = std::fs::read_to_string(format!("/proc/{first}/comm")).unwrap_or_default();
    Some((*first, name.trim_end().to_owned()))
}

fn parent(pid: u32) -> Option<u32> {
    let line = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    line.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::unix::fs::MetadataExt as _;

    fn inode(socket: &TcpListener) -> u64 {
        use std::os::fd::AsRawFd as _;
        std::fs::metadata(format!("/proc/self/fd/{}", socket.as_raw_fd())).unwrap().ino()
    }

    #[test]
    fn another_listener_is_found_and_named() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(socket) = TcpListener::bind(address) else { continue };
            let address = socket.local_addr().unwrap();
            let found = neighbour(address, &[]).unwrap();
            assert_eq!(found.pid(), Some(std::process::id()), "{found}");
            assert!(found.to_string().starts_with(&format!("process {} (", std::process::id())), "{found}");
            assert_eq!(neighbour(address, &[inode(&socket)]), None, "it is our own");
            drop(socket);
            assert_eq!(neighbour(address, &[]), None);
        }
    }

    #[test]
    fn lines_of_the_kernel_are_read() {
        let line = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100 0 0 10 0";
        let expected = if cfg!(target_endian = "little") { "127.0.0.1:8080" } else { "1.0.0.127:8080" };
        assert_eq!(listener(line), Some((expected.parse().unwrap(), 4711)));
        assert_eq!(listener(&line.replace(" 0A ", " 01 ")), None);
        assert_eq!(listener("nonsense"), None);
    }
}
