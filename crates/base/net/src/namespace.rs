//! Sockets in other network namespaces (`namespace` of servers).
//!
//! A namespace belongs to a thread, and a worker must not leave its own: each namespace has a small thread that makes
//! sockets, begun with the first one. Workers wait for a socket as for anything else, without blocking.

use std::{
    collections::HashMap,
    io,
    os::fd::OwnedFd,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Sender},
    },
    thread,
};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::sync::oneshot;

/// One that wants a socket.
type Wish = (Domain, oneshot::Sender<io::Result<Socket>>);

/// The network namespaces that a configuration names.
#[derive(Debug, Default)]
pub struct Namespaces(Mutex<HashMap<Arc<str>, Namespace>>);

#[derive(Debug)]
struct Namespace {
    place: Option<OwnedFd>,
    wishes: Option<Sender<Wish>>,
}

impl Namespaces {
    /// Opens one while its file is within reach; whether it is there.
    pub fn open(&self, name: &Arc<str>) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.contains_key(name) {
            return true;
        }
        let Ok(place) = runtime::open_namespace(name) else { return false };
        known.insert(Arc::clone(name), Namespace { place: Some(place), wishes: None });
        true
    }

    /// Whether the configuration names it.
    #[must_use]
    pub fn is_known(&self, name: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains_key(name)
    }

    /// A TCP socket in a namespace.
    ///
    /// # Errors
    /// When there is no such namespace, or without the rights to enter it.
    pub async fn socket(&self, name: &str, domain: Domain) -> io::Result<Socket> {
        let (answer, made) = oneshot::channel();
        self.wish(name, (domain, answer))?;
        made.await.map_err(|_| io::Error::other("the network namespace cannot be entered"))?
    }

    fn wish(&self, name: &str, wish: Wish) -> io::Result<()> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let unknown = || io::Error::new(io::ErrorKind::NotFound, "there is no such network namespace");
        let namespace = known.get_mut(name).ok_or_else(unknown)?;
        if namespace.wishes.is_none() {
            let place = namespace.place.as_ref().ok_or_else(unknown)?.try_clone()?;
            namespace.wishes = Some(begin(place)?);
        }
        let sent = namespace.wishes.as_ref().is_some_and(|wishes| wishes.send(wish).is_ok());
        if !sent {
            // It could not enter: perhaps the next one can.
            namespace.wishes = None;
            return Err(io::Error::from(io::ErrorKind::PermissionDenied));
        }
        Ok(())
    }
}

fn begin(place: OwnedFd) -> io::Result<Sender<Wish>> {
    let (wishes, wanted) = mpsc::channel::<Wish>();
    thread::Builder::new().name("namespace".into()).spawn(move || {
        let entered = runtime::enter_namespace(&place);
        while let Ok((domain, answer)) = wanted.recv() {
            let kind = Type::STREAM.nonblocking().cloexec();
            let failed = entered.as_ref().err().map(io::Error::kind);
            let made = match failed {
                Some(kind) => Err(io::Error::from(kind)),
                None => Socket::new(domain, kind, Some(Protocol::TCP)),
            };
            // Who has stopped waiting wants none.
            let _ = answer.send(made);
            if failed.is_some() {
                return;
            }
        }
    })?;
    Ok(wishes)
}
