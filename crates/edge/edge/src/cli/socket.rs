//! The stats sockets of the edge that runs.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::{
    sync::mpsc::unbounded_channel,
    time::{Instant, timeout, timeout_at},
};

use haproxycfg::model::{BindAddress, CliLevel};

use super::{
    serve::{End, Host, Options, serve},
    session::Context,
    sessions::{AskSessions, SessionView},
};
use crate::{live::Shared, logs, net::Stream, stats::live_control::LiveControl};

/// How long a worker may take to tell about its sessions.
const ANSWER_TIME: Duration = Duration::from_secs(1);

struct LiveHost {
    shared: Arc<Shared>,
}

impl Host for LiveHost {
    fn with_context<R>(&self, work: impl FnOnce(&Context<'_>) -> R) -> R {
        let instance = self.shared.instance();
        let sockets = instance.config.global.stats_sockets.iter();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let control = LiveControl::new(&self.shared);
        work(&Context {
            control: &control,
            sockets: sockets.map(|socket| (address(&socket.bind.address), socket.level)).collect(),
            startup_logs: "",
            now,
            offset: logs::local_offset(i64::try_from(now.as_secs()).unwrap_or(0)),
        })
    }

    async fn sessions(&self) -> Vec<SessionView> {
        let (sender, mut answers) = unbounded_channel();
        self.ask(AskSessions::List(sender));
        let (mut sessions, deadline) = (Vec::new(), Instant::now() + ANSWER_TIME);
        // Each worker drops its end when it has answered; one that is busy for long is left out.
        while let Ok(Some(some)) = timeout_at(deadline, answers.recv()).await {
            sessions.extend(some);
        }
        sessions.sort_by_key(|session| session.id);
        sessions
    }

    async fn shut_session(&self, id: u64) -> bool {
        let (sender, mut answers) = unbounded_channel();
        self.ask(AskSessions::Shut(id, sender));
        matches!(timeout(ANSWER_TIME, answers.recv()).await, Ok(Some(())))
    }
}

impl LiveHost {
    fn ask(&self, ask: AskSessions) {
        if let Some(workers) = self.shared.process.ask_sessions.get() {
            workers(ask);
        }
    }
}

fn address(address: &BindAddress) -> String {
    match address {
        BindAddress::Inet(address) if address.is_ipv4() => format!("ipv4@{address}"),
        BindAddress::Inet(address) => format!("ipv6@{address}"),
        BindAddress::Unix(path) => format!("unix@{path}"),
        BindAddress::Abstract(name) => format!("abns@{name}"),
        BindAddress::Descriptor(number) => format!("fd@{number}"),
    }
}

/// Serves a client of a stats socket.
pub async fn serve_socket(shared: Arc<Shared>, stream: Stream, level: CliLevel) {
    let options = Options { level, timeout: shared.instance().config.global.stats_timeout };
    let host = LiveHost { shared };
    let end = match stream {
        Stream::Tcp(mut stream) => serve(&mut stream, &host, options).await,
        Stream::Unix(mut stream) => serve(&mut stream, &host, options).await,
    };
    // A client that left early or fell silent is no one's problem but its own.
    if let Ok(End::SendSockets) = end {
        // The sockets are the master's; a worker has none to give.
    }
}
