//! Values written: small ones as one string, others part by part.

use super::{collections, crc64, listpack::Builder, payload::VERSION, stream, ziplist};
use crate::{
    Value,
    encoding::{Writer, form},
    value::{
        Hash, Set, SortedSet,
        stream::rest,
        walk::{CollectionPiece, Walk},
    },
};

/// Writes a value that is one string. Returns whether it is.
fn encode_small(value: &Value, writer: &mut Writer<'_>) -> bool {
    let mut builder = Builder::default();
    let form = match value {
        Value::String(string) => {
            writer.byte(form::STRING);
            writer.string(string);
            return true;
        }
        Value::Set(set) => {
            let Set::Integers { members, .. } = &**set else { return false };
            writer.byte(form::SET_INTEGERS);
            writer.string(&ziplist::integers_bytes(members));
            return true;
        }
        Value::Hash(hash) if matches!(**hash, Hash::Small { .. }) => {
            hash.each(|name, value| {
                builder.push(name);
                builder.push(value);
            });
            form::HASH_LISTPACK
        }
        Value::SortedSet(set) => {
            let SortedSet::Small(members) = &**set else { return false };
            let mut text = Vec::new();
            for member in members {
                builder.push(&member.name);
                text.clear();
                resp::format_double(&mut text, member.score);
                builder.push(&text);
            }
            form::SORTED_SET_LISTPACK
        }
        Value::Hash(_) | Value::List(_) | Value::Stream(_) | Value::Queue(_) => return false,
    };
    writer.byte(form);
    writer.string(&builder.finish());
    true
}

/// Writes what is in front of the parts of a value that is not small.
fn encode_header(value: &Value, writer: &mut Writer<'_>) {
    let (form, count) = match value {
        Value::Queue(queue) => {
            writer.byte(form::QUEUE);
            return writer.string(&queue.header().encode());
        }
        Value::String(_) => (form::STRING, 0),
        Value::List(list) => (form::LIST_QUICKLIST_2, list.nodes_len()),
        Value::Set(set) => (form::SET, set.len()),
        Value::Hash(hash) => (form::HASH, hash.len()),
        // Redis writes the last one first, and reads faster what comes so.
        Value::SortedSet(set) => (form::SORTED_SET_2, set.len()),
        Value::Stream(stream) => (form::STREAM_2, stream.nodes_len()),
    };
    writer.byte(form);
    writer.count(count);
}

/// Behind the last record of a queue stands a name that is none: nobody knows how many there are before all were seen.
fn end_queue(value: &Value, writer: &mut Writer<'_>) {
    if matches!(value, Value::Queue(_)) {
        writer.string(b"");
    }
}

fn encode_part(part: CollectionPiece<'_>, writer: &mut Writer<'_>) {
    match part {
        CollectionPiece::Elements(node) => collections::encode_node(node, writer),
        CollectionPiece::Member(member) => writer.string(&member.text()),
        CollectionPiece::Scored(member) => {
            writer.string(&member.name);
            writer.double(member.score);
        }
        CollectionPiece::Field(name, value) => {
            writer.string(name);
            writer.string(value);
        }
        CollectionPiece::Record(name, value) => {
            writer.string(name);
            writer.string(value);
        }
        CollectionPiece::Entries(first, node) => {
            writer.string(&first.to_bytes());
            writer.string(&stream::encode_node(first, node));
        }
    }
}

pub(super) fn encode(value: &Value, writer: &mut Writer<'_>) {
    if encode_small(value, writer) {
        return;
    }
    encode_header(value, writer);
    Walk::default().go_on(value, usize::MAX, &mut |part| encode_part(part, writer));
    if let Value::Stream(of) = value {
        rest::encode_rest(of, writer);
    }
    end_queue(value, writer);
}

/// A payload of `DUMP` that is made in steps.
#[derive(Debug, Default)]
pub struct Dumping {
    /// What the last step has made.
    piece: Vec<u8>,
    walk: Walk,
    /// What stands behind the nodes of a stream, once these are written.
    rest: Option<rest::RestWriter>,
    /// How long it is so far, and the checksum of that.
    len: usize,
    sum: u64,
}

impl Dumping {
    /// Goes on with the next piece. Returns whether that was the last.
    pub fn go_on(&mut self, value: &Value, budget: usize) -> bool {
        self.piece.clear();
        let is_over = self.write(value, budget);
        if is_over {
            self.piece.extend_from_slice(&VERSION.to_le_bytes());
        }
        self.sum = crc64::continued(self.sum, &self.piece);
        if is_over {
            self.piece.extend_from_slice(&self.sum.to_le_bytes());
        }
        self.len += self.piece.len();
        is_over
    }

    fn write(&mut self, value: &Value, budget: usize) -> bool {
        let mut writer = Writer::new(&mut self.piece, true);
        if self.rest.is_none() && (self.walk.has_begun() || !encode_small(value, &mut writer)) {
            if !self.walk.has_begun() {
                encode_header(value, &mut writer);
            }
            if !self.walk.go_on(value, budget, &mut |part| encode_part(part, &mut writer)) {
                return false;
            }
        }
        match value {
            Value::Stream(of) => self.rest.get_or_insert_default().go_on(of, &mut writer, budget),
            _ => {
                end_queue(value, &mut writer);
                true
            }
        }
    }

    /// What the last step has made.
    pub fn piece(&self) -> &[u8] {
        &self.piece
    }

    /// How long all of it is so far.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing has been made yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}
