//! Options that choose what health checks do. All but two are sequences of steps that need no lines of their own.

use super::{
    check_steps,
    checks::{Chosen, PLACES, implicit_connection},
    words::around,
};
use crate::{
    args,
    diagnostics::{Prefix, Problem},
    line::Line,
    model::{
        CheckAction, CheckConnect, CheckExpect, CheckExpectation, CheckMessage, CheckProtocol, CheckSend, CheckStep,
    },
    scope::Scope,
};

pub(super) fn httpchk(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more_after(line, 3, 1)?;
    let send = check_steps::request_of_option(scope, line)
        .map_err(|problem| around(problem, |error| format!("'option httpchk' : {error}.")))?;
    let checks = &mut scope.proxy().rules.checks;
    checks.choose(Chosen::Http);
    checks.add_request_of_option(send);
    Ok(())
}

pub(super) fn tcp_check(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more_after(line, 0, 1)?;
    scope.proxy().rules.checks.choose(Chosen::Tcp);
    Ok(())
}

/// A sequence under construction.
struct Sequence<'s, 'a, 'l> {
    scope: &'s mut Scope<'a>,
    line: &'l Line,
    steps: Vec<CheckStep>,
    number: u32,
}

impl<'s, 'a, 'l> Sequence<'s, 'a, 'l> {
    /// One that begins with the connection of which no message speaks.
    fn implicit(scope: &'s mut Scope<'a>, line: &'l Line) -> Self {
        Self { scope, line, steps: vec![implicit_connection()], number: 0 }
    }

    /// One whose connection is its first step. Its end is not forced, as such servers do not like that.
    fn lingering(scope: &'s mut Scope<'a>, line: &'l Line) -> Self {
        let connect = CheckConnect { default: true, linger: true, ..CheckConnect::default() };
        let mut sequence = Self { scope, line, steps: Vec::new(), number: 0 };
        sequence.push(CheckAction::Connect(connect));
        sequence
    }

    fn push(&mut self, action: CheckAction) {
        self.number += 1;
        self.steps.push(CheckStep { action, comment: None, number: self.number });
    }

    fn send(&mut self, bytes: Vec<u8>) {
        self.push(CheckAction::Send(CheckSend::Bytes(bytes)));
    }

    fn expect(&mut self, what: CheckExpectation, options: CheckExpect) {
        self.push(CheckAction::Expect(Box::new(CheckExpect { what, ..options })));
    }

    fn message(&mut self, message: CheckMessage) {
        self.expect(CheckExpectation::Message(message), none());
    }

    fn regex(&self, pattern: &str) -> Result<sample::Regex, Problem> {
        sample::Regex::new(pattern.as_bytes(), false).map_err(|message| Problem::new(message).at(1))
    }

    fn format(&mut self, text: &str) -> Result<Option<sample::LogFormat>, Problem> {
        let plain = sample::LogFormatOptions::PLAIN;
        self.scope.log_format_with(self.line, 1, text.as_bytes(), PLACES, plain).map(Some)
    }

    fn done(self, protocol: CheckProtocol) {
        self.scope.proxy().rules.checks.choose(Chosen::BuiltIn(protocol, self.steps));
    }
}

/// An expectation with nothing set, to be completed.
fn none() -> CheckExpect {
    CheckExpect::plain(CheckExpectation::Text(Vec::new()))
}

fn status(name: &str) -> Option<String> {
    Some(name.to_owned())
}

/// What is said of a line as a whole.
fn refuse(message: String, index: usize) -> Problem {
    Problem::new(message).prefix(Prefix::Parsing).at(index)
}

pub(super) fn redis(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more_after(line, 0, 1)?;
    let mut steps = Sequence::implicit(scope, line);
    steps.send(b"*1\r\n$4\r\nPING\r\n".to_vec());
    let on_error = steps.format("%[res.payload(0,0),cut_crlf]")?;
    let on_success = steps.format("Redis server is ok")?;
    let options = CheckExpect { error_status: status("L7STS"), on_error, on_success, ..none() };
    steps.expect(CheckExpectation::Text(b"+PONG\r\n".to_vec()), options);
    steps.done(CheckProtocol::Redis);
    Ok(())
}

