//! A certificate with its chain and its key: what one end of a connection shows to the other.

use std::sync::Arc;

use rustls::{crypto::aws_lc_rs, pki_types::CertificateDer, sign::CertifiedKey};
use thiserror::Error;

use crate::{
    ocsp::{CertificateId, OcspError, OcspResponse},
    pem::Pem,
    x509::Certificate,
};

/// A certificate, its chain and its key.
#[derive(Clone, Debug)]
pub struct Identity {
    pub(crate) certified: Arc<CertifiedKey>,
    kind: KeyKind,
    names: Vec<String>,
    /// Its issuer's certificate, where that is not in its chain: responses are for it by its issuer.
    issuer: Option<Vec<u8>>,
    ocsp: Ocsp,
}

/// What is known of a certificate by OCSP.
#[derive(Clone, Debug, Default)]
enum Ocsp {
    /// Nothing, and nobody asks.
    #[default]
    None,
    /// It is to be known, but what was given cannot be shown.
    Awaited,
    /// This.
    Response(Arc<OcspResponse>),
}

/// What a key signs with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyKind {
    /// Elliptic curves.
    Ecdsa,
    /// Ed25519.
    Ed25519,
    /// RSA.
    Rsa,
}

/// Why a certificate cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IdentityError {
    /// There is none.
    #[error("no certificate is in it")]
    NoCertificate,
    /// It is malformed.
    #[error("its certificate is malformed")]
    Malformed,
    /// There is no key.
    #[error("no private key is in it")]
    NoKey,
    /// The key is under a passphrase.
    #[error("its private key is encrypted")]
    EncryptedKey,
    /// The key is of a kind that is not known, or malformed.
    #[error("its private key cannot be used: {0}")]
    Key(String),
    /// The key is that of another certificate.
    #[error("certificate and private key do not belong together")]
    Mismatch,
    /// What goes to the other end is more than goes there at once.
    #[error("certificate and chain have {0} bytes, and may have {CHAIN_BYTES_MAX}: leave out what clients do not need")]
    TooLong(usize),
}

/// Bytes of a certificate and its chain at most: an end's share of a handshake is sent from one block of memory.
const CHAIN_BYTES_MAX: usize = 32 << 10;

