//! What a master and a worker say to each other, and the file that a configuration travels in.

use super::channel::{memory_file, read_memory_file};
use super::machine::Generation;
use super::role::{DrainReason, Plan, ProcessSettings, Programs};
use crate::listen::{ListenSpec, SocketKey};
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// From the master.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToWorker {
    /// Sockets that the next [`Self::Load`] may use, one descriptor each, in order.
    Sockets { keys: Vec<SocketKey> },
    /// Serve this configuration: one descriptor, a [`PlanFile`]. Answered by `Ready` or `Refused`.
    Load { generation: Generation },
    /// Nobody will accept from these sockets after this worker: accept what waits there before it drains.
    Retire { keys: Vec<SocketKey> },
    /// Someone wants to talk with this worker: one descriptor, a connected socket.
    Talk,
    /// What a former worker left: one descriptor, a file in memory.
    Inherit,
    /// Finish and exit.
    Drain { reason: DrainReason },
}

/// From a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromWorker {
    /// It serves.
    Ready { generation: Generation },
    /// It cannot, and goes on as before.
    Refused { generation: Generation, text: String },
    /// It drains, and accepts nothing any more.
    Closed,
    /// It was told to drain by a signal of its own.
    Drains,
    /// What it leaves to the worker that serves from now on: one descriptor, a file in memory.
    Legacy,
}

/// How many keys go in one message.
pub(crate) const KEYS_MAX: usize = 32;

/// A configuration with all that a worker needs, in a file in memory: a line of JSON, then the role's bytes.
#[derive(Debug)]
pub(crate) struct PlanFile {
    pub(crate) header: PlanHeader,
    pub(crate) file: OwnedFd,
}

/// The part of a plan that this crate understands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PlanHeader {
    pub(crate) generation: Generation,
    pub(crate) listeners: Vec<ListenSpec>,
    pub(crate) workers: usize,
    pub(crate) settings: ProcessSettings,
    #[serde(default)]
    pub(crate) programs: Programs,
}

impl PlanFile {
    pub(crate) fn new(generation: Generation, plan: Plan) -> io::Result<Self> {
        let header = PlanHeader {
            generation,
            listeners: plan.listeners,
            workers: plan.workers.max(1),
            settings: plan.settings,
            programs: plan.programs,
        };
        let mut content = serde_json::to_vec(&header)?;
        content.push(b'\n');
        content.extend_from_slice(&plan.blob);
        Ok(Self { header, file: memory_file("tidegate-configuration", &content)? })
    }

    /// Takes a file that another process wrote.
    pub(crate) fn open(file: OwnedFd) -> io::Result<Self> {
        let (header, _) = read(&file)?;
        Ok(Self { header, file })
    }
}

/// Reads a [`PlanFile`]: its header and the role's bytes.
pub(crate) fn read(file: impl AsFd) -> io::Result<(PlanHeader, Vec<u8>)> {
    let mut content = read_memory_file(file)?;
    let end = content
        .iter()
        .position(|&byte| byte == b'\n')
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a configuration without its header"))?;
    let blob = content.split_off(end + 1);
    Ok((serde_json::from_slice(&content)?, blob))
}
