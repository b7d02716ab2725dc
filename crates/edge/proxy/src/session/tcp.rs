//! TCP mode, and the `tcp-request` rules that HTTP mode runs too.

use std::{
    future::poll_fn,
    io,
    rc::Rc,
    sync::Arc,
    task::{Context as TaskContext, Poll},
};

use ::http::{Parsed, RequestParser};
use haproxycfg::model::{Mode, Rule, StreamAction, TcpAction};
use live::{Instance, LiveProxy};
use net::splice::CopyError;
use sample::{Options, Outcome};

use super::{
    body::{Duplex as _, Sink as _, Source as _},
    ending::{Ending, Stage},
    exchange::{InBackend, WaitingClient, hash_key},
    fetch::{Attempts, Codec, ServerCodec as _, Wanted},
    http::Session,
    logging, persistence,
    pinned::PinnedConnections,
    resolving::{Patience, resolve},
    routing::choose_backend,
    stream_actions,
    transaction::{ClientSide, RawHead, Transaction},
    wire::Wire,
};
use crate::{
    pool::ServerConnection,
    stick::{self, Level},
    tunnel::{self, TunnelEnd, TunnelSetup},
    worker::Worker,
};

/// What a set of rules came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpVerdict {
    /// The connection goes on.
    Accept,
    /// It goes on, with a PROXY protocol header first.
    ExpectProxy,
    /// It goes on, with a NetScaler header first.
    ExpectNetscaler,
    /// It goes on with the rules behind this one, which waits for an address.
    Resolve(usize),
    /// It is closed.
    Reject,
    /// The server's side is closed; what it has sent still goes to the client.
    Close,
    /// It vanishes.
    Drop,
    /// It goes on in HTTP mode.
    SwitchToHttp,
}

/// Runs `tcp-request connection` or `session` rules.
pub fn connection_rules(
    worker: &Worker,
    instance: &Arc<Instance>,
    side: &Rc<ClientSide>,
    rules: &[Rule<TcpAction>],
) -> TcpVerdict {
    let transaction = Transaction::new(Arc::clone(instance), Rc::clone(side), worker);
    let verdict = run(&transaction, rules, 0, Level::Connection, Options::REQUEST).unwrap_or(TcpVerdict::Accept);
    transaction.keep_addresses();
    verdict
}

/// Runs rules from `start` on; `None` when one of them cannot be decided before more bytes come.
fn run(
    transaction: &Transaction,
    rules: &[Rule<TcpAction>],
    start: usize,
    level: Level,
    options: Options,
) -> Option<TcpVerdict> {
    for (index, rule) in rules.iter().enumerate().skip(start) {
        match rule.condition.as_ref().map_or(Outcome::Pass, |condition| condition.evaluate(transaction, options)) {
            Outcome::Pass => {}
            Outcome::Fail => continue,
            Outcome::Miss => return None,
        }
        let verdict = match &rule.action {
            TcpAction::Accept => TcpVerdict::Accept,
            TcpAction::Reject => TcpVerdict::Reject,
            TcpAction::Close => TcpVerdict::Close,
            TcpAction::SilentDrop => TcpVerdict::Drop,
            TcpAction::ExpectProxy => TcpVerdict::ExpectProxy,
            TcpAction::ExpectNetscaler => TcpVerdict::ExpectNetscaler,
            TcpAction::Stream(StreamAction::Resolve(_)) => return Some(TcpVerdict::Resolve(index)),
            TcpAction::SwitchModeHttp => TcpVerdict::SwitchToHttp,
            TcpAction::Stream(StreamAction::Stick(action)) => {
                if !stick::act(transaction, action, level, options) {
                    return None;
                }
                continue;
            }
            TcpAction::Stream(action) => {
                stream_actions::change(transaction, action, options);
                continue;
            }
        };
        *transaction.by_rules.last_rule.borrow_mut() = Some(rule.location.clone());
        return Some(verdict);
    }
    Some(TcpVerdict::Accept)
}

