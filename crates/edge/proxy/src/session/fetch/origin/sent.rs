//! Files that responses name (`X-Accel-Redirect`, `X-Sendfile`), which take the place of the responses' bodies.
//!
//! Only lines of the configuration open folders to that: without one, such a field is a field like others. Whoever may write the field
//! may send any file of these folders, and no other one.

use std::{sync::Arc, time::SystemTime};

use haproxycfg::model::NamedBy;
use http::{BodyLength, HeaderId, Headers, Method, Plus, percent_decode};
use live::{
    LiveProxy,
    files::{CachedFile, Found, Key, LiveFolder, Lookup, OpenFile, Step, StepKind},
};
use logs::{LogLevel, LogLine};
use web::{CleanPath, PathRules, path::PathError};

use super::{Here, Waiting, look, made, serve};
use crate::{
    session::{
        fetch::{Answer, HttpRequester, Unfetched},
        rules::{Phase, applies},
        size,
        transaction::Transaction,
    },
    worker::Worker,
};

/// The fields that name a file by its full path: Apache's, and the one that lighttpd had before.
const SENDFILE: [&[u8]; 2] = [b"x-sendfile", b"x-lighttpd-send-file"];

/// How the fields begin that are nginx', which are for it alone.
const ACCEL: &[u8] = b"x-accel-";

/// The one of them that names a file.
const REDIRECT: &[u8] = b"x-accel-redirect";

/// What stands for a line where responses name files: no `root` line has that number.
const OF_RESPONSES: u16 = u16::MAX;

/// What a response says that is not so of the file in its body's place.
const OF_BODY: [HeaderId; 8] = [
    HeaderId::ContentLength,
    HeaderId::TransferEncoding,
    HeaderId::ContentEncoding,
    HeaderId::ContentRange,
    HeaderId::ContentType,
    HeaderId::ETag,
    HeaderId::LastModified,
    HeaderId::AcceptRanges,
];

/// A file that a response names.
#[derive(Debug)]
pub(in crate::session::fetch) struct NamedFile {
    /// What the field says, for the log.
    value: Vec<u8>,
    /// Where it is: a folder, and names in it that are looked for in this order.
    place: Result<(Arc<LiveFolder>, Vec<CleanPath>), Unnamed>,
}

/// Why a field names no file.
#[derive(Debug)]
enum Unnamed {
    /// What it says is no path.
    Path(PathError),
    /// No `x-accel-redirect` line is for its path.
    NoPrefix,
    /// Its path is in no folder of an `x-sendfile` line.
    Outside,
}

impl std::fmt::Display for Unnamed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Path(error) => return error.fmt(formatter),
            Self::NoPrefix => "no 'x-accel-redirect' line of the backend is for that path",
            Self::Outside => "it is in no folder that an 'x-sendfile' line of the backend names",
        })
    }
}

impl NamedFile {
    /// The file that a response names, whose field for that is taken out.
    #[inline]
    pub(in crate::session::fetch) fn take(transaction: &mut Transaction, backend: &LiveProxy) -> Option<Self> {
        if backend.settings().files.sent.is_empty() { None } else { Self::take_field(transaction, backend) }
    }

    fn take_field(transaction: &mut Transaction, backend: &LiveProxy) -> Option<Self> {
        let lines = &backend.settings().files.sent;
        let has = |keyword| lines.iter().any(|line| line.action.named_by.keyword() == keyword);
        let (redirects, sends) = (has("x-accel-redirect"), has("x-sendfile"));
        let headers = &transaction.response.headers;
        let field = |name: &[u8]| headers.first(name).map(<[u8]>::to_vec);
        let by_redirect = if redirects { field(REDIRECT) } else { None };
        let by_path = if sends { SENDFILE.iter().find_map(|name| field(name)) } else { None };
        transaction.response.headers.retain(|name, _| {
            let is_redirect =
                redirects && name.get(..ACCEL.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(ACCEL));
            !(is_redirect || sends && SENDFILE.iter().any(|field| field.eq_ignore_ascii_case(name)))
        });
        if matches!(transaction.response.status(), 204 | 304) {
            return None;
        }
        let is_redirect = by_redirect.is_some();
        let value = by_redirect.or(by_path)?;
        let place = find(&value, is_redirect, transaction, backend);
        Some(Self { value, place })
    }
}

