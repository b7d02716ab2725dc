//! Formats of lines: text to pieces, and pieces to lines.

use base64::Engine as _;
use telemetry::vsl::VslTag;

use super::{
    request::{Request, behind, word},
    time,
};
use crate::filter;

const TIME: &str = "[%d/%b/%Y:%T %z]";
const FIELD_MAX: usize = 255;
/// Microseconds of a second.
const SECOND: i64 = 1_000_000;

/// A format.
#[derive(Debug)]
pub(super) struct Format {
    pieces: Vec<Piece>,
    is_json: bool,
}

#[derive(Debug)]
enum Piece {
    Text(String),
    /// `%b`: letters with a meaning of their own.
    Letter(char),
    RequestHeader(String),
    ResponseHeader(String),
    Time(TimeForm),
    /// How long it took, in units of so many microseconds.
    Duration(i64),
    FirstByte,
    HitOrMiss,
    Handling,
    Side,
    Vxid,
    VclLog(String),
    Record {
        tag: VslTag,
        prefix: Option<String>,
        field: usize,
    },
}

#[derive(Debug)]
enum TimeForm {
    Local(String),
    /// Whole units of so many microseconds since 1970.
    Unix(i64),
    /// The fraction of the second, in units of so many microseconds, with so many digits.
    Fraction(i64, usize),
}

impl Format {
    /// Reads a format.
    pub(super) fn parse(text: &str, is_json: bool) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut letters = text.char_indices();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '\\' => literal.push(match letters.next() {
                    Some((_, 't')) => '\t',
                    Some((_, 'n')) => '\n',
                    Some((_, other)) => other,
                    None => '\\',
                }),
                '%' => {
                    if !literal.is_empty() {
                        pieces.push(Piece::Text(std::mem::take(&mut literal)));
                    }
                    let rest = text.get(at..).unwrap_or_default();
                    let (piece, length) = piece(rest, is_json)?;
                    pieces.push(piece);
                    for _ in 1..length {
                        letters.next();
                    }
                }
                _ => literal.push(letter),
            }
        }
        if !literal.is_empty() {
            pieces.push(Piece::Text(literal));
        }
        Ok(Self { pieces, is_json })
    }

    /// The line of a request.
    pub(super) fn line(&self, request: &Request<'_>) -> Option<Vec<u8>> {
        let mut line = Vec::new();
        for piece in &self.pieces {
            self.write(piece, request, &mut line);
        }
        Some(line)
    }

    fn write(&self, piece: &Piece, request: &Request<'_>, line: &mut Vec<u8>) {
        let (missing, missing_number) = if self.is_json { ("", "0") } else { ("-", "-") };
        let mut put = |value: Option<&[u8]>, otherwise: &str| match value {
            Some(value) => self.quote(value, line),
            None => line.extend(otherwise.bytes()),
        };
        match piece {
            Piece::Text(text) => line.extend(text.bytes()),
            Piece::Letter('b') => put(request.sent_body, missing_number),
            Piece::Letter('h') => put(request.address, missing),
            Piece::Letter('H') => put(request.protocol, "HTTP/1.0"),
            Piece::Letter('I') => put(request.received, missing_number),
            Piece::Letter('l') => line.push(b'-'),
            Piece::Letter('m') => put(request.method, missing),
            Piece::Letter('O') => put(request.sent, missing_number),
            Piece::Letter('q') => put(request.query, ""),
            Piece::Letter('r') => self.request_line(request, line),
            Piece::Letter('s') => put(request.status, missing_number),
            Piece::Letter('u') => put(request.credentials.and_then(user).as_deref(), "-"),
            Piece::Letter('U') => put(request.path, missing),
            Piece::Letter(_) => {}
            Piece::RequestHeader(name) => put(header(request, name, true), missing),
            Piece::ResponseHeader(name) => put(header(request, name, false), missing),
            Piece::Time(form) => match request.start {
                Some(start) => line.extend(form.text(start).bytes()),
                None => line.push(b'-'),
            },
            Piece::Duration(units) => match request.start {
                Some(start) => {
                    let taken = microseconds(request.end.unwrap_or(start)) - microseconds(start);
                    line.extend((taken / units).to_string().bytes());
                }
                None => line.push(b'-'),
            },
            Piece::FirstByte => put(request.first_byte, missing_number),
            Piece::HitOrMiss => line.extend(request.hit_or_miss.bytes()),
            Piece::Handling => line.extend(request.handling.bytes()),
            Piece::Side => line.extend(request.side.bytes()),
            Piece::Vxid => line.extend(request.transaction.vxid.to_string().bytes()),
            Piece::VclLog(key) => {
                let prefix = format!("{key}:");
                let records = request.transaction.records.iter().rev();
                let mut said = records.filter(|record| record.known_tag() == Some(VslTag::VCL_Log));
                let value = said.find_map(|record| record.text.strip_prefix(prefix.as_bytes()));
                put(value.map(<[u8]>::trim_ascii), "");
            }
            Piece::Record { tag, prefix, field } => {
                put(record(request, *tag, prefix.as_deref(), *field), missing);
            }
        }
    }

    fn request_line(&self, request: &Request<'_>, line: &mut Vec<u8>) {
        self.quote(request.method.unwrap_or(b"-"), line);
        line.push(b' ');
        match request.host {
            Some(host) if host.starts_with(b"http://") => self.quote(host, line),
            Some(host) => {
                line.extend(b"http://");
                self.quote(host, line);
            }
            None => line.extend(b"http://localhost"),
        }
        self.quote(request.path.unwrap_or_default(), line);
        self.quote(request.query.unwrap_or_default(), line);
        line.push(b' ');
        self.quote(request.protocol.unwrap_or(b"HTTP/1.0"), line);
    }

    /// A value with what could mislead a reader of the line escaped.
    fn quote(&self, value: &[u8], line: &mut Vec<u8>) {
        for byte in value {
            match byte {
                b'"' | b'\\' => line.extend([b'\\', *byte]),
                b'\n' => line.extend(b"\\n"),
                b'\r' => line.extend(b"\\r"),
                b'\t' => line.extend(b"\\t"),
                b' '..=b'~' => line.push(*byte),
                // JSON is UTF-8.
                0x80.. if self.is_json => line.push(*byte),
                _ if self.is_json => line.extend(format!("\\u{byte:04x}").bytes()),
                _ => line.extend(format!("\\x{byte:02x}").bytes()),
            }
        }
    }
}

