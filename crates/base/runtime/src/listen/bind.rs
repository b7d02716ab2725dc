//! Making listening sockets: all that one configuration needs, or none.
//!
//! A TCP socket is bound when its configuration is prepared, but begins to listen only when an acceptor opens it
//! ([`begin`]). Otherwise the kernel would give it connections, as a member of a group that shares a port, that nobody
//! accepts yet, and would reset them should the configuration fail.

use super::spec::{Address, ListenSpec, abstract_name};
use crate::namespace::in_namespace;
use crate::system;
use rustix::net::{AddressFamily, sockopt};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::ffi::OsStr;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// An address could not be listened on.
#[derive(Debug, thiserror::Error)]
#[error("{place}{what} ({}) for [{address}]", plain(.source))]
pub struct BindError {
    /// The line that asked for it, in the role's words.
    pub place: String,
    /// The address as the role asked for it.
    pub address: String,
    /// What failed, in HAProxy's words ("cannot bind socket").
    pub what: &'static str,
    /// The system's reason.
    #[source]
    pub source: io::Error,
}

impl BindError {
    fn new(spec: &ListenSpec, what: &'static str, source: io::Error) -> Self {
        Self { place: spec.place.clone(), address: spec.address.to_string(), what, source }
    }

    /// Whether another process holds the address: worth another try while that process gives it up.
    pub fn is_in_use(&self) -> bool {
        self.source.kind() == io::ErrorKind::AddrInUse
    }
}

/// The system's text for an error without the "(os error N)" that the standard library adds.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((head, _)) => head.to_owned(),
        None => text,
    }
}

/// A socket that is bound, but whose file (if it has one) does not stand at its place yet.
#[derive(Debug)]
pub(crate) struct StagedSocket {
    pub(crate) socket: OwnedFd,
    file: Option<StagedFile>,
}

