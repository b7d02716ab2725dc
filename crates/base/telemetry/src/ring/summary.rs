//! A request in short: one record of numbers and names that readers take for the records it stands for.
//!
//! Nearly every request leaves the same few records. Spelling out their numbers costs the writer more than all the rest, and
//! nearly nobody reads them. So the writer lays the numbers down as they are, and [`expand`] makes texts of them when a
//! reader comes by. The bytes are written down in `docs/formats/transaction-ring.md`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{Block, Tag, Transaction, layout::BLOCK_HEADER_BYTES};

/// Bytes of a summary before its texts.
const FIXED_BYTES: usize = 72;

/// What is kept of a request that is over.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary<'a> {
    /// The session that it is part of; 0 if that writes no records.
    pub session: u64,
    /// The client; `None` for a unix socket.
    pub source: Option<SocketAddr>,
    /// The frontend.
    pub frontend: &'a [u8],
    /// The request line as received.
    pub request_line: &'a [u8],
    /// How many bytes of it are the method.
    pub method_len: usize,
    /// Backend and server, as far as it came.
    pub backend: Option<(&'a [u8], &'a [u8])>,
    /// The status sent; 0 for none.
    pub status: u16,
    /// HAProxy's termination state.
    pub termination: [u8; 4],
    /// Bytes from the client.
    pub bytes_in: u64,
    /// Bytes to the client.
    pub bytes_out: u64,
    /// Microseconds from the first byte to the end; `None` if there was none.
    pub took_us: Option<u64>,
}

impl Transaction {
    /// Adds a summary. Texts that do not fit are cut.
    pub fn summarize(&mut self, summary: &Summary<'_>) {
        let (backend, server) = summary.backend.unwrap_or_default();
        let mut room = self.text_room(FIXED_BYTES).min(usize::from(u16::MAX) - FIXED_BYTES);
        // NOTE: each request writes one: no array is mapped here, which costs a call for each element where the compiler does not inline it.
        let frontend = keep(summary.frontend, &mut room);
        let kept_backend = keep(backend, &mut room);
        let kept_server = keep(server, &mut room);
        let line = keep(summary.request_line, &mut room);
        let cut = line.len() < summary.request_line.len() || kept_server.len() < server.len();
        let (ip, port, family) = match summary.source {
            None => ([0; 16], 0, 0),
            Some(SocketAddr::V4(address)) => (address.ip().to_ipv6_mapped().octets(), address.port(), 4),
            Some(SocketAddr::V6(address)) => (address.ip().octets(), address.port(), 6),
        };
        let [ip_high, ip_low] = halves(ip);
        let [a, b, c, d] = summary.termination;
        let lengths = frontend.len() | kept_backend.len() << 16 | kept_server.len() << 32 | line.len() << 48;
        let words = [
            0,
            summary.session,
            ip_high,
            ip_low,
            u64::from(port) | family << 16 | u64::from(summary.status) << 32 | (summary.method_len as u64) << 48,
            u64::from(u32::from_le_bytes([a, b, c, d])) | u64::from(summary.backend.is_some()) << 32,
            summary.bytes_in,
            summary.bytes_out,
            summary.took_us.unwrap_or(u64::MAX),
            lengths as u64,
        ];
        self.record_words(Tag::Summary, words, &[frontend, kept_backend, kept_server, line], cut);
    }
}

/// As much of a text as there is room for, which it takes.
#[inline]
fn keep<'a>(text: &'a [u8], room: &mut usize) -> &'a [u8] {
    let kept = text.get(..*room).unwrap_or(text);
    *room -= kept.len();
    kept
}

fn halves(ip: [u8; 16]) -> [u64; 2] {
    let whole = u128::from_be_bytes(ip);
    [(whole >> 64) as u64, whole as u64]
}

/// The block that a block stands for, if it holds summaries.
pub(super) fn expand(block: &Block<'_>) -> Option<Vec<u8>> {
    if !block.records().any(|record| record.number == Tag::Summary.number()) {
        return None;
    }
    // What a summary says in numbers takes more room as text.
    let mut full = Transaction::new(block.bytes().len() * 4 + 1_024);
    full.begin(block.id(), block.time_us());
    for record in block.records() {
        full.at(record.time_us);
        match Tag::of(record.number) {
            Some(Tag::Summary) => {
                if let Some(summary) = read(record.text) {
                    spell_out(&mut full, &summary, block.time_us());
                }
            }
            Some(tag) => full.record(tag, record.text),
            None => {}
        }
    }
    if block.is_truncated() {
        full.mark_truncated();
    }
    Some(full.block(block.position()).to_vec()).filter(|bytes| bytes.len() >= BLOCK_HEADER_BYTES)
}

fn read(text: &[u8]) -> Option<Summary<'_>> {
    let (fixed, texts) = text.split_first_chunk::<FIXED_BYTES>()?;
    let word = |index: usize| fixed.as_chunks::<8>().0.get(index).map_or(0, |word| u64::from_le_bytes(*word));
    let port = word(3) as u16;
    let ip = Ipv6Addr::from_bits(u128::from(word(1)) << 64 | u128::from(word(2)));
    let source = match (word(3) >> 16) as u16 {
        4 => Some(SocketAddr::from((ip.to_ipv4_mapped().unwrap_or(Ipv4Addr::UNSPECIFIED), port))),
        6 => Some(SocketAddr::new(IpAddr::V6(ip), port)),
        _ => None,
    };
    let lengths = word(8);
    let (frontend, texts) = texts.split_at_checked(usize::from(lengths as u16))?;
    let (backend, texts) = texts.split_at_checked(usize::from((lengths >> 16) as u16))?;
    let (server, texts) = texts.split_at_checked(usize::from((lengths >> 32) as u16))?;
    let request_line = texts.get(..usize::from((lengths >> 48) as u16))?;
    Some(Summary {
        session: word(0),
        source,
        frontend,
        request_line,
        method_len: usize::from((word(3) >> 48) as u16),
        backend: (word(4) >> 32 & 1 == 1).then_some((backend, server)),
        status: (word(3) >> 32) as u16,
        termination: [0, 8, 16, 24].map(|shift| (word(4) >> shift) as u8),
        bytes_in: word(5),
        bytes_out: word(6),
        took_us: Some(word(7)).filter(|took| *took != u64::MAX),
    })
}

