//! Maps and ACLs: `show`, `get`, `add`, `del`, `set`, `clear`, `prepare` and `commit`.

use std::fmt::Write as _;
use std::sync::Arc;

use sample::{LookUp, PatternReference};

use super::{
    line::Line,
    reply::Reply,
    session::{Context, Session},
};

/// What a command is about, which its second word says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Map,
    Acl,
}

impl Kind {
    fn of(line: &Line) -> Self {
        if line.word(1) == "map" { Kind::Map } else { Kind::Acl }
    }

    /// Its name in messages.
    fn name(self) -> &'static str {
        match self {
            Kind::Map => "map",
            Kind::Acl => "ACL",
        }
    }

    fn has(self, reference: &PatternReference) -> bool {
        match self {
            Kind::Map => reference.is_map(),
            Kind::Acl => reference.is_acl(),
        }
    }

    fn unknown(self) -> Reply {
        Reply::error(format!("Unknown {} identifier. Please use #<id> or <file>.", self.name()))
    }
}

/// The list of patterns that a word names: by the number after a `#`, or by its file.
fn find<'a>(context: &'a Context<'_>, name: &str) -> Option<&'a Arc<PatternReference>> {
    let patterns = context.control.patterns()?;
    match name.strip_prefix('#') {
        Some(number) => patterns.numbered(number.parse().ok()?),
        None => patterns.of_file(name),
    }
}

/// The list that a word names, if it is of this kind.
fn find_of_kind<'a>(context: &'a Context<'_>, kind: Kind, name: &str) -> Result<&'a Arc<PatternReference>, Reply> {
    find(context, name).filter(|reference| kind.has(reference)).ok_or_else(|| kind.unknown())
}

/// The version after an `@` at this place: the digits that it begins with. The place of the next word.
fn version(line: &Line, index: usize) -> (Option<u32>, usize) {
    let Some(text) = line.word(index).strip_prefix('@') else { return (None, index) };
    let digits = text.bytes().take_while(u8::is_ascii_digit);
    let value = digits.fold(0u32, |value, digit| value.wrapping_mul(10).wrapping_add(u32::from(digit - b'0')));
    (Some(value), index + 1)
}

/// Whether a word is the handle of an entry, and which.
fn handle(word: &str) -> Option<Result<u64, Reply>> {
    let digits = word.strip_prefix("#0x")?;
    let malformed = || Reply::error("Malformed identifier. Please use #<id> or <file>.");
    Some(u64::from_str_radix(digits, 16).map_err(|_| malformed()))
}

fn answer(result: Result<Reply, Reply>) -> Reply {
    result.unwrap_or_else(|refusal| refusal)
}

/// `show map` and `show acl`: every list, or the entries of one.
pub(super) fn show(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let kind = Kind::of(line);
    if line.word(2).is_empty() {
        return Reply::Text(list(context, kind));
    }
    let (version, index) = version(line, 2);
    answer(find_of_kind(context, kind, line.word(index)).map(|reference| Reply::Text(entries(reference, version))))
}

fn list(context: &Context<'_>, kind: Kind) -> String {
    let mut out = "# id (file) description\n".to_owned();
    let references = context.control.patterns().into_iter().flat_map(sample::PatternReferences::iter);
    for reference in references.filter(|reference| kind.has(reference)) {
        let (current, next) = reference.versions();
        let _ = writeln!(
            out,
            "{} ({}) {}. curr_ver={current} next_ver={next} entry_cnt={}",
            reference.id().unwrap_or(-1),
            reference.path().unwrap_or_default(),
            reference.description(),
            reference.entry_count(),
        );
    }
    out
}

fn entries(reference: &PatternReference, version: Option<u32>) -> String {
    let mut out = String::new();
    reference.each(version, |handle, key, value| {
        let _ = write!(out, "{handle:#x} {}", String::from_utf8_lossy(key));
        if let Some(value) = value {
            let _ = write!(out, " {}", String::from_utf8_lossy(value));
        }
        out.push('\n');
    });
    out
}

/// `get map` and `get acl`: what a sample would match.
pub(super) fn get(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let kind = Kind::of(line);
    let (name, sample) = (line.word(2), line.word(3));
    if name.is_empty() || sample.is_empty() {
        return Reply::error(format!("Missing {} identifier and/or key.", kind.name()));
    }
    let Some(reference) = find(context, name) else { return kind.unknown() };
    let mut out = String::new();
    for found in reference.look_up(sample.as_bytes()) {
        describe(kind, &found, &mut out);
    }
    Reply::Text(out)
}

fn describe(kind: Kind, found: &LookUp, out: &mut String) {
    let case = if found.ignore_case { "insensitive" } else { "sensitive" };
    let (matched, pattern) = match kind {
        Kind::Map => ("found", "key"),
        Kind::Acl => ("match", "pattern"),
    };
    let _ = write!(out, "type={}, case={case}", found.method.name());
    match &found.hit {
        None => {
            let _ = write!(out, ", {matched}=no");
        }
        Some(hit) => {
            let index = if hit.in_tree { "tree" } else { "list" };
            let _ = write!(out, ", {matched}=yes, idx={index}");
            match &hit.key {
                Some(key) => {
                    let _ = write!(out, ", {pattern}=\"{}\"", String::from_utf8_lossy(key));
                }
                None => {
                    let _ = write!(out, ", {pattern}=unknown");
                }
            }
            match (&hit.value, kind) {
                (Some((text, kind)), Kind::Map) => {
                    let _ = write!(out, ", value=\"{}\", type=\"{}\"", String::from_utf8_lossy(text), kind.name());
                }
                (None, Kind::Map) => out.push_str(", value=none"),
                (_, Kind::Acl) => {}
            }
        }
    }
    out.push('\n');
}

