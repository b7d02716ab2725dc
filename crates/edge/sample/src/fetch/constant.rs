//! Constants, and what the process itself knows.

use std::time::Duration;

use crate::arguments::{Argument, ArgumentType, Arguments};
use crate::keyword::{Call, Fetch, Fetched};
use crate::number;
use crate::parser::ParseContext;
use crate::place::{Source, Sources};
use crate::value::{Type, Value};

const CONSTANT: Sources = Sources::of(&[Source::Constant]);
const INTERNAL: Sources = Sources::of(&[Source::Internal]);
const STRING: &[ArgumentType] = &[ArgumentType::Str];

pub(super) const FETCHES: &[Fetch] = &[
    Fetch::new("always_false", Type::Bool, CONSTANT, |_, _| Fetched::Value(Value::Bool(false)))
        .doc("False.", "acl never always_false"),
    Fetch::new("always_true", Type::Bool, CONSTANT, |_, _| Fetched::Value(Value::Bool(true)))
        .doc("True.", "acl any always_true"),
    Fetch::new("bin", Type::Bin, CONSTANT, |call, _| call.text(0).map(Value::bin).into())
        .takes(STRING, 1)
        .checked(check_bin)
        .doc("The bytes written in hexadecimal.", "http-request return string x hdr x-id %[bin(0a0b),hex]"),
    Fetch::new("bool", Type::Bool, CONSTANT, |call, _| call.integer(0).map(|value| Value::Bool(value != 0)).into())
        .takes(STRING, 1)
        .checked(check_bool)
        .doc("A boolean, written true, false, 1 or 0.", "http-request set-var(txn.seen) bool(true)"),
    Fetch::new("date", Type::Sint, CONSTANT, date)
        .takes(&[ArgumentType::Sint, ArgumentType::Str], 0)
        .checked(check_date)
        .doc(
            "Seconds since 1970, plus an offset; with a second argument in that unit: s, ms or us.",
            "http-response set-header Expires %[date(3600),http_date]",
        ),
    Fetch::new("date_us", Type::Sint, CONSTANT, |call, _| {
        call.changing(Value::Sint(i64::from(call.context.now().subsec_micros())))
    })
    .doc("The microseconds of the current second.", "log-format %[date].%[date_us]"),
    Fetch::new("env", Type::Str, CONSTANT, |call, _| {
        call.text(0).and_then(|name| call.context.environment(name)).map(Value::Str).into()
    })
    .takes(STRING, 1)
    .doc("A variable of the environment.", "http-request set-header X-Site %[env(SITE)]"),
    Fetch::new("hostname", Type::Str, CONSTANT, |call, _| Fetched::Value(Value::str(call.context.process().hostname)))
        .doc("The name of the machine.", "http-response set-header X-Served-By %[hostname]"),
    Fetch::new("int", Type::Sint, CONSTANT, |call, _| call.integer(0).map(Value::Sint).into())
        .takes(&[ArgumentType::Sint], 1)
        .doc("An integer.", "http-request set-var(txn.limit) int(10)"),
    Fetch::new("ipv4", Type::Ipv4, CONSTANT, |call, _| match call.arguments.first() {
        Some(Argument::Ipv4(address)) => Fetched::Value(Value::Ipv4(*address)),
        _ => Fetched::Missing,
    })
    .takes(&[ArgumentType::Ipv4], 1)
    .doc("An IPv4 address.", "http-request set-src ipv4(192.0.2.1)"),
    Fetch::new("ipv6", Type::Ipv6, CONSTANT, |call, _| match call.arguments.first() {
        Some(Argument::Ipv6(address)) => Fetched::Value(Value::Ipv6(*address)),
        _ => Fetched::Missing,
    })
    .takes(&[ArgumentType::Ipv6], 1)
    .doc("An IPv6 address.", "http-request set-src ipv6(2001:db8::1)"),
    Fetch::new("meth", Type::Meth, CONSTANT, |call, _| call.text(0).map(|text| Value::Meth(text.into())).into())
        .takes(STRING, 1)
        .checked(check_method)
        .doc("An HTTP method.", "http-request set-var(txn.method) meth(GET)"),
    Fetch::new("nbproc", Type::Sint, CONSTANT, |_, _| Fetched::Value(Value::Sint(1)))
        .doc("The number of processes, always 1.", "log-format %[nbproc]"),
    Fetch::new("proc", Type::Sint, CONSTANT, |_, _| Fetched::Value(Value::Sint(1)))
        .doc("The number of the process, always 1.", "log-format %[proc]"),
    Fetch::new("rand", Type::Sint, CONSTANT, random)
        .takes(&[ArgumentType::Sint], 0)
        .doc("A random integer below the argument, or of 32 bits.", "use_backend canary if { rand(100) lt 5 }"),
    Fetch::new("stopping", Type::Bool, INTERNAL, |call, _| {
        Fetched::Value(Value::Bool(call.context.process().stopping))
    })
    .doc("Whether the process is stopping.", "http-after-response set-header Connection close if { stopping }"),
    Fetch::new("str", Type::Str, CONSTANT, |call, _| call.text(0).map(Value::str).into())
        .takes(STRING, 1)
        .doc("A string.", "http-request set-var(txn.site) str(main)"),
    Fetch::new("thread", Type::Sint, CONSTANT, |call, _| {
        Fetched::Value(Value::Sint(i64::from(call.context.process().thread)))
    })
    .doc("The number of the thread, from 0.", "http-response set-header X-Thread %[thread]"),
    Fetch::new("uuid", Type::Str, CONSTANT, uuid)
        .takes(&[ArgumentType::Sint], 0)
        .checked(check_uuid)
        .doc("A random UUID, version 4.", "http-request set-header X-Request-Id %[uuid()]"),
    Fetch::new("var", Type::Any, CONSTANT, variable)
        .takes(&[ArgumentType::Str, ArgumentType::Str], 1)
        .checked(super::check_variable)
        .doc(
            "A variable, or the second argument as a string while it is not set.",
            "use_backend %[var(txn.pool,main)]",
        ),
    Fetch::not_yet("cpu_calls", Type::Sint, INTERNAL, PROFILING, "How often the stream was woken up."),
    Fetch::not_yet("cpu_ns_avg", Type::Sint, INTERNAL, PROFILING, "Nanoseconds of processor time per wake-up."),
    Fetch::not_yet("cpu_ns_tot", Type::Sint, INTERNAL, PROFILING, "Nanoseconds of processor time of the stream."),
    Fetch::not_yet(
        "lat_ns_avg",
        Type::Sint,
        INTERNAL,
        PROFILING,
        "Nanoseconds of waiting for the processor per wake-up.",
    ),
    Fetch::not_yet(
        "lat_ns_tot",
        Type::Sint,
        INTERNAL,
        PROFILING,
        "Nanoseconds of waiting for the processor of the stream.",
    ),
];

