//! How large a message's head counts in logs and statistics.
//!
//! HAProxy counts messages in its own form: a start line with its lengths, names and values of fields, and one byte for
//! their end. `%B`, `%U`, `bin` and `bout` are compared with what HAProxy said for years, so they are counted the same.

use http::{HeaderId, Headers, RequestHead, ResponseHead};

/// A start line's own bytes beside its three words.
const START_LINE: usize = 20;
/// The end of the fields.
const END: usize = 1;
/// `HTTP/1.1`, whatever version it is.
const VERSION: usize = 8;
/// Digits of a status.
const STATUS: usize = 3;

/// What the head of a request counts.
pub fn of_request(head: &RequestHead) -> u64 {
    (START_LINE + head.method().len() + head.target().len() + VERSION + of_fields(&head.headers) + END) as u64
}

/// What the head of a response that is made here counts, whatever it says about the connection.
pub fn of_reply(head: &ResponseHead) -> u64 {
    (START_LINE + VERSION + STATUS + head.reason().len() + head.headers.text_len() + END) as u64
}

/// What a 103 counts.
pub fn of_early_hints(fields: &Headers) -> u64 {
    (START_LINE + VERSION + STATUS + "Early Hints".len() + fields.text_len() + END) as u64
}

/// What the head of a server's response counts.
pub fn of_response(head: &ResponseHead) -> u64 {
    (START_LINE + VERSION + STATUS + head.reason().len() + of_fields(&head.headers) + END) as u64
}

fn of_fields(headers: &Headers) -> usize {
    let whole = headers.text_len();
    // Seen as if each Connection field were as long as what of it belongs to the message.
    headers.all_known(HeaderId::Connection).fold(whole, |sum, value| {
        (sum + of_connection(value)).saturating_sub(HeaderId::Connection.name().len() + value.len())
    })
}

/// `close` and `keep-alive` are for the next hop alone and not part of the message.
fn of_connection(value: &[u8]) -> usize {
    // One option alone, as nearly always, needs no taking apart.
    if value == b"keep-alive" || value == b"close" {
        return 0;
    }
    let length = http::without_persistence(value).map_or(value.len(), |rest| rest.len());
    if length == 0 { 0 } else { HeaderId::Connection.name().len() + length }
}

#[cfg(test)]
mod tests {
    use http::Version;

    use super::*;

    #[test]
    fn heads_count_as_haproxy_counts_them() {
        let mut head = RequestHead::new();
        head.start(b"GET", b"/", Version::Http11);
        head.headers.add(b"Host", b"a");
        for (connection, expected) in [
            ("", 38),
            ("close", 38),
            ("keep-alive", 38),
            ("Upgrade", 38 + 17),
            ("keep-alive, Upgrade", 38 + 17),
            ("x, Close, y", 38 + 10 + 3),
            ("x,  y", 38 + 10 + 5),
        ] {
            if !connection.is_empty() {
                head.headers.set(b"connection", connection.as_bytes());
            }
            assert_eq!(of_request(&head), expected, "{connection}");
        }
        let mut head = ResponseHead::new();
        head.start(Version::Http11, 200);
        head.headers.add(b"content-length", b"5");
        assert_eq!(of_response(&head), 49);
    }
}
