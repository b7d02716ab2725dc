//! Parsers of the keywords that are not rules.

pub mod acme;
pub mod balance;
pub mod bind;
pub mod cache;
pub mod fcgi_app;
pub mod global;
pub mod option;
pub mod peers;
pub mod program;
pub mod proxy;
pub mod quic;
pub mod rdp;
pub mod resolvers;
pub mod sections;
pub mod server;
pub mod source;
pub mod tls;
pub mod tune;
