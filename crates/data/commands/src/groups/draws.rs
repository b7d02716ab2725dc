//! Many random elements of a collection, in steps.

use keyspace::{Failure, random::Random, value::Kind};
use resp::Reply;

use crate::{
    Context,
    arguments::Draws,
    sample::Chooser,
    server::{Progress, giving_steps, reading_steps},
};

/// Whether so many draws from so many elements are too many for one go.
pub(super) fn take_steps(context: &Context<'_>, draws: Draws, len: usize) -> bool {
    let elements = match draws {
        Draws::Any(count) => count,
        Draws::Distinct(count) if count < len / 16 => count,
        // They are chosen in the order of the collection.
        Draws::Distinct(_) => len,
    };
    context.session.takes_steps(elements, context.shared)
}

/// Answers with elements of the collection that the command's first key has. `draw` writes any one of them. `scan` writes, of
/// about so many from a cursor on, those for which it is told to, and returns where to go on, 0 at the end.
pub(super) fn give<K: Kind>(
    context: &mut Context<'_>,
    draws: Draws,
    len: usize,
    header: impl Fn(&mut Reply<'_>, usize) + 'static,
    draw: impl Fn(&K, &mut Random, &mut Reply<'_>) + 'static,
    scan: impl Fn(&K, u64, usize, &mut Reply<'_>, &mut dyn FnMut() -> bool) -> u64 + 'static,
) -> Result<(), Failure> {
    match draws {
        Draws::Any(count) => {
            let mut left = count;
            let step = move |context: &mut Context<'_>, budget: usize| {
                if left == count {
                    header(&mut context.reply, count);
                }
                let most = context.shared.reply_max(context.session);
                let some = budget.min(left);
                left -= some;
                let Some(collection) = context.keys.look::<K>(context.words.at(1))? else { return Ok(Progress::Done) };
                for _ in 0..some {
                    draw(collection, &mut context.shared.random, &mut context.reply);
                    if Context::closes_for(&context.reply, most, context.session) {
                        return Ok(Progress::Done);
                    }
                }
                Ok(Progress::over_if(left == 0))
            };
            context.work_on(usize::MAX, reading_steps(step))
        }
        Draws::Distinct(count) => {
            let (mut chooser, mut cursor) = (Chooser::new(count, len), 0);
            let step = move |context: &mut Context<'_>, budget: usize| {
                if cursor == 0 {
                    header(&mut context.reply, count.min(len));
                }
                let random = &mut context.shared.random;
                if let Some(collection) = context.keys.look::<K>(context.words.at(1))? {
                    cursor = scan(collection, cursor, budget, &mut context.reply, &mut || chooser.takes(random));
                }
                Ok(Progress::over_if(cursor == 0))
            };
            context.work_on(usize::MAX, giving_steps(step))
        }
    }
}
