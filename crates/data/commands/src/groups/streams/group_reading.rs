//! The way of XREADGROUP: of each stream, either what nobody of the group was given yet, or what the consumer was given before.

use keyspace::{
    Bytes, Failure,
    changes::EventClass,
    value::{
        Stream,
        stream::{Id, Pending},
    },
};
use resp::Deferred;

use crate::{
    Context,
    server::{Progress, Work},
};

use super::{
    claims::Claims,
    create_consumer_words, has_entries_behind,
    read::{finish, key_header},
    set_id_words, write_id,
};

/// As far as it has come.
#[derive(Debug)]
pub(super) struct GroupReading {
    /// The places of the streams that have something; what the consumer was given is asked for from behind an id on.
    pub(super) served: Vec<(usize, Option<Id>)>,
    /// Which of them it has come to, and how many of them are in the reply.
    pub(super) at: usize,
    pub(super) named: usize,
    /// How many entries are given of each.
    pub(super) at_most: usize,
    pub(super) group: Bytes,
    pub(super) consumer: Bytes,
    /// Entries are not to be acknowledged.
    pub(super) no_ack: bool,
    /// How many entries of this stream have been given.
    pub(super) given: usize,
    pub(super) header: Option<Deferred>,
    pub(super) entries: Option<Deferred>,
    pub(super) log: Claims,
}

impl Work for GroupReading {
    fn changes(&self) -> bool {
        true
    }

    fn step(&mut self, context: &mut Context<'_>, budget: usize) -> Result<Progress, Failure> {
        let header = *self.header.get_or_insert_with(|| context.reply.defer());
        if let Some((place, id)) = self.served.get(self.at).copied() {
            let key = context.words.at(place);
            if self.entries.is_none() && id.is_none() && !self.has_new(context, key)? {
                // The same stream stood before, and all of it was given then.
                self.at += 1;
                return self.end_step(context, header);
            }
            let entries = match self.entries {
                Some(entries) => entries,
                None => {
                    key_header(&mut context.reply, key);
                    self.see_consumer(context, key)?;
                    context.reply.defer()
                }
            };
            self.entries = Some(entries);
            let is_over = match id {
                Some(id) => self.give_history(context, key, id, budget)?,
                None => self.give_new(context, key, budget)?,
            };
            if is_over {
                context.reply.finish_array(entries, self.given);
                context.keys.changes.dirty += 1;
                (self.entries, self.given) = (None, 0);
                self.at += 1;
                self.named += 1;
            }
        }
        self.end_step(context, header)
    }
}

impl GroupReading {
    fn end_step(&mut self, context: &mut Context<'_>, header: Deferred) -> Result<Progress, Failure> {
        if self.at < self.served.len() {
            return Ok(Progress::More);
        }
        finish(&mut context.reply, header, self.named);
        self.log.propagate(context.keys.changes);
        Ok(Progress::Done)
    }

    /// Whether a stream has something that nobody of the group was given yet.
    fn has_new(&self, context: &mut Context<'_>, key: &[u8]) -> Result<bool, Failure> {
        let Some(stream) = context.keys.look::<Stream>(key)? else { return Ok(true) };
        let last = stream.groups.get(self.group.as_slice()).map(|group| group.last);
        Ok(last.is_none_or(|last| has_entries_behind(stream, last)))
    }

    /// Notes that the consumer is there, and adds it if it is new.
    fn see_consumer(&mut self, context: &mut Context<'_>, key: &[u8]) -> Result<(), Failure> {
        let now = context.now();
        let Some(stream) = context.keys.get_mut::<Stream>(key)? else { return Ok(()) };
        let Some(group) = stream.groups.get_mut(self.group.as_slice()) else { return Ok(()) };
        if let Some(number) = group.number_of(&self.consumer) {
            if let Some(consumer) = group.consumer_mut(number) {
                consumer.seen = now;
            }
            return Ok(());
        }
        group.add_consumer(&self.consumer, now);
        stream.changes();
        self.log.push(create_consumer_words(key, &self.group, &self.consumer));
        context.keys.changes.dirty += 1;
        context.keys.notify(EventClass::STREAM, "xgroup-createconsumer", key);
        Ok(())
    }

    /// What the consumer was given before, from behind an id on. Returns whether that was all.
    fn give_history(
        &mut self,
        context: &mut Context<'_>,
        key: &[u8],
        behind: Id,
        budget: usize,
    ) -> Result<bool, Failure> {
        let now = context.now();
        let count = budget.min(self.at_most - self.given);
        let Some(stream) = context.keys.get_mut::<Stream>(key)? else { return Ok(true) };
        let found = stream.groups.get(self.group.as_slice());
        let Some((group, number)) = found.and_then(|group| Some((group, group.number_of(&self.consumer)?))) else {
            return Ok(true);
        };
        let from = behind.next().unwrap_or(Id::MAX);
        let mut ids = Vec::new();
        group.each_pending(from..=Id::MAX, Some(number), |id, _| {
            ids.push(id);
            ids.len() < count
        });
        self.given += ids.len();
        if let (Some(last), Some(served)) = (ids.last(), self.served.get_mut(self.at)) {
            served.1 = Some(*last);
        }
        let is_over = ids.len() < count || self.given == self.at_most;
        for id in ids {
            let reply = &mut context.reply;
            let present = stream.get(id, |entry| entry.reply(reply)).is_some();
            if !present {
                context.reply.array(2);
                write_id(&mut context.reply, id);
                context.reply.null_array();
            }
            if stream.has_failed() {
                return Ok(true);
            }
            stream.changes();
            if let Some(group) = stream.groups.get_mut(self.group.as_slice()).filter(|_| present) {
                group.give_again(id, now);
                // How often it was given is known after a replay too; Redis does not propagate that.
                if let Some(pending) = group.pending(id) {
                    self.log.claim(key, &self.group, group, id, &pending);
                }
            }
        }
        Ok(is_over)
    }

    /// What nobody of the group was given yet. Returns whether that was all.
    fn give_new(&mut self, context: &mut Context<'_>, key: &[u8], budget: usize) -> Result<bool, Failure> {
        let now = context.now();
        let count = budget.min(self.at_most - self.given);
        let mut ids = Vec::new();
        let Some(stream) = context.keys.get_mut::<Stream>(key)? else { return Ok(true) };
        let Some(last) = stream.groups.get(self.group.as_slice()).map(|group| group.last) else { return Ok(true) };
        if let Some(from) = last.next() {
            let reply = &mut context.reply;
            stream.each(from..=Id::MAX, false, |entry| {
                entry.reply(reply);
                ids.push(entry.id);
                ids.len() < count
            });
        }
        if stream.has_failed() {
            return Ok(true);
        }
        stream.changes();
        self.given += ids.len();
        let is_over = ids.len() < count || self.given == self.at_most;
        for id in &ids {
            stream.advance(&self.group, *id);
            let Some(group) = stream.groups.get_mut(self.group.as_slice()) else { break };
            let Some(number) = group.number_of(&self.consumer).filter(|_| !self.no_ack) else { continue };
            let pending = Pending { delivered: now, count: 1, consumer: number };
            group.give(*id, pending);
            self.log.claim(key, &self.group, group, *id, &pending);
        }
        // XCLAIM's LASTID says how far the group is, but not how many entries it has read.
        if is_over
            && self.given > 0
            && let Some(group) = stream.groups.get(self.group.as_slice())
        {
            self.log.push(set_id_words(key, &self.group, group));
        }
        Ok(is_over)
    }
}
