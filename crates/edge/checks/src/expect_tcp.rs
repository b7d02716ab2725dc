//! Whether what came over TCP is what a check expects.

use balance::{
    CheckStatus,
    agent::AgentLine,
    message::{self, MessageVerdict},
};
use basics::hex;
use haproxycfg::model::{CheckExpect, CheckExpectation, CheckMessage, CheckProtocol, CheckStep};
use memchr::memmem;

use super::{context::CheckContext, expect::status_named, words};

/// What an expectation comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// As expected: the next step may follow. HAProxy's own messages may have words for it.
    Met(Option<String>),
    /// More may still meet it.
    Wait,
    /// Not as expected.
    Failed {
        status: CheckStatus,
        /// The server's own code.
        code: Option<u16>,
        /// The description: it goes before `on-error`.
        text: Option<String>,
        /// What was forbidden is there.
        matched: bool,
    },
    /// The line of an agent, or that there will be none.
    Agent(AgentLine),
}

impl Verdict {
    fn failed(status: CheckStatus, text: &str) -> Self {
        Self::Failed { status, code: None, text: Some(text.to_owned()), matched: false }
    }
}

/// Compares; `ended` says that no more will come.
pub(super) fn evaluate(
    expect: &CheckExpect,
    bytes: &[u8],
    ended: bool,
    is_last: bool,
    context: &CheckContext<'_>,
) -> Verdict {
    let needed = match &expect.what {
        CheckExpectation::Text(text) | CheckExpectation::Binary(text) => text.len(),
        _ => 0,
    };
    if !ended && bytes.len() < needed.max(expect.min_recv.unwrap_or(0)) {
        return Verdict::Wait;
    }
    let found = |pattern: &[u8]| memmem::find(bytes, pattern).is_some();
    let matches = match &expect.what {
        CheckExpectation::Text(text) | CheckExpectation::Binary(text) => found(text),
        CheckExpectation::TextRegex(regex) => regex.is_match(bytes),
        CheckExpectation::BinaryRegex(regex) => {
            // HAProxy writes no more digits than a buffer holds.
            let most = context.proxy.config.global.tune.bufsize / 2;
            regex.is_match(&hex::upper(bytes.get(..most).unwrap_or(bytes)).into_bytes())
        }
        CheckExpectation::TextFormat(format) | CheckExpectation::BinaryFormat(format) => {
            let mut pattern = context.render(format);
            if pattern.is_empty() {
                let words = "log-format string evaluated to an empty string";
                return Verdict::failed(CheckStatus::Layer7Response, words);
            }
            if matches!(expect.what, CheckExpectation::BinaryFormat(_)) {
                let words = "Failed to parse hexastring resulting of eval of a log-format string";
                match hex::bytes(&pattern) {
                    Some(bytes) => pattern = bytes,
                    None => return Verdict::failed(CheckStatus::Layer7Response, words),
                }
            }
            if bytes.len() < pattern.len() && !ended {
                return Verdict::Wait;
            }
            bytes.len() >= pattern.len() && found(&pattern)
        }
        CheckExpectation::Message(message) => return read_message(*message, bytes, ended, is_last, context),
        // What only `http-check` expects.
        _ => false,
    };
    // With `min-recv`, what has come is enough to decide.
    if !matches && !ended && expect.min_recv.is_none() {
        return Verdict::Wait;
    }
    if matches != expect.negate {
        return Verdict::Met(None);
    }
    let status = status_named(expect.error_status.as_deref()).unwrap_or(CheckStatus::Layer7Response);
    Verdict::Failed { status, code: None, text: None, matched: matches }
}

fn read_message(
    message: CheckMessage,
    bytes: &[u8],
    ended: bool,
    is_last: bool,
    context: &CheckContext<'_>,
) -> Verdict {
    let verdict = match message {
        CheckMessage::MysqlGreeting => message::mysql(bytes, false, ended),
        CheckMessage::MysqlLogin => message::mysql(bytes, true, ended),
        CheckMessage::LdapBind => message::ldap(bytes, ended),
        CheckMessage::SpopHello => {
            message::spop(bytes, context.proxy.config.global.tune.bufsize.saturating_sub(4), ended)
        }
        CheckMessage::AgentLine => {
            return match AgentLine::read(bytes, ended) {
                AgentLine::Wait => Verdict::Wait,
                line => Verdict::Agent(line),
            };
        }
    };
    match verdict {
        MessageVerdict::Wait => Verdict::Wait,
        MessageVerdict::Good(words) => Verdict::Met(is_last.then(|| String::from_utf8_lossy(&words).into_owned())),
        MessageVerdict::Bad { status, code, info } => Verdict::Failed {
            status,
            code: Some(code),
            text: Some(info).filter(|info| !info.is_empty()).map(|info| String::from_utf8_lossy(&info).into_owned()),
            matched: false,
        },
    }
}

/// The description of a failure: the reason, or `on-error`, or what was expected, then the step's comment.
pub(super) fn failure_text(
    protocol: CheckProtocol,
    step: &CheckStep,
    expect: &CheckExpect,
    text: Option<String>,
    matched: bool,
    context: &CheckContext<'_>,
) -> String {
    let mut out = match (text, &expect.on_error) {
        (Some(text), _) => text,
        (None, Some(format)) => String::from_utf8_lossy(&context.render(format)).into_owned(),
        (None, None) if protocol == CheckProtocol::Tcp => words::mismatch(step, &expect.what, matched),
        (None, None) => String::new(),
    };
    if let Some(comment) = &step.comment {
        out += " comment: ";
        out += comment;
    }
    // HAProxy keeps it as a text that ends at the first zero byte.
    let end = out.find('\0').unwrap_or(out.len());
    out.truncate(end);
    out
}
