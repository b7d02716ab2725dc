//! What binds a request to a server besides the balancer's choice: `use-server` and the persistence cookie.

use std::{
    net::{SocketAddr, SocketAddrV4},
    sync::Arc,
    time::SystemTime,
};

use balance::{Forced, ServerId};
use haproxycfg::model::{CaptureCookie, Mode, Proxy, ServerIndex, ServerTarget};
use http::HeaderId;
use live::{LiveProxy, LiveServer};
use logs::{LogLevel, LogLine};
use net::Target;
use sample::{Context as _, Options};

use super::{
    cacheable::cacheable,
    cookie::{self, Dates, Lookup, ResponseSide},
    rules::{self, Phase},
    transaction::Transaction,
};
use crate::{stick, worker::Worker};

/// How a request is bound to a server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Persistence {
    /// The server that it asked for, one way or the other.
    pub server: Option<ServerIndex>,
    /// `ignore-persist`: its cookie neither chooses nor changes.
    pub ignored: bool,
    /// The dates of its cookie.
    pub dates: Dates,
}

/// The server that a request, or a TCP session, is to go to. The request's cookie is taken out if the server is not to see it.
pub fn server_of_request(transaction: &mut Transaction, backend: &Arc<LiveProxy>) -> Option<Forced> {
    let settings = backend.settings();
    let rule =
        settings.persist_rules.iter().find(|rule| rules::applies(rule.condition.as_ref(), transaction, Phase::Request));
    let even_if_down = rule.is_some_and(|rule| rule.force);
    transaction.route.persistence.ignored = rule.is_some_and(|rule| !rule.force);
    let forced = |index: ServerIndex| Forced { server: ServerId::new(index.0 as usize), even_if_down };
    transaction.route.persistence.server = use_server(transaction, backend, forced);
    if let Some(cookie) = settings.cookie.as_ref().filter(|_| settings.mode == Mode::Http) {
        let may_choose = transaction.route.persistence.server.is_none() && !transaction.route.persistence.ignored;
        let now = transaction.now().as_secs();
        let visit = cookie::follow(&mut transaction.request.headers, cookie, now, may_choose, |value| {
            look_up(backend, value, forced)
        });
        transaction.route.cookie.request = visit.presented.letter();
        transaction.route.persistence.dates = visit.dates;
        transaction.route.persistence.server = transaction.route.persistence.server.or(visit.server);
    }
    if !settings.sticking_rules.is_empty() {
        let assigned = transaction.route.persistence.server.is_some();
        let accepts = |index| backend.farm().accepts_forced(forced(index));
        let remembered = stick::server_of(transaction, backend, assigned, accepts);
        transaction.route.persistence.server = transaction.route.persistence.server.or(remembered);
    }
    if let Some(cookie) = &settings.rdp_persistence
        && transaction.route.persistence.server.is_none()
    {
        let named = cookie.string(transaction, Options::REQUEST).and_then(|value| rdp_address(&value));
        let is_named = |server: &LiveServer| {
            let is_there = matches!(server.target(), Target::Inet(SocketAddr::V4(address)) if Some(address) == named);
            (is_there && backend.farm().accepts_forced(forced(server.index))).then_some(server.index)
        };
        transaction.route.persistence.server = named.and_then(|_| backend.servers.find_map(is_named));
    }
    transaction.route.persistence.server.map(forced)
}

/// Notes what the cookie of a request says that goes to no server.
pub fn judge_cookie(transaction: &mut Transaction, proxy: &LiveProxy) {
    let Some(cookie) = proxy.settings().cookie.as_ref() else { return };
    let forced = |index: ServerIndex| Forced { server: ServerId::new(index.0 as usize), even_if_down: false };
    let now = transaction.now().as_secs();
    let lookup = |value: &[u8]| look_up(proxy, value, forced);
    let visit = cookie::follow(&mut transaction.request.headers, cookie, now, true, lookup);
    transaction.route.cookie.request = visit.presented.letter();
}

/// The address that a cookie of RDP names, as in `3640205228.15629.0000`: it and the port are integers of the bytes as they
/// are on the wire, read lowest first.
fn rdp_address(cookie: &[u8]) -> Option<SocketAddrV4> {
    let text = std::str::from_utf8(cookie).ok()?;
    let (address, rest) = text.split_once('.')?;
    let (port, _) = rest.split_once('.')?;
    let address = u32::try_from(address.parse::<u64>().ok()?).ok()?;
    let port = u16::try_from(port.parse::<u64>().ok()? & 0xffff).ok()?;
    Some(SocketAddrV4::new(address.to_le_bytes().into(), u16::from_be_bytes(port.to_le_bytes())))
}

