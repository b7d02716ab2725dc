//! The records that a name has, and since when.

use std::net::IpAddr;

use twox_hash::XxHash32;

use crate::{Kind, Name, Record, ServerKey};

/// A record that was seen.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    /// Unique in its section.
    pub id: u64,
    /// Where it stands among the others.
    key: u32,
    pub record: Record,
    /// When it was last in an answer.
    pub seen_ms: u64,
    /// Servers that have taken it.
    pub servers: Vec<ServerKey>,
    /// The address of a service's target that came with it, and when.
    pub address: Option<(IpAddr, u64)>,
}

/// The records of a name in HAProxy's order: by a hash, so that nobody depends on the order of answers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Records(Vec<Item>);

fn key(record: &Record) -> u32 {
    let (bytes, kind) = match record {
        Record::Address(IpAddr::V4(address)) => (address.octets().to_vec(), Kind::A),
        Record::Address(IpAddr::V6(address)) => (address.octets().to_vec(), Kind::Aaaa),
        Record::Service { target, .. } => (target.wire().to_vec(), Kind::Srv),
    };
    XxHash32::oneshot(u32::from(kind.code()), &bytes)
}

/// Whether two records are the same one; a service may change its weight.
fn is_same(left: &Record, right: &Record) -> bool {
    match (left, right) {
        (Record::Service { target, port, .. }, Record::Service { target: other_target, port: other_port, .. }) => {
            target == other_target && port == other_port
        }
        (left, right) => left == right,
    }
}

impl Records {
    pub fn iter(&self) -> impl Iterator<Item = &Item> {
        self.0.iter()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Item> {
        self.0.iter_mut()
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    pub fn find(&self, id: u64) -> Option<&Item> {
        self.0.iter().find(|item| item.id == id)
    }

    pub fn find_mut(&mut self, id: u64) -> Option<&mut Item> {
        self.0.iter_mut().find(|item| item.id == id)
    }

    pub fn remove(&mut self, id: u64) -> Option<Item> {
        let place = self.0.iter().position(|item| item.id == id)?;
        Some(self.0.remove(place))
    }

    /// Notes that a record is there.
    pub fn see(&mut self, record: Record, now_ms: u64, next_id: &mut u64) {
        if let Some(known) = self.0.iter_mut().find(|item| is_same(&item.record, &record)) {
            known.seen_ms = now_ms;
            known.record = record;
            return;
        }
        *next_id += 1;
        let key = key(&record);
        self.insert(Item { id: *next_id, key, record, seen_ms: now_ms, servers: Vec::new(), address: None });
    }

    /// Notes the address of a service's target.
    pub fn see_address(&mut self, owner: &Name, address: IpAddr, now_ms: u64) {
        let is_target = |item: &Item| matches!(&item.record, Record::Service { target, .. } if target == owner);
        let known = self.0.iter_mut().filter(|item| is_target(item));
        let mut free = None;
        for item in known {
            match &mut item.address {
                Some((found, seen_ms)) if *found == address && *seen_ms != now_ms => {
                    *seen_ms = now_ms;
                    return;
                }
                None if free.is_none() => free = Some(item),
                _ => {}
            }
        }
        if let Some(item) = free {
            item.address = Some((address, now_ms));
        }
    }

    /// Puts the first one behind those of the same hash, so that they take turns.
    pub fn rotate(&mut self) {
        if !self.0.is_empty() {
            let first = self.0.remove(0);
            self.insert(first);
        }
    }

    fn insert(&mut self, item: Item) {
        let place = self.0.partition_point(|other| other.key <= item.key);
        self.0.insert(place, item);
    }
}
