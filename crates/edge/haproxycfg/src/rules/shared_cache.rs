//! `shared-cache`: has a cache by RFC 9111 answer where it can, without a program.

use std::{path::PathBuf, sync::Arc};

use super::{accelerator::bytes_of, words::wrong};
use crate::{
    args,
    diagnostics::Problem,
    line::Line,
    model::{DiskTier, SharedCache},
    scope::Scope,
    table::{Group, Keyword, Sections},
};

/// Bytes of memory where nothing is said.
const MEMORY_BYTES: u64 = 256 << 20;
/// Bytes on a disk where nothing is said.
const DISK_BYTES: u64 = 10 << 30;
/// What a cache has at least: less holds no page.
const BYTES_MIN: u64 = 1 << 20;

pub(super) const KEYWORDS: &[Keyword] = &[Keyword::new(
    Group::Proxy,
    "shared-cache",
    "[size <size>] [disk <path> [disk-size <size>]] [name <name>]",
    "",
)
.sections(Sections::FRONTEND_BACKEND)
.doc(
    "Lets a cache by RFC 9111 answer the requests that rules let through. The messages decide what the cache stores and for how long. With 'disk', the cache survives restarts.",
    "shared-cache size 256m disk /var/cache/tidegate/site disk-size 10g",
)
.line(shared_cache)];

fn shared_cache(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let mut cache = SharedCache { bytes: MEMORY_BYTES, disk: None, name: accelerator::shared::NAME.to_owned() };
    let (mut path, mut disk_bytes) = (None, None);
    let mut word = 1;
    while word < line.len() {
        match line.word(word) {
            "size" => cache.bytes = size(line, word + 1)?,
            "disk" => path = Some(args::required(line, word + 1, "a path after 'disk'.")?),
            "disk-size" => disk_bytes = Some(size(line, word + 1)?),
            "name" => cache.name = name(line, word + 1)?.to_owned(),
            other => {
                return Err(wrong(format!("'shared-cache' : unknown argument '{other}'."), word)
                    .expected("size <size>, disk <path>, disk-size <size> or name <name>")
                    .nearest(other, ["size", "disk", "disk-size", "name"]));
            }
        }
        word += 2;
    }
    cache.disk = match (path, disk_bytes) {
        (Some(path), bytes) => Some(DiskTier { path: PathBuf::from(path), bytes: bytes.unwrap_or(DISK_BYTES) }),
        (None, Some(_)) => {
            return Err(wrong("'shared-cache' : 'disk-size' needs 'disk <path>'.", 0).expected("disk <path>"));
        }
        (None, None) => None,
    };
    let draft = scope.proxy();
    draft.proxy.shared_cache = Some(Arc::new(cache));
    draft.rules.shared_cache = Some(line.clone());
    Ok(())
}

fn size(line: &Line, word: usize) -> Result<u64, Problem> {
    let text = args::required(line, word, "a size, as 256m.")?;
    bytes_of(text).filter(|bytes| *bytes >= BYTES_MIN).ok_or_else(|| {
        wrong(format!("'shared-cache' : '{text}' is no size."), word)
            .expected("a number with k, m, g or t, 1m at least")
    })
}

fn name(line: &Line, word: usize) -> Result<&str, Problem> {
    let name = args::required(line, word, "a name after 'name'.")?;
    let is_token = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    if is_token && name.starts_with(|first: char| first.is_ascii_alphabetic()) {
        Ok(name)
    } else {
        Err(wrong(format!("'shared-cache' : '{name}' is no name."), word)
            .expected("letters, digits, '-', '_' and '.', a letter first"))
    }
}

/// Checks what can be checked once all proxies are known.
pub(crate) fn finish(scope: &mut Scope<'_>) {
    let draft = scope.proxy();
    let (Some(cache), Some(line)) = (draft.proxy.shared_cache.clone(), draft.rules.shared_cache.clone()) else {
        return;
    };
    let own = draft.proxy.name.to_string();
    if draft.proxy.accelerator.is_some() {
        let problem = wrong("'shared-cache' : this section has 'vcl' too: one of them answers.", 0);
        return scope.alert(&line, problem.expected("either 'vcl' or 'shared-cache'"));
    }
    let Some(disk) = &cache.disk else { return };
    let is_other = |draft: &&crate::scope::ProxyDraft| {
        let other = draft.proxy.shared_cache.as_ref().and_then(|cache| cache.disk.as_ref());
        *draft.proxy.name != *own && other.is_some_and(|other| other.path == disk.path)
    };
    if let Some(other) = scope.state.proxies.iter().find(is_other) {
        let message = format!(
            "'shared-cache' : section '{}' keeps its cache in {} too: each needs files of its own.",
            other.proxy.name,
            disk.path.display()
        );
        scope.alert(&line, wrong(message, 0).expected("another path"));
    }
}
