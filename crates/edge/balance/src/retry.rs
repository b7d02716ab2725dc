//! What to do after a failure: once more on the same server, on another one, or give up.

use crate::server::OperationalState;

/// HAProxy waits this long before it tries the same server again, in milliseconds.
pub const TURN_AROUND_MS: u64 = 1_000;
/// Attempts repeated when `retries` is not given.
pub const RETRIES_DEFAULT: u32 = 3;

/// The failures after which a request is sent again (`retry-on`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryOn(u32);

/// One kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The connection was refused, reset, or no route was found.
    ConnectionError,
    /// The connection took longer than `timeout connect`.
    ConnectionTimeout,
    /// The server closed before it sent anything.
    EmptyResponse,
    /// The server closed or failed within the head of its response.
    BrokenResponse,
    /// The server sent something that is no response.
    JunkResponse,
    /// The server took longer than `timeout server` before it sent anything.
    ResponseTimeout,
    /// The server has said that it has not begun with the request.
    NotProcessed,
    /// The server refused early data.
    ZeroRttRejected,
    /// The server answered with this status.
    Status(u16),
}

impl RetryOn {
    const CONN_FAILURE: u32 = 1 << 0;
    const EMPTY_RESPONSE: u32 = 1 << 1;
    const RESPONSE_TIMEOUT: u32 = 1 << 2;
    const ZERO_RTT_REJECTED: u32 = 1 << 3;
    const JUNK_RESPONSE: u32 = 1 << 4;
    /// The statuses that may be named, from this bit on.
    const STATUSES: [u16; 10] = [401, 403, 404, 408, 425, 500, 501, 502, 503, 504];
    const STATUS_SHIFT: u32 = 5;

    /// Whether requests are sent again that servers did not answer, by closing or by silence.
    #[must_use]
    pub fn covers_no_answer(self) -> bool {
        let wanted = Self::EMPTY_RESPONSE | Self::RESPONSE_TIMEOUT;
        self.0 & wanted == wanted
    }

    /// Whether requests are sent again that met a connection which was no more, however that shows.
    #[must_use]
    pub fn covers_lost_connections(self) -> bool {
        self.covers_no_answer() && self.0 & Self::CONN_FAILURE != 0
    }

    /// The words of a `retry-on` line.
    pub const WORDS: [&str; 17] = [
        "conn-failure",
        "empty-response",
        "junk-response",
        "response-timeout",
        "0rtt-rejected",
        "401",
        "403",
        "404",
        "408",
        "425",
        "500",
        "501",
        "502",
        "503",
        "504",
        "all-retryable-errors",
        "none",
    ];

    /// `retry-on none`.
    pub const NONE: Self = Self(0);
    /// No `retry-on` line: `conn-failure`.
    pub const DEFAULT: Self = Self(Self::CONN_FAILURE);

    /// Adds one word of a `retry-on` line; `None` if there is no such word.
    #[must_use]
    pub fn with_word(self, word: &str) -> Option<Self> {
        let bits = match word {
            "none" => 0,
            "conn-failure" => Self::CONN_FAILURE,
            "empty-response" => Self::EMPTY_RESPONSE,
            "response-timeout" => Self::RESPONSE_TIMEOUT,
            "0rtt-rejected" => Self::ZERO_RTT_REJECTED,
            "junk-response" => Self::JUNK_RESPONSE,
            "all-retryable-errors" => {
                Self::CONN_FAILURE
                    | Self::EMPTY_RESPONSE
                    | Self::RESPONSE_TIMEOUT
                    | Self::ZERO_RTT_REJECTED
                    | Self::JUNK_RESPONSE
                    | Self::status_bit(500)
                    | Self::status_bit(502)
                    | Self::status_bit(503)
                    | Self::status_bit(504)
            }
            status => match status.parse() {
                Ok(status) if Self::status_bit(status) != 0 => Self::status_bit(status),
                _ => return None,
            },
        };
        Some(Self(self.0 | bits))
    }

    fn status_bit(status: u16) -> u32 {
        Self::STATUSES
            .iter()
            .position(|&other| other == status)
            .map_or(0, |index| 1 << (Self::STATUS_SHIFT as usize + index))
    }

