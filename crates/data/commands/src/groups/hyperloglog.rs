//! HyperLogLogs.

use std::borrow::Cow;

use keyspace::{
    Bytes, Expiry, Failure, Value,
    changes::EventClass,
    random::Random,
    value::hyperloglog::{Encoding, HyperLogLog, REGISTERS, Run, count},
};

use crate::{
    Context,
    server::{Command, Progress, Window, Work},
    table::{Access, Categories, Flags, KeySpec},
};

const GROUP: &str = "hyperloglog";
const NOT_ONE: Failure = Failure::text("WRONGTYPE Key is not a valid HyperLogLog string value.");

/// So many bytes are merged as fast as an element of a collection is given.
const BYTES_AS_ONE: usize = 128;
/// One takes about as long as so many elements, if nothing is known of it.
const ELEMENTS_OF_KEY: usize = 16;

/// The group's commands.
pub const COMMANDS: &[Command] = &[
    Command::new("PFADD", -2, pfadd)
        .flags(Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST))
        .keys(&[KeySpec::one(1, Access::RW.union(Access::INSERT))])
        .group(GROUP, Categories::HYPERLOGLOG)
        .docs("2.8.9", "O(1) for each element", "Adds elements.")
        .syntax("key#0 [element...]"),
    Command::new("PFCOUNT", -2, pfcount)
        .flags(Flags::READONLY.union(Flags::MAY_REPLICATE))
        .keys(&[KeySpec::range(1, -1, 1, Access::RW.union(Access::ACCESS))])
        .many_keys()
        .group(GROUP, Categories::HYPERLOGLOG)
        .docs("2.8.9", "O(N) for N keys", "Estimates how many different elements were added to any of the keys.")
        .syntax("key#0..."),
    Command::new("PFMERGE", -2, pfmerge)
        .flags(Flags::WRITE.union(Flags::DENYOOM))
        .keys(&[
            KeySpec::one(1, Access::RW.union(Access::ACCESS).union(Access::INSERT)),
            KeySpec::range(2, -1, 1, Access::RO.union(Access::ACCESS)),
        ])
        .many_keys()
        .group(GROUP, Categories::HYPERLOGLOG)
        .docs("2.8.9", "O(N) for N keys", "Merges the elements of some keys into another key.")
        .syntax("destkey#0 sourcekey#1..."),
    Command::new("PFDEBUG", 3, pfdebug)
        .flags(Flags::WRITE.union(Flags::DENYOOM).union(Flags::ADMIN))
        .keys(&[KeySpec::one(2, Access::RW.union(Access::ACCESS))])
        .group(GROUP, Categories::HYPERLOGLOG)
        .docs("2.8.9", "O(1)", "Shows registers and runs, for debugging.")
        .syntax("subcommand key#0"),
    Command::new("PFSELFTEST", 1, pfselftest).flags(Flags::ADMIN).group(GROUP, Categories::HYPERLOGLOG).docs(
        "2.8.9",
        "O(1)",
        "Tests the implementation.",
    ),
];

/// The one of a key, to be read.
fn read<'k>(context: &'k mut Context<'_>, key: &[u8]) -> Result<Option<HyperLogLog<'k>>, Failure> {
    match context.keys.get::<Bytes>(key)? {
        Some(string) => HyperLogLog::of(Cow::Borrowed(string)).map(Some).ok_or(NOT_ONE),
        None => Ok(None),
    }
}

