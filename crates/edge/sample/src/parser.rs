//! What parsing needs from outside: where in the configuration it stands, files, and a place for warnings and for names
//! that are checked once everything is read.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use crate::error::{Error, ErrorKind};

/// Reads files and resolves names for a configuration. This crate touches neither disk nor network.
pub trait Loader {
    /// The content of the file at `path`.
    ///
    /// # Errors
    /// What the system says, in words.
    fn load(&self, path: &str) -> Result<Vec<u8>, String>;

    /// An address of the host called `name`, for addresses in ACLs; none by default.
    fn resolve(&self, name: &str) -> Option<IpAddr> {
        let _ = name;
        None
    }
}

/// A loader without any file.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFiles;

impl Loader for NoFiles {
    fn load(&self, _: &str) -> Result<Vec<u8>, String> {
        Err("no files here".to_owned())
    }
}

/// A line of a pattern file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PatternLine {
    pub(crate) line: usize,
    pub(crate) key: Box<[u8]>,
    pub(crate) value: Box<[u8]>,
}

/// The files of patterns of a whole configuration: each is read once, however often it is used.
#[derive(Default)]
pub struct PatternFiles {
    files: HashMap<String, (bool, Arc<[PatternLine]>)>,
    ids: BTreeSet<i64>,
}

impl PatternFiles {
    /// None read yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The paths read so far.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// Takes a unique id given with `-u`; whether it was free.
    pub(crate) fn take_id(&mut self, id: i64) -> bool {
        self.ids.insert(id)
    }

    pub(crate) fn load(
        &mut self,
        loader: &dyn Loader,
        path: &str,
        two_columns: bool,
    ) -> Result<Arc<[PatternLine]>, Error> {
        let refuse = |message: String| Err(Error::new(ErrorKind::File, message).word(path.as_bytes()));
        if let Some((columns, lines)) = self.files.get(path) {
            if *columns == two_columns {
                return Ok(Arc::clone(lines));
            }
            let (is, wanted) = if two_columns { ("one", "two") } else { ("two", "one") };
            return refuse(format!(
                "The file \"{path}\" is already used as {is} column file and cannot be used by as {wanted} column file."
            ));
        }
        let Ok(content) = loader.load(path) else {
            return refuse(format!("failed to open pattern file <{path}>"));
        };
        let lines: Arc<[PatternLine]> = content
            .split(|byte| *byte == b'\n')
            .enumerate()
            .filter_map(|(index, line)| pattern_line(index + 1, line, two_columns))
            .collect();
        self.files.insert(path.to_owned(), (two_columns, Arc::clone(&lines)));
        Ok(lines)
    }
}

/// Reads a line: a comment only if `#` is its first character, leading blanks skipped. One column is everything up to the
/// end; of two, the first ends at a blank.
fn pattern_line(number: usize, line: &[u8], two_columns: bool) -> Option<PatternLine> {
    if line.first() == Some(&b'#') {
        return None;
    }
    let is_blank = |byte: &u8| *byte == b' ' || *byte == b'\t';
    let end = line.iter().position(|byte| *byte == b'\r' || *byte == 0).unwrap_or(line.len());
    let line = line.get(..end)?;
    let line = line.get(line.iter().take_while(|byte| is_blank(byte)).count()..)?;
    if line.is_empty() {
        return None;
    }
    let (key, value) = if two_columns {
        let key_end = line.iter().position(is_blank).unwrap_or(line.len());
        (line.get(..key_end)?, line.get(key_end..)?.trim_ascii())
    } else {
        (line, &b""[..])
    };
    Some(PatternLine { line: number, key: key.into(), value: value.into() })
}

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
    /// Files read so far.
    pub files: &'a mut PatternFiles,
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
        files: &'a mut PatternFiles,
    ) -> Self {
        ParseContext { file, line, proxy, http, loader, files, warnings: Vec::new(), references: Vec::new() }
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

    pub(crate) fn load(&mut self, path: &str, two_columns: bool) -> Result<Arc<[PatternLine]>, Error> {
        self.files.load(self.loader, path, two_columns)
    }
}