    /// Whether a request is sent again after this failure.
    #[inline]
    pub fn contains(self, failure: Failure) -> bool {
        let bit = match failure {
            // NOTE: nothing has come of it, as if there had been no connection.
            Failure::ConnectionError | Failure::ConnectionTimeout | Failure::NotProcessed => Self::CONN_FAILURE,
            Failure::EmptyResponse | Failure::BrokenResponse => Self::EMPTY_RESPONSE,
            Failure::JunkResponse => Self::JUNK_RESPONSE,
            Failure::ResponseTimeout => Self::RESPONSE_TIMEOUT,
            Failure::ZeroRttRejected => Self::ZERO_RTT_REJECTED,
            Failure::Status(status) => Self::status_bit(status),
        };
        self.0 & bit != 0
    }

    /// Whether any failure after the connection was made counts, so that requests must be kept to be sent again.
    pub fn needs_request_kept(self) -> bool {
        self.0 & !Self::CONN_FAILURE != 0
    }
}

impl Default for RetryOn {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// `retries`, `option redispatch`, `retry-on` and `timeout connect` of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// `retries`.
    pub retries: u32,
    /// `option redispatch [interval]`: `None` is off, -1 (the default) is on the last attempt.
    pub redispatch: Option<i32>,
    /// `retry-on`.
    pub retry_on: RetryOn,
    /// `timeout connect`, which bounds the wait before a retry.
    pub connect_timeout_ms: Option<u64>,
    /// Whether the server follows from a key (`Algorithm::is_hash`): another one is then only tried when it must be.
    pub is_hash: bool,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            retries: RETRIES_DEFAULT,
            redispatch: None,
            retry_on: RetryOn::DEFAULT,
            connect_timeout_ms: None,
            is_hash: false,
        }
    }
}

/// An attempt that failed, as far as the request itself goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedAttempt {
    /// What happened.
    pub failure: Failure,
    /// Attempts that have failed before this one.
    pub failed_before: u32,
    /// Whether the request can be sent again: nothing of a response was passed on, all that was sent of the request is
    /// still there, and `http-request disable-l7-retry` was not said. Before a connection stands it always can.
    pub can_resend: bool,
    /// The request went over a connection that had been used before.
    pub reused_connection: bool,
    /// Whether doing it twice has the effect of doing it once (RFC 9110 section 9.2.2).
    pub is_idempotent: bool,
}

impl FailedAttempt {
    /// An attempt for which no connection came to stand.
    #[must_use]
    pub fn to_connect(failure: Failure, failed_before: u32) -> Self {
        Self { failure, failed_before, can_resend: true, reused_connection: false, is_idempotent: true }
    }

    /// Whether a server closed a kept connection just when the request came: nobody's fault.
    fn met_stale_connection(&self) -> bool {
        self.failure == Failure::EmptyResponse
            && self.reused_connection
            && self.is_idempotent
            && self.can_resend
            && self.failed_before == 0
    }

    /// Whether a server left with a connection that was shared just when the request came, and has said that it has done nothing of
    /// it (RFC 9113 sections 6.8 and 8.7): whatever was asked may be asked again.
    fn was_left_behind(&self) -> bool {
        self.failure == Failure::NotProcessed && self.reused_connection && self.can_resend
    }
}

/// What is known when an attempt has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetrySituation {
    /// The attempt.
    pub attempt: FailedAttempt,
    /// State of the server it happened on.
    pub server_state: OperationalState,
    /// Usable active servers (`Farm::active`).
    pub active_servers: u32,
    /// The server was wanted by persistence or `use-server`.
    pub is_forced: bool,
    /// `force-persist` applied: no other server will do.
    pub even_if_down: bool,
}

impl RetrySituation {
    /// That of an attempt where there is no choice of servers (`dispatch`, `option transparent`).
    #[must_use]
    pub fn without_choice(attempt: FailedAttempt) -> Self {
        Self {
            attempt,
            server_state: OperationalState::Running,
            active_servers: 1,
            is_forced: false,
            even_if_down: true,
        }
    }
}

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Keep the slot and use a new connection to the same server, at once. It counts as no failure.
    FreshConnection,
    /// Keep the slot and connect to the same server again, after this wait. Tell the farm: `Farm::count_retry`.
    SameServer(RetryAfter),
    /// Release the slot, and after this wait pick again with `Request::avoid` set and `Request::forced` unset.
    Redispatch(RetryAfter),
    /// Release the slot and answer with an error.
    GiveUp,
}

/// A wait before a retry, in milliseconds.
pub type RetryAfter = u64;

