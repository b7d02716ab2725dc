//! Requests that a cache answers, with a program of VCL or without: drives the machines, and has what they say delivered like any
//! other answer.

mod pass;
mod request_body;

use std::{
    future::poll_fn,
    pin::pin,
    rc::Rc,
    sync::Arc,
    task::{Poll, ready},
};

use accelerator::{
    backend::Recoding,
    client::{DeliveredBody, Delivery, Fetched, Pipe},
    log::CloseReason,
    machine::{Client, Order, Step, Target},
    output::Part,
    section,
};
use http::{BodyLength, ResponseHead};
use live::LiveProxy;

use self::pass::AfterPass;
use super::{
    ClientStream, Exchange, InBackend, Next, WaitingClient,
    machine_of_request::{client_of, obey, switch},
};
use crate::{
    registry::Order as SessionOrder,
    session::{
        body::{BodyPump, Sink as _},
        ending::{Ending, Stage},
        fetch::{Answer, AnswerBody, Attempts, ObjectBody, OutgoingHead, ServerCodec as _, StoredBody, Unfetched},
        filter,
        object_fetch::{Origin, Place, Relayed, Report, wall_clock},
        page,
        pinned::PinnedConnections,
        routing::choose_backend,
        size,
        transaction::Transaction,
        varnish_log,
    },
};

/// How the log names what answered.
const CACHE: &str = "<CACHE>";

/// How a request goes on after something was fetched for it.
enum AfterFetch {
    /// The machine says.
    Go(Step),
    /// It gets what is not stored.
    Relay(Box<Relayed>),
    /// It gets what it would have got without a cache.
    Failed(Box<Unfetched>),
    /// Its client has left.
    Left,
}

/// A request on its way through the cache of a proxy.
struct Road<'r> {
    proxy: &'r Arc<LiveProxy>,
    origin: Origin,
    /// How long the request's body is.
    body: BodyLength,
    up: BodyPump,
    is_body_sent: bool,
    /// The body of the request, without framing, where it can be sent several times.
    kept_body: Option<Vec<u8>>,
    /// Whether the client has not been told yet to send its body, for which it may wait.
    expects_continue: bool,
    /// See [`Asked::usual_location`](crate::session::transaction::Asked::usual_location).
    usual_location: Option<Arc<[u8]>>,
}

impl<'r> Road<'r> {
    fn new(
        transaction: &Transaction,
        proxy: &'r Arc<LiveProxy>,
        origin: Origin,
        (body, up): (BodyLength, BodyPump),
    ) -> Self {
        let expects_continue = origin.pipe_timeout().is_some();
        let usual_location = transaction.asked.usual_location.clone();
        Self { proxy, origin, body, up, is_body_sent: false, kept_body: None, expects_continue, usual_location }
    }
}

