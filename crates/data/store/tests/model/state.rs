//! All that a server holds, as its clients see it.

use resp::Value;

use super::support::Client;

/// Databases that commands touch.
pub const DATABASES: usize = 3;

/// A key with all of it.
#[derive(Debug, Clone)]
pub struct KeyState {
    pub db: usize,
    pub key: Vec<u8>,
    pub kind: Vec<u8>,
    /// Milliseconds since 1970, or -1.
    pub expires: i64,
    pub content: Value,
}

impl PartialEq for KeyState {
    fn eq(&self, other: &Self) -> bool {
        // What was said relatively is some milliseconds apart.
        const APART_MS: i64 = 60_000;
        (self.db, &self.key, &self.kind) == (other.db, &other.key, &other.kind)
            && self.content == other.content
            && (self.expires < 0) == (other.expires < 0)
            && (self.expires - other.expires).abs() < APART_MS
    }
}

/// What a server holds, sorted. The client is at database 0 afterwards.
pub fn held(client: &mut Client) -> Vec<KeyState> {
    let mut all = Vec::new();
    for db in 0..DATABASES {
        client.command(&["SELECT", &db.to_string()]);
        let keys = client.command(&["KEYS", "*"]);
        let mut keys: Vec<Vec<u8>> =
            keys.as_slice().expect("keys").iter().map(|key| key.as_bytes().expect("a key").to_vec()).collect();
        keys.sort_unstable();
        let kinds = ask(client, &keys, |key| vec![b"TYPE".to_vec(), key.to_vec()]);
        let expires = ask(client, &keys, |key| vec![b"PEXPIRETIME".to_vec(), key.to_vec()]);
        let commands: Vec<Vec<Vec<u8>>> = keys.iter().zip(&kinds).map(|(key, kind)| reading(kind, key)).collect();
        let contents = ask(client, &commands, Clone::clone);
        for (((key, kind), expires), content) in keys.into_iter().zip(kinds).zip(expires).zip(contents) {
            let kind = kind.as_bytes().unwrap_or_default().to_vec();
            let content = without_order(&kind, content);
            all.push(KeyState { db, key, kind, expires: expires.as_integer().unwrap_or(i64::MIN), content });
        }
    }
    client.command(&["SELECT", "0"]);
    all
}

fn ask<T>(client: &mut Client, of: &[T], command: impl Fn(&T) -> Vec<Vec<u8>>) -> Vec<Value> {
    let mut replies = Vec::new();
    for some in of.chunks(50) {
        let mut bytes = Vec::new();
        some.iter().for_each(|one| resp::encode_command(&mut bytes, &command(one)));
        assert!(client.send(&bytes), "it answers");
        replies.extend(some.iter().map(|_| client.reply().expect("it answers")));
    }
    replies
}

/// The command that reads all of a value.
fn reading(kind: &Value, key: &[u8]) -> Vec<Vec<u8>> {
    let words: &[&str] = match kind.as_bytes().unwrap_or_default() {
        b"string" => &["GET", "KEY"],
        b"list" => &["LRANGE", "KEY", "0", "-1"],
        b"set" => &["SMEMBERS", "KEY"],
        b"hash" => &["HGETALL", "KEY"],
        b"zset" => &["ZRANGE", "KEY", "0", "-1", "WITHSCORES"],
        b"stream" => &["XINFO", "STREAM", "KEY", "FULL", "COUNT", "0"],
        _ => &["EXISTS", "KEY"],
    };
    words.iter().map(|word| if *word == "KEY" { key.to_vec() } else { word.as_bytes().to_vec() }).collect()
}

/// Sorts what has no order, and takes out what depends on the clock or on how a stream lies in memory.
fn without_order(kind: &[u8], value: Value) -> Value {
    match (kind, value) {
        (b"set", Value::Array(elements) | Value::Set(elements)) => Value::Array(sorted(elements)),
        (b"hash", Value::Array(elements)) => {
            Value::Array(sorted(elements.chunks(2).map(|pair| Value::Array(pair.to_vec())).collect()))
        }
        (b"hash", Value::Map(pairs)) => {
            Value::Array(sorted(pairs.into_iter().map(|(name, value)| Value::Array(vec![name, value])).collect()))
        }
        (b"stream", value) => without_times(value),
        (_, value) => value,
    }
}

pub fn sorted(mut elements: Vec<Value>) -> Vec<Value> {
    elements.sort_by_cached_key(|element| format!("{element:?}"));
    elements
}

const OF_THE_MOMENT: &[&[u8]] = &[b"radix-tree-keys", b"radix-tree-nodes", b"seen-time", b"active-time"];
const PENDING: &[&[u8]] = &[b"pel", b"pending"];

/// Of a stream's description, what two servers have to agree on.
fn without_times(value: Value) -> Value {
    match value {
        Value::Array(elements)
            if elements.first().is_some_and(|first| first.as_bytes().is_some()) && elements.len() % 2 == 0 =>
        {
            let mut elements = elements.into_iter();
            let mut pairs = Vec::new();
            while let (Some(name), Some(value)) = (elements.next(), elements.next()) {
                pairs.push((name, value));
            }
            without_times(Value::Map(pairs))
        }
        Value::Array(elements) => Value::Array(elements.into_iter().map(without_times).collect()),
        Value::Map(pairs) => {
            let name_of = |name: &Value| name.as_bytes().unwrap_or_default().to_vec();
            let kept = pairs.into_iter().filter(|(name, _)| !OF_THE_MOMENT.contains(&name_of(name).as_slice()));
            let kept = kept.map(|(name, value)| {
                let value = match PENDING.contains(&name_of(&name).as_slice()) {
                    true => without_delivery_times(value),
                    false if name_of(&name) == b"entries" => value,
                    false => without_times(value),
                };
                Value::Array(vec![name, value])
            });
            Value::Array(kept.collect())
        }
        other => other,
    }
}

/// `[id, consumer, time, count]` of a group, `[id, time, count]` of a consumer.
fn without_delivery_times(value: Value) -> Value {
    let Value::Array(entries) = value else { return value };
    let without = |entry: Value| match entry {
        Value::Array(mut parts) => {
            parts.remove(parts.len().saturating_sub(2));
            Value::Array(parts)
        }
        other => other,
    };
    Value::Array(entries.into_iter().map(without).collect())
}
