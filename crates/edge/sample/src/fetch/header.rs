//! Headers.
//!
//! A field may hold a list: `hdr` and its kin see the elements between commas, `fhdr` whole fields. In an ACL every
//! occurrence is looked at; elsewhere the last one is meant, unless a number says which, from 1, or from -1 backward.

use crate::arguments::{Argument, ArgumentType, Arguments};
use crate::context::Direction;
use crate::fetch::{Head, head};
use crate::keyword::{Call, Cursor, Fetch, Fetched};
use crate::number;
use crate::parser::ParseContext;
use crate::place::{Source, Sources};
use crate::value::{Type, Value};
use http::{HeaderId, Headers};

const REQUEST: Sources = Sources::of(&[Source::RequestHeaders]);
const RESPONSE: Sources = Sources::of(&[Source::ResponseHeaders]);
const EITHER: Sources = Sources::of(&[Source::RequestHeaders, Source::ResponseHeaders]);
const NAME: &[ArgumentType] = &[ArgumentType::Str];
const NAME_OCCURRENCE: &[ArgumentType] = &[ArgumentType::Str, ArgumentType::Sint];

/// The farthest from the end that an occurrence can be asked for.
const OCCURRENCES_BACK_MAX: i64 = 10;

const VALUE_DOC: &str = "An element of a header, the last unless a number says which; in ACLs every one.";
const FULL_DOC: &str = "A whole header field, the last unless a number says which; in ACLs every one.";
const COUNT_DOC: &str = "How many elements a header has, or all headers together.";
const FULL_COUNT_DOC: &str = "How many fields of a name there are, or of any name.";
const IP_DOC: &str = "An element of a header that is an address.";
const INTEGER_DOC: &str = "An element of a header as an integer.";
const NAMES_DOC: &str = "The names of all headers, separated by commas or by the argument.";
const RAW_DOC: &str = "All headers as they are sent, up to the empty line.";
const ENCODED_DOC: &str = "All headers as lengths and bytes, in the encoding of SPOP.";

/// The fetches of one direction under one name, which differ from those of the other only in that.
macro_rules! fetches {
    ($side:expr, $sources:expr, $name:literal) => {
        [
            Fetch::new($name, Type::Str, $sources, |call, cursor| value(call, cursor, $side, false))
                .takes(NAME_OCCURRENCE, 0)
                .checked(check_occurrence)
                .doc(VALUE_DOC, concat!("acl site ", $name, "(host) -i example.com")),
            Fetch::new(concat!($name, "_cnt"), Type::Sint, $sources, |call, _| count(call, $side, false))
                .takes(NAME, 0)
                .checked(check_name)
                .doc(COUNT_DOC, concat!("acl many ", $name, "_cnt(cookie) gt 5")),
            Fetch::new(concat!($name, "_ip"), Type::Ipv4, $sources, |call, cursor| address(call, cursor, $side))
                .takes(NAME_OCCURRENCE, 0)
                .checked(check_occurrence)
                .doc(IP_DOC, concat!("http-request set-src ", $name, "_ip(x-forwarded-for,-1)")),
            Fetch::new(concat!($name, "_val"), Type::Sint, $sources, |call, cursor| {
                super::request::integer(value(call, cursor, $side, false))
            })
            .takes(NAME_OCCURRENCE, 0)
            .checked(check_occurrence)
            .doc(INTEGER_DOC, concat!("acl large ", $name, "_val(content-length) gt 1000000")),
        ]
    };
}

/// The fetches that only the explicit names `req.` and `res.` have.
macro_rules! explicit {
    ($side:expr, $sources:expr, $prefix:literal) => {
        [
            Fetch::new(concat!($prefix, ".fhdr"), Type::Str, $sources, |call, cursor| value(call, cursor, $side, true))
                .takes(NAME_OCCURRENCE, 0)
                .checked(check_occurrence)
                .doc(FULL_DOC, concat!("http-request set-var(txn.agent) ", $prefix, ".fhdr(user-agent)")),
            Fetch::new(concat!($prefix, ".fhdr_cnt"), Type::Sint, $sources, |call, _| count(call, $side, true))
                .takes(NAME, 0)
                .checked(check_name)
                .doc(FULL_COUNT_DOC, concat!("acl twice ", $prefix, ".fhdr_cnt(host) gt 1")),
            Fetch::new(concat!($prefix, ".hdr_names"), Type::Str, $sources, |call, _| names(call, $side))
                .takes(NAME, 0)
                .doc(NAMES_DOC, concat!("log-format %[", $prefix, ".hdr_names]")),
            Fetch::new(concat!($prefix, ".hdrs"), Type::Bin, $sources, |call, _| raw(call, $side))
                .doc(RAW_DOC, concat!("http-request set-var(txn.head) ", $prefix, ".hdrs")),
            Fetch::new(concat!($prefix, ".hdrs_bin"), Type::Bin, $sources, |call, _| encoded(call, $side))
                .doc(ENCODED_DOC, concat!("http-request set-var(txn.head) ", $prefix, ".hdrs_bin")),
        ]
    };
}