const PROFILING: &str = "task profiling";

fn text(arguments: &[Argument]) -> &[u8] {
    match arguments.first() {
        Some(Argument::Str(text)) => text,
        _ => &[],
    }
}

fn check_bin(arguments: &mut Arguments, _: &mut ParseContext<'_>) -> Result<(), String> {
    let bytes = number::parse_hexadecimal(text(arguments))?;
    *arguments = vec![Argument::Str(bytes.into_boxed_slice())];
    Ok(())
}

fn check_bool(arguments: &mut Arguments, _: &mut ParseContext<'_>) -> Result<(), String> {
    let value = match text(arguments).to_ascii_lowercase().as_slice() {
        b"true" | b"1" => 1,
        b"false" | b"0" => 0,
        _ => return Err("Expects 'true', 'false', '0' or '1'".to_owned()),
    };
    *arguments = vec![Argument::Sint(value)];
    Ok(())
}

fn check_method(arguments: &mut Arguments, _: &mut ParseContext<'_>) -> Result<(), String> {
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    if text(arguments).iter().all(is_token) { Ok(()) } else { Err("expects valid method.".to_owned()) }
}

fn check_uuid(arguments: &mut Arguments, _: &mut ParseContext<'_>) -> Result<(), String> {
    match arguments.first() {
        Some(Argument::Sint(version)) if *version != 4 => Err(format!("Unsupported UUID version: '{version}'")),
        _ => Ok(()),
    }
}

fn check_date(arguments: &mut Arguments, _: &mut ParseContext<'_>) -> Result<(), String> {
    match arguments.get(1) {
        Some(Argument::Str(unit)) if !matches!(&**unit, b"s" | b"ms" | b"us") => {
            Err(format!("expects 's', 'ms' or 'us', got '{}'", String::from_utf8_lossy(unit)))
        }
        _ => Ok(()),
    }
}

/// A time in the unit asked for.
fn in_unit(time: Duration, unit: &[u8]) -> i64 {
    let value = match unit {
        b"ms" => time.as_millis(),
        b"us" => time.as_micros(),
        _ => u128::from(time.as_secs()),
    };
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn date<'a>(call: &Call<'a>, _: &mut crate::keyword::Cursor) -> Fetched<'a> {
    let now = in_unit(call.context.now(), call.text(1).unwrap_or_default());
    call.changing(Value::Sint(now.saturating_add(call.integer(0).unwrap_or(0))))
}

fn random<'a>(call: &Call<'a>, _: &mut crate::keyword::Cursor) -> Fetched<'a> {
    let bits = i128::from(call.context.random() >> 32);
    // Scaling uses all bits; a remainder would not.
    let scaled = match call.integer(0) {
        Some(range) => (bits * i128::from(range)) >> 32,
        None => bits,
    };
    call.changing(Value::Sint(i64::try_from(scaled).unwrap_or(0)))
}

fn uuid<'a>(call: &Call<'a>, _: &mut crate::keyword::Cursor) -> Fetched<'a> {
    let bits = u128::from(call.context.random()) << 64 | u128::from(call.context.random());
    // RFC 4122, section 4.4: the version is 4, and the variant's two bits are 10.
    let bits = bits & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let digits = format!("{bits:032x}");
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
    let text = [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-");
    call.changing(Value::str(text))
}

fn variable<'a>(call: &Call<'a>, _: &mut crate::keyword::Cursor) -> Fetched<'a> {
    let Some(Argument::Variable(name)) = call.arguments.first() else { return Fetched::Missing };
    // A default stands for a value that is not set, not for a scope that is not there.
    let default = || if call.context.has_scope(name.scope()) { call.text(1).map(Value::str) } else { None };
    call.context.variable(name).or_else(default).into()
}
