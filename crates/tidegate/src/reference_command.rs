//! `tidegate reference`: writes docs/reference out of the tables of keywords, and the configurations of docs/recipes.md out of
//! the files that are tried.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;

/// Options of `tidegate reference`.
#[derive(Args, Debug)]
pub struct ReferenceArguments {
    /// The folder of the pages.
    #[arg(long, default_value = "docs/reference")]
    folder: PathBuf,
    /// The page of recipes, whose configurations come from files.
    #[arg(long, default_value = "docs/recipes.md")]
    recipes: PathBuf,
    /// The page for those who come from nginx, whose tables come from ours.
    #[arg(long, default_value = "docs/from-nginx.md")]
    nginx: PathBuf,
    /// The folder of these files: NAME/haproxy.cfg.
    #[arg(long, default_value = "scenarios/configurations")]
    configurations: PathBuf,
    /// Write nothing; fail if a page is not as it should be.
    #[arg(long)]
    check: bool,
}

/// Writes the pages, or compares them.
pub fn run(arguments: &ReferenceArguments) -> ExitCode {
    let mut stale = false;
    let nginx = read(&arguments.nginx).and_then(|page| {
        from_nginx(&page).ok_or_else(|| format!("{}: its marks are not there", arguments.nginx.display()))
    });
    let (recipes, nginx) = match recipes(arguments).and_then(|recipes| Ok((recipes, nginx?))) {
        Ok(texts) => texts,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::FAILURE;
        }
    };
    let reference = pages().into_iter().map(|(name, text)| (arguments.folder.join(name), text));
    for (path, text) in reference.chain([(arguments.recipes.clone(), recipes), (arguments.nginx.clone(), nginx)]) {
        if arguments.check {
            if std::fs::read(&path).ok().as_deref() != Some(text.as_bytes()) {
                eprintln!("{} is not what tables and files say: run `make reference`", path.display());
                stale = true;
            }
        } else if let Err(error) = write(&path, &text) {
            eprintln!("{}: {error}", path.display());
            return ExitCode::FAILURE;
        }
    }
    if stale { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Around the tables of the page for those who come from nginx.
const NGINX_MARKS: (&str, &str) = ("<!-- directives -->", "<!-- end of directives -->");

/// That page, with what stands between its marks replaced by what the table says. None without marks.
fn from_nginx(page: &str) -> Option<String> {
    let (start, end) = NGINX_MARKS;
    let (before, rest) = page.split_once(start)?;
    let (_, after) = rest.split_once(end)?;
    Some(format!("{before}{start}\n{}\n{end}{after}", haproxycfg::nginx::page()))
}

/// Before the files of a recipe: the name of their folder. Behind them stands another mark.
const MARK: (&str, &str) = ("<!-- configuration: ", " -->");
const END_MARK: &str = "<!-- end of configuration -->";
/// The file of a folder that is the configuration, and what its own files are called in it.
const CONFIGURATION: &str = "haproxy.cfg";
const FOLDER_IN_CONFIGURATION: &str = "/etc/haproxy";
/// Ends of names of files that the reader has to have himself, or that only tests need.
const NOT_SHOWN: [&str; 2] = [".pem", ".py"];

/// The page of recipes, with what stands between marks replaced by the files of the folder that the mark names.
fn recipes(arguments: &ReferenceArguments) -> Result<String, String> {
    let page = read(&arguments.recipes)?;
    let mut text = String::with_capacity(page.len());
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        text.push_str(line);
        text.push('\n');
        let Some(name) = line.strip_prefix(MARK.0).and_then(|rest| rest.strip_suffix(MARK.1)) else { continue };
        if !lines.by_ref().any(|line| line == END_MARK) {
            return Err(format!("{}: '{line}' has no '{END_MARK}' behind it", arguments.recipes.display()));
        }
        text.push_str(&files(&arguments.configurations.join(name))?);
        text.push_str(END_MARK);
        text.push('\n');
    }
    Ok(text)
}

/// The configuration in a folder, and the files that it names.
fn files(folder: &Path) -> Result<String, String> {
    let failed = |error| format!("{}: {error}", folder.display());
    let entries = std::fs::read_dir(folder).map_err(failed)?;
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names
        .retain(|name| name != CONFIGURATION && name.contains('.') && !NOT_SHOWN.iter().any(|end| name.ends_with(end)));
    names.sort();
    let mut text = format!("```haproxy\n{}\n```\n", read(&folder.join(CONFIGURATION))?.trim_end());
    for name in names {
        let content = read(&folder.join(&name))?;
        text.push_str(&format!("\n`{FOLDER_IN_CONFIGURATION}/{name}`:\n\n```text\n{}\n```\n", content.trim_end()));
    }
    Ok(text)
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// What the tables of the language and of commands say.
fn pages() -> Vec<(String, String)> {
    let (runtime_api, (total, supported)) = admin::cli::reference::reference();
    let name = admin::cli::reference::PAGE;
    let mut pages = haproxycfg::reference();
    for (_, index) in pages.iter_mut().filter(|(name, _)| name == "README.md") {
        let line = format!("| [Commands of the stats socket]({name}) | {total} | {supported} |\n");
        index.push_str(&line);
    }
    pages.push((name.to_owned(), runtime_api));
    let of_vcl = vcl::reference::pages()
        .into_iter()
        .map(|page| (page.name, page.title, page.text, (page.total, page.supported)));
    let of_varnish = varnishcli::reference::pages()
        .into_iter()
        .map(|page| (page.name, page.title, page.text, (page.total, page.supported)));
    let directives = kvproxy::nutcracker::table::DIRECTIVES.len();
    let of_store = store::reference::pages()
        .into_iter()
        .map(|page| (page.name, page.title, page.text, (page.total, page.supported)));
    let proxy = kvproxy::nutcracker::table::PAGE;
    let of_proxy = (proxy, "nutcracker.yml", kvproxy::nutcracker::table::page(), (directives, directives));
    chapter(&mut pages, "VCL and varnishd", of_vcl.chain(of_varnish));
    chapter(&mut pages, "The store", of_store.chain([of_proxy]));
    pages
}

/// Adds pages, and a chapter of the index about them.
fn chapter<'t>(
    pages: &mut Vec<(String, String)>,
    title: &str,
    of_it: impl Iterator<Item = (&'t str, &'t str, String, (usize, usize))>,
) {
    let mut lines = format!("\n## {title}\n\n| Page | Names | Supported |\n|---|---|---|\n");
    for (name, title, text, (total, supported)) in of_it {
        lines.push_str(&format!("| [{title}]({name}) | {total} | {supported} |\n"));
        pages.push((name.to_owned(), text));
    }
    for (_, index) in pages.iter_mut().filter(|(name, _)| name == "README.md") {
        index.push_str(&lines);
    }
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, text)
}
