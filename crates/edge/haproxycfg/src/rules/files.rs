//! Files that a backend answers with: `root`, `alias`, `index`, `autoindex`, `try-files` and what goes with them.
//!
//! Lines that may end in a condition are kept in order, and the first whose condition holds counts, as with `use_backend`. What a
//! section says itself takes the place of what its `defaults` section says by the same keyword.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc};

use http::Coding;
use sample::Condition;
use web::{CleanPath, Expires, MimeTypes, Offer, PathRules, TryFiles};

use super::words::{condition_or_end, is_condition, wrong};
use crate::{
    args,
    diagnostics::Problem,
    line::Line,
    model::{Charset, FileService, Filter, Folder, Location, Mode, Names, OpenFileCache, Rule, SendFile, Symlinks},
    scope::Scope,
    table::{Group, Keyword, Sections},
    units::Unit,
};

/// Files that a worker keeps open at most.
const ENTRIES_MAX: usize = 1_000_000;

/// Keywords about files.
pub(super) const KEYWORDS: &[Keyword] = &[
    files("root", "<folder> [ { if | unless } <condition> ]")
        .sections(Sections::BACKEND)
        .strict()
        .doc(
            "Answers requests with the files of a folder. The first 'root' or 'alias' line whose condition holds counts. If none \
             does, the servers of the backend answer, and so they do for what is not there.",
            "root /srv/www unless { path_end .php }",
        )
        .line(root),
    files("alias", "<path> <folder> [ { if | unless } <condition> ]")
        .sections(Sections::BACKEND)
        .strict()
        .doc(
            "Answers requests whose path begins with a path with the files of a folder, in which the rest of the path names them.",
            "alias /static/ /srv/assets",
        )
        .line(alias),
    files("index", "<name>...")
        .sections(Sections::DEFAULTS_BACKEND)
        .doc(
            "Names the files that stand for their folder; the first that is there does. It is index.html unless this says otherwise.",
            "index index.html index.htm",
        )
        .line(index),
    files("autoindex", "{ on | off } [ { if | unless } <condition> ]")
        .sections(Sections::DEFAULTS_BACKEND)
        .doc("Shows what is in folders that have no index file.", "autoindex on if { path_beg /pub/ }")
        .line(autoindex),
    files("try-files", "<path>... { <path> | =<status> } [ { if | unless } <condition> ]")
        .sections(Sections::BACKEND)
        .strict()
        .doc(
            "Answers with the first of several files that is there; '$uri' stands for the path of the request, and a path that ends \
             in '/' for a folder. If none is there, the request goes on with the last path, or is answered with a status. The lines \
             are asked once more for that path.",
            "try-files $uri $uri/ /index.html",
        )
        .line(try_files),
    files("open-file-cache", "{ off | [max <number>] [memory <size>] [file-size <size>] [valid <time>] }")
        .sections(Sections::DEFAULTS_BACKEND)
        .doc(
            "Keeps files open that are asked for again: how many each worker thread keeps (1024), how much of them in memory (16m), \
             up to which size (64k), and for how long one is taken for unchanged (1s).",
            "open-file-cache max 10000 memory 64m valid 5s",
        )
        .line(open_file_cache),
    files("symlinks", "{ within | deny | follow }")
        .sections(Sections::DEFAULTS_BACKEND)
        .doc(
            "Which symbolic links are followed: those that stay within the folder (within), none (deny), or all, wherever they lead \
             (follow).",
            "symlinks deny",
        )
        .line(symlinks),
    files("hidden-files", "{ deny | allow }")
        .sections(Sections::DEFAULTS_BACKEND)
        .doc(
            "Whether names that begin with a dot are as if they were not there, which they are unless this says otherwise. \
             '/.well-known' is always there.",
            "hidden-files allow",
        )
        .line(hidden_files),
    files("mime-types", "<file>")
        .sections(Sections::DEFAULTS_BACKEND)
        .doc(
            "Reads types of files by the ends of their names from a file, in Apache's format (/etc/mime.types) or nginx'. They go \
             before the built-in ones.",
            "mime-types /etc/mime.types",
        )
        .line(mime_types),
    files("mime-type", "<type> <extension>...")
        .sections(Sections::DEFAULTS_BACKEND)
        .doc("Gives files whose names end in an extension a type.", "mime-type text/x-log log")
        .line(mime_type),
    files("charset", "{ <charset> | off }")
        .sections(Sections::DEFAULTS_BACKEND)
        .doc("The charset that is said of text: utf-8 unless this says otherwise.", "charset iso-8859-1")
        .line(charset),
    files("expires", "{ <time> | modified <time> | @<time of day> | epoch | max | off } [ { if | unless } <condition> ]")
        .sections(Sections::DEFAULTS_BACKEND)
        .doc(
            "For how long caches and browsers may keep a file without asking (Expires and Cache-Control), as nginx' expires says it.",
            "expires 30d if { path_end .css .js }",
        )
        .line(expires),
    files("precompressed", "{ on | off | [br] [zstd] [gzip] }")
        .sections(Sections::DEFAULTS_BACKEND)
        .doc(
            "Sends clients that accept it the file that lies beside a file with .br, .zst or .gz behind its name, if it is not older.",
            "precompressed br gzip",
        )
        .line(precompressed),
];

