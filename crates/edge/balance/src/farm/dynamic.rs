//! Servers that come and go while the farm works (`add server`, `del server`).
//!
//! A server that goes leaves its place behind, which the next one takes: so places are stable for everyone who holds a
//! `ServerId`, and a farm whose servers change all day does not grow. What may still name a place when it is given away
//! can only be a server to avoid, which does no harm.

use thiserror::Error;

use crate::ServerId;
use crate::config::ServerConfig;
use crate::server::{AdminState, OperationalState, Server};

use super::Farm;

/// Why a server stays.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum RemovalError {
    /// There is no such server.
    #[error("No such server.")]
    UnknownServer,
    /// It may still be chosen.
    #[error("Only servers in maintenance mode can be deleted.")]
    NotInMaintenance,
    /// Someone uses it or waits for it.
    #[error("Server still has connections attached to it, cannot remove it.")]
    InUse,
}

impl<W> Farm<W> {
    /// Whether servers may come and go: not where tables are made once for all.
    pub fn is_dynamic(&self) -> bool {
        self.engine.is_dynamic()
    }

    /// The number that a server without one would get.
    pub fn next_number(&self) -> u32 {
        let mut used: Vec<u32> = self.servers().map(|id| self.pool.servers[id].number).collect();
        used.sort_unstable();
        let mut next = 1;
        for number in used {
            if number > next {
                break;
            }
            next = next.max(number.saturating_add(1));
        }
        next
    }

    /// Adds a server in maintenance, with its checks switched off; `config.disabled` says that its line did so too. With
    /// `ready` it is in service at once.
    pub fn add_server(&mut self, config: ServerConfig, ready: bool, now_ms: u64) -> ServerId {
        let number = if config.id == 0 { self.next_number() } else { config.id };
        let is_disabled = config.disabled;
        let mut server = Server::new(ServerConfig { disabled: true, ..config }, number);
        if !is_disabled {
            server.next.admin = AdminState::FORCED_MAINT;
        }
        server.config.disabled = is_disabled;
        server.check.enabled = false;
        if let Some(agent) = &mut server.agent {
            agent.enabled = false;
        }
        server.check.paused = is_disabled;
        server.last_change_ms = now_ms;
        server.next.weight = self.pool.effective_weight(server.user_weight, self.pool.weight_divider);
        server.points_max = server.user_weight * crate::server::WEIGHT_SCALE;
        server.commit();
        let id = match self.vacant.pop() {
            Some(id) => {
                self.pool.servers[id] = server;
                id
            }
            None => {
                self.queues.add_server();
                self.pool.add(server)
            }
        };
        if ready {
            let server = &mut self.pool.servers[id];
            server.check.paused = false;
            server.check.health = server.check.rise();
            server.next.admin = AdminState::READY;
            server.next.state = OperationalState::Running;
            self.engine.changed(&mut self.pool, id);
        }
        id
    }

    /// Whether a server may be taken away: it is in maintenance and nobody uses it.
    ///
    /// # Errors
    /// Why not.
    pub fn removable(&self, id: ServerId) -> Result<(), RemovalError> {
        let server = self.pool.servers.find(id).ok_or(RemovalError::UnknownServer)?;
        if !server.current.admin.is_maint() {
            return Err(RemovalError::NotInMaintenance);
        }
        if server.served > 0 || server.queued > 0 {
            return Err(RemovalError::InUse);
        }
        Ok(())
    }

    /// Takes a server away.
    ///
    /// # Errors
    /// As [`Farm::removable`].
    pub fn remove_server(&mut self, id: ServerId) -> Result<(), RemovalError> {
        self.removable(id)?;
        let server = &mut self.pool.servers[id];
        server.is_vacant = true;
        server.check.config = None;
        server.check.due_ms = None;
        server.warmup_due_ms = None;
        self.vacant.push(id);
        Ok(())
    }
}
