//! Why a message was refused, and where in it.

use std::fmt;

/// The party that sent the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// A client, sending requests.
    Client,
    /// A server, sending responses.
    Server,
}

/// Declares the refusals once: variant, name for logs and test data, status for a client, sentence.
macro_rules! refusals {
    ($($variant:ident, $name:literal, $status:literal, $text:literal;)*) => {
        /// What is wrong with a message.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ParseErrorKind {
            $(#[doc = $text] $variant,)*
        }

        impl ParseErrorKind {
            /// Every kind, for tables and counters.
            pub const ALL: &'static [ParseErrorKind] = &[$(ParseErrorKind::$variant,)*];

            /// A short name without blanks, for logs and counters.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(ParseErrorKind::$variant => $name,)* }
            }

            /// The status with which a client that sent this is answered.
            #[must_use]
            pub fn client_status(self) -> u16 {
                match self { $(ParseErrorKind::$variant => $status,)* }
            }

            /// What is wrong, as a clause.
            #[must_use]
            pub fn text(self) -> &'static str {
                match self { $(ParseErrorKind::$variant => $text,)* }
            }
        }
    };
}

refusals! {
    TooManyEmptyLines, "too-many-empty-lines", 400, "too many empty lines before the request line";
    Nul, "nul", 400, "NUL byte";
    ControlByte, "control-byte", 400, "control byte";
    BareCr, "bare-cr", 400, "CR that no LF follows";
    BareLf, "bare-lf", 400, "LF that no CR precedes";
    HeadTooLarge, "head-too-large", 431, "message head larger than the limit";

    RequestLine, "request-line", 400, "request line that is not method, target and version parted by single spaces";
    InvalidMethod, "invalid-method", 400, "method that is not a token";
    MethodTooLong, "method-too-long", 400, "method longer than the limit";
    InvalidTargetByte, "invalid-target-byte", 400, "byte that may not stand in a request target";
    InvalidTarget, "invalid-target", 400, "request target of no known form for this method";
    TargetTooLong, "target-too-long", 414, "request target longer than the limit";
    InvalidVersion, "invalid-version", 400, "protocol version not written as HTTP/digit.digit";
    UnsupportedVersion, "unsupported-version", 505, "protocol version other than HTTP/1";
    Http2Preface, "http2-preface", 505, "HTTP/2 connection preface where HTTP/1 was expected";
    StatusLine, "status-line", 400, "status line that is not version, status and reason parted by single spaces";
    InvalidStatus, "invalid-status", 400, "status that is not three digits from 100 up";

    ObsoleteFold, "obsolete-fold", 400, "line that begins with white space (obsolete folding)";
    MissingColon, "missing-colon", 400, "header line without a colon";
    EmptyName, "empty-name", 400, "empty header name";
    LineTooLong, "line-too-long", 400, "header line longer than the limit";
    NameTooLong, "name-too-long", 431, "header name longer than the limit";
    InvalidNameByte, "invalid-name-byte", 400, "byte that may not stand in a header name";
    SpaceBeforeColon, "space-before-colon", 400, "white space between header name and colon";
    TooManyFields, "too-many-fields", 431, "more header lines than the limit";

    LengthAndEncoding, "length-and-encoding", 400, "both Content-Length and Transfer-Encoding";
    RepeatedLength, "repeated-length", 400, "more than one Content-Length";
    InvalidLength, "invalid-length", 400, "Content-Length that is not a plain decimal number";
    LengthTooLarge, "length-too-large", 400, "Content-Length out of range";
    RepeatedEncoding, "repeated-encoding", 400, "more than one Transfer-Encoding";
    UnsupportedEncoding, "unsupported-encoding", 400, "Transfer-Encoding other than exactly chunked";
    UnknownCoding, "unknown-coding", 422, "Transfer-Encoding with a coding before chunked that is not taken away here";
    EncodingOnHttp10, "encoding-on-http10", 400, "Transfer-Encoding in an HTTP/1.0 message";
    BodyOnConnect, "body-on-connect", 400, "CONNECT request with a body";
    MissingHost, "missing-host", 400, "HTTP/1.1 request without Host";
    RepeatedHost, "repeated-host", 400, "more than one Host";
    InvalidHost, "invalid-host", 400, "Host that is no host name or address with a port";
    NoWebSocketKey, "no-websocket-key", 400, "WebSocket handshake without a Sec-WebSocket-Key of 24 bytes";
    HostMismatch, "host-mismatch", 400, "Host that differs from the authority of the request target";

    InvalidChunkSize, "invalid-chunk-size", 400, "chunk size that is not plain hexadecimal digits";
    ChunkSizeTooLong, "chunk-size-too-long", 400, "chunk size of more than 16 digits";
    ChunkSizeTooLarge, "chunk-size-too-large", 400, "chunk size out of range";
    InvalidChunkExtension, "invalid-chunk-extension", 400, "malformed chunk extension";
    ChunkExtensionTooLong, "chunk-extension-too-long", 400, "chunk extension longer than the limit";
    MissingChunkEnd, "missing-chunk-end", 400, "chunk data that no CRLF follows";
    TrailersTooLarge, "trailers-too-large", 431, "trailers larger than the limit";
    ForbiddenTrailer, "forbidden-trailer", 400, "field that may not stand in trailers";
}

impl fmt::Display for ParseErrorKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.text())
    }
}

/// A refused message: what is wrong and at which byte.
///
/// None of these may be retried: the same bytes are refused again. The blame is with whoever sent the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} at byte {offset}")]
pub struct ParseError {
    /// What is wrong.
    pub kind: ParseErrorKind,
    /// Offset of the offending byte: of heads, from the first byte given; of bodies, from the start of the body.
    pub offset: u64,
}

impl ParseError {
    /// An error of this kind at this offset.
    #[must_use]
    pub fn new(kind: ParseErrorKind, offset: usize) -> Self {
        ParseError { kind, offset: offset as u64 }
    }

    /// The status to answer the client with: 400, 414, 422, 431 or 505 when the client is to blame, 502 when the server is.
    #[must_use]
    pub fn status(&self, blame: Sender) -> u16 {
        match blame {
            Sender::Client => self.kind.client_status(),
            Sender::Server => 502,
        }
    }
}
