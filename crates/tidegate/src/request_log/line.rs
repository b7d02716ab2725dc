//! A transaction in one line for people, in the order of HAProxy's `option httplog`:
//!
//! ```text
//! 192.0.2.7:41224 [23/Nov/2026:08:58:57.620] web readers/two 1.1ms 200 140 --NN "GET /basket"
//! ```
//!
//! A cache adds what became of it, and why: `(miss, not stored: the response sets a cookie)`.
//!
//! Client, when its request came, frontend, backend and server, how long it took, status, bytes sent, how it ended, request.

use telemetry::{
    local_time,
    ring::{Block, Tag},
};

use super::printable;
use crate::style::{Colour, Style, taking};

/// Stands for what is not known.
const NONE: &str = "-";

/// What a request's records say.
#[derive(Debug, Default)]
pub(super) struct Request {
    pub(super) client: Option<(String, u16)>,
    pub(super) frontend: String,
    pub(super) backend: Option<(String, String)>,
    pub(super) took_us: Option<u64>,
    /// 0 for none.
    pub(super) status: u16,
    pub(super) bytes_in: Option<u64>,
    pub(super) bytes_out: Option<u64>,
    pub(super) termination: String,
    pub(super) method: Option<String>,
    pub(super) url: String,
    /// What became of it in a cache.
    pub(super) cache: Option<String>,
}

impl Request {
    pub(super) fn of(block: &Block<'_>) -> Self {
        let text = |tag| block.first(tag).map(|text| String::from_utf8_lossy(text).into_owned());
        let words = |tag| -> Vec<String> { text(tag).unwrap_or_default().split(' ').map(str::to_owned).collect() };
        let start = words(Tag::ReqStart);
        let port = start.get(1).and_then(|port| port.parse().ok());
        let client = start.first().filter(|client| !client.is_empty() && *client != "unix").cloned().zip(port);
        let account = words(Tag::ReqAcct);
        let bytes = |place: usize| account.get(place).and_then(|bytes| bytes.parse().ok());
        let backend = text(Tag::Backend)
            .and_then(|text| text.split_once(' ').map(|(backend, server)| (backend.to_owned(), server.to_owned())));
        let seconds = words(Tag::Timestamp).get(2).and_then(|seconds| microseconds(seconds));
        Self {
            client,
            frontend: start.get(2).cloned().unwrap_or_default(),
            backend,
            took_us: seconds,
            status: text(Tag::RespStatus).and_then(|status| status.parse().ok()).unwrap_or(0),
            bytes_in: bytes(2),
            bytes_out: bytes(5),
            termination: text(Tag::Termination).unwrap_or_default(),
            method: text(Tag::ReqMethod),
            url: text(Tag::ReqURL).unwrap_or_default(),
            cache: text(Tag::Cache),
        }
    }
}

/// Seconds with six digits behind the point as microseconds.
fn microseconds(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.')?;
    let fraction: u64 = fraction.parse().ok().filter(|_| fraction.len() == 6)?;
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(fraction)
}

/// The line.
pub(super) fn line(block: &Block<'_>, style: Style) -> String {
    if block.first(Tag::ReqStart).is_none() {
        return of_no_request(block, style);
    }
    let request = Request::of(block);
    let client = request.client.map_or_else(|| "unix".to_owned(), |(host, port)| address(&host, port));
    let (backend, server) = request.backend.unwrap_or_else(|| (request.frontend.clone(), "<NOSRV>".to_owned()));
    let took = request.took_us.map_or_else(|| NONE.to_owned(), taking);
    let status = match request.status {
        0 => format!("{NONE:>3}"),
        status => style.paint(colour_of_status(status), format_args!("{status:03}")),
    };
    let bytes = request.bytes_out.map_or_else(|| NONE.to_owned(), |bytes| bytes.to_string());
    let ended_well = request.termination.starts_with("--") || request.termination.starts_with("LR");
    let termination = printable(request.termination.as_bytes());
    let termination = if ended_well { termination } else { style.paint(Colour::Doubtful, termination) };
    let mut line = format!(
        "{} {} {} {}/{} {took:>6} {status} {bytes:>6} {termination}",
        printable(client.as_bytes()),
        date(block, style),
        printable(request.frontend.as_bytes()),
        printable(backend.as_bytes()),
        printable(server.as_bytes()),
    );
    if let Some(method) = request.method {
        line.push_str(&format!(" \"{} {}\"", printable(method.as_bytes()), printable(request.url.as_bytes())));
    } else if request.status != 0 {
        // As HAProxy calls what is no request.
        line.push_str(" \"<BADREQ>\"");
    }
    if let Some(cache) = request.cache {
        line.push_str(&style.paint(Colour::Faint, format_args!(" ({})", printable(cache.as_bytes()))));
    }
    if block.is_truncated() {
        line.push_str(&style.paint(Colour::Doubtful, " (cut: it was too long for the memory of the log)"));
    }
    line
}

fn colour_of_status(status: u16) -> Colour {
    match status {
        ..300 => Colour::Good,
        300..400 => Colour::Neutral,
        400..500 => Colour::Doubtful,
        _ => Colour::Bad,
    }
}

fn address(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// What begins or ends a session, or tells of a check.
fn of_no_request(block: &Block<'_>, style: Style) -> String {
    let said = |tag| block.first(tag).map(printable);
    let what = match (said(Tag::Health), said(Tag::SessOpen), said(Tag::SessClose)) {
        (Some(health), ..) => format!("check {health}"),
        (_, Some(open), _) => format!("session {} opened: {open}", block.id()),
        (.., Some(close)) => format!("session {} {close}s", block.id()),
        _ => {
            let records =
                block.records().map(|record| format!("{} {}", super::records::name(&record), printable(record.text)));
            format!("transaction {}: {}", block.id(), records.collect::<Vec<_>>().join("; "))
        }
    };
    format!("{} {what}", date(block, style))
}

/// When it began, where the machine is, in HAProxy's form.
fn date(block: &Block<'_>, style: Style) -> String {
    let (seconds, us) = (block.time_us() / 1_000_000, block.time_us() % 1_000_000);
    let time = local_time(i64::try_from(seconds).unwrap_or(i64::MAX));
    let month = basics::calendar::MONTHS_SHORT.get(time.month).copied().unwrap_or(NONE);
    let (hour, minute, second) = (time.hour, time.minute, time.second);
    let text = format!("[{:02}/{month}/{}:{hour:02}:{minute:02}:{second:02}.{:03}]", time.day, time.year, us / 1_000);
    style.paint(Colour::Faint, text)
}
