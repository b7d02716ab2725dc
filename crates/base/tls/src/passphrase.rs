//! Private keys under a password: PKCS #8 with PBES2 (RFC 8018, section 6.2), PBKDF2 and AES-CBC, as OpenSSL writes them.

use std::num::NonZeroU32;

use aws_lc_rs::{
    cipher::{AES_128, AES_192, AES_256, Algorithm, DecryptionContext, PaddedBlockDecryptingKey, UnboundCipherKey},
    iv::FixedLength,
    pbkdf2::{self, PBKDF2_HMAC_SHA1, PBKDF2_HMAC_SHA256, PBKDF2_HMAC_SHA384, PBKDF2_HMAC_SHA512, derive},
};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use thiserror::Error;

use crate::x509::Der;

/// Why a key is not decrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PassphraseError {
    /// The password is another one, or the key is damaged.
    #[error("the password of its private key is wrong")]
    Wrong,
    /// It is encrypted in another way.
    #[error(
        "its private key is encrypted in a way that is not known: `openssl pkey -in KEY -aes256 -out NEW` encrypts it anew, \
         without -aes256 it is not encrypted"
    )]
    Unknown,
}

/// `1.2.840.113549.1.5.13`.
const PBES2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x05, 0x0d];
/// `1.2.840.113549.1.5.12`.
const PBKDF2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x05, 0x0c];
/// `1.2.840.113549.2`, behind which stands which of them.
const HMAC: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x02];
/// `2.16.840.1.101.3.4.1`, behind which stands which of them.
const AES: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x01];

const SEQUENCE: u8 = 0x30;
const OBJECT: u8 = 0x06;
const OCTETS: u8 = 0x04;
const INTEGER: u8 = 0x02;

/// More rounds would have a start wait for minutes.
const ROUNDS_MAX: u32 = 50_000_000;

/// How a key is encrypted.
struct Scheme<'a> {
    salt: &'a [u8],
    rounds: NonZeroU32,
    digest: pbkdf2::Algorithm,
    cipher: &'static Algorithm,
    key_len: usize,
    iv: [u8; 16],
    sealed: &'a [u8],
}

impl<'a> Scheme<'a> {
    fn read(der: &'a [u8]) -> Option<Self> {
        let mut all = Der(Der(der).expect(SEQUENCE)?);
        let mut algorithm = Der(all.expect(SEQUENCE)?);
        let sealed = all.expect(OCTETS)?;
        if algorithm.expect(OBJECT)? != PBES2 {
            return None;
        }
        let mut parts = Der(algorithm.expect(SEQUENCE)?);
        let mut derivation = Der(parts.expect(SEQUENCE)?);
        let mut encryption = Der(parts.expect(SEQUENCE)?);
        if derivation.expect(OBJECT)? != PBKDF2 {
            return None;
        }
        let mut of_key = Der(derivation.expect(SEQUENCE)?);
        let salt = of_key.expect(OCTETS)?;
        let rounds = of_key.expect(INTEGER)?;
        let rounds = rounds.iter().try_fold(0_u32, |sum, byte| sum.checked_mul(256)?.checked_add(u32::from(*byte)))?;
        if of_key.peek() == Some(INTEGER) {
            of_key.expect(INTEGER)?;
        }
        let digest = match of_key.expect(SEQUENCE).map(|named| Der(named).expect(OBJECT)) {
            // It is SHA-1 where nothing is said.
            None => PBKDF2_HMAC_SHA1,
            Some(name) => match name?.strip_prefix(HMAC)? {
                [7] => PBKDF2_HMAC_SHA1,
                [9] => PBKDF2_HMAC_SHA256,
                [10] => PBKDF2_HMAC_SHA384,
                [11] => PBKDF2_HMAC_SHA512,
                _ => return None,
            },
        };
        let (cipher, key_len) = match encryption.expect(OBJECT)?.strip_prefix(AES)? {
            [2] => (&AES_128, 16),
            [22] => (&AES_192, 24),
            [42] => (&AES_256, 32),
            _ => return None,
        };
        let iv = encryption.expect(OCTETS)?.try_into().ok()?;
        let rounds = NonZeroU32::new(rounds).filter(|rounds| rounds.get() <= ROUNDS_MAX)?;
        Some(Self { salt, rounds, digest, cipher, key_len, iv, sealed })
    }

    fn open(&self, password: &[u8]) -> Option<Vec<u8>> {
        let mut key = vec![0; self.key_len];
        derive(self.digest, self.rounds, self.salt, password, &mut key);
        let key = UnboundCipherKey::new(self.cipher, &key).ok()?;
        let key = PaddedBlockDecryptingKey::cbc_pkcs7(key).ok()?;
        let mut text = self.sealed.to_vec();
        let iv = DecryptionContext::Iv128(FixedLength::from(self.iv));
        let len = key.decrypt(&mut text, iv).ok()?.len();
        text.truncate(len);
        Some(text)
    }
}

/// The key that `der` is under a password.
pub fn decrypt(der: &[u8], password: &[u8]) -> Result<PrivateKeyDer<'static>, PassphraseError> {
    let scheme = Scheme::read(der).ok_or(PassphraseError::Unknown)?;
    let text = scheme.open(password).ok_or(PassphraseError::Wrong)?;
    // NOTE: a wrong password makes a right padding once in 256 times.
    Der(&text).expect(SEQUENCE).ok_or(PassphraseError::Wrong)?;
    Ok(PrivateKeyDer::from(PrivatePkcs8KeyDer::from(text)))
}

#[cfg(test)]
mod tests {
    use crate::{IdentityError, KeyError, PassphraseError, Pem, PrivateKey};

    /// `openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -aes256 -pass pass:secret`.
    const KEY: &str = include_str!("passphrase/encrypted.key");

    #[test]
    fn a_key_is_read_with_its_password_alone() {
        let read = Pem::read(KEY.as_bytes()).unwrap();
        assert!(read.has_key());
        let mut right = read.clone();
        right.decrypt(b"secret").unwrap();
        assert!(right.key.is_some() && !right.has_encrypted_key);
        for wrong in [b"other".as_slice(), b""] {
            assert_eq!(read.clone().decrypt(wrong), Err(PassphraseError::Wrong));
        }
        assert_eq!(PrivateKey::from_pem(KEY.as_bytes()).unwrap_err(), KeyError::Encrypted);
        let mut with_certificate = read;
        with_certificate.add_chain(Pem::of_chain(crate::temporary(&["a".into()], &[]).unwrap().chain()));
        assert_eq!(crate::Identity::new(&with_certificate).unwrap_err(), IdentityError::EncryptedKey);
        with_certificate.decrypt(b"secret").unwrap();
        assert_eq!(crate::Identity::new(&with_certificate).unwrap_err(), IdentityError::Mismatch);
    }

    #[test]
    fn what_is_cut_off_or_of_old_forms_is_refused() {
        let der = Pem::read(KEY.as_bytes()).unwrap().encrypted.unwrap();
        for len in 0..der.len() {
            assert!(super::decrypt(&der[..len], b"secret").is_err());
        }
        let old = "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\nAAAA\n-----END EC PRIVATE KEY-----\n";
        assert_eq!(Pem::read(old.as_bytes()).unwrap().decrypt(b"secret"), Err(PassphraseError::Unknown));
    }
}
