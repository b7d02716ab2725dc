//! One request and its answer, whatever the client's connection speaks: decided about, fetched or made, and delivered.
//!
//! ```text
//!  connection ──▶ Exchange::answer ──▶ decide ──▶ whoever answers ──▶ deliver ──▶ Next: what the connection does then
//!                    │  ▲                             │
//!                    ▼  │ pulls, puts                 └──▶ fetch: a server, by its codec
//!                 ClientStream
//! ```
//!
//! The connection lends an [`Exchange`] what it works with. What the exchange knows of the client is its [`ClientStream`]:
//! it neither owns a socket nor knows how a head or the end of a message is written on it.

mod cached;
mod decide;
mod deliver;
mod machine_of_request;
mod made;
mod peeked;
mod requester;
mod response_rules;
mod service;
mod stream;
#[cfg(test)]
mod tests;
mod transfer;

use std::{rc::Rc, sync::Arc, time::Duration};

use http::{BodyLength, Limits};
use live::{Instance, LiveProxy};
use net::Deadline;

use self::decide::{Answerer, Decision};
pub use self::{decide::hash_key, requester::WaitingClient, stream::ClientStream};
use super::{
    body::BodyPump,
    ending::{Ending, Stage},
    fetch::{Fetch, Spelling, Unfetched, Wanted},
    filter,
    pinned::PinnedConnections,
    protocol::Protocol,
    transaction::{ClientSide, RequestStage, Transaction},
};
use crate::{registry::Handle, worker::Worker};
use requester::WaitingRequest;

/// What comes after an exchange, for a connection that has one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Another one may come.
    KeepAlive,
    /// The connection ends.
    Close,
    /// The connection ends after the client has read what was sent, though it is still sending.
    Linger,
}

/// What a request and its answer work with. The connection owns it and lends it for as long as they last.
pub struct Exchange<'c, C> {
    /// The worker that runs it.
    pub worker: &'c Rc<Worker>,
    /// The configuration that it runs under.
    pub instance: &'c Arc<Instance>,
    /// Facts of the client's connection.
    pub side: &'c Rc<ClientSide>,
    /// Its place among what the worker runs, by which it may be told to end.
    pub handle: &'c Handle,
    /// The client.
    pub client: &'c mut C,
    /// Its timer.
    pub deadline: &'c mut Deadline,
    /// Connections to servers that only this client may use.
    pub kept: &'c mut PinnedConnections,
    /// How long the connection may be silent from now on, if a program says so.
    pub idle_wish: &'c mut Option<Duration>,
}

/// Counts a request in its backend as long as it lives.
pub struct InBackend<'a>(&'a LiveProxy);

impl<'a> InBackend<'a> {
    /// Counts it in.
    #[must_use]
    pub fn enter(proxy: &'a LiveProxy) -> Self {
        proxy.backend.sessions.increment();
        Self(proxy)
    }
}

impl Drop for InBackend<'_> {
    fn drop(&mut self) {
        self.0.backend.sessions.decrement();
    }
}

impl<'c, C: ClientStream> Exchange<'c, C> {
    /// Notes what logs and later steps need of a request whose head is complete and stands in the transaction.
    pub fn begin(&self, transaction: &mut Transaction) {
        transaction.asked.stage = RequestStage::Complete;
        transaction.take_number();
        transaction.timeline.request = Some(self.worker.now());
        transaction.asked.version = transaction.request.version();
        if self.side.protocol == Protocol::Http1 {
            transaction.note_line(transaction.request.version().as_bytes());
        }
        if self.instance.config.has_origins {
            Spelling::note(transaction);
        }
        let Transaction { line, .. } = transaction;
        // The method stays: more than the log asks for it.
        let most = self.instance.config.global.tune.http_logurilen;
        line.text.truncate(most.max(line.method_len));
        self.handle.begins();
        self.worker.traffic().requests.increment();
    }

