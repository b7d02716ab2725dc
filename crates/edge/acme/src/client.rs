//! The little of HTTP/1.1 that ACME needs: one request a connection, with bounds for time and size.

use std::{future::poll_fn, io, net::SocketAddr, time::Duration};

use http::{BodyLength, ChunkedDecoder, Limits, Method, Parsed, ResponseHead, ResponseParser};
use net::{Stream, Target, connect::ConnectOptions};
use thiserror::Error;
use tls::{
    AcceptorError, ClientOptions, Connection, Connector, Failure, RevocationLists, ServerVerification, TrustAnchors,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::timeout,
};

use crate::{
    dates,
    messages::{Request, Response},
};

/// How long a request may take.
const REQUEST_TIME: Duration = Duration::from_secs(60);
/// How long a connection may take that is not the last one to be tried.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// Bytes of a head and of a body.
const HEAD_MAX: usize = 32 * 1024;
const BODY_MAX: usize = 512 * 1024;

/// Where an authority is, by a URL.
#[derive(Debug, PartialEq, Eq)]
struct Place<'a> {
    is_secure: bool,
    authority: &'a str,
    host: &'a str,
    port: u16,
    path: &'a str,
}

impl<'a> Place<'a> {
    fn of(url: &'a str) -> Option<Self> {
        let (is_secure, rest) = match url.strip_prefix("https://") {
            Some(rest) => (true, rest),
            None => (false, url.strip_prefix("http://")?),
        };
        // What would end the request line stands in no URL.
        if !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
            return None;
        }
        let path_at = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at_checked(path_at)?;
        let usual = if is_secure { 443 } else { 80 };
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
            _ => (authority, usual),
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        (!host.is_empty()).then_some(Self { is_secure, authority, host, port, path })
    }
}

