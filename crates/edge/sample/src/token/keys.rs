//! Public keys in PEM form, each read once for a configuration.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA384_ASN1, ECDSA_P256_SHA512_ASN1, ECDSA_P384_SHA256_ASN1,
    ECDSA_P384_SHA384_ASN1, ECDSA_P384_SHA512_ASN1, ECDSA_P521_SHA256_ASN1, ECDSA_P521_SHA384_ASN1,
    ECDSA_P521_SHA512_ASN1, ParsedPublicKey, RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY,
    RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY, RSA_PKCS1_2048_8192_SHA384, VerificationAlgorithm,
};

use super::DIGESTS;
use crate::base64::{self, Alphabet};

type Algorithms = [&'static dyn VerificationAlgorithm; DIGESTS];

/// NOTE: short keys are taken where the library has a way to: teams that still have one have it on purpose.
const RSA: Algorithms = [
    &RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY,
    &RSA_PKCS1_2048_8192_SHA384,
    &RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY,
];

/// P-256, P-384 and P-521, each with every digest: HAProxy does not ask that they go together, as RFC 7518 does.
const CURVES: [Algorithms; 3] = [
    [&ECDSA_P256_SHA256_ASN1, &ECDSA_P256_SHA384_ASN1, &ECDSA_P256_SHA512_ASN1],
    [&ECDSA_P384_SHA256_ASN1, &ECDSA_P384_SHA384_ASN1, &ECDSA_P384_SHA512_ASN1],
    [&ECDSA_P521_SHA256_ASN1, &ECDSA_P521_SHA384_ASN1, &ECDSA_P521_SHA512_ASN1],
];

/// What a key is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyKind {
    Rsa,
    Ecdsa,
    /// A public key, but of a kind that no algorithm here uses.
    Other,
}

/// A public key, ready for each digest.
pub(crate) struct PublicKey {
    kind: KeyKind,
    keys: Vec<ParsedPublicKey>,
}

impl PublicKey {
    /// The first public key in a file, whatever stands around it.
    fn read(file: &[u8]) -> Option<Self> {
        let der = pem(file)?;
        let parse = |algorithms: &Algorithms| {
            let keys = algorithms.iter().map(|algorithm| ParsedPublicKey::new(*algorithm, &der).ok());
            keys.collect::<Option<Vec<_>>>()
        };
        if let Some(keys) = parse(&RSA) {
            return Some(Self { kind: KeyKind::Rsa, keys });
        }
        match CURVES.iter().find_map(parse) {
            Some(keys) => Some(Self { kind: KeyKind::Ecdsa, keys }),
            None => Some(Self { kind: KeyKind::Other, keys: Vec::new() }),
        }
    }

    fn verifies(&self, kind: KeyKind, digest: usize, signed: &[u8], signature: &[u8]) -> bool {
        self.kind == kind && self.keys.get(digest).is_some_and(|key| key.verify_sig(signed, signature).is_ok())
    }

    pub(super) fn verifies_rsa(&self, digest: usize, signed: &[u8], signature: &[u8]) -> bool {
        self.verifies(KeyKind::Rsa, digest, signed, signature)
    }

    pub(super) fn verifies_ecdsa(&self, digest: usize, signed: &[u8], signature: &[u8]) -> bool {
        self.verifies(KeyKind::Ecdsa, digest, signed, signature)
    }
}

/// Why a file gives no key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// It cannot be read; in the system's words.
    Unreadable(String),
    /// There is no public key in it.
    NotAKey,
}

type Loaded = Result<Arc<PublicKey>, Unusable>;

/// The public keys that a configuration names, by path.
///
/// NOTE: rules may name them by a variable, so those of the whole configuration are in one place. What looks one up holds the
/// lock for as long as a search takes; nobody writes once the configuration has been read.
#[derive(Clone, Default)]
pub struct PublicKeys {
    by_path: Arc<RwLock<HashMap<Box<[u8]>, Loaded>>>,
}

/// Paths may be secrets that were tried as paths.
impl std::fmt::Debug for PublicKeys {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("PublicKeys")
    }
}

impl PublicKeys {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the key at `path` by `load`, unless that was done; what it is good for.
    pub(crate) fn add(
        &self,
        path: &str,
        load: impl FnOnce(&str) -> Result<Vec<u8>, String>,
    ) -> Result<KeyKind, Unusable> {
        let mut by_path = self.by_path.write().unwrap_or_else(PoisonError::into_inner);
        let loaded = by_path.entry(path.as_bytes().into()).or_insert_with(|| {
            let file = load(path).map_err(Unusable::Unreadable)?;
            PublicKey::read(&file).map(Arc::new).ok_or(Unusable::NotAKey)
        });
        loaded.as_ref().map(|key| key.kind).map_err(Unusable::clone)
    }

    pub(super) fn find(&self, path: &[u8]) -> Option<Arc<PublicKey>> {
        let by_path = self.by_path.read().unwrap_or_else(PoisonError::into_inner);
        by_path.get(path)?.as_ref().ok().map(Arc::clone)
    }
}

/// What stands in the first block of a public key (RFC 7468, section 13; PKCS #1 for RSA alone). Lines may have blanks at
/// their ends.
fn pem(file: &[u8]) -> Option<Vec<u8>> {
    let mut lines = file.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
    let label = lines.find_map(|line| match line.strip_prefix(b"-----BEGIN ")?.strip_suffix(b"-----")? {
        label @ (b"PUBLIC KEY" | b"RSA PUBLIC KEY") => Some(label),
        _ => None,
    })?;
    let mut text = Vec::new();
    loop {
        let line = lines.next()?;
        if let Some(end) = line.strip_prefix(b"-----END ") {
            return (end.strip_suffix(b"-----")? == label).then(|| base64::decode(&text, Alphabet::Standard))?;
        }
        text.extend_from_slice(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_pem() {
        for (file, expected) in [
            ("-----BEGIN PUBLIC KEY-----\nZm9v\n-----END PUBLIC KEY-----", Some("foo")),
            (
                "text\r\n-----BEGIN RSA PUBLIC KEY-----\r\nZm9v\r\nYmFy\r\n-----END RSA PUBLIC KEY-----\r\n",
                Some("foobar"),
            ),
            (
                "-----BEGIN CERTIFICATE-----\nZm9v\n-----END CERTIFICATE-----\n-----BEGIN PUBLIC KEY-----  \n\nYmFy \n-----END PUBLIC KEY-----\n",
                Some("bar"),
            ),
            ("-----BEGIN CERTIFICATE-----\nZm9v\n-----END CERTIFICATE-----\n", None),
            ("-----BEGIN PUBLIC KEY-----\nZm9v\n", None),
            ("-----BEGIN PUBLIC KEY-----\nZm9\n-----END PUBLIC KEY-----\n", None),
            ("-----BEGIN PUBLIC KEY-----\n Zm9v\n-----END PUBLIC KEY-----\n", None),
            ("-----BEGIN PUBLIC KEY-----\nZm9v\n-----END RSA PUBLIC KEY-----\n", None),
            (" -----BEGIN PUBLIC KEY-----\nZm9v\n-----END PUBLIC KEY-----\n", None),
            ("", None),
        ] {
            assert_eq!(pem(file.as_bytes()).as_deref(), expected.map(str::as_bytes), "{file}");
        }
    }
}