    /// Answers a request that has begun, and whose body is so long.
    pub async fn answer(&mut self, transaction: &mut Transaction, body: BodyLength) -> Next {
        match self.decide(transaction, body).await {
            Decision::Done(next) => next,
            Decision::By(Answerer::Server(wanted)) => self.forward(transaction, body, wanted).await,
            Decision::By(Answerer::Service(service)) => {
                Box::pin(self.answer_service(transaction, &service, body)).await
            }
            Decision::By(Answerer::Section(backend)) => {
                Box::pin(self.answer_by_section(transaction, &backend, body)).await
            }
            Decision::By(Answerer::Cache(proxy)) => Box::pin(self.answer_by_cache(transaction, &proxy, body)).await,
        }
    }

    async fn forward(&mut self, transaction: &mut Transaction, body: BodyLength, wanted: Wanted) -> Next {
        let Some(backend) = transaction.route.backend.clone() else { return Next::Close };
        let _counted = InBackend::enter(&backend);
        let mut up = BodyPump::new(body, &self.limits(), false);
        if !body.is_empty() {
            let tune = &self.instance.config.global.tune;
            up.splice_from(tune.splice_min, tune.pipesize);
        }
        if filter::has_filters(&self.side.frontend, &backend) {
            self.filter_request(transaction, &backend, &mut up);
        }
        if up.approve(&*self.client).is_err() {
            transaction.end(Ending::RequestMalformed(Stage::Request));
            return Box::pin(self.answer_error(transaction, 400)).await;
        }
        let fetched = {
            let (mut fetch, mut request) = self.fetch(self.worker, &backend, wanted, &mut up);
            fetch.run(transaction, &mut request).await
        };
        match fetched {
            Ok(answer) => self.deliver(transaction, &backend, answer, &mut up).await,
            Err(why) => Box::pin(self.answer_unfetched(transaction, &mut up, &why)).await,
        }
    }

    /// A fetch from a server of `backend`, and what it knows of the client, the body of whose request `up` moves.
    // NOTE: no `async fn` that runs it: each one on the way copies the futures of all those below it.
    #[inline]
    fn fetch<'b, 's>(
        &'s mut self,
        worker: &'b Rc<Worker>,
        backend: &'b Arc<LiveProxy>,
        wanted: Wanted,
        up: &'s mut BodyPump,
    ) -> (Fetch<'b, 's>, WaitingRequest<'s, C>) {
        let client = WaitingClient {
            stream: &mut *self.client,
            abort_on_close: backend.settings().options.abortonclose,
            is_tcp: false,
            handle: self.handle,
        };
        let request = WaitingRequest::new(client, up, self.side.frontend.settings().timeouts.client);
        (Fetch::new(worker, backend, wanted, &mut *self.kept, &mut *self.deadline), request)
    }

    /// What the request may be.
    fn limits(&self) -> Limits {
        self.side.request_limits(self.instance)
    }

    /// Whether the connection should end as soon as nothing is in flight.
    fn is_leaving(&self) -> bool {
        self.worker.lets_go_of(self.handle)
    }

    /// Answers a request that brought no response.
    async fn answer_unfetched(&mut self, transaction: &mut Transaction, up: &mut BodyPump, why: &Unfetched) -> Next {
        match why {
            Unfetched::Unreachable(why) => {
                self.settle_body(transaction, up);
                self.answer_unreachable(transaction, why).await
            }
            Unfetched::NoResponse { end, reused } => {
                self.settle_body(transaction, up);
                self.answer_head_end(transaction, end, *reused).await
            }
            Unfetched::Refused { silently } => {
                if *silently {
                    self.client.vanish();
                }
                Next::Close
            }
        }
    }

    /// Shows the request to the filters of its stream.
    fn filter_request(&self, transaction: &mut Transaction, backend: &LiveProxy, pump: &mut BodyPump) {
        filter::choose(transaction, backend);
        filter::tell(transaction, backend, filter::Point::Request);
        if let Some(stages) = transaction.stages(self.worker, backend, true) {
            pump.stage(stages);
        }
    }

    /// Counts what has come of a request's body whose way to a server is over, and notes whether that was all of it.
    fn settle_body(&mut self, transaction: &mut Transaction, pump: &mut BodyPump) {
        transaction.bytes_in += pump.take_counted();
        if pump.is_received() {
            pump.discard(&mut *self.client);
            transaction.asked.is_over = true;
        }
    }
}
