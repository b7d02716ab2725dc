//! QUEUE FILL: a queue as another store has it, piece by piece. First comes the header, which makes a queue in the place of whatever
//! the key held; then come records. Nobody asks the queue for anything before all of them are there.

use keyspace::{Expiry, Failure, value::Kind as _, value::Queue};
use queue::Header;

use crate::Context;

use super::{BEHIND_KEY, KEY, is_log, options::unknown, queue_mut};

pub(super) fn fill(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    let key = words.at(KEY);
    if !is_log(context) {
        return Err(Failure::text("ERR QUEUE FILL is for copies between stores: QUEUE PUSH publishes messages"));
    }
    let rest = words.from(BEHIND_KEY + 1);
    if words.is(BEHIND_KEY, "HEADER") && rest.len() == 1 {
        let header =
            Header::decode(words.at(BEHIND_KEY + 1)).map_err(|reason| Failure::owned(format!("ERR {reason}")))?;
        context.keys.set(key, Queue::new(header).into_value(), Expiry::Clear)?;
    } else if words.is(BEHIND_KEY, "RECORDS") && rest.len().is_multiple_of(2) {
        let queue = queue_mut(context, key)?;
        for pair in rest.chunks_exact(2) {
            if let [name, value] = pair {
                queue.put_record(name, value);
            }
        }
    } else {
        return Err(unknown(words, BEHIND_KEY));
    }
    context.keys.modified(key);
    context.reply.ok();
    Ok(())
}
