//! Responses that the edge makes itself: error pages, `return`, `deny`, redirects, the statistics page.

use std::sync::Arc;

use haproxycfg::model::{ErrorReply, Proxy, Reply, ReplyBody};
use http::{HeaderId, Limits, Parsed, ResponseHead, ResponseParser, Version, reason_phrase};

use super::transaction::Transaction;

/// The sentence under the status of a built-in page.
fn sentence(status: u16) -> &'static str {
    match status {
        200 => "Service ready.",
        400 => "Your browser sent an invalid request.",
        401 => "You need a valid user and password to access this content.",
        403 => "Request forbidden by administrative rules.",
        404 => "The resource could not be found.",
        405 => "A request was made of a resource using a request method not supported by that resource",
        407 => "You need a valid user and password to access this content.",
        408 => "Your browser didn't send a complete request in time.",
        410 => "The resource is no longer available and will not be available again.",
        413 => "The request entity exceeds the maximum allowed.",
        431 => "The head of the request is too large.",
        421 => "Request sent to a non-authoritative server.",
        422 => "The server cannot process the contained instructions.",
        425 => "Your browser sent early data.",
        429 => "You have sent too many requests in a given amount of time.",
        500 => "An internal server error occurred.",
        501 => "The server does not support the functionality required to fulfill the request.",
        502 => "The server returned an invalid or incomplete response.",
        503 => "No server is available to handle this request.",
        504 => "The server didn't respond in time.",
        _ => "",
    }
}

/// Puts the error page of `status` into the transaction's response and returns its body.
pub fn error_page(transaction: &mut Transaction, status: u16) -> Arc<[u8]> {
    match configured(transaction, status) {
        Some(ErrorReply::Raw(bytes)) => raw(&mut transaction.response, status, &bytes),
        Some(ErrorReply::Redirect { status, location }) => {
            let response = &mut transaction.response;
            start_redirect(response, status);
            response.headers.add(b"cache-control", b"no-cache");
            response.headers.add(b"content-length", b"0");
            response.headers.add(b"location", &location);
            Arc::from([])
        }
        Some(ErrorReply::Reply(reply)) => build(transaction, &reply, status),
        None => {
            let names = if transaction.asked.is_invalid() { &RAW_NAMES } else { &NAMES };
            built_in(&mut transaction.response, status, names)
        }
    }
}

/// Names of the fields of a built-in page.
type Names = [&'static str; 4];
const NAMES: Names = ["content-length", "cache-control", "connection", "content-type"];
/// The same where there was no request: HAProxy writes such a page as it stands, without what it does to names otherwise.
const RAW_NAMES: Names = ["Content-length", "Cache-Control", "Connection", "Content-Type"];

fn configured(transaction: &Transaction, status: u16) -> Option<ErrorReply> {
    let of = |proxy: &Proxy| proxy.error_replies.get(&status).cloned();
    transaction
        .route
        .backend
        .as_ref()
        .and_then(|backend| of(backend.settings()))
        .or_else(|| of(transaction.frontend_settings()))
}

/// What the built-in pages call a status.
fn reason(status: u16) -> &'static str {
    match status {
        400 => "Bad request",
        407 => "Unauthorized",
        413 => "Payload Too Large",
        502 => "Bad Gateway",
        _ => reason_phrase(status),
    }
}

fn built_in(response: &mut ResponseHead, status: u16, names: &Names) -> Arc<[u8]> {
    let [content_length, cache_control, connection, content_type] = names.map(str::as_bytes);
    let reason = reason(status);
    let body = format!("<html><body><h1>{status} {reason}</h1>\n{}\n</body></html>\n", sentence(status));
    response.start(Version::Http11, status);
    response.set_reason(reason.as_bytes());
    response.headers.add(content_length, body.len().to_string().as_bytes());
    response.headers.add(cache_control, b"no-cache");
    if status == 400 || status == 408 {
        response.headers.add(connection, b"close");
    }
    response.headers.add(content_type, b"text/html");
    body.into_bytes().into()
}

/// A whole response as an error file holds it. The parser of the configuration has checked it.
fn raw(response: &mut ResponseHead, status: u16, bytes: &[u8]) -> Arc<[u8]> {
    let limits = Limits { head_bytes_max: bytes.len().max(1), accept_invalid: true, ..Limits::default() };
    let bytes = &*with_lower_names(bytes);
    match ResponseParser::new().parse(bytes, &limits, response) {
        Ok(Parsed::Complete { consumed }) => {
            let body: Arc<[u8]> = bytes.get(consumed..).unwrap_or_default().into();
            response.headers.remove_known(HeaderId::TransferEncoding);
            body
        }
        _ => built_in(response, status, &NAMES),
    }
}

/// The same response with the names of its header fields in lower case, as HAProxy sends them.
fn with_lower_names(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    let lines = out.split_mut(|byte| *byte == b'\n').skip(1);
    for line in lines.take_while(|line| !matches!(line, [] | [b'\r'])) {
        let name = line.iter().position(|byte| *byte == b':').unwrap_or(0);
        line.get_mut(..name).unwrap_or_default().make_ascii_lowercase();
    }
    out
}

