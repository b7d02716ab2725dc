//! The servers of a farm together with the totals that every algorithm uses.

use std::ops::{Index, IndexMut};

use crate::ServerId;
use crate::config::{FarmConfig, ServerConfig};
use crate::order::Forest;
use crate::server::{OperationalState, Server};

/// The servers, in order of declaration. Indexed by the `ServerId`s that the farm has checked on entry.
#[derive(Clone, Debug, Default)]
pub(crate) struct Servers(Vec<Server>);

impl Servers {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn find(&self, id: ServerId) -> Option<&Server> {
        self.0.get(id.index()).filter(|server| !server.is_vacant)
    }

    pub(crate) fn ids(&self) -> impl DoubleEndedIterator<Item = ServerId> + ExactSizeIterator + use<> {
        (0..self.0.len()).map(ServerId::new)
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Server> {
        self.0.iter()
    }
}

impl Index<ServerId> for Servers {
    type Output = Server;

    #[expect(clippy::indexing_slicing, reason = "the farm checks every ServerId that comes from outside")]
    fn index(&self, id: ServerId) -> &Server {
        &self.0[id.index()]
    }
}

impl IndexMut<ServerId> for Servers {
    #[expect(clippy::indexing_slicing, reason = "the farm checks every ServerId that comes from outside")]
    fn index_mut(&mut self, id: ServerId) -> &mut Server {
        &mut self.0[id.index()]
    }
}

/// Servers, totals and the options that bear on choosing.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    pub(crate) servers: Servers,
    /// Sets of servers for the algorithms that keep them sorted.
    pub(crate) order: Forest,
    pub(crate) allbackups: bool,
    pub(crate) hash_balance_factor: u32,
    pub(crate) fullconn: u32,
    /// Usable active servers.
    pub(crate) active: u32,
    /// Usable backup servers.
    pub(crate) backup: u32,
    pub(crate) active_weight: u32,
    pub(crate) backup_weight: u32,
    /// The only backup server in use, without `allbackups`.
    pub(crate) first_backup: Option<ServerId>,
    /// Weight and number of the servers that take part now.
    pub(crate) total_weight: u32,
    pub(crate) used: u32,
    /// Ratio between weights as configured and as used.
    pub(crate) weight_multiplier: u32,
    pub(crate) weight_divider: u32,
    /// Streams in the backend, queued ones included.
    pub(crate) streams: u32,
    /// Streams that hold a slot of any server.
    pub(crate) served: u32,
}

impl Pool {
    pub(crate) fn new(config: &FarmConfig, configs: Vec<ServerConfig>) -> Self {
        let numbers = numbers(&configs);
        let servers: Vec<Server> =
            configs.into_iter().zip(numbers).map(|(config, number)| Server::new(config, number)).collect();
        Self {
            order: Forest::new(servers.len(), 0),
            servers: Servers(servers),
            allbackups: config.allbackups,
            hash_balance_factor: config.hash_balance_factor,
            fullconn: config.fullconn,
            active: 0,
            backup: 0,
            active_weight: 0,
            backup_weight: 0,
            first_backup: None,
            total_weight: 0,
            used: 0,
            weight_multiplier: 1,
            weight_divider: 1,
            streams: 0,
            served: 0,
        }
    }

    /// Makes a place for one more server.
    pub(crate) fn add(&mut self, server: Server) -> ServerId {
        self.order.add_item();
        self.servers.0.push(server);
        ServerId::new(self.servers.len() - 1)
    }

    /// The weight used for choosing that a share of the divider gives: rounded up, so that only 0 gives 0.
    pub(crate) fn effective_weight(&self, user_weight: u32, share: u32) -> u32 {
        (user_weight * share).div_ceil(self.weight_multiplier)
    }

    /// Counts again who is usable, by what the servers are going to be.
    pub(crate) fn recount(&mut self) {
        self.active = 0;
        self.backup = 0;
        self.active_weight = 0;
        self.backup_weight = 0;
        self.first_backup = None;
        for id in self.servers.ids() {
            let server = &mut self.servers[id];
            if !server.next.is_usable() {
                continue;
            }
            if server.config.backup {
                if self.backup == 0 && !self.allbackups {
                    self.first_backup = Some(id);
                }
                self.backup += 1;
                server.cumulative_weight = self.backup_weight;
                self.backup_weight += server.next.weight;
            } else {
                self.active += 1;
                server.cumulative_weight = self.active_weight;
                self.active_weight += server.next.weight;
            }
        }
        self.update_totals();
    }

