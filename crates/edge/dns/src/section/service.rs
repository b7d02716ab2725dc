//! Servers that are made of the SRV records of a service.

use std::collections::VecDeque;

use super::{Section, update_service_status};
use crate::{Name, Record, ServerKey, Servers, Updater};

/// A service that servers are made of.
#[derive(Debug)]
pub(crate) struct Service {
    pub name: Name,
    pub group: usize,
    pub resolution: u64,
    /// Servers that stand for nothing at the moment.
    pub free: VecDeque<ServerKey>,
    /// Servers that stood for a host and port before a reload, and have not been matched yet.
    pub known: Vec<(Name, u16, ServerKey)>,
    /// How long these are waited for.
    known_until_ms: u64,
}

impl Service {
    pub fn new(name: Name, group: usize, resolution: u64, known_until_ms: u64) -> Self {
        Self { name, group, resolution, free: VecDeque::new(), known: Vec::new(), known_until_ms }
    }
}

/// HAProxy's weight, up to 256, of that of a record, up to 65535; only 0 is 0.
fn weight_of(weight: u16) -> u16 {
    weight.div_ceil(256)
}

impl Section {
    /// Finds a server for a record of a service, in every backend that is made of it, and brings it in line.
    pub(crate) fn serve_item(&mut self, resolution: u64, item: u64, now_ms: u64, servers: &mut dyn Servers) {
        for service in 0..self.services.len() {
            if self.services.get(service).is_some_and(|service| service.resolution == resolution)
                && let Some(server) = self.server_for(service, resolution, item)
            {
                self.bring_in_line(server, resolution, item, now_ms, servers);
            }
        }
    }

    /// The server of a service that stands for a record: the one that does, one that did before a reload, or a free one.
    fn server_for(&mut self, service: usize, resolution: u64, item: u64) -> Option<ServerKey> {
        let item = self.resolutions.get(&resolution)?.records.find(item)?;
        let Record::Service { target, port, .. } = &item.record else { return None };
        let is_ours = |server: &&ServerKey| self.servers.get(server).is_some_and(|it| it.service == Some(service));
        if let Some(server) = item.servers.iter().find(is_ours) {
            return Some(*server);
        }
        let service = self.services.get_mut(service)?;
        if let Some(place) = service.known.iter().position(|(host, known, _)| host == target && known == port) {
            return Some(service.known.remove(place).2);
        }
        service.free.pop_front()
    }

    fn bring_in_line(
        &mut self,
        server: ServerKey,
        resolution: u64,
        item_id: u64,
        now_ms: u64,
        servers: &mut dyn Servers,
    ) {
        let records = self.resolutions.get_mut(&resolution).map(|resolution| &mut resolution.records);
        let Some(item) = records.and_then(|records| records.find_mut(item_id)) else { return };
        let Record::Service { target, port, weight } = item.record.clone() else { return };
        let address = item.address;
        if !item.servers.contains(&server) {
            item.servers.push(server);
        }
        let Some(state) = self.servers.get_mut(&server) else { return };
        state.rests = false;
        state.service_item = Some(item_id);
        let ignores_weight = state.options.ignore_weight;
        if let Some((address, _)) = address {
            state.rests = true;
            servers.set_address(server, address, Updater::Additional);
            self.unlink_server(server);
        }
        let Some(state) = self.servers.get_mut(&server) else { return };
        if state.host.is_none() {
            state.host = Some(target.clone());
            servers.set_host(server, Some(&target.to_string()));
        }
        if !state.rests && state.resolution.is_none() {
            self.link_server(server, target, now_ms);
        }
        update_service_status(server, servers.address(server).is_some(), servers);
        servers.set_port(server, port);
        if !ignores_weight {
            servers.set_weight(server, weight_of(weight));
        }
    }

    /// A server stands for nothing any more.
    pub(crate) fn retire(&mut self, server: ServerKey, servers: &mut dyn Servers) {
        self.unlink_server(server);
        update_service_status(server, false, servers);
        let Some(state) = self.servers.get_mut(&server) else { return };
        state.host = None;
        state.service_item = None;
        state.rests = true;
        if let Some(service) = state.service.and_then(|service| self.services.get_mut(service)) {
            service.free.push_back(server);
        }
        servers.set_host(server, None);
        servers.clear_address(server);
        servers.set_port(server, 0);
    }

    /// Servers whose host is not in answers since the reload are free for others.
    pub(crate) fn retire_unknown(&mut self, resolution: u64, now_ms: u64, servers: &mut dyn Servers) {
        let is_late = |service: &&mut Service| service.resolution == resolution && now_ms >= service.known_until_ms;
        let late = self.services.iter_mut().filter(is_late).flat_map(|service| std::mem::take(&mut service.known));
        for (_, _, server) in late.collect::<Vec<_>>() {
            self.retire(server, servers);
        }
    }

    /// No server of a service stands for anything any more.
    pub(crate) fn retire_all(&mut self, service: usize, servers: &mut dyn Servers) {
        let Some(resolution) = self.services.get(service).map(|service| service.resolution) else { return };
        let records = self.resolutions.get_mut(&resolution).map(|resolution| &mut resolution.records);
        let service_state = self.services.get_mut(service);
        let known = service_state.map(|service| std::mem::take(&mut service.known)).unwrap_or_default();
        let mut retired: Vec<ServerKey> = known.into_iter().map(|(_, _, server)| server).collect();
        for item in records.into_iter().flat_map(|records| records.iter_mut()) {
            let is_ours = |server: &ServerKey| self.servers.get(server).is_some_and(|it| it.service == Some(service));
            let (ours, others) = std::mem::take(&mut item.servers).into_iter().partition(is_ours);
            item.servers = others;
            retired.extend::<Vec<ServerKey>>(ours);
        }
        for server in retired {
            self.retire(server, servers);
        }
    }
}
