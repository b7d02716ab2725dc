//! What a store is started with: the words of the command line, and the file that they may name.

use std::{
    fs,
    path::{Component, Path, PathBuf},
};

use commands::{
    config::{Settings, file},
    glob,
};

use crate::{StoreError, clock, point::Point};

/// How deep files may include one another.
const INCLUDE_DEPTH_MAX: usize = 16;

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
}

/// Reads `[FILE] [--name value ...]`, as redis-server takes them. What the words say wins over the file. One name is no
/// setting: `--until`.
///
/// # Errors
///
/// All that is wrong, with file, line and remedy.
pub fn read(words: &[String]) -> Result<Start, StoreError> {
    let mut start = Start::default();
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
    let mut problems = Vec::new();
    while let Some((name, rest)) = words.split_first() {
        let Some(name) = name.strip_prefix("--") else {
            problems.push(format!("{name}: a setting's name begins with '--'"));
            break;
        };
        let count = rest.iter().take_while(|word| !word.starts_with("--")).count();
        let (values, following) = rest.split_at(count);
        if name == "until" {
            match Point::parse(&values.join(" "), clock::now().unsigned_abs()) {
                Ok(point) => start.until = Some(point),
                Err(reason) => problems.push(format!("--until: {reason}")),
            }
            words = following;
            continue;
        }
        let values: Vec<&[u8]> = values.iter().map(|word| word.as_bytes()).collect();
        match file::set(name.as_bytes(), &values, &mut start.settings) {
            Ok(None) => {}
            Ok(Some(note)) => start.notes.push(note),
            Err(reason) => problems.push(format!("--{name}: {reason}")),
        }
        words = following;
    }
    if start.until.is_some() && start.settings.dir.0.is_empty() {
        problems.push("--until: without a folder (--dir) there is no log to go back in".into());
    }
    if problems.is_empty() { Ok(start) } else { Err(StoreError::Settings(problems)) }
}

fn read_file(path: &Path, start: &mut Start, depth: usize, problems: &mut Vec<String>) {
    let text = match fs::read(path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => return problems.push(format!("cannot read {}: {error}", path.display())),
    };
    let mut inner = Vec::new();
    let mut included = Start::default();
    let found = file::read(&text, &mut start.settings, &mut |name, settings| {
        if depth >= INCLUDE_DEPTH_MAX {
            return Err(format!("files include one another more than {INCLUDE_DEPTH_MAX} deep"));
        }
        std::mem::swap(&mut included.settings, settings);
        for path in paths(Path::new(name)) {
            read_file(&path, &mut included, depth + 1, &mut inner);
        }
        std::mem::swap(&mut included.settings, settings);
        Ok(())
    });
    start.notes.append(&mut included.notes);
    for problem in found {
        let place = format!("{}:{}", path.display(), problem.line);
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
    use super::*;

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
        write("main.conf", &format!("include {}\n", of("missing.conf")));
        assert!(read(&[of("main.conf")]).is_err(), "a file that is named must be there");
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
        assert_eq!((settings.port.0, settings.maxmemory.0, settings.save.0.clone()), (7001, 1 << 30, vec![(900, 1)]));
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
}
