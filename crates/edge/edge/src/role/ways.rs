//! The ways from everywhere in the process to the worker threads.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use admin::{
    cli::{AskSessions, AskWorkers},
    stats::SteerListeners,
};
use live::{ListenerOrder, LiveProxy, Shared, WakeSessions};
use logs::AdminLog;
use proxy::{CloseIdleRequest, IdleConnectionRequest, OtherWorkers};
use tokio::sync::mpsc::WeakUnboundedSender;

use super::{accept::Command, life};

/// The ways to the worker threads, renewed at each load. A worker that has ended hears nothing: it has neither sessions nor
/// connections nor listeners left.
pub(super) struct Ways {
    senders: Mutex<Vec<WeakUnboundedSender<Command>>>,
    log: Arc<AdminLog>,
    /// What runs; it comes after the ways, as the process is made with them.
    shared: OnceLock<Weak<Shared>>,
}

impl Ways {
    /// To no worker yet; what is told frontends is told this log too.
    pub(super) fn new(log: Arc<AdminLog>) -> Self {
        Self { senders: Mutex::default(), log, shared: OnceLock::new() }
    }

    /// What runs from now on.
    pub(super) fn begin(&self, shared: &Arc<Shared>) {
        // It begins once.
        let _ = self.shared.set(Arc::downgrade(shared));
    }

    /// These are the workers from now on.
    pub(super) fn renew(&self, senders: Vec<WeakUnboundedSender<Command>>) {
        *self.senders.lock().unwrap_or_else(PoisonError::into_inner) = senders;
    }

    /// Tells workers something, by their number.
    fn tell(&self, command: impl Fn(usize) -> Option<Command>) {
        for (worker, way) in self.senders.lock().unwrap_or_else(PoisonError::into_inner).iter().enumerate() {
            if let (Some(command), Some(way)) = (command(worker), way.upgrade()) {
                let _ = way.send(command);
            }
        }
    }
}

impl WakeSessions for Ways {
    fn wake_sessions_of(&self, server_key: u64) {
        self.tell(|_| Some(Command::WakeServer(server_key)));
    }
}

impl AskWorkers for Ways {
    fn ask_sessions(&self, ask: AskSessions) {
        self.tell(|_| Some(Command::AskSessions(ask.clone())));
    }
}

impl OtherWorkers for Ways {
    fn ask_idle(&self, plea: IdleConnectionRequest) {
        self.tell(|worker| (worker != plea.from).then(|| Command::LendIdle(plea.clone())));
    }

    fn close_idle(&self, request: CloseIdleRequest) {
        self.tell(|worker| (worker != request.from).then(|| Command::CloseIdle(request.clone())));
    }
}

impl SteerListeners for Ways {
    fn steer(&self, proxy: &LiveProxy, order: ListenerOrder) {
        let Some(shared) = self.shared.get().and_then(Weak::upgrade) else { return };
        let generation = shared.instance().generation;
        self.tell(|_| Some(Command::Steer { generation, proxy: proxy.index, order }));
        let (settings, targets) = (proxy.settings(), &proxy.log_targets);
        match order {
            ListenerOrder::Suspend => self.log.proxy_paused(targets, settings.kind, &settings.name),
            ListenerOrder::Resume => self.log.proxy_resumed(targets, settings.kind, &settings.name),
            ListenerOrder::Stop => life::proxy_stopped(&self.log, proxy),
        }
    }
}
