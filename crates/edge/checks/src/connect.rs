//! Connections of checks: opened as HAProxy opens them and closed so that they leave nothing behind.

use std::{future::poll_fn, io, net::SocketAddr};

use balance::CheckStatus;
use haproxycfg::model::{CheckConnect, CheckPort, CheckProtocol, Namespace, SendProxy, ServerAddress, ServerProtocol};
use http::proxy_protocol::tlv_type;
use live::sockets;
use net::{
    Stream, Target, abstract_address,
    connect::{ConnectOptions, apply, tcp_socket},
    socks4, source,
};
use rustix::io::Errno;
use socket2::{Domain, SockAddr, SockRef, Socket, Type};
use tokio::net::{TcpStream, UnixStream};

use super::{
    connection::Connection,
    context::{CheckContext, OPTIONS},
    subject::Subject,
};

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

/// What a connect step asks for, with its port known.
#[derive(Clone, Debug)]
pub(super) struct ConnectOrder {
    target: Target,
    proxy_header: Option<SendProxy>,
    /// The SOCKS4 proxy on the way.
    socks4: Option<SocketAddr>,
    linger: bool,
    /// The other side speaks first, so it is told at once that the connection stands.
    listens_first: bool,
    /// TLS is spoken.
    pub(super) tls: bool,
    /// The protocol that the step names.
    protocol: Option<ServerProtocol>,
    /// It goes where requests go, and as they do.
    is_default: bool,
}

impl ConnectOrder {
    /// What `step` asks for: the step's address, the one for checks, or the server's own; and likewise for the port.
    pub(super) fn of(
        subject: &Subject<'_>,
        step: &CheckConnect,
        listens_first: bool,
        context: &CheckContext<'_>,
    ) -> Self {
        let port = match &step.port {
            Some(CheckPort::Fixed(port)) => Some(*port),
            Some(CheckPort::Expression(expression)) => {
                expression.integer(context, OPTIONS).and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0)
            }
            None => None,
        };
        Self {
            target: destination(subject, step.address.as_ref(), port),
            proxy_header: proxy_header(subject, step),
            socks4: through(subject, step),
            linger: step.linger,
            listens_first,
            tls: subject.protocol != CheckProtocol::Agent && step.default && speaks_tls(subject),
            protocol: step.protocol,
            is_default: step.default,
        }
    }

    /// What HTTP checks speak: what the step, the server's `check-proto` or, where checks go as requests do, its `proto` says; otherwise
    /// what TLS has agreed on.
    pub(super) fn protocol(&self, subject: &Subject<'_>, connection: &Connection) -> ServerProtocol {
        let config = subject.server.map(|server| &server.config);
        let of_server = config.filter(|_| self.is_default).and_then(|config| {
            let goes_elsewhere = config.check_port.is_some() || config.check_address.is_some();
            config.check_protocol.or_else(|| config.protocol.filter(|_| !goes_elsewhere))
        });
        self.protocol.or(of_server).unwrap_or_else(|| match connection.stream.protocol() {
            Some("h2") => ServerProtocol::Http2,
            _ => ServerProtocol::Http1,
        })
    }
}

/// Whether a server's checks go over TLS.
fn speaks_tls(subject: &Subject<'_>) -> bool {
    subject.server.and_then(|server| server.config.tls.as_ref()).is_some_and(|tls| tls.of_checks)
}

/// Negotiates TLS on a connection that stands. The caller bounds the time.
pub(super) async fn negotiate(subject: &Subject<'_>, connection: Connection) -> Result<Connection, Refusal> {
    let refuse =
        |why: String| Refusal { status: CheckStatus::Layer6Response, info: format!("SSL handshake failure ({why})") };
    let server = subject.server.ok_or_else(|| refuse("no server".to_owned()))?;
    let (Some(connector), Some(settings)) = (&server.tls, &server.config.tls) else {
        return Err(refuse("no settings".to_owned()));
    };
    // What is asked of it afterwards is HTTP/1 or something else that no protocol was agreed on for.
    let protocols = settings.check_protocols.as_deref().unwrap_or_default();
    let client = tls::Connection::client(&connector.now(), settings.check_sni.as_deref(), Some(protocols));
    let client = client.map_err(|failure| refuse(failure.to_string()))?;
    let connection = connection.securable();
    if let Some(secure) = connection.stream.secure() {
        secure.begin(client, &[]);
        poll_fn(|context| secure.poll_handshake(context)).await.map_err(|failure| refuse(failure.to_string()))?;
    }
    Ok(connection)
}

