//! What the clients of a listener speak TLS with. Its certificates and what it verifies clients by are replaced while it runs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use haproxycfg::model::{Bind, BindTls, TlsTune};
use tls::{Acceptor, Entry};

use crate::process::Process;

/// What the clients of a listener speak TLS with.
#[derive(Debug)]
pub struct LiveTls {
    described: Arc<BindTls>,
    /// Where its line is.
    place: String,
    entries: Mutex<Vec<Entry>>,
    tune: TlsTune,
    process: Arc<Process>,
    acceptor: RwLock<Arc<Acceptor>>,
}

impl LiveTls {
    /// That of a `bind` line, with the newest of the certificates that come by themselves.
    #[must_use]
    pub fn new(bind: &Bind, described: &Arc<BindTls>, tune: TlsTune, process: &Arc<Process>) -> Self {
        let mut entries = described.entries.clone();
        for entry in &mut entries {
            entry.identity = process.certificates.identity(&entry.name, &entry.identity);
        }
        let acceptor = acceptor(&entries, described.strict_sni, tune, process);
        Self {
            described: Arc::clone(described),
            place: format!("{}:{}", bind.location.file, bind.location.line),
            entries: Mutex::new(entries),
            tune,
            process: Arc::clone(process),
            acceptor: RwLock::new(acceptor),
        }
    }

    /// What a connection is accepted with that comes now.
    #[must_use]
    pub fn now(&self) -> Arc<Acceptor> {
        Arc::clone(&self.acceptor.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What its line says.
    pub(crate) fn described(&self) -> &BindTls {
        &self.described
    }

    /// File and line of its line.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// Whether its certificates are those of a list, among others.
    pub(crate) fn uses(&self, list: &str) -> bool {
        self.described.lists.iter().any(|used| *used.name == *list)
    }

    /// Whether clients that ask for no name that is known get the certificate of a line.
    pub(crate) fn has_as_default(&self, list: &str, number: u32, certificate: &str) -> bool {
        self.look(|entries| {
            let of_line =
                |entry: &&Entry| entry.line.as_ref().is_some_and(|(name, line)| **name == *list && *line == number);
            entries.first().filter(of_line).is_some_and(|first| *first.name == *certificate)
        })
    }

    /// Looks at its certificates.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&[Entry]) -> T) -> T {
        look(&self.lock())
    }

    /// Changes its certificates, if `change` says that it has. Connections go on with what they have; each one that comes gets
    /// all of the change or nothing of it.
    pub(crate) fn edit(&self, change: impl FnOnce(&mut Vec<Entry>) -> bool) {
        let mut entries = self.lock();
        if change(&mut entries) {
            let acceptor = acceptor(&entries, self.described.strict_sni, self.tune, &self.process);
            *self.acceptor.write().unwrap_or_else(PoisonError::into_inner) = acceptor;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn acceptor(entries: &[Entry], is_strict: bool, tune: TlsTune, process: &Process) -> Arc<Acceptor> {
    // NOTE: that it can be made was seen when the configuration was checked. One that could not would speak with nobody, rather
    // than in the clear.
    let acceptor =
        Acceptor::new(entries, is_strict, process.tls_sessions(tune)).unwrap_or_else(|_| Acceptor::of_nobody());
    Arc::new(acceptor.keeping(tune.keeps).with_challenges(process.certificates.challenges()))
}
