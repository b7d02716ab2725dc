//! What a store is started with: the words of the command line, and the file that they may name.

use std::{fs, path::Path};

use commands::config::{Settings, file};

use crate::{StoreError, clock, point::Point};

/// What a store is started with.
#[derive(Debug, Clone, Default)]
pub struct Start {
    /// Its settings.
    pub settings: Settings,
    /// The point of the past that it is to start at.
    pub until: Option<Point>,
}

/// How deep files may include one another.
const INCLUDE_DEPTH_MAX: usize = 16;

/// Reads `[FILE] [--name value ...]`, as redis-server takes them. What the words say wins over the file. One name is no
/// setting: `--until`.
///
/// # Errors
///
/// All that is wrong, with file, line and remedy.
pub fn read(words: &[String]) -> Result<Start, StoreError> {
    let mut settings = Settings::default();
    let mut until = None;
    let mut words = words;
    if let Some((path, rest)) = words.split_first().filter(|(first, _)| !first.starts_with('-')) {
        let mut problems = Vec::new();
        read_file(Path::new(path), &mut settings, 0, &mut problems);
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
                Ok(point) => until = Some(point),
                Err(reason) => problems.push(format!("--until: {reason}")),
            }
            words = following;
            continue;
        }
        let values: Vec<&[u8]> = values.iter().map(|word| word.as_bytes()).collect();
        match file::set(name.as_bytes(), &values, &mut settings) {
            Ok(None) => {}
            Ok(Some(note)) => eprintln!("tidegate store: {note}"),
            Err(reason) => problems.push(format!("--{name}: {reason}")),
        }
        words = following;
    }
    if until.is_some() && settings.dir.0.is_empty() {
        problems.push("--until: without a folder (--dir) there is no log to go back in".into());
    }
    if problems.is_empty() { Ok(Start { settings, until }) } else { Err(StoreError::Settings(problems)) }
}

fn read_file(path: &Path, settings: &mut Settings, depth: usize, problems: &mut Vec<String>) {
    let text = match fs::read(path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => return problems.push(format!("cannot read {}: {error}", path.display())),
    };
    let mut inner = Vec::new();
    let found = file::read(&text, settings, &mut |name, settings| {
        if depth >= INCLUDE_DEPTH_MAX {
            return Err(format!("files include one another more than {INCLUDE_DEPTH_MAX} deep"));
        }
        read_file(Path::new(name), settings, depth + 1, &mut inner);
        Ok(())
    });
    for problem in found {
        let place = format!("{}:{}", path.display(), problem.line);
        if problem.is_note {
            eprintln!("tidegate store: {place}: {}", problem.reason);
        } else {
            problems.push(format!("{place}: {}\n    {}", problem.reason, problem.text));
        }
    }
    problems.append(&mut inner);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Start, StoreError> {
        let path = std::env::temp_dir().join(format!("tidegate-options-{}-{}.conf", std::process::id(), text.len()));
        fs::write(&path, text).unwrap();
        let outcome = read(&[path.display().to_string(), "--port".into(), "7001".into()]);
        fs::remove_file(&path).unwrap();
        outcome
    }

    #[test]
    fn a_setting_without_effect_is_told_and_taken() {
        let settings = read_text("port 7000\nsave 900 1\nmaxmemory 1gb\n").unwrap().settings;
        assert_eq!((settings.port.0, settings.maxmemory.0, settings.save.0.as_str()), (7001, 1 << 30, "900 1"));
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