impl<'c, C: ClientStream> Exchange<'c, C> {
    /// Has the cache of a proxy answer.
    pub(super) async fn answer_by_cache(
        &mut self,
        transaction: &mut Transaction,
        proxy: &Arc<LiveProxy>,
        body: BodyLength,
    ) -> Next {
        let Some(origin) = self.origin(transaction, proxy, body).await else {
            transaction.end(Ending::NoServer);
            return Box::pin(self.answer_error(transaction, 503)).await;
        };
        let _counted = InBackend::enter(proxy);
        let mut up = BodyPump::new(body, &self.limits(), false);
        if up.approve(&*self.client).is_err() {
            transaction.end(Ending::RequestMalformed(Stage::Request));
            // NOTE: in Varnish a body fails on its way to the backend.
            let status = if proxy.varnishd().is_some() { 503 } else { 400 };
            return Box::pin(self.answer_error(transaction, status)).await;
        }
        if filter::has_filters(&self.side.frontend, proxy) {
            self.filter_request(transaction, proxy, &mut up);
        }
        let mut heads = self.worker.heads.take();
        let mut client = client_of(self.worker, transaction, &origin, (body, &mut heads));
        if let Some(client) = client.program() {
            varnish_log::begin(self.worker, transaction, client);
        }
        let mut road = Road::new(transaction, proxy, origin, (body, up));
        let mut step = client.begin();
        loop {
            // NOTE: what a hit does not need is boxed, here and below, so that it need not have room for it.
            if !body.is_empty()
                && let Err(next) = Box::pin(self.bring_body(transaction, &mut client, &mut road, &step)).await
            {
                varnish_log::body_lost(transaction, &mut client);
                return next;
            }
            self.refresh(&mut client, &road);
            step = match step {
                Step::Wait(waiting) => match Box::pin(self.while_client_stays(proxy, waiting)).await {
                    Some(outcome) => client.woken(&outcome, wall_clock()),
                    None => return Self::left_waiting(transaction),
                },
                Step::Fetch(order) => match Box::pin(self.fetch_object(transaction, &mut client, order, &road)).await {
                    AfterFetch::Go(step) => step,
                    AfterFetch::Relay(relayed) => {
                        return Box::pin(self.deliver_relayed(transaction, *relayed, &mut road)).await;
                    }
                    AfterFetch::Left => return Self::left_waiting(transaction),
                    AfterFetch::Failed(why) => {
                        return Box::pin(self.answer_unfetched(transaction, &mut road.up, &why)).await;
                    }
                },
                Step::Pass(backend) => match Box::pin(self.pass(transaction, &mut client, backend, &mut road)).await {
                    AfterPass::Done(next) => return next,
                    AfterPass::Go(step) => step,
                },
                Step::Switch(label) => switch(&label, &mut client, &mut road.origin),
                Step::Pipe(pipe) => {
                    varnish_log::response(transaction, &mut client, false);
                    return Box::pin(self.pipe(transaction, *pipe, road)).await;
                }
                Step::Deliver(delivery) => {
                    obey(&client, transaction, self.idle_wish);
                    varnish_log::response(transaction, &mut client, delivery.closes);
                    // The response's head comes with the delivery, in memory that was lent for it.
                    heads.response = std::mem::take(&mut transaction.response);
                    heads.request = client.take_request();
                    self.worker.heads.give(heads);
                    return self.deliver_cached(transaction, *delivery, &mut road).await;
                }
                Step::Fail(status) => {
                    self.settle_body(transaction, &mut road.up);
                    transaction.end(Ending::AnsweredHere(Stage::Request));
                    return Box::pin(self.answer_error(transaction, status)).await;
                }
            };
        }
    }

    /// Answers with what a `cache` section has.
    pub(super) async fn answer_by_section(
        &mut self,
        transaction: &mut Transaction,
        backend: &Arc<LiveProxy>,
        body: BodyLength,
    ) -> Next {
        let hit = transaction.by_rules.caching.as_ref().and_then(|caching| caching.hit.clone());
        let Some(hit) = hit else { return Next::Close };
        let _counted = InBackend::enter(backend);
        let mut up = BodyPump::new(body, &self.limits(), false);
        if up.approve(&*self.client).is_err() {
            transaction.end(Ending::RequestMalformed(Stage::Request));
            return Box::pin(self.answer_error(transaction, 400)).await;
        }
        if filter::has_filters(&self.side.frontend, backend) {
            self.filter_request(transaction, backend, &mut up);
        }
        let (mut head, is_bare) = section::answer(&transaction.request, &hit.object, wall_clock());
        head.set_version(http::Version::Http11);
        head.headers.remove_known(http::HeaderId::ContentLength);
        let length = hit.object.body().arrived();
        if !is_bare {
            head.headers.add_number(http::HeaderId::ContentLength, length);
        }
        self.begin_cached(transaction, head);
        transaction.end(Ending::AnsweredHere(Stage::Request));
        let part = if is_bare { Part::Nothing } else { Part::Whole };
        let body = AnswerBody::Object(Box::new(ObjectBody::new(hit.object, part, Recoding::None, false)));
        let length = BodyLength::Exact(if is_bare { 0 } else { length });
        let answer = Answer { method: transaction.request.method_kind(), length, body };
        self.deliver(transaction, backend, answer, &mut up).await
    }

