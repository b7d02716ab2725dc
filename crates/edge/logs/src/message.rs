//! Log lines as they come from others: what of RFC 3164 and RFC 5424 is in them, and how they are written anew.
//!
//! As lenient as HAProxy: what is not understood is text.

use std::time::SystemTime;

use haproxycfg::model::LogLineFormat;

use super::dates::{Dates, month_number};

/// Least bytes of a date of RFC 5424, `1970-01-01T00:00:00Z`.
const ISO_LEN_MIN: usize = 20;
/// Bytes of a date of RFC 3164, `Jan  1 00:00:00`.
const LEGACY_LEN: usize = 15;
/// Most digits of a priority.
const PRIORITY_DIGITS_MAX: usize = 5;

/// A line that was received. What is empty was not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Message<'a> {
    /// Facility and level.
    pub priority: Option<(u16, u8)>,
    /// When, as it was written.
    pub time: &'a [u8],
    /// The machine.
    pub host: &'a [u8],
    /// The program.
    pub tag: &'a [u8],
    /// Its process.
    pub pid: &'a [u8],
    /// The kind of message.
    pub message_id: &'a [u8],
    /// Structured data.
    pub structured_data: &'a [u8],
    /// What is said.
    pub text: &'a [u8],
}

impl<'a> Message<'a> {
    /// Takes a line apart.
    #[must_use]
    pub fn parse(line: &'a [u8]) -> Self {
        let Some((priority, rest)) = priority(line) else { return Self { text: line, ..Self::default() } };
        let plain = Self { priority: Some(priority), text: rest, ..Self::default() };
        match rest.strip_prefix(b"1 ") {
            Some(fields) => rfc5424(fields, plain).unwrap_or(plain),
            None => rfc3164(rest, plain).unwrap_or(plain),
        }
    }

    /// The format that says as much as there is.
    fn own_format(&self) -> LogLineFormat {
        if !self.host.is_empty() {
            let is_new = self.time == b"-" || self.time.len() >= ISO_LEN_MIN;
            if is_new { LogLineFormat::Rfc5424 } else { LogLineFormat::Rfc3164 }
        } else if !self.tag.is_empty() {
            LogLineFormat::Local
        } else if self.priority.is_some() {
            LogLineFormat::Priority
        } else {
            LogLineFormat::Raw
        }
    }

    /// Appends it in a format, with `facility` where it has none, cut at `bytes_max`, and a line end.
    pub(super) fn write(&self, out: &mut Vec<u8>, to: &Form, level: u8, dates: &Dates) {
        use LogLineFormat::{Iso, Local, Priority, Raw, Rfc3164, Rfc5424, Short, Timed, Unspecified};
        let start = out.len();
        let format = if to.format == Unspecified { self.own_format() } else { to.format };
        let facility = self.priority.map_or(u16::from(to.facility), |(facility, _)| facility);
        let code = match format {
            Local | Rfc3164 | Rfc5424 | Priority => Some(facility * 8 + u16::from(level)),
            Timed | Short => Some(u16::from(level)),
            Iso | Raw | Unspecified => None,
        };
        if let Some(code) = code {
            out.extend_from_slice(format!("<{code}>").as_bytes());
        }
        match format {
            Local | Rfc3164 => self.write_legacy(out, dates),
            Rfc5424 => {
                out.extend_from_slice(b"1 ");
                if self.time == b"-" {
                    out.extend_from_slice(b"- ");
                } else {
                    self.write_iso(out, dates);
                }
            }
            Timed | Iso => self.write_iso(out, dates),
            Priority | Short | Raw | Unspecified => {}
        }
        let or_nil = |field: &'a [u8]| if field.is_empty() { &b"-"[..] } else { field };
        match format {
            Rfc3164 | Local => {
                if format == Rfc3164 {
                    out.extend_from_slice(if self.host.is_empty() { b"localhost" } else { self.host });
                    out.push(b' ');
                }
                if !self.tag.is_empty() {
                    out.extend_from_slice(self.tag);
                    if !self.pid.is_empty() {
                        out.push(b'[');
                        out.extend_from_slice(self.pid);
                        out.push(b']');
                    }
                    out.extend_from_slice(b": ");
                }
            }
            Rfc5424 => {
                for field in [self.host, self.tag, self.pid, self.message_id, self.structured_data] {
                    out.extend_from_slice(or_nil(field));
                    out.push(b' ');
                }
            }
            _ => {}
        }
        let end = self.text.iter().rposition(|byte| !matches!(byte, b'\n' | 0)).map_or(0, |last| last + 1);
        out.extend_from_slice(self.text.get(..end).unwrap_or_default());
        out.truncate(start + to.bytes_max);
        out.push(b'\n');
    }

