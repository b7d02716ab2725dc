//! Programs behind a web server: FastCGI, SCGI and uwsgi on the wire, and what CGI says of a request and of an answer.
//!
//! Sans-io: no socket, no file, no clock.
//!
//! - [`Client`] is the web server's end of a FastCGI connection, for one or several requests at a time: it writes records, and says
//!   what those of the application mean.
//! - [`Variables`] are the meta-variables of a request (RFC 3875 section 4.1), as HAProxy makes them; [`Script`] says which program a
//!   path means.
//! - [`AnswerHead`] makes the head of an HTTP response of what a program says first (RFC 3875 section 6).
//! - [`ErrorLines`] makes lines for a log of what a program complains about.
//!
//! ```text
//!  request ─▶ Variables ─▶ params ─▶ Client ─▶ records ─▶ application
//!  response ◀─ AnswerHead ◀─ STDOUT ◀─ Client ◀─ records ◀─┘
//! ```

mod answer;
mod client;
mod error_lines;
mod pairs;
mod record;
mod script;
mod variables;

pub use answer::{AnswerHead, HeadError, head_end};
pub use client::{Client, EndStatus, Event, RequestKey, Settings, Values};
pub use error_lines::ErrorLines;
pub use pairs::{PAIRS_BYTES_MAX, PairError, Pairs, write_pair, write_scgi, write_uwsgi};
pub use record::{CONTENT_BYTES_MAX, Kind, RecordError};
pub use script::{PathError, Program, Script};
pub use variables::{Facts, Override, Variables, is_hidden, variable_name};

#[cfg(test)]
mod tests;
