//! The life of a request in an HTTP accelerator that runs VCL: Varnish's, without a socket, a clock or a thread.
//!
//! ```text
//!  client:  recv ─▶ hash ─▶ lookup ─┬▶ hit ───────────────────────────┬▶ deliver ─▶ Step::Deliver
//!            ▲  │                   ├▶ miss ─▶ Step::Fetch ─▶ object ─┘      │
//!            │  ├▶ pass ────────────┴─────────▶ Step::Pass ─▶ response ──────┤
//!            │  ├▶ synth ─▶ Step::Deliver        pipe ─▶ Step::Pipe          │
//!            └──┴──────────────── restart ◀──────────────────────────────────┘
//!
//!  fetch:   backend_fetch ─▶ (a backend is asked) ─▶ backend_response ─▶ stored, or for one client
//!                ▲                   └▶ backend_error ─▶ stored            │
//!                └─────────────────────── retry ◀──────────────────────────┘
//! ```
//!
//! [`client::Client`] and [`backend::Backend`] are the two machines. Each is asked what to do next, and told what came of it; whoever
//! drives them has the sockets. Both run subroutines of a [`loaded::Loaded`] program and use one [`cache::index::Cache`].
//!
//! [`shared`] has two machines of the same contract without a program: what RFC 9111 says is what they do. Who drives either kind
//! uses [`machine`]. [`section`] is the policy of HAProxy's own cache, which has no machine: rules drive it.

pub mod backend;
pub mod client;
mod common;
pub mod directors;
pub mod fields;
pub mod lasting;
pub mod load;
pub mod loaded;
pub mod log;
pub mod machine;
mod modules;
pub mod note;
mod numbers;
pub mod output;
pub mod proxy_header;
pub mod publication;
pub mod recode;
pub mod section;
pub mod settings;
pub mod shared;

pub use common::{Connection, ConnectionWishes};
