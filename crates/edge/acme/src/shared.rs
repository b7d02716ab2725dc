//! What the thread of certificates and everybody else know.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tls::{Certificate, Identity};
use tokio::sync::Notify;

use crate::{files::Folders, jws::AccountKey, publication::Showroom, status::Status};

/// What the thread and everybody else know.
#[derive(Default)]
pub(crate) struct Inner {
    entries: Mutex<BTreeMap<Arc<str>, Entry>>,
    pub(crate) folders: Folders,
    pub(crate) showroom: Arc<Showroom>,
    /// Keys of accounts, by file.
    pub(crate) accounts: Mutex<HashMap<String, Arc<AccountKey>>>,
}

/// A certificate.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) status: Status,
    /// The newest that there is; nothing while there is a temporary one.
    pub(crate) identity: Option<Arc<Identity>>,
    /// Somebody wants it now.
    pub(crate) is_wanted: bool,
    /// Wakes whoever sees to it.
    pub(crate) wake: Arc<Notify>,
}

impl Inner {
    pub(crate) fn entries(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is known of a certificate.
    pub(crate) fn change<R>(&self, name: &str, change: impl FnOnce(&mut Entry) -> R) -> Option<R> {
        self.entries().get_mut(name).map(change)
    }
}

/// The one that begins later, and of two that begin at once the first.
pub(crate) fn newer(first: Option<Arc<Identity>>, second: Option<Arc<Identity>>) -> Option<Arc<Identity>> {
    let begins = |identity: &Arc<Identity>| Certificate::read(identity.certificate()).and_then(|it| it.begins_at());
    match (first, second) {
        (Some(first), Some(second)) => Some(if begins(&second) > begins(&first) { second } else { first }),
        (first, second) => first.or(second),
    }
}

impl Entry {
    /// Takes a certificate, unless there is a newer one. Whether it is served from now on.
    pub(crate) fn take(&mut self, identity: Option<Arc<Identity>>) -> bool {
        let before = self.identity.clone();
        self.identity = newer(self.identity.take(), identity);
        let certificate = self.identity.as_ref().and_then(|identity| Certificate::read(identity.certificate()));
        self.status.ends = certificate.and_then(|it| it.ends_at());
        self.status.lifetime = certificate.and_then(|it| Some(it.ends_at()? - it.begins_at()?));
        match (&before, &self.identity) {
            (Some(before), Some(now)) => before.certificate() != now.certificate(),
            (before, now) => before.is_some() != now.is_some(),
        }
    }
}
