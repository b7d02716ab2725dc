//! The log's threads.

use std::{
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use mio::Waker;
use oplog::{Log, disk::RealDisk};

use crate::{StoreError, error::chain, messages};

/// How to ask a thread, what it tells, and the thread.
pub(super) type Syncing = (mpsc::SyncSender<()>, mpsc::Receiver<String>, thread::JoinHandle<()>);

/// Starts the thread that makes the log durable: when it is asked to, and each second.
pub(super) fn start_syncer(log: &Log<RealDisk>, waker: Arc<Waker>) -> Result<Syncing, StoreError> {
    const EACH: Duration = Duration::from_secs(1);
    let mut syncer = log.syncer();
    // One request waits at most: a sync that begins after it covers all that was written before.
    let (request, requests) = mpsc::sync_channel(1);
    let (failed, failures) = mpsc::channel();
    let thread = thread::Builder::new().name("log-sync".into()).spawn(move || {
        loop {
            match requests.recv_timeout(EACH) {
                Ok(()) | Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            }
            if !syncer.is_behind() {
                continue;
            }
            if let Err(error) = syncer.sync() {
                let _ = failed.send(chain(&error));
                let _ = waker.wake();
                return;
            }
            let _ = waker.wake();
        }
    })?;
    Ok((request, failures, thread))
}

/// Starts the thread that prepares segments of the log and removes old ones.
pub(super) fn start_maintainer(
    log: &Log<RealDisk>,
) -> Result<(mpsc::SyncSender<()>, thread::JoinHandle<()>), StoreError> {
    let mut maintainer = log.maintainer();
    let (request, requests) = mpsc::sync_channel(1);
    let thread = thread::Builder::new().name("log-maintain".into()).spawn(move || {
        loop {
            if maintainer.is_needed()
                && let Err(error) = maintainer.run()
            {
                messages::warn(&format!("segments of the log cannot be prepared: {}", chain(&error)));
            }
            if requests.recv().is_err() {
                return;
            }
        }
    })?;
    Ok((request, thread))
}
