//! The parser of message heads.
//!
//! It is our own scanner rather than httparse: httparse ends a line at a bare LF, says neither where nor which rule was
//! broken, and needs an array of borrowed fields that would have to be walked and copied once more. Here a line is
//! scanned once for control bytes, sixteen at a time, which both finds its end and proves the rest of it clean; the
//! head is copied into its arena in one piece at the end, and fields are spans of that copy.
//!
//! The parser works line by line and remembers where it stopped, both in the line and in the head, so a client that
//! sends one byte at a time costs one look at each byte. What it decides does not depend on how the bytes arrived.

use crate::authority;
use crate::body_length::{Framing, parse_content_length};
use crate::bytes::{self, TOKEN, find_colon};
use crate::connection::lacks_websocket_key;
use crate::error::{ParseError, ParseErrorKind as Kind, Sender};
use crate::header_id::HeaderId;
use crate::headers::{Headers, Span};
use crate::limits::Limits;
use crate::request::RequestHead;
use crate::response::ResponseHead;
use crate::version::Version;

mod legacy;
mod start_line;

/// Empty lines that may stand before a request line (RFC 9112 section 2.2): old clients send one after a POST body.
const EMPTY_LINES_MAX: usize = 4;

/// What the bytes so far are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// The beginning of a head. More bytes are needed.
    Incomplete,
    /// A whole head.
    Complete {
        /// Its length, and where the body begins.
        consumed: usize,
    },
}

/// Parses request heads, one after the other.
///
/// Give [`RequestParser::parse`] all bytes received since the last head (or its body) ended, again from the first one
/// whenever more have come, and always the same head. When it returns `Complete` the head is whole and the parser ready
/// for the next; an error is final for the connection.
#[derive(Clone, Debug, Default)]
pub struct RequestParser {
    state: State,
}

/// Parses response heads; the contract is that of [`RequestParser`].
#[derive(Clone, Debug, Default)]
pub struct ResponseParser {
    state: State,
}

/// Where the parser is between two calls.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// Where the line begins that is not complete yet.
    line_start: usize,
    /// Up to where that line has been searched for its end.
    scanned: usize,
    /// Where the head begins, after empty lines.
    head_start: usize,
    empty_lines: usize,
    start_line_seen: bool,
    framing: Framing,
    /// The Host value, relative to the start of the head.
    host: Option<Span>,
    /// Whether a field goes on in another line.
    has_folds: bool,
}

impl RequestParser {
    /// A parser at the start of a head.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets a head begun.
    pub fn reset(&mut self) {
        self.state = State::default();
    }

    /// Goes on parsing with all bytes of the head received so far.
    ///
    /// # Errors
    /// When the bytes are not, and cannot become, a request head within the limits.
    pub fn parse(&mut self, input: &[u8], limits: &Limits, head: &mut RequestHead) -> Result<Parsed, ParseError> {
        // A copy, so that the loop can keep it in registers.
        let mut state = self.state;
        let parsed = state.request(input, limits, head);
        self.state = if parsed == Ok(Parsed::Incomplete) { state } else { State::default() };
        parsed
    }
}

impl ResponseParser {
    /// A parser at the start of a head.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets a head begun.
    pub fn reset(&mut self) {
        self.state = State::default();
    }

    /// Goes on parsing with all bytes of the head received so far.
    ///
    /// # Errors
    /// When the bytes are not, and cannot become, a response head within the limits.
    pub fn parse(&mut self, input: &[u8], limits: &Limits, head: &mut ResponseHead) -> Result<Parsed, ParseError> {
        // A copy, so that the loop can keep it in registers.
        let mut state = self.state;
        let mut parsed = state.response(input, limits, head);
        if let Err(error) = parsed
            && limits.accept_legacy
        {
            parsed = legacy::parse(input, limits, head, error);
            state = State::default();
        }
        self.state = if parsed == Ok(Parsed::Incomplete) { state } else { State::default() };
        parsed
    }
}

