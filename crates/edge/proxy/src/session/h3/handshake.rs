//! Connections of QUIC before there is HTTP/3 on them.

use std::{
    future::poll_fn,
    net::SocketAddr,
    rc::Rc,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

use live::{Instance, LiveProxy};
use net::{Deadline, MemoryStream, Stream};
use quic::{Lost, Terms};
use runtime::ConnectionGuard;
use tls::{Acceptor, Handshaken};

use crate::{
    session::{
        Arrival, Counted, Denied, HttpSession, begin,
        handshake::{HANDSHAKE_TIME, TlsRefused},
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

/// What a session needs that begins once client and server have shaken hands.
pub struct Awaited {
    pub worker: Rc<Worker>,
    pub instance: Arc<Instance>,
    pub frontend: Arc<LiveProxy>,
    pub listener: usize,
    pub source: Option<SocketAddr>,
    pub destination: Option<SocketAddr>,
    pub since: Instant,
    pub guards: (Counted, ConnectionGuard, Running),
}

impl Awaited {
    /// How long the endpoint ignores a client that was dropped without a word. The client has given up before that.
    pub fn silence_time(&self) -> Duration {
        /// Where connections may be silent for ever.
        const LONGEST: Duration = Duration::from_secs(60);
        let idle = self.instance.config.global.tune.quic.idle_timeout;
        if idle.is_zero() { LONGEST } else { idle * 2 }
    }

    /// The session, unless a rule is against it.
    pub fn begin(self, handshaken: Option<Arc<Handshaken>>) -> Result<Box<HttpSession>, Denied> {
        let Self { worker, instance, frontend, listener, source, destination, since, guards } = self;
        let (counted, guard, running) = guards;
        // NOTE: what HTTP/1 and HTTP/2 have a socket for. Nobody is at the other end.
        let (stream, _) = MemoryStream::pair(0);
        let arrival = Arrival { stream: Stream::Memory(stream), source, destination, counted, guard, running };
        let (mut session, _) = begin(worker, instance, frontend, listener, arrival)?;
        if let Some(side) = Rc::get_mut(&mut session.side) {
            (side.stream, side.handshaken, side.accepted) = (None, handshaken, since);
        }
        Ok(session)
    }

    /// Shakes hands with the client.
    ///
    /// # Errors
    /// When that fails, or takes too long; what the client is told of it is on its way then.
    pub async fn shake_hands(&self, quic: &mut quic::Connection) -> Result<(), TlsRefused> {
        let timeouts = &self.frontend.settings().timeouts;
        let limit = self.since + timeouts.http_request.or(timeouts.client).unwrap_or(HANDSHAKE_TIME);
        let mut deadline = Deadline::default();
        poll_fn(|context| {
            let now = self.worker.now();
            quic.take_input(now);
            let mut done = quic.poll_handshake().map(|done| {
                done.map_err(|lost| match lost {
                    Lost::Closed => TlsRefused::Closed,
                    Lost::TimedOut => TlsRefused::Timeout,
                    Lost::Failed => TlsRefused::Failed,
                })
            });
            if done.is_none() && now >= limit {
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
        })
        .await
    }
}
