//! The bodies of the fuzz targets, one module a crate.
//!
//! A body is a plain function of bytes that panics when a promise is broken. The targets in fuzz_targets/ give it to
//! libFuzzer; the crate's own tests include the module by path and give it a small seeded corpus, so `cargo test`
//! exercises every target without nightly.

pub mod acl;
pub mod acme;
pub mod backup;
pub mod bans;
pub mod cache_disk;
pub mod check_messages;
pub mod configuration;
pub mod dns;
pub mod engine_records;
pub mod esi;
pub mod fastcgi;
pub mod glob;
pub mod hpack;
pub mod http2;
pub mod http3;
pub mod http_codec;
pub mod hyperloglog;
pub mod log_lines;
pub mod log_pieces;
pub mod lua_libraries;
pub mod oplog;
pub mod peers;
pub mod qpack;
pub mod queries;
pub mod queue_records;
pub mod rdb;
pub mod redis_conf;
pub mod redis_files;
pub mod replication;
pub mod resp;
pub mod sample_messages;
pub mod script;
pub mod stick;
pub mod tls;
pub mod tokens;
pub mod vcl;
pub mod varnish_cli;
pub mod vsm_reader;
pub mod web;
