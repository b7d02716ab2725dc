//! Passwords that were right lately.
//!
//! To verify one takes long on purpose, a tenth of a second with some forms, and a browser sends it with each request. So a thread
//! remembers the last ones that were right.

use std::{
    cell::RefCell,
    collections::VecDeque,
    hash::{BuildHasher as _, Hash, RandomState},
};

use web::htpasswd::StoredPassword;

/// Passwords that a thread remembers.
const REMEMBERED_MAX: usize = 256;

/// What was right: digests under keys that nobody knows, of passwords with what they were compared to.
#[derive(Default)]
struct Remembered {
    keys: (RandomState, RandomState),
    digests: VecDeque<(u64, u64)>,
}

thread_local! {
    static REMEMBERED: RefCell<Remembered> = RefCell::default();
}

/// Whether `given` is the password that `hash` was made of.
#[must_use]
pub fn verify(hash: &str, given: &[u8]) -> bool {
    remembering(hash, given, || web::htpasswd::verify(hash, given))
}

/// Whether `given` is the password that is stored so.
#[must_use]
pub fn verify_stored(stored: &StoredPassword, given: &[u8]) -> bool {
    remembering(stored, given, || stored.is(given))
}

fn remembering(stored: impl Hash, given: &[u8], verify: impl FnOnce() -> bool) -> bool {
    REMEMBERED.with_borrow_mut(|remembered| {
        let pair = (stored, given);
        let digest = (remembered.keys.0.hash_one(&pair), remembered.keys.1.hash_one(&pair));
        if remembered.digests.contains(&digest) {
            return true;
        }
        let is_right = verify();
        if is_right {
            remembered.digests.truncate(REMEMBERED_MAX - 1);
            remembered.digests.push_front(digest);
        }
        is_right
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_right_stays_right_and_nothing_else() {
        let (hash, other) = ("{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=", "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=");
        for _ in 0..2 {
            assert!(verify(hash, b"password"));
            assert!(!verify(hash, b"Password"));
            assert!(!verify(other, b"password"));
        }
        let asked = std::cell::Cell::new(0);
        let slow = || {
            asked.set(asked.get() + 1);
            true
        };
        assert!(remembering("x", b"y", slow) && remembering("x", b"y", slow));
        assert_eq!(asked.get(), 1);
        for number in 0..u32::try_from(REMEMBERED_MAX).unwrap() {
            assert!(remembering(number, b"", || true));
        }
        assert!(remembering("x", b"y", slow));
        assert_eq!(asked.get(), 2);
    }
}
