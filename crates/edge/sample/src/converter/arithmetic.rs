//! Integers. Results that 64 bits do not hold are the nearest that they do.

use super::{integer, variable};
use crate::arguments::{Argument, ArgumentType, Arguments};
use crate::keyword::{Call, Converter};
use crate::number;
use crate::parser::ParseContext;
use crate::value::{Type, Value};
use crate::variables::VariableName;

const OPERAND: &[ArgumentType] = &[ArgumentType::Str];

/// A converter of two integers, the second an argument.
macro_rules! binary {
    ($name:literal, $doc:literal, $run:expr) => {
        Converter::new($name, Type::Sint, Type::Sint, |value, call| {
            let run: fn(i64, i64) -> i64 = $run;
            Some(Value::Sint(run(integer(&value)?, operand(call)?)))
        })
        .takes(OPERAND, 1)
        .checked(check_operand)
        .doc($doc, concat!("http-request set-var(txn.n) int(12),", $name, "(5)"))
    };
}

/// A converter of one integer to a boolean.
macro_rules! test {
    ($name:literal, $doc:literal, $run:expr) => {
        Converter::new($name, Type::Sint, Type::Bool, |value, _| {
            let run: fn(i64) -> bool = $run;
            Some(Value::Bool(run(integer(&value)?)))
        })
        .doc($doc, concat!("acl yes int(12),", $name))
    };
}

pub(super) const CONVERTERS: &[Converter] = &[
    binary!("add", "The sum with an integer or a variable.", i64::saturating_add),
    binary!("and", "The bits that an integer or a variable has too.", |left, right| left & right),
    test!("bool", "Whether it is not zero.", |value| value != 0),
    Converter::new("cpl", Type::Sint, Type::Sint, |value, _| Some(Value::Sint(!integer(&value)?)))
        .doc("All bits flipped.", "http-request set-var(txn.n) int(12),cpl"),
    binary!("div", "The quotient by an integer or a variable; the largest integer for zero.", |left, right| {
        if right == 0 { i64::MAX } else { left.saturating_div(right) }
    }),
    test!("even", "Whether it is even.", |value| value & 1 == 0),
    binary!("mod", "The remainder by an integer or a variable; zero for zero.", |left, right| {
        if right == 0 { 0 } else { left.wrapping_rem(right) }
    }),
    binary!("mul", "The product with an integer or a variable.", i64::saturating_mul),
    Converter::new("neg", Type::Sint, Type::Sint, |value, _| Some(Value::Sint(integer(&value)?.saturating_neg())))
        .doc("The opposite.", "http-request set-var(txn.n) int(12),neg"),
    test!("not", "Whether it is zero.", |value| value == 0),
    test!("odd", "Whether it is odd.", |value| value & 1 == 1),
    binary!("or", "The bits that it or an integer or a variable has.", |left, right| left | right),
    binary!("sub", "The difference to an integer or a variable.", i64::saturating_sub),
    binary!("xor", "The bits that either it or an integer or a variable has.", |left, right| left ^ right),
    Converter::new("iif", Type::Bool, Type::Str, |value, call| {
        let position = usize::from(integer(&value)? == 0);
        call.text(position).map(Value::str)
    })
    .takes(&[ArgumentType::Str, ArgumentType::Str], 2)
    .doc(
        "The first argument if true, otherwise the second.",
        "http-request set-header X-Proto %[ssl_fc,iif(https,http)]",
    ),
];

fn operand(call: &Call<'_>) -> Option<i64> {
    match call.integer(0) {
        Some(value) => Some(value),
        None => integer(&variable(call, 0, Type::Sint)?),
    }
}

/// Turns the argument into a variable, if it is the name of one, or into an integer.
fn check_operand(arguments: &mut Arguments, _: &mut ParseContext<'_>) -> Result<(), String> {
    let Some(Argument::Str(text)) = arguments.first() else { return Ok(()) };
    let argument = match VariableName::parse(text) {
        Ok(name) => Argument::Variable(name),
        Err(_) => match number::read_int64(text) {
            (value, used) if used == text.len() => Argument::Sint(value),
            _ => return Err("expects an integer or a variable name".to_owned()),
        },
    };
    *arguments = vec![argument];
    Ok(())
}
