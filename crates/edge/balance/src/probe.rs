//! Checks as Varnish counts them: so many of the last ones must have been good, whatever their order.
//!
//! ```text
//!  oldest                  newest
//!  ...  -HHHH--H-HHHHHHH   of the last `window` bits, `threshold` must be set
//! ```

use std::fmt::Write as _;

/// The most results that are looked at: one a bit.
pub const WINDOW_MAX: u8 = 64;
/// How much the latest time of a good answer counts at least in the average: a fourth.
const AVERAGE_RATE: f64 = 4.0;

/// How many results decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// How many of the last results are looked at.
    pub size: u8,
    /// How many of them must be good.
    pub threshold: u8,
    /// How many are taken for good at the start.
    pub initial: u8,
}

impl Window {
    /// One within its bounds: a threshold of at least 1 and at most the size, no more at the start than the threshold.
    #[must_use]
    pub fn new(size: u32, threshold: u32, initial: Option<u32>) -> Self {
        let within = |number: u32, least: u8, most: u8| u8::try_from(number).unwrap_or(most).clamp(least, most);
        let size = within(size, 1, WINDOW_MAX);
        let threshold = within(threshold, 1, size);
        let initial = initial.map_or(threshold - 1, |initial| within(initial, 0, threshold));
        Self { size, threshold, initial }
    }
}

/// Over what a server is reached, as lists show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
    /// A unix socket.
    Unix,
}

/// How far a check came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reached {
    /// There was no connection.
    Nothing,
    /// It was asked.
    Server,
    /// It answered, but not well.
    Answer,
    /// It answered as it should.
    GoodAnswer,
}

/// The last results of a server's checks, the newest in the lowest bit.
#[derive(Clone, Copy, Debug)]
pub struct ProbeHistory {
    window: Window,
    connected: u64,
    sent: u64,
    received: u64,
    failed_to_receive: u64,
    good: u64,
    average_s: f64,
    rate: f64,
}

impl ProbeHistory {
    /// The history of a server that has not been asked yet.
    #[must_use]
    pub fn new(window: Window) -> Self {
        let mut history = Self {
            window,
            connected: 0,
            sent: 0,
            received: 0,
            failed_to_receive: 0,
            good: 0,
            average_s: 0.0,
            rate: 0.0,
        };
        for _ in 0..window.initial {
            history.good = history.good << 1 | 1;
            history.count_time(0.0);
        }
        history
    }

    /// The window.
    #[must_use]
    pub fn window(&self) -> Window {
        self.window
    }

    /// How many results of the window are good.
    #[must_use]
    pub fn good_count(&self) -> u32 {
        let looked_at = u64::MAX.checked_shr(64 - u32::from(self.window.size)).unwrap_or(u64::MAX);
        (self.good & looked_at).count_ones()
    }

