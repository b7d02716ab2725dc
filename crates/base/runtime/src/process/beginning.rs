//! The step from the process that a user starts to the master: the same process with a fresh image of the program.
//!
//! To read a configuration is to touch most of the program and to leave traces in memory. A master never does so again
//! ([`super::check`]), so it begins without what the first reading left.

use super::channel::{memory_file, read_memory_file};
use super::handoff::KeptOpen;
use super::message::PlanFile;
use super::{launch, signals};
use crate::system::take_inherited;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};
use std::path::PathBuf;

/// What goes over.
#[derive(Debug, Serialize, Deserialize)]
struct Written {
    plan: RawFd,
    pidfile: Option<PathBuf>,
    caller: Option<RawFd>,
}

/// What a master begins with.
#[derive(Debug)]
pub(crate) struct Beginning {
    /// The first configuration, checked.
    pub(crate) plan: PlanFile,
    pub(crate) pidfile: Option<PathBuf>,
    /// Leads to the process that waits until this daemon serves.
    pub(crate) caller: Option<OwnedFd>,
}

impl Beginning {
    /// Becomes the master. Returns only on failure.
    pub(crate) fn go_on(&self) -> io::Result<io::Error> {
        let caller = self.caller.as_ref();
        let written = Written {
            plan: self.plan.file.as_raw_fd(),
            pidfile: self.pidfile.clone(),
            caller: caller.map(|caller| caller.as_raw_fd()),
        };
        let file = memory_file("tidegate-beginning", &serde_json::to_vec(&written)?)?;
        let mut kept = vec![file.as_fd(), self.plan.file.as_fd()];
        kept.extend(caller.map(|caller| caller.as_fd()));
        let _kept = KeptOpen::new(kept)?;
        // Until the master listens to them, signals wait in the kernel.
        signals::hold_back()?;
        let error = launch::replace_by(launch::running_program(), "master", file.as_raw_fd());
        signals::let_through()?;
        Ok(error)
    }

    /// Takes what [`Self::go_on`] left.
    pub(crate) fn read(file: OwnedFd) -> io::Result<Self> {
        let written: Written = serde_json::from_slice(&read_memory_file(file)?)?;
        Ok(Self {
            plan: PlanFile::open(take_inherited(written.plan)?)?,
            pidfile: written.pidfile,
            caller: written.caller.map(take_inherited).transpose()?,
        })
    }
}
