//! Raw bytes that wait in either direction, in TCP mode.

use crate::arguments::{Argument, ArgumentType, Arguments};
use crate::context::{Buffer, Direction};
use crate::keyword::{Call, Fetch, Fetched};
use crate::number;
use crate::parser::ParseContext;
use crate::place::{Source, Sources};
use crate::value::{Type, Value};

pub(super) const REQUEST: Sources = Sources::of(&[Source::RequestBuffer]);
pub(super) const RESPONSE: Sources = Sources::of(&[Source::ResponseBuffer]);
const EITHER: Sources = Sources::of(&[Source::RequestBuffer, Source::ResponseBuffer]);
const INTERNAL: Sources = Sources::of(&[Source::Internal]);
const RANGE: &[ArgumentType] = &[ArgumentType::Sint, ArgumentType::Sint];
const LENGTH_RANGE: &[ArgumentType] = &[ArgumentType::Sint, ArgumentType::Sint, ArgumentType::Str];
const NAME: &[ArgumentType] = &[ArgumentType::Str];
const TOKEN: &[ArgumentType] = &[ArgumentType::Str, ArgumentType::Sint];

/// The most bytes that ever wait: what lies beyond will never be there.
const BUFFER_BYTES_MAX: usize = 16_384;

const PAYLOAD_DOC: &str = "Bytes from an offset on, as many as the second argument says; 0 is all there are.";
const PAYLOAD_LV_DOC: &str =
    "Bytes whose length stands before them: the offset and size of the length, and where they start.";

pub(super) const FETCHES: &[Fetch] = &[
    Fetch::new("distcc_body", Type::Bin, EITHER, |call, _| distcc(call, true))
        .takes(TOKEN, 1)
        .checked(check_token)
        .doc("The data of a distcc token, by name and occurrence.", "acl c distcc_body(ARGV,1) -m sub .c"),
    Fetch::new("distcc_param", Type::Sint, EITHER, |call, _| distcc(call, false))
        .takes(TOKEN, 1)
        .checked(check_token)
        .doc("The parameter of a distcc token, by name and occurrence.", "acl large distcc_param(DOTI) gt 500000"),
    Fetch::new("payload", Type::Bin, EITHER, |call, _| payload(call))
        .takes(RANGE, 2)
        .checked(check_range)
        .doc(PAYLOAD_DOC, "acl ssh payload(0,4) -m str SSH-"),
    Fetch::new("payload_lv", Type::Bin, EITHER, |call, _| payload_lv(call))
        .takes(LENGTH_RANGE, 2)
        .checked(check_length_range)
        .doc(PAYLOAD_LV_DOC, "stick on payload_lv(43,1)"),
    Fetch::new("req.len", Type::Sint, REQUEST, |call, _| length(call)).also(&["req_len"]).doc(
        "How many bytes of the request wait; in HTTP mode, of the form that HAProxy gives it.",
        "tcp-request content reject if { req.len gt 1000 }",
    ),
    Fetch::new("req.payload", Type::Bin, REQUEST, |call, _| payload(call))
        .takes(RANGE, 2)
        .checked(check_range)
        .doc(PAYLOAD_DOC, "acl ssh req.payload(0,4) -m str SSH-"),
    Fetch::new("req.payload_lv", Type::Bin, REQUEST, |call, _| payload_lv(call))
        .takes(LENGTH_RANGE, 2)
        .checked(check_length_range)
        .doc(PAYLOAD_LV_DOC, "stick on req.payload_lv(43,1)"),
    Fetch::new("req.rdp_cookie", Type::Str, REQUEST, |call, _| rdp_cookie(call))
        .also(&["rdp_cookie"])
        .takes(NAME, 0)
        .doc("The cookie of a Remote Desktop request.", "stick on req.rdp_cookie(mstshash)"),
    Fetch::new("req.rdp_cookie_cnt", Type::Sint, REQUEST, |call, _| match rdp_cookie(call) {
        Fetched::NotYet => Fetched::NotYet,
        found => Fetched::Value(Value::Sint(i64::from(found.value().is_some()))),
    })
    .also(&["rdp_cookie_cnt"])
    .takes(NAME, 0)
    .doc("Whether there is such a cookie: 1 or 0.", "tcp-request content accept if { req.rdp_cookie_cnt gt 0 }"),
    Fetch::new("res.len", Type::Sint, RESPONSE, |call, _| length(call)).doc(
        "How many bytes of the response wait; in HTTP mode, of the form that HAProxy gives it.",
        "tcp-response content reject if { res.len gt 1000 }",
    ),
    Fetch::new("res.payload", Type::Bin, RESPONSE, |call, _| payload(call))
        .takes(RANGE, 2)
        .checked(check_range)
        .doc(PAYLOAD_DOC, "acl hello res.payload(0,3) -m bin 16"),
    Fetch::new("res.payload_lv", Type::Bin, RESPONSE, |call, _| payload_lv(call))
        .takes(LENGTH_RANGE, 2)
        .checked(check_length_range)
        .doc(PAYLOAD_LV_DOC, "stick store-response res.payload_lv(43,1)"),
    Fetch::new("wait_end", Type::Bool, INTERNAL, |call, _| {
        if call.options.is_final { Fetched::Value(Value::Bool(true)) } else { Fetched::NotYet }
    })
    .doc("True once the inspection delay is over.", "tcp-request content accept if WAIT_END"),
];

