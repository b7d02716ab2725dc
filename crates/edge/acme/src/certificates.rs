//! The certificates of the process that come by themselves.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, OnceLock},
    thread,
};

use haproxycfg::model::{AcmeCertificate, Config};
use thiserror::Error;
use tls::{Certificate, Challenges, Identity};
use tokio::{
    sync::{
        Notify, Semaphore,
        mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    },
    task::JoinHandle,
};

use crate::{
    host::{Host, Level},
    keeper::Keeper,
    shared::{Entry, Inner, newer},
    status::{State, Status},
};

/// Orders that are under way at a time.
const ORDERS_MAX: usize = 4;

/// The certificates of the process that come by themselves; they outlive reloads.
#[derive(Default)]
pub struct Certificates {
    inner: Arc<Inner>,
    orders: OnceLock<Option<UnboundedSender<Order>>>,
}

impl fmt::Debug for Certificates {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Certificates").finish_non_exhaustive()
    }
}

/// Why a certificate is not asked for.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RenewError {
    /// It is being asked for.
    #[error("certificate '{0}' is being asked for.")]
    Running(String),
    /// None of that name comes by itself.
    #[error("no certificate '{0}' of an acme section.")]
    Unknown(String),
}

/// What the thread is told.
enum Order {
    Load { certificates: Vec<AcmeCertificate>, is_scheduled: bool, host: Arc<dyn Host> },
    Stop,
}

impl Certificates {
    /// Opens the folders of files, while the process may; makes those that are not there, for this user and group. Returns what
    /// cannot be reached.
    pub fn open(&self, config: &Config, owner: (Option<u32>, Option<u32>)) -> Vec<String> {
        let files = config.acme_certificates.iter().flat_map(|it| [&it.file, &it.section.account_key]);
        files
            .filter_map(|file| self.inner.folders.place(file, Some(owner)).err())
            .map(|error| error.to_string())
            .collect()
    }

    /// The newest certificate of that name, if one is newer than what was read from its file.
    #[must_use]
    pub fn identity(&self, name: &str, read: &Arc<Identity>) -> Arc<Identity> {
        let known = self.inner.entries().get(name).and_then(|entry| entry.identity.clone());
        let Some(known) = known else { return Arc::clone(read) };
        let is_temporary = Certificate::read(read.certificate()).is_none_or(|certificate| certificate.is_self_issued());
        let read = Some(Arc::clone(read)).filter(|_| !is_temporary);
        newer(read, Some(Arc::clone(&known))).unwrap_or(known)
    }

    /// What answers tls-alpn-01.
    #[must_use]
    pub fn challenges(&self) -> &Arc<Challenges> {
        &self.inner.showroom.challenges
    }

    /// Whether an authority may look for a proof now. Each request asks.
    #[must_use]
    #[inline]
    pub fn has_pages(&self) -> bool {
        self.inner.showroom.pages.has_any()
    }

    /// What an authority finds at a path that looks for a proof there.
    #[must_use]
    pub fn page(&self, path: &[u8]) -> Option<Arc<str>> {
        self.inner.showroom.pages.at(path)
    }

    /// Sees to the certificates of this configuration from now on, and to no others.
    pub fn load(&self, config: &Config, host: Arc<dyn Host>) {
        if config.acme_certificates.is_empty() && self.orders.get().is_none() {
            return;
        }
        let orders = self.orders.get_or_init(|| start(&self.inner));
        let order = Order::Load {
            certificates: config.acme_certificates.clone(),
            is_scheduled: !config.global.acme_scheduler_off,
            host: Arc::clone(&host),
        };
        if orders.as_ref().is_none_or(|orders| orders.send(order).is_err()) {
            host.tell(Level::Alert, "no thread can be made that sees to certificates: they are not renewed");
        }
    }

    /// Sees to no certificate any more.
    pub fn stop(&self) {
        if let Some(Some(orders)) = self.orders.get() {
            let _ = orders.send(Order::Stop);
        }
    }

    /// Asks for a certificate now.
    ///
    /// # Errors
    /// When none of that name comes by itself, or it is being asked for.
    pub fn renew(&self, name: &str) -> Result<(), RenewError> {
        let asked = self.inner.change(name, |entry| {
            if entry.status.state == State::Running {
                return Err(RenewError::Running(name.to_owned()));
            }
            entry.is_wanted = true;
            entry.wake.notify_one();
            Ok(())
        });
        asked.unwrap_or_else(|| Err(RenewError::Unknown(name.to_owned())))
    }

