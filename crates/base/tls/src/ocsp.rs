//! What authorities say of a certificate by OCSP (RFC 6960): whose response it is, and until when it may be shown.
//!
//! The signature is not verified: as in HAProxy, that is up to the client, which knows whom it trusts.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use thiserror::Error;

use crate::x509::{Certificate, Der, in_sequence, seconds, tag, wrapped};

/// How far clocks may be apart, in seconds.
const SKEW_S: i64 = 300;

/// `1.3.14.3.2.26`: SHA-1, with parameters as OpenSSL writes them.
const SHA1: &[u8] = &[0x30, 0x09, 0x06, 0x05, 0x2b, 0x0e, 0x03, 0x02, 0x1a, 0x05, 0x00];
/// `1.3.6.1.5.5.7.48.1.1`: id-pkix-ocsp-basic.
const BASIC: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x30, 0x01, 0x01];

/// What a certificate is called in responses: digests of its issuer's name and key, and its number.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CertificateId(Vec<u8>);

impl std::fmt::Debug for CertificateId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "CertificateId({})", self.hex())
    }
}

impl CertificateId {
    /// That of a certificate by its issuer.
    #[must_use]
    pub fn of(certificate: &Certificate<'_>, issuer: &Certificate<'_>) -> Option<Self> {
        let name = in_sequence(issuer.subject().der());
        // Before the key itself stands how many bits of its last byte do not count.
        let key = issuer.public_key()?.get(1..)?;
        let sha1 = |bytes: &[u8]| wrapped(tag::OCTET_STRING, digest(&SHA1_FOR_LEGACY_USE_ONLY, bytes).as_ref());
        let serial = wrapped(tag::INTEGER, certificate.whole_serial());
        Some(Self(in_sequence(&[SHA1, &sha1(&name), &sha1(key), &serial].concat())))
    }

    /// Its bytes in hexadecimal.
    #[must_use]
    pub fn hex(&self) -> String {
        basics::hex::lower(&self.0)
    }

    /// Digest of the issuer's name, digest of its key, and the certificate's number.
    #[must_use]
    pub fn parts(&self) -> Option<[&[u8]; 3]> {
        let mut parts = Der(Der(&self.0).expect(tag::SEQUENCE)?);
        parts.expect(tag::SEQUENCE)?;
        Some([parts.expect(tag::OCTET_STRING)?, parts.expect(tag::OCTET_STRING)?, parts.expect(tag::INTEGER)?])
    }
}

/// Why a response is not shown, in HAProxy's words.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OcspError {
    /// It is malformed.
    #[error("Unable to parse OCSP response")]
    Malformed,
    /// The authority has not answered.
    #[error("OCSP response status not successful")]
    Unsuccessful,
    /// It is of a kind that is not known.
    #[error("Failed to get basic response from OCSP Response")]
    NotBasic,
    /// It speaks of several certificates.
    #[error("OCSP response ignored because contains multiple single responses ({0})")]
    Several(usize),
    /// It speaks of none.
    #[error("Failed to get OCSP single response")]
    Empty,
    /// The authority does not know the certificate.
    #[error("OCSP single response: certificate status is unknown")]
    Unknown,
    /// It has no end.
    #[error("OCSP single response: missing nextupdate")]
    Endless,
    /// It is over, or has not begun.
    #[error("OCSP single response: no longer valid.")]
    Expired,
    /// Nobody knows what the certificate is called in responses.
    #[error("it is impossible to compute the OCSP certificate ID (maybe the issuer could not be found)")]
    NoIssuer,
    /// It is that of another certificate.
    #[error("OCSP single response: Certificate ID does not match certificate and issuer")]
    OtherCertificate,
    /// It is that of no certificate.
    #[error("OCSP single response: Certificate ID does not match any certificate or issuer")]
    NoCertificate,
}

/// Whether the authority stands by a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OcspStatus {
    /// It does.
    Good,
    /// It has taken it back.
    Revoked,
    /// It does not know it.
    Unknown,
}

/// A response for one certificate.
#[derive(Clone, Debug)]
pub struct OcspResponse {
    der: Vec<u8>,
    /// The certificate that it is for.
    pub id: CertificateId,
    /// What it says.
    pub status: OcspStatus,
    /// When it was made, in seconds since 1970.
    pub produced_at: i64,
    /// Since when it holds.
    pub begins_at: i64,
    /// Until when it holds.
    pub ends_at: Option<i64>,
    /// Who has made it: the subject of its certificate, or the digest of its key.
    pub responder: Responder,
}

/// Who has made a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Responder {
    /// By name.
    Name(Vec<u8>),
    /// By the digest of its key.
    Key(Vec<u8>),
}

