//! The management protocol of varnishd (`man varnish-cli`), version 7.1, and its parameters. Sans-io: bytes and a time go in, bytes come out.
//!
//! What the commands do is up to an [`Instance`], which the role implements. This crate knows the language of command lines, the
//! commands with their numbers of arguments and help texts ([`command::ALL`]), what has to be true before a VCL may be used or discarded, the
//! layout of lists, the JSON forms, authentication by a secret, and all parameters ([`Parameters`]).
//!
//! # To serve a connection
//!
//! ```
//! use std::time::SystemTime;
//! use varnishcli::{Instance, Session};
//!
//! /// Bytes that came from a connection; what is to be sent, and whether it is to be closed then.
//! fn received(session: &mut Session, bytes: &[u8], instance: &mut dyn Instance) -> (Vec<u8>, bool) {
//!     let output = session.receive(bytes, instance, SystemTime::now());
//!     (output.bytes, output.closes)
//! }
//!
//! fn accepted(instance: &mut dyn Instance) -> (Session, Vec<u8>) {
//!     // Random letters for each connection. Without a secret (`-S none`) it is `Session::open`.
//!     let challenge = [b'x'; varnishcli::CHALLENGE_BYTES];
//!     Session::challenged(challenge, instance)
//! }
//! ```
//!
//! Over a blocking stream, all of this is [`serve`]. Lines of a file (`varnishd -I`) and the programs that the role runs itself go through
//! [`execute`].

pub mod auth;
pub mod command;
mod commands;
mod details;
mod instance;
mod json;
mod line;
mod parameters;
pub mod reference;
mod reply;
mod serve;
mod session;
mod table;

pub use auth::CHALLENGE_BYTES;
pub use commands::{execute, matches};
pub use details::{BackendDetails, DirectorDetails, MemberEntry, ProbeDetails};
pub use instance::{
    AdminHealth, BackendEntry, BanEntry, ChildState, Failure, Instance, Outcome, Pids, VclEntry, VclKind, VclSource,
    VclState,
};
pub use line::{LineReader, SyntaxError, quoted, words};
pub use parameters::{Bit, Effect, Param, ParameterError, Parameters, Specification};
pub use reply::{HEAD_BYTES, Reply, ReplyReader, Status};
pub use serve::serve;
pub use session::{Output, Session};
