//! `purge`: removes the object that a request found, with all its variants, or shortens its life.

use vcl::{modules::FunctionId, run::Value, subroutine::Subroutine};

use super::{Arguments, Exchange, Outcome, argument, count, fail};

/// Does what a function does.
pub(super) fn call<'w>(exchange: &impl Exchange, id: FunctionId, arguments: Arguments<'_, 'w>) -> Option<Outcome<'w>> {
    let common = exchange.common();
    if !matches!(common.subroutine, Subroutine::Hit | Subroutine::Miss) {
        return Some(fail("purge can only happen in vcl_hit{} or vcl_miss{}"));
    }
    let Some(digest) = exchange.digest() else { return Some(Ok(Value::Int(0))) };
    let cache = &common.loaded.cache;
    let seconds = |place| argument(arguments, place).and_then(Value::number);
    let (ttl, grace, keep) = (seconds(0), seconds(1), seconds(2));
    let is_hard =
        id == FunctionId::PurgeHard || [ttl, grace, keep].iter().all(|said| said.is_some_and(|said| said == 0.0));
    let purged = if is_hard {
        cache.purge(digest)
    } else {
        let left = |said: Option<f64>| said.filter(|said| *said >= 0.0);
        cache.soft_purge(digest, common.now, ttl, left(grace), left(keep))
    };
    Some(Ok(count(purged)))
}
