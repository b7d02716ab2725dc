//! The thread of a move: the source's copy and log in, commands for the target out.

use std::{
    fmt,
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    sync::{Arc, PoisonError, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

use oplog::{Offset, ReplicationId};
use replication::{
    cut::Piece,
    replica::{Event, Link, LinkError, LinkOptions, Position},
};
use resp::{Limits, Progress, RequestParser};

use super::{
    Filter, FilterError, Move, Phase, Shared,
    copy::Loading,
    filter::Passed,
    lifetimes::{Destination, LifetimeError},
};
use crate::{
    clock,
    import::{Problem, target::Target},
};

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);
/// How long is waited for something to come.
const TURN: Duration = Duration::from_millis(20);
/// How long is waited for the copy's thread to take more.
const FULL_TURN: Duration = Duration::from_millis(2);
/// A source that says nothing for so long has gone, in milliseconds.
const SILENCE_MS: i64 = 60_000;
/// How long after a pause has begun keys get their own times, if the source is never silent.
const SETTLED_AFTER: Duration = Duration::from_millis(100);
/// Bytes of one read.
const READ_LEN: usize = 256 << 10;
/// Keys that the target removes at once.
const REMOVED_AT_ONCE: &str = "500";
/// Slots that it looks through at once: it serves nobody meanwhile.
const WALKED_AT_ONCE: usize = 16;
/// A target that does not answer for so long has gone.
const TARGET_PATIENCE: Duration = Duration::from_secs(20);

/// Why a move ends.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// The connection to the source.
    #[error("the source {0}: {1}")]
    Source(SocketAddr, io::Error),
    /// The connection to the target.
    #[error("the target {0}: {1}")]
    Target(SocketAddr, io::Error),
    /// The source cannot be followed.
    #[error("the source {0}: {1}")]
    Link(SocketAddr, LinkError),
    /// Its copy is not right.
    #[error("the source's copy: {0}")]
    Copy(Problem),
    /// The target does not take something.
    #[error("the target refuses {0}")]
    Refused(String),
    /// A command is about more than the slots.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// Times of keys.
    #[error("{0}")]
    Lifetimes(LifetimeError),
    /// A thread.
    #[error("{0}")]
    System(String),
}

impl MoveError {
    /// Of what a server was given.
    pub(super) fn of_target(target: SocketAddr, error: LifetimeError) -> Self {
        match error {
            LifetimeError::Target(error) => Self::Target(target, error),
            other => Self::Lifetimes(other),
        }
    }
}

