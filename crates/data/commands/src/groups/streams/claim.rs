//! Pending entries that go from one consumer to another.

use keyspace::{
    Failure, Millis,
    changes::EventClass,
    number,
    value::{
        Stream,
        stream::{ConsumerNumber, Id, Pending},
    },
};
use resp::{Protocol, Reply};

use crate::{
    Context,
    server::{Command, Progress, Window, Work},
    table::{Access, Categories, ElementWords, Flags, KeySpec},
};

use super::{
    GROUP, claims::Claims, create_consumer_words, interval_start, no_group, set_id_words, strict_id, write_id,
};

/// Commands that claim.
pub const COMMANDS: &[Command] = &[
    Command::new("XCLAIM", -6, xclaim)
        .elements(ElementWords::Entries { first: 5, are_read: true, are_pending: true })
        .flags(Flags::WRITE.union(Flags::FAST))
        .keys(&[KeySpec::one(1, Access::RW.union(Access::UPDATE))])
        .group(GROUP, Categories::STREAM)
        .docs("5.0.0", "O(log(N)), N: pending entries", "Gives pending entries to another consumer.").syntax("key#0 group consumer min-idle-time id... [IDLE/ms:integer] [TIME/unix-time-milliseconds:unix-time] [RETRYCOUNT/count:integer] [FORCE] [JUSTID] [LASTID/id]"),
    Command::new("XAUTOCLAIM", -6, xautoclaim)
        .flags(Flags::WRITE.union(Flags::FAST))
        .keys(&[KeySpec::one(1, Access::RW.union(Access::DELETE))])
        .group(GROUP, Categories::STREAM)
        .docs("6.2.0", "O(1) for a small COUNT", "Gives entries that have been pending for long to another consumer.").syntax("key#0 group consumer min-idle-time start [COUNT/count:integer] [JUSTID]"),
];

/// The place of the first id among the words of XCLAIM.
const FIRST_ID: usize = 5;

/// How entries are claimed.
#[derive(Debug, Clone, Copy, Default)]
struct Terms {
    /// Only those that were not given for so long.
    idle_at_least: Millis,
    /// The time of delivery that they get.
    delivered: Option<Millis>,
    /// The number of deliveries that they get.
    count: Option<u64>,
    /// Entries that are not pending too.
    force: bool,
    /// Without the entries' content; such a claim is no delivery.
    only_ids: bool,
}

/// Who claims where.
struct Claim<'a> {
    key: &'a [u8],
    group: &'a [u8],
    consumer: &'a [u8],
    /// Once it has claimed something.
    number: Option<ConsumerNumber>,
    terms: Terms,
    log: Claims,
}

enum Outcome {
    Claimed,
    /// The entry is no longer in the stream, and no longer pending.
    Gone,
    Left,
}

impl Claim<'_> {
    /// Claims one entry, and answers with it.
    fn claim(&mut self, context: &mut Context<'_>, id: Id) -> Result<Outcome, Failure> {
        let now = context.now();
        let Some(stream) = context.keys.get_mut::<Stream>(self.key)? else { return Ok(Outcome::Left) };
        let only_ids = self.terms.only_ids;
        // Written at once, and taken back if it is not claimed.
        let start = context.reply.position();
        let reply = &mut context.reply;
        let found = stream.get(id, |entry| if only_ids { write_id(reply, id) } else { entry.reply(reply) });
        if stream.has_failed() {
            return Ok(Outcome::Left);
        }
        if found.is_none() {
            let Some(group) = stream.groups.get_mut(self.group) else { return Ok(Outcome::Left) };
            let Some(pending) = group.pending(id) else { return Ok(Outcome::Left) };
            self.log.claim(self.key, self.group, group, id, &pending);
            group.acknowledge(id);
            stream.changes();
            context.keys.changes.dirty += 1;
            return Ok(Outcome::Gone);
        }
        let Some(group) = stream.groups.get(self.group) else {
            context.reply.truncate(start);
            return Ok(Outcome::Left);
        };
        let former = group.pending(id);
        if stream.has_failed() {
            return Ok(Outcome::Left);
        }
        if former.is_none() && !self.terms.force
            || former.is_some_and(|former| {
                self.terms.idle_at_least > 0 && now.saturating_sub(former.delivered) < self.terms.idle_at_least
            })
        {
            context.reply.truncate(start);
            return Ok(Outcome::Left);
        }
        let Some(group) = stream.groups.get_mut(self.group) else { return Ok(Outcome::Left) };
        let mut created = false;
        let number = *self.number.get_or_insert_with(|| match group.number_of(self.consumer) {
            Some(number) => number,
            None => {
                created = true;
                group.add_consumer(self.consumer, now)
            }
        });
        if let Some(consumer) = group.consumer_mut(number) {
            consumer.seen = now.max(self.terms.delivered.unwrap_or(now));
        }
        // What was forced in has been delivered once by that.
        let deliveries = former.map_or(1, |former| former.count);
        let count = self.terms.count.unwrap_or(if only_ids { deliveries } else { deliveries + 1 });
        let pending = Pending { delivered: self.terms.delivered.unwrap_or(now), count, consumer: number };
        group.give(id, pending);
        if stream.has_failed() {
            // Nothing was given, so nobody has come to be for it.
            if let Some(group) = stream.groups.get_mut(self.group).filter(|_| created) {
                group.remove_consumer(self.consumer);
            }
            return Ok(Outcome::Left);
        }
        let Some(group) = stream.groups.get_mut(self.group) else { return Ok(Outcome::Left) };
        if created {
            self.log.push(create_consumer_words(self.key, self.group, self.consumer));
        }
        self.log.claim(self.key, self.group, group, id, &pending);
        stream.changes();
        context.keys.changes.dirty += 1 + u64::from(created);
        if created {
            context.keys.notify(EventClass::STREAM, "xgroup-createconsumer", self.key);
        }
        Ok(Outcome::Claimed)
    }
}