    /// How all certificates are doing, by name.
    #[must_use]
    pub fn status(&self) -> Vec<Status> {
        self.inner.entries().values().map(|entry| entry.status.clone()).collect()
    }
}

fn start(inner: &Arc<Inner>) -> Option<UnboundedSender<Order>> {
    let (sender, orders) = unbounded_channel();
    let inner = Arc::clone(inner);
    let work = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default());
        if let Ok(runtime) = runtime {
            runtime.block_on(see_to_all(inner, orders));
        }
    };
    thread::Builder::new().name("certificates".into()).spawn(work).ok()?;
    Some(sender)
}

/// A task that sees to a certificate.
struct Task {
    fingerprint: String,
    handle: JoinHandle<()>,
}

async fn see_to_all(inner: Arc<Inner>, mut orders: UnboundedReceiver<Order>) {
    let places = Arc::new(Semaphore::new(ORDERS_MAX));
    let mut tasks: HashMap<Arc<str>, Task> = HashMap::new();
    while let Some(order) = orders.recv().await {
        let Order::Load { certificates, is_scheduled, host } = order else {
            for (_, task) in tasks.drain() {
                task.handle.abort();
            }
            for entry in inner.entries().values_mut() {
                entry.status.state = State::Stopped;
            }
            continue;
        };
        let names: Vec<Arc<str>> = certificates.iter().map(|it| Arc::clone(&it.name)).collect();
        tasks.retain(|name, task| {
            let stays = names.contains(name);
            if !stays {
                task.handle.abort();
            }
            stays
        });
        inner.entries().retain(|name, _| names.contains(name));
        for certificate in certificates {
            let name = Arc::clone(&certificate.name);
            let fingerprint = fingerprint(&certificate, is_scheduled);
            let wake = note(&inner, &certificate);
            // What came while the configuration was read.
            if let Some(identity) = inner.change(&name, |entry| entry.identity.clone()).flatten() {
                host.install(&name, &identity);
            }
            if let Some(task) = tasks.get(&name)
                && task.fingerprint == fingerprint
                && !task.handle.is_finished()
            {
                wake.notify_one();
                continue;
            }
            let keeper =
                Keeper::new(certificate, is_scheduled, Arc::clone(&inner), (Arc::clone(&host), Arc::clone(&places)));
            let handle = tokio::task::spawn_local(keeper.run(wake));
            if let Some(former) = tasks.insert(name, Task { fingerprint, handle }) {
                former.handle.abort();
            }
        }
    }
}

/// What tells a certificate from one of that name that is to be seen to in another way.
fn fingerprint(certificate: &AcmeCertificate, is_scheduled: bool) -> String {
    let AcmeCertificate { file, section, domains, addresses, .. } = certificate;
    let anchors = section.anchors.as_ref().map(|anchors| anchors.fingerprint());
    let section = haproxycfg::model::Acme { anchors: None, ..(**section).clone() };
    format!("{file} {domains:?} {addresses:?} {is_scheduled} {anchors:?} {section:?}")
}

/// Notes a certificate of a configuration, and what its file has.
fn note(inner: &Inner, certificate: &AcmeCertificate) -> Arc<Notify> {
    let mut entries = inner.entries();
    let entry = entries.entry(Arc::clone(&certificate.name)).or_insert_with(|| Entry {
        status: Status {
            name: Arc::clone(&certificate.name),
            section: Arc::clone(&certificate.section.name),
            names: Vec::new(),
            state: State::Stopped,
            ends: None,
            scheduled: None,
            lifetime: None,
            failures: 0,
            failed: 0,
            renewed: 0,
            error: None,
        },
        identity: None,
        is_wanted: false,
        wake: Arc::default(),
    });
    entry.status.section = Arc::clone(&certificate.section.name);
    let addresses = certificate.addresses.iter().map(ToString::to_string);
    entry.status.names = certificate.domains.iter().cloned().chain(addresses).collect();
    entry.take(certificate.identity.clone());
    Arc::clone(&entry.wake)
}
