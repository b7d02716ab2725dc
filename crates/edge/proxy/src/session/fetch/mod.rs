//! Fetching: a request goes to a server of a backend, and the head of the response comes back, whoever it is for.
//!
//! ```text
//!  choose ──▶ queue ──▶ reuse, borrow or open ──▶ send ──▶ await the head ──▶ Answer: a head, and a body to pull
//!    ▲                          │                               │
//!    └──────── again, elsewhere, as `balance` decides ◀─────────┴──▶ Unfetched: why not
//! ```
//!
//! A backend with files (module `origin`) looks there first, and asks servers for what it has no file for.
//!
//! Nothing here knows a client's connection. Who waits for the answer is a [`Requester`]; where nobody does, it is
//! [`Nobody`]. The body of the answer stays with the server until someone pulls it.

mod answer;
mod attempts;
mod codec;
mod file_body;
#[cfg(test)]
pub mod framed;
mod head;
mod inspect;
pub mod multiplexed;
mod object_body;
mod open;
mod origin;
mod page_body;
mod program;
mod queue;
mod requester;
mod reuse;
mod send;
mod spelling;
#[cfg(test)]
mod tests;

use std::{
    future::poll_fn,
    io,
    rc::Rc,
    sync::{Arc, atomic::Ordering::Relaxed},
    task::Poll,
    time::Duration,
};

use balance::{FailedAttempt, Failure, Forced, ServerId};
use haproxycfg::model::{PluginCall, ServerIndex};
use http::{BodyLength, BodyTracker, HeaderId, Method, response_body_length};
use live::{LiveProxy, files::LiveFiles};
use net::Deadline;
use web::path::is_usual_spelling;

pub use self::{
    answer::{Answer, AnswerBody, StoredBody},
    attempts::Attempts,
    codec::{Codec, OutgoingHead, ServerCodec},
    file_body::FileBody,
    head::HeadEnd,
    object_body::{ObjectBody, RelayedBytes},
    page_body::PageBody,
    program::ProgramRequest,
    queue::Slot,
    requester::{HearInterim, HttpRequester, Nobody, Requester},
    reuse::give_back,
    send::{adjust_case, connection_mode},
    spelling::Spelling,
};
use super::{body::Source as _, pinned::PinnedConnections, size, transaction::Transaction};
use crate::{pool::ServerConnection, stick, worker::Worker};

/// One request on its way to a server and back.
pub struct Fetch<'a, 'c> {
    attempts: Attempts<'a, 'c>,
    deadline: &'c mut Deadline,
    /// How often a program has named another path, which was asked for instead.
    followed: usize,
}

/// How often programs may do so for one request, which may lead in a circle.
const FOLLOWED_MAX: usize = 10;

/// Where a request is answered without a server.
#[derive(Clone, Copy)]
struct Site<'a> {
    worker: &'a Rc<Worker>,
    backend: &'a Arc<LiveProxy>,
    /// What the log calls whoever answers there.
    name: &'static str,
}

/// Why there is no response.
#[derive(Debug)]
pub enum Unfetched {
    /// No server could be reached.
    Unreachable(Unreachable),
    /// The server that was reached gave none.
    NoResponse {
        /// What became of it.
        end: HeadEnd,
        /// Whether its connection had served requests before.
        reused: bool,
    },
    /// `tcp-response content` rules want none of it.
    Refused {
        /// Whether the client is not to be told.
        silently: bool,
    },
}

impl Unfetched {
    /// The status of the page that says so, as HAProxy has it.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::Unreachable(_) => 503,
            Self::NoResponse { end: HeadEnd::Timeout, .. } => 504,
            Self::NoResponse { end: HeadEnd::Refused(status), .. } => *status,
            Self::NoResponse { .. } | Self::Refused { .. } => 502,
        }
    }

    /// Whether it failed because of the client, who cannot be answered then.
    #[must_use]
    pub fn is_about_client(&self) -> bool {
        match self {
            Self::Unreachable(why) => {
                matches!(why, Unreachable::ClientGone | Unreachable::ClientFailed | Unreachable::Killed)
            }
            Self::NoResponse { end, .. } => matches!(
                end,
                HeadEnd::ClientGone
                    | HeadEnd::ClientCutOff
                    | HeadEnd::ClientTimeout
                    | HeadEnd::ClientMalformed
                    | HeadEnd::Killed { .. }
            ),
            Self::Refused { .. } => false,
        }
    }
}

