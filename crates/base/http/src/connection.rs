//! What a message says about its connection: RFC 9110 section 7.6 to 7.8, RFC 9112 section 9.

use crate::bytes::trim;
use crate::framing::request_body_length;
use crate::header_id::HeaderId;
use crate::headers::{Headers, bit};
use crate::request::RequestHead;
use crate::values::elements;
use crate::version::Version;

/// The options of all Connection fields of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionOptions {
    /// `close`
    pub close: bool,
    /// `keep-alive`
    pub keep_alive: bool,
    /// `upgrade`
    pub upgrade: bool,
    /// Any other option, which names a field meant for the next hop only.
    pub other: bool,
}

impl ConnectionOptions {
    /// Reads them from the fields.
    #[must_use]
    pub fn of(headers: &Headers) -> Self {
        let mut options = ConnectionOptions::default();
        for value in headers.all_known(HeaderId::Connection) {
            // One option alone, as nearly always, needs no taking apart.
            if value == b"keep-alive" {
                options.keep_alive = true;
            } else if value == b"close" {
                options.close = true;
            } else {
                options.add(value);
            }
        }
        options
    }

    fn add(&mut self, value: &[u8]) {
        for option in elements(value) {
            if option.eq_ignore_ascii_case(b"close") {
                self.close = true;
            } else if option.eq_ignore_ascii_case(b"keep-alive") {
                self.keep_alive = true;
            } else if option.eq_ignore_ascii_case(b"upgrade") {
                self.upgrade = true;
            } else {
                self.other = true;
            }
        }
    }

    /// Whether the sender keeps the connection after this message: close wins, 1.0 needs keep-alive.
    #[must_use]
    pub fn keeps_alive(self, version: Version) -> bool {
        !self.close && (self.keep_alive || version == Version::Http11)
    }
}

/// Whether the sender of a message with this version and these fields keeps the connection after it.
#[must_use]
pub fn keep_alive(version: Version, headers: &Headers) -> bool {
    ConnectionOptions::of(headers).keeps_alive(version)
}

/// The protocols of all Upgrade fields, in order of preference.
pub fn upgrade_protocols(headers: &Headers) -> impl Iterator<Item = &[u8]> {
    headers.all_known(HeaderId::Upgrade).flat_map(elements)
}

/// Whether a protocol is HTTP/2 without TLS, or could be taken for it.
///
/// Behind a proxy that switched to it the client would send requests of its own choice on a connection that the proxy no
/// longer reads: no rule would see them. RFC 9113 section 3.1 has made this upgrade obsolete, so nobody misses it.
#[must_use]
pub fn is_h2c(protocol: &[u8]) -> bool {
    protocol.windows(b"h2c".len()).any(|part| part.eq_ignore_ascii_case(b"h2c"))
}

/// Whether a request asks to change the protocol: HTTP/1.1, Connection: upgrade, and Upgrade naming one that is passed on.
/// In HTTP/1.0 it is ignored (RFC 9110 section 7.8), and as in HAProxy with a body, which would have to pass before the
/// other protocol.
#[must_use]
pub fn wants_upgrade(head: &RequestHead) -> bool {
    head.version() == Version::Http11
        && head.headers.contains_known(HeaderId::Upgrade)
        && ConnectionOptions::of(&head.headers).upgrade
        && upgrade_protocols(&head.headers).any(|protocol| !is_h2c(protocol))
        && request_body_length(head).is_empty()
}

/// Whether the fields are those of a WebSocket handshake (RFC 6455 sections 4.1 and 4.2.2), of a request or of its answer.
#[must_use]
pub fn is_websocket(headers: &Headers) -> bool {
    headers.contains_known(HeaderId::Upgrade)
        && ConnectionOptions::of(headers).upgrade
        && upgrade_protocols(headers).any(|protocol| protocol.eq_ignore_ascii_case(b"websocket"))
}

/// Whether a request is a WebSocket handshake without a key, which HAProxy refuses: servers that ignore such an Upgrade and
/// those that obey it do not agree about what follows.
#[must_use]
pub(crate) fn lacks_websocket_key(head: &RequestHead) -> bool {
    /// Of sixteen bytes in base64.
    const KEY_BYTES: usize = 24;
    is_websocket(&head.headers)
        && request_body_length(head).is_empty()
        && !head.headers.all_known(HeaderId::SecWebSocketKey).any(|key| key.len() == KEY_BYTES)
}

/// Whether a 101 may end what both sides knew as HTTP: it says that it does, it does not switch to HTTP/2, and it accepts a
/// WebSocket as RFC 6455 section 4.2.2 asks for it.
#[must_use]
pub fn switches_protocols(response: &Headers) -> bool {
    ConnectionOptions::of(response).upgrade
        && !upgrade_protocols(response).any(is_h2c)
        && (!is_websocket(response) || response.contains_known(HeaderId::SecWebSocketAccept))
}

/// Whether the client waits for 100 before it sends the body. In HTTP/1.0 it is ignored (RFC 9110 section 10.1.1).
#[must_use]
pub fn expect_continue(head: &RequestHead) -> bool {
    head.version() == Version::Http11
        && head
            .headers
            .all_known(HeaderId::Expect)
            .flat_map(elements)
            .any(|expectation| expectation.eq_ignore_ascii_case(b"100-continue"))
}

