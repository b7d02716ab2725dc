//! Apache's own form of crypt's MD5: the same rounds as `$1$`, with another name within the digest. `htpasswd` makes it unless it is told
//! otherwise.

use md5::{Digest, Md5};

const MAGIC: &str = "$apr1$";
const SALT_BYTES_MAX: usize = 8;
const ROUNDS: usize = 1_000;
/// Letters of crypt's own base64.
const LETTERS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Which bytes of the digest make which four letters; the last two letters are of one byte.
const GROUPS: [[usize; 3]; 5] = [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5]];
/// Letters of a digest.
const DIGEST_LETTERS: usize = 22;

/// Salt and letters of a stored password.
fn parts(stored: &str) -> Option<(&str, &str)> {
    let (salt, digest) = stored.strip_prefix(MAGIC)?.split_once('$')?;
    (salt.len() <= SALT_BYTES_MAX).then_some((salt, digest))
}

/// Whether a text is a password in this form.
pub fn is_well_formed(stored: &str) -> bool {
    let is_letter = |byte: u8| LETTERS.contains(&byte);
    parts(stored).is_some_and(|(_, digest)| digest.len() == DIGEST_LETTERS && digest.bytes().all(is_letter))
}

/// The password in this form, with the salt of one that is stored.
pub fn hash(stored: &str, password: &[u8]) -> Option<String> {
    let (salt, _) = parts(stored)?;
    let inner = Md5::new().chain_update(password).chain_update(salt).chain_update(password).finalize();
    let mut outer = Md5::new().chain_update(password).chain_update(MAGIC).chain_update(salt);
    for chunk in password.chunks(inner.len()) {
        outer.update(inner.get(..chunk.len()).unwrap_or_default());
    }
    let mut length = password.len();
    while length > 0 {
        outer.update(if length & 1 == 1 { &[0][..] } else { password.get(..1).unwrap_or_default() });
        length >>= 1;
    }
    let mut digest = outer.finalize();
    for round in 0..ROUNDS {
        let is_odd = round % 2 == 1;
        let mut next = Md5::new();
        next.update(if is_odd { password } else { digest.as_slice() });
        if round % 3 != 0 {
            next.update(salt);
        }
        if round % 7 != 0 {
            next.update(password);
        }
        next.update(if is_odd { digest.as_slice() } else { password });
        digest = next.finalize();
    }
    let byte = |place: usize| u32::from(digest.get(place).copied().unwrap_or(0));
    let mut text = format!("{MAGIC}{salt}$");
    let mut push = |mut bits: u32, letters: usize| {
        for _ in 0..letters {
            text.push(LETTERS.get((bits & 63) as usize).copied().map_or('.', char::from));
            bits >>= 6;
        }
    };
    for [high, middle, low] in GROUPS {
        push(byte(high) << 16 | byte(middle) << 8 | byte(low), 4);
    }
    push(byte(11), 2);
    Some(text)
}