impl Identity {
    /// That of a file, or of a file and those beside it. The first certificate is that of the key; the others are its chain.
    ///
    /// # Errors
    /// What is missing, or does not belong together.
    pub fn new(pem: &Pem) -> Result<Self, IdentityError> {
        let first = pem.certificates.first().ok_or(IdentityError::NoCertificate)?;
        let certificate = Certificate::read(first).ok_or(IdentityError::Malformed)?;
        let key = match &pem.key {
            Some(key) => key,
            None if pem.has_encrypted_key => return Err(IdentityError::EncryptedKey),
            None => return Err(IdentityError::NoKey),
        };
        let key = aws_lc_rs::sign::any_supported_type(key).map_err(|error| match error {
            rustls::Error::General(why) => IdentityError::Key(why),
            other => IdentityError::Key(other.to_string()),
        })?;
        let kind = match key.algorithm() {
            rustls::SignatureAlgorithm::RSA => KeyKind::Rsa,
            rustls::SignatureAlgorithm::ED25519 => KeyKind::Ed25519,
            _ => KeyKind::Ecdsa,
        };
        let certified = CertifiedKey::new(pem.certificates.clone(), key);
        if matches!(certified.keys_match(), Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::KeyMismatch)))
        {
            return Err(IdentityError::Mismatch);
        }
        let length = pem.certificates.iter().map(|der| der.len()).sum();
        if length > CHAIN_BYTES_MAX {
            return Err(IdentityError::TooLong(length));
        }
        // As HAProxy does: names of SAN and the common name.
        let mut names: Vec<String> = certificate.dns_names().map(str::to_ascii_lowercase).collect();
        if let Some(name) = certificate.common_name().map(|name| name.to_ascii_lowercase())
            && !names.contains(&name)
        {
            names.push(name);
        }
        Ok(Self { certified: Arc::new(certified), kind, names, issuer: None, ocsp: Ocsp::None })
    }

    /// The same, whose issuer is the first certificate of a file, unless it stands in the chain.
    #[must_use]
    pub fn with_issuer(mut self, issuer: &Pem) -> Self {
        self.issuer = issuer.chain().next().map(<[u8]>::to_vec);
        self
    }

    /// Its issuer's certificate, if that is known without being in the chain.
    #[must_use]
    pub fn issuer(&self) -> Option<&[u8]> {
        self.issuer.as_deref()
    }

    /// The same with an OCSP response that goes along, unless there is something wrong with it.
    pub fn with_ocsp_response(mut self, der: &[u8]) -> (Self, Result<(), OcspError>) {
        self.ocsp = Ocsp::None;
        let Some(id) = self.id_by_issuer() else { return (self, Err(OcspError::NoIssuer)) };
        let outcome = OcspResponse::read(der).and_then(|response| {
            if response.id != id {
                return Err(OcspError::OtherCertificate);
            }
            self.ocsp = Ocsp::Awaited;
            response.check(now())?;
            self.ocsp = Ocsp::Response(Arc::new(response));
            Ok(())
        });
        (self, outcome)
    }

    /// What it is called in responses, if it is one that is shown with them: its issuer is known, and there has been a response.
    #[must_use]
    pub fn ocsp_id(&self) -> Option<CertificateId> {
        match &self.ocsp {
            Ocsp::None => None,
            Ocsp::Awaited => self.id_by_issuer(),
            Ocsp::Response(response) => Some(response.id.clone()),
        }
    }

    /// The response that goes along.
    #[must_use]
    pub fn ocsp_response(&self) -> Option<&Arc<OcspResponse>> {
        match &self.ocsp {
            Ocsp::Response(response) => Some(response),
            _ => None,
        }
    }

    /// What it is called by its issuer, if that is known.
    fn id_by_issuer(&self) -> Option<CertificateId> {
        let certificate = Certificate::read(self.certificate())?;
        let issued = |der: &&[u8]| {
            Certificate::read(der).is_some_and(|other| other.subject().der() == certificate.issuer().der())
        };
        let issuer = self.chain().skip(1).find(issued).or(self.issuer.as_deref())?;
        CertificateId::of(&certificate, &Certificate::read(issuer)?)
    }

    /// The same, for these names alone.
    #[must_use]
    pub(crate) fn for_names(mut self, names: &[String]) -> Self {
        self.names = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        self
    }

    /// What the key signs with.
    #[must_use]
    pub fn kind(&self) -> KeyKind {
        self.kind
    }

    /// The host names that it is for, in lower case.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The certificate itself.
    #[must_use]
    pub fn certificate(&self) -> &[u8] {
        self.certified.cert.first().map(CertificateDer::as_ref).unwrap_or_default()
    }

    /// The certificate with its response, as long as that may be shown.
    pub(crate) fn shown(&self) -> Shown {
        let plain = Arc::clone(&self.certified);
        let with_response = self.ocsp_response().map(|response| {
            let mut certified = CertifiedKey::clone(&self.certified);
            certified.ocsp = Some(response.der().to_vec());
            (Arc::new(certified), response.shown_until())
        });
        Shown { plain, with_response }
    }

    /// The certificate and its chain.
    pub fn chain(&self) -> impl Iterator<Item = &[u8]> {
        self.certified.cert.iter().map(CertificateDer::as_ref)
    }
}

/// A certificate as clients are shown it.
#[derive(Debug)]
pub(crate) struct Shown {
    plain: Arc<CertifiedKey>,
    /// With a response, and until when.
    with_response: Option<(Arc<CertifiedKey>, i64)>,
}

impl Shown {
    /// What is shown now.
    pub(crate) fn now(&self) -> &Arc<CertifiedKey> {
        match &self.with_response {
            Some((certified, until)) if now() <= *until => certified,
            _ => &self.plain,
        }
    }
}

fn now() -> i64 {
    i64::try_from(basics::clock::since_1970().as_secs()).unwrap_or(i64::MAX)
}
