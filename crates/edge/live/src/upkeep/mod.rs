//! Stick tables of the running configuration are kept: what has expired goes, and what the process before left comes in.
//! What is published in Varnish's shared memory is kept up to date.

mod expiry;
mod inheritance;
mod published;

pub use self::{
    expiry::run as expire,
    inheritance::run as inherit,
    published::{run as keep_published, show as show_published},
};
