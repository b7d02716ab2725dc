//! Connections of checks: opened as HAProxy opens them and closed so that they leave nothing behind.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use balance::CheckStatus;
use haproxycfg::model::{SendProxy, ServerAddress};
use rustix::io::Errno;
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};
use tokio::net::{TcpStream, UnixStream};

use crate::{
    live::{LiveProxy, LiveServer, Target},
    net::{
        Stream,
        connect::{ConnectOptions, apply, bind_source},
    },
};

/// Reads that empty a socket before it is closed.
const DRAIN_READS_MAX: usize = 2;
const DRAIN_BYTES: usize = 16 * 1024;

/// Why there is no connection.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: CheckStatus,
    pub(super) info: String,
}

/// The system's words for an error, without its number.
pub(super) fn words(error: &io::Error) -> String {
    let text = error.to_string();
    match text.rfind(" (os error ") {
        Some(end) => text.get(..end).unwrap_or_default().to_owned(),
        None => text,
    }
}

/// What a connect step asks for; all of it is optional.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ConnectStep {
    pub(super) port: Option<u16>,
    pub(super) address: Option<IpAddr>,
    pub(super) send_proxy: bool,
    pub(super) linger: bool,
    /// As the server's own connections.
    pub(super) default: bool,
}

/// A connection of a check.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: Stream,
    linger: bool,
}

/// Where a check connects to: the step's address, the one for checks, or the server's own; and likewise for the port.
pub(super) fn destination(server: &LiveServer, step: &ConnectStep) -> Target {
    let own = server.target();
    let place = server.check_place();
    let address = match (step.address, place.address) {
        (Some(address), _) => Some(address),
        (None, Some(ServerAddress::Ip(address))) => Some(address),
        (None, Some(ServerAddress::Unix(path))) => return Target::Unix(path),
        (None, Some(ServerAddress::Abstract(name))) => return Target::Abstract(name),
        (None, Some(ServerAddress::Unresolved) | None) => None,
    };
    let port = step.port.or(place.port);
    match (address, own) {
        (None, Target::Inet(own)) => Target::Inet(SocketAddr::new(own.ip(), port.unwrap_or(own.port()))),
        (None, own) => own,
        (Some(address), Target::Inet(own)) => Target::Inet(SocketAddr::new(address, port.unwrap_or(own.port()))),
        (Some(address), _) => Target::Inet(SocketAddr::new(address, port.unwrap_or(0))),
    }
}

/// Whether the connection begins with a PROXY header, and which.
fn proxy_header(server: &LiveServer, step: &ConnectStep) -> Option<SendProxy> {
    let config = &server.config;
    let elsewhere = config.check_port.is_some() || config.check_address.is_some();
    let wanted =
        step.send_proxy || step.default && (config.check_send_proxy || !elsewhere && config.send_proxy.is_some());
    wanted.then(|| config.send_proxy.unwrap_or(SendProxy::V1))
}

/// Opens a connection and waits until it stands and the PROXY header, if any, is sent. The caller bounds the time.
pub(super) async fn connect(proxy: &LiveProxy, server: &LiveServer, step: &ConnectStep) -> Result<Connection, Refusal> {
    let target = destination(server, step);
    // HAProxy: what fails before a TCP connection stands is a connection problem, but a unix socket's is a socket error.
    let status = match target {
        Target::Inet(_) => CheckStatus::Layer4Connection,
        Target::Unresolved | Target::Unix(_) | Target::Abstract(_) => CheckStatus::SocketError,
    };
    let refuse = |info| Refusal { status, info };
    let stream = match &target {
        Target::Unresolved => return Err(refuse(String::new())),
        Target::Inet(address) => connect_tcp(proxy, server, *address).await.map_err(refuse)?,
        Target::Unix(path) => connect_unix(path).await.map_err(refuse)?,
        Target::Abstract(name) => connect_unix(&format!("\0{name}")).await.map_err(refuse)?,
    };
    let connection = Connection { stream, linger: step.linger };
    if let Some(version) = proxy_header(server, step) {
        let mut header = Vec::new();
        match version {
            SendProxy::V1 => {
                let (local, peer) = (connection.stream.local_address(), connection.stream.peer_address());
                http::proxy_protocol::encode_v1(local.zip(peer), &mut header);
            }
            SendProxy::V2 => http::proxy_protocol::encode_v2_local(&mut header),
        }
        connection.write(&header).await.map_err(|error| refuse(words(&error)))?;
    }
    Ok(connection)
}