const REQUEST_FETCHES: [Fetch; 4] = fetches!(Direction::Request, REQUEST, "req.hdr");
const RESPONSE_FETCHES: [Fetch; 4] = fetches!(Direction::Response, RESPONSE, "res.hdr");
const SHORT_REQUEST_FETCHES: [Fetch; 4] = fetches!(Direction::Request, REQUEST, "hdr");
const SHORT_RESPONSE_FETCHES: [Fetch; 4] = fetches!(Direction::Response, RESPONSE, "shdr");
const EXPLICIT_REQUEST: [Fetch; 5] = explicit!(Direction::Request, REQUEST, "req");
const EXPLICIT_RESPONSE: [Fetch; 5] = explicit!(Direction::Response, RESPONSE, "res");

pub(super) const FETCHES: &[Fetch] = &{
    let [req_hdr, req_hdr_cnt, req_hdr_ip, req_hdr_val] = REQUEST_FETCHES;
    let [res_hdr, res_hdr_cnt, res_hdr_ip, res_hdr_val] = RESPONSE_FETCHES;
    let [_, hdr_cnt, hdr_ip, hdr_val] = SHORT_REQUEST_FETCHES;
    let [shdr, shdr_cnt, shdr_ip, shdr_val] = SHORT_RESPONSE_FETCHES;
    let [req_fhdr, req_fhdr_cnt, req_names, req_hdrs, req_hdrs_bin] = EXPLICIT_REQUEST;
    let [res_fhdr, res_fhdr_cnt, res_names, res_hdrs, res_hdrs_bin] = EXPLICIT_RESPONSE;
    // Alone among them, hdr reads the side that is being processed.
    let hdr = Fetch::new("hdr", Type::Str, EITHER, |call, cursor| value(call, cursor, call.options.direction, false))
        .takes(NAME_OCCURRENCE, 0)
        .checked(check_occurrence)
        .doc(VALUE_DOC, "use_backend b if { hdr(host) -i b.example.com }");
    [
        hdr,
        hdr_cnt,
        hdr_ip,
        hdr_val,
        req_fhdr,
        req_fhdr_cnt,
        req_hdr,
        req_hdr_cnt,
        req_hdr_ip,
        req_names,
        req_hdr_val,
        req_hdrs,
        req_hdrs_bin,
        res_fhdr,
        res_fhdr_cnt,
        res_hdr,
        res_hdr_cnt,
        res_hdr_ip,
        res_names,
        res_hdr_val,
        res_hdrs,
        res_hdrs_bin,
        shdr,
        shdr_cnt,
        shdr_ip,
        shdr_val,
    ]
};

fn check_name(arguments: &mut Arguments, _: &mut ParseContext<'_>) -> Result<(), String> {
    if let Some(first) = arguments.first_mut()
        && let Argument::Str(name) = first
    {
        *first = Argument::Header(HeaderId::of(name), std::mem::take(name));
    }
    Ok(())
}

fn check_occurrence(arguments: &mut Arguments, parser: &mut ParseContext<'_>) -> Result<(), String> {
    match arguments.get(1) {
        Some(Argument::Sint(occurrence)) if *occurrence < -OCCURRENCES_BACK_MAX => {
            Err(format!("header occurrence must be >= -{OCCURRENCES_BACK_MAX}"))
        }
        _ => check_name(arguments, parser),
    }
}

/// The name of a header, as an argument.
fn name<'a>(call: &Call<'a>) -> Option<(HeaderId, &'a [u8])> {
    match call.arguments.first() {
        Some(Argument::Header(id, name)) => Some((*id, name)),
        _ => None,
    }
}

