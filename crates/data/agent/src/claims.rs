//! What an agent steers, no other agent steers: a folder that was copied has the same ports, and two agents that give the same stores different
//! orders would fight for them. So an agent takes a name for each address of its programs, which the system gives to one process at a time;
//! and programs that an agent before it has left must be of its own folder.

use std::{
    fs,
    io::{self, ErrorKind},
    os::{
        linux::net::SocketAddrExt as _,
        unix::net::{SocketAddr, UnixListener},
    },
    path::Path,
};

use cluster::Address;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt::socket_peercred,
};

use crate::{
    beginning,
    error::AgentError,
    options::Folder,
    processes::{Declared, Program},
};

/// Addresses that nobody else steers.
#[derive(Debug, Default)]
pub struct Claims(Vec<(Address, UnixListener)>);

/// A process that has what is wanted.
#[derive(Debug, PartialEq, Eq)]
struct Holder {
    pid: u32,
    /// The folder of its cluster, or of its data.
    folder: Option<String>,
}

/// An address that somebody else steers, or has.
#[derive(Debug, PartialEq, Eq)]
pub struct Taken {
    address: Address,
    holder: Option<Holder>,
    /// The agent, or the program.
    what: &'static str,
}

impl Claims {
    /// Takes the addresses of these programs, and gives up those of others. All are tried; the first is told that is taken.
    ///
    /// # Errors
    ///
    /// Another agent has one, or a program of another folder runs there.
    pub fn take(&mut self, folder: &Folder, programs: &[Declared]) -> Result<(), Taken> {
        self.0.retain(|(address, _)| programs.iter().any(|one| one.address == *address));
        let mut first = Ok(());
        for one in programs {
            if self.0.iter().any(|(address, _)| *address == one.address) {
                continue;
            }
            first = first.and(self.take_one(folder, one));
        }
        first
    }

    fn take_one(&mut self, folder: &Folder, one: &Declared) -> Result<(), Taken> {
        let taken = |holder, what| Taken { address: one.address.clone(), holder, what };
        match claim(&one.address) {
            Ok(claim) => self.0.push((one.address.clone(), claim)),
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                return Err(taken(holder_of(&one.address), "the agent"));
            }
            // A system without such names: the programs are looked at all the same.
            Err(_) => {}
        }
        let is_taken = beginning::free(&one.address).is_err_and(|error| error.kind() == ErrorKind::AddrInUse);
        match is_taken.then(|| stranger(folder, one)).flatten() {
            Some(holder) => Err(taken(Some(holder), "the program")),
            None => Ok(()),
        }
    }
}

impl Taken {
    /// Who has it.
    fn who(&self) -> String {
        let pid = self.holder.as_ref().map_or("another process".to_owned(), |holder| format!("process {}", holder.pid));
        format!("{} of {} has {} already ({pid})", self.what, self.place(), self.address)
    }

    fn place(&self) -> &str {
        self.holder.as_ref().and_then(|holder| holder.folder.as_deref()).unwrap_or("another folder")
    }

    /// Why an agent does not begin in a folder.
    #[must_use]
    pub fn refusal(&self, folder: &Folder) -> AgentError {
        AgentError::Other(format!(
            "{}: a server or a proxy of it is to be at {}, and {}. Nothing is started: two agents would give the same stores different \
             orders. If the one folder is a copy of the other one, end that one first (`tidegate cluster down --dir {}`, or end the process); to \
             have both, begin the second one with other ports (--port) and bring it the data by `tidegate cluster restore`",
            folder.path().display(),
            self.address,
            self.who(),
            self.place()
        ))
    }

    /// What an agent says that runs, and is to have a program there from now on.
    #[must_use]
    pub fn warning(&self) -> String {
        format!(
            "{}: what is to run there cannot listen, and is tried again. End that process, or remove the server or the proxy from the cluster \
             (`tidegate cluster server remove`, `proxy remove`) and add it at another address",
            self.who()
        )
    }
}

fn text(address: &Address) -> String {
    format!("tidegate/agent/{address}")
}

fn claim(address: &Address) -> io::Result<UnixListener> {
    UnixListener::bind_addr(&SocketAddr::from_abstract_name(text(address))?)
}

/// The agent that has an address.
fn holder_of(address: &Address) -> Option<Holder> {
    // NOTE: nobody takes connections there. One that finds no room in the queue is not waited for.
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).ok()?;
    connect(&socket, &SocketAddrUnix::new_abstract_name(text(address).as_bytes()).ok()?).ok()?;
    let pid = socket_peercred(&socket).ok()?.pid.as_raw_nonzero().get().unsigned_abs();
    Some(Holder { pid, folder: words_of(pid).and_then(|words| behind(&words, "--dir")) })
}

fn words_of(pid: u32) -> Option<Vec<String>> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words = line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
    Some(words.collect::<Vec<_>>()).filter(|words| words.len() > 2)
}

