//! Records in memory, and what must be true of them.

use std::{collections::BTreeMap, ops::Bound};

use crate::{Header, Malformed, Message, Place, Records, State, names};

/// Records in memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory(pub BTreeMap<Vec<u8>, Vec<u8>>);

impl Records for Memory {
    type Bytes = Vec<u8>;

    fn get(&self, name: &[u8]) -> Option<Vec<u8>> {
        self.0.get(name).cloned()
    }

    fn put(&mut self, name: &[u8], value: &[u8]) {
        self.0.insert(name.to_vec(), value.to_vec());
    }

    fn delete(&mut self, name: &[u8]) {
        self.0.remove(name);
    }

    fn scan(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, each: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
        let range = self.0.range::<[u8], _>((from, to));
        let _ = { range }.all(|(name, value)| each(name, value));
    }

    fn fail(&self, reason: Malformed) {
        panic!("{reason}");
    }

    fn has_failed(&self) -> bool {
        false
    }
}

impl Memory {
    fn count(&self, letter: u8) -> u64 {
        self.0.range(vec![letter]..vec![letter + 1]).count() as u64
    }

    /// That header and records say the same.
    pub fn check(&self, header: &Header) {
        assert_eq!(Header::decode(&header.encode()).as_ref(), Ok(header));
        let (mut live, mut dead, mut members, mut reserved, mut fresh) = (0, 0, 0, 0, 0);
        let of = |letter: u8| self.0.range(vec![letter]..vec![letter + 1]);
        for (name, value) in of(names::BODY) {
            let id = names::message(name).unwrap();
            let message = Message::decode(value).unwrap();
            let state = match self.0.get(&names::of_message(names::STATE, id)) {
                Some(bytes) => State::decode(bytes).unwrap(),
                None => State::fresh(&message),
            };
            assert_eq!(state.size, message.size());
            assert_eq!(state.group, message.group.unwrap_or_default());
            fresh += u64::from(state.is_fresh);
            let is_dead = matches!(state.place, Place::Dead { .. });
            *(if is_dead { &mut dead } else { &mut live }) += state.size;
            match state.place {
                Place::Dead { .. } => assert!(self.0.contains_key(&names::of_message(names::DEAD, id))),
                Place::Reserved { until } => {
                    reserved += 1;
                    assert!(self.0.contains_key(&names::at_time(names::RESERVED, until, id)));
                }
                _ if !state.group.is_empty() => {
                    members += 1;
                    assert!(self.0.contains_key(&names::member(&state.group, id)));
                }
                Place::Delayed { due } => assert!(self.0.contains_key(&names::at_time(names::DELAYED, due, id))),
                Place::Ready => {
                    let name = names::ready(state.priority, u8::from(state.is_fresh), id);
                    assert!(self.0.contains_key(&name), "{state:?}");
                }
            }
        }
        let counts = &header.counts;
        assert_eq!((counts.bytes, counts.dead_bytes), (live, dead));
        assert_eq!(counts.reserved, reserved);
        assert_eq!(counts.reserved, self.count(names::RESERVED));
        assert_eq!(counts.delayed, self.count(names::DELAYED));
        assert_eq!(counts.dead, self.count(names::DEAD));
        assert_eq!(header.ready(), self.count(names::READY));
        assert_eq!(members, self.count(names::MEMBER));
        assert_eq!(header.len(), self.count(names::BODY));
        assert_eq!(self.count(names::STATE) + fresh, self.count(names::BODY));
        if header.is_empty() {
            let left: Vec<_> = self.0.keys().filter(|name| ![names::ID, names::FORGET].contains(&name[0])).collect();
            assert!(left.is_empty(), "{left:?}");
        }
    }
}