impl<'a, 'c> Fetch<'a, 'c> {
    /// One that has not begun. Of the connections that are `kept` for whoever asks it may use one.
    #[inline]
    pub fn new(
        worker: &'a Rc<Worker>,
        backend: &'a Arc<LiveProxy>,
        wanted: Wanted,
        kept: &'c mut PinnedConnections,
        deadline: &'c mut Deadline,
    ) -> Self {
        Self { attempts: Attempts::new(worker, backend, wanted, kept, true), deadline, followed: 0 }
    }

    /// Sends the request and awaits the head of the response, over all attempts.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn run(
        &mut self,
        transaction: &mut Transaction,
        requester: &mut impl HttpRequester,
    ) -> Result<Answer<'a>, Unfetched> {
        let (worker, backend) = (self.attempts.worker, self.attempts.proxy);
        if let Some(call) = transaction.by_rules.plugin.clone() {
            return Box::pin(self.run_plugin(transaction, &call, requester)).await;
        }
        if let Some(files) = backend.files.as_deref().filter(|files| !files.folders.is_empty())
            && let Some(answer) = self.fetch_file(files, transaction, requester).await?
        {
            return Ok(answer);
        }
        let method = transaction.request.method_kind();
        if self.followed == 0 {
            send::prepare(transaction, backend);
        }
        if let Some(line) = program::cgi::line_for(transaction, backend) {
            return Box::pin(self.run_program(transaction, line, requester)).await;
        }
        self.attempts.outlives_stale = backend.retry.outlives_stale_connections()
            && requester.can_resend()
            && !transaction.by_rules.l7_retry_disabled.get();
        loop {
            let mut upstream = self.attempts.reach(transaction, requester).await.map_err(Unfetched::Unreachable)?;
            send::write_request(worker, transaction, backend, &mut upstream, requester);
            let end = if backend.settings().tcp_response_content.is_empty() {
                self.await_response(transaction, &mut upstream, requester).await
            } else {
                Box::pin(self.inspect_response(transaction, &mut upstream, requester)).await?
            };
            let end = match end {
                HeadEnd::Response if body_is_malformed(transaction, backend, &upstream, method) => {
                    transaction.bytes_out -= size::of_response(&transaction.response);
                    HeadEnd::Junk
                }
                end => end,
            };
            let failure = match end {
                HeadEnd::Response => Some(Failure::Status(transaction.response.status())),
                _ => end.failure(),
            };
            let Some(failure) = failure else { return Err(Unfetched::NoResponse { end, reused: false }) };
            let is_there = match failure {
                Failure::NotProcessed => requester.can_go_elsewhere(),
                _ => requester.can_resend(),
            };
            let attempt = FailedAttempt {
                failure,
                failed_before: self.attempts.failed(),
                can_resend: is_there && !transaction.by_rules.l7_retry_disabled.get(),
                reused_connection: upstream.reused,
                is_idempotent: method.is_idempotent(),
            };
            let sends_again = backend.retry.sends_again(&attempt);
            if matches!(end, HeadEnd::Killed { .. }) && !sends_again {
                return Err(Unfetched::NoResponse { end, reused: false });
            }
            if matches!(end, HeadEnd::Response) && !sends_again {
                return self.accept(transaction, upstream, method, requester).await;
            }
            if sends_again {
                // As in HAProxy this counts as a retry wherever it goes.
                transaction.bytes_out = 0;
                backend.backend.traffic.of(worker.index).retries.increment();
                upstream.connection.server.side.traffic.of(worker.index).retries.increment();
            }
            if backend.retry.counts_as_error(&attempt) {
                self.count_response_error(transaction, &upstream, &end);
            }
            let Upstream { connection, slot, reused } = upstream;
            drop(connection);
            match Box::pin(self.attempts.after_failure(transaction, attempt, slot, requester)).await {
                Ok(true) => transaction.route.resent = true,
                Ok(false) => return Err(Unfetched::NoResponse { end, reused }),
                Err(unreachable) => return Err(Unfetched::Unreachable(unreachable)),
            }
        }
    }
}

