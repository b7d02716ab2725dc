//! The coordinator of many machines: etcd, by the JSON that every etcd since 3.4 speaks on its clients' port.
//!
//! A value's version is the revision that wrote it (`mod_revision`). A request whose answer is lost may have been done: whoever sent it
//! reads again, as the trait says. Names and values are in base64 on the way.

mod http;

use std::{
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use crate::{
    CoordError, Coordinator, Versioned,
    table::Change,
    transaction::{LeaseId, Revision, Transaction, VALUE_MAX, Write},
};
use http::Endpoint;

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_millis(2_000);
/// How long changes of the past are waited for.
const HISTORY_PATIENCE: Duration = Duration::from_millis(400);
/// Values that are asked for at once.
const PAGE: u64 = 200;
/// What etcd says of a lease that has ended (gRPC's `NOT_FOUND`).
const NOT_FOUND: u64 = 5;

/// A coordinator that is etcd.
#[derive(Debug)]
pub struct Etcd {
    endpoints: Vec<Endpoint>,
    /// The one that has answered last.
    good: AtomicUsize,
    /// The cluster of etcd that has answered last, as it calls itself.
    cluster: AtomicU64,
}

impl Etcd {
    /// One at the given places, `http://HOST:PORT`, separated by commas: the members of one etcd cluster. Nothing is asked yet.
    ///
    /// # Errors
    ///
    /// They are none.
    pub fn new(urls: &str) -> Result<Self, CoordError> {
        let endpoints: Result<Vec<Endpoint>, String> =
            urls.split(',').map(str::trim).filter(|url| !url.is_empty()).map(Endpoint::parse).collect();
        let unusable = |problem: String| CoordError::Unavailable {
            place: "etcd".into(),
            problem: format!("cannot be used: {problem}"),
        };
        let mut endpoints = endpoints.map_err(unusable)?;
        let mut seen = Vec::new();
        endpoints.retain(|endpoint| {
            let is_new = !seen.contains(endpoint);
            seen.push(endpoint.clone());
            is_new
        });
        if endpoints.is_empty() {
            return Err(unusable("no URL is given, such as http://10.0.0.1:2379".into()));
        }
        Ok(Self { endpoints, good: AtomicUsize::new(0), cluster: AtomicU64::new(0) })
    }

    fn unavailable(&self, problem: impl ToString) -> CoordError {
        let names: Vec<String> = self.endpoints.iter().map(Endpoint::name).collect();
        CoordError::Unavailable { place: names.join(","), problem: problem.to_string() }
    }

    /// Does something with the first place that can do it.
    fn with_any<T>(&self, act: impl Fn(&Endpoint) -> std::io::Result<T>) -> Result<T, CoordError> {
        let first = self.good.load(Ordering::Relaxed);
        let mut problem = String::new();
        for place in 0..self.endpoints.len() {
            let index = (first + place) % self.endpoints.len();
            let Some(endpoint) = self.endpoints.get(index) else { continue };
            match act(endpoint) {
                Ok(done) => {
                    self.good.store(index, Ordering::Relaxed);
                    return Ok(done);
                }
                Err(error) => problem = format!("does not answer ({}: {error})", endpoint.name()),
            }
        }
        Err(self.unavailable(problem))
    }

    fn ask(&self, path: &str, body: &Value) -> Result<Value, CoordError> {
        let answer = self.with_any(|endpoint| endpoint.post(path, body, PATIENCE)?.whole())?;
        self.no_error(answer)
    }

    /// A transaction may be sent to another place only if the first one has not got it.
    fn ask_once(&self, path: &str, body: &Value) -> Result<Value, CoordError> {
        let sent = self.with_any(|endpoint| endpoint.post(path, body, PATIENCE))?;
        let answer = sent.whole().map_err(|error| {
            // The next one is asked first from now on.
            self.good.fetch_add(1, Ordering::Relaxed);
            self.unavailable(format!("does not answer ({error})"))
        })?;
        self.no_error(answer)
    }

    fn no_error(&self, answer: Value) -> Result<Value, CoordError> {
        match answer.get("error").and_then(Value::as_str) {
            None => Ok(answer),
            Some(_) if answer.get("code").and_then(Value::as_u64) == Some(NOT_FOUND) => Err(CoordError::NoLease(0)),
            Some(error) => Err(self.unavailable(format!("refuses: {error}"))),
        }
    }

    fn revision(&self, answer: &Value) -> Result<Revision, CoordError> {
        let header = answer.get("header").ok_or_else(|| self.unavailable("gives an answer without a header"))?;
        self.cluster.store(number(header, "cluster_id"), Ordering::Relaxed);
        Ok(number(header, "revision"))
    }
}

/// A number, which the gateway writes as text, and leaves out when it is 0.
fn number(value: &Value, name: &str) -> u64 {
    match value.get(name) {
        Some(Value::String(text)) => text.parse().unwrap_or(0),
        Some(number) => number.as_u64().unwrap_or(0),
        None => 0,
    }
}

fn encoded(bytes: &[u8]) -> String {
    BASE64_STANDARD.encode(bytes)
}

fn decoded(value: &Value, name: &str) -> Vec<u8> {
    let text = value.get(name).and_then(Value::as_str).unwrap_or_default();
    BASE64_STANDARD.decode(text).unwrap_or_default()
}

fn key_of(value: &Value) -> String {
    String::from_utf8_lossy(&decoded(value, "key")).into_owned()
}

fn versioned(value: &Value) -> Versioned {
    Versioned { value: decoded(value, "value"), version: number(value, "mod_revision") }
}

/// The first name behind all that begin so.
fn end_of(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            return end;
        }
    }
    // All names.
    vec![0]
}

