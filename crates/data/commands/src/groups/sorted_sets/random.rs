//! Random members.

use std::collections::HashSet;

use keyspace::{Failure, random::Random, value::SortedSet};
use resp::Reply;

use crate::{
    Context,
    arguments::Draws,
    groups::draws,
    server::Command,
    table::{Access, Categories, Flags, KeySpec},
};

use super::{
    GROUP,
    range::{members_header, write_member},
};

/// Commands that draw members.
pub const COMMANDS: &[Command] = &[Command::new("ZRANDMEMBER", -2, zrandmember)
    .flags(Flags::READONLY)
    .keys(&[KeySpec::one(1, Access::RO.union(Access::ACCESS))])
    .group(GROUP, Categories::SORTED_SET)
    .docs("6.2.0", "O(N*log(M)) for N of M members", "Returns random members.")
    .syntax("key#0 [options{count:integer [WITHSCORES]}]")];

fn zrandmember(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    if words.len() == 2 {
        match context.keys.get::<SortedSet>(words.at(1))? {
            Some(set) => {
                let rank = context.shared.random.below(set.len().max(1) as u64) as usize;
                context.reply.bulk_or_null(set.at(rank).as_ref().map(|member| member.name.as_slice()));
            }
            None => context.reply.null(),
        }
        return Ok(());
    }
    let draws = Draws::parse(words.at(2))?;
    if words.len() > 4 || words.len() == 4 && !words.is(3, "WITHSCORES") {
        return Err(Failure::Syntax);
    }
    let with_scores = words.len() == 4;
    if with_scores && matches!(draws, Draws::Distinct(count) | Draws::Any(count) if count > (i64::MAX / 2) as usize) {
        return Err(Failure::text("ERR value is out of range"));
    }
    let most = context.shared.reply_max(context.session);
    let Some(len) = context.keys.get::<SortedSet>(words.at(1))?.map(SortedSet::len) else {
        context.reply.array(0);
        return Ok(());
    };
    if draws::take_steps(context, draws, len) {
        let draw = move |set: &SortedSet, random: &mut Random, reply: &mut Reply<'_>| {
            if let Some(member) = set.at(random.below(len as u64) as usize) {
                write_member(reply, &member, with_scores);
            }
        };
        let seed = context.keys.seed();
        let scan = move |set: &SortedSet, cursor, count, reply: &mut Reply<'_>, takes: &mut dyn FnMut() -> bool| {
            let next = set.scan_once(cursor, count, seed, |member| {
                if takes() {
                    write_member(reply, member, with_scores);
                }
            });
            next.unwrap_or(0)
        };
        let header = move |reply: &mut Reply<'_>, count| members_header(reply, count, with_scores);
        return draws::give(context, draws, len, header, draw, scan);
    }
    let Some(set) = context.keys.found::<SortedSet>(words.at(1)) else { return Ok(()) };
    let random = &mut context.shared.random;
    let reply = &mut context.reply;
    let wanted = match draws {
        Draws::Distinct(count) => count,
        Draws::Any(count) => {
            members_header(reply, count, with_scores);
            for _ in 0..count {
                if let Some(member) = set.at(random.below(len as u64) as usize) {
                    write_member(reply, &member, with_scores);
                }
                if Context::closes_for(reply, most, context.session) {
                    break;
                }
            }
            return Ok(());
        }
    };
    if wanted >= len {
        members_header(reply, len, with_scores);
        set.each(0..len, false, |member| write_member(reply, member, with_scores));
        return Ok(());
    }
    members_header(reply, wanted, with_scores);
    for rank in distinct(wanted, len, |bound| random.below(bound as u64) as usize) {
        if let Some(member) = set.at(rank) {
            write_member(reply, &member, with_scores);
        }
    }
    Ok(())
}

/// As many different numbers below a bound, any of them as likely (Floyd's way: one draw for each).
pub(crate) fn distinct(count: usize, bound: usize, mut below: impl FnMut(usize) -> usize) -> Vec<usize> {
    let mut seen = HashSet::with_capacity(count);
    let mut drawn = Vec::with_capacity(count);
    for upper in bound.saturating_sub(count)..bound {
        let number = below(upper + 1);
        let number = if seen.insert(number) { number } else { upper };
        seen.insert(number);
        drawn.push(number);
    }
    drawn
}