/// What a head begins with: of which bytes, and what it is called that it does not.
struct FirstWord {
    class: &'static bytes::Class,
    kind: Kind,
}

/// A whole line, without its CRLF.
struct Line<'a> {
    bytes: &'a [u8],
    /// From its beginning to the end of what was received.
    onward: &'a [u8],
    /// Where it begins in the input.
    start: usize,
    /// Whether a CR stands before its LF.
    has_cr: bool,
}

impl State {
    fn request(&mut self, input: &[u8], limits: &Limits, head: &mut RequestHead) -> Result<Parsed, ParseError> {
        let window = window(input, limits);
        let class = if limits.as_varnish { &bytes::TARGET_RELAXED } else { &bytes::TOKEN };
        let method = FirstWord { class, kind: Kind::InvalidMethod };
        while let Some(line) = self.next_line(window, limits).map_err(|error| self.earlier(window, &method, error))? {
            if self.start_line_seen {
                if line.bytes.is_empty() {
                    self.check_host(window, limits, head)?;
                    let parsed = self.complete(window, limits, head);
                    if !limits.as_varnish && lacks_websocket_key(head) {
                        return Err(ParseError::new(Kind::NoWebSocketKey, self.line_start - 2));
                    }
                    return Ok(parsed);
                }
                self.field(&line, limits, Sender::Client, head.version, &mut head.headers)?;
            } else if line.bytes.is_empty() {
                self.empty_lines += 1;
                if self.empty_lines > EMPTY_LINES_MAX && !limits.as_varnish {
                    return Err(ParseError::new(Kind::TooManyEmptyLines, line.start));
                }
            } else {
                head.clear();
                self.head_start = line.start;
                self.start_line_seen = true;
                if start_line::request_line(&line, limits, head)? == start_line::Kind::Http09 {
                    return Ok(self.complete(window, limits, head));
                }
            }
        }
        self.first_word_is_possible(window, &method)?;
        if input.len() >= limits.head_bytes_max {
            let kind = if self.start_line_seen { Kind::HeadTooLarge } else { Kind::TargetTooLong };
            return Err(ParseError::new(kind, limits.head_bytes_max));
        }
        Ok(Parsed::Incomplete)
    }

    fn response(&mut self, input: &[u8], limits: &Limits, head: &mut ResponseHead) -> Result<Parsed, ParseError> {
        let window = window(input, limits);
        let version = FirstWord { class: &bytes::VERSION, kind: Kind::InvalidVersion };
        while let Some(line) = self.next_line(window, limits).map_err(|error| self.earlier(window, &version, error))? {
            if !self.start_line_seen {
                head.clear();
                self.start_line_seen = true;
                start_line::status_line(&line, limits, head)?;
            } else if line.bytes.is_empty() {
                head.framing = self.framing;
                head.headers.adopt(window.get(..self.line_start).unwrap_or_default(), limits.keeps_case);
                if self.has_folds {
                    head.headers.blank_folds();
                }
                return Ok(Parsed::Complete { consumed: self.line_start });
            } else {
                self.field(&line, limits, Sender::Server, head.version, &mut head.headers)?;
            }
        }
        self.first_word_is_possible(window, &version)?;
        if input.len() >= limits.head_bytes_max {
            return Err(ParseError::new(Kind::HeadTooLarge, limits.head_bytes_max));
        }
        Ok(Parsed::Incomplete)
    }

    /// What cannot become a start line is told at once: who sends such things may never end the line.
    #[cold]
    fn first_word_is_possible(&self, window: &[u8], first: &FirstWord) -> Result<(), ParseError> {
        if self.start_line_seen {
            return Ok(());
        }
        let word = window.get(self.line_start..).unwrap_or_default();
        match first.class.first_outside(word).map(|at| (at, word.get(at))) {
            None | Some((_, Some(b'\r' | b'\n'))) => Ok(()),
            Some((at, Some(b' '))) if at > 0 => Ok(()),
            Some((at, _)) if first.kind == Kind::InvalidMethod => {
                Err(ParseError::new(first.kind, self.line_start + at))
            }
            Some(_) => Err(ParseError::new(first.kind, self.line_start)),
        }
    }

