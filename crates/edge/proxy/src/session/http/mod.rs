//! HTTP/1: the life of a client connection, request after request.
//!
//! ```text
//!  idle ──▶ receive ──▶ Exchange::answer ──▶ finish ──▶ idle
//!   │          │                               └──────▶ closed
//!   └ closed   └ 400, 408
//! ```
//!
//! Between two requests a connection holds its socket, its registration and little else. Everything that a request needs
//! comes with its [`Transaction`] and goes with it. The connection knows its wire, receives heads and lends itself to one
//! [`Exchange`] after the other; what becomes of a request is the exchange's matter.

mod parked;
mod receive;
#[cfg(test)]
mod scenes;
#[cfg(test)]
mod simulation;
mod stream;
#[cfg(test)]
mod tests;

pub use self::parked::Parked;

use std::{
    future::poll_fn,
    rc::Rc,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

use accelerator::log::CloseReason;
use http::Limits;
use live::{ConnectionSettings, ConnectionTimeouts, Instance, counters::Traffic};
use net::Deadline;

use self::receive::Failure;
use super::{
    ConnectionGuards,
    ending::{Ending, Stage},
    exchange::{Exchange, Next},
    pinned::PinnedConnections,
    protocol::Protocol,
    transaction::{ClientSide, Transaction},
    varnish_log,
    wire::Wire,
};
use crate::{
    registry::{Order, Registered},
    worker::Worker,
};

/// A client connection in HTTP mode.
pub struct Session {
    /// The worker that runs it.
    pub worker: Rc<Worker>,
    /// The configuration that its next request runs under.
    pub instance: Arc<Instance>,
    /// The client's connection.
    pub side: Rc<ClientSide>,
    /// Its socket and buffers.
    pub client: Wire,
    /// Its place among the worker's connections.
    pub registered: Registered,
    /// Its timer.
    pub deadline: Deadline,
    /// Whether the next request is its first.
    pub first: bool,
    /// Whether it could not be parked in this silence.
    pub stays_awake: bool,
    /// Whether the client has begun with HTTP/2's preface, and is to be served so.
    pub begins_http2: bool,
    /// When the wait for the next request began.
    pub idle_since: Instant,
    /// How long it may be silent, if a program has said so.
    pub idle_wish: Option<Duration>,
    /// A server connection that only this client may use (`http-reuse never`).
    pub kept: PinnedConnections,
    /// What counts it as long as it lives.
    pub held: ConnectionGuards,
}

/// How long a connection keeps its task and the memory of its last request for the next one.
const SILENCE_TIME: Duration = Duration::from_secs(1);

/// The same where there are many, so that a rush of clients that each ask once does not cost the memory of as many tasks.
const CROWDED_SILENCE_TIME: Duration = Duration::from_millis(20);

/// How many connections of a worker keep the memory of a request; with more it is crowded.
const WARM_MAX: usize = 512;

/// How long an idle connection that is to end waits for a request that may be on its way, which is answered with
/// `connection: close`: closing at once would lose it.
pub const LAST_REQUEST_TIME: Duration = Duration::from_secs(1);

/// Serves a client until its connection ends, or until it is so silent that it can be parked. `speaks` says that its
/// socket is known to have something. A connection whose client begins with HTTP/2 is given back.
pub async fn serve(mut session: Box<Session>, speaks: bool) -> Option<Box<Session>> {
    session.client.readable |= speaks;
    let mut wait = if speaks { Wait::Request } else { session.wait_for_request().await };
    loop {
        match wait {
            Wait::Request => match Box::pin(session.requests()).await {
                Next::KeepAlive => {}
                Next::Close if session.begins_http2 => return Some(session),
                Next::Close => {
                    if session.client.stream.secure().is_some() {
                        Box::pin(session.say_end()).await;
                    }
                    return None;
                }
                Next::Linger => {
                    Box::pin(session.linger()).await;
                    return None;
                }
            },
            Wait::Over => return None,
            Wait::Silence => match session.park() {
                Ok(()) => return None,
                Err(unparked) => session = unparked,
            },
        }
        wait = session.wait_for_request().await;
    }
}

/// How the wait for a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// There is one, or something to be said about there being none.
    Request,
    /// The connection is over.
    Over,
    /// Nothing came for a while.
    Silence,
}

/// Counts a connection that keeps the memory of a request.
struct Warm(Rc<Worker>);

impl Warm {
    fn count(worker: &Rc<Worker>) -> Self {
        worker.warm.set(worker.warm.get() + 1);
        Self(Rc::clone(worker))
    }
}

impl Drop for Warm {
    fn drop(&mut self) {
        self.0.warm.set(self.0.warm.get() - 1);
    }
}

impl Session {
    /// This worker's part of the frontend's numbers.
    pub fn traffic(&self) -> &Traffic {
        self.side.frontend.frontend.traffic.of(self.worker.index)
    }