/// Moves until it is stopped.
pub(super) fn run(task: &Move, shared: &Arc<Shared>) -> Result<(), MoveError> {
    let of_source = |error| MoveError::Source(task.source, error);
    let of_link = |error| MoveError::Link(task.source, error);
    let mut target = Some(open(task, shared)?);
    let filter = Filter::new(&[task.slots]);
    let mut stream = TcpStream::connect_timeout(&task.source, CONNECT).map_err(of_source)?;
    stream.set_nodelay(true).and_then(|()| stream.set_read_timeout(Some(TURN))).map_err(of_source)?;
    let mut link = connected_link(task)?;
    let mut loading: Option<Loading> = None;
    let mut buffer = vec![0; READ_LEN];
    let mut settling = Settling::default();
    while !shared.stops.load(Ordering::Relaxed) {
        if let Some(bytes) = link.poll_transmit() {
            stream.write_all(&bytes).map_err(of_source)?;
        }
        // What the copy's thread does not take yet waits where it is, and the source is told that it is waited for.
        while loading.as_mut().is_none_or(Loading::takes_more)
            && let Some(event) = link.poll_event().map_err(of_link)?
        {
            match event {
                Event::Continued(..) => return Err(MoveError::System("the source sends no copy".into())),
                Event::FullCopy(position, _) => {
                    shared.applied.store(position.offset.0, Ordering::Release);
                    let target = target.take().ok_or_else(|| MoveError::System("a second copy".into()))?;
                    loading = Some(Loading::start(target, task.clone(), Arc::clone(shared))?);
                }
                Event::Snapshot(bytes) => {
                    shared.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                    if let Some(loading) = &mut loading {
                        loading.give(bytes);
                    }
                }
                Event::SnapshotEnd => {
                    if let Some(loading) = &mut loading {
                        loading.end();
                    }
                }
                Event::Piece(piece) => {
                    let Some(target) = &mut target else { continue };
                    shared.bytes.fetch_add(piece.bytes.len() as u64, Ordering::Relaxed);
                    apply((task, &filter), target, &piece)?;
                    if target.lacks_times() {
                        shared.lacks_times.store(true, Ordering::Release);
                    }
                    shared.applied.store(piece.end().0, Ordering::Release);
                }
            }
        }
        if let Some(loaded) = loading.take_if(|loading| loading.thread.is_finished()) {
            let loaded = loaded.finish()?;
            shared.lacks_times.store(loaded.lacks_times(), Ordering::Release);
            target = Some(loaded);
            link.loaded(clock::now()).map_err(of_link)?;
            *shared.phase.lock().unwrap_or_else(PoisonError::into_inner) = Phase::Following;
            // The source waits for what there is to be told.
            continue;
        }
        let is_full = loading.as_mut().is_some_and(|loading| !loading.takes_more());
        if link.wants_bytes() && !is_full {
            match stream.read(&mut buffer) {
                Ok(0) => return Err(of_source(io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => {
                    link.handle_bytes(buffer.get(..count).unwrap_or_default(), clock::now()).map_err(of_link)?;
                }
                Err(error) if is_early(&error) => settling.is_quiet = true,
                Err(error) => return Err(of_source(error)),
            }
        } else if loading.is_some() {
            thread::sleep(FULL_TURN);
        }
        if let Some(target) = &mut target {
            settling.look_after(target, shared).map_err(|error| MoveError::of_target(task.target, error))?;
        }
        link.handle_time(clock::now()).map_err(of_link)?;
    }
    Ok(())
}

/// The link to the source, to which there is a connection.
fn connected_link(task: &Move) -> Result<Link, MoveError> {
    let login = task.source_login.clone();
    let (user, password) = login.map_or((None, None), |login| (login.user, Some(login.password)));
    let (user, password) = (user.map(String::into_bytes), password.map(String::into_bytes));
    let slots = Some(task.slots);
    let node = task.nodes.0.clone();
    let options = LinkOptions { user, password, timeout_ms: SILENCE_MS, slots, node, ..LinkOptions::default() };
    // A history that nobody has: all keys are wanted.
    let history = ReplicationId::parse(&[b'0'; 40]).ok_or_else(|| MoveError::System("no name for a history".into()))?;
    let mut link = Link::new(options, Position { history, offset: Offset(0) }, clock::now());
    link.handle_connected(clock::now());
    Ok(link)
}

/// When keys at a Redis get which times.
#[derive(Default)]
struct Settling {
    /// Since when commands on the slots wait, if they do.
    paused: Option<Instant>,
    /// Whether nothing has come from the source since this was last looked at.
    is_quiet: bool,
    has_settled: bool,
}

impl Settling {
    fn look_after(&mut self, target: &mut Destination, shared: &Shared) -> Result<(), LifetimeError> {
        let now = clock::now().unsigned_abs();
        let is_quiet = std::mem::take(&mut self.is_quiet);
        if !shared.is_paused.load(Ordering::Acquire) {
            self.paused = None;
            if std::mem::take(&mut self.has_settled) {
                shared.lacks_times.store(true, Ordering::Release);
                target.unsettle(now)?;
            }
            target.tend(now)?;
            shared.lacks_times.store(target.lacks_times(), Ordering::Release);
            return Ok(());
        }
        let since = *self.paused.get_or_insert_with(Instant::now);
        // What has been said before the pause is on its way, and may be about keys that expire in a moment.
        if target.lacks_times() && (is_quiet || since.elapsed() >= SETTLED_AFTER) {
            self.has_settled = true;
            target.settle(now)?;
            check(&target.target).map_err(|error| LifetimeError::Refused(error.to_string()))?;
            shared.lacks_times.store(false, Ordering::Release);
        }
        Ok(())
    }
}

fn is_early(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

/// The target, with nothing of the slots: what a move that failed has left there is removed.
fn open(task: &Move, shared: &Shared) -> Result<Destination, MoveError> {
    let of_target = |error| MoveError::Target(task.target, error);
    let stream = TcpStream::connect_timeout(&task.target, CONNECT).map_err(of_target)?;
    let own = stream.try_clone().map_err(of_target)?;
    *shared.target.lock().unwrap_or_else(PoisonError::into_inner) = Some(own);
    let login = task.target_login.as_ref();
    let login = login.map(|login| (login.user.as_deref(), login.password.as_str()));
    let mut target = Target::over(stream, login, TARGET_PATIENCE).map_err(of_target)?;
    if task.target_is_plain {
        end_others(task, &mut target)?;
        empty(task, &mut target)?;
        return Destination::redis(target, clock::now().unsigned_abs()).map_err(of_target);
    }
    if let Some(node) = &task.nodes.1 {
        let told = target.ask(&["CLUSTER", "CONNECTION", "NODE", node]).map_err(of_target)?;
        // A store of an earlier version does not know what it is asked.
        told.map(drop).or_else(|reason| {
            if resp::is_unknown(reason.as_bytes()) { Ok(()) } else { Err(MoveError::Refused(reason)) }
        })?;
    }
    if let Some(term) = task.term {
        let told = target.ask(&["CLUSTER", "CONNECTION", "AGENT", &term.to_string()]);
        told.map_err(of_target)?.map_err(MoveError::Refused)?;
    }
    let (first, last, epoch) = (task.slots.0.to_string(), task.slots.1.to_string(), task.epoch.to_string());
    let told = target.ask(&["CLUSTER", "CONNECTION", "MOVER", &first, &last, &epoch]).map_err(of_target)?;
    told.map_err(|reason| {
        MoveError::Refused(format!("what moves slots ({reason}): is it a store with `cluster-enabled yes`?"))
    })?;
    empty(task, &mut target)?;
    Ok(Destination::store(target))
}

/// Ends the connections of movers that have come to a Redis for these slots before, so that nothing of theirs is done any more. A Redis
/// does not tell movers apart, as a store does: each has a name there.
fn end_others(task: &Move, target: &mut Target) -> Result<(), MoveError> {
    let mut ask = |words: &[&str]| {
        let told = target.ask(words).map_err(|error| MoveError::Target(task.target, error))?;
        let name = words.iter().take(2).copied().collect::<Vec<_>>().join(" ");
        told.map_err(|reason| MoveError::Refused(format!("{name}: {reason}")))
    };
    let own = MoverName { slots: task.slots, term: task.term.unwrap_or(0) };
    ask(&["CLIENT", "SETNAME", &own.to_string()])?;
    let id = match ask(&["CLIENT", "ID"])? {
        resp::Value::Integer(id) => id.to_string(),
        other => return Err(MoveError::Refused(format!("CLIENT ID: its reply is no number: {other:?}"))),
    };
    let list = ask(&["CLIENT", "LIST"])?;
    let list = String::from_utf8_lossy(list.as_bytes().unwrap_or_default()).into_owned();
    let others = list.lines().filter_map(|line| {
        let field = |name: &str| line.split(' ').find_map(|field| field.strip_prefix(name));
        Some((field("id=").filter(|other| *other != id)?, MoverName::parse(field("name=")?)?))
    });
    for (other, name) in others.filter(|(_, name)| name.overlaps(&own)) {
        if name.term > own.term {
            let (first, last) = name.slots;
            return Err(MoveError::Refused(format!(
                "a copy: one of slots {first}-{last} by a later leader is at work"
            )));
        }
        // It may have ended by itself.
        ask(&["CLIENT", "KILL", "ID", other])?;
    }
    Ok(())
}

/// How a mover is called at a Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MoverName {
    slots: (u16, u16),
    /// That of whoever has it done.
    term: u64,
}

impl MoverName {
    const PREFIX: &str = "tidegate-slots:";

    fn parse(name: &str) -> Option<Self> {
        let (slots, term) = name.strip_prefix(Self::PREFIX)?.split_once(':')?;
        let (first, last) = slots.split_once('-')?;
        Some(Self { slots: (first.parse().ok()?, last.parse().ok()?), term: term.parse().ok()? })
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.slots.0 <= other.slots.1 && other.slots.0 <= self.slots.1
    }
}

impl fmt::Display for MoverName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}{}-{}:{}", Self::PREFIX, self.slots.0, self.slots.1, self.term)
    }
}

