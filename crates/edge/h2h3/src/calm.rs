//! How much a peer may have done that is no use.
//!
//! Streams that are reset, errors that make this side reset them, frames that carry nothing: each costs little to send, and work
//! here. A peer may do some of that: it changes its mind, it looks whether the connection lives, it opens windows. So each costs
//! points, of which a connection has a stock; time and work that is of use give points back. Whoever has none left is cut off
//! as one that makes too much work: `ENHANCE_YOUR_CALM`, `H3_EXCESSIVE_LOAD`.

/// How much that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CalmLimits {
    /// Points that a connection has at most, and begins with.
    pub points_max: u32,
    /// Points that come back in a second.
    pub points_each_second: u32,
}

impl Default for CalmLimits {
    fn default() -> Self {
        Self { points_max: 2_000, points_each_second: 200 }
    }
}

/// Bytes of bodies that give a point back. Who reads or writes by 1 KiB says no more than four times for each that its window is open.
const BYTES_OF_A_POINT: usize = 256;

/// A connection's stock.
#[derive(Clone, Copy, Debug)]
pub struct Calm {
    limits: CalmLimits,
    points: u32,
    /// Up to when time has given points back, in milliseconds.
    counted_to: Option<u64>,
}

impl Default for Calm {
    fn default() -> Self {
        Self::new(CalmLimits::default())
    }
}

impl Calm {
    /// A whole one.
    #[must_use]
    pub fn new(limits: CalmLimits) -> Self {
        Self { limits, points: limits.points_max, counted_to: None }
    }

    /// Takes the time, in milliseconds from some fixed moment on.
    pub fn look_at_clock(&mut self, now_ms: u64) {
        let since = *self.counted_to.get_or_insert(now_ms);
        let earned = now_ms.saturating_sub(since).saturating_mul(u64::from(self.limits.points_each_second)) / 1_000;
        if earned > 0 {
            self.earn(u32::try_from(earned).unwrap_or(u32::MAX));
            self.counted_to = Some(now_ms);
        }
    }

    /// Something of use has been done.
    #[inline]
    pub fn earn(&mut self, points: u32) {
        self.points = self.points.saturating_add(points).min(self.limits.points_max);
    }

    /// So many bytes of bodies have gone, or come, in a piece.
    #[inline]
    pub fn earn_by(&mut self, bytes: usize) {
        self.earn(u32::try_from(bytes / BYTES_OF_A_POINT).unwrap_or(u32::MAX));
    }

    /// The peer has done something that costs so many points; whether it had them.
    #[must_use]
    #[inline]
    pub fn spend(&mut self, points: u32) -> bool {
        let left = self.points.checked_sub(points);
        self.points = left.unwrap_or(self.points);
        left.is_some()
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
            assert!(calm.spend(1) && calm.spend(1));
        }
    }

    #[test]
    fn time_and_work_give_points_back() {
        let mut calm = Calm::default();
        calm.look_at_clock(5_000);
        let most = (0..).take_while(|_| calm.spend(2)).count();
        assert_eq!(most, 1_000);
        calm.look_at_clock(5_004);
        assert!(!calm.spend(2), "less than a point");
        calm.look_at_clock(5_010);
        assert!(calm.spend(2) && !calm.spend(2));
        calm.earn(2);
        assert!(calm.spend(2) && !calm.spend(2));
        calm.look_at_clock(1_000_000_000);
        assert_eq!((0..).take_while(|_| calm.spend(5)).count(), 400);
    }
}