/// A unix socket's file under a temporary name; removed unless moved to its place.
#[derive(Debug)]
struct StagedFile {
    temporary: PathBuf,
    place: PathBuf,
    moved: bool,
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        if !self.moved {
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

impl StagedSocket {
    /// A socket that listens already, from an old process.
    pub(crate) fn inherited(socket: OwnedFd) -> Self {
        Self { socket, file: None }
    }

    /// Moves the socket's file to its place, replacing what stood there in one step.
    pub(crate) fn commit(mut self, spec: &ListenSpec) -> Result<OwnedFd, BindError> {
        if let Some(file) = &mut self.file {
            std::fs::rename(&file.temporary, &file.place)
                .map_err(|error| BindError::new(spec, "cannot move the socket's file to its place", error))?;
            file.moved = true;
        }
        Ok(self.socket)
    }
}

/// Makes one socket for `spec`. Nothing that another process can see is replaced until it is committed.
pub(crate) fn stage(spec: &ListenSpec) -> Result<StagedSocket, BindError> {
    match &spec.address {
        Address::Ip(address) | Address::Datagrams(address) | Address::SharedDatagrams(address) => {
            let kind = if matches!(spec.address, Address::Ip(_)) { Type::STREAM } else { Type::DGRAM };
            let socket = match &spec.namespace {
                None => stage_inet(spec, *address, kind)?,
                Some(name) => in_namespace(name, || stage_inet(spec, *address, kind))
                    .map_err(|error| BindError::new(spec, "cannot enter the network namespace", error))??,
            };
            Ok(StagedSocket { socket, file: None })
        }
        Address::Unix(path) => stage_unix(spec, path),
        Address::Abstract(name) => Ok(StagedSocket { socket: stage_abstract(spec, name)?, file: None }),
        Address::Inherited(number) => Ok(StagedSocket { socket: adopt(spec, *number)?, file: None }),
        Address::SocketPair(_) => Err(BindError::new(
            spec,
            "cannot listen on a socket pair",
            io::Error::new(io::ErrorKind::Unsupported, "'sockpair@' is not supported: use 'fd@' or 'unix@'"),
        )),
    }
}

fn stage_inet(spec: &ListenSpec, address: SocketAddr, kind: Type) -> Result<OwnedFd, BindError> {
    let fail = |what| move |error| BindError::new(spec, what, error);
    let is_stream = kind == Type::STREAM;
    let protocol = if is_stream { Protocol::TCP } else { Protocol::UDP };
    let socket =
        Socket::new(Domain::for_address(address), kind, Some(protocol)).map_err(fail("cannot create a socket"))?;
    socket.set_nonblocking(true).map_err(fail("cannot create a socket"))?;
    if is_stream {
        socket.set_reuse_address(true).map_err(fail("cannot set SO_REUSEADDR"))?;
    }
    // NOTE: in every accept mode, since a reload may change the mode, and with it the number of sockets, while this
    // one stays.
    socket.set_reuse_port(true).map_err(fail("cannot set SO_REUSEPORT"))?;
    if let (SocketAddr::V6(_), Some(only)) = (address, spec.v6only) {
        socket.set_only_v6(only).map_err(fail("cannot set IPV6_V6ONLY"))?;
    }
    if spec.transparent {
        let result = match address {
            SocketAddr::V4(_) => socket.set_ip_transparent_v4(true),
            SocketAddr::V6(_) => socket.set_ip_transparent_v6(true),
        };
        result.map_err(fail("cannot make listening socket transparent"))?;
    }
    if let Some(interface) = &spec.interface {
        socket.bind_device(Some(interface.as_bytes())).map_err(fail("cannot bind listener to device"))?;
    }
    if let Some(maxseg) = spec.maxseg.filter(|_| is_stream) {
        socket.set_tcp_mss(maxseg).map_err(fail("cannot set MSS"))?;
    }
    socket.bind(&SockAddr::from(address)).map_err(fail("cannot bind socket"))?;
    set_options(spec, &socket)?;
    Ok(socket.into())
}

/// Has a socket listen, if it does not yet.
pub(crate) fn begin(spec: &ListenSpec, socket: impl AsFd) -> io::Result<()> {
    let socket = socket.as_fd();
    if !sockopt::socket_acceptconn(socket)? {
        rustix::net::listen(socket, backlog(spec))?;
    }
    Ok(())
}

/// Has a TCP socket refuse connections until [`begin`]. What waits in its queue is reset.
pub(crate) fn refuse(socket: impl AsFd) -> io::Result<()> {
    let socket = socket.as_fd();
    // A unix socket that is shut down can never listen again.
    if matches!(sockopt::socket_domain(socket)?, AddressFamily::INET | AddressFamily::INET6) {
        rustix::net::shutdown(socket, rustix::net::Shutdown::Read)?;
    }
    Ok(())
}

/// Sets what may change while the socket lives.
fn set_options(spec: &ListenSpec, socket: &Socket) -> Result<(), BindError> {
    let fail = |what| move |error| BindError::new(spec, what, error);
    if matches!(spec.address, Address::Ip(_)) {
        if spec.tcp_user_timeout.is_some() {
            socket.set_tcp_user_timeout(spec.tcp_user_timeout).map_err(fail("cannot set TCP User Timeout"))?;
        }
        if spec.tcp_fast_open {
            system::set_tcp_fast_open(socket.as_fd(), backlog(spec).unsigned_abs())
                .map_err(fail("cannot enable TCP_FASTOPEN"))?;
        }
        if spec.defer_accept {
            system::set_tcp_defer_accept(socket.as_fd(), 1).map_err(fail("cannot enable DEFER_ACCEPT"))?;
        }
    }
    Ok(())
}

/// Listens. On a socket that listens already this sets the backlog.
fn listen(spec: &ListenSpec, socket: &Socket) -> Result<(), BindError> {
    socket.listen(backlog(spec)).map_err(|error| BindError::new(spec, "cannot listen to socket", error))
}

/// Sets on a kept socket what differs between its old spec and its new one.
pub(crate) fn update(socket: &OwnedFd, old: &ListenSpec, new: &ListenSpec) -> Result<(), BindError> {
    let fail = |what| move |error| BindError::new(new, what, error);
    let socket = socket2::SockRef::from(socket);
    if matches!(new.address, Address::Ip(_)) {
        if old.tcp_user_timeout.is_some() && new.tcp_user_timeout.is_none() {
            socket.set_tcp_user_timeout(None).map_err(fail("cannot set TCP User Timeout"))?;
        }
        if old.tcp_fast_open && !new.tcp_fast_open {
            system::set_tcp_fast_open(socket.as_fd(), 0).map_err(fail("cannot disable TCP_FASTOPEN"))?;
        }
        if old.defer_accept && !new.defer_accept {
            system::set_tcp_defer_accept(socket.as_fd(), 0).map_err(fail("cannot disable DEFER_ACCEPT"))?;
        }
        if let (true, Some(maxseg)) = (old.maxseg != new.maxseg, new.maxseg) {
            socket.set_tcp_mss(maxseg).map_err(fail("cannot set MSS"))?;
        }
    }
    if let (true, Address::Unix(path)) = (old.unix != new.unix, &new.address) {
        set_permissions(new, path)?;
    }
    set_options(new, &socket)?;
    let has_queue = !matches!(new.address, Address::Datagrams(_) | Address::SharedDatagrams(_));
    if has_queue && old.backlog != new.backlog { listen(new, &socket) } else { Ok(()) }
}

fn backlog(spec: &ListenSpec) -> i32 {
    spec.backlog.map_or(i32::MAX, |backlog| i32::try_from(backlog).unwrap_or(i32::MAX))
}

fn stage_unix(spec: &ListenSpec, path: &Path) -> Result<StagedSocket, BindError> {
    let fail = |what| move |error| BindError::new(spec, what, error);
    // Bound under a temporary name and moved over the old file when the whole configuration is bound, so that there
    // is no moment without a socket at the path, and a failure leaves the old one.
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}.tmp", std::process::id()));
    let temporary = PathBuf::from(temporary);
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None).map_err(fail("cannot create a socket"))?;
    socket.set_nonblocking(true).map_err(fail("cannot create a socket"))?;
    let address = SockAddr::unix(&temporary).map_err(fail("cannot bind socket"))?;
    if let Err(error) = std::fs::remove_file(&temporary)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(BindError::new(spec, "cannot remove a file that stands in the way", error));
    }
    socket.bind(&address).map_err(fail("cannot bind socket"))?;
    let file = StagedFile { temporary, place: path.to_owned(), moved: false };
    set_permissions(spec, &file.temporary)?;
    listen(spec, &socket)?;
    Ok(StagedSocket { socket: socket.into(), file: Some(file) })
}

