//! Health checks: kinds of results, the counter that turns results into up and down, and the delays between checks.
//!
//! The counter `health` runs from 0 to `rise + fall - 1`; below `rise` the server is down. A good check adds one, and
//! jumps to the top as soon as `rise` is reached; a bad one takes one, and falls to 0 as soon as it is below `rise`.
//! A server starts at `rise`: up, but the first failed check takes it down.
//!
//! ```text
//!    down: 0 .. rise-1                    up: rise .. rise+fall-1
//!   0 --good--> 1 --good--> (rise reached) ------------------> top
//!   0 <------------------- (below rise) <--bad-- rise <--bad-- top
//! ```

use crate::agent::AgentReply;
use crate::config::CheckConfig;
use crate::probe::{ProbeHistory, Reached};
use crate::rng::Rng;

/// Checks with a shorter interval than this do not count when first checks are spread, in milliseconds.
const SPREAD_INTER_MS_MIN: u32 = 1_000;
/// The text that a check leaves is cut at this many bytes, as HAProxy cuts it.
pub const CHECK_INFO_LEN_MAX: usize = 127;

/// What a check came to, or where it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum CheckStatus {
    /// Nothing is known.
    #[default]
    Unknown,
    /// No check has ended yet.
    Initializing,
    /// Checked, nothing changed.
    Checked,
    /// Too many errors in observed traffic.
    Analyze,
    /// The socket could not be made.
    SocketError,
    /// The connection was made, and that was all there was to check.
    Layer4Ok,
    /// The connection took too long.
    Layer4Timeout,
    /// The connection failed: refused, no route.
    Layer4Connection,
    /// The TLS handshake was done, and that was all there was to check.
    Layer6Ok,
    /// The TLS handshake took too long.
    Layer6Timeout,
    /// The TLS handshake failed.
    Layer6Response,
    /// The response took too long.
    Layer7Timeout,
    /// The response was not valid.
    Layer7Response,
    /// The response was the expected one.
    Layer7Ok,
    /// The response asks for no new visitors (404 with `disable-on-404`).
    Layer7Conditional,
    /// The response was valid but not the expected one.
    Layer7Status,
    /// An external check could not be run.
    ProcessError,
    /// An external check took too long.
    ProcessTimeout,
    /// An external check passed.
    ProcessOk,
}

/// What a status means for the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CheckResult {
    /// No result yet.
    #[default]
    Unknown,
    /// A result that says nothing.
    Neutral,
    /// Bad.
    Failed,
    /// Good.
    Passed,
    /// Good, but no new visitors.
    ConditionallyPassed,
}

impl CheckStatus {
    /// Meaning, short name as in the statistics, description as in messages, and number as in state files.
    fn entry(self) -> (CheckResult, &'static str, &'static str, u8) {
        use CheckResult::{ConditionallyPassed, Failed, Neutral, Passed, Unknown};
        match self {
            Self::Unknown => (Unknown, "UNK", "Unknown", 0),
            Self::Initializing => (Unknown, "INI", "Initializing", 1),
            Self::Checked => (Neutral, "CHECKED", "No status change", 3),
            Self::Analyze => (Failed, "HANA", "Health analyze", 4),
            Self::SocketError => (Failed, "SOCKERR", "Socket error", 5),
            Self::Layer4Ok => (Passed, "L4OK", "Layer4 check passed", 6),
            Self::Layer4Timeout => (Failed, "L4TOUT", "Layer4 timeout", 7),
            Self::Layer4Connection => (Failed, "L4CON", "Layer4 connection problem", 8),
            Self::Layer6Ok => (Passed, "L6OK", "Layer6 check passed", 9),
            Self::Layer6Timeout => (Failed, "L6TOUT", "Layer6 timeout", 10),
            Self::Layer6Response => (Failed, "L6RSP", "Layer6 invalid response", 11),
            Self::Layer7Timeout => (Failed, "L7TOUT", "Layer7 timeout", 12),
            Self::Layer7Response => (Failed, "L7RSP", "Layer7 invalid response", 13),
            Self::Layer7Ok => (Passed, "L7OK", "Layer7 check passed", 15),
            Self::Layer7Conditional => (ConditionallyPassed, "L7OKC", "Layer7 check conditionally passed", 16),
            Self::Layer7Status => (Failed, "L7STS", "Layer7 wrong status", 17),
            Self::ProcessError => (Failed, "PROCERR", "External check error", 18),
            Self::ProcessTimeout => (Failed, "PROCTOUT", "External check timeout", 19),
            Self::ProcessOk => (Passed, "PROCOK", "External check passed", 20),
        }
    }

