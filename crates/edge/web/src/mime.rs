//! Types of files by the ends of their names: a table of our own, and files in the formats of nginx (`types { text/html html htm; }`) and
//! of Apache (`text/html html htm`).

use std::{collections::HashMap, sync::Arc};

mod builtin;

/// Bytes of the longest extension that is looked up.
pub const EXTENSION_BYTES_MAX: usize = 32;

/// Most extensions of a table.
pub const EXTENSIONS_MAX: usize = 100_000;

/// The type of what has none.
pub const DEFAULT_TYPE: &str = "application/octet-stream";

/// Types by extension.
#[derive(Clone, Debug)]
pub struct MimeTypes {
    /// In small letters, without the dot.
    by_extension: HashMap<Box<[u8]>, Arc<str>>,
    default: Arc<str>,
    /// Some extensions have dots in themselves, such as `tar.gz`.
    has_dotted: bool,
}

/// Why a file of types, or a line of it, cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MimeError {
    /// What should be a type is none.
    #[error("line {line}: '{word}' is no media type, such as text/html")]
    Type {
        /// From 1.
        line: usize,
        /// What stands there.
        word: String,
    },
    /// An extension that no name has.
    #[error(
        "line {line}: '{word}' is no extension: letters that stand behind a dot of a name, at most {EXTENSION_BYTES_MAX}"
    )]
    Extension {
        /// From 1.
        line: usize,
        /// What stands there.
        word: String,
    },
    /// nginx' format: something else than a type and its extensions.
    #[error("line {line}: '{word}' is not expected here: nginx' format is types {{ text/html html htm; ... }}")]
    Unexpected {
        /// From 1.
        line: usize,
        /// What stands there.
        word: String,
    },
    /// nginx' format: it ends within a line or within braces.
    #[error("line {line}: the file ends before '{missing}'")]
    End {
        /// From 1.
        line: usize,
        /// What is missing.
        missing: char,
    },
    /// There are too many.
    #[error("line {line}: these are more than {EXTENSIONS_MAX} extensions")]
    TooMany {
        /// From 1.
        line: usize,
    },
}

impl MimeTypes {
    /// A table without any type.
    #[must_use]
    pub fn empty() -> Self {
        Self { by_extension: HashMap::new(), default: DEFAULT_TYPE.into(), has_dotted: false }
    }

    /// Our own table.
    #[must_use]
    pub fn built_in() -> Self {
        let mut types = Self::empty();
        for (essence, extensions) in builtin::TYPES {
            let essence: Arc<str> = Arc::from(*essence);
            for extension in extensions.split(' ') {
                types.by_extension.insert(extension.as_bytes().into(), essence.clone());
            }
        }
        types
    }

    /// How many extensions it knows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_extension.len()
    }

    /// Whether it knows none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_extension.is_empty()
    }

    /// What files without a known extension are.
    pub fn set_default(&mut self, essence: &str) {
        self.default = essence.into();
    }

    /// Adds types out of a file of nginx' or Apache's format: braces and semicolons are nginx'. Those that are read replace those that
    /// the table has.
    ///
    /// # Errors
    /// Which line says nothing. What stood before it has been read.
    pub fn read(&mut self, text: &[u8]) -> Result<(), MimeError> {
        let is_of_nginx = text
            .split(|byte| *byte == b'\n')
            .any(|line| without_comment(line).iter().any(|byte| matches!(byte, b'{' | b';')));
        if is_of_nginx { self.read_nginx(text) } else { self.read_apache(text) }
    }

    fn read_apache(&mut self, text: &[u8]) -> Result<(), MimeError> {
        for (line, bytes) in (1..).zip(text.split(|byte| *byte == b'\n')) {
            let mut words = without_comment(bytes).split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            let Some(essence) = words.next() else { continue };
            let essence = media_type(essence, line)?;
            for extension in words {
                self.add(&essence, extension, line)?;
            }
        }
        Ok(())
    }

    fn read_nginx(&mut self, text: &[u8]) -> Result<(), MimeError> {
        let (mut essence, mut is_open, mut line_now): (Option<Arc<str>>, bool, usize) = (None, false, 1);
        for (line, word) in nginx_words(text) {
            line_now = line;
            let unexpected = || MimeError::Unexpected { line, word: shown(word) };
            match (word, &essence) {
                (b"{", _) | (b"types", None) if is_open => return Err(unexpected()),
                (b"types", None) => essence = None,
                (b"{", None) => is_open = true,
                (b"{", Some(_)) => return Err(unexpected()),
                (b"}", None) if is_open => is_open = false,
                (b"}", _) => return Err(unexpected()),
                (b";", None) => return Err(unexpected()),
                (b";", Some(_)) => essence = None,
                (word, None) => essence = Some(media_type(word, line)?),
                (word, Some(known)) => {
                    let known = known.clone();
                    self.add(&known, word, line)?;
                }
            }
        }
        match (essence, is_open) {
            (Some(_), _) => Err(MimeError::End { line: line_now, missing: ';' }),
            (None, true) => Err(MimeError::End { line: line_now, missing: '}' }),
            (None, false) => Ok(()),
        }
    }

    /// Gives an extension, without a dot or with it, another type.
    ///
    /// # Errors
    /// It is no type, or no extension; `line` goes into the error.
    pub fn set(&mut self, essence: &str, extension: &str, line: usize) -> Result<(), MimeError> {
        let essence = media_type(essence.as_bytes(), line)?;
        self.add(&essence, extension.strip_prefix('.').unwrap_or(extension).as_bytes(), line)
    }

    fn add(&mut self, essence: &Arc<str>, extension: &[u8], line: usize) -> Result<(), MimeError> {
        let is_extension = (1..=EXTENSION_BYTES_MAX).contains(&extension.len())
            && !extension.iter().any(|byte| byte.is_ascii_control() || matches!(byte, b'/' | b' '))
            && !extension.starts_with(b".")
            && !extension.ends_with(b".");
        if !is_extension {
            return Err(MimeError::Extension { line, word: shown(extension) });
        }
        if self.by_extension.len() >= EXTENSIONS_MAX {
            return Err(MimeError::TooMany { line });
        }
        self.has_dotted |= extension.contains(&b'.');
        self.by_extension.insert(extension.to_ascii_lowercase().into(), essence.clone());
        Ok(())
    }

    /// The type of a file of this name, with a charset where the type is one of text. Letters may be large or small.
    #[must_use]
    pub fn of<'a>(&'a self, name: &[u8], charset: Option<&'a str>) -> ContentType<'a> {
        let last = extension(name);
        let dotted = if self.has_dotted { self.longest(name) } else { None };
        let essence = dotted.or_else(|| last.and_then(|extension| self.known(extension)));
        let essence = essence.unwrap_or(&self.default);
        ContentType { essence, charset: charset.filter(|_| takes_charset(essence)) }
    }

    /// The type of the longest extension that is known, where some have dots.
    fn longest(&self, name: &[u8]) -> Option<&Arc<str>> {
        let from = name.len().saturating_sub(EXTENSION_BYTES_MAX + 1).max(1);
        (from..name.len()).filter(|at| name.get(*at) == Some(&b'.')).find_map(|at| self.known(name.get(at + 1..)?))
    }

    fn known(&self, extension: &[u8]) -> Option<&Arc<str>> {
        let mut small = [0; EXTENSION_BYTES_MAX];
        let small = small.get_mut(..extension.len())?;
        small.copy_from_slice(extension);
        small.make_ascii_lowercase();
        self.by_extension.get(&*small)
    }
}

