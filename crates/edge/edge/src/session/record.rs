//! A transaction as records of the ring: what `tidegate log` shows.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use telemetry::ring::{RingWriter, Tag, Transaction as Records};

use super::transaction::Transaction;

/// Longest text made here: two addresses' worth.
const TEXT_MAX: usize = 96;

/// A short text made of numbers. The formatting machinery costs more than all the rest of a record.
struct Text {
    bytes: [u8; TEXT_MAX],
    len: usize,
}

impl Text {
    fn new() -> Self {
        Self { bytes: [0; TEXT_MAX], len: 0 }
    }

    fn push(&mut self, byte: u8) -> &mut Self {
        if let Some(place) = self.bytes.get_mut(self.len) {
            *place = byte;
            self.len += 1;
        }
        self
    }

    fn number(&mut self, number: u64, digits_least: usize) -> &mut Self {
        let mut digits = [b'0'; 20];
        let mut used = 0;
        let mut rest = number;
        for place in digits.iter_mut().rev() {
            *place = b'0' + (rest % 10) as u8;
            rest /= 10;
            used += 1;
            if rest == 0 && used >= digits_least {
                break;
            }
        }
        self.text(digits.get(digits.len() - used..).unwrap_or_default())
    }

    fn text(&mut self, text: &[u8]) -> &mut Self {
        let kept = text.len().min(TEXT_MAX - self.len);
        if let (Some(place), Some(text)) = (self.bytes.get_mut(self.len..self.len + kept), text.get(..kept)) {
            place.copy_from_slice(text);
            self.len += kept;
        }
        self
    }

    fn seconds(&mut self, time: Duration) -> &mut Self {
        self.number(time.as_secs(), 1).push(b'.').number(u64::from(time.subsec_micros()), 6)
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

fn client(text: &mut Text, source: SocketAddr) {
    match source.ip() {
        IpAddr::V4(ip) => {
            for (index, octet) in ip.octets().into_iter().enumerate() {
                if index > 0 {
                    text.push(b'.');
                }
                text.number(u64::from(octet), 1);
            }
        }
        IpAddr::V6(ip) => {
            for byte in ip.to_string().bytes() {
                text.push(byte);
            }
        }
    }
    text.push(b' ').number(u64::from(source.port()), 1);
}

/// Writes a transaction that is over.
pub fn record(ring: &RingWriter, records: &mut Records, transaction: &Transaction) {
    let begun = transaction.client.accepted_at + transaction.since_accept();
    records.begin(transaction.number, begun.as_secs() * 1_000_000 + u64::from(begun.subsec_micros()));
    let mut text = Text::new();
    match transaction.client.source.get() {
        Some(source) => client(&mut text, source),
        None => {
            text.text(b"unix 0");
        }
    }
    text.push(b' ');
    records.record_parts(Tag::ReqStart, &[text.bytes(), transaction.frontend_settings().name.as_bytes()]);
    let (method, rest) =
        transaction.request_line.split_at_checked(transaction.method_len).unwrap_or((&transaction.request_line, b""));
    if !method.is_empty() {
        records.record(Tag::ReqMethod, method);
        let target = rest.strip_prefix(b" ").unwrap_or(rest);
        let end = memchr::memrchr(b' ', target).unwrap_or(target.len());
        records.record(Tag::ReqURL, target.get(..end).unwrap_or(target));
    }
    if let Some(backend) = &transaction.backend {
        let server = transaction.server.as_ref().map_or("<NOSRV>", |server| &*server.config.name);
        records.record_parts(Tag::Backend, &[backend.settings().name.as_bytes(), b" ", server.as_bytes()]);
    }
    if transaction.status > 0 {
        records.record(Tag::RespStatus, Text::new().number(u64::from(transaction.status), 3).bytes());
    }
    let times = &transaction.timeline;
    if let Some(took) = times.end.zip(times.first_byte).map(|(end, from)| end.saturating_duration_since(from)) {
        let mut text = Text::new();
        text.text(b"Resp ").seconds(begun + took).push(b' ').seconds(took);
        records.record(Tag::Timestamp, text.bytes());
    }
    records.record(
        Tag::Termination,
        &[
            transaction.termination.cause,
            transaction.termination.phase,
            transaction.cookie_state.request,
            transaction.cookie_state.response,
        ],
    );
    let mut text = Text::new();
    text.text(b"0 0 ").number(transaction.bytes_in, 1).text(b" 0 0 ").number(transaction.bytes_out, 1);
    records.record(Tag::ReqAcct, text.bytes());
    ring.commit(records);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_text() {
        for (number, least, expected) in [(0, 1, "0"), (7, 6, "000007"), (u64::MAX, 1, "18446744073709551615")] {
            assert_eq!(Text::new().number(number, least).bytes(), expected.as_bytes());
        }
        let mut text = Text::new();
        client(&mut text, "10.0.200.1:80".parse().unwrap());
        text.push(b' ').seconds(Duration::from_micros(1_000_042));
        assert_eq!(text.bytes(), b"10.0.200.1 80 1.000042");
        let mut text = Text::new();
        for _ in 0..TEXT_MAX + 9 {
            text.push(b'x');
        }
        assert_eq!(text.bytes().len(), TEXT_MAX, "what is too long is cut");
    }
}
