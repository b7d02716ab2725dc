//! TLS, without sockets, files and settings of anybody else: bytes of certificates become [`Identity`], identities with their
//! [`ServerOptions`] an [`Acceptor`], what is wanted of a server a [`Connector`], and either makes [`Connection`]s, which are
//! fed with what was received and give what is to be sent.
//!
//! Handshakes are those of rustls with the cryptography of aws-lc. Nothing outside of this crate names a type of either. Once a
//! handshake is done, its keys go to our own record layer (`records`), which seals and opens in place, in blocks that a
//! connection holds only while it has something in them.
//!
//! Names of ciphers, versions, curves and errors are OpenSSL's, as configurations of HAProxy have them.

mod acceptor;
mod anchors;
mod blocks;
mod channel;
mod ciphers;
mod connection;
mod connector;
mod failure;
mod hello;
mod identity;
mod keys;
mod made;
mod names;
mod ocsp;
mod passphrase;
mod path;
mod pem;
mod possession;
pub mod quic;
mod records;
mod revocation;
mod secrets;
mod sessions;
mod suites;
mod verify;
mod x509;

pub use acceptor::{
    ACME_PROTOCOL, Acceptor, AcceptorError, Challenges, ClientVerification, Entry, IgnoredErrors, Keeps, ServerOptions,
    Verify,
};
pub use anchors::{TrustAnchors, TrustError};
pub use channel::{Channel, Progress};
pub use ciphers::{CipherList, Curves, OptionsError, Suites, UnknownNames, Version, Versions};
pub use connection::{Connection, Handshaken, Peer, ReadOutcome};
pub use connector::{ClientOptions, Connector, ServerVerification};
pub use failure::{Distrust, Failure};
pub use hello::Offered;
pub use identity::{Identity, IdentityError, KeyKind};
pub use keys::{Curve, KeyError, KeyType, PrivateKey, PublicKey};
pub use made::{certificate_request, temporary};
pub use ocsp::{CertificateId, OcspError, OcspResponse, OcspStatus, Responder};
pub use passphrase::PassphraseError;
pub use pem::{Pem, PemError, from_base64, write as pem_block};
pub use revocation::RevocationLists;
pub use secrets::{Randoms, Secrets};
pub use sessions::{Sessions, TicketKeyError, TicketKeys};
pub use x509::{Certificate, DistinguishedName, RevocationList};
