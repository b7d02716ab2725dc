//! Passwords stored in the forms of crypt(3).

/// Whether `given` is the password that `hash` was made of.
#[must_use]
pub fn verify(hash: &str, given: &[u8]) -> bool {
    pwhash::unix::verify(given, hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(deprecated, reason = "userlists hold what people made years ago")]
    fn every_common_form() {
        for hash in [
            pwhash::md5_crypt::hash("secret"),
            pwhash::sha256_crypt::hash("secret"),
            pwhash::sha512_crypt::hash("secret"),
        ] {
            let hash = hash.unwrap();
            assert!(verify(&hash, b"secret"), "{hash}");
            assert!(!verify(&hash, b"Secret"), "{hash}");
        }
        assert!(!verify("not a hash", b"secret"));
    }
}
