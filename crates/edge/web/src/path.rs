//! The path of a request as names beneath a root.
//!
//! A [`CleanPath`] is decoded once and has no part that leads upwards or nowhere: it is built of names, one by one, and `..` takes the last
//! of them away. So what is opened beneath a root never lies outside it, whatever was asked (symbolic links are the business of whoever
//! opens). As in nginx, slashes that follow each other are one, an encoded slash is a slash, a backslash is a letter like others, and bytes
//! that are no UTF-8 are themselves: names on a disk are bytes.

use basics::hex;
use http::{Plus, percent_decode, push_encoded};

/// The longest path, in bytes after decoding; the kernel's `PATH_MAX` without its end.
pub const PATH_BYTES_MAX: usize = 4_095;

/// The longest name that file systems take.
pub const NAME_BYTES_MAX: usize = 255;

/// Most names of a path.
pub const DEPTH_MAX: usize = 128;

/// The one hidden name that is served from a root: RFC 8615 keeps what is well known there.
const WELL_KNOWN: &[u8] = b".well-known";

/// Which paths are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathRules {
    /// Names that begin with a dot are names like others. Otherwise only `/.well-known` is.
    pub hidden: bool,
}

/// Why a path names nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It does not begin with a slash, as `*` or what CONNECT asks for.
    #[error("the path does not begin with a slash")]
    Relative,
    /// A `%` without two hexadecimal digits.
    #[error("a '%' in the path is not followed by two hexadecimal digits")]
    Encoding,
    /// A NUL, which no name has.
    #[error("the path has a NUL byte")]
    Nul,
    /// `..` above the root.
    #[error("the path leads above the root")]
    AboveRoot,
    /// A name that begins with a dot.
    #[error("the path has a hidden name, one that begins with a dot")]
    Hidden,
    /// More bytes or names than there may be, or a name that no file system takes.
    #[error("the path, or a name in it, is too long")]
    TooLong,
}

impl PathError {
    /// The status that says so: 400 for what no client has a reason to send, 404 for what might name something and does not.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::Relative | Self::Encoding | Self::Nul | Self::AboveRoot => 400,
            Self::Hidden | Self::TooLong => 404,
        }
    }
}

/// Names in order, parted by single slashes, with a slash before the first. One behind the last says that a folder is meant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CleanPath {
    /// Begins with a slash, or is empty before anything is read. IMPORTANT: no name is empty, `.` or `..`, or has a slash or a NUL.
    bytes: Vec<u8>,
}

impl CleanPath {
    /// The root.
    #[must_use]
    pub fn root() -> Self {
        Self { bytes: b"/".to_vec() }
    }

    /// The path of a target, without the query.
    ///
    /// # Errors
    /// Why it names nothing.
    pub fn of_target(path: &[u8], rules: PathRules) -> Result<Self, PathError> {
        let mut clean = Self::default();
        clean.read_target(path, rules)?;
        Ok(clean)
    }

    /// Becomes the path of a target, in the memory that is there. After an error it is the root.
    ///
    /// # Errors
    /// Why it names nothing.
    pub fn read_target(&mut self, path: &[u8], rules: PathRules) -> Result<(), PathError> {
        let read = self.read(path, rules, Decoding::Percent);
        if read.is_err() {
            self.clear();
        }
        read
    }

    /// A path as a configuration writes it: nothing is encoded, and hidden names are meant.
    ///
    /// # Errors
    /// Why it names nothing.
    pub fn of_names(path: &[u8]) -> Result<Self, PathError> {
        let mut clean = Self::default();
        clean.read(path, PathRules { hidden: true }, Decoding::Nothing)?;
        Ok(clean)
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.push(b'/');
    }

    fn read(&mut self, path: &[u8], rules: PathRules, decoding: Decoding) -> Result<(), PathError> {
        if path.first() != Some(&b'/') {
            return Err(PathError::Relative);
        }
        self.bytes.clear();
        // Most paths are what they mean.
        if !is_plain(path) || decoding == Decoding::Percent && memchr::memchr(b'%', path).is_some() {
            let mut decoded = Vec::new();
            let text = match decoding {
                Decoding::Nothing => path,
                Decoding::Percent => {
                    percent_decode(path, Plus::Literal, &mut decoded).ok_or(PathError::Encoding)?;
                    &decoded
                }
            };
            self.resolve(text)?;
        } else {
            self.bytes.extend_from_slice(path);
        }
        self.check(rules)
    }