    fn write_legacy(&self, out: &mut Vec<u8>, dates: &Dates) {
        if self.time.len() == LEGACY_LEN {
            out.extend_from_slice(self.time);
            out.push(b' ');
            return;
        }
        let part = |from: usize, to: usize| self.time.get(from..to).unwrap_or_default();
        let month = std::str::from_utf8(part(5, 7)).ok().and_then(|digits| digits.parse::<usize>().ok());
        match month.and_then(|month| super::dates::month_name(month.saturating_sub(1))) {
            Some(name) if self.time.len() >= ISO_LEN_MIN => {
                out.extend_from_slice(name.as_bytes());
                out.push(b' ');
                // The day has a blank in place of a zero.
                let day = part(8, 10);
                out.push(if day.first() == Some(&b'0') { b' ' } else { day.first().copied().unwrap_or(b' ') });
                out.extend_from_slice(day.get(1..).unwrap_or_default());
                out.push(b' ');
                out.extend_from_slice(part(11, 19));
                out.push(b' ');
            }
            _ => dates.write_legacy(out),
        }
    }

    fn write_iso(&self, out: &mut Vec<u8>, dates: &Dates) {
        if self.time.len() >= ISO_LEN_MIN {
            out.extend_from_slice(self.time);
            out.push(b' ');
            return;
        }
        match self.time.get(..3).and_then(month_number).filter(|_| self.time.len() == LEGACY_LEN) {
            Some(month) => {
                let digit = |at: usize| self.time.get(at).copied().unwrap_or(b'0');
                let tens = if digit(4) == b' ' { b'0' } else { digit(4) };
                let year = dates.year_of_month(month);
                let day = [tens, digit(5)];
                out.extend_from_slice(format!("{year:04}-{:02}-", month + 1).as_bytes());
                out.extend_from_slice(&day);
                out.push(b'T');
                out.extend_from_slice(self.time.get(7..).unwrap_or_default());
                // RFC 5424: a zone that is not known.
                out.extend_from_slice(b"-00:00 ");
            }
            None => dates.write_iso(out),
        }
    }
}

/// A line in another format, as a target of that format, facility and length gets it.
#[must_use]
pub fn rewritten(line: &[u8], format: LogLineFormat, facility: u8, bytes_max: usize, now: SystemTime) -> Vec<u8> {
    let mut dates = Dates::default();
    dates.set(now);
    let message = Message::parse(line);
    let level = message.priority.map_or(0, |(_, level)| level);
    let mut out = Vec::new();
    message.write(&mut out, &Form { format, facility, bytes_max }, level, &dates);
    out
}

/// How lines are written for a target.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    pub(super) format: LogLineFormat,
    pub(super) facility: u8,
    pub(super) bytes_max: usize,
}

/// `<13>` at the beginning of a line.
fn priority(line: &[u8]) -> Option<((u16, u8), &[u8])> {
    let rest = line.strip_prefix(b"<")?;
    let digits = rest.iter().take(PRIORITY_DIGITS_MAX).take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = rest.split_at_checked(digits)?;
    let rest = rest.strip_prefix(b">")?;
    let code = digits.iter().fold(0_u32, |code, digit| code * 10 + u32::from(digit - b'0'));
    let facility = u16::try_from(code >> 3).ok()?;
    // Three bits.
    Some(((facility.min(8_190), (code & 7) as u8), rest))
}

/// The bytes up to a blank, of which there must be some, and what follows it.
fn word(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b' ').filter(|end| *end > 0)?;
    Some((bytes.get(..end)?, bytes.get(end + 1..)?))
}