impl<'a> Fetch<'a, '_> {
    /// Has a file answer; `None` where servers do. Their scripts lie beside files, and have one path too.
    #[inline]
    async fn fetch_file(
        &mut self,
        files: &'a LiveFiles,
        transaction: &mut Transaction,
        requester: &mut impl HttpRequester,
    ) -> Result<Option<Answer<'a>>, Unfetched> {
        let here = origin::Here { worker: self.attempts.worker, backend: self.attempts.proxy, files };
        let answer = match origin::at_once(here, transaction) {
            origin::AtOnce::Answer(answer) => Some(answer),
            origin::AtOnce::Servers => None,
            origin::AtOnce::Look => {
                let waiting = origin::Waiting { requester, deadline: &mut *self.deadline };
                // NOTE: boxed, as all that is rare: most files are open already.
                Box::pin(origin::look(here, transaction, waiting)).await?
            }
        };
        match answer {
            None if here.backend.settings().fcgi_app.is_some() => self.lead_to_usual_path(transaction, origin::FILES),
            answer => Ok(answer),
        }
    }
}

impl<'a> Fetch<'a, '_> {
    /// Leads a client to the usual spelling of the path of a program, if it used another one.
    fn lead_to_usual_path(
        &self,
        transaction: &mut Transaction,
        name: &'static str,
    ) -> Result<Option<Answer<'a>>, Unfetched> {
        let Spelling::OfClient(location) = Spelling::of(transaction) else { return Ok(None) };
        let site = Site { worker: self.attempts.worker, backend: self.attempts.proxy, name };
        origin::usual(site, transaction, &location).map(Some)
    }

    /// Has a plugin answer, as a server behind a pair of sockets.
    async fn run_plugin(
        &mut self,
        transaction: &mut Transaction,
        call: &Arc<PluginCall>,
        requester: &mut impl HttpRequester,
    ) -> Result<Answer<'a>, Unfetched> {
        let (worker, backend) = (self.attempts.worker, self.attempts.proxy);
        let method = transaction.request.method_kind();
        transaction.route.server = None;
        transaction.answered.by = Some(program::plugin::NAME);
        send::prepare(transaction, backend);
        let Some(server) = &backend.program_server else { return Err(Unfetched::Unreachable(Unreachable::NoServer)) };
        let wire = program::plugin::start(worker, transaction, backend, call)?;
        transaction.timeline.dequeued = Some(worker.now());
        transaction.timeline.connected = transaction.timeline.dequeued;
        let connection = worker.servers.borrow_mut().open(Codec::Http1(wire), Arc::clone(server));
        let mut upstream = Upstream { connection, slot: None, reused: false };
        send::write_request(worker, transaction, backend, &mut upstream, requester);
        match self.await_response(transaction, &mut upstream, requester).await {
            HeadEnd::Response => Ok(accept(worker, transaction, backend, upstream, (method, requester.streams_body()))),
            end => Err(Unfetched::NoResponse { end, reused: false }),
        }
    }

    /// Has a program answer, which is started for this request.
    async fn run_program(
        &mut self,
        transaction: &mut Transaction,
        line: program::cgi::Chosen<'a>,
        requester: &mut impl HttpRequester,
    ) -> Result<Answer<'a>, Unfetched> {
        let (worker, backend) = (self.attempts.worker, self.attempts.proxy);
        if let Some(answer) = self.lead_to_usual_path(transaction, program::cgi::NAME)? {
            return Ok(answer);
        }
        let method = transaction.request.method_kind();
        transaction.route.server = None;
        transaction.answered.by = Some(program::cgi::NAME);
        let waiting = (&mut *requester, &mut *self.deadline);
        let started = program::cgi::start(worker, transaction, backend, line, waiting).await;
        let started = started.map_err(program::cgi::NoProgram::unfetched)?;
        transaction.timeline.dequeued = Some(worker.now());
        transaction.timeline.connected = transaction.timeline.dequeued;
        let Some(server) = &backend.program_server else { return Err(Unfetched::Unreachable(Unreachable::NoServer)) };
        let codec = Codec::Cgi(Box::new(started));
        let connection = worker.servers.borrow_mut().open(codec, Arc::clone(server));
        let mut upstream = Upstream { connection, slot: None, reused: false };
        send::write_request(worker, transaction, backend, &mut upstream, requester);
        match self.await_response(transaction, &mut upstream, requester).await {
            HeadEnd::Response if is_local_redirect(transaction, backend, &upstream) => {
                self.follow(transaction, upstream, requester).await
            }
            HeadEnd::Response => self.accept(transaction, upstream, method, requester).await,
            end => Err(Unfetched::NoResponse { end, reused: false }),
        }
    }

    /// Asks for the path that a program has named, as if the client had (RFC 3875 section 6.2.2).
    async fn follow(
        &mut self,
        transaction: &mut Transaction,
        upstream: Upstream<'a>,
        requester: &mut impl HttpRequester,
    ) -> Result<Answer<'a>, Unfetched> {
        let (worker, backend) = (self.attempts.worker, self.attempts.proxy);
        let method = transaction.request.method_kind();
        let body = AnswerBody::Server { upstream, keeps: false, takes_body: false };
        let_finish(worker, backend, Answer { method, length: BodyLength::None, body });
        transaction.bytes_out = transaction.bytes_out.saturating_sub(size::of_response(&transaction.response));
        self.followed += 1;
        let target = transaction.response.headers.first_known(HeaderId::Location).map(<[u8]>::to_vec);
        let Some(target) = target.filter(|_| self.followed <= FOLLOWED_MAX) else {
            return Err(Unfetched::NoResponse { end: HeadEnd::Junk, reused: false });
        };
        transaction.note_original_target();
        transaction.request.set_target(&target);
        if method != Method::Head {
            transaction.request.set_method(b"GET");
        }
        Box::pin(self.run(transaction, requester)).await
    }
}

