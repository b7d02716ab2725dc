//! What an agent steers, no other agent steers: a folder that was copied has the same ports, and two agents that give the same stores different
//! orders would fight for them. So an agent takes a name for each address of its programs, which the system gives to one process at a time;
//! and programs that an agent before it has left must be of its own folder.

use std::{
    fs,
    io::{self, ErrorKind},
    os::{
        linux::net::SocketAddrExt as _,
        unix::net::{SocketAddr, UnixListener, UnixStream},
    },
    path::Path,
};

use cluster::Address;
use rustix::net::sockopt::socket_peercred;

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

impl Claims {
    /// Takes the addresses of programs that it does not have yet.
    ///
    /// # Errors
    ///
    /// Another agent has one, or a program of another folder runs there.
    pub fn take(&mut self, folder: &Folder, programs: &[Declared]) -> Result<(), AgentError> {
        for one in programs {
            if self.0.iter().any(|(address, _)| *address == one.address) {
                continue;
            }
            match claim(&one.address) {
                Ok(claim) => self.0.push((one.address.clone(), claim)),
                Err(error) if error.kind() == ErrorKind::AddrInUse => {
                    return Err(refused(folder, &one.address, holder_of(&one.address).as_ref(), "the agent"));
                }
                // A system without such names: the programs are looked at all the same.
                Err(_) => {}
            }
            let is_taken = beginning::free(&one.address).is_err_and(|error| error.kind() == ErrorKind::AddrInUse);
            if let Some(holder) = is_taken.then(|| stranger(folder, one)).flatten() {
                return Err(refused(folder, &one.address, Some(&holder), "the program"));
            }
        }
        Ok(())
    }
}

fn refused(folder: &Folder, address: &Address, holder: Option<&Holder>, what: &str) -> AgentError {
    let (pid, place) = match holder {
        Some(holder) => (format!("process {}", holder.pid), holder.folder.clone()),
        None => ("another process".to_owned(), None),
    };
    let place = place.unwrap_or_else(|| "another folder".to_owned());
    AgentError::Other(format!(
        "{} has a server or a proxy at {address}, and {what} of {place} has it already ({pid}). Nothing is started: two agents would give the same \
         stores different orders. If the one folder is a copy of the other one, end that one first (`tidegate cluster down --dir {place}`, or \
         end the process); to have both, begin the second one with other ports (--port) and bring it the data by `tidegate cluster restore`",
        folder.path().display()
    ))
}

fn name(address: &Address) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("tidegate/agent/{address}"))
}

fn claim(address: &Address) -> io::Result<UnixListener> {
    UnixListener::bind_addr(&name(address)?)
}

/// The agent that has an address.
fn holder_of(address: &Address) -> Option<Holder> {
    let stream = UnixStream::connect_addr(&name(address).ok()?).ok()?;
    let pid = socket_peercred(&stream).ok()?.pid.as_raw_nonzero().get().unsigned_abs();
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
        let refused = Claims::default().take(&folders[1], &programs).unwrap_err().to_string();
        let pid = std::process::id();
        assert!(refused.contains(&format!("/b has a server or a proxy at {address}")), "{refused}");
        assert!(refused.contains(&format!("(process {pid})")), "{refused}");
        drop(first);
        Claims::default().take(&folders[1], &programs).unwrap();
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
        let refused = Claims::default().take(&other, &programs).unwrap_err().to_string();
        let pid = child.id();
        assert!(refused.contains(&format!("the program of /a has it already (process {pid})")), "{refused}");
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