/// The first `use-server` line that holds and whose server may be used.
fn use_server(
    transaction: &Transaction,
    backend: &LiveProxy,
    forced: impl Fn(ServerIndex) -> Forced,
) -> Option<ServerIndex> {
    let settings = backend.settings();
    for rule in &settings.use_server {
        if !rules::applies(rule.condition.as_ref(), transaction, Phase::Request) {
            continue;
        }
        let index = match &rule.target {
            ServerTarget::Static(index) => *index,
            ServerTarget::Dynamic(format) => {
                let name = format.to_vec(transaction);
                let named = |server: &LiveServer| (server.config.name.as_bytes() == name).then_some(server.index);
                backend.servers.find_map(named)?
            }
        };
        if backend.farm().accepts_forced(forced(index)) {
            return Some(index);
        }
    }
    None
}

/// The first server with this `cookie` value that may be used.
fn look_up(backend: &LiveProxy, value: &[u8], forced: impl Fn(ServerIndex) -> Forced) -> Lookup {
    let mut found = Lookup::Unknown;
    let farm = backend.farm();
    let usable = backend.servers.find_map(|server| {
        if backend.cookie_of(server).is_none_or(|cookie| *cookie != *value) {
            return None;
        }
        let wanted = forced(server.index);
        if farm.accepts_forced(wanted) {
            return Some(Lookup::Server(server.index, farm.is_up(wanted.server)));
        }
        found = Lookup::Down;
        None
    });
    usable.unwrap_or(found)
}

/// `capture cookie` of a request.
pub fn capture_client_cookie(transaction: &mut Transaction, settings: &Proxy) {
    let Some(wanted) = &settings.capture_cookie else { return };
    let mut cookies = transaction.request.headers.all_known(HeaderId::Cookie).flat_map(http::cookies);
    transaction.log.client_cookie = cookies.find_map(|(name, value)| captured_cookie(wanted, name, value));
}

/// `capture cookie` of a response.
fn capture_server_cookie(transaction: &mut Transaction, settings: &Proxy) {
    let Some(wanted) = &settings.capture_cookie else { return };
    let mut cookies = transaction.response.headers.all_known(HeaderId::SetCookie).filter_map(http::set_cookie);
    transaction.log.server_cookie = cookies.find_map(|(name, value, _)| captured_cookie(wanted, name, value));
}

/// `name=value` as `capture cookie` keeps it, if it is the cookie that is wanted.
fn captured_cookie(wanted: &CaptureCookie, name: &[u8], value: &[u8]) -> Option<Box<[u8]>> {
    let matches = if wanted.prefix { name.starts_with(wanted.name.as_bytes()) } else { name == wanted.name.as_bytes() };
    matches.then(|| {
        let mut text = [name, b"=", value].concat();
        text.truncate(wanted.len);
        text.into_boxed_slice()
    })
}

/// Gives the client of a server's response its cookie, once rules are through with it. False when `option checkcache` forbids the response.
#[must_use]
pub fn finish_response(worker: &Worker, transaction: &mut Transaction, frontend: &Proxy, backend: &LiveProxy) -> bool {
    capture_server_cookie(transaction, frontend);
    let settings = backend.settings();
    let check = settings.options.checkcache;
    let cookie = settings.cookie.as_ref();
    if !check && cookie.is_none() {
        return true;
    }
    let status = transaction.response.status();
    let headers = &mut transaction.response.headers;
    let sets_cookie = headers.all_known(HeaderId::SetCookie).next().is_some();
    let caching = cacheable(transaction.request.method(), status, headers);
    let mut inserted_privately = false;
    if let Some(cookie) = cookie.filter(|_| !transaction.route.persistence.ignored) {
        let server = transaction.route.server.as_ref();
        let value = server.map(|server| backend.cookie_of(server));
        let side = ResponseSide {
            server: value.as_ref().map(Option::as_deref),
            direct: server.is_some_and(|server| transaction.route.persistence.server == Some(server.index)),
            dates: transaction.route.persistence.dates,
            is_post: transaction.request.method() == b"POST",
            is_cacheable: caching.response,
            now: super::context::wall_clock().as_secs(),
        };
        let given = cookie::give(headers, cookie, side);
        inserted_privately = cookie.nocache && matches!(given, cookie::Given::Inserted | cookie::Given::Updated);
        transaction.route.cookie.response = given.letter();
    }
    let forbidden = check && sets_cookie && caching.response && caching.cookies && !inserted_privately;
    if forbidden {
        let server = transaction.route.server.as_ref().map_or("<dispatch>", |server| &server.config.name);
        let text = format!("Blocking cacheable cookie in response from instance {}, server {server}.", settings.name);
        worker.log.send(&backend.log_targets, &LogLine::new(LogLevel::Alert, text.as_bytes()), SystemTime::now());
    }
    !forbidden
}
