//! JSON: escaping text for it, and finding a value in it.

use super::{MADE_BYTES_MAX, bytes};
use crate::arguments::{Argument, ArgumentType, Arguments};
use crate::base64::{self, Alphabet};
use crate::keyword::{Call, Converter};
use crate::number;
use crate::parser::ParseContext;
use crate::value::{Type, Value};
use basics::hex;

const PATH: &[ArgumentType] = &[ArgumentType::Str, ArgumentType::Str];

pub(super) const CONVERTERS: &[Converter] = &[
    Converter::new("json", Type::Str, Type::Str, |value, call| escape(&bytes(value)?, call.text(0)?).map(Value::str))
        .takes(&[ArgumentType::Str], 1)
        .checked(|arguments, _| match arguments.first() {
            Some(Argument::Str(mode))
                if !matches!(&**mode, b"" | b"ascii" | b"utf8" | b"utf8s" | b"utf8p" | b"utf8ps") =>
            {
                Err("Unexpected input code type. Allowed value are 'ascii', 'utf8', 'utf8s', 'utf8p' and 'utf8ps'"
                    .to_owned())
            }
            _ => Ok(()),
        })
        .doc(
            "Escaped so that it can stand between quotes in JSON; the argument says what the input is.",
            "log-format {\"path\":\"%[path,json(utf8s)]\"}",
        ),
    Converter::new("json_query", Type::Str, Type::Any, |value, call| {
        query(&bytes(value)?, call.text(0)?, call.text(1))
    })
    .takes(PATH, 1)
    .checked(check_query)
    .doc(
        "The value at a path in JSON: a string, a number as text or, with int, as an integer, or a boolean.",
        "http-request set-var(txn.user) req.body,json_query('$.user.name')",
    ),
    Converter::new("jwt_header_query", Type::Bin, Type::Any, |value, call| token_part(value, call, 0))
        .takes(PATH, 0)
        .checked(check_type)
        .doc(
            "The header of a JSON Web Token, or the value at a path in it.",
            "http-request set-var(txn.alg) http_auth_bearer,jwt_header_query('$.alg')",
        ),
    Converter::new("jwt_payload_query", Type::Bin, Type::Any, |value, call| token_part(value, call, 1))
        .takes(PATH, 0)
        .checked(check_type)
        .doc(
            "The claims of a JSON Web Token, or the value at a path in them.",
            "http-request set-var(txn.sub) http_auth_bearer,jwt_payload_query('$.sub')",
        ),
];

fn check_query(arguments: &mut Arguments, parser: &mut ParseContext<'_>) -> Result<(), String> {
    if matches!(arguments.first(), Some(Argument::Str(path)) if path.is_empty()) {
        return Err("json_path must not be empty".to_owned());
    }
    check_type(arguments, parser)
}

fn check_type(arguments: &mut Arguments, _: &mut ParseContext<'_>) -> Result<(), String> {
    match arguments.get(1) {
        Some(Argument::Str(kind)) if !matches!(&**kind, b"" | b"int") => {
            Err("output_type only supports \"int\" as argument".to_owned())
        }
        _ => Ok(()),
    }
}

fn token_part<'a>(value: Value<'a>, call: &Call<'a>, position: usize) -> Option<Value<'a>> {
    let token = bytes(value)?;
    let part = token.split(|byte| *byte == b'.').nth(position)?;
    let decoded = base64::decode(part, Alphabet::Url)?;
    match call.text(0) {
        Some(path) if !path.is_empty() => query(&decoded, path, call.text(1)),
        _ => Some(Value::str(decoded)),
    }
}

/// What is wrong with a character of UTF-8.
#[derive(Clone, Copy, Default)]
struct Faults {
    bad_sequence: bool,
    bad_range: bool,
    overlong: bool,
}

/// The first character of `text`, which need not be well-formed: its number, its length and its faults.
fn first_character(text: &[u8]) -> (u32, usize, Faults) {
    let first = text.first().copied().unwrap_or(0);
    let bad = |length: usize| (u32::from(first), length, Faults { bad_sequence: true, ..Faults::default() });
    let length = match first.leading_ones() {
        0 => return (u32::from(first), 1, Faults::default()),
        ones @ 2..=6 => ones as usize,
        _ => return bad(1),
    };
    if text.len() < length {
        return bad(1);
    }
    let mut character = u32::from(first) & (0x7f >> length);
    for (position, byte) in text.iter().enumerate().take(length).skip(1) {
        if byte & 0xc0 != 0x80 {
            return bad(position);
        }
        character = character << 6 | u32::from(byte & 0x3f);
    }
    let shortest = match character {
        0..=0x7f => 1,
        0x80..=0x7ff => 2,
        0x800..=0xffff => 3,
        0x1_0000..=0x1f_ffff => 4,
        _ => length,
    };
    let bad_range = matches!(character, 0xd800..=0xdfff | 0xfffe..=0xffff);
    (character, length, Faults { bad_sequence: false, bad_range, overlong: length > shortest })
}