fn range(prefix: &str) -> (String, String) {
    let start = if prefix.is_empty() { vec![0] } else { prefix.as_bytes().to_vec() };
    (encoded(&start), encoded(&end_of(prefix)))
}

fn body_of(transaction: &Transaction) -> Value {
    let compare: Vec<Value> = transaction
        .conditions
        .iter()
        .map(|condition| {
            let (key, version) = (encoded(condition.key.as_bytes()), condition.version.to_string());
            json!({ "key": key, "target": "MOD", "result": "EQUAL", "mod_revision": version })
        })
        .collect();
    let success: Vec<Value> = transaction
        .writes
        .iter()
        .map(|write| match write {
            Write::Put { key, value, lease } => {
                let lease = lease.unwrap_or(0).to_string();
                let put = json!({ "key": encoded(key.as_bytes()), "value": encoded(value), "lease": lease });
                json!({ "request_put": put })
            }
            Write::Delete { key } => json!({ "request_delete_range": { "key": encoded(key.as_bytes()) } }),
        })
        .collect();
    // What is found instead is told.
    let failure: Vec<Value> = transaction
        .conditions
        .iter()
        .map(|condition| json!({ "request_range": { "key": encoded(condition.key.as_bytes()) } }))
        .collect();
    json!({ "compare": compare, "success": success, "failure": failure })
}

fn conflict(transaction: &Transaction, answer: &Value) -> CoordError {
    let found = answer.get("responses").and_then(Value::as_array).cloned().unwrap_or_default();
    let versions = found.iter().map(|response| {
        let kvs = response.get("response_range").and_then(|range| range.get("kvs"));
        kvs.and_then(Value::as_array).and_then(|kvs| kvs.first()).map_or(0, |kv| number(kv, "mod_revision"))
    });
    let pairs = transaction.conditions.iter().zip(versions.chain(std::iter::repeat(0)));
    let mut different = pairs.filter(|(condition, found)| condition.version != *found);
    match different.next() {
        Some((condition, found)) => {
            CoordError::Conflict { key: condition.key.clone(), expected: condition.version, found }
        }
        None => CoordError::Conflict { key: "a value".into(), expected: 0, found: 0 },
    }
}

fn change_of(event: &Value) -> Option<Change> {
    let kv = event.get("kv")?;
    let is_delete = event.get("type").and_then(Value::as_str) == Some("DELETE");
    let value = (!is_delete).then(|| decoded(kv, "value"));
    Some(Change { revision: number(kv, "mod_revision"), key: key_of(kv), value })
}

impl Coordinator for Etcd {
    fn identity(&self) -> u64 {
        self.cluster.load(Ordering::Relaxed)
    }

    fn read(&self, key: &str) -> Result<Option<Versioned>, CoordError> {
        let answer = self.ask("/v3/kv/range", &json!({ "key": encoded(key.as_bytes()) }))?;
        self.revision(&answer)?;
        Ok(answer.get("kvs").and_then(Value::as_array).and_then(|kvs| kvs.first()).map(versioned))
    }

    fn list(&self, prefix: &str) -> Result<(Revision, Vec<(String, Versioned)>), CoordError> {
        let (mut key, end) = range(prefix);
        let (mut revision, mut found) = (0, Vec::new());
        loop {
            let body =
                json!({ "key": key, "range_end": end, "limit": PAGE.to_string(), "revision": revision.to_string() });
            let answer = self.ask("/v3/kv/range", &body)?;
            if revision == 0 {
                revision = self.revision(&answer)?;
            }
            let kvs = answer.get("kvs").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            found.extend(kvs.iter().map(|kv| (key_of(kv), versioned(kv))));
            let Some(last) = kvs.last().filter(|_| answer.get("more").and_then(Value::as_bool) == Some(true)) else {
                return Ok((revision, found));
            };
            let mut next = decoded(last, "key");
            next.push(0);
            key = encoded(&next);
        }
    }

