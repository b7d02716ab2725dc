//! Sees to it that a store that was told to end does end.
//!
//! The last checkpoint may take minutes where there is much to write. Where nothing happens any more, as on a disk that has gone away,
//! waiting is of no use: all that was acknowledged is in the log, and the next start runs it again.

use std::{
    fs, process,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::messages;

/// How often it is looked.
const EACH: Duration = Duration::from_millis(500);
/// A process that has done nothing for so long does nothing any more.
const PATIENCE: Duration = Duration::from_secs(60);
/// So many ticks of CPU time (10 ms each) are nothing: what looks at it takes some itself.
const TICKS: u64 = 50;

/// What a process has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Done {
    ticks: u64,
    written: u64,
}

impl Done {
    /// Of this process; nothing if the system does not say.
    fn now() -> Option<Self> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        // The name in parentheses may have spaces.
        let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
        let mut field = || fields.next()?.parse::<u64>().ok();
        let ticks = field()? + field()?;
        let io = fs::read_to_string("/proc/self/io").ok()?;
        let written = io.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse().ok())?;
        Some(Self { ticks, written })
    }
}

/// Since when a process has done nothing.
#[derive(Debug)]
struct Stillness {
    since: Instant,
    done: Done,
}

impl Stillness {
    /// Takes what has been done by now. Returns for how long that has been nothing.
    fn look(&mut self, done: Done, now: Instant) -> Duration {
        if done.written != self.done.written || done.ticks > self.done.ticks + TICKS {
            *self = Self { since: now, done };
        }
        now.saturating_duration_since(self.since)
    }
}

/// Ends the process if it stands still, as long as this is there.
#[derive(Debug)]
pub struct Watchdog(Arc<AtomicBool>);

impl Watchdog {
    /// `leave` is called before the process ends.
    pub fn start(leave: impl Fn() + Send + 'static) -> Self {
        let is_over = Arc::<AtomicBool>::default();
        let known = Arc::clone(&is_over);
        let watch = move || {
            let Some(done) = Done::now() else { return };
            let mut stillness = Stillness { since: Instant::now(), done };
            while !known.load(Ordering::Acquire) {
                thread::sleep(EACH);
                let Some(done) = Done::now() else { return };
                if stillness.look(done, Instant::now()) > PATIENCE {
                    messages::warn(
                        "The last checkpoint stands still: the store ends without it, and the next start runs more of the log again",
                    );
                    leave();
                    process::exit(0);
                }
            }
        };
        // Without a thread it waits as long as it takes.
        let _ = thread::Builder::new().name("ending".into()).spawn(watch);
        Self(is_over)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_works_or_writes_does_not_stand_still() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut stillness = Stillness { since: begin, done: Done { ticks: 100, written: 5 } };
        for (ticks, written, now, expected) in
            [(100, 5, 10, 10), (140, 5, 20, 20), (151, 5, 30, 0), (151, 5, 50, 20), (151, 6, 51, 0), (190, 6, 112, 61)]
        {
            let found = stillness.look(Done { ticks, written }, at(now));
            assert_eq!(found, Duration::from_secs(expected), "{ticks} {written} {now}");
        }
    }

    #[test]
    fn this_process_does_something() {
        let before = Done::now().unwrap();
        let path = std::env::temp_dir().join(format!("tidegate-stillness-{}", process::id()));
        fs::write(&path, [0; 1000]).unwrap();
        fs::remove_file(path).unwrap();
        assert!(Done::now().unwrap().written >= before.written + 1000);
    }
}
