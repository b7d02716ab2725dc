//! The haproxy.cfg language: text in, a checked [`model::Config`] or a list of diagnostics out.

pub mod model;