fn empty(task: &Move, target: &mut Target) -> Result<(), MoveError> {
    let of_target = |error| MoveError::Target(task.target, error);
    if task.target_is_plain {
        return empty_plain(task, target);
    }
    let last = task.slots.1;
    for first in (task.slots.0..=last).step_by(WALKED_AT_ONCE) {
        let end = first.saturating_add(WALKED_AT_ONCE as u16 - 1).min(last);
        let (first, end) = (first.to_string(), end.to_string());
        loop {
            let removed = target.ask(&["CLUSTER", "DELKEYSINSLOT", &first, &end, REMOVED_AT_ONCE]);
            let removed = removed.map_err(of_target)?.map_err(MoveError::Refused)?;
            if removed == resp::Value::Integer(0) {
                break;
            }
        }
    }
    Ok(())
}

/// Removes the keys of the slots from a Redis, which cannot be asked for them by slot.
fn empty_plain(task: &Move, target: &mut Target) -> Result<(), MoveError> {
    let of_target = |error| MoveError::Target(task.target, error);
    let filter = Filter::new(&[task.slots]);
    let mut cursor = b"0".to_vec();
    loop {
        let words: [&[u8]; 4] = [b"SCAN", &cursor, b"COUNT", REMOVED_AT_ONCE.as_bytes()];
        let reply = target.ask(&words).map_err(of_target)?.map_err(MoveError::Refused)?;
        let Some([next, keys]) = reply.as_slice() else {
            return Err(MoveError::Refused("SCAN: its reply has not two parts".into()));
        };
        for key in keys.as_slice().unwrap_or_default().iter().filter_map(resp::Value::as_bytes) {
            if filter.has(key) {
                target.send(&[b"UNLINK", key]).map_err(of_target)?;
            }
        }
        cursor = next.as_bytes().unwrap_or(b"0").to_vec();
        if cursor == b"0" {
            target.finish().map_err(of_target)?;
            return check(target);
        }
    }
}

