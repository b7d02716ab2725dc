//! Groups: messages that are given in order, and none while another one of the group is reserved.
//!
//! The members that are not reserved stand in an order of their own. The first of them, the *head*, stands where messages without a
//! group stand too, among those that are ready or delayed; unless some of the group are reserved, and then none does.

use std::ops::Bound;

use crate::{
    codec::{Malformed, Reader, put_number},
    lanes::RETURNED,
    message::MessageId,
    names,
    records::Records,
    state::State,
};

use super::{Queue, class, lower};

/// A member that stands where it can be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Head {
    id: MessageId,
    member: Member,
}

/// What is known of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Member {
    priority: u32,
    class: u8,
    /// When it may be given.
    due: u64,
}

/// A group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Group {
    /// How many of its messages are reserved.
    reserved: u64,
    head: Option<Head>,
}

impl Member {
    fn encode(self, out: &mut Vec<u8>) {
        put_number(out, u64::from(self.priority));
        out.push(self.class);
        put_number(out, self.due);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { priority: reader.number_32()?, class: reader.byte()?, due: reader.number()? })
    }
}

impl Group {
    fn encode(self) -> Vec<u8> {
        let mut out = Vec::new();
        put_number(&mut out, self.reserved);
        if let Some(head) = self.head {
            put_number(&mut out, head.id.0);
            head.member.encode(&mut out);
        }
        out
    }

    fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader(bytes);
        let mut group = Self { reserved: reader.count()?, head: None };
        if !reader.0.is_empty() {
            group.head = Some(Head { id: MessageId(reader.number()?), member: Member::decode(&mut reader)? });
        }
        reader.end()?;
        Ok(group)
    }
}

impl<R: Records> Queue<'_, R> {
    fn group(&self, name: &[u8]) -> Group {
        let bytes = self.records.get(&names::group(name));
        bytes.and_then(|bytes| self.understood(Group::decode(&bytes))).unwrap_or_default()
    }

    fn put_group(&mut self, name: &[u8], group: Group) {
        if group == Group::default() {
            self.delete(&names::group(name));
        } else {
            self.put(&names::group(name), &group.encode());
        }
    }

    /// The first member that is not reserved.
    fn first_member(&self, name: &[u8]) -> Option<Head> {
        let from = names::members(name);
        let to = names::member(name, MessageId(u64::MAX));
        let (name, value) = self.first(&from, Bound::Included(&to))?;
        let member = self.understood(Member::decode(&mut Reader(&value)))?;
        Some(Head { id: names::message(&name)?, member })
    }

    /// A message is one of its group that is not reserved.
    pub(super) fn join_group(&mut self, id: MessageId, state: &State, due: u64) {
        let mut value = Vec::new();
        Member { priority: state.priority, class: class(state), due }.encode(&mut value);
        self.put(&names::member(&state.group, id), &value);
        self.header.counts.behind += 1;
        let group = self.group(&state.group);
        if group.reserved == 0 && group.head.is_none_or(|head| id < head.id) {
            self.settle_group(&state.group, group);
        }
    }

    /// A message that is not reserved leaves its group.
    pub(super) fn leave_group(&mut self, id: MessageId, name: &[u8]) {
        let mut group = self.group(name);
        self.delete(&names::member(name, id));
        match group.head {
            Some(head) if head.id == id => {
                self.take_head(head);
                group.head = None;
                self.settle_group(name, group);
            }
            _ => {}
        }
        lower(&mut self.header.counts.behind, 1);
    }

    /// The head of a group that is ready, or the one behind it, is reserved.
    pub(super) fn reserve_of_group(&mut self, id: MessageId, name: &[u8]) {
        let mut group = self.group(name);
        self.delete(&names::member(name, id));
        if let Some(head) = group.head.take() {
            self.take_head(head);
        }
        lower(&mut self.header.counts.behind, 1);
        group.reserved += 1;
        self.put_group(name, group);
    }

    /// The member that comes next, if it can be given together with those that have just been reserved.
    pub(super) fn next_of_group(&self, name: &[u8]) -> Option<MessageId> {
        self.first_member(name).filter(|head| head.member.due <= self.now).map(|head| head.id)
    }

    /// A message of a group is not reserved any more.
    pub(super) fn leave_reserved_of_group(&mut self, name: &[u8]) {
        if name.is_empty() {
            return;
        }
        let mut group = self.group(name);
        lower(&mut group.reserved, 1);
        if group.reserved == 0 {
            self.settle_group(name, group);
        } else {
            self.put_group(name, group);
        }
    }

    /// The head of a group has waited for its time.
    pub(super) fn head_is_due(&mut self, id: MessageId, name: &[u8]) {
        let mut group = self.group(name);
        if let Some(head) = &mut group.head
            && head.id == id
        {
            head.member = Member { due: 0, class: RETURNED, ..head.member };
            self.put_group(name, group);
        }
    }

    /// Takes a head from where it stands; it is behind then.
    fn take_head(&mut self, head: Head) {
        if head.member.due > 0 {
            self.leave_delayed(head.id, head.member.due);
        } else {
            self.leave_ready(head.id, head.member.priority, head.member.class);
        }
        self.header.counts.behind += 1;
    }

    /// Has the first member stand where it can be given, if none is reserved.
    fn settle_group(&mut self, name: &[u8], mut group: Group) {
        if let Some(head) = group.head.take() {
            self.take_head(head);
        }
        if group.reserved == 0
            && let Some(mut head) = self.first_member(name)
        {
            lower(&mut self.header.counts.behind, 1);
            if head.member.due > self.now {
                self.enter_delayed(head.id, head.member.due);
            } else {
                head.member.due = 0;
                self.enter_ready(head.id, head.member.priority, head.member.class);
            }
            group.head = Some(head);
        }
        self.put_group(name, group);
    }
}

/// Reads bytes as the record of a group.
pub(crate) fn decode_group(bytes: &[u8]) {
    let _ = Group::decode(bytes);
    let _ = Member::decode(&mut Reader(bytes));
}
