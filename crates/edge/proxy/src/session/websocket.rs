//! Handshakes of WebSocket, where one side speaks HTTP/1 (RFC 6455) and the other one HTTP/2 (RFC 8441), which does without keys.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderId, RequestHead, ResponseHead};
use sha1::{Digest as _, Sha1};

/// What a server puts behind a key (RFC 6455 section 1.3).
const SUFFIX: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// What proves that a server has understood a handshake with this key.
pub fn accept_of(key: &[u8]) -> String {
    STANDARD.encode(Sha1::new().chain_update(key.trim_ascii()).chain_update(SUFFIX).finalize())
}

/// Gives a handshake a key, if its client has none; whether it did.
pub fn add_key(head: &mut RequestHead, random: [u64; 2]) -> bool {
    let has_none = http::is_websocket(&head.headers) && !head.headers.contains_known(HeaderId::SecWebSocketKey);
    if has_none {
        let key = STANDARD.encode([random[0].to_be_bytes(), random[1].to_be_bytes()].concat());
        head.headers.add_known(HeaderId::SecWebSocketKey, key.as_bytes());
    }
    has_none
}

/// Whether a server has proved that it has understood a handshake (RFC 6455 section 4.1).
pub fn is_agreed(request: &RequestHead, response: &ResponseHead) -> bool {
    let key = request.headers.first_known(HeaderId::SecWebSocketKey);
    let accept = response.headers.first_known(HeaderId::SecWebSocketAccept);
    key.zip(accept).is_some_and(|(key, accept)| accept.trim_ascii() == accept_of(key).as_bytes())
}

/// Makes a server's agreement by HTTP/2 one of HTTP/1, with what proves it.
pub fn agree(head: &mut ResponseHead, accept: &str) {
    head.set_status(101);
    head.headers.retain_known(|id, _, _| !matches!(id, HeaderId::ContentLength | HeaderId::TransferEncoding));
    head.headers.add_known(HeaderId::Connection, b"upgrade");
    head.headers.add_known(HeaderId::Upgrade, b"websocket");
    head.headers.add_known(HeaderId::SecWebSocketAccept, accept.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_proves_it_is_as_in_the_standard() {
        assert_eq!(accept_of(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
