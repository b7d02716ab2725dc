//! From a complete request to what is done with it: captures, rules, the statistics page, the backend and its rules.

use std::{future::poll_fn, net::SocketAddr, sync::Arc, task::Poll, time::Duration};

use balance::{Forced, ServerId, UriOptions};
use haproxycfg::model::{self, Algorithm, Proxy, Redirect, RestrictNames};
use http::BodyLength;
use live::LiveProxy;
use sample::{Context, Direction, Options, Type};

use super::{ClientStream, Exchange, Next, peeked::Peeked, service::Service};
use crate::session::{
    ending::{Ending, Stage},
    fetch::Wanted,
    persistence,
    resolving::{Patience, resolve},
    routing::choose_backend,
    rules::{self, Phase, Verdict},
    size,
    tcp::{self, TcpVerdict},
    transaction::Transaction,
};

/// What is to be done with a request.
pub(super) enum Decision {
    /// Everything has been done; this comes next.
    Done(Next),
    /// It is to be answered.
    By(Answerer),
}

/// What answers a request that no rule has answered.
pub(super) enum Answerer {
    /// A server of the transaction's backend.
    Server(Wanted),
    /// This process, about itself.
    Service(Service),
    /// The cache of this proxy, with a program of VCL or without.
    Cache(Arc<LiveProxy>),
    /// A `cache` section, for this backend.
    Section(Arc<LiveProxy>),
}

/// What answers where a rule names a service. A plugin is in a server's place: whoever fetches from this proxy gets its answer.
fn serve_by(transaction: &mut Transaction, proxy: &Arc<LiveProxy>, service: &model::Service) -> Answerer {
    match service {
        model::Service::PrometheusExporter => Answerer::Service(Service::Metrics),
        model::Service::Plugin(call) => {
            transaction.by_rules.plugin = Some(Arc::clone(call));
            transaction.route.backend.get_or_insert_with(|| Arc::clone(proxy));
            Answerer::Server(Wanted::default())
        }
    }
}

/// How the wait for a body ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Buffered {
    /// As much as was wanted is there.
    Enough,
    /// It took too long.
    TimedOut,
    /// What came is no body.
    Malformed,
    /// The client left.
    ClientGone,
}