const fn files(name: &'static str, arguments: &'static str) -> Keyword {
    Keyword::new(Group::Proxy, name, arguments, "")
}

/// What a section has said itself, and where.
#[derive(Clone, Debug, Default)]
pub(super) struct Pending {
    own: BTreeSet<&'static str>,
    folders: Vec<Line>,
    first: Option<Line>,
}

/// What the section says of files, without what it has inherited by this keyword.
fn own<'s>(
    scope: &'s mut Scope<'_>,
    line: &Line,
    keyword: &'static str,
    forget: fn(&mut FileService),
) -> &'s mut FileService {
    let draft = scope.proxy();
    if draft.rules.files.own.insert(keyword) {
        forget(&mut draft.proxy.files);
    }
    draft.rules.files.first.get_or_insert_with(|| line.clone());
    &mut draft.proxy.files
}

pub(super) fn condition(scope: &mut Scope<'_>, line: &Line, index: usize) -> Result<Option<Condition>, Problem> {
    let keyword = line.word(0).to_owned();
    condition_or_end(line, index, |word| format!("'{keyword}' : unexpected argument '{word}'."))?;
    let places = scope.request_places();
    scope.condition(line, index, places)
}

pub(super) fn rule<A>(line: &Line, action: A, condition: Option<Condition>) -> Rule<A> {
    Rule { action, condition, location: Location { file: Arc::clone(line.file()), line: line.number() } }
}

/// The folder that the word at `index` names.
pub(super) fn folder(scope: &Scope<'_>, line: &Line, index: usize) -> Result<PathBuf, Problem> {
    let path = args::required(line, index, "a folder.")?;
    if is_condition(path) {
        return Err(wrong(format!("'{}' expects a folder before '{path}'.", line.word(0)), index)
            .expected("a folder, as /srv/www"));
    }
    if path.as_bytes() != line.bytes(index) {
        return Err(
            wrong(format!("'{}' : '{path}' is not UTF-8.", line.word(0)), index).expected("a folder, as /srv/www")
        );
    }
    Ok(PathBuf::from(scope.resolve_path(path)))
}

fn root(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let path = folder(scope, line, 1)?;
    let condition = condition(scope, line, 2)?;
    add_folder(scope, line, Folder { path, prefix: None }, condition);
    Ok(())
}

fn alias(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let prefix = args::required(line, 1, "the beginning of a path.")?;
    let prefix = CleanPath::of_names(line.bytes(1)).map_err(|error| {
        wrong(format!("'alias' : '{prefix}' is no beginning of a path: {error}."), 1)
            .expected("a path as it is after decoding, as /static/")
    })?;
    let path = folder(scope, line, 2)?;
    let condition = condition(scope, line, 3)?;
    add_folder(scope, line, Folder { path, prefix: Some(prefix) }, condition);
    Ok(())
}

fn add_folder(scope: &mut Scope<'_>, line: &Line, folder: Folder, condition: Option<Condition>) {
    let rule = rule(line, folder, condition);
    own(scope, line, "root", |files| files.folders.clear()).folders.push(rule);
    scope.proxy().rules.files.folders.push(line.clone());
}

/// Adds a folder whose files are named by responses.
pub(super) fn add_sent(scope: &mut Scope<'_>, line: &Line, rule: Rule<SendFile>) {
    own(scope, line, "x-sendfile", |files| files.sent.clear()).sent.push(rule);
    scope.proxy().rules.files.folders.push(line.clone());
}

/// A name in a folder.
fn name(line: &Line, index: usize) -> Result<Arc<str>, Problem> {
    let name = line.word(index);
    if name.contains('/') || name == "." || name == ".." {
        return Err(wrong(format!("'{}' : '{name}' is no name of a file.", line.word(0)), index)
            .expected("a name without a slash, as index.html"));
    }
    Ok(name.into())
}

