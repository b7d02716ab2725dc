//! The log's threads.

use std::{
    io,
    num::NonZeroU64,
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use mio::Waker;
use oplog::{Log, Offset, disk::RealDisk};
use rustix::thread::set_current_timer_slack;

use shard::{SyncRequest, chain};

use crate::messages;

/// How to ask the syncing thread, what it tells, and the thread.
pub type Syncing = (mpsc::SyncSender<SyncRequest>, mpsc::Receiver<String>, thread::JoinHandle<()>);

/// Whether nobody is to be waited for. What was asked while the last sync was under way does not say so any more.
fn is_by_all(request: SyncRequest, durable: Offset) -> bool {
    request == SyncRequest::AllWritten(durable)
}

/// The next sync begins no sooner after one than this part of the time that it took, unless all have written.
const GATHER_PART: u32 = 4;
/// Nor so long after it, whatever it took.
const GATHER_TIME_MAX: Duration = Duration::from_millis(1);

/// Starts the thread that makes the log durable: when it is asked to, and each second.
///
/// Clients that write again and again would fall into two halves, each of which writes while the other one is synced, and waits for
/// two syncs. So the next sync waits a little for those whom the last one has let go on.
pub fn start_syncer(log: &Log<RealDisk>, waker: Arc<Waker>) -> io::Result<Syncing> {
    const EACH: Duration = Duration::from_secs(1);
    let mut syncer = log.syncer();
    // Few requests wait at most: a sync that begins after one covers all that was written before.
    let (request, requests) = mpsc::sync_channel::<SyncRequest>(2);
    let (failed, failures) = mpsc::channel();
    let thread = thread::Builder::new().name("log-sync".into()).spawn(move || {
        // To the microsecond; threads are woken up to 50 us late otherwise.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        let mut gathers_until = Instant::now();
        loop {
            match requests.recv_timeout(EACH) {
                Ok(request) if is_by_all(request, syncer.durable()) => {}
                Ok(_) => wait_for_all(&requests, syncer.durable(), gathers_until),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            }
            if !syncer.is_behind() {
                continue;
            }
            let began = Instant::now();
            if let Err(error) = syncer.sync() {
                let _ = failed.send(chain(&error));
                let _ = waker.wake();
                return;
            }
            let ended = Instant::now();
            gathers_until = ended + ((ended - began) / GATHER_PART).min(GATHER_TIME_MAX);
            let _ = waker.wake();
        }
    })?;
    Ok((request, failures, thread))
}

/// Waits until all have written, but no longer than to a moment.
fn wait_for_all(requests: &mpsc::Receiver<SyncRequest>, durable: Offset, end: Instant) {
    loop {
        let patience = end.saturating_duration_since(Instant::now());
        match requests.recv_timeout(patience) {
            Ok(request) if !patience.is_zero() && !is_by_all(request, durable) => {}
            _ => return,
        }
    }
}

/// Starts the thread that prepares segments of the log and removes old ones.
pub fn start_maintainer(log: &Log<RealDisk>) -> io::Result<(mpsc::SyncSender<()>, thread::JoinHandle<()>)> {
    let mut maintainer = log.maintainer();
    let (request, requests) = mpsc::sync_channel(1);
    let thread = thread::Builder::new().name("log-maintain".into()).spawn(move || {
        // Nothing is prepared for a log that nobody writes to.
        while requests.recv().is_ok() {
            if maintainer.is_needed()
                && let Err(error) = maintainer.run()
            {
                messages::warn(&format!("segments of the log cannot be prepared: {}", chain(&error)));
            }
        }
    })?;
    Ok((request, thread))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long is waited for these requests, of the time that may be.
    fn waited(requests: &[SyncRequest], patience: Duration) -> Duration {
        let (request, asked) = mpsc::sync_channel(requests.len());
        for one in requests {
            request.send(*one).unwrap();
        }
        let began = Instant::now();
        wait_for_all(&asked, Offset(100), began + patience);
        began.elapsed()
    }

    #[test]
    fn a_sync_waits_for_all_who_were_let_go_but_not_for_ever() {
        let (long, short) = (Duration::from_secs(60), Duration::from_millis(20));
        assert!(waited(&[SyncRequest::Written, SyncRequest::AllWritten(Offset(100))], long) < long);
        // Asked before the sync ended that let them go.
        let stale = SyncRequest::AllWritten(Offset(60));
        assert!(waited(&[stale, SyncRequest::AllWritten(Offset(100))], long) < long);
        assert!(waited(&[stale, SyncRequest::Written], short) >= short);
        assert!(waited(&[], Duration::ZERO) < long);
    }

    #[test]
    fn who_will_never_ask_is_not_waited_for() {
        let (request, asked) = mpsc::sync_channel(1);
        drop(request);
        let began = Instant::now();
        wait_for_all(&asked, Offset(0), began + Duration::from_secs(60));
        assert!(began.elapsed() < Duration::from_secs(60));
    }
}
