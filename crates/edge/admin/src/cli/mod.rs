//! The stats socket: HAProxy's runtime API.
//!
//! ```text
//!   bytes --line--> Line (words, payload) --table--> command --session--> Reply --serve--> bytes
//! ```
//!
//! Everything but [`serve`] is pure: lines in, texts out, with [`Control`](crate::stats::control::Control) as the only way
//! to the edge that runs.

mod acme;
mod admin;
mod certificate_lists;
mod certificates;
mod cookies;
mod descriptors;
mod events;
mod help;
mod line;
pub mod master;
mod patterns;
mod peers;
mod plugins;
pub mod reference;
mod reply;
mod resolvers;
mod routes;
mod serve;
mod server_state;
mod session;
mod sessions;
mod show;
mod socket;
mod table;
mod tables;
mod threads;
mod tls_keys;
mod trusted;
mod variable;

pub use reply::{Reply, Severity};
pub use serve::{End, Host, Options, serve};
pub use session::{Context, Session};
pub use sessions::{AskSessions, ProxyView, ServerView, SessionView, Sessions, Transport};
pub use socket::address;
pub use socket::{Access, AskWorkers, LiveHost, serve_socket};
pub use table::{COMMANDS, Command};
pub use tables::Entries;

#[cfg(test)]
mod tests;
