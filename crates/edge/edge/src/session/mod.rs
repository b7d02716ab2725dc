//! A client's connection from its acceptance to its end.
//!
//! [`serve`] does what HTTP and TCP have in common: limits, `tcp-request connection` rules, the PROXY protocol. Then
//! `http` or `tcp` takes over.

pub mod body;
mod context;
mod cookie;
mod heads;
mod http;
mod logging;
mod normalize;
mod proxy_protocol;
pub mod record;
mod reply;
mod rules;
mod size;
mod tcp;
mod termination;
mod transaction;
mod upstream;
mod wire;

use std::{
    cell::{Cell, OnceCell, RefCell},
    net::SocketAddr,
    os::fd::AsFd,
    rc::Rc,
    sync::Arc,
    time::Instant,
};

use haproxycfg::model::Mode;

use self::{context::wall_clock, tcp::TcpVerdict, transaction::ClientSide};
pub use self::{heads::SpareHeads, transaction::Transaction, wire::Wire};
use crate::{
    live::{Instance, LiveProxy},
    net::{Deadline, Stream},
    worker::Worker,
};

/// Serves one accepted connection.
pub async fn serve(
    worker: Rc<Worker>,
    instance: Arc<Instance>,
    frontend: Arc<LiveProxy>,
    listener: usize,
    stream: Stream,
    source: Option<SocketAddr>,
) {
    let counted = Counted::enter(&worker, &frontend, listener);
    let settings = frontend.settings();
    let stream = Rc::new(stream);
    if settings.options.clitcpka {
        let _ = socket2::SockRef::from(&*stream).set_keepalive(true);
    }
    let id = instance.process.next_stream_id.load(std::sync::atomic::Ordering::Relaxed);
    let accepted = Instant::now();
    let mut client = Wire::new(Rc::clone(&stream), worker.buffers.clone());
    let tune = &instance.config.global.tune;
    let limits = variable_limits(tune.vars_max_size);
    let mut side = ClientSide {
        source: Cell::new(source),
        original_source: source,
        changed_destination: Cell::new(None),
        original_destination: OnceCell::new(),
        received_proxy: false,
        proxy_fields: None,
        stream,
        variables: RefCell::new(sample::StreamVariables::new(Arc::clone(&instance.process.variables), limits)),
        frontend: Arc::clone(&frontend),
        listener,
        accepted,
        accepted_at: wall_clock(),
        id,
    };
    let bind = settings.binds.get(listener);
    let mut expects_proxy = bind.is_some_and(|bind| bind.accept_proxy);
    if !settings.tcp_request_connection.is_empty() {
        let shared = Rc::new(side);
        match tcp::connection_rules(&worker, &instance, &shared, &settings.tcp_request_connection) {
            TcpVerdict::Accept => {}
            TcpVerdict::ExpectProxy => expects_proxy = true,
            TcpVerdict::Drop => {
                silent_drop(&shared.stream);
                return;
            }
            TcpVerdict::Reject | TcpVerdict::Close | TcpVerdict::SwitchToHttp => {
                shared.count(worker.index, |traffic| &traffic.denied_connections);
                return;
            }
        }
        let Ok(back) = Rc::try_unwrap(shared) else { return };
        side = back;
        // What these rules change is the connection's own address, unlike what later rules do.
        side.original_source = side.source.get();
        if let Some(changed) = side.changed_destination.get() {
            side.original_destination = OnceCell::from(Some(changed));
        }
    }
    if expects_proxy && proxy_protocol::receive(&mut client, &mut side).await.is_err() {
        side.count(worker.index, |traffic| &traffic.request_errors);
        return;
    }
    let side = Rc::new(side);
    if !settings.tcp_request_session.is_empty() {
        match tcp::connection_rules(&worker, &instance, &side, &settings.tcp_request_session) {
            TcpVerdict::Accept | TcpVerdict::ExpectProxy => {}
            TcpVerdict::Drop => return silent_drop(&side.stream),
            TcpVerdict::Reject | TcpVerdict::Close | TcpVerdict::SwitchToHttp => {
                side.count(worker.index, |traffic| &traffic.denied_sessions);
                return;
            }
        }
    }
    frontend.frontend.traffic.of(worker.index).sessions.increment();
    let registered = worker.registry.register(id, accepted, side.source.get(), Arc::clone(&frontend));
    let session = Box::new(http::Session {
        limits: http::limits(&instance, settings.options.accept_invalid_http_request),
        worker,
        instance,
        side,
        client,
        registered,
        parser: ::http::RequestParser::new(),
        deadline: Deadline::default(),
        first: true,
        idle_since: Instant::now(),
        kept: None,
    });
    match settings.mode {
        Mode::Http => http::serve(session).await,
        // NOTE: boxed so that connections in HTTP mode need not have room for it.
        Mode::Tcp => Box::pin(tcp::serve(session)).await,
    }
    drop(counted);
}

/// `tune.vars.*-max-size`; 0 is no limit.
fn variable_limits(sizes: [usize; 5]) -> sample::VariableLimits {
    let [global, process, session, transaction, request_response] =
        sizes.map(|size| Some(size).filter(|size| *size > 0));
    sample::VariableLimits { global, process, session, transaction, request_response }
}

/// Counts a connection in the process, its frontend and its listener as long as it lives.
struct Counted {
    worker: Rc<Worker>,
    frontend: Arc<LiveProxy>,
    listener: usize,
}

impl Counted {
    fn enter(worker: &Rc<Worker>, frontend: &Arc<LiveProxy>, listener: usize) -> Self {
        worker.shared.process.connections.increment();
        frontend.frontend.sessions.increment();
        if let Some(live) = frontend.listeners.get(listener) {
            live.side.sessions.increment();
            live.side.traffic.of(worker.index).connections.increment();
            live.side.traffic.of(worker.index).sessions.increment();
        }
        worker.traffic().connections.increment();
        frontend.frontend.traffic.of(worker.index).connections.increment();
        Self { worker: Rc::clone(worker), frontend: Arc::clone(frontend), listener }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.worker.shared.process.connections.decrement();
        self.frontend.frontend.sessions.decrement();
        if let Some(live) = self.frontend.listeners.get(self.listener) {
            live.side.sessions.decrement();
        }
        let process = &self.worker.shared.process;
        if process.waiting_listeners.load(std::sync::atomic::Ordering::Relaxed) > 0 {
            process.room.notify_one();
        }
    }
}

/// Leaves the client without any answer, not even a reset: the connection vanishes here and stays open there.
fn silent_drop(stream: &Stream) {
    // Where this is not permitted, the client gets the reset after all.
    let repaired = rustix::net::sockopt::set_ip_ttl(stream.as_fd(), 1);
    stream.reset_on_close();
    let _ = repaired;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of_six<A, B, C, D, E, G, F>(_: fn(A, B, C, D, E, G) -> F) -> usize {
        size_of::<F>()
    }

    fn bytes_of_made<F>(_: impl FnOnce() -> F) -> usize {
        size_of::<F>()
    }

    /// Ten thousand idle connections are ten thousand of the first; each request in flight is one of the second.
    #[test]
    fn connections_and_requests_are_small() {
        let idle = bytes_of_six(serve);
        let request = bytes_of_made(|| async {
            let session: Option<&mut http::Session> = std::hint::black_box(None);
            session.unwrap().transact().await
        });
        eprintln!("idle {idle}, request {request}, transaction {}", size_of::<Transaction>());
        assert!(idle <= 1_024, "{idle}");
        assert!(request <= 4_096, "{request}");
    }
}