fn xclaim(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    let (key, group) = (words.at(1), words.at(2));
    let last = context.keys.get::<Stream>(key)?.and_then(|stream| Some(stream.groups.get(group)?.last));
    let last = last.ok_or_else(|| no_group(key, group))?;
    let number_or =
        |index: usize, message: &'static str| number::integer(words.at(index)).map_err(|_| Failure::text(message));
    let idle = number_or(4, "ERR Invalid min-idle-time argument for XCLAIM")?;
    let mut terms = Terms { idle_at_least: idle.max(0), ..Terms::default() };
    let count = words.from(FIRST_ID).iter().take_while(|word| strict_id(word, 0).is_ok()).count();
    let now = context.now();
    let (mut delivered, mut new_last) = (-1, Id::MIN);
    let mut at = FIRST_ID + count;
    while at < words.len() {
        let more = at + 1 < words.len();
        if words.is(at, "FORCE") {
            terms.force = true;
        } else if words.is(at, "JUSTID") {
            terms.only_ids = true;
        } else if words.is(at, "IDLE") && more {
            delivered = now.wrapping_sub(number_or(at + 1, "ERR Invalid IDLE option argument for XCLAIM")?);
            at += 1;
        } else if words.is(at, "TIME") && more {
            delivered = number_or(at + 1, "ERR Invalid TIME option argument for XCLAIM")?;
            at += 1;
        } else if words.is(at, "RETRYCOUNT") && more {
            let count = number_or(at + 1, "ERR Invalid RETRYCOUNT option argument for XCLAIM")?;
            terms.count = u64::try_from(count).ok();
            at += 1;
        } else if words.is(at, "LASTID") && more {
            new_last = strict_id(words.at(at + 1), 0)?;
            at += 1;
        } else {
            return Err(Failure::quoting(&[b"ERR Unrecognized XCLAIM option '", words.at(at), b"'"]));
        }
        at += 1;
    }
    // A time that cannot be is taken as now: a client's clock may be ahead. While the log runs again, there is no now.
    let latest = if now < 0 { Millis::MAX } else { now };
    terms.delivered = Some(delivered).filter(|delivered| (0..=latest).contains(delivered));
    let work = ClaimNamed {
        terms,
        at: FIRST_ID,
        end: FIRST_ID + count,
        last: (new_last > last).then_some(new_last),
        number: None,
        log: Claims::default(),
        claimed: 0,
    };
    context.work_on(count, work)
}

/// XCLAIM, as far as it has come.
#[derive(Debug)]
struct ClaimNamed {
    terms: Terms,
    /// The place of the next id among the words, and where they end.
    at: usize,
    end: usize,
    /// What the group is said to have been given last, if that is later than what it knows of.
    last: Option<Id>,
    number: Option<ConsumerNumber>,
    log: Claims,
    /// What was claimed stands in the reply, behind this number.
    claimed: usize,
}

impl Work for ClaimNamed {
    fn changes(&self) -> bool {
        true
    }

    fn appends(&self) -> bool {
        true
    }

    fn head(&mut self) -> Option<Vec<u8>> {
        let mut head = Vec::new();
        Reply::new(&mut head, Protocol::Resp2).array(self.claimed);
        Some(head)
    }

    fn window(&self, budget: usize) -> Option<Window> {
        Some(Window { head: FIRST_ID, part: self.at..self.end.min(self.at.saturating_add(budget)) })
    }

    fn step(&mut self, context: &mut Context<'_>, budget: usize) -> Result<Progress, Failure> {
        let words = context.words;
        let (key, group) = (words.at(1), words.at(2));
        if self.at == FIRST_ID
            && let Some(last) = self.last
            && let Some(group) = context.keys.get_mut::<Stream>(key)?.and_then(|stream| stream.groups.get_mut(group))
        {
            group.last = last;
        }
        let log = std::mem::take(&mut self.log);
        let mut claim = Claim { key, group, consumer: words.at(3), number: self.number, terms: self.terms, log };
        // The window has the next ones in the place of the first.
        let some = budget.min(self.end - self.at);
        for word in words.from(FIRST_ID).iter().take(some) {
            self.claimed += usize::from(matches!(claim.claim(context, strict_id(word, 0)?)?, Outcome::Claimed));
        }
        (self.number, self.log) = (claim.number, claim.log);
        self.at += some;
        if self.at < self.end {
            return Ok(Progress::More);
        }
        if self.last.is_some()
            && self.log.is_empty()
            && let Some(found) = context.keys.get_mut::<Stream>(key)?.and_then(|stream| stream.groups.get(group))
        {
            self.log.push(set_id_words(key, group, found));
            context.keys.changes.dirty += 1;
        }
        self.log.propagate(context.keys.changes);
        Ok(Progress::Done)
    }
}

