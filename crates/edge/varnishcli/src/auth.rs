//! Who knows the secret: the server sends random letters, the client answers with a digest of them and the secret.

use sha2::{Digest, Sha256};

/// Letters of a challenge.
pub const CHALLENGE_BYTES: usize = 32;

/// The answer to a challenge: SHA-256 over challenge, newline, secret, challenge, newline, in hexadecimal.
#[must_use]
pub fn response(challenge: &[u8; CHALLENGE_BYTES], secret: &[u8]) -> String {
    let mut digest = Sha256::new();
    for part in [challenge, &b"\n"[..], secret, challenge, b"\n"] {
        digest.update(part);
    }
    basics::hex::lower(&digest.finalize())
}

/// The challenge in the text of a reply with [`crate::Status::Authentication`].
#[must_use]
pub fn challenge_in(text: &[u8]) -> Option<[u8; CHALLENGE_BYTES]> {
    let (challenge, rest) = text.split_first_chunk::<CHALLENGE_BYTES>()?;
    (rest.first() == Some(&b'\n')).then_some(*challenge)
}

/// A challenge of random bytes.
#[must_use]
pub fn challenge_of(random: [u8; CHALLENGE_BYTES]) -> [u8; CHALLENGE_BYTES] {
    random.map(|byte| b'a' + byte % 26)
}

/// Whether two answers are the same. How long it takes does not say where they differ.
#[must_use]
pub(crate) fn is_same(expected: &str, given: &str) -> bool {
    let given = given.to_ascii_lowercase();
    let differences = expected.bytes().zip(given.bytes()).fold(0, |all, (left, right)| all | (left ^ right));
    expected.len() == given.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_the_one_of_the_manual() {
        // The example of varnish-cli(7), with its secret file `foo\n`.
        let challenge = *b"ixslvvxrgkjptxmcgnnsdxsvdmvfympg";
        let answer = response(&challenge, b"foo\n");
        assert_eq!(answer, "455ce847f0073c7ab3b1465f74507b75d3dc064c1e7de3b71e00de9092fdc89a");
        assert!(is_same(&answer, &answer.to_uppercase()));
        assert!(!is_same(&answer, answer.get(1..).unwrap()));
    }
}