    /// Whether there are enough.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.good_count() >= u32::from(self.window.threshold)
    }

    /// Bits of good results, the newest the lowest.
    #[must_use]
    pub fn bits(&self) -> u64 {
        self.good
    }

    /// Takes in a result.
    pub(crate) fn record(&mut self, reached: Reached, duration_ms: Option<u64>) {
        let (is_connected, has_answer) = (reached >= Reached::Server, reached >= Reached::Answer);
        let is_good = reached == Reached::GoodAnswer;
        let shift = |bits: &mut u64, bit: bool| *bits = *bits << 1 | u64::from(bit);
        shift(&mut self.connected, is_connected);
        shift(&mut self.sent, is_connected);
        shift(&mut self.failed_to_receive, is_connected && !has_answer);
        shift(&mut self.received, is_connected && has_answer);
        shift(&mut self.good, is_good);
        if is_good {
            self.count_time(duration_ms.unwrap_or(0) as f64 / 1_000.0);
        }
    }

    fn count_time(&mut self, seconds: f64) {
        if self.rate < AVERAGE_RATE {
            self.rate += 1.0;
        }
        self.average_s += (seconds - self.average_s) / self.rate;
    }

    /// What happened, a bit for each check, the newest the lowest: connected by IPv4, by IPv6, by a local socket; failed to send, sent;
    /// failed to receive, received; good.
    #[must_use]
    pub fn all_bits(&self, family: Family) -> [u64; 8] {
        let by = |of| if family == of { self.connected } else { 0 };
        [
            by(Family::Ipv4),
            by(Family::Ipv6),
            by(Family::Unix),
            0,
            self.sent,
            self.failed_to_receive,
            self.received,
            self.good,
        ]
    }

    /// What `backend.list -p` shows below a backend.
    #[must_use]
    pub fn lines(&self, family: Family) -> String {
        let window = self.window;
        let mut text = format!(
            " Current states  good: {:2} threshold: {:2} window: {:2}\n  Average response time of good probes: {:.6}\n  \
             Oldest ================================================== Newest\n",
            self.good_count(),
            window.threshold,
            window.size,
            self.average_s
        );
        let (letter, name) = match family {
            Family::Ipv4 => ('4', "Good IPv4"),
            Family::Ipv6 => ('6', "Good IPv6"),
            Family::Unix => ('U', "Good UNIX"),
        };
        for (letter, name, bits) in [
            (letter, name, self.connected),
            ('X', "Good Xmit", self.sent),
            ('r', "Error Recv", self.failed_to_receive),
            ('R', "Good Recv", self.received),
            ('H', "Happy", self.good),
        ] {
            if bits == 0 && letter != 'H' {
                continue;
            }
            let map: String = (0..64).rev().map(|bit| if bits >> bit & 1 == 1 { letter } else { '-' }).collect();
            // Writing to memory cannot fail.
            let _ = writeln!(text, "  {map} {name}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(window: Window, results: &[bool]) -> ProbeHistory {
        let mut history = ProbeHistory::new(window);
        for good in results {
            history.record(if *good { Reached::GoodAnswer } else { Reached::Answer }, Some(100));
        }
        history
    }

    #[test]
    fn the_order_of_results_does_not_count() {
        let window = Window::new(8, 3, None);
        for (results, good, is_healthy) in [
            (&[][..], 2, false),
            (&[true], 3, true),
            (&[false], 2, false),
            (&[false, false, true], 3, true),
            // The two of the start have left the window.
            (&[true, false, false, false, false, false, false], 2, false),
            (&[true, false, true, false, true, false, false, false, false], 2, false),
            (&[true; 20], 8, true),
        ] {
            let history = after(window, results);
            assert_eq!((history.good_count(), history.is_healthy()), (good, is_healthy), "{results:?}");
        }
    }

    #[test]
    fn windows_have_bounds() {
        for (given, expected) in [
            ((8, 3, None), (8, 3, 2)),
            ((100, 100, Some(100)), (64, 64, 64)),
            ((4, 9, Some(0)), (4, 4, 0)),
            ((0, 0, None), (1, 1, 0)),
        ] {
            let window = Window::new(given.0, given.1, given.2);
            assert_eq!((window.size, window.threshold, window.initial), expected, "{given:?}");
        }
        assert!(ProbeHistory::new(Window::new(64, 64, Some(64))).is_healthy());
    }

    #[test]
    fn lines_are_varnishs() {
        let mut history = after(Window::new(4, 2, Some(1)), &[true, false]);
        history.record(Reached::Nothing, None);
        history.record(Reached::Server, None);
        let lines = history.lines(Family::Ipv4);
        let expected = [
            " Current states  good:  1 threshold:  2 window:  4",
            "  Average response time of good probes: 0.050000",
            "  Oldest ================================================== Newest",
            &format!("  {}44-4 Good IPv4", "-".repeat(60)),
            &format!("  {}XX-X Good Xmit", "-".repeat(60)),
            &format!("  {}---r Error Recv", "-".repeat(60)),
            &format!("  {}RR-- Good Recv", "-".repeat(60)),
            &format!("  {}HH--- Happy", "-".repeat(59)),
        ];
        assert_eq!(lines.lines().collect::<Vec<_>>(), expected);
    }
}
