//! The request line, the status line, and what is kept of them.

use std::net::Ipv4Addr;

use crate::arguments::ArgumentType;
use crate::bytes::Bytes;
use crate::context::{Direction, Request};
use crate::http_path;
use crate::keyword::{Call, Cursor, Fetch, Fetched};
use crate::number;
use crate::place::{Source, Sources};
use crate::value::{Type, Value};
use balance::hash::full_hash;

const HEADERS: Sources = Sources::of(&[Source::RequestHeaders]);
const REQUEST: Sources = Sources::of(&[Source::Request]);
const RESPONSE_HEADERS: Sources = Sources::of(&[Source::ResponseHeaders]);
const RESPONSE: Sources = Sources::of(&[Source::Response]);
const ANYWHERE: Sources = Sources::of(&[Source::Constant]);

pub(super) const FETCHES: &[Fetch] = &[
    Fetch::new("base", Type::Str, HEADERS, |call, _| base(call, false))
        .doc("The first Host and the path, without the query.", "stick on base"),
    Fetch::new("baseq", Type::Str, HEADERS, |call, _| base(call, true))
        .doc("The first Host, the path and the query.", "http-request set-var(txn.key) baseq"),
    Fetch::new("base32", Type::Sint, HEADERS, |call, _| {
        request(call, |request| Some(Value::Sint(i64::from(base_hash(request, false)))))
    })
    .doc("A hash of the first Host and the path.", "http-request track-sc0 base32"),
    Fetch::new("base32+src", Type::Bin, HEADERS, |call, _| with_source(call, false))
        .doc("The bytes of base32 followed by those of the client's address.", "http-request track-sc0 base32+src"),
    Fetch::new("url32", Type::Sint, HEADERS, |call, _| {
        request(call, |request| Some(Value::Sint(i64::from(base_hash(request, true)))))
    })
    .doc("A hash of the first Host, the path and the query.", "http-request track-sc0 url32"),
    Fetch::new("url32+src", Type::Bin, HEADERS, |call, _| with_source(call, true))
        .doc("The bytes of url32 followed by those of the client's address.", "http-request track-sc0 url32+src"),
    Fetch::new("capture.req.hdr", Type::Str, REQUEST, |call, _| {
        slot(call).and_then(|slot| call.context.request_capture(slot)).map(Value::Str).into()
    })
    .takes(&[ArgumentType::Sint], 1)
    .doc("A captured header of the request, by the number of its slot.", "log-format %[capture.req.hdr(0)]"),
    Fetch::new("capture.req.method", Type::Str, REQUEST, |call, _| line(call, method_of))
        .doc("The method of the request, kept until the end.", "log-format %[capture.req.method]"),
    Fetch::new("capture.req.uri", Type::Str, REQUEST, |call, _| {
        line(call, |line| {
            let target = target_of(line)?;
            let path = http_path::path_and_query(line.get(target.0..target.1)?)?;
            Some((target.1 - path.len(), target.1))
        })
    })
    .doc("The path and the query of the request, kept until the end.", "log-format %[capture.req.uri]"),
    Fetch::new("capture.req.ver", Type::Str, REQUEST, |call, _| {
        let Some(line) = call.context.request_line() else { return Fetched::Missing };
        Fetched::Value(Value::str(if line.ends_with(b"HTTP/1.1") { "HTTP/1.1" } else { "HTTP/1.0" }))
    })
    .doc("The version of the request, as HTTP/1.1, kept until the end.", "log-format %[capture.req.ver]"),
    Fetch::new("capture.res.hdr", Type::Str, RESPONSE, |call, _| {
        slot(call).and_then(|slot| call.context.response_capture(slot)).map(Value::Str).into()
    })
    .takes(&[ArgumentType::Sint], 1)
    .doc("A captured header of the response, by the number of its slot.", "log-format %[capture.res.hdr(0)]"),
    Fetch::new("capture.res.ver", Type::Str, REQUEST, |call, _| {
        let Some(version) = call.context.response_version() else { return Fetched::Missing };
        Fetched::Value(Value::str(if version == (1, 0) { "HTTP/1.0" } else { "HTTP/1.1" }))
    })
    .doc("The version of the response, as HTTP/1.1, kept until the end.", "log-format %[capture.res.ver]"),
    Fetch::new("http_first_req", Type::Bool, REQUEST, |call, _| {
        // Known as long as the transaction lasts, unlike the request's head.
        match call.context.request() {
            Some(request) => Fetched::Value(Value::Bool(request.first)),
            None => call.absent(),
        }
    })
    .doc("Whether the request is the first of its connection.", "http-request deny if !http_first_req"),
    Fetch::new("method", Type::Meth, REQUEST, |call, _| match call.context.method() {
        Some(method) => Fetched::Value(Value::Meth(method)),
        None => call.absent(),
    })
    .doc("The method of the request.", "acl write method POST PUT DELETE"),
    Fetch::new("path", Type::Str, HEADERS, |call, _| {
        request(call, |request| http_path::path(request.uri).map(Value::str))
    })
    .doc("The path of the request, without its query.", "use_backend static if { path_beg /static }"),
    Fetch::new("pathq", Type::Str, HEADERS, |call, _| {
        request(call, |request| http_path::path_and_query(request.uri).map(Value::str))
    })
    .doc("The path and the query of the request.", "http-request redirect location https://example.com%[pathq]"),
    Fetch::new("query", Type::Str, HEADERS, |call, _| {
        request(call, |request| http_path::query(request.uri).map(Value::str))
    })
    .doc("The query of the request, without its question mark.", "acl has_query query -m found"),
    Fetch::new("req.proto_http", Type::Bool, REQUEST, |call, _| request(call, |_| Some(Value::Bool(true))))
        .also(&["req_proto_http"])
        .doc("Whether the data is an HTTP request.", "tcp-request content accept if { req.proto_http }"),
    Fetch::new("req.ver", Type::Str, HEADERS, |call, _| {
        request(call, |request| Some(Value::Str(version(request.version))))
    })
    .also(&["req_ver"])
    .doc("The version of the request, as 1.1.", "acl old req.ver 1.0"),
    Fetch::new("res.ver", Type::Str, RESPONSE_HEADERS, |call, _| {
        if call.options.direction != Direction::Response {
            return Fetched::Missing;
        }
        match call.context.response() {
            Some(response) => Fetched::Value(Value::Str(version(response.version))),
            None => call.absent(),
        }
    })
    .also(&["resp_ver"])
    .doc("The version of the response, as 1.1.", "acl old res.ver 1.0"),
    Fetch::new("res.comp", Type::Bool, RESPONSE, |call, _| {
        Fetched::Value(Value::Bool(call.context.compression().is_some()))
    })
    .doc("Whether the response is compressed here.", "http-response set-header X-Compressed yes if { res.comp }"),
    Fetch::new("res.cache_hit", Type::Bool, RESPONSE, |call, _| {
        Fetched::Value(Value::Bool(call.context.cache_hit().is_some()))
    })
    .doc("Whether the response comes from a cache section.", "http-response set-header X-Cache-Hit %[res.cache_hit]"),
    Fetch::new("res.cache_name", Type::Str, RESPONSE, |call, _| call.context.cache_hit().map(Value::str).into())
        .doc("The cache section that the response comes from.", "http-response set-header X-Cache %[res.cache_name]"),
    Fetch::new("res.comp_algo", Type::Str, RESPONSE, |call, _| call.context.compression().map(Value::str).into())
        .doc("How the response is compressed here: gzip, deflate.", "log-format \"%ST %[res.comp_algo] %B\""),
    Fetch::new("status", Type::Sint, RESPONSE, |call, _| {
        if call.options.direction != Direction::Response {
            return Fetched::Missing;
        }
        match call.context.status() {
            Some(status) => Fetched::Value(Value::Sint(i64::from(status))),
            None => call.absent(),
        }
    })
    .doc("The status code of the response.", "http-response set-header X-Error yes if { status ge 500 }"),
    Fetch::new("unique-id", Type::Str, ANYWHERE, |call, _| call.context.unique_id().map(Value::Str).into())
        .doc("The unique id of the stream, if unique-id-format is set.", "http-request set-header X-Id %[unique-id]"),
    Fetch::new("url", Type::Str, HEADERS, |call, _| request(call, |request| Some(Value::Str(whole_uri(request)))))
        .doc("The target of the request as it came.", "acl proxied url_beg http://"),
    Fetch::new("url_ip", Type::Ipv4, HEADERS, |call, _| {
        request(call, |request| url_address(&whole_uri(request)).map(|(address, _)| Value::Ipv4(address)))
    })
    .doc("The IPv4 address in an absolute target.", "acl internal url_ip 10.0.0.0/8"),
    Fetch::new("url_port", Type::Sint, HEADERS, |call, _| {
        request(call, |request| url_address(&whole_uri(request)).map(|(_, port)| Value::Sint(i64::from(port))))
    })
    .doc("The port in an absolute target whose host is an IPv4 address.", "acl standard url_port 80 443"),
    Fetch::new("urlp", Type::Str, HEADERS, parameter)
        .also(&["url_param"])
        .takes(&[ArgumentType::Str, ArgumentType::Str], 0)
        .doc(
            "A parameter of the query, or every one; the second argument is what the list starts with in place of ?.",
            "stick on urlp(session)",
        ),
    Fetch::new("urlp_val", Type::Sint, HEADERS, |call, cursor| integer(parameter(call, cursor)))
        .takes(&[ArgumentType::Str, ArgumentType::Str], 0)
        .doc("A parameter of the query as an integer.", "acl high urlp_val(page) gt 100"),
];