impl OcspResponse {
    /// Reads a response.
    ///
    /// # Errors
    /// When it is malformed, says nothing, or speaks of more than one certificate.
    pub fn read(der: &[u8]) -> Result<Self, OcspError> {
        let (id, responder, produced_at, single) = Self::parts(der)?;
        let mut single = Der(single);
        let malformed = || OcspError::Malformed;
        let _ = single.next().ok_or_else(malformed)?;
        /// `[0]`, `[1]`, `[2]`: good, revoked, unknown.
        const STATUS: [(u8, OcspStatus); 2] = [(0x80, OcspStatus::Good), (0xa1, OcspStatus::Revoked)];
        let (kind, ..) = single.next().ok_or_else(malformed)?;
        let status = STATUS.iter().find(|(tag, _)| *tag == kind).map_or(OcspStatus::Unknown, |(_, status)| *status);
        let begins_at = single.next().and_then(|(kind, text, _)| seconds((kind, text))).ok_or_else(malformed)?;
        let ends_at = match single.peek() {
            Some(tag::FIRST) => {
                let mut end = Der(single.expect(tag::FIRST).ok_or_else(malformed)?);
                Some(end.next().and_then(|(kind, text, _)| seconds((kind, text))).ok_or_else(malformed)?)
            }
            _ => None,
        };
        Ok(Self { der: der.to_vec(), id, status, produced_at, begins_at, ends_at, responder })
    }

    /// The certificate, who answers, when, and the contents of the only single response.
    fn parts(der: &[u8]) -> Result<(CertificateId, Responder, i64, &[u8]), OcspError> {
        let basic = Self::basic(der)?;
        let malformed = || OcspError::Malformed;
        let mut data = Der(Der(basic).expect(tag::SEQUENCE).ok_or_else(malformed)?);
        let mut data = Der(data.expect(tag::SEQUENCE).ok_or_else(malformed)?);
        if data.peek() == Some(tag::FIRST) {
            // Its version.
            let _ = data.next();
        }
        /// `[1]`: by name. `[2]`: by key.
        const BY_NAME: u8 = 0xa1;
        let (kind, responder, _) = data.next().ok_or_else(malformed)?;
        let responder = if kind == BY_NAME {
            Responder::Name(Der(responder).expect(tag::SEQUENCE).ok_or_else(malformed)?.to_vec())
        } else {
            Responder::Key(Der(responder).expect(tag::OCTET_STRING).ok_or_else(malformed)?.to_vec())
        };
        let produced_at = data.next().and_then(|(kind, text, _)| seconds((kind, text))).ok_or_else(malformed)?;
        let mut singles = Der(data.expect(tag::SEQUENCE).ok_or_else(malformed)?);
        let first = singles.expect(tag::SEQUENCE).ok_or(OcspError::Empty)?;
        let others = std::iter::from_fn(|| singles.next()).count();
        if others > 0 {
            return Err(OcspError::Several(others + 1));
        }
        let (kind, _, id) = Der(first).next().ok_or_else(malformed)?;
        if kind != tag::SEQUENCE {
            return Err(OcspError::Malformed);
        }
        Ok((CertificateId(id.to_vec()), responder, produced_at, first))
    }

    /// The BasicOCSPResponse within a response.
    fn basic(der: &[u8]) -> Result<&[u8], OcspError> {
        let malformed = || OcspError::Malformed;
        let mut whole = Der(der);
        let mut parts = Der(whole.expect(tag::SEQUENCE).ok_or_else(malformed)?);
        if parts.expect(tag::ENUMERATED).ok_or_else(malformed)? != [0] {
            return Err(OcspError::Unsuccessful);
        }
        let mut bytes = Der(parts.expect(tag::FIRST).ok_or(OcspError::NotBasic)?);
        let mut bytes = Der(bytes.expect(tag::SEQUENCE).ok_or(OcspError::NotBasic)?);
        if bytes.expect(tag::OID) != Some(BASIC) {
            return Err(OcspError::NotBasic);
        }
        bytes.expect(tag::OCTET_STRING).ok_or(OcspError::NotBasic)
    }

    /// Whether it may be shown now.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self, now: i64) -> Result<(), OcspError> {
        if self.status == OcspStatus::Unknown {
            return Err(OcspError::Unknown);
        }
        let ends_at = self.ends_at.ok_or(OcspError::Endless)?;
        if self.begins_at > now + SKEW_S || ends_at < now - SKEW_S || ends_at < self.begins_at {
            return Err(OcspError::Expired);
        }
        Ok(())
    }

    /// When it is no longer shown, in seconds since 1970: a little before it ends.
    #[must_use]
    pub fn shown_until(&self) -> i64 {
        self.ends_at.map_or(i64::MIN, |ends| ends.saturating_sub(SKEW_S))
    }

    /// Its bytes.
    #[must_use]
    pub fn der(&self) -> &[u8] {
        &self.der
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_response_says_so() {
        for (bytes, expected) in [
            (&b""[..], OcspError::Malformed),
            (&[0x30, 0x03, 0x0a, 0x01, 0x06], OcspError::Unsuccessful),
            (&[0x30, 0x03, 0x0a, 0x01, 0x00], OcspError::NotBasic),
            (&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff], OcspError::Malformed),
        ] {
            assert_eq!(OcspResponse::read(bytes).unwrap_err(), expected);
        }
    }

    #[test]
    fn an_identifier_has_its_parts() {
        let identity = crate::temporary(&["example.com".to_owned()], &[]).unwrap();
        let certificate = Certificate::read(identity.certificate()).unwrap();
        let id = CertificateId::of(&certificate, &certificate).unwrap();
        let [name, key, serial] = id.parts().unwrap();
        assert_eq!((name.len(), key.len(), serial), (20, 20, certificate.whole_serial()));
        assert!(id.hex().starts_with("30") && id.hex().contains("300906052b0e03021a05000414"));
    }
}
