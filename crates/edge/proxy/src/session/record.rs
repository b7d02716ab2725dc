//! A transaction in the ring: what `tidegate log` shows.

use telemetry::ring::{RingWriter, Summary, Transaction as Records};

use super::transaction::Transaction;

/// Writes a transaction that is over.
pub fn record(ring: &RingWriter, records: &mut Records, transaction: &Transaction) {
    let begun = transaction.client.accepted_at + transaction.since_accept();
    records.begin(transaction.number, begun.as_secs() * 1_000_000 + u64::from(begun.subsec_micros()));
    let frontend = transaction.frontend_settings();
    let server = transaction.route.server.as_ref().map(|server| &*server.config.name);
    // As in HAProxy's logs: what a frontend answers itself is its own backend's.
    let backend = match (&transaction.route.backend, transaction.answered.by) {
        (Some(backend), answered_by) => Some((&backend.settings().name, answered_by.or(server).unwrap_or("<NOSRV>"))),
        (None, Some(answered_by)) => Some((&frontend.name, answered_by)),
        (None, None) => None,
    };
    let backend = backend.map(|(backend, server)| (backend.as_bytes(), server.as_bytes()));
    let times = &transaction.timeline;
    let took = times.end.zip(times.first_byte).map(|(end, from)| end.saturating_duration_since(from));
    let ([cause, stage], cookie) = (transaction.ending.letters(), transaction.route.cookie);
    records.summarize(&Summary {
        session: transaction.client.id,
        source: transaction.source.get(),
        frontend: frontend.name.as_bytes(),
        request_line: &transaction.line.text,
        method_len: transaction.line.method_len,
        backend,
        status: transaction.answered.status,
        termination: [cause, stage, cookie.request, cookie.response],
        bytes_in: transaction.bytes_in,
        bytes_out: transaction.bytes_out,
        took_us: took.map(|took| took.as_secs() * 1_000_000 + u64::from(took.subsec_micros())),
    });
    ring.commit(records);
}
