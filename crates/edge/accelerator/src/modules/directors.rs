//! `directors`: those with lists of members. The one with a ring is in `shard`.

use vcl::{
    modules::Method,
    program::ObjectIndex,
    run::{Backend, Value},
};

use super::{Arguments, Outcome, argument, fail, is_of_program, name_of, number_at, text_at};
use crate::{
    common::Common,
    directors::{Director, Members, Policy, Shard},
    loaded::Made,
};

/// Makes a director.
pub(super) fn make(class: &str, arguments: Arguments<'_, '_>) -> Option<Made> {
    let policy = match class {
        "round_robin" => Policy::RoundRobin,
        "fallback" => Policy::Fallback { sticky: argument(arguments, 0).is_some_and(Value::is_true) },
        "random" => Policy::Random,
        "hash" => Policy::Hash,
        "shard" => return Some(Made::Director(Director::Shard(Shard::default()))),
        "shard_param" => return Some(Made::ShardParameters(std::sync::Mutex::default())),
        _ => return None,
    };
    Some(Made::Director(Director::Members(Members::new(policy))))
}

/// `directors.lookup(name)`
pub(super) fn lookup<'w>(common: &Common, arguments: Arguments<'_, 'w>) -> Outcome<'w> {
    if !is_of_program(common.subroutine) {
        return fail("lookup() may only be called from vcl_init / vcl_fini");
    }
    let name = String::from_utf8_lossy(text_at(arguments, 0)).into_owned();
    Ok(Value::Backend(common.loaded.named(&name)))
}

/// Does what a director's method does.
pub(super) fn method<'w>(
    common: &Common,
    object: ObjectIndex,
    members: &Members,
    method: &'static Method,
    arguments: Arguments<'_, 'w>,
) -> Option<Outcome<'w>> {
    let of_director = || name_of(&common.loaded, Backend::Object(object));
    let given = match argument(arguments, 0) {
        Some(Value::Backend(backend)) => backend,
        _ => None,
    };
    Some(match method.name {
        "add_backend" => match given {
            Some(backend) => {
                let weight = if arguments.len() > 1 { number_at(arguments, 1) } else { 0.0 };
                members.add(backend, weight);
                Ok(Value::Void)
            }
            None => fail(format!("{}: None backend cannot be added", of_director())),
        },
        "remove_backend" => match given {
            Some(backend) => {
                members.remove(backend);
                Ok(Value::Void)
            }
            None => fail(format!("{}: None backend cannot be removed", of_director())),
        },
        // NOTE: the others choose when the request goes out, as in Varnish; the one by a key must choose now.
        "backend" if members.policy() == Policy::Hash => {
            let loaded = &common.loaded;
            Ok(Value::Backend(members.choose(text_at(arguments, 0), 0.0, |member| loaded.is_healthy(member))))
        }
        "backend" => Ok(Value::Backend(Some(Backend::Object(object)))),
        _ => return None,
    })
}
