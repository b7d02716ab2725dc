//! What lines about TLS name, as it stands now: certificates, lists of them, files of those who are trusted and of what was revoked,
//! keys of tickets. Commands at the stats socket change it, as in HAProxy, and listeners and servers use what has changed at once.
//!
//! It belongs to an instance: a reload reads files again, and what was set at run time is gone unless it stands in them. Commands
//! take turns: one lock is held while a change is made, so that each connection sees it whole or not at all. Connections go on
//! with what they have.

mod certificates;
mod lists;
mod responses;
mod trusted;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use haproxycfg::model::{Config, TlsFiles};
use tls::{Entry, Identity, ServerOptions, TicketKeys};

use self::{certificates::Change, lists::List};
pub use self::{
    certificates::{CertificateState, CommitError, ShownCertificate},
    trusted::{NamedFile, TrustKind, Trusted},
};
use crate::{
    proxy::{LiveProxy, LiveTls},
    refusal::Refusal,
    server::LiveServer,
};

/// What lines about TLS name, as it stands now.
#[derive(Debug)]
pub struct TlsStore {
    /// Those whose listeners and servers use it.
    proxies: Vec<Arc<LiveProxy>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// `None`: made by `new ssl cert`, and still empty.
    certificates: BTreeMap<Arc<str>, Option<Arc<Identity>>>,
    lists: BTreeMap<Arc<str>, List>,
    files: TlsFiles,
    certificate_change: Pending<Change>,
    trust_change: BTreeMap<TrustKind, Pending<Trusted>>,
}

/// What is to become of something, until it is committed.
#[derive(Debug)]
struct Pending<T>(Option<(Arc<str>, T)>);

impl<T> Default for Pending<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Pending<T> {
    fn name(&self) -> Option<&Arc<str>> {
        self.0.as_ref().map(|(name, _)| name)
    }

    /// Refuses another one than the one that is being changed.
    fn check(&self, wanted: &str) -> Result<(), Refusal> {
        match self.name() {
            Some(ongoing) if **ongoing != *wanted => Err(Refusal(format!(
                "The ongoing transaction is about '{ongoing}' but you are trying to set '{wanted}'"
            ))),
            _ => Ok(()),
        }
    }

    /// What this one is to become.
    fn wanted(&self, name: &str) -> Result<&T, Refusal> {
        self.check(name)?;
        self.0.as_ref().map(|(_, wanted)| wanted).ok_or_else(|| "No ongoing transaction! !".into())
    }

    fn abort(&mut self, name: &str) -> Result<(), Refusal> {
        match self.name() {
            None => Err("No ongoing transaction!".into()),
            Some(ongoing) if **ongoing != *name => Err(Refusal(format!(
                "The ongoing transaction is about '{ongoing}' but you are trying to abort a transaction for '{name}'"
            ))),
            Some(_) => {
                self.0 = None;
                Ok(())
            }
        }
    }
}

impl TlsStore {
    /// What a configuration names, for the proxies that were made of it.
    #[must_use]
    pub fn new(config: &Config, proxies: &[Arc<LiveProxy>]) -> Self {
        let mut state = State { files: config.tls_files.clone(), ..State::default() };
        for tls in listeners(proxies) {
            tls.look(|entries| {
                for Entry { name, identity, .. } in entries {
                    state.certificates.entry(Arc::clone(name)).or_insert_with(|| Some(Arc::clone(identity)));
                }
            });
            for list in &tls.described().lists {
                state.lists.entry(Arc::clone(&list.name)).or_insert_with(|| List::new(list));
            }
        }
        for server in proxies.iter().flat_map(|proxy| &proxy.settings().servers) {
            let Some(tls) = &server.tls else { continue };
            if let (Some(name), Some(identity)) = (&tls.certificate, &tls.options.identity) {
                state.certificates.entry(Arc::clone(name)).or_insert_with(|| Some(Arc::clone(identity)));
            }
        }
        Self { proxies: proxies.to_vec(), state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The files of keys of tickets, each with its number: as in HAProxy, the last one that was named first.
    #[must_use]
    pub fn ticket_keys(&self) -> Vec<Arc<TicketKeys>> {
        self.lock().files.ticket_keys.iter().rev().cloned().collect()
    }
}

impl State {
    /// These options with what their files are now.
    fn current(&self, options: ServerOptions) -> ServerOptions {
        let mut options = options;
        let clients = &options.clients;
        let names = [clients.anchors.name(), clients.announced.name()].map(Option::<&Arc<str>>::cloned);
        for anchors in names.into_iter().flatten().filter_map(|name| self.files.anchors.get(&name)) {
            options = options.trusting(anchors).unwrap_or(options);
        }
        let lists = options.clients.revocation.name().and_then(|name| self.files.revocation.get(name));
        lists.and_then(|lists| options.revoking(lists)).unwrap_or(options)
    }
}

fn listeners(proxies: &[Arc<LiveProxy>]) -> impl Iterator<Item = &LiveTls> {
    proxies.iter().flat_map(|proxy| &proxy.listeners).filter_map(|listener| listener.tls.as_ref())
}

/// All servers that TLS is spoken with.
fn servers(proxies: &[Arc<LiveProxy>]) -> impl Iterator<Item = Arc<LiveServer>> {
    proxies.iter().flat_map(|proxy| proxy.servers.iter()).filter(|server| server.tls.is_some())
}

/// Has all listeners and servers use a certificate where they use the one of that name; how many places that were.
fn install(proxies: &[Arc<LiveProxy>], name: &str, identity: &Arc<Identity>) -> usize {
    let mut places = 0;
    for tls in listeners(proxies) {
        tls.edit(|entries| {
            let mut has_changed = false;
            for entry in entries.iter_mut().filter(|entry| *entry.name == *name) {
                has_changed |= !Arc::ptr_eq(&entry.identity, identity);
                entry.identity = Arc::clone(identity);
                places += 1;
            }
            has_changed
        });
    }
    for server in servers(proxies) {
        let is_used = server.config.tls.as_ref().is_some_and(|tls| tls.certificate.as_deref() == Some(name));
        if let Some(tls) = server.tls.as_ref().filter(|_| is_used) {
            tls.edit(|options| Some(tls::ClientOptions { identity: Some(Arc::clone(identity)), ..options.clone() }));
            places += 1;
        }
    }
    places
}
