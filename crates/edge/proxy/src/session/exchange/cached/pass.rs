//! A request that a cache passes: a backend is asked for this client alone.

use std::sync::Arc;

use accelerator::{
    backend::{Accepted, AcceptedBody},
    client::DeliveredBody,
    machine::{Backend, Client, Step},
};
use live::LiveProxy;

use super::{
    super::{ClientStream, Exchange, InBackend, Next},
    Road,
};
use crate::session::{
    ending::{Ending, Stage},
    fetch::{Answer, Fetch, Nobody, Unfetched},
    object_fetch::{After, Listens, Place, Responded, ask_loop, request_of, set_timeouts, wall_clock},
    transaction::Transaction,
    varnish_log::{self, words},
};

/// How a request goes on after a backend was asked for it alone.
pub(super) enum AfterPass {
    /// It is over.
    Done(Next),
    /// The machine wants something else.
    Go(Step),
}

/// A client that waits for what a backend says, and gets it as it comes unless its machine wants something else.
struct ForClient<'l, 'c, 'r, C> {
    exchange: &'l mut Exchange<'c, C>,
    transaction: &'l mut Transaction,
    client: &'l mut Client,
    road: &'l mut Road<'r>,
}

impl<C: ClientStream> Exchange<'_, C> {
    /// Asks a backend for this client alone.
    pub(super) async fn pass(
        &mut self,
        transaction: &mut Transaction,
        client: &mut Client,
        mut backend: Backend,
        road: &mut Road<'_>,
    ) -> AfterPass {
        let place = self.place(road);
        ask_loop(&place, &mut backend, &mut ForClient { exchange: self, transaction, client, road }).await
    }
}

impl<C: ClientStream> ForClient<'_, '_, '_, C> {
    /// Puts a response into an object, which the client gets then.
    async fn keep(
        &mut self,
        place: &Place,
        backend: &mut Backend,
        accepted: Accepted,
        Responded { mut answer, proxy, account }: Responded<'_>,
    ) -> After<AfterPass> {
        if self.exchange.finish_upload(&mut answer, &mut self.road.up).await.is_err() {
            self.transaction.end(Ending::ClientLeft(Stage::Data));
            self.transaction.count_client_abort();
            return After::Over(AfterPass::Done(Next::Close));
        }
        let answer = (answer, &*self.transaction, proxy);
        match place.keep_passed(accepted, answer, (backend, account)).await {
            Ok(fetched) => After::Over(AfterPass::Go(self.client.fetched(fetched, wall_clock()))),
            Err(next) => After::Next(next),
        }
    }

    /// Delivers a response as it comes.
    async fn deliver(
        &mut self,
        backend: &mut Backend,
        accepted: Accepted,
        Responded { answer, proxy, mut account }: Responded<'_>,
    ) -> AfterPass {
        match self.client.passed(Some(accepted.head), answer.length.announced(), wall_clock()) {
            Step::Deliver(delivery) if matches!(delivery.body, DeliveredBody::Passed(_)) => {
                let transaction = &mut *self.transaction;
                varnish_log::response(transaction, self.client, delivery.closes);
                transaction.response = delivery.head;
                let keeps = varnish_log::pass_begins(backend, &answer);
                let next = self.exchange.deliver(transaction, proxy, answer, &mut self.road.up).await;
                transaction.log.varnish.add_bodies(&mut account);
                varnish_log::end_pass(backend, account, keeps);
                AfterPass::Done(next)
            }
            other => AfterPass::Go(other),
        }
    }

    /// Delivers what the program has made where no response was to be had.
    async fn deliver_error(&mut self, accepted: Accepted) -> AfterPass {
        let AcceptedBody::Made(bytes) = accepted.body else { return AfterPass::Done(Next::Close) };
        match self.client.passed(Some(accepted.head), Some(bytes.len() as u64), wall_clock()) {
            Step::Deliver(mut delivery) if matches!(delivery.body, DeliveredBody::Passed(_)) => {
                delivery.body = DeliveredBody::Made(bytes);
                varnish_log::response(self.transaction, self.client, delivery.closes);
                AfterPass::Done(self.exchange.deliver_cached(self.transaction, *delivery, self.road).await)
            }
            other => AfterPass::Go(other),
        }
    }
}