impl<C: ClientStream> Exchange<'_, C> {
    /// Runs everything that comes before a server is asked.
    pub(super) async fn decide(&mut self, transaction: &mut Transaction, body: BodyLength) -> Decision {
        transaction.asked.body.announced = body.announced();
        if self.instance.config.asks_request_body && !body.is_empty() {
            Peeked::at(self.client.received(), body, &self.limits()).tell(transaction);
        }
        let frontend = &self.side.frontend;
        let settings = frontend.settings();
        // These come before the request is taken for one.
        if !self.passes_content_rules(transaction, settings).await {
            transaction.line.clear();
            return Decision::Done(Next::Close);
        }
        frontend.frontend.traffic.of(self.worker.index).requests.increment();
        capture_request(transaction, settings);
        if settings.monitor_uri.as_deref().is_some_and(|uri| is_probe(transaction, uri)) {
            transaction.count_tracked_request();
            return Decision::Done(Box::pin(self.answer_monitor(transaction)).await);
        }
        // Before rules: what the authority asks for is not for them to redirect or to refuse.
        if frontend.process.certificates.has_pages()
            && let Some(page) = frontend.process.certificates.page(transaction.request.path_and_query())
        {
            transaction.count_tracked_request();
            return Decision::Done(Box::pin(self.answer_challenge(transaction, &page)).await);
        }
        if settings.options.http_buffer_request
            && let Some(done) = Box::pin(self.buffer_request(transaction, settings, body)).await
        {
            return Decision::Done(done);
        }
        transaction.count_tracked_request();
        if let Some(decision) = self.apply(transaction, frontend, body).await {
            return decision;
        }
        if frontend.has_cache() {
            return Decision::By(Answerer::Cache(Arc::clone(frontend)));
        }
        let backend = choose_backend(transaction, frontend);
        let Some(backend) = backend else {
            transaction.end(Ending::NoServer);
            transaction.timeline.request = None;
            return Decision::Done(Box::pin(self.answer_error(transaction, 503)).await);
        };
        transaction.route.backend = Some(Arc::clone(&backend));
        self.handle.enters(&backend);
        let traffic = backend.backend.traffic.of(self.worker.index);
        traffic.sessions.increment();
        traffic.sources.get_or_init(Box::default).count(&frontend.frontend);
        if backend.settings().options.http_buffer_request
            && !transaction.asked.body.complete
            && let Some(done) = Box::pin(self.buffer_request(transaction, backend.settings(), body)).await
        {
            return Decision::Done(done);
        }
        if !Arc::ptr_eq(&backend, frontend) {
            if !self.passes_content_rules(transaction, backend.settings()).await {
                return Decision::Done(Next::Close);
            }
            transaction.count_backend_request();
            if let Some(decision) = self.apply(transaction, &backend, body).await {
                return decision;
            }
        }
        if transaction.by_rules.caching.as_ref().is_some_and(|caching| caching.hit.is_some()) {
            return Decision::By(Answerer::Section(backend));
        }
        if backend.has_cache() {
            return Decision::By(Answerer::Cache(backend));
        }
        let wanted = self.wanted(transaction, &backend, body).await;
        Decision::By(Answerer::Server(wanted))
    }

    /// Whether `tcp-request content` rules let the request go on. Ends it otherwise.
    async fn passes_content_rules(&mut self, transaction: &mut Transaction, settings: &Proxy) -> bool {
        let rules = &settings.tcp_request_content;
        if rules.is_empty() {
            return true;
        }
        let mut start = 0;
        let verdict = loop {
            match tcp::content_rules(transaction, rules, start) {
                TcpVerdict::Resolve(index) => {
                    let until = settings.tcp_request_inspect_delay.map(|delay| self.worker.now() + delay);
                    Box::pin(tcp::resolve_rule(transaction, rules, index, until)).await;
                    start = index + 1;
                }
                verdict => break verdict,
            }
        };
        match verdict {
            TcpVerdict::Accept
            | TcpVerdict::ExpectProxy
            | TcpVerdict::ExpectNetscaler
            | TcpVerdict::Resolve(_)
            | TcpVerdict::SwitchToHttp => return true,
            TcpVerdict::Drop => self.client.vanish(),
            TcpVerdict::Reject | TcpVerdict::Close => self.client.reject(),
        }
        // As in HAProxy the backend's rules count for the frontend alone.
        self.side.count(self.worker.index, |traffic| &traffic.denied_requests);
        transaction.timeline.request = None;
        transaction.end(Ending::Refused(Stage::Request));
        false
    }

    /// Rules, statistics and redirects of one proxy; `Some` when no server is asked.
    async fn apply(
        &mut self,
        transaction: &mut Transaction,
        proxy: &Arc<LiveProxy>,
        body: BodyLength,
    ) -> Option<Decision> {
        let settings = proxy.settings();
        let mut start = 0;
        while start < settings.http_request.len() {
            let verdict = rules::run(transaction, &settings.http_request, start, Phase::Request);
            match verdict {
                Verdict::Continue | Verdict::Allow => break,
                Verdict::WaitForBody { time, at_least, resume } => {
                    let buffered = Box::pin(self.buffer_body(transaction, body, time, at_least)).await;
                    if let Some(done) = Box::pin(self.not_buffered(transaction, buffered)).await {
                        return Some(Decision::Done(done));
                    }
                    // What rules wait for is a part of the request's time.
                    transaction.timeline.request = Some(self.worker.now());
                    start = resume;
                }
                Verdict::Resolve { rule, resume } => {
                    Box::pin(resolve(transaction, rule, Patience::Answer)).await;
                    transaction.timeline.request = Some(self.worker.now());
                    start = resume;
                }
                Verdict::EarlyHints { headers, resume } => {
                    // RFC 8297 section 2: clients of HTTP/1.0 do not know of it.
                    if transaction.asked.version == http::Version::Http11 {
                        transaction.bytes_out += size::of_early_hints(&headers);
                        Box::pin(self.send_early_hints(&headers)).await;
                    }
                    start = resume;
                }
                Verdict::UseService(service) => return Some(Decision::By(serve_by(transaction, proxy, service))),
                verdict => return Some(Decision::Done(Box::pin(self.execute(transaction, settings, verdict)).await)),
            }
        }
        if !restrict_names(
            &mut transaction.request.headers,
            settings.options.restrict_request_header_names.unwrap_or_default(),
        ) {
            transaction.count_denied_request();
            transaction.count_tracked_error();
            transaction.end(Ending::Refused(Stage::Request));
            return Some(Decision::Done(Box::pin(self.answer_error(transaction, 403)).await));
        }
        // NOTE: other methods are for whoever stands behind, as in HAProxy.
        if let Some(stats) = &settings.stats
            && matches!(transaction.request.method(), b"GET" | b"HEAD" | b"POST")
            && self.worker.neighbours.pages.is_statistics(&stats.uri, transaction.request.target())
        {
            return Some(Decision::By(Answerer::Service(Service::Statistics(Arc::clone(proxy)))));
        }
        if let Some(redirect) = rules::redirect(transaction, &settings.redirects) {
            return Box::pin(self.answer_redirect(transaction, redirect)).await.map(Decision::Done);
        }
        None
    }

    /// Carries out a verdict that ends the request here.
    pub(super) async fn execute(&mut self, transaction: &mut Transaction, proxy: &Proxy, verdict: Verdict<'_>) -> Next {
        match verdict {
            Verdict::Deny(reply) => {
                transaction.count_denied_request();
                transaction.count_tracked_error();
                transaction.end(Ending::Refused(Stage::Request));
                self.note_cookies(transaction);
                self.answer_reply(transaction, reply, 403).await
            }
            Verdict::Tarpit(reply) => {
                transaction.count_denied_request();
                transaction.count_tracked_error();
                transaction.end(Ending::Tarpitted);
                self.note_cookies(transaction);
                self.tarpit(transaction, proxy).await;
                // As HAProxy has it, the time in the pit is one in a queue.
                forget_request_time(transaction, proxy);
                transaction.timeline.dequeued = Some(self.worker.now());
                self.answer_reply(transaction, reply, 500).await
            }
            Verdict::Return(reply) => {
                transaction.count_intercepted();
                transaction.end(Ending::AnsweredHere(Stage::Request));
                self.answer_reply(transaction, reply, 200).await
            }
            Verdict::Redirect(redirect) => match self.answer_redirect(transaction, redirect).await {
                Some(next) => next,
                None => Next::Close,
            },
            Verdict::Auth(realm) => {
                transaction.count_intercepted();
                transaction.end(Ending::AnsweredHere(Stage::Request));
                let realm = realm.unwrap_or(proxy.name.as_bytes());
                self.answer_unauthorized(transaction, realm).await
            }
            Verdict::Reject => {
                self.client.reject();
                transaction.count_denied_request();
                self.count_unread_body(transaction);
                transaction.end(Ending::Refused(Stage::Request));
                forget_request_time(transaction, proxy);
                Next::Close
            }
            Verdict::Malformed => {
                transaction.end(Ending::RequestMalformed(Stage::Request));
                forget_request_time(transaction, proxy);
                self.answer_error(transaction, 400).await
            }
            Verdict::RewriteFailed => {
                forget_request_time(transaction, proxy);
                self.internal_error(transaction, Stage::Request).await
            }
            Verdict::SilentDrop => {
                transaction.end(Ending::Refused(Stage::Request));
                forget_request_time(transaction, proxy);
                transaction.count_denied_request();
                self.client.vanish();
                Next::Close
            }
            Verdict::UseService(_)
            | Verdict::Continue
            | Verdict::Allow
            | Verdict::WaitForBody { .. }
            | Verdict::Resolve { .. }
            | Verdict::EarlyHints { .. } => Next::Close,
        }
    }

    /// Looks at the cookies of a request that a rule denies. Those of other requests that go to no server are not logged.
    fn note_cookies(&self, transaction: &mut Transaction) {
        let frontend = &self.side.frontend;
        persistence::capture_client_cookie(transaction, frontend.settings());
        let proxy = transaction.route.backend.clone().unwrap_or_else(|| Arc::clone(frontend));
        persistence::judge_cookie(transaction, &proxy);
    }

    async fn tarpit(&mut self, _transaction: &Transaction, proxy: &Proxy) {
        let wait = proxy.timeouts.tarpit.or(proxy.timeouts.connect).unwrap_or(Duration::ZERO);
        self.deadline.set(Some(self.worker.now() + wait));
        let (client, deadline) = (&mut *self.client, &mut *self.deadline);
        poll_fn(|context| {
            if !client.has_ended() && matches!(client.poll_receive(context), Poll::Ready(Ok(0) | Err(_))) {
                return Poll::Ready(());
            }
            deadline.poll(context)
        })
        .await;
    }

    async fn answer_redirect(&mut self, transaction: &mut Transaction, redirect: &Redirect) -> Option<Next> {
        let location = rules::location(transaction, redirect)?;
        transaction.count_intercepted();
        transaction.end(Ending::AnsweredHere(Stage::Request));
        Some(self.answer_location(transaction, redirect, &location).await)
    }

    /// `option http-buffer-request`; `Some` when the request is over.
    async fn buffer_request(
        &mut self,
        transaction: &mut Transaction,
        settings: &Proxy,
        body: BodyLength,
    ) -> Option<Next> {
        let time = settings.timeouts.http_request.or(self.side.frontend.settings().timeouts.client);
        let buffered = Box::pin(self.buffer_body(transaction, body, time.unwrap_or(Duration::MAX), 0)).await;
        if buffered == Buffered::Enough {
            // With this option a request is there when its body is.
            transaction.timeline.request = Some(self.worker.now());
        }
        self.not_buffered(transaction, buffered).await
    }

    /// Ends a request whose body does not come; `None` when there is enough of it.
    async fn not_buffered(&mut self, transaction: &mut Transaction, buffered: Buffered) -> Option<Next> {
        match buffered {
            Buffered::Enough => None,
            Buffered::TimedOut => {
                transaction.end(Ending::ClientTimedOut(Stage::Request));
                transaction.timeline.request = None;
                self.side.count(self.worker.index, |traffic| &traffic.request_errors);
                Some(Box::pin(self.answer_error(transaction, 408)).await)
            }
            Buffered::Malformed => {
                transaction.end(Ending::RequestMalformed(Stage::Request));
                transaction.timeline.request = None;
                self.side.count(self.worker.index, |traffic| &traffic.request_errors);
                Some(Box::pin(self.answer_error(transaction, 400)).await)
            }
            Buffered::ClientGone => {
                transaction.end(Ending::ClientLeft(Stage::Request));
                self.side.count(self.worker.index, |traffic| &traffic.request_errors);
                transaction.count_client_abort();
                Some(Next::Close)
            }
        }
    }

    /// Waits until as much of the body as a rule wants is there.
    pub(super) async fn buffer_body(
        &mut self,
        transaction: &mut Transaction,
        body: BodyLength,
        time: Duration,
        at_least: usize,
    ) -> Buffered {
        if body.is_empty() {
            transaction.asked.body.complete = true;
            return Buffered::Enough;
        }
        if http::expect_continue(&transaction.request) {
            // NOTE: the client waits to be told, though it may have sent some of it; the server is not asked again.
            self.write_continue();
            transaction.request.headers.remove(b"expect");
        }
        self.deadline.set(self.worker.now().checked_add(time));
        let limits = self.limits();
        let (client, deadline) = (&mut *self.client, &mut *self.deadline);
        poll_fn(|context| {
            let _ = client.poll_flush(context);
            loop {
                let bytes = client.received();
                let peeked = Peeked::at(bytes, body, &limits);
                if peeked.is_malformed {
                    return Poll::Ready(Buffered::Malformed);
                }
                if peeked.complete || client.is_full() || (at_least > 0 && peeked.bytes.len() >= at_least) {
                    peeked.tell(transaction);
                    return Poll::Ready(Buffered::Enough);
                }
                match client.poll_receive(context) {
                    Poll::Ready(Ok(count)) if count > 0 => {}
                    Poll::Ready(_) => return Poll::Ready(Buffered::ClientGone),
                    Poll::Pending => return deadline.poll(context).map(|()| Buffered::TimedOut),
                }
            }
        })
        .await
    }

    /// `option prefer-last-server`: the server to which this client still holds a connection of its own, where the
    /// algorithm leaves a choice.
    fn last_server(&self, backend: &LiveProxy) -> Option<Forced> {
        let settings = backend.settings();
        if !settings.options.prefer_last_server {
            return None;
        }
        self.kept.iter().find_map(|kept| {
            let live = backend.server(kept.server.index).filter(|live| live.key == kept.server.key)?;
            let server = ServerId::new(live.index.0 as usize);
            let farm = backend.farm();
            if farm.config().algorithm.is_hash() || !farm.is_usable(server) || kept.is_stale() {
                return None;
            }
            let limit = farm.server_config(server).map_or(0, |config| config.maxconn);
            let has_room = limit == 0 || farm.served(server) < limit;
            let waits = settings.max_keep_alive_queue.is_none_or(|most| farm.server_queued(server) < most);
            (has_room || waits).then_some(Forced { server, even_if_down: false })
        })
    }

    /// What the balancer is asked: the hash key, persistence, `use-server`.
    pub(super) async fn wanted(
        &mut self,
        transaction: &mut Transaction,
        backend: &Arc<LiveProxy>,
        body: BodyLength,
    ) -> Wanted {
        let settings = backend.settings();
        if let Algorithm::UrlParam { check_post: true, .. } = &settings.balance.algorithm
            && transaction.request.method() == b"POST"
            && !transaction.asked.body.complete
        {
            let time = settings.timeouts.http_request.or(settings.timeouts.client).unwrap_or(Duration::MAX);
            Box::pin(self.buffer_body(transaction, body, time, 0)).await;
        }
        persistence::capture_client_cookie(transaction, self.side.frontend.settings());
        let key = hash_key(transaction, backend, transaction.source.get());
        let forced = persistence::server_of_request(transaction, backend).or_else(|| self.last_server(backend));
        Wanted { key, forced, avoid: None }
    }
}

