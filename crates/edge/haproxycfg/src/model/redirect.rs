//! Redirections.

use sample::LogFormat;

/// `redirect`.
#[derive(Clone, Debug)]
pub struct Redirect {
    /// What the location is made of.
    pub kind: RedirectKind,
    /// `code`: 301, 302, 303, 307, 308.
    pub code: u16,
    /// `drop-query`.
    pub drop_query: bool,
    /// `append-slash`.
    pub append_slash: bool,
    /// `ignore-empty`.
    pub ignore_empty: bool,
    /// `set-cookie`, `clear-cookie`: the whole value of Set-Cookie.
    pub set_cookie: Option<Vec<u8>>,
}

/// How the location of a redirect is made.
#[derive(Clone, Debug)]
pub enum RedirectKind {
    /// `location`.
    Location(LogFormat),
    /// `prefix`.
    Prefix(LogFormat),
    /// `scheme`.
    Scheme(LogFormat),
}