/// Runs `tcp-request content` rules from `start` on, on a request that is complete.
pub fn content_rules(transaction: &Transaction, rules: &[Rule<TcpAction>], start: usize) -> TcpVerdict {
    run(transaction, rules, start, Level::Content, Options::REQUEST).unwrap_or(TcpVerdict::Accept)
}

/// Carries out the rule that a set stopped at, a `do-resolve`; without `until`, which is `inspect-delay`, it cannot wait.
pub async fn resolve_rule(
    transaction: &Transaction,
    rules: &[Rule<TcpAction>],
    index: usize,
    until: Option<std::time::Instant>,
) {
    if let Some(TcpAction::Stream(StreamAction::Resolve(rule))) = rules.get(index).map(|rule| &rule.action) {
        resolve(transaction, rule, until.map_or(Patience::None, Patience::Until)).await;
    }
}

/// Runs `tcp-response content` rules while more of the response may come; `None` when one of them needs more of it.
pub fn partial_response_rules(transaction: &Transaction, rules: &[Rule<TcpAction>]) -> Option<TcpVerdict> {
    run(transaction, rules, 0, Level::Content, Options::RESPONSE_PARTIAL)
}

/// Runs `tcp-response content` rules on what there is of a response.
pub fn response_rules(transaction: &Transaction, rules: &[Rule<TcpAction>]) -> TcpVerdict {
    run(transaction, rules, 0, Level::Content, Options::RESPONSE).unwrap_or(TcpVerdict::Accept)
}

/// Serves a connection of a frontend in TCP mode.
pub async fn serve(mut session: Box<Session>) {
    let worker = Rc::clone(&session.worker);
    let mut transaction = Transaction::new(Arc::clone(&session.instance), Rc::clone(&session.side), &worker);
    transaction.restart(&session.instance, &session.side, worker.random());
    transaction.take_number();
    transaction.timeline.idle_since = Some(session.side.accepted);
    transaction.timeline.first_byte = Some(session.side.accepted);
    let to_http = run_session(&mut session, &mut transaction).await;
    if to_http {
        transaction.keep_addresses();
        worker.heads.give(transaction.take_heads());
        return Box::pin(super::serve_http(session, false)).await;
    }
    transaction.finish(&worker);
    session.registered.handle.rests();
    worker.heads.give(transaction.take_heads());
}

