use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Push(bool, u8, usize),
    Drop(bool, usize),
    RemoveRange(usize, usize),
    Set(usize, u8, usize),
    Insert(u8, bool, u8),
    RemoveEqual(u8, bool, usize),
}

fn end(tail: bool) -> End {
    if tail { End::Tail } else { End::Head }
}

fn string(byte: u8, len: usize) -> Vec<u8> {
    vec![byte; len + 1]
}

fn step() -> impl Strategy<Value = Step> {
    let byte = 0..4u8;
    let len = prop_oneof![4 => 0..2usize, 1 => 0..60usize];
    prop_oneof![
        6 => (any::<bool>(), byte.clone(), len.clone()).prop_map(|(tail, byte, len)| Step::Push(tail, byte, len)),
        1 => (any::<bool>(), 0..6usize).prop_map(|(tail, count)| Step::Drop(tail, count)),
        1 => (any::<usize>(), 0..30usize).prop_map(|(from, count)| Step::RemoveRange(from, count)),
        2 => (any::<usize>(), byte.clone(), len).prop_map(|(index, byte, len)| Step::Set(index, byte, len)),
        2 => (byte.clone(), any::<bool>(), byte.clone()).prop_map(|(pivot, after, byte)| Step::Insert(pivot, after, byte)),
        1 => (byte, any::<bool>(), 0..8usize).prop_map(|(byte, tail, most)| Step::RemoveEqual(byte, tail, most)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn it_is_a_vector_of_strings(steps in prop::collection::vec(step(), 1..200), by_len in any::<bool>()) {
        let limit = if by_len { NodeLimit { len: 3, size: 8192 } } else { NodeLimit { len: usize::MAX, size: 40 } };
        let mut list = List::new();
        let mut model: Vec<Vec<u8>> = Vec::new();
        for step in steps {
            let len = model.len();
            match step {
                Step::Push(tail, byte, len) => {
                    list.push(end(tail), &string(byte, len), limit);
                    model.insert(if tail { model.len() } else { 0 }, string(byte, len));
                }
                Step::Drop(tail, count) => {
                    let count = count.min(len);
                    list.drop_at(end(tail), count);
                    if tail { model.truncate(len - count) } else { model.drain(..count); }
                }
                Step::RemoveRange(from, count) if len > 0 => {
                    let from = from % len;
                    list.remove_range(from, count);
                    model.drain(from..(from + count).min(len));
                }
                Step::Set(index, byte, size) if len > 0 => {
                    list.set(index % len, &string(byte, size), limit);
                    model[index % len] = string(byte, size);
                }
                Step::Insert(pivot, after, byte) => {
                    let found = model.iter().position(|element| *element == string(pivot, 0));
                    let done = list.insert_beside(&string(pivot, 0), after, &string(byte, 0), limit, 0, usize::MAX);
                    prop_assert_eq!(done, Ok(found.is_some()));
                    if let Some(found) = found {
                        model.insert(found + usize::from(after), string(byte, 0));
                    }
                }
                Step::RemoveEqual(byte, tail, most) => {
                    let wanted = string(byte, 0);
                    let mut places: Vec<usize> = (0..len).filter(|place| model[*place] == wanted).collect();
                    if tail { places.reverse(); }
                    places.truncate(most);
                    // In steps of any size.
                    let (mut removed, mut node) = (0, None);
                    loop {
                        let some = list.remove_equal(&wanted, end(tail), most - removed, limit, node, usize::from(byte) + 1);
                        (removed, node) = (removed + some.0, some.1);
                        if node.is_none() { break; }
                    }
                    prop_assert_eq!(removed, places.len());
                    places.sort_unstable();
                    places.into_iter().rev().for_each(|place| { model.remove(place); });
                }
                _ => {}
            }
            prop_assert_eq!(list.len(), model.len());
            prop_assert!(list.elements_in_order().iter().map(|element| element.as_slice()).eq(model.iter().map(Vec::as_slice)));
            let mut back = Vec::new();
            let skipped = model.len() / 3;
            list.each_back(skipped, |element: &[u8]| {
                back.push(element.to_vec());
                true
            });
            prop_assert!(back.iter().rev().eq(model.iter().take(model.len() - skipped)));
            let mut fit = true;
            list.each_node(|node| {
                fit &= !node.is_empty();
                fit &= node.len() == 1 || node.len() <= limit.len && node.size() <= limit.size;
            });
            prop_assert!(fit);
            for (index, string) in model.iter().enumerate() {
                prop_assert!(list.get(index).as_deref() == Some(string.as_slice()));
            }
            let from = model.len() / 3;
            let mut rest = Vec::new();
            list.each_from(from, |element| {
                rest.push(element.to_vec());
                true
            });
            prop_assert!(rest.iter().eq(model.iter().skip(from)));
            prop_assert!(list.peek(End::Tail).as_deref() == model.last().map(Vec::as_slice));
        }
    }
}
