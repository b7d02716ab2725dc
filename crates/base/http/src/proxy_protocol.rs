//! The PROXY protocol, versions 1 and 2: the addresses of the real client, sent ahead of its bytes by a proxy.
//!
//! As its specification asks, the decoder never guesses whether a header is there: a connection on which one is expected
//! and does not come is refused. Nothing is used before the whole header has arrived.

use std::net::SocketAddr;

mod decode;
mod encode;

pub use decode::{decode, tlvs};
pub use encode::{encode_v1, encode_v2, encode_v2_local};

/// Bytes of the longest version 1 header.
pub const V1_BYTES_MAX: usize = 107;

/// Bytes of the addresses and TLVs of a version 2 header that are accepted. The specification allows 65,535, but wants
/// headers to fit one segment; this leaves room for certificates' names.
pub const V2_PAYLOAD_BYTES_MAX: usize = 4_096;

/// What begins a version 2 header.
const V2_SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// The connection that a header speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proxied {
    /// The sender's own connection, such as a health check: use the real addresses.
    Local,
    /// A client of the sender, of which it knows no addresses: use the real ones.
    Unknown,
    /// A client of the sender over TCP (or UDP, which only version 2 can say).
    Inet {
        /// The client.
        source: SocketAddr,
        /// What the client connected to.
        destination: SocketAddr,
    },
    /// A client of the sender over a unix socket. The paths are without their padding.
    Unix {
        /// The client; usually empty.
        source: Vec<u8>,
        /// What the client connected to.
        destination: Vec<u8>,
    },
}

/// What the bytes so far are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// The beginning of a header. More bytes are needed.
    Incomplete,
    /// A whole header.
    Complete {
        /// Its length, and where the client's bytes begin.
        consumed: usize,
        /// What it says.
        proxied: Proxied,
        /// Where its TLVs are, for [`tlvs`]; empty in version 1.
        tlvs: std::ops::Range<usize>,
    },
}

/// Why a header is refused. The sender is to blame, and the connection cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    /// The first bytes begin neither version.
    #[error("no PROXY protocol header")]
    NoHeader,
    /// A version 1 line has no end within 107 bytes.
    #[error("PROXY protocol line longer than {V1_BYTES_MAX} bytes")]
    LineTooLong,
    /// A CR or LF stands alone, or a byte is no printable ASCII.
    #[error("byte that may not stand in a PROXY protocol line")]
    InvalidByte,
    /// The words of a version 1 line are not five parted by single spaces.
    #[error("PROXY protocol line of the wrong shape")]
    LineShape,
    /// The protocol is none of TCP4, TCP6 and UNKNOWN.
    #[error("unknown protocol in the PROXY protocol header")]
    UnknownProtocol,
    /// An address is not the canonical text of its family.
    #[error("malformed address in the PROXY protocol header")]
    InvalidAddress,
    /// A port is not a plain decimal number up to 65535.
    #[error("malformed port in the PROXY protocol header")]
    InvalidPort,
    /// The version of a binary header is not 2.
    #[error("PROXY protocol version other than 1 and 2")]
    UnsupportedVersion,
    /// The command is neither LOCAL nor PROXY.
    #[error("unknown PROXY protocol command")]
    UnknownCommand,
    /// The addresses of the family do not fit the length.
    #[error("PROXY protocol header too short for its addresses")]
    TooShort,
    /// The length is above the limit.
    #[error("PROXY protocol header longer than {V2_PAYLOAD_BYTES_MAX} bytes")]
    TooLong,
    /// A TLV does not end where the header does, or has a length that its type does not allow.
    #[error("malformed TLV in the PROXY protocol header")]
    InvalidTlv,
    /// The checksum does not agree.
    #[error("wrong checksum in the PROXY protocol header")]
    WrongChecksum,
}

/// The type of a TLV.
pub mod tlv_type {
    /// The application protocol that TLS agreed on.
    pub const ALPN: u8 = 0x01;
    /// The host name that the client asked for.
    pub const AUTHORITY: u8 = 0x02;
    /// The CRC32c checksum of the header.
    pub const CRC32C: u8 = 0x03;
    /// Padding.
    pub const NOOP: u8 = 0x04;
    /// The sender's name for the connection, up to 128 bytes.
    pub const UNIQUE_ID: u8 = 0x05;
    /// What TLS said about the client.
    pub const SSL: u8 = 0x20;
    /// The network namespace.
    pub const NETNS: u8 = 0x30;
}

/// Types of the records within [`tlv_type::SSL`].
pub mod tls_type {
    /// The version of TLS.
    pub const VERSION: u8 = 0x21;
    /// The common name of the client's certificate.
    pub const COMMON_NAME: u8 = 0x22;
    /// The cipher.
    pub const CIPHER: u8 = 0x23;
    /// How the server's certificate is signed.
    pub const SIGNATURE: u8 = 0x24;
    /// The kind of the server's key.
    pub const KEY: u8 = 0x25;
}

#[cfg(test)]
mod tests;
