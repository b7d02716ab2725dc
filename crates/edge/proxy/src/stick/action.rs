//! What rules do with stick tables.

use haproxycfg::model::{StickAction, TagValue, Track};
use sample::Options;
use stick::{DataType, Entry, Query};

use crate::session::Transaction;

/// Where a rule stands, which says for how long it tracks and what it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// `tcp-request connection` and `session`: as long as the connection.
    Connection,
    /// `tcp-request content`, `tcp-response content`: as long as the request.
    Content,
    /// `http-request`: as long as the request, which is counted at once.
    Request,
    /// `http-response`: the same, and what the status says.
    Response,
}

/// Does what a rule says. False when what it needs may still come.
pub fn act(transaction: &Transaction, action: &StickAction, level: Level, options: Options) -> bool {
    match action {
        StickAction::Track(track) => return start(transaction, track, level, options),
        StickAction::Increment(counter, gpc) => {
            transaction.with_counter(*counter, |entry| Query::Increment(*gpc).answer(entry));
        }
        StickAction::SetTag { counter, tag: (data, index), value } => {
            if !transaction.is_tracked(*counter) {
                return true;
            }
            let value = match value {
                TagValue::Fixed(value) => *value,
                TagValue::Expr(expr) => {
                    let options = Options { is_final: true, ..options };
                    let Some(value) = expr.integer(transaction, options) else { return true };
                    // As in HAProxy, the lower half of it.
                    value as u32
                }
            };
            transaction.with_counter(*counter, |entry| {
                if entry.set_tag(*data, *index, value) {
                    entry.touch();
                }
            });
        }
    }
    true
}

fn start(transaction: &Transaction, track: &Track, level: Level, options: Options) -> bool {
    if transaction.is_tracked(track.counter) {
        return true;
    }
    let Some(table) = transaction.instance.tables.get(track.table) else { return true };
    let found = track.expr.evaluate(transaction, options);
    if found.may_change() && !options.is_final {
        return false;
    }
    let definition = table.definition();
    let key = found.value().and_then(|value| sample::stick_key(value, definition.key, definition.key_len));
    let Some(key) = key else { return true };
    if level == Level::Connection {
        transaction.track_connection(track.counter, track.table, &key);
        return true;
    }
    let status = if level == Level::Response { transaction.response.status() } else { 0 };
    transaction.track(track.counter, track.table, &key, |entry| {
        if level != Level::Content {
            count_request(entry, status);
        }
    });
    true
}

/// Counts a request that was there before it was tracked.
fn count_request(entry: &mut Entry<'_>, status: u16) {
    entry.count(DataType::HttpReqCnt, DataType::HttpReqRate, 1);
    match status {
        400..=499 => entry.count(DataType::HttpErrCnt, DataType::HttpErrRate, 1),
        501 | 505 => {}
        500..=599 => entry.count(DataType::HttpFailCnt, DataType::HttpFailRate, 1),
        _ => {}
    }
}
