//! DUMP and RESTORE.

use keyspace::{
    Bytes, Expiry, Failure, NEVER, Value,
    changes::EventClass,
    encoding::RdbError,
    number,
    rdb::{self, Dumping, Restoring},
    value::walk,
};

use crate::{
    Context,
    server::{Progress, Work, reading_steps},
};

pub(super) fn dump(context: &mut Context<'_>) -> Result<(), Failure> {
    let Some(weight) = context.keys.value(context.words.at(1))?.map(walk::weight) else {
        context.reply.null();
        return Ok(());
    };
    context.work_on(weight, Dump(Dumping::default()))
}

/// DUMP, as far as it has come.
#[derive(Debug)]
struct Dump(Dumping);

impl Work for Dump {
    fn appends(&self) -> bool {
        true
    }

    fn head(&mut self) -> Option<Vec<u8>> {
        Some(format!("${}\r\n", self.0.len()).into_bytes())
    }

    fn step(&mut self, context: &mut Context<'_>, budget: usize) -> Result<Progress, Failure> {
        let entry = context.keys.peek(context.words.at(1))?;
        let Some(value) = entry.and_then(|entry| entry.value.as_ref()) else { return Ok(Progress::Done) };
        let is_over = self.0.go_on(value, budget);
        context.reply.raw(self.0.piece());
        if is_over {
            context.reply.raw(b"\r\n");
        }
        Ok(Progress::over_if(is_over))
    }
}

#[derive(Default)]
struct Options {
    replace: bool,
    absolute: bool,
    idle_s: Option<i64>,
    frequency: Option<u8>,
}

fn options(context: &Context<'_>) -> Result<Options, Failure> {
    let words = context.words;
    let mut options = Options::default();
    let mut at = 4;
    while at < words.len() {
        if words.is(at, "REPLACE") {
            options.replace = true;
        } else if words.is(at, "ABSTTL") {
            options.absolute = true;
        } else if words.is(at, "IDLETIME") && at + 1 < words.len() && options.frequency.is_none() {
            at += 1;
            let idle = words.integer(at)?;
            if idle < 0 {
                return Err(Failure::text("ERR Invalid IDLETIME value, must be >= 0"));
            }
            options.idle_s = Some(idle);
        } else if words.is(at, "FREQ") && at + 1 < words.len() && options.idle_s.is_none() {
            at += 1;
            let frequency = u8::try_from(words.integer(at)?);
            let invalid = Failure::text("ERR Invalid FREQ value, must be >= 0 and <= 255");
            options.frequency = Some(frequency.map_err(|_| invalid)?);
        } else {
            return Err(Failure::Syntax);
        }
        at += 1;
    }
    Ok(options)
}

pub(super) fn restore(context: &mut Context<'_>) -> Result<(), Failure> {
    let options = options(context)?;
    let key = context.words.at(1);
    let present = context.keys.contains(key)?;
    if present && !options.replace {
        return Err(Failure::text("BUSYKEY Target key name already exists."));
    }
    let ttl = context.words.integer(2)?;
    if ttl < 0 {
        return Err(Failure::text("ERR Invalid TTL value, must be >= 0"));
    }
    let limits = context.shared.settings.value_limits(context.keys.seed());
    let payload = context.words.at(3);
    let weight = rdb::weight(payload);
    if context.session.takes_steps(weight, context.shared) {
        let mut restoring = Restoring::new(limits);
        let step = move |context: &mut Context<'_>, budget: usize| {
            let value = restoring.go_on(context.words.at(3), budget).map_err(failure_of)?;
            let is_over = value.is_some();
            value.map_or(Ok(()), |value| put(context, value, ttl, &options))?;
            Ok(Progress::over_if(is_over))
        };
        return context.work_on(weight, reading_steps(step));
    }
    let value = rdb::decode_payload(payload, &limits).map_err(failure_of)?;
    put(context, value, ttl, &options)
}

fn failure_of(error: RdbError) -> Failure {
    match error {
        RdbError::Footer => Failure::text("ERR DUMP payload version or checksum are wrong"),
        _ => Failure::text("ERR Bad data format"),
    }
}

/// Gives the key what was read.
fn put(context: &mut Context<'_>, value: Value, ttl: i64, options: &Options) -> Result<(), Failure> {
    let key = context.words.at(1);
    let expire_at = match ttl {
        0 => NEVER,
        ttl if options.absolute => ttl.min(NEVER - 1),
        ttl => ttl.saturating_add(context.counted_from()).min(NEVER - 1),
    };
    if context.has_passed(expire_at) {
        if context.keys.remove(key)? {
            context.keys.modified(key);
            context.keys.notify(EventClass::GENERIC, "del", key);
            let instead = vec![Bytes::from_slice(b"DEL"), Bytes::from_slice(key)];
            context.keys.changes.propagate_instead(vec![instead]);
        }
        context.reply.ok();
        return Ok(());
    }
    context.keys.remove(key)?;
    context.keys.set(key, value, if expire_at == NEVER { Expiry::Clear } else { Expiry::At(expire_at) })?;
    if let Some(touched) = context.keys.space().usage.restored(options.idle_s, options.frequency) {
        context.keys.set_touched(key, touched)?;
    }
    context.keys.modified(key);
    context.keys.notify(EventClass::GENERIC, "restore", key);
    if expire_at != NEVER && !options.absolute {
        let mut instead: Vec<Bytes> = context.words.from(0).iter().map(|word| Bytes::from_slice(word)).collect();
        if let Some(ttl) = instead.get_mut(2) {
            *ttl = number::integer_bytes(expire_at);
        }
        instead.push(Bytes::from_slice(b"ABSTTL"));
        context.keys.changes.propagate_instead(vec![instead]);
    }
    context.reply.ok();
    Ok(())
}
