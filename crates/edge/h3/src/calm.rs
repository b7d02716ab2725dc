//! How much a client may have done that is no use to it: [`h2h3::Calm`], with what HTTP/3 has to count.

use h2h3::CalmLimits;

use crate::error::{ConnectionError, ErrorCode};

/// What something costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// A stream that the client resets or stops before its answer is over: rapid reset, CVE-2023-44487.
    Reset,
    /// A stream that this side resets for what the client has sent.
    StreamError,
    /// A request behind the last one that is served.
    Refused,
    /// Frames and streams without a meaning, priorities, pushes that are allowed.
    Ignored,
    /// DATA without data.
    EmptyData,
    /// An entry of QPACK's table.
    TableEntry,
}

impl Cost {
    fn points(self) -> u32 {
        match self {
            Self::Refused | Self::Ignored | Self::TableEntry => 1,
            Self::EmptyData => 2,
            Self::Reset => 5,
            Self::StreamError => 10,
        }
    }

    fn excess(self) -> &'static str {
        match self {
            Self::Reset => "too many streams that are reset",
            Self::StreamError => "too many errors of streams",
            Self::Refused => "too many requests after the end was announced",
            Self::Ignored => "too many frames without a meaning",
            Self::EmptyData => "too many empty DATA frames",
            Self::TableEntry => "too many entries of the table",
        }
    }
}

/// A connection's stock.
#[derive(Clone, Copy, Debug)]
pub struct Calm(h2h3::Calm);

impl Calm {
    /// A whole one.
    pub fn new(limits: CalmLimits) -> Self {
        Self(h2h3::Calm::new(limits))
    }

    /// Takes the time, in milliseconds from some fixed moment on.
    pub fn look_at_clock(&mut self, now_ms: u64) {
        self.0.look_at_clock(now_ms);
    }

    /// Something of use has been done.
    pub fn earn(&mut self, points: u32) {
        self.0.earn(points);
    }

    /// So many bytes of bodies have gone, or come, in a piece.
    pub fn earn_by(&mut self, bytes: usize) {
        self.0.earn_by(bytes);
    }

    /// The client has done this.
    ///
    /// # Errors
    /// When that was too much.
    pub fn spend(&mut self, on: Cost) -> Result<(), ConnectionError> {
        if self.0.spend(on.points()) {
            Ok(())
        } else {
            Err(ConnectionError::new(ErrorCode::EXCESSIVE_LOAD, on.excess()))
        }
    }
}
