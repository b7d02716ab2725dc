//! The body of a request that a cache answers: it goes to one server, is kept for several, or to nobody.

use std::{future::poll_fn, task::Poll, time::Duration};

use accelerator::machine::{Client, Step};
use http::{BodyLength, ChunkedDecoder};

use super::{
    super::{ClientStream, Exchange, Next},
    Road,
};
use crate::{
    registry::Order as SessionOrder,
    session::{
        body::{BodyPump, PumpFailure},
        ending::{Ending, Stage},
        fetch::Answer,
        object_fetch::RequestBody,
        transaction::Transaction,
    },
};

/// What the body of a request may be that goes along with a fetch for the cache.
const FETCHED_BODY_BYTES_MAX: u64 = 1 << 20;

/// What chunks may add to the bytes of a body that is kept.
const FRAMING_BYTES_MAX: u64 = 64 << 10;

impl Road<'_> {
    pub(super) fn body_to_fetch_with(&self) -> RequestBody {
        match &self.kept_body {
            _ if self.body.is_empty() => RequestBody::None,
            Some(kept) => RequestBody::Kept(kept.clone()),
            None => RequestBody::Gone,
        }
    }
}

impl<C: ClientStream> Exchange<'_, C> {
    /// Takes the whole body of a request in, so that it can be sent several times. One that is larger ends the connection, as in
    /// Varnish.
    pub(super) async fn keep_body(
        &mut self,
        transaction: &mut Transaction,
        road: &mut Road<'_>,
        bytes_max: u64,
    ) -> Result<(), Next> {
        let body = road.body;
        let is_too_large = matches!(body, BodyLength::Exact(length) if length > bytes_max);
        if road.kept_body.is_some() || road.is_body_sent {
            return Ok(());
        }
        if is_too_large {
            transaction.end(Ending::RequestMalformed(Stage::Request));
            return Err(Next::Close);
        }
        self.ask_for_body(transaction, road).await;
        let mut kept = Vec::new();
        let mut decoder = (body == BodyLength::Chunked).then(|| ChunkedDecoder::new(&self.limits()));
        let mut framed = 0;
        let limit = self.side.frontend.settings().timeouts.client.unwrap_or(Duration::MAX);
        loop {
            let approved = self.client.received().get(..road.up.approved()).unwrap_or_default();
            framed += approved.len() as u64;
            match &mut decoder {
                // NOTE: what was approved has been looked at.
                Some(decoder) => drop(decoder.decode_into(approved, &mut kept)),
                None => kept.extend_from_slice(approved),
            }
            road.up.discard(&mut *self.client);
            let is_too_large = kept.len() as u64 > bytes_max || framed > bytes_max.saturating_add(FRAMING_BYTES_MAX);
            if road.up.is_received() && !is_too_large {
                road.kept_body = Some(kept);
                return Ok(());
            }
            let more = tokio::time::timeout(limit, poll_fn(|context| self.client.poll_receive(context)));
            if is_too_large || !matches!(more.await, Ok(Ok(1..))) || road.up.approve(&*self.client).is_err() {
                transaction.end(Ending::ClientLeft(Stage::Request));
                transaction.count_client_abort();
                return Err(Next::Close);
            }
        }
    }

    /// Takes the body that a request has in, if the program wants it kept or it goes along with a fetch for the cache.
    pub(super) async fn bring_body(
        &mut self,
        transaction: &mut Transaction,
        client: &mut Client,
        road: &mut Road<'_>,
        step: &Step,
    ) -> Result<(), Next> {
        let is_fetched = client.program().is_some() && (matches!(step, Step::Fetch(_)) || client.wants_refresh());
        match client.kept_body_bytes().or(is_fetched.then_some(FETCHED_BODY_BYTES_MAX)) {
            Some(bytes_max) => self.keep_body(transaction, road, bytes_max).await,
            None => Ok(()),
        }
    }

    /// Tells a client that waits for it to send its body.
    pub(super) async fn ask_for_body(&mut self, transaction: &Transaction, road: &mut Road<'_>) {
        if std::mem::take(&mut road.expects_continue) && !road.up.is_received() {
            let is_asked = http::expect_continue(&transaction.request);
            if is_asked {
                self.write_continue();
                let _ = self.flush().await;
            }
        }
    }

    /// Sends the rest of the request, for a response that is not delivered as it comes; `Err` if the client is the one to blame that
    /// this fails.
    pub(super) async fn finish_upload(&mut self, answer: &mut Answer<'_>, up: &mut BodyPump) -> Result<(), ()> {
        let limit = self.side.frontend.settings().timeouts.client;
        let (client, deadline, worker) = (&mut *self.client, &mut *self.deadline, self.worker);
        let (handle, body) = (self.handle, &mut answer.body);
        let (mut since, mut progress) = (worker.now(), 0);
        poll_fn(|context| {
            handle.listen(context);
            if handle.order() == SessionOrder::Abort {
                return Poll::Ready(Err(()));
            }
            if !body.owes_upload() {
                return Poll::Ready(Ok(()));
            }
            if let Poll::Ready(sent) = body.poll_upload(up, client, context) {
                // NOTE: a server that takes no more may still answer; its connection ends then.
                return Poll::Ready(
                    sent.or_else(|why| if matches!(why, PumpFailure::Send(_)) { Ok(()) } else { Err(()) }),
                );
            }
            if std::mem::replace(&mut progress, up.received()) != up.received() {
                since = worker.now();
            }
            deadline.set(limit.map(|limit| since + limit));
            deadline.poll_at(worker.now(), context).map(|()| Err(()))
        })
        .await
    }
}
