//! Files of certificates and keys.

use rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer,
    PrivateSec1KeyDer,
    pem::{self, SectionKind},
};
use thiserror::Error;

use crate::passphrase::{PassphraseError, decrypt};

/// What a file holds.
#[derive(Debug, Default)]
pub struct Pem {
    pub(crate) certificates: Vec<CertificateDer<'static>>,
    pub(crate) key: Option<PrivateKeyDer<'static>>,
    pub(crate) revocation_lists: Vec<CertificateRevocationListDer<'static>>,
    /// A key is there, under a passphrase.
    pub(crate) has_encrypted_key: bool,
    /// That key, if it is one of PKCS #8.
    pub(crate) encrypted: Option<Vec<u8>>,
    /// `DH PARAMETERS` are there.
    pub has_dh_parameters: bool,
}

/// Why a file is none of certificates and keys.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PemError {
    /// A block of it is malformed.
    #[error("a PEM block is malformed: {0}")]
    Malformed(String),
}

impl Clone for Pem {
    fn clone(&self) -> Self {
        Self {
            certificates: self.certificates.clone(),
            key: self.key.as_ref().map(PrivateKeyDer::clone_key),
            revocation_lists: self.revocation_lists.clone(),
            has_encrypted_key: self.has_encrypted_key,
            encrypted: self.encrypted.clone(),
            has_dh_parameters: self.has_dh_parameters,
        }
    }
}

impl Pem {
    /// Reads a file. What else is between blocks is left out, as are blocks of other kinds.
    ///
    /// # Errors
    /// When a block is malformed.
    pub fn read(bytes: &[u8]) -> Result<Self, PemError> {
        let mut read = Self {
            has_encrypted_key: contains(bytes, b"-----BEGIN ENCRYPTED PRIVATE KEY-----")
                || contains(bytes, b"Proc-Type: 4,ENCRYPTED"),
            encrypted: encrypted_key(bytes),
            has_dh_parameters: contains(bytes, b"-----BEGIN DH PARAMETERS-----"),
            ..Self::default()
        };
        if contains(bytes, b"Proc-Type: 4,ENCRYPTED") {
            // Its key is no key before it is decrypted, and its headers are no base64.
            read.certificates = Self::certificates_alone(bytes);
            return Ok(read);
        }
        let mut reader = bytes;
        loop {
            let section = pem::from_buf(&mut reader).map_err(|error| PemError::Malformed(reason(&error)))?;
            let Some((kind, der)) = section else { return Ok(read) };
            // Of several keys the first one counts.
            let key = match kind {
                SectionKind::Certificate => {
                    read.certificates.push(CertificateDer::from(der));
                    continue;
                }
                SectionKind::Crl => {
                    read.revocation_lists.push(CertificateRevocationListDer::from(der));
                    continue;
                }
                SectionKind::PrivateKey => PrivateKeyDer::from(PrivatePkcs8KeyDer::from(der)),
                SectionKind::RsaPrivateKey => PrivateKeyDer::from(PrivatePkcs1KeyDer::from(der)),
                SectionKind::EcPrivateKey => PrivateKeyDer::from(PrivateSec1KeyDer::from(der)),
                _ => continue,
            };
            read.key.get_or_insert(key);
        }
    }

    fn certificates_alone(bytes: &[u8]) -> Vec<CertificateDer<'static>> {
        let text = String::from_utf8_lossy(bytes);
        let (begin, end) = ("-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----");
        let blocks = text.split(begin).skip(1).filter_map(|block| block.split_once(end));
        let blocks = blocks.map(|(block, _)| format!("{begin}{block}{end}\n"));
        blocks
            .filter_map(|block| match pem::from_buf(&mut block.as_bytes()) {
                Ok(Some((SectionKind::Certificate, der))) => Some(CertificateDer::from(der)),
                _ => None,
            })
            .collect()
    }

    /// One with these certificates alone.
    #[must_use]
    pub fn of_chain<'a>(chain: impl Iterator<Item = &'a [u8]>) -> Self {
        let certificates = chain.map(|der| CertificateDer::from(der.to_vec())).collect();
        Self { certificates, ..Self::default() }
    }

    /// Its certificates.
    pub fn chain(&self) -> impl Iterator<Item = &[u8]> {
        self.certificates.iter().map(CertificateDer::as_ref)
    }

    /// Whether there is a certificate.
    #[must_use]
    pub fn has_certificate(&self) -> bool {
        !self.certificates.is_empty()
    }

    /// Whether there is a key, be it under a passphrase.
    #[must_use]
    pub fn has_key(&self) -> bool {
        self.key.is_some() || self.has_encrypted_key
    }

    /// Decrypts the key, if it is under a password.
    ///
    /// # Errors
    /// When the password is wrong, or the key is encrypted in another way than that of PKCS #8 with AES.
    pub fn decrypt(&mut self, password: &[u8]) -> Result<(), PassphraseError> {
        if self.key.is_some() || !self.has_encrypted_key {
            return Ok(());
        }
        let sealed = self.encrypted.as_ref().ok_or(PassphraseError::Unknown)?;
        self.key = Some(decrypt(sealed, password)?);
        (self.has_encrypted_key, self.encrypted) = (false, None);
        Ok(())
    }

    /// Takes the key of another file, if this one has none.
    pub fn add_key(&mut self, other: Self) {
        if self.key.is_none() {
            self.key = other.key;
            self.has_encrypted_key |= other.has_encrypted_key;
            self.encrypted = other.encrypted.or(self.encrypted.take());
        }
    }

    /// Takes the key of another file, whatever this one has.
    pub fn replace_key(&mut self, other: Self) {
        (self.key, self.has_encrypted_key, self.encrypted) = (None, false, None);
        self.add_key(other);
    }

    /// Adds the certificates of another file behind its own: those of issuers.
    pub fn add_chain(&mut self, other: Self) {
        self.certificates.extend(other.certificates);
    }

    /// How many certificates there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.certificates.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.certificates.is_empty()
    }
}

/// A block of this kind.
#[must_use]
pub fn write(kind: &str, der: &[u8]) -> String {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let encoded = STANDARD.encode(der);
    let lines = encoded.as_bytes().chunks(64).map(String::from_utf8_lossy).collect::<Vec<_>>().join("\n");
    format!("-----BEGIN {kind}-----\n{lines}\n-----END {kind}-----\n")
}

/// The bytes that base64 stands for, with line breaks or without.
#[must_use]
pub fn from_base64(text: &str) -> Option<Vec<u8>> {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let text: String = text.split_ascii_whitespace().collect();
    STANDARD.decode(text).ok()
}

/// The bytes of the first encrypted key of PKCS #8.
fn encrypted_key(bytes: &[u8]) -> Option<Vec<u8>> {
    let text = String::from_utf8_lossy(bytes);
    let (_, rest) = text.split_once("-----BEGIN ENCRYPTED PRIVATE KEY-----")?;
    from_base64(rest.split_once("-----END ENCRYPTED PRIVATE KEY-----")?.0)
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

fn reason(error: &pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { end_marker } => {
            format!("'{}' is missing", String::from_utf8_lossy(end_marker).trim_end())
        }
        pem::Error::IllegalSectionStart { line } => {
            format!("'{}' is no beginning of a block", String::from_utf8_lossy(line).trim_end())
        }
        pem::Error::Base64Decode(_) => "what is in it is no base64".to_owned(),
        other => format!("{other:?}"),
    }
}
