//! Request lines and status lines: the first line of a head, so that spans count from its beginning.

use memchr::memchr;

use super::Line;
use crate::authority::names_host;
use crate::bytes::{TARGET_RELAXED, TOKEN, VERSION, find_target_end, is_blank};
use crate::error::{ParseError, ParseErrorKind};
use crate::headers::Span;
use crate::limits::Limits;
use crate::method::Method;
use crate::request::RequestHead;
use crate::response::ResponseHead;
use crate::target::{Target, TargetForm, host_matches};
use crate::version::Version;

/// What a request line begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A head, whose fields follow.
    Head,
    /// A whole request: HTTP/0.9 has no fields.
    Http09,
}

/// Takes in a request line: method, target and version, parted by exactly one space each.
pub(super) fn request_line(line: &Line<'_>, limits: &Limits, head: &mut RequestHead) -> Result<Kind, ParseError> {
    let fail = |kind, at: usize| ParseError::new(kind, line.start + at);
    if limits.as_varnish {
        return loose_request_line(line, limits, head).map_err(|(kind, at)| fail(kind, at)).map(|()| Kind::Head);
    }
    if line.bytes == b"PRI * HTTP/2.0" {
        return Err(fail(ParseErrorKind::Http2Preface, 0));
    }
    let method_end = match TOKEN.first_outside(line.bytes) {
        Some(at) if at > 0 && line.bytes.get(at) == Some(&b' ') => at,
        Some(at) => return Err(fail(ParseErrorKind::InvalidMethod, at)),
        None => return Err(fail(ParseErrorKind::RequestLine, line.bytes.len())),
    };
    if method_end > limits.name_bytes_max {
        return Err(fail(ParseErrorKind::MethodTooLong, limits.name_bytes_max));
    }
    let method = Method::of(line.bytes.get(..method_end).unwrap_or_default());
    let target_start = method_end + 1;
    let after_method = line.bytes.get(target_start..).unwrap_or_default();
    let target_len =
        target_length(after_method, limits).map_err(|at| fail(ParseErrorKind::InvalidTargetByte, target_start + at))?;
    let target = after_method.get(..target_len).unwrap_or_default();
    let version = after_method.get(target_len + 1..);
    if target.len() > limits.target_bytes_max {
        return Err(fail(ParseErrorKind::TargetTooLong, target_start + limits.target_bytes_max));
    }
    let old = version.is_none() && limits.accept_invalid && method == Method::Get;
    let version_start = target_start + target_len + 1;
    let version = match version {
        _ if target.is_empty() => return Err(fail(ParseErrorKind::RequestLine, target_start)),
        None if old => b"HTTP/1.0",
        None => return Err(fail(ParseErrorKind::RequestLine, line.bytes.len())),
        Some(version) if version != b"HTTP/1.1" && memchr(b' ', version).is_some() => {
            return Err(fail(ParseErrorKind::RequestLine, version_start));
        }
        Some(version) => version,
    };
    let (version, odd) = parse_version(version, limits).map_err(|kind| fail(kind, version_start))?;
    if !limits.accept_invalid && !target_is_valid(method, target) {
        return Err(fail(ParseErrorKind::InvalidTarget, target_start));
    }
    head.method = Span::between(0, method_end);
    head.target = Span::between(target_start, target_start + target_len);
    head.version = version;
    head.odd_version = if odd { Span::between(version_start, line.bytes.len()) } else { Span::default() };
    Ok(if old { Kind::Http09 } else { Kind::Head })
}

/// The words of a line, as Varnish parts them: by any number of blanks, the third up to the end of the line.
fn words(bytes: &[u8]) -> [(usize, &[u8]); 3] {
    let word = |from: usize| {
        let rest = bytes.get(from..).unwrap_or_default();
        let blanks = rest.iter().take_while(|byte| is_blank(**byte)).count();
        let rest = rest.get(blanks..).unwrap_or_default();
        (
            from + blanks,
            rest.get(..rest.iter().position(|byte| is_blank(*byte)).unwrap_or(rest.len())).unwrap_or_default(),
        )
    };
    let first = word(0);
    let second = word(first.0 + first.1.len());
    let (third, _) = word(second.0 + second.1.len());
    [first, second, (third, bytes.get(third..).unwrap_or_default().trim_ascii_end())]
}

