//! Servers that fail again and again: their requests fail at once until they answer, so they hold up nobody.
//!
//! ```text
//!          failures in a row, for longer than requests are tried again
//! closed -------------------------------------------------------------> open: a PING every `breaker_probe`
//!    ^-------------------------- an answer --------------------------------|
//! ```

use std::time::Duration;

use super::{LinkState, Proxy, Waiting, redirect::Asker};
use crate::policy::ServerLimits;

/// Whether requests for a server are sent.
#[derive(Clone, Debug, Default)]
pub struct Breaker {
    /// Failures since the last answer.
    failures: u32,
    /// When the first of them was, in milliseconds.
    failing_since: u64,
    /// When the server is tried next, while requests for it fail at once.
    probe_at: Option<u64>,
    /// Why it failed last.
    reason: String,
    /// How often it was opened.
    pub trips: u64,
    /// Requests that it refused.
    pub refused: u64,
}

/// Failures of a server that came together.
#[derive(Clone, Copy, Debug)]
pub struct Failures<'a> {
    /// How many requests or connections failed.
    pub count: u32,
    /// When the first of them began, in milliseconds.
    pub since: u64,
    /// Why.
    pub reason: &'a str,
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Breaker {
    /// Whether requests fail at once.
    #[inline]
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.probe_at.is_some()
    }

    /// Whether nothing has failed since the last answer.
    #[inline]
    #[must_use]
    pub fn is_calm(&self) -> bool {
        self.failures == 0
    }

    /// Counts failures; `true` if it opens by them. While requests are tried again for some time it does not: the server may be
    /// replaced meanwhile.
    fn failed(&mut self, failures: Failures<'_>, now: u64, limits: ServerLimits, retry_for: u64) -> bool {
        if self.failures == 0 {
            self.failing_since = failures.since;
        }
        self.failures = self.failures.saturating_add(failures.count);
        failures.reason.clone_into(&mut self.reason);
        let was_open = self.is_open();
        let is_over = limits.breaker_failures > 0
            && self.failures >= limits.breaker_failures
            && now.saturating_sub(self.failing_since) >= retry_for;
        if was_open || is_over {
            self.probe_at = Some(now + milliseconds(limits.breaker_probe).max(1));
        }
        let opens = !was_open && self.is_open();
        self.trips += u64::from(opens);
        opens
    }

    /// The server has answered; `true` if requests for it failed at once until now.
    #[inline]
    fn answered(&mut self) -> bool {
        self.failures = 0;
        self.probe_at.take().is_some()
    }
}

impl Proxy {
    fn limits_of(&self, pool: usize) -> ServerLimits {
        self.pools.get(pool).map_or_else(ServerLimits::default, |pool| pool.config.limits)
    }

    /// A server has failed; the log hears of it if its requests fail at once from now on.
    pub(super) fn count_failures(&mut self, pool: usize, place: usize, failures: Failures<'_>) {
        let (limits, now) = (self.limits_of(pool), self.now);
        let Some(known) = self.pools.get_mut(pool) else { return };
        // Keys of a server that is ejected go to others: nothing waits for it.
        if known.config.auto_eject_hosts {
            return;
        }
        let retry_for = known.slots.as_ref().map_or(0, |slots| slots.retry_for);
        let Some(server) = known.servers.get_mut(place) else { return };
        if server.breaker.failed(failures, now, limits, retry_for) {
            let (name, count, reason) = (&known.config.name, server.breaker.failures, failures.reason);
            let address = known.config.servers.get(place).map_or_else(String::new, |server| server.address.to_string());
            self.work.messages.push(format!(
                "pool '{name}': server {address} has failed {count} times in a row ({reason}): its requests fail at once until it answers"
            ));
        }
    }

    /// A server has answered.
    #[inline]
    pub(super) fn count_answer(&mut self, (pool, place): (usize, usize)) {
        let Some(server) = self.pools.get_mut(pool).and_then(|pool| pool.servers.get_mut(place)) else { return };
        if server.breaker.failures > 0 && server.breaker.answered() {
            self.say_revived(pool, place);
        }
    }

    #[cold]
    fn say_revived(&mut self, pool: usize, place: usize) {
        let Some(known) = self.pools.get(pool) else { return };
        let address = known.config.servers.get(place).map_or_else(String::new, |server| server.address.to_string());
        let name = &known.config.name;
        self.work.messages.push(format!("pool '{name}': server {address} answers: its requests are sent again"));
    }

