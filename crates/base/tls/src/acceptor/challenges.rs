//! Answers to tls-alpn-01 (RFC 8737): certificates by host name, for those who offer the protocol `acme-tls/1` and nothing else.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use super::{Served, ServerOptions, serve_alone};
use crate::{hello::ClientHello, keys::KeyError, made};

/// What an authority offers that looks at a challenge.
pub const ACME_PROTOCOL: &[u8] = b"acme-tls/1";

/// The challenges that wait to be looked at, of all listeners of a process.
#[derive(Default)]
pub struct Challenges {
    waiting: AtomicUsize,
    by_name: RwLock<HashMap<String, Arc<Served>>>,
}

impl fmt::Debug for Challenges {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Challenges").field("waiting", &self.waiting).finish_non_exhaustive()
    }
}

impl Challenges {
    /// Shows the digest of a key authorization to those who ask for this name.
    ///
    /// # Errors
    /// When no certificate can be made for it.
    pub fn show(&self, name: &str, digest: &[u8; 32]) -> Result<(), KeyError> {
        let options =
            ServerOptions { protocols: vec![ACME_PROTOCOL.to_vec()], tickets: false, ..ServerOptions::default() };
        let served = serve_alone(&options, &made::challenge(name, digest)?)
            .map_err(|error| KeyError::Library(error.to_string()))?;
        let mut by_name = self.by_name.write().unwrap_or_else(PoisonError::into_inner);
        by_name.insert(name.to_ascii_lowercase(), Arc::new(served));
        self.waiting.store(by_name.len(), Relaxed);
        Ok(())
    }

    /// Shows it no more.
    pub fn withdraw(&self, name: &str) {
        let mut by_name = self.by_name.write().unwrap_or_else(PoisonError::into_inner);
        by_name.remove(&name.to_ascii_lowercase());
        self.waiting.store(by_name.len(), Relaxed);
    }

    /// What a client gets that looks at a challenge.
    pub(crate) fn answer(&self, hello: &ClientHello) -> Option<Arc<Served>> {
        // IMPORTANT: RFC 8737 forbids to answer whoever offers more than this protocol.
        let asks = self.waiting.load(Relaxed) > 0 && matches!(&hello.protocols[..], [only] if only == ACME_PROTOCOL);
        let name = hello.server_name.as_ref().filter(|_| asks)?;
        self.by_name.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }
}
