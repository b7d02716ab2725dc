//! RESP, the protocol of Redis: versions 2 and 3, for servers and for clients.
//!
//! | who | reads | writes |
//! |---|---|---|
//! | server | [`RequestParser`] | [`Reply`] |
//! | client | [`ReplyParser`] into [`Value`] | [`encode_command`] |
//!
//! Requests are parsed in place: what comes out are ranges of the buffer that the socket was read into. The rules are those
//! of Redis 7.0, its leniences and its error texts included, for clients have come to rely on them. Both parsers remember
//! where they stopped, so a message that comes in a thousand pieces costs no more than one that comes whole.
//!
//! Nothing here opens a socket, and no input of any kind panics or takes memory beyond what [`Limits`] and [`ReplyLimits`]
//! allow.

mod arguments;
mod command;
mod double;
mod error;
mod inline;
mod number;
mod reply;
mod reply_parser;
mod request;
mod value;

#[cfg(test)]
mod tests;

pub use arguments::Arguments;
pub use command::{encode_argument, encode_command, encode_command_header, encoded_command_len};
pub use double::{DOUBLE_LEN_MAX, format_double};
pub use error::{Limits, ProtocolError, is_unknown};
pub use inline::{UnbalancedQuotes, quote_argument, split_arguments};
pub use number::parse_integer;
pub use reply::{Deferred, Protocol, Reply};
pub use reply_parser::{ReplyError, ReplyLimits, ReplyParser, ReplyProgress};
pub use request::{Progress, RequestParser};
pub use value::Value;