pub(super) fn buffer<'a>(call: &Call<'a>) -> Option<Buffer<'a>> {
    match call.options.direction {
        Direction::Request => call.context.request_buffer(),
        Direction::Response => call.context.response_buffer(),
    }
}

fn length<'a>(call: &Call<'a>) -> Fetched<'a> {
    match buffer(call) {
        Some(buffer) => call.changing(Value::Sint(i64::try_from(buffer.bytes.len()).unwrap_or(i64::MAX))),
        None => match message_len(call) {
            Some(length) => Fetched::Value(Value::Sint(i64::try_from(length).unwrap_or(i64::MAX))),
            None => Fetched::Missing,
        },
    }
}

/// What HAProxy's own form of a message takes: its start line in a block with a header of this many bytes, names and values
/// without what is between them, a byte for the end of the head, and as much of the body as is there.
fn message_len(call: &Call<'_>) -> Option<usize> {
    const START_LINE_BYTES: usize = 20;
    const VERSION_BYTES: usize = "HTTP/1.1".len();
    let (line, headers, body) = match call.options.direction {
        Direction::Request => {
            let request = call.context.request()?;
            (
                request.method.len() + request.uri_prefix.len() + request.uri.len() + VERSION_BYTES,
                request.headers,
                request.body,
            )
        }
        Direction::Response => {
            let response = call.context.response()?;
            (VERSION_BYTES + "200".len() + response.reason.len(), response.headers, response.body)
        }
    };
    Some(START_LINE_BYTES + line + headers.text_len() + 1 + body.bytes.len())
}

/// An offset or a length; negative ones are as large as can be.
fn size(call: &Call<'_>, position: usize) -> usize {
    usize::try_from(call.integer(position).unwrap_or(0)).unwrap_or(usize::MAX)
}

fn payload<'a>(call: &Call<'a>) -> Fetched<'a> {
    let Some(buffer) = buffer(call) else { return Fetched::Missing };
    let (offset, length) = (size(call, 0), size(call, 1));
    let end = offset.saturating_add(length);
    if end > BUFFER_BYTES_MAX.max(buffer.bytes.len()) {
        return Fetched::Missing;
    }
    if length > 0 {
        return match buffer.bytes.get(offset..end) {
            Some(bytes) => Fetched::Value(Value::bin(bytes)),
            None => call.absent(),
        };
    }
    match buffer.bytes.get(offset..) {
        Some(bytes) if buffer.closed => Fetched::Value(Value::bin(bytes)),
        Some(bytes) => call.changing(Value::bin(bytes)),
        None => call.absent(),
    }
}

fn payload_lv<'a>(call: &Call<'a>) -> Fetched<'a> {
    let Some(buffer) = buffer(call) else { return Fetched::Missing };
    let (offset, width) = (size(call, 0), size(call, 1));
    let after = offset.saturating_add(width);
    let Some(digits) = buffer.bytes.get(offset..after) else { return call.absent() };
    // Of a length in many bytes only the last four count.
    let length = digits.iter().fold(0u32, |length, byte| length << 8 | u32::from(*byte)) as usize;
    let start = match (call.integer(2), call.integer(3)) {
        (Some(shift), Some(_)) => usize::try_from(i64::try_from(after).unwrap_or(i64::MAX).saturating_add(shift)).ok(),
        (Some(start), None) => usize::try_from(start).ok(),
        (None, _) => Some(after),
    };
    let Some(start) = start else { return Fetched::Missing };
    let end = start.saturating_add(length);
    if length == 0 || end > BUFFER_BYTES_MAX.max(buffer.bytes.len()) {
        return Fetched::Missing;
    }
    match buffer.bytes.get(start..end) {
        Some(bytes) => Fetched::Value(Value::bin(bytes)),
        None => call.absent(),
    }
}

fn check_range(arguments: &mut Arguments, _: &mut ParseContext<'_>) -> Result<(), String> {
    let is_negative = |argument: &Argument| matches!(argument, Argument::Sint(value) if *value < 0);
    if arguments.iter().any(is_negative) {
        return Err("payload offset and length must be positive".to_owned());
    }
    Ok(())
}