/// `add map` and `add acl`: one entry, or one for each line of a payload.
pub(super) fn add(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    answer(add_entries(context, line).map(|()| Reply::Done))
}

fn add_entries(context: &Context<'_>, line: &Line) -> Result<(), Reply> {
    let kind = Kind::of(line);
    let (version, index) = version(line, 2);
    let (name, key, value) = (line.word(index), line.word(index + 1), line.word(index + 2));
    let payload = line.payload.as_deref();
    match kind {
        Kind::Map if name.is_empty() || (payload.is_none() && (key.is_empty() || value.is_empty())) => {
            return Err(Reply::error(
                "'add map' expects three parameters (map identifier, key and value) or one parameter (map identifier) and \
                 a payload",
            ));
        }
        Kind::Acl if name.is_empty() || (key.is_empty() && payload.is_none()) => {
            return Err(Reply::error("'add acl' expects two parameters: ACL identifier and pattern."));
        }
        _ => {}
    }
    let reference = find(context, name).ok_or_else(|| kind.unknown())?;
    let (_, prepared) = reference.versions();
    // Numbers go round: what is less than half of them ahead is in the future.
    let is_ahead = |version: u32| version.wrapping_sub(prepared).wrapping_sub(1) < u32::MAX >> 1;
    if version.is_some_and(is_ahead) {
        let kind = if kind == Kind::Map { "map" } else { "acl" };
        return Err(Reply::error(format!("Version number in the future, please use 'prepare {kind}' before.")));
    }
    if kind == Kind::Acl && reference.has_values() {
        return Err(Reply::error(
            "This ACL is shared with a map containing samples. You must use the command 'add map' to add values.",
        ));
    }
    let add = |key: &str, value: Option<&str>| {
        let added = reference.add(version, key.as_bytes(), value.map(str::as_bytes));
        added.map_err(|reason| Reply::error(format!("{reason}.")))
    };
    let Some(payload) = payload else { return add(key, (kind == Kind::Map).then_some(value)) };
    for entry in payload.lines() {
        match kind {
            Kind::Acl => add(entry, None)?,
            Kind::Map => {
                let Some((key, value)) = entry.split_once([' ', '\t']) else {
                    return Err(Reply::error(format!("Missing value for key '{entry}'.")));
                };
                add(key, Some(value.trim_start_matches([' ', '\t'])))?;
            }
        }
    }
    Ok(())
}

/// `del map` and `del acl`: by key, or by handle.
pub(super) fn delete(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let kind = Kind::of(line);
    let (name, key) = (line.word(2), line.word(3));
    if name.is_empty() || key.is_empty() {
        return Reply::error(format!("This command expects two parameters: {} identifier and key.", kind.name()));
    }
    // NOTE: HAProxy speaks of a map here whatever it is.
    let Some(reference) = find(context, name).filter(|reference| kind.has(reference)) else {
        return Kind::Map.unknown();
    };
    let deleted = match handle(key) {
        Some(Ok(handle)) => reference.delete_by_handle(handle),
        Some(Err(refusal)) => return refusal,
        None => reference.delete(key.as_bytes()),
    };
    if deleted { Reply::Done } else { Reply::error("Key not found.") }
}

/// `set map`.
pub(super) fn set(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let (name, key, value) = (line.word(2), line.word(3), line.word(4));
    if name.is_empty() || key.is_empty() || value.is_empty() {
        return Reply::error("'set map' expects three parameters: map identifier, key and value.");
    }
    let Some(reference) = find(context, name) else { return Kind::Map.unknown() };
    let set = match handle(key) {
        Some(Ok(handle)) => reference.set_by_handle(handle, value.as_bytes()),
        Some(Err(refusal)) => return refusal,
        None => reference.set(key.as_bytes(), value.as_bytes()),
    };
    set.map_or_else(|reason| Reply::error(format!("{reason}.")), |()| Reply::Done)
}

/// `clear map` and `clear acl`.
pub(super) fn clear(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let kind = Kind::of(line);
    let (version, index) = version(line, 2);
    let name = line.word(index);
    if name.is_empty() {
        return Reply::error(format!("Missing {} identifier.", kind.name()));
    }
    answer(find_of_kind(context, kind, name).map(|reference| {
        reference.clear(version);
        Reply::Done
    }))
}

/// `prepare map` and `prepare acl`.
pub(super) fn prepare(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let found = find_of_kind(context, Kind::of(line), line.word(2));
    answer(found.map(|reference| Reply::info(format!("New version created: {}", reference.prepare()))))
}

/// `commit map` and `commit acl`.
pub(super) fn commit(_: &mut Session, context: &Context<'_>, line: &Line) -> Reply {
    let kind = Kind::of(line);
    let (Some(version), index) = version(line, 2) else { return Reply::error("Missing version number.") };
    let name = line.word(index);
    if name.is_empty() {
        return Reply::error(format!("Missing {} identifier.", kind.name()));
    }
    answer(find_of_kind(context, kind, name).map(|reference| match reference.commit(version) {
        true => Reply::Done,
        false => Reply::error("Version number out of range."),
    }))
}