    /// What the status means for the server.
    pub fn result(self) -> CheckResult {
        self.entry().0
    }

    /// The short name in the statistics: `L7STS`.
    pub fn info(self) -> &'static str {
        self.entry().1
    }

    /// The description in messages: `Layer7 wrong status`.
    pub fn description(self) -> &'static str {
        self.entry().2
    }

    /// The number in state files.
    pub fn code(self) -> u8 {
        self.entry().3
    }

    /// The status with this number in state files.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.code() == code)
    }

    /// Whether the status comes with a code, such as a response's status.
    pub fn has_code(self) -> bool {
        self >= Self::Layer7Ok
    }

    const ALL: [Self; 19] = [
        Self::Unknown,
        Self::Initializing,
        Self::Checked,
        Self::Analyze,
        Self::SocketError,
        Self::Layer4Ok,
        Self::Layer4Timeout,
        Self::Layer4Connection,
        Self::Layer6Ok,
        Self::Layer6Timeout,
        Self::Layer6Response,
        Self::Layer7Timeout,
        Self::Layer7Response,
        Self::Layer7Ok,
        Self::Layer7Conditional,
        Self::Layer7Status,
        Self::ProcessError,
        Self::ProcessTimeout,
        Self::ProcessOk,
    ];
}

/// The two kinds of checks that a server may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CheckKind {
    /// `check`: does the server work?
    Health,
    /// `agent-check`: what does an agent say of it?
    Agent,
}

/// How a question to an agent ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentReport {
    /// There was no answer.
    Failed(CheckReport),
    /// The answer was not a whole line.
    Incomplete,
    /// The answer.
    Reply(AgentReply),
}

/// How a check ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckReport {
    /// The result.
    pub status: CheckStatus,
    /// The response's status code, or the exit code of an external check; 0 without one.
    pub code: u16,
    /// More about it, as it follows `info:` in messages; may be empty.
    pub info: String,
}

/// Something seen in the traffic to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observation {
    /// A connection was made.
    ConnectionOk,
    /// A connection failed.
    ConnectionError,
    /// A response that was fine.
    ResponseOk,
    /// A response with a status that tells of a broken server; see `Observation::of_status`.
    ResponseStatus,
    /// Headers of a response that were not valid.
    ResponseHeaders,
    /// A response that was not valid.
    ResponseInvalid,
    /// An error while a response was read.
    ReadError,
    /// A response that took too long.
    ReadTimeout,
    /// The server closed before it answered.
    BrokenPipe,
}

impl Observation {
    /// What the status of a response tells: those from 500 on are errors, except 501 and 505, which a client can cause.
    pub fn of_status(status: u16) -> Self {
        match status {
            100..=499 | 501 | 505 => Self::ResponseOk,
            _ => Self::ResponseStatus,
        }
    }

    /// The description in messages.
    pub fn description(self) -> &'static str {
        match self {
            Self::ConnectionOk => "L4 successful connection",
            Self::ConnectionError => "L4 unsuccessful connection",
            Self::ResponseOk => "Correct http response",
            Self::ResponseStatus => "Wrong http response",
            Self::ResponseHeaders => "Invalid http response (headers)",
            Self::ResponseInvalid => "Invalid http response",
            Self::ReadError => "Read error (http)",
            Self::ReadTimeout => "Read timeout (http)",
            Self::BrokenPipe => "Close from server (http)",
        }
    }

    /// Whether it is an error for someone who observes this layer; `None` when it says nothing there.
    pub(crate) fn is_error(self, layer7: bool) -> Option<bool> {
        match (self, layer7) {
            (Self::ConnectionError, _) => Some(true),
            (Self::ConnectionOk, false) | (Self::ResponseOk, true) => Some(false),
            (Self::ConnectionOk, true) | (_, false) => None,
            (_, true) => Some(true),
        }
    }
}

