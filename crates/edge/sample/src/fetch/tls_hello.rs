//! The first message of a TLS client that is passed through: what to route by without decrypting anything.
//!
//! The layout is that of RFC 8446, section 4.1.2, inside one record (section 5.1); lengths come before what they measure, so
//! a reader that takes prefixed blocks off a slice cannot run over an end.

use crate::context::Direction;
use crate::keyword::{Call, Cursor, Fetch, Fetched};
use crate::value::{Type, Value};

use super::content::{REQUEST, RESPONSE, buffer};

pub(super) const FETCHES: &[Fetch] = &[
    Fetch::new("req.ssl_alpn", Type::Str, REQUEST, alpn)
        .doc("The protocols that a TLS client offers; in ACLs every one.", "use_backend h2 if { req.ssl_alpn h2 }"),
    Fetch::new("req.ssl_ec_ext", Type::Bool, REQUEST, |call, _| {
        extension(call, SUPPORTED_GROUPS, |_| Some(Value::Bool(true)))
    })
    .doc("Whether a TLS client names elliptic curves.", "use_backend ecc if { req.ssl_ec_ext 1 }"),
    Fetch::new("req.ssl_hello_type", Type::Sint, REQUEST, |call, _| hello_type(call))
        .also(&["req_ssl_hello_type"])
        .doc(
            "The type of the TLS handshake message: 1 is a client's hello.",
            "tcp-request content accept if { req.ssl_hello_type 1 }",
        ),
    Fetch::new("req.ssl_sni", Type::Str, REQUEST, |call, _| extension(call, SERVER_NAME, server_name))
        .also(&["req_ssl_sni"])
        .doc("The server name that a TLS client asks for.", "use_backend b if { req.ssl_sni -i b.example.com }"),
    Fetch::new("req.ssl_st_ext", Type::Sint, REQUEST, |call, _| {
        match extension(call, SESSION_TICKET, |data| Some(Value::Sint(if data.is_empty() { 1 } else { 2 }))) {
            Fetched::Missing if client_hello(call).is_ok() => Fetched::Value(Value::Sint(0)),
            other => other,
        }
    })
    .doc("Session tickets of a TLS client: 0 not known to it, 1 asked for, 2 one sent.", "acl ticket req.ssl_st_ext 2"),
    Fetch::new("req.ssl_ver", Type::Sint, REQUEST, |call, _| version(call)).also(&["req_ssl_ver"]).doc(
        "The version that a TLS client says it speaks; 3.1 is TLS 1.0.",
        "tcp-request content reject if { req.ssl_ver lt 3.1 }",
    ),
    Fetch::new("res.ssl_hello_type", Type::Sint, RESPONSE, |call, _| hello_type(call))
        .also(&["rep_ssl_hello_type"])
        .doc(
            "The type of the server's TLS handshake message: 2 is its hello.",
            "tcp-response content accept if { res.ssl_hello_type 2 }",
        ),
];

const SERVER_NAME: u16 = 0;
const SUPPORTED_GROUPS: u16 = 10;
const ALPN: u16 = 16;
const SESSION_TICKET: u16 = 35;

/// Bytes of the largest record that is waited for.
const RECORD_BYTES_MAX: usize = (1 << 14) + 2048;

/// Why there is no hello.
enum NoHello {
    /// More bytes must come in.
    TooShort,
    /// It is something else.
    Other,
}

/// Takes `width` bytes off the front as a number.
fn number(bytes: &mut &[u8], width: usize) -> Option<usize> {
    let (digits, rest) = bytes.split_at_checked(width)?;
    *bytes = rest;
    Some(digits.iter().fold(0, |value, byte| value << 8 | usize::from(*byte)))
}

/// Takes a block off the front whose length stands before it in `width` bytes.
fn block<'a>(bytes: &mut &'a [u8], width: usize) -> Option<&'a [u8]> {
    let length = number(bytes, width)?;
    let (block, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(block)
}

/// The body of a complete client hello at the start of the buffer.
fn client_hello<'a>(call: &Call<'a>) -> Result<&'a [u8], NoHello> {
    let bytes = buffer(call).ok_or(NoHello::Other)?.bytes;
    let expect = |position: usize, is_right: fn(u8) -> bool| match bytes.get(position) {
        None => Err(NoHello::TooShort),
        Some(byte) if is_right(*byte) => Ok(()),
        Some(_) => Err(NoHello::Other),
    };
    // A handshake record of SSL 3.0 or later with a client hello in it.
    expect(0, |byte| byte == 0x16)?;
    expect(1, |byte| byte >= 3)?;
    expect(5, |byte| byte == 1)?;
    let mut message = bytes.get(6..).ok_or(NoHello::TooShort)?;
    let length = number(&mut message, 3).ok_or(NoHello::TooShort)?;
    if length > RECORD_BYTES_MAX {
        return Err(NoHello::Other);
    }
    message.get(..length).ok_or(NoHello::TooShort)
}

/// The extensions of a client hello.
fn extensions(mut hello: &[u8]) -> Option<&[u8]> {
    let version = number(&mut hello, 2)?;
    let random = hello.get(32..)?;
    hello = random;
    let session_id = block(&mut hello, 1)?;
    let ciphers = block(&mut hello, 2)?;
    let compressions = block(&mut hello, 1)?;
    let is_sane = version >= 0x0301 && session_id.len() <= 32 && ciphers.len() >= 2 && !compressions.is_empty();
    if is_sane { block(&mut hello, 2) } else { None }
}

fn find_extension(hello: &[u8], wanted: u16) -> Option<&[u8]> {
    let mut rest = extensions(hello)?;
    loop {
        let kind = number(&mut rest, 2)?;
        let data = block(&mut rest, 2)?;
        if kind == usize::from(wanted) {
            return Some(data);
        }
    }
}