fn escape(text: &[u8], mode: &[u8]) -> Option<Vec<u8>> {
    let skips = mode.ends_with(b"s");
    let permissive = mode.starts_with(b"utf8p");
    let mut output = Vec::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(first) = rest.first() {
        let character = if matches!(mode, b"" | b"ascii") {
            rest = rest.get(1..).unwrap_or_default();
            u32::from(*first)
        } else {
            let (character, length, faults) = first_character(rest);
            rest = rest.get(length..).unwrap_or_default();
            let bad = faults.bad_sequence || faults.bad_range || (faults.overlong && !permissive);
            // JSON has four digits for a character, so larger ones have no escape.
            if bad || character > 0xffff {
                if skips {
                    continue;
                }
                return None;
            }
            character
        };
        match u8::try_from(character) {
            Ok(byte @ (b'"' | b'\\' | b'/')) => output.extend_from_slice(&[b'\\', byte]),
            Ok(8) => output.extend_from_slice(b"\\b"),
            Ok(12) => output.extend_from_slice(b"\\f"),
            Ok(b'\r') => output.extend_from_slice(b"\\r"),
            Ok(b'\n') => output.extend_from_slice(b"\\n"),
            Ok(b'\t') => output.extend_from_slice(b"\\t"),
            Ok(byte @ b' '..=b'~') => output.push(byte),
            _ => output.extend_from_slice(format!("\\u{character:04x}").as_bytes()),
        }
        if output.len() > MADE_BYTES_MAX {
            return None;
        }
    }
    Some(output)
}

/// Levels of arrays and objects that are followed.
const DEPTH_MAX: usize = 20;

/// Integers that every reader of JSON agrees on (RFC 7159, section 6).
const SAFE_INTEGER_MAX: i64 = (1 << 53) - 1;

/// One step of a path.
enum Step {
    Key(Vec<u8>),
    Index(usize),
}

/// Reads `$.key.other[3]`; a backslash takes the special meaning from what follows it.
fn steps(path: &[u8]) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let mut rest = path.strip_prefix(b"$")?;
    while let Some((first, mut tail)) = rest.split_first() {
        match first {
            b'.' => {
                let mut key = Vec::new();
                while let Some((byte, after)) = tail.split_first().filter(|(byte, _)| !matches!(byte, b'.' | b'[')) {
                    tail = after;
                    if *byte != b'\\' {
                        key.push(*byte);
                    } else if let Some((escaped, after)) = tail.split_first() {
                        key.push(*escaped);
                        tail = after;
                    }
                }
                steps.push(Step::Key(key));
            }
            b'[' => {
                let end = memchr::memchr(b']', tail)?;
                let index = number::parse_integer(tail.get(..end)?)?;
                steps.push(Step::Index(usize::try_from(index).ok()?));
                tail = tail.get(end + 1..)?;
            }
            _ => return None,
        }
        rest = tail;
    }
    Some(steps)
}