/// Does at the target what a piece of the source's log says of the slots.
fn apply((task, filter): (&Move, &Filter), target: &mut Destination, piece: &Piece) -> Result<(), MoveError> {
    let of_target = |error: LifetimeError| MoveError::of_target(task.target, error);
    let now = clock::now().unsigned_abs();
    let mut parser = RequestParser::new();
    let mut rest = piece.bytes.as_slice();
    while !rest.is_empty() {
        let consumed = match parser.parse(rest, &Limits::default()) {
            Ok(Progress::Complete { consumed }) => {
                let words: Vec<&[u8]> = parser.arguments(rest).iter().collect();
                match filter.pass(&words)? {
                    Passed::Nothing => {}
                    Passed::Words(words) => target.send(&words, now).map_err(of_target)?,
                    Passed::Emptied => {
                        target.target.finish().map_err(|error| of_target(error.into()))?;
                        empty(task, &mut target.target)?;
                    }
                }
                consumed
            }
            Ok(Progress::Empty { consumed }) => consumed,
            _ => return Err(MoveError::System("the source's log ends in the middle of a command".into())),
        };
        rest = rest.get(consumed..).unwrap_or_default();
    }
    target.target.finish().map_err(|error| of_target(error.into()))?;
    check(&target.target)
}

pub(super) fn check(target: &Target) -> Result<(), MoveError> {
    match target.reasons.first() {
        Some(reason) => Err(MoveError::Refused(reason.clone())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_movers_say_for_which_slots_they_have_come() {
        let name = MoverName { slots: (5, 99), term: 7 };
        assert_eq!(name.to_string(), "tidegate-slots:5-99:7");
        assert_eq!(MoverName::parse("tidegate-slots:5-99:7"), Some(name));
        for other in ["", "worker", "tidegate-slots:", "tidegate-slots:5:7", "tidegate-slots:5-x:7"] {
            assert_eq!(MoverName::parse(other), None, "{other}");
        }
        let overlaps = |slots| name.overlaps(&MoverName { slots, term: 0 });
        assert!(overlaps((99, 100)) && overlaps((0, 5)) && overlaps((0, 16_383)) && !overlaps((100, 200)));
    }
}
