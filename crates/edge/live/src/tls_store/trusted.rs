//! `show`, `new`, `set`, `commit`, `abort` and `del ssl ca-file` and `crl-file`.

use std::{collections::HashMap, sync::Arc};

use tls::{ClientOptions, Entry, Pem, RevocationLists, ServerOptions, ServerVerification, TrustAnchors, Verify};

use super::{State, TlsStore, listeners, servers};
use crate::{proxy::LiveProxy, refusal::Refusal};

/// Which kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TrustKind {
    /// `ca-file`, `ca-verify-file`: who is trusted.
    Authorities,
    /// `crl-file`: what was revoked.
    Revocation,
}

impl TrustKind {
    /// `CA`, `CRL`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Authorities => "CA",
            Self::Revocation => "CRL",
        }
    }
}

/// The name of such a file, and how many certificates or lists it holds.
pub type NamedFile = (Arc<str>, usize);

/// What such a file holds.
#[derive(Clone, Debug)]
pub enum Trusted {
    /// Certificates.
    Authorities(TrustAnchors),
    /// Lists of revoked certificates.
    Revocation(RevocationLists),
}

impl Trusted {
    fn empty(kind: TrustKind, name: &Arc<str>) -> Self {
        match kind {
            TrustKind::Authorities => Self::Authorities(TrustAnchors::default().named(Arc::clone(name))),
            TrustKind::Revocation => Self::Revocation(RevocationLists::default().named(Arc::clone(name))),
        }
    }

    /// What a payload holds; nothing for one that holds none of it.
    fn read(kind: TrustKind, name: &Arc<str>, payload: &str) -> Option<Self> {
        let pem = Pem::read(payload.as_bytes()).ok()?;
        match kind {
            TrustKind::Authorities => Some(Self::Authorities(TrustAnchors::new([&pem]).ok()?.named(Arc::clone(name)))),
            TrustKind::Revocation => Some(Self::Revocation(RevocationLists::new(&pem).ok()?.named(Arc::clone(name)))),
        }
    }

    /// What it holds, as DER, in order.
    #[must_use]
    pub fn contents(&self) -> Vec<&[u8]> {
        match self {
            Self::Authorities(anchors) => anchors.certificates().collect(),
            Self::Revocation(lists) => lists.lists().collect(),
        }
    }

    fn for_clients(&self, options: &ServerOptions) -> Option<ServerOptions> {
        match self {
            Self::Authorities(anchors) => options.trusting(anchors),
            Self::Revocation(lists) => options.revoking(lists),
        }
    }

    fn for_servers(&self, options: &ClientOptions) -> Option<ClientOptions> {
        match self {
            Self::Authorities(anchors) => options.trusting(anchors),
            Self::Revocation(lists) => options.revoking(lists),
        }
    }

    /// Has all listeners and servers go by it where they name its file; in how many places.
    fn install(&self, proxies: &[Arc<LiveProxy>]) -> usize {
        let mut places = 0;
        for tls in listeners(proxies) {
            tls.edit(|entries| {
                // Certificates of one set of options go on sharing one.
                let mut replaced: HashMap<*const ServerOptions, Option<Arc<ServerOptions>>> = HashMap::new();
                let before: Vec<_> = entries.iter().map(|entry| Arc::clone(&entry.options)).collect();
                let mut has_changed = false;
                for (entry, options) in entries.iter_mut().zip(&before) {
                    let new = replaced.entry(Arc::as_ptr(options));
                    let Some(new) = new.or_insert_with(|| self.for_clients(options).map(Arc::new)) else { continue };
                    entry.options = Arc::clone(new);
                    has_changed = true;
                    places += usize::from(new.clients.verify != Verify::None);
                }
                has_changed
            });
        }
        for server in servers(proxies) {
            if server.tls.as_ref().is_some_and(|tls| tls.edit(|options| self.for_servers(options))) {
                places += 1;
            }
        }
        places
    }
}

impl TlsStore {
    /// The names of files, in order, each with how many certificates it holds, and the one that is being replaced.
    #[must_use]
    pub fn trusted_names(&self, kind: TrustKind) -> (Vec<NamedFile>, Option<NamedFile>) {
        let state = self.lock();
        let names = match kind {
            TrustKind::Authorities => {
                let known = state.files.anchors.iter();
                known.map(|(name, anchors)| (Arc::clone(name), anchors.certificates().count())).collect()
            }
            TrustKind::Revocation => {
                let known = state.files.revocation.iter();
                known.map(|(name, lists)| (Arc::clone(name), lists.lists().count())).collect()
            }
        };
        let change = state.trust_change.get(&kind).and_then(|change| change.0.as_ref());
        (names, change.map(|(name, wanted)| (Arc::clone(name), wanted.contents().len())))
    }

    /// What a file holds, and whether it is used; with `*` before its name, what it is to hold.
    #[must_use]
    pub fn trusted(&self, kind: TrustKind, name: &str) -> Option<(Trusted, bool)> {
        let state = self.lock();
        match name.strip_prefix('*') {
            Some(name) => Some((state.trust_change.get(&kind)?.wanted(name).ok()?.clone(), false)),
            None => Some((state.trusted(kind, name)?, is_used(&self.proxies, kind, name))),
        }
    }

