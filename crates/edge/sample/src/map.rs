//! Maps: the converters that look a sample up in a file.

use std::net::IpAddr;

use crate::bytes::Bytes;
use crate::number;
use crate::parser::ParseContext;
use crate::pattern::{MatchMethod, PatternOptions, PatternSet};
use crate::regex;
use crate::value::{Type, Value};

/// A map, loaded.
#[derive(Debug)]
pub(crate) struct Map {
    method: MatchMethod,
    keys: PatternSet,
    values: Vec<Value<'static>>,
    default: Option<Value<'static>>,
}

impl Map {
    /// Loads the map at `path`, whose values are of type `output`.
    pub(crate) fn load(
        path: &[u8],
        default: Option<&[u8]>,
        method: MatchMethod,
        output: Type,
        parser: &mut ParseContext<'_>,
    ) -> Result<Self, String> {
        let path = std::str::from_utf8(path).map_err(|_| "a path must be UTF-8".to_owned())?;
        let lines = parser.load(path, true).map_err(|error| error.to_string())?;
        let words: Vec<&[u8]> = lines.iter().map(|line| &*line.key).collect();
        let options = PatternOptions { method, ignore_case: false, ordered: true, resolve: &|_| None };
        let line_of = |number: usize| lines.get(number).map_or(0, |line| line.line);
        let keys = PatternSet::compile(&words, &options)
            .map_err(|(number, reason)| format!("{reason} at line {} of file '{path}'", line_of(number)))?;
        let mut values = Vec::with_capacity(lines.len());
        for line in lines.iter() {
            values.push(value(&line.value, output).ok_or_else(|| {
                let shown = String::from_utf8_lossy(&line.value);
                format!("unable to parse '{shown}' at line {} of file '{path}'", line.line)
            })?);
        }
        let default = match default {
            None => None,
            Some(text) => Some(value(text, output).ok_or_else(|| match output {
                Type::Sint => format!("map: cannot parse default value '{}'", String::from_utf8_lossy(text)),
                _ => format!("map: cannot parse default ip <{}>", String::from_utf8_lossy(text)),
            })?),
        };
        Ok(Map { method, keys, values, default })
    }

    /// The value for `key`, or the default one.
    pub(crate) fn find<'a>(&'a self, key: &Value<'_>) -> Option<Value<'a>> {
        if self.method == MatchMethod::Regm {
            if let Value::Str(subject) = key
                && let Some((number, groups)) = self.keys.find_groups(subject)
                && let Some(Value::Str(template)) = self.values.get(number as usize)
            {
                let mut output = Vec::with_capacity(template.len());
                regex::expand(template, subject, &groups, &mut output);
                return Some(Value::str(output));
            }
            return self.default.as_ref().map(borrow);
        }
        match self.keys.find(key) {
            Some(number) => self.values.get(number as usize).map(borrow),
            None => self.default.as_ref().map(borrow),
        }
    }
}

/// The value again, without copying its bytes.
fn borrow<'a>(value: &'a Value<'static>) -> Value<'a> {
    match value {
        Value::Str(bytes) => Value::Str(Bytes::Borrowed(bytes)),
        Value::Bin(bytes) => Value::Bin(Bytes::Borrowed(bytes)),
        Value::Meth(bytes) => Value::Meth(Bytes::Borrowed(bytes)),
        Value::Bool(value) => Value::Bool(*value),
        Value::Sint(value) => Value::Sint(*value),
        Value::Ipv4(address) => Value::Ipv4(*address),
        Value::Ipv6(address) => Value::Ipv6(*address),
    }
}

fn value(text: &[u8], output: Type) -> Option<Value<'static>> {
    match output {
        Type::Sint => number::parse_integer(text).map(Value::Sint),
        Type::Addr => {
            let address: IpAddr = std::str::from_utf8(text).ok()?.parse().ok()?;
            Some(Value::address(address))
        }
        _ => Some(Value::str(text.to_vec())),
    }
}
