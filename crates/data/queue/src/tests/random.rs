//! Random commands at random times.

use proptest::prelude::*;

use super::{
    memory::Memory,
    model::{Model, Push},
};
use crate::{Filter, Header, Look, MessageId, NewMessage, Overflow, Place, Queue, Receipt, Reservation, Settings};

#[derive(Debug, Clone)]
enum Step {
    Wait(u64),
    Push(Push),
    Reserve { count: usize, bytes: u64, timeout_ms: u64 },
    Delete(usize),
    Touch { which: usize, timeout_ms: u64, is_new: bool },
    Release { which: usize, delay_ms: u64, is_counted: bool },
    Bury(usize),
    Remove(u64),
    Redrive { by_reason: bool, count: usize },
    Pause(u64),
    Tidy,
}

fn step(priorities: u32) -> impl Strategy<Value = Step> {
    let push = (
        proptest::option::weighted(0.2, 0..5u8),
        proptest::option::weighted(0.5, 0..3u8),
        0..priorities,
        prop_oneof![3 => Just(0u64), 1 => 1..50u64],
        prop_oneof![3 => Just(0u64), 1 => 1..80u64],
        1..40u64,
    )
        .prop_map(|(id, group, priority, delay_ms, expire_ms, size)| {
            Step::Push(Push { id, group, priority, delay_ms, expire_ms, size })
        });
    prop_oneof![
        3 => (0..30u64).prop_map(Step::Wait),
        8 => push,
        5 => (1..5usize, prop_oneof![Just(u64::MAX), 1..60u64], 1..60u64)
            .prop_map(|(count, bytes, timeout_ms)| Step::Reserve { count, bytes, timeout_ms }),
        4 => (0..8usize).prop_map(Step::Delete),
        2 => (0..8usize, 1..60u64, any::<bool>())
            .prop_map(|(which, timeout_ms, is_new)| Step::Touch { which, timeout_ms, is_new }),
        3 => (0..8usize, prop_oneof![Just(0), 1..40u64], any::<bool>())
            .prop_map(|(which, delay_ms, is_counted)| Step::Release { which, delay_ms, is_counted }),
        1 => (0..8usize).prop_map(Step::Bury),
        1 => (0..20u64).prop_map(Step::Remove),
        1 => (any::<bool>(), 1..4usize).prop_map(|(by_reason, count)| Step::Redrive { by_reason, count }),
        1 => (0..40u64).prop_map(Step::Pause),
        1 => Just(Step::Tidy),
    ]
}

fn settings() -> impl Strategy<Value = Settings> {
    (
        prop_oneof![Just(0), 1..8u64],
        prop_oneof![Just(0), 20..100u64],
        prop_oneof![Just(Overflow::Reject), Just(Overflow::DropOldest)],
        0..4u64,
        0..3u32,
    )
        .prop_map(|(messages_max, bytes_max, overflow, dead_max, attempts_max)| Settings {
            messages_max,
            bytes_max,
            overflow,
            dead_max,
            attempts_max,
            window_ms: 60,
            ..Settings::default()
        })
}

/// A group, an id and a body of so many bytes together.
fn texts(push: Push) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
    let group = push.group.map(|group| vec![b'g', group]).unwrap_or_default();
    let id = push.id.map(|id| vec![b'i', id]).unwrap_or_default();
    let body = vec![b'x'; (push.size as usize).saturating_sub(group.len() + id.len())];
    (group, id, body)
}

