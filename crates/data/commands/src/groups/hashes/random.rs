//! Fields chosen at random.

use std::collections::HashSet;

use keyspace::{
    Failure,
    random::Random,
    value::{Hash, hash::Pair},
};
use resp::{Protocol, Reply};

use crate::{Context, arguments::Draws, groups::draws, sample};

/// Beyond, a count with values could not be doubled.
const PAIRS_MAX: u64 = i64::MAX as u64 / 2;

pub(super) fn hrandfield(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    let key = words.at(1);
    let random = &mut context.shared.random;
    if words.len() == 2 {
        let field = context.keys.get::<Hash>(key)?.and_then(|hash| hash.random(random));
        context.reply.bulk_or_null(field.as_ref().map(|(name, _)| &**name));
        return Ok(());
    }
    let number = words.integer(2)?;
    let with_values = match words.len() {
        3 => false,
        4 if words.is(3, "WITHVALUES") => true,
        _ => return Err(Failure::Syntax),
    };
    if with_values && number != i64::MIN && number.unsigned_abs() > PAIRS_MAX {
        return Err(Failure::text("ERR value is out of range"));
    }
    let draws = Draws::parse(words.at(2))?;
    let most = context.shared.reply_max(context.session);
    let Some(len) = context.keys.get::<Hash>(key)?.map(Hash::len) else {
        context.reply.array(0);
        return Ok(());
    };
    if draws::take_steps(context, draws, len) {
        let draw = move |hash: &Hash, random: &mut Random, reply: &mut Reply<'_>| {
            if let Some((name, value)) = hash.random(random) {
                give(reply, &name, &value, with_values);
            }
        };
        let scan = move |hash: &Hash, cursor, count, reply: &mut Reply<'_>, takes: &mut dyn FnMut() -> bool| {
            hash.scan_once(cursor, count, |name, value| {
                if takes() {
                    give(reply, name, value, with_values);
                }
            })
        };
        let header = move |reply: &mut Reply<'_>, count| header(reply, count, with_values);
        return draws::give(context, draws, len, header, draw, scan);
    }
    let random = &mut context.shared.random;
    let Some(hash) = context.keys.found::<Hash>(key) else { return Ok(()) };
    let chosen: Vec<Pair<'_>> = match draws {
        Draws::Any(count) => {
            header(&mut context.reply, count, with_values);
            for _ in 0..count {
                if let Some((name, value)) = hash.random(random) {
                    give(&mut context.reply, &name, &value, with_values);
                }
                if Context::closes_for(&context.reply, most, context.session) {
                    break;
                }
            }
            return Ok(());
        }
        Draws::Distinct(count)
            if matches!(hash, Hash::Large(..) | Hash::Spread(_)) && sample::draws_are_cheaper(count, hash.len()) =>
        {
            let mut chosen = HashSet::with_capacity(count);
            while chosen.len() < count {
                let Some(field) = hash.random(random) else { break };
                chosen.insert(field);
            }
            chosen.into_iter().collect()
        }
        Draws::Distinct(count) => sample::choose(hash.pairs(), count, random),
    };
    header(&mut context.reply, chosen.len(), with_values);
    chosen.iter().for_each(|(name, value)| give(&mut context.reply, name, value, with_values));
    Ok(())
}

/// The newer protocol has pairs, the older one a flat list.
fn header(reply: &mut Reply<'_>, count: usize, with_values: bool) {
    let flat = with_values && reply.protocol() == Protocol::Resp2;
    reply.array(if flat { count * 2 } else { count });
}

fn give(reply: &mut Reply<'_>, name: &[u8], value: &[u8], with_values: bool) {
    if with_values && reply.protocol() == Protocol::Resp3 {
        reply.array(2);
    }
    reply.bulk(name);
    if with_values {
        reply.bulk(value);
    }
}
