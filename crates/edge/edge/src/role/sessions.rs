//! What a worker tells about its sessions.

use admin::cli::{AskSessions, ProxyView, ServerView, SessionView, Transport};
use haproxycfg::model::Mode;
use live::LiveProxy;
use proxy::{Handle, Order, Worker};

/// Whoever asked may have gone, so that nobody takes the answer.
pub(super) fn answer_about_sessions(worker: &Worker, ask: &AskSessions) {
    match ask {
        AskSessions::List(answers) => {
            let _ = answers.send(worker.registry.handles().iter().map(|handle| session_view(handle)).collect());
        }
        AskSessions::Shut(id, answers) => {
            if worker.tell(Order::Abort, |handle| handle.id == *id) > 0 {
                let _ = answers.send(());
            }
        }
        AskSessions::Wait(_) => {}
    }
}

fn session_view(handle: &Handle) -> SessionView {
    let (backend, server) = handle.upstream().unzip();
    let frontend = handle.frontend.borrow();
    let side = |proxy: &LiveProxy| ProxyView {
        name: proxy.settings().name.to_string(),
        id: proxy.settings().id,
        is_http: proxy.settings().mode == Mode::Http,
    };
    // With several it is not known by which one it came.
    let listener = match (&frontend.settings().binds[..], &frontend.listeners[..]) {
        ([bind], [listener]) => Some((bind.name.clone(), listener.id)),
        _ => None,
    };
    SessionView {
        id: handle.id,
        source: handle.source.get(),
        transport: match (handle.http_version.get(), handle.is_secure.get()) {
            (3, _) => Transport::Quic,
            (_, true) => Transport::Tls,
            (_, false) => Transport::Plain,
        },
        http_version: handle.http_version.get(),
        listener,
        backend: backend.as_deref().map(side),
        server: server.flatten().map(|server| ServerView {
            name: server.config.name.to_string(),
            id: server.config.id,
            target: server.target(),
            is_secure: server.speaks_tls(),
        }),
        age: handle.since.elapsed(),
        requests: handle.requests.get(),
        // In TCP mode there is something going on from the first moment on.
        is_idle: handle.is_idle() && frontend.settings().mode == Mode::Http,
        frontend: side(&frontend),
    }
}
