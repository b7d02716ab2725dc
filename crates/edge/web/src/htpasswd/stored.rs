//! A stored password: which form it has, and whether another one is the same.

use base64::{Engine, engine::general_purpose::STANDARD};
use sha1::{Digest, Sha1};

use super::apr1;

/// The greatest cost of bcrypt that is computed: each one more doubles the time, and this one takes several seconds.
pub const BCRYPT_COST_MAX: u32 = 16;

/// The most rounds of SHA-256 and SHA-512 that are computed.
pub const ROUNDS_MAX: u32 = 10_000_000;

/// The longest password that is compared, as libcrypt has it. The time that SHA's forms take grows with its square.
pub const PASSWORD_BYTES_MAX: usize = 512;

/// A password in one of the forms that Apache and nginx read.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct StoredPassword {
    form: Form,
    text: String,
}

/// The forms, the cheapest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Form {
    /// `{PLAIN}secret`
    Plain,
    /// `{SHA}` and 20 bytes in base64.
    Sha1,
    /// `{SSHA}` and 20 bytes and a salt in base64.
    SaltedSha1,
    /// crypt(3) of the seventies: 13 letters.
    Des,
    /// crypt(3) of BSDi: an underscore and 19 letters.
    Bsdi,
    /// `$1$`
    Md5,
    /// `$apr1$`: Apache's.
    Apr1,
    /// `$sha1$`, NetBSD's.
    Sha1Crypt,
    /// `$5$`
    Sha256,
    /// `$6$`
    Sha512,
    /// `$2a$`, `$2b$`, `$2y$`
    Bcrypt,
}

/// How long it takes to compare with a stored password: the same costs take the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cost {
    form: Form,
    rounds: u32,
}

/// Why nothing can be compared with a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownForm {
    /// It has no form that is known, as a password that stands there as it is.
    #[error("it is not hashed, or in an unknown way")]
    Unknown,
    /// It begins as a form that is known, and is none.
    #[error("its hash is malformed")]
    Malformed,
    /// A check would take too long.
    #[error(
        "a check would take too long: bcrypt's cost is at most {BCRYPT_COST_MAX}, the rounds of SHA at most {ROUNDS_MAX}"
    )]
    TooDear,
}

impl std::fmt::Debug for StoredPassword {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "StoredPassword({:?})", self.form)
    }
}

impl StoredPassword {
    /// Reads what stands behind a user's name.
    ///
    /// # Errors
    /// Why nothing can be compared with it.
    pub fn parse(text: &[u8]) -> Result<Self, UnknownForm> {
        let text = std::str::from_utf8(text).map_err(|_| UnknownForm::Unknown)?;
        let form = Form::of(text).ok_or(UnknownForm::Unknown)?;
        let stored = Self { form, text: text.to_owned() };
        let is_dear = match form {
            Form::Bcrypt => stored.cost().rounds > BCRYPT_COST_MAX,
            _ => stored.cost().rounds > ROUNDS_MAX,
        };
        if is_dear {
            return Err(UnknownForm::TooDear);
        }
        // What bcrypt and crypt make of a text they can make of another one: a form is right if anything comes of it.
        let is_well_formed = match form {
            Form::Plain => true,
            Form::Sha1 => stored.decoded().is_some_and(|bytes| bytes.len() == 20),
            Form::SaltedSha1 => stored.decoded().is_some_and(|bytes| bytes.len() >= 20),
            Form::Apr1 => apr1::is_well_formed(text),
            Form::Bcrypt => text.len() == 60,
            Form::Sha1Crypt | Form::Sha256 | Form::Sha512 => has_digest(text),
            Form::Md5 | Form::Des | Form::Bsdi => are_letters_of_crypt(text) && pwhash::unix::crypt(b"", text).is_ok(),
        };
        let is_of_letters = matches!(form, Form::Plain | Form::Sha1 | Form::SaltedSha1) || are_letters_of_crypt(text);
        if is_well_formed && is_of_letters { Ok(stored) } else { Err(UnknownForm::Malformed) }
    }

