//! Why a connection has no TLS, or has it no longer.

use std::sync::Arc;

use thiserror::Error;

/// Why a handshake or a connection failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Failure {
    /// The other end closed during the handshake.
    #[error("connection closed during the handshake")]
    Closed,
    /// The other end closed within a stream, without saying that it was its end.
    #[error("the connection was cut off: no close_notify")]
    Truncated,
    /// What came is no TLS.
    #[error("what came is no TLS")]
    NotTls,
    /// It is a request in plain HTTP.
    #[error("a plain HTTP request came instead of a ClientHello")]
    PlainHttp,
    /// There is no certificate for the name that the client asks for (`strict-sni`).
    #[error("no certificate for the name that the client asks for")]
    NoCertificateForName,
    /// The certificate of the other end is not to be trusted.
    #[error("{0}")]
    Untrusted(Distrust),
    /// The client showed no certificate, and must.
    #[error("the client showed no certificate")]
    NoCertificate,
    /// The other end sent an alert: its number, and its name.
    #[error("the other end said: {0}")]
    Alert(String),
    /// It wanted to negotiate anew.
    #[error("a renegotiation was refused")]
    Renegotiation,
    /// Both ends have no version, cipher or the like in common, or broke the rules.
    #[error("{0}")]
    Protocol(String),
}

/// Why a certificate is not trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Distrust {
    /// It has ended.
    #[error("certificate has expired")]
    Expired,
    /// It has not begun.
    #[error("certificate is not yet valid")]
    NotYetValid,
    /// Nobody who is trusted has made it.
    #[error("unable to get local issuer certificate")]
    UnknownIssuer,
    /// It has made itself, and is not trusted.
    #[error("self-signed certificate")]
    SelfSigned,
    /// It was revoked.
    #[error("certificate revoked")]
    Revoked,
    /// There is no list that says whether it was revoked.
    #[error("unable to get certificate CRL")]
    NoRevocationList,
    /// The list that says so has ended.
    #[error("CRL has expired")]
    RevocationListExpired,
    /// It is for another name.
    #[error("hostname mismatch")]
    WrongName,
    /// It is for something else.
    #[error("unsuitable certificate purpose")]
    Purpose,
    /// It is no authority, and made another one.
    #[error("invalid CA certificate")]
    NoAuthority,
    /// Its signature is wrong.
    #[error("certificate signature failure")]
    Signature,
    /// Who has made it is trusted, and has been made by somebody who is not there.
    #[error("unable to get issuer certificate")]
    IssuerMissing,
    /// The last one of the chain has made itself, and is not trusted.
    #[error("self-signed certificate in certificate chain")]
    SelfSignedInChain,
    /// Nothing says who has made it.
    #[error("unable to verify the first certificate")]
    LeafSignature,
    /// There are too many between it and one that is trusted.
    #[error("certificate chain too long")]
    TooLong,
    /// There are more authorities below one than it may have.
    #[error("path length constraint exceeded")]
    PathLength,
    /// Its key is not for making others.
    #[error("key usage does not include certificate signing")]
    SignsNoCertificates,
    /// Its key is not for making lists of revoked ones.
    #[error("key usage does not include CRL signing")]
    SignsNoLists,
    /// Whoever has made the list is not there.
    #[error("unable to get CRL issuer certificate")]
    RevocationListIssuer,
    /// The signature of the list is wrong.
    #[error("CRL signature failure")]
    RevocationListSignature,
    /// The list has not begun.
    #[error("CRL is not yet valid")]
    RevocationListNotYetValid,
    /// It says something that has to be understood and is not.
    #[error("unhandled critical extension")]
    CriticalExtension,
    /// It is for a name that an authority may not certify.
    #[error("permitted subtree violation")]
    NameConstraints,
    /// It is malformed or of a kind that is not known.
    #[error("certificate rejected")]
    Other,
}

