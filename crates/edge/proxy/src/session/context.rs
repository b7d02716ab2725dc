//! What expressions, conditions and log formats see of a transaction.

use std::{
    net::IpAddr,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use balance::ServerId;
use haproxycfg::model::{CookieMode, Mode, Password};
use live::{LiveProxy, LiveServer};
use net::Target;
use sample::{
    Address, Backend, BackendMetric, Body, Bytes, Connection, Context, Direction, Frontend, FrontendMetric, Listener,
    LogFields, Process, Request, Response, RuleLocation, Scope, Server, ServerMetric, StickAnswer, StickKey,
    TcpInformation, Value, VariableName,
};

use super::protocol::Protocol;
use super::proxy_protocol::Refused;
use super::transaction::{ProxyFields, RawHead, SeenBody, SeenBytes, Transaction};

pub use basics::clock::since_1970 as wall_clock;

fn milliseconds(duration: Option<Duration>) -> Option<u64> {
    duration.map(|duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

fn clamp(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

impl Transaction {
    fn ended_by(&self) -> Option<&LiveProxy> {
        self.route.backend.as_deref()
    }

    /// What the client's PROXY header says beside addresses.
    pub(super) fn proxy_fields(&self) -> Option<&ProxyFields> {
        self.client.more.get()?.proxy_fields.get()
    }

    fn find_server(&self, backend: &str, server: &str) -> Option<(&LiveProxy, Arc<LiveServer>)> {
        let proxy = if backend.is_empty() { self.ended_by()? } else { self.instance.backend(backend)? };
        let server = proxy.servers.named(server)?;
        Some((proxy, server))
    }

    /// A point in the life of the transaction in milliseconds from its start, as HAProxy's logs count.
    fn since_start(&self, to: Option<std::time::Instant>) -> i64 {
        Self::milliseconds(
            Some(self.client.accepted).filter(|_| !self.asked.is_follower).or(self.timeline.idle_since),
            to,
        )
    }
}

impl SeenBody {
    fn shown(&self) -> Body<'_> {
        Body { bytes: &self.bytes, complete: self.complete, announced: self.announced }
    }
}

impl SeenBytes {
    fn shown(&self) -> sample::Buffer<'_> {
        sample::Buffer { bytes: &self.bytes, closed: self.closed }
    }
}

impl Context for Transaction {
    fn now(&self) -> Duration {
        wall_clock()
    }

    fn local_offset(&self, unix_seconds: i64) -> i32 {
        telemetry::local_offset(unix_seconds)
    }

    fn random(&self) -> u64 {
        let mut state = self.random.get() | 1;
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        self.random.set(state);
        state.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn process(&self) -> Process<'_> {
        let process = &self.instance.process;
        Process {
            hostname: &process.hostname,
            thread: clamp(self.worker as u64),
            pid: std::process::id(),
            stopping: process.stopping.load(Relaxed),
        }
    }

    fn environment(&self, name: &[u8]) -> Option<Bytes<'_>> {
        let name = std::str::from_utf8(name).ok()?;
        self.instance.config.global.environment.get(name).map(|value| Bytes::Borrowed(value.as_bytes()))
    }

    fn is_local_address(&self, address: IpAddr) -> bool {
        address.is_loopback() || net::is_local(address)
    }

    fn client(&self) -> Option<Connection<'_>> {
        let address = |address: Option<std::net::SocketAddr>| Some(address.map_or(Address::Unix, Address::Inet));
        let refused = self.client.more.get().and_then(|more| more.refused.get());
        Some(Connection {
            source: address(self.source.get()),
            destination: address(self.destination()),
            original_source: address(self.client.original_source),
            original_destination: address(self.client.original_destination()),
            http_major: self.client.protocol.major(),
            error_code: refused.map_or(0, Refused::code),
            error_text: refused.map_or("", Refused::text),
            received_proxy: self.client.received_proxy,
            proxy_authority: self.proxy_fields().and_then(|fields| fields.authority.as_deref()),
            proxy_unique_id: self.proxy_fields().and_then(|fields| fields.unique_id.as_deref()),
            encrypted: self.client.is_encrypted(),
        })
    }

    fn client_tls(&self) -> Option<Arc<tls::Handshaken>> {
        self.client.handshaken.clone().or_else(|| self.client.stream.as_ref()?.secure()?.handshaken())
    }

    fn upstream_tls(&self) -> Option<Arc<tls::Handshaken>> {
        self.route.tls.clone()
    }

    fn client_information(&self) -> Option<TcpInformation> {
        let found = self.client.stream.as_ref()?.tcp_information().ok()?;
        Some(TcpInformation {
            rtt_us: found.tcpi_rtt,
            rttvar_us: found.tcpi_rttvar,
            unacked: found.tcpi_unacked,
            sacked: found.tcpi_sacked,
            lost: found.tcpi_lost,
            retransmitted: found.tcpi_retrans,
            fackets: found.tcpi_fackets,
            reordering: found.tcpi_reordering,
        })
    }

    fn upstream(&self) -> Option<Connection<'_>> {
        // What `dispatch` leads to is no server, but there is a connection.
        self.route.server.as_ref().map(|_| ()).or(self.route.destination.map(|_| ()))?;
        Some(Connection {
            source: self.route.source.map(Address::Inet),
            destination: self.route.destination.or_else(|| self.server_address()).map(Address::Inet),
            http_major: self.route.protocol.major(),
            encrypted: self.route.server.as_ref().is_some_and(|server| server.speaks_tls()),
            ..Connection::default()
        })
    }

    fn listener(&self) -> Option<Listener<'_>> {
        let frontend = &self.client.frontend;
        let bind = frontend.settings().binds.get(self.client.listener)?;
        let live = frontend.listeners.get(self.client.listener)?;
        Some(Listener { id: live.id, name: bind.name.as_deref(), connections: clamp(live.side.sessions.value()) })
    }

    fn frontend(&self) -> Option<Frontend<'_>> {
        let settings = self.frontend_settings();
        let default = settings.default_backend.and_then(|index| self.instance.proxy(index));
        Some(Frontend {
            id: settings.id,
            name: &settings.name,
            default_backend: default.map(|proxy| &*proxy.settings().name),
            client_timeout_ms: milliseconds(settings.timeouts.client),
            http: settings.mode == Mode::Http,
        })
    }

    fn backend(&self) -> Option<Backend<'_>> {
        let settings = self.route.backend.as_ref()?.settings();
        Some(Backend {
            id: settings.id,
            name: &settings.name,
            server_timeout_ms: milliseconds(settings.timeouts.server),
            tunnel_timeout_ms: milliseconds(settings.timeouts.tunnel),
            current_server_timeout_ms: milliseconds(self.by_rules.server_timeout.get().or(settings.timeouts.server)),
            current_tunnel_timeout_ms: milliseconds(self.by_rules.tunnel_timeout.get().or(settings.timeouts.tunnel)),
            http: settings.mode == Mode::Http,
        })
    }

    fn server(&self) -> Option<Server<'_>> {
        let server = self.route.server.as_ref()?;
        Some(Server { id: server.config.id, name: &server.config.name })
    }

    fn request(&self) -> Option<Request<'_>> {
        (self.asked.is_complete() || self.asked.raw_head == RawHead::Request).then(|| Request {
            method: self.request.method(),
            uri: self.request.target(),
            uri_prefix: &self.asked.url_prefix,
            version: match self.client.protocol {
                Protocol::Http1 => digits(self.request.version_bytes()),
                Protocol::Http2 => (2, 0),
                Protocol::Http3 => (3, 0),
            },
            headers: &self.request.headers,
            body: self.asked.body.shown(),
            first: !self.asked.is_follower,
            to_proxy: self.asks_proxy(),
        })
    }

    fn request_may_come(&self) -> bool {
        self.asked.raw_head != RawHead::Other
    }

    fn response(&self) -> Option<Response<'_>> {
        self.answered.has_head.then(|| Response {
            status: self.response.status(),
            reason: self.response.reason(),
            version: digits(self.response.version_bytes()),
            headers: &self.response.headers,
            body: self.answered.body.shown(),
        })
    }

    fn request_buffer(&self) -> Option<sample::Buffer<'_>> {
        (!self.asked.is_complete()).then(|| self.asked.raw.shown())
    }

    fn response_buffer(&self) -> Option<sample::Buffer<'_>> {
        (!self.asked.is_complete()).then(|| self.answered.raw.shown())
    }

    fn frontend_metric(&self, name: &str, metric: FrontendMetric) -> Option<i64> {
        let proxy = if name.is_empty() {
            &self.client.frontend
        } else {
            self.instance.proxies.iter().find(|proxy| {
                let settings = proxy.settings();
                settings.kind.has_frontend() && &*settings.name == name
            })?
        };
        Some(match metric {
            FrontendMetric::Connections => proxy.frontend.sessions.value().cast_signed(),
            FrontendMetric::RequestRate => self.instance.process.per_second(
                &proxy.frontend,
                |traffic| traffic.requests.value(),
                &proxy.frontend.request_rate,
            ),
            FrontendMetric::SessionRate => self.instance.process.per_second(
                &proxy.frontend,
                |traffic| traffic.sessions.value(),
                &proxy.frontend.session_rate,
            ),
        })
    }

    fn backend_metric(&self, name: &str, metric: BackendMetric) -> Option<i64> {
        let proxy = if name.is_empty() { self.ended_by()? } else { self.instance.backend(name)? };
        let farm = proxy.farm();
        let usable = || farm.servers().filter(|id| farm.is_usable(*id));
        Some(match metric {
            BackendMetric::Connections => i64::from(farm.streams()),
            BackendMetric::SessionRate => {
                drop(farm);
                let side = &proxy.backend;
                return Some(self.instance.process.per_second(
                    side,
                    |traffic| traffic.sessions.value(),
                    &side.session_rate,
                ));
            }
            BackendMetric::UsableServers => i64::from(farm.usable()),
            BackendMetric::Queue => i64::from(farm.queued_total()),
            BackendMetric::AverageQueue => {
                let queued = i64::from(farm.queued_total());
                match i64::from(farm.usable()) {
                    0 => queued * 2,
                    servers => (queued + servers - 1) / servers,
                }
            }
            BackendMetric::ConnectionsFree | BackendMetric::ConnectionSlots => {
                let with_queues = metric == BackendMetric::ConnectionSlots;
                let mut free = 0;
                for id in usable() {
                    let Some(config) = farm.server_config(id) else { continue };
                    if config.maxconn == 0 || (with_queues && config.maxqueue == 0) {
                        return Some(-1);
                    }
                    free += i64::from(config.maxconn) - i64::from(farm.served(id));
                    if with_queues {
                        free += i64::from(config.maxqueue) - i64::from(farm.server_queued(id));
                    }
                }
                free
            }
        })
    }

    fn server_metric(&self, backend: &str, server: &str, metric: ServerMetric) -> Option<i64> {
        let (proxy, server) = self.find_server(backend, server)?;
        if metric == ServerMetric::SessionRate {
            let side = &server.side;
            return Some(self.instance.process.per_second(
                side,
                |traffic| traffic.sessions.value(),
                &side.session_rate,
            ));
        }
        let farm = proxy.farm();
        let id = ServerId::new(server.index.0 as usize);
        let stats = farm.server_stats(id, proxy.process.milliseconds(std::time::Instant::now()))?;
        Some(match metric {
            ServerMetric::Connections | ServerMetric::SessionRate => i64::from(farm.served(id)),
            ServerMetric::ConnectionsFree => match farm.server_config(id)?.maxconn {
                0 => -1,
                limit => i64::from(limit) - i64::from(farm.served(id)),
            },
            ServerMetric::Up => i64::from(farm.is_usable(id)),
            ServerMetric::Queue => i64::from(farm.server_queued(id)),
            ServerMetric::Weight => i64::from(stats.weight),
            ServerMetric::InitialWeight => i64::from(server.config.weight),
            ServerMetric::UserWeight => i64::from(stats.user_weight),
        })
    }

    fn stick(&self, key: StickKey<'_>, table: Option<&str>, query: stick::Query) -> StickAnswer {
        match key {
            StickKey::Counter(number) => self.counter_answer(number, table, query),
            StickKey::Source => match self.source.get() {
                Some(source) => self.value_answer(Value::address(source.ip()), table, query, query.changes()),
                None => StickAnswer::NoKey,
            },
            StickKey::Value(value) => self.value_answer(value, table, query, false),
        }
    }

    fn stick_table_use(&self, table: &str) -> Option<(u32, u32)> {
        let table = self.instance.tables.named(table)?;
        Some((table.len(), table.definition().size))
    }

    fn variable(&self, name: &VariableName) -> Option<Value<'static>> {
        self.variables.borrow().find(name)
    }

    fn has_scope(&self, scope: Scope) -> bool {
        self.variables.borrow().has_scope(scope)
    }

    fn set_variable(&self, name: &VariableName, value: Value<'static>) -> bool {
        self.variables.borrow_mut().set(name, value)
    }

    fn unset_variable(&self, name: &VariableName) -> bool {
        self.variables.borrow_mut().unset(name)
    }

    fn request_capture(&self, slot: usize) -> Option<Bytes<'_>> {
        self.captures.borrow().request.get(slot)?.clone().map(Bytes::Owned)
    }

    fn response_capture(&self, slot: usize) -> Option<Bytes<'_>> {
        self.captures.borrow().response.get(slot)?.clone().map(Bytes::Owned)
    }

    fn set_capture(&self, direction: Direction, slot: usize, value: &[u8]) -> bool {
        let settings = self.frontend_settings();
        let (declared, mut captures) = match direction {
            Direction::Request => (&settings.request_captures, self.captures.borrow_mut()),
            Direction::Response => (&settings.response_captures, self.captures.borrow_mut()),
        };
        let Some(capture) = declared.get(slot) else { return false };
        let slots = match direction {
            Direction::Request => &mut captures.request,
            Direction::Response => &mut captures.response,
        };
        slots.resize(declared.len().max(slots.len()), None);
        if let Some(place) = slots.get_mut(slot) {
            *place = Some(value.get(..capture.len).unwrap_or(value).to_vec());
        }
        true
    }

    fn request_line(&self) -> Option<Bytes<'_>> {
        (!self.line.text.is_empty()).then_some(Bytes::Borrowed(&self.line.text))
    }

    fn status(&self) -> Option<u16> {
        match self.answered.status {
            0 => self.answered.has_head.then(|| self.response.status()),
            status => Some(status),
        }
    }

    fn cache_hit(&self) -> Option<&str> {
        let hit = self.by_rules.caching.as_ref()?.hit.as_ref()?;
        Some(&hit.cache.spec.name)
    }

    fn compression(&self) -> Option<&'static str> {
        let filters = self.by_rules.filters.get().filter(|filters| filters.compresses.get())?;
        filters.coding.get().map(http::Coding::name)
    }

    fn method(&self) -> Option<Bytes<'_>> {
        self.line.text.get(..self.line.method_len).filter(|method| !method.is_empty()).map(Bytes::Borrowed)
    }

    fn authenticates(&self, list: &str, user: &[u8], password: &[u8]) -> bool {
        let users = self.instance.config.userlists.get(list).map(|list| &list.users);
        let name = std::str::from_utf8(user).ok();
        users.zip(name).and_then(|(users, name)| users.get(name)).is_some_and(|user| verify(&user.password, password))
    }

    fn in_group(&self, list: &str, user: &[u8], group: &[u8]) -> bool {
        let Some(list) = self.instance.config.userlists.get(list) else { return false };
        let (Ok(user), Ok(group)) = (std::str::from_utf8(user), std::str::from_utf8(group)) else { return false };
        list.users.get(user).is_some_and(|user| user.groups.iter().any(|name| name == group))
            || list.groups.get(group).is_some_and(|users| users.iter().any(|name| name == user))
    }

    fn unique_id(&self) -> Option<Bytes<'_>> {
        // What is no request has no number, nor captures.
        if self.asked.is_invalid() {
            return None;
        }
        let format = self.frontend_settings().unique_id_format.as_ref()?;
        if let Some(made) = self.log.unique_id.get() {
            return Some(Bytes::Borrowed(made));
        }
        // NOTE: not `get_or_init`: the format may ask for the id again while it is being made.
        let made = format.to_vec(self);
        Some(Bytes::Borrowed(self.log.unique_id.get_or_init(|| made)))
    }

    fn priority(&self) -> Option<(i64, i64)> {
        Some(self.by_rules.priority.get())
    }

    fn last_rule(&self) -> Option<RuleLocation> {
        let last = self.by_rules.last_rule.borrow();
        last.as_ref().map(|rule| RuleLocation { file: Arc::clone(&rule.file), line: rule.line })
    }

    fn debug(&self, destination: &str, line: &str) {
        self.instance.process.outputs.write_to_sink(destination, line);
    }

    fn log_fields(&self) -> LogFields<'_> {
        let [cause, stage] = self.ending.letters();
        let times = &self.timeline;
        let process = &self.instance.process;
        let idle_from = times.idle_since.unwrap_or(self.client.accepted);
        let cookie = self.route.backend.as_ref().unwrap_or(&self.client.frontend).settings().cookie.as_ref();
        // What becomes of a cookie that is only read is not told.
        // What was no request has had no chance to bring one.
        let has_cookie = !self.asked.is_invalid()
            && cookie.is_some_and(|cookie| cookie.mode != CookieMode::Passive || cookie.indirect);
        let tls = self.client_tls();
        LogFields {
            cipher: tls.as_ref().map(|tls| tls.cipher),
            tls_version: tls.as_ref().map(|tls| tls.version),
            accept_date: self.client.accepted_at
                + if self.asked.is_follower {
                    idle_from.saturating_duration_since(self.client.accepted)
                } else {
                    Duration::ZERO
                },
            handshake_ms: if self.asked.is_follower {
                0
            } else {
                Self::milliseconds(Some(self.client.accepted), Some(idle_from)).max(0)
            },
            idle_ms: Self::milliseconds(Some(idle_from), times.first_byte).max(0),
            request_ms: self.since_start(times.request),
            queue_ms: self.since_start(times.dequeued),
            connect_ms: self.since_start(times.connected),
            data_ms: self.since_start(times.response),
            close_ms: self.since_start(times.end).max(0),
            status: self.answered.status,
            session: times.first_byte.is_some(),
            bytes_out: self.bytes_out,
            body_bytes_out: self.answered.body_bytes,
            bytes_in: self.bytes_in,
            client_cookie: self.log.client_cookie.as_deref(),
            server_cookie: self.log.server_cookie.as_deref(),
            termination: [
                cause,
                stage,
                if has_cookie { self.route.cookie.request } else { b'-' },
                if has_cookie { self.route.cookie.response } else { b'-' },
            ],
            active_connections: clamp(process.connections.value()),
            frontend_connections: clamp(self.client.frontend.frontend.sessions.value()),
            backend_connections: self.route.backend.as_ref().map_or(0, |proxy| clamp(proxy.backend.sessions.value())),
            server_connections: self.route.server.as_ref().map_or(0, |server| clamp(server.side.sessions.value())),
            retries: self.route.retries,
            redispatched: self.route.redispatched,
            server_queue: self.route.server_queue,
            backend_queue: self.route.backend_queue,
            request_counter: self.number,
            log_counter: self.log.counter,
            server: self.answered.by.or_else(|| self.route.server.as_ref().map(|server| &*server.config.name)),
            request_captures: if self.asked.is_invalid() { 0 } else { self.frontend_settings().request_captures.len() },
            response_captures: if self.asked.is_invalid() {
                0
            } else {
                self.frontend_settings().response_captures.len()
            },
            partial: self.frontend_settings().options.logasap,
        }
    }
}

impl Transaction {
    /// Where the server is, for connections that it had before and for those that failed.
    fn server_address(&self) -> Option<std::net::SocketAddr> {
        let server = self.route.server.as_ref().filter(|server| !server.leads_elsewhere())?;
        match server.target() {
            Target::Inet(address) => Some(address),
            _ => None,
        }
    }
}

/// Whether a password is the stored one.
#[must_use]
pub fn verify(stored: &Password, given: &[u8]) -> bool {
    match stored {
        Password::Clear(clear) => same(clear.as_bytes(), given),
        Password::Crypt(hash) => crate::remembered::verify(hash, given),
        Password::Stored(stored) => crate::remembered::verify_stored(stored, given),
    }
}

/// Compares without telling by its time where the first difference is.
fn same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

fn digits(version: &[u8]) -> (u8, u8) {
    match version {
        [.., major @ b'0'..=b'9', b'.', minor @ b'0'..=b'9'] => (major - b'0', minor - b'0'),
        _ => (1, 1),
    }
}
