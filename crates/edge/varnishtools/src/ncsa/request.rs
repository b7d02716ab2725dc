//! What a line is made of.

use telemetry::vsl::VslTag;

use crate::group::{Kind, Transaction};

/// What the records of a request or fetch say.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub(super) transaction: &'a Transaction,
    pub(super) side: &'static str,
    pub(super) hit_or_miss: &'static str,
    pub(super) handling: &'static str,
    pub(super) address: Option<&'a [u8]>,
    pub(super) method: Option<&'a [u8]>,
    pub(super) path: Option<&'a [u8]>,
    pub(super) query: Option<&'a [u8]>,
    pub(super) protocol: Option<&'a [u8]>,
    pub(super) status: Option<&'a [u8]>,
    pub(super) received: Option<&'a [u8]>,
    pub(super) sent_body: Option<&'a [u8]>,
    pub(super) sent: Option<&'a [u8]>,
    pub(super) start: Option<f64>,
    pub(super) end: Option<f64>,
    pub(super) first_byte: Option<&'a [u8]>,
    pub(super) host: Option<&'a [u8]>,
    pub(super) credentials: Option<&'a [u8]>,
}

/// What follows a name, letter case ignored, and the spaces behind it.
pub(super) fn behind<'a>(name: &[u8], text: &'a [u8]) -> Option<&'a [u8]> {
    let (start, rest) = text.split_at_checked(name.len())?;
    start.eq_ignore_ascii_case(name).then(|| rest.trim_ascii_start())
}

/// The word with that number, from 1.
pub(super) fn word(text: &[u8], number: usize) -> Option<&[u8]> {
    text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).nth(number.checked_sub(1)?)
}

fn number(text: Option<&[u8]>) -> Option<f64> {
    std::str::from_utf8(text?).ok()?.parse().ok()
}

impl<'a> Request<'a> {
    /// Nothing if there is no line of it: a session, bytes that were no request, or one that began again.
    pub(super) fn of(transaction: &'a Transaction) -> Option<Self> {
        let side = match transaction.kind {
            Kind::Request => "c",
            Kind::Fetch => "b",
            _ => return None,
        };
        let mut request = Self {
            transaction,
            side,
            hit_or_miss: "-",
            handling: "-",
            address: None,
            method: None,
            path: None,
            query: None,
            protocol: None,
            status: None,
            received: None,
            sent_body: None,
            sent: None,
            start: None,
            end: None,
            first_byte: None,
            host: None,
            credentials: None,
        };
        for record in &transaction.records {
            let Some(tag) = record.known_tag() else { continue };
            if tag == VslTag::HttpGarbage || tag == VslTag::VCL_return && record.text.eq_ignore_ascii_case(b"restart") {
                return None;
            }
            request.take(tag, &record.text);
        }
        Some(request)
    }

    fn take(&mut self, tag: VslTag, text: &'a [u8]) {
        let line = Some(text.trim_ascii());
        match tag {
            VslTag::PipeAcct => {
                self.received = self.received.or(word(text, 3));
                self.sent = self.sent.or(word(text, 4));
            }
            VslTag::ReqAcct | VslTag::BereqAcct => {
                self.received = self.received.or(word(text, 3));
                self.sent_body = self.sent_body.or(word(text, 5));
                self.sent = self.sent.or(word(text, 6));
            }
            VslTag::BackendOpen => self.address = word(text, 3),
            VslTag::ReqStart => self.address = self.address.or(word(text, 1)),
            VslTag::ReqMethod | VslTag::BereqMethod => self.method = self.method.or(line),
            VslTag::ReqURL | VslTag::BereqURL => {
                let at = text.iter().position(|byte| *byte == b'?').unwrap_or(text.len());
                let (path, query) = text.split_at(at);
                self.path = self.path.or(Some(path.trim_ascii()));
                self.query = self.query.or(Some(query.trim_ascii()));
            }
            VslTag::ReqProtocol | VslTag::BereqProtocol => self.protocol = self.protocol.or(line),
            VslTag::RespStatus | VslTag::BerespStatus => self.status = line,
            VslTag::Timestamp => self.timestamp(text),
            VslTag::ReqHeader | VslTag::BereqHeader => {
                if let Some(credentials) = behind(b"Authorization:", text).and_then(|value| behind(b"basic ", value)) {
                    self.credentials = self.credentials.or(Some(credentials.trim_ascii()));
                } else if let Some(host) = behind(b"Host:", text) {
                    self.host = self.host.or(Some(host.trim_ascii()));
                }
            }
            VslTag::VCL_call => self.call(text),
            VslTag::VCL_return if text.eq_ignore_ascii_case(b"pipe") => {
                (self.hit_or_miss, self.handling) = ("miss", "pipe")
            }
            _ => {}
        }
    }

    fn timestamp(&mut self, text: &'a [u8]) {
        let of = |names: &[&str]| names.iter().find_map(|name| behind(name.as_bytes(), text));
        if let Some(times) = of(&["Start:"]) {
            self.start = self.start.or(number(word(times, 1)));
        } else if let Some(times) = of(&["Resp:", "PipeSess:", "BerespBody:"]) {
            self.end = self.end.or(number(word(times, 1)));
        } else if let Some(times) = of(&["Process:", "Pipe:", "Beresp:"]) {
            self.first_byte = self.first_byte.or(word(times, 2));
        }
    }

    fn call(&mut self, text: &[u8]) {
        let (hit_or_miss, handling) = match text.to_ascii_lowercase().as_slice() {
            b"recv" => ("-", "-"),
            b"hit" => ("hit", "hit"),
            b"miss" => ("miss", "miss"),
            b"pass" => ("miss", "pass"),
            // It is neither; "miss" is nearer to it.
            b"synth" => ("miss", "synth"),
            _ => return,
        };
        (self.hit_or_miss, self.handling) = (hit_or_miss, handling);
    }
}
