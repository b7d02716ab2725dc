//! Where the ready messages of each priority begin. What was removed leaves marks in the tables for a while, and looking for the next
//! message must not begin before all of them.

use std::collections::BTreeMap;

use crate::{
    MessageId,
    codec::{Malformed, Reader, put_number},
    limits::LANES_MAX,
};

/// Messages that have come back, or were delayed, are given before those that never were.
pub const RETURNED: u8 = 0;
/// Messages that have been ready since they came.
pub const FRESH: u8 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lane {
    /// How many messages it has.
    pub count: u64,
    /// None of them is before this one.
    pub from: u64,
}

/// The ready messages, by priority and class.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lanes {
    lanes: BTreeMap<(u32, u8), Lane>,
    /// Ready messages for whose lanes there was no room here. As long as there are any, no lane is begun.
    unlaned: u64,
}

/// Where to look for the next message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First {
    /// There is none.
    Nothing,
    /// In this lane, from this message on.
    In(u32, u8, MessageId),
    /// Anywhere.
    Anywhere,
}

impl Lanes {
    /// How many messages are ready.
    pub fn total(&self) -> u64 {
        self.unlaned + self.lanes.values().map(|lane| lane.count).sum::<u64>()
    }

    pub fn add(&mut self, priority: u32, class: u8, id: MessageId) {
        let has_room = self.unlaned == 0 && self.lanes.len() < LANES_MAX;
        match self.lanes.get_mut(&(priority, class)) {
            Some(lane) => {
                lane.count += 1;
                lane.from = lane.from.min(id.0);
            }
            None if has_room => {
                self.lanes.insert((priority, class), Lane { count: 1, from: id.0 });
            }
            None => self.unlaned += 1,
        }
    }

    pub fn remove(&mut self, priority: u32, class: u8, id: MessageId) {
        let Some(lane) = self.lanes.get_mut(&(priority, class)) else {
            self.unlaned = self.unlaned.saturating_sub(1);
            return;
        };
        lane.count = lane.count.saturating_sub(1);
        if lane.from == id.0 {
            lane.from = id.0.saturating_add(1);
        }
        if lane.count == 0 {
            self.lanes.remove(&(priority, class));
        }
    }

    /// Nothing of a lane is before this message.
    pub fn pass(&mut self, priority: u32, class: u8, id: MessageId) {
        if let Some(lane) = self.lanes.get_mut(&(priority, class)) {
            lane.from = lane.from.max(id.0);
        }
    }

    /// The most urgent one.
    pub fn first(&self) -> First {
        match self.lanes.first_key_value() {
            _ if self.unlaned > 0 => First::Anywhere,
            Some(((priority, class), lane)) => First::In(*priority, *class, MessageId(lane.from)),
            None => First::Nothing,
        }
    }

    /// Where each lane begins.
    pub fn each(&self) -> impl DoubleEndedIterator<Item = (u32, u8, Lane)> {
        self.lanes.iter().map(|((priority, class), lane)| (*priority, *class, *lane))
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        put_number(out, self.unlaned);
        put_number(out, self.lanes.len() as u64);
        for ((priority, class), lane) in &self.lanes {
            put_number(out, u64::from(*priority) << 1 | u64::from(*class));
            put_number(out, lane.count);
            put_number(out, lane.from);
        }
    }

    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut lanes = Self { unlaned: reader.count()?, lanes: BTreeMap::new() };
        let count = reader.number()?;
        if count > LANES_MAX as u64 {
            return Err(Malformed("there are too many priorities"));
        }
        for _ in 0..count {
            let name = reader.number()?;
            let priority = u32::try_from(name >> 1).map_err(|_| Malformed("a priority"))?;
            let lane = Lane { count: reader.count()?, from: reader.number()? };
            lanes.lanes.insert((priority, (name & 1) as u8), lane);
        }
        Ok(lanes)
    }
}
