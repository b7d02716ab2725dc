//! Whether clients should be sent to this proxy, as a load balancer asks.
//!
//! A dead server is no reason to leave a proxy out: the others do not reach it either, and the other servers' keys would be lost too. It
//! is told as something that is degraded.

use super::{Pool, Proxy};

/// How a pool is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolHealth {
    /// Why clients should go elsewhere; nothing if they may come.
    pub reasons: Vec<String>,
    /// What does not work although clients may come.
    pub degraded: Vec<String>,
}

impl Proxy {
    /// How all pools are.
    #[must_use]
    pub fn health(&self) -> PoolHealth {
        let mut all = PoolHealth::default();
        for pool in &self.pools {
            let name = &pool.config.name;
            let of_pool = pool.health();
            all.reasons.extend(of_pool.reasons.into_iter().map(|reason| format!("pool '{name}': {reason}")));
            all.degraded.extend(of_pool.degraded.into_iter().map(|reason| format!("pool '{name}': {reason}")));
        }
        all
    }
}

impl Pool {
    fn health(&self) -> PoolHealth {
        let mut health = PoolHealth::default();
        let most = self.config.client_connections as u64;
        if most > 0 && self.counts.client_connections >= most {
            health.reasons.push(format!("it has {most} clients, as many as it may (client_connections)"));
        }
        if let Some(slots) = &self.slots {
            let unserved = slots.unserved();
            if slots.servers().is_empty() {
                health.reasons.push("which server has which slots is not known".into());
            } else if unserved > 0 {
                health.reasons.push(format!("{unserved} of {} slots have no server", commands::cluster::SLOTS));
            }
        }
        let places =
            self.slots.as_ref().map_or_else(|| (0..self.servers.len()).collect(), |slots| slots.servers().to_vec());
        let is_dead = |place: &&usize| {
            let server = self.servers.get(**place);
            server.is_some_and(|server| server.breaker.is_open() || server.ejected_until > 0)
        };
        let dead: Vec<usize> = places.iter().filter(is_dead).copied().collect();
        if !dead.is_empty() && dead.len() == places.len() {
            health.reasons.push("no server answers".into());
        }
        for place in dead {
            let address = self.config.servers.get(place).map_or_else(String::new, |server| server.address.to_string());
            health.degraded.push(format!("server {address} does not answer"));
        }
        health
    }
}
