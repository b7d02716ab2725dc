//! What is bounded stays so, and what is told is right.

use super::memory::Memory;
use crate::{
    Delivery, Full, Header, Message, NewMessage, Overflow, Queue, Reservation, Settings,
    limits::{CONSUMERS_MAX, REASONS_MAX},
};

const ALL: Reservation<'_> = Reservation { count: usize::MAX, bytes: u64::MAX, timeout_ms: None, consumer: b"" };

fn push(header: &mut Header, records: &mut Memory, now: u64, body: &[u8]) -> Result<u64, Full> {
    let message = NewMessage { body, ..NewMessage::default() };
    Queue::new(header, records, now).publish(&[message]).map(|published| published[0].id.0)
}

fn bodies(given: &[Delivery]) -> Vec<Vec<u8>> {
    given.iter().map(|one| Message::decode(&one.record).unwrap().body.to_vec()).collect()
}

#[test]
fn a_publisher_that_is_refused_is_told_when_to_try_again() {
    let settings = Settings { messages_max: 10, ..Settings::default() };
    let (mut header, mut records) = (Header::new(1, settings), Memory::default());
    for number in 0..10u8 {
        push(&mut header, &mut records, 1_000, &[number]).unwrap();
    }
    let full = push(&mut header, &mut records, 1_000, b"x").unwrap_err();
    assert_eq!(full, Full { may_fit: true, retry_in_ms: 1_000 }, "nothing has gone yet: nothing is known");
    // Two in ten seconds.
    for now in [6_000, 11_000] {
        let mut queue = Queue::new(&mut header, &mut records, now);
        let given = queue.reserve(&Reservation { count: 1, ..ALL });
        queue.delete_done(given[0].receipt).unwrap();
        push(&mut header, &mut records, now, b"x").unwrap();
    }
    let full = push(&mut header, &mut records, 11_000, b"x").unwrap_err();
    assert_eq!(full.retry_in_ms, 5_000);
    let eleven = [NewMessage::default(); 11];
    let full = Queue::new(&mut header, &mut records, 11_000).publish(&eleven).unwrap_err();
    assert!(!full.may_fit, "there never is room for so many");
    assert_eq!(header.ready(), 10);
}

#[test]
fn a_batch_is_published_whole_or_not_at_all_and_an_id_counts_once() {
    let settings = Settings { messages_max: 2, overflow: Overflow::Reject, ..Settings::default() };
    let (mut header, mut records) = (Header::new(1, settings), Memory::default());
    let one = |id| NewMessage { body: b"x", id: Some(id), ..NewMessage::default() };
    let mut queue = Queue::new(&mut header, &mut records, 1_000);
    let published = queue.publish(&[one(b"a"), one(b"a"), one(b"b")]).unwrap();
    let duplicates: Vec<bool> = published.iter().map(|published| published.is_duplicate).collect();
    assert_eq!((duplicates, published[0].id), (vec![false, true, false], published[1].id));
    assert!(queue.publish(&[one(b"a"), one(b"c")]).is_err());
    assert!(queue.publish(&[one(b"a"), one(b"b")]).is_ok(), "nothing new: there is room for that");
    let given = queue.reserve(&ALL);
    assert_eq!(given.len(), 2);
    for one in given {
        queue.delete_done(one.receipt).unwrap();
    }
    assert!(queue.publish(&[one(b"a")]).unwrap()[0].is_duplicate, "deleted, and still known");
    let later = 1_000 + settings.window_ms;
    let mut queue = Queue::new(&mut header, &mut records, later);
    assert!(!queue.publish(&[one(b"a")]).unwrap()[0].is_duplicate);
    queue.come_due();
    assert!(queue.publish(&[one(b"a")]).unwrap()[0].is_duplicate, "what is forgotten is the former one");
    records.check(&header);
}

#[test]
fn a_dropped_message_is_the_first_of_the_least_urgent() {
    let settings = Settings { messages_max: 3, overflow: Overflow::DropOldest, ..Settings::default() };
    let (mut header, mut records) = (Header::new(1, settings), Memory::default());
    let mut queue = Queue::new(&mut header, &mut records, 1_000);
    for (body, priority) in [(b"a", 1), (b"b", 9), (b"c", 9), (b"d", 5), (b"e", 1)] {
        queue.publish(&[NewMessage { body, priority, ..NewMessage::default() }]).unwrap();
    }
    assert_eq!(bodies(&queue.reserve(&ALL)), [b"a", b"e", b"d"]);
    assert_eq!(header.statistics.totals.dropped, 2);
    let full = push(&mut header, &mut records, 1_000, b"x");
    assert!(full.is_err(), "what is reserved is not dropped");
}

#[test]
fn consumers_and_reasons_are_bounded() {
    let (mut header, mut records) = (Header::new(1, Settings::default()), Memory::default());
    for number in 0..2_000u64 {
        push(&mut header, &mut records, 1_000, b"x").unwrap();
        let name = format!("worker {number} {}", "x".repeat(number as usize));
        let mut queue = Queue::new(&mut header, &mut records, 1_000 + number);
        let given = queue.reserve(&Reservation { consumer: name.as_bytes(), count: 1, ..ALL });
        queue.bury(given[0].receipt, name.as_bytes()).unwrap();
    }
    let statistics = &header.statistics;
    assert_eq!((statistics.consumers().len(), statistics.reasons().len()), (CONSUMERS_MAX, REASONS_MAX + 1));
    assert_eq!(statistics.reasons().map(|(_, count)| count).sum::<u64>(), 2_000);
    assert!(header.encode().len() < 32 << 10, "{}", header.encode().len());
    records.check(&header);
}

#[test]
fn what_is_due_is_done_in_bounded_steps_and_a_reservation_finds_it() {
    let (mut header, mut records) = (Header::new(1, Settings::default()), Memory::default());
    for _ in 0..10_000 {
        push(&mut header, &mut records, 1_000, b"x").unwrap();
    }
    let mut queue = Queue::new(&mut header, &mut records, 2_000);
    assert_eq!(queue.reserve(&ALL).len(), 10_000);
    let mut queue = Queue::new(&mut header, &mut records, 2_000 + 60_000);
    assert_eq!(queue.figures().ready, 10_000);
    assert_eq!(queue.reserve(&Reservation { count: 1, ..ALL }).len(), 1);
    assert!(queue.header().counts.reserved > 9_000, "not all at once");
    assert!(queue.header().may_give(62_000));
    let mut given = 1;
    while queue.header().may_give(62_000) {
        given += queue.reserve(&ALL).len();
    }
    assert_eq!(given, 10_000);
    let next = queue.header().next_due(62_000).unwrap();
    assert!((62_001..=122_000).contains(&next), "not too late, and not at once: {next}");
    records.check(&header);
}

#[test]
fn a_queue_of_the_same_name_does_not_take_receipts_of_the_former_one() {
    let mut given = Vec::new();
    for now in [1_000, 1_001] {
        let (mut header, mut records) = (Header::new(now, Settings::default()), Memory::default());
        push(&mut header, &mut records, now, b"x").unwrap();
        let mut queue = Queue::new(&mut header, &mut records, now);
        for receipt in &given {
            assert_eq!(queue.delete_done(*receipt), Ok(crate::Done::WasGone));
        }
        given.extend(queue.reserve(&ALL).iter().map(|one| one.receipt));
    }
    assert_eq!(given.len(), 2);
}
