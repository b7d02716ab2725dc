//! Looking for the file that answers a request.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{Arc, atomic::AtomicU64},
    task::Poll,
};

use haproxycfg::model::FileService;
use live::{
    ShutCause,
    files::{CachedFile, Found, Lookup, OpenFile, Patience, TaggedFile, Variant},
};
use net::Deadline;
use rustix::io::Errno;
use tokio::sync::oneshot::error::RecvError;
use web::{
    CleanPath, TagRule,
    etag::push_tag,
    path::is_usual_spelling,
    respond::{Asked, asked},
    try_files::Fallback,
};

use super::{
    Here, folder, made,
    place::{Place, first},
    serve,
};
use crate::session::{
    fetch::{Answer, HeadEnd, HttpRequester, Spelling, Unfetched},
    transaction::Transaction,
};

/// Whoever waits for what is looked for.
pub(in crate::session::fetch) struct Waiting<'w, R> {
    pub(in crate::session::fetch) requester: &'w mut R,
    pub(in crate::session::fetch) deadline: &'w mut Deadline,
}

/// Looks for what answers a request; `None` if servers do.
///
/// # Errors
/// Why there is no answer.
pub(in crate::session::fetch) async fn look<'a>(
    here: Here<'a>,
    transaction: &mut Transaction,
    mut waiting: Waiting<'_, impl HttpRequester>,
) -> Result<Option<Answer<'a>>, Unfetched> {
    let now = Some(here.worker.now());
    (transaction.timeline.dequeued, transaction.timeline.connected) = (now, now);
    let has_servers = !here.backend.servers.is_empty() || here.backend.direct.is_some();
    let mut is_asked = true;
    loop {
        let Some(place) = Place::of(transaction, here, is_asked) else { return Ok(None) };
        let path = match CleanPath::of_target(transaction.request.path(), place.settings.paths) {
            Ok(path) => path,
            Err(_) if has_servers => return Ok(None),
            Err(error) => return made::error(here, transaction, error.status()).map(Some),
        };
        place.folder.tend(&here.files.threads, here.worker.now_ms());
        let found = match find(here, transaction, &place, &path, &mut waiting).await? {
            Ok(found) => found,
            Err(status) => return made::error(here, transaction, status).map(Some),
        };
        if is_asked && is_served(&found, &path) {
            match Spelling::of(transaction) {
                Spelling::Usual => {}
                Spelling::OfClient(location) => {
                    return made::usual(here.site(), transaction, &location).map(Some);
                }
                Spelling::OfRule => {
                    go_on_with(transaction, &path);
                    continue;
                }
            }
        }
        match found {
            Way::File(file) => {
                // It stands for what was asked for: somebody else may be asked for it.
                if file.stands_in && place.has_conditions() {
                    go_on_with(transaction, &file.path);
                    // NOTE: what is asked for by its own name stands for nothing: this comes once.
                    let line = Place::of(transaction, here, false).map(|other| other.line);
                    if line != Some(place.line) {
                        is_asked = false;
                        continue;
                    }
                }
                return match serve::serve(here, transaction, &file) {
                    Some(answer) => Ok(Some(answer)),
                    None => made::error(here, transaction, 405).map(Some),
                };
            }
            Way::Folder { path: folder, inside } => {
                if asked(transaction.request.method_kind()) == Asked::Nothing {
                    return made::error(here, transaction, 405).map(Some);
                }
                if !path.is_folder() && path.folder() == folder.folder() {
                    let location = path.location_of_folder(transaction.request.query());
                    return Ok(Some(made::redirect(here.site(), transaction, &location)));
                }
                if first(&place.settings.autoindex, transaction).is_some_and(|(_, shows)| *shows) {
                    return list(here, transaction, &place, (&folder, &inside), &mut waiting).await.map(Some);
                }
                if has_servers && place.tries.is_none() {
                    return Ok(None);
                }
                return made::error(here, transaction, 403).map(Some);
            }
            Way::Forbidden => return made::error(here, transaction, 403).map(Some),
            Way::Nothing => match place.tries.map(|tries| tries.fallback(&path, transaction.request.query())) {
                Some(Fallback::Target(target)) => {
                    transaction.note_original_target();
                    transaction.request.set_target(&target);
                    is_asked = false;
                }
                Some(Fallback::Status(status)) => return made::error(here, transaction, status).map(Some),
                None if has_servers => return Ok(None),
                None => return made::error(here, transaction, 404).map(Some),
            },
        }
    }
}