impl Distrust {
    /// OpenSSL's number of it (`X509_V_ERR_*`).
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::UnknownIssuer => 20,
            Self::SelfSigned => 18,
            Self::Expired => 10,
            Self::NotYetValid => 9,
            Self::Revoked => 23,
            Self::NoRevocationList => 3,
            Self::RevocationListExpired => 12,
            Self::WrongName => 62,
            Self::Purpose => 26,
            Self::NoAuthority => 79,
            Self::IssuerMissing => 2,
            Self::SelfSignedInChain => 19,
            Self::LeafSignature => 21,
            Self::TooLong => 22,
            Self::PathLength => 25,
            Self::SignsNoCertificates => 32,
            Self::SignsNoLists => 35,
            Self::RevocationListIssuer => 33,
            Self::RevocationListSignature => 8,
            Self::RevocationListNotYetValid => 11,
            Self::CriticalExtension => 34,
            Self::NameConstraints => 47,
            Self::Signature => 7,
            Self::Other => 28,
        }
    }

    /// What stands for it in what rustls carries.
    pub(crate) fn of(error: &rustls::Error) -> Option<Self> {
        use rustls::CertificateError as Error;
        let rustls::Error::InvalidCertificate(error) = error else { return None };
        Some(match error {
            Error::Expired | Error::ExpiredContext { .. } => Self::Expired,
            Error::NotValidYet | Error::NotValidYetContext { .. } => Self::NotYetValid,
            Error::UnknownIssuer => Self::UnknownIssuer,
            Error::Revoked => Self::Revoked,
            Error::UnknownRevocationStatus => Self::NoRevocationList,
            Error::ExpiredRevocationList | Error::ExpiredRevocationListContext { .. } => Self::RevocationListExpired,
            Error::NotValidForName | Error::NotValidForNameContext { .. } => Self::WrongName,
            Error::InvalidPurpose | Error::InvalidPurposeContext { .. } => Self::Purpose,
            Error::BadSignature => Self::Signature,
            Error::ApplicationVerificationFailure => Self::SelfSigned,
            Error::Other(other) => other.0.downcast_ref().copied().unwrap_or(Self::Other),
            _ => Self::Other,
        })
    }

    /// The same for rustls, which makes an alert of it.
    pub(crate) fn into_error(self) -> rustls::Error {
        use rustls::CertificateError as Error;
        rustls::Error::InvalidCertificate(match self {
            Self::Expired => Error::Expired,
            Self::NotYetValid => Error::NotValidYet,
            Self::UnknownIssuer => Error::UnknownIssuer,
            Self::SelfSigned => Error::ApplicationVerificationFailure,
            Self::Revoked => Error::Revoked,
            Self::NoRevocationList => Error::UnknownRevocationStatus,
            Self::RevocationListExpired => Error::ExpiredRevocationList,
            Self::WrongName => Error::NotValidForName,
            Self::Purpose => Error::InvalidPurpose,
            Self::Signature => Error::BadSignature,
            Self::Other => Error::BadEncoding,
            other => Error::Other(rustls::OtherError(Arc::new(other))),
        })
    }
}

impl Failure {
    /// What rustls says.
    pub(crate) fn of(error: &rustls::Error) -> Self {
        match error {
            rustls::Error::InvalidCertificate(_) => Self::Untrusted(Distrust::of(error).unwrap_or(Distrust::Other)),
            rustls::Error::NoCertificatesPresented => Self::NoCertificate,
            rustls::Error::AlertReceived(alert) => Self::Alert(alert_name(u8::from(*alert))),
            other => Self::Protocol(other.to_string()),
        }
    }
}

/// An alert's name, as OpenSSL says it.
pub fn alert_name(alert: u8) -> String {
    let name = match alert {
        0 => "close notify",
        10 => "unexpected message",
        20 => "bad record mac",
        22 => "record overflow",
        40 => "handshake failure",
        42 => "bad certificate",
        43 => "unsupported certificate",
        44 => "certificate revoked",
        45 => "certificate expired",
        46 => "certificate unknown",
        47 => "illegal parameter",
        48 => "unknown CA",
        49 => "access denied",
        50 => "decode error",
        51 => "decrypt error",
        70 => "protocol version",
        71 => "insufficient security",
        80 => "internal error",
        86 => "inappropriate fallback",
        90 => "user canceled",
        100 => "no renegotiation",
        109 => "missing extension",
        112 => "unrecognized name",
        116 => "certificate required",
        120 => "no application protocol",
        _ => return format!("alert {alert}"),
    };
    name.to_owned()
}
