//! Network namespaces: sockets that are made on a thread which is in one stay in it.

use std::{
    fs::File,
    io,
    os::fd::{AsFd, OwnedFd},
    path::Path,
    thread,
};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Where `ip netns` keeps them.
const FOLDER: &str = "/run/netns";

/// Opens the network namespace of that name, to enter it later.
///
/// # Errors
/// When there is none.
pub fn open_namespace(name: &str) -> io::Result<OwnedFd> {
    if name.is_empty() || name.contains('/') || name.starts_with('.') {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(File::open(Path::new(FOLDER).join(name))?.into())
}

/// Moves this thread into a network namespace for good.
///
/// # Errors
/// Without the rights.
pub fn enter_namespace(place: impl AsFd) -> io::Result<()> {
    Ok(move_into_link_name_space(place.as_fd(), Some(LinkNameSpaceType::Network))?)
}

/// Does something in the network namespace of that name, on a thread of its own.
///
/// # Errors
/// When there is none, or without the rights.
pub fn in_namespace<T: Send>(name: &str, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let place = open_namespace(name)?;
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("namespace".into()).spawn_scoped(scope, || {
            enter_namespace(&place)?;
            Ok(work())
        })?;
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread in the namespace has failed")))
    })
}