fn set_permissions(spec: &ListenSpec, path: &Path) -> Result<(), BindError> {
    let fail = |what| move |error| BindError::new(spec, what, error);
    let unix = &spec.unix;
    if unix.uid.is_some() || unix.gid.is_some() {
        std::os::unix::fs::chown(path, unix.uid, unix.gid).map_err(fail("cannot change UNIX socket ownership"))?;
    }
    if let Some(mode) = unix.mode {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
            .map_err(fail("cannot change UNIX socket permissions"))?;
    }
    Ok(())
}

fn stage_abstract(spec: &ListenSpec, name: &str) -> Result<OwnedFd, BindError> {
    let fail = |what| move |error| BindError::new(spec, what, error);
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None).map_err(fail("cannot create a socket"))?;
    socket.set_nonblocking(true).map_err(fail("cannot create a socket"))?;
    let name = abstract_name(name).map_err(fail("cannot bind socket"))?;
    let address = SockAddr::unix(OsStr::from_bytes(&[b"\0", name.as_slice()].concat()));
    let address = address.map_err(fail("cannot bind socket"))?;
    socket.bind(&address).map_err(fail("cannot bind socket"))?;
    listen(spec, &socket)?;
    Ok(socket.into())
}

fn adopt(spec: &ListenSpec, number: i32) -> Result<OwnedFd, BindError> {
    let fail = |what| move |error| BindError::new(spec, what, error);
    let socket = Socket::from(system::copy_inherited(number).map_err(fail("cannot use the inherited socket"))?);
    let listening = sockopt::socket_acceptconn(&socket).map_err(io::Error::from);
    if !listening.map_err(fail("cannot use the inherited socket"))? {
        // Bound but not listening yet is allowed; anything else fails here with the system's reason.
        socket.listen(backlog(spec)).map_err(fail("cannot listen to the inherited socket"))?;
    }
    socket.set_nonblocking(true).map_err(fail("cannot use the inherited socket"))?;
    Ok(socket.into())
}
