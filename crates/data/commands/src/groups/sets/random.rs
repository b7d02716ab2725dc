//! Members chosen at random.

use std::collections::{HashSet, VecDeque};

use keyspace::{
    Bytes, Failure,
    changes::{Encoded, EventClass},
    random::Random,
    value::Set,
};
use resp::Reply;

use crate::{
    Context,
    arguments::{Draws, positive},
    groups::draws,
    sample::{self, Chooser},
    server::{Progress, Work},
};

/// So many different members.
fn choose(set: &Set, count: usize, random: &mut Random) -> Vec<Bytes> {
    if !matches!(set, Set::Large(..) | Set::Spread(_)) || !sample::draws_are_cheaper(count, set.len()) {
        return sample::choose(set.members(), count, random);
    }
    let mut seen = HashSet::with_capacity(count);
    let mut chosen = Vec::with_capacity(count);
    while chosen.len() < count {
        let Some(member) = set.random(random) else { break };
        if seen.insert(member.clone()) {
            chosen.push(member);
        }
    }
    chosen
}

pub(super) fn srandmember(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    let key = words.at(1);
    let random = &mut context.shared.random;
    if words.len() == 2 {
        match context.keys.get::<Set>(key)?.and_then(|set| set.random(random)) {
            Some(member) => context.reply.bulk(&member),
            None => context.reply.null(),
        }
        return Ok(());
    }
    if words.len() > 3 {
        return Err(Failure::Syntax);
    }
    let draws = Draws::parse(words.at(2))?;
    let most = context.shared.reply_max(context.session);
    let Some(len) = context.keys.get::<Set>(key)?.map(Set::len) else {
        context.reply.array(0);
        return Ok(());
    };
    if draws::take_steps(context, draws, len) {
        let draw = |set: &Set, random: &mut Random, reply: &mut Reply<'_>| {
            if let Some(member) = set.random(random) {
                reply.bulk(&member);
            }
        };
        let scan = |set: &Set, cursor, count, reply: &mut Reply<'_>, takes: &mut dyn FnMut() -> bool| {
            set.scan_once(cursor, count, |member| {
                if takes() {
                    member.reply(reply);
                }
            })
        };
        return draws::give(context, draws, len, |reply, count| reply.array(count), draw, scan);
    }
    let random = &mut context.shared.random;
    let Some(set) = context.keys.found::<Set>(key) else { return Ok(()) };
    match draws {
        Draws::Any(count) => {
            context.reply.array(count);
            for _ in 0..count {
                if let Some(member) = set.random(random) {
                    context.reply.bulk(&member);
                }
                if Context::closes_for(&context.reply, most, context.session) {
                    break;
                }
            }
        }
        Draws::Distinct(count) => {
            let chosen = choose(set, count, random);
            context.reply.array(chosen.len());
            chosen.iter().for_each(|member| context.reply.bulk(member));
        }
    }
    Ok(())
}

pub(super) fn spop(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    let key = words.at(1);
    match words.len() {
        2 => pop_one(context, key),
        3 => {
            let count = positive(words.at(2), None)?;
            pop_some(context, key, count)
        }
        _ => Err(Failure::Syntax),
    }
}

fn pop_one(context: &mut Context<'_>, key: &[u8]) -> Result<(), Failure> {
    let random = &mut context.shared.random;
    let Some(set) = context.keys.get_mut::<Set>(key)? else {
        context.reply.null();
        return Ok(());
    };
    let Some(member) = set.random(random) else {
        context.reply.null();
        return Ok(());
    };
    set.remove(&member);
    let empty = set.is_empty();
    context.reply.bulk(&member);
    context.keys.notify(EventClass::SET, "spop", key);
    if empty {
        context.keys.remove_if(key, Set::is_empty)?;
    }
    context.keys.modified(key);
    propagate_removal(context, key, vec![member]);
    Ok(())
}

