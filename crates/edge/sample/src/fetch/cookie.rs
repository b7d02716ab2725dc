//! Cookies.

use crate::arguments::ArgumentType;
use crate::context::Direction;
use crate::fetch::{Head, head};
use crate::keyword::{Call, Cursor, Fetch, Fetched};
use crate::place::{Source, Sources};
use crate::value::{Type, Value};
use http::{HeaderId, cookie_pieces, set_cookie_pieces};

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
        let from = if position == cursor.field { cursor.offset } else { 0 };
        let pieces = if many { cookie_pieces(field, from) } else { set_cookie_pieces(field) };
        let mut cookies = pieces.filter_map(|piece| piece.cookie().map(|(name, value)| (name, value, piece.end)));
        // A response's field has one cookie, followed by attributes.
        let here = if many { usize::MAX } else { 1 };
        if let Some((_, value, end)) = cookies.by_ref().take(here).find(|(found, ..)| name.is_empty() || *found == name)
        {
            (cursor.field, cursor.offset) = if many { (position, end + 1) } else { (position + 1, 0) };
            return Some(value);
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
