//! The table of converters.

mod arithmetic;
mod crypto;
mod encoding;
mod fix;
mod json;
mod later;
mod lookup;
mod mqtt;
mod protobuf;
mod stick;
mod text;
mod time;
mod token;
mod variable;

use crate::arguments::Argument;
use crate::bytes::Bytes;
use crate::context::Context;
use crate::keyword::{Call, Converter};
use crate::value::{Type, Value};

const TABLES: &[&[Converter]] = &[
    arithmetic::CONVERTERS,
    text::CONVERTERS,
    encoding::CONVERTERS,
    crypto::CONVERTERS,
    time::CONVERTERS,
    json::CONVERTERS,
    token::CONVERTERS,
    lookup::CONVERTERS,
    fix::CONVERTERS,
    mqtt::CONVERTERS,
    protobuf::CONVERTERS,
    variable::CONVERTERS,
    stick::CONVERTERS,
    later::CONVERTERS,
];

/// The most bytes that a converter makes, if it makes more than it gets: repeated, growth has no other bound.
const MADE_BYTES_MAX: usize = 65_536;

/// Every converter of HAProxy 2.6, supported or not, in groups.
pub fn converters() -> impl Iterator<Item = &'static Converter> {
    TABLES.iter().flat_map(|table| table.iter())
}

/// The converter called `name`.
pub(crate) fn find(name: &str) -> Option<&'static Converter> {
    converters().find(|converter| converter.name == name || converter.aliases.contains(&name))
}

/// The name of every converter.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    converters().flat_map(|converter| std::iter::once(converter.name).chain(converter.aliases.iter().copied()))
}

/// The integer of a value that was cast to one.
fn integer(value: &Value<'_>) -> Option<i64> {
    match value {
        Value::Sint(value) => Some(*value),
        Value::Bool(value) => Some(i64::from(*value)),
        _ => None,
    }
}

/// The bytes of a value that was cast to a string or a block.
fn bytes<'a>(value: Value<'a>) -> Option<Bytes<'a>> {
    match value {
        Value::Str(bytes) | Value::Bin(bytes) | Value::Meth(bytes) => Some(bytes),
        _ => None,
    }
}

/// The value of the variable that is the argument at `position`, cast to `to`.
fn variable(call: &Call<'_>, position: usize, to: Type) -> Option<Value<'static>> {
    match call.arguments.get(position)? {
        Argument::Variable(name) => call.context.variable(name)?.cast(to),
        _ => None,
    }
}

/// The text of the argument at `position`: what is written there, or what the variable named there holds.
fn text_or_variable<'a>(call: &Call<'a>, position: usize) -> Option<Bytes<'a>> {
    match call.text(position) {
        Some(text) => Some(Bytes::Borrowed(text)),
        None => bytes(variable(call, position, Type::Str)?),
    }
}

/// The name of the proxy that a name without one belongs to.
fn current_backend(context: &dyn Context) -> Option<&str> {
    context.backend().map(|backend| backend.name)
}
