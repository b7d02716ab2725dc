//! Commands of very many words, in steps: each does what a command of some of the words does.
//!
//! A step sees no more than these words. Nobody is told of anything before the end, and then once. Where the words are keys, all of
//! them are held before the first step.

use keyspace::{
    Bytes, Failure, Keys,
    changes::{Encoded, Event},
    number,
};
use resp::Reply;

use crate::{
    Context,
    table::{Flags, Replies},
};

use super::{
    FoundCommand, Handler, Wide,
    tasks::{Progress, Window, Work},
};

/// One of them.
#[derive(Debug)]
pub(super) struct WideWork {
    handler: Handler,
    wide: Wide,
    writes: bool,
    /// The place of the first word that a step has a part of, how many words there are, and how far it has come.
    from: usize,
    len: usize,
    at: usize,
    /// Words are looked at before anything is changed.
    checks: bool,
    /// What numbers have come to, or the last reply.
    sum: i64,
    last: Vec<u8>,
    events: Vec<Event>,
    modified: Vec<(usize, Bytes)>,
    /// How many changes there were.
    dirty: u64,
    /// The command for the log.
    record: Encoded,
}

impl WideWork {
    /// A command that fits, by its first words, and how many it has.
    pub(super) fn new(found: FoundCommand, wide: Wide, head: &[&[u8]], len: usize) -> Self {
        let from = (wide.from)(head);
        Self {
            handler: wide.unless_there.unwrap_or(found.command.handler),
            wide,
            writes: found.command.flags.contains(Flags::WRITE),
            from,
            len,
            at: from,
            checks: wide.check.is_some() || wide.unless_there.is_some(),
            sum: 0,
            last: Vec::new(),
            events: Vec::new(),
            modified: Vec::new(),
            dirty: 0,
            record: Encoded::default(),
        }
    }

    /// Does what the command does with these words. What it says to others is kept.
    fn run(&mut self, context: &mut Context<'_>) -> Result<(), Failure> {
        let is_first = self.at == self.from;
        self.last.clear();
        let protocol = context.reply.protocol();
        let reply = Reply::new(&mut self.last, protocol);
        let (db, now) = (context.keys.db, context.keys.now);
        let (hits, misses) = (context.keys.space().hits, context.keys.space().misses);
        let (events, modified) = (context.keys.changes.events.len(), context.keys.changes.modified.len());
        let dirty = context.keys.changes.dirty;
        let keys = Keys::new(context.keys.space, db, now, context.keys.changes);
        let (session, shared) = (&mut *context.session, &mut *context.shared);
        (self.handler)(&mut Context { words: context.words, reply, keys, session, shared })?;
        if self.writes {
            self.note(context);
        }
        self.dirty += std::mem::replace(&mut context.keys.changes.dirty, dirty) - dirty;
        if !is_first && !self.wide.of_keys {
            (context.keys.space().hits, context.keys.space().misses) = (hits, misses);
        }
        for event in context.keys.changes.events.drain(events..) {
            let is_same = |last: &Event| (last.class, last.name) == (event.class, event.name) && last.key == event.key;
            if self.wide.of_keys || !self.events.last().is_some_and(is_same) {
                self.events.push(event);
            }
        }
        for key in context.keys.changes.modified.drain(modified..) {
            if self.modified.last() != Some(&key) {
                self.modified.push(key);
            }
        }
        Ok(())
    }

    /// Adds the words of a step to what the log gets.
    fn note(&mut self, context: &Context<'_>) {
        let is_first = self.at == self.from;
        if is_first {
            self.record.command(self.len);
        }
        let words = context.words.from(if is_first { 0 } else { self.from });
        words.iter().for_each(|word| self.record.word(word));
    }

    /// Whether one of a step's keys is there.
    fn has_any(&self, context: &mut Context<'_>) -> Result<bool, Failure> {
        for key in context.words.from(self.from).iter().step_by(self.wide.group) {
            if context.keys.contains(key)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes the reply of a step into that of the command.
    fn take_reply(&mut self, reply: &mut Reply<'_>) {
        let line = self.last.iter().position(|byte| *byte == b'\n').map_or(self.last.len(), |end| end + 1);
        let (line, rest) = self.last.split_at(line);
        match self.wide.replies {
            Replies::Sum => {
                self.sum += line.get(1..).map(<[u8]>::trim_ascii).and_then(number::parse_integer).unwrap_or(0)
            }
            Replies::Last => {}
            Replies::Joined => {
                if self.at == self.from {
                    reply.array((self.len - self.from) / self.wide.group);
                }
                reply.raw(rest);
            }
        }
    }
}

impl Work for WideWork {
    fn changes(&self) -> bool {
        self.writes
    }

    fn has_changed(&self) -> bool {
        self.writes && !self.checks && self.at > self.from
    }

    fn keys_apart(&self) -> Option<usize> {
        self.wide.of_keys.then_some(self.wide.group)
    }

    fn window(&self, budget: usize) -> Option<Window> {
        let len = (budget / self.wide.group).max(1).saturating_mul(self.wide.group);
        Some(Window { head: self.from, part: self.at..self.len.min(self.at.saturating_add(len)) })
    }

    fn appends(&self) -> bool {
        true
    }

    fn step(&mut self, context: &mut Context<'_>, _: usize) -> Result<Progress, Failure> {
        let part = context.words.len() - self.from;
        if self.checks {
            if let Some(check) = self.wide.check {
                check(context.words.from(self.from))?;
            }
            if self.wide.unless_there.is_some() && self.has_any(context)? {
                context.reply.integer(0);
                return Ok(Progress::Done);
            }
        } else {
            self.run(context)?;
            self.take_reply(&mut context.reply);
        }
        self.at += part;
        if self.at < self.len {
            return Ok(Progress::More);
        }
        if std::mem::take(&mut self.checks) {
            self.at = self.from;
            return Ok(Progress::More);
        }
        match self.wide.replies {
            Replies::Sum => context.reply.integer(self.sum),
            Replies::Last if self.wide.unless_there.is_some() => context.reply.integer(1),
            Replies::Last => context.reply.raw(&self.last),
            Replies::Joined => {}
        }
        if self.writes && self.dirty > 0 {
            context.keys.changes.propagate_encoded(std::mem::take(&mut self.record));
        }
        context.keys.changes.dirty += self.dirty;
        context.keys.changes.events.append(&mut self.events);
        context.keys.changes.modified.append(&mut self.modified);
        Ok(Progress::Done)
    }
}
