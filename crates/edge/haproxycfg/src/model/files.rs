//! Files that a backend answers with: `root`, `alias` and what goes with them.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Duration,
};

use web::{CleanPath, Expires, MimeTypes, Offer, PathRules, TryFiles};

use super::{Location, Rule, SendFile};

/// What a backend says of files. It has some if it has a folder.
#[derive(Clone, Debug, Default)]
pub struct FileService {
    /// `root` and `alias` lines in order: the first whose condition holds counts.
    pub folders: Vec<Rule<Folder>>,
    /// `x-accel-redirect` and `x-sendfile` lines: where files are that responses name.
    pub sent: Vec<Rule<SendFile>>,
    /// `index`: what stands for a folder, in this order.
    pub index: Names,
    /// `autoindex` lines in order: the first whose condition holds counts.
    pub autoindex: Vec<Rule<bool>>,
    /// `try-files` lines in order: the first whose condition holds counts.
    pub try_files: Vec<Rule<TryFiles>>,
    /// `expires` lines in order: the first whose condition holds counts.
    pub expires: Vec<Rule<Expires>>,
    /// `mime-types` and `mime-type` lines; `None` for the built-in table.
    pub types: Option<Arc<MimeTypes>>,
    /// `charset`: what is said of text.
    pub charset: Charset,
    /// `precompressed`: which variants of a file are looked for, the best first.
    pub precompressed: Offer,
    /// `open-file-cache`.
    pub cache: OpenFileCache,
    /// `symlinks`.
    pub symlinks: Symlinks,
    /// `hidden-files`.
    pub paths: PathRules,
}

impl FileService {
    /// Its folders, and the keyword and the place of the line that names each: those whose files clients ask for, then those whose
    /// files responses name.
    pub fn all_folders(&self) -> impl Iterator<Item = (&Path, &'static str, &Location)> {
        let asked = self.folders.iter().map(|rule| {
            let keyword = if rule.action.prefix.is_some() { "alias" } else { "root" };
            (&*rule.action.path, keyword, &rule.location)
        });
        let sent = self.sent.iter().map(|rule| (&*rule.action.folder, rule.action.named_by.keyword(), &rule.location));
        asked.chain(sent)
    }

    /// Types of files.
    #[must_use]
    pub fn types(&self) -> &MimeTypes {
        // NOTE: thousands of sections share one table.
        static BUILT_IN: OnceLock<MimeTypes> = OnceLock::new();
        self.types.as_deref().unwrap_or_else(|| BUILT_IN.get_or_init(MimeTypes::built_in))
    }
}

/// Names of files, `index.html` unless something else is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names(pub Vec<Arc<str>>);

impl Default for Names {
    fn default() -> Self {
        Self(vec!["index.html".into()])
    }
}

/// A folder with files.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Folder {
    /// Where it is.
    pub path: PathBuf,
    /// `alias`: the beginning of the paths of requests that it is for, which is no part of the names in it.
    pub prefix: Option<CleanPath>,
}

/// `charset`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Charset {
    /// UTF-8.
    #[default]
    Utf8,
    /// None.
    Off,
    /// Another one.
    Named(Arc<str>),
}

impl Charset {
    /// What is said of text.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Utf8 => Some("utf-8"),
            Self::Off => None,
            Self::Named(name) => Some(name),
        }
    }
}

/// `open-file-cache`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFileCache {
    /// How many files stay open, in each worker thread.
    pub entries_max: usize,
    /// Bytes of them in memory, in each worker thread.
    pub memory_bytes_max: usize,
    /// Bytes up to which a file is kept in memory.
    pub file_bytes_max: usize,
    /// How long a file is taken for unchanged.
    pub valid: Duration,
}

impl Default for OpenFileCache {
    fn default() -> Self {
        Self { entries_max: 1_024, memory_bytes_max: 16 << 20, file_bytes_max: 64 << 10, valid: Duration::from_secs(1) }
    }
}

/// `symlinks`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Symlinks {
    /// Those that stay within the folder are followed.
    #[default]
    Within,
    /// None is followed.
    Deny,
    /// All are followed, wherever they lead.
    Follow,
}
