//! When a replica tries its master, and what it says when that is not there.
//!
//! ```text
//!           follow                 begun
//!  Alone ----------> Waiting ---------------> Linked
//!    ^                  ^                        |
//!    |  promote         `------ down, cut -------'
//!    `---- from both
//! ```

/// How long a replica waits before it tries its master again, in milliseconds.
pub const RETRY_MS: i64 = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    /// Nobody is followed.
    #[default]
    Alone,
    /// The master is tried at this time.
    Waiting { until: i64 },
    /// A link is there, or is being made.
    Linked,
}

/// Whether a master is followed, and how that goes.
#[derive(Debug, Default)]
pub struct Following {
    state: State,
    /// Why the link went down last, as it was said.
    said: Option<String>,
}

impl Following {
    /// A master is to be followed, this one or another one: it is tried at once.
    pub fn follow(&mut self, now: i64) {
        *self = Self { state: State::Waiting { until: now }, said: None };
    }

    /// Nobody is followed any more.
    pub fn end(&mut self) {
        *self = Self::default();
    }

    /// Whether a link is there, or is being made.
    #[must_use]
    pub fn is_linked(&self) -> bool {
        self.state == State::Linked
    }

    /// Whether the master is to be tried now. A clock that was set back delays that by no more than the usual time.
    #[must_use]
    pub fn is_due(&self, now: i64) -> bool {
        matches!(self.state, State::Waiting { until } if is_due(until, now))
    }

    /// A link is being made.
    pub fn handle_begun(&mut self) {
        self.state = State::Linked;
    }

    /// The master goes on with its log, or its copy is there: what goes wrong next is said again.
    pub fn handle_success(&mut self) {
        self.said = None;
    }

    /// The link is down for this reason, and is tried again in a while. Returns whether the reason is to be said: each is said once as long
    /// as the master does not come back.
    #[must_use]
    pub fn handle_down(&mut self, reason: &str, now: i64) -> bool {
        self.state = State::Waiting { until: now.saturating_add(RETRY_MS) };
        let is_news = self.said.as_deref() != Some(reason);
        if is_news {
            self.said = Some(reason.to_owned());
        }
        is_news
    }

    /// A command has cut the link: another one is begun at once.
    pub fn handle_cut(&mut self, now: i64) {
        self.state = State::Waiting { until: now };
    }
}

/// Whether it is time, or the clock was set back.
fn is_due(until: i64, now: i64) -> bool {
    now >= until || until > now.saturating_add(RETRY_MS)
}

/// Something that is looked at each second, until it need not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EachSecond(Option<i64>);

impl EachSecond {
    /// At once, and then each second.
    #[must_use]
    pub const fn begin() -> Self {
        Self(Some(i64::MIN))
    }

    /// Whether it is time; the next time is a second later.
    pub fn is_due(&mut self, now: i64) -> bool {
        let due = self.0.is_some_and(|until| is_due(until, now));
        if due {
            self.0 = Some(now.saturating_add(RETRY_MS));
        }
        due
    }

    /// It is to be looked at, as soon as somebody asks.
    pub fn hurry(&mut self) {
        *self = Self::begin();
    }

    /// It need not be looked at any more.
    pub fn stop(&mut self) {
        self.0 = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_master_is_tried_at_once_and_then_each_second() {
        let mut following = Following::default();
        assert!(!following.is_due(0), "there is none");
        following.follow(5_000);
        assert!(following.is_due(5_000) && !following.is_linked());
        following.handle_begun();
        assert!(!following.is_due(90_000) && following.is_linked());
        assert!(following.handle_down("refused", 10_000));
        assert!(!following.is_due(10_999) && following.is_due(11_000));
        following.handle_begun();
        following.handle_cut(12_000);
        assert!(following.is_due(12_000));
        following.end();
        assert!(!following.is_due(90_000));
    }

    #[test]
    fn a_clock_that_was_set_back_delays_nothing() {
        let mut following = Following::default();
        following.follow(1_000_000);
        following.handle_begun();
        assert!(following.handle_down("refused", 1_000_000));
        assert!(following.is_due(5), "it is not a quarter of an hour");
        let mut each = EachSecond::begin();
        assert!(each.is_due(1_000_000) && !each.is_due(1_000_999) && each.is_due(7));
    }

    #[test]
    fn a_reason_is_said_once_until_the_master_comes_back() {
        let mut following = Following::default();
        following.follow(0);
        let said: Vec<bool> = ["refused", "refused", "timed out", "refused"]
            .into_iter()
            .map(|reason| {
                following.handle_begun();
                following.handle_down(reason, 0)
            })
            .collect();
        assert_eq!(said, [true, false, true, true]);
        following.handle_success();
        assert!(following.handle_down("refused", 0), "it was there meanwhile");
        following.follow(0);
        assert!(following.handle_down("refused", 0), "it is another master");
    }

    #[test]
    fn what_need_not_be_looked_at_is_not_until_somebody_wants_it() {
        let mut each = EachSecond::begin();
        assert!(each.is_due(0));
        each.stop();
        assert!(!each.is_due(5_000));
        each.hurry();
        assert!(each.is_due(5_000) && !each.is_due(5_001));
    }
}
