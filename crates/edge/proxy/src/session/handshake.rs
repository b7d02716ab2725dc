//! TLS with a client, before there is a session, and with a server, before a request goes to it.

use std::{
    future::poll_fn,
    io,
    rc::Rc,
    sync::{Arc, atomic::Ordering::Relaxed},
    task::Poll,
    time::Duration,
};

use live::{LiveProxy, LiveServer, Process};
use net::{Deadline, Stream};
use tls::{Connection, Connector, Failure, Handshaken};

use super::{
    fetch::{Requester, Unreachable},
    http::Session,
    proxy_protocol::Refused,
    transaction::Transaction,
};
use crate::worker::Worker;

/// How long a client's handshake may take where no timeout is configured.
pub const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// Why a client and this end speak no TLS with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsRefused {
    /// The client closed.
    Closed,
    /// It took too long.
    Timeout,
    /// There are as many TLS connections as there may be.
    TooMany,
    /// It wanted to negotiate anew.
    Renegotiation,
    /// Its certificate is not trusted.
    CertificateUntrusted,
    /// Everything else.
    Failed,
}

impl TlsRefused {
    /// What HAProxy says of it.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Closed => "Connection closed during SSL handshake",
            Self::Timeout => "Timeout during SSL handshake",
            Self::TooMany => "Too many SSL connections",
            Self::Renegotiation => "Rejected a client-initiated SSL renegotiation attempt",
            Self::CertificateUntrusted | Self::Failed => "SSL handshake failure",
        }
    }

    /// HAProxy's number of it.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Closed => 24,
            Self::Timeout => 26,
            Self::TooMany => 27,
            Self::Renegotiation => 29,
            Self::CertificateUntrusted | Self::Failed => 34,
        }
    }

    fn of(failure: &Failure) -> Self {
        match failure {
            Failure::Closed => Self::Closed,
            Failure::Renegotiation => Self::Renegotiation,
            Failure::Untrusted(_) | Failure::NoCertificate => Self::CertificateUntrusted,
            _ => Self::Failed,
        }
    }
}

/// The stream of a client, over which TLS is to be spoken if its listener says so.
pub fn expected(stream: Stream, frontend: &LiveProxy, listener: usize) -> Stream {
    match frontend.listeners.get(listener) {
        Some(listener) if listener.tls.is_some() => stream.securable(),
        _ => stream,
    }
}

/// Whether clients of a connection speak TLS.
pub fn is_expected(session: &Session) -> bool {
    session.client.stream.secure().is_some()
}

/// Negotiates with the client.
///
/// # Errors
/// When that fails, or takes too long. The connection must be closed.
pub async fn accept(session: &mut Session) -> Result<(), Refused> {
    let listener = session.side.frontend.listeners.get(session.side.listener);
    let acceptor = listener.and_then(|listener| listener.tls.as_ref()).ok_or(Refused::Reset)?;
    let stream = Rc::clone(&session.client.stream);
    let secure = stream.secure().ok_or(Refused::Reset)?;
    let worker = Rc::clone(&session.worker);
    secure.hold(TlsConnectionCount::of_client(&worker).ok_or(Refused::Tls(TlsRefused::TooMany))?);
    secure.begin(Connection::server(acceptor.now()), session.client.received.bytes());
    let received = session.client.received.len();
    session.client.received.consume(received);
    session.client.rest();
    let timeouts = &session.side.frontend.settings().timeouts;
    let limit = timeouts.http_request.or(timeouts.client).unwrap_or(HANDSHAKE_TIME);
    session.deadline.set(Some(session.worker.now() + limit));
    let deadline = &mut session.deadline;
    let done = poll_fn(|context| {
        if let Poll::Ready(done) = secure.poll_handshake(context) {
            return Poll::Ready(done.map_err(|failure| TlsRefused::of(&failure)));
        }
        deadline.poll(context).map(|()| Err(TlsRefused::Timeout))
    });
    done.await.map_err(Refused::Tls)?;
    count_key(&worker, secure.handshaken().as_deref());
    Ok(())
}

/// Counts the key of a client, if its session was not resumed.
pub fn count_key(worker: &Worker, handshaken: Option<&Handshaken>) {
    if handshaken.is_some_and(|done| !done.is_resumed) {
        worker.traffic().tls_client_keys.increment();
    }
}

/// Counts a connection over which TLS is spoken, as long as it lives.
pub struct TlsConnectionCount(Arc<Process>);

impl TlsConnectionCount {
    /// A client's, if `maxsslconn` allows one more.
    pub fn of_client(worker: &Worker) -> Option<Self> {
        let counted = Self::new(worker)?;
        worker.traffic().tls_clients.increment();
        Some(counted)
    }

    fn new(worker: &Worker) -> Option<Self> {
        let process = &worker.shared.process;
        process.tls_connections.increment();
        let counted = Self(Arc::clone(process));
        let most = u64::from(process.tls_connections_max.load(Relaxed));
        (most == 0 || process.tls_connections.value() <= most).then_some(counted)
    }
}

impl Drop for TlsConnectionCount {
    fn drop(&mut self) {
        self.0.tls_connections.decrement();
    }
}

/// The name that a server is asked for: what its `sni` makes of the request.
pub fn server_name(transaction: &Transaction, server: &LiveServer) -> Option<String> {
    let expression = server.config.tls.as_ref()?.sni.as_ref()?;
    let value = expression.string(transaction, sample::Options::REQUEST)?;
    let name = std::str::from_utf8(&value).ok()?;
    (!name.is_empty()).then(|| name.to_owned())
}

/// Negotiates with a server on a connection that stands; about these protocols, or those of its line.
///
/// # Errors
/// Why that fails.
pub async fn connect(
    worker: &Worker,
    stream: Stream,
    (connector, name, protocols): (&Connector, Option<&str>, Option<&[Vec<u8>]>),
    deadline: &mut Deadline,
    requester: &mut impl Requester,
) -> Result<Stream, Unreachable> {
    let connection = Connection::client(connector, name, protocols).map_err(Unreachable::Handshake)?;
    let stream = stream.securable();
    let Some(secure) = stream.secure() else {
        return Err(Unreachable::Refused(io::ErrorKind::Unsupported.into()));
    };
    let counted = TlsConnectionCount::new(worker);
    secure.hold(counted.ok_or_else(|| Unreachable::Refused(io::Error::other("too many TLS connections")))?);
    worker.traffic().tls_servers.increment();
    secure.begin(connection, &[]);
    poll_fn(|context| {
        if let Poll::Ready(done) = secure.poll_handshake(context) {
            return Poll::Ready(done.map_err(Unreachable::Handshake));
        }
        if let Poll::Ready(ended) = requester.poll_leaving(context) {
            return Poll::Ready(Err(ended));
        }
        deadline.poll(context).map(|()| Err(Unreachable::ConnectTimeout))
    })
    .await?;
    if secure.handshaken().is_some_and(|done| !done.is_resumed) {
        worker.traffic().tls_server_keys.increment();
    }
    Ok(stream)
}
