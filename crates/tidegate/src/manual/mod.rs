//! `tidegate manual`: writes manual pages and completions for shells.
//!
//! They come from the tables that the command lines are read by: clap's tree, HAProxy's options and the store's settings. So
//! what is added there is in them, too.

mod page;
mod tree;

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, Command};
use clap_complete::{Shell, generate};

/// Options of `tidegate manual`.
#[derive(Args, Debug)]
pub struct ManualArguments {
    /// Where they go: pages into `man1`, completions into `bash`, `zsh` and `fish`.
    folder: PathBuf,
}

/// A file of the manual: where it stands, and what is in it.
type File = (PathBuf, String);

/// Writes pages and completions.
pub fn run(arguments: &ManualArguments, command_line: Command) -> ExitCode {
    let tree = tree::complete(command_line);
    let written = page::pages(&tree).and_then(|mut files| {
        files.extend(completions(&tree));
        files.iter().try_for_each(|(path, text)| write(&arguments.folder.join(path), text))
    });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tidegate manual: {}: {error}", arguments.folder.display());
            ExitCode::FAILURE
        }
    }
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, text)
}

/// What shells complete, in files of the names that they look for.
fn completions(tree: &Command) -> Vec<File> {
    [(Shell::Bash, "bash/tidegate"), (Shell::Zsh, "zsh/_tidegate"), (Shell::Fish, "fish/tidegate.fish")]
        .map(|(shell, path)| {
            let mut script = Vec::new();
            generate(shell, &mut tree.clone(), "tidegate", &mut script);
            let script = String::from_utf8_lossy(&script);
            (PathBuf::from(path), tree::with_single_dashes(&script))
        })
        .into()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn files() -> Vec<File> {
        let tree = tree::complete(crate::Arguments::command());
        let mut files = page::pages(&tree).unwrap();
        files.extend(completions(&tree));
        files
    }

    fn text(path: &str) -> String {
        let found = files().into_iter().find(|(name, _)| name == Path::new(path));
        found.unwrap_or_else(|| panic!("there is no {path}")).1
    }

    #[test]
    fn every_command_has_a_page() {
        let files = files();
        for command in crate::Arguments::command().get_subcommands() {
            let path = PathBuf::from(format!("man1/tidegate-{}.1", command.get_name()));
            assert_eq!(files.iter().any(|(name, _)| *name == path), !command.is_hide_set(), "{}", path.display());
        }
        assert!(files.iter().any(|(name, _)| name == Path::new("man1/tidegate-log-dump.1")));
    }

    #[test]
    fn pages_have_what_the_tables_have() {
        for (path, wanted) in [
            ("man1/tidegate-edge.1", r"\fB\-sf\fR \fI<pid>...\fR"),
            ("man1/tidegate-edge.1", r"\fB\-f\fR \fI<file|folder>...\fR"),
            ("man1/tidegate-store.1", r"\fB\-\-maxmemory\fR \fI<VALUE>\fR"),
            ("man1/tidegate-reload.1", r"\fB\-\-pid\fR"),
            ("man1/tidegate.1", r".TH TIDEGATE 1 "),
        ] {
            assert!(text(path).contains(wanted), "{path} has no {wanted}:\n{}", text(path));
        }
        assert!(!text("man1/tidegate.1").contains("part"), "{}", text("man1/tidegate.1"));
    }

    #[test]
    fn completions_have_what_the_tables_have() {
        for (path, wanted) in [
            ("bash/tidegate", " -sf "),
            ("bash/tidegate", " --maxmemory "),
            ("zsh/_tidegate", "-sf[once serving"),
            ("zsh/_tidegate", "--maxmemory=["),
            ("fish/tidegate.fish", " -o sf "),
            ("fish/tidegate.fish", " -l maxmemory "),
        ] {
            assert!(text(path).contains(wanted), "{path} has no {wanted}");
        }
    }

    #[test]
    fn nothing_tells_how_they_were_made() {
        for (path, text) in files() {
            assert!(!text.contains(tree::SINGLE_DASH), "{}", path.display());
            assert!(!text.contains("demo-part") && !text.contains("tidegate-reference"), "{}", path.display());
        }
    }
}
