//! What happens outside a farm when a server changes.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering::Relaxed},
};

use balance::{ConsoleLevel, Event, ServerId, ShutdownReason};
use haproxycfg::model::{ProxyIndex, ServerIndex};
use logs::{AdminLog, LogLevel, Severity};
use tokio::time::Instant;

use super::schedule::CheckBoard;
use crate::{
    live::{FarmEvents, Instance, LiveProxy, Shared, ShutCause},
    stats::changes::Tone,
};

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

/// Handles the events of all farms of the process ([`crate::live::Process::farm_events`]): logs, ends sessions, brings
/// followers along, and makes checks that have become urgent run.
pub fn farm_events(shared: Arc<Shared>, log: Arc<AdminLog>, board: Arc<CheckBoard>) -> Box<FarmEvents> {
    // Who follows whom changes with a configuration, and with servers that come and go.
    let known: Mutex<Option<(Moment, Arc<Followers>)>> = Mutex::default();
    let followers_of = move |instance: &Instance| {
        let state = (instance.generation, instance.process.server_changes.load(Relaxed));
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        match &*known {
            Some((then, followers)) if *then == state => Arc::clone(followers),
            _ => {
                let made = Arc::new(followers(instance));
                *known = Some((state, Arc::clone(&made)));
                made
            }
        }
    };
    Box::new(move |proxy, event| match event {
        Event::Message(message) => {
            let severity = match message.console_level {
                ConsoleLevel::Alert => Severity::Alert,
                ConsoleLevel::Warning => Severity::Warning,
            };
            log.console(severity, &message.console_text);
            log.log(&proxy.log_targets, level(message.level), &message.text);
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
        Event::StateChanged { server, .. } | Event::HealthChanged { server } => {
            let instance = shared.instance();
            // A server of a configuration that is gone concerns nobody.
            if Arc::ptr_eq(&instance.config, &proxy.config) {
                follow(&instance, &followers_of(&instance), proxy, server);
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
                board.wake(&server);
            }
        }
    })
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