fn index(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::required(line, 1, "the name of a file.")?;
    let names = (1..line.len()).map(|word| name(line, word)).collect::<Result<Vec<_>, _>>()?;
    own(scope, line, "index", |files| files.index = Names(Vec::new())).index.0.extend(names);
    Ok(())
}

/// `on` or `off` at `index`.
fn switch(line: &Line, index: usize) -> Result<bool, Problem> {
    match args::required(line, index, "'on' or 'off'.")? {
        "on" => Ok(true),
        "off" => Ok(false),
        word => Err(wrong(format!("'{}' expects 'on' or 'off', not '{word}'.", line.word(0)), index)
            .expected("on or off")
            .nearest(word, ["on", "off"])),
    }
}

fn autoindex(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let shows = switch(line, 1)?;
    let condition = condition(scope, line, 2)?;
    let rule = rule(line, shows, condition);
    own(scope, line, "autoindex", |files| files.autoindex.clear()).autoindex.push(rule);
    Ok(())
}

fn try_files(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let end = (1..line.len()).find(|word| is_condition(line.word(*word))).unwrap_or(line.len());
    let words: Vec<&str> = (1..end).map(|word| line.word(word)).collect();
    let tries = TryFiles::parse(&words).map_err(|error| {
        let text = error.to_string();
        let at = words.iter().position(|word| text.contains(&format!("'{word}'")));
        wrong(format!("'try-files' : {text}."), at.map_or(end.saturating_sub(1), |at| at + 1))
            .expected("try-files $uri $uri/ /index.html, or =404 at the end")
    })?;
    let condition = condition(scope, line, end)?;
    let rule = rule(line, tries, condition);
    own(scope, line, "try-files", |files| files.try_files.clear()).try_files.push(rule);
    Ok(())
}

fn expires(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let end = (1..line.len()).find(|word| is_condition(line.word(*word))).unwrap_or(line.len());
    let words: Vec<&str> = (1..end).map(|word| line.word(word)).collect();
    let expires = Expires::parse(&words).map_err(|error| wrong(format!("'expires' : {error}."), 1))?;
    let condition = condition(scope, line, end)?;
    let rule = rule(line, expires, condition);
    own(scope, line, "expires", |files| files.expires.clear()).expires.push(rule);
    Ok(())
}

fn mime_types(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    args::required(line, 1, "a file.")?;
    let text = scope.read_file(line, 1)?;
    change_types(scope, line, |types| types.read(&text))
}

fn mime_type(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let essence = args::required(line, 1, "a type, as text/html.")?;
    args::required(line, 2, "an extension.")?;
    change_types(scope, line, |types| {
        (2..line.len()).try_for_each(|word| types.set(essence, line.word(word), line.number() as usize))
    })
}

/// Changes the types of a section: those that it has, or the built-in ones.
fn change_types(
    scope: &mut Scope<'_>,
    line: &Line,
    change: impl FnOnce(&mut MimeTypes) -> Result<(), web::mime::MimeError>,
) -> Result<(), Problem> {
    let files = own(scope, line, "mime-types", |_| {});
    let types = files.types.get_or_insert_with(|| Arc::new(MimeTypes::built_in()));
    change(Arc::make_mut(types)).map_err(|error| {
        wrong(format!("'{}' : {error}.", line.word(0)), 1).expected("as in Apache's or nginx' mime.types")
    })
}

fn charset(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    let word = args::required(line, 1, "a charset, or 'off'.")?;
    if !super::words::is_token(word) {
        return Err(wrong(format!("'charset' : '{word}' is no name of a charset."), 1)
            .expected("utf-8, iso-8859-1, ... or off"));
    }
    let charset = match word {
        "off" => Charset::Off,
        word if word.eq_ignore_ascii_case("utf-8") => Charset::Utf8,
        word => Charset::Named(word.into()),
    };
    own(scope, line, "charset", |_| {}).charset = charset;
    Ok(())
}

fn precompressed(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    const KNOWN: [&str; 5] = ["on", "off", "br", "zstd", "gzip"];
    args::required(line, 1, "'on', 'off', or codings.")?;
    let codings: Vec<Coding> = match line.word(1) {
        word @ ("on" | "off") => {
            args::no_more(line, 1)?;
            if word == "on" { vec![Coding::Brotli, Coding::Zstd, Coding::Gzip] } else { Vec::new() }
        }
        _ => (1..line.len())
            .map(|word| match line.word(word) {
                "br" => Ok(Coding::Brotli),
                "zstd" => Ok(Coding::Zstd),
                "gzip" => Ok(Coding::Gzip),
                other => Err(wrong(format!("'precompressed' : '{other}' is no coding of files."), word)
                    .expected("on, off, or any of br, zstd and gzip, the best first")
                    .nearest(other, KNOWN)),
            })
            .collect::<Result<_, _>>()?,
    };
    own(scope, line, "precompressed", |_| {}).precompressed = Offer::of(&codings);
    Ok(())
}

