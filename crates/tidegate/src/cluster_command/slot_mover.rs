//! What copies slots for the agent: the store's own mover.

use std::net::{SocketAddr, ToSocketAddrs as _};

use agent::{
    credentials::Credentials,
    mover::{Copying, End, Mover},
};
use cluster::{Address, SlotRange, migration::CopyProgress};
use store::slotmove::{self, Login, Move, Phase};

/// Copies slots between stores.
pub struct SlotMover;

struct Copy(slotmove::Mover);

fn place(address: &Address) -> Result<SocketAddr, String> {
    let found =
        (address.host(), address.port()).to_socket_addrs().map_err(|error| format!("{address}: {error}"))?.next();
    found.ok_or_else(|| format!("{address} has no address"))
}

fn login(credentials: Option<&Credentials>) -> Option<Login> {
    credentials.map(|known| Login { user: known.user.clone(), password: known.password.clone() })
}

impl Mover for SlotMover {
    fn start(&self, source: &End, target: &End, slots: SlotRange) -> Result<Box<dyn Copying>, String> {
        let task = Move {
            source: place(&source.address)?,
            target: place(&target.address)?,
            slots: vec![(slots.first, slots.last)],
            source_login: login(source.credentials.as_ref()),
            target_login: login(target.credentials.as_ref()),
            target_is_plain: !target.kind.is_store(),
        };
        let mover = slotmove::start(task).map_err(|error| error.to_string())?;
        Ok(Box::new(Copy(mover)))
    }
}

impl Copying for Copy {
    fn progress(&mut self) -> Result<CopyProgress, String> {
        let progress = self.0.progress();
        if let Phase::Failed(problem) = progress.phase {
            return Err(problem);
        }
        Ok(CopyProgress {
            keys: progress.keys,
            bytes: progress.bytes,
            is_following: progress.phase == Phase::Following,
            lag_bytes: 0,
            offset: progress.applied,
        })
    }

    fn ask_to_end(&mut self) {
        self.0.ask_to_end();
    }

    fn has_ended(&self) -> bool {
        self.0.has_ended()
    }
}
