//! Certificates that are trusted.

use std::{collections::HashMap, sync::Arc};

use aws_lc_rs::digest::{SHA256, digest};
use rustls::{DistinguishedName, pki_types::CertificateDer};
use thiserror::Error;

use crate::{pem::Pem, x509::Certificate};

/// Certificates that are trusted, of a `ca-file`.
#[derive(Clone, Debug, Default)]
pub struct TrustAnchors {
    /// What configurations call them: their file.
    name: Option<Arc<str>>,
    /// All of them can be read by webpki.
    certificates: Arc<Vec<CertificateDer<'static>>>,
    by_subject: Arc<HashMap<Vec<u8>, Vec<usize>>>,
}

/// Why a file has no certificates to trust.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TrustError {
    /// There is none in it.
    #[error("no certificate is in it")]
    Empty,
    /// None of them can be used.
    #[error("none of its certificates can be used: {0}")]
    Unusable(String),
    /// A list of revoked certificates is malformed.
    #[error("a list of revoked certificates in it is malformed: {0}")]
    RevocationList(String),
    /// There is no list of revoked certificates.
    #[error("no list of revoked certificates (X509 CRL) is in it")]
    NoRevocationList,
}

impl TrustAnchors {
    /// Those of some files.
    ///
    /// # Errors
    /// When no certificate is there that could be used.
    pub fn new<'a>(files: impl IntoIterator<Item = &'a Pem>) -> Result<Self, TrustError> {
        let (mut certificates, mut why) = (Vec::new(), None);
        let mut by_subject: HashMap<Vec<u8>, Vec<usize>> = HashMap::new();
        for der in files.into_iter().flat_map(|pem| &pem.certificates) {
            match webpki::anchor_from_trusted_cert(der) {
                Ok(_) => {
                    if let Some(read) = Certificate::read(der) {
                        by_subject.entry(read.subject().der().to_vec()).or_default().push(certificates.len());
                    }
                    certificates.push(der.clone().into_owned());
                }
                Err(error) => why = Some(error.to_string()),
            }
        }
        match (certificates.is_empty(), why) {
            (false, _) => {
                Ok(Self { name: None, certificates: Arc::new(certificates), by_subject: Arc::new(by_subject) })
            }
            (true, Some(why)) => Err(TrustError::Unusable(why)),
            (true, None) => Err(TrustError::Empty),
        }
    }

    /// The same under a name.
    #[must_use]
    pub fn named(mut self, name: Arc<str>) -> Self {
        self.name = Some(name);
        self
    }

    /// What configurations call them, if they are of a file.
    #[must_use]
    pub fn name(&self) -> Option<&Arc<str>> {
        self.name.as_ref()
    }

    /// The certificates, in the order of their file.
    pub fn certificates(&self) -> impl Iterator<Item = &[u8]> {
        self.certificates.iter().map(AsRef::as_ref)
    }

    /// What tells them from others, as one digest.
    #[must_use]
    pub fn fingerprint(&self) -> Vec<u8> {
        digest(&SHA256, &self.digests()).as_ref().to_vec()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.certificates.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.certificates.is_empty()
    }

    /// Those of this name.
    pub(crate) fn of_subject<'c>(&'c self, subject: &[u8]) -> impl Iterator<Item = Certificate<'c>> {
        let places = self.by_subject.get(subject).map(Vec::as_slice).unwrap_or_default();
        places.iter().filter_map(|place| Certificate::read(self.certificates.get(*place)?))
    }

    /// The names of those who are trusted.
    pub(crate) fn subjects(&self) -> Vec<DistinguishedName> {
        let anchors = self.certificates.iter().filter_map(|der| webpki::anchor_from_trusted_cert(der).ok());
        anchors.map(|anchor| DistinguishedName::in_sequence(&anchor.subject)).collect()
    }

    /// What tells them from others.
    pub(crate) fn digests(&self) -> Vec<u8> {
        let digests = self.certificates.iter().map(|der| digest(&SHA256, der));
        let mut digests: Vec<_> = digests.map(|digest| digest.as_ref().to_vec()).collect();
        digests.sort_unstable();
        digests.dedup();
        digests.concat()
    }
}