/// Whether an option is about how long the connection to the next hop lasts.
fn is_persistence(option: &[u8]) -> bool {
    option.eq_ignore_ascii_case(b"close") || option.eq_ignore_ascii_case(b"keep-alive")
}

/// A value of Connection without `close` and `keep-alive`, spelled as HAProxy does; `None` when it has none of these.
#[must_use]
pub fn without_persistence(value: &[u8]) -> Option<Vec<u8>> {
    if !value.is_empty() && !elements(value).any(is_persistence) {
        return None;
    }
    let kept = |piece: &&[u8]| !is_persistence(trim(piece));
    let first = value.split(|byte| *byte == b',').take_while(kept).collect::<Vec<_>>();
    let rest = value.split(|byte| *byte == b',').skip(first.len()).filter(kept).map(trim);
    let pieces: Vec<&[u8]> = first.iter().copied().chain(rest.filter(|piece| !piece.is_empty())).collect();
    Some(pieces.join(&b","[..]))
}

/// Removes what the Connection fields say about how long the connection lasts, which is for this hop alone: rules and logs
/// never see it.
pub fn remove_persistence(headers: &mut Headers) {
    if !headers.may_have(bit(HeaderId::Connection)) {
        return;
    }
    // One option alone, as nearly always, needs no taking apart.
    headers.retain_known(|id, _, value| id != HeaderId::Connection || !(value.is_empty() || is_persistence(value)));
    if headers.contains_known(HeaderId::Connection) {
        headers.rewrite_known(HeaderId::Connection, without_persistence);
        headers.retain_known(|id, _, value| id != HeaderId::Connection || !value.is_empty());
    } else {
        headers.forget(bit(HeaderId::Connection));
    }
}

/// Removes these options from the Connection fields, and the fields that become empty. The fields are untouched when
/// none has one of the options.
pub fn remove_connection_options(headers: &mut Headers, options: &[&[u8]]) {
    let listed = |option: &[u8]| options.iter().any(|listed| option.eq_ignore_ascii_case(listed));
    let mut emptied = false;
    headers.rewrite_known(HeaderId::Connection, |value| {
        if !elements(value).any(listed) {
            return None;
        }
        let left: Vec<&[u8]> = elements(value).filter(|option| !listed(option)).collect();
        emptied |= left.is_empty();
        Some(left.join(&b", "[..]))
    });
    if emptied {
        headers.retain_known(|id, _, value| id != HeaderId::Connection || !value.is_empty());
    }
}

/// Removes the fields that are for the next hop only: Connection, Keep-Alive, Proxy-Connection, Upgrade, HTTP2-Settings, and
/// TE but for `trailers`, which are passed on.
///
/// With `keep_upgrade`, Upgrade and a `Connection: upgrade` stay, but for `h2c`. Fields that Connection
/// names stay as well, whatever RFC 9110 section 7.6.1 says: by naming them a client could take away what this proxy, or
/// one before it, has said about the client. The names go, so that nobody behind can be made to do it either.
pub fn remove_hop_by_hop(headers: &mut Headers, keep_upgrade: bool) {
    const FOR_NEXT_HOP: u64 = bit(HeaderId::Connection)
        | bit(HeaderId::KeepAlive)
        | bit(HeaderId::ProxyConnection)
        | bit(HeaderId::Te)
        | bit(HeaderId::Upgrade)
        | bit(HeaderId::Http2Settings);
    if !headers.may_have(FOR_NEXT_HOP) {
        return;
    }
    let keep_option = keep_upgrade && ConnectionOptions::of(headers).upgrade;
    if keep_option {
        // It stays where it is and spelled as it is: some servers compare it letter by letter.
        headers.rewrite_known(HeaderId::Connection, |value| {
            let upgrade = elements(value).find(|option| option.eq_ignore_ascii_case(b"upgrade"));
            Some(upgrade.unwrap_or_default().to_vec())
        });
        headers.rewrite_known(HeaderId::Upgrade, without_h2c);
    }
    headers.rewrite_known(HeaderId::Te, |value| {
        let trailers = elements(value).any(|coding| coding.eq_ignore_ascii_case(b"trailers"));
        Some(if trailers { b"trailers".to_vec() } else { Vec::new() })
    });
    headers.retain_known(|id, _, value| match id {
        HeaderId::Connection => keep_option && !value.is_empty(),
        HeaderId::KeepAlive | HeaderId::ProxyConnection | HeaderId::Http2Settings => false,
        HeaderId::Te => !value.is_empty(),
        HeaderId::Upgrade => keep_upgrade && !value.is_empty(),
        _ => true,
    });
}

/// A value of Upgrade without the protocols that never go on; `None` when it has none of these.
fn without_h2c(value: &[u8]) -> Option<Vec<u8>> {
    if !is_h2c(value) {
        return None;
    }
    let kept: Vec<&[u8]> = elements(value).filter(|protocol| !is_h2c(protocol)).collect();
    Some(kept.join(&b", "[..]))
}

#[cfg(test)]
mod tests;