/// Whether a file or a folder answers. The redirect to a folder's slash leads to the usual spelling by itself.
fn is_served(found: &Way, path: &CleanPath) -> bool {
    matches!(found, Way::File(_)) || matches!(found, Way::Folder { .. }) && path.is_folder()
}

/// The request goes on with another path, and the query that it had.
fn go_on_with(transaction: &mut Transaction, path: &CleanPath) {
    transaction.note_original_target();
    let mut target = Vec::new();
    path.push_url(&mut target);
    if let Some(query) = transaction.request.query() {
        target.push(b'?');
        target.extend_from_slice(query);
    }
    transaction.request.set_target(&target);
}

/// What a look has come to.
enum Way {
    File(Arc<CachedFile>),
    Folder {
        /// For clients.
        path: CleanPath,
        /// In its root.
        inside: CleanPath,
    },
    Forbidden,
    Nothing,
}

/// Finds what is kept, or looks for it; a status if that fails.
async fn find(
    here: Here<'_>,
    transaction: &Transaction,
    place: &Place<'_>,
    path: &CleanPath,
    waiting: &mut Waiting<'_, impl HttpRequester>,
) -> Result<Result<Way, u16>, Unfetched> {
    let now_ms = here.worker.now_ms();
    let key = place.key(&transaction.request);
    let known = here.files.with_cache(here.worker.index, |cache| cache.find(key, now_ms)).flatten();
    let known = match known {
        Some((known, false)) if known.files().all(OpenFile::holds) => return Ok(Ok(Way::File(known))),
        known => known.map(|(known, _)| known),
    };
    let lookup = Lookup {
        folder: Arc::clone(place.folder),
        steps: place.steps(path),
        offer: place.settings.precompressed,
        memory_bytes_max: place.settings.cache.file_bytes_max,
        known,
    };
    let steps = lookup.steps.clone();
    let found = run(here, transaction, lookup, waiting).await?;
    let way = match found {
        Ok(Found::File { step, file, variants }) => {
            let Some(step) = steps.into_iter().nth(step) else { return Ok(Err(500)) };
            let stands_in = step.path != *path;
            let file = Arc::new(kept(place.settings, (step.path, stands_in), (file, variants), now_ms));
            if is_usual_spelling(key.path) {
                here.files.with_cache(here.worker.index, |cache| cache.keep(key, &file));
            }
            return Ok(Ok(Way::File(file)));
        }
        Ok(Found::Folder(step)) => match steps.into_iter().nth(step) {
            Some(step) => Way::Folder { inside: step.inside.unwrap_or_else(|| step.path.clone()), path: step.path },
            None => return Ok(Err(500)),
        },
        Ok(Found::Forbidden) => Way::Forbidden,
        Ok(Found::Nothing) => Way::Nothing,
        Err(status) => return Ok(Err(status)),
    };
    here.files.with_cache(here.worker.index, |cache| cache.forget(key));
    Ok(Ok(way))
}