fn with_reason(text: &str, error: &io::Error) -> String {
    format!("{text} ({})", words(error))
}

/// HAProxy's words for what `socket` and `connect` refuse at once.
fn at_once(error: &io::Error) -> String {
    let text = match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NFILE) => "Too many sockets on the system",
        Some(Errno::MFILE) => "Too many sockets on the process",
        Some(Errno::NOBUFS | Errno::NOMEM) => "Out of system buffers",
        Some(Errno::AFNOSUPPORT | Errno::PROTONOSUPPORT) => "Protocol or address family not supported",
        Some(Errno::AGAIN | Errno::ADDRNOTAVAIL) => "Out of local source ports on the system",
        Some(Errno::ADDRINUSE) => "Local source address already in use",
        _ => "General socket error",
    };
    with_reason(text, error)
}

async fn connect_tcp(proxy: &LiveProxy, server: &LiveServer, address: SocketAddr) -> Result<Stream, String> {
    let settings = proxy.settings();
    let source = server.config.source.as_ref().or(settings.source.as_ref());
    let tune = &proxy.config.global.tune;
    let kind = Type::STREAM.nonblocking().cloexec();
    let socket =
        Socket::new(Domain::for_address(address), kind, Some(Protocol::TCP)).map_err(|error| at_once(&error))?;
    let options = ConnectOptions {
        keepalive: settings.options.srvtcpka.then_some(settings.server_keepalive),
        user_timeout: server.config.tcp_user_timeout,
        receive_buffer: tune.rcvbuf_server,
        send_buffer: tune.sndbuf_server,
        ..ConnectOptions::default()
    };
    // An option that is refused costs no check.
    let _ = socket.set_tcp_nodelay(true);
    let _ = apply(&socket, options);
    if let Some(source) = source {
        bind_source(&socket, source, None).map_err(|error| match (source.ports, error.kind()) {
            (Some(_), io::ErrorKind::AddrInUse) => with_reason("Source port range exhausted", &error),
            _ => with_reason("Can't bind to source address", &error),
        })?;
    }
    // The first bytes, or the reset, then carry the acknowledgement that ends the handshake: a server is not bothered
    // with connections that only check whether its port is open.
    let _ = socket.set_tcp_quickack(false);
    match socket.connect(&address.into()) {
        Err(error) if error.raw_os_error() != Some(Errno::INPROGRESS.raw_os_error()) => return Err(at_once(&error)),
        _ => {}
    }
    let stream = TcpStream::from_std(socket.into()).map_err(|error| at_once(&error))?;
    stream.writable().await.map_err(|error| words(&error))?;
    match SockRef::from(&stream).take_error() {
        Ok(None) => Ok(Stream::Tcp(stream)),
        Ok(Some(error)) | Err(error) => Err(words(&error)),
    }
}

async fn connect_unix(name: &str) -> Result<Stream, String> {
    let address = SockAddr::unix(name).map_err(|error| at_once(&error))?;
    let socket =
        Socket::new(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None).map_err(|error| at_once(&error))?;
    socket.connect(&address).map_err(|error| at_once(&error))?;
    let stream = UnixStream::from_std(socket.into()).map_err(|error| at_once(&error))?;
    Ok(Stream::Unix(stream))
}

impl Connection {
    /// Writes all of `bytes`.
    pub(super) async fn write(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.stream.try_write(bytes) {
                Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable().await?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn writable(&self) -> io::Result<()> {
        std::future::poll_fn(|context| self.stream.poll_writable(context)).await
    }

    /// Reads what there is, up to the length of `room`; 0 is the end.
    pub(super) async fn read(&self, room: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.stream.try_read(room) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.stream.readable().await?,
                result => return result,
            }
        }
    }

    /// Closes: with a reset, so that no socket of thousands of checks lingers, unless the server has closed already.
    pub(super) fn close(self) {
        if self.linger || !matches!(self.stream, Stream::Tcp(_)) {
            return;
        }
        let mut room = [0; DRAIN_BYTES];
        for _ in 0..DRAIN_READS_MAX {
            match self.stream.try_read(&mut room) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return,
            }
        }
        let _ = SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
    }
}
