//! The host of a service in the process that serves: with a master above it ([`super::worker`]) or alone
//! ([`super::single`]).

use super::footprint;
use super::message::PlanHeader;
use super::role::{DrainReason, Load, Service};
use crate::listen::{BindError, InUse, LastUse, ListenSpec, Prepared, SocketKey, SocketTable};
use crate::log;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// How long former acceptors may take to stop before a load is called done without that.
const STOP_MAX: Duration = Duration::from_secs(2);

/// How long connections may take to end once `hard-stop-after` is over: time for answers and log lines.
const HARD_STOP_MAX: Duration = Duration::from_secs(1);

/// A service with the sockets of its process.
pub(crate) struct Host<S> {
    service: S,
    table: SocketTable,
    /// What the service listens on.
    listeners: Vec<ListenSpec>,
    hard_stop_after: Option<Duration>,
    grace: Option<Duration>,
    /// Sockets that came since the last load.
    received: Vec<SocketKey>,
    /// Whether some of them had no room in this process.
    lacks_sockets: bool,
    /// The end of what accepts for the configuration that is served.
    last_use: Option<LastUse>,
}

/// Puts a load together from the sockets that are held.
pub(crate) fn make_load(table: &SocketTable, header: &PlanHeader, blob: Vec<u8>) -> (Load, LastUse) {
    let (in_use, last_use) = InUse::new();
    let load = Load {
        generation: header.generation,
        blob,
        listeners: table.listeners(&header.listeners, &in_use),
        workers: header.workers,
        settings: header.settings.clone(),
    };
    (load, last_use)
}

impl<S: Service> Host<S> {
    pub(crate) fn new(service: S, table: SocketTable) -> Self {
        Self {
            service,
            table,
            listeners: Vec::new(),
            hard_stop_after: None,
            grace: None,
            received: Vec::new(),
            lacks_sockets: false,
            last_use: None,
        }
    }

    pub(crate) fn table(&self) -> &SocketTable {
        &self.table
    }

    /// Takes sockets that the next load may use, one descriptor each, as far as they came.
    pub(crate) fn receive(&mut self, keys: Vec<SocketKey>, descriptors: Vec<OwnedFd>) {
        self.lacks_sockets |= descriptors.len() < keys.len();
        for (key, descriptor) in keys.into_iter().zip(descriptors) {
            self.table.insert(key.clone(), descriptor);
            self.received.push(key);
        }
    }

    /// Whether sockets for the next load are missing.
    pub(crate) fn lacks_sockets(&self) -> bool {
        self.lacks_sockets
    }

    /// Closes the sockets that came for a load that does not take place.
    pub(crate) fn forget_received(&mut self) {
        self.lacks_sockets = false;
        let received = std::mem::take(&mut self.received);
        self.table.remove(&received);
    }

    /// Takes the sockets that were made for the next load.
    pub(crate) fn commit(&mut self, prepared: Prepared) -> Result<(), BindError> {
        self.received = self.table.commit(prepared)?;
        Ok(())
    }

    pub(crate) fn service(&mut self) -> &mut S {
        &mut self.service
    }

    /// Gives the service a configuration. When this returns `Ok`, nothing accepts for the former one any more.
    /// Whatever comes of it, sockets that are not used then are closed here.
    pub(crate) async fn load(&mut self, header: PlanHeader, blob: Vec<u8>) -> Result<(), String> {
        let (load, last_use) = make_load(&self.table, &header, blob);
        // NOTE: before the service stops its acceptors, which look at the mark.
        let unused = self.table.unused(&header.listeners);
        self.table.set_retired(&unused, true);
        let result = self.service.load(load).await;
        let received = std::mem::take(&mut self.received);
        if result.is_ok() {
            self.listeners = header.listeners;
            self.hard_stop_after = header.settings.hard_stop_after;
            self.grace = header.settings.grace;
            footprint::forget_the_start();
            if let Some(former) = self.last_use.replace(last_use)
                && tokio::time::timeout(STOP_MAX, former.wait()).await.is_err()
            {
                log::warning!("acceptors of the former configuration take their time to stop");
            }
        } else {
            self.table.set_retired(&unused, false);
            self.table.remove(&received);
        }
        let unused = self.table.unused(&self.listeners);
        self.table.remove(&unused);
        result
    }

    /// Lets the service finish, but not longer than `hard-stop-after`. Calls `closed` when nothing is accepted any
    /// more. Returns the exit code.
    pub(crate) async fn drain(&mut self, reason: DrainReason, closed: impl FnOnce()) -> i32 {
        if reason == DrainReason::Stop
            && let Some(grace) = self.grace
        {
            // Whoever sends the traffic shall notice in peace.
            tokio::time::sleep(grace).await;
        }
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
        let last_use = self.last_use.take();
        let watch = async {
            if let Some(last_use) = last_use {
                last_use.wait().await;
            }
            closed();
            std::future::pending::<()>().await
        };
        tokio::select! {
            () = self.service.drain(reason) => {}
            () = watch => {}
            () = end => {
                // What it takes longer for ends with the process.
                let _ = tokio::time::timeout(HARD_STOP_MAX, self.service.hard_stop()).await;
            }
        }
        0
    }
}
