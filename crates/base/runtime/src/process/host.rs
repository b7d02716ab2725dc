//! The host of a service in the process that serves: with a master above it ([`super::worker`]) or alone
//! ([`super::single`]).

use super::message::PlanHeader;
use super::role::{DrainReason, Load, Service};
use crate::listen::{ListenSpec, SocketTable};
use crate::log;
use std::time::Duration;

/// A service with the sockets of its process.
pub(crate) struct Host<S> {
    service: S,
    table: SocketTable,
    /// What the service listens on.
    listeners: Vec<ListenSpec>,
    hard_stop_after: Option<Duration>,
}

/// Puts a load together from the sockets that are held.
pub(crate) fn make_load(table: &SocketTable, header: &PlanHeader, blob: Vec<u8>) -> Load {
    Load {
        generation: header.generation,
        blob,
        listeners: table.listeners(&header.listeners),
        workers: header.workers,
        settings: header.settings.clone(),
    }
}

impl<S: Service> Host<S> {
    pub(crate) fn new(service: S, table: SocketTable) -> Self {
        Self { service, table, listeners: Vec::new(), hard_stop_after: None }
    }

    pub(crate) fn table(&mut self) -> &mut SocketTable {
        &mut self.table
    }

    pub(crate) fn service(&mut self) -> &mut S {
        &mut self.service
    }

    /// Gives the service a configuration. Whatever comes of it, sockets that are not used then are closed here.
    pub(crate) async fn load(&mut self, header: PlanHeader, blob: Vec<u8>) -> Result<(), String> {
        let load = make_load(&self.table, &header, blob);
        // NOTE: before the service stops its acceptors, which look at the mark.
        let unused = self.table.unused(&header.listeners);
        self.table.set_retired(&unused, true);
        let result = self.service.load(load).await;
        if result.is_ok() {
            self.listeners = header.listeners;
            self.hard_stop_after = header.settings.hard_stop_after;
        } else {
            self.table.set_retired(&unused, false);
        }
        let unused = self.table.unused(&self.listeners);
        self.table.remove(&unused);
        result
    }

    /// Lets the service finish, but not longer than `hard-stop-after`. Returns the exit code.
    pub(crate) async fn drain(&mut self, reason: DrainReason) -> i32 {
        if reason != DrainReason::Replaced {
            let all = self.table.keys();
            self.table.set_retired(&all, true);
        }
        let keys = self.table.keys();
        // The acceptors have descriptors of their own; with these gone, a socket is closed when they are.
        self.table.remove(&keys);
        let limit = self.hard_stop_after;
        let end = async {
            match limit {
                Some(limit) => tokio::time::sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.service.drain(reason) => {}
            () = end => log::warning!("hard-stop-after: ending with connections still open"),
        }
        0
    }
}
