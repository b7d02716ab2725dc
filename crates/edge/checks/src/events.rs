//! What happens outside a farm when a server changes.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, OnceLock, PoisonError, Weak, atomic::Ordering::Relaxed},
};

use balance::{ConsoleLevel, Event, ServerId, ShutdownReason};
use haproxycfg::model::{ProxyIndex, ServerIndex};
use live::{FarmObserver, Instance, LiveProxy, LiveServer, Shared, ShutCause, changes::Tone};
use logs::{AdminLog, LogLevel, Severity};
use tokio::time::Instant;

use super::board::CheckBoard;

/// Servers that follow others (`track`), by whom they follow.
type Followers = HashMap<(ProxyIndex, ServerIndex), Vec<(ProxyIndex, ServerIndex)>>;
/// A load of the configuration, and how many servers had come and gone by then.
type Moment = (u64, u64);

fn followers(instance: &Instance) -> Followers {
    let mut followers = Followers::new();
    for (proxy, server) in
        instance.proxies.iter().flat_map(|proxy| proxy.servers.iter().map(move |server| (proxy, server)))
    {
        if let Some(followed) = server.config.track {
            followers.entry(followed).or_default().push((proxy.index, server.index));
        }
    }
    followers
}

/// Acts on the events of all farms of the process: logs, ends sessions, brings followers along, and makes checks that have
/// become urgent run.
pub struct FarmEvents {
    log: Arc<AdminLog>,
    board: Arc<CheckBoard>,
    /// What runs. Instances are made with who observes their farms, so it comes after; what happens before that is told to
    /// nobody.
    shared: OnceLock<Weak<Shared>>,
    /// Who follows whom changes with a configuration, and with servers that come and go.
    known: Mutex<Option<(Moment, Arc<Followers>)>>,
}

impl FarmEvents {
    /// Acts on nothing before [`FarmEvents::begin`].
    #[must_use]
    pub fn new(log: Arc<AdminLog>, board: Arc<CheckBoard>) -> Self {
        Self { log, board, shared: OnceLock::new(), known: Mutex::default() }
    }

    /// Acts on what happens to the servers of what runs from now on.
    pub fn begin(&self, shared: &Arc<Shared>) {
        // It begins once.
        let _ = self.shared.set(Arc::downgrade(shared));
    }

    fn shared(&self) -> Option<Arc<Shared>> {
        self.shared.get()?.upgrade()
    }

    fn followers_of(&self, instance: &Instance) -> Arc<Followers> {
        let state = (instance.generation, instance.process.server_changes.load(Relaxed));
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match &*known {
            Some((then, followers)) if *then == state => Arc::clone(followers),
            _ => {
                let made = Arc::new(followers(instance));
                *known = Some((state, Arc::clone(&made)));
                made
            }
        }
    }

    fn handle_message(&self, shared: &Shared, proxy: &LiveProxy, message: balance::Message) {
        let severity = match message.console_level {
            ConsoleLevel::Alert => Severity::Alert,
            ConsoleLevel::Warning => Severity::Warning,
        };
        self.log.console(severity, &message.console_text);
        self.log.log(&proxy.log_targets, level(message.level), &message.text);
        let tone = Tone::of_message(message.level, &message.text);
        shared.process.changes.note(tone, Some(&proxy.settings().name), &*message.text);
        if let Some(mail) = message.mail.filter(|_| proxy.settings().mail.is_some()) {
            let instance = shared.instance();
            let own = instance.proxy(proxy.index).filter(|_| Arc::ptr_eq(&instance.config, &proxy.config));
            if let Some(own) = own {
                let text = message.text.strip_suffix('.').unwrap_or(&message.text);
                super::mail::send(own, level(mail) as u8, text);
            }
        }
    }
}

impl FarmObserver for FarmEvents {
    fn handle_event(&self, proxy: &LiveProxy, event: Event) {
        let Some(shared) = self.shared() else { return };
        match event {
            Event::Message(message) => self.handle_message(&shared, proxy, message),
            Event::StateChanged { server, .. } | Event::HealthChanged { server } => {
                let instance = shared.instance();
                // A server of a configuration that is gone concerns nobody.
                if Arc::ptr_eq(&instance.config, &proxy.config) {
                    follow(&instance, &self.followers_of(&instance), proxy, server);
                }
            }
            Event::ShutdownSessions { server, reason } => {
                if let Some(server) = proxy.servers.get(server.index()) {
                    server.shut_sessions(match reason {
                        ShutdownReason::Down => ShutCause::ServerDown,
                        ShutdownReason::Up => ShutCause::ServerUp,
                    });
                }
            }
            Event::CloseIdle { server } => {
                if let Some(server) = proxy.servers.get(server.index()) {
                    server.target_epoch.fetch_add(1, Relaxed);
                }
            }
            Event::CheckRescheduled { server } => {
                if let Some(server) = proxy.servers.get(server.index()) {
                    self.board.wake(&server);
                }
            }
        }
    }

    fn server_added(&self, proxy: &Arc<LiveProxy>, server: &Arc<LiveServer>) {
        self.board.add(proxy, server);
    }

    fn server_removed(&self, server: &LiveServer) {
        self.board.remove(server);
    }
}

fn level(level: balance::LogLevel) -> LogLevel {
    match level {
        balance::LogLevel::Emergency => LogLevel::Emergency,
        balance::LogLevel::Alert => LogLevel::Alert,
        balance::LogLevel::Notice => LogLevel::Notice,
        balance::LogLevel::Information => LogLevel::Info,
    }
}

fn follow(instance: &Instance, followers: &Followers, proxy: &LiveProxy, server: ServerId) {
    let Ok(index) = u32::try_from(server.index()) else { return };
    let Some(followers) = followers.get(&(proxy.index, ServerIndex(index))) else { return };
    let Some(followed) = proxy.farm().followed(server) else { return };
    let now_ms = instance.process.milliseconds(Instant::now().into_std());
    for (backend, follower) in followers {
        if let Some(backend) = instance.proxy(*backend) {
            // NOTE: raises events in turn, which bring along those who follow the follower.
            backend.with_farm(|farm| farm.follow(ServerId::new(follower.0 as usize), &followed, now_ms));
        }
    }
}

/// Brings every follower in line with the one it follows, without a word in the log.
pub(super) fn follow_all(instance: &Instance, now_ms: u64) {
    let followers = followers(instance);
    // Followers of followers come later in no particular order: as many rounds as the longest chain can have.
    for _ in 0..followers.len() {
        for ((proxy, server), followers) in &followers {
            let followed =
                instance.proxy(*proxy).and_then(|proxy| proxy.farm().followed(ServerId::new(server.0 as usize)));
            let Some(followed) = followed else { continue };
            for (backend, follower) in followers {
                let Some(backend) = instance.proxy(*backend) else { continue };
                let mut farm = backend.farm();
                farm.follow(ServerId::new(follower.0 as usize), &followed, now_ms);
                while farm.poll_event().is_some() {}
            }
        }
    }
}