/// Whether a program names another path that programs of this backend are for, and nothing more of the request is needed: a body has gone
/// to the program. Other paths may be for other backends, where the client finds them, and so it does where there are rules: they have
/// seen the path that was asked for, not the one that is named.
fn is_local_redirect(transaction: &mut Transaction, backend: &LiveProxy, upstream: &Upstream<'_>) -> bool {
    let has_body = !http::request_body_length(&transaction.request).is_empty();
    let target = match &upstream.connection.codec {
        Codec::Cgi(cgi) if cgi.is_local_redirect() && !has_body => {
            transaction.response.headers.first_known(HeaderId::Location).map(<[u8]>::to_vec)
        }
        _ => None,
    };
    let Some(target) = target else { return false };
    let has_rules = |settings: &haproxycfg::model::Proxy| !settings.http_request.is_empty();
    if has_rules(transaction.client.frontend.settings()) || has_rules(backend.settings()) {
        return false;
    }
    let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    if !is_usual_spelling(path) || !target.iter().all(u8::is_ascii_graphic) {
        return false;
    }
    let asked = transaction.request.target().to_vec();
    transaction.request.set_target(&target);
    let is_here = program::cgi::line_for(transaction, backend).is_some();
    transaction.request.set_target(&asked);
    is_here
}

impl<'a> Fetch<'a, '_> {
    /// Takes a response for the answer, or the file that it names in its body's place.
    #[inline]
    async fn accept(
        &mut self,
        transaction: &mut Transaction,
        upstream: Upstream<'a>,
        method: Method,
        requester: &mut impl HttpRequester,
    ) -> Result<Answer<'a>, Unfetched> {
        let (worker, backend) = (self.attempts.worker, self.attempts.proxy);
        let named = origin::NamedFile::take(transaction, backend);
        let answer = accept(worker, transaction, backend, upstream, (method, requester.streams_body()));
        match (named, &backend.files) {
            (Some(named), Some(files)) => {
                let_finish(worker, backend, answer);
                let here = origin::Here { worker, backend, files };
                let waiting = origin::Waiting { requester, deadline: &mut *self.deadline };
                Box::pin(origin::send(here, transaction, named, waiting)).await
            }
            _ => Ok(answer),
        }
    }
}

/// How long a program may go on whose answer a file takes the place of.
const FINISH_TIME: Duration = Duration::from_secs(5);

/// Lets go of a server whose answer nobody reads. A program comes to its end in the background; the connection of another server can
/// be used again if there is no body.
fn let_finish(worker: &Rc<Worker>, backend: &Arc<LiveProxy>, answer: Answer<'_>) {
    let AnswerBody::Server { upstream, keeps, .. } = answer.body else { return };
    let Upstream { mut connection, slot, reused } = upstream;
    drop(slot);
    if !connection.codec.ends_answers() {
        if keeps && answer.length.is_empty() {
            give_back(worker, Upstream { connection, slot: None, reused }, backend);
        }
        return;
    }
    let (here, backend) = (Rc::clone(worker), Arc::clone(backend));
    let finishing = async move {
        let mut deadline = Deadline::default();
        deadline.set(Some(here.now() + FINISH_TIME));
        let has_ended = poll_fn(|context| {
            loop {
                let came = connection.codec.received().len();
                connection.codec.consume(came);
                match connection.codec.poll_receive(context) {
                    Poll::Ready(Ok(1..)) => {}
                    Poll::Ready(ended) => return Poll::Ready(ended.is_ok()),
                    Poll::Pending => return deadline.poll(context).map(|()| false),
                }
            }
        })
        .await;
        if has_ended {
            give_back(&here, Upstream { connection, slot: None, reused }, &backend);
        }
    };
    tokio::task::spawn_local(worker.clocked(finishing));
}

