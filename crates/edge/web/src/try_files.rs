//! `try-files`, in the words of nginx: names that are looked for one after the other, and what becomes of a request if none is there.

use crate::path::{CleanPath, PathError, PathRules};

/// Most names that a line may try.
pub const CANDIDATES_MAX: usize = 32;

/// What a `try-files` line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TryFiles {
    candidates: Vec<Pattern>,
    fallback: Last,
}

/// A name to look for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The name; ends with a slash where a folder is wanted.
    pub path: CleanPath,
    /// A folder is wanted, and no file; or a file, and no folder.
    pub is_folder: bool,
}

/// What becomes of a request whose candidates are not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// This status answers.
    Status(u16),
    /// The request goes on as one for this target, path and query, and the lines are asked again.
    Target(Vec<u8>),
}

/// Why a line says nothing that can be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TryFilesError {
    /// Fewer than two words.
    #[error("try-files wants what to try, and last what answers if nothing is there, such as '$uri $uri/ =404'")]
    TooFew,
    /// More words than there may be.
    #[error("try-files tries at most {CANDIDATES_MAX} names")]
    TooMany,
    /// A variable that is none here.
    #[error("'${0}' is no variable of try-files: these are $uri, $args, $query_string and $is_args")]
    Variable(String),
    /// A variable where it cannot stand.
    #[error("'${0}' names no file: it can only stand in the last word, behind a '?'")]
    QueryInName(String),
    /// A location of nginx by name.
    #[error("'{0}' is a named location, which is nginx': write `use_backend` with a condition on the path instead")]
    Named(String),
    /// A status elsewhere than at the end, or no status.
    #[error("'{0}' is no status: '=' and three digits from 200 to 599, as the last word")]
    Status(String),
    /// A name that does not begin with a slash.
    #[error("'{0}' does not begin with '/' or '$uri'")]
    Relative(String),
    /// A name that names nothing.
    #[error("'{word}': {reason}")]
    Name {
        /// The word.
        word: String,
        /// Why.
        reason: PathError,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern {
    pieces: Vec<Piece>,
    is_folder: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Last {
    Status(u16),
    Target(Vec<Piece>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Uri,
    Query,
    /// `?` where there is a query.
    QueryMark,
}

impl TryFiles {
    /// Reads the words behind `try-files`.
    ///
    /// # Errors
    /// Which word says nothing.
    pub fn parse(words: &[&str]) -> Result<Self, TryFilesError> {
        let Some((last, names)) = words.split_last().filter(|(_, names)| !names.is_empty()) else {
            return Err(TryFilesError::TooFew);
        };
        if names.len() > CANDIDATES_MAX {
            return Err(TryFilesError::TooMany);
        }
        let candidates = names.iter().map(|word| Pattern::parse(word)).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { candidates, fallback: Last::parse(last)? })
    }

    /// The names that are looked for, in order. A name that cannot be there is left out.
    pub fn candidates<'a>(&'a self, path: &'a CleanPath, rules: PathRules) -> impl Iterator<Item = Candidate> + 'a {
        self.candidates.iter().filter_map(move |pattern| pattern.candidate(path, rules))
    }

    /// What answers when none of them is there.
    #[must_use]
    pub fn fallback(&self, path: &CleanPath, query: Option<&[u8]>) -> Fallback {
        let pieces = match &self.fallback {
            Last::Status(status) => return Fallback::Status(*status),
            Last::Target(pieces) => pieces,
        };
        let mut target = Vec::new();
        for piece in pieces {
            match piece {
                Piece::Text(text) => target.extend_from_slice(text.as_bytes()),
                Piece::Uri => path.push_url(&mut target),
                Piece::Query => target.extend_from_slice(query.unwrap_or_default()),
                Piece::QueryMark if query.is_some_and(|query| !query.is_empty()) => target.push(b'?'),
                Piece::QueryMark => {}
            }
        }
        Fallback::Target(target)
    }
}

impl Pattern {
    fn parse(word: &str) -> Result<Self, TryFilesError> {
        if word.starts_with('=') {
            return Err(TryFilesError::Status(word.to_owned()));
        }
        let pieces = pieces(word)?;
        if let Some(variable) = pieces.iter().find_map(|piece| match piece {
            Piece::Query => Some("args"),
            Piece::QueryMark => Some("is_args"),
            Piece::Text(_) | Piece::Uri => None,
        }) {
            return Err(TryFilesError::QueryInName(variable.to_owned()));
        }
        let pattern = Self { pieces, is_folder: word.ends_with('/') };
        // Whatever is wrong with the text itself is wrong for every request.
        pattern
            .path(&CleanPath::root(), PathRules { hidden: true })
            .map_err(|reason| TryFilesError::Name { word: word.to_owned(), reason })?;
        Ok(pattern)
    }

    fn path(&self, uri: &CleanPath, rules: PathRules) -> Result<CleanPath, PathError> {
        match self.pieces.as_slice() {
            [Piece::Uri] => Ok(uri.clone()),
            // What the configuration writes out is meant, hidden or not.
            [Piece::Text(text)] => CleanPath::of_names(text.as_bytes()),
            pieces => {
                let mut text = Vec::new();
                for piece in pieces {
                    match piece {
                        Piece::Uri => text.extend_from_slice(uri.as_bytes()),
                        Piece::Text(more) => text.extend_from_slice(more.as_bytes()),
                        Piece::Query | Piece::QueryMark => {}
                    }
                }
                CleanPath::root().with_suffix(&text, rules)
            }
        }
    }

    fn candidate(&self, uri: &CleanPath, rules: PathRules) -> Option<Candidate> {
        self.path(uri, rules).ok().map(|path| Candidate { path, is_folder: self.is_folder })
    }
}

impl Last {
    fn parse(word: &str) -> Result<Self, TryFilesError> {
        if word.starts_with('@') {
            return Err(TryFilesError::Named(word.to_owned()));
        }
        let Some(status) = word.strip_prefix('=') else { return Ok(Self::Target(pieces(word)?)) };
        let number = status.parse().ok().filter(|status| (200..600).contains(status));
        number.map(Self::Status).ok_or_else(|| TryFilesError::Status(word.to_owned()))
    }
}

/// A word as text and variables, which may stand in braces.
fn pieces(word: &str) -> Result<Vec<Piece>, TryFilesError> {
    if word.starts_with('@') {
        return Err(TryFilesError::Named(word.to_owned()));
    }
    if !word.starts_with('/') && !word.starts_with("$uri") && !word.starts_with("${uri}") {
        return Err(TryFilesError::Relative(word.to_owned()));
    }
    let mut pieces = Vec::new();
    let mut rest = word;
    while let Some((text, behind)) = rest.split_once('$') {
        if !text.is_empty() {
            pieces.push(Piece::Text(text.to_owned()));
        }
        let (name, after) = match behind.strip_prefix('{').and_then(|braced| braced.split_once('}')) {
            Some(parts) => parts,
            None => {
                let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
                let end = behind.find(|letter| !is_letter(letter)).unwrap_or(behind.len());
                behind.split_at_checked(end).unwrap_or((behind, ""))
            }
        };
        pieces.push(match name {
            "uri" => Piece::Uri,
            "args" | "query_string" => Piece::Query,
            "is_args" => Piece::QueryMark,
            name => return Err(TryFilesError::Variable(name.to_owned())),
        });
        rest = after;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest.to_owned()));
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(words: &str, target: &str, expected: &[&str], fallback: &str) {
        let words: Vec<&str> = words.split_whitespace().collect();
        let files = TryFiles::parse(&words).unwrap();
        let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        let path = CleanPath::of_target(path.as_bytes(), PathRules::default()).unwrap();
        let found: Vec<String> = files
            .candidates(&path, PathRules::default())
            .map(|candidate| {
                let kind = if candidate.is_folder { "folder" } else { "file" };
                format!("{kind} {}", String::from_utf8_lossy(candidate.path.as_bytes()))
            })
            .collect();
        assert_eq!(found, expected, "{words:?} {target}");
        let found = match files.fallback(&path, query.map(str::as_bytes)) {
            Fallback::Status(status) => status.to_string(),
            Fallback::Target(target) => String::from_utf8(target).unwrap(),
        };
        assert_eq!(found, fallback, "{words:?} {target}");
    }

    #[test]
    fn candidates() {
        check("$uri $uri/ =404", "/a", &["file /a", "folder /a/"], "404");
        check("$uri $uri/ =404", "/a/", &["file /a/", "folder /a/"], "404");
        check("$uri $uri.html /index.php?$args", "/a%20b?x=1", &["file /a b", "file /a b.html"], "/index.php?x=1");
        check("${uri}.html $uri/index.html /", "/a", &["file /a.html", "file /a/index.html"], "/");
        check("$uri.html =404", "/", &[], "404");
        check("/maintenance.html $uri =503", "/a", &["file /maintenance.html", "file /a"], "503");
        check("/.ok $uri =404", "/a", &["file /.ok", "file /a"], "404");
        check("/pre$uri /f", "/a/b", &["file /pre/a/b"], "/f");
        check("$uri /index.php$is_args$args", "/a", &["file /a"], "/index.php");
        check("$uri /index.php$is_args$args", "/a?b", &["file /a"], "/index.php?b");
        check("$uri /index.php?q=$uri&$query_string", "/a%3fb?c", &["file /a?b"], "/index.php?q=/a%3Fb&c");
    }

    #[test]
    fn words_that_say_nothing() {
        for (words, part) in [
            ("", "wants what to try"),
            ("=404", "wants what to try"),
            ("$uri", "wants what to try"),
            ("$uri @php", "named location"),
            ("@php $uri", "named location"),
            ("=404 $uri", "is no status"),
            ("$uri =99", "is no status"),
            ("$uri =abc", "is no status"),
            ("$url =404", "does not begin"),
            ("/$url =404", "'$url' is no variable"),
            ("/a$args =404", "'$args' names no file"),
            ("index.html =404", "does not begin"),
            ("/../a =404", "leads above the root"),
        ] {
            let words: Vec<&str> = words.split_whitespace().collect();
            let error = TryFiles::parse(&words).unwrap_err().to_string();
            assert!(error.contains(part), "{words:?}: {error}");
        }
    }
}
