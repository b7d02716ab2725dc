//! How much a client may have done that is no use to it.
//!
//! Streams that are reset, errors that make this side reset them, frames that carry nothing: each costs little to send, and work
//! here. A peer may do some of that: it changes its mind, it looks whether the connection lives, it opens windows. So each costs
//! points, of which a connection has a stock; time and work that is of use give points back. Whoever has none left is cut off
//! with `ENHANCE_YOUR_CALM`.

use crate::error::ConnectionError;

/// Points that a connection has at most, and begins with.
const STOCK: u32 = 2_000;

/// Points that come back in a second.
const POINTS_EACH_SECOND: u64 = 200;

/// Bytes of bodies that give a point back. Who reads or writes by 1 KiB says no more than four times for each that its window is open.
const BYTES_OF_A_POINT: usize = 256;

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
#[derive(Clone, Copy, Debug)]
pub struct Calm {
    points: u32,
    /// Up to when time has given points back, in milliseconds.
    counted_to: Option<u64>,
}

impl Default for Calm {
    fn default() -> Self {
        Self { points: STOCK, counted_to: None }
    }
}

impl Calm {
    /// Takes the time, in milliseconds from some fixed moment on.
    pub fn look_at_clock(&mut self, now_ms: u64) {
        let since = *self.counted_to.get_or_insert(now_ms);
        let earned = now_ms.saturating_sub(since) * POINTS_EACH_SECOND / 1_000;
        if earned > 0 {
            self.earn(u32::try_from(earned).unwrap_or(STOCK));
            self.counted_to = Some(now_ms);
        }
    }

    /// Something of use has been done.
    #[inline]
    pub fn earn(&mut self, points: u32) {
        self.points = self.points.saturating_add(points).min(STOCK);
    }

    /// So many bytes of bodies have gone, or come, in a piece.
    #[inline]
    pub fn earn_by(&mut self, bytes: usize) {
        self.earn(u32::try_from(bytes / BYTES_OF_A_POINT).unwrap_or(STOCK));
    }

    /// The client has done this.
    ///
    /// # Errors
    /// When that was too much.
    #[inline]
    pub fn spend(&mut self, on: Cost) -> Result<(), ConnectionError> {
        match self.points.checked_sub(on.points()) {
            Some(left) => {
                self.points = left;
                Ok(())
            }
            None => Err(ConnectionError::calm(on.excess())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_reads_by_little_is_no_flood() {
        let mut calm = Calm::default();
        for _ in 0..100_000 {
            calm.earn_by(4_096);
            assert!(calm.spend(Cost::WindowUpdate).is_ok() && calm.spend(Cost::WindowUpdate).is_ok());
        }
    }

    #[test]
    fn time_and_work_give_points_back() {
        let mut calm = Calm::default();
        calm.look_at_clock(5_000);
        let most = (0..).take_while(|_| calm.spend(Cost::Ping).is_ok()).count();
        assert_eq!(most, 1_000);
        calm.look_at_clock(5_004);
        assert!(calm.spend(Cost::Ping).is_err(), "less than a point");
        calm.look_at_clock(5_010);
        assert!(calm.spend(Cost::Ping).is_ok() && calm.spend(Cost::Ping).is_err());
        calm.earn(2);
        assert!(calm.spend(Cost::Ping).is_ok() && calm.spend(Cost::Ping).is_err());
        calm.look_at_clock(1_000_000_000);
        assert_eq!((0..).take_while(|_| calm.spend(Cost::Reset).is_ok()).count(), 400);
    }
}
