//! Maps, and numbers of proxies asked for by a name in the sample.

use std::sync::Arc;

use super::{bytes, current_backend};
use crate::arguments::{Argument, ArgumentType, Arguments};
use crate::context::{BackendMetric, ServerMetric};
use crate::keyword::{Call, Converter};
use crate::map::Map;
use crate::parser::ParseContext;
use crate::pattern::MatchMethod;
use crate::value::{Type, Value};

const FILE_DEFAULT: &[ArgumentType] = &[ArgumentType::Str, ArgumentType::Str];
const FILE_INTEGER: &[ArgumentType] = &[ArgumentType::Str, ArgumentType::Sint];

/// The maps of one matching method: to strings, integers and addresses.
macro_rules! maps {
    ($method:expr, $input:expr, $name:literal, $doc:literal) => {
        [
            Converter::new($name, $input, Type::Str, find)
                .takes(FILE_DEFAULT, 1)
                .checked(|arguments, parser| load(arguments, $method, Type::Str, parser))
                .doc($doc, concat!("use_backend %[req.hdr(host),", $name, "(/etc/haproxy/hosts.map,main)]")),
            Converter::new(concat!($name, "_int"), $input, Type::Sint, find)
                .takes(FILE_INTEGER, 1)
                .checked(|arguments, parser| load(arguments, $method, Type::Sint, parser))
                .doc(
                    concat!($doc, " The values are integers."),
                    concat!("http-request set-var(txn.limit) path,", $name, "_int(/etc/haproxy/limits.map,10)"),
                ),
            Converter::new(concat!($name, "_ip"), $input, Type::Addr, find)
                .takes(FILE_DEFAULT, 1)
                .checked(|arguments, parser| load(arguments, $method, Type::Addr, parser))
                .doc(
                    concat!($doc, " The values are addresses."),
                    concat!("http-request set-dst req.hdr(host),", $name, "_ip(/etc/haproxy/addresses.map)"),
                ),
        ]
    };
}

const STR: [Converter; 3] =
    maps!(MatchMethod::Str, Type::Str, "map_str", "The value of a map for the key that equals the string.");
const BEG: [Converter; 3] =
    maps!(MatchMethod::Beg, Type::Str, "map_beg", "The value of a map for the longest key that starts the string.");
const SUB: [Converter; 3] =
    maps!(MatchMethod::Sub, Type::Str, "map_sub", "The value of a map for the first key that is in the string.");
const DIR: [Converter; 3] = maps!(
    MatchMethod::Dir,
    Type::Str,
    "map_dir",
    "The value of a map for the first key between slashes of the string."
);
const DOM: [Converter; 3] =
    maps!(MatchMethod::Dom, Type::Str, "map_dom", "The value of a map for the first key between dots of the string.");
const END: [Converter; 3] =
    maps!(MatchMethod::End, Type::Str, "map_end", "The value of a map for the first key that ends the string.");
const REG: [Converter; 3] = maps!(
    MatchMethod::Reg,
    Type::Str,
    "map_reg",
    "The value of a map for the first expression that matches the string."
);
const INT: [Converter; 3] =
    maps!(MatchMethod::Int, Type::Sint, "map_int", "The value of a map for the first range that has the integer.");
const IP: [Converter; 3] =
    maps!(MatchMethod::Ip, Type::Addr, "map_ip", "The value of a map for the longest network that has the address.");

pub(super) const CONVERTERS: &[Converter] = &{
    let ([mut a, b, c], [d, e, f], [g, h, i]) = (STR, BEG, SUB);
    a = a.also(&["map"]);
    let ([j, k, l], [m, n, o], [p, q, r]) = (DIR, DOM, END);
    let ([s, t, u], [v, w, x], [y, z, last]) = (REG, INT, IP);
    let regm = Converter::new("map_regm", Type::Str, Type::Str, find)
        .takes(FILE_DEFAULT, 1)
        .checked(|arguments, parser| load(arguments, MatchMethod::Regm, Type::Str, parser))
        .doc(
            "The value of a map for the first expression that matches the string, with its groups put in for \\1 to \\9.",
            "http-request set-path %[path,map_regm(/etc/haproxy/paths.map)]",
        );
    let nbsrv = Converter::new("nbsrv", Type::Str, Type::Sint, |value, call| {
        let name = bytes(value)?;
        let metric = BackendMetric::UsableServers;
        call.context.backend_metric(std::str::from_utf8(&name).ok()?, metric).map(Value::Sint)
    })
    .doc("The usable servers of the backend of that name.", "acl alive req.hdr(x-site),nbsrv gt 0");
    let srv_queue = Converter::new("srv_queue", Type::Str, Type::Sint, |value, call| {
        let name = bytes(value)?;
        let name = std::str::from_utf8(&name).ok()?;
        let (backend, server) = match name.split_once('/') {
            Some(pair) => pair,
            None => (current_backend(call.context)?, name),
        };
        call.context.server_metric(backend, server, ServerMetric::Queue).map(Value::Sint)
    })
    .doc("The requests waiting for the server of that name.", "acl waiting req.cook(server),srv_queue gt 5");
    [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, regm, v, w, x, y, z, last, nbsrv, srv_queue]
};

fn load(
    arguments: &mut Arguments,
    method: MatchMethod,
    output: Type,
    parser: &mut ParseContext<'_>,
) -> Result<(), String> {
    let Some(Argument::Str(path)) = arguments.first() else { return Ok(()) };
    let default = match arguments.get(1) {
        Some(Argument::Str(text)) => Some(text.to_vec()),
        Some(Argument::Sint(value)) => Some(value.to_string().into_bytes()),
        _ => None,
    };
    let map = Map::load(path, default.as_deref(), method, output, parser)?;
    *arguments = vec![Argument::Map(Arc::new(map))];
    Ok(())
}

fn find<'a>(value: Value<'a>, call: &Call<'a>) -> Option<Value<'a>> {
    match call.arguments.first() {
        Some(Argument::Map(map)) => map.find(&value),
        _ => None,
    }
}
