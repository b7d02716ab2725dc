//! Which fields go on from one message to the next (Varnish: `http_headers.h`).

use cache::object::Object;
use http::{ConnectionOptions, HeaderId, Headers, RequestHead};

/// Fields of one connection: they go nowhere.
const OF_THE_CONNECTION: [&[u8]; 9] = [
    b"connection",
    b"keep-alive",
    b"proxy-authenticate",
    b"proxy-authorization",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
    b"proxy-connection",
];

/// What a request for an object does not take over from the client's: it is for everybody.
const NOT_FETCHED: [&[u8]; 8] = [
    b"content-length",
    b"expect",
    b"if-match",
    b"if-modified-since",
    b"if-none-match",
    b"if-range",
    b"if-unmodified-since",
    b"range",
];

/// What a client says to caches, or of a body that it has: a program's fetch for everybody goes without.
const NOT_FOR_EVERYBODY: [&[u8]; 3] = [b"cache-control", b"accept-ranges", b"content-range"];

/// Removes what a client says to caches from a request for an object.
pub(crate) fn remove_wishes(headers: &mut Headers) {
    headers.retain(|name, _| !is_one_of(&NOT_FOR_EVERYBODY, name));
}

/// What a response does not take into the cache.
const NOT_STORED: [&[u8]; 1] = [b"accept-ranges"];

/// What a client cannot declare to be for one connection: a request that does so is refused, as by Varnish. What is left of it would
/// mean something else to the backend, but its answer would be stored for all who ask for what the whole request says.
const END_TO_END: [&[u8]; 44] = [
    b"accept",
    b"accept-charset",
    b"accept-encoding",
    b"accept-language",
    b"age",
    b"allow",
    b"authorization",
    b"cache-control",
    b"content-encoding",
    b"content-language",
    b"content-length",
    b"content-location",
    b"content-md5",
    b"content-range",
    b"content-type",
    b"cookie",
    b"date",
    b"etag",
    b"expect",
    b"expires",
    b"from",
    b"host",
    b"if-match",
    b"if-modified-since",
    b"if-none-match",
    b"if-range",
    b"if-unmodified-since",
    b"last-modified",
    b"location",
    b"max-forwards",
    b"pragma",
    b"proxy-authenticate",
    b"proxy-authorization",
    b"range",
    b"referer",
    b"retry-after",
    b"server",
    b"set-cookie",
    b"user-agent",
    b"vary",
    b"via",
    b"warning",
    b"www-authenticate",
    b"x-forwarded-for",
];

/// The names that the Connection fields of a message list, in small letters (RFC 9110 section 7.6.1).
#[must_use]
pub fn named_by_connection(headers: &Headers) -> Vec<Vec<u8>> {
    headers.all_known(HeaderId::Connection).flat_map(http::elements).map(<[u8]>::to_ascii_lowercase).collect()
}

/// Whether the Connection fields of a request name what is never for one connection.
#[must_use]
pub fn names_end_to_end(headers: &Headers) -> bool {
    headers.all_known(HeaderId::Connection).flat_map(http::elements).any(|name| is_one_of(&END_TO_END, name))
}

/// Removes the fields that the client has named as being for its connection, and their names, before anything looks at the request:
/// what is set under such a name from then on stays. What is known to be for one connection is left to who sends the request on.
pub fn remove_named(headers: &mut Headers) {
    let mut named = named_by_connection(headers);
    named.retain(|name| !is_one_of(&OF_THE_CONNECTION, name) && name != b"close");
    if named.is_empty() {
        return;
    }
    headers.retain(|name, _| !named.iter().any(|named| named.eq_ignore_ascii_case(name)));
    let options: Vec<&[u8]> = named.iter().map(Vec::as_slice).collect();
    http::remove_connection_options(headers, &options);
}

/// The request that a backend gets of a client's, without the fields that the client has `named` for its connection; `is_pass` for one
/// that is for this client alone, `has_body` if its body goes along.
#[must_use]
pub fn backend_request(from: &RequestHead, named: &[Vec<u8>], is_pass: bool, has_body: bool) -> RequestHead {
    let mut to = from.clone();
    let framing: [&[u8]; 2] = [b"content-length", b"transfer-encoding"];
    let framing = framing.map(|name| from.headers.first(name).filter(|_| has_body).map(|value| (name, value)));
    remove_hop_by_hop(&mut to.headers, named);
    if !is_pass {
        if !has_body {
            to.forget_body();
        }
        to.headers.retain(|name, _| !is_one_of(&NOT_FETCHED, name));
        for (name, value) in framing.into_iter().flatten() {
            to.headers.set(name, value);
        }
        to.set_method(b"GET");
    } else {
        to.headers.remove(b"expect");
    }
    to.set_version(http::Version::Http11);
    to
}

