//! Ranges of entries.

use std::ops::RangeInclusive;

use keyspace::{
    Failure,
    value::{Stream, stream::Id},
};
use resp::Reply;

use crate::{
    Context,
    server::{Command, Progress, reading_steps},
    session::Rest,
    table::{Access, Categories, ElementWords, Flags, KeySpec},
};

use super::{GROUP, interval_end, interval_start};

const READS: &[KeySpec] = &[KeySpec::one(1, Access::RO.union(Access::ACCESS))];

/// Commands that give ranges.
pub const COMMANDS: &[Command] = &[
    Command::new("XRANGE", -4, |context| range(context, false))
        .elements(ElementWords::Range { backwards: false })
        .flags(Flags::READONLY)
        .keys(READS)
        .group(GROUP, Categories::STREAM)
        .docs("5.0.0", "O(log(N)+M), M: entries given", "Returns the entries between two ids.")
        .syntax("key#0 start end [COUNT/count:integer]"),
    Command::new("XREVRANGE", -4, |context| range(context, true))
        .elements(ElementWords::Range { backwards: true })
        .flags(Flags::READONLY)
        .keys(READS)
        .group(GROUP, Categories::STREAM)
        .docs("5.0.0", "O(log(N)+M), M: entries given", "Returns the entries between two ids, the last one first.")
        .syntax("key#0 end start [COUNT/count:integer]"),
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
    // How many entries there are is only known of all of them.
    let has_all = *ids.start() <= stream.first_id && *ids.end() >= stream.last_id;
    let total = count.min(usize::try_from(stream.len()).unwrap_or(usize::MAX));
    if has_all
        && context.session.takes_turns(total, context.shared)
        && let Some(portions) = stream.portions(reverse, total)
    {
        context.reply.array(total);
        context.session.go_on_with(Rest::Elements(portions), context.shared);
        return Ok(());
    }
    context.try_on(|| {
        let (mut given, mut header, mut ids) = (Given::new(count), None, ids.clone());
        reading_steps(move |context: &mut Context<'_>, budget: usize| {
            let header = *header.get_or_insert_with(|| context.reply.defer());
            let stream = context.keys.look::<Stream>(context.words.at(1))?;
            let is_over =
                stream.is_none_or(|stream| given.go_on(&mut context.reply, stream, &mut ids, reverse, budget));
            if is_over {
                context.reply.finish_array(header, given.count);
            }
            Ok(Progress::over_if(is_over))
        })
    })
}

/// How many entries of a range have been given.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) count: usize,
    at_most: usize,
}

impl Given {
    /// None yet.
    pub(super) fn new(at_most: usize) -> Self {
        Self { count: 0, at_most }
    }

    /// Gives some more, of which the range has no longer to do. Returns whether that was all.
    pub(super) fn go_on(
        &mut self,
        reply: &mut Reply<'_>,
        stream: &Stream,
        ids: &mut RangeInclusive<Id>,
        reverse: bool,
        budget: usize,
    ) -> bool {
        let to = self.count.saturating_add(budget).min(self.at_most);
        let mut last = None;
        if self.count < to {
            stream.each(ids.clone(), reverse, |entry| {
                entry.reply(reply);
                self.count += 1;
                last = Some(entry.id);
                self.count < to
            });
        }
        if self.count < to || to == self.at_most {
            return true;
        }
        let next = if reverse { last.and_then(Id::previous) } else { last.and_then(Id::next) };
        match next {
            Some(next) => *ids = if reverse { *ids.start()..=next } else { next..=*ids.end() },
            None => return true,
        }
        false
    }
}