/// Looks on the worker, or on a disk thread where a disk would have to be waited for; a status if that fails.
pub(super) async fn run(
    here: Here<'_>,
    transaction: &Transaction,
    lookup: Lookup,
    waiting: &mut Waiting<'_, impl HttpRequester>,
) -> Result<Result<Found, u16>, Unfetched> {
    let counters = here.files.counters.of(here.worker.index);
    let counter = if lookup.known.is_some() { &counters.revalidations } else { &counters.misses };
    counter.increment();
    let mut found = lookup.run(Patience::None);
    if matches!(found, Err(Errno::AGAIN)) {
        counters.waits.increment();
        let device = lookup.folder.device();
        let Ok(answer) = here.files.threads.run(device, move || lookup.run(Patience::Disk)) else {
            return Ok(Err(503));
        };
        found = wait(here, transaction, answer, waiting).await?.unwrap_or(Err(Errno::INTR));
    }
    Ok(found.map_err(status_of))
}

/// What the client is told of an error of the system.
fn status_of(error: Errno) -> u16 {
    match error {
        // There will be room again.
        Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN | Errno::BUSY => 503,
        _ => 500,
    }
}

/// A file with what is said of it each time: at a path, which may stand for another one.
pub(super) fn kept(
    settings: &FileService,
    (path, stands_in): (CleanPath, bool),
    (file, variants): (OpenFile, Vec<(http::Coding, OpenFile)>),
    now_ms: u64,
) -> CachedFile {
    let now = i64::try_from(basics::clock::since_1970().as_secs()).unwrap_or(i64::MAX);
    let tagged = |file: OpenFile, coding| {
        let mut tag = Vec::new();
        push_tag(TagRule::default(), &file.facts.for_web(), coding, now, &mut tag);
        TaggedFile::new(file, tag.into_boxed_slice())
    };
    let essence = settings.types().of(path.last_name(), None).essence.into();
    let variants =
        variants.into_iter().map(|(coding, file)| Variant { coding, tagged: tagged(file, Some(coding)) }).collect();
    CachedFile { stands_in, path, essence, plain: tagged(file, None), variants, seen_ms: AtomicU64::new(now_ms) }
}

/// The listing of a folder.
async fn list<'a>(
    here: Here<'a>,
    transaction: &mut Transaction,
    place: &Place<'_>,
    folder: (&CleanPath, &CleanPath),
    waiting: &mut Waiting<'_, impl HttpRequester>,
) -> Result<Answer<'a>, Unfetched> {
    let Ok(listing) = folder::make(here, transaction, place.folder, folder) else {
        return made::error(here, transaction, 503);
    };
    match wait(here, transaction, listing, waiting).await? {
        Some(Ok(listed)) => Ok(folder::answer(here, transaction, listed)),
        Some(Err(Errno::ACCESS | Errno::PERM)) => made::error(here, transaction, 403),
        Some(Err(error)) => made::error(here, transaction, status_of(error)),
        None => made::error(here, transaction, 503),
    }
}

/// Waits for a disk thread as long as a server may be waited for. `None` if nothing comes of it.
async fn wait<T>(
    here: Here<'_>,
    transaction: &Transaction,
    what: impl Future<Output = Result<T, RecvError>>,
    waiting: &mut Waiting<'_, impl HttpRequester>,
) -> Result<Option<T>, Unfetched> {
    let limit = transaction.by_rules.server_timeout.get().or(here.backend.settings().timeouts.server);
    let Waiting { requester, deadline } = waiting;
    deadline.set(limit.map(|limit| here.worker.now() + limit));
    let mut what = pin!(what);
    poll_fn(|context| {
        if let Poll::Ready(done) = what.as_mut().poll(context) {
            return Poll::Ready(Ok(done.ok()));
        }
        if let Some(cause) = requester.poll_order(context) {
            return Poll::Ready(Err(killed(cause)));
        }
        if requester.is_client()
            && let Poll::Ready(why) = requester.poll_leaving(context)
        {
            return Poll::Ready(Err(Unfetched::Unreachable(why)));
        }
        deadline.poll(context).map(|()| Err(Unfetched::NoResponse { end: HeadEnd::Timeout, reused: false }))
    })
    .await
}

fn killed(cause: ShutCause) -> Unfetched {
    let end = HeadEnd::Killed { cause, asked: true, with_server: false };
    Unfetched::NoResponse { end, reused: false }
}
