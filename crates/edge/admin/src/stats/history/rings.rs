//! Points of a minute, of ten and of an hour: each window keeps as many as a chart has room for.

use std::collections::VecDeque;

/// How far back a chart looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Window {
    /// A minute, second by second.
    #[default]
    Minute,
    /// Ten minutes, in steps of five seconds.
    TenMinutes,
    /// An hour, in steps of half a minute.
    Hour,
}

impl Window {
    /// Every one, the shortest first.
    pub const ALL: [Self; 3] = [Self::Minute, Self::TenMinutes, Self::Hour];

    /// Seconds that it shows.
    #[must_use]
    pub fn seconds(self) -> u64 {
        match self {
            Self::Minute => 60,
            Self::TenMinutes => 600,
            Self::Hour => 3_600,
        }
    }

    /// Seconds between two points.
    #[must_use]
    pub fn step(self) -> u64 {
        match self {
            Self::Minute => 1,
            Self::TenMinutes => 5,
            Self::Hour => 30,
        }
    }

    /// The shortest one that shows so many seconds.
    #[must_use]
    pub fn of(seconds: u64) -> Self {
        Self::ALL.into_iter().find(|window| window.seconds() >= seconds).unwrap_or(Self::Hour)
    }

    fn points(self) -> usize {
        usize::try_from(self.seconds() / self.step()).unwrap_or(usize::MAX)
    }
}

/// What one second says, and what several say together.
pub trait Sample: Copy + Default {
    /// Takes the next second in.
    fn merge(&mut self, next: &Self);
}

impl Sample for u64 {
    fn merge(&mut self, next: &Self) {
        *self = self.saturating_add(*next);
    }
}

/// The points of every window.
#[derive(Debug, Default)]
pub struct Rings<P> {
    rings: [Ring<P>; 3],
}

#[derive(Debug, Default)]
struct Ring<P> {
    closed: VecDeque<P>,
    open: P,
}

impl<P: Sample> Rings<P> {
    /// Takes a second in, of which the number is the same for all rings, so that their steps end together. `close` may
    /// complete the point of a step that ends.
    pub fn push(&mut self, second: u64, sample: &P, mut close: impl FnMut(Window, &mut P)) {
        for (window, ring) in Window::ALL.into_iter().zip(&mut self.rings) {
            ring.open.merge(sample);
            if !second.is_multiple_of(window.step()) {
                continue;
            }
            let mut point = std::mem::take(&mut ring.open);
            close(window, &mut point);
            if ring.closed.len() == window.points() {
                ring.closed.pop_front();
            }
            ring.closed.push_back(point);
        }
    }

    /// The points of the steps that ended after the second `since`, now being the second `now`; the oldest first.
    pub fn after(&self, window: Window, since: u64, now: u64) -> impl ExactSizeIterator<Item = &P> {
        let step = window.step();
        let wanted = usize::try_from((now / step).saturating_sub(since / step)).unwrap_or(usize::MAX);
        let closed = &self.ring(window).closed;
        closed.iter().skip(closed.len().saturating_sub(wanted))
    }

    fn ring(&self, window: Window) -> &Ring<P> {
        let [minute, ten, hour] = &self.rings;
        match window {
            Window::Minute => minute,
            Window::TenMinutes => ten,
            Window::Hour => hour,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_end_together_and_the_oldest_points_go() {
        let mut rings = Rings::<u64>::default();
        for second in 1..=4_003 {
            rings.push(second, &1, |_, _| {});
        }
        for (window, points) in [(Window::Minute, 60), (Window::TenMinutes, 120), (Window::Hour, 120)] {
            let all: Vec<_> = rings.after(window, 0, 4_003).collect();
            assert_eq!(all.len(), points, "{window:?}");
            assert!(all.iter().all(|sum| **sum == window.step()), "{window:?}");
        }
    }

    #[test]
    fn points_come_once() {
        let mut rings = Rings::<u64>::default();
        let mut seen: Vec<u64> = Vec::new();
        for second in 1..=23 {
            rings.push(second, &second, |_, _| {});
            seen.extend(rings.after(Window::TenMinutes, second - 1, second).copied());
        }
        assert_eq!(seen, [1 + 2 + 3 + 4 + 5, 6 + 7 + 8 + 9 + 10, 65, 90]);
        assert_eq!(rings.after(Window::TenMinutes, 23, 24).len(), 0);
        assert_eq!(rings.after(Window::TenMinutes, 12, 23).len(), 2, "a page that missed some");
    }

    #[test]
    fn windows_by_seconds() {
        for (seconds, window) in [
            (0, Window::Minute),
            (60, Window::Minute),
            (61, Window::TenMinutes),
            (3_600, Window::Hour),
            (9_999, Window::Hour),
        ] {
            assert_eq!(Window::of(seconds), window, "{seconds}");
        }
    }
}
