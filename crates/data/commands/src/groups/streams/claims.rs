//! What is propagated of entries that were given to consumers: one XCLAIM for as many as are alike.

use keyspace::{
    Bytes,
    changes::{Changes, Encoded},
    number,
    value::stream::{ConsumerNumber, Group, Id, Pending},
};

/// The most entries of one XCLAIM.
const IDS_MAX: usize = 1_000;

/// Entries that go into one XCLAIM.
#[derive(Debug)]
struct Open {
    key: Bytes,
    group: Bytes,
    consumer: Bytes,
    number: ConsumerNumber,
    delivered: i64,
    count: u64,
    ids: Vec<Id>,
    /// The last entry that the group was given.
    last: Id,
}

/// Such commands, and others in between.
#[derive(Debug, Default)]
pub(super) struct Claims {
    encoded: Encoded,
    open: Option<Box<Open>>,
}

impl Claims {
    /// Whether there is nothing to propagate.
    pub(super) fn is_empty(&self) -> bool {
        self.encoded.is_empty() && self.open.is_none()
    }

    /// An entry has been given to a consumer.
    pub(super) fn claim(&mut self, key: &[u8], group_name: &[u8], group: &Group, id: Id, pending: &Pending) {
        if let Some(open) = &mut self.open
            && open.key.as_slice() == key
            && (open.number, open.delivered, open.count) == (pending.consumer, pending.delivered, pending.count)
            && open.ids.len() < IDS_MAX
        {
            open.ids.push(id);
            open.last = group.last;
            return;
        }
        self.close();
        let consumer = group.consumer(pending.consumer).map(|consumer| consumer.name.clone()).unwrap_or_default();
        self.open = Some(Box::new(Open {
            key: Bytes::from_slice(key),
            group: Bytes::from_slice(group_name),
            consumer,
            number: pending.consumer,
            delivered: pending.delivered,
            count: pending.count,
            ids: vec![id],
            last: group.last,
        }));
    }

    /// Another command.
    pub(super) fn push(&mut self, words: Vec<Bytes>) {
        self.close();
        self.encoded.push(&words);
    }

    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        let out = &mut self.encoded;
        out.command(13 + open.ids.len());
        [b"XCLAIM".as_slice(), &open.key, &open.group, &open.consumer, b"0"].iter().for_each(|word| out.word(word));
        open.ids.iter().for_each(|id| out.word(&id.text()));
        out.word(b"TIME");
        out.word(&number::integer_bytes(open.delivered));
        out.word(b"RETRYCOUNT");
        out.word(&number::integer_bytes(i64::try_from(open.count).unwrap_or(i64::MAX)));
        [b"FORCE".as_slice(), b"JUSTID", b"LASTID"].iter().for_each(|word| out.word(word));
        out.word(&open.last.text());
    }

    /// Has all of it propagated instead of the command in run.
    pub(super) fn propagate(&mut self, changes: &mut Changes) {
        self.close();
        changes.propagate_encoded(std::mem::take(&mut self.encoded));
    }
}
