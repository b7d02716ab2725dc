//! What the coordinator says, as it changes: a thread that waits for changes, and one that keeps this agent's own record alive.

use std::{io, sync::Arc, thread, time::Duration};

use coord::{Change, CoordError, Coordinator, Revision, Transaction, keys::Keys};

/// How long a question for changes waits at the coordinator.
const WATCH: Duration = Duration::from_secs(2);
/// How long after a failure it is asked again.
const PAUSE: Duration = Duration::from_millis(200);
/// How long an agent's record outlives it.
const REGISTERED: Duration = Duration::from_secs(10);
/// How often it is kept alive.
const KEPT_EACH: Duration = Duration::from_secs(2);

/// What is heard.
#[derive(Debug)]
pub enum Heard {
    /// These, in order.
    Changes(Vec<Change>),
    /// Too much to be told: everything is to be read again.
    Everything,
}

/// Begins to watch after a revision. It ends when `tell` says so.
///
/// # Errors
///
/// The system has no thread left.
pub fn start(
    coordinator: Arc<dyn Coordinator>,
    keys: Keys,
    after: Revision,
    tell: impl Fn(Heard) -> bool + Send + 'static,
) -> io::Result<()> {
    let watch = move || {
        let mut after = after;
        loop {
            let goes_on = match coordinator.watch(&keys.all(), after, WATCH) {
                Ok(changes) => {
                    after = changes.last().map_or(after, |change| change.revision.max(after));
                    changes.is_empty() || tell(Heard::Changes(changes))
                }
                Err(CoordError::Compacted(_)) => match coordinator.list(&keys.leader()) {
                    Ok((revision, _)) => {
                        after = revision;
                        tell(Heard::Everything)
                    }
                    Err(_) => true,
                },
                Err(_) => {
                    thread::sleep(PAUSE);
                    true
                }
            };
            if !goes_on {
                return;
            }
        }
    };
    thread::Builder::new().name("coordinator".into()).spawn(watch).map(drop)
}

/// Registers an agent, and keeps it registered.
///
/// # Errors
///
/// The system has no thread left.
pub fn register(coordinator: Arc<dyn Coordinator>, key: String, value: Vec<u8>) -> io::Result<()> {
    let keep = move || {
        let mut lease = None;
        loop {
            let kept = match lease {
                Some(lease) => coordinator.keep_alive(lease).map(|()| lease),
                None => coordinator.grant(REGISTERED).and_then(|lease| {
                    let transaction = Transaction::new().put_under(&key, value.clone(), lease);
                    coordinator.commit(transaction).map(|_| lease)
                }),
            };
            match kept {
                Ok(kept) => {
                    lease = Some(kept);
                    thread::sleep(KEPT_EACH);
                }
                Err(CoordError::NoLease(_)) => lease = None,
                Err(_) => thread::sleep(PAUSE),
            }
        }
    };
    thread::Builder::new().name("registration".into()).spawn(keep).map(drop)
}
