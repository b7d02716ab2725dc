//! Whether the other end holds the key of the certificate that it shows. rustls asks webpki, which reads no certificates of version 1, as
//! `openssl x509 -req` makes them without a file of extensions: their keys are read here.

use rustls::{
    DigitallySignedStruct, Error as TlsError, ProtocolVersion, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::{verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, SubjectPublicKeyInfoDer},
};
use webpki::RawPublicKeyEntity;

use crate::{
    ciphers::algorithms,
    failure::Distrust,
    x509::{Certificate, in_sequence},
};

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
