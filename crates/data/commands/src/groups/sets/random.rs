//! Members chosen at random.

use std::collections::HashSet;

use crate::{
    Bytes, Context, Failure,
    arguments::{Draws, positive},
    changes::EventClass,
    random::Random,
    sample,
    value::Set,
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
    let random = &mut context.shared.random;
    let Some(set) = context.keys.get::<Set>(key)? else {
        context.reply.array(0);
        return Ok(());
    };
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

/// What is propagated names the members.
fn propagate_removal(context: &mut Context<'_>, key: &[u8], members: Vec<Bytes>) {
    let mut words = vec![Bytes::from_slice(b"SREM"), Bytes::from_slice(key)];
    words.extend(members);
    context.keys.changes.propagate_instead(vec![words]);
}
