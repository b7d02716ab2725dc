//! HAProxy's words for where a check stood when it failed.

use haproxycfg::model::{CheckAction, CheckExpectation, CheckPort, CheckProtocol, CheckStep};

/// Adds a text of the configuration as HAProxy prints it: up to the first zero byte.
fn push(out: &mut String, bytes: &[u8]) {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    out.push_str(&String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()));
}

/// Where a connection failed or time ran out. Only checks that are written as steps over TCP tell.
pub(super) fn place(protocol: CheckProtocol, step: &CheckStep) -> String {
    if protocol != CheckProtocol::Tcp {
        return String::new();
    }
    if step.number == 0 {
        return " at initial connection step of tcp-check".to_owned();
    }
    let mut out = format!(" at step {} of tcp-check", step.number);
    match &step.action {
        CheckAction::Connect(connect) => match connect.port {
            Some(CheckPort::Fixed(port)) => out += &format!(" (connect port {port})"),
            _ => out += " (connect)",
        },
        CheckAction::Send(_) | CheckAction::SendHttp { .. } => out += " (send)",
        CheckAction::Expect(expect) => {
            out += " (expect ";
            match &expect.what {
                CheckExpectation::Text(text) => {
                    out += "string '";
                    push(&mut out, text);
                    out.push('\'');
                }
                CheckExpectation::Binary(bytes) => {
                    out += "binary '";
                    push(&mut out, bytes);
                    out.push('\'');
                }
                CheckExpectation::TextRegex(_) => out += "regex",
                CheckExpectation::BinaryRegex(_) => out += "binary regex",
                CheckExpectation::TextFormat(_) => out += "log-format string",
                CheckExpectation::BinaryFormat(_) => out += "log-format binary",
                CheckExpectation::Message(_) => out += "custom function",
                // What only `http-check` expects is not expected over plain TCP.
                CheckExpectation::Status(_)
                | CheckExpectation::StatusRegex(_)
                | CheckExpectation::Header { .. }
                | CheckExpectation::Body(_)
                | CheckExpectation::BodyRegex(_)
                | CheckExpectation::BodyFormat(_) => {}
            }
            out.push(')');
        }
        CheckAction::SetVar(_) | CheckAction::UnsetVar(_) => {}
    }
    if let Some(comment) = &step.comment {
        out += &format!(" comment: '{comment}'");
    }
    out
}

/// An expectation that was not met, or that was although it was forbidden.
pub(super) fn mismatch(step: &CheckStep, what: &CheckExpectation, matched: bool) -> String {
    let number = step.number;
    let mut out = if matched { "TCPCHK matched unwanted content" } else { "TCPCHK did not match content" }.to_owned();
    let kind = match what {
        CheckExpectation::Text(text) => {
            out += " '";
            push(&mut out, text);
            out += &format!("' at step {number}");
            return out;
        }
        CheckExpectation::Binary(_) => "binary",
        CheckExpectation::TextRegex(_) => "regex",
        CheckExpectation::BinaryRegex(_) => "binary regex",
        CheckExpectation::TextFormat(_) => "log-format string",
        CheckExpectation::BinaryFormat(_) => "log-format binary",
        _ => "custom function",
    };
    out + &format!(" ({kind}) at step {number}")
}
