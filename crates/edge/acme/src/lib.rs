//! Certificates by themselves: `acme` sections of haproxy.cfg.
//!
//! ```text
//!   jws, dates, problem, messages  <-  proof, order, renewal         pure: what an authority is told, and when
//!   files, client, publication                                       files of keys, HTTP, what is shown to the authority
//!   all of these  <-  shared  <-  keeper  <-  certificates           one task for each certificate, on a thread of their own
//! ```
//!
//! [`Certificates`] belongs to the process and outlives reloads: it has the certificates that came, which an instance is made with, and
//! the proofs that clients are answered with. A thread, made when the first certificate wants it, has a task for each certificate
//! (`keeper`), which sleeps until it is time, drives an [`order::Attempt`], writes the file and hands the certificate to the [`Host`].

mod certificates;
mod client;
pub mod dates;
mod files;
mod host;
pub mod jws;
mod keeper;
pub mod messages;
pub mod order;
pub mod problem;
pub mod proof;
mod publication;
pub mod renewal;
mod shared;
mod status;

pub use certificates::{Certificates, RenewError};
pub use host::{Host, Level};
pub use status::{State, Status, now};

#[cfg(test)]
mod order_tests;
