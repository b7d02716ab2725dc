//! redis.conf: a setting a line, words with Redis' quoting.

use std::ops::Range;

use keyspace::Bytes;

use super::{
    DIRECTIVES, IncludeError, InvalidValue, SETTINGS, SettingError, Settings, State, find, renames::FindOwnName,
};

/// Why a line cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The line's number, from 1.
    pub line: usize,
    /// The line.
    pub text: String,
    /// What is wrong, and what would be right.
    pub reason: String,
    /// It is no mistake: the setting has no effect.
    pub is_note: bool,
}

/// Takes the lines of a file. `include` is called for other files that it names; what they set comes in their place. `known` finds
/// the commands that `rename-command` names.
///
/// All problems are collected; with any, the settings are of no use.
pub fn read(
    text: impl AsRef<[u8]>,
    settings: &mut Settings,
    known: FindOwnName,
    include: &mut dyn FnMut(&str, &mut Settings) -> Result<(), IncludeError>,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    // Passwords, and comments, may be in any encoding.
    for (index, line) in text.as_ref().split(|byte| *byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let (reason, is_note) = match read_line(line, settings, known, include) {
            Ok(None) => continue,
            Ok(Some(note)) => (note, true),
            Err(reason) => (reason.to_string(), false),
        };
        problems.push(Problem { line: index + 1, text: String::from_utf8_lossy(line).into_owned(), reason, is_note });
    }
    problems
}

fn read_line(
    line: &[u8],
    settings: &mut Settings,
    known: FindOwnName,
    include: &mut dyn FnMut(&str, &mut Settings) -> Result<(), IncludeError>,
) -> Result<Option<String>, SettingError> {
    let mut scratch = Vec::new();
    let mut ranges: Vec<Range<usize>> = Vec::new();
    resp::split_arguments(line, &mut scratch, &mut ranges).map_err(|_| SettingError::Quotes)?;
    let words: Vec<&[u8]> = ranges.into_iter().map(|range| scratch.get(range).unwrap_or_default()).collect();
    let Some((name, values)) = words.split_first() else { return Ok(None) };
    if name.eq_ignore_ascii_case(b"include") {
        return match values {
            [path] => Ok(include(&String::from_utf8_lossy(path), settings).map(|()| None)?),
            _ => Err(SettingError::IncludeWords),
        };
    }
    set(name, values, settings, known)
}

