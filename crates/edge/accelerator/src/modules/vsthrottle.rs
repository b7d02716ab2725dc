//! `vsthrottle` of varnish-modules: who asks too much.

use sha2::{Digest as _, Sha256};
use vcl::{modules::FunctionId, run::Value};

use super::{Arguments, Outcome, argument, integer_at, number_at};
use crate::{common::Common, lasting::ThrottleCall};

/// A key with other numbers is another key; one that is not set is none.
fn asked_by(arguments: Arguments<'_, '_>, now: f64) -> Option<ThrottleCall> {
    let text = argument(arguments, 0).and_then(Value::text)?;
    let (limit, period, block) = (integer_at(arguments, 1), number_at(arguments, 2), number_at(arguments, 3));
    let mut hasher = Sha256::new();
    hasher.update(text);
    hasher.update(limit.to_ne_bytes());
    hasher.update(period.to_ne_bytes());
    hasher.update(block.to_ne_bytes());
    Some(ThrottleCall { key: hasher.finalize().into(), limit, period, block, now })
}

/// Does what a function does.
pub(super) fn call<'w>(common: &Common, id: FunctionId, arguments: Arguments<'_, 'w>) -> Option<Outcome<'w>> {
    let throttles = &common.loaded.lasting.throttles;
    let asked = asked_by(arguments, common.now);
    Some(Ok(match (id, asked) {
        (FunctionId::VsthrottleIsDenied, Some(asked)) => Value::Bool(throttles.is_denied(&asked)),
        (FunctionId::VsthrottleIsDenied, None) => Value::Bool(true),
        (FunctionId::VsthrottleReturnToken, Some(asked)) => {
            throttles.return_token(&asked);
            Value::Void
        }
        (FunctionId::VsthrottleRemaining, Some(asked)) => Value::Int(throttles.remaining(&asked)),
        (FunctionId::VsthrottleRemaining, None) => Value::Int(-1),
        (FunctionId::VsthrottleBlocked, Some(asked)) => Value::Duration(throttles.blocked(&asked)),
        (FunctionId::VsthrottleBlocked, None) => Value::Duration(-1.0),
        (FunctionId::VsthrottleRemoveBucket, Some(asked)) => {
            throttles.remove(&asked);
            Value::Void
        }
        (FunctionId::VsthrottleReturnToken | FunctionId::VsthrottleRemoveBucket, None) => Value::Void,
        _ => return None,
    }))
}