pub(super) fn smtp(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more_after(line, 2, 1)?;
    let hello = match (line.word(2), line.word(3)) {
        (hello @ ("EHLO" | "HELO"), domain) if !domain.is_empty() => format!("{hello} {domain}\r\n"),
        // As in HAProxy, anything else is as good as nothing.
        _ => "HELO localhost\r\n".to_owned(),
    };
    let mut steps = Sequence::lingering(scope, line);
    let first_line = steps.format("%[res.payload(0,0),cut_crlf]")?;
    let behind_code = steps.format("%[res.payload(4,0),ltrim(' '),cut_crlf]")?;
    let code = |scope: &mut Scope<'_>| {
        let context = |acls: &mut _, context: &mut sample::ParseContext<'_>| {
            let _: &mut sample::AclSet = acls;
            sample::Expression::parse(&[b"res.payload(0,3)".as_slice()], context)
        };
        scope.sample(line, 1, context).map(|(expression, _)| Some(expression))
    };
    let is_reply = steps.regex("^[0-9]{3}[ \\r]")?;
    let options = CheckExpect { min_recv: Some(4), error_status: status("L7RSP"), on_error: first_line, ..none() };
    steps.expect(CheckExpectation::TextRegex(is_reply), options);
    let is_good = steps.regex("^2[0-9]{2}[ \\r]")?;
    let options = CheckExpect {
        min_recv: Some(4),
        error_status: status("L7STS"),
        on_error: behind_code.clone(),
        status_code: code(steps.scope)?,
        ..none()
    };
    steps.expect(CheckExpectation::TextRegex(is_good), options.clone());
    steps.send(hello.into_bytes());
    // The answer may have several lines, and counts when the last one is there.
    let is_whole = steps.regex("^(2[0-9]{2}-[^\\r]*\\r\\n)*2[0-9]{2}[ \\r]")?;
    let options = CheckExpect { on_success: behind_code, ..options };
    let patient = CheckExpect { min_recv: None, ..options.clone() };
    steps.expect(CheckExpectation::TextRegex(is_whole), patient);
    // A connection that just ends is an error in the logs of mail servers.
    steps.send(b"QUIT\r\n".to_vec());
    let is_bye = steps.regex("^2[0-9]{2}[- \\r]")?;
    steps.expect(CheckExpectation::TextRegex(is_bye), options);
    steps.done(CheckProtocol::Smtp);
    Ok(())
}

pub(super) fn pgsql(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more_after(line, 2, 1)?;
    let user = line.word(3);
    if user.is_empty() {
        let message = "'option pgsql-check' expects 'user <username>' as argument.".to_owned();
        return Err(refuse(message, line.len()));
    }
    if line.word(2) != "user" {
        return Err(refuse("'option pgsql-check' only supports optional values: 'user'.".to_owned(), 2));
    }
    // A start of protocol 3.0 with one parameter: length, version, name, value, end.
    let mut start = Vec::new();
    start.extend_from_slice(&u32::try_from(15 + user.len()).unwrap_or(u32::MAX).to_be_bytes());
    start.extend_from_slice(&[0, 3, 0, 0]);
    start.extend_from_slice(b"user\0");
    start.extend_from_slice(user.as_bytes());
    start.extend_from_slice(b"\0\0");
    let mut steps = Sequence::lingering(scope, line);
    steps.send(start);
    let on_error = steps.format("%[res.payload(6,0)]")?;
    let is_error = steps.regex("^E")?;
    let options = CheckExpect { negate: true, min_recv: Some(5), error_status: status("L7RSP"), on_error, ..none() };
    steps.expect(CheckExpectation::TextRegex(is_error), options);
    let asks_login = steps.regex("^52000000[A-Z0-9]{2}000000(00|02|03|04|05|06|07|09|0A)")?;
    let options = CheckExpect {
        min_recv: Some(9),
        error_status: status("L7STS"),
        on_success: steps.format("PostgreSQL server is ok")?,
        on_error: steps.format("PostgreSQL unknown error")?,
        ..none()
    };
    steps.expect(CheckExpectation::BinaryRegex(asks_login), options);
    steps.done(CheckProtocol::Pgsql);
    Ok(())
}

