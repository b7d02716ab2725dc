//! Ranges of entries.

use crate::{
    Context, Failure,
    server::Rest,
    table::{Access, Categories, Command, Flags, KeySpec},
    value::Stream,
};

use super::{GROUP, interval_end, interval_start};

const READS: &[KeySpec] = &[KeySpec::one(1, Access::RO.union(Access::ACCESS))];

/// Commands that give ranges.
pub const COMMANDS: &[Command] = &[
    Command::new("XRANGE", -4, |context| range(context, false))
        .flags(Flags::READONLY)
        .keys(READS)
        .group(GROUP, Categories::STREAM)
        .docs("5.0.0", "O(log(N)+M), M: entries given", "The entries between two ids."),
    Command::new("XREVRANGE", -4, |context| range(context, true))
        .flags(Flags::READONLY)
        .keys(READS)
        .group(GROUP, Categories::STREAM)
        .docs("5.0.0", "O(log(N)+M), M: entries given", "The entries between two ids, the last one first."),
];

fn range(context: &mut Context<'_>, reverse: bool) -> Result<(), Failure> {
    let words = context.words;
    let (first, last) = if reverse { (words.at(3), words.at(2)) } else { (words.at(2), words.at(3)) };
    let ids = interval_start(first)?..=interval_end(last)?;
    let mut count = None;
    let mut at = 4;
    while at < words.len() {
        if !words.is(at, "COUNT") || at + 1 >= words.len() {
            return Err(Failure::Syntax);
        }
        // -1 is what Redis itself takes for no count.
        count = Some(words.integer(at + 1)?.max(0));
        at += 2;
    }
    let Some(stream) = context.keys.get::<Stream>(words.at(1))? else {
        context.reply.array(0);
        return Ok(());
    };
    if count == Some(0) {
        context.reply.null_array();
        return Ok(());
    }
    let count = count.and_then(|count| usize::try_from(count).ok()).unwrap_or(usize::MAX);
    let reply = &mut context.reply;
    // How many entries there are is only known of all of them.
    let has_all = *ids.start() <= stream.first_id && *ids.end() >= stream.last_id;
    let total = count.min(usize::try_from(stream.len()).unwrap_or(usize::MAX));
    if has_all
        && context.session.takes_turns(total, context.shared)
        && let Some(portions) = stream.portions(reverse, total)
    {
        reply.array(total);
        context.session.go_on_with(Rest::Elements(portions), context.shared);
        return Ok(());
    }
    let header = reply.defer();
    let mut given = 0;
    stream.each(ids, reverse, |entry| {
        entry.reply(reply);
        given += 1;
        given < count
    });
    reply.finish_array(header, given);
    Ok(())
}
