//! Connections to servers that stand already: which of them a request may use, and which go on after one.

use std::sync::Arc;

use haproxycfg::model::{HttpReuse, SendProxy, UseSource};
use live::{LiveProxy, LiveServer};

use super::{
    Attempts, Codec, ServerCodec as _, Upstream,
    open::{address_in_header, destination, greeting, proxy_header},
    program::fastcgi,
};
use crate::{
    pool::{Reuse, ServerConnection},
    session::{body::Sink as _, borrow::borrow, descriptors, handshake::server_name, transaction::Transaction},
    worker::Worker,
};

/// Whether a connection comes from the address that one for this request would come from.
fn comes_from(transaction: &Transaction, usesrc: &UseSource, connection: &ServerConnection) -> bool {
    let wanted = match usesrc {
        UseSource::Address(_) => return true,
        UseSource::Client | UseSource::ClientIp => transaction.source.get(),
        UseSource::Header { name, occurrence } => address_in_header(&transaction.request.headers, name, *occurrence),
    };
    wanted.zip(connection.ends.0).is_some_and(|(wanted, local)| wanted.ip() == local.ip())
}

/// An idle connection that `http-reuse` allows for this request.
pub(super) fn idle_connection(
    worker: &Worker,
    transaction: &Transaction,
    proxy: &LiveProxy,
    server: &LiveServer,
    (attempts, reuse): (&mut Attempts<'_, '_>, Option<Reuse>),
) -> Option<Box<ServerConnection>> {
    // A request that failed before is sent again on a connection that is known to be fresh.
    if attempts.failed > 0 || attempts.fresh {
        return None;
    }
    if let Some(version) = server.config.send_proxy {
        return greeted_connection(transaction, server, attempts, version);
    }
    // Where a server is may depend on the client: a connection to it leads to one of several places.
    let place = server.leads_elsewhere().then(|| destination(transaction, server));
    let source = server.config.source.as_ref().or(proxy.settings().source.as_ref());
    let usesrc = source.and_then(|source| source.usesrc.as_ref());
    let greeting = server_name(transaction, server).map_or(0, |name| greeting(name.as_bytes()));
    let by_http1 = goes_by_http1(transaction, server);
    let kept = attempts.kept.take_to(server.key, |kept| {
        !(by_http1 && matches!(kept.codec, Codec::Http2(_)))
            && usesrc.is_none_or(|usesrc| comes_from(transaction, usesrc, kept))
            && kept.greeting == greeting
            && place.as_ref().is_none_or(|place| kept.leads_to(place))
    });
    if kept.is_some() {
        return kept;
    }
    if usesrc.is_some() {
        return None;
    }
    let way = (place.as_ref(), greeting);
    if carries_several(proxy, server) && !by_http1 && proxy.settings().http_reuse != HttpReuse::Never {
        let shared = worker.servers.borrow_mut().share(server, reuse, way);
        if shared.is_some() {
            return shared;
        }
    }
    let reuse = reuse?;
    worker.servers.borrow_mut().take(server, reuse, way)
}

/// Whether a request goes by HTTP/1 though the server may speak HTTP/2: a WebSocket, as its line says.
pub(super) fn goes_by_http1(transaction: &Transaction, server: &LiveServer) -> bool {
    transaction.asked.wants_upgrade
        && server.config.has_websockets_by_http1()
        && server.config.may_speak_http2()
        && http::is_websocket(&transaction.request.headers)
}

/// Whether a connection to a server may carry several exchanges.
pub(super) fn carries_several(proxy: &LiveProxy, server: &LiveServer) -> bool {
    match proxy.settings().fcgi_app.as_deref().filter(|_| server.speaks_fastcgi()) {
        Some(app) => fastcgi::requests_at_a_time(proxy, app, server) > 1,
        None => server.config.may_speak_http2(),
    }
}

/// Which connections of others `http-reuse` allows for this request; `can_repeat` if it can be sent again whatever becomes of it.
pub(super) fn allowed_reuse(
    transaction: &Transaction,
    proxy: &LiveProxy,
    server: &LiveServer,
    can_repeat: bool,
) -> Option<Reuse> {
    // NOTE: a process of an application serves one connection, idle or not. New ones would wait for those that nobody uses.
    if server.speaks_fastcgi() && proxy.settings().http_reuse != HttpReuse::Never {
        let is_idempotent = transaction.request.method_kind().is_idempotent();
        let is_harmless = can_repeat || transaction.asked.is_follower || is_idempotent;
        return Some(if is_harmless { Reuse::Any } else { Reuse::Proven });
    }
    match (proxy.settings().http_reuse, transaction.asked.is_follower || can_repeat) {
        (HttpReuse::Never, _) | (HttpReuse::Safe, false) => None,
        (HttpReuse::Aggressive, false) => Some(Reuse::Proven),
        (HttpReuse::Always, _) | (_, true) => Some(Reuse::Any),
    }
}

/// An idle connection of another worker, where one of this worker would do. Like HAProxy it leaves the others
/// `pool-low-conn` of them.
pub(super) async fn borrow_connection(
    worker: &Worker,
    transaction: &Transaction,
    proxy: &LiveProxy,
    server: &Arc<LiveServer>,
    (attempts, reuse): (&Attempts<'_, '_>, Option<Reuse>),
) -> Option<Box<ServerConnection>> {
    let source = server.config.source.as_ref().or(proxy.settings().source.as_ref());
    if attempts.failed > 0
        || attempts.fresh
        || server.config.send_proxy.is_some()
        || server.speaks_tls()
        || server.config.may_speak_http2()
        || source.is_some_and(|source| source.usesrc.is_some())
        || server.idle.value() < u64::from(server.config.pool_low_conn)
    {
        return None;
    }
    let reuse = reuse?;
    let place = server.leads_elsewhere().then(|| destination(transaction, server));
    borrow(worker, server, reuse, place).await
}

/// A connection of this client that began with the very header that would be sent now.
fn greeted_connection(
    transaction: &Transaction,
    server: &LiveServer,
    attempts: &mut Attempts<'_, '_>,
    version: SendProxy,
) -> Option<Box<ServerConnection>> {
    let greeting = greeting(&proxy_header(transaction, version, server.config.proxy_options));
    let place = server.leads_elsewhere().then(|| destination(transaction, server));
    attempts.kept.take_to(server.key, |kept| {
        kept.greeting == greeting && place.as_ref().is_none_or(|place| kept.leads_to(place))
    })
}

/// Lets others have a server's connection for another request; one that only the same client may use is given back.
pub fn give_back(worker: &Worker, upstream: Upstream<'_>, backend: &LiveProxy) -> Option<Box<ServerConnection>> {
    let Upstream { mut connection, slot, .. } = upstream;
    drop(slot);
    // A connection that carries several is kept by the pool already.
    let is_shared = connection.codec.is_shared() && !connection.private;
    if is_shared || !connection.is_clean() {
        return None;
    }
    // An application that serves so many connections at a time, and reads no other ones, leaves those unanswered that are new: what
    // is kept open is in their way.
    if matches!(connection.codec, Codec::FastCgi(_)) && connection.server.unanswered.value() > 0 {
        return None;
    }
    connection.codec.leave();
    worker.heads.reclaim_output(connection.codec.waiting());
    let max_reuse = connection.server.config.max_reuse;
    if u32::try_from(max_reuse).is_ok_and(|most| connection.requests > most) {
        return None;
    }
    if connection.private || backend.settings().http_reuse == HttpReuse::Never {
        return Some(connection);
    }
    if descriptors::may_keep_idle(worker) {
        worker.servers.borrow_mut().give(connection);
    }
    None
}
