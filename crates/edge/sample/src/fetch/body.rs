//! Bodies, as far as they are buffered.

use crate::arguments::ArgumentType;
use crate::context::{Body, Direction};
use crate::keyword::{Call, Cursor, Fetch, Fetched};
use crate::place::{Source, Sources};
use crate::value::{Type, Value};

const REQUEST: Sources = Sources::of(&[Source::RequestHeaders]);
const RESPONSE: Sources = Sources::of(&[Source::ResponseHeaders]);

const BODY_DOC: &str = "The part of the body that is buffered.";
const LENGTH_DOC: &str = "The length of the part of the body that is buffered.";
const SIZE_DOC: &str = "The announced length of the body, or of what is buffered.";

pub(super) const FETCHES: &[Fetch] = &[
    Fetch::new("req.body", Type::Bin, REQUEST, |call, _| bytes(call, Direction::Request))
        .doc(BODY_DOC, "http-request set-var(txn.body) req.body"),
    Fetch::new("req.body_len", Type::Sint, REQUEST, |call, _| length(call, Direction::Request))
        .doc(LENGTH_DOC, "acl has_body req.body_len gt 0"),
    Fetch::new("req.body_param", Type::Bin, REQUEST, parameter)
        .takes(&[ArgumentType::Str], 0)
        .doc("A parameter of a form in the body, or every one.", "acl john req.body_param(user) john"),
    Fetch::new("req.body_size", Type::Sint, REQUEST, |call, _| size(call, Direction::Request))
        .doc(SIZE_DOC, "http-request deny if { req.body_size gt 1000000 }"),
    Fetch::new("res.body", Type::Bin, RESPONSE, |call, _| bytes(call, Direction::Response))
        .doc(BODY_DOC, "http-check expect string ok"),
    Fetch::new("res.body_len", Type::Sint, RESPONSE, |call, _| length(call, Direction::Response))
        .doc(LENGTH_DOC, "acl small res.body_len lt 100"),
    Fetch::new("res.body_size", Type::Sint, RESPONSE, |call, _| size(call, Direction::Response))
        .doc(SIZE_DOC, "acl small res.body_size lt 100"),
];

fn body<'a>(call: &Call<'a>, side: Direction) -> Result<Body<'a>, Fetched<'a>> {
    if call.options.direction != side {
        return Err(Fetched::Missing);
    }
    let body = match side {
        Direction::Request => call.context.request().map(|request| request.body),
        Direction::Response => call.context.response().map(|response| response.body),
    };
    body.ok_or_else(|| call.absent())
}

fn bytes<'a>(call: &Call<'a>, side: Direction) -> Fetched<'a> {
    match body(call, side) {
        Ok(body) if body.complete => Fetched::Value(Value::bin(body.bytes)),
        Ok(body) => call.changing(Value::bin(body.bytes)),
        Err(answer) => answer,
    }
}

fn length<'a>(call: &Call<'a>, side: Direction) -> Fetched<'a> {
    match body(call, side) {
        Ok(body) => Fetched::Value(Value::Sint(i64::try_from(body.bytes.len()).unwrap_or(i64::MAX))),
        Err(answer) => answer,
    }
}

fn size<'a>(call: &Call<'a>, side: Direction) -> Fetched<'a> {
    match body(call, side) {
        Ok(body) => {
            let buffered = body.bytes.len() as u64;
            let size = body.announced.unwrap_or(buffered).max(buffered);
            Fetched::Value(Value::Sint(i64::try_from(size).unwrap_or(i64::MAX)))
        }
        Err(answer) => answer,
    }
}

fn parameter<'a>(call: &Call<'a>, cursor: &mut Cursor) -> Fetched<'a> {
    let name = call.text(0).unwrap_or_default();
    let body = match body(call, Direction::Request) {
        Ok(body) => body.bytes,
        Err(answer) => return answer,
    };
    let start = cursor.offset;
    let list = body.get(start..).unwrap_or_default();
    let Some((from, to)) = super::request::next_parameter(list, name, b'&') else { return Fetched::Missing };
    cursor.offset = start + to;
    cursor.more = to < list.len();
    list.get(from..to).map(Value::str).into()
}