/// Takes the one of a key out of it, to be changed and put back.
fn take(context: &mut Context<'_>, key: &[u8]) -> Result<Option<HyperLogLog<'static>>, Failure> {
    let is_one = context.keys.look::<Bytes>(key)?.map(|string| HyperLogLog::of(Cow::Borrowed(string)).is_some());
    match is_one {
        None => Ok(None),
        Some(false) => Err(NOT_ONE),
        Some(true) => {
            let bytes = context.keys.get_mut::<Bytes>(key)?.map(std::mem::take).unwrap_or_default();
            Ok(HyperLogLog::of(Cow::Owned(bytes.into_vec())))
        }
    }
}

fn put(context: &mut Context<'_>, key: &[u8], log: HyperLogLog<'_>) -> Result<(), Failure> {
    context.keys.set(key, Value::String(Bytes::from_vec(log.into_bytes())), Expiry::Keep)
}

fn sparse_max(context: &Context<'_>) -> usize {
    usize::try_from(context.shared.settings.hll_sparse_max_bytes.0).unwrap_or(usize::MAX)
}

fn pfadd(context: &mut Context<'_>) -> Result<(), Failure> {
    let key = context.words.at(1);
    let sparse_max = sparse_max(context);
    let found = take(context, key)?;
    let mut changed = usize::from(found.is_none());
    let mut log = found.unwrap_or_default();
    let mut outcome: Result<(), Failure> = Ok(());
    for element in context.words.from(2) {
        match log.add(element, sparse_max) {
            Ok(raised) => changed += usize::from(raised),
            Err(corrupt) => {
                outcome = Err(corrupt.into());
                break;
            }
        }
    }
    if changed > 0 {
        log.invalidate();
    }
    put(context, key, log)?;
    outcome?;
    if changed > 0 {
        context.keys.modified_by(key, changed);
        context.keys.notify(EventClass::STRING, "pfadd", key);
    }
    context.reply.integer(i64::from(changed > 0));
    Ok(())
}

fn pfcount(context: &mut Context<'_>) -> Result<(), Failure> {
    if context.words.len() > 2 {
        return merge(context, |context, merging| {
            context.reply.integer(i64::try_from(count(&merging.registers)).unwrap_or(i64::MAX));
            Ok(())
        });
    }
    let key = context.words.at(1);
    let (kept, counted) = match read(context, key)? {
        Some(log) => match log.kept_count() {
            Some(count) => (true, count),
            None => (false, log.count()?),
        },
        None => (true, 0),
    };
    // A replica's keys are its master's, the count that is kept beside included.
    let may_keep = context.shared.replication.master().is_none();
    if !kept
        && may_keep
        && let Some(mut log) = take(context, key)?
    {
        log.keep_count(counted);
        put(context, key, log)?;
        context.keys.modified(key);
    }
    context.reply.integer(i64::try_from(counted).unwrap_or(i64::MAX));
    Ok(())
}

/// What PFCOUNT and PFMERGE do with all keys, which may be very many: one after the other is merged.
struct Merging {
    registers: Box<[u8; REGISTERS]>,
    dense: bool,
    /// The place of the next key among the words, how many words there are, and the first key.
    at: usize,
    len: usize,
    first: Bytes,
    /// Whether the keys are held step by step.
    is_wide: bool,
    /// What is done in the end.
    finish: fn(&mut Context<'_>, &mut Merging) -> Result<(), Failure>,
}

impl std::fmt::Debug for Merging {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Merging").field("at", &self.at).field("len", &self.len).finish_non_exhaustive()
    }
}

impl Work for Merging {
    fn keys_apart(&self) -> Option<usize> {
        self.is_wide.then_some(1)
    }

    fn window(&self, budget: usize) -> Option<Window> {
        Some(Window { head: 1, part: self.at..self.len.min(self.at.saturating_add(budget)) })
    }

    fn step(&mut self, context: &mut Context<'_>, budget: usize) -> Result<Progress, Failure> {
        let mut left = budget;
        for key in context.words.from(1) {
            if left == 0 {
                break;
            }
            let mut len = 0;
            if let Some(log) = read(context, key)? {
                len = log.bytes().len();
                self.dense |= log.encoding() == Encoding::Dense;
                log.merge_into(&mut self.registers)?;
            }
            left = left.saturating_sub(1 + len / BYTES_AS_ONE);
            self.at += 1;
        }
        if self.at < self.len {
            return Ok(Progress::More);
        }
        (self.finish)(context, self)?;
        Ok(Progress::Done)
    }
}

fn merge(
    context: &mut Context<'_>,
    finish: fn(&mut Context<'_>, &mut Merging) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (len, first) = (context.words.len(), Bytes::from_slice(context.words.at(1)));
    let is_wide = len > context.shared.step_limits.keys_from;
    let merging = Merging { registers: Box::new([0; REGISTERS]), dense: false, at: 1, len, first, is_wide, finish };
    context.work_on(len.saturating_mul(ELEMENTS_OF_KEY), merging)
}

fn pfmerge(context: &mut Context<'_>) -> Result<(), Failure> {
    merge(context, finish_merge)
}

fn finish_merge(context: &mut Context<'_>, merging: &mut Merging) -> Result<(), Failure> {
    let key = merging.first.as_slice();
    let sparse_max = sparse_max(context);
    let mut log = take(context, key)?.unwrap_or_default();
    if merging.dense {
        log.make_dense()?;
    }
    for (index, value) in merging.registers.iter().enumerate().filter(|(_, value)| **value > 0) {
        log.raise(index, *value, sparse_max)?;
    }
    log.invalidate();
    put(context, key, log)?;
    context.keys.modified(key);
    context.keys.notify(EventClass::STRING, "pfadd", key);
    context.reply.ok();
    Ok(())
}

fn pfdebug(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    let key = words.at(2);
    let missing = Failure::text("ERR The specified key does not exist");
    let log = read(context, key)?.ok_or(missing)?;
    let sparse = log.encoding() == Encoding::Sparse;
    if words.is(1, "ENCODING") {
        context.reply.simple(if sparse { "sparse" } else { "dense" });
    } else if words.is(1, "DECODE") {
        if !sparse {
            return Err(Failure::text("ERR HLL encoding is not sparse"));
        }
        let text: Vec<String> = log.runs().map(show).collect();
        context.reply.bulk(text.join(" ").as_bytes());
    } else if words.is(1, "GETREG") || words.is(1, "TODENSE") {
        let mut registers = [0; REGISTERS];
        log.merge_into(&mut registers)?;
        if sparse && let Some(mut log) = take(context, key)? {
            log.make_dense()?;
            put(context, key, log)?;
            context.keys.changes.dirty += 1;
        }
        if words.is(1, "TODENSE") {
            context.reply.integer(i64::from(sparse));
        } else {
            context.reply.array(REGISTERS);
            registers.iter().for_each(|value| context.reply.integer(i64::from(*value)));
        }
    } else {
        let name = String::from_utf8_lossy(words.at(1));
        return Err(Failure::owned(format!("ERR Unknown PFDEBUG subcommand '{name}'")));
    }
    Ok(())
}

fn show(run: Run) -> String {
    match run {
        Run::Value { value, len } => format!("v:{value},{len}"),
        run if run.is_long() => format!("Z:{}", run.len()),
        run => format!("z:{}", run.len()),
    }
}

/// Adds elements to one of each form and looks whether both agree and are not too far off.
fn pfselftest(context: &mut Context<'_>) -> Result<(), Failure> {
    const ELEMENTS: u64 = 100_000;
    let sparse_max = sparse_max(context);
    let mut random = Random::new(context.shared.random.draw());
    let (mut sparse, mut dense) = (HyperLogLog::default(), HyperLogLog::default());
    dense.make_dense()?;
    let seed = random.draw();
    let mut checkpoint = 1;
    for number in 1..=ELEMENTS {
        let element = (number ^ seed).to_le_bytes();
        sparse.add(&element, sparse_max)?;
        dense.add(&element, sparse_max)?;
        if number != checkpoint {
            continue;
        }
        let estimate = dense.count()?;
        if estimate != sparse.count()? {
            return Err(Failure::text("ERR TESTFAILED dense/sparse disagree"));
        }
        // Six standard errors; of ten elements, one.
        let at_most =
            if number == 10 { 1 } else { (1.04 / (REGISTERS as f64).sqrt() * 6.0 * number as f64).ceil() as u64 };
        let error = estimate.abs_diff(number);
        if error > at_most {
            return Err(Failure::owned(format!("ERR TESTFAILED Too big error. card:{number} abserr:{error}")));
        }
        checkpoint *= 10;
    }
    context.reply.ok();
    Ok(())
}