/// Where a value names a file.
fn find(
    value: &[u8],
    is_redirect: bool,
    transaction: &Transaction,
    backend: &LiveProxy,
) -> Result<(Arc<LiveFolder>, Vec<CleanPath>), Unnamed> {
    let files = backend.files.as_ref().ok_or(Unnamed::Outside)?;
    let mut lines = backend
        .settings()
        .files
        .sent
        .iter()
        .zip(&files.sent)
        .filter(|(line, _)| applies(line.condition.as_ref(), transaction, Phase::Request));
    if is_redirect {
        let path = value.split(|byte| *byte == b'?').next().unwrap_or_default();
        let path = CleanPath::of_target(path, PathRules { hidden: true }).map_err(Unnamed::Path)?;
        let found = lines.find_map(|(line, folder)| match &line.action.named_by {
            NamedBy::Redirect { prefix, is_kept } => {
                let inside = path.beneath(prefix)?;
                Some((Arc::clone(folder), vec![if *is_kept { path.clone() } else { inside }]))
            }
            NamedBy::Path => None,
        });
        return found.ok_or(Unnamed::NoPrefix);
    }
    // Some programs encode the path, as Apache's module expects it, and others do not.
    let mut decoded = Vec::new();
    let decoded = percent_decode(value, Plus::Literal, &mut decoded).map(|()| &*decoded);
    let found = lines.find_map(|(line, folder)| {
        let inside = |value: &[u8]| {
            let path = CleanPath::of_names(value).ok()?;
            path.beneath(&CleanPath::of_names(line.action.folder.as_os_str().as_encoded_bytes()).ok()?)
        };
        let mut names: Vec<CleanPath> = [decoded, Some(value)].into_iter().flatten().filter_map(inside).collect();
        names.dedup();
        (line.action.named_by == NamedBy::Path && !names.is_empty()).then(|| (Arc::clone(folder), names))
    });
    found.ok_or(Unnamed::Outside)
}

/// Answers with the file that a response names, whose head stands in the transaction.
///
/// # Errors
/// Why there is no answer.
pub(in crate::session::fetch) async fn send<'a>(
    here: Here<'a>,
    transaction: &mut Transaction,
    named: NamedFile,
    mut waiting: Waiting<'_, impl HttpRequester>,
) -> Result<Answer<'a>, Unfetched> {
    let NamedFile { value, place } = named;
    let status = match place {
        Err(why) => {
            complain(here.worker, here.backend, &value, &why.to_string());
            404
        }
        Ok(place) => match open(here, transaction, place, &mut waiting).await? {
            Ok(file) => return Ok(serve_named(here, transaction, &file)),
            Err(status) => {
                let why = match status {
                    403 => "this process may not read it",
                    404 => "there is no such file",
                    _ => "it cannot be read now",
                };
                complain(here.worker, here.backend, &value, why);
                status
            }
        },
    };
    let by = transaction.answered.by;
    transaction.bytes_out = transaction.bytes_out.saturating_sub(size::of_response(&transaction.response));
    let answer = made::error(here, transaction, status);
    transaction.answered.by = by;
    answer
}

fn complain(worker: &Worker, backend: &LiveProxy, value: &[u8], why: &str) {
    let text = format!("a response names the file '{}': {why}", value.escape_ascii());
    worker.log.send(&backend.log_targets, &LogLine::new(LogLevel::Error, text.as_bytes()), SystemTime::now());
}

