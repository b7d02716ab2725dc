//! What copies slots for the agent: the store's own mover.

use std::{
    net::{SocketAddr, ToSocketAddrs as _},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use agent::mover::{CopyError, CopyTask, Copying, End, Mover};
use cluster::{Address, migration::CopyProgress};
use store::slotmove::{self, Login, Move, Phase};

/// Copies slots between stores.
pub struct SlotMover {
    /// The password of the stores.
    pub password: Option<Arc<str>>,
    /// Since when the agent leads; 0 before it does.
    pub term: AtomicU64,
}

struct Copy(slotmove::Mover);

fn resolved(address: &Address) -> Result<SocketAddr, CopyError> {
    let failed = |error| CopyError::Address(format!("{address}: {error}"));
    let found = (address.host(), address.port()).to_socket_addrs().map_err(failed)?.next();
    found.ok_or_else(|| CopyError::Address(format!("{address} has no address")))
}

impl SlotMover {
    /// What a server lets the mover in by: stores have one password, each Redis its own.
    fn login(&self, end: &End) -> Option<Login> {
        let password = self.password.as_deref().map(str::to_owned).filter(|_| end.kind.is_store());
        let of_store = password.map(|password| Login { user: None, password });
        let known = end.credentials.as_ref();
        known.map(|known| Login { user: known.user.clone(), password: known.password.clone() }).or(of_store)
    }
}

impl Mover for SlotMover {
    fn lead(&self, term: u64) {
        self.term.store(term, Ordering::Relaxed);
    }

    fn start(&self, task: &CopyTask) -> Result<Box<dyn Copying>, CopyError> {
        let task = Move {
            source: resolved(&task.source.address)?,
            target: resolved(&task.target.address)?,
            slots: (task.slots.first, task.slots.last),
            epoch: task.epoch,
            source_login: self.login(&task.source),
            target_login: self.login(&task.target),
            target_is_plain: !task.target.kind.is_store(),
            term: Some(self.term.load(Ordering::Relaxed)).filter(|term| *term > 0),
            nodes: (task.source.node.clone(), task.target.node.clone()),
        };
        let mover = slotmove::start(task).map_err(|error| CopyError::System(error.to_string()))?;
        Ok(Box::new(Copy(mover)))
    }
}

impl Copying for Copy {
    fn progress(&mut self) -> Result<CopyProgress, CopyError> {
        let progress = self.0.progress();
        if let Phase::Failed(problem) = progress.phase {
            // What the target has said.
            let is_outdated = problem.contains("STALEEPOCH");
            return Err(if is_outdated { CopyError::Outdated(problem) } else { CopyError::Server(problem) });
        }
        Ok(CopyProgress {
            keys: progress.keys,
            bytes: progress.bytes,
            is_following: progress.phase == Phase::Following,
            lag_bytes: 0,
            offset: progress.applied,
            lacks_times: progress.lacks_times,
        })
    }

    fn set_rate(&mut self, bytes_per_second: Option<u64>) {
        self.0.set_rate(bytes_per_second);
    }

    fn set_paused(&mut self, is_paused: bool) {
        self.0.set_paused(is_paused);
    }

    fn ask_to_end(&mut self) {
        self.0.ask_to_end();
    }

    fn has_ended(&self) -> bool {
        self.0.has_ended()
    }
}