fn behind(words: &[String], option: &str) -> Option<String> {
    let place = words.iter().position(|word| word == option)?;
    words.get(place + 1).cloned()
}

/// A program of another folder that runs where one of this folder is to run.
fn stranger(folder: &Folder, what: &Declared) -> Option<Holder> {
    let (host, port) = (what.address.host(), what.address.port().to_string());
    let address = what.address.to_string();
    let is_it = |words: &[String]| match what.program {
        Program::Proxy => behind(words, "--listen").as_deref() == Some(&address),
        Program::Store | Program::Redis => {
            behind(words, "--bind").as_deref() == Some(host) && behind(words, "--port").as_deref() == Some(&port)
        }
    };
    let option = if what.program == Program::Proxy { "--topology" } else { "--dir" };
    let entries = fs::read_dir("/proc").ok()?;
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let found = pids.filter_map(|pid| Some((pid, words_of(pid)?))).filter(|(_, words)| is_it(words));
    found.filter(|(pid, _)| is_in_this_network(*pid)).find_map(|(pid, words)| {
        let place = behind(&words, option)?;
        let of = Path::new(&place).parent()?;
        (of != folder.path()).then(|| Holder { pid, folder: Some(of.display().to_string()) })
    })
}

/// Whether a process has the same addresses: containers have others by the same names.
fn is_in_this_network(pid: u32) -> bool {
    let network = |of: &str| fs::read_link(format!("/proc/{of}/ns/net")).ok();
    network("self").is_some_and(|own| network(&pid.to_string()) == Some(own))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_steered_by_one_agent_and_the_second_one_is_told_who_has_it() {
        // A port that nobody else has: that of a socket which is there meanwhile.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::new("127.0.0.1", listener.local_addr().unwrap().port());
        let programs = [beginning::proxy(&address)];
        let folders = ["/a", "/b"].map(|path| Folder::new(path.into()));
        let mut first = Claims::default();
        first.take(&folders[0], &programs).unwrap();
        first.take(&folders[0], &programs).unwrap();
        let taken = Claims::default().take(&folders[1], &programs).unwrap_err();
        let (refused, pid) = (taken.refusal(&folders[1]).to_string(), std::process::id());
        assert!(refused.contains(&format!("/b: a server or a proxy of it is to be at {address}")), "{refused}");
        assert!(refused.contains(&format!("(process {pid})")) && refused.contains("Nothing is started"), "{refused}");
        let warning = taken.warning();
        assert!(warning.contains(&format!("(process {pid})")) && !warning.contains("Nothing is started"), "{warning}");
        // What is no program of it any more is given up, and another agent may have it.
        first.take(&folders[0], &[]).unwrap();
        Claims::default().take(&folders[1], &programs).unwrap();
    }

    /// Nobody takes connections of those who ask: when there is no room for more, they are not waited for.
    #[test]
    fn who_has_an_address_is_asked_without_waiting() {
        let address = Address::new("127.0.0.1", free_port());
        let _claim = claim(&address).unwrap();
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let waiting: Vec<_> = std::iter::from_fn(|| {
            let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
            connect(&socket, &SocketAddrUnix::new_abstract_name(text(&address).as_bytes()).unwrap()).ok()?;
            Some(socket)
        })
        .take(100_000)
        .collect();
        assert!(waiting.len() < 100_000, "the queue has an end");
        assert_eq!(holder_of(&address), None);
    }

    #[test]
    fn one_that_is_taken_does_not_keep_the_others_from_being_claimed() {
        let programs = [free_port(), free_port()].map(|port| beginning::proxy(&Address::new("127.0.0.1", port)));
        let folders = ["/a", "/b"].map(|path| Folder::new(path.into()));
        let (mut first, mut second) = (Claims::default(), Claims::default());
        first.take(&folders[0], &programs[..1]).unwrap();
        assert_eq!(second.take(&folders[1], &programs).unwrap_err().address, programs[0].address);
        assert_eq!(first.take(&folders[0], &programs).unwrap_err().address, programs[1].address);
    }

    fn free_port() -> u16 {
        std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
    }

    #[test]
    fn a_program_of_another_folder_is_a_stranger() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::new("127.0.0.1", listener.local_addr().unwrap().port());
        // A process with these words.
        let mut child = std::process::Command::new("sh")
            .args(["-c", "read x", "proxy", "--listen", &address.to_string(), "--topology", "/a/topology"])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let programs = [beginning::proxy(&address)];
        while words_of(child.id()).is_none_or(|words| !words.contains(&"--topology".to_owned())) {
            std::thread::yield_now();
        }
        let (own, other) = (Folder::new("/a".into()), Folder::new("/b".into()));
        Claims::default().take(&own, &programs).unwrap();
        let refused = Claims::default().take(&other, &programs).unwrap_err().refusal(&other).to_string();
        let pid = child.id();
        assert!(refused.contains(&format!("the program of /a has {address} already (process {pid})")), "{refused}");
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
