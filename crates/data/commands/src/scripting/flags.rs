//! The first line of scripts and libraries: `#!lua name=... flags=a,b`.

use bitflags::bitflags;

use keyspace::Failure;

bitflags! {
    /// What a script says of itself.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct ScriptFlags: u8 {
        /// It writes nothing.
        const NO_WRITES = 1;
        /// It may run while memory is full.
        const ALLOW_OOM = 1 << 1;
        /// It may run on a replica with old data.
        const ALLOW_STALE = 1 << 2;
        /// It may not run in a cluster.
        const NO_CLUSTER = 1 << 3;
        /// Its keys may belong to several slots of a cluster.
        const ALLOW_CROSS_SLOT_KEYS = 1 << 4;
    }
}

/// The flags by name, in the order in which they are listed.
pub const NAMES: &[(&str, ScriptFlags)] = &[
    ("no-writes", ScriptFlags::NO_WRITES),
    ("allow-oom", ScriptFlags::ALLOW_OOM),
    ("allow-stale", ScriptFlags::ALLOW_STALE),
    ("no-cluster", ScriptFlags::NO_CLUSTER),
    ("allow-cross-slot-keys", ScriptFlags::ALLOW_CROSS_SLOT_KEYS),
];

/// The first line of a text, if it begins with `#!`.
#[derive(Debug)]
pub struct Shebang<'a> {
    /// Its words, the first one without `#!`; nothing if quotes do not match.
    pub words: Option<Vec<Vec<u8>>>,
    /// The text behind it, from the line's end on: lines keep their numbers.
    pub rest: &'a [u8],
}

/// Whether a text has such a line.
pub fn has_shebang(body: &[u8]) -> bool {
    body.starts_with(b"#!")
}

/// Splits a text that begins with `#!`; nothing if the line has no end.
pub fn split(body: &[u8]) -> Option<Shebang<'_>> {
    let end = body.iter().position(|byte| *byte == b'\n')?;
    let (line, rest) = body.split_at(end);
    let (mut bytes, mut ranges) = (Vec::new(), Vec::new());
    let balanced = resp::split_arguments(line, &mut bytes, &mut ranges).is_ok();
    let mut words: Vec<Vec<u8>> =
        ranges.into_iter().map(|range| bytes.get(range).unwrap_or_default().to_vec()).collect();
    if let Some(first) = words.first_mut() {
        first.drain(..first.len().min(2));
    }
    Some(Shebang { words: balanced.then_some(words), rest })
}

fn text(word: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(word)
}

/// The flags of a script for `EVAL`, and its text. A script without such a line has no flags, not even none: what it may do
/// is found out as it runs.
///
/// # Errors
///
/// The line is none that is understood.
pub fn of_script(body: &[u8]) -> Result<(Option<ScriptFlags>, &[u8]), Failure> {
    if !has_shebang(body) {
        return Ok((None, body));
    }
    let shebang = split(body).ok_or(Failure::text("ERR Invalid script shebang"))?;
    let Some((engine, options)) = shebang.words.as_deref().and_then(<[_]>::split_first) else {
        return Err(Failure::text("ERR Invalid engine in script shebang"));
    };
    if engine != b"lua" {
        return Err(Failure::owned(format!("ERR Unexpected engine in script shebang: #!{}", text(engine))));
    }
    let mut flags = ScriptFlags::empty();
    for option in options {
        let Some(list) = option.strip_prefix(b"flags=") else {
            return Err(Failure::owned(format!("ERR Unknown lua shebang option: {}", text(option))));
        };
        if list.is_empty() {
            continue;
        }
        for name in list.split(|byte| *byte == b',') {
            let known = NAMES.iter().find(|(known, _)| known.as_bytes() == name);
            let (_, flag) = known
                .ok_or_else(|| Failure::owned(format!("ERR Unexpected flag in script shebang: {}", text(name))))?;
            flags |= *flag;
        }
    }
    Ok((Some(flags), shebang.rest))
}

/// What a library says of itself.
#[derive(Debug, PartialEq, Eq)]
pub struct LibraryHead<'a> {
    /// Its name.
    pub name: Vec<u8>,
    /// Its engine.
    pub engine: Vec<u8>,
    /// Its text.
    pub code: &'a [u8],
}

/// The first line of a library.
///
/// # Errors
///
/// There is none, or it is not understood.
pub fn of_library(body: &[u8]) -> Result<LibraryHead<'_>, Failure> {
    if !has_shebang(body) {
        return Err(Failure::text("ERR Missing library metadata"));
    }
    let invalid = Failure::text("ERR Invalid library metadata");
    let shebang = split(body).ok_or_else(|| invalid.clone())?;
    let words = shebang.words.unwrap_or_default();
    let (engine, options) = words.split_first().ok_or(invalid)?;
    let mut name = None;
    for option in options {
        match option.split_at_checked(5) {
            Some((key, value)) if key.eq_ignore_ascii_case(b"name=") => {
                if name.replace(value.to_vec()).is_some() {
                    let text = "ERR Invalid metadata value, name argument was given multiple times";
                    return Err(Failure::text(text));
                }
            }
            _ => return Err(Failure::owned(format!("ERR Invalid metadata value given: {}", text(option)))),
        }
    }
    let name = name.ok_or(Failure::text("ERR Library name was not given"))?;
    Ok(LibraryHead { name, engine: engine.clone(), code: shebang.rest })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_scripts() {
        let check = |body: &str, expected: Result<Option<ScriptFlags>, &str>| {
            let found = of_script(body.as_bytes()).map(|(flags, _)| flags).map_err(|failure| failure.to_string());
            assert_eq!(found, expected.map_err(str::to_owned), "{body:?}");
        };
        check("return 1", Ok(None));
        check("#!lua\nreturn 1", Ok(Some(ScriptFlags::empty())));
        check("#!lua flags=\nreturn 1", Ok(Some(ScriptFlags::empty())));
        check("#!lua flags=no-writes,allow-oom\n", Ok(Some(ScriptFlags::NO_WRITES | ScriptFlags::ALLOW_OOM)));
        check("#!lua 'flags=no-cluster'\n", Ok(Some(ScriptFlags::NO_CLUSTER)));
        check("#!lua", Err("ERR Invalid script shebang"));
        check("#!lua \"x\n", Err("ERR Invalid engine in script shebang"));
        check("#!lua flags=no-writes,\n", Err("ERR Unexpected flag in script shebang: "));
        check("#!lua flags=No-Writes\n", Err("ERR Unexpected flag in script shebang: No-Writes"));
        check("#!lua name=x\n", Err("ERR Unknown lua shebang option: name=x"));
        check("#!python\n", Err("ERR Unexpected engine in script shebang: #!python"));
    }

    #[test]
    fn heads_of_libraries() {
        let head = of_library(b"#!lua NAME=\"a\"\nx").unwrap();
        assert_eq!((head.name, head.engine, head.code), (b"a".to_vec(), b"lua".to_vec(), b"\nx".as_slice()));
        for (body, expected) in [
            ("x", "ERR Missing library metadata"),
            ("#!lua name=x", "ERR Invalid library metadata"),
            ("#!lua\n", "ERR Library name was not given"),
            ("#!lua name=a name=b\n", "ERR Invalid metadata value, name argument was given multiple times"),
            ("#!lua foo=bar\n", "ERR Invalid metadata value given: foo=bar"),
        ] {
            assert_eq!(of_library(body.as_bytes()).unwrap_err().to_string(), expected, "{body:?}");
        }
    }
}
