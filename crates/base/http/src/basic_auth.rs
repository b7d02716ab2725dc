//! The Basic scheme of HTTP authentication (RFC 7617).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::bytes::trim;

/// User and password of an Authorization or Proxy-Authorization value. None when it is of another scheme or malformed.
#[must_use]
pub fn basic_credentials(value: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (scheme, rest) = value.split_at_checked(5)?;
    if !scheme.eq_ignore_ascii_case(b"basic") || !rest.starts_with(b" ") {
        return None;
    }
    let mut user = STANDARD.decode(trim(rest)).ok()?;
    let colon = memchr::memchr(b':', &user)?;
    let password = user.split_off(colon + 1);
    user.truncate(colon);
    Some((user, password))
}

/// The Authorization value for a user and password; how a proxy authenticates itself.
#[must_use]
pub fn basic_authorization(user: &[u8], password: &[u8]) -> String {
    format!("Basic {}", STANDARD.encode([user, b":", password].concat()))
}

#[cfg(test)]
mod tests {
    use super::{basic_authorization, basic_credentials};

    fn check(value: &str, expected: Option<(&str, &str)>) {
        let found = basic_credentials(value.as_bytes());
        let expected = expected.map(|(user, password)| (user.as_bytes().to_vec(), password.as_bytes().to_vec()));
        assert_eq!(found, expected, "{value}");
    }

    #[test]
    fn credentials() {
        check("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", Some(("Aladdin", "open sesame")));
        check("basic  OmE6Yg==", Some(("", "a:b")));
        check("Basic QWxhZGRpbg==", None);
        check("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=", None);
        check("Basic *", None);
        check("Bearer QWxhZGRpbjpvcGVuIHNlc2FtZQ==", None);
        check("Basic", None);
        check("", None);
    }

    #[test]
    fn round_trip() {
        let value = basic_authorization(b"user", b"pass:word\xff");
        assert_eq!(basic_credentials(value.as_bytes()), Some((b"user".to_vec(), b"pass:word\xff".to_vec())));
    }
}