/// Turns the third argument into an integer; a fourth marks one that is relative to the end of the length.
fn check_length_range(arguments: &mut Arguments, _: &mut ParseContext<'_>) -> Result<(), String> {
    let integer = |position: usize| match arguments.get(position) {
        Some(Argument::Sint(value)) => *value,
        _ => 0,
    };
    let (offset, width) = (integer(0), integer(1));
    if offset < 0 {
        return Err("payload offset1 must be positive".to_owned());
    }
    if width <= 0 {
        return Err("payload length must be > 0".to_owned());
    }
    let Some(Argument::Str(text)) = arguments.get(2) else { return Ok(()) };
    if text.is_empty() {
        arguments.truncate(2);
        return Ok(());
    }
    let relative = matches!(text.first(), Some(b'+' | b'-'));
    let (start, used) = number::read_int64(text);
    if used != text.len() {
        return Err("payload offset2 is not a number".to_owned());
    }
    if offset.saturating_add(width).saturating_add(start) < 0 {
        return Err("payload offset2 too negative".to_owned());
    }
    arguments.truncate(2);
    arguments.push(Argument::Sint(start));
    if relative {
        arguments.push(Argument::Sint(1));
    }
    Ok(())
}

/// Finds the cookie of a connection request of the Remote Desktop protocol: 11 bytes of TPKT and X.224 headers, then
/// `Cookie: name=value` and the end of the line.
fn rdp_cookie<'a>(call: &Call<'a>) -> Fetched<'a> {
    let Some(buffer) = buffer(call) else { return Fetched::Missing };
    let wanted = call.text(0).unwrap_or_default();
    let too_short = || call.absent();
    let Some(rest) = buffer.bytes.get(11..).filter(|rest| rest.len() > 7) else { return too_short() };
    let (label, rest) = rest.split_at_checked(7).unwrap_or_default();
    if !label.eq_ignore_ascii_case(b"Cookie:") {
        return Fetched::Missing;
    }
    let blanks = rest.iter().take_while(|byte| **byte == b' ').count();
    let rest = rest.get(blanks..).unwrap_or_default();
    let value = if wanted.is_empty() {
        match rest.iter().position(|byte| matches!(byte, b'=' | b'\r' | b'\n')) {
            None => return too_short(),
            Some(position) if rest.get(position) == Some(&b'=') => rest.get(position + 1..).unwrap_or_default(),
            Some(_) => return Fetched::Missing,
        }
    } else {
        let Some((name, value)) = rest.split_at_checked(wanted.len()).filter(|(_, value)| !value.is_empty()) else {
            return too_short();
        };
        if !name.eq_ignore_ascii_case(wanted) || value.first() != Some(&b'=') {
            return Fetched::Missing;
        }
        value.get(1..).unwrap_or_default()
    };
    match memchr::memchr(b'\r', value) {
        Some(end) if value.get(end + 1) == Some(&b'\n') => {
            Fetched::Value(Value::str(value.get(..end).unwrap_or_default()))
        }
        Some(end) if value.len() > end + 1 => Fetched::Missing,
        _ => too_short(),
    }
}

fn check_token(arguments: &mut Arguments, _: &mut ParseContext<'_>) -> Result<(), String> {
    match arguments.first() {
        Some(Argument::Str(token)) if token.len() == 4 => Ok(()),
        _ => Err("token name must be exactly 4 characters".to_owned()),
    }
}

/// Tokens of the distcc protocol that are followed by data as long as their parameter says; the others are bare numbers.
fn has_data(token: &[u8]) -> bool {
    !matches!(token, b"ARGC" | b"DIST" | b"NFIL" | b"STAT" | b"DONE")
}

/// Walks over tokens: four letters, eight hexadecimal digits, data.
fn distcc<'a>(call: &Call<'a>, want_data: bool) -> Fetched<'a> {
    let Some(buffer) = buffer(call) else { return Fetched::Missing };
    let wanted = call.text(0).unwrap_or_default();
    let occurrence = call.integer(1).unwrap_or(0);
    let mut seen = 0;
    let mut position = 0usize;
    loop {
        let Some(header) = buffer.bytes.get(position..position.saturating_add(12)) else {
            let can_come = position.saturating_add(12) <= BUFFER_BYTES_MAX && !buffer.closed;
            return if can_come { call.absent() } else { Fetched::Missing };
        };
        let (token, digits) = header.split_at_checked(4).unwrap_or_default();
        let mut parameter = 0usize;
        for digit in digits {
            match basics::hex::value(*digit) {
                Some(digit) => parameter = parameter << 4 | usize::from(digit),
                None => return Fetched::Missing,
            }
        }
        position += 12;
        let data_length = if has_data(token) { parameter } else { 0 };
        if token == wanted {
            seen += 1;
            if occurrence == 0 || occurrence == seen {
                if !want_data {
                    return Fetched::Value(Value::Sint(i64::try_from(parameter).unwrap_or(i64::MAX)));
                }
                let rest = buffer.bytes.get(position..).unwrap_or_default();
                return match rest.get(..data_length) {
                    Some(data) => Fetched::Value(Value::bin(data)),
                    None => call.changing(Value::bin(rest)),
                };
            }
        }
        position = position.saturating_add(data_length);
    }
}