/// Whether a field is one of those called `name`; every one is if the name is empty.
fn is_called((id, name): (HeaderId, &[u8]), found: HeaderId, spelling: &[u8]) -> bool {
    if id == HeaderId::Other {
        name.is_empty() || (found == HeaderId::Other && spelling.eq_ignore_ascii_case(name))
    } else {
        found == id
    }
}

/// The first field called `name` from position `from` on.
fn next_field<'a>(headers: &'a Headers, name: (HeaderId, &'a [u8]), from: usize) -> Option<(usize, &'a [u8])> {
    for (position, (found, spelling, value)) in headers.iter_known().enumerate() {
        if position >= from && is_called(name, found, spelling) {
            return Some((position, value));
        }
    }
    None
}

/// Where the first element of a list ends; commas in quotes separate nothing.
fn element_end(list: &[u8]) -> usize {
    let Some(first) = memchr::memchr2(b',', b'"', list) else { return list.len() };
    let (mut quoted, mut escaped) = (false, false);
    for (position, byte) in list.iter().enumerate().skip(first) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' if !quoted => return position,
            _ => {}
        }
    }
    list.len()
}

fn trim(element: &[u8]) -> &[u8] {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let start = element.iter().take_while(|byte| is_blank(byte)).count();
    let element = element.get(start..).unwrap_or_default();
    let end = element.len() - element.iter().rev().take_while(|byte| is_blank(byte)).count();
    element.get(..end).unwrap_or_default()
}

/// The elements of a list, without the blanks around them. A list without any byte has one empty element.
pub(super) fn elements(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(list);
    std::iter::from_fn(move || {
        let list = rest?;
        let end = element_end(list);
        rest = if end < list.len() { list.get(end + 1..) } else { None };
        Some(trim(list.get(..end).unwrap_or_default()))
    })
}

/// The elements of all fields called `name`, or the fields whole.
fn occurrences<'a>(headers: &'a Headers, name: (HeaderId, &'a [u8]), full: bool) -> impl Iterator<Item = &'a [u8]> {
    let fields = headers.iter_known().filter(move |(found, spelling, _)| is_called(name, *found, spelling));
    fields.flat_map(move |(_, _, value)| {
        let whole = full.then(|| trim(value));
        let parts = if full { None } else { Some(elements(value)) };
        whole.into_iter().chain(parts.into_iter().flatten())
    })
}

fn value<'a>(call: &Call<'a>, cursor: &mut Cursor, side: Direction, full: bool) -> Fetched<'a> {
    let Some(name) = name(call) else { return Fetched::Missing };
    let headers = match head(call, side) {
        Head::Here(headers) => headers,
        Head::Absent(answer) => return answer,
    };
    let found = match call.integer(1).unwrap_or(0) {
        0 if call.iterate => next(headers, name, full, cursor),
        0 | -1 => last(headers, name, full),
        occurrence if occurrence > 0 => {
            let before = usize::try_from(occurrence - 1).unwrap_or(usize::MAX);
            occurrences(headers, name, full).nth(before)
        }
        occurrence => {
            let all: Vec<&[u8]> = occurrences(headers, name, full).collect();
            let back = usize::try_from(-occurrence).unwrap_or(usize::MAX);
            all.len().checked_sub(back).and_then(|position| all.get(position).copied())
        }
    };
    found.map(Value::str).into()
}

fn last<'a>(headers: &'a Headers, name: (HeaderId, &'a [u8]), full: bool) -> Option<&'a [u8]> {
    let (_, _, value) = headers.iter_known().rev().find(|(found, spelling, _)| is_called(name, *found, spelling))?;
    if full { Some(trim(value)) } else { elements(value).last() }
}

/// The occurrence after the one that the cursor is at.
fn next<'a>(headers: &'a Headers, name: (HeaderId, &'a [u8]), full: bool, cursor: &mut Cursor) -> Option<&'a [u8]> {
    let (position, value) = next_field(headers, name, cursor.field)?;
    let start = if !full && position == cursor.field { cursor.offset } else { 0 };
    let list = value.get(start..).unwrap_or_default();
    let end = if full { list.len() } else { element_end(list) };
    if end < list.len() {
        (cursor.field, cursor.offset) = (position, start + end + 1);
        cursor.more = true;
    } else {
        (cursor.field, cursor.offset) = (position + 1, 0);
        cursor.more = next_field(headers, name, position + 1).is_some();
    }
    Some(trim(list.get(..end).unwrap_or_default()))
}

fn count<'a>(call: &Call<'a>, side: Direction, full: bool) -> Fetched<'a> {
    let name = name(call).unwrap_or((HeaderId::Other, b""));
    match head(call, side) {
        Head::Here(headers) => {
            let count = occurrences(headers, name, full).count();
            Fetched::Value(Value::Sint(i64::try_from(count).unwrap_or(i64::MAX)))
        }
        Head::Absent(answer) => answer,
    }
}