    /// Makes an empty file, which is on no disk.
    ///
    /// # Errors
    /// When there is one of that name.
    pub fn new_trusted(&self, kind: TrustKind, name: &str) -> Result<(), Refusal> {
        /// Files that may be there.
        const FILES_MAX: usize = 65_536;
        let mut state = self.lock();
        if state.trusted(kind, name).is_some() {
            return Err(Refusal(format!("{} file '{name}' already exists!", kind.name())));
        }
        if state.files.anchors.len() + state.files.revocation.len() >= FILES_MAX {
            return Err(Refusal(format!("there are {FILES_MAX} files already!")));
        }
        let name = name.into();
        state.put(&name, Trusted::empty(kind, &name));
        Ok(())
    }

    /// Takes what a file is to hold; whether the transaction has just begun.
    ///
    /// # Errors
    /// Why not.
    pub fn set_trusted(&self, kind: TrustKind, name: &str, payload: &str) -> Result<bool, Refusal> {
        let mut state = self.lock();
        let change = state.trust_change.entry(kind).or_default();
        change.check(name)?;
        let begins = change.name().is_none();
        if state.trusted(kind, name).is_none() {
            let kind = kind.name();
            return Err(Refusal(format!("Can't replace a {kind} file which is not referenced by the configuration!")));
        }
        let name: Arc<str> = name.into();
        let wanted = Trusted::read(kind, &name, payload).ok_or_else(|| Refusal::from("Invalid payload"))?;
        state.trust_change.entry(kind).or_default().0 = Some((name, wanted));
        Ok(begins)
    }

    /// Has all go by what a file is to hold; in how many places that is.
    ///
    /// # Errors
    /// Why not.
    pub fn commit_trusted(&self, kind: TrustKind, name: &str) -> Result<usize, Refusal> {
        let mut state = self.lock();
        let change = state.trust_change.entry(kind).or_default();
        let wanted = change.wanted(name)?.clone();
        change.0 = None;
        let places = wanted.install(&self.proxies);
        state.put(&name.into(), wanted);
        Ok(places)
    }

    /// Forgets what a file was to hold.
    ///
    /// # Errors
    /// Why not.
    pub fn abort_trusted(&self, kind: TrustKind, name: &str) -> Result<(), Refusal> {
        self.lock().trust_change.entry(kind).or_default().abort(name)
    }

    /// Takes a file away.
    ///
    /// # Errors
    /// When it is not there, or in use.
    pub fn delete_trusted(&self, kind: TrustKind, name: &str) -> Result<(), Refusal> {
        let mut state = self.lock();
        let word = kind.name();
        if state.trust_change.get(&kind).and_then(super::Pending::name).is_some_and(|ongoing| **ongoing == *name) {
            return Err(Refusal(format!("ongoing transaction for the {word} file '{name}'")));
        }
        if state.trusted(kind, name).is_none() {
            return Err(Refusal(format!("{word} file '{name}' doesn't exist!\n")));
        }
        if is_used(&self.proxies, kind, name) {
            return Err(Refusal(format!("{word} file '{name}' in use, can't be deleted!\n")));
        }
        match kind {
            TrustKind::Authorities => drop(state.files.anchors.remove(name)),
            TrustKind::Revocation => drop(state.files.revocation.remove(name)),
        }
        Ok(())
    }
}

impl State {
    fn trusted(&self, kind: TrustKind, name: &str) -> Option<Trusted> {
        match kind {
            TrustKind::Authorities => self.files.anchors.get(name).cloned().map(Trusted::Authorities),
            TrustKind::Revocation => self.files.revocation.get(name).cloned().map(Trusted::Revocation),
        }
    }

    fn put(&mut self, name: &Arc<str>, trusted: Trusted) {
        match trusted {
            Trusted::Authorities(anchors) => drop(self.files.anchors.insert(Arc::clone(name), anchors)),
            Trusted::Revocation(lists) => drop(self.files.revocation.insert(Arc::clone(name), lists)),
        }
    }
}

/// Whether a listener or a server names it.
fn is_used(proxies: &[Arc<LiveProxy>], kind: TrustKind, name: &str) -> bool {
    let is_it = |own: Option<&Arc<str>>| own.is_some_and(|own| **own == *name);
    let of_clients = |entry: &Entry| {
        let clients = &entry.options.clients;
        match kind {
            TrustKind::Authorities => is_it(clients.anchors.name()) || is_it(clients.announced.name()),
            TrustKind::Revocation => is_it(clients.revocation.name()),
        }
    };
    let of_servers = |options: &ClientOptions| match &options.verification {
        ServerVerification::Required { anchors, revocation, .. } => match kind {
            TrustKind::Authorities => is_it(anchors.name()),
            TrustKind::Revocation => is_it(revocation.name()),
        },
        ServerVerification::None => false,
    };
    listeners(proxies).any(|tls| tls.look(|entries| entries.iter().any(of_clients)))
        || servers(proxies).any(|server| server.tls.as_ref().is_some_and(|tls| tls.look(of_servers)))
}