pub(super) fn mysql(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more_after(line, 3, 1)?;
    let (word, user, version) = (line.word(2), line.word(3), line.word(4));
    let mut login = None;
    if !word.is_empty() {
        if word != "user" {
            let message = format!("'option mysql-check' only supports optional values: 'user' (got '{word}').");
            return Err(refuse(message, 2));
        }
        if user.is_empty() {
            return Err(refuse("'option mysql-check user' expects <username> as argument.".to_owned(), line.len()));
        }
        login = Some(match version {
            "" | "post-41" => mysql_login(user, MYSQL_SINCE_4_1),
            "pre-41" => mysql_login(user, MYSQL_BEFORE_4_1),
            _ => {
                let message = format!("keyword 'user' only supports 'post-41' and 'pre-41' (got '{version}').");
                return Err(refuse(message, 4).nearest(version, ["post-41", "pre-41"]));
            }
        });
    }
    let mut steps = Sequence::lingering(scope, line);
    let has_login = login.is_some();
    if let Some(login) = login {
        steps.send(login);
    }
    steps.message(CheckMessage::MysqlGreeting);
    if has_login {
        steps.message(CheckMessage::MysqlLogin);
    }
    steps.done(CheckProtocol::Mysql);
    Ok(())
}

/// Capabilities of two bytes, largest packet of three.
const MYSQL_BEFORE_4_1: &[u8] = &[0x00, 0x80, 0x00, 0x00, 0x01];
/// Capabilities and largest packet of four bytes each, UTF-8, 23 bytes for later.
const MYSQL_SINCE_4_1: &[u8] = &[
    0x00, 0x82, 0x00, 0x00, 0x00, 0x80, 0x00, 0x01, 0x21, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0,
];

/// A login without a password, and a packet that ends the connection.
fn mysql_login(user: &str, capabilities: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    let length = u32::try_from(capabilities.len() + user.len() + 2).unwrap_or(u32::MAX).to_le_bytes();
    packet.extend(length.into_iter().take(3));
    packet.push(1);
    packet.extend_from_slice(capabilities);
    packet.extend_from_slice(user.as_bytes());
    packet.extend_from_slice(&[0, 0]);
    packet.extend_from_slice(&[1, 0, 0, 0, 1]);
    packet
}

pub(super) fn ldap(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more_after(line, 0, 1)?;
    let mut steps = Sequence::implicit(scope, line);
    // A bind of version 3 without a name or password.
    steps.send(vec![0x30, 0x0c, 0x02, 0x01, 0x01, 0x60, 0x07, 0x02, 0x01, 0x03, 0x04, 0x00, 0x80, 0x00]);
    let is_ldap = steps.regex("^30")?;
    let on_error = steps.format("Not LDAPv3 protocol")?;
    steps.expect(CheckExpectation::BinaryRegex(is_ldap), CheckExpect { min_recv: Some(14), on_error, ..none() });
    steps.message(CheckMessage::LdapBind);
    steps.done(CheckProtocol::Ldap);
    Ok(())
}

pub(super) fn spop(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more_after(line, 0, 1)?;
    let frame_bytes_max = scope.state.global.tune.bufsize.saturating_sub(4);
    let mut steps = Sequence::implicit(scope, line);
    steps.send(spop_hello(frame_bytes_max));
    steps.expect(CheckExpectation::Message(CheckMessage::SpopHello), CheckExpect { min_recv: Some(4), ..none() });
    steps.done(CheckProtocol::Spop);
    Ok(())
}

