//! Compression of bodies while they pass, for `compression` in haproxy.cfg.
//!
//! [`Encoder`] takes a body in pieces of any size and appends what they become. [`Encoder::flush`] makes sure that the
//! receiver can read all that was put in, whatever comes later: nothing is held back while a server is silent.
//!
//! - `deflate`: our own encoder. It is what HAProxy's libslz is: fast, and without memory between two pieces.
//! - `encoder`: the codings and their wrappings.

mod adler;
mod codes;
mod deflate;
mod encoder;

pub use deflate::Workspace;
pub use encoder::{Encoder, Failed};
