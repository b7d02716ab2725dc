//! Variables and captures.

use super::{MADE_BYTES_MAX, bytes, variable};
use crate::arguments::{Argument, ArgumentType, Arguments};
use crate::context::Direction;
use crate::keyword::{Call, Converter};
use crate::value::{Type, Value};
use crate::variables::{SetCondition, VariableName};

const THREE: &[ArgumentType] = &[ArgumentType::Str, ArgumentType::Str, ArgumentType::Str];
const FIVE: &[ArgumentType] =
    &[ArgumentType::Str, ArgumentType::Str, ArgumentType::Str, ArgumentType::Str, ArgumentType::Str];

pub(super) const CONVERTERS: &[Converter] = &[
    Converter::new("add_item", Type::Str, Type::Str, |value, call| {
        let mut text = bytes(value)?.into_owned();
        let added = variable(call, 1, Type::Str).and_then(bytes);
        let (delimiter, suffix) = (call.text(0)?, call.text(2).unwrap_or_default());
        let adds = added.as_ref().is_some_and(|added| !added.is_empty()) || !suffix.is_empty();
        if !text.is_empty() && adds {
            text.extend_from_slice(delimiter);
        }
        text.extend_from_slice(added.as_deref().unwrap_or_default());
        text.extend_from_slice(suffix);
        text.truncate(MADE_BYTES_MAX);
        Some(Value::str(text))
    })
    .takes(THREE, 2)
    .checked(|arguments, _| {
        let is_empty = |argument: Option<&Argument>| !matches!(argument, Some(Argument::Str(text)) if !text.is_empty());
        let nothing = is_empty(arguments.get(1)) && is_empty(arguments.get(2));
        check_middle(arguments)?;
        if nothing { Err("one of the optional arguments has to be nonempty".to_owned()) } else { Ok(()) }
    })
    .doc(
        "With a delimiter, a variable and a suffix added; the delimiter only between items.",
        "http-request set-var(req.tags) var(req.tags),add_item(;,txn.tag)",
    ),
    Converter::new("concat", Type::Str, Type::Str, |value, call| {
        let mut text = bytes(value)?.into_owned();
        text.extend_from_slice(call.text(0).unwrap_or_default());
        if let Some(added) = variable(call, 1, Type::Str).and_then(bytes) {
            text.extend_from_slice(&added);
        }
        text.extend_from_slice(call.text(2).unwrap_or_default());
        text.truncate(MADE_BYTES_MAX);
        Some(Value::str(text))
    })
    .takes(THREE, 1)
    .checked(|arguments, _| check_middle(arguments))
    .doc(
        "With a string, a variable and another string added.",
        "http-request set-var(txn.id) src,concat(<,txn.user,>)",
    ),
    Converter::new("strcmp", Type::Str, Type::Sint, |value, call| {
        let (left, right) = (bytes(value)?, bytes(variable(call, 0, Type::Str)?)?);
        let difference = left.iter().zip(right.iter()).find(|(left, right)| left != right);
        Some(Value::Sint(match difference {
            Some((left, right)) => i64::from(*left) - i64::from(*right),
            None => match left.len().cmp(&right.len()) {
                std::cmp::Ordering::Less => -1,
                std::cmp::Ordering::Equal => 0,
                std::cmp::Ordering::Greater => 1,
            },
        }))
    })
    .takes(&[ArgumentType::Str], 1)
    .checked(|arguments, _| check_required(arguments))
    .doc(
        "0 if it equals a variable, otherwise whether it sorts before or after.",
        "acl same ssl_fc_sni,strcmp(txn.host) eq 0",
    ),
    Converter::new("set-var", Type::Any, Type::Any, set)
        .takes(FIVE, 1)
        .checked(|arguments, parser| {
            crate::fetch::check_variable(arguments, parser)?;
            check_conditions(arguments)
        })
        .doc(
            "The sample, put into a variable on its way, if the conditions hold.",
            "http-request set-header X-Host %[hdr(host),lower,set-var(txn.host)]",
        ),
    Converter::new("unset-var", Type::Any, Type::Any, |value, call| match call.arguments.first() {
        Some(Argument::Variable(name)) => call.context.unset_variable(name).then_some(value),
        _ => None,
    })
    .takes(&[ArgumentType::Str], 1)
    .checked(crate::fetch::check_variable)
    .doc(
        "The sample; a variable is forgotten on its way.",
        "http-request set-header X-Host %[hdr(host),unset-var(txn.host)]",
    ),
    Converter::new("capture-req", Type::Str, Type::Str, |value, call| capture(value, call, Direction::Request))
        .takes(&[ArgumentType::Sint], 1)
        .doc(
            "The sample, put into a capture slot of the request on its way.",
            "http-request set-header X-Host %[hdr(host),capture-req(0)]",
        ),
    Converter::new("capture-res", Type::Str, Type::Str, |value, call| capture(value, call, Direction::Response))
        .takes(&[ArgumentType::Sint], 1)
        .doc(
            "The sample, put into a capture slot of the response on its way.",
            "http-response set-header X-Type %[res.hdr(content-type),capture-res(0)]",
        ),
];

/// Turns the second argument into a variable, if there is one.
fn check_middle(arguments: &mut [Argument]) -> Result<(), String> {
    if let Some(argument) = arguments.get_mut(1)
        && let Argument::Str(text) = argument
        && !text.is_empty()
    {
        let name = VariableName::parse(text)
            .map_err(|_| format!("failed to register variable name '{}'", String::from_utf8_lossy(text)))?;
        *argument = Argument::Variable(name);
    }
    Ok(())
}

/// Turns the first argument into a variable, which must be there.
pub(super) fn check_required(arguments: &mut [Argument]) -> Result<(), String> {
    if let Some(argument) = arguments.first_mut()
        && let Argument::Str(text) = argument
    {
        if text.is_empty() {
            return Err("missing variable name".to_owned());
        }
        let name = VariableName::parse(text)
            .map_err(|_| format!("failed to register variable name '{}'", String::from_utf8_lossy(text)))?;
        *argument = Argument::Variable(name);
    }
    Ok(())
}

/// Turns everything after the variable into conditions.
fn check_conditions(arguments: &mut Arguments) -> Result<(), String> {
    let mut conditions = Vec::new();
    for argument in arguments.iter().skip(1) {
        let Argument::Str(word) = argument else { continue };
        let condition = SetCondition::parse(word)
            .ok_or_else(|| format!("unknown condition \"{}\"", String::from_utf8_lossy(word)))?;
        conditions.push(condition);
    }
    arguments.truncate(1);
    arguments.push(Argument::Conditions(conditions));
    Ok(())
}

fn set<'a>(value: Value<'a>, call: &Call<'a>) -> Option<Value<'a>> {
    let Some(Argument::Variable(name)) = call.arguments.first() else { return None };
    if let Some(Argument::Conditions(conditions)) = call.arguments.get(1)
        && !conditions.is_empty()
    {
        let old = call.context.variable(name);
        if !conditions.iter().all(|condition| condition.allows_for(name, old.as_ref(), &value)) {
            return None;
        }
    }
    call.context.set_variable(name, value.clone().into_static()).then_some(value)
}

fn capture<'a>(value: Value<'a>, call: &Call<'a>, direction: Direction) -> Option<Value<'a>> {
    let slot = usize::try_from(call.integer(0)?).ok()?;
    let text = bytes(value)?;
    call.context.set_capture(direction, slot, &text).then_some(Value::Str(text))
}
