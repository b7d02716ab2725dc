//! Carries a plan out: chunks of a body in, bytes to deliver and includes out.

use bytes::Bytes;

use super::{Include, Piece, Plan};

/// What comes next of a page.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<'p> {
    /// These bytes.
    Deliver(Bytes),
    /// This object.
    Include(&'p Include),
    /// This object would be included, but it is too deep in others (`max_esi_depth`): it is left out.
    TooDeep(&'p Include),
    /// The next chunk of the body is needed.
    NeedsChunk,
    /// Nothing: that was all.
    End,
}

/// A page that is delivered by its plan.
#[derive(Debug)]
pub struct Assembly<'p> {
    pieces: std::slice::Iter<'p, Piece>,
    current: Option<Run>,
    chunk: Bytes,
    includes_allowed: bool,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    left: u64,
    is_delivered: bool,
}

impl<'p> Assembly<'p> {
    /// A page that is itself included in `level` others, of which there may be `level_max`.
    #[must_use]
    pub fn new(plan: &'p Plan, level: u32, level_max: u32) -> Self {
        Self { pieces: plan.pieces.iter(), current: None, chunk: Bytes::new(), includes_allowed: level < level_max }
    }

    /// Gives it the next chunk of the body, after [`Step::NeedsChunk`].
    pub fn push(&mut self, chunk: Bytes) {
        self.chunk = chunk;
    }

    /// What comes next.
    pub fn step(&mut self) -> Step<'p> {
        loop {
            let run = match self.current.take() {
                Some(run) => run,
                None => match self.pieces.next() {
                    Some(Piece::Deliver(bytes)) => Run { left: *bytes, is_delivered: true },
                    Some(Piece::Skip(bytes)) => Run { left: *bytes, is_delivered: false },
                    Some(Piece::Include(include)) if self.includes_allowed => return Step::Include(include),
                    Some(Piece::Include(include)) => return Step::TooDeep(include),
                    None => return Step::End,
                },
            };
            if run.left == 0 {
                continue;
            }
            if self.chunk.is_empty() {
                self.current = Some(run);
                return Step::NeedsChunk;
            }
            let bytes = usize::try_from(run.left).unwrap_or(usize::MAX).min(self.chunk.len());
            let taken = self.chunk.split_to(bytes);
            self.current = Some(Run { left: run.left - bytes as u64, ..run });
            if run.is_delivered {
                return Step::Deliver(taken);
            }
        }
    }
}
