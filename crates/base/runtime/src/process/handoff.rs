//! What a master leaves to the program that replaces it.
//!
//! A file in memory with JSON. Descriptors are named by number: they go over `exec` with the process. The form has a
//! version, and a new program is first asked, as a probe, whether it understands it.

use super::channel::{memory_file, read_memory_file};
use super::machine::{Memory, RequestId, WorkerId};
use crate::listen::SocketKey;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::{AsFd, OwnedFd, RawFd};

/// Goes up when an older program could not read the state of a newer one, or the other way round.
pub(crate) const VERSION: u32 = 1;

/// The state of a master.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) version: u32,
    pub(crate) memory: Memory,
    pub(crate) next_generation: u64,
    pub(crate) next_request: RequestId,
    /// The configuration that is served: a plan file.
    pub(crate) plan: Option<RawFd>,
    pub(crate) sockets: Vec<(SocketKey, RawFd)>,
    pub(crate) workers: Vec<WorkerHandoff>,
    /// Control sockets, and whether each is open to all who can connect.
    pub(crate) control: Vec<(RawFd, bool)>,
    /// Their names, in the same order.
    #[serde(default)]
    pub(crate) control_names: Vec<String>,
    /// Those who wait for an answer.
    pub(crate) requests: Vec<(RequestId, RawFd)>,
}

/// The line to a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WorkerHandoff {
    pub(crate) id: WorkerId,
    pub(crate) pid: u32,
    pub(crate) channel: RawFd,
    /// The sockets that it has.
    pub(crate) keys: Vec<SocketKey>,
}

impl State {
    pub(crate) fn write(&self) -> io::Result<OwnedFd> {
        memory_file("tidegate-master", &serde_json::to_vec(self)?)
    }

    pub(crate) fn read(file: impl AsFd) -> io::Result<Self> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let content = read_memory_file(file)?;
        let Version { version } = serde_json::from_slice(&content)?;
        if version != VERSION {
            let text = format!("the running master's state has version {version}, this program knows {VERSION}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        Ok(serde_json::from_slice(&content)?)
    }
}

/// Keeps descriptors open over `exec` for as long as this lives; should `exec` fail, they are as before again.
pub(crate) struct KeptOpen<'a> {
    descriptors: Vec<std::os::fd::BorrowedFd<'a>>,
}

impl<'a> KeptOpen<'a> {
    pub(crate) fn new(descriptors: Vec<std::os::fd::BorrowedFd<'a>>) -> io::Result<Self> {
        let kept = Self { descriptors };
        for descriptor in &kept.descriptors {
            rustix::io::fcntl_setfd(descriptor, rustix::io::FdFlags::empty())?;
        }
        Ok(kept)
    }
}

impl Drop for KeptOpen<'_> {
    fn drop(&mut self) {
        for descriptor in &self.descriptors {
            let _ = rustix::io::fcntl_setfd(descriptor, rustix::io::FdFlags::CLOEXEC);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(version: u32) -> State {
        State {
            version,
            memory: Memory::default(),
            next_generation: 7,
            next_request: 3,
            plan: Some(10),
            sockets: Vec::new(),
            workers: vec![WorkerHandoff { id: 1, pid: 2, channel: 11, keys: Vec::new() }],
            control: vec![(12, true)],
            control_names: vec!["name".to_owned()],
            requests: vec![(2, 13)],
        }
    }

    #[test]
    fn a_state_is_read_as_written() {
        let file = state(VERSION).write().unwrap();
        let read = State::read(&file).unwrap();
        assert_eq!(format!("{read:?}"), format!("{:?}", state(VERSION)));
        // It is sealed: nobody can change it between the probe and the successor.
        assert!(rustix::io::pwrite(&file, b"x", 0).is_err());
    }

    #[test]
    fn a_state_of_another_version_is_refused_by_name() {
        let file = state(VERSION + 1).write().unwrap();
        let text = State::read(&file).unwrap_err().to_string();
        assert!(text.contains(&format!("version {}", VERSION + 1)), "{text}");
        let other = memory_file("test", format!("{{\"version\":{},\"else\":1}}", VERSION + 1).as_bytes()).unwrap();
        assert!(State::read(&other).unwrap_err().to_string().contains("version"));
        assert!(State::read(memory_file("test", b"nonsense").unwrap()).is_err());
    }

    #[test]
    fn descriptors_are_closed_on_exec_again_when_it_fails() {
        let file = memory_file("test", b"").unwrap();
        let flags = || rustix::io::fcntl_getfd(&file).unwrap();
        assert!(flags().contains(rustix::io::FdFlags::CLOEXEC));
        let kept = KeptOpen::new(vec![file.as_fd()]).unwrap();
        assert!(!flags().contains(rustix::io::FdFlags::CLOEXEC));
        drop(kept);
        assert!(flags().contains(rustix::io::FdFlags::CLOEXEC));
    }
}