    /// Where what the cache of a proxy has not is fetched; `None` if there is no such place.
    async fn origin(
        &mut self,
        transaction: &mut Transaction,
        proxy: &Arc<LiveProxy>,
        body: BodyLength,
    ) -> Option<Origin> {
        if let Some(accelerator) = proxy.accelerator.clone() {
            // NOTE: there is none while no manager has given one.
            let program = accelerator.active()?;
            return Some(Origin::Program { accelerator, program });
        }
        let cache = proxy.shared_cache.clone()?;
        let is_chosen = transaction.route.backend.as_ref().is_some_and(|backend| Arc::ptr_eq(backend, proxy));
        let backend = if is_chosen { Arc::clone(proxy) } else { choose_backend(transaction, proxy)? };
        let wanted = self.wanted(transaction, &backend, body).await;
        Some(Origin::Shared { cache, backend, wanted })
    }

    /// Has what answers although it is stale fetched anew, if the machine says so.
    fn refresh(&self, client: &mut Client, road: &Road<'_>) {
        if let Some(order) = client.take_refresh() {
            drop(self.place(road).fetch(order, road.body_to_fetch_with()));
        }
    }

    /// Has an object fetched by a task of its own, and waits for what comes of it.
    async fn fetch_object(
        &mut self,
        transaction: &Transaction,
        client: &mut Client,
        order: Order,
        road: &Road<'_>,
    ) -> AfterFetch {
        let mut reports = self.place(road).fetch(order, road.body_to_fetch_with());
        loop {
            let Some(report) = self.while_client_stays(road.proxy, reports.recv()).await else {
                return AfterFetch::Left;
            };
            let fetched = match report {
                Some(Report::Interim(head)) => {
                    // RFC 9110 section 15.2: clients of HTTP/1.0 do not know of them.
                    if transaction.asked.version == http::Version::Http11 {
                        self.client.write_interim(&head);
                        let _ = self.flush().await;
                    }
                    continue;
                }
                Some(Report::Relayed(mut relayed)) => {
                    let length = if let BodyLength::Exact(length) = relayed.length { Some(length) } else { None };
                    let head = std::mem::take(&mut relayed.head);
                    return match client.passed(Some(head), length, wall_clock()) {
                        Step::Deliver(delivery) => match delivery.body {
                            DeliveredBody::Passed(part) => {
                                (relayed.head, relayed.part) = (delivery.head, part);
                                AfterFetch::Relay(relayed)
                            }
                            _ => AfterFetch::Go(Step::Deliver(delivery)),
                        },
                        step => AfterFetch::Go(step),
                    };
                }
                Some(Report::Unfetched(why)) => return AfterFetch::Failed(why),
                Some(Report::Fetched(fetched)) => fetched,
                None => Fetched::Nothing,
            };
            return AfterFetch::Go(client.fetched(fetched, wall_clock()));
        }
    }

    /// Delivers a response that is not stored, as it comes.
    async fn deliver_relayed(&mut self, transaction: &mut Transaction, relayed: Relayed, road: &mut Road<'_>) -> Next {
        let Relayed { head, length, part, body, server, by } = relayed;
        // Cookies that bind to a server, the log and its numbers see where it comes from.
        (transaction.route.server, transaction.answered.by) = (server, by);
        transaction.timeline.response = Some(self.worker.now());
        transaction.response = head;
        self.begin_answer(transaction);
        let (length, body) = match (part, length) {
            (Part::Nothing, _) | (_, BodyLength::None) => {
                (BodyLength::Exact(0), AnswerBody::Stored(StoredBody::new([].into())))
            }
            (_, BodyLength::Exact(length)) => {
                (BodyLength::Exact(length), AnswerBody::Object(Box::new(ObjectBody::relayed(body, false))))
            }
            _ => (BodyLength::Chunked, AnswerBody::Object(Box::new(ObjectBody::relayed(body, true)))),
        };
        let answer = Answer { method: transaction.request.method_kind(), length, body };
        self.deliver(transaction, road.proxy, answer, &mut road.up).await
    }

