//! The persistence cookie of a backend.

use std::time::Duration;

/// `cookie` of a backend.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent keyword")]
pub struct Cookie {
    /// Its name.
    pub name: Vec<u8>,
    /// What is done with it.
    pub mode: CookieMode,
    /// `indirect`.
    pub indirect: bool,
    /// `nocache`.
    pub nocache: bool,
    /// `postonly`.
    pub postonly: bool,
    /// `preserve`.
    pub preserve: bool,
    /// `httponly`.
    pub httponly: bool,
    /// `secure`.
    pub secure: bool,
    /// `domain`.
    pub domains: Vec<String>,
    /// `maxidle`.
    pub maxidle: Option<Duration>,
    /// `maxlife`.
    pub maxlife: Option<Duration>,
    /// `dynamic`, with `dynamic-cookie-key`.
    pub dynamic_key: Option<String>,
    /// `attr`.
    pub attributes: Vec<Vec<u8>>,
}

/// What is done with the persistence cookie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CookieMode {
    /// Only read.
    #[default]
    Passive,
    /// `rewrite`.
    Rewrite,
    /// `insert`.
    Insert,
    /// `prefix`.
    Prefix,
}
