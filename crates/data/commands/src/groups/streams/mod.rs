//! Streams.

pub mod append;
pub mod claim;
mod claims;
mod group_reading;
pub mod groups;
pub mod info;
pub mod pending;
pub mod range;
pub mod read;

#[cfg(test)]
mod tests;

use resp::Reply;

use keyspace::{
    Bytes, Failure, number,
    value::{
        Stream,
        stream::{Group, Id},
    },
};

const GROUP: &str = "stream";
const INVALID_ID: Failure = Failure::text("ERR Invalid stream ID specified as stream command argument");

/// The longest text of an id that is looked at.
const ID_LEN_MAX: usize = 127;

/// An id as an argument; `-` and `+` are none.
fn strict_id(text: &[u8], missing_sequence: u64) -> Result<Id, Failure> {
    Some(text)
        .filter(|text| text.len() <= ID_LEN_MAX)
        .and_then(|text| Id::parse(text, missing_sequence))
        .ok_or(INVALID_ID)
}

/// The same, where `-` and `+` stand for the lowest and the greatest.
fn id(text: &[u8], missing_sequence: u64) -> Result<Id, Failure> {
    match text {
        b"-" => Ok(Id::MIN),
        b"+" => Ok(Id::MAX),
        _ => strict_id(text, missing_sequence),
    }
}

/// The first id of an interval: `(` excludes the one that follows.
fn interval_start(text: &[u8]) -> Result<Id, Failure> {
    match text {
        [b'(', rest @ ..] if !rest.is_empty() => {
            strict_id(rest, 0)?.next().ok_or(Failure::text("ERR invalid start ID for the interval"))
        }
        _ => id(text, 0),
    }
}

/// The last id of an interval.
fn interval_end(text: &[u8]) -> Result<Id, Failure> {
    match text {
        [b'(', rest @ ..] if !rest.is_empty() => {
            strict_id(rest, u64::MAX)?.previous().ok_or(Failure::text("ERR invalid end ID for the interval"))
        }
        _ => id(text, u64::MAX),
    }
}

/// Several ids; all of them are read before anything is done.
fn strict_ids(words: &[&[u8]]) -> Result<Vec<Id>, Failure> {
    words.iter().map(|word| strict_id(word, 0)).collect()
}

fn write_id(reply: &mut Reply<'_>, id: Id) {
    reply.bulk(&id.text());
}

fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// There is no such key, or no such group.
fn no_group(key: &[u8], group: &[u8]) -> Failure {
    Failure::quoting(&[b"NOGROUP No such key '", key, b"' or consumer group '", group, b"'"])
}

/// The command that sets a group's last id.
fn set_id_words(key: &[u8], group_name: &[u8], group: &Group) -> Vec<Bytes> {
    let read = group.entries_read.map_or(-1, |read| i64::try_from(read).unwrap_or(i64::MAX));
    let mut words: Vec<Bytes> =
        [b"XGROUP".as_slice(), b"SETID", key, group_name].iter().map(|word| Bytes::from_slice(word)).collect();
    words.extend([group.last.text(), Bytes::from_slice(b"ENTRIESREAD"), number::integer_bytes(read)]);
    words
}

/// The command that adds a consumer.
fn create_consumer_words(key: &[u8], group_name: &[u8], consumer: &[u8]) -> Vec<Bytes> {
    [b"XGROUP".as_slice(), b"CREATECONSUMER", key, group_name, consumer]
        .iter()
        .map(|word| Bytes::from_slice(word))
        .collect()
}

/// The entries of a stream behind an id, if there are some.
fn has_entries_behind(stream: &Stream, id: Id) -> bool {
    id < stream.last_id && stream.last_present().is_some_and(|last| last > id)
}
