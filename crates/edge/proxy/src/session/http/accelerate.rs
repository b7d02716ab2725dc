//! Requests that a program of VCL answers: drives its machines, and has what they say delivered like any other answer.

use std::{rc::Rc, sync::Arc};

use accelerator::{
    Connection,
    backend::{AcceptedBody, Backend, Step as FetchStep},
    client::{Client, DeliveredBody, Delivery, Fetched, Pipe, Step},
    output::Part,
};
use http::BodyLength;
use live::{Accelerator, LiveProxy, Running};

use super::{Next, Session, exchange::InBackend};
use crate::{
    session::{
        body::BodyPump,
        ending::{Ending, Stage},
        fetch::{Answer, AnswerBody, Fetch, ObjectBody, StoredBody, Unfetched, Wanted},
        object_fetch::{Place, wall_clock, words},
        requester::{WaitingClient, WaitingRequest},
        transaction::Transaction,
    },
    worker::Worker,
};

/// How the log names what answered.
const CACHE: &str = "<CACHE>";

/// How a request goes on after a backend was asked for it alone.
enum AfterPass {
    /// It is over.
    Done(Next),
    /// The program wants something else.
    Go(Step),
}

/// A request on its way through the program of a proxy.
struct Road<'r> {
    proxy: &'r Arc<LiveProxy>,
    /// The program that the request runs in: the active one of when it began, or one that this handed it to.
    program: Arc<Running>,
    up: BodyPump,
    is_body_sent: bool,
}

impl Session {
    /// Has the program of a proxy answer.
    pub(super) async fn answer_by_program(
        &mut self,
        transaction: &mut Transaction,
        proxy: &Arc<LiveProxy>,
        body: BodyLength,
    ) -> Next {
        let Some(accelerator) = proxy.accelerator.clone() else { return Next::Close };
        let _counted = InBackend::enter(proxy);
        let mut up = BodyPump::new(body, &self.limits(), false);
        if up.approve(&self.client).is_err() {
            transaction.end(Ending::RequestMalformed(Stage::Request));
            return Box::pin(self.answer_error(transaction, 400)).await;
        }
        let Some(program) = accelerator.active() else {
            // No manager has given a program yet.
            transaction.end(Ending::NoServer);
            return Box::pin(self.answer_error(transaction, 503)).await;
        };
        let numbers = Arc::clone(&accelerator);
        let connection = connection_of(transaction);
        let request = transaction.request.clone();
        let mut client = Client::new(
            &program.loaded,
            request,
            connection,
            wall_clock(),
            move || numbers.next_number(),
            !body.is_empty(),
        );
        let mut road = Road { proxy, program, up, is_body_sent: false };
        let mut step = client.begin();
        loop {
            if let Some(order) = client.take_refresh() {
                drop(self.place(&road).fetch(*order));
            }
            step = match step {
                Step::Wait(waiting) => {
                    let outcome = waiting.await;
                    client.woken(&outcome, wall_clock())
                }
                Step::Fetch(order) => {
                    let fetched = self.place(&road).fetch(*order).await;
                    client.fetched(fetched.unwrap_or(Fetched::Nothing), wall_clock())
                }
                Step::Pass(backend) => match Box::pin(self.pass(transaction, &mut client, *backend, &mut road)).await {
                    AfterPass::Done(next) => return next,
                    AfterPass::Go(step) => step,
                },
                Step::Switch(label) => switch(&accelerator, &label, &mut client, &mut road),
                Step::Pipe(pipe) => return Box::pin(self.pipe_program(transaction, *pipe, road)).await,
                Step::Deliver(delivery) => return self.deliver_made(transaction, *delivery, &mut road).await,
            };
        }
    }