/// Reads a sample from the request; none while the response is processed.
fn request<'a>(call: &Call<'a>, read: impl FnOnce(&Request<'a>) -> Option<Value<'a>>) -> Fetched<'a> {
    if call.options.direction != Direction::Request {
        return Fetched::Missing;
    }
    match call.context.request() {
        Some(request) => read(&request).into(),
        None if !call.context.request_may_come() => Fetched::Missing,
        None => call.absent(),
    }
}

/// A sample cut to the integer at its start.
pub(super) fn integer(found: Fetched<'_>) -> Fetched<'_> {
    match found {
        Fetched::Value(Value::Str(text)) => Fetched::Value(Value::Sint(leading_integer(&text))),
        Fetched::Changing(Value::Str(text)) => Fetched::Changing(Value::Sint(leading_integer(&text))),
        other => other,
    }
}

/// The integer at the start of `text`: a minus is read, a plus is not.
fn leading_integer(text: &[u8]) -> i64 {
    if text.first() == Some(&b'+') { 0 } else { number::read_int64(text).0 }
}

fn version(version: (u8, u8)) -> Bytes<'static> {
    match version {
        (1, 1) => Bytes::Borrowed(b"1.1"),
        (1, 0) => Bytes::Borrowed(b"1.0"),
        (2, 0) => Bytes::Borrowed(b"2.0"),
        (major, minor) => format!("{major}.{minor}").into(),
    }
}

