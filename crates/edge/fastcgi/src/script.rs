//! Which program a path means, as HAProxy's `docroot`, `index` and `path-info` say.

use http::{Plus, percent_decode};
use pcre::Regex;
use thiserror::Error;

/// Where the programs of an application are, on the host that runs them.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    /// `docroot`.
    pub docroot: &'a [u8],
    /// `index`: what is meant by a path that ends in a slash.
    pub index: Option<&'a [u8]>,
    /// `path-info`: the first group is the program, the second one the rest of the path.
    pub path_info: Option<&'a Regex>,
}

/// Why a path means no program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PathError {
    /// There is none.
    #[error("the target of the request has no path")]
    NoPath,
    /// A `%` without two hexadecimal digits.
    #[error("the path of the request is encoded wrongly")]
    Encoding,
    /// The expression, or the name of a file, would end there.
    #[error("the path of the request has a NUL, or a line feed where there is 'path-info'")]
    ForbiddenCharacter,
    /// It leads out of the folder of documents.
    #[error("the path of the request has '..' in it")]
    Parent,
}

/// What a path means.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// SCRIPT_NAME.
    pub name: Vec<u8>,
    /// PATH_INFO; empty if there is none.
    pub path_info: Vec<u8>,
}

impl Script {
    /// What a path of a request means, without its query.
    ///
    /// # Errors
    /// Why it means nothing.
    pub fn of(path: &[u8], program: &Program<'_>) -> Result<Self, PathError> {
        if path.is_empty() {
            return Err(PathError::NoPath);
        }
        let mut name = Vec::with_capacity(path.len() + program.index.map_or(0, <[u8]>::len));
        percent_decode(path, Plus::Literal, &mut name).ok_or(PathError::Encoding)?;
        let is_forbidden = |byte: &u8| *byte == 0 || *byte == b'\n' && program.path_info.is_some();
        if name.iter().any(is_forbidden) {
            return Err(PathError::ForbiddenCharacter);
        }
        // NOTE: HAProxy leaves that to the application, which opens what it is told to open.
        if name.split(|byte| *byte == b'/').any(|segment| segment == b"..") {
            return Err(PathError::Parent);
        }
        let mut path_info = Vec::new();
        if let Some(regex) = program.path_info {
            let groups = regex.groups(&name).unwrap_or_default();
            let group = |place: usize| groups.get(place).cloned().flatten().and_then(|range| name.get(range));
            if let Some(script) = group(1) {
                path_info = group(2).unwrap_or_default().to_vec();
                name = script.to_vec();
            }
        }
        if let Some(index) = program.index.filter(|_| name.ends_with(b"/")) {
            name.extend_from_slice(index);
        }
        Ok(Self { name, path_info })
    }
}
