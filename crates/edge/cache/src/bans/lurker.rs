//! The ban lurker: tests objects that nobody asks for, so that bans need not wait for them.

use std::{
    sync::{Arc, Weak, atomic::Ordering::Relaxed},
    vec::IntoIter,
};

use super::{BanList, Subject};
use crate::{Time, index::Cache, object::Object};

/// Objects that are looked at in one step at most, those that need no test included.
const SEEN_MAX: usize = 4_096;

/// How the lurker works.
#[derive(Clone, Copy, Debug)]
pub struct LurkerSettings {
    /// Bans younger than this many seconds are left to lookups (`ban_lurker_age`).
    pub age: f64,
    /// Objects tested before it pauses (`ban_lurker_batch`).
    pub batch: usize,
    /// Seconds that it pauses then (`ban_lurker_sleep`); 0 has it do nothing at all.
    pub sleep: f64,
}

impl Default for LurkerSettings {
    fn default() -> Self {
        Self { age: 60.0, batch: 8, sleep: 0.01 }
    }
}

/// Where the lurker is.
#[derive(Debug, Default)]
pub struct Lurker {
    round: Option<Round>,
}

/// One walk through all objects.
#[derive(Debug)]
struct Round {
    /// The newest ban that it tests.
    until: u64,
    part: usize,
    /// What is left of the part before. They do not live longer because of it.
    objects: IntoIter<Weak<Object>>,
}

impl Lurker {
    /// Tests some objects. In how many seconds it wants to go on; `None` when there is nothing to do until another ban is made or
    /// has the age.
    pub fn step(&mut self, cache: &Cache, now: Time, settings: LurkerSettings) -> Option<f64> {
        if settings.sleep <= 0.0 {
            return None;
        }
        let bans = cache.bans();
        let mut round = match self.round.take() {
            Some(round) => round,
            None => Round { until: bans.newest_to_lurk(now - settings.age)?, part: 0, objects: Vec::new().into_iter() },
        };
        let (mut left, mut seen) = (settings.batch.max(1), 0);
        loop {
            while let Some(object) = round.objects.next() {
                let Some(object) = object.upgrade() else { continue };
                seen += 1;
                if !object.ban_mark.has_passed(round.until) {
                    left -= 1;
                    if bans.is_lurked(&Subject { request: None, object: &object, now }, round.until) {
                        cache.remove(&object);
                    }
                }
                if left == 0 || seen == SEEN_MAX {
                    self.round = Some(round);
                    return Some(settings.sleep);
                }
            }
            let Some(objects) = cache.objects_of(round.part) else { break };
            round.part += 1;
            round.objects = objects.iter().map(Arc::downgrade).collect::<Vec<_>>().into_iter();
        }
        bans.complete(round.until);
        bans.drop_unused();
        Some(settings.sleep)
    }
}

impl BanList {
    /// The newest ban that is old enough, if one of those up to it has something to remove that can be seen without a request.
    fn newest_to_lurk(&self, before: Time) -> Option<u64> {
        let bans = self.inner.read();
        let old = |ban: &&std::sync::Arc<super::Ban>| ban.time <= before;
        let has_work = bans.iter().filter(old).any(|ban| !ban.is_completed() && !ban.expression.is_about_requests());
        let newest = bans.iter().rev().find(old)?;
        has_work.then_some(newest.number)
    }

    /// Whether a ban up to `until` that says nothing of requests is about the object.
    fn is_lurked(&self, subject: &Subject<'_>, until: u64) -> bool {
        let mark = &subject.object.ban_mark;
        let passed = mark.number.load(Relaxed);
        if passed >= until {
            return false;
        }
        let bans = self.inner.read();
        let mut tests = 0;
        let open = || bans.iter().filter(|ban| ban.number > passed && ban.number <= until && !ban.is_completed());
        let is_banned = open()
            .filter(|ban| !ban.expression.is_about_requests())
            .any(|ban| ban.expression.matches(subject, ban.time, &mut tests));
        self.inner.counters.lurker_tested.fetch_add(1, Relaxed);
        self.inner.counters.lurker_tests.fetch_add(tests, Relaxed);
        if is_banned {
            self.inner.counters.lurker_killed.fetch_add(1, Relaxed);
        } else {
            // The oldest ban about requests has to see it first.
            let reached = open().find(|ban| ban.expression.is_about_requests()).map_or(until, |ban| ban.number - 1);
            if reached > passed {
                self.inner.move_to(&bans, mark, reached);
            }
        }
        is_banned
    }

    /// All objects have been tested: these bans have nothing left to remove.
    fn complete(&self, until: u64) {
        let bans = self.inner.read();
        for ban in bans.iter().filter(|ban| ban.number <= until && !ban.expression.is_about_requests()) {
            ban.is_completed.store(true, Relaxed);
        }
    }
}
