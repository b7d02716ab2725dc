//! Private keys that are made here, and what is signed with them by the forms of JSON Web Signatures (RFC 7518).

use rcgen::{
    KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ECDSA_P521_SHA512, PKCS_RSA_SHA256,
    PublicKeyData as _, RsaKeySize, SignatureAlgorithm, SigningKey as _,
};
use thiserror::Error;

use crate::{pem::Pem, x509::Der};

/// A curve of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Curve {
    /// P-256.
    P256,
    /// P-384.
    #[default]
    P384,
    /// P-521.
    P521,
}

impl Curve {
    /// All.
    pub const ALL: [Self; 3] = [Self::P256, Self::P384, Self::P521];

    /// Its name, as NIST has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::P256 => "P-256",
            Self::P384 => "P-384",
            Self::P521 => "P-521",
        }
    }

    /// Bytes of a coordinate.
    fn width(self) -> usize {
        match self {
            Self::P256 => 32,
            Self::P384 => 48,
            Self::P521 => 66,
        }
    }
}

/// What kind of key is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyType {
    /// Elliptic curves.
    Ecdsa(Curve),
    /// RSA of so many bits: 2048, 3072 or 4096.
    Rsa(u32),
}

impl Default for KeyType {
    fn default() -> Self {
        Self::Ecdsa(Curve::default())
    }
}

impl KeyType {
    /// The bits that an RSA key may have.
    pub const RSA_BITS: [u32; 3] = [2048, 3072, 4096];
}

/// Why a key cannot be made or used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeyError {
    /// There is none.
    #[error("no private key is in it")]
    None,
    /// It is under a passphrase.
    #[error("its private key is encrypted")]
    Encrypted,
    /// It is of a kind that cannot be used.
    #[error("its private key is neither RSA nor of the curves P-256, P-384 and P-521")]
    Kind,
    /// The library does not make or use it.
    #[error("{0}")]
    Library(String),
}

impl From<rcgen::Error> for KeyError {
    fn from(error: rcgen::Error) -> Self {
        Self::Library(error.to_string())
    }
}

/// A private key.
#[derive(Debug)]
pub struct PrivateKey {
    pub(crate) pair: KeyPair,
}

/// The public half of a key, in the parts that a JSON Web Key has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublicKey {
    /// A point.
    Ecdsa {
        /// Its curve.
        curve: Curve,
        /// Its first coordinate.
        x: Vec<u8>,
        /// Its second coordinate.
        y: Vec<u8>,
    },
    /// RSA.
    Rsa {
        /// The modulus.
        n: Vec<u8>,
        /// The exponent.
        e: Vec<u8>,
    },
}

const ALGORITHMS: [(&SignatureAlgorithm, Curve); 3] = [
    (&PKCS_ECDSA_P256_SHA256, Curve::P256),
    (&PKCS_ECDSA_P384_SHA384, Curve::P384),
    (&PKCS_ECDSA_P521_SHA512, Curve::P521),
];

