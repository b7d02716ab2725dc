//! A transaction in the ring: what `tidegate log` shows.

use std::sync::Arc;

use accelerator::note::Note;
use live::LiveProxy;
use telemetry::ring::{RingWriter, Summary, Tag, Transaction as Records};

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
    note_cache(records, transaction);
    ring.commit(records);
}

/// Notes what became of it in a cache, and why: `pass, passed in vcl_recv`, or what `Cache-Status` says.
fn note_cache(records: &mut Records, transaction: &Transaction) {
    let Note { what, why } = transaction.answered.cache;
    if !what.is_empty() {
        let separator: &[u8] = if why.is_empty() { b"" } else { b", " };
        records.record_parts(Tag::Cache, &[what.as_bytes(), separator, why.as_bytes()]);
        let outcome = match (what, why) {
            ("hit", _) => Outcome::Hit,
            ("miss", "stored") => Outcome::Stored,
            ("miss", _) => Outcome::Unstored,
            _ => Outcome::Bypassed,
        };
        return count(transaction, outcome, || format!("{what}, {why}"));
    }
    let has_shared = |proxy: &Arc<LiveProxy>| proxy.shared_cache.is_some();
    if !transaction.route.backend.as_ref().is_some_and(has_shared) && !has_shared(&transaction.client.frontend) {
        return;
    }
    // Of several caches that a response has come through this one is the last.
    let said = transaction.response.headers.all(b"cache-status").last().unwrap_or_default();
    let own = said.rsplit(|byte| *byte == b',').next().unwrap_or_default();
    let Some(what) = own.iter().position(|byte| *byte == b';').and_then(|at| own.get(at + 1..)) else { return };
    let what = what.trim_ascii();
    records.record(Tag::Cache, what);
    let has = |word: &[u8]| what.split(|byte| *byte == b';').any(|part| part.trim_ascii() == word);
    let outcome = match () {
        () if has(b"hit") => Outcome::Hit,
        () if has(b"stored") => Outcome::Stored,
        () if has(b"fwd=method") || has(b"fwd=bypass") => Outcome::Bypassed,
        () => Outcome::Unstored,
    };
    count(transaction, outcome, || String::from_utf8_lossy(what).into_owned());
}

/// What became of a request in a cache.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// The cache answered.
    Hit,
    /// It had nothing, and has it now.
    Stored,
    /// It had nothing, and has nothing.
    Unstored,
    /// It was not asked.
    Bypassed,
}

fn count(transaction: &Transaction, outcome: Outcome, why: impl FnOnce() -> String) {
    let frontend = &transaction.client.frontend;
    let is_cached = |proxy: &&Arc<LiveProxy>| proxy.accelerator.is_some() || proxy.shared_cache.is_some();
    let (proxy, side) = match transaction.route.backend.as_ref().filter(|_| !is_cached(&frontend)).filter(is_cached) {
        Some(backend) => (backend, &backend.backend),
        None => (frontend, &frontend.frontend),
    };
    let counts = side.traffic.of(transaction.worker).cache.get_or_init(Box::default);
    if outcome != Outcome::Bypassed {
        counts.lookups.increment();
    }
    match outcome {
        Outcome::Hit => {
            counts.hits.increment();
            counts.saved.add(transaction.bytes_out);
        }
        Outcome::Stored => {}
        Outcome::Unstored | Outcome::Bypassed => {
            let line = &transaction.line;
            let (method, rest) = line.text.split_at_checked(line.method_len).unwrap_or_default();
            let target = rest.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
            let at = transaction.client.accepted_at + transaction.since_accept();
            proxy.insight.remember(at, (method, target), transaction.answered.status, why());
        }
    }
}
