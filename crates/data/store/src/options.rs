//! What a store is started with.

use std::path::PathBuf;

/// The options that decide how a store starts.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where its data is; without it everything is in memory and lost at the end.
    pub dir: Option<PathBuf>,
    /// The addresses that it listens on.
    pub bind: Vec<String>,
    /// The port; 0 for none.
    pub port: u16,
}

impl Default for Options {
    fn default() -> Self {
        Self { dir: None, bind: vec!["127.0.0.1".into()], port: 6379 }
    }
}
