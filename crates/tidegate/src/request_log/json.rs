//! Transactions as JSON, one object a line.

use std::io::{self, Write};

use serde_json::{Map, Value, json};
use telemetry::ring::{Block, Record};

use super::{line::Request, printer::is_request, records::name};

/// What a request's line says, by names; other transactions with their records.
pub(super) fn summary(output: &mut impl Write, block: &Block<'_>) -> io::Result<()> {
    if !is_request(block) {
        return long(output, block, |_| true);
    }
    let request = Request::of(block);
    let (client, port) = request.client.unzip();
    let (backend, server) = request.backend.unzip();
    let mut object = head(block);
    let mut put = |name: &str, value: Value| {
        if !value.is_null() {
            object.insert(name.to_owned(), value);
        }
    };
    put("client", client.into());
    put("client_port", port.into());
    put("frontend", request.frontend.into());
    put("backend", backend.into());
    put("server", server.into());
    put("method", request.method.clone().into());
    put("url", request.method.map(|_| request.url).into());
    put("status", Some(request.status).filter(|status| *status != 0).into());
    put("took_us", request.took_us.into());
    put("bytes_in", request.bytes_in.into());
    put("bytes_out", request.bytes_out.into());
    put("cache", request.cache.into());
    put("termination", request.termination.into());
    write(output, &Value::Object(object))
}

/// A transaction with its records as they are.
pub(super) fn long(output: &mut impl Write, block: &Block<'_>, shown: impl Fn(&Record<'_>) -> bool) -> io::Result<()> {
    let mut object = head(block);
    let records = block.records().filter(shown).map(|record| fields(&record)).collect();
    object.insert("records".to_owned(), Value::Array(records));
    write(output, &Value::Object(object))
}

/// One record.
pub(super) fn record(output: &mut impl Write, block: &Block<'_>, record: &Record<'_>) -> io::Result<()> {
    let mut object = Map::new();
    object.insert("transaction".to_owned(), block.id().into());
    if let Value::Object(fields) = fields(record) {
        object.extend(fields);
    }
    write(output, &Value::Object(object))
}

fn head(block: &Block<'_>) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("transaction".to_owned(), block.id().into());
    // Microseconds since 1970.
    object.insert("time_us".to_owned(), block.time_us().into());
    if block.is_truncated() {
        object.insert("cut".to_owned(), true.into());
    }
    object
}

fn fields(record: &Record<'_>) -> Value {
    json!({ "tag": name(record), "text": String::from_utf8_lossy(record.text) })
}

fn write(output: &mut impl Write, value: &Value) -> io::Result<()> {
    writeln!(output, "{value}")
}
