//! A request that goes to a server: fetched for the client that waits, and passed on.

use std::rc::Rc;

use http::BodyLength;
use live::LiveProxy;

use super::{
    Next, Session,
    decide::{Answerer, Decision},
};
use crate::session::{
    body::BodyPump,
    ending::{Ending, Stage},
    fetch::{Fetch, Unfetched, Wanted},
    filter,
    requester::{WaitingClient, WaitingRequest},
    transaction::Transaction,
};

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

impl Session {
    /// A request from its first byte to the end of its response.
    pub(super) async fn run(&mut self, transaction: &mut Transaction) -> Next {
        let body = match self.receive(transaction).await {
            Ok(body) => body,
            Err(failure) => return Box::pin(self.no_request(transaction, &failure)).await,
        };
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
        if up.approve(&self.client).is_err() {
            transaction.end(Ending::RequestMalformed(Stage::Request));
            return Box::pin(self.answer_error(transaction, 400)).await;
        }
        let worker = Rc::clone(&self.worker);
        let fetched = {
            let client = WaitingClient {
                wire: &mut self.client,
                abort_on_close: backend.settings().options.abortonclose,
                is_tcp: false,
                handle: &self.registered.handle,
            };
            let mut request = WaitingRequest::new(client, &mut up, self.side.frontend.settings().timeouts.client);
            let mut fetch = Fetch::new(&worker, &backend, wanted, &mut self.kept, &mut self.deadline);
            fetch.run(transaction, &mut request).await
        };
        match fetched {
            Ok(answer) => self.deliver(transaction, &backend, answer, &mut up).await,
            Err(why) => Box::pin(self.answer_unfetched(transaction, &mut up, &why)).await,
        }
    }

    /// Answers a request that brought no response.
    pub(super) async fn answer_unfetched(
        &mut self,
        transaction: &mut Transaction,
        up: &mut BodyPump,
        why: &Unfetched,
    ) -> Next {
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
                    self.client.stream.vanish();
                }
                Next::Close
            }
        }
    }

    /// Shows the request to the filters of its stream.
    pub(super) fn filter_request(&self, transaction: &mut Transaction, backend: &LiveProxy, pump: &mut BodyPump) {
        filter::choose(transaction, backend);
        filter::tell(transaction, backend, filter::Point::Request);
        if let Some(stages) = transaction.stages(&self.worker, backend, true) {
            pump.stage(stages);
        }
    }

    /// Counts what has come of a request's body whose way to a server is over, and notes whether that was all of it.
    pub(super) fn settle_body(&mut self, transaction: &mut Transaction, pump: &mut BodyPump) {
        transaction.bytes_in += pump.take_counted();
        if pump.is_received() {
            pump.discard(&mut self.client);
            transaction.asked.is_over = true;
        }
    }
}