fn extension<'a>(call: &Call<'a>, wanted: u16, read: impl FnOnce(&'a [u8]) -> Option<Value<'a>>) -> Fetched<'a> {
    if call.options.direction != Direction::Request {
        return Fetched::Missing;
    }
    match client_hello(call) {
        Ok(hello) => find_extension(hello, wanted).and_then(read).into(),
        Err(NoHello::TooShort) => call.absent(),
        Err(NoHello::Other) => Fetched::Missing,
    }
}

/// RFC 6066, section 3: a list of names, of which only host names (type 0) exist.
fn server_name(mut data: &[u8]) -> Option<Value<'_>> {
    let mut list = block(&mut data, 2)?;
    loop {
        let kind = number(&mut list, 1)?;
        let name = block(&mut list, 2)?;
        if kind == 0 {
            return Some(Value::str(name));
        }
    }
}

/// RFC 7301, section 3.1: a list of protocol names, the preferred one first.
fn alpn<'a>(call: &Call<'a>, cursor: &mut Cursor) -> Fetched<'a> {
    extension(call, ALPN, |mut data| {
        let list = block(&mut data, 2)?;
        let mut rest = list.get(cursor.offset..)?;
        let name = block(&mut rest, 1)?;
        cursor.offset = list.len() - rest.len();
        cursor.more = call.iterate && !rest.is_empty();
        Some(Value::str(name))
    })
}

/// Whether a byte starts a record of SSL 3.0 or later.
fn starts_record(byte: u8) -> bool {
    matches!(byte, 0x14..=0x17 | 0xff)
}

fn hello_type<'a>(call: &Call<'a>) -> Fetched<'a> {
    let Some(buffer) = buffer(call) else { return Fetched::Missing };
    let bytes = buffer.bytes;
    match bytes.first() {
        None => return call.absent(),
        Some(first) if !starts_record(*first) => return Fetched::Missing,
        Some(_) => {}
    }
    let Some(mut header) = bytes.get(1..9) else { return call.absent() };
    let (major, _) = (number(&mut header, 1), number(&mut header, 1));
    let record_length = number(&mut header, 2);
    let kind = number(&mut header, 1).unwrap_or(0);
    let length = number(&mut header, 3).unwrap_or(0);
    if major.is_none_or(|major| major < 3) || record_length.is_none_or(|length| length < 4) {
        return Fetched::Missing;
    }
    if bytes.len() < 9 + length {
        return call.absent();
    }
    Fetched::Value(Value::Sint(i64::try_from(kind).unwrap_or(0)))
}

/// The version in the hello, as major and minor number in 16 bits each. Hellos in the format of SSL 2.0 count too.
fn version<'a>(call: &Call<'a>) -> Fetched<'a> {
    let Some(buffer) = buffer(call).filter(|_| call.options.direction == Direction::Request) else {
        return Fetched::Missing;
    };
    let bytes = buffer.bytes;
    let Some(first) = bytes.first() else { return call.absent() };
    let (version, complete) = if starts_record(*first) {
        let Some(mut header) = bytes.get(1..11) else { return call.absent() };
        let (major, _) = (number(&mut header, 1), number(&mut header, 1));
        let length = number(&mut header, 2).unwrap_or(0);
        if major.is_none_or(|major| major < 3) || !(6..=RECORD_BYTES_MAX).contains(&length) {
            return Fetched::Missing;
        }
        let version = header.get(4..6).map(|mut version| (number(&mut version, 1), number(&mut version, 1)));
        (version, bytes.len() >= (5 + length).min(BUFFERED_BYTES))
    } else {
        match old_hello(bytes) {
            Ok(found) => found,
            Err(NoHello::TooShort) => return call.absent(),
            Err(NoHello::Other) => return Fetched::Missing,
        }
    };
    match version {
        Some((Some(major), Some(minor))) if complete => {
            Fetched::Value(Value::Sint(i64::try_from(major << 16 | minor).unwrap_or(0)))
        }
        _ => call.absent(),
    }
}

/// How much of a long record is waited for before its version is believed.
const BUFFERED_BYTES: usize = 15_360;

type Version = Option<(Option<usize>, Option<usize>)>;

/// A client hello in the format of SSL 2.0 (RFC 5246, appendix E.2): its version, and whether it is complete.
fn old_hello(bytes: &[u8]) -> Result<(Version, bool), NoHello> {
    let short = bytes.first().is_some_and(|first| first & 0x80 != 0);
    let header = if short { 2 } else { 3 };
    let mut rest = bytes.get(header..).filter(|rest| !rest.is_empty()).ok_or(NoHello::TooShort)?;
    let mut prefix = bytes;
    let length = number(&mut prefix, 2).unwrap_or(0) & if short { 0x7fff } else { 0x3fff };
    let padding = if short { 0 } else { prefix.first().copied().map_or(0, usize::from) };
    if number(&mut rest, 1) != Some(1) {
        return Err(NoHello::Other);
    }
    let mut fields = rest.get(..8).ok_or(NoHello::TooShort)?;
    let version = (number(&mut fields, 1), number(&mut fields, 1));
    let mut next = || number(&mut fields, 2).unwrap_or(0);
    let (ciphers, session_id, challenge) = (next(), next(), next());
    let data = ciphers + session_id + challenge;
    let is_sane = ciphers % 3 == 0
        && (session_id == 0 || session_id == 16)
        && (16..=32).contains(&challenge)
        && length == 9 + data;
    if !is_sane {
        return Err(NoHello::Other);
    }
    Ok((Some(version), rest.len() - 8 >= data + padding))
}
