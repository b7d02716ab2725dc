//! Commands that look for elements.

use keyspace::{
    Failure,
    changes::EventClass,
    value::{List, list::End},
};

use crate::{
    Context,
    arguments::positive,
    server::{Progress, Work, reading_steps},
};

use super::{ELEMENTS_AS_ONE, limit};

pub(super) fn linsert(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    let after = match (words.is(2, "AFTER"), words.is(2, "BEFORE")) {
        (true, _) => true,
        (_, true) => false,
        _ => return Err(Failure::Syntax),
    };
    let Some(len) = context.keys.look::<List>(words.at(1))?.map(List::len) else {
        context.reply.integer(0);
        return Ok(());
    };
    let mut node = 0;
    let step = move |context: &mut Context<'_>, budget: usize| {
        let words = context.words;
        let key = words.at(1);
        let limit = limit(&context.shared.settings);
        let Some(list) = context.keys.get_mut::<List>(key)? else { return Ok(Progress::Done) };
        let look_at = budget.saturating_mul(ELEMENTS_AS_ONE);
        match list.insert_beside(words.at(3), after, words.at(4), limit, node, look_at) {
            Err(next) => {
                node = next;
                return Ok(Progress::More);
            }
            Ok(false) => context.reply.integer(-1),
            Ok(true) => {
                context.reply.count(list.len());
                context.keys.modified(key);
                context.keys.notify(EventClass::LIST, "linsert", key);
            }
        }
        Ok(Progress::Done)
    };
    context.work_on(len / ELEMENTS_AS_ONE, reading_steps(step))
}

pub(super) fn lrem(context: &mut Context<'_>) -> Result<(), Failure> {
    let count = context.words.integer(2)?;
    let from = if count < 0 { End::Tail } else { End::Head };
    let at_most = if count == 0 { usize::MAX } else { usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX) };
    let Some(len) = context.keys.look::<List>(context.words.at(1))?.map(List::len) else {
        context.reply.count(0);
        return Ok(());
    };
    context.work_on(len / ELEMENTS_AS_ONE, Removal { from, left: at_most, removed: 0, node: None })
}

/// LREM, as far as it has come.
#[derive(Debug)]
struct Removal {
    from: End,
    /// How many may still be removed.
    left: usize,
    removed: usize,
    /// The node to go on with; nothing before the first.
    node: Option<usize>,
}

impl Work for Removal {
    fn changes(&self) -> bool {
        true
    }

    fn step(&mut self, context: &mut Context<'_>, budget: usize) -> Result<Progress, Failure> {
        let (key, string) = (context.words.at(1), context.words.at(3));
        let limit = limit(&context.shared.settings);
        let mut empty = false;
        if let Some(list) = context.keys.get_mut::<List>(key)? {
            let looked_at = budget.saturating_mul(ELEMENTS_AS_ONE);
            let (removed, next) = list.remove_equal(string, self.from, self.left, limit, self.node, looked_at);
            self.removed += removed;
            self.left -= removed;
            self.node = next;
            if next.is_some() {
                return Ok(Progress::More);
            }
            empty = list.is_empty();
        }
        if self.removed > 0 {
            context.keys.modified_by(key, self.removed);
            context.keys.notify(EventClass::LIST, "lrem", key);
        }
        if empty {
            context.keys.remove_if(key, List::is_empty)?;
        }
        context.reply.count(self.removed);
        Ok(Progress::Done)
    }
}

struct Search {
    from: End,
    /// The first match that counts, beginning with 1.
    rank: u64,
    /// How many matches are given, 0 for all; without it the reply is no array.
    count: Option<usize>,
    /// How many elements are looked at.
    look_at_most: usize,
}

fn search(context: &Context<'_>) -> Result<Search, Failure> {
    const NO_RANK: &str = "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use \
                           negative to start from the end of the list";
    let words = context.words;
    let mut search = Search { from: End::Head, rank: 1, count: None, look_at_most: usize::MAX };
    let mut at = 3;
    while at < words.len() {
        if at + 1 == words.len() {
            return Err(Failure::Syntax);
        }
        if words.is(at, "RANK") {
            let rank = words.integer(at + 1)?;
            if rank == 0 {
                return Err(Failure::text(NO_RANK));
            }
            // The least integer has no positive counterpart, and counts as -1 in Redis 7.0.
            search.rank = rank.checked_neg().map_or(1, |_| rank.unsigned_abs());
            search.from = if rank < 0 { End::Tail } else { End::Head };
        } else if words.is(at, "COUNT") {
            search.count = Some(positive(words.at(at + 1), Some("ERR COUNT can't be negative"))?);
        } else if words.is(at, "MAXLEN") {
            let most = positive(words.at(at + 1), Some("ERR MAXLEN can't be negative"))?;
            search.look_at_most = if most == 0 { usize::MAX } else { most };
        } else {
            return Err(Failure::Syntax);
        }
        at += 2;
    }
    Ok(search)
}

pub(super) fn lpos(context: &mut Context<'_>) -> Result<(), Failure> {
    let Search { from, rank, count, look_at_most } = search(context)?;
    let len = context.keys.get::<List>(context.words.at(1))?.map_or(0, List::len);
    let most = match count {
        None => 1,
        Some(0) => usize::MAX,
        Some(count) => count,
    };
    let skipped = usize::try_from(rank - 1).unwrap_or(usize::MAX);
    let (end, mut place, mut matches) = (len.min(look_at_most), 0, 0);
    let mut found = Vec::new();
    let step = move |context: &mut Context<'_>, budget: usize| {
        let wanted = context.words.at(2);
        let to = end.min(place + budget.saturating_mul(ELEMENTS_AS_ONE).min(len));
        if place < to
            && let Some(list) = context.keys.look::<List>(context.words.at(1))?
        {
            let begin = place;
            let each = |element: &[u8]| {
                if element == wanted {
                    matches += 1;
                    if matches > skipped {
                        found.push(if from == End::Head { place } else { len - place - 1 });
                    }
                }
                place += 1;
                place < to && found.len() < most
            };
            match from {
                End::Head => list.each_from(begin, each),
                End::Tail => list.each_back(begin, each),
            }
        }
        if place < end && found.len() < most {
            return Ok(Progress::More);
        }
        match (count, found.first()) {
            (Some(_), _) => {
                context.reply.array(found.len());
                found.iter().for_each(|place| context.reply.count(*place));
            }
            (None, Some(place)) => context.reply.count(*place),
            (None, None) => context.reply.null(),
        }
        Ok(Progress::Done)
    };
    context.work_on(end / ELEMENTS_AS_ONE, reading_steps(step))
}
