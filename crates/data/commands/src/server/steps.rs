//! Commands in steps that are one function, called until it says that it is done.

use std::fmt;

use crate::{Context, Failure};

use super::tasks::{Progress, Work};

/// A command in steps as a function.
pub struct Steps<F> {
    step: F,
    changes: bool,
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
}

/// One that changes nothing before its last step.
pub fn reading_steps<F>(step: F) -> Steps<F>
where
    F: FnMut(&mut Context<'_>, usize) -> Result<Progress, Failure>,
{
    Steps { step, changes: false }
}

/// One that changes its key step by step.
pub fn changing_steps<F>(step: F) -> Steps<F>
where
    F: FnMut(&mut Context<'_>, usize) -> Result<Progress, Failure>,
{
    Steps { step, changes: true }
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
        if begin().step(self, self.shared.pace.from)? == Progress::More {
            self.reply.truncate(start);
            self.session.work = Some(Box::new(begin()));
        }
        Ok(())
    }
}