/// The first of the names that is a file; a status if none is.
async fn open(
    here: Here<'_>,
    transaction: &Transaction,
    (folder, names): (Arc<LiveFolder>, Vec<CleanPath>),
    waiting: &mut Waiting<'_, impl HttpRequester>,
) -> Result<Result<Arc<CachedFile>, u16>, Unfetched> {
    let Some(first) = names.first().cloned() else { return Ok(Err(404)) };
    folder.tend(&here.files.threads, here.worker.now_ms());
    let key = Key { folder: folder.version(), line: OF_RESPONSES, tries: 0, path: first.as_bytes() };
    let now_ms = here.worker.now_ms();
    let known = here.files.with_cache(here.worker.index, |cache| cache.find(key, now_ms)).flatten();
    let known = match known {
        Some((known, false)) if known.files().all(OpenFile::holds) => {
            here.files.counters.of(here.worker.index).hits.increment();
            return Ok(Ok(known));
        }
        known => known.map(|(known, _)| known),
    };
    let settings = &here.backend.settings().files;
    let lookup = Lookup {
        folder,
        steps: names.iter().map(|path| Step { path: path.clone(), inside: None, kind: StepKind::File }).collect(),
        offer: settings.precompressed,
        memory_bytes_max: settings.cache.file_bytes_max,
        known,
    };
    let status = match look::run(here, transaction, lookup, waiting).await? {
        Ok(Found::File { step, file, variants }) => {
            let Some(path) = names.into_iter().nth(step) else { return Ok(Err(500)) };
            let file = Arc::new(look::kept(settings, (path, step > 0), (file, variants), now_ms));
            here.files.with_cache(here.worker.index, |cache| cache.keep(key, &file));
            return Ok(Ok(file));
        }
        Ok(Found::Forbidden) => 403,
        Ok(Found::Folder(_) | Found::Nothing) => 404,
        Err(status) => status,
    };
    here.files.with_cache(here.worker.index, |cache| cache.forget(key));
    Ok(Err(status))
}

/// The answer with a file: what the response says of the exchange stays (cookies, how long it may be kept, its type), and what it says of
/// its body goes.
fn serve_named<'a>(here: Here<'a>, transaction: &mut Transaction, file: &CachedFile) -> Answer<'a> {
    let said = std::mem::take(&mut transaction.response);
    let status = said.status();
    transaction.bytes_out = transaction.bytes_out.saturating_sub(size::of_response(&said));
    let content_type =
        said.headers.first_known(HeaderId::ContentType).and_then(|value| std::str::from_utf8(value).ok());
    let content_type = content_type.filter(|value| !value.is_empty());
    let (length, body) = match status {
        200 | 206 if matches!(transaction.request.method_kind(), Method::Get | Method::Head) => {
            serve::respond_with(here, transaction, file, content_type)
        }
        // Conditions and ranges are about what a success would bring; those of a change are the program's business, which has made it.
        _ => {
            let asked = transaction.request.headers.clone();
            transaction.request.headers.retain_known(|id, _, _| !is_condition(id));
            let answer = serve::respond_with(here, transaction, file, content_type);
            transaction.request.headers = asked;
            transaction.response.set_status(status);
            answer
        }
    };
    keep_fields(&said.headers, &mut transaction.response);
    transaction.response.headers.add_known(HeaderId::Date, &here.worker.http_date());
    transaction.bytes_out += size::of_reply(&transaction.response);
    transaction.answered.has_head = true;
    transaction.timeline.response = Some(here.worker.now());
    let method = transaction.request.method_kind();
    let length = if length.is_empty() { BodyLength::None } else { length };
    Answer { method, length, body }
}

/// Whether a field of a request is a condition on the file, or asks for a part of it.
fn is_condition(id: HeaderId) -> bool {
    matches!(
        id,
        HeaderId::Range
            | HeaderId::IfRange
            | HeaderId::IfMatch
            | HeaderId::IfNoneMatch
            | HeaderId::IfModifiedSince
            | HeaderId::IfUnmodifiedSince
    )
}

/// Adds what a response says of the exchange to the head of the answer with a file.
fn keep_fields(said: &Headers, response: &mut http::ResponseHead) {
    let has_no_content = matches!(response.status(), 304 | 412 | 416);
    if said.contains_known(HeaderId::CacheControl) || said.contains_known(HeaderId::Expires) {
        response.headers.remove_known(HeaderId::CacheControl);
        response.headers.remove_known(HeaderId::Expires);
    }
    for (id, name, value) in said.iter_known() {
        let is_of_content =
            has_no_content && name.get(..8).is_some_and(|begin| begin.eq_ignore_ascii_case(b"content-"));
        if id != HeaderId::Date && !OF_BODY.contains(&id) && !is_of_content {
            response.headers.add(name, value);
        }
    }
}
