//! Stick tables and caches of the running configuration are kept: what has expired goes, and what the process before left of tables
//! comes in. What is published in Varnish's shared memory is kept up to date.

mod caches;
mod expiry;
mod inheritance;
mod published;

pub use self::{
    caches::run as tend_caches,
    expiry::run as expire,
    inheritance::run as inherit,
    published::{run as keep_published, show as show_published},
};
