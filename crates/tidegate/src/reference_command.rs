//! `tidegate reference`: writes docs/reference out of the tables of keywords.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;

/// Options of `tidegate reference`.
#[derive(Args, Debug)]
pub struct ReferenceArguments {
    /// Where the pages are.
    #[arg(long, default_value = "docs/reference")]
    folder: PathBuf,
    /// Write nothing; fail if a page is not as it should be.
    #[arg(long)]
    check: bool,
}

/// Writes the pages, or compares them.
pub fn run(arguments: &ReferenceArguments) -> ExitCode {
    let mut stale = false;
    for (name, text) in pages() {
        let path = arguments.folder.join(name);
        if arguments.check {
            if std::fs::read(&path).ok().as_deref() != Some(text.as_bytes()) {
                eprintln!("{} is not what the tables say: run `make reference`", path.display());
                stale = true;
            }
        } else if let Err(error) = write(&path, &text) {
            eprintln!("{}: {error}", path.display());
            return ExitCode::FAILURE;
        }
    }
    if stale { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// What the tables of the language and of commands say.
fn pages() -> Vec<(String, String)> {
    let (runtime_api, (total, supported)) = edge::cli::reference::reference();
    let name = edge::cli::reference::PAGE;
    let mut pages = haproxycfg::reference();
    for (_, index) in pages.iter_mut().filter(|(name, _)| name == "README.md") {
        let line = format!("| [Commands of the stats socket]({name}) | {total} | {supported} |\n");
        index.push_str(&line);
    }
    pages.push((name.to_owned(), runtime_api));
    let store = store::reference::pages();
    for (_, index) in pages.iter_mut().filter(|(name, _)| name == "README.md") {
        index.push_str("\n## The store\n\n| Page | Names | Supported |\n|---|---|---|\n");
        for page in &store {
            index.push_str(&format!("| [{}]({}) | {} | {} |\n", page.title, page.name, page.total, page.supported));
        }
    }
    pages.extend(store.into_iter().map(|page| (page.name.to_owned(), page.text)));
    pages
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, text)
}
