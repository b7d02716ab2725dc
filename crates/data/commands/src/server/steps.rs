//! Commands in steps that are one function, called until it says that it is done.

use std::fmt;

use keyspace::Failure;
use resp::{Protocol, Reply};

use crate::Context;

use super::tasks::{Progress, Work};

/// A command in steps as a function.
pub struct Steps<F> {
    step: F,
    changes: bool,
    appends: bool,
}

impl<F> fmt::Debug for Steps<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Steps").field("changes", &self.changes).finish_non_exhaustive()
    }
}

impl<F: FnMut(&mut Context<'_>, usize) -> Result<Progress, Failure>> Work for Steps<F> {
    fn step(&mut self, context: &mut Context<'_>, budget: usize) -> Result<Progress, Failure> {
        (self.step)(context, budget)
    }

    fn changes(&self) -> bool {
        self.changes
    }

    fn appends(&self) -> bool {
        self.appends
    }
}

/// A call of the `SCAN` family that looks at very many, as its client has asked for.
#[derive(Debug)]
pub struct Scanning {
    cursor: u64,
    /// How many are still to be looked at.
    left: usize,
    found: usize,
    scan: ScanSome,
}

/// Looks at about so many from a cursor on, and writes those that are wanted. Returns the next cursor, and how many elements the
/// reply has got.
pub type ScanSome = fn(&mut Context<'_>, u64, usize) -> Result<(u64, usize), Failure>;

impl Scanning {
    /// One that begins at a cursor.
    pub fn new(cursor: u64, count: usize, scan: ScanSome) -> Self {
        Self { cursor, left: count, found: 0, scan }
    }
}

impl Work for Scanning {
    fn appends(&self) -> bool {
        true
    }

    fn head(&mut self) -> Option<Vec<u8>> {
        let mut head = Vec::new();
        let mut reply = Reply::new(&mut head, Protocol::Resp2);
        reply.array(2);
        reply.bulk(itoa::Buffer::new().format(self.cursor).as_bytes());
        reply.array(self.found);
        Some(head)
    }

    fn step(&mut self, context: &mut Context<'_>, budget: usize) -> Result<Progress, Failure> {
        let some = self.left.min(budget);
        let (next, found) = (self.scan)(context, self.cursor, some)?;
        (self.cursor, self.left, self.found) = (next, self.left - some, self.found + found);
        Ok(Progress::over_if(next == 0 || self.left == 0))
    }
}

/// One that changes nothing before its last step.
pub fn reading_steps<F>(step: F) -> Steps<F>
where
    F: FnMut(&mut Context<'_>, usize) -> Result<Progress, Failure>,
{
    Steps { step, changes: false, appends: false }
}

/// The same, and what a step has written into the reply is not looked at again.
pub fn giving_steps<F>(step: F) -> Steps<F>
where
    F: FnMut(&mut Context<'_>, usize) -> Result<Progress, Failure>,
{
    Steps { step, changes: false, appends: true }
}

/// One that changes its key step by step.
pub fn changing_steps<F>(step: F) -> Steps<F>
where
    F: FnMut(&mut Context<'_>, usize) -> Result<Progress, Failure>,
{
    Steps { step, changes: true, appends: false }
}

impl Progress {
    /// As something says that it is over, or not.
    pub fn over_if(is_over: bool) -> Self {
        if is_over { Self::Done } else { Self::More }
    }
}

impl Context<'_> {
    /// Does what cannot be said to be about few elements before it has been tried: if so many as may be done at once are not all,
    /// what was written is taken back, and all of it is done over several turns. It must be one that only reads.
    ///
    /// # Errors
    ///
    /// As of [`Work::step`].
    pub fn try_on<W: Work + 'static>(&mut self, begin: impl Fn() -> W) -> Result<(), Failure> {
        if !self.session.takes_steps(usize::MAX, self.shared) {
            return self.work_off(&mut begin());
        }
        let start = self.reply.position();
        if begin().step(self, self.shared.step_limits.from)? == Progress::More {
            self.reply.truncate(start);
            self.shared.tasks.begun = Some(Box::new(begin()));
        }
        Ok(())
    }
}
