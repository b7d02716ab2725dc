//! Connections of QUIC before there is HTTP/3 on them.

use std::{
    future::poll_fn,
    net::{IpAddr, SocketAddr},
    rc::Rc,
    sync::Arc,
    task::Poll,
};

use live::{Instance, LiveProxy};
use net::{MemoryStream, Stream};
use quic::{Event, Lost, Terms};
use runtime::ConnectionGuard;
use tls::Acceptor;

use crate::{
    registry::Order,
    session::{
        Arrival, Counted, HttpSession, begin,
        handshake::{HANDSHAKE_TIME, TlsRefused},
        proxy_protocol::Refused,
        transaction::ClientSide,
    },
    worker::{Running, Worker},
};

/// A client that may begin a connection.
pub struct Offer {
    /// What it has sent.
    pub arrival: quic::Arrival,
    /// What it is accepted under.
    pub terms: Terms,
    /// The listener's certificates.
    pub acceptor: Arc<Acceptor>,
    /// The port that it speaks with.
    pub port: u16,
    /// Counts it in its frontend.
    pub counted: Counted,
    /// Counts it for its worker's listener.
    pub guard: ConnectionGuard,
    /// Counts it for its worker.
    pub running: Running,
}

/// A connection whose client and server have not shaken hands.
pub struct Begun {
    pub session: Box<HttpSession>,
    pub quic: quic::Connection,
}

/// Begins a connection, unless a rule is against it or it fails at once.
pub fn accept(
    worker: &Rc<Worker>,
    instance: &Arc<Instance>,
    frontend: &Arc<LiveProxy>,
    listener: usize,
    offer: Offer,
) -> Option<Begun> {
    let Offer { arrival, terms, acceptor, port, counted, guard, running } = offer;
    let destination = arrival.to().map(|ip: IpAddr| SocketAddr::new(ip, port));
    // NOTE: what HTTP/1 and HTTP/2 have a socket for. Nobody is at the other end.
    let (stream, _) = MemoryStream::pair(0);
    let come = Arrival { stream: Stream::Memory(stream), source: arrival.from(), destination, counted, guard, running };
    let Some((mut session, _)) = begin(Rc::clone(worker), Arc::clone(instance), Arc::clone(frontend), listener, come)
    else {
        arrival.refuse();
        return None;
    };
    let quic = arrival.accept(&terms, acceptor, worker.now())?;
    if let Some(side) = Rc::get_mut(&mut session.side) {
        side.stream = None;
    }
    Some(Begun { session, quic })
}

/// Shakes hands with the client.
///
/// # Errors
/// When that fails, or takes too long; what the client is told of it is on its way then.
pub async fn shake_hands(session: &mut HttpSession, quic: &mut quic::Connection) -> Result<(), Refused> {
    let timeouts = &session.side.frontend.settings().timeouts;
    let limit = session.worker.now() + timeouts.http_request.or(timeouts.client).unwrap_or(HANDSHAKE_TIME);
    let HttpSession { worker, registered, deadline, .. } = session;
    let done = poll_fn(|context| {
        let now = worker.now();
        registered.handle.listen(context);
        quic.take_input(now);
        let mut done = None;
        while done.is_none()
            && let Some(event) = quic.poll_event()
        {
            done = match event {
                Event::Connected => Some(Ok(())),
                Event::Lost(Lost::Closed) => Some(Err(TlsRefused::Closed)),
                Event::Lost(Lost::TimedOut) => Some(Err(TlsRefused::Timeout)),
                Event::Lost(Lost::Failed) => Some(Err(TlsRefused::Failed)),
                _ => None,
            };
        }
        if done.is_none() && (now >= limit || registered.handle.order() == Order::Abort) {
            quic.close(now, h3::ErrorCode::NO_ERROR.0, "");
            done = Some(Err(TlsRefused::Timeout));
        }
        quic.flush(now, context);
        if let Some(done) = done {
            return Poll::Ready(done);
        }
        quic.listen(context);
        deadline.set(Some(quic.timeout().map_or(limit, |at| at.min(limit))));
        if deadline.poll_at(now, context).is_ready() {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    });
    done.await.map_err(Refused::Tls)?;
    let variables = session.instance.stream_variables();
    let side = session.side.under(Arc::clone(&session.side.frontend), variables);
    session.side = Rc::new(ClientSide { handshaken: quic.handshaken(), ..side });
    Ok(())
}
