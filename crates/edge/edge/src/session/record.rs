//! A transaction as records of the ring: what `tidegate log` shows.

use telemetry::ring::{RingWriter, Tag, Transaction as Records};

use super::transaction::Transaction;

/// Writes a transaction that is over.
pub fn record(ring: &RingWriter, records: &mut Records, transaction: &Transaction) {
    let begun = transaction.client.accepted_at + transaction.since_accept();
    records.begin(transaction.number, u64::try_from(begun.as_micros()).unwrap_or(u64::MAX));
    records.record(Tag::Frontend, transaction.frontend_settings().name.as_bytes());
    if let Some(source) = transaction.client.source.get() {
        records.record_fmt(Tag::ReqStart, format_args!("{} {}", source.ip(), source.port()));
    }
    let (method, rest) =
        transaction.request_line.split_at_checked(transaction.method_len).unwrap_or((&transaction.request_line, b""));
    if !method.is_empty() {
        records.record(Tag::ReqMethod, method);
        let target = rest.strip_prefix(b" ").unwrap_or(rest);
        let end = target.iter().rposition(|byte| *byte == b' ').unwrap_or(target.len());
        records.record(Tag::ReqURL, target.get(..end).unwrap_or(target));
        records.record(Tag::ReqProtocol, target.get(end + 1..).unwrap_or_default());
    }
    if let Some(backend) = &transaction.backend {
        let server = transaction.server.as_ref().map_or("<NOSRV>", |server| &*server.config.name);
        records.record_parts(Tag::Backend, &[backend.settings().name.as_bytes(), b" ", server.as_bytes()]);
    }
    if transaction.status > 0 {
        records.record_fmt(Tag::RespStatus, format_args!("{}", transaction.status));
    }
    let times = &transaction.timeline;
    if let Some(took) = times.end.zip(times.first_byte).map(|(end, from)| end.saturating_duration_since(from)) {
        let unix = begun + took;
        records.record_fmt(
            Tag::Timestamp,
            format_args!("Resp {}.{:06} {}.{:06}", unix.as_secs(), unix.subsec_micros(), took.as_secs(), took.subsec_micros()),
        );
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
    records.record_fmt(Tag::ReqAcct, format_args!("0 0 {} 0 0 {}", transaction.bytes_in, transaction.bytes_out));
    records.record(Tag::End, b"");
    ring.commit(records);
}