    /// Whether it is this password. The time does not tell how much of it is right.
    #[must_use]
    pub fn is(&self, given: &[u8]) -> bool {
        if given.len() > PASSWORD_BYTES_MAX {
            return false;
        }
        match self.form {
            Form::Plain => same(self.text.get(7..).unwrap_or_default().as_bytes(), given),
            Form::Sha1 | Form::SaltedSha1 => {
                let Some(stored) = self.decoded() else { return false };
                let Some((digest, salt)) = stored.split_at_checked(20) else { return false };
                same(digest, &Sha1::new().chain_update(given).chain_update(salt).finalize())
            }
            Form::Apr1 => apr1::hash(&self.text, given).is_some_and(|hash| same(self.text.as_bytes(), hash.as_bytes())),
            // NOTE: pwhash panics over other letters in salts.
            _ => are_letters_of_crypt(&self.text) && pwhash::unix::verify(given, &self.text),
        }
    }

    /// How long [`StoredPassword::is`] takes.
    pub(super) fn cost(&self) -> Cost {
        let parts = || self.text.split('$');
        let rounds = match self.form {
            Form::Bcrypt => parts().nth(2).and_then(|cost| cost.parse().ok()).unwrap_or(u32::MAX),
            Form::Sha1Crypt => parts().nth(2).and_then(|rounds| rounds.parse().ok()).unwrap_or(u32::MAX),
            Form::Sha256 | Form::Sha512 => match parts().nth(2).and_then(|part| part.strip_prefix("rounds=")) {
                Some(rounds) => rounds.parse().unwrap_or(u32::MAX),
                None => 5_000,
            },
            _ => 0,
        };
        Cost { form: self.form, rounds }
    }

    fn decoded(&self) -> Option<Vec<u8>> {
        let (_, base64) = self.text.split_once('}')?;
        STANDARD.decode(base64).ok()
    }
}

impl Form {
    fn of(text: &str) -> Option<Self> {
        let prefixes = [
            ("{PLAIN}", Self::Plain),
            ("{SHA}", Self::Sha1),
            ("{SSHA}", Self::SaltedSha1),
            ("$1$", Self::Md5),
            ("$apr1$", Self::Apr1),
            ("$sha1$", Self::Sha1Crypt),
            ("$5$", Self::Sha256),
            ("$6$", Self::Sha512),
            ("$2a$", Self::Bcrypt),
            ("$2b$", Self::Bcrypt),
            ("$2y$", Self::Bcrypt),
        ];
        if let Some((_, form)) = prefixes.iter().find(|(prefix, _)| text.starts_with(prefix)) {
            return Some(*form);
        }
        let are_letters =
            |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'/'));
        match text.strip_prefix('_') {
            Some(rest) => (rest.len() == 19 && are_letters(rest)).then_some(Self::Bsdi),
            None => (text.len() == 13 && are_letters(text)).then_some(Self::Des),
        }
    }
}

/// Whether a text has nothing but letters of crypt's base64 and what parts its fields.
fn are_letters_of_crypt(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"./$=_".contains(&byte))
}

/// Whether something stands behind the salt.
fn has_digest(text: &str) -> bool {
    text.rsplit_once('$').is_some_and(|(before, digest)| before.matches('$').count() >= 2 && digest.len() >= 28)
}

/// Whether `given` is the password that was stored as `text`, however long that takes; no password is if the text has no form that is
/// known.
#[must_use]
pub fn verify(text: &str, given: &[u8]) -> bool {
    Form::of(text).is_some_and(|form| StoredPassword { form, text: text.to_owned() }.is(given))
}

/// Compares without telling by its time where the first difference is.
fn same(one: &[u8], other: &[u8]) -> bool {
    let difference = one.iter().zip(other).fold(0, |difference, (a, b)| difference | (a ^ b));
    one.len() == other.len() && std::hint::black_box(difference) == 0
}