/// Runs the session; true when it is to go on in HTTP mode.
async fn run_session(session: &mut Session, transaction: &mut Transaction) -> bool {
    let frontend = Arc::clone(&session.side.frontend);
    let settings = frontend.settings();
    match content_phase(session, transaction, &settings.tcp_request_content, settings.tcp_request_inspect_delay).await {
        Ok(TcpVerdict::Accept | TcpVerdict::ExpectProxy | TcpVerdict::ExpectNetscaler | TcpVerdict::Resolve(_)) => {}
        Ok(TcpVerdict::SwitchToHttp) => return true,
        Ok(verdict @ (TcpVerdict::Reject | TcpVerdict::Close | TcpVerdict::Drop)) => {
            if verdict == TcpVerdict::Drop {
                session.client.stream.vanish();
            }
            session.side.count(session.worker.index, |traffic| &traffic.denied_requests);
            transaction.bytes_in += session.client.received.len() as u64;
            transaction.end(Ending::Refused(Stage::Request));
            return false;
        }
        Err(_) => {
            lost_client(session, transaction);
            return false;
        }
    }
    if !settings.use_backend.is_empty() {
        // These rules may ask for what content rules waited for, such as a TLS client's server name.
        look_at(transaction, session.client.received.bytes());
    }
    let backend = choose_backend(transaction, &frontend);
    transaction.asked.raw.bytes = Vec::new();
    transaction.asked.raw_head = RawHead::Unknown;
    let Some(backend) = backend else {
        transaction.bytes_in += session.client.received.len() as u64;
        transaction.end(Ending::NoServer);
        return false;
    };
    if backend.settings().mode == Mode::Http {
        return true;
    }
    transaction.route.backend = Some(Arc::clone(&backend));
    let traffic = backend.backend.traffic.of(session.worker.index);
    traffic.sessions.increment();
    traffic.sources.get_or_init(Box::default).count(&frontend.frontend);
    if !Arc::ptr_eq(&backend, &frontend) {
        let rules = &backend.settings().tcp_request_content;
        match content_phase(session, transaction, rules, backend.settings().tcp_request_inspect_delay).await {
            Ok(
                TcpVerdict::Accept
                | TcpVerdict::ExpectProxy
                | TcpVerdict::ExpectNetscaler
                | TcpVerdict::Resolve(_)
                | TcpVerdict::SwitchToHttp,
            ) => {}
            Err(_) => {
                lost_client(session, transaction);
                return false;
            }
            Ok(verdict @ (TcpVerdict::Reject | TcpVerdict::Close | TcpVerdict::Drop)) => {
                if verdict == TcpVerdict::Drop {
                    session.client.stream.vanish();
                }
                // As in HAProxy the backend's rules count for the frontend.
                session.side.count(session.worker.index, |traffic| &traffic.denied_requests);
                transaction.bytes_in += session.client.received.len() as u64;
                transaction.end(Ending::Refused(Stage::Request));
                return false;
            }
        }
    }
    connect_and_tunnel(session, transaction, &backend).await;
    false
}

/// Ends a session whose client failed before the rules about its bytes were through.
fn lost_client(session: &Session, transaction: &mut Transaction) {
    session.side.count(session.worker.index, |traffic| &traffic.request_errors);
    transaction.end(Ending::ClientLeft(Stage::Request));
}

async fn connect_and_tunnel(session: &mut Session, transaction: &mut Transaction, backend: &Arc<live::LiveProxy>) {
    let _counted = InBackend::enter(backend);
    transaction.timeline.request = Some(session.worker.now());
    let settings = backend.settings();
    // These may ask for what content rules waited for, such as the cookie of RDP.
    let asks = settings.balance.key.is_some()
        || settings.rdp_persistence.is_some()
        || !settings.use_server.is_empty()
        || !settings.persist_rules.is_empty()
        || !settings.sticking_rules.is_empty();
    if asks {
        look_at(transaction, session.client.received.bytes());
    }
    let key = hash_key(transaction, backend, transaction.source.get());
    let forced = persistence::server_of_request(transaction, backend);
    transaction.asked.raw.bytes = Vec::new();
    transaction.asked.raw_head = RawHead::Unknown;
    let worker = Rc::clone(&session.worker);
    let mut kept = PinnedConnections::default();
    let mut attempts = Attempts::new(&worker, backend, Wanted { key, forced, avoid: None }, &mut kept, false);
    let mut client = WaitingClient {
        stream: &mut session.client,
        abort_on_close: backend.settings().options.abortonclose,
        is_tcp: true,
        handle: &session.registered.handle,
    };
    let upstream = match attempts.reach(transaction, &mut client).await {
        Ok(upstream) => upstream,
        Err(why) => {
            transaction.bytes_in += session.client.received.len() as u64;
            transaction.end_unreachable(&why);
            return;
        }
    };
    logging::log_early(&session.worker, transaction, transaction.timeline.connected, 0);
    let mut connection = upstream.connection;
    transaction.variables.get_mut().start_response();
    if !goes_on_after_response(session, transaction, backend, &mut connection.codec).await {
        return;
    }
    remember_server(transaction, backend, &connection.codec);
    tunnel_to(session, transaction, backend, connection).await;
}