fn pop_some(context: &mut Context<'_>, key: &[u8], count: usize) -> Result<(), Failure> {
    let Some(len) = context.keys.look::<Set>(key)?.map(Set::len).filter(|_| count > 0) else {
        context.reply.set(0);
        return Ok(());
    };
    if context.session.takes_steps(count.min(len), context.shared) {
        return context.work_on(count.min(len), Popping::new(count, len));
    }
    if count >= len {
        if let Some(set) = context.keys.look::<Set>(key)? {
            context.reply.set(len);
            set.each(|member| member.reply(&mut context.reply));
        }
        context.keys.notify(EventClass::SET, "spop", key);
        context.keys.remove(key)?;
        context.keys.notify(EventClass::GENERIC, "del", key);
        context.keys.modified_by(key, len);
        let words = vec![Bytes::from_slice(b"DEL"), Bytes::from_slice(key)];
        context.keys.changes.propagate_instead(vec![words]);
        return Ok(());
    }
    let random = &mut context.shared.random;
    let Some(set) = context.keys.get_mut::<Set>(key)? else { return Ok(()) };
    let members: Vec<Bytes> = choose(set, count, random);
    context.reply.set(members.len());
    for member in &members {
        set.remove(member);
        context.reply.bulk(member);
    }
    context.keys.notify(EventClass::SET, "spop", key);
    context.keys.modified_by(key, members.len());
    propagate_removal(context, key, members);
    Ok(())
}

/// SPOP of many members: chosen in the order of the set, each as likely as any other, then removed.
#[derive(Debug)]
struct Popping {
    chooser: Chooser,
    cursor: u64,
    phase: Phase,
    chosen: VecDeque<Bytes>,
    removed: usize,
    /// The whole set goes: its key is removed, and no member by itself.
    takes_all: bool,
    /// What is propagated names the members.
    removal: Encoded,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Choose,
    Remove,
}

impl Popping {
    fn new(count: usize, len: usize) -> Self {
        Self {
            chooser: Chooser::new(count, len),
            cursor: 0,
            phase: Phase::Choose,
            chosen: VecDeque::new(),
            removed: 0,
            takes_all: count >= len,
            removal: Encoded::default(),
        }
    }

    /// Chooses, and answers with what is chosen. Returns whether that was all.
    fn choose(&mut self, context: &mut Context<'_>, budget: usize) -> Result<bool, Failure> {
        if self.cursor == 0 {
            context.reply.set(self.chooser.wanted());
        }
        let (random, reply) = (&mut context.shared.random, &mut context.reply);
        let Some(set) = context.keys.look::<Set>(context.words.at(1))? else { return Ok(true) };
        self.cursor = set.scan_once(self.cursor, budget, |member| {
            if self.chooser.takes(random) {
                member.reply(reply);
                if !self.takes_all {
                    self.chosen.push_back(member.bytes());
                }
            }
        });
        Ok(self.cursor == 0)
    }
}

impl Work for Popping {
    fn changes(&self) -> bool {
        true
    }

    fn has_changed(&self) -> bool {
        self.removed > 0
    }

    fn step(&mut self, context: &mut Context<'_>, budget: usize) -> Result<Progress, Failure> {
        let key = context.words.at(1);
        if self.phase == Phase::Choose {
            if self.choose(context, budget)? {
                self.phase = Phase::Remove;
                self.removal.command(2 + self.chosen.len());
                self.removal.word(b"SREM");
                self.removal.word(key);
            }
            return Ok(Progress::More);
        }
        if self.takes_all {
            context.keys.notify(EventClass::SET, "spop", key);
            let len = context.keys.look::<Set>(key)?.map_or(0, Set::len);
            context.keys.remove(key)?;
            context.keys.notify(EventClass::GENERIC, "del", key);
            context.keys.modified_by(key, len);
            let words = vec![Bytes::from_slice(b"DEL"), Bytes::from_slice(key)];
            context.keys.changes.propagate_instead(vec![words]);
            return Ok(Progress::Done);
        }
        if let Some(set) = context.keys.get_mut::<Set>(key)? {
            for member in self.chosen.drain(..budget.min(self.chosen.len())) {
                set.remove(&member);
                self.removal.word(&member);
                self.removed += 1;
            }
        }
        if !self.chosen.is_empty() {
            return Ok(Progress::More);
        }
        context.keys.notify(EventClass::SET, "spop", key);
        context.keys.modified_by(key, self.removed);
        context.keys.changes.propagate_encoded(std::mem::take(&mut self.removal));
        Ok(Progress::Done)
    }
}

/// What is propagated names the members.
fn propagate_removal(context: &mut Context<'_>, key: &[u8], members: Vec<Bytes>) {
    let mut words = vec![Bytes::from_slice(b"SREM"), Bytes::from_slice(key)];
    words.extend(members);
    context.keys.changes.propagate_instead(vec![words]);
}