/// As HAProxy has it, what ends a request early leaves no time at which it was complete, unless that was waited for.
fn forget_request_time(transaction: &mut Transaction, proxy: &Proxy) {
    if !proxy.options.http_buffer_request && !transaction.frontend_settings().options.http_buffer_request {
        transaction.timeline.request = None;
    }
}

/// `option http-restrict-req-hdr-names`; false when the request is to be denied.
fn restrict_names(headers: &mut http::Headers, how: RestrictNames) -> bool {
    let is_plain = |name: &[u8]| name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-');
    match how {
        RestrictNames::Preserve => true,
        RestrictNames::Reject => headers.iter().all(|(name, _)| is_plain(name)),
        RestrictNames::Delete => {
            headers.retain(|name, _| is_plain(name));
            true
        }
    }
}

/// Whether the request asks for `monitor-uri`: a path stands for itself in every form of target.
fn is_probe(transaction: &Transaction, uri: &[u8]) -> bool {
    let request = &transaction.request;
    uri == request.target() || (uri.starts_with(b"/") && uri == request.path_and_query())
}

fn capture_request(transaction: &mut Transaction, settings: &Proxy) {
    for (slot, capture) in settings.request_captures.iter().enumerate() {
        let Some(name) = &capture.name else { continue };
        let value = transaction.request.headers.last(name.as_bytes()).map(<[u8]>::to_vec);
        if let Some(value) = value {
            transaction.set_capture(Direction::Request, slot, &value);
        }
    }
}