fn span(word: (usize, &[u8])) -> Span {
    Span::between(word.0, word.0 + word.1.len())
}

/// Takes in a request line as Varnish reads it.
fn loose_request_line(line: &Line<'_>, limits: &Limits, head: &mut RequestHead) -> Result<(), (ParseErrorKind, usize)> {
    let [method, target, version] = words(line.bytes);
    for word in [method, target] {
        if let Some(at) = TARGET_RELAXED.first_outside(word.1) {
            return Err((ParseErrorKind::InvalidTargetByte, word.0 + at));
        }
        if word.1.is_empty() {
            return Err((ParseErrorKind::RequestLine, word.0));
        }
    }
    if method.1.len() > limits.name_bytes_max {
        return Err((ParseErrorKind::MethodTooLong, method.0));
    }
    head.version = match version.1 {
        b"HTTP/1.1" => Version::Http11,
        b"HTTP/1.0" => Version::Http10,
        _ => return Err((ParseErrorKind::InvalidVersion, version.0)),
    };
    (head.method, head.target, head.odd_version) = (span(method), span(target), Span::default());
    Ok(())
}

/// Up to where the target goes: to a space or the end. Err: where a byte is that may not stand in it.
#[inline]
fn target_length(bytes: &[u8], limits: &Limits) -> Result<usize, usize> {
    let end = if limits.accept_invalid { TARGET_RELAXED.first_outside(bytes) } else { find_target_end(bytes, 0) };
    match end {
        None => Ok(bytes.len()),
        Some(at) if bytes.get(at) == Some(&b' ') => Ok(at),
        Some(at) => Err(at),
    }
}

/// Whether the target has a form that RFC 9112 section 3.2 allows for the method.
///
/// User information is refused as RFC 9110 section 4.2.4 advises: it serves to make one host look like another.
fn target_is_valid(method: Method, target: &[u8]) -> bool {
    if target.first() == Some(&b'/') && method != Method::Connect {
        return true;
    }
    let parts = Target::split(method, target);
    match parts.form {
        TargetForm::Origin => true,
        TargetForm::Asterisk => method == Method::Options && parts.query.is_none(),
        TargetForm::Absolute => names_host(parts.authority),
        // The port is no option here, and the asterisk would be another form.
        TargetForm::Authority => {
            let has_port = target.last().is_some_and(u8::is_ascii_digit) && memchr(b':', target).is_some();
            names_host(target) && has_port && target.first() != Some(&b'*')
        }
        TargetForm::Unknown => false,
    }
}

/// The version, and whether it has to be kept as it is written.
#[inline(always)]
fn parse_version(version: &[u8], limits: &Limits) -> Result<(Version, bool), ParseErrorKind> {
    if version == b"HTTP/1.1" { Ok((Version::Http11, false)) } else { parse_other_version(version, limits) }
}

fn parse_other_version(version: &[u8], limits: &Limits) -> Result<(Version, bool), ParseErrorKind> {
    match version {
        b"HTTP/1.0" => Ok((Version::Http10, false)),
        odd if limits.accept_invalid => {
            if odd.is_empty() || VERSION.first_outside(odd).is_some() {
                return Err(ParseErrorKind::InvalidVersion);
            }
            // What HAProxy takes for 1.1 when it does not insist on the form.
            let later = match odd {
                [_, _, _, _, _, major, _, minor] => *major > b'1' || (*major == b'1' && *minor >= b'1'),
                _ => false,
            };
            Ok((if later { Version::Http11 } else { Version::Http10 }, true))
        }
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor] if major.is_ascii_digit() && minor.is_ascii_digit() => {
            if *major == b'1' {
                Ok((Version::Http11, false))
            } else {
                Err(ParseErrorKind::UnsupportedVersion)
            }
        }
        _ => Err(ParseErrorKind::InvalidVersion),
    }
}

