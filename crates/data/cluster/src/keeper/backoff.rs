//! How long a silent master is waited for: the longer, the sooner before it others were given up.
//!
//! On a machine that has too much to do a server may be silent for longer than anybody wants to wait, and its successor is no quicker. Each
//! change then makes more to do, so that groups would change their masters without end. So after each change that was made because of
//! silence the next master is waited for twice as long, up to eight times, and half as long again each time that one has held for a while.
//!
//! Nothing that is promised depends on it: a master that cannot be reached serves no longer than its votes last, and a process that is
//! known to have ended is not waited for at all.

/// The patience grows by so many doublings at most.
const DOUBLINGS_MAX: u32 = 3;
/// One that answers for so many times the usual patience has held.
const HOLDS_TIMES: u64 = 30;

/// The patience with a group's masters.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backoff {
    doublings: u32,
    /// Since when the present master has answered without a silence that would be too long.
    steady_since: u64,
    /// The group is about to have another master because this one is silent.
    is_giving_up: bool,
}

impl Backoff {
    /// How long a master may be silent, in milliseconds.
    pub(super) fn patience_ms(&self, usual_ms: u64) -> u64 {
        usual_ms.saturating_mul(1 << self.doublings)
    }

    /// Another master was chosen, because the present one is silent or for another reason. It counts once it is written.
    pub(super) fn note_chosen(&mut self, by_silence: bool) {
        self.is_giving_up = by_silence;
    }

    /// The group has another master.
    pub(super) fn note_changed(&mut self, now: u64) {
        if std::mem::take(&mut self.is_giving_up) {
            self.doublings = (self.doublings + 1).min(DOUBLINGS_MAX);
        }
        self.steady_since = now;
    }

    /// The master is silent, or answers.
    pub(super) fn look(&mut self, is_silent: bool, now: u64, usual_ms: u64) {
        if is_silent {
            self.steady_since = now;
        } else if self.doublings > 0 && now >= self.steady_since + HOLDS_TIMES * usual_ms {
            self.doublings -= 1;
            self.steady_since = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_with_each_master_that_is_lost_and_shrinks_while_one_holds() {
        let mut backoff = Backoff::default();
        let mut seen = Vec::new();
        for now in [10_000, 20_000, 30_000, 40_000] {
            backoff.note_chosen(true);
            // Said again until it is written.
            backoff.note_chosen(true);
            seen.push(backoff.patience_ms(1_000));
            backoff.note_changed(now);
        }
        assert_eq!(seen, [1_000, 2_000, 4_000, 8_000]);
        assert_eq!(backoff.patience_ms(1_000), 8_000);
        // A change that was asked for, or that a process' end has made, says nothing of the machine.
        backoff.note_chosen(false);
        backoff.note_changed(50_000);
        backoff.look(false, 79_999, 1_000);
        assert_eq!(backoff.patience_ms(1_000), 8_000);
        backoff.look(false, 80_000, 1_000);
        assert_eq!(backoff.patience_ms(1_000), 4_000);
        backoff.look(true, 100_000, 1_000);
        for now in (101_000..=190_000).step_by(500) {
            backoff.look(false, now, 1_000);
        }
        assert_eq!(backoff.patience_ms(1_000), 1_000);
    }
}
