//! `directors.shard` and `directors.shard_param`: what their calls say becomes changes of a ring and [`Wishes`].

use telemetry::vsl::VslTag;
use vcl::{
    modules::MethodId,
    program::ObjectIndex,
    run::{Backend, Failure, Value, Workspace},
    subroutine::Subroutine,
};

use super::{
    Arguments, Exchange, Outcome, argument, fail, integer_at, is_of_backend, is_of_program, name_of, number_at, string,
    text_at,
};
use crate::{
    common::Common,
    directors::{
        By, Choice, Healthy, Shard, Wishes, hash_32,
        shard::{Change, ShardBackend},
        shard_key,
    },
};

/// What a blob begins with that stands for a set of parameters (`.use()`).
const SET_MARK: &[u8; 12] = b"\0shard_param";

fn say<T>(common: &Common, object: ObjectIndex, why: &str) -> Result<T, Failure> {
    fail(format!("vmod_directors: shard {}: {why}", name_of(&common.loaded, Backend::Object(object))))
}

fn record(common: &mut Common, tag: VslTag, object: ObjectIndex, what: &str) {
    let name = name_of(&common.loaded, Backend::Object(object));
    common.record(tag, format!("vmod_directors: shard {name}: {what}").as_bytes());
}

/// The set of parameters that a blob stands for.
fn set_of(value: Option<Value<'_>>) -> Option<ObjectIndex> {
    let Some(Value::Blob(Some(bytes))) = value else { return None };
    let number: [u8; 4] = bytes.strip_prefix(SET_MARK)?.try_into().ok()?;
    Some(ObjectIndex(u32::from_ne_bytes(number)))
}

/// Does what a shard director's method does.
pub(super) fn method<'w>(
    exchange: &mut impl Exchange,
    object: ObjectIndex,
    shard: &Shard,
    method: MethodId,
    arguments: Arguments<'_, 'w>,
) -> Option<Outcome<'w>> {
    let common = exchange.common_mut();
    Some(match method {
        MethodId::ShardSetWarmup => {
            let probability = number_at(arguments, 0);
            if (0.0..1.0).contains(&probability) {
                shard.set_warmup(probability);
            } else {
                record(common, VslTag::Notice, object, &format!(".set_warmup({probability:.6}) ignored"));
            }
            Ok(Value::Void)
        }
        MethodId::ShardSetRampup => {
            shard.set_rampup(number_at(arguments, 0).max(0.0));
            Ok(Value::Void)
        }
        MethodId::ShardAssociate => match (argument(arguments, 0), set_of(argument(arguments, 0))) {
            (Some(Value::Blob(Some(_))), None) => say(common, object, "shard .associate param invalid"),
            (_, set) => {
                shard.associate(set);
                Ok(Value::Void)
            }
        },
        MethodId::ShardAddBackend => add(common, object, arguments),
        MethodId::ShardRemoveBackend => {
            let backend = match argument(arguments, 0) {
                Some(Value::Backend(backend)) => backend,
                _ => None,
            };
            let ident = text_at(arguments, 1);
            let change = match (ident.is_empty(), backend) {
                (false, _) => Change::RemoveIdent(ident.to_vec()),
                (true, Some(backend)) => Change::RemoveBackend(backend),
                (true, None) => {
                    return Some(say(common, object, ".remove_backend(): either backend or ident are required"));
                }
            };
            common.shard_changes.push((object, change));
            Ok(Value::Bool(true))
        }
        MethodId::ShardClear => {
            common.shard_changes.push((object, Change::Clear));
            Ok(Value::Bool(true))
        }
        MethodId::ShardReconfigure => {
            let replicas = integer_at(arguments, 0);
            if replicas <= 0 {
                let what = format!(".reconfigure() invalid replicas argument {replicas}");
                record(common, VslTag::Error, object, &what);
                return Some(Ok(Value::Bool(false)));
            }
            Ok(Value::Bool(common.reconfigure_shard(object, replicas)))
        }
        MethodId::ShardKey => Ok(Value::Int(i64::from(hash_32(&[text_at(arguments, 0)])))),
        MethodId::ShardBackend => backend(exchange, object, shard, arguments),
        MethodId::ShardDebug => Ok(Value::Void),
        _ => return None,
    })
}