/// Takes in a status line: version, three digits, and a reason phrase that may be missing with its space.
pub(super) fn status_line(line: &Line<'_>, limits: &Limits, head: &mut ResponseHead) -> Result<(), ParseError> {
    let fail = |kind, at: usize| ParseError::new(kind, line.start + at);
    if limits.as_varnish {
        return loose_status_line(line, head).map_err(|(kind, at)| fail(kind, at));
    }
    let version_end = if line.bytes.starts_with(b"HTTP/1.1 ") {
        "HTTP/1.1".len()
    } else {
        memchr(b' ', line.bytes).unwrap_or(line.bytes.len())
    };
    let (version, rest) = line.bytes.split_at_checked(version_end).unwrap_or_default();
    let (version, odd) = parse_version(version, limits).map_err(|kind| fail(kind, 0))?;
    let status_start = version_end + 1;
    let (status, reason_start) = match rest {
        [b' ', a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', rest @ ..]
            if rest.first().is_none_or(|byte| *byte == b' ') =>
        {
            let value = [a, b, c].iter().fold(0, |number, digit| number * 10 + u16::from(**digit - b'0'));
            (value, (status_start + 4).min(line.bytes.len()))
        }
        [] | [b' '] | [b' ', b' ', ..] => return Err(fail(ParseErrorKind::StatusLine, version_end)),
        [_, rest @ ..] => match odd_status(rest).filter(|_| limits.accept_legacy) {
            Some((value, len)) => {
                head.odd_status = Span::between(status_start, status_start + len);
                // A client may take it for one that has no body.
                head.in_doubt = true;
                (value, (status_start + len + 1).min(line.bytes.len()))
            }
            None => return Err(fail(ParseErrorKind::InvalidStatus, status_start)),
        },
    };
    head.version = version;
    head.odd_version = if odd { Span::between(0, version_end) } else { Span::default() };
    head.status = status;
    head.reason = Span::between(reason_start, line.bytes.len());
    Ok(())
}

/// Takes in a status line as Varnish reads it; a later version is read as HTTP/1.1.
fn loose_status_line(line: &Line<'_>, head: &mut ResponseHead) -> Result<(), (ParseErrorKind, usize)> {
    let [version, status, reason] = words(line.bytes);
    head.version = match version.1 {
        b"HTTP/1.0" => Version::Http10,
        [b'H', b'T', b'T', b'P', b'/', b'1'..=b'9', b'.', b'0'..=b'9'] => Version::Http11,
        _ => return Err((ParseErrorKind::InvalidVersion, version.0)),
    };
    head.status = match status.1 {
        [a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9'] => {
            [a, b, c].iter().fold(0, |number, digit| number * 10 + u16::from(**digit - b'0'))
        }
        _ => return Err((ParseErrorKind::InvalidStatus, status.0)),
    };
    (head.reason, head.odd_version) = (span(reason), Span::default());
    Ok(())
}

/// A status that is none: below 100, or of four digits; with how many bytes it takes.
#[cold]
fn odd_status(text: &[u8]) -> Option<(u16, usize)> {
    let digits = text.split(|byte| *byte == b' ').next().unwrap_or_default();
    let value: u16 =
        std::str::from_utf8(digits).ok().filter(|_| digits.iter().all(u8::is_ascii_digit))?.parse().ok()?;
    matches!((digits.len(), value), (1..=3, 1..=99) | (4, 1_000..=9_999)).then_some((value, digits.len()))
}

/// Whether the Host value agrees with the target, in a head whose bytes are `bytes` but not yet in its arena.
pub(super) fn host_agrees(head: &RequestHead, bytes: &[u8], host: &[u8]) -> bool {
    let target = head.target.of(bytes);
    if target.first() == Some(&b'/') {
        return true;
    }
    let parts = Target::split(Method::of(head.method.of(bytes)), target);
    match parts.form {
        TargetForm::Absolute | TargetForm::Authority => {
            host_matches(parts.form, parts.scheme, parts.host_and_port(), host)
        }
        _ => true,
    }
}

/// Whether the method is CONNECT, likewise.
pub(super) fn is_connect(head: &RequestHead, bytes: &[u8]) -> bool {
    Method::of(head.method.of(bytes)) == Method::Connect
}