    /// Why a request for a server fails at once, if it does: it has failed too often, or too many wait for it.
    #[inline]
    pub(super) fn refusal_of(&mut self, pool: usize, place: usize, waiting: usize) -> Option<String> {
        let known = self.pools.get_mut(pool)?;
        let limits = known.config.limits;
        let server = known.servers.get_mut(place)?;
        if !server.breaker.is_open() && waiting < limits.waiting_max {
            return None;
        }
        server.breaker.refused += 1;
        let address = known.config.servers.get(place).map_or_else(String::new, |server| server.address.to_string());
        if server.breaker.is_open() {
            let (count, reason) = (server.breaker.failures, &server.breaker.reason);
            let probe = milliseconds(limits.breaker_probe);
            return Some(format!(
                "ERR server {address} has failed {count} times in a row ({reason}): its keys are refused until it answers, which is \
                 looked for every {probe} ms"
            ));
        }
        Some(format!(
            "ERR server {address} is too slow: {waiting} requests wait for it already (--server-queue bounds them)"
        ))
    }

    /// The same for a connection of a client's own.
    pub(super) fn refusal_for(&mut self, index: usize, place: usize) -> Option<String> {
        let pool = self.clients.get(index)?.pool;
        self.refusal_of(pool, place, 0)
    }

    /// The same for a part of a request, whose asker is told.
    #[inline]
    pub(super) fn is_refused(&mut self, pool: usize, place: usize, link: usize, asker: Asker) -> bool {
        let waiting = self.links.get(link).map_or(0, |link| link.waiting.len());
        let Some(reason) = self.refusal_of(pool, place, waiting) else { return false };
        self.complete(asker, format!("-{reason}\r\n").as_bytes());
        true
    }

    /// Tries servers whose requests fail at once.
    pub(super) fn probe_broken(&mut self) {
        let now = self.now;
        let mut due = Vec::new();
        for pool in &mut self.pools {
            let probe = milliseconds(pool.config.limits.breaker_probe).max(1);
            for server in &mut pool.servers {
                if server.breaker.probe_at.is_some_and(|at| at <= now) {
                    server.breaker.probe_at = Some(now + probe);
                    due.extend(server.all_links().next());
                }
            }
        }
        for link in due {
            // One that is tried already is waited for.
            let is_idle = |link: &super::Link| {
                link.state != LinkState::Opening
                    && !link.waiting.iter().any(|waiting| matches!(waiting, Waiting::Revival { .. }))
            };
            if self.links.get(link).is_some_and(is_idle) {
                self.send(link, b"*1\r\n$4\r\nPING\r\n", Some(Waiting::Revival { since: now }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_after_failures_in_a_row_and_closes_with_an_answer() {
        let limits = ServerLimits { breaker_failures: 3, ..ServerLimits::default() };
        let once = |since| Failures { count: 1, since, reason: "Connection refused" };
        let mut breaker = Breaker::default();
        assert!(!breaker.failed(once(0), 0, limits, 0) && !breaker.failed(once(1), 1, limits, 0));
        assert!(!breaker.answered(), "two failures and an answer are forgotten");
        assert!(!breaker.failed(once(2), 2, limits, 0) && !breaker.failed(once(3), 3, limits, 0));
        assert!(breaker.failed(once(4), 4, limits, 0) && breaker.is_open());
        assert!(!breaker.failed(once(5), 5, limits, 0), "it is open already");
        assert!(breaker.answered() && !breaker.is_open() && breaker.trips == 1);
        // Several requests that one server has not answered in time count each.
        assert!(breaker.failed(Failures { count: 3, ..once(6) }, 6, limits, 0));
    }

    #[test]
    fn it_stays_closed_while_requests_are_tried_again_or_if_it_is_switched_off() {
        let limits = ServerLimits { breaker_failures: 2, ..ServerLimits::default() };
        let mut breaker = Breaker::default();
        for now in 0..100 {
            assert!(!breaker.failed(Failures { count: 1, since: now, reason: "" }, now, limits, 100));
        }
        assert!(breaker.failed(Failures { count: 1, since: 100, reason: "" }, 100, limits, 100));
        let mut breaker = Breaker::default();
        let never = ServerLimits { breaker_failures: 0, ..limits };
        assert!(!breaker.failed(Failures { count: 1000, since: 0, reason: "" }, 9, never, 0));
    }
}