/// Behind the version: `TIMESTAMP HOSTNAME TAG PID MSGID STDATA message`.
fn rfc5424<'a>(fields: &'a [u8], plain: Message<'a>) -> Option<Message<'a>> {
    let (time, rest) = word(fields)?;
    let is_date = |time: &[u8]| time.len() >= ISO_LEN_MIN && time.get(10) == Some(&b'T');
    if time != b"-" && !is_date(time) {
        return None;
    }
    let (host, rest) = word(rest)?;
    let (tag, rest) = word(rest)?;
    let (pid, rest) = word(rest)?;
    let (message_id, rest) = word(rest)?;
    let end = structured_len(rest)?;
    let (structured_data, text) = (rest.get(..end)?, rest.get(end + 1..)?);
    let known = |field: &'a [u8]| if field == b"-" { &b""[..] } else { field };
    Some(Message {
        time,
        host: known(host),
        tag: known(tag),
        pid: known(pid),
        message_id: known(message_id),
        structured_data: known(structured_data),
        text,
        ..plain
    })
}

/// Bytes of structured data, behind which there is a blank.
fn structured_len(bytes: &[u8]) -> Option<usize> {
    if bytes.first() == Some(&b'-') {
        return (bytes.get(1) == Some(&b' ')).then_some(1);
    }
    let (mut inside, mut escaped) = (false, false);
    for (at, byte) in bytes.iter().enumerate() {
        match (inside, byte) {
            (true, b']') if !escaped => inside = false,
            (false, b'[') => inside = true,
            (false, b' ') if at > 0 => return Some(at),
            (false, _) => return None,
            _ => {}
        }
        escaped = *byte == b'\\' && !escaped;
    }
    None
}

/// `Jan  1 00:00:00 HOSTNAME TAG[PID]: message`; the tag may be missing.
fn rfc3164<'a>(line: &'a [u8], plain: Message<'a>) -> Option<Message<'a>> {
    month_number(line.get(..3)?)?;
    let (time, rest) = (line.get(..LEGACY_LEN)?, line.get(LEGACY_LEN..)?.strip_prefix(b" ")?);
    let (host, text) = word(rest)?;
    let untagged = Message { time, host, text, ..plain };
    let Some(end) = text.iter().position(|byte| matches!(byte, b' ' | b':')) else { return Some(untagged) };
    let (tag, rest) = (text.get(..end)?, text.get(end..)?);
    let Some(text) = rest.strip_prefix(b": ") else { return Some(untagged) };
    match tag.iter().rposition(|byte| *byte == b'[').filter(|open| *open > 0) {
        None => Some(Message { tag, text, ..untagged }),
        Some(open) => match tag.get(open + 1..)?.strip_suffix(b"]") {
            Some(pid) => Some(Message { tag: tag.get(..open)?, pid, text, ..untagged }),
            None => Some(untagged),
        },
    }
}

/// What the bytes of a stream begin with.
#[derive(Debug, PartialEq, Eq)]
pub enum Framed {
    /// A line of these bytes, the first of which is left out by so many; and how many to go on by.
    Line {
        /// Where it begins.
        start: usize,
        /// Where it ends.
        end: usize,
        /// Where the next one begins.
        next: usize,
    },
    /// More is needed.
    Incomplete,
    /// It is no line.
    Malformed,
}