/// Takes note of a response that is the answer.
fn accept<'a>(
    worker: &Worker,
    transaction: &mut Transaction,
    backend: &Arc<LiveProxy>,
    upstream: Upstream<'a>,
    (method, takes_body): (Method, bool),
) -> Answer<'a> {
    transaction.answered.has_head = true;
    transaction.timeline.response = Some(worker.now());
    transaction.variables.get_mut().start_response();
    let status = transaction.response.status();
    count_response(worker, backend, &upstream, status);
    if transaction.has_tables {
        transaction.count_tracked_status(status);
        stick::store(transaction, backend);
    }
    let length = response_body_length(&transaction.response, method);
    let response = &transaction.response;
    let keeps = !response.is_in_doubt() && http::keep_alive(response.version(), &response.headers);
    http::remove_persistence(&mut transaction.response.headers);
    Answer { method, length, body: AnswerBody::Server { upstream, keeps, takes_body } }
}

fn count_response(worker: &Worker, backend: &LiveProxy, upstream: &Upstream<'_>, status: u16) {
    let server = &upstream.connection.server;
    let now = worker.now_ms();
    server.last_session_ms.store(now, Relaxed);
    backend.last_session_ms.store(now, Relaxed);
    server.side.traffic.of(worker.index).response(status).increment();
    server.side.traffic.of(worker.index).requests.increment();
    if server.config.observe.is_on() {
        let good = matches!(status, 100..=499 | 501 | 505);
        let seen = if good { balance::Observation::ResponseOk } else { balance::Observation::ResponseStatus };
        observe(worker, backend, server.index, seen);
    }
}

/// Whether what came of the body together with the response's head makes no sense. As in HAProxy the response counts as
/// malformed then, and the client gets another one.
fn body_is_malformed(transaction: &Transaction, backend: &LiveProxy, upstream: &Upstream<'_>, method: Method) -> bool {
    let (response, received) = (&transaction.response, upstream.connection.codec.received());
    if received.is_empty() || !response.headers.contains_known(http::HeaderId::TransferEncoding) {
        return false;
    }
    let limits = transaction.response_limits(backend.settings());
    let length = response_body_length(response, method);
    length == BodyLength::Chunked && BodyTracker::new(length, &limits).track(received).is_err()
}

/// A connection to a server and the right to use it.
pub struct Upstream<'a> {
    /// The connection.
    pub connection: Box<ServerConnection>,
    /// The right.
    pub slot: Option<Slot<'a>>,
    /// Whether the connection had served requests before.
    pub reused: bool,
}

/// Why there is no connection to a server.
#[derive(Debug)]
pub enum Unreachable {
    /// No server is up.
    NoServer,
    /// The queues are full.
    QueueFull,
    /// It waited too long in a queue.
    QueueTimeout,
    /// The client left meanwhile.
    ClientGone,
    /// The client's connection failed meanwhile, in TCP mode.
    ClientFailed,
    /// It was told to end.
    Killed,
    /// The last attempt failed.
    Refused(io::Error),
    /// The last attempt ended in the handshake of TLS.
    Handshake(tls::Failure),
    /// The last attempt took too long.
    ConnectTimeout,
    /// The request has not the source address that it is to come from (`usesrc hdr_ip`).
    NoSource,
    /// The client is to ask the server itself (`redir`).
    Elsewhere,
}

/// What is asked of the balancer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// The hash key.
    pub key: Option<u32>,
    /// The server that persistence or `use-server` names.
    pub forced: Option<Forced>,
    /// Not this one, if there is another.
    pub avoid: Option<ServerId>,
}

/// Tells the health of a server what traffic has shown.
pub fn observe(worker: &Worker, proxy: &LiveProxy, server: ServerIndex, observation: balance::Observation) {
    proxy.with_farm(|farm| farm.observe(ServerId::new(server.0 as usize), observation, worker.now_ms()));
}