fn destination(subject: &Subject<'_>, address: Option<&ServerAddress>, port: Option<u16>) -> Target {
    let own = &subject.target;
    let port = port.or(subject.place.port);
    let address = match address.or(subject.place.address.as_ref()) {
        Some(ServerAddress::Ip(address)) => Some(*address),
        Some(ServerAddress::Unix(path)) => return Target::Unix(path.clone()),
        Some(ServerAddress::Abstract(name)) => return Target::Abstract(name.clone()),
        Some(ServerAddress::Unresolved) | None => None,
    };
    match (address, own) {
        (None, Target::Inet(own)) => Target::Inet(SocketAddr::new(own.ip(), port.unwrap_or(own.port()))),
        (None, own) => own.clone(),
        (Some(address), Target::Inet(own)) => Target::Inet(SocketAddr::new(address, port.unwrap_or(own.port()))),
        (Some(address), _) => Target::Inet(SocketAddr::new(address, port.unwrap_or(0))),
    }
}

/// Whether the connection begins with a PROXY header, and which. Agents never get one.
fn proxy_header(subject: &Subject<'_>, step: &CheckConnect) -> Option<SendProxy> {
    let config = subject.server.map(|server| &server.config);
    let as_server = config.is_some_and(|config| {
        let elsewhere = config.check_port.is_some() || config.check_address.is_some();
        config.check_send_proxy || !elsewhere && config.send_proxy.is_some()
    });
    let is_agent = subject.protocol == CheckProtocol::Agent;
    let wanted = step.send_proxy || step.default && !is_agent && as_server;
    wanted.then(|| config.and_then(|config| config.send_proxy).unwrap_or(SendProxy::V1))
}

/// The SOCKS4 proxy on the way of a check.
fn through(subject: &Subject<'_>, step: &CheckConnect) -> Option<SocketAddr> {
    let config = &subject.server?.config;
    let as_server = subject.protocol != CheckProtocol::Agent && config.check_via_socks4;
    config.socks4.filter(|_| step.via_socks4 || step.default && as_server)
}

