//! Certificates that webpki refuses and OpenSSL takes: those of version 1, as `openssl x509 -req` makes them without a file of
//! extensions, and those that say of themselves that they are authorities. Their way to an authority that is trusted is looked for
//! here; by the same rules, but that a path with constraints of names or of policies is refused.

use aws_lc_rs::digest::{SHA256, digest};
use rustls::{
    DigitallySignedStruct, Error as TlsError, ProtocolVersion, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::{verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, CertificateRevocationListDer, SubjectPublicKeyInfoDer, TrustAnchor},
};
use webpki::{CertRevocationList, OwnedCertRevocationList, RawPublicKeyEntity};

use crate::{
    ciphers::algorithms,
    failure::Distrust,
    x509::{Certificate, Extension, RevocationList, Signed, in_sequence},
};

/// Authorities between a certificate and the one that is trusted.
const AUTHORITIES_MAX: usize = 6;

/// `2.5.29.19`: basicConstraints.
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
/// `2.5.29.15`: keyUsage.
const KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x0f];
/// `2.5.29.37`: extKeyUsage.
const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x25];
/// `2.5.29.17`: subjectAltName.
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];
/// `2.5.29.30`: nameConstraints.
const NAME_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x1e];
/// `2.5.29.37.0`: for any purpose.
const ANY_PURPOSE: &[u8] = &[0x55, 0x1d, 0x25, 0x00];
/// `1.3.6.1.5.5.7.3.1`: as a server.
const AS_SERVER: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 1];
/// `1.3.6.1.5.5.7.3.2`: as a client.
const AS_CLIENT: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 2];

/// A list of revoked certificates: as it came, and as webpki reads it.
#[derive(Debug)]
pub struct ReadList {
    der: Vec<u8>,
    pub list: CertRevocationList<'static>,
}

impl ReadList {
    /// Reads one.
    ///
    /// # Errors
    /// When it is malformed.
    pub fn new(der: &CertificateRevocationListDer<'_>) -> Result<Self, webpki::Error> {
        let list = OwnedCertRevocationList::from_der(der)?.into();
        Ok(Self { der: der.to_vec(), list })
    }

    /// What tells it from others.
    pub fn digest(&self) -> Vec<u8> {
        digest(&SHA256, &self.der).as_ref().to_vec()
    }
}

/// What a certificate is shown for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Server,
    Client,
}

/// What a path is looked for with.
#[derive(Debug)]
pub struct Search<'a> {
    pub anchors: &'a [TrustAnchor<'static>],
    pub lists: &'a [ReadList],
    pub purpose: Purpose,
    /// In seconds since 1970.
    pub now: i64,
}

/// Who has made a certificate.
struct Maker<'a> {
    /// The contents of its SubjectPublicKeyInfo.
    key: &'a [u8],
    is_trusted: bool,
}

