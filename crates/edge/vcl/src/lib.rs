//! VCL, the language in which Varnish is told what to cache and how.
//!
//! [`compile()`] makes a [`Program`](program::Program) of texts; it does so without a compiler of C and without touching a file, a
//! socket or a clock: included files and addresses of names come through traits. VCL 4.0, 4.1 and, for texts without a version line,
//! VCL 3.

pub mod action;
pub mod compile;
pub mod diagnostic;
mod lexer;
pub mod modules;
pub mod pattern;
pub mod program;
pub mod reference;
pub mod run;
pub mod source;
pub mod subroutine;
mod token;
pub mod types;
pub mod variables;
pub mod words;

pub use compile::{Compiled, Options, Rejected, compile};
