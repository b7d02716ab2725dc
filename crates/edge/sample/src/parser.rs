//! What parsing needs from outside: where in the configuration it stands, a loader of files, and a list for warnings and one for
//! names that are checked once everything is read.

use std::sync::Arc;

use crate::error::Error;
use crate::loader::Loader;
use crate::pattern::{PatternReference, PatternReferences, User};
use crate::token::PublicKeys;

/// What a name in an argument must be the name of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReferenceKind {
    /// A frontend (or a listen section).
    Frontend,
    /// A backend (or a listen section).
    Backend,
    /// A server, as `backend/server`.
    Server,
    /// A stick table.
    Table,
    /// A user list.
    UserList,
    /// A group of a user list, as `list/group`.
    Group,
}

/// A name used in an expression, which may stand further down in the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// What it must be.
    pub kind: ReferenceKind,
    /// The name.
    pub name: String,
    /// The fetch or converter that uses it.
    pub keyword: String,
    /// The position of the argument, from 1.
    pub position: usize,
    /// The file in which it is used.
    pub file: String,
    /// The line in which it is used.
    pub line: u32,
}

/// Where parsing stands and what it collects.
pub struct ParseContext<'a> {
    /// The file, for messages.
    pub file: &'a str,
    /// The line, for messages.
    pub line: u32,
    /// The name of the proxy that is being read: what an empty backend or frontend argument means.
    pub proxy: &'a str,
    /// Whether that proxy is in HTTP mode.
    pub http: bool,
    /// Reads files.
    pub loader: &'a dyn Loader,
    /// Lists of patterns read so far.
    pub patterns: &'a mut PatternReferences,
    /// Public keys read so far; a configuration hands in its own.
    pub keys: PublicKeys,
    /// Warnings, in order.
    pub warnings: Vec<String>,
    /// Names to check once the whole configuration is read.
    pub references: Vec<Reference>,
}

impl<'a> ParseContext<'a> {
    /// At line `line` of `file`, in the proxy called `proxy`.
    pub fn new(
        file: &'a str,
        line: u32,
        proxy: &'a str,
        http: bool,
        loader: &'a dyn Loader,
        patterns: &'a mut PatternReferences,
    ) -> Self {
        let (keys, warnings, references) = (PublicKeys::new(), Vec::new(), Vec::new());
        ParseContext { file, line, proxy, http, loader, patterns, keys, warnings, references }
    }

    pub(crate) fn refer(&mut self, kind: ReferenceKind, name: String, keyword: &str, index: usize) {
        self.references.push(Reference {
            kind,
            name,
            keyword: keyword.to_owned(),
            position: index + 1,
            file: self.file.to_owned(),
            line: self.line,
        });
    }

    pub(crate) fn warn(&mut self, warning: impl Into<String>) {
        self.warnings.push(warning.into());
    }

    pub(crate) fn load(&mut self, path: &str, two_columns: bool, user: User) -> Result<Arc<PatternReference>, Error> {
        self.patterns.load(self.loader, path, two_columns, user, (self.file, self.line))
    }
}