/// A reader of JSON that goes over what it is not asked for without recursion.
struct Reader<'a> {
    text: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.text.get(self.position) {
            self.position += 1;
        }
        self.text.get(self.position).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.position += usize::from(found);
        found
    }

    /// Takes a string, without its quotes and still escaped.
    fn string(&mut self) -> Option<&'a [u8]> {
        if !self.take(b'"') {
            return None;
        }
        let start = self.position;
        loop {
            match self.text.get(self.position)? {
                b'"' => break,
                b'\\' => self.position += 2,
                0 => return None,
                _ => self.position += 1,
            }
        }
        let string = self.text.get(start..self.position)?;
        self.position += 1;
        Some(string)
    }

    /// Takes a scalar that is no string.
    fn scalar(&mut self) -> Option<&'a [u8]> {
        self.peek()?;
        let rest = self.text.get(self.position..)?;
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
        let scalar = rest.get(..rest.iter().take_while(|byte| is_part(byte)).count())?;
        let is_number = scalar.first().is_some_and(|byte| byte.is_ascii_digit() || *byte == b'-');
        if !is_number && !matches!(scalar, b"true" | b"false" | b"null") {
            return None;
        }
        self.position += scalar.len();
        Some(scalar)
    }

    /// Goes over a value.
    fn skip(&mut self) -> Option<()> {
        let mut open: Vec<u8> = Vec::new();
        loop {
            match self.peek()? {
                bracket @ (b'{' | b'[') => {
                    if open.len() >= DEPTH_MAX {
                        return None;
                    }
                    self.position += 1;
                    let close = if bracket == b'{' { b'}' } else { b']' };
                    if !self.take(close) {
                        open.push(close);
                        self.key(close)?;
                        continue;
                    }
                }
                b'"' => {
                    self.string()?;
                }
                _ => {
                    self.scalar()?;
                }
            }
            // A value is over: so may be what it is in.
            loop {
                let Some(close) = open.last().copied() else { return Some(()) };
                if self.take(b',') {
                    self.key(close)?;
                    break;
                }
                if !self.take(close) {
                    return None;
                }
                open.pop();
            }
        }
    }

    /// Goes over a key and its colon, in an object.
    fn key(&mut self, close: u8) -> Option<()> {
        if close == b'}' {
            self.string()?;
            return self.take(b':').then_some(());
        }
        Some(())
    }

    /// Goes to the value of a key.
    fn enter_object(&mut self, wanted: &[u8]) -> Option<()> {
        if !self.take(b'{') || self.take(b'}') {
            return None;
        }
        loop {
            let key = self.string()?;
            if !self.take(b':') {
                return None;
            }
            if key == wanted {
                return Some(());
            }
            self.skip()?;
            if !self.take(b',') {
                return None;
            }
        }
    }

    /// Goes to the element at an index.
    fn enter_array(&mut self, index: usize) -> Option<()> {
        if !self.take(b'[') || self.peek() == Some(b']') {
            return None;
        }
        for _ in 0..index {
            self.skip()?;
            if !self.take(b',') {
                return None;
            }
        }
        Some(())
    }
}

fn query<'a>(text: &[u8], path: &[u8], kind: Option<&[u8]>) -> Option<Value<'a>> {
    let mut reader = Reader { text, position: 0 };
    for step in steps(path)? {
        match step {
            Step::Key(key) => reader.enter_object(&key)?,
            Step::Index(index) => reader.enter_array(index)?,
        }
    }
    if reader.peek()? == b'"' {
        return unescape(reader.string()?).map(Value::str);
    }
    match reader.scalar()? {
        b"true" => Some(Value::Bool(true)),
        b"false" => Some(Value::Bool(false)),
        b"null" => None,
        number if kind == Some(b"int") => {
            let value = number::read_int64(number).0;
            (-SAFE_INTEGER_MAX..=SAFE_INTEGER_MAX).contains(&value).then_some(Value::Sint(value))
        }
        number => {
            let value: f64 = std::str::from_utf8(number).ok()?.parse().ok()?;
            Some(Value::str(shortest(value)))
        }
    }
}

/// Undoes the escapes of a string. Escapes of characters beyond 255 cannot be undone.
fn unescape(string: &[u8]) -> Option<Vec<u8>> {
    let mut output = Vec::with_capacity(string.len());
    let mut rest = string;
    while let Some((byte, tail)) = rest.split_first() {
        rest = tail;
        if *byte != b'\\' {
            output.push(*byte);
            continue;
        }
        let (escaped, tail) = rest.split_first()?;
        rest = tail;
        output.push(match escaped {
            b'"' | b'\\' | b'/' => *escaped,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let [b'0', b'0', high, low, tail @ ..] = rest else { return None };
                rest = tail;
                hex::value(*high)? << 4 | hex::value(*low)?
            }
            _ => return None,
        });
    }
    Some(output)
}

/// A number as C's `%g` writes it: six significant digits, without zeros at the end.
fn shortest(value: f64) -> String {
    const SIGNIFICANT: i32 = 6;
    let scientific = format!("{value:.5e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| {
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text.to_owned() }
    };
    if !(-4..SIGNIFICANT).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs());
    }
    let decimals = usize::try_from(SIGNIFICANT - 1 - exponent).unwrap_or(0);
    trimmed(&format!("{value:.decimals$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_c_writes_them() {
        for (value, expected) in [
            (0.0, "0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (100_000.0, "100000"),
            (1_000_000.0, "1e+06"),
            (1_234_567.0, "1.23457e+06"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (2.222_222_222, "2.22222"),
            (1e100, "1e+100"),
        ] {
            assert_eq!(shortest(value), expected);
        }
    }
}
