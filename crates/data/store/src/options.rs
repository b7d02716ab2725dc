//! What a store is started with: the words of the command line, and the file that they may name.

use std::{
    fs,
    io::{self, Read as _},
    path::{Component, Path, PathBuf},
};

use commands::{
    config::{Flag, IncludeError, Settings, Text, file},
    groups::own_name,
};
use keyspace::glob;

use crate::{StoreError, beginning::files_of_redis, clock, folder::ShardFolder, point::Point};

/// How deep files may include one another.
const INCLUDE_DEPTH_MAX: usize = 16;
/// What is read of settings from standard input at most.
const INPUT_MAX: u64 = 16 << 20;

/// Whose manner the store has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// `tidegate store`: what is not said to be kept in a folder is in memory alone.
    Tidegate,
    /// `redis-server`: data is kept in the current folder, and all addresses are listened on.
    Redis,
}

/// What a store is started with.
#[derive(Debug, Clone, Default)]
pub struct Start {
    /// The settings.
    pub settings: Settings,
    /// The file that they are from, which `CONFIG REWRITE` writes.
    pub config_file: Option<PathBuf>,
    /// What is to be told of them: those without effect.
    pub notes: Vec<String>,
    /// The point in the past to go back to.
    pub until: Option<Point>,
    /// The settings that came from standard input.
    pub input: Vec<u8>,
}

/// Reads `[FILE] [--name value ...] [-]`, as redis-server takes them; `-` is standard input, and comes first or last. What the
/// words say wins over the input, and that over the file. One name is no setting: `--until`.
///
/// # Errors
///
/// All that is wrong, with file, line and remedy.
pub fn read(words: &[String], manner: Manner, input: &mut dyn io::Read) -> Result<Start, StoreError> {
    let mut start = Start::default();
    if manner == Manner::Redis {
        start.settings.bind = Text("* -::*".into());
        start.settings.appendonly = Flag(false);
    }
    let mut words = words;
    if let Some((path, rest)) = words.split_first().filter(|(first, _)| !first.starts_with('-')) {
        let mut problems = Vec::new();
        let path = Path::new(path);
        read_file(path, &mut start, 0, &mut problems);
        start.config_file = Some(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
        if !problems.is_empty() {
            return Err(StoreError::Settings(problems));
        }
        words = rest;
    }
    let is_input = |word: Option<&String>| word.is_some_and(|word| word == "-");
    let is_first = start.config_file.is_none() && is_input(words.first());
    if is_first || is_input(words.last()) {
        words = if is_first { words.get(1..) } else { words.split_last().map(|(_, rest)| rest) }.unwrap_or_default();
        words = if is_input(words.last()) { words.split_last().map_or(words, |(_, rest)| rest) } else { words };
        read_input(input, &mut start)?;
    }
    let mut problems = Vec::new();
    for line in lines(words, &mut problems) {
        if line.name == b"until" {
            let values: Vec<_> = line.values.iter().map(|value| String::from_utf8_lossy(value)).collect();
            match Point::parse(&values.join(" "), clock::now().unsigned_abs()) {
                Ok(point) => start.until = Some(point),
                Err(reason) => problems.push(format!("--until: {reason}")),
            }
            continue;
        }
        let values: Vec<&[u8]> = line.values.iter().map(Vec::as_slice).collect();
        if line.name.eq_ignore_ascii_case(b"include") {
            match values.as_slice() {
                [name] => {
                    for path in paths(Path::new(&*String::from_utf8_lossy(name))) {
                        read_file(&path, &mut start, 1, &mut problems);
                    }
                }
                _ => problems.push(line.problem("include takes the name of one file")),
            }
            continue;
        }
        match file::set(&line.name, &values, &mut start.settings, own_name) {
            Ok(None) => {}
            Ok(Some(note)) => start.notes.push(note),
            Err(reason) => problems.push(line.problem(&reason.to_string())),
        }
    }
    if problems.is_empty() {
        place(manner, &mut start.settings).map_err(|problem| StoreError::Settings(vec![problem.to_string()]))?;
        if manner == Manner::Redis && start.settings.dir.0.is_empty() {
            // Here it had its effect.
            start.notes.retain(|note| !note.contains("'appendonly' has no effect"));
            start.notes.push(
                "`save \"\"` without `appendonly yes` keeps nothing, as in Redis: with `appendonly yes` the data is kept in `dir`"
                    .into(),
            );
        }
    }
    if start.until.is_some() && start.settings.dir.0.is_empty() {
        problems.push("--until: without a folder (--dir) there is no log to go back in".into());
    }
    if start.settings.replicaof.0.is_some() && start.settings.dir.0.is_empty() {
        problems.push("'replicaof': without a folder (--dir) there is no log to follow another server's with".into());
    }
    if problems.is_empty() { Ok(start) } else { Err(StoreError::Settings(problems)) }
}

/// Takes settings from standard input.
fn read_input(input: &mut dyn io::Read, start: &mut Start) -> Result<(), StoreError> {
    let failed = |problem| StoreError::Settings(vec![problem]);
    let mut text = Vec::new();
    let len = input.take(INPUT_MAX + 1).read_to_end(&mut text);
    match len {
        Err(error) => return Err(failed(format!("cannot read settings from standard input: {error}"))),
        Ok(len) if len as u64 > INPUT_MAX => {
            return Err(failed(format!("standard input has more than {} MB: are these settings?", INPUT_MAX >> 20)));
        }
        Ok(_) => {}
    }
    let mut problems = Vec::new();
    read_text(&text, "standard input", start, 0, &mut problems);
    start.input = text;
    if problems.is_empty() { Ok(()) } else { Err(StoreError::Settings(problems)) }
}

/// Why data cannot be kept where the settings say: whoever wrote them is to name another folder, or to make room in this one.
#[derive(Debug, thiserror::Error)]
enum FolderError {
    /// The current folder is not to be had.
    #[error("'dir': {0}: name the folder by its whole path")]
    NoPath(String),
    /// A Redis has its data there.
    #[error(
        "'dir': {} has Redis' data ({files}), which is not read in place: start on another folder (--dir) and bring it there by \
         `tidegate import {}`, or move these files away to begin with nothing",
        folder.display(),
        folder.display()
    )]
    OfRedis {
        /// The folder.
        folder: PathBuf,
        /// The Redis' files.
        files: String,
    },
    /// Its name is no text.
    #[error("'dir': {} is not in UTF-8: name the folder otherwise", .0.display())]
    NotUtf8(PathBuf),
}