fn xautoclaim(context: &mut Context<'_>) -> Result<(), Failure> {
    /// So many are looked at for each that is asked for.
    const ATTEMPTS: usize = 10;
    /// What Redis' own bound comes to.
    const COUNT_MAX: i64 = i64::MAX / 16;
    const LOW_COUNT: Failure = Failure::text("ERR COUNT must be > 0");
    let words = context.words;
    let (key, group) = (words.at(1), words.at(2));
    // Redis looks for the key first, and so counts a hit or a miss even if the arguments are wrong.
    context.keys.value(key)?;
    let idle =
        number::integer(words.at(4)).map_err(|_| Failure::text("ERR Invalid min-idle-time argument for XAUTOCLAIM"))?;
    let from = interval_start(words.at(5))?;
    let mut terms = Terms { idle_at_least: idle.max(0), ..Terms::default() };
    let mut count = 100;
    let mut at = 6;
    while at < words.len() {
        if words.is(at, "COUNT") && at + 1 < words.len() {
            let given = number::integer(words.at(at + 1)).ok().filter(|count| (1..=COUNT_MAX).contains(count));
            count = usize::try_from(given.ok_or(LOW_COUNT)?).map_err(|_| LOW_COUNT)?;
            at += 1;
        } else if words.is(at, "JUSTID") {
            terms.only_ids = true;
        } else {
            return Err(Failure::Syntax);
        }
        at += 1;
    }
    let found = context.keys.look::<Stream>(key)?.and_then(|stream| stream.groups.get(group));
    let found = found.ok_or_else(|| no_group(key, group))?;
    let attempts = count.saturating_mul(ATTEMPTS);
    let elements = attempts.min(found.pending_len());
    let work = AutoClaim {
        terms,
        count,
        attempts,
        from,
        number: None,
        next: Id::MIN,
        log: Claims::default(),
        claimed: 0,
        gone: Vec::new(),
    };
    context.work_on(elements, work)
}

/// XAUTOCLAIM, as far as it has come.
#[derive(Debug)]
struct AutoClaim {
    terms: Terms,
    /// So many are claimed, and so many are still looked at for that.
    count: usize,
    attempts: usize,
    /// Where to go on.
    from: Id,
    number: Option<ConsumerNumber>,
    /// Where another one is to go on.
    next: Id,
    log: Claims,
    /// What was claimed stands in the reply, behind these two.
    claimed: usize,
    /// What is not in the stream any more.
    gone: Vec<Id>,
}

impl Work for AutoClaim {
    fn changes(&self) -> bool {
        true
    }

    fn appends(&self) -> bool {
        true
    }

    fn head(&mut self) -> Option<Vec<u8>> {
        let mut head = Vec::new();
        let mut reply = Reply::new(&mut head, Protocol::Resp2);
        reply.array(3);
        write_id(&mut reply, self.next);
        reply.array(self.claimed);
        Some(head)
    }

    fn step(&mut self, context: &mut Context<'_>, budget: usize) -> Result<Progress, Failure> {
        let words = context.words;
        let (key, group, consumer) = (words.at(1), words.at(2), words.at(3));
        let found = context.keys.look::<Stream>(key)?.and_then(|stream| stream.groups.get(group));
        // One more than is looked at: where to go on.
        let ids_max = budget.min(self.attempts).saturating_add(1);
        let mut ids = Vec::new();
        if let Some(group) = found {
            group.each_pending(self.from..=Id::MAX, None, |id, _| {
                ids.push(id);
                ids.len() < ids_max
            });
        }
        let log = std::mem::take(&mut self.log);
        let mut claim = Claim { key, group, consumer, number: self.number, terms: self.terms, log };
        let mut is_over = true;
        for (index, id) in ids.into_iter().enumerate() {
            if self.attempts == 0 || self.claimed + self.gone.len() == self.count {
                self.next = id;
                break;
            }
            if index == budget {
                (self.from, is_over) = (id, false);
                break;
            }
            self.attempts -= 1;
            match claim.claim(context, id)? {
                Outcome::Claimed => self.claimed += 1,
                Outcome::Gone => self.gone.push(id),
                Outcome::Left => {}
            }
        }
        (self.number, self.log) = (claim.number, claim.log);
        if !is_over {
            return Ok(Progress::More);
        }
        let reply = &mut context.reply;
        reply.array(self.gone.len());
        self.gone.iter().for_each(|id| write_id(reply, *id));
        self.log.propagate(context.keys.changes);
        Ok(Progress::Done)
    }
}