/// Sets one setting by its name and words: of a file's line, or of the command line. Says why, if it has no effect.
///
/// # Errors
///
/// What is wrong, and what would be right.
pub fn set(
    name: &[u8],
    values: &[&[u8]],
    settings: &mut Settings,
    known: FindOwnName,
) -> Result<Option<String>, SettingError> {
    if name.eq_ignore_ascii_case(b"user") {
        if values.is_empty() {
            return Err(SettingError::UserWords);
        }
        settings.users.push(values.iter().map(|word| Bytes::from_slice(word)).collect());
        return Ok(None);
    }
    if name.eq_ignore_ascii_case(b"rename-command") {
        return match values {
            [from, to] => Ok(settings.renames.add(from, to, known).map(|()| None)?),
            _ => Err(SettingError::RenameWords),
        };
    }
    let Some(setting) = find(name) else {
        let refused = DIRECTIVES.iter().find(|(known, ..)| known.as_bytes().eq_ignore_ascii_case(name));
        if let Some((name, Some(reason), _)) = refused {
            return Err(SettingError::Refused { name, reason });
        }
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        let nearest =
            SETTINGS.iter().map(|setting| (basics::nearest::distance(&name, setting.name), setting.name)).min();
        let nearest = nearest.filter(|(distance, _)| *distance <= 2 + name.len() / 6).map(|(_, nearest)| nearest);
        return Err(SettingError::Unknown { name, nearest });
    };
    // `save` alone is `save ""`.
    let values = if values.is_empty() && setting.name == "save" { &[&b""[..]][..] } else { values };
    if values.is_empty() {
        let reason = (setting.set)(&mut settings.clone(), values).err().unwrap_or(InvalidValue::WordCount);
        return Err(SettingError::NoValue { name: setting.name, reason });
    }
    // Each line of this one adds to those before.
    let former = if setting.name == "save" { settings.save.added_to(values) } else { None };
    let joined: Vec<&[u8]> = former.iter().map(String::as_bytes).chain(values.iter().copied()).collect();
    let values = joined.as_slice();
    let before = matches!(setting.state, State::Missing(_)).then(|| settings.clone());
    (setting.set)(settings, values).map_err(|reason| SettingError::Value { name: setting.name, reason })?;
    let text = (setting.text)(settings);
    // Files name many settings that they leave as they are.
    let is_default = text == (setting.text)(&Settings::default());
    match setting.state {
        State::Missing(reason) if !is_default => {
            if let Some(before) = before {
                *settings = before;
            }
            Err(SettingError::Missing { name: setting.name, reason })
        }
        // What is set to nothing asks for nothing.
        State::WithoutEffect(reason) if !is_default && !text.is_empty() => {
            Ok(Some(format!("'{}' has no effect: {reason}", setting.name)))
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Kind as _;

    #[test]
    fn lines_are_read_and_all_problems_told() {
        let mut settings = Settings::default();
        let mut included = Vec::new();
        let problems = read(
            "# a comment\nport 7000\nrequirepass \"two words\"\n\nmaxmemry 1gb\nappendonly perhaps\ninclude other.conf\ntimeout\nsave 900 1\nreplicaof host 6379\nreplica-read-only yes\nsave 60 5\ncluster-enabled no\nreplica-read-only no\n",
            &mut settings,
            |_| None,
            &mut |path, _| {
                included.push(path.to_owned());
                Ok(())
            },
        );
        let (notes, problems): (Vec<Problem>, Vec<Problem>) = problems.into_iter().partition(|problem| problem.is_note);
        assert_eq!(notes.iter().map(|note| note.line).collect::<Vec<_>>(), [9, 12]);
        let told: Vec<(usize, &str)> = problems.iter().map(|problem| (problem.line, problem.reason.as_str())).collect();
        assert_eq!(
            told,
            [
                (5, "there is no setting 'maxmemry'; did you mean 'maxmemory'?"),
                (6, "'appendonly': argument must be 'yes' or 'no'"),
                (8, "'timeout': wrong number of arguments; it needs a value"),
                (
                    14,
                    "'replica-read-only' is not there yet: a replica's log is the same as its master's, so only the master may write to it"
                ),
            ]
        );
        assert_eq!((settings.port.0, settings.requirepass.0.as_slice()), (7000, b"two words".as_slice()));
        assert_eq!(read(b"# f\xfcr mich\nrequirepass \xe4\n", &mut settings, |_| None, &mut |_, _| Ok(())), []);
        assert_eq!(settings.requirepass.0.as_slice(), b"\xe4", "it need not be UTF-8");
        let wrong = read(b"unixsocket /tmp/\xe4\n", &mut settings, |_| None, &mut |_, _| Ok(()));
        assert_eq!(wrong.first().map(|problem| problem.reason.as_str()), Some("'unixsocket': argument must be UTF-8"));
        assert_eq!(settings.save.points, [(900, 1), (60, 5)]);
        assert_eq!(settings.replicaof.0, Some(("host".to_owned(), 6379)));
        assert_eq!(included, ["other.conf"]);
    }

    #[test]
    fn the_first_line_of_save_replaces_what_is_there_without_any() {
        for (text, expected) in [
            ("", "3600 1 300 100 60 10000"),
            ("save 3600 1 300 100\nsave 60 10000\nsave 5 5\n", "3600 1 300 100 60 10000 5 5"),
            ("save 1 2 3 4\nsave 5 6\n", "1 2 3 4 5 6"),
            ("save 1 2\nsave \"\"\n", ""),
            ("save \"\"\nsave 5 6\n", "5 6"),
            ("save 5 6\nsave \n", ""),
        ] {
            let mut settings = Settings::default();
            let problems = read(text, &mut settings, |_| None, &mut |_, _| Ok(()));
            assert!(problems.iter().all(|problem| problem.is_note), "{problems:?}");
            assert_eq!(settings.save.text(), expected, "{text}");
        }
        let silent = read("save \"\"\n", &mut Settings::default(), |_| None, &mut |_, _| Ok(()));
        assert_eq!(silent, [], "no snapshots is what there is");
    }
}