impl<C: ClientStream> Listens for ForClient<'_, '_, '_, C> {
    type Outcome = AfterPass;

    async fn bring_body(&mut self, backend: &Backend) -> bool {
        self.exchange.ask_for_body(self.transaction, self.road).await;
        let road = &mut *self.road;
        if road.is_body_sent && backend.sends_body() && road.kept_body.is_none() {
            return false;
        }
        road.is_body_sent |= backend.sends_body();
        true
    }

    /// The client's request is counted already.
    fn enter<'p>(&self, _: &Place, _: &'p Arc<LiveProxy>) -> Option<InBackend<'p>> {
        None
    }

    async fn ask<'p>(
        &mut self,
        place: &'p Place,
        backend: &Backend,
        proxy: &'p Arc<LiveProxy>,
    ) -> Result<Answer<'p>, Unfetched> {
        let Self { exchange, transaction, road, .. } = self;
        // NOTE: rules and the log see the request as it goes to the server, as they do without a program.
        transaction.request = request_of(backend, road.kept_body.as_deref());
        transaction.route.resent = false;
        transaction.by_rules.closes.server = accelerator::fields::closes(&transaction.request.headers);
        transaction.route.backend = Some(Arc::clone(proxy));
        let by_rule = transaction.by_rules.server_timeout.get();
        let between = set_timeouts(transaction, backend);
        let has_no_body = road.up.is_received() && road.up.approved() == 0;
        let is_dropped = !(backend.sends_body() || has_no_body);
        let fetched = if road.kept_body.is_some() || is_dropped {
            let kept = road.kept_body.clone().filter(|_| backend.sends_body());
            let mut request = Nobody { body: kept.unwrap_or_default(), interim: None };
            let (kept, deadline) = (&mut *exchange.kept, &mut *exchange.deadline);
            let mut fetch = Fetch::new(&place.worker, proxy, place.origin.wanted(), kept, deadline);
            fetch.run(transaction, &mut request).await
        } else {
            let (mut fetch, mut request) = exchange.fetch(&place.worker, proxy, place.origin.wanted(), &mut road.up);
            fetch.run(transaction, &mut request).await
        };
        transaction.by_rules.server_timeout.set(if fetched.is_ok() { between } else { by_rule });
        fetched
    }

    fn transaction(&mut self) -> &mut Transaction {
        self.transaction
    }

    async fn accept(
        &mut self,
        place: &Place,
        backend: &mut Backend,
        accepted: Accepted,
        responded: Option<Responded<'_>>,
    ) -> After<AfterPass> {
        match responded {
            Some(responded) if accepted.stored.is_some() => self.keep(place, backend, accepted, responded).await,
            Some(responded) => After::Over(self.deliver(backend, accepted, responded).await),
            None => After::Over(self.deliver_error(accepted).await),
        }
    }

    async fn unfetched(
        &mut self,
        place: &Place,
        backend: &mut Backend,
        name: &str,
        why: Unfetched,
    ) -> After<AfterPass> {
        if backend.hands_on_failures() || why.is_about_client() {
            let next = self.exchange.answer_unfetched(self.transaction, &mut self.road.up, &why).await;
            return After::Over(AfterPass::Done(next));
        }
        let _ = varnish_log::left_alone(&place.worker, backend, name, self.transaction, &why);
        After::Next(backend.failed(&words(name, &why), wall_clock()))
    }

    fn abandoned(&mut self, _: &mut Backend) -> AfterPass {
        AfterPass::Go(self.client.passed(None, None, wall_clock()))
    }
}
