//! The last invalid message of each side of a proxy, kept for `show errors`.
//!
//! Only what has already failed is looked at here, so it may cost: the message is parsed once more to find where it is
//! wrong.

use std::{
    fmt::Write as _,
    net::SocketAddr,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use http::{
    BodyTracker, Limits, ParseError, Parsed, RequestHead, RequestParser, ResponseHead, ResponseParser,
    request_body_length,
};

/// Bytes of a message that are kept.
const BYTES_MAX: usize = 16_384;
/// Characters of a message that stand in a line.
const LINE_CHARS: usize = 70;

/// A name and a number.
pub type Named = (String, u32);

/// An invalid message.
#[derive(Clone, Debug)]
pub struct Capture {
    /// When it came, since the Unix epoch.
    pub at: Duration,
    /// Its number among all that were captured.
    pub event: u64,
    /// Whether it is a response.
    pub is_response: bool,
    /// The frontend.
    pub frontend: Named,
    /// The backend, once it was chosen.
    pub backend: Option<Named>,
    /// The server.
    pub server: Option<Named>,
    /// The client.
    pub source: Option<SocketAddr>,
    /// The offending byte.
    pub position: u64,
    /// What is wrong with it.
    pub reason: &'static str,
    /// What was received.
    pub bytes: Vec<u8>,
    /// Bytes that there was room for.
    pub room: usize,
}

/// Where captures of one side are kept.
#[derive(Debug, Default)]
pub struct LastCapture(Mutex<Option<Box<Capture>>>);

impl LastCapture {
    /// Keeps a capture instead of the one before.
    pub fn keep(&self, mut capture: Capture) {
        capture.bytes.truncate(BYTES_MAX);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(capture));
    }

    /// What is kept.
    #[must_use]
    pub fn last(&self) -> Option<Capture> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_deref().cloned()
    }
}

/// What is wrong with the head of a request or with the chunks behind it; nothing if it is only too long.
#[must_use]
pub fn wrong_request(bytes: &[u8], limits: &Limits) -> Option<ParseError> {
    let mut head = RequestHead::new();
    match RequestParser::new().parse(bytes, limits, &mut head) {
        Ok(Parsed::Incomplete) => None,
        Ok(Parsed::Complete { consumed }) => {
            let body = bytes.get(consumed..).unwrap_or_default();
            let error = BodyTracker::new(request_body_length(&head), limits).track(body).err()?;
            Some(ParseError { offset: error.offset + consumed as u64, ..error })
        }
        Err(error) => Some(error),
    }
}

/// What is wrong with the head of a response.
#[must_use]
pub fn wrong_response(bytes: &[u8], limits: &Limits) -> Option<ParseError> {
    ResponseParser::new().parse(bytes, limits, &mut ResponseHead::new()).err()
}

/// Shows a capture as HAProxy does; `date` is when it came.
pub fn render(out: &mut String, capture: &Capture, date: &str) {
    let named = |named: Option<&Named>| {
        named.map_or_else(|| "<NONE> (#-1)".to_owned(), |(name, number)| format!("{name} (#{number})"))
    };
    let (front, back) = (named(Some(&capture.frontend)), named(capture.backend.as_ref()));
    let server = named(capture.server.as_ref());
    let (event, position, len) = (capture.event, capture.position, capture.bytes.len());
    let source =
        capture.source.map_or_else(|| "unix:1".to_owned(), |source| format!("{}:{}", source.ip(), source.port()));
    let _ = match capture.is_response {
        false => write!(out, " \n[{date}] frontend {front}: invalid request\n  backend {back}"),
        true => write!(out, " \n[{date}] backend {back}: invalid response\n  frontend {front}"),
    };
    let _ = write!(
        out,
        ", server {server}, event #{event}, src {source}\n  buffer starts at 0 (including 0 out), {} free,\n  len {len}, \
         wraps at {}, error at position {position}\n  {}:\n  \n",
        capture.room.saturating_sub(len),
        capture.room,
        capture.reason
    );
    let mut start = 0;
    let mut begins_line = true;
    while start < len {
        let mut text = String::new();
        let mut end = start;
        for byte in capture.bytes.iter().skip(start) {
            let shown = shown(*byte);
            if text.len() + shown.len() > LINE_CHARS {
                break;
            }
            text.push_str(&shown);
            end += 1;
            if *byte == b'\n' {
                break;
            }
        }
        let _ = writeln!(out, "  {start:05}{} {text}", if begins_line { ' ' } else { '+' });
        begins_line = text.ends_with("\\n");
        start = end.max(start + 1);
    }
}

fn shown(byte: u8) -> String {
    match byte {
        b'\t' => "\\t".into(),
        b'\n' => "\\n".into(),
        b'\r' => "\\r".into(),
        0x1b => "\\e".into(),
        b'\\' => "\\\\".into(),
        b' '..=b'~' => char::from(byte).to_string(),
        _ => format!("\\x{byte:02X}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_shown_line_by_line() {
        let bytes = [b"GET /\x01\xff".as_slice(), &[b'a'; 100], b" HTTP/1.1\r\nHost: \\\r\n\r\n"].concat();
        let wrong = wrong_request(&bytes, &Limits::default()).unwrap();
        assert_eq!(wrong.offset, 5);
        let capture = Capture {
            at: Duration::ZERO,
            event: 3,
            is_response: false,
            frontend: ("web".into(), 2),
            backend: None,
            server: None,
            source: Some(SocketAddr::from(([127, 0, 0, 1], 80))),
            position: wrong.offset,
            reason: wrong.kind.text(),
            bytes,
            room: 16_384,
        };
        let mut out = String::new();
        render(&mut out, &capture, "DATE");
        let head = " \n[DATE] frontend web (#2): invalid request\n  backend <NONE> (#-1), server <NONE> (#-1), event #3, \
                    src 127.0.0.1:80\n  buffer starts at 0 (including 0 out), 16255 free,\n  len 129, wraps at 16384, \
                    error at position 5\n";
        assert!(out.starts_with(head), "{out}");
        let body = format!(
            "  \n  00000  GET /\\x01\\xFF{}\n  00064+ {} HTTP/1.1\\r\\n\n  00118  Host: \\\\\\r\\n\n  00127  \\r\\n\n",
            "a".repeat(57),
            "a".repeat(43)
        );
        assert!(out.ends_with(&body), "{out}");
    }
}
