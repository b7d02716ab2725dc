//! Folders with files that a configuration names, which must be there when it is checked, and open when it is loaded.

use std::{error::Error as _, fmt, io::ErrorKind, sync::Arc};

use haproxycfg::{
    diagnostics::{Diagnostic, Prefix, Severity},
    model::{Config, Location},
};
use live::{
    Process,
    files::{FolderError, FolderSpec, Folders, LiveFolder},
};

/// A folder that cannot be used, in words that say what to do.
#[derive(Debug)]
pub struct Unusable(FolderError);

impl Unusable {
    fn remedy(&self) -> &'static str {
        match &self.0 {
            FolderError::Open(_, error) if error.kind() == ErrorKind::NotFound => "make it, or name another one",
            FolderError::Open(_, error) if error.kind() == ErrorKind::NotADirectory => {
                "name the folder that the file is in"
            }
            _ => "the user that this process runs as must be able to enter it and all folders above it",
        }
    }
}

impl fmt::Display for Unusable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The system's words without Rust's "(os error 2)".
        let source = self.0.source().map(ToString::to_string).unwrap_or_default();
        let source = source.split(" (os error").next().unwrap_or(&source);
        write!(formatter, "{}: {source}; {}", self.0, self.remedy())
    }
}

/// Folders that a configuration names, and the keyword and the place of the line that does.
fn named(config: &Config) -> impl Iterator<Item = (FolderSpec, &'static str, &Location)> {
    config.proxies.iter().filter(|proxy| !proxy.disabled).flat_map(|proxy| {
        let symlinks = proxy.files.symlinks;
        proxy.files.all_folders().map(move |(path, keyword, location)| {
            (FolderSpec { path: path.to_path_buf(), symlinks }, keyword, location)
        })
    })
}

/// Folders that cannot be used by whoever checks the configuration.
pub fn missing(config: &Config) -> Vec<Diagnostic> {
    let folders = Folders::default();
    let problem = |(spec, keyword, location): (FolderSpec, &'static str, &Location)| {
        let error = folders.open([spec]).err()?;
        Some(Diagnostic {
            prefix: Prefix::Parsing,
            location: Some(location.clone()),
            ..Diagnostic::whole(Severity::Alert, format!("'{keyword}' : {}.", Unusable(error)))
        })
    };
    named(config).filter_map(problem).collect()
}

/// Opens folders for the process that serves from them. They are open as long as the result lives, or what is made of the configuration.
///
/// # Errors
/// Which folder cannot be used, and what to do.
pub fn open(process: &Process, config: &Config) -> Result<Vec<Arc<LiveFolder>>, Unusable> {
    process.folders.open(named(config).map(|(spec, _, _)| spec)).map_err(Unusable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_must_be_there() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        std::fs::write(&file, "").unwrap();
        let said = |folder: &str| {
            let text = format!("listen l\nmode http\nroot {folder}\n");
            let files = haproxycfg::source::Bundle::default().with("t.cfg", text.as_bytes());
            let parsed =
                haproxycfg::parse(&["t.cfg".to_owned()], &files, Default::default(), &haproxycfg::Options::default());
            let missing = missing(&parsed.config.unwrap());
            missing.iter().map(|said| said.render(1)).collect::<String>()
        };
        assert_eq!(said(place.path().to_str().unwrap()), "");
        let absent = said("/no/such/folder");
        assert!(
            absent.contains(
                "[t.cfg:3] : 'root' : cannot open the folder '/no/such/folder': No such file or directory; make it"
            ),
            "{absent}"
        );
        let no_folder = said(file.to_str().unwrap());
        assert!(no_folder.contains("Not a directory; name the folder that the file is in"), "{no_folder}");
    }
}
