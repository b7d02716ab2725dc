//! Records of which some bytes are wrong: whatever they say, nothing panics, hangs or grows without bound.

use std::{cell::Cell, ops::Bound};

use proptest::prelude::*;

use super::memory::Memory;
use crate::{Filter, Header, Look, Malformed, MessageId, NewMessage, Overflow, Queue, Records, Reservation, Settings};

/// Records that may be anything.
#[derive(Debug, Default)]
struct Damaged {
    records: Memory,
    has_failed: Cell<bool>,
}

impl Records for Damaged {
    type Bytes = Vec<u8>;

    fn get(&self, name: &[u8]) -> Option<Vec<u8>> {
        self.records.get(name)
    }

    fn put(&mut self, name: &[u8], value: &[u8]) {
        if !self.has_failed.get() {
            self.records.put(name, value);
        }
    }

    fn delete(&mut self, name: &[u8]) {
        if !self.has_failed.get() {
            self.records.delete(name);
        }
    }

    fn scan(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, each: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
        if matches!((from, to), (Bound::Included(from), Bound::Included(to) | Bound::Excluded(to)) if from > to) {
            return;
        }
        self.records.scan(from, to, each);
    }

    fn fail(&self, _: Malformed) {
        self.has_failed.set(true);
    }

    fn has_failed(&self) -> bool {
        self.has_failed.get()
    }
}

fn filled() -> (Header, Damaged) {
    let settings =
        Settings { messages_max: 40, overflow: Overflow::DropOldest, attempts_max: 2, ..Settings::default() };
    let (mut header, mut records) = (Header::new(1_000, settings), Damaged::default());
    let mut queue = Queue::new(&mut header, &mut records, 1_000);
    for number in 0..30u8 {
        let (id, group) = ([number], [number % 2 + 1]);
        queue
            .publish(&[NewMessage {
                body: b"body",
                id: Some(&id),
                group: (number % 3 == 0).then_some(&group),
                priority: u32::from(number % 4),
                delay_ms: Some(u64::from(number % 5) * 10),
                expire_ms: Some(u64::from(number % 7) * 20),
                ..NewMessage::default()
            }])
            .unwrap();
    }
    let given = queue.reserve(&Reservation { count: 8, bytes: u64::MAX, timeout_ms: Some(30), consumer: b"c" });
    for one in given.iter().take(3) {
        queue.bury(one.receipt, b"why").unwrap();
    }
    (header, records)
}

proptest! {
    #[test]
    fn damaged_records_do_no_harm(
        of_records in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 0..6),
        gone in proptest::collection::vec(any::<prop::sample::Index>(), 0..4),
        of_header in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        now in prop_oneof![Just(1_000u64), Just(1_050), Just(u64::MAX)],
    ) {
        let (header, mut records) = filled();
        for (which, place, byte) in of_records {
            let len = records.records.0.len();
            let value = records.records.0.values_mut().nth(which.index(len)).unwrap();
            if !value.is_empty() {
                let place = place.index(value.len());
                value[place] = byte;
            }
        }
        for which in gone {
            let name = records.records.0.keys().nth(which.index(records.records.0.len())).unwrap().clone();
            records.records.0.remove(&name);
        }
        let mut bytes = header.encode();
        for (place, byte) in of_header {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        let Ok(mut header) = Header::decode(&bytes) else { return Ok(()) };
        let mut queue = Queue::new(&mut header, &mut records, now);
        let ids = queue.ids_of(Look::All, None, 100);
        queue.figures();
        queue.header().next_due(now);
        ids.iter().for_each(|id| drop(queue.look(*id)));
        let message = NewMessage { body: b"more", group: Some(b"\x01"), ..NewMessage::default() };
        let _ = queue.publish(&[message; 3]);
        let given = queue.reserve(&Reservation { count: 20, bytes: u64::MAX, timeout_ms: None, consumer: b"d" });
        for (number, one) in given.iter().enumerate() {
            match number % 4 {
                0 => drop(queue.delete_done(one.receipt)),
                1 => drop(queue.release(one.receipt, 5, b"again", false)),
                2 => drop(queue.touch(one.receipt, None, true)),
                _ => drop(queue.bury(one.receipt, b"no")),
            }
        }
        queue.redrive(&Filter { reason: None, from: MessageId(0), count: 10 });
        queue.purge(Look::Reserved, 10);
        queue.purge(Look::Ready, 10);
        ids.iter().for_each(|id| _ = queue.remove(*id));
        queue.come_due();
    }
}
