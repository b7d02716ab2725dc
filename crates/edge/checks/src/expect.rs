//! Whether a response is what a check expects.

use balance::CheckStatus;
use haproxycfg::model::{CheckExpect, CheckExpectation, StringMatch};
use memchr::memmem;
use sample::Context as _;

use super::{
    context::{CheckContext, OPTIONS},
    response::Received,
};

/// What an expectation comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// As expected: the next step may follow.
    Met,
    /// More of the response may still meet it.
    Wait,
    /// Not as expected.
    Failed {
        status: CheckStatus,
        /// Where the description comes from, unless `on-error` gives one.
        reason: Reason,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    None,
    /// The response's reason phrase.
    Phrase,
    Text(&'static str),
}

/// The status that a configuration names.
pub(super) fn status_named(name: Option<&str>) -> Option<CheckStatus> {
    Some(match name? {
        "L4OK" => CheckStatus::Layer4Ok,
        "L4CON" => CheckStatus::Layer4Connection,
        "L4TOUT" => CheckStatus::Layer4Timeout,
        "L6OK" => CheckStatus::Layer6Ok,
        "L6RSP" => CheckStatus::Layer6Response,
        "L6TOUT" => CheckStatus::Layer6Timeout,
        "L7OK" => CheckStatus::Layer7Ok,
        "L7OKC" => CheckStatus::Layer7Conditional,
        "L7RSP" => CheckStatus::Layer7Response,
        "L7STS" => CheckStatus::Layer7Status,
        "L7TOUT" => CheckStatus::Layer7Timeout,
        _ => return None,
    })
}

/// Compares; `ended` says that no more will come.
pub(super) fn evaluate(expect: &CheckExpect, received: &Received, ended: bool, context: &CheckContext<'_>) -> Verdict {
    let ended = ended || received.is_complete();
    if received.is_broken() || ended && !received.has_head() {
        return Verdict::Failed { status: CheckStatus::Layer7Response, reason: Reason::None };
    }
    if !received.has_head() {
        return Verdict::Wait;
    }
    let wrong_status = status_named(expect.error_status.as_deref()).unwrap_or(CheckStatus::Layer7Status);
    let head_failed = Verdict::Failed { status: wrong_status, reason: Reason::Phrase };
    let status = received.head.status();
    let matches = match &expect.what {
        CheckExpectation::Status(ranges) => ranges.iter().any(|(low, high)| (*low..=*high).contains(&status)),
        CheckExpectation::StatusRegex(regex) => regex.is_match(status.to_string().as_bytes()),
        CheckExpectation::Header { full, name, value } => {
            match has_header(received, *full, name, value.as_ref(), context) {
                Some(matches) => matches,
                None => return empty_pattern(),
            }
        }
        CheckExpectation::Body(_) | CheckExpectation::BodyRegex(_) | CheckExpectation::BodyFormat(_) => {
            return evaluate_body(expect, received, ended, context);
        }
        // What only `tcp-check` expects.
        CheckExpectation::Text(_)
        | CheckExpectation::Binary(_)
        | CheckExpectation::TextRegex(_)
        | CheckExpectation::BinaryRegex(_)
        | CheckExpectation::TextFormat(_)
        | CheckExpectation::BinaryFormat(_)
        | CheckExpectation::Message(_) => false,
    };
    if matches == expect.negate { head_failed } else { Verdict::Met }
}

/// A log-format string that matches whatever there is, or nothing, is a mistake.
fn empty_pattern() -> Verdict {
    let text = "log-format string evaluated to an empty string";
    Verdict::Failed { status: CheckStatus::Layer7Response, reason: Reason::Text(text) }
}

fn evaluate_body(expect: &CheckExpect, received: &Received, ended: bool, context: &CheckContext<'_>) -> Verdict {
    let status = status_named(expect.error_status.as_deref()).unwrap_or(CheckStatus::Layer7Response);
    let failed = |text| Verdict::Failed { status, reason: Reason::Text(text) };
    let body = received.body();
    if body.is_empty() {
        return if ended { failed("HTTP content check could not find a response body") } else { Verdict::Wait };
    }
    let rendered;
    let (pattern, regex) = match &expect.what {
        CheckExpectation::Body(text) => (Some(text.as_slice()), None),
        CheckExpectation::BodyFormat(format) => {
            rendered = context.render(format);
            if rendered.is_empty() {
                return empty_pattern();
            }
            (Some(rendered.as_slice()), None)
        }
        CheckExpectation::BodyRegex(regex) => (None, Some(regex)),
        _ => (None, None),
    };
    let needed = pattern.map_or(0, <[u8]>::len).max(expect.min_recv.unwrap_or(0));
    if !ended && body.len() < needed {
        return Verdict::Wait;
    }
    let matches = match (pattern, regex) {
        (Some(pattern), _) => memmem::find(body, pattern).is_some(),
        (None, Some(regex)) => regex.is_match(body),
        (None, None) => false,
    };
    // With `min-recv`, what has come is enough to decide.
    if !matches && !ended && expect.min_recv.is_none() {
        return Verdict::Wait;
    }
    match (matches, expect.negate) {
        (true, true) => failed("HTTP check matched unwanted content"),
        (false, false) => failed("HTTP content check did not match"),
        _ => Verdict::Met,
    }
}

/// A text match with its log-format strings written out.
enum Pattern<'a> {
    Exact(Vec<u8>),
    Prefix(Vec<u8>),
    Suffix(Vec<u8>),
    Contains(Vec<u8>),
    Regex(&'a sample::Regex),
}

impl<'a> Pattern<'a> {
    /// `None` when a log-format string is empty.
    fn of(text: &'a StringMatch, context: &CheckContext<'_>) -> Option<Self> {
        let render = |format: &sample::LogFormat| Some(context.render(format)).filter(|text| !text.is_empty());
        Some(match text {
            StringMatch::Exact(format) => Self::Exact(render(format)?),
            StringMatch::Prefix(format) => Self::Prefix(render(format)?),
            StringMatch::Suffix(format) => Self::Suffix(render(format)?),
            StringMatch::Contains(format) => Self::Contains(render(format)?),
            StringMatch::Regex(regex) => Self::Regex(regex),
        })
    }

    fn lowercase(mut self) -> Self {
        match &mut self {
            Self::Exact(text) | Self::Prefix(text) | Self::Suffix(text) | Self::Contains(text) => {
                text.make_ascii_lowercase();
            }
            Self::Regex(_) => {}
        }
        self
    }

    fn matches(&self, text: &[u8]) -> bool {
        match self {
            Self::Exact(pattern) => text == pattern,
            Self::Prefix(pattern) => text.starts_with(pattern),
            Self::Suffix(pattern) => text.ends_with(pattern),
            Self::Contains(pattern) => memmem::find(text, pattern).is_some(),
            Self::Regex(regex) => regex.is_match(text),
        }
    }
}

/// Whether a field matches in name and value; `None` when a pattern is empty. Names are compared in lower case, also by
/// regular expressions, as HAProxy keeps them.
fn has_header(
    received: &Received,
    full: bool,
    name: &StringMatch,
    value: Option<&StringMatch>,
    context: &CheckContext<'_>,
) -> Option<bool> {
    let name = Pattern::of(name, context)?.lowercase();
    let value = match value {
        Some(value) => Some(Pattern::of(value, context)?),
        None => None,
    };
    let mut fields = received.head.headers.iter().filter(|(found, _)| name.matches(&found.to_ascii_lowercase()));
    Some(match &value {
        None => fields.next().is_some(),
        Some(value) if full => fields.any(|(_, found)| value.matches(found)),
        Some(value) => fields.any(|(_, found)| http::elements(found).any(|element| value.matches(element))),
    })
}

/// The description of a failure: the reason or `on-error`, then the step's comment.
pub(super) fn failure_text(
    expect: &CheckExpect,
    reason: Reason,
    comment: Option<&str>,
    context: &CheckContext<'_>,
) -> String {
    let phrase = context.response().map(|response| response.reason).unwrap_or_default();
    let given = match reason {
        Reason::Phrase if expect.on_error.is_none() => phrase,
        Reason::Text(text) if expect.on_error.is_none() => text.as_bytes(),
        Reason::None | Reason::Phrase | Reason::Text(_) => b"",
    };
    let mut text = match &expect.on_error {
        Some(format) if given.is_empty() => context.render(format),
        _ => given.to_vec(),
    };
    if let Some(comment) = comment {
        text.extend_from_slice(b" comment: ");
        text.extend_from_slice(comment.as_bytes());
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// The code that `status-code` gives, which begins with a number.
pub(super) fn code_of_expression(expect: &CheckExpect, context: &CheckContext<'_>) -> Option<u16> {
    let expression = expect.status_code.as_ref()?;
    let text = expression.string(context, OPTIONS)?;
    let text = text.as_ref().trim_ascii_start();
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
    let number = digits.fold(0_u32, |number, byte| number.saturating_mul(10).saturating_add(u32::from(byte - b'0')));
    Some(u16::try_from(number).unwrap_or(u16::MAX))
}

/// The code that `status-code` gives, or the response's status.
pub(super) fn code(expect: &CheckExpect, received: &Received, context: &CheckContext<'_>) -> u16 {
    code_of_expression(expect, context).unwrap_or_else(|| if received.has_head() { received.head.status() } else { 0 })
}