impl Search<'_> {
    /// Whether a way leads from a certificate to one that is trusted.
    ///
    /// # Errors
    /// Why there is none.
    pub fn verify(&self, certificate: &CertificateDer<'_>, chain: &[CertificateDer<'_>]) -> Result<(), Distrust> {
        let shown: Vec<Certificate<'_>> = chain.iter().filter_map(|der| Certificate::read(der)).collect();
        let mut current = Certificate::read(certificate).ok_or(Distrust::Other)?;
        self.check_extensions(&current)?;
        for below in 0..=AUTHORITIES_MAX {
            check_time(&current, self.now)?;
            let maker = self.maker(&current, &shown)?;
            self.check_revocation(&current, maker.key)?;
            if maker.is_trusted {
                return Ok(());
            }
            let issuer = current.issuer().der();
            let next = shown.iter().find(|shown| shown.subject().der() == issuer && shown.key() == maker.key);
            current = *next.ok_or(Distrust::UnknownIssuer)?;
            self.check_extensions(&current)?;
            check_authority(&current, below)?;
        }
        Err(Distrust::UnknownIssuer)
    }

    /// Whoever has signed a certificate: one that is trusted, or else one that was shown.
    fn maker<'c>(&'c self, certificate: &Certificate<'_>, shown: &[Certificate<'c>]) -> Result<Maker<'c>, Distrust> {
        let issuer = certificate.issuer().der();
        let trusted = self.anchors.iter().filter(|anchor| anchor.name_constraints.is_none());
        let trusted = trusted.filter(|anchor| anchor.subject.as_ref() == issuer);
        let trusted = trusted.map(|anchor| Maker { key: anchor.subject_public_key_info.as_ref(), is_trusted: true });
        let others = shown.iter().filter(|shown| shown.subject().der() == issuer);
        let others = others.map(|shown| Maker { key: shown.key(), is_trusted: false });
        let mut is_named = false;
        for maker in trusted.chain(others) {
            is_named = true;
            if is_signed_by(&certificate.signed(), maker.key) {
                return Ok(maker);
            }
        }
        Err(match (is_named, certificate.is_self_issued()) {
            (true, false) => Distrust::Signature,
            (_, true) => Distrust::SelfSigned,
            (false, false) => Distrust::UnknownIssuer,
        })
    }

    /// Whether a certificate is for the purpose, and says nothing that would have to be understood and is not.
    fn check_extensions(&self, certificate: &Certificate<'_>) -> Result<(), Distrust> {
        for extension in certificate.extensions() {
            match extension.oid {
                EXTENDED_KEY_USAGE => {
                    let wanted = match self.purpose {
                        Purpose::Server => AS_SERVER,
                        Purpose::Client => AS_CLIENT,
                    };
                    if !extension.identifiers().any(|purpose| purpose == wanted || purpose == ANY_PURPOSE) {
                        return Err(Distrust::Purpose);
                    }
                }
                BASIC_CONSTRAINTS | KEY_USAGE | ALTERNATIVE_NAMES => {}
                _ if extension.is_critical || extension.oid == NAME_CONSTRAINTS => return Err(Distrust::Other),
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether a certificate is known not to be revoked, if there are lists at all.
    fn check_revocation(&self, certificate: &Certificate<'_>, maker: &[u8]) -> Result<(), Distrust> {
        if self.lists.is_empty() {
            return Ok(());
        }
        let issuer = certificate.issuer().der();
        let mut why = Distrust::NoRevocationList;
        for list in self.lists.iter().filter(|list| list.list.issuer() == issuer) {
            let Some(read) = RevocationList::read(&list.der) else { continue };
            // One for a part of what was made says nothing about the rest.
            if list.list.issuing_distribution_point().is_some() {
                continue;
            }
            if !is_signed_by(&read.signed, maker) {
                why = Distrust::Signature;
                continue;
            }
            if read.ends_at.is_none_or(|ends| ends < self.now) {
                why = Distrust::RevocationListExpired;
                continue;
            }
            return match list.list.find_serial(certificate.whole_serial()) {
                Ok(None) => Ok(()),
                Ok(Some(_)) => Err(Distrust::Revoked),
                Err(_) => Err(Distrust::Other),
            };
        }
        Err(why)
    }
}

/// Whether a certificate is valid at this time.
///
/// # Errors
/// When it has ended, or not begun.
pub fn check_time(certificate: &Certificate<'_>, now: i64) -> Result<(), Distrust> {
    if certificate.ends_at().ok_or(Distrust::Other)? < now {
        return Err(Distrust::Expired);
    }
    if certificate.begins_at().ok_or(Distrust::Other)? > now {
        return Err(Distrust::NotYetValid);
    }
    Ok(())
}

/// Whether a certificate may make others, with so many authorities below it.
fn check_authority(certificate: &Certificate<'_>, below: usize) -> Result<(), Distrust> {
    let find = |oid: &[u8]| certificate.extensions().find(|extension| extension.oid == oid);
    let (is_authority, below_max) =
        find(BASIC_CONSTRAINTS).and_then(|found: Extension<'_>| found.constraints()).ok_or(Distrust::NoAuthority)?;
    // The bit `keyCertSign`, the sixth, of the first byte.
    let may_sign = find(KEY_USAGE).is_none_or(|usage| usage.bits().is_some_and(|bits| bits & 0x04 != 0));
    if is_authority && may_sign && below_max.is_none_or(|most| below <= most) {
        Ok(())
    } else {
        Err(Distrust::NoAuthority)
    }
}

/// Whether somebody's key has signed something.
fn is_signed_by(signed: &Signed<'_>, key: &[u8]) -> bool {
    let key = SubjectPublicKeyInfoDer::from(in_sequence(key));
    let Ok(key) = RawPublicKeyEntity::try_from(&key) else { return false };
    let algorithms = algorithms().all.iter();
    algorithms
        .filter(|algorithm| algorithm.signature_alg_id().as_ref() == signed.algorithm)
        .any(|algorithm| key.verify_signature(*algorithm, signed.content, signed.signature).is_ok())
}

/// Whether the other end holds the key of the certificate that it shows: rustls' answer, also for a certificate of version 1.
///
/// # Errors
/// When the signature is not by that key.
pub fn verify_handshake(
    version: ProtocolVersion,
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, TlsError> {
    let read = Certificate::read(certificate).filter(|read| read.version() < 3);
    let Some(read) = read else {
        return match version {
            ProtocolVersion::TLSv1_2 => verify_tls12_signature(message, certificate, signed, &algorithms()),
            _ => verify_tls13_signature(message, certificate, signed, &algorithms()),
        };
    };
    let misused = || TlsError::from(rustls::PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme);
    let possible = algorithms().mapping.iter().find(|(scheme, _)| *scheme == signed.scheme);
    let possible = possible.map(|(_, algorithms)| *algorithms).ok_or_else(misused)?;
    let possible = match version {
        ProtocolVersion::TLSv1_2 => possible,
        // There the curve is part of the scheme: the first one is its own, and PKCS #1 is not allowed.
        _ if is_pkcs1(signed.scheme) => return Err(misused()),
        _ => possible.get(..1).unwrap_or_default(),
    };
    let key = SubjectPublicKeyInfoDer::from(in_sequence(read.key()));
    let key = RawPublicKeyEntity::try_from(&key).map_err(|_| Distrust::Other.into_error())?;
    if possible.iter().any(|algorithm| key.verify_signature(*algorithm, message, signed.signature()).is_ok()) {
        return Ok(HandshakeSignatureValid::assertion());
    }
    Err(Distrust::Signature.into_error())
}

fn is_pkcs1(scheme: SignatureScheme) -> bool {
    matches!(
        scheme,
        SignatureScheme::RSA_PKCS1_SHA1
            | SignatureScheme::RSA_PKCS1_SHA256
            | SignatureScheme::RSA_PKCS1_SHA384
            | SignatureScheme::RSA_PKCS1_SHA512
    )
}

#[cfg(test)]
mod tests;
