//! The log line of a transaction.

use std::time::{Instant, SystemTime};

use haproxycfg::model::Mode;
use logs::{LogLevel, LogLine};

use super::{
    ending::Blame,
    proxy_protocol::Refused,
    transaction::{ClientSide, Transaction},
};
use crate::worker::Worker;

/// Logs a transaction that is over, if anyone wants to know.
pub fn log(worker: &Worker, transaction: &mut Transaction) {
    // The silent end of a kept connection is no request.
    if transaction.timeline.request.is_some() || transaction.log.level.get() != Some(None) {
        worker.record(transaction);
    }
    if !transaction.log.is_written && !is_null(transaction) {
        write(worker, transaction);
    }
}

/// Whether it is a session of TCP in which the client has said nothing, which `option dontlognull` keeps out of the log.
fn is_null(transaction: &Transaction) -> bool {
    transaction.bytes_in == 0
        && !transaction.asked.is_complete()
        && !transaction.asked.is_invalid()
        && transaction.frontend_settings().options.dontlognull
}

/// Logs a connection that ended before there was a session; a rule that closed it is no error, which HAProxy calls a
/// success. `text` is what `error-log-format` says.
pub fn log_refused(worker: &Worker, side: &ClientSide, why: Option<Refused>, text: Option<&[u8]>) {
    let settings = side.frontend.settings();
    let is_silent = why.is_none_or(Refused::is_silent);
    if side.frontend.log_targets.is_empty() || settings.options.dontlognull && is_silent {
        return;
    }
    let level = if settings.options.log_separate_errors { LogLevel::Error } else { LogLevel::Info };
    if let Some(text) = text {
        return worker.log.send(&side.frontend.log_targets, &LogLine::new(level, text), SystemTime::now());
    }
    let source = match side.source.get() {
        Some(source) => format!("{}:{}", source.ip(), source.port()),
        None => format!("unix:{}", side.listener + 1),
    };
    let bind = settings.binds.get(side.listener);
    let listener = match bind.and_then(|bind| bind.name.clone()) {
        Some(name) => name,
        None => bind.and_then(|bind| bind.id).map_or(side.listener + 1, |id| id as usize).to_string(),
    };
    let text = format!(
        "{source} [{}] {}/{listener}: {}",
        logs::accept_date(side.accepted_at),
        settings.name,
        why.map_or("Success", Refused::text)
    );
    worker.log.send(&side.frontend.log_targets, &LogLine::new(level, text.as_bytes()), SystemTime::now());
}

/// `option logasap`: logs a transaction that goes on, as if it ended at `now` with `bytes_out` sent.
pub fn log_early(worker: &Worker, transaction: &mut Transaction, now: Option<Instant>, bytes_out: u64) {
    let settings = transaction.frontend_settings();
    if !settings.options.logasap || settings.log_format.is_none() {
        return;
    }
    transaction.timeline.end = now;
    let counted = std::mem::replace(&mut transaction.bytes_out, bytes_out);
    // What came from the client is counted at the end.
    let received = std::mem::take(&mut transaction.bytes_in);
    transaction.log.is_written = write(worker, transaction);
    transaction.bytes_out = counted;
    transaction.bytes_in = received;
}

/// Writes the line; false when there is a reason to write none as yet.
fn write(worker: &Worker, transaction: &mut Transaction) -> bool {
    if transaction.client.frontend.log_targets.is_empty() {
        return false;
    }
    let frontend = std::sync::Arc::clone(&transaction.client.frontend);
    let settings = frontend.settings();
    let troubled = transaction.ending.blame() != Blame::Nobody
        || transaction.route.retries > 0
        || transaction.route.redispatched
        || transaction.answered.status >= 500;
    if settings.options.dontlog_normal && !troubled {
        return false;
    }
    // Without any format there is nothing to say of what was no request.
    if transaction.asked.is_invalid() && settings.log_format.is_none() && settings.error_log_format.is_none() {
        return false;
    }
    let level = match transaction.log.level.get() {
        Some(None) => return true,
        Some(Some(level)) => level_of(level),
        None if settings.options.log_separate_errors && troubled => LogLevel::Error,
        None => LogLevel::Info,
    };
    transaction.log.counter = frontend.next_log();
    let format = match &settings.error_log_format {
        // NOTE: what a rule refused is a request all the same.
        Some(format) if transaction.asked.is_invalid() => Some(format),
        _ => settings.log_format.as_ref(),
    };
    worker.with_scratch(|text| {
        match format {
            Some(format) => format.render(transaction, text),
            None => short(transaction, text),
        }
        let mut line = LogLine::new(level, text);
        let structured = settings.log_format_sd.as_ref().map(|format| format.to_vec(transaction));
        line.structured_data = structured.as_deref().unwrap_or_default();
        worker.log.send(&frontend.log_targets, &line, SystemTime::now());
    });
    true
}

fn level_of(number: u8) -> LogLevel {
    match number {
        0 => LogLevel::Emergency,
        1 => LogLevel::Alert,
        2 => LogLevel::Critical,
        3 => LogLevel::Error,
        4 => LogLevel::Warning,
        5 => LogLevel::Notice,
        6 => LogLevel::Info,
        _ => LogLevel::Debug,
    }
}

/// What HAProxy logs without a format: who connected where.
fn short(transaction: &Transaction, out: &mut Vec<u8>) {
    let address = |address: Option<std::net::SocketAddr>| {
        address.map_or_else(|| "unix:1".into(), |address| format!("{}:{}", address.ip(), address.port()))
    };
    let settings = transaction.frontend_settings();
    let mode = if settings.mode == Mode::Http { "HTTP" } else { "TCP" };
    let text = format!(
        "Connect from {} to {} ({}/{mode})",
        address(transaction.source.get()),
        address(transaction.destination()),
        settings.name
    );
    out.extend_from_slice(text.as_bytes());
}
