//! The thread that understands the source's copy, and gives the target its part.

use std::{
    io::{self, BufReader, Read},
    sync::{
        Arc,
        atomic::Ordering,
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use super::{
    Filter, FilterError, Move, Shared,
    lifetimes::{Destination, LifetimeError},
    pace::CopySpeed,
    stream::{MoveError, check},
    value::{self, ValueError},
};
use crate::{
    clock,
    import::{
        rdb::{self, Entry, Head},
        source::Source,
        value::skip,
    },
};

/// Pieces of the copy that wait to be understood.
const PIECES_MAX: usize = 16;
/// How often is looked whether times of keys come near.
const TENDED_EACH: Duration = Duration::from_secs(1);
/// Bytes of one read.
const READ_LEN: usize = 256 << 10;

/// The thread, as the mover sees it.
pub struct Loading {
    pieces: Option<SyncSender<Vec<u8>>>,
    /// One that found no room.
    waiting: Option<Vec<u8>>,
    is_whole: bool,
    pub thread: JoinHandle<Result<Destination, MoveError>>,
}

impl Loading {
    pub fn start(target: Destination, task: Move, shared: Arc<Shared>) -> Result<Self, MoveError> {
        let (pieces, come) = sync_channel(PIECES_MAX);
        let load = move || load(target, &task, &shared, Pieces { come, piece: Vec::new(), at: 0 });
        let thread = thread::Builder::new().name("slots-copy".into()).spawn(load);
        let thread = thread.map_err(|error| MoveError::System(error.to_string()))?;
        Ok(Self { pieces: Some(pieces), waiting: None, is_whole: false, thread })
    }

    /// Whether a piece finds room.
    pub fn takes_more(&mut self) -> bool {
        if let (Some(pieces), Some(piece)) = (&self.pieces, self.waiting.take()) {
            match pieces.try_send(piece) {
                Err(TrySendError::Full(piece)) => self.waiting = Some(piece),
                // Of a thread that has ended the reason is heard later.
                Ok(()) | Err(TrySendError::Disconnected(_)) => {}
            }
        }
        if self.waiting.is_none() && self.is_whole {
            self.pieces = None;
        }
        self.waiting.is_none()
    }

    /// A part of the copy.
    pub fn give(&mut self, bytes: Vec<u8>) {
        self.waiting = Some(bytes);
        self.takes_more();
    }

    /// There is no more.
    pub fn end(&mut self) {
        self.is_whole = true;
        self.takes_more();
    }

    pub fn finish(self) -> Result<Destination, MoveError> {
        drop(self.pieces);
        self.thread.join().unwrap_or_else(|_| Err(MoveError::System("the copy's thread has panicked".into())))
    }
}

fn load(mut target: Destination, task: &Move, shared: &Shared, pieces: Pieces) -> Result<Destination, MoveError> {
    let filter = Filter::new(&[task.slots]);
    let mut pace = CopySpeed::new();
    let of_target = |error: LifetimeError| MoveError::of_target(task.target, error);
    let mut tended = Instant::now();
    let mut source = Source::new(BufReader::with_capacity(READ_LEN, pieces));
    rdb::begin(&mut source).map_err(MoveError::Copy)?;
    let mut database = 0;
    while let Some(head) = rdb::next_head(&mut source).map_err(MoveError::Copy)? {
        match head {
            Head::Other(Entry::Database(number)) => database = number,
            Head::Other(_) => {}
            Head::Key { name, expires, form } if filter.has(&name) => {
                if database != 0 {
                    return Err(FilterError::Database(database.to_string()).into());
                }
                let mut sink = |words: &[&[u8]]| -> Result<(), LifetimeError> {
                    target.send(words, clock::now().unsigned_abs())?;
                    let mut wait = pace.after(words.iter().map(|word| word.len() as u64).sum(), shared);
                    while !wait.is_zero() && !shared.stops.load(Ordering::Relaxed) {
                        target.target.finish()?;
                        let step = wait.min(TENDED_EACH);
                        pace.sleep(step, shared);
                        wait = if pace.is_still(shared) { wait - step } else { Duration::ZERO };
                        target.tend(clock::now().unsigned_abs())?;
                    }
                    Ok(())
                };
                value::send(&mut source, (&name, expires, form), &mut sink).map_err(|error| match error {
                    ValueError::Copy(problem) => MoveError::Copy(problem),
                    ValueError::Target(error) => of_target(error),
                })?;
                if tended.elapsed() >= TENDED_EACH {
                    tended = Instant::now();
                    target.tend(clock::now().unsigned_abs()).map_err(of_target)?;
                }
                check(&target.target)?;
                shared.keys.fetch_add(1, Ordering::Relaxed);
            }
            Head::Key { form, .. } => skip(form, &mut source).map_err(MoveError::Copy)?,
        }
        if shared.stops.load(Ordering::Relaxed) {
            return Err(MoveError::System("the move was ended".into()));
        }
    }
    target.target.finish().map_err(|error| of_target(error.into()))?;
    check(&target.target)?;
    Ok(target)
}

/// The parts of the copy, as a file is read.
struct Pieces {
    come: Receiver<Vec<u8>>,
    piece: Vec<u8>,
    at: usize,
}

impl Read for Pieces {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.at >= self.piece.len() {
            let Ok(piece) = self.come.recv() else { return Ok(0) };
            (self.piece, self.at) = (piece, 0);
        }
        let rest = self.piece.get(self.at..).unwrap_or_default();
        let count = rest.len().min(into.len());
        if let (Some(to), Some(from)) = (into.get_mut(..count), rest.get(..count)) {
            to.copy_from_slice(from);
        }
        self.at += count;
        Ok(count)
    }
}