/// A time as it stands in the log, which has six digits of a fraction.
fn microseconds(time: f64) -> i64 {
    (time * SECOND as f64).round() as i64
}

impl TimeForm {
    fn text(&self, time: f64) -> String {
        match self {
            Self::Local(format) => time::format(format, time.floor() as i64),
            Self::Unix(unit) => (microseconds(time) / unit).to_string(),
            Self::Fraction(unit, digits) => format!("{:0digits$}", microseconds(time) % SECOND / unit),
        }
    }
}

/// The piece that a text begins with, and how many letters it has.
fn piece(text: &str, is_json: bool) -> Result<(Piece, usize), String> {
    let unknown = || format!("unknown format at '{text}'");
    let letter = text.chars().nth(1).ok_or_else(|| "'%' at the end of the format".to_owned())?;
    let simple = match letter {
        'b' | 'h' | 'H' | 'I' | 'l' | 'm' | 'O' | 'q' | 'r' | 's' | 'u' | 'U' => Piece::Letter(letter),
        'D' => Piece::Duration(1),
        'T' => Piece::Duration(SECOND),
        't' => Piece::Time(TimeForm::Local(TIME.to_owned())),
        '{' => return braced(text, is_json),
        _ => return Err(unknown()),
    };
    Ok((simple, 2))
}