impl Default for MimeTypes {
    fn default() -> Self {
        Self::built_in()
    }
}

/// What stands behind the last dot of a name; a dot at its start begins none.
fn extension(name: &[u8]) -> Option<&[u8]> {
    let dot = memchr::memrchr(b'.', name).filter(|dot| *dot > 0)?;
    name.get(dot + 1..).filter(|extension| !extension.is_empty())
}

/// Whether a type is one of text whose bytes `charset` is about. XML of other types than `text/xml` says it itself, and JSON is UTF-8 by
/// its definition (RFC 8259 section 8.1).
#[must_use]
pub fn takes_charset(essence: &str) -> bool {
    let is_text = essence.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("text/"));
    (is_text || essence.eq_ignore_ascii_case("application/javascript")) && !essence.contains(';')
}

/// `Content-Type`, in parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContentType<'a> {
    /// `text/html`; nothing is sent if it is empty.
    pub essence: &'a str,
    /// `utf-8`
    pub charset: Option<&'a str>,
}

impl<'a> ContentType<'a> {
    /// The value of the field in parts.
    #[must_use]
    pub fn parts(self) -> [&'a [u8]; 3] {
        match self.charset {
            Some(charset) => [self.essence.as_bytes(), b"; charset=", charset.as_bytes()],
            None => [self.essence.as_bytes(), b"", b""],
        }
    }
}

fn without_comment(line: &[u8]) -> &[u8] {
    line.split(|byte| *byte == b'#').next().unwrap_or_default()
}

/// `type/subtype`, perhaps with parameters.
fn media_type(word: &[u8], line: usize) -> Result<Arc<str>, MimeError> {
    let wrong = || MimeError::Type { line, word: shown(word) };
    let text = std::str::from_utf8(word).map_err(|_| wrong())?;
    let (essence, _) = text.split_once(';').unwrap_or((text, ""));
    let is_token = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+*".contains(&byte))
    };
    let (kind, subtype) = essence.trim().split_once('/').ok_or_else(wrong)?;
    let is_clean = !text.bytes().any(|byte| byte.is_ascii_control() || !byte.is_ascii());
    (is_token(kind) && is_token(subtype) && is_clean).then(|| text.into()).ok_or_else(wrong)
}

fn shown(word: &[u8]) -> String {
    let mut text: String = String::from_utf8_lossy(word).chars().take(40).collect();
    if text.len() < word.len() {
        text.push('…');
    }
    text
}

/// The words of nginx' format with their lines; braces and semicolons are words of their own. A word may stand in quotes.
fn nginx_words(text: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let (mut at, mut line) = (0, 1);
    std::iter::from_fn(move || {
        loop {
            let byte = *text.get(at)?;
            match byte {
                b'\n' => line += 1,
                b'#' => {
                    while text.get(at + 1).is_some_and(|byte| *byte != b'\n') {
                        at += 1;
                    }
                }
                byte if byte.is_ascii_whitespace() => {}
                b'{' | b'}' | b';' => {
                    at += 1;
                    return Some((line, text.get(at - 1..at)?));
                }
                quote @ (b'"' | b'\'') => {
                    let start = at + 1;
                    let rest = text.get(start..)?;
                    let end = rest.iter().position(|byte| *byte == quote).unwrap_or(rest.len());
                    let word = rest.get(..end)?;
                    let first_line = line;
                    line += word.iter().filter(|byte| **byte == b'\n').count();
                    at = (start + end + 1).min(text.len());
                    return Some((first_line, word));
                }
                _ => {
                    let rest = text.get(at..)?;
                    let ends = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'{' | b'}' | b';');
                    let end = rest.iter().position(ends).unwrap_or(rest.len());
                    at += end;
                    return Some((line, rest.get(..end)?));
                }
            }
            at += 1;
        }
    })
}

#[cfg(test)]
mod tests;