/// A HAPROXY-HELLO of SPOP 2.0 that asks for nothing but an answer.
fn spop_hello(frame_bytes_max: usize) -> Vec<u8> {
    const UINT32: u8 = 3;
    const STRING: u8 = 8;
    const TRUE: u8 = 0x11;
    let mut frame = vec![1, 0, 0, 0, 1, 0, 0];
    let text = |frame: &mut Vec<u8>, text: &str| {
        // All are short: their length is a byte.
        frame.push(u8::try_from(text.len()).unwrap_or(0));
        frame.extend_from_slice(text.as_bytes());
    };
    text(&mut frame, "supported-versions");
    frame.push(STRING);
    text(&mut frame, "2.0");
    text(&mut frame, "max-frame-size");
    frame.push(UINT32);
    spop_number(&mut frame, frame_bytes_max);
    text(&mut frame, "capabilities");
    frame.push(STRING);
    text(&mut frame, "");
    text(&mut frame, "healthcheck");
    frame.push(TRUE);
    let mut out = u32::try_from(frame.len()).unwrap_or(u32::MAX).to_be_bytes().to_vec();
    out.extend_from_slice(&frame);
    out
}

/// A number of SPOP: four bits in the first byte, then seven in each.
fn spop_number(out: &mut Vec<u8>, number: usize) {
    let low = |number: usize, bits: u8| u8::try_from(number & 0xff).unwrap_or(0) | bits;
    if number < 240 {
        out.push(low(number, 0));
        return;
    }
    out.push(low(number, 0xf0));
    let mut rest = (number - 240) >> 4;
    while rest >= 128 {
        out.push(low(rest, 0x80));
        rest = (rest - 128) >> 7;
    }
    out.push(low(rest, 0));
}

pub(super) fn ssl_hello(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more_after(line, 0, 1)?;
    let mut steps = Sequence::implicit(scope, line);
    // A record, a hello of SSLv3, the time, 28 bytes that should be random, no session.
    let mut hello = String::from("16030000790100007503 00%[date(),htonl,hex]");
    hello.retain(|character| character != ' ');
    for byte in "HAPROXYSSLCHK\nHAPROXYSSLCHK\n".bytes() {
        hello += &format!("{byte:02X}");
    }
    hello += "00004E";
    // The most common ciphers of its time.
    for cipher in (0x01..=0x1b).chain(0x2f..=0x3a) {
        hello += &format!("{cipher:04X}");
    }
    // No compression.
    hello += "0100";
    if let Some(format) = steps.format(&hello)? {
        steps.push(CheckAction::Send(CheckSend::HexFormat(format)));
    }
    let is_answer = steps.regex("^1[56]")?;
    let options = CheckExpect {
        min_recv: Some(5),
        ok_status: status("L6OK"),
        error_status: status("L6RSP"),
        timeout_status: status("L6TOUT"),
        ..none()
    };
    steps.expect(CheckExpectation::BinaryRegex(is_answer), options);
    steps.done(CheckProtocol::Ssl);
    Ok(())
}

/// `option external-check`.
pub(super) fn external(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more_after(line, 0, 1)?;
    scope.proxy().rules.checks.choose(Chosen::External(Box::new(line.clone())));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_of_mysql() {
        let hex = |bytes: Vec<u8>| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(hex(mysql_login("haproxy", MYSQL_BEFORE_4_1)), "0e0000010080000001686170726f787900000100000001");
        let since = hex(mysql_login("haproxy", MYSQL_SINCE_4_1));
        let zeros = "00".repeat(23);
        assert_eq!(since, format!("290000010082000000800001{}{zeros}686170726f787900000100000001", "21"));
    }

    #[test]
    fn numbers_of_spop() {
        for (number, expected) in
            [(0, vec![0]), (239, vec![239]), (240, vec![0xf0, 0]), (16_380, vec![0xfc, 0xf0, 0x06])]
        {
            let mut out = Vec::new();
            spop_number(&mut out, number);
            assert_eq!(out, expected, "{number}");
        }
        assert_eq!(spop_hello(16_380).len(), 4 + 7 + 19 + 5 + 15 + 4 + 13 + 2 + 12 + 1);
    }
}