/// The health of one server, as checks tell it.
#[derive(Clone, Debug)]
pub(crate) struct Check {
    pub(crate) config: Option<CheckConfig>,
    /// Checks run; they may be switched off at run time.
    pub(crate) enabled: bool,
    /// No check is begun: the server is in maintenance.
    pub(crate) paused: bool,
    pub(crate) in_progress: bool,
    pub(crate) health: u32,
    /// Results that are counted in a window: then `health` is how many of them are good.
    pub(crate) probes: Option<Box<ProbeHistory>>,
    pub(crate) status: CheckStatus,
    pub(crate) result: CheckResult,
    pub(crate) code: u16,
    pub(crate) info: String,
    /// How long the last check took; `None` for results that took no check.
    pub(crate) duration_ms: Option<u64>,
    pub(crate) started_ms: Option<u64>,
    pub(crate) due_ms: Option<u64>,
    /// How long after it was due the last check began.
    pub(crate) late_ms: u64,
}

impl Check {
    pub(crate) fn new(config: Option<CheckConfig>, disabled: bool) -> Self {
        let config = config.map(|config| match config.window {
            None => CheckConfig { rise: config.rise.max(1), fall: config.fall.max(1), ..config },
            Some(window) => {
                let (size, threshold) = (u32::from(window.size), u32::from(window.threshold));
                CheckConfig { rise: threshold, fall: size - threshold + 1, ..config }
            }
        });
        let probes = config.and_then(|config| config.window).map(|window| Box::new(ProbeHistory::new(window)));
        let health = match &probes {
            Some(probes) => probes.good_count(),
            None => config.unwrap_or_default().rise,
        };
        Self {
            config,
            enabled: config.is_some(),
            paused: disabled,
            in_progress: false,
            health: if disabled { 0 } else { health },
            probes,
            status: CheckStatus::Initializing,
            result: CheckResult::Unknown,
            code: 0,
            info: String::new(),
            duration_ms: Some(0),
            started_ms: None,
            due_ms: None,
            late_ms: 0,
        }
    }

    pub(crate) fn rise(&self) -> u32 {
        self.config.unwrap_or_default().rise
    }

    pub(crate) fn fall(&self) -> u32 {
        self.config.unwrap_or_default().fall
    }

    /// The greatest value of `health`.
    pub(crate) fn top(&self) -> u32 {
        self.rise().saturating_add(self.fall()) - 1
    }

    pub(crate) fn is_up(&self) -> bool {
        self.health >= self.rise()
    }

    /// How far the server is on its way: `2/3` of the checks that take it down, or that bring it up.
    pub(crate) fn progress(&self) -> (u32, u32) {
        if self.is_up() { (self.health - self.rise() + 1, self.fall()) } else { (self.health, self.rise()) }
    }

    /// The delay to the next check, before it is spread.
    pub(crate) fn interval_ms(&self, is_stopped: bool) -> u32 {
        let config = self.config.unwrap_or_default();
        let configured = self.config.is_some();
        if configured && self.health == self.top() {
            config.inter_ms
        } else if is_stopped && self.health == 0 {
            config.downinter_ms.unwrap_or(config.inter_ms)
        } else {
            config.fastinter_ms.unwrap_or(config.inter_ms)
        }
    }

    /// Counts a result in the window.
    fn count_in_window(&mut self, is_good: bool) -> Option<bool> {
        let probes = self.probes.as_mut()?;
        let reached = match self.status {
            _ if is_good => Reached::GoodAnswer,
            CheckStatus::Layer7Status | CheckStatus::Layer7Response => Reached::Answer,
            CheckStatus::SocketError
            | CheckStatus::Layer4Timeout
            | CheckStatus::Layer4Connection
            | CheckStatus::Analyze => Reached::Nothing,
            _ => Reached::Server,
        };
        probes.record(reached, self.duration_ms);
        let before = std::mem::replace(&mut self.health, probes.good_count());
        Some(before != self.health)
    }

