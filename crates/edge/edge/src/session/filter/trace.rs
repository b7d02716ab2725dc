//! `filter trace`: tells on standard error what a stream goes through, as a help for those who write scripts.

use std::io::Write as _;

use haproxycfg::model::{Filter, Mode};
use http::Headers;

use super::of;
use crate::{
    live::LiveProxy,
    session::{context::wall_clock, transaction::Transaction},
};

/// Where in its life a stream is.
#[derive(Clone, Copy, Debug)]
pub enum Point {
    /// A request's head goes to a server.
    Request,
    /// A response's head goes to the client.
    Response,
    /// All is over.
    End,
}

/// Tells the trace filters of a stream that it has come so far.
pub fn tell(transaction: &Transaction, backend: &LiveProxy, point: Point) {
    for filter in of(&transaction.client.frontend, backend) {
        let Filter::Trace(trace) = filter else { continue };
        if !trace.verbose {
            continue;
        }
        let mut text = Vec::new();
        let now = wall_clock();
        let begin = format!(
            "{}.{:06} [{:<20}] [strm {:#x}({:x})]",
            now.as_secs(),
            now.subsec_micros(),
            trace.name,
            transaction.client.id,
            transaction.number
        );
        let mode = if backend.settings().mode == Mode::Http { "HTTP" } else { "TCP" };
        let stage = if std::ptr::eq(&*transaction.client.frontend, backend) { "frontend" } else { "backend" };
        let mut headers: Option<&Headers> = None;
        let _ = match point {
            Point::Request => {
                headers = Some(&transaction.request.headers);
                writeln!(
                    text,
                    "{begin} {:<25}: channel={:<10} - mode={mode:<5} ({stage})\t{}",
                    "trace_http_headers",
                    "REQUEST",
                    String::from_utf8_lossy(&transaction.request_line)
                )
            }
            Point::Response => {
                headers = Some(&transaction.response.headers);
                writeln!(
                    text,
                    "{begin} {:<25}: channel={:<10} - mode={mode:<5} ({stage})\tHTTP/1.1 {} {}",
                    "trace_http_headers",
                    "RESPONSE",
                    transaction.response.status(),
                    String::from_utf8_lossy(transaction.response.reason())
                )
            }
            Point::End => writeln!(text, "{begin} {:<25}: mode={mode:<5} ({stage})", "trace_http_end"),
        };
        for (name, value) in headers.into_iter().flat_map(Headers::iter) {
            let (name, value) = (String::from_utf8_lossy(name), String::from_utf8_lossy(value));
            let _ = writeln!(text, "{begin} \t{name}: {value}");
        }
        // NOTE: standard error may be a pipe that nobody reads; whoever traces accepts to wait for it.
        let _ = std::io::stderr().write_all(&text);
    }
}