/// Decides where the data is. Whatever the place is called in the settings, it is one path from now on.
///
/// redis-server without `dir` keeps it in the current folder; without `save` and `appendonly` nowhere. What a folder has is
/// never left aside for that: then it is served, and kept.
fn place(manner: Manner, settings: &mut Settings) -> Result<(), FolderError> {
    let is_said = !settings.dir.0.is_empty();
    if manner == Manner::Tidegate && !is_said {
        return Ok(());
    }
    let folder = std::path::absolute(if is_said { &settings.dir.0 } else { "." })
        .map_err(|error| FolderError::NoPath(error.to_string()))?;
    let has_store = ShardFolder::first(&folder).path().exists();
    let of_redis = if manner == Manner::Redis && !has_store { files_of_redis(&folder) } else { Vec::new() };
    if !of_redis.is_empty() {
        // Whoever put this program into Redis' place expects to see that data, and not an empty store.
        return Err(FolderError::OfRedis { folder, files: of_redis.join(", ") });
    }
    let keeps_nothing = settings.save.points.is_empty() && !settings.appendonly.0;
    if manner == Manner::Redis && keeps_nothing && !has_store {
        settings.dir = Text(String::new());
        return Ok(());
    }
    match folder.to_str() {
        Some(path) => settings.dir = Text(path.to_owned()),
        None => return Err(FolderError::NotUtf8(folder)),
    }
    Ok(())
}

/// A setting's name and values, as a line of a file would have them.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    name: Vec<u8>,
    values: Vec<Vec<u8>>,
}

impl Line {
    /// What is wrong with it, behind what it says.
    fn problem(&self, reason: &str) -> String {
        let mut text = self.name.clone();
        for value in &self.values {
            text.push(b' ');
            resp::quote_argument(&mut text, value);
        }
        let name = format!("'{}': ", String::from_utf8_lossy(&self.name));
        let reason = reason.strip_prefix(&name).unwrap_or(reason);
        format!("'{}': {reason}", String::from_utf8_lossy(&text))
    }
}

