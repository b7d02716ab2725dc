//! HTTP/1 on the wire, without sockets: message heads, body framing and the strict rules that keep two parties from
//! reading one byte stream differently.

mod authority;
mod basic_auth;
mod body;
mod body_length;
mod bytes;
mod chunked;
mod compression;
mod conditions;
mod connection;
mod cookies;
mod date;
mod error;
mod fieldwise;
mod framing;
mod header_id;
mod headers;
mod limits;
mod method;
pub mod netscaler;
mod parser;
mod percent;
pub mod proxy_protocol;
mod ranges;
mod request;
mod response;
mod status;
mod stored_head;
mod target;
mod values;
mod version;

pub use basic_auth::{basic_authorization, basic_credentials};
pub use body::{BodyTracker, Tracked};
pub use body_length::BodyLength;
pub use chunked::{
    ChunkPart, ChunkProgress, ChunkedDecoder, write_chunk, write_chunk_end, write_chunk_start, write_last_chunk,
};
pub use compression::{Coding, Uncompressed, accepted_coding, mark_compressed, may_compress, quality};
pub use conditions::{
    Outcome, Validators, evaluate_conditions, if_range_holds, tags_match_strongly, tags_match_weakly,
};
pub use connection::{
    ConnectionOptions, expect_continue, is_websocket, keep_alive, remove_connection_options, remove_hop_by_hop,
    remove_persistence, switches_protocols, upgrade_protocols, wants_upgrade, without_persistence,
};
pub use cookies::{CookiePiece, CookiePieces, cookie_pieces, cookies, set_cookie, set_cookie_pieces};
pub use date::{HTTP_DATE_LEN, http_date, is_http_date_in_usual_letters, parse_http_date};
pub use error::{ParseError, ParseErrorKind, Sender};
pub use fieldwise::{FieldError, FieldwiseRequest, FieldwiseResponse, PseudoFields, judge_trailer};
pub use framing::{
    begins_tunnel, enforce_framing, enforce_request_framing, enforce_response_framing, has_unexpected_body,
    request_body_length, response_body_length,
};
pub use header_id::HeaderId;
pub use headers::{Field, Headers, Span};
pub use limits::Limits;
pub use method::Method;
pub use parser::{Parsed, RequestParser, ResponseParser};
pub use percent::{Plus, percent_decode, push_encoded, query_parameters};
pub use ranges::{AskedRange, byte_ranges};
pub use request::RequestHead;
pub use response::ResponseHead;
pub use status::reason_phrase;
pub use stored_head::StoredHead;
pub use target::{Target, TargetForm, host_matches};
pub use values::elements;
pub use version::Version;
