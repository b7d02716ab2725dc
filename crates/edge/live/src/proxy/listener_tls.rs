//! What the clients of a listener speak TLS with. Its certificates are replaced while it runs.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use haproxycfg::model::{BindTls, TlsTune};
use tls::{Acceptor, Entry, Identity};

use crate::process::Process;

/// What the clients of a listener speak TLS with.
#[derive(Debug)]
pub struct LiveTls {
    entries: Mutex<Vec<Entry>>,
    is_strict: bool,
    tune: TlsTune,
    acceptor: RwLock<Arc<Acceptor>>,
}

impl LiveTls {
    /// That of a `bind` line, with the newest of the certificates that come by themselves.
    #[must_use]
    pub fn new(described: &BindTls, tune: TlsTune, process: &Process) -> Self {
        let mut entries = described.entries.clone();
        for entry in &mut entries {
            entry.identity = process.certificates.identity(&entry.name, &entry.identity);
        }
        let is_strict = described.strict_sni;
        let acceptor = acceptor(&entries, is_strict, tune, process);
        Self { entries: Mutex::new(entries), is_strict, tune, acceptor: RwLock::new(acceptor) }
    }

    /// What a connection is accepted with that comes now.
    #[must_use]
    pub fn now(&self) -> Arc<Acceptor> {
        Arc::clone(&self.acceptor.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Its certificates, by name.
    #[must_use]
    pub fn certificates(&self) -> Vec<(Arc<str>, Arc<Identity>)> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.iter().map(|entry| (Arc::clone(&entry.name), Arc::clone(&entry.identity))).collect()
    }

    /// Replaces the certificate of that name, if it is served here. Connections go on with what they have.
    pub fn replace(&self, name: &str, identity: &Arc<Identity>, process: &Process) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let mut has_changed = false;
        for entry in entries.iter_mut().filter(|entry| *entry.name == *name) {
            has_changed |= entry.identity.certificate() != identity.certificate();
            entry.identity = Arc::clone(identity);
        }
        if has_changed {
            let acceptor = acceptor(&entries, self.is_strict, self.tune, process);
            *self.acceptor.write().unwrap_or_else(PoisonError::into_inner) = acceptor;
        }
    }
}

fn acceptor(entries: &[Entry], is_strict: bool, tune: TlsTune, process: &Process) -> Arc<Acceptor> {
    // NOTE: that it can be made was seen when the configuration was checked. One that could not would speak with nobody, rather
    // than in the clear.
    let acceptor =
        Acceptor::new(entries, is_strict, process.tls_sessions(tune)).unwrap_or_else(|_| Acceptor::of_nobody());
    Arc::new(acceptor.keeping(tune.keeps).with_challenges(process.certificates.challenges()))
}
