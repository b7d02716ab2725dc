//! Answering with what is in a folder.

use std::sync::Arc;

use haproxycfg::model::FileService;
use http::{HeaderId, Version};
use live::files::{Busy, LiveFolder, list};
use rustix::io::Errno;
use tokio::sync::oneshot::Receiver;
use web::{
    CleanPath, Listing,
    listing::{Format, Order, policy},
};

use super::{Here, made};
use crate::session::{fetch::Answer, transaction::Transaction};

/// Entries that a listing shows at most.
const ENTRIES_MAX: usize = 10_000;

/// A listing as it is made on a disk thread.
pub(super) struct Listed {
    format: Format,
    bytes: Vec<u8>,
}

/// Has a disk thread make the listing of a folder, which is `inside` its root and at `path` for clients.
pub(super) fn make(
    here: Here<'_>,
    transaction: &Transaction,
    folder: &Arc<LiveFolder>,
    (path, inside): (&CleanPath, &CleanPath),
) -> Result<Receiver<Result<Listed, Errno>>, Busy> {
    let (format, order) = (Format::wanted(&transaction.request), Order::wanted(transaction.request.query()));
    let settings: Arc<haproxycfg::model::Proxy> = Arc::clone(&here.backend.settings);
    let (folder, path, inside) = (Arc::clone(folder), path.clone(), inside.clone());
    let device = folder.device();
    let job = move || {
        let files: &FileService = &settings.files;
        let listed = list(&folder, inside.relative(), files.paths, ENTRIES_MAX)?;
        let mut listing = Listing::new(&path, listed.entries, listed.is_cut, format, order);
        Ok(Listed { format, bytes: listing.write_rest(files.types()) })
    };
    here.files.threads.run(device, job)
}

/// The answer with a listing.
pub(super) fn answer<'a>(here: Here<'a>, transaction: &mut Transaction, listed: Listed) -> Answer<'a> {
    let response = &mut transaction.response;
    response.start(Version::Http11, 200);
    response.headers.add_known(HeaderId::ContentType, listed.format.content_type().as_bytes());
    response.headers.add_number(HeaderId::ContentLength, listed.bytes.len() as u64);
    // What is in a folder has no time of its own that would tell of each change.
    response.headers.add_known(HeaderId::CacheControl, b"no-cache");
    response.headers.add_known(HeaderId::Vary, b"Accept");
    if listed.format == Format::Html {
        response.headers.add(b"content-security-policy", policy().as_bytes());
    }
    made::stored(here.site(), transaction, listed.bytes.into())
}