    /// Takes names one by one.
    fn resolve(&mut self, text: &[u8]) -> Result<(), PathError> {
        self.bytes.push(b'/');
        let mut is_folder = true;
        for name in text.split(|byte| *byte == b'/') {
            is_folder = matches!(name, b"" | b"." | b"..");
            match name {
                b"" | b"." => {}
                b".." => {
                    // The slash that the last name ends with, then the one before it.
                    let end = self.bytes.len().saturating_sub(1);
                    let before = self.bytes.get(..end).and_then(|names| memchr::memrchr(b'/', names));
                    self.bytes.truncate(before.ok_or(PathError::AboveRoot)? + 1);
                }
                name => {
                    self.bytes.extend_from_slice(name);
                    self.bytes.push(b'/');
                }
            }
        }
        if !is_folder {
            self.bytes.pop();
        }
        Ok(())
    }

    fn check(&self, rules: PathRules) -> Result<(), PathError> {
        if memchr::memchr(0, &self.bytes).is_some() {
            return Err(PathError::Nul);
        }
        if self.bytes.len() > PATH_BYTES_MAX || self.names().count() > DEPTH_MAX {
            return Err(PathError::TooLong);
        }
        for (place, name) in self.names().enumerate() {
            if name.len() > NAME_BYTES_MAX {
                return Err(PathError::TooLong);
            }
            if name.first() == Some(&b'.') && !rules.hidden && (place > 0 || name != WELL_KNOWN) {
                return Err(PathError::Hidden);
            }
        }
        Ok(())
    }

    /// With a slash before the first name; with one behind the last where a folder is meant.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        if self.bytes.is_empty() { b"/" } else { &self.bytes }
    }

    /// What is opened beneath a root: without slashes at the ends; `.` for the root itself.
    #[must_use]
    pub fn relative(&self) -> &[u8] {
        let names = self.bytes.strip_prefix(b"/").unwrap_or(&self.bytes);
        let names = names.strip_suffix(b"/").unwrap_or(names);
        if names.is_empty() { b"." } else { names }
    }

    /// Whether a folder is meant: it ends with a slash.
    #[must_use]
    pub fn is_folder(&self) -> bool {
        self.as_bytes().ends_with(b"/")
    }

    /// Whether it is the root.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.as_bytes() == b"/"
    }

    /// Its names from the root on.
    pub fn names(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.bytes.split(|byte| *byte == b'/').filter(|name| !name.is_empty())
    }

    /// The last name; empty for the root.
    #[must_use]
    pub fn last_name(&self) -> &[u8] {
        self.names().next_back().unwrap_or_default()
    }

    /// The same as a folder.
    #[must_use]
    pub fn folder(&self) -> Self {
        let mut folder = self.clone();
        folder.make_folder();
        folder
    }

    fn make_folder(&mut self) {
        if !self.bytes.ends_with(b"/") {
            self.bytes.push(b'/');
        }
    }

    /// What is in this folder under a name; none if that is no name, or one that is too long to be there.
    #[must_use]
    pub fn child(&self, name: &[u8]) -> Option<Self> {
        let mut child = self.folder();
        child.push(name).then_some(child)
    }

    /// Goes down to a name in this folder. False, and as it was before, if that is no name.
    pub fn push(&mut self, name: &[u8]) -> bool {
        let is_name = !matches!(name, b"" | b"." | b"..") && !name.iter().any(|byte| matches!(byte, b'/' | 0));
        if !is_name || name.len() > NAME_BYTES_MAX || self.bytes.len() + name.len() >= PATH_BYTES_MAX {
            return false;
        }
        self.make_folder();
        self.bytes.extend_from_slice(name);
        true
    }

    /// The path with a text behind its last letter, as `$uri.html` makes it. The text may hold slashes.
    ///
    /// # Errors
    /// Why it names nothing.
    pub fn with_suffix(&self, suffix: &[u8], rules: PathRules) -> Result<Self, PathError> {
        let mut longer = Self::default();
        longer.read(&[self.as_bytes(), suffix].concat(), rules, Decoding::Nothing)?;
        Ok(longer)
    }

    /// What is left of it beneath `folder`: `/i/a/b` beneath `/i/` is `/a/b`. Whole names are compared, so `/images` is not beneath `/i`.
    #[must_use]
    pub fn beneath(&self, folder: &Self) -> Option<Self> {
        let prefix = folder.as_bytes();
        let prefix = prefix.strip_suffix(b"/").unwrap_or(prefix);
        let rest = self.as_bytes().strip_prefix(prefix)?;
        match rest.first() {
            None => Some(Self::root()),
            Some(b'/') => Some(Self { bytes: rest.to_vec() }),
            Some(_) => None,
        }
    }

    /// Appends it as a URL has it. It begins with one slash and no more, so it names a path of this very host wherever it stands.
    pub fn push_url(&self, out: &mut Vec<u8>) {
        push_url(self.as_bytes(), out);
    }

    /// The `Location` that leads from the path of a folder without a slash at its end to the one with it, with the query as it came.
    #[must_use]
    pub fn location_of_folder(&self, query: Option<&[u8]>) -> Vec<u8> {
        self.folder().location(query)
    }

    /// The `Location` that leads to it, with a query as it came.
    #[must_use]
    pub fn location(&self, query: Option<&[u8]>) -> Vec<u8> {
        let mut location = Vec::with_capacity(self.bytes.len() + query.map_or(0, <[u8]>::len) + 2);
        self.push_url(&mut location);
        if let Some(query) = query {
            location.push(b'?');
            location.extend_from_slice(query);
        }
        location
    }
}