    /// Asks a backend for this client alone, and delivers what it says unless the program wants something else.
    async fn pass(
        &mut self,
        transaction: &mut Transaction,
        client: &mut Client,
        mut backend: Backend,
        road: &mut Road<'_>,
    ) -> AfterPass {
        let worker = Rc::clone(&self.worker);
        let mut step = backend.begin();
        loop {
            step = match step {
                FetchStep::Ask(target) => {
                    let Some(proxy) = road.program.targets.proxy(target) else {
                        step = backend.failed("its section is gone", wall_clock());
                        continue;
                    };
                    if road.is_body_sent && backend.sends_body() {
                        step = backend.failed("the body of the request has been sent to another attempt", wall_clock());
                        continue;
                    }
                    road.is_body_sent = true;
                    match self.ask(&worker, transaction, &backend, &proxy, road).await {
                        Ok(answer) => {
                            let head = std::mem::take(&mut transaction.response);
                            match backend.responded(head, wall_clock()) {
                                FetchStep::Accept(accepted) => {
                                    let length = match answer.length {
                                        BodyLength::Exact(length) => Some(length),
                                        _ => None,
                                    };
                                    return match client.passed(Some(accepted.head), length, wall_clock()) {
                                        Step::Deliver(delivery)
                                            if matches!(delivery.body, DeliveredBody::Passed(_)) =>
                                        {
                                            transaction.response = delivery.head;
                                            AfterPass::Done(
                                                self.deliver(transaction, &proxy, answer, &mut road.up).await,
                                            )
                                        }
                                        other => AfterPass::Go(other),
                                    };
                                }
                                other => other,
                            }
                        }
                        Err(why) if is_about_client(&why) => {
                            return AfterPass::Done(self.answer_unfetched(transaction, &mut road.up, &why).await);
                        }
                        Err(why) => backend.failed(&words(&why), wall_clock()),
                    }
                }
                FetchStep::Accept(accepted) => {
                    let AcceptedBody::Made(bytes) = accepted.body else { return AfterPass::Done(Next::Close) };
                    return match client.passed(Some(accepted.head), Some(bytes.len() as u64), wall_clock()) {
                        Step::Deliver(mut delivery) if matches!(delivery.body, DeliveredBody::Passed(_)) => {
                            delivery.body = DeliveredBody::Made(bytes);
                            AfterPass::Done(self.deliver_made(transaction, *delivery, road).await)
                        }
                        other => AfterPass::Go(other),
                    };
                }
                FetchStep::Abandon => return AfterPass::Go(client.passed(None, None, wall_clock())),
            };
        }
    }