    fn commit(&self, transaction: Transaction) -> Result<Revision, CoordError> {
        for write in &transaction.writes {
            if let Write::Put { key, value, .. } = write
                && value.len() > VALUE_MAX
            {
                return Err(CoordError::TooLarge { key: key.clone(), len: value.len() });
            }
        }
        let answer = self.ask_once("/v3/kv/txn", &body_of(&transaction)).map_err(|error| {
            let lease = transaction.writes.iter().find_map(|write| match write {
                Write::Put { lease, .. } => *lease,
                Write::Delete { .. } => None,
            });
            match (error, lease) {
                (CoordError::NoLease(_), Some(lease)) => CoordError::NoLease(lease),
                (error, _) => error,
            }
        })?;
        if answer.get("succeeded").and_then(Value::as_bool) == Some(true) {
            self.revision(&answer)
        } else {
            Err(conflict(&transaction, &answer))
        }
    }

    fn watch(&self, prefix: &str, after: Revision, patience: Duration) -> Result<Vec<Change>, CoordError> {
        let (key, range_end) = range(prefix);
        let start = (after + 1).to_string();
        let body = json!({ "create_request": { "key": key, "range_end": range_end, "start_revision": start } });
        let end = Instant::now() + patience;
        let mut answer = self.with_any(|endpoint| endpoint.post("/v3/watch", &body, patience + PATIENCE))?;
        answer.end_at(Instant::now() + PATIENCE);
        let mut is_created = false;
        loop {
            let line = match answer.line() {
                Ok(line) => line,
                // Nothing has happened; that it listens it has said.
                Err(error) if is_created && error.kind() == std::io::ErrorKind::TimedOut => return Ok(Vec::new()),
                Err(error) => return Err(self.unavailable(format!("does not answer ({error})"))),
            };
            let Some(line) = line else { return Err(self.unavailable("ends the watch")) };
            self.no_error(line.clone())?;
            let result = line.get("result").unwrap_or(&Value::Null);
            if number(result, "compact_revision") > 0 {
                return Err(CoordError::Compacted(after));
            }
            if result.get("canceled").and_then(Value::as_bool) == Some(true) {
                return Err(self.unavailable("ends the watch"));
            }
            if let Some(events) = result.get("events").and_then(Value::as_array) {
                return Ok(events.iter().filter_map(change_of).collect());
            }
            is_created = true;
            // What has happened already is told within a tenth of a second (etcd looks for it so often), and is waited for in any case.
            answer.end_at(end.max(Instant::now() + HISTORY_PATIENCE));
        }
    }

    fn grant(&self, ttl: Duration) -> Result<LeaseId, CoordError> {
        let seconds = ttl.as_millis().div_ceil(1000).max(1).to_string();
        let answer = self.ask("/v3/lease/grant", &json!({ "TTL": seconds }))?;
        match number(&answer, "ID") {
            0 => Err(self.unavailable("grants no lease")),
            id => Ok(id),
        }
    }

    fn keep_alive(&self, lease: LeaseId) -> Result<(), CoordError> {
        let answer = self.ask("/v3/lease/keepalive", &json!({ "ID": lease.to_string() }))?;
        // One that has ended is answered without a time.
        let result = answer.get("result").unwrap_or(&Value::Null);
        if number(result, "TTL") == 0 { Err(CoordError::NoLease(lease)) } else { Ok(()) }
    }

    fn revoke(&self, lease: LeaseId) -> Result<(), CoordError> {
        match self.ask("/v3/lease/revoke", &json!({ "ID": lease.to_string() })) {
            Ok(_) | Err(CoordError::NoLease(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_prefix_is_behind_all_of_it() {
        assert_eq!(end_of("/a/"), b"/a0");
        assert_eq!(end_of(""), [0]);
        assert!("/a/\u{10ffff}".as_bytes() < end_of("/a/").as_slice());
    }

    #[test]
    fn whom_nobody_answers_is_named() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let etcd = Etcd::new(&format!("http://127.0.0.1:{port}")).unwrap();
        let error = etcd.read("/a").unwrap_err().to_string();
        assert!(error.contains(&format!("the coordinator http://127.0.0.1:{port}: does not answer")), "{error}");
        assert!(Etcd::new(" ,").unwrap_err().to_string().contains("no URL is given"));
    }
}