/// An address that is the whole text, but for a port after an IPv4 address.
fn header_address(text: &[u8]) -> Option<std::net::IpAddr> {
    if let Some((address, used)) = number::leading_ipv4(text) {
        let rest = text.get(used..)?;
        let is_port = |digits: &[u8]| {
            number::parse_integer(digits).is_some_and(|port| (0..=65535).contains(&port)) || digits.is_empty()
        };
        return match rest.split_first() {
            None => Some(address.into()),
            Some((b':', port)) if is_port(port) && !port.is_empty() => Some(address.into()),
            _ => None,
        };
    }
    number::parse_ipv6(text).map(Into::into)
}

fn address<'a>(call: &Call<'a>, cursor: &mut Cursor, side: Direction) -> Fetched<'a> {
    loop {
        cursor.more = false;
        match value(call, cursor, side, false) {
            Fetched::Value(Value::Str(text)) => {
                if let Some(address) = header_address(&text) {
                    return Fetched::Value(Value::address(address));
                }
                // What is no address is as if it were not there.
                if !cursor.more {
                    return Fetched::Missing;
                }
            }
            other => return other,
        }
    }
}

/// Adds a name in lower case, as HAProxy shows names however they were written.
fn push_name(name: &[u8], bytes: &mut Vec<u8>) {
    bytes.extend(name.iter().map(u8::to_ascii_lowercase));
}

fn names<'a>(call: &Call<'a>, side: Direction) -> Fetched<'a> {
    let delimiter = call.text(0).and_then(|text| text.first().copied()).unwrap_or(b',');
    match head(call, side) {
        Head::Here(headers) => {
            let mut names = Vec::new();
            for (name, _) in headers.iter() {
                if !names.is_empty() {
                    names.push(delimiter);
                }
                push_name(name, &mut names);
            }
            Fetched::Value(Value::str(names))
        }
        Head::Absent(answer) => answer,
    }
}

fn raw<'a>(call: &Call<'a>, side: Direction) -> Fetched<'a> {
    match head(call, side) {
        Head::Here(headers) => {
            let mut bytes = Vec::new();
            for (name, value) in headers.iter() {
                push_name(name, &mut bytes);
                bytes.extend_from_slice(b": ");
                bytes.extend_from_slice(value);
                bytes.extend_from_slice(b"\r\n");
            }
            bytes.extend_from_slice(b"\r\n");
            Fetched::Value(Value::str(bytes))
        }
        Head::Absent(answer) => answer,
    }
}

fn encoded<'a>(call: &Call<'a>, side: Direction) -> Fetched<'a> {
    match head(call, side) {
        Head::Here(headers) => {
            let mut bytes = Vec::new();
            for (name, value) in headers.iter() {
                push_length(name.len(), &mut bytes);
                push_name(name, &mut bytes);
                push_length(value.len(), &mut bytes);
                bytes.extend_from_slice(value);
            }
            push_length(0, &mut bytes);
            push_length(0, &mut bytes);
            Fetched::Value(Value::bin(bytes))
        }
        Head::Absent(answer) => answer,
    }
}

/// A length as SPOP encodes it: below 240 in one byte; otherwise 4 bits in the first byte and 7 in each further one.
fn push_length(length: usize, bytes: &mut Vec<u8>) {
    let low = |value: usize, marker: usize| u8::try_from(value & 0xff | marker).unwrap_or(u8::MAX);
    if length < 240 {
        bytes.push(low(length, 0));
        return;
    }
    bytes.push(low(length, 240));
    let mut rest = (length - 240) >> 4;
    while rest >= 128 {
        bytes.push(low(rest, 128));
        rest = (rest - 128) >> 7;
    }
    bytes.push(low(rest, 0));
}