fn slot(call: &Call<'_>) -> Option<usize> {
    usize::try_from(call.integer(0)?).ok()
}

/// Reads a part of the request line that was kept, by where it starts and ends.
fn line<'a>(call: &Call<'a>, part: impl FnOnce(&[u8]) -> Option<(usize, usize)>) -> Fetched<'a> {
    let Some(line) = call.context.request_line() else { return Fetched::Missing };
    let range = part(&line);
    range.map(|(start, end)| Value::Str(line.slice(start, end))).into()
}

fn method_of(line: &[u8]) -> Option<(usize, usize)> {
    Some((0, memchr::memchr(b' ', line).unwrap_or(line.len())))
}

fn target_of(line: &[u8]) -> Option<(usize, usize)> {
    let start = memchr::memchr(b' ', line)? + 1;
    let length = memchr::memchr(b' ', line.get(start..)?);
    Some((start, length.map_or(line.len(), |length| start + length)))
}

/// The first element of the first Host.
fn first_host<'a>(request: &Request<'a>) -> Option<&'a [u8]> {
    let value = request.headers.first_known(http::HeaderId::Host)?;
    super::header::elements(value).next()
}

fn base<'a>(call: &Call<'a>, with_query: bool) -> Fetched<'a> {
    request(call, |request| {
        let path = if with_query { http_path::path_and_query(request.uri) } else { http_path::path(request.uri) };
        match first_host(request) {
            Some(host) if !host.is_empty() => {
                let path = path.filter(|path| path.first() == Some(&b'/')).unwrap_or_default();
                Some(Value::str([host, path].concat()))
            }
            _ => path.map(Value::str),
        }
    })
}

