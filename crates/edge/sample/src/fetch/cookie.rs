//! Cookies.

use crate::arguments::ArgumentType;
use crate::context::Direction;
use crate::fetch::{Head, head};
use crate::keyword::{Call, Cursor, Fetch, Fetched};
use crate::place::{Source, Sources};
use crate::value::{Type, Value};
use http::HeaderId;

const REQUEST: Sources = Sources::of(&[Source::RequestHeaders]);
const RESPONSE: Sources = Sources::of(&[Source::ResponseHeaders]);
const EITHER: Sources = Sources::of(&[Source::RequestHeaders, Source::ResponseHeaders]);
const NAME: &[ArgumentType] = &[ArgumentType::Str];

const VALUE_DOC: &str = "The last value of a cookie, or without a name the first of any; in ACLs every one.";
const COUNT_DOC: &str = "How often a cookie occurs, or any.";
const INTEGER_DOC: &str = "The value of a cookie as an integer.";

/// The fetches of one direction under one name.
macro_rules! fetches {
    ($side:expr, $sources:expr, $name:literal) => {
        [
            Fetch::new($name, Type::Str, $sources, |call, cursor| value(call, cursor, $side))
                .takes(NAME, 0)
                .doc(VALUE_DOC, concat!("acl known ", $name, "(session) -m found")),
            Fetch::new(concat!($name, "_cnt"), Type::Sint, $sources, |call, _| count(call, $side))
                .takes(NAME, 0)
                .doc(COUNT_DOC, concat!("acl twice ", $name, "_cnt(session) gt 1")),
            Fetch::new(concat!($name, "_val"), Type::Sint, $sources, |call, cursor| {
                super::request::integer(value(call, cursor, $side))
            })
            .takes(NAME, 0)
            .doc(INTEGER_DOC, concat!("acl beta ", $name, "_val(version) ge 2")),
        ]
    };
}

const COOK: [Fetch; 3] = fetches!(Direction::Request, REQUEST, "cook");
const REQ_COOK: [Fetch; 3] = fetches!(Direction::Request, REQUEST, "req.cook");
const RES_COOK: [Fetch; 3] = fetches!(Direction::Response, RESPONSE, "res.cook");
const SCOOK: [Fetch; 3] = fetches!(Direction::Response, RESPONSE, "scook");

pub(super) const FETCHES: &[Fetch] = &{
    let cookie = Fetch::new("cookie", Type::Str, EITHER, |call, cursor| value(call, cursor, call.options.direction))
        .takes(NAME, 0)
        .doc(VALUE_DOC, "stick on cookie(session)");
    let ([a, b, c], [d, e, f], [g, h, i], [j, k, l]) = (COOK, REQ_COOK, RES_COOK, SCOOK);
    [a, b, c, cookie, d, e, f, g, h, i, j, k, l]
};

/// A cookie in a header field: where its name and its value are, and where to look for the next one.
struct Found {
    name: (usize, usize),
    value: (usize, usize),
    next: usize,
}

fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// The next cookie in `field` from `from` on. A request may have several in a field; a response has one, followed by
/// attributes. Those without an equal sign, and those whose name starts with a dollar sign, are none.
fn next_cookie(field: &[u8], from: usize, many: bool) -> Option<Found> {
    let byte = |position: usize| field.get(position).copied();
    let skip_blanks = |mut position: usize| {
        while byte(position).is_some_and(is_blank) {
            position += 1;
        }
        position
    };
    let mut start = from;
    while start < field.len() {
        start = skip_blanks(start);
        // A comma separates cookies of a request only.
        let rest = field.get(start..).unwrap_or_default();
        let delimiter = if many { memchr::memchr3(b'=', b';', b',', rest) } else { memchr::memchr2(b'=', b';', rest) };
        let equal = delimiter.map_or(field.len(), |delimiter| start + delimiter);
        let mut name_end = equal;
        while name_end > start && byte(name_end - 1).is_some_and(is_blank) {
            name_end -= 1;
        }
        let has_value = byte(equal) == Some(b'=');
        let (mut value_start, mut value_end, mut next) = (equal, equal, equal);
        if has_value {
            value_start = skip_blanks(equal + 1);
            next = value_end_of(field, value_start);
            value_end = next;
            while value_end > value_start && byte(value_end - 1).is_some_and(is_blank) {
                value_end -= 1;
            }
        }
        if has_value && byte(start) != Some(b'$') {
            return Some(Found { name: (start, name_end), value: (value_start, value_end), next: next + 1 });
        }
        start = next + 1;
    }
    None
}

/// Where a value ends: at the next comma or semicolon outside of quotes.
fn value_end_of(field: &[u8], start: usize) -> usize {
    let Some(first) = memchr::memchr3(b',', b';', b'"', field.get(start..).unwrap_or_default()) else {
        return field.len();
    };
    let (mut quoted, mut escaped) = (false, false);
    for (position, byte) in field.iter().enumerate().skip(start + first) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' | b';' if !quoted => return position,
            _ => {}
        }
    }
    field.len()
}

/// The next cookie called `name` from where the cursor is.
fn next<'a>(headers: &'a http::Headers, name: &[u8], side: Direction, cursor: &mut Cursor) -> Option<&'a [u8]> {
    let (id, many) = match side {
        Direction::Request => (HeaderId::Cookie, true),
        Direction::Response => (HeaderId::SetCookie, false),
    };
    for (position, (found, _, field)) in headers.iter_known().enumerate().skip(cursor.field) {
        if found != id {
            continue;
        }
        let mut from = if position == cursor.field { cursor.offset } else { 0 };
        while let Some(cookie) = next_cookie(field, from, many) {
            from = cookie.next;
            let is_it = name.is_empty() || field.get(cookie.name.0..cookie.name.1) == Some(name);
            if is_it {
                (cursor.field, cursor.offset) = if many { (position, from) } else { (position + 1, 0) };
                return field.get(cookie.value.0..cookie.value.1);
            }
            if !many {
                break;
            }
        }
    }
    None
}

fn value<'a>(call: &Call<'a>, cursor: &mut Cursor, side: Direction) -> Fetched<'a> {
    let name = call.text(0).unwrap_or_default();
    let headers = match head(call, side) {
        Head::Here(headers) => headers,
        Head::Absent(answer) => return answer,
    };
    let mut found = next(headers, name, side, cursor);
    if call.iterate {
        cursor.more = found.is_some();
    } else if !name.is_empty() {
        while let Some(later) = next(headers, name, side, cursor) {
            found = Some(later);
        }
    }
    found.map(Value::str).into()
}

fn count<'a>(call: &Call<'a>, side: Direction) -> Fetched<'a> {
    let name = call.text(0).unwrap_or_default();
    match head(call, side) {
        Head::Here(headers) => {
            let mut cursor = Cursor::default();
            let mut count = 0;
            while next(headers, name, side, &mut cursor).is_some() {
                count += 1;
            }
            Fetched::Value(Value::Sint(count))
        }
        Head::Absent(answer) => answer,
    }
}