fn add<'w>(common: &mut Common, object: ObjectIndex, arguments: Arguments<'_, 'w>) -> Outcome<'w> {
    let Some(Value::Backend(Some(backend))) = argument(arguments, 0) else {
        return say(common, object, "None backend cannot be added");
    };
    let mut weight = 1.0;
    if argument(arguments, 3).is_some() {
        let wanted = number_at(arguments, 3);
        if wanted >= 1.0 {
            weight = wanted;
        } else {
            record(common, VslTag::Notice, object, &format!(".add_backend(weight={wanted:.6}) ignored"));
        }
    }
    let ident = Some(text_at(arguments, 1).to_vec()).filter(|ident| !ident.is_empty());
    let rampup = argument(arguments, 2).and_then(Value::number);
    let name = name_of(&common.loaded, backend).into_bytes();
    common.shard_changes.push((object, Change::Add(ShardBackend { backend, name, ident, rampup, weight })));
    Ok(Value::Bool(true))
}

/// `.backend(by, key, key_blob, alt, warmup, rampup, healthy, param, resolve)`
fn backend<'w>(
    exchange: &mut impl Exchange,
    object: ObjectIndex,
    shard: &Shard,
    arguments: Arguments<'_, 'w>,
) -> Outcome<'w> {
    let subroutine = exchange.common().subroutine;
    let is_lazy = match argument(arguments, 8) {
        Some(Value::Enum(word)) => word == "LAZY",
        _ => is_of_program(subroutine),
    };
    let says_nothing = (0..8).all(|place| argument(arguments, place).is_none());
    let itself = Ok(Value::Backend(Some(Backend::Object(object))));
    let common = exchange.common();
    if is_lazy && says_nothing {
        return itself;
    }
    if is_lazy && !is_of_backend(subroutine) {
        let why = ".backend(resolve=LAZY) with other parameters can only be used in backend/pipe context";
        return say(common, object, why);
    }
    if !is_lazy && is_of_program(subroutine) {
        return say(common, object, ".backend(resolve=NOW) can not be used in vcl_init{}/vcl_fini{}");
    }
    let given = argument(arguments, 7);
    let set = set_of(given);
    if given.is_some() && set.is_none() {
        return say(common, object, ".backend(key_blob) param invalid");
    }
    let wishes = wishes_of(exchange.common_mut(), object, "shard.backend()", arguments)?;
    let associated = shard.associated();
    if is_lazy {
        exchange.common_mut().shard_task.set_director(object, wishes, set, associated);
        return itself;
    }
    let common = exchange.common();
    let loaded = &common.loaded;
    let below = match set {
        Some(set) => loaded.shard_set(set),
        None => common.shard_task.of_director(object, associated, |set| loaded.shard_set(set)),
    };
    let mut parameters = wishes.over(below).complete();
    parameters.key = key_of(exchange, parameters.by, parameters.key);
    let common = exchange.common();
    let random = loaded.draw(common.now);
    let choice = Choice { key: b"", random, now: common.now, shard: parameters };
    Ok(Value::Backend(shard.choose(&choice, &**loaded)))
}

fn key_of(exchange: &impl Exchange, by: By, key: u32) -> u32 {
    let digest = exchange.digest().filter(|_| is_of_backend(exchange.common().subroutine));
    shard_key(by, key, exchange.url(), digest)
}