/// Opens a connection and waits until it stands and the PROXY header, if any, is sent. The caller bounds the time.
pub(super) async fn connect(subject: &Subject<'_>, wanted: &ConnectOrder) -> Result<Connection, Refusal> {
    // HAProxy: what fails before a TCP connection stands is a connection problem, but a unix socket's is a socket error.
    let status = match wanted.target {
        Target::Inet(_) => CheckStatus::Layer4Connection,
        Target::Unresolved | Target::Unix(_) | Target::Abstract(_) => CheckStatus::SocketError,
    };
    let refuse = |info| Refusal { status, info };
    let stream = match &wanted.target {
        Target::Unresolved => return Err(refuse(String::new())),
        Target::Inet(address) => match wanted.socks4 {
            None => connect_tcp(subject, wanted, *address).await.map_err(refuse)?,
            Some(socks) => {
                let stream = connect_tcp(subject, wanted, socks).await.map_err(refuse)?;
                socks4::ask(&stream, *address).await.map_err(|error| refuse(words(&error)))?;
                stream
            }
        },
        Target::Unix(path) => connect_unix(SockAddr::unix(path)).await.map_err(refuse)?,
        Target::Abstract(name) => connect_unix(abstract_address(name)).await.map_err(refuse)?,
    };
    let connection = Connection::new(stream, wanted.linger);
    if let Some(version) = wanted.proxy_header {
        let mut header = Vec::new();
        match version {
            SendProxy::V1 => {
                let (local, peer) = (connection.stream.local_address(), connection.stream.peer_address());
                http::proxy_protocol::encode_v1(local.zip(peer), &mut header);
            }
            SendProxy::V2 => {
                let ends = connection.stream.local_address().zip(connection.stream.peer_address());
                let ends = ends.filter(|_| subject.proxy.config.global.pp2_never_send_local);
                let options = subject.server.map(|server| server.config.proxy_options).unwrap_or_default();
                let checksum = options.crc32c.then_some((tlv_type::CRC32C, &[0; 4][..]));
                let tls = options.tls.then_some((tlv_type::SSL, &[0; 5][..]));
                let tlvs: Vec<(u8, &[u8])> = checksum.into_iter().chain(tls).collect();
                http::proxy_protocol::encode_v2(ends, &tlvs, &mut header);
            }
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

async fn connect_tcp(subject: &Subject<'_>, wanted: &ConnectOrder, address: SocketAddr) -> Result<Stream, String> {
    let (proxy, server) = (subject.proxy, subject.server);
    let settings = proxy.settings();
    let from = server.and_then(|server| server.config.source.as_ref()).or(settings.source.as_ref());
    let from = from.map(|from| sockets::source(from, None));
    let mut ports = source::ports(from).peekable();
    let socket = loop {
        match start_tcp(subject, wanted, address, from, ports.next().unwrap_or_default()).await {
            Err((error, _)) if ports.peek().is_some() && source::is_port_taken(&error) => {}
            started => break started.map_err(|(_, words)| words)?,
        }
    };
    let stream = TcpStream::from_std(socket.into()).map_err(|error| at_once(&error))?;
    stream.writable().await.map_err(|error| words(&error))?;
    match SockRef::from(&stream).take_error() {
        Ok(None) => Ok(Stream::Tcp(stream)),
        Ok(Some(error)) | Err(error) => Err(words(&error)),
    }
}

/// A socket that connects, from this port if the source is a range of them; with an error, HAProxy's words for it.
async fn start_tcp(
    subject: &Subject<'_>,
    wanted: &ConnectOrder,
    address: SocketAddr,
    from: Option<source::Source<'_>>,
    port: u16,
) -> Result<Socket, (io::Error, String)> {
    let (proxy, server) = (subject.proxy, subject.server);
    let settings = proxy.settings();
    let tune = &proxy.config.global.tune;
    let namespace = match server.and_then(|server| server.config.namespace.as_ref()) {
        Some(Namespace::Named(name)) => Some((&**name, &proxy.process.namespaces)),
        Some(Namespace::FromProxyHeader) | None => None,
    };
    let with = |words: String, error: io::Error| (error, words);
    let socket = tcp_socket(address, namespace).await.map_err(|error| with(at_once(&error), error))?;
    let options = ConnectOptions {
        keepalive: settings.options.srvtcpka.then(|| sockets::keepalive(settings.server_keepalive)),
        user_timeout: server.and_then(|server| server.config.tcp_user_timeout),
        receive_buffer: tune.rcvbuf_server,
        send_buffer: tune.sndbuf_server,
        ..ConnectOptions::default()
    };
    // An option that is refused costs no check.
    let _ = socket.set_tcp_nodelay(true);
    let _ = apply(&socket, options);
    if let Some(from) = from {
        source::bind(&socket, from, port).map_err(|error| {
            let text = match (from.ports, error.kind()) {
                (Some(_), io::ErrorKind::AddrInUse) => "Source port range exhausted",
                _ => "Can't bind to source address",
            };
            with(with_reason(text, &error), error)
        })?;
    }
    // The first bytes, or the reset, then carry the acknowledgement that ends the handshake: a server is not bothered
    // with connections that only check whether its port is open.
    if !wanted.listens_first {
        let _ = socket.set_tcp_quickack(false);
    }
    match socket.connect(&address.into()) {
        Err(error) if error.raw_os_error() != Some(Errno::INPROGRESS.raw_os_error()) => {
            Err(with(at_once(&error), error))
        }
        _ => Ok(socket),
    }
}

async fn connect_unix(address: io::Result<SockAddr>) -> Result<Stream, String> {
    let address = address.map_err(|error| at_once(&error))?;
    let socket =
        Socket::new(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None).map_err(|error| at_once(&error))?;
    socket.connect(&address).map_err(|error| at_once(&error))?;
    let stream = UnixStream::from_std(socket.into()).map_err(|error| at_once(&error))?;
    Ok(Stream::Unix(stream))
}