/// Why an authority cannot be asked.
#[derive(Debug, Error)]
pub enum AskError {
    /// It is none.
    #[error("'{0}' is no URL")]
    Url(String),
    /// Its name is not known.
    #[error("its name cannot be looked up ({}); in a chroot, /etc/resolv.conf must be there", system_words(.0))]
    Lookup(io::Error),
    /// Its name has no address.
    #[error("its name has no address")]
    NoAddress,
    /// It cannot be connected to.
    #[error("{0}: {why}", why = system_words(.1))]
    Connect(SocketAddr, io::Error),
    /// Nor in time.
    #[error("{0}: no connection within {seconds} seconds", seconds = CONNECT_TIME.as_secs())]
    ConnectTimeout(SocketAddr),
    /// TLS has no settings.
    #[error(transparent)]
    Settings(#[from] AcceptorError),
    /// TLS fails.
    #[error("its certificate or its TLS is refused: {0}; see 'httpclient.ssl.ca-file'")]
    Tls(#[from] Failure),
    /// The connection fails.
    #[error("{}", system_words(.0))]
    Connection(#[from] io::Error),
    /// What it says is no HTTP.
    #[error("what comes back is no HTTP ({0})")]
    NotHttp(&'static str),
    /// It says too much.
    #[error("the answer is too large")]
    TooLarge,
    /// It says too little.
    #[error("the answer is cut off")]
    CutOff,
    /// It says nothing in time.
    #[error("no answer within {} seconds", REQUEST_TIME.as_secs())]
    Timeout,
}

/// Asks an authority.
#[derive(Clone, Debug)]
pub struct Client {
    anchors: Option<TrustAnchors>,
}

impl Client {
    /// One that verifies authorities by these; by nothing at all without them.
    pub fn new(anchors: Option<TrustAnchors>) -> Self {
        Self { anchors }
    }

    /// What comes back for a request.
    ///
    /// # Errors
    /// What is wrong with the way to the authority.
    pub async fn ask(&self, request: &Request) -> Result<Response, AskError> {
        timeout(REQUEST_TIME, self.exchange(request)).await.unwrap_or(Err(AskError::Timeout))
    }

    async fn exchange(&self, request: &Request) -> Result<Response, AskError> {
        let place = Place::of(&request.url).ok_or_else(|| AskError::Url(request.url.clone()))?;
        let stream = connect(&place).await?;
        let mut stream = if place.is_secure { self.negotiate(stream, place.host).await? } else { stream };
        let head = head_of(request, &place);
        let sent = async {
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(&request.body).await
        };
        sent.await?;
        receive(&mut stream, request.method == "HEAD").await
    }

    async fn negotiate(&self, stream: Stream, host: &str) -> Result<Stream, AskError> {
        let verification = match &self.anchors {
            None => ServerVerification::None,
            Some(anchors) => ServerVerification::Required {
                anchors: anchors.clone(),
                revocation: RevocationLists::default(),
                host: Some(host.to_owned()),
            },
        };
        let options = ClientOptions { verification, resumes: false, ..ClientOptions::default() };
        let connector = Connector::new(&options)?;
        let name = host.parse::<std::net::IpAddr>().is_err().then_some(host);
        let connection = Connection::client(&connector, name, None)?;
        let stream = stream.securable();
        if let Some(secure) = stream.secure() {
            secure.begin(connection, &[]);
            poll_fn(|context| secure.poll_handshake(context)).await?;
        }
        Ok(stream)
    }
}

async fn connect(place: &Place<'_>) -> Result<Stream, AskError> {
    let found = tokio::net::lookup_host((place.host, place.port)).await.map_err(AskError::Lookup)?;
    let addresses: Vec<_> = found.collect();
    let mut why = AskError::NoAddress;
    for address in addresses {
        let target = Target::Inet(address);
        match timeout(CONNECT_TIME, net::connect::connect(&target, ConnectOptions::default())).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => why = AskError::Connect(address, error),
            Err(_) => why = AskError::ConnectTimeout(address),
        }
    }
    Err(why)
}

/// The system's words without Rust's "(os error 2)".
pub fn system_words(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

fn head_of(request: &Request, place: &Place<'_>) -> String {
    let Request { method, body, .. } = request;
    let path = if place.path.starts_with('/') { place.path } else { "/" };
    let version = env!("CARGO_PKG_VERSION");
    let mut head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {}\r\nUser-Agent: tidegate/{version}\r\nAccept-Language: en\r\nConnection: close\r\n",
        place.authority
    );
    if *method == "POST" {
        head.push_str(&format!("Content-Type: application/jose+json\r\nContent-Length: {}\r\n", body.len()));
    }
    head + "\r\n"
}

async fn receive(stream: &mut Stream, is_head: bool) -> Result<Response, AskError> {
    let limits = Limits { head_bytes_max: HEAD_MAX, ..Limits::default() };
    let mut received = Vec::new();
    let (head, head_len) = loop {
        let (mut head, mut parser) = (ResponseHead::new(), ResponseParser::new());
        match parser.parse(&received, &limits, &mut head) {
            Ok(Parsed::Complete { consumed: head_len }) if (100..200).contains(&head.status()) => {
                received.drain(..head_len);
            }
            Ok(Parsed::Complete { consumed: head_len }) => break (head, head_len),
            Ok(_) => fill(stream, &mut received).await?.then_some(()).ok_or(AskError::CutOff)?,
            Err(error) => return Err(AskError::NotHttp(error.kind.text())),
        }
    };
    let method = if is_head { Method::Head } else { Method::Get };
    let mut body = received.split_off(head_len);
    match http::response_body_length(&head, method) {
        BodyLength::None => body.clear(),
        BodyLength::Exact(length) => {
            let length = usize::try_from(length).ok().filter(|length| *length <= BODY_MAX).ok_or(AskError::TooLarge)?;
            while body.len() < length {
                fill(stream, &mut body).await?.then_some(()).ok_or(AskError::CutOff)?;
            }
            body.truncate(length);
        }
        BodyLength::Chunked => body = chunks(stream, body, &limits).await?,
        BodyLength::UntilClose => while fill(stream, &mut body).await? {},
    }
    let text = |name: &[u8]| head.headers.last(name).map(|value| String::from_utf8_lossy(value).trim().to_owned());
    Ok(Response {
        status: head.status(),
        nonce: text(b"replay-nonce").filter(|nonce| !nonce.is_empty()),
        location: text(b"location"),
        retry_after: text(b"retry-after").and_then(|text| retry_after(&text)),
        body,
    })
}

/// Receives more; false at the end.
async fn fill(stream: &mut Stream, into: &mut Vec<u8>) -> Result<bool, AskError> {
    if into.len() > BODY_MAX {
        return Err(AskError::TooLarge);
    }
    let mut room = [0; 8_192];
    let count = stream.read(&mut room).await?;
    into.extend_from_slice(room.get(..count).unwrap_or_default());
    Ok(count > 0)
}

async fn chunks(stream: &mut Stream, mut received: Vec<u8>, limits: &Limits) -> Result<Vec<u8>, AskError> {
    let (mut decoder, mut body) = (ChunkedDecoder::new(limits), Vec::new());
    loop {
        let progress = decoder.decode_into(&received, &mut body);
        progress.map_err(|error| AskError::NotHttp(error.kind.text()))?;
        if decoder.is_done() {
            return Ok(body);
        }
        if body.len() > BODY_MAX {
            return Err(AskError::TooLarge);
        }
        received.clear();
        fill(stream, &mut received).await?.then_some(()).ok_or(AskError::CutOff)?;
    }
}

/// `Retry-After`: seconds, or a date.
fn retry_after(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let left = dates::from_http(text)? - crate::status::now();
    Some(Duration::from_secs(u64::try_from(left).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        let place = |url| Place::of(url).map(|place| (place.is_secure, place.host, place.port, place.path));
        for (url, expected) in [
            ("https://ca.example/dir?x", Some((true, "ca.example", 443, "/dir?x"))),
            ("http://127.0.0.1:4001", Some((false, "127.0.0.1", 4001, ""))),
            ("https://[::1]:14000/dir", Some((true, "::1", 14_000, "/dir"))),
            ("https://[::1]/dir", Some((true, "::1", 443, "/dir"))),
            ("ftp://ca.example/", None),
            ("https:///dir", None),
            ("https://ca.example/a b", None),
            ("https://ca.example/a\r\nX: y", None),
            ("https://ca.example:x/", None),
        ] {
            assert_eq!(place(url), expected, "{url}");
        }
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        assert_eq!(retry_after("120"), Some(Duration::from_secs(120)));
        assert_eq!(retry_after("Thu, 29 Feb 2024 12:00:00 GMT"), Some(Duration::ZERO));
        assert!(retry_after("Thu, 28 Feb 2199 12:00:00 GMT").unwrap() > Duration::from_secs(1_000_000));
        assert_eq!(retry_after("later"), None);
    }
}
