//! Files in a server's place: a backend with `root` or `alias` lines fetches from folders.
//!
//! ```text
//!  Place: the line that counts ─▶ at_once: open already ─────────────────────────▶ serve ─▶ Answer
//!            │                        └─▶ look: worker, else a disk thread ─▶ file ─┘
//!            │                                 ├─ a folder ─▶ redirect, listing, 403
//!            │                                 └─ nothing ──▶ what `try-files` says, servers if there are any, else 404
//!            └─ no line counts ─▶ servers
//! ```
//!
//! A file that the response of a server or a program names takes the place of that response's body (`sent`).
//!
//! A name that stands for the one that was asked for (an index file, what `try-files` leads to) is asked for anew: the lines are asked once
//! more with its path. So a script is given to whoever runs scripts, whatever name it was asked by.

mod folder;
mod look;
mod made;
mod place;
mod sent;
mod serve;

use std::{rc::Rc, sync::Arc};

use live::{LiveProxy, files::LiveFiles};

use self::{place::Place, serve::Chosen};
use super::{Answer, Site};
use crate::{session::transaction::Transaction, worker::Worker};

pub(super) use self::{
    look::{Waiting, look},
    made::usual,
    sent::{NamedFile, send},
};

/// What answers in the log.
pub(super) const FILES: &str = "<FILES>";

/// Where a request is answered.
#[derive(Clone, Copy)]
pub(super) struct Here<'a> {
    pub(super) worker: &'a Rc<Worker>,
    pub(super) backend: &'a Arc<LiveProxy>,
    pub(super) files: &'a LiveFiles,
}

impl<'a> Here<'a> {
    fn site(&self) -> Site<'a> {
        Site { worker: self.worker, backend: self.backend, name: FILES }
    }
}

/// What comes of a request without waiting for anything.
pub(super) enum AtOnce<'a> {
    /// Its file was open.
    Answer(Answer<'a>),
    /// Its file is to be looked for.
    Look,
    /// Servers answer.
    Servers,
}

/// Answers if the file is open.
#[inline]
pub(super) fn at_once<'a>(here: Here<'a>, transaction: &mut Transaction) -> AtOnce<'a> {
    let Some(place) = Place::of(transaction, here, true) else { return AtOnce::Servers };
    let now_ms = here.worker.now_ms();
    let key = place.key(&transaction.request);
    let found = here.files.with_cache(here.worker.index, |cache| cache.find(key, now_ms)).flatten();
    let Some((file, is_due)) = found else { return AtOnce::Look };
    // NOTE: what stands for another name may be for somebody else.
    if is_due || file.stands_in && place.has_conditions() {
        return AtOnce::Look;
    }
    let chosen = Chosen::of(transaction, &file);
    if !chosen.tagged.file.holds() {
        return AtOnce::Look;
    }
    here.files.counters.of(here.worker.index).hits.increment();
    serve::answer(here, transaction, &chosen.again(here)).map_or(AtOnce::Look, AtOnce::Answer)
}