    /// What would have been wrong before `error` had the bytes come one by one.
    #[cold]
    fn earlier(&self, window: &[u8], first: &FirstWord, error: ParseError) -> ParseError {
        let end = usize::try_from(error.offset).unwrap_or(usize::MAX);
        let before = window.get(..end).unwrap_or(window);
        self.first_word_is_possible(before, first).err().unwrap_or(error)
    }

    /// The next whole line. None when its end has not come yet.
    #[inline(always)]
    fn next_line<'a>(&mut self, window: &'a [u8], limits: &Limits) -> Result<Option<Line<'a>>, ParseError> {
        loop {
            let Some(at) = bytes::find_control(window, self.scanned) else {
                self.scanned = window.len();
                return Ok(None);
            };
            let kind = match (window.get(at), window.get(at + 1)) {
                (Some(b'\r'), Some(b'\n')) => {
                    return Ok(Some(self.take_line(window, at, true)));
                }
                (Some(b'\n'), _) if limits.as_varnish => return Ok(Some(self.take_line(window, at, false))),
                (Some(b'\r'), None) => {
                    self.scanned = at;
                    return Ok(None);
                }
                (Some(b'\r'), Some(_)) => Kind::BareCr,
                (Some(b'\n'), _) => Kind::BareLf,
                (Some(0), _) => Kind::Nul,
                _ if limits.accept_invalid => {
                    self.scanned = at + 1;
                    continue;
                }
                _ => Kind::ControlByte,
            };
            return Err(ParseError::new(kind, at));
        }
    }

    /// The line that ends before `at`, where its CR or lone LF is.
    #[inline(always)]
    fn take_line<'a>(&mut self, window: &'a [u8], at: usize, has_cr: bool) -> Line<'a> {
        let start = self.line_start;
        let onward = window.get(start..).unwrap_or_default();
        let bytes = onward.get(..at - start).unwrap_or_default();
        self.line_start = at + 1 + usize::from(has_cr);
        self.scanned = self.line_start;
        Line { bytes, onward, start, has_cr }
    }

    /// Takes in one header line.
    #[inline(always)]
    fn field(
        &mut self,
        line: &Line<'_>,
        limits: &Limits,
        side: Sender,
        version: Version,
        headers: &mut Headers,
    ) -> Result<(), ParseError> {
        let fail = |kind, at: usize| ParseError::new(kind, line.start + at);
        let start = line.start - self.head_start;
        if line.bytes.len() > limits.line_bytes_max {
            return Err(fail(Kind::LineTooLong, limits.line_bytes_max));
        }
        if limits.as_varnish && line.bytes.first().copied().is_some_and(bytes::is_blank) {
            return self.fold(line, start, limits, headers).map_err(|kind| fail(kind, 0));
        }
        // The start line counts as one, as in HAProxy.
        if headers.len() + 2 > limits.headers_max {
            return Err(fail(Kind::TooManyFields, 0));
        }
        let (colon, id) = match find_colon(line.onward, 0) {
            Some(0) => return Err(fail(Kind::EmptyName, 0)),
            colon => match name_at(line, colon) {
                Some(id) => (colon.unwrap_or(0), id),
                None => (odd_name(line.bytes, limits).map_err(|(kind, at)| fail(kind, at))?, HeaderId::Other),
            },
        };
        if colon > limits.name_bytes_max {
            return Err(fail(Kind::NameTooLong, limits.name_bytes_max));
        }
        let rest = line.bytes.get(colon + 1..).unwrap_or_default();
        let (value, value_at, as_on_the_wire) = match rest {
            [b' ', value @ ..] if !starts_or_ends_blank(value) => (value, colon + 2, line.has_cr),
            _ => {
                let blanks = rest.iter().take_while(|byte| bytes::is_blank(**byte)).count();
                (bytes::trim(rest), colon + 1 + blanks, false)
            }
        };

        let framing = match id {
            HeaderId::ContentLength => self.content_length(value),
            HeaderId::TransferEncoding => self.transfer_encoding(value, version),
            HeaderId::Host if side == Sender::Client => self.host(value, start + value_at, limits),
            _ => Ok(()),
        };
        if let Err((kind, at)) = framing {
            return Err(fail(kind, value_at + at));
        }
        headers.push_parsed(
            Span::in_head(start, colon),
            Span::in_head(start + value_at, value.len()),
            id,
            as_on_the_wire,
        );
        Ok(())
    }

    /// A line that goes on with the field before it. NOTE: never one that says where the message ends or whom it is for.
    #[cold]
    fn fold(&mut self, line: &Line<'_>, start: usize, limits: &Limits, headers: &mut Headers) -> Result<(), Kind> {
        self.has_folds = true;
        let end = start + line.bytes.trim_ascii_end().len();
        match headers.fold_last(end) {
            Some((HeaderId::ContentLength | HeaderId::TransferEncoding | HeaderId::Host, _)) | None => {
                Err(Kind::ObsoleteFold)
            }
            Some((_, length)) if length > limits.line_bytes_max => Err(Kind::LineTooLong),
            Some(_) => Ok(()),
        }
    }

    fn content_length(&mut self, value: &[u8]) -> Result<(), (Kind, usize)> {
        if self.framing.length.is_some() {
            return Err((Kind::RepeatedLength, 0));
        }
        if self.framing.chunked {
            return Err((Kind::LengthAndEncoding, 0));
        }
        self.framing.length = Some(parse_content_length(value).map_err(|kind| (kind, 0))?);
        Ok(())
    }

    fn transfer_encoding(&mut self, value: &[u8], version: Version) -> Result<(), (Kind, usize)> {
        if self.framing.chunked {
            return Err((Kind::RepeatedEncoding, 0));
        }
        if self.framing.length.is_some() {
            return Err((Kind::LengthAndEncoding, 0));
        }
        if version == Version::Http10 {
            return Err((Kind::EncodingOnHttp10, 0));
        }
        if !value.eq_ignore_ascii_case(b"chunked") {
            let is_known = !has_coding_before_chunked(value);
            return Err((if is_known { Kind::UnsupportedEncoding } else { Kind::UnknownCoding }, 0));
        }
        self.framing.chunked = true;
        Ok(())
    }

    fn host(&mut self, value: &[u8], at: usize, limits: &Limits) -> Result<(), (Kind, usize)> {
        if self.host.is_some() {
            return Err((Kind::RepeatedHost, 0));
        }
        if let Some(odd) = bytes::HOST.first_outside(value)
            && !limits.accept_invalid
        {
            authority::check(value, odd).map_err(|odd| (Kind::InvalidHost, odd))?;
        }
        self.host = Some(Span::between(at, at + value.len()));
        Ok(())
    }

    /// RFC 9112 section 3.2: an HTTP/1.1 request has exactly one Host, the same as the target when that names one; and
    /// the body of CONNECT is undefined.
    fn check_host(&self, window: &[u8], limits: &Limits, head: &RequestHead) -> Result<(), ParseError> {
        if limits.as_varnish {
            return self.check_method(window, head);
        }
        let bytes = window.get(self.head_start..self.line_start).unwrap_or_default();
        let fail = |kind, at| ParseError::new(kind, at);
        match self.host {
            None if head.version == Version::Http11 => return Err(fail(Kind::MissingHost, self.line_start - 2)),
            Some(host) if !start_line::host_agrees(head, bytes, host.of(bytes)) => {
                return Err(fail(Kind::HostMismatch, self.head_start + host.start as usize));
            }
            _ => {}
        }
        if self.has_body() && start_line::is_connect(head, bytes) {
            return Err(fail(Kind::BodyOnConnect, self.line_start - 2));
        }
        Ok(())
    }

    fn has_body(&self) -> bool {
        self.framing.chunked || self.framing.length.is_some_and(|length| length > 0)
    }

    /// What Varnish asks of a method: HEAD has no body, and HTTP/1.0 says how long that of POST and PUT is (RFC 1945 section 8.3).
    /// Whether there is a Host is left to the program.
    fn check_method(&self, window: &[u8], head: &RequestHead) -> Result<(), ParseError> {
        let bytes = window.get(self.head_start..self.line_start).unwrap_or_default();
        let method = head.method.of(bytes);
        let has_no_length = self.framing == Framing::default() && head.version == Version::Http10;
        let is_wrong = match method {
            b"HEAD" | b"CONNECT" => self.has_body(),
            b"POST" | b"PUT" => has_no_length,
            _ => false,
        };
        if is_wrong { Err(ParseError::new(Kind::InvalidLength, self.line_start - 1)) } else { Ok(()) }
    }

    fn complete(&self, window: &[u8], limits: &Limits, head: &mut RequestHead) -> Parsed {
        head.framing = self.framing;
        let lines = window.get(self.head_start..self.line_start).unwrap_or_default();
        head.headers.adopt(lines, limits.keeps_case);
        if self.has_folds {
            head.headers.blank_folds();
        }
        Parsed::Complete { consumed: self.line_start }
    }
}