/// Finds the first line of a stream (RFC 6587): with its length before it, or with a line feed behind it.
#[must_use]
pub fn framed(bytes: &[u8], line_max: usize) -> Framed {
    match bytes.first() {
        None => Framed::Incomplete,
        // How its bytes came together must not decide whether a line is too long.
        Some(b'<') => match bytes.iter().take(line_max).position(|byte| *byte == b'\n') {
            Some(end) => {
                let has_return = end > 0 && bytes.get(end - 1) == Some(&b'\r');
                Framed::Line { start: 0, end: end - usize::from(has_return), next: end + 1 }
            }
            None if bytes.len() >= line_max => Framed::Malformed,
            None => Framed::Incomplete,
        },
        Some(b'1'..=b'9') => {
            let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let length = std::str::from_utf8(bytes.get(..digits).unwrap_or_default()).ok();
            match (length.and_then(|digits| digits.parse::<usize>().ok()), bytes.get(digits)) {
                (Some(length), _) if length > line_max => Framed::Malformed,
                (Some(_), None) => Framed::Incomplete,
                (Some(length), Some(b' ')) => {
                    let (start, end) = (digits + 1, digits + 1 + length);
                    if bytes.len() < end { Framed::Incomplete } else { Framed::Line { start, end, next: end } }
                }
                _ => Framed::Malformed,
            }
        }
        Some(_) => Framed::Malformed,
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    fn written(line: &str, format: LogLineFormat) -> String {
        let now = UNIX_EPOCH + Duration::from_secs(1_795_255_761);
        String::from_utf8(rewritten(line.as_bytes(), format, 17, 200, now)).unwrap().trim_end().to_owned()
    }

    const LEGACY: &str = "<134>Nov 21 10:00:00 host1 app[123]: hello legacy";
    const NEW: &str = "<13>1 2026-11-21T10:00:00.123456Z host2 app2 456 ID47 [x@1 a=\"b\"] hello 5424";

    #[test]
    fn comes_out_as_it_came_in() {
        for line in [
            LEGACY,
            NEW,
            "<13>1 2026-11-21T10:00:00+02:00 host2 - - - - nil fields",
            "<13>1 - host2 a 1 - - no time",
            "no priority at all",
            "<165>just text here that is long enough to look",
            "<14>Nov  1 10:00:00 host3 no tag here",
            "<14>Nov  1 10:00:00 host3 tag: x",
            "<14>Nov  1 10:00:00 host3 [tag[1]: x",
            "<14>Nov  1 10:00:00 host3 [1]: x",
            "<191>",
            "<7>x",
            "<13>1 bad stuff follows",
            "<14>Nov  1 10:00:00 host3 tag[1: x",
            "",
        ] {
            assert_eq!(written(line, LogLineFormat::Unspecified), line);
        }
    }

    #[test]
    fn changes_its_format_as_in_haproxy() {
        use LogLineFormat::{Iso, Local, Priority, Raw, Rfc3164, Rfc5424, Short};
        for (line, format, expected) in [
            (NEW, Rfc3164, "<13>Nov 21 10:00:00 host2 app2[456]: hello 5424"),
            (NEW, Local, "<13>Nov 21 10:00:00 app2[456]: hello 5424"),
            (LEGACY, Rfc5424, "<134>1 2026-11-21T10:00:00-00:00 host1 app 123 - - hello legacy"),
            (LEGACY, Iso, "2026-11-21T10:00:00-00:00 hello legacy"),
            (LEGACY, Raw, "hello legacy"),
            (LEGACY, Short, "<6>hello legacy"),
            (LEGACY, Priority, "<134>hello legacy"),
            ("<14>Dec  1 10:00:00 h tag: x", Rfc5424, "<14>1 2025-12-01T10:00:00-00:00 h tag - - - x"),
            ("<13>1 2026-11-21T10:00:00+02:00 host2 - - - - nil", Rfc3164, "<13>Nov 21 10:00:00 host2 nil"),
            ("<13>1 2026-11-01T10:00:00+02:00 host2 - - - - nil", Rfc3164, "<13>Nov  1 10:00:00 host2 nil"),
        ] {
            assert_eq!(written(line, format), expected, "{line} as {format:?}");
        }
        assert!(written("no priority", Rfc3164).starts_with("<136>Nov 21 "), "the target's own facility");
        assert!(written("no priority", Rfc3164).ends_with(" localhost no priority"));
    }

    #[test]
    fn finds_lines_in_streams() {
        let line = |start, end, next| Framed::Line { start, end, next };
        for (bytes, expected) in [
            ("", Framed::Incomplete),
            ("<13>a", Framed::Incomplete),
            ("<13>a\n<", line(0, 5, 6)),
            ("<13>a\r\n", line(0, 5, 7)),
            ("5 <13>ab", line(2, 7, 7)),
            ("5 <13>", Framed::Incomplete),
            ("5", Framed::Incomplete),
            ("0 ", Framed::Malformed),
            ("5x<13>a", Framed::Malformed),
            ("99999 <", Framed::Malformed),
            ("99999999999999999999999 ", Framed::Malformed),
            ("x", Framed::Malformed),
        ] {
            assert_eq!(framed(bytes.as_bytes(), 1_000), expected, "{bytes}");
        }
        assert_eq!(framed(&[b'<'; 1_000], 1_000), Framed::Malformed);
        let long = [&[b'<'; 1_000], &b"\n"[..]].concat();
        assert_eq!(framed(&long, 1_000), Framed::Malformed, "whether or not its end is there already");
    }
}