/// `%{name}i`.
fn braced(text: &str, is_json: bool) -> Result<(Piece, usize), String> {
    let mut depth = 0_usize;
    let end = text.char_indices().find_map(|(at, letter)| {
        depth = match letter {
            '{' => depth + 1,
            '}' => depth.saturating_sub(1),
            _ => depth,
        };
        (letter == '}' && depth == 0).then_some(at)
    });
    let end = end.ok_or_else(|| format!("no '}}' for the '{{' at '{text}'"))?;
    let name = text.get(2..end).unwrap_or_default();
    let kind = text.get(end + 1..).and_then(|rest| rest.chars().next());
    let piece = match kind {
        Some('i') => Piece::RequestHeader(name.to_owned()),
        Some('o') => Piece::ResponseHeader(name.to_owned()),
        Some('t') => Piece::Time(time_form(name)?),
        Some('T') => Piece::Duration(match name {
            "s" => SECOND,
            "ms" => 1_000,
            "us" => 1,
            _ => return Err(format!("%{{{name}}}T: the unit is s, ms or us")),
        }),
        Some('x') => extension(name, is_json)?,
        _ => return Err(format!("unknown format at '{text}'")),
    };
    let length = text.get(..end).unwrap_or_default().chars().count() + 2;
    Ok((piece, length))
}

fn time_form(name: &str) -> Result<TimeForm, String> {
    Ok(match name {
        "sec" => TimeForm::Unix(SECOND),
        "msec" => TimeForm::Unix(1_000),
        "usec" => TimeForm::Unix(1),
        "msec_frac" => TimeForm::Fraction(1_000, 3),
        "usec_frac" => TimeForm::Fraction(1, 6),
        format => {
            time::check(format).map_err(|letter| format!("%{{{name}}}t: unknown letter %{letter}"))?;
            TimeForm::Local(format.to_owned())
        }
    })
}

/// `%{...}x`.
fn extension(name: &str, is_json: bool) -> Result<Piece, String> {
    match name {
        "Varnish:time_firstbyte" => return Ok(Piece::FirstByte),
        "Varnish:hitmiss" => return Ok(Piece::HitOrMiss),
        "Varnish:handling" => return Ok(Piece::Handling),
        "Varnish:side" => return Ok(Piece::Side),
        "Varnish:vxid" => return Ok(Piece::Vxid),
        _ => {}
    }
    if let Some(key) = name.strip_prefix("VCL_Log:") {
        return Ok(Piece::VclLog(key.to_owned()));
    }
    let Some(what) = name.strip_prefix("VSL:") else { return Err(format!("unknown extension %{{{name}}}x")) };
    let (what, field) = match what.strip_suffix(']').and_then(|what| what.rsplit_once('[')) {
        Some((what, number)) => {
            let number = number.parse().ok().filter(|number| (1..=FIELD_MAX).contains(number));
            (what, number.ok_or_else(|| format!("%{{{name}}}x: the field is a number from 1 to {FIELD_MAX}"))?)
        }
        None => (what, 0),
    };
    let (tag, prefix) = match what.split_once(':') {
        Some((tag, prefix)) => (tag, Some(prefix.to_owned())),
        None => (what, None),
    };
    let found = filter::tags(tag)?;
    let [number] = found.as_slice() else { return Err(format!("%{{{name}}}x: '{tag}' means several tags")) };
    let tag = u8::try_from(*number).ok().and_then(VslTag::of).ok_or_else(|| format!("unknown tag '{tag}'"))?;
    if (tag.is_unsafe() || tag.is_binary()) && !is_json {
        return Err(format!("records of {} may have control characters: they are shown with -j only", tag.name()));
    }
    Ok(Piece::Record { tag, prefix, field })
}

/// The last header field with that name.
fn header<'a>(request: &Request<'a>, name: &str, of_request: bool) -> Option<&'a [u8]> {
    let tags =
        if of_request { [VslTag::ReqHeader, VslTag::BereqHeader] } else { [VslTag::RespHeader, VslTag::BerespHeader] };
    let prefix = format!("{name}:");
    let mut records = request.transaction.records.iter().rev();
    records.find_map(|record| {
        let tag = record.known_tag().filter(|tag| tags.contains(tag));
        tag.and_then(|_| behind(prefix.as_bytes(), &record.text)).map(<[u8]>::trim_ascii)
    })
}

/// The first record with that tag, and of it a value or a word.
fn record<'a>(request: &Request<'a>, tag: VslTag, prefix: Option<&str>, field: usize) -> Option<&'a [u8]> {
    request.transaction.records.iter().filter(|record| record.known_tag() == Some(tag)).find_map(|record| {
        let text = match prefix {
            Some(prefix) => behind(format!("{prefix}:").as_bytes(), &record.text)?,
            None => &record.text,
        };
        if field == 0 { Some(text.trim_ascii()) } else { word(text, field) }
    })
}