impl RetryPolicy {
    /// Whether `retries` and `retry-on` have a request sent again after this attempt.
    #[inline]
    #[must_use]
    pub fn sends_again(&self, attempt: &FailedAttempt) -> bool {
        self.retry_on.contains(attempt.failure) && attempt.can_resend && attempt.failed_before < self.retries
    }

    /// Whether a client never hears of a connection that its server has closed while it was idle. As in HAProxy a client's first
    /// request goes over idle connections then, which `http-reuse safe` and `aggressive` do not allow otherwise.
    #[must_use]
    pub fn outlives_stale_connections(&self) -> bool {
        self.retries > 0 && self.retry_on.covers_lost_connections()
    }

    /// Whether a response that failed counts as an error of the server's. As in HAProxy that is so where the request is not
    /// sent again, and wherever the response made no sense.
    #[must_use]
    pub fn counts_as_error(&self, attempt: &FailedAttempt) -> bool {
        attempt.failure == Failure::JunkResponse || !self.sends_again(attempt)
    }

    /// Decides after a failed attempt.
    #[must_use]
    pub fn decide(&self, situation: &RetrySituation) -> Retry {
        let attempt = &situation.attempt;
        if attempt.met_stale_connection() || attempt.was_left_behind() {
            return Retry::FreshConnection;
        }
        if !self.sends_again(attempt) {
            return Retry::GiveUp;
        }
        let failed = attempt.failed_before.saturating_add(1);
        let redispatches = self.redispatches(situation, failed);
        // Only a failed connection to the same server is likely to fail again at once. A timeout has waited already,
        // and a connection that had been used before says nothing about a new one.
        let waits = matches!(attempt.failure, Failure::ConnectionError | Failure::NotProcessed)
            && (!redispatches || situation.active_servers <= 1)
            && !attempt.reused_connection;
        let turn_around = self.connect_timeout_ms.filter(|&timeout| timeout > 0).unwrap_or(TURN_AROUND_MS);
        let wait = if waits { turn_around.min(TURN_AROUND_MS) } else { 0 };
        if redispatches { Retry::Redispatch(wait) } else { Retry::SameServer(wait) }
    }