fn base_hash(request: &Request<'_>, with_query: bool) -> u32 {
    // Bytes above 127 count as negative: the hash is older than the idea that they might matter.
    let add = |hash: u32, byte: &u8| {
        let value = i32::from(i8::from_ne_bytes([*byte])).cast_unsigned();
        value.wrapping_add(hash << 6).wrapping_add(hash << 16).wrapping_sub(hash)
    };
    let host = if with_query { request.headers.first_known(http::HeaderId::Host) } else { first_host(request) };
    let path = if with_query { http_path::path_and_query(request.uri) } else { http_path::path(request.uri) };
    let path = path.filter(|path| path.first() == Some(&b'/')).unwrap_or_default();
    let hash = host.unwrap_or_default().iter().fold(0, add);
    full_hash(path.iter().fold(hash, add))
}

fn with_source<'a>(call: &Call<'a>, with_query: bool) -> Fetched<'a> {
    let source = call.context.client().and_then(|client| client.source).and_then(crate::context::Address::ip);
    let Some(source) = source else { return Fetched::Missing };
    request(call, |request| {
        let mut bytes = base_hash(request, with_query).to_be_bytes().to_vec();
        match source {
            std::net::IpAddr::V4(address) => bytes.extend_from_slice(&address.octets()),
            std::net::IpAddr::V6(address) => bytes.extend_from_slice(&address.octets()),
        }
        Some(Value::bin(bytes))
    })
}

/// The target with its scheme and its authority, if it has any.
fn whole_uri<'a>(request: &Request<'a>) -> Bytes<'a> {
    match request.uri_prefix {
        [] => Bytes::Borrowed(request.uri),
        prefix => Bytes::Owned([prefix, request.uri].concat()),
    }
}

/// The IPv4 address and the port of an absolute target.
fn url_address(uri: &[u8]) -> Option<(Ipv4Addr, u16)> {
    let scheme_end = memchr::memmem::find(uri, b"://")?;
    let scheme = uri.get(..scheme_end)?;
    let default = if scheme.eq_ignore_ascii_case(b"http") {
        80
    } else if scheme.eq_ignore_ascii_case(b"https") {
        443
    } else {
        return None;
    };
    let rest = uri.get(scheme_end + 3..)?;
    let (address, used) = number::leading_ipv4(rest)?;
    let port = match rest.get(used..)?.strip_prefix(b":") {
        Some(digits) => u16::try_from(number::read_int64(digits).0).unwrap_or(default),
        None => default,
    };
    Some((address, port))
}

/// Whether `byte` ends a parameter; in a list that starts with a question mark, `;` does too.
fn ends_parameter(byte: u8, delimiter: u8) -> bool {
    byte == b'&' || byte == b';' || byte == delimiter
}

fn parameter<'a>(call: &Call<'a>, cursor: &mut Cursor) -> Fetched<'a> {
    let delimiter = call.text(1).and_then(|text| text.first().copied()).unwrap_or(b'?');
    let name = call.text(0).unwrap_or_default();
    request(call, |request| {
        let start = if cursor.started {
            cursor.offset
        } else {
            cursor.started = true;
            memchr::memchr(delimiter, request.uri)? + 1
        };
        let list = request.uri.get(start..)?;
        let (value_start, value_end) = next_parameter(list, name, delimiter)?;
        cursor.offset = start + value_end;
        cursor.more = value_end < list.len();
        list.get(value_start..value_end).map(Value::str)
    })
}

/// Where the value of the next parameter called `name` is in `list`; of any parameter if the name is empty.
pub(super) fn next_parameter(list: &[u8], name: &[u8], delimiter: u8) -> Option<(usize, usize)> {
    let end_of = |from: usize| {
        let rest = list.get(from..).unwrap_or_default();
        from + rest.iter().position(|byte| ends_parameter(*byte, delimiter)).unwrap_or(rest.len())
    };
    if name.is_empty() {
        let start = memchr::memchr(b'=', list)? + 1;
        return Some((start, end_of(start)));
    }
    let mut position = 0;
    while position < list.len() {
        let rest = list.get(position..)?;
        if let Some(value) = rest.strip_prefix(name)
            && value.first() == Some(&b'=')
        {
            let start = position + name.len() + 1;
            return Some((start, end_of(start)));
        }
        position = end_of(position) + 1;
    }
    None
}