/// Runs `tcp-response content` rules; false when they, or the client, have ended the session.
async fn goes_on_after_response(
    session: &mut Session,
    transaction: &mut Transaction,
    backend: &LiveProxy,
    server: &mut Codec,
) -> bool {
    let rules = &backend.settings().tcp_response_content;
    if rules.is_empty() {
        return true;
    }
    let delay = backend.settings().tcp_response_inspect_delay;
    match Box::pin(response_phase(session, transaction, server, rules, delay)).await {
        Ok(
            TcpVerdict::Accept
            | TcpVerdict::ExpectProxy
            | TcpVerdict::ExpectNetscaler
            | TcpVerdict::Resolve(_)
            | TcpVerdict::SwitchToHttp,
        ) => return true,
        Ok(TcpVerdict::Close) => {
            server.shut();
            return true;
        }
        Err(error) => {
            server.break_off();
            transaction.end_tunnel(&TunnelEnd::ClientError(error));
        }
        Ok(TcpVerdict::Drop) => {
            session.client.stream.vanish();
            transaction.end(Ending::Refused(Stage::Request));
        }
        Ok(TcpVerdict::Reject) => {
            transaction.count_denied_response(backend);
            transaction.bytes_out += server.received().len() as u64;
            transaction.end(Ending::Refused(Stage::Data));
        }
    }
    false
}

/// Moves bytes between client and server until both have ended.
async fn tunnel_to(
    session: &mut Session,
    transaction: &mut Transaction,
    backend: &LiveProxy,
    mut connection: Box<ServerConnection>,
) {
    let way = (&session.worker, &*session.registered.handle);
    let setup = TunnelSetup::new(way, transaction, backend, &connection.server, None);
    let report = tunnel::run(&mut session.client, &mut connection.codec, setup).await;
    transaction.bytes_in += report.bytes_up;
    transaction.bytes_out += report.bytes_down;
    session.worker.traffic().bytes_spliced.add(report.bytes_spliced);
    transaction.timeline.response = Some(session.worker.now());
    transaction.end_tunnel(&report.end);
}

/// Runs `stick store-response` on what the server has sent so far, and remembers the server.
fn remember_server(transaction: &mut Transaction, backend: &LiveProxy, server: &Codec) {
    if backend.settings().sticking_rules.is_empty() && backend.settings().store_response_rules.is_empty() {
        return;
    }
    transaction.answered.raw.bytes = server.received().to_vec();
    stick::store(transaction, backend);
    transaction.answered.raw.bytes = Vec::new();
}

/// Notes what has come of a TCP session for those who ask, as bytes and as the request of HTTP that they may be.
fn look_at(transaction: &mut Transaction, bytes: &[u8]) {
    transaction.asked.raw.bytes = bytes.to_vec();
    transaction.asked.raw_head = if bytes.is_empty() {
        RawHead::Unknown
    } else {
        let settings = transaction.frontend_settings();
        let limits = transaction.instance.limits(settings.options.accept_invalid_http_request);
        match RequestParser::new().parse(bytes, &limits, &mut transaction.request) {
            Ok(Parsed::Complete { .. }) => RawHead::Request,
            Ok(Parsed::Incomplete) => RawHead::Unknown,
            Err(_) => RawHead::Other,
        }
    };
}

/// Runs `tcp-request content` rules, waiting up to `inspect-delay` for bytes and addresses that they ask about. Fails with
/// the client's connection.
async fn content_phase(
    session: &mut Session,
    transaction: &mut Transaction,
    rules: &[Rule<TcpAction>],
    inspect_delay: Option<std::time::Duration>,
) -> io::Result<TcpVerdict> {
    if rules.is_empty() {
        return Ok(TcpVerdict::Accept);
    }
    let until = inspect_delay.map(|delay| session.worker.now() + delay);
    let mut start = 0;
    loop {
        match inspect(session, transaction, rules, start, until).await {
            Ok(TcpVerdict::Resolve(index)) => {
                Box::pin(resolve_rule(transaction, rules, index, until)).await;
                start = index + 1;
            }
            verdict => return verdict,
        }
    }
}