/// What words of the command line say, by redis-server's rules:
///
/// - `--` begins a name, unless the name before it still has no value: then it begins that value (`--logfile --odd`). `--save`
///   may stay without one, which means none.
/// - One word may hold a name and its values, with a file's quotes: `"--maxmemory 1gb"`. It takes no others.
/// - Values in front of any name are a line too, whose first word is its name.
fn lines(words: &[String], problems: &mut Vec<String>) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let mut needs_value = false;
    for (index, word) in words.iter().enumerate() {
        let Some(text) = word.strip_prefix("--").filter(|_| !needs_value) else {
            needs_value = false;
            match lines.last_mut() {
                Some(line) => line.values.push(word.as_bytes().to_vec()),
                None if word.starts_with('-') => problems.push(format!("{word}: a setting's name begins with '--'")),
                None => lines.push(Line { name: word.as_bytes().to_vec(), values: Vec::new() }),
            }
            continue;
        };
        let mut parts = match parts(text) {
            Ok(parts) => parts.into_iter(),
            Err(reason) => {
                problems.push(format!("{word}: {reason}"));
                continue;
            }
        };
        let mut line = Line { name: parts.next().unwrap_or_default(), values: parts.collect() };
        let is_last = words.get(index + 1).is_none_or(|next| next.starts_with("--"));
        if line.values.is_empty() && is_last && text.eq_ignore_ascii_case("save") {
            line.values.push(Vec::new());
        }
        needs_value = line.values.is_empty();
        lines.push(line);
    }
    lines
}

/// The words of a line, without its quotes.
fn parts(text: &str) -> Result<Vec<Vec<u8>>, &'static str> {
    let (mut bytes, mut ranges) = (Vec::new(), Vec::new());
    resp::split_arguments(text.as_bytes(), &mut bytes, &mut ranges).map_err(|_| "unbalanced quotes")?;
    Ok(ranges.into_iter().map(|range| bytes.get(range).unwrap_or_default().to_vec()).collect())
}

fn read_file(path: &Path, start: &mut Start, depth: usize, problems: &mut Vec<String>) {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) => return problems.push(format!("cannot read {}: {error}", path.display())),
    };
    read_text(&text, &path.display().to_string(), start, depth, problems);
}

/// Takes the lines of what is called `name`.
fn read_text(text: &[u8], name: &str, start: &mut Start, depth: usize, problems: &mut Vec<String>) {
    let mut inner = Vec::new();
    let mut included = Start::default();
    let found = file::read(text, &mut start.settings, own_name, &mut |name, settings| {
        if depth >= INCLUDE_DEPTH_MAX {
            return Err(IncludeError::TooDeep(INCLUDE_DEPTH_MAX));
        }
        std::mem::swap(&mut included.settings, settings);
        let mut unread = Vec::new();
        for path in paths(Path::new(name)) {
            match fs::read(&path) {
                Ok(text) => {
                    read_text(&text, &path.display().to_string(), &mut included, depth + 1, &mut inner);
                }
                Err(error) => unread.push((path.display().to_string(), error.to_string())),
            }
        }
        std::mem::swap(&mut included.settings, settings);
        if unread.is_empty() { Ok(()) } else { Err(IncludeError::Unreadable(unread)) }
    });
    start.notes.append(&mut included.notes);
    for problem in found {
        let place = format!("{name}:{}", problem.line);
        if problem.is_note {
            start.notes.push(format!("{place}: {}", problem.reason));
        } else {
            problems.push(format!("{place}: {}\n    {}", problem.reason, problem.text));
        }
    }
    problems.append(&mut inner);
}