/// The user of credentials in base64.
fn user(credentials: &[u8]) -> Option<Vec<u8>> {
    let decoded = base64::engine::general_purpose::STANDARD.decode(credentials).ok()?;
    Some(decoded.split(|byte| *byte == b':').next().unwrap_or_default().to_vec())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use vsm::reader::Record;

    use super::*;
    use crate::group::{Kind, Transaction};

    fn transaction() -> Transaction {
        let record = |tag: VslTag, text: &str| Record {
            tag: tag.number(),
            vxid: 7,
            is_client: true,
            is_backend: false,
            text: text.as_bytes().to_vec(),
        };
        let records = vec![
            record(VslTag::Timestamp, "Start: 1000.250500 0.000000 0.000000"),
            record(VslTag::ReqStart, "127.0.0.1 40000 a0"),
            record(VslTag::ReqMethod, "GET"),
            record(VslTag::ReqURL, "/a\"b?c=d"),
            record(VslTag::ReqProtocol, "HTTP/1.1"),
            record(VslTag::ReqHeader, "Host: example.com"),
            record(VslTag::ReqHeader, "Authorization: Basic dXNlcjpwYXNz"),
            record(VslTag::VCL_call, "HIT"),
            record(VslTag::VCL_Log, "key:value"),
            record(VslTag::Timestamp, "Process: 1000.300000 0.049500 0.049500"),
            record(VslTag::RespStatus, "200"),
            record(VslTag::RespHeader, "Server:  x\ty"),
            record(VslTag::Timestamp, "Resp: 1001.750500 1.500000 1.450500"),
            record(VslTag::ReqAcct, "80 0 80 120 1000 1120"),
        ];
        Transaction { level: 1, vxid: 7, kind: Kind::Request, is_esi: false, records }
    }

    #[test]
    fn pieces_are_filled() {
        let transaction = transaction();
        let request = Request::of(&transaction).unwrap();
        let cases = [
            ("%h %l %u", "127.0.0.1 - user"),
            ("%r", "GET http://example.com/a\\\"b?c=d HTTP/1.1"),
            ("%s %b %I %O %m %H %U %q", "200 1000 80 1120 GET HTTP/1.1 /a\\\"b ?c=d"),
            ("%T %D %{ms}T", "1 1500000 1500"),
            ("%{sec}t %{msec}t %{msec_frac}t %{usec_frac}t", "1000 1000250 250 250500"),
            ("%{host}i|%{x}i|%{server}o", "example.com|-|x\\ty"),
            ("%{Varnish:hitmiss}x %{Varnish:handling}x %{Varnish:side}x %{Varnish:vxid}x", "hit hit c 7"),
            ("%{Varnish:time_firstbyte}x %{VCL_Log:key}x", "0.049500 value"),
            ("%{VSL:Timestamp:Resp[2]}x %{VSL:ReqAcct[1]}x %{VSL:TTL}x", "1.500000 80 -"),
            ("a\\tb\\\"%%"[..7].trim_end_matches('%'), "a\tb\""),
        ];
        for (format, expected) in cases {
            let line = Format::parse(format, false).unwrap().line(&request).unwrap();
            assert_eq!(String::from_utf8(line).unwrap(), expected, "{format}");
        }
        for wrong in ["%", "%z", "%{a", "%{a}z", "%{x}T", "%{%Q}t", "%{VSL:Nope}x", "%{VSL:Hash}x", "%{VSL:ReqURL[0]}x"]
        {
            assert!(Format::parse(wrong, false).is_err(), "{wrong}");
        }
        let json = Format::parse("%{VSL:TTL}x|%{x}i|%b", true).unwrap().line(&request).unwrap();
        assert_eq!(json, b"||1000");
    }

    proptest! {
        #[test]
        fn any_format_is_survived(text in "[%{}a-zA-Z:\\[\\]0-9\\\\é ]{0,40}", is_json in any::<bool>()) {
            if let Ok(format) = Format::parse(&text, is_json) {
                let transaction = transaction();
                let _ = format.line(&Request::of(&transaction).unwrap());
            }
        }
    }
}