fn content(response: &mut ResponseHead, len: usize) {
    response.headers.add_number(HeaderId::ContentLength, len as u64);
}

/// Puts a configured reply into the transaction's response and returns its body.
pub fn build(transaction: &mut Transaction, reply: &Reply, default_status: u16) -> Arc<[u8]> {
    let status = reply.status.unwrap_or(default_status);
    let body: Arc<[u8]> = match &reply.body {
        ReplyBody::ErrorPage => {
            let body = error_page(transaction, status);
            add_headers(transaction, reply);
            return body;
        }
        ReplyBody::Raw(bytes) => return raw(&mut transaction.response, status, bytes),
        ReplyBody::Empty => Arc::from([]),
        ReplyBody::Fixed(bytes) => Arc::clone(bytes),
        ReplyBody::Format(format) => format.to_vec(transaction).into(),
    };
    transaction.response.start(Version::Http11, status);
    add_headers(transaction, reply);
    content(&mut transaction.response, body.len());
    if let Some(content_type) = &reply.content_type
        && !body.is_empty()
    {
        transaction.response.headers.add_known(HeaderId::ContentType, content_type);
    }
    body
}

fn add_headers(transaction: &mut Transaction, reply: &Reply) {
    for (name, format) in &reply.headers {
        let value = format.to_vec(transaction);
        if !value.is_empty() {
            transaction.response.headers.add(name.as_bytes(), &value);
        }
    }
}

/// A page of text that nobody keeps; returns its body.
pub fn plain_text(transaction: &mut Transaction, text: &str) -> Arc<[u8]> {
    let response = &mut transaction.response;
    response.start(Version::Http11, 200);
    response.headers.add_number(HeaderId::ContentLength, u64::try_from(text.len()).unwrap_or(0));
    response.headers.add(b"content-type", b"text/plain");
    response.headers.add(b"cache-control", b"no-store");
    text.as_bytes().into()
}

/// Whether the configuration wants the connection to end without any answer: an empty error file.
#[must_use]
pub fn is_silent(transaction: &Transaction, status: u16) -> bool {
    match configured(transaction, status) {
        Some(ErrorReply::Raw(bytes)) => bytes.is_empty(),
        Some(ErrorReply::Reply(reply)) => matches!(&reply.body, ReplyBody::Raw(bytes) if bytes.is_empty()),
        _ => false,
    }
}

/// Begins a redirect, for whose 302 HAProxy has another reason phrase than for others.
fn start_redirect(response: &mut ResponseHead, status: u16) {
    response.start(Version::Http11, status);
    if status == 302 {
        response.set_reason(b"Found");
    }
}

/// Puts a redirect into the transaction's response.
pub fn redirect(transaction: &mut Transaction, code: u16, location: &[u8], set_cookie: Option<&[u8]>) {
    let is_unread = !transaction.asked.is_over && !http::request_body_length(&transaction.request).is_empty();
    let response = &mut transaction.response;
    start_redirect(response, code);
    if is_unread {
        response.headers.add(b"connection", b"close");
    }
    content(response, 0);
    response.headers.add(b"location", location);
    if matches!(code, 302 | 303 | 307) {
        response.headers.add(b"cache-control", b"no-cache");
    }
    if let Some(cookie) = set_cookie {
        response.headers.add(b"set-cookie", cookie);
    }
}

/// Puts the redirect of a server's `redir` into the transaction's response.
pub fn server_redirect(transaction: &mut Transaction, location: &[u8]) {
    let response = &mut transaction.response;
    start_redirect(response, 302);
    response.headers.add(b"cache-control", b"no-cache");
    response.headers.add(b"connection", b"close");
    content(response, 0);
    response.headers.add(b"location", location);
}

/// Puts the demand for credentials into the transaction's response and returns its body.
pub fn unauthorized(transaction: &mut Transaction, realm: &[u8]) -> Arc<[u8]> {
    // A client that speaks to a proxy is asked for that proxy's credentials.
    let to_proxy = transaction.asks_proxy();
    let (status, field) = if to_proxy { (407, "proxy-authenticate") } else { (401, "www-authenticate") };
    let body = error_page(transaction, status);
    let realm: Vec<u8> = realm.iter().copied().filter(|byte| !matches!(byte, b'"' | b'\\')).collect();
    transaction.response.headers.add(field.as_bytes(), &[&b"Basic realm=\""[..], &realm, b"\""].concat());
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_error_files_are_written_in_lower_case() {
        for (text, expected) in [
            ("HTTP/1.0 503 No\r\nX-One: Two\r\n\r\nA-Body: X", "HTTP/1.0 503 No\r\nx-one: Two\r\n\r\nA-Body: X"),
            ("HTTP/1.0 503 No\nX-One:Two:A\n\nB: X\n", "HTTP/1.0 503 No\nx-one:Two:A\n\nB: X\n"),
            ("HTTP/1.0 503 No\r\n\r\n", "HTTP/1.0 503 No\r\n\r\n"),
            ("", ""),
        ] {
            assert_eq!(with_lower_names(text.as_bytes()), expected.as_bytes());
        }
    }
}