/// The key of the backend's hash, if its algorithm has one and the request holds it.
#[must_use]
pub fn hash_key(transaction: &Transaction, backend: &LiveProxy, source: Option<SocketAddr>) -> Option<u32> {
    let request = &transaction.request;
    let hasher = &backend.hasher;
    match &backend.settings().balance.algorithm {
        Algorithm::RoundRobin
        | Algorithm::StaticRoundRobin
        | Algorithm::LeastConnections
        | Algorithm::First
        | Algorithm::Random { .. } => None,
        Algorithm::Source => source.map(|source| hasher.source(source.ip())),
        Algorithm::Uri { whole, len, depth, path_only } => {
            let positive = |number: usize| u32::try_from(number).ok().filter(|number| *number > 0);
            let options =
                UriOptions { whole: *whole, len: positive(*len), depth: positive(*depth), path_only: *path_only };
            Some(hasher.uri(request.target(), &options))
        }
        Algorithm::UrlParam { name, check_post } => {
            let name = name.as_bytes();
            hasher
                .url_param(request.target(), name)
                .or_else(|| check_post.then(|| hasher.body_param(&transaction.asked.body.bytes, name)).flatten())
        }
        Algorithm::Header { name, use_domain_only } => {
            let value = request.headers.last(name.as_bytes())?;
            hasher.header(value, *use_domain_only)
        }
        Algorithm::RdpCookie { .. } | Algorithm::Hash => {
            let expression = backend.settings().balance.key.as_ref()?;
            let value = expression.value(transaction, Options::REQUEST, Type::Bin)?.into_block()?;
            // An expression may well give nothing; a cookie without a value is none.
            let is_none = value.is_empty() && backend.settings().balance.algorithm != Algorithm::Hash;
            (!is_none).then(|| hasher.bytes(&value))
        }
    }
}