fn open_file_cache(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let mut cache = OpenFileCache::default();
    args::required(line, 1, "'off', or what it may keep.")?;
    if line.word(1) == "off" {
        args::no_more(line, 1)?;
        cache = OpenFileCache { entries_max: 0, memory_bytes_max: 0, ..cache };
    } else {
        let mut word = 1;
        while word < line.len() {
            match line.word(word) {
                "max" => cache.entries_max = args::integer(line, word + 1, 1..=ENTRIES_MAX)?,
                "memory" => cache.memory_bytes_max = bytes(line, word + 1)?,
                "file-size" => cache.file_bytes_max = bytes(line, word + 1)?,
                "valid" => cache.valid = args::time(scope, line, word + 1, Unit::Second)?,
                other => {
                    return Err(wrong(format!("'open-file-cache' : unknown argument '{other}'."), word)
                        .expected("off, max <number>, memory <size>, file-size <size> or valid <time>")
                        .nearest(other, ["off", "max", "memory", "file-size", "valid"]));
                }
            }
            word += 2;
        }
    }
    own(scope, line, "open-file-cache", |_| {}).cache = cache;
    Ok(())
}

fn bytes(line: &Line, index: usize) -> Result<usize, Problem> {
    args::size(line, index).map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
}

fn symlinks(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    let symlinks = match args::required(line, 1, "'within', 'deny' or 'follow'.")? {
        "within" => Symlinks::Within,
        "deny" => Symlinks::Deny,
        "follow" => Symlinks::Follow,
        word => {
            return Err(wrong(format!("'symlinks' expects 'within', 'deny' or 'follow', not '{word}'."), 1)
                .expected("within, deny or follow")
                .nearest(word, ["within", "deny", "follow"]));
        }
    };
    own(scope, line, "symlinks", |_| {}).symlinks = symlinks;
    Ok(())
}

fn hidden_files(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    let hidden = match args::required(line, 1, "'deny' or 'allow'.")? {
        "allow" => true,
        "deny" => false,
        word => {
            return Err(wrong(format!("'hidden-files' expects 'deny' or 'allow', not '{word}'."), 1)
                .expected("deny or allow")
                .nearest(word, ["deny", "allow"]));
        }
    };
    own(scope, line, "hidden-files", |_| {}).paths = PathRules { hidden };
    Ok(())
}

/// Checks what can be checked once a section is known.
pub(super) fn finish(scope: &mut Scope<'_>) {
    let draft = scope.proxy();
    let files = draft.rules.files.clone();
    let (has_folders, mode) = (draft.proxy.files.all_folders().next().is_some(), draft.proxy.mode);
    if mode == Mode::Tcp
        && let Some(line) = files.folders.first()
    {
        let message = format!("'{}' needs 'mode http'.", line.word(0));
        return scope.alert(line, wrong(message, 0).expected("'mode http' in this section or its defaults"));
    }
    if !has_folders && let Some(line) = &files.first {
        let message = format!("'{}' has no effect: this section has no 'root' and no 'alias'.", line.word(0));
        scope.warn(line, wrong(message, 0).expected("root <folder>"));
    }
    warn_of_scripts(scope, &files.folders);
}

/// Files come before servers: without a condition, scripts that an application is to run are sent as they stand.
fn warn_of_scripts(scope: &mut Scope<'_>, lines: &[Line]) {
    let proxy = &scope.proxy().proxy;
    let runs_scripts = proxy.filters.iter().any(|filter| matches!(filter, Filter::FcgiApp { .. }));
    let is_open = |(_, folder): &(&Line, &Rule<Folder>)| folder.condition.is_none();
    let open = lines.iter().zip(&proxy.files.folders).find(is_open).map(|(line, _)| line);
    if let Some(line) = open.filter(|_| runs_scripts) {
        let message = format!(
            "'{}' has no condition: scripts in its folder are sent to clients as they stand, and 'use-fcgi-app' gets only what no file \
             is there for.",
            line.word(0)
        );
        scope.warn(line, wrong(message, 0).expected("'unless { path_end .php }' at the end of this line"));
    }
}
