//! `filter trace`: tells on standard error what a stream goes through, as a help for those who write scripts.

use std::{fmt::Write as _, io::Write as _};

use haproxycfg::model::{Filter, Mode, Trace};
use http::Headers;
use live::LiveProxy;

use super::of;
use crate::session::{context::wall_clock, transaction::Transaction};

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

/// What the lines of a stream begin and end with.
fn frame(trace: &Trace, transaction: &Transaction, backend: &LiveProxy) -> (String, &'static str, &'static str) {
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
    (begin, mode, stage)
}

fn channel(inbound: bool) -> &'static str {
    if inbound { "REQUEST" } else { "RESPONSE" }
}

/// Shows the payload of one direction of a stream.
#[derive(Debug)]
pub struct PayloadTrace {
    line: Option<String>,
    hexdump: bool,
}

impl PayloadTrace {
    /// What a filter shows, if anything.
    #[must_use]
    pub fn new(trace: &Trace, transaction: &Transaction, backend: &LiveProxy, inbound: bool) -> Option<Self> {
        if !trace.verbose && !trace.hexdump {
            return None;
        }
        let (begin, mode, stage) = frame(trace, transaction, backend);
        let point = if mode == "HTTP" { "trace_http_payload" } else { "trace_tcp_payload" };
        let line = format!("{begin} {point:<25}: channel={:<10} - mode={mode:<5} ({stage})", channel(inbound));
        Some(Self { line: trace.verbose.then_some(line), hexdump: trace.hexdump })
    }

    /// Shows bytes that go on.
    pub fn tell(&self, bytes: &[u8]) {
        let mut text = String::new();
        if let Some(line) = &self.line {
            let len = bytes.len();
            let _ = writeln!(text, "{line} - offset=0 - len={len} - forward={len}");
        }
        if self.hexdump {
            hexdump(bytes, &mut text);
        }
        write(text.as_bytes());
    }
}

/// Bytes as HAProxy shows them: sixteen a line, by their numbers and as text.
fn hexdump(bytes: &[u8], out: &mut String) {
    for (number, row) in bytes.chunks(16).enumerate() {
        let _ = write!(out, "\t0x{:06x}: ", number * 16);
        for place in 0..16 {
            if place == 8 {
                out.push_str("  ");
            }
            let _ = match row.get(place) {
                Some(byte) => write!(out, "{byte:02x} "),
                None => write!(out, "   "),
            };
        }
        let shown = row.iter().map(|byte| if (b' '..=b'~').contains(byte) { char::from(*byte) } else { '.' });
        let _ = writeln!(out, "  |{}|", shown.collect::<String>());
    }
}

fn write(text: &[u8]) {
    // NOTE: standard error may be a pipe that nobody reads; whoever traces accepts to wait for it.
    let _ = std::io::stderr().write_all(text);
}

/// Tells the trace filters of a stream that it has come so far.
pub fn tell(transaction: &Transaction, backend: &LiveProxy, point: Point) {
    for filter in of(&transaction.client.frontend, backend) {
        let Filter::Trace(trace) = filter else { continue };
        if !trace.verbose {
            continue;
        }
        let mut text = String::new();
        let (begin, mode, stage) = frame(trace, transaction, backend);
        let mut headers: Option<&Headers> = None;
        let _ = match point {
            Point::Request => {
                headers = Some(&transaction.request.headers);
                writeln!(
                    text,
                    "{begin} {:<25}: channel={:<10} - mode={mode:<5} ({stage})\t{}",
                    "trace_http_headers",
                    "REQUEST",
                    String::from_utf8_lossy(&transaction.line.text)
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
        write(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_as_haproxy_does() {
        let mut out = String::new();
        hexdump(b"GET / HTTP/1.1\r\nHost", &mut out);
        assert_eq!(
            out,
            "\t0x000000: 47 45 54 20 2f 20 48 54   54 50 2f 31 2e 31 0d 0a   |GET / HTTP/1.1..|\n\
             \t0x000010: 48 6f 73 74                                         |Host|\n"
        );
    }
}