/// What of the input can be a head.
#[inline(always)]
fn window<'a>(input: &'a [u8], limits: &Limits) -> &'a [u8] {
    input.get(..limits.head_bytes_max.min(Span::HEAD_BYTES_MAX)).unwrap_or(input)
}

/// The id of the name that ends at the colon; None when there is no colon in the line or the name is not a token.
#[inline(always)]
fn name_at(line: &Line<'_>, colon: Option<usize>) -> Option<HeaderId> {
    let name = line.bytes.get(..colon?)?;
    match HeaderId::at(line.onward, name.len()) {
        // Well-known names are tokens.
        HeaderId::Other if TOKEN.first_outside(name).is_some() => None,
        id => Some(id),
    }
}

#[inline(always)]
fn starts_or_ends_blank(value: &[u8]) -> bool {
    value.first().copied().is_some_and(bytes::is_blank) || value.last().copied().is_some_and(bytes::is_blank)
}

/// Where the colon is in a line whose name is no token, if that is allowed, or what is wrong.
#[cold]
fn odd_name(line: &[u8], limits: &Limits) -> Result<usize, (Kind, usize)> {
    let is_blank_at = |at: usize| line.get(at).copied().is_some_and(bytes::is_blank);
    if is_blank_at(0) {
        return Err((Kind::ObsoleteFold, 0));
    }
    let Some(colon) = find_colon(line, 0) else { return Err((Kind::MissingColon, line.len())) };
    if is_blank_at(colon.saturating_sub(1)) {
        return Err((Kind::SpaceBeforeColon, colon - 1));
    }
    match TOKEN.first_outside(line) {
        Some(odd) if !limits.accept_invalid => Err((Kind::InvalidNameByte, odd)),
        _ => Ok(colon),
    }
}

/// Whether a Transfer-Encoding names other codings, and `chunked` behind them: where the message ends is known, and what it says is not.
fn has_coding_before_chunked(value: &[u8]) -> bool {
    let mut codings = value.rsplit(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    let is_chunked = |coding: &[u8]| coding.eq_ignore_ascii_case(b"chunked");
    codings.next().is_some_and(is_chunked) && codings.all(|coding| !coding.is_empty() && !is_chunked(coding))
}

#[cfg(test)]
mod tests;
