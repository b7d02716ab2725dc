//! Where files and addresses of names come from.

use std::net::IpAddr;

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