/// The files that a path with wildcards names, in order; a path without any names itself.
fn paths(pattern: &Path) -> Vec<PathBuf> {
    let is_pattern = |part: &str| part.contains(['*', '?', '[']);
    let mut found = vec![PathBuf::new()];
    for component in pattern.components() {
        let part = component.as_os_str().to_string_lossy();
        if !matches!(component, Component::Normal(_)) || !is_pattern(&part) {
            found.iter_mut().for_each(|path| path.push(component));
            continue;
        }
        let mut next = Vec::new();
        for folder in found {
            let place = if folder.as_os_str().is_empty() { Path::new(".") } else { &folder };
            let names = fs::read_dir(place).into_iter().flatten().flatten().map(|entry| entry.file_name());
            let matching = |name: &std::ffi::OsString| {
                let name = name.to_string_lossy();
                // A leading dot has to be named.
                glob::matches(part.as_bytes(), name.as_bytes()) && (!name.starts_with('.') || part.starts_with('.'))
            };
            let mut names: Vec<_> = names.filter(matching).collect();
            names.sort();
            next.extend(names.into_iter().map(|name| folder.join(name)));
        }
        found = next;
    }
    found.retain(|path| path.exists() || !pattern.to_string_lossy().contains(['*', '?', '[']));
    found
}

#[cfg(test)]
mod tests {
    use commands::config::find;

    use super::*;

    fn read(words: &[String]) -> Result<Start, StoreError> {
        super::read(words, Manner::Tidegate, &mut io::empty())
    }

    #[test]
    fn included_files_take_their_place_and_patterns_name_several() {
        let folder = std::env::temp_dir().join(format!("tidegate-include-{}", std::process::id()));
        fs::create_dir_all(folder.join("parts")).unwrap();
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
        let of = |name: &str| folder.join(name).display().to_string();
        write("parts/20.conf", "timeout 20\nhz 20\n");
        write("parts/10.conf", "timeout 10\ndatabases 4\nmaxclients 5\n");
        write("parts/.hidden.conf", "timeout nonsense\n");
        let main = format!("timeout 1\ninclude {}\ninclude {}\nmaxclients 7\n", of("p*/*.conf"), of("none*.conf"));
        write("main.conf", &main);
        let start = read(&[of("main.conf")]).unwrap();
        let settings = &start.settings;
        assert_eq!((settings.timeout.0, settings.databases.0, settings.maxclients.0), (20, 4, 7));
        assert_eq!(start.config_file, Some(folder.join("main.conf")));
        assert_eq!(start.notes.len(), 1, "{:?}", start.notes);
        assert!(start.notes.iter().all(|note| note.contains("20.conf:2: 'hz' has no effect")), "{:?}", start.notes);
        // On the command line, what comes later wins.
        let words = ["--maxclients", "9", "--include", &of("parts/10.conf"), "--databases", "8"].map(str::to_owned);
        let start = read(&words).unwrap();
        let settings = &start.settings;
        assert_eq!((settings.timeout.0, settings.databases.0, settings.maxclients.0), (10, 8, 5));
        assert!(read(&["--include".into(), of("missing.conf")]).is_err());
        assert!(read(&["--include".into(), "a".into(), "b".into()]).is_err());
        write("main.conf", &format!("include {}\n", of("missing.conf")));
        let error = read(&[of("main.conf")]).unwrap_err().to_string();
        assert!(error.contains("main.conf:1: cannot read "), "a file that is named must be there: {error}");
        write("main.conf", &format!("include {}\n", of("main.conf")));
        assert!(read(&[of("main.conf")]).is_err(), "a circle ends");
        fs::remove_dir_all(&folder).unwrap();
    }

    fn read_text(text: &str) -> Result<Start, StoreError> {
        let path = std::env::temp_dir().join(format!("tidegate-options-{}-{}.conf", std::process::id(), text.len()));
        fs::write(&path, text).unwrap();
        let outcome = read(&[path.display().to_string(), "--port".into(), "7001".into()]);
        fs::remove_file(&path).unwrap();
        outcome
    }

    #[test]
    fn a_setting_without_effect_is_told_and_taken() {
        let start = read_text("port 7000\nsave 900 1\nmaxmemory 1gb\n").unwrap();
        let settings = &start.settings;
        assert_eq!(
            (settings.port.0, settings.maxmemory.0, settings.save.points.clone()),
            (7001, 1 << 30, vec![(900, 1)])
        );
    }

    #[test]
    fn a_wrong_setting_is_refused_with_its_place() {
        let Err(StoreError::Settings(problems)) = read_text("save 900 1\nmaxmemry 1gb\n") else {
            panic!("it was taken")
        };
        assert_eq!(problems.len(), 1);
        assert!(
            problems.iter().all(|problem| problem.contains(".conf:2: there is no setting 'maxmemry'")),
            "{problems:?}"
        );
    }