/// Whether a path is spelled as it usually is: no letter, digit, `-`, `.`, `_`, `~` or slash is encoded (RFC 3986 section 6.2.2.2), and no
/// name is empty, `.` or `..`.
///
/// Conditions on a path see it as it is spelled. What is served under other spellings, too, is out of reach of the conditions that are to
/// protect it.
#[must_use]
pub fn is_usual_spelling(path: &[u8]) -> bool {
    let mut names = path.split(|byte| *byte == b'/').skip(1).peekable();
    while let Some(name) = names.next() {
        let is_last = names.peek().is_none();
        if matches!(name, b"." | b"..") || name.is_empty() && !is_last {
            return false;
        }
    }
    memchr::memchr_iter(b'%', path).all(|at| match path.get(at + 1..at + 3) {
        Some([high, low]) => hex::value(*high).zip(hex::value(*low)).is_none_or(|(high, low)| {
            let byte = high << 4 | low;
            !byte.is_ascii_alphanumeric() && !matches!(byte, b'-' | b'.' | b'_' | b'~' | b'/')
        }),
        _ => true,
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Decoding {
    Percent,
    Nothing,
}

/// Whether no name is empty, `.` or `..`: nothing is to be resolved.
fn is_plain(path: &[u8]) -> bool {
    let mut slash_before = false;
    for byte in path {
        // A dot behind a slash may begin a hidden name as well; that is rare.
        if slash_before && matches!(byte, b'/' | b'.') {
            return false;
        }
        slash_before = *byte == b'/';
    }
    true
}

/// Appends bytes as a URL has them within a path: what RFC 3986 lets stand there stands there, but for what HTML and shells mind.
pub fn push_url(bytes: &[u8], out: &mut Vec<u8>) {
    for byte in bytes {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => out.push(*byte),
            b'-' | b'.' | b'_' | b'~' | b'/' | b'!' | b'$' | b'(' | b')' | b'*' | b'+' | b',' | b'=' | b':' | b'@' => {
                out.push(*byte);
            }
            byte => push_encoded(*byte, out),
        }
    }
}

#[cfg(test)]
mod tests;