fn spell_out(full: &mut Transaction, summary: &Summary<'_>, begun_us: u64) {
    if summary.session != 0 {
        full.record_fmt(Tag::Begin, format_args!("req {} rxreq", summary.session));
    }
    let client = summary.source.map_or_else(|| "unix 0".into(), |source| format!("{} {}", source.ip(), source.port()));
    full.record_parts(Tag::ReqStart, &[client.as_bytes(), b" ", summary.frontend]);
    let (method, rest) =
        summary.request_line.split_at_checked(summary.method_len).unwrap_or((summary.request_line, b""));
    if !method.is_empty() {
        full.record(Tag::ReqMethod, method);
        let target = rest.strip_prefix(b" ").unwrap_or(rest);
        let end = target.iter().rposition(|byte| *byte == b' ').unwrap_or(target.len());
        full.record(Tag::ReqURL, target.get(..end).unwrap_or(target));
    }
    if let Some((backend, server)) = summary.backend {
        full.record_parts(Tag::Backend, &[backend, b" ", server]);
    }
    if summary.status > 0 {
        full.record_fmt(Tag::RespStatus, format_args!("{:03}", summary.status));
    }
    if let Some(took) = summary.took_us {
        let seconds = |us: u64| (us / 1_000_000, us % 1_000_000);
        let ((end, end_us), (took, took_us)) = (seconds(begun_us.saturating_add(took)), seconds(took));
        full.record_fmt(
            Tag::Timestamp,
            format_args!("Resp: {end}.{end_us:06} {took}.{took_us:06} {took}.{took_us:06}"),
        );
    }
    full.record(Tag::Termination, &summary.termination);
    full.record_fmt(Tag::ReqAcct, format_args!("0 0 {} 0 0 {}", summary.bytes_in, summary.bytes_out));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::{RingEvent, RingWriter};

    /// What a reader is told of a summary.
    fn told(summary: &Summary<'_>, ring_bytes: usize) -> (Vec<String>, bool) {
        let writer = RingWriter::anonymous(0, ring_bytes, 0).unwrap();
        let mut reader = writer.reader().unwrap();
        let mut records = writer.transaction();
        records.begin(7, 1_000_000);
        records.summarize(summary);
        writer.commit(&mut records);
        let RingEvent::Block(block) = reader.poll() else { panic!("no block") };
        assert_eq!((block.id(), block.time_us()), (7, 1_000_000));
        let texts = block
            .records()
            .map(|record| format!("{} {}", record.tag().unwrap().name(), String::from_utf8_lossy(record.text)));
        (texts.collect(), block.is_truncated())
    }

    #[test]
    fn a_reader_gets_the_records_that_a_summary_stands_for() {
        let full = Summary {
            session: 5,
            source: Some("10.0.200.1:80".parse().unwrap()),
            frontend: b"web",
            request_line: b"GET /a b HTTP/1.1",
            method_len: 3,
            backend: Some((b"app", b"s1")),
            status: 200,
            termination: *b"SD--",
            bytes_in: 10,
            bytes_out: u64::MAX,
            took_us: Some(1_000_042),
        };
        let expected = [
            "Begin req 5 rxreq",
            "ReqStart 10.0.200.1 80 web",
            "ReqMethod GET",
            "ReqURL /a b",
            "Backend app s1",
            "RespStatus 200",
            "Timestamp Resp: 2.000042 1.000042 1.000042",
            "Termination SD--",
            "ReqAcct 0 0 10 0 0 18446744073709551615",
        ];
        assert_eq!(told(&full, 65_536), (expected.map(String::from).to_vec(), false));
        let none = Summary { termination: *b"CR--", source: Some("[::1]:9".parse().unwrap()), ..Summary::default() };
        let expected = ["ReqStart ::1 9 ", "Termination CR--", "ReqAcct 0 0 0 0 0 0"];
        assert_eq!(told(&none, 65_536), (expected.map(String::from).to_vec(), false));
    }

    #[test]
    fn a_long_line_is_cut_and_marked() {
        let line = [b"GET /".as_slice(), &[b'x'; 3_000], b" HTTP/1.1"].concat();
        let summary = Summary { request_line: &line, method_len: 3, ..Summary::default() };
        let (texts, truncated) = told(&summary, 16_384);
        assert!(truncated);
        assert!(texts.iter().any(|text| text.starts_with("ReqURL /xxx") && text.len() < 1_024), "{texts:?}");
        assert!(texts.iter().any(|text| text.starts_with("ReqAcct")), "what comes after it is kept");
    }

    #[test]
    fn damage_is_no_summary() {
        for text in [&b""[..], &[0xff; FIXED_BYTES], &[0xff; FIXED_BYTES + 9]] {
            assert!(read(text).is_none());
        }
    }
}
