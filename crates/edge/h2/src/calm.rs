//! How much a peer may have done that is no use to it: [`h2h3::Calm`], with what HTTP/2 has to count.

use crate::error::ConnectionError;

/// What something costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// A stream that the client resets before its answer is over: rapid reset, CVE-2023-44487.
    Reset,
    /// A stream that this side resets for what the client has sent: CVE-2025-8671, "MadeYouReset".
    StreamError,
    /// A stream beyond those that are allowed at a time.
    Refused,
    /// SETTINGS.
    Settings,
    /// PING.
    Ping,
    /// WINDOW_UPDATE.
    WindowUpdate,
    /// PRIORITY, PRIORITY_UPDATE, and frames of unknown types.
    Ignored,
    /// DATA without data that does not end its stream.
    EmptyData,
    /// CONTINUATION.
    Continuation,
}

impl Cost {
    fn points(self) -> u32 {
        match self {
            Self::Refused | Self::WindowUpdate | Self::Ignored => 1,
            Self::Ping | Self::EmptyData | Self::Continuation => 2,
            Self::Reset => 5,
            Self::StreamError | Self::Settings => 10,
        }
    }

    fn excess(self) -> &'static str {
        match self {
            Self::Reset => "too many streams that are reset",
            Self::StreamError => "too many errors of streams",
            Self::Refused => "too many streams beyond those that are allowed",
            Self::Settings => "too many SETTINGS",
            Self::Ping => "too many PINGs",
            Self::WindowUpdate => "too many WINDOW_UPDATEs",
            Self::Ignored => "too many frames without a meaning",
            Self::EmptyData => "too many empty DATA frames",
            Self::Continuation => "too many CONTINUATIONs",
        }
    }
}

/// A connection's stock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Calm(h2h3::Calm);

impl Calm {
    /// Takes the time, in milliseconds from some fixed moment on.
    pub fn look_at_clock(&mut self, now_ms: u64) {
        self.0.look_at_clock(now_ms);
    }

    /// Something of use has been done.
    #[inline]
    pub fn earn(&mut self, points: u32) {
        self.0.earn(points);
    }

    /// So many bytes of bodies have gone, or come, in a piece.
    #[inline]
    pub fn earn_by(&mut self, bytes: usize) {
        self.0.earn_by(bytes);
    }

    /// The peer has done this.
    ///
    /// # Errors
    /// When that was too much.
    #[inline]
    pub fn spend(&mut self, on: Cost) -> Result<(), ConnectionError> {
        if self.0.spend(on.points()) { Ok(()) } else { Err(ConnectionError::calm(on.excess())) }
    }
}