fn run(settings: Settings, steps: &[Step]) {
    let start = 1_000;
    let mut header = Header::new(start, settings);
    let mut records = Memory::default();
    let mut model = Model {
        messages: Vec::new(),
        settings,
        next: header.next,
        ids: Default::default(),
        paused_until: 0,
        now: start,
    };
    let mut receipts: Vec<Receipt> = Vec::new();
    let first = header.next;
    for step in steps {
        let mut queue = Queue::new(&mut header, &mut records, model.now);
        // One of the last receipts.
        let receipt = |which: usize| receipts.iter().rev().nth(which).copied();
        match step.clone() {
            Step::Wait(ms) => model.now += ms,
            Step::Push(mut push) => {
                let (group, id, body) = texts(push);
                push.size = (group.len() + id.len() + body.len()) as u64;
                let message = NewMessage {
                    body: &body,
                    id: push.id.map(|_| &id[..]),
                    group: push.group.map(|_| &group[..]),
                    priority: push.priority,
                    delay_ms: Some(push.delay_ms),
                    expire_ms: Some(push.expire_ms),
                    ..NewMessage::default()
                };
                let published = queue.publish(&[message]).ok().map(|published| published[0].id.0);
                assert_eq!(published, model.push(push));
            }
            Step::Reserve { count, bytes, timeout_ms } => {
                let consumer: &[u8] = if count % 2 == 0 { b"even" } else { b"" };
                let given = queue.reserve(&Reservation { count, bytes, timeout_ms: Some(timeout_ms), consumer });
                let expected = model.reserve(count, bytes, timeout_ms);
                let found: Vec<_> = given.iter().map(|one| (one.receipt.id.0, one.receipt.number)).collect();
                assert_eq!(found, expected);
                receipts.extend(given.iter().map(|one| one.receipt));
            }
            Step::Delete(which) => {
                if let Some(receipt) = receipt(which) {
                    assert_eq!(queue.delete_done(receipt), model.delete(receipt));
                }
            }
            Step::Touch { which, timeout_ms, is_new } => {
                if let Some(receipt) = receipt(which) {
                    let touched = queue.touch(receipt, Some(timeout_ms), is_new);
                    assert_eq!(touched, model.touch(receipt, timeout_ms, is_new));
                    receipts.extend(touched);
                }
            }
            Step::Release { which, delay_ms, is_counted } => {
                if let Some(receipt) = receipt(which) {
                    let released = queue.release(receipt, delay_ms, b"released", is_counted);
                    assert_eq!(released, model.release(receipt, delay_ms, is_counted));
                }
            }
            Step::Bury(which) => {
                if let Some(receipt) = receipt(which) {
                    assert_eq!(queue.bury(receipt, b"buried"), model.bury(receipt));
                }
            }
            Step::Remove(number) => assert_eq!(queue.remove(MessageId(first + number)), model.remove(first + number)),
            Step::Redrive { by_reason, count } => {
                let reason = by_reason.then_some(&b"buried"[..]);
                let redriven = queue.redrive(&Filter { reason, from: MessageId(0), count });
                assert_eq!(redriven, model.redrive(reason, count));
            }
            Step::Pause(ms) => {
                queue.pause(model.now + ms);
                model.paused_until = model.now + ms;
            }
            Step::Tidy => {
                queue.come_due();
                model.come_due();
            }
        }
        records.check(&header);
        compare(&header, &records, &model);
    }
}

/// What is due is done in bounded steps, whenever there is occasion: so both are compared as they are once it is done.
fn compare(header: &Header, records: &Memory, model: &Model) {
    let (mut header, mut records, mut model) = (header.clone(), records.clone(), model.clone());
    let queue = Queue::new(&mut header, &mut records, model.now);
    let (figures, next) = (queue.figures(), queue.header().next_due(model.now));
    assert!(!queue.has_changed());
    let waits = model.messages.iter().any(|one| matches!(one.place, Place::Reserved { .. }));
    assert!(next.is_some() || !waits);
    // Nothing dies or expires, and nothing is behind.
    let is_plain =
        model.messages.iter().all(|one| one.group.is_none() && one.expires == 0) && model.settings.attempts_max == 0;
    let mut queue = queue;
    queue.come_due();
    model.come_due();
    for look in [Look::Ready, Look::Delayed, Look::Reserved, Look::Dead, Look::All] {
        let ids: Vec<u64> = queue.ids_of(look, None, usize::MAX).iter().map(|id| id.0).collect();
        assert_eq!(ids, model.ids_of(look), "{look:?}");
    }
    if is_plain {
        assert_eq!(figures.ready as usize, model.ids_of(Look::Ready).len());
        assert_eq!(figures.reserved as usize, model.ids_of(Look::Reserved).len());
    }
    records.check(&header);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn the_machine_does_what_the_model_does(
        settings in settings(),
        steps in proptest::collection::vec(step(3), 1..120),
    ) {
        run(settings, &steps);
    }

    #[test]
    fn many_priorities_are_given_in_order_too(
        settings in settings(),
        steps in proptest::collection::vec(step(u32::MAX), 150..250),
    ) {
        run(Settings { messages_max: 0, bytes_max: 0, ..settings }, &steps);
    }

    #[test]
    fn nothing_that_is_read_is_trusted(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        crate::decode_anything(&bytes);
    }
}