    /// Lends itself to an exchange.
    fn exchange(&mut self) -> Exchange<'_, Wire> {
        Exchange {
            worker: &self.worker,
            instance: &self.instance,
            side: &self.side,
            handle: &self.registered.handle,
            client: &mut self.client,
            deadline: &mut self.deadline,
            kept: &mut self.kept,
            idle_wish: &mut self.idle_wish,
        }
    }

    /// From now on the client speaks HTTP/2.
    pub fn speaks_http2(&mut self) {
        let variables = self.instance.stream_variables();
        let side = self.side.under(Arc::clone(&self.side.frontend), variables);
        self.side = Rc::new(ClientSide { protocol: Protocol::Http2, ..side });
        self.registered.handle.http_version.set(Protocol::Http2.major());
    }

    /// What a request may be.
    pub fn limits(&self) -> Limits {
        self.side.request_limits(&self.instance)
    }

    /// How long the connection may be silent, if varnishd's parameters say so.
    fn connection_timeouts(&self) -> Option<ConnectionTimeouts> {
        let timeouts = self.side.frontend.varnishd().map(ConnectionSettings::timeouts)?;
        Some(ConnectionTimeouts { idle: self.idle_wish.unwrap_or(timeouts.idle), ..timeouts })
    }

    /// Whether the connection should end as soon as nothing is in flight.
    pub fn is_leaving(&self) -> bool {
        self.worker.lets_go_of(&self.registered.handle)
    }

    /// Goes on under the configuration that runs now, if it still has this frontend and listener.
    pub fn adopt_instance(&mut self) {
        if self.worker.runs(&self.instance) {
            return;
        }
        let current = self.worker.instance();
        let name = &self.side.frontend.settings().name;
        let successor = current.proxies.iter().find(|proxy| {
            let settings = proxy.settings();
            settings.kind.has_frontend() && settings.name == *name && settings.mode == haproxycfg::model::Mode::Http
        });
        match successor {
            Some(frontend) if frontend.listeners.get(self.side.listener).is_some() => {
                self.side = Rc::new(self.side.under(Arc::clone(frontend), current.stream_variables()));
                self.instance = current;
            }
            // The frontend is gone: the connection ends when it is idle next.
            _ => self.registered.handle.finish(),
        }
    }

    /// Serves requests as long as they follow each other closely. All that a request needs is allocated here once; a
    /// connection that falls silent gives it back.
    pub(super) async fn requests(&mut self) -> Next {
        let warm = Warm::count(&self.worker);
        let mut transaction = Transaction::new(Arc::clone(&self.instance), Rc::clone(&self.side), &self.worker);
        let next = loop {
            self.adopt_instance();
            transaction.restart(&self.instance, &self.side, self.worker.random());
            let next = self.transact(&mut transaction).await;
            if next != Next::KeepAlive {
                break next;
            }
            self.first = false;
            self.stays_awake = false;
            self.idle_since = self.worker.now();
            self.client.rest();
            if !self.client.received.is_empty() {
                if let Some(Some(session)) = self.side.session_log.get() {
                    session.count_readahead();
                }
                // NOTE: pipelined requests wait for nothing, so the task has to give way to others by itself.
                tokio::task::coop::consume_budget().await;
            }
            let is_crowded = self.worker.warm.get() > WARM_MAX;
            if is_crowded {
                break Next::KeepAlive;
            }
            match self.wait_for_request().await {
                Wait::Request => {}
                Wait::Over => break Next::Close,
                Wait::Silence => break Next::KeepAlive,
            }
        };
        self.worker.heads.give(transaction.take_heads());
        self.worker.heads.reclaim_output(&mut self.client.output);
        drop(warm);
        next
    }

    /// When the wait for the next request has taken too long.
    fn idle_until(&self) -> Option<Instant> {
        let timeouts = &self.side.frontend.settings().timeouts;
        if let Some(timeouts) = self.connection_timeouts() {
            return Some(self.idle_since + timeouts.idle);
        }
        let limit = if self.first {
            timeouts.http_request.or(timeouts.client)
        } else {
            timeouts.http_keep_alive.or(timeouts.http_request).or(timeouts.client)
        };
        limit.map(|limit| self.idle_since + limit)
    }

    /// Leaves the task: an idle connection needs none. What cannot be parked is given back and stays awake.
    fn park(self: Box<Self>) -> Result<(), Box<Self>> {
        let until = self.idle_until();
        let worker = Rc::clone(&self.worker);
        worker.parking.park(self, until).map_err(|mut session| {
            session.stays_awake = true;
            session
        })
    }

    /// Waits for the first byte of a request.
    async fn wait_for_request(&mut self) -> Wait {
        if !self.client.received.is_empty() {
            return Wait::Request;
        }
        let until = self.idle_until();
        let is_crowded = self.worker.registry.open() > WARM_MAX;
        let silent_at = self.idle_since + if is_crowded { CROWDED_SILENCE_TIME } else { SILENCE_TIME };
        // One that is told to end waits here for that: parked, it would be woken again at once.
        let silent_at = Some(silent_at).filter(|_| !self.is_leaving() && !self.stays_awake);
        self.deadline.set(match (until, silent_at) {
            (Some(until), Some(silent_at)) => Some(until.min(silent_at)),
            (until, silent_at) => until.or(silent_at),
        });
        let (handle, client, worker) = (&self.registered.handle, &mut self.client, &self.worker);
        let deadline = &mut self.deadline;
        let first = self.first;
        let mut leaving = false;
        // `option idle-close-on-response`: a stop ends connections with their next response, not before.
        let stays = self.side.frontend.settings().options.idle_close_on_response;
        let ready = poll_fn(|context| {
            handle.listen(context);
            if handle.order() == Order::Abort {
                return Poll::Ready(Wait::Over);
            }
            if client.poll_readable(context).is_ready() {
                client.readable = true;
                return Poll::Ready(Wait::Request);
            }
            if !first && !leaving && !stays && (worker.draining.get() || handle.order() == Order::Finish) {
                leaving = true;
                let last = worker.now() + LAST_REQUEST_TIME;
                deadline.set(Some(until.map_or(last, |until| until.min(last))));
            }
            deadline.poll_at(worker.now(), context).map(|()| match (until, first) {
                _ if leaving => Wait::Over,
                (Some(until), first) if until <= worker.now() => {
                    // A first request that never began is answered and logged by `receive`.
                    if first { Wait::Request } else { Wait::Over }
                }
                _ => Wait::Silence,
            })
        });
        let wait = ready.await;
        if wait == Wait::Over && until.is_some_and(|until| until <= self.worker.now()) {
            varnish_log::closes(&self.side, CloseReason::RxCloseIdle);
        }
        wait
    }

    /// One request from its first byte to its log line.
    async fn transact(&mut self, transaction: &mut Transaction) -> Next {
        transaction.asked.is_follower = !self.first;
        self.worker.heads.lend_output(&mut self.client.output);
        transaction.timeline.idle_since = Some(self.idle_since);
        let next = match self.receive(transaction).await {
            Ok(body) => self.exchange().answer(transaction, body).await,
            Err(Failure::BeginsHttp2) => {
                self.begins_http2 = true;
                return Next::Close;
            }
            Err(failure) => Box::pin(self.no_request(transaction, &failure)).await,
        };
        match transaction.ending {
            Ending::ClientLeft(Stage::Data) | Ending::ClientTimedOut(Stage::Data) => {
                varnish_log::closes(&self.side, CloseReason::TxError);
            }
            _ => {}
        }
        transaction.finish(&self.worker);
        self.registered.handle.rests();
        next
    }

    /// Tells a client of TLS that no more comes, which its socket may have no room for before it has read something: without that a
    /// body that ends with its connection is one that was cut off.
    async fn say_end(&mut self) {
        let limit = self.side.frontend.settings().timeouts.client;
        self.deadline.set(limit.map(|limit| self.worker.now() + limit));
        let (stream, deadline) = (&self.client.stream, &mut self.deadline);
        poll_fn(|context| match stream.poll_shut_write(context) {
            Poll::Ready(_) => Poll::Ready(()),
            Poll::Pending => deadline.poll(context),
        })
        .await;
    }

    /// Lets the client read what it was sent although it has not finished sending: closing with unread bytes would reset
    /// the connection and lose the response (RFC 9112 section 9.6). A client that has not got yet what
    /// the system has taken, and then says something from time to time, as one of HTTP/2 does that reads, has `timeout client` for that.
    pub async fn linger(mut self: Box<Self>) {
        const LINGER_TIME: Duration = Duration::from_secs(2);
        const LINGER_BYTES_MAX: usize = 4 * 1024 * 1024;
        let patience = self.side.frontend.settings().timeouts.client.unwrap_or(LINGER_TIME).max(LINGER_TIME);
        let began_at = self.worker.now();
        self.deadline.set(Some(began_at + LINGER_TIME));
        let (client, deadline, worker) = (&mut self.client, &mut self.deadline, &self.worker);
        let (mut drained, mut drained_before, mut is_shut, mut is_slow) = (0, 0, false, false);
        poll_fn(|context| {
            is_shut = is_shut || client.stream.poll_shut_write(context).is_ready();
            loop {
                let waiting = client.received.len();
                client.received.consume(waiting);
                match client.poll_receive(context) {
                    Poll::Ready(Ok(count)) if count > 0 && drained < LINGER_BYTES_MAX => drained += count,
                    Poll::Ready(_) => return Poll::Ready(()),
                    Poll::Pending => {
                        std::task::ready!(deadline.poll(context));
                        let (now, is_undelivered) = (worker.now(), client.stream.has_undelivered());
                        is_slow |= is_undelivered;
                        let reads = is_undelivered || is_slow && drained > drained_before;
                        if now >= began_at + patience || !reads {
                            return Poll::Ready(());
                        }
                        drained_before = drained;
                        deadline.set(Some(now + LINGER_TIME));
                    }
                }
            }
        })
        .await;
    }
}
