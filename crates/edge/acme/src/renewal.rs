//! When a certificate is renewed, and when a failed attempt is repeated: pure functions over times.

use std::time::Duration;

use serde::Deserialize;
use tls::Certificate;

use crate::{dates, jws::base64url};

/// The name of a certificate in requests for renewal information (RFC 9773, section 4.1).
#[must_use]
pub fn certificate_id(certificate: &Certificate<'_>) -> Option<String> {
    let key = certificate.authority_key()?;
    Some(format!("{}.{}", base64url(key), base64url(certificate.serial_der())))
}

/// What an authority says about when to renew (RFC 9773, section 4.2).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RenewalInfo {
    suggested_window: SuggestedWindow,
    /// Where a person reads why.
    #[serde(default, rename = "explanationURL")]
    pub explanation: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct SuggestedWindow {
    start: String,
    end: String,
}

impl RenewalInfo {
    /// The window, in seconds since 1970; none if it is no window.
    #[must_use]
    pub fn window(&self) -> Option<(i64, i64)> {
        let window =
            (dates::from_rfc3339(&self.suggested_window.start)?, dates::from_rfc3339(&self.suggested_window.end)?);
        (window.0 < window.1).then_some(window)
    }
}

/// How long until renewal information is asked for again: what the authority says, within bounds (RFC 9773, section 4.3).
#[must_use]
pub fn ask_again(said: Option<Duration>) -> Duration {
    const USUAL: Duration = Duration::from_secs(6 * 3_600);
    said.unwrap_or(USUAL).clamp(Duration::from_secs(60), Duration::from_secs(24 * 3_600))
}

/// When a certificate is renewed that begins and ends at these times: at a moment of the authority's window, chosen by `chance`
/// from 0 to 1, or else at two thirds of its life and a little later, so that not all come at once. It is never later than
/// with an eighth of its life left.
#[must_use]
pub fn renewal_time((begins, ends): (i64, i64), window: Option<(i64, i64)>, chance: f64) -> i64 {
    let life = ends.saturating_sub(begins).max(0);
    let between = |from: i64, to: i64| {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            reason = "a moment between two times, to the second"
        )]
        let part = (to.saturating_sub(from) as f64 * chance) as i64;
        from.saturating_add(part)
    };
    let last = ends - life / 8;
    match window {
        Some((from, to)) => between(from, to).min(last),
        None => between(begins + life / 3 * 2, begins + life / 3 * 2 + life / 20),
    }
}

/// When a certificate that came at `issued` may be renewed at the earliest, whatever its dates and its authority say: one that comes late in
/// its life, or whose window is over, would be asked for without end otherwise.
#[must_use]
pub fn earliest(issued: i64, ends: i64) -> i64 {
    const LEAST: i64 = 10;
    const MOST: i64 = 12 * 3_600;
    issued.saturating_add((ends.saturating_sub(issued) / 3).clamp(LEAST, MOST))
}

/// How long to wait after so many failures in a row: a minute, then three times as long each time, up to half a day, or a fourth of
/// the time that the certificate has left; at least as long as the authority says. `chance` spreads it by a fifth.
#[must_use]
pub fn backoff(failures: u32, left: Duration, retry_after: Option<Duration>, chance: f64) -> Duration {
    const FIRST: Duration = Duration::from_secs(60);
    /// What authorities allow at all times: five failures an hour for a name.
    const LEAST_MAX: Duration = Duration::from_secs(900);
    const MOST: Duration = Duration::from_secs(12 * 3_600);
    /// What is believed of `Retry-After`.
    const BELIEVED_MAX: Duration = Duration::from_secs(7 * 86_400);
    let most = (left / 4).clamp(LEAST_MAX, MOST);
    let wait = FIRST.saturating_mul(3_u32.saturating_pow(failures.saturating_sub(1).min(10))).min(most);
    wait.mul_f64(chance.mul_add(0.2, 1.0)).max(retry_after.unwrap_or_default().min(BELIEVED_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400;

    #[test]
    fn renewal_comes_in_the_window_or_at_two_thirds() {
        for (life, window, chance, expected) in [
            (90 * DAY, None, 0.0, 60 * DAY),
            (90 * DAY, None, 1.0, 64 * DAY + DAY / 2),
            (6 * DAY, None, 0.0, 4 * DAY),
            (45 * DAY, None, 0.0, 30 * DAY),
            (90 * DAY, Some((50 * DAY, 52 * DAY)), 0.5, 51 * DAY),
            // One that has begun is over at once.
            (90 * DAY, Some((-2 * DAY, -DAY)), 0.5, -DAY - DAY / 2),
            // A window that ends too late is not waited for.
            (80 * DAY, Some((90 * DAY, 91 * DAY)), 0.5, 70 * DAY),
        ] {
            assert_eq!(renewal_time((0, life), window, chance), expected, "{life} {window:?}");
        }
    }

    #[test]
    fn what_has_just_come_is_left_alone_for_a_while() {
        for (left, expected) in [(90 * DAY, DAY / 2), (DAY, 8 * 3_600), (30, 10), (1, 10), (-DAY, 10)] {
            assert_eq!(earliest(1_000, 1_000 + left) - 1_000, expected, "{left}");
        }
    }

    #[test]
    fn failures_wait_ever_longer_within_bounds() {
        let minutes = |failures, left_days: u32, retry_after: Option<u64>| {
            let left = Duration::from_secs(86_400) * left_days;
            backoff(failures, left, retry_after.map(Duration::from_secs), 0.0).as_secs() / 60
        };
        assert_eq!(
            [1, 2, 3, 4, 5, 6, 7, 99].map(|failures| minutes(failures, 30, None)),
            [1, 3, 9, 27, 81, 243, 720, 720]
        );
        assert_eq!(minutes(9, 1, None), 360);
        assert_eq!(minutes(9, 0, None), 15);
        assert_eq!(minutes(1, 30, Some(7_200)), 120);
        assert_eq!(minutes(1, 30, Some(u64::MAX)), 7 * 24 * 60);
        assert_eq!(backoff(1, Duration::ZERO, None, 1.0), Duration::from_secs(72));
    }

    #[test]
    fn a_window_that_is_none_is_not_taken() {
        let window = |start: &str, end: &str| {
            let text = format!(r#"{{"suggestedWindow":{{"start":"{start}","end":"{end}"}}}}"#);
            serde_json::from_str::<RenewalInfo>(&text).unwrap().window()
        };
        assert_eq!(window("1970-01-02T00:00:00Z", "1970-01-03T00:00:00Z"), Some((DAY, 2 * DAY)));
        assert_eq!(window("1970-01-03T00:00:00Z", "1970-01-02T00:00:00Z"), None);
        assert_eq!(window("soon", "later"), None);
    }
}
