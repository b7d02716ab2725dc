//! Servers that come and go at run time: `add server`, `del server`.
//!
//! A farm and its list of servers change together under the farm's lock, so that whoever is given a place by the farm
//! finds a server there. Workers need not be told: they ask the list as they always do. What is added lives until it is
//! taken away or another configuration is loaded, as in HAProxy.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Instant,
};

use balance::{CheckKind, ServerId};
use haproxycfg::{
    dynamic::{self, DynamicServer},
    model::ServerIndex,
};

pub use crate::refusal::Refusal;
use crate::{Instance, LiveProxy, LiveServer, assemble};

/// Servers that may be added to one backend.
const ADDED_MAX: usize = 65_536;

/// Adds a server to a backend, in maintenance and with its checks switched off unless the words say otherwise.
///
/// # Errors
/// What is wrong with the words.
pub fn add(instance: &Instance, proxy: &Arc<LiveProxy>, name: &str, words: &[&str]) -> Result<(), Refusal> {
    let known: Vec<dynamic::Known> = proxy
        .servers
        .iter()
        .map(|server| (server.config.id, Arc::clone(&server.config.name), server.config.location.clone()))
        .collect();
    let DynamicServer { mut server, is_ready } =
        dynamic::server(&instance.config, proxy.index, &known, name, words).map_err(Refusal)?;
    let process = &instance.process;
    let now_ms = process.milliseconds(Instant::now());
    let server_config = assemble::server_config(&instance.config, &server);
    let mut farm = proxy.farm();
    if proxy.servers.named(name).is_some() {
        return Err("Already exists a server with the same name in backend.".into());
    }
    if known.len() >= ADDED_MAX + proxy.settings().servers.len() {
        return Err(Refusal(format!("Cannot attach server : there are {ADDED_MAX} already.")));
    }
    let id = farm.add_server(server_config, is_ready, now_ms);
    server.id = farm.server_stats(id, now_ms).map_or(0, |stats| stats.number);
    let index = ServerIndex(u32::try_from(id.index()).unwrap_or(u32::MAX));
    let live = Arc::new(LiveServer::new(process, proxy.index, index, server, process.workers));
    proxy.servers.add(id.index(), Arc::clone(&live));
    for kind in [CheckKind::Health, CheckKind::Agent] {
        let interval_ms = farm.check_interval_ms(id, kind).unwrap_or_default();
        farm.schedule_check(id, kind, now_ms + u64::from(interval_ms));
    }
    drop(farm);
    process.server_changes.fetch_add(1, Relaxed);
    follow(instance, proxy, &live, now_ms);
    proxy.observer.server_added(proxy, &live);
    Ok(())
}

/// Brings a new server with `track` in line with the one that it follows, without a word in the log.
fn follow(instance: &Instance, proxy: &LiveProxy, server: &LiveServer, now_ms: u64) {
    let Some((backend, followed)) = server.config.track else { return };
    let Some(backend) = instance.proxy(backend) else { return };
    backend.servers.with(followed.0 as usize, |server| server.is_followed.store(true, Relaxed));
    let Some(followed) = backend.farm().followed(ServerId::new(followed.0 as usize)) else { return };
    let mut farm = proxy.farm();
    farm.follow(ServerId::new(server.index.0 as usize), &followed, now_ms);
    while farm.poll_event().is_some() {}
}

/// Takes a server away that is in maintenance and that nobody uses.
///
/// # Errors
/// Why it stays.
pub fn remove(proxy: &Arc<LiveProxy>, server: &Arc<LiveServer>) -> Result<(), Refusal> {
    if server.config.is_referenced || server.is_followed.load(Relaxed) {
        let text = "This server cannot be removed at runtime due to other configuration elements pointing to it.";
        return Err(text.into());
    }
    let id = ServerId::new(server.index.0 as usize);
    let mut farm = proxy.farm();
    farm.removable(id).map_err(|error| Refusal(error.to_string()))?;
    // Connections that wait in the workers' pools are theirs to close; those in use belong to someone.
    if server.connections.value() > server.idle.value() {
        return Err(Refusal(balance::RemovalError::InUse.to_string()));
    }
    farm.remove_server(id).map_err(|error| Refusal(error.to_string()))?;
    proxy.servers.remove(id.index());
    drop(farm);
    server.target_epoch.fetch_add(1, Relaxed);
    proxy.process.server_changes.fetch_add(1, Relaxed);
    proxy.observer.server_removed(server);
    Ok(())
}