impl PrivateKey {
    /// A new one.
    ///
    /// # Errors
    /// When the library makes none.
    pub fn generate(kind: KeyType) -> Result<Self, KeyError> {
        let pair = match kind {
            KeyType::Ecdsa(Curve::P256) => KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256),
            KeyType::Ecdsa(Curve::P384) => KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384),
            KeyType::Ecdsa(Curve::P521) => KeyPair::generate_for(&PKCS_ECDSA_P521_SHA512),
            KeyType::Rsa(bits) => {
                let size = match bits {
                    2048 => RsaKeySize::_2048,
                    3072 => RsaKeySize::_3072,
                    4096 => RsaKeySize::_4096,
                    _ => return Err(KeyError::Library(format!("no RSA key of {bits} bits is made"))),
                };
                KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, size)
            }
        };
        Ok(Self { pair: pair? })
    }

    /// That of a file.
    ///
    /// # Errors
    /// When there is none, or one of another kind.
    pub fn from_pem(bytes: &[u8]) -> Result<Self, KeyError> {
        let pem = Pem::read(bytes).map_err(|error| KeyError::Library(error.to_string()))?;
        let Some(key) = &pem.key else {
            return Err(if pem.has_encrypted_key { KeyError::Encrypted } else { KeyError::None });
        };
        let known = ALGORITHMS.iter().map(|(algorithm, _)| *algorithm).chain([&PKCS_RSA_SHA256]);
        let read = known.filter_map(|algorithm| KeyPair::from_der_and_sign_algo(key, algorithm).ok()).next();
        read.map(|pair| Self { pair }).ok_or(KeyError::Kind)
    }

    /// As a file has it.
    #[must_use]
    pub fn to_pem(&self) -> String {
        let contents = self.pair.serialized_der();
        // What was read from another form stays in that form.
        let kind = match Der(contents).expect(0x30).map(Der) {
            Some(mut inner) => match (inner.next(), inner.peek()) {
                (_, Some(0x30)) => "PRIVATE KEY",
                (_, Some(0x04)) => "EC PRIVATE KEY",
                _ => "RSA PRIVATE KEY",
            },
            None => "PRIVATE KEY",
        };
        crate::pem::write(kind, contents)
    }

    /// Its curve, if it is of one.
    fn curve(&self) -> Option<Curve> {
        let own = self.pair.algorithm();
        ALGORITHMS.iter().find(|(algorithm, _)| *algorithm == own).map(|(_, curve)| *curve)
    }

    /// Its public half.
    ///
    /// # Errors
    /// When the library has it in another form than expected.
    pub fn public(&self) -> Result<PublicKey, KeyError> {
        let raw = self.pair.der_bytes();
        let strange = || KeyError::Library("its public key has an unknown form".to_owned());
        match self.curve() {
            Some(curve) => {
                let point = raw.strip_prefix(&[4]).ok_or_else(strange)?;
                let (x, y) = point.split_at_checked(curve.width()).ok_or_else(strange)?;
                Ok(PublicKey::Ecdsa { curve, x: x.to_vec(), y: y.to_vec() })
            }
            None => {
                let mut numbers = Der(Der(raw).expect(0x30).ok_or_else(strange)?);
                let mut number = || numbers.expect(2).map(|number| without_zeros(number).to_vec()).ok_or_else(strange);
                Ok(PublicKey::Rsa { n: number()?, e: number()? })
            }
        }
    }

    /// What signatures of it are called in a JSON Web Signature.
    #[must_use]
    pub fn jws_algorithm(&self) -> &'static str {
        match self.curve() {
            Some(Curve::P256) => "ES256",
            Some(Curve::P384) => "ES384",
            Some(Curve::P521) => "ES512",
            None => "RS256",
        }
    }

    /// Signs as a JSON Web Signature has it: of curves, both numbers at full width (RFC 7518, section 3.4).
    ///
    /// # Errors
    /// When the library fails.
    pub fn jws_signature(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        let signature = self.pair.sign(message)?;
        let Some(curve) = self.curve() else { return Ok(signature) };
        let strange = || KeyError::Library("a signature has an unknown form".to_owned());
        let mut numbers = Der(Der(&signature).expect(0x30).ok_or_else(strange)?);
        let mut joined = Vec::with_capacity(2 * curve.width());
        for _ in 0..2 {
            let number = without_zeros(numbers.expect(2).ok_or_else(strange)?);
            let missing = curve.width().checked_sub(number.len()).ok_or_else(strange)?;
            joined.extend(std::iter::repeat_n(0, missing));
            joined.extend_from_slice(number);
        }
        Ok(joined)
    }
}

fn without_zeros(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    number.get(zeros..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::signature::{
        ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ECDSA_P521_SHA512_FIXED, RSA_PKCS1_2048_8192_SHA256,
        UnparsedPublicKey, VerificationAlgorithm,
    };

    use super::*;

    #[test]
    fn keys_sign_in_the_forms_of_jws_and_survive_their_file() {
        let cases: [(KeyType, &str, &'static dyn VerificationAlgorithm); 4] = [
            (KeyType::Ecdsa(Curve::P256), "ES256", &ECDSA_P256_SHA256_FIXED),
            (KeyType::Ecdsa(Curve::P384), "ES384", &ECDSA_P384_SHA384_FIXED),
            (KeyType::Ecdsa(Curve::P521), "ES512", &ECDSA_P521_SHA512_FIXED),
            (KeyType::Rsa(2048), "RS256", &RSA_PKCS1_2048_8192_SHA256),
        ];
        for (kind, name, algorithm) in cases {
            let key = PrivateKey::generate(kind).unwrap();
            assert_eq!(key.jws_algorithm(), name);
            let again = PrivateKey::from_pem(key.to_pem().as_bytes()).unwrap();
            assert_eq!(key.public().unwrap(), again.public().unwrap());
            // Numbers of a signature are short now and then.
            for round in 0..if matches!(kind, KeyType::Rsa(_)) { 1 } else { 300_u32 } {
                let message = round.to_be_bytes();
                let signature = again.jws_signature(&message).unwrap();
                UnparsedPublicKey::new(algorithm, key.pair.der_bytes()).verify(&message, &signature).unwrap();
            }
        }
        assert_eq!(PrivateKey::from_pem(b"").unwrap_err(), KeyError::None);
        assert!(PrivateKey::generate(KeyType::Rsa(1024)).is_err());
    }
}
