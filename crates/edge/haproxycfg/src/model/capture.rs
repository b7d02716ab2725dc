//! Captures of headers and cookies.

/// `capture request header`.
#[derive(Clone, Debug)]
pub struct Capture {
    /// The field; `None` for a declared slot.
    pub name: Option<String>,
    /// Bytes kept.
    pub len: usize,
}

/// `capture cookie`.
#[derive(Clone, Debug)]
pub struct CaptureCookie {
    /// Name, or its beginning.
    pub name: String,
    /// Bytes kept.
    pub len: usize,
    /// Whether `name` is only the beginning; otherwise it was given with a `=` behind it, which is not part of it.
    pub prefix: bool,
}
