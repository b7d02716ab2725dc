//! Which requests a stored response answers (RFC 9111 section 4.1).

use http::{HeaderId, Headers, elements};

/// The fields that a response depends on, in small letters and in order; `None` for `*`.
#[must_use]
pub fn names(response: &Headers) -> Option<Vec<Vec<u8>>> {
    let mut names: Vec<Vec<u8>> =
        response.all_known(HeaderId::Vary).flat_map(elements).map(<[u8]>::to_ascii_lowercase).collect();
    names.sort_unstable();
    names.dedup();
    (!names.iter().any(|name| name == b"*")).then_some(names)
}

/// What a request says in these fields: what is the same for two requests that one response answers. Blanks around values and how
/// lines are put together do not count; nor do order and letters where a field is known to be a set of wishes whose weights it says.
#[must_use]
pub fn key(names: &[Vec<u8>], request: &Headers) -> Vec<u8> {
    let mut key = Vec::new();
    for name in names {
        key.extend_from_slice(name);
        if name == b"accept-language" && request.contains(name) {
            // RFC 9110 section 12.5.4: weights say what is preferred. RFC 5646 section 2.1.1: letters of tags do not count.
            key.push(b':');
            let mut wishes: Vec<Vec<u8>> = request.all(name).flat_map(elements).map(without_blanks).collect();
            wishes.sort_unstable();
            key.extend_from_slice(&wishes.join(&b","[..]));
            key.push(b'\n');
            continue;
        }
        let mut is_there = false;
        for line in request.all(name) {
            key.push(if is_there { b',' } else { b':' });
            is_there = true;
            let parts: Vec<&[u8]> = line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).collect();
            key.extend_from_slice(&parts.join(&b","[..]));
        }
        // NOTE: a line feed is in no value, so keys of different requests differ.
        key.push(b'\n');
    }
    key
}

/// An element in small letters, without the blanks that may stand around its weight.
fn without_blanks(element: &[u8]) -> Vec<u8> {
    element.iter().filter(|byte| !byte.is_ascii_whitespace()).map(u8::to_ascii_lowercase).collect()
}