/// Runs `tcp-request content` rules from `start` on, until one of them decides.
async fn inspect(
    session: &mut Session,
    transaction: &mut Transaction,
    rules: &[Rule<TcpAction>],
    start: usize,
    until: Option<std::time::Instant>,
) -> io::Result<TcpVerdict> {
    session.deadline.set(until);
    let (client, deadline) = (&mut session.client, &mut session.deadline);
    let mut looked = false;
    poll_fn(|context| {
        loop {
            if !looked {
                // What the client sent with its connection is seen the first time already.
                looked = true;
                if let Poll::Ready(Err(error)) = client.poll_receive(context) {
                    return Poll::Ready(Err(error));
                }
            }
            let late = until.is_none() || deadline.poll(context).is_ready();
            let closed = client.ended || client.is_full();
            look_at(transaction, client.received.bytes());
            transaction.asked.raw.closed = closed;
            let options = if late || closed { Options::REQUEST } else { Options::REQUEST_PARTIAL };
            if let Some(verdict) = run(transaction, rules, start, Level::Content, options) {
                transaction.asked.raw.bytes = Vec::new();
                transaction.asked.raw_head = RawHead::Unknown;
                return Poll::Ready(Ok(verdict));
            }
            match client.poll_receive(context) {
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await
}

/// Runs `tcp-response content` rules, waiting up to `inspect-delay` for bytes of the server that they ask about. What the
/// client sends goes to the server meanwhile. Fails with the client's connection.
async fn response_phase(
    session: &mut Session,
    transaction: &mut Transaction,
    server: &mut Codec,
    rules: &[Rule<TcpAction>],
    inspect_delay: Option<std::time::Duration>,
) -> io::Result<TcpVerdict> {
    let until = inspect_delay.map(|delay| session.worker.now() + delay);
    session.deadline.set(until);
    let (client, deadline) = (&mut session.client, &mut session.deadline);
    let mut upload = Upload::default();
    let verdict = poll_fn(|context| {
        loop {
            let uploaded = match upload.poll(client, server, context) {
                Err(CopyError::Read(error)) => return Poll::Ready(Err(error)),
                uploaded => uploaded,
            };
            let late = until.is_none() || deadline.poll(context).is_ready();
            let closed = server.has_ended() || uploaded.is_err() || server.is_full();
            transaction.answered.raw.bytes = server.received().to_vec();
            transaction.answered.raw.closed = closed;
            let options = if late || closed { Options::RESPONSE } else { Options::RESPONSE_PARTIAL };
            if let Some(verdict) = run(transaction, rules, 0, Level::Content, options) {
                transaction.answered.raw.bytes = Vec::new();
                return Poll::Ready(Ok(verdict));
            }
            match server.poll_receive(context) {
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(Ok(TcpVerdict::Accept)),
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await;
    transaction.bytes_in += upload.sent;
    verdict
}

/// What the client sends while the server's first bytes are awaited.
#[derive(Default)]
struct Upload {
    sent: u64,
    is_over: bool,
}

impl Upload {
    /// Moves it to the server, its end included, as far as it goes now.
    fn poll(&mut self, client: &mut Wire, server: &mut Codec, context: &mut TaskContext<'_>) -> Result<(), CopyError> {
        while !self.is_over {
            if !client.received.is_empty() {
                let Poll::Ready(sent) = server.poll_send(client.received.bytes(), context) else { return Ok(()) };
                let sent = sent.map_err(CopyError::Write)?;
                client.received.consume(sent);
                self.sent += sent as u64;
            } else if client.ended {
                let Poll::Ready(shut) = server.poll_shut(context) else { return Ok(()) };
                shut.map_err(CopyError::Write)?;
                self.is_over = true;
            } else {
                let Poll::Ready(received) = client.poll_receive(context) else { return Ok(()) };
                received.map_err(CopyError::Read)?;
            }
        }
        Ok(())
    }
}