    fn redispatches(&self, situation: &RetrySituation, failed: u32) -> bool {
        let Some(interval) = self.redispatch else { return false };
        if situation.even_if_down {
            return false;
        }
        let is_starting_or_down = situation.server_state < OperationalState::Running;
        let is_due = match interval {
            0 => false,
            1.. => failed.is_multiple_of(interval.unsigned_abs()),
            // Counted from the last attempt: -1 is the last one, -2 the one before it, and so on.
            _ => {
                let every = i64::from(self.retries) + 1 + i64::from(interval);
                i64::from(failed).checked_rem(every) == Some(0)
            }
        };
        let takes_turns = !situation.is_forced && situation.active_servers > 1 && !self.is_hash;
        is_starting_or_down || is_due || takes_turns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn situation(failed_before: u32, failure: Failure) -> RetrySituation {
        RetrySituation {
            attempt: FailedAttempt::to_connect(failure, failed_before),
            server_state: OperationalState::Running,
            active_servers: 2,
            is_forced: false,
            even_if_down: false,
        }
    }

    /// What a policy does after each failed attempt, until it gives up.
    fn course(policy: &RetryPolicy, start: RetrySituation) -> Vec<Retry> {
        let mut course = Vec::new();
        for failed_before in 0..100 {
            let attempt = FailedAttempt { failed_before, ..start.attempt };
            let retry = policy.decide(&RetrySituation { attempt, ..start });
            course.push(retry);
            if retry == Retry::GiveUp {
                break;
            }
        }
        course
    }

    #[test]
    fn tells_whether_closed_idle_connections_matter() {
        for (words, retries, expected) in [
            ("conn-failure empty-response response-timeout", 3, true),
            ("all-retryable-errors", 1, true),
            ("all-retryable-errors", 0, false),
            ("empty-response response-timeout", 3, false),
            ("conn-failure empty-response", 3, false),
            ("conn-failure response-timeout 503", 3, false),
            ("none", 3, false),
        ] {
            let retry_on = words.split(' ').fold(RetryOn::NONE, |found, word| found.with_word(word).unwrap());
            let policy = RetryPolicy { retries, retry_on, ..RetryPolicy::default() };
            assert_eq!(policy.outlives_stale_connections(), expected, "{words} {retries}");
        }
    }

    #[test]
    fn follows_haproxy() {
        use Retry::{GiveUp, Redispatch, SameServer};
        let refused = situation(0, Failure::ConnectionError);
        let forced = RetrySituation { is_forced: true, ..refused };
        let alone = RetrySituation { active_servers: 1, ..refused };
        let policy = RetryPolicy { connect_timeout_ms: Some(100), ..RetryPolicy::default() };
        let with = |redispatch| RetryPolicy { redispatch: Some(redispatch), ..policy };
        let data: &[(&str, RetryPolicy, RetrySituation, &[Retry])] = &[
            ("no retries", RetryPolicy { retries: 0, ..policy }, refused, &[GiveUp]),
            ("same server", policy, refused, &[SameServer(100), SameServer(100), SameServer(100), GiveUp]),
            ("taking turns", with(-1), refused, &[Redispatch(0), Redispatch(0), Redispatch(0), GiveUp]),
            ("alone", with(-1), alone, &[SameServer(100), SameServer(100), Redispatch(100), GiveUp]),
            ("forced, last", with(-1), forced, &[SameServer(100), SameServer(100), Redispatch(0), GiveUp]),
            ("forced, second", with(2), forced, &[SameServer(100), Redispatch(0), SameServer(100), GiveUp]),
            ("forced, from -3", with(-3), forced, &[Redispatch(0), Redispatch(0), Redispatch(0), GiveUp]),
            ("forced, from -5", with(-5), forced, &[Redispatch(0), Redispatch(0), Redispatch(0), GiveUp]),
            (
                "forced, division by zero",
                with(-4),
                forced,
                &[SameServer(100), SameServer(100), SameServer(100), GiveUp],
            ),
            ("forced, never", with(0), forced, &[SameServer(100), SameServer(100), SameServer(100), GiveUp]),
            (
                "force-persist",
                with(1),
                RetrySituation { even_if_down: true, ..forced },
                &[SameServer(100), SameServer(100), SameServer(100), GiveUp],
            ),
            (
                "server went down",
                with(-1),
                RetrySituation { server_state: OperationalState::Stopped, ..forced },
                &[Redispatch(0), Redispatch(0), Redispatch(0), GiveUp],
            ),
            (
                "timeout has waited",
                policy,
                situation(0, Failure::ConnectionTimeout),
                &[SameServer(0), SameServer(0), SameServer(0), GiveUp],
            ),
            (
                "used connection",
                policy,
                RetrySituation { attempt: FailedAttempt { reused_connection: true, ..refused.attempt }, ..refused },
                &[SameServer(0), SameServer(0), SameServer(0), GiveUp],
            ),
            ("not retryable", policy, situation(0, Failure::EmptyResponse), &[GiveUp]),
            (
                "no choice",
                policy,
                RetrySituation::without_choice(refused.attempt),
                &[SameServer(100), SameServer(100), SameServer(100), GiveUp],
            ),
        ];
        for (name, policy, start, expected) in data {
            assert_eq!(course(policy, *start), *expected, "{name}");
        }
    }

    /// What becomes of a request whose response failed: each case says how it differs from an idempotent request that can
    /// be sent again and went over a new connection to one of two servers, by a policy with `option redispatch` and all of
    /// `retry-on`.
    #[test]
    fn failed_responses_are_retried_as_in_haproxy() {
        use Failure::{BrokenResponse, EmptyResponse, JunkResponse, ResponseTimeout, Status};
        use Retry::{FreshConnection, GiveUp, Redispatch};
        let all = RetryOn::NONE.with_word("all-retryable-errors").unwrap();
        let default = RetryOn::DEFAULT;
        let plain = |failure| FailedAttempt {
            failure,
            failed_before: 0,
            can_resend: true,
            reused_connection: false,
            is_idempotent: true,
        };
        let reused = |failure| FailedAttempt { reused_connection: true, ..plain(failure) };
        let sent = |failure| FailedAttempt { can_resend: false, ..reused(failure) };
        let post = |failure| FailedAttempt { is_idempotent: false, ..reused(failure) };
        let late = |failure, failed_before| FailedAttempt { failed_before, ..reused(failure) };
        // The attempt, `retry-on`, what is done, whether the server made an error.
        let data: &[(FailedAttempt, RetryOn, Retry, bool)] = &[
            (plain(EmptyResponse), default, GiveUp, true),
            (plain(EmptyResponse), all, Redispatch(0), false),
            (plain(BrokenResponse), all, Redispatch(0), false),
            (plain(ResponseTimeout), all, Redispatch(0), false),
            (plain(Status(503)), all, Redispatch(0), false),
            (plain(Status(404)), all, GiveUp, true),
            // What made no sense counts as an error although the request is sent again.
            (plain(JunkResponse), all, Redispatch(0), true),
            (plain(JunkResponse), default, GiveUp, true),
            // A kept connection that its server closed at the same moment.
            (reused(EmptyResponse), default, FreshConnection, true),
            (reused(EmptyResponse), all, FreshConnection, false),
            (reused(BrokenResponse), default, GiveUp, true),
            (reused(ResponseTimeout), default, GiveUp, true),
            (post(EmptyResponse), default, GiveUp, true),
            (post(EmptyResponse), all, Redispatch(0), false),
            (late(EmptyResponse, 1), default, GiveUp, true),
            (late(EmptyResponse, 1), all, Redispatch(0), false),
            (late(EmptyResponse, 3), all, GiveUp, true),
            (late(Status(500), 3), all, GiveUp, true),
            // What was sent and is gone, or what a rule forbade to send again.
            (sent(EmptyResponse), all, GiveUp, true),
            (sent(Status(500)), all, GiveUp, true),
        ];
        for (attempt, retry_on, expected, is_error) in data {
            let policy = RetryPolicy { redispatch: Some(-1), retry_on: *retry_on, ..RetryPolicy::default() };
            let start = RetrySituation { attempt: *attempt, ..situation(0, attempt.failure) };
            assert_eq!(policy.decide(&start), *expected, "{attempt:?} {retry_on:?}");
            assert_eq!(policy.counts_as_error(attempt), *is_error, "{attempt:?} {retry_on:?}");
            let goes_on = matches!(expected, Redispatch(_));
            assert!(*expected == FreshConnection || policy.sends_again(attempt) == goes_on, "{attempt:?}");
        }
    }

    #[test]
    fn waits_a_second_at_most() {
        for (timeout, wait) in [(None, 1_000), (Some(0), 1_000), (Some(30), 30), (Some(5_000), 1_000)] {
            let policy = RetryPolicy { connect_timeout_ms: timeout, ..RetryPolicy::default() };
            assert_eq!(policy.decide(&situation(0, Failure::ConnectionError)), Retry::SameServer(wait));
        }
    }

    #[test]
    fn words_select_failures() {
        let all = [
            Failure::ConnectionError,
            Failure::ConnectionTimeout,
            Failure::EmptyResponse,
            Failure::JunkResponse,
            Failure::ResponseTimeout,
            Failure::ZeroRttRejected,
            Failure::Status(401),
            Failure::Status(403),
            Failure::Status(404),
            Failure::Status(408),
            Failure::Status(425),
            Failure::Status(500),
            Failure::Status(501),
            Failure::Status(502),
            Failure::Status(503),
            Failure::Status(504),
            Failure::Status(200),
            Failure::Status(505),
        ];
        let data: &[(&str, &[usize])] = &[
            ("none", &[]),
            ("conn-failure", &[0, 1]),
            ("empty-response", &[2]),
            ("junk-response", &[3]),
            ("response-timeout", &[4]),
            ("0rtt-rejected", &[5]),
            ("401", &[6]),
            ("504", &[15]),
            ("all-retryable-errors", &[0, 1, 2, 3, 4, 5, 11, 13, 14, 15]),
            ("503 404 conn-failure", &[0, 1, 8, 14]),
        ];
        for (words, expected) in data {
            let retry_on =
                words.split(' ').try_fold(RetryOn::NONE, RetryOn::with_word).unwrap_or_else(|| panic!("{words}"));
            let found: Vec<usize> = (0..all.len()).filter(|&index| retry_on.contains(all[index])).collect();
            assert_eq!(found, *expected, "{words}");
        }
        for word in ["", "200", "505", "4040", "conn", "-401", "401x"] {
            assert_eq!(RetryOn::NONE.with_word(word), None, "{word}");
        }
        assert!(!RetryOn::DEFAULT.needs_request_kept());
        assert!(RetryOn::DEFAULT.with_word("404").unwrap().needs_request_kept());
    }
}