    /// Counts a bad check. Returns whether that changed anything.
    pub(crate) fn count_bad(&mut self) -> bool {
        if let Some(has_changed) = self.count_in_window(false) {
            return has_changed;
        }
        if self.health == 0 {
            return false;
        }
        self.health -= 1;
        if self.health < self.rise() {
            self.health = 0;
        }
        true
    }

    /// Counts a good check. Returns whether that changed anything.
    pub(crate) fn count_good(&mut self) -> bool {
        if let Some(has_changed) = self.count_in_window(true) {
            return has_changed;
        }
        if self.health >= self.top() {
            return false;
        }
        self.health += 1;
        if self.health >= self.rise() {
            self.health = self.top();
        }
        true
    }
}

/// Moves a delay by up to so many percent, either way.
pub(crate) fn spread_ms(interval_ms: u32, percent: u32, rng: &mut Rng) -> u64 {
    let interval = i64::from(interval_ms);
    let most = interval * i64::from(percent.min(50)) / 100;
    let random = i64::from(rng.next_u32());
    let moved = interval + most - ((2 * most * random) >> 32);
    u64::try_from(moved).unwrap_or(0)
}

/// When the first check of each server of the whole process is due, in milliseconds from the start.
///
/// `inter_ms` holds `CheckConfig::fastinter_ms`, or `inter_ms` without one, of every checked server in order of
/// declaration. The first checks are spread over the shortest of the intervals that are not tiny, so that a process
/// with many servers does not check all of them at once; `max_spread_checks_ms` (0: none) bounds that.
pub fn first_check_delays_ms(inter_ms: &[u32], max_spread_checks_ms: u32) -> Vec<u64> {
    let shortest = inter_ms.iter().copied().filter(|&inter| inter >= SPREAD_INTER_MS_MIN).min().unwrap_or(0);
    let count = inter_ms.len() as u64;
    inter_ms
        .iter()
        .zip(0u64..)
        .map(|(&inter, position)| {
            let mut over = shortest.max(inter);
            if max_spread_checks_ms > 0 {
                over = over.min(max_spread_checks_ms);
            }
            u64::from(over) * position / count
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_checks_are_spread() {
        let data: &[(&[u32], u32, &[u64])] = &[
            (&[], 0, &[]),
            (&[2_000], 0, &[0]),
            (&[2_000, 2_000, 2_000, 2_000], 0, &[0, 500, 1_000, 1_500]),
            // The longer interval of one server spreads only that one.
            (&[2_000, 10_000], 0, &[0, 5_000]),
            // Tiny intervals do not press the others together.
            (&[100, 2_000], 0, &[0, 1_000]),
            (&[2_000, 2_000], 100, &[0, 50]),
        ];
        for (inter_ms, most, expected) in data {
            assert_eq!(first_check_delays_ms(inter_ms, *most), *expected, "{inter_ms:?} {most}");
        }
    }

    #[test]
    fn spreading_stays_within_its_percent() {
        let mut rng = Rng::new(5);
        let delays: Vec<u64> = (0..1_000).map(|_| spread_ms(1_000, 20, &mut rng)).collect();
        assert!(delays.iter().all(|delay| (800..=1_200).contains(delay)));
        assert!(delays.iter().any(|&delay| delay < 830) && delays.iter().any(|&delay| delay > 1_170));
        assert_eq!(spread_ms(1_000, 0, &mut rng), 1_000);
    }

    #[test]
    fn statuses_have_distinct_numbers_and_come_back() {
        for status in CheckStatus::ALL {
            assert_eq!(CheckStatus::from_code(status.code()), Some(status));
        }
        assert_eq!(CheckStatus::from_code(14), None);
        assert_eq!(CheckStatus::Layer7Conditional.result(), CheckResult::ConditionallyPassed);
        assert!(CheckStatus::Layer7Ok.has_code() && !CheckStatus::Layer7Timeout.has_code());
    }
}