    /// What `CONFIG GET` would say of a setting.
    fn text(settings: &Settings, name: &str) -> String {
        (find(name.as_bytes()).unwrap().text)(settings)
    }

    #[test]
    fn words_are_names_and_values_by_redis_rules() {
        for (words, expected) in [
            (
                &["--maxmemory 700mb", "--maxmemory-policy 'volatile-lru'"][..],
                "maxmemory=734003200 maxmemory-policy=volatile-lru",
            ),
            (
                &["--proc-title-template", "--my--title", "--loglevel", "verbose"],
                "proc-title-template=--my--title loglevel=verbose",
            ),
            (
                &["--proc-title-template --my--title", "--loglevel verbose"],
                "proc-title-template=--my--title loglevel=verbose",
            ),
            (&["--save", "--loglevel", "verbose"], "save= loglevel=verbose"),
            (&["--loglevel", "verbose", "--save"], "save= loglevel=verbose"),
            (&["--save", "", "--loglevel", "verbose"], "save= loglevel=verbose"),
            (&["--save", "1", "2", "--save", "3 4"], "save=1 2 3 4"),
            (
                &["--proc-title-template", "--save", "--save", "", "--port", "7"],
                "proc-title-template=--save save= port=7",
            ),
            (
                &["--shutdown-on-sigint", "nosave", "force", "now", "--shutdown-on-sigterm", "nosave force"],
                "shutdown-on-sigint=nosave now force shutdown-on-sigterm=nosave force",
            ),
            (&["--bind", "127.0.0.1", "::1", "--PORT", "7"], "bind=127.0.0.1 ::1 port=7"),
            (&["--requirepass", "with \"quotes", "--maxmemory", "1kb"], "requirepass=with \"quotes maxmemory=1024"),
        ] {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let start = read(&words).unwrap_or_else(|error| panic!("{words:?}: {error:?}"));
            let mut found = String::new();
            let mut rest = expected;
            // A value may have blanks, so names are looked for.
            while let Some((name, _)) = rest.split_once('=') {
                let name = name.rsplit(' ').next().unwrap();
                found += &format!("{}{name}={}", if found.is_empty() { "" } else { " " }, text(&start.settings, name));
                rest = rest.split_once('=').unwrap().1;
            }
            assert_eq!(found, expected, "{words:?}");
        }
        let words = ["loglevel", "verbose", "--maxmemory '700mb'"].map(str::to_owned);
        let line = |name: &str, value: &str| Line { name: name.into(), values: vec![value.into()] };
        assert_eq!(lines(&words, &mut Vec::new()), [line("loglevel", "verbose"), line("maxmemory", "700mb")]);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_words() {
        for (words, expected) in [
            (&["--port"][..], "'port': wrong number of arguments; it needs a value"),
            (&["--port", "6380", "--loglevel"], "'loglevel': wrong number of arguments; it needs a value"),
            (&["--port", "6379", "6380"], "'port \"6379\" \"6380\"': wrong number of arguments"),
            (&["--port", "--loglevel", "verbose"], "'port \"--loglevel\" \"verbose\"': wrong number of arguments"),
            (&["--port", "--odd", "--timeout", "1"], "'port \"--odd\"': argument couldn't be parsed into an integer"),
            (&["--replicaof", "--127.0.0.1", "abc"], "'replicaof \"--127.0.0.1\" \"abc\"': Invalid master port"),
            (&["--replicaof", "one"], "'replicaof \"one\"': wrong number of arguments"),
            (
                &["--replicaof", "a", "1"],
                "'replicaof': without a folder (--dir) there is no log to follow another server's with",
            ),
            (&["--logfile \"x"], "--logfile \"x: unbalanced quotes"),
            (&["-p", "7"], "-p: a setting's name begins with '--'"),
            (&["--prot", "7"], "'prot \"7\"': there is no setting 'prot'; did you mean 'port'?"),
            (&["--until", "10"], "--until: without a folder (--dir) there is no log to go back in"),
        ] {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let Err(StoreError::Settings(problems)) = read(&words) else { panic!("{words:?} were taken") };
            assert_eq!(problems.first().map(String::as_str), Some(expected), "{words:?}");
        }
    }
}
