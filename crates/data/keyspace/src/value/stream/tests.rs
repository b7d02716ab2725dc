use std::collections::BTreeMap;

use super::*;
use crate::random::Random;

type Model = BTreeMap<Id, Vec<String>>;

fn content(entry: &Entry<'_>) -> (Id, Vec<String>) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("it is text");
    (entry.id, entry.pairs().flat_map(|(field, value)| [text(field), text(value)]).collect())
}

fn check(stream: &Stream, model: &Model, from: Id, to: Id) {
    let expected: Vec<_> = model.range(from..=to).map(|(id, words)| (*id, words.clone())).collect();
    let all = |backwards| {
        let mut all = Vec::new();
        stream.each(from..=to, backwards, |entry| {
            all.push(content(entry));
            true
        });
        all
    };
    assert_eq!(all(false), expected);
    let mut down = all(true);
    down.reverse();
    assert_eq!(down, expected);
}

/// Random steps on a stream and on a sorted map.
#[test]
fn it_does_what_a_sorted_map_does() {
    for limits in [NodeLimits { bytes: 4096, entries: 100 }, NodeLimits { bytes: 200, entries: 0 }] {
        let mut random = Random::new(3);
        let (mut stream, mut model) = (Stream::default(), Model::new());
        let mut last = Id::MIN;
        for step in 0..6000 {
            match random.below(20) {
                0..=13 => {
                    last = match random.below(3) {
                        0 => Id::new(last.ms, last.sequence + 1 + random.below(300)),
                        1 => Id::new(last.ms + 1 + random.below(1 << 40), random.below(3)),
                        _ => Id::new(last.ms + 1, 0),
                    };
                    let fields = 1 + random.below(2) as usize;
                    let words: Vec<String> = (0..fields * 2)
                        .map(|index| format!("{index}{}", "x".repeat(random.below(9) as usize)))
                        .collect();
                    let words = if random.below(2) == 0 { vec!["f".into(), step.to_string()] } else { words };
                    stream.append(last, &words, limits);
                    model.insert(last, words);
                }
                14..=18 => {
                    let place = random.below(model.len().max(1) as u64) as usize;
                    if let Some(id) = model.keys().nth(place).copied() {
                        assert!(stream.remove(id));
                        assert!(!stream.remove(id));
                        model.remove(&id);
                    }
                }
                _ => {
                    let len = model.len() as u64 - random.below(model.len().min(4) as u64 + 1);
                    let removed = stream.trim(Bound::Len(len), None);
                    assert_eq!(removed, model.len() as u64 - len);
                    (0..removed).for_each(|_| drop(model.pop_first()));
                }
            }
            assert_eq!(stream.len(), model.len() as u64);
            assert_eq!(stream.first_id, model.keys().next().copied().unwrap_or(Id::MIN));
            assert_eq!(stream.last_present(), model.keys().next_back().copied());
            if step % 200 == 0 {
                let mut pick = || model.keys().nth(random.below(model.len().max(1) as u64) as usize).copied();
                let (from, to) = (pick().unwrap_or(Id::MIN), pick().unwrap_or(Id::MAX));
                check(&stream, &model, from.min(to), from.max(to));
                check(&stream, &model, Id::MIN, Id::MAX);
            }
        }
        let bound = *model.keys().nth(model.len() / 2).expect("it is not empty");
        stream.trim(Bound::From(bound), None);
        model.retain(|id, _| *id >= bound);
        check(&stream, &model, Id::MIN, Id::MAX);
    }
}

#[test]
fn what_is_trimmed_about_is_whole_nodes() {
    let limits = NodeLimits { bytes: 0, entries: 10 };
    let mut stream = Stream::default();
    (1..=95).for_each(|ms| stream.append(Id::new(ms, 0), &["field", "value"], limits));
    assert_eq!(stream.nodes_len(), 10);
    assert_eq!(stream.trim(Bound::Len(51), Some(0)), 40);
    assert_eq!(stream.trim(Bound::Len(51), Some(0)), 0);
    assert_eq!(stream.trim(Bound::From(Id::new(65, 0)), Some(15)), 10);
    assert_eq!((stream.len(), stream.first_id), (45, Id::new(51, 0)));
    assert_eq!(stream.trim(Bound::Len(0), Some(0)), 45);
    assert_eq!((stream.len(), stream.first_id), (0, Id::MIN));
}

#[test]
fn ids_are_read_as_redis_reads_them() {
    for (text, expected) in [
        ("1-2", Some((1, 2))),
        ("1", Some((1, 9))),
        ("18446744073709551615-18446744073709551615", Some((u64::MAX, u64::MAX))),
        ("18446744073709551616", None),
        ("007-01", Some((7, 1))),
        ("1-", None),
        ("-1", None),
        ("1--1", None),
        ("1-2-3", None),
        ("x", None),
        ("", None),
    ] {
        assert_eq!(Id::parse(text.as_bytes(), 9), expected.map(|(ms, sequence)| Id::new(ms, sequence)), "{text}");
    }
}

/// What is read of a node's record is the node, and of any other bytes nothing, or something that can be gone through.
#[test]
fn nodes_become_records_and_records_nodes() {
    let mut random = Random::new(9);
    for round in 0..40u64 {
        let first = Id::new(round << random.below(40), random.below(3));
        let mut node = Node::new(first, &["field", "value"]);
        let mut last = first;
        for number in 0..random.below(30) {
            last = if random.below(2) == 0 {
                Id::new(last.ms + 1 + number, 0)
            } else {
                Id::new(last.ms, last.sequence + 1)
            };
            if random.below(3) == 0 {
                node.push(first, last, &["other", "x", "", ""]);
            } else {
                node.push(first, last, &["field", &"y".repeat(random.below(200) as usize)]);
            }
            if random.below(5) == 0 && node.live() > 1 {
                node.remove(first, last);
            }
        }
        let mut record = Vec::new();
        node.encode(&mut record);
        assert_eq!(Node::decode(first, &record).as_ref(), Some(&node));
        for _ in 0..100 {
            let mut broken = record.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(broken.len() as u64) as usize;
                match random.below(3) {
                    0 => broken.truncate(at + 1),
                    1 => broken[at] = random.draw() as u8,
                    _ => broken[at] ^= 1 << random.below(8),
                }
            }
            if let Some(node) = Node::decode(first, &broken) {
                let bytes: usize =
                    node.entries(first).flat_map(|entry| entry.pairs().map(|(one, two)| one.len() + two.len())).sum();
                assert!(bytes <= 100 * record.len());
            }
        }
    }
}