    /// Follows a change of the counts: which servers take part now, and their weight.
    pub(crate) fn update_totals(&mut self) {
        if self.active > 0 {
            self.total_weight = self.active_weight;
            self.used = self.active;
        } else if let Some(first) = self.first_backup {
            self.total_weight = self.servers[first].next.weight;
            self.used = 1;
        } else {
            self.total_weight = self.backup_weight;
            self.used = self.backup;
        }
    }

    /// Counts a usable server out.
    pub(crate) fn count_out(&mut self, id: ServerId) {
        let weight = self.servers[id].current.weight;
        if self.servers[id].config.backup {
            self.backup_weight -= weight;
            self.backup -= 1;
            if self.first_backup == Some(id) {
                self.first_backup = self.servers.ids().skip(id.index() + 1).find(|&other| {
                    let server = &self.servers[other];
                    server.config.backup && server.next.is_usable()
                });
            }
        } else {
            self.active_weight -= weight;
            self.active -= 1;
        }
    }

    /// Counts a server in that becomes usable.
    pub(crate) fn count_in(&mut self, id: ServerId) {
        let weight = self.servers[id].next.weight;
        if self.servers[id].config.backup {
            self.backup_weight += weight;
            self.backup += 1;
            // The first of the backup servers in order of declaration is the one in use.
            if !self.allbackups && self.first_backup.is_none_or(|first| id < first) {
                self.first_backup = Some(id);
            }
        } else {
            self.active_weight += weight;
            self.active += 1;
        }
    }

    /// Follows a change of weight of a server that was and stays usable.
    pub(crate) fn reweigh(&mut self, id: ServerId) {
        let server = &self.servers[id];
        let total = if server.config.backup { &mut self.backup_weight } else { &mut self.active_weight };
        *total = *total - server.current.weight + server.next.weight;
    }

    /// Servers that can take new visitors now: `nbsrv`.
    pub(crate) fn usable(&self) -> u32 {
        if self.active > 0 {
            self.active
        } else if self.first_backup.is_some() {
            1
        } else {
            self.backup
        }
    }

    /// How many streams the server may hold now: between `minconn` and `maxconn` as the backend fills up, and less
    /// during a slow start, but at least one. 0 is no limit.
    pub(crate) fn limit(&self, id: ServerId, now_ms: u64) -> u32 {
        let server = &self.servers[id];
        if server.maxconn == 0 {
            return 0;
        }
        let mut limit = server.maxconn;
        if self.streams < self.fullconn && server.minconn != server.maxconn {
            let share = u64::from(self.streams) * u64::from(server.maxconn) / u64::from(self.fullconn);
            limit = server.minconn.max(u32::try_from(share).unwrap_or(server.maxconn));
        }
        if server.current.state == OperationalState::Starting
            && let Some(elapsed) = server.warmup_s(now_ms)
        {
            let percent = 100 * elapsed / server.slowstart_s;
            limit = u32::try_from(u64::from(limit) * percent / 100).unwrap_or(limit).max(1);
        }
        limit
    }

    /// Whether the server's limit leaves room for one more stream, its queue aside.
    pub(crate) fn has_slot(&self, id: ServerId, now_ms: u64) -> bool {
        let server = &self.servers[id];
        server.maxconn == 0 || server.served < self.limit(id, now_ms)
    }

    /// Whether a new stream can go straight to the server: it has room and nobody waits for it.
    pub(crate) fn is_free(&self, id: ServerId, now_ms: u64) -> bool {
        let server = &self.servers[id];
        server.maxconn == 0 || (server.queued == 0 && server.served < self.limit(id, now_ms))
    }
}

/// The numbers of the servers: those given, and for the others the next free ones in order, from 1.
fn numbers(configs: &[ServerConfig]) -> Vec<u32> {
    let mut used: Vec<u32> = configs.iter().map(|config| config.id).filter(|&id| id != 0).collect();
    used.sort_unstable();
    let mut next = 1;
    configs
        .iter()
        .map(|config| {
            let number = if config.id == 0 {
                while used.binary_search(&next).is_ok() {
                    next += 1;
                }
                next
            } else {
                config.id
            };
            // NOTE: HAProxy moves on by one for servers with a given number too.
            next += 1;
            number
        })
        .collect()
}
