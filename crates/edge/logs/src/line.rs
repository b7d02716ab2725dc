//! The header of a line, in each `format`.

use haproxycfg::model::LogLineFormat;

use super::dates::Dates;

/// Importance of a line, syslog's words and numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum LogLevel {
    /// 0.
    Emergency,
    /// 1.
    Alert,
    /// 2.
    Critical,
    /// 3.
    Error,
    /// 4.
    Warning,
    /// 5.
    Notice,
    /// 6.
    Info,
    /// 7.
    Debug,
}

/// A line to log.
#[derive(Clone, Copy, Debug)]
pub struct LogLine<'a> {
    /// Importance.
    pub level: LogLevel,
    /// The text; line ends and NUL at its end are cut off.
    pub text: &'a [u8],
    /// `log-format-sd`: the structured data of format `rfc5424`; empty is none.
    pub structured_data: &'a [u8],
}

impl<'a> LogLine<'a> {
    /// A line without structured data.
    #[must_use]
    pub fn new(level: LogLevel, text: &'a [u8]) -> Self {
        Self { level, text, structured_data: b"" }
    }
}

/// The header of a target's lines, as far as it is the same for all of them.
#[derive(Debug)]
pub(super) struct Header {
    date: Date,
    has_priority: bool,
    /// Added to the level: the facility times eight.
    priority_base: u16,
    /// Between priority and date.
    version: &'static [u8],
    /// Behind the date.
    origin: Vec<u8>,
    has_structured_data: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Date {
    None,
    Legacy,
    Iso,
}

impl Header {
    pub(super) fn new(format: LogLineFormat, facility: u8, hostname: Option<&str>, tag: &str, pid: u32) -> Self {
        use LogLineFormat::{Iso, Local, Priority, Raw, Rfc3164, Rfc5424, Short, Timed, Unspecified};
        let format = match format {
            Unspecified if hostname.is_some() => Rfc3164,
            Unspecified => Local,
            format => format,
        };
        let origin = match format {
            Rfc3164 => format!("{} {tag}[{pid}]: ", hostname.unwrap_or("localhost")),
            Local => format!("{tag}[{pid}]: "),
            Rfc5424 => format!("{} {tag} {pid} - ", hostname.unwrap_or("-")),
            _ => String::new(),
        };
        Self {
            date: match format {
                Local | Rfc3164 => Date::Legacy,
                Rfc5424 | Timed | Iso => Date::Iso,
                _ => Date::None,
            },
            has_priority: !matches!(format, Iso | Raw),
            priority_base: match format {
                Timed | Short => 0,
                Local | Rfc3164 | Rfc5424 | Priority | Iso | Raw | Unspecified => u16::from(facility) * 8,
            },
            version: if format == Rfc5424 { b"1 " } else { b"" },
            origin: origin.into_bytes(),
            has_structured_data: format == Rfc5424,
        }
    }

    /// Appends header and text, cut at `bytes_max`, and a line end.
    pub(super) fn write(&self, out: &mut Vec<u8>, line: &LogLine<'_>, level: u8, dates: &Dates, bytes_max: usize) {
        let start = out.len();
        if self.has_priority {
            out.push(b'<');
            write_number(out, self.priority_base + u16::from(level));
            out.push(b'>');
        }
        out.extend_from_slice(self.version);
        match self.date {
            Date::None => {}
            Date::Legacy => dates.write_legacy(out),
            Date::Iso => dates.write_iso(out),
        }
        out.extend_from_slice(&self.origin);
        if self.has_structured_data {
            match line.structured_data.trim_suffix_spaces() {
                b"" => out.extend_from_slice(b"-"),
                data => out.extend_from_slice(data),
            }
            out.push(b' ');
        }
        let room = bytes_max.saturating_sub(out.len() - start);
        let text = line.text.trim_line_end();
        out.extend_from_slice(text.get(..room).unwrap_or(text));
        out.truncate(start + bytes_max);
        out.push(b'\n');
    }
}

fn write_number(out: &mut Vec<u8>, number: u16) {
    for (divisor, needed) in [(100, number >= 100), (10, number >= 10), (1, true)] {
        if needed {
            out.push(b'0' + (number / divisor % 10) as u8);
        }
    }
}

trait Trim {
    fn trim_line_end(&self) -> &Self;
    fn trim_suffix_spaces(&self) -> &Self;
}

impl Trim for [u8] {
    fn trim_line_end(&self) -> &Self {
        let end = self.iter().rposition(|byte| !matches!(byte, b'\n' | 0)).map_or(0, |last| last + 1);
        self.get(..end).unwrap_or_default()
    }

    fn trim_suffix_spaces(&self) -> &Self {
        let end = self.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1);
        self.get(..end).unwrap_or_default()
    }
}