    /// Sends the request of a machine to a proxy of the configuration.
    async fn ask<'p>(
        &mut self,
        worker: &'p Rc<Worker>,
        transaction: &mut Transaction,
        backend: &Backend,
        proxy: &'p Arc<LiveProxy>,
        road: &mut Road<'_>,
    ) -> Result<Answer<'p>, Unfetched> {
        // NOTE: rules and the log see the request as it goes to the server, as they do without a program.
        transaction.request = backend.request().clone();
        transaction.route.backend = Some(Arc::clone(proxy));
        let waiting = WaitingClient {
            wire: &mut self.client,
            abort_on_close: proxy.settings().options.abortonclose,
            is_tcp: false,
            handle: &self.registered.handle,
        };
        let mut request = WaitingRequest::new(waiting, &mut road.up, self.side.frontend.settings().timeouts.client);
        let mut fetch = Fetch::new(worker, proxy, Wanted::default(), &mut self.kept, &mut self.deadline);
        fetch.run(transaction, &mut request).await
    }

    /// Delivers what comes from no server at this moment: an object, or what the program has made.
    async fn deliver_made(&mut self, transaction: &mut Transaction, delivery: Delivery, road: &mut Road<'_>) -> Next {
        let method = transaction.request.method_kind();
        let now = Some(self.worker.now());
        let times = &mut transaction.timeline;
        (times.dequeued, times.connected, times.response) = (now, now, now);
        transaction.answered.by = Some(CACHE);
        transaction.response = delivery.head;
        self.begin_answer(transaction);
        let (length, body) = match delivery.body {
            DeliveredBody::Made(bytes) => {
                (BodyLength::Exact(bytes.len() as u64), AnswerBody::Stored(StoredBody::new(bytes.into())))
            }
            DeliveredBody::Object { object, part, gunzip } => {
                // NOTE: the head is no parsed one, so its fields say how long the body is.
                let said = transaction.response.headers.first_known(http::HeaderId::ContentLength);
                let said = said.and_then(|said| std::str::from_utf8(said).ok()?.parse().ok());
                let length = match (part, said) {
                    (Part::Nothing, _) => BodyLength::Exact(0),
                    (_, Some(length)) => BodyLength::Exact(length),
                    (_, None) => BodyLength::Chunked,
                };
                let is_chunked = length == BodyLength::Chunked;
                (length, AnswerBody::Object(Box::new(ObjectBody::new(object, part, gunzip, is_chunked))))
            }
            DeliveredBody::Passed(_) => (BodyLength::Exact(0), AnswerBody::Stored(StoredBody::new([].into()))),
        };
        if delivery.closes {
            transaction.asked.wants_keep_alive = false;
        }
        // What of the request's body has come here goes nowhere.
        if road.up.is_received() {
            road.up.discard(&mut self.client);
        }
        let answer = Answer { method, length, body };
        self.deliver(transaction, road.proxy, answer, &mut road.up).await
    }

    /// Bytes both ways: the request goes to a server as it is, and the connections end with the answer.
    async fn pipe_program(&mut self, transaction: &mut Transaction, pipe: Pipe, mut road: Road<'_>) -> Next {
        let Some(proxy) = pipe.backend.and_then(|target| road.program.targets.proxy(target)) else {
            transaction.end(Ending::NoServer);
            return self.answer_error(transaction, 503).await;
        };
        transaction.request = pipe.request;
        transaction.route.backend = Some(Arc::clone(&proxy));
        // NOTE: Varnish looks at nothing that follows; here each message is still framed, so only one goes through.
        transaction.asked.wants_keep_alive = false;
        let worker = Rc::clone(&self.worker);
        let fetched = {
            let waiting = WaitingClient {
                wire: &mut self.client,
                abort_on_close: proxy.settings().options.abortonclose,
                is_tcp: false,
                handle: &self.registered.handle,
            };
            let mut request = WaitingRequest::new(waiting, &mut road.up, self.side.frontend.settings().timeouts.client);
            let mut fetch = Fetch::new(&worker, &proxy, Wanted::default(), &mut self.kept, &mut self.deadline);
            fetch.run(transaction, &mut request).await
        };
        match fetched {
            Ok(answer) => self.deliver(transaction, &proxy, answer, &mut road.up).await,
            Err(why) => self.answer_unfetched(transaction, &mut road.up, &why).await,
        }
    }

    fn place(&self, road: &Road<'_>) -> Place {
        Place {
            worker: Rc::clone(&self.worker),
            instance: Arc::clone(&self.instance),
            program: Arc::clone(&road.program),
            proxy: Arc::clone(road.proxy),
        }
    }
}

/// Hands a request to the program with this label.
fn switch(accelerator: &Accelerator, label: &str, client: &mut Client, road: &mut Road<'_>) -> Step {
    let program = accelerator.labelled(label);
    let step = client.switched(program.as_ref().map(|program| &program.loaded));
    if let Some(program) = program {
        road.program = program;
    }
    step
}

/// Whether a fetch failed because of the client, who cannot be answered then.
fn is_about_client(why: &Unfetched) -> bool {
    use crate::session::fetch::{HeadEnd, Unreachable};
    match why {
        Unfetched::Unreachable(why) => {
            matches!(why, Unreachable::ClientGone | Unreachable::ClientFailed | Unreachable::Killed)
        }
        Unfetched::NoResponse { end, .. } => matches!(
            end,
            HeadEnd::ClientGone
                | HeadEnd::ClientCutOff
                | HeadEnd::ClientTimeout
                | HeadEnd::ClientMalformed
                | HeadEnd::Killed { .. }
        ),
        Unfetched::Refused { .. } => false,
    }
}

/// The client's connection, as VCL asks about it.
fn connection_of(transaction: &Transaction) -> Connection {
    let client = &transaction.client;
    let bind = client.frontend.listeners.get(client.listener);
    Connection {
        client: transaction.source.get(),
        server: transaction.destination(),
        remote: client.original_source,
        local: client.original_destination(),
        socket: bind.map(|listener| listener.name.to_string()).unwrap_or_default(),
        endpoint: client.original_destination().map(|address| address.to_string()).unwrap_or_default(),
        xid: client.id,
    }
}
