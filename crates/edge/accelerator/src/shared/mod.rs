//! A shared cache as RFC 9111 has it: no program, the messages decide.
//!
//! ```text
//!  client:  GET, HEAD ─▶ lookup ─┬▶ fresh, or stale and allowed ─────────────────────▶ Step::Deliver
//!                                └▶ missing, stale, not wanted ─▶ Step::Fetch ─▶ object ─┘
//!           other methods, `no-store`, If-Match ─▶ Step::Pass ─▶ what is stored becomes invalid, or newer
//!           Upgrade ─▶ Step::Pipe
//! ```
//!
//! [`Client`] and [`Backend`] have the contract of the machines that run VCL, and the same roads lead from them into the world.

mod backend;
mod client;
mod judge;
mod status;

use std::sync::Arc;

use cache::{
    index::{Cache, Digest},
    object::Object,
    storage::Stevedore,
};
use http::{HeaderId, RequestHead};
use sha2::{Digest as _, Sha256};

pub use backend::{Backend, Order, Step as FetchStep};
pub use client::{Client, Step};

/// What a cache calls itself in `Via` and `Cache-Status` where nothing else is said.
pub const NAME: &str = "tidegate";

/// An object takes at most this part of its storage: one download does not push out everything else.
const PART_OF_STORAGE_MAX: u64 = 4;

/// A shared cache.
#[derive(Debug)]
pub struct Shared {
    /// What it calls itself.
    pub name: String,
    /// Objects.
    pub cache: Arc<Cache>,
    /// Where they are kept.
    pub memory: Arc<Stevedore>,
    /// Where those are kept that are to outlive the process.
    pub disk: Option<Arc<Stevedore>>,
}

impl Shared {
    /// The storage of an object that lives for so many seconds.
    fn storage(&self, seconds: f64) -> &Arc<Stevedore> {
        /// What lives no longer would not outlive a restart.
        const SHORT_LIVED: f64 = 10.0;
        self.disk.as_ref().filter(|_| seconds > SHORT_LIVED).unwrap_or(&self.memory)
    }
}

/// Bytes that an object in this storage may have.
fn bytes_max(storage: &Stevedore) -> u64 {
    storage.limit() / PART_OF_STORAGE_MAX
}

/// The host that a request is for, in small letters and without the port that goes without saying.
fn host(request: &RequestHead) -> Vec<u8> {
    let authority = request.authority();
    let host =
        if authority.is_empty() { request.headers.first_known(HeaderId::Host).unwrap_or_default() } else { authority };
    host.strip_suffix(b":80").unwrap_or(host).to_ascii_lowercase()
}

/// What a response is stored under (RFC 9111 section 2): the URI. Only responses to GET are stored, so the method is none of it.
fn digest(host: &[u8], path: &[u8]) -> Digest {
    let mut hasher = Sha256::new();
    hasher.update(host);
    // NOTE: neither a host nor a path has a line feed.
    hasher.update(b"\n");
    hasher.update(path);
    Digest(hasher.finalize().into())
}

/// The path of a request with its query.
fn path(request: &RequestHead) -> &[u8] {
    let path = request.path_and_query();
    if path.is_empty() { request.target() } else { path }
}

/// Seconds that an object has been there.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "seconds, cut to whole ones")]
fn age_of(object: &Object, now: f64) -> u64 {
    object.age(now) as u64
}

#[expect(clippy::cast_possible_truncation, reason = "seconds of a date")]
fn whole(seconds: f64) -> i64 {
    seconds as i64
}