    /// Waits for what others do for a request; `None` if its client has left meanwhile. One that has only ended what it sends has
    /// not, unless `option abortonclose` says so.
    async fn while_client_stays<T>(&mut self, proxy: &LiveProxy, what: impl Future<Output = T>) -> Option<T> {
        let ends_with_input = proxy.settings().options.abortonclose;
        let (client, handle) = (&mut *self.client, self.handle);
        let mut what = pin!(what);
        poll_fn(|context| {
            if let Poll::Ready(done) = what.as_mut().poll(context) {
                return Poll::Ready(Some(done));
            }
            handle.listen(context);
            if handle.order() == SessionOrder::Abort {
                return Poll::Ready(None);
            }
            while !client.has_ended() {
                match ready!(client.poll_receive(context)) {
                    Ok(_) => {}
                    Err(_) => return Poll::Ready(None),
                }
            }
            if ends_with_input { Poll::Ready(None) } else { Poll::Pending }
        })
        .await
    }

    fn left_waiting(transaction: &mut Transaction) -> Next {
        transaction.end(Ending::ClientLeft(Stage::Headers));
        transaction.count_client_abort();
        Next::Close
    }

    /// Delivers what comes from no server at this moment: an object, or what the program has made.
    async fn deliver_cached(&mut self, transaction: &mut Transaction, delivery: Delivery, road: &mut Road<'_>) -> Next {
        let method = transaction.request.method_kind();
        self.begin_cached(transaction, delivery.head);
        let (length, body) = match delivery.body {
            DeliveredBody::Made(bytes) => {
                (BodyLength::Exact(bytes.len() as u64), AnswerBody::Stored(StoredBody::new(bytes.into())))
            }
            DeliveredBody::Object { object, part, recoding } => {
                // NOTE: the head is no parsed one, so its fields say how long the body is.
                let said = transaction.response.headers.first_known(http::HeaderId::ContentLength);
                let said = said.and_then(|said| std::str::from_utf8(said).ok()?.parse().ok());
                let length = match (part, said) {
                    (Part::Nothing, _) => BodyLength::Exact(0),
                    (_, Some(length)) => BodyLength::Exact(length),
                    (_, None) => BodyLength::Chunked,
                };
                let is_chunked = length == BodyLength::Chunked;
                (length, AnswerBody::Object(Box::new(ObjectBody::new(object, part, recoding, is_chunked))))
            }
            DeliveredBody::Page { object, gzip, includes } => {
                let page = page::assemble(self.place(road), object, gzip, *includes);
                (BodyLength::Chunked, AnswerBody::Page(Box::new(page)))
            }
            DeliveredBody::Passed(_) => (BodyLength::Exact(0), AnswerBody::Stored(StoredBody::new([].into()))),
        };
        if delivery.closes {
            transaction.asked.wants_keep_alive = false;
        }
        // What of the request's body has come here goes nowhere.
        if road.up.is_received() {
            road.up.discard(&mut *self.client);
        }
        let answer = Answer { method, length, body };
        self.deliver(transaction, road.proxy, answer, &mut road.up).await
    }

    /// From here on there is a response, which a cache has made.
    fn begin_cached(&self, transaction: &mut Transaction, head: ResponseHead) {
        let now = Some(self.worker.now());
        let times = &mut transaction.timeline;
        (times.dequeued, times.connected, times.response) = (now, now, now);
        transaction.answered.by = Some(CACHE);
        transaction.response = head;
        transaction.bytes_out += size::of_reply(&transaction.response);
        self.begin_answer(transaction);
    }