/// What the first seven arguments say, as `.backend()` and `.set()` have them.
fn wishes_of(
    common: &mut Common,
    object: ObjectIndex,
    function: &str,
    arguments: Arguments<'_, '_>,
) -> Result<Wishes, Failure> {
    let word = |place| match argument(arguments, place) {
        Some(Value::Enum(word)) => Some(word),
        _ => None,
    };
    let said = word(0).map(By::of_word);
    let (number, blob) = (argument(arguments, 1), argument(arguments, 2));
    let by = said.unwrap_or_default();
    let key = match (by, number, blob) {
        (By::Key, Some(Value::Int(key)), _) => match u32::try_from(key) {
            Ok(key) => key,
            Err(_) => return say(common, object, &format!("{function} invalid key argument {key} with by=KEY")),
        },
        (By::Key, ..) => return say(common, object, &format!("{function} missing key argument with by=KEY")),
        (By::Blob, _, None) => {
            return say(common, object, &format!("{function} missing key_blob argument with by=BLOB"));
        }
        (By::Blob, _, Some(Value::Blob(Some(bytes)))) if !bytes.is_empty() => {
            bytes.iter().take(4).fold(0_u32, |key, byte| key << 8 | u32::from(*byte))
        }
        (By::Blob, ..) => {
            record(
                common,
                VslTag::Error,
                object,
                &format!("{function} by=BLOB but no or empty key_blob - using key 0"),
            );
            0
        }
        (By::Hash | By::Url, None, None) => 0,
        (by, ..) => {
            let why = format!("{function} key and key_blob arguments are invalid with by={}", by.name());
            return say(common, object, &why);
        }
    };
    let alternative = match argument(arguments, 3) {
        Some(Value::Int(wanted)) if wanted < 0 => {
            return say(common, object, &format!("{function} invalid alt argument {wanted}"));
        }
        Some(Value::Int(wanted)) => Some(wanted),
        _ => None,
    };
    let warmup = argument(arguments, 4).and_then(Value::number);
    #[expect(clippy::float_cmp, reason = "-1 is written as such")]
    if let Some(wanted) = warmup.filter(|wanted| !(*wanted == -1.0 || (0.0..=1.0).contains(wanted))) {
        return say(common, object, &format!("{function} invalid warmup argument {wanted:.6}"));
    }
    Ok(Wishes {
        by: said.map(|by| (by, key)),
        alternative,
        warmup,
        rampup: argument(arguments, 5).map(Value::is_true),
        healthy: word(6).map(Healthy::of_word),
    })
}

/// Does what a method of a set of parameters does.
pub(super) fn parameters<'w>(
    exchange: &mut impl Exchange,
    object: ObjectIndex,
    method: MethodId,
    arguments: Arguments<'_, 'w>,
    workspace: &'w Workspace,
) -> Option<Outcome<'w>> {
    let common = exchange.common_mut();
    let subroutine = common.subroutine;
    let wishes = match method {
        MethodId::ShardParamClear | MethodId::ShardParamSet => {
            let function = if method == MethodId::ShardParamSet { "set" } else { "clear" };
            if !is_of_backend(subroutine) && !is_of_program(subroutine) {
                let why = format!("shard_param.{function}() may only be used in vcl_init and in backend/pipe context");
                return Some(say(common, object, &why));
            }
            let said = match method {
                MethodId::ShardParamSet => wishes_of(common, object, "shard_param.set()", arguments),
                _ => Ok(Wishes::default()),
            };
            return Some(said.map(|wishes| {
                if subroutine == Subroutine::Init || subroutine == Subroutine::Fini {
                    common.loaded.set_shard_set(object, wishes);
                } else {
                    common.shard_task.set_parameters(object, wishes);
                }
                Value::Void
            }));
        }
        MethodId::ShardParamUse => {
            let blob = [SET_MARK.as_slice(), &object.0.to_ne_bytes()].concat();
            return Some(workspace.keep(&blob).map(|bytes| Value::Blob(Some(bytes))));
        }
        _ if is_of_backend(subroutine) => {
            let loaded = &common.loaded;
            common.shard_task.of_set(object, |set| loaded.shard_set(set))
        }
        _ => common.loaded.shard_set(object),
    };
    let complete = wishes.complete();
    Some(match method {
        MethodId::ShardParamGetBy => string(workspace, Some(complete.by.name().as_bytes())),
        MethodId::ShardParamGetKey => Ok(Value::Int(i64::from(key_of(exchange, complete.by, complete.key)))),
        MethodId::ShardParamGetAlt => Ok(Value::Int(complete.alternative)),
        MethodId::ShardParamGetWarmup => Ok(Value::Real(complete.warmup)),
        MethodId::ShardParamGetRampup => Ok(Value::Bool(complete.rampup)),
        MethodId::ShardParamGetHealthy => string(workspace, Some(complete.healthy.name().as_bytes())),
        _ => return None,
    })
}
