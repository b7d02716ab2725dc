//! Runs of registers.

use super::{Corrupt, HEADER_LEN};

/// The longest runs of each kind, and the greatest value that a run can have.
const SHORT_ZEROS_MAX: usize = 64;
const VALUE_RUN_MAX: usize = 4;
const RUN_VALUE_MAX: u8 = 32;

/// Registers of the same value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Run {
    /// Zeros: of one byte up to 64 of them, of two bytes beyond.
    Zeros(usize),
    /// Zeros of two bytes although one would do.
    LongZeros(usize),
    /// Another value.
    Value {
        /// The value.
        value: u8,
        /// How many.
        len: usize,
    },
}

impl Run {
    /// How many registers.
    #[inline]
    pub fn len(self) -> usize {
        match self {
            Self::Zeros(len) | Self::LongZeros(len) | Self::Value { len, .. } => len,
        }
    }

    /// Whether there are none, which never is.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Whether it takes two bytes.
    #[inline]
    pub fn is_long(self) -> bool {
        matches!(self, Self::LongZeros(_)) || matches!(self, Self::Zeros(len) if len > SHORT_ZEROS_MAX)
    }

    #[inline]
    fn bytes(self) -> usize {
        if self.is_long() { 2 } else { 1 }
    }

    #[inline]
    fn read(bytes: &[u8]) -> Option<Self> {
        let first = *bytes.first()?;
        Some(if first & 0x80 != 0 {
            Self::Value { value: (first >> 2 & 0x1f) + 1, len: usize::from(first & 3) + 1 }
        } else if first & 0x40 != 0 {
            Self::LongZeros((usize::from(first & 0x3f) << 8 | usize::from(*bytes.get(1)?)) + 1)
        } else {
            Self::Zeros(usize::from(first & 0x3f) + 1)
        })
    }

    /// Appends it.
    pub(super) fn write(self, out: &mut Vec<u8>) {
        let rest = self.len() - 1;
        match self {
            Self::Value { value, .. } => out.push(0x80 | (value - 1) << 2 | rest as u8),
            _ if self.is_long() => out.extend([0x40 | (rest >> 8) as u8, rest as u8]),
            _ => out.push(rest as u8),
        }
    }
}

/// The runs in some bytes, up to the end or to what is none.
pub(super) fn runs(mut bytes: &[u8]) -> impl Iterator<Item = Run> + '_ {
    std::iter::from_fn(move || {
        let run = Run::read(bytes)?;
        bytes = bytes.get(run.bytes()..)?;
        Some(run)
    })
}

/// What became of a register.
pub(super) enum Raised {
    Yes,
    No,
    /// It cannot be had in this form.
    NoRoom,
}

/// The run of a register.
struct RunOfRegister {
    /// Where the run before it is, or it itself.
    before: usize,
    at: usize,
    run: Run,
    /// Its first register.
    first: usize,
}

fn find(bytes: &[u8], index: usize) -> Option<RunOfRegister> {
    let (mut before, mut at, mut first) = (HEADER_LEN, HEADER_LEN, 0);
    loop {
        let run = Run::read(bytes.get(at..)?)?;
        if index < first + run.len() {
            return Some(RunOfRegister { before, at, run, first });
        }
        before = at;
        at += run.bytes();
        first += run.len();
    }
}

/// Raises a register to a value if it is lower.
pub(super) fn raise(bytes: &mut Vec<u8>, index: usize, value: u8, bytes_max: usize) -> Result<Raised, Corrupt> {
    if value > RUN_VALUE_MAX {
        return Ok(Raised::NoRoom);
    }
    let RunOfRegister { before, at, run, first } = find(bytes, index).ok_or(Corrupt)?;
    if matches!(run, Run::Value { value: present, .. } if present >= value) {
        return Ok(Raised::No);
    }
    // What stays of the run on both sides of the register.
    let part = |len: usize| match run {
        Run::Value { value, .. } => Run::Value { value, len },
        _ => Run::Zeros(len),
    };
    let mut new = Vec::with_capacity(5);
    let (left, right) = (index - first, first + run.len() - 1 - index);
    if left > 0 {
        part(left).write(&mut new);
    }
    Run::Value { value, len: 1 }.write(&mut new);
    if right > 0 {
        part(right).write(&mut new);
    }
    if new.len() > run.bytes() && bytes.len() + new.len() - run.bytes() > bytes_max {
        return Ok(Raised::NoRoom);
    }
    bytes.splice(at..at + run.bytes(), new);
    merge(bytes, before);
    Ok(Raised::Yes)
}

/// Joins values that became neighbours of their like, within five runs from one on.
fn merge(bytes: &mut Vec<u8>, mut at: usize) {
    const RUNS: usize = 5;
    for _ in 0..RUNS {
        let Some(run) = bytes.get(at..).and_then(Run::read) else { return };
        if let Run::Value { value, len } = run
            && let Some(Run::Value { value: next, len: more }) = bytes.get(at + 1..).and_then(Run::read)
            && value == next
            && len + more <= VALUE_RUN_MAX
        {
            let mut joined = Vec::with_capacity(1);
            Run::Value { value, len: len + more }.write(&mut joined);
            bytes.splice(at..at + 2, joined);
            continue;
        }
        at += run.bytes();
    }
}