    /// Bytes both ways: the request goes to a server as it is, and all that follows it, until both sides have ended.
    async fn pipe(&mut self, transaction: &mut Transaction, pipe: Pipe, mut road: Road<'_>) -> Next {
        let target = Target::of_pipe(&pipe);
        let Some(proxy) = road.origin.proxy(target) else {
            transaction.end(Ending::NoServer);
            return self.answer_error(transaction, 503).await;
        };
        transaction.request = pipe.request;
        transaction.route.backend = Some(Arc::clone(&proxy));
        transaction.asked.wants_keep_alive = false;
        // Frames of HTTP/2 know nothing that follows a request.
        let is_framed = proxy.settings().servers.iter().any(haproxycfg::model::Server::may_speak_http2);
        let Some(idle) = road.origin.pipe_timeout().filter(|_| !is_framed) else {
            return self.pipe_one_exchange(transaction, &proxy, road).await;
        };
        let worker = self.worker;
        let reached = {
            let mut client = WaitingClient {
                stream: &mut *self.client,
                abort_on_close: proxy.settings().options.abortonclose,
                is_tcp: false,
                handle: self.handle,
            };
            let mut kept = PinnedConnections::default();
            let mut attempts = Attempts::new(worker, &proxy, road.origin.wanted(), &mut kept, true);
            attempts.reach(transaction, &mut client).await
        };
        let mut upstream = match reached {
            Ok(upstream) => upstream,
            Err(why) => {
                drop(pipe.log);
                if road.proxy.varnishd().is_some() {
                    // NOTE: as in Varnish, who asked for a pipe gets bytes of the other side or none.
                    varnish_log::closes(self.side, CloseReason::TxError);
                    transaction.end(Ending::ServerFailed(Stage::Request));
                    return Next::Close;
                }
                return self.answer_unfetched(transaction, &mut road.up, &Unfetched::Unreachable(why)).await;
            }
        };
        let codec = &mut upstream.connection.codec;
        let kept = road.kept_body.take();
        if let Some(kept) = &kept {
            transaction.request.know_length(kept.len() as u64);
        }
        codec.write_request(&OutgoingHead { head: &transaction.request, fields: &[], is_secure: false, program: None });
        codec.waiting().extend_from_slice(&kept.unwrap_or_default());
        let name = road.origin.name_of(target);
        let logged = varnish_log::Piped::begin(worker, transaction, (pipe.log, &road.origin, name), &upstream);
        let codec = &mut upstream.connection.codec;
        // NOTE: a fresh socket takes a head at once, or the connection is as good as broken.
        let sent = tokio::time::timeout(idle, poll_fn(|context| codec.poll_flush(context))).await;
        if !matches!(sent, Ok(Ok(()))) {
            transaction.end(Ending::ServerFailed(Stage::Request));
            return Next::Close;
        }
        let next = self.tunnel_bytes(transaction, &proxy, upstream, Some(idle)).await;
        logged.end(transaction);
        next
    }

    /// One request and its answer, each framed; the connections end with them.
    async fn pipe_one_exchange(
        &mut self,
        transaction: &mut Transaction,
        proxy: &Arc<LiveProxy>,
        mut road: Road<'_>,
    ) -> Next {
        let fetched = {
            let (mut fetch, mut request) = self.fetch(self.worker, proxy, road.origin.wanted(), &mut road.up);
            fetch.run(transaction, &mut request).await
        };
        match fetched {
            Ok(answer) => self.deliver(transaction, proxy, answer, &mut road.up).await,
            Err(why) => self.answer_unfetched(transaction, &mut road.up, &why).await,
        }
    }

    fn place(&self, road: &Road<'_>) -> Place {
        Place {
            worker: Rc::clone(self.worker),
            instance: Arc::clone(self.instance),
            origin: road.origin.clone(),
            proxy: Arc::clone(road.proxy),
            usual_location: road.usual_location.clone(),
        }
    }
}