/// Makes the target of a request that names a host a path, and that host the Host, as Varnish does (RFC 9112 section 3.2.2).
pub fn split_target(request: &mut RequestHead, is_https_known: bool) {
    let target = request.target();
    if target.starts_with(b"/") {
        return;
    }
    let after = |scheme: &[u8]| {
        let (start, rest) = target.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then_some(rest)
    };
    let rest = after(b"http://").or_else(|| after(b"https://").filter(|_| is_https_known));
    let Some((host, path)) = rest.and_then(|rest| rest.split_at_checked(rest.iter().position(|byte| *byte == b'/')?))
    else {
        return;
    };
    let (host, path) = (host.to_vec(), path.to_vec());
    request.headers.remove_known(HeaderId::Host);
    request.headers.add(b"Host", &host);
    request.set_target(&path);
}

/// The request that opens a pipe: as it is, but for what the client has `named` for its connection.
#[must_use]
pub fn piped_request(from: &RequestHead, named: &[Vec<u8>]) -> RequestHead {
    let mut to = from.clone();
    to.headers.retain(|name, _| !named.iter().any(|named| named.eq_ignore_ascii_case(name)));
    to.headers.set(b"Connection", b"close");
    to
}

/// Makes one field of all that have a name, as Varnish does of those whose order would be lost otherwise.
pub fn collect(headers: &mut Headers, name: &[u8], separator: &[u8]) {
    if headers.all(name).nth(1).is_some() {
        let all = headers.all(name).collect::<Vec<_>>().join(separator);
        headers.set(name, &all);
    }
}

/// What an object has of a backend's response.
pub fn keep_for_object(headers: &mut Headers, is_pass: bool) {
    remove_connection(headers);
    if is_pass {
        return;
    }
    headers.retain(|name, _| !is_one_of(&NOT_STORED, name));
}

/// Removes what is said for one connection, and what `Connection` names.
pub fn remove_connection(headers: &mut Headers) {
    let named = named_by_connection(headers);
    remove_hop_by_hop(headers, &named);
}

fn remove_hop_by_hop(headers: &mut Headers, named: &[Vec<u8>]) {
    headers.retain(|name, _| {
        !is_one_of(&OF_THE_CONNECTION, name) && !named.iter().any(|named| named.eq_ignore_ascii_case(name))
    });
}

/// Whether a client may have a body in gzip.
#[must_use]
pub fn accepts_gzip(headers: &Headers) -> bool {
    headers.all_known(HeaderId::AcceptEncoding).flat_map(http::elements).any(|element| {
        let mut parts = element.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let coding = parts.next().unwrap_or_default();
        let refuses = parts.any(|part| {
            let weight = part.strip_prefix(b"q=").or_else(|| part.strip_prefix(b"Q="));
            let weight = weight.map(|weight| std::str::from_utf8(weight).ok().and_then(|weight| weight.parse().ok()));
            weight.is_some_and(|weight: Option<f64>| weight.is_none_or(|weight| weight <= 0.0))
        });
        (coding.eq_ignore_ascii_case(b"gzip") || coding.eq_ignore_ascii_case(b"x-gzip")) && !refuses
    })
}

/// Whether a message's body stands in gzip.
#[must_use]
pub fn is_gzip(headers: &Headers) -> bool {
    headers.first_known(HeaderId::ContentEncoding).is_some_and(names_gzip)
}

/// The same of an object, as its head says.
#[must_use]
pub fn is_stored_as_gzip(object: &Object) -> bool {
    object.head().first_known(HeaderId::ContentEncoding).is_some_and(names_gzip)
}

fn names_gzip(coding: &[u8]) -> bool {
    coding.eq_ignore_ascii_case(b"gzip") || coding.eq_ignore_ascii_case(b"x-gzip")
}

/// Says that there is another form of a body for who understands another encoding.
pub fn vary_by_encoding(headers: &mut Headers) {
    let said: Vec<u8> = headers.all(b"vary").collect::<Vec<_>>().join(&b", "[..]);
    let is_said = http::elements(&said).any(|name| name == b"*" || name.eq_ignore_ascii_case(b"accept-encoding"));
    if said.is_empty() {
        headers.add(b"Vary", b"Accept-Encoding");
    } else if !is_said {
        headers.set(b"Vary", &[&said, &b", Accept-Encoding"[..]].concat());
    }
}

/// What has been taken out of gzip is not the same, byte by byte.
pub(crate) fn weaken_tag(headers: &mut Headers) {
    let tag = headers.first(b"etag").map(<[u8]>::to_vec);
    if let Some(tag) = tag.filter(|tag| !tag.starts_with(b"W/")) {
        headers.set(b"ETag", &[b"W/", tag.as_slice()].concat());
    }
}

/// Whether the connection ends with this message, as far as its fields say.
#[must_use]
pub fn closes(headers: &Headers) -> bool {
    ConnectionOptions::of(headers).close
}

fn is_one_of(names: &[&[u8]], name: &[u8]) -> bool {
    names.iter().any(|known| known.eq_ignore_ascii_case(name))
}
