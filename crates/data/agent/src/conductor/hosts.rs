//! The hosts of a cluster: it begins when there are enough of them, and takes in those that come later.

use cluster::{Address, hosts::NewAddresses, model::Proxy};

use super::Conductor;
use crate::{
    beginning::{self, Host},
    error::AgentError,
    said,
};

impl Conductor {
    /// Talks to the agents of other hosts; the leader begins the cluster, and takes in new hosts.
    ///
    /// # Errors
    ///
    /// The cluster cannot be begun as it is wanted.
    pub(super) fn look_after_hosts(&mut self) -> Result<(), AgentError> {
        let own = self.options.host_name().to_owned();
        let others: Vec<(String, String)> = self
            .records
            .agents
            .iter()
            .filter(|(host, _)| **host != own)
            .map(|(host, agent)| (host.clone(), agent.api.clone()))
            .collect();
        for (host, api) in others {
            if let Err(error) = self.peers.talk_to(&host, &api) {
                self.note(&format!("no thread for the agent of {host}: {error}"));
            }
        }
        if self.records.cluster.epoch > 0 && self.reconciled.is_none() {
            // Another host has begun it meanwhile.
            said::compare(&self.options, &self.records.cluster)?;
        }
        if !self.leads() {
            return Ok(());
        }
        if self.records.cluster.epoch == 0 {
            return self.begin_cluster();
        }
        self.take_in_hosts();
        self.hear_addresses();
        Ok(())
    }

    /// What hosts tell of their addresses, for those that decide.
    fn hear_addresses(&mut self) {
        let told = |host: &String| Some((host.clone(), self.records.told_address(host)?.to_owned()));
        let mut addresses: NewAddresses = self.records.agents.keys().filter_map(told).collect();
        addresses.insert(self.options.host_name().to_owned(), self.options.host.clone());
        self.controller.handle_addresses(addresses);
    }

    /// Why this agent ends: another one is this host by now.
    pub(super) fn replaced(&self) -> AgentError {
        let host = self.options.host_name();
        let place = self.records.told_address(host).unwrap_or("an unknown address");
        AgentError::Other(format!(
            "another agent is host {host} since a moment ago, at {place}: this one ends, with all that it runs. A folder that was copied is \
             still the same host: remove {} from the copy to have it join as another one",
            self.options.folder.identity().display()
        ))
    }

    fn begin_cluster(&mut self) -> Result<(), AgentError> {
        let own = self.options.host_name().to_owned();
        let address = self.options.host.clone();
        let mut hosts = vec![Host { name: own.clone(), address, port: self.options.port, is_own: true }];
        let others = self.records.agents.iter().filter(|(host, _)| **host != own);
        hosts.extend(others.map(|(host, agent)| Host {
            name: host.clone(),
            address: self.records.told_address(host).unwrap_or(host).to_owned(),
            port: agent.port,
            is_own: false,
        }));
        let wanted = if self.options.etcd.is_empty() { 1 } else { self.options.hosts };
        if hosts.len() < wanted {
            let names: Vec<&str> = hosts.iter().map(|host| host.address.as_str()).collect();
            let text =
                format!("the cluster begins when {wanted} hosts are there (--hosts); these are: {}", names.join(", "));
            self.note(&text);
            return Ok(());
        }
        hosts.sort_by(|a, b| a.address.cmp(&b.address));
        let cluster = beginning::begin(&self.options, &hosts)?;
        if let Some(own) = &self.options.redis_credentials {
            self.credentials.add(&self.options.folder.secrets(), &self.options.redis, own)?;
        }
        if let Err(error) = self.records.change(cluster, "up", "the cluster begins") {
            self.note(&format!("the cluster does not begin: {error}"));
            self.read_again();
        }
        Ok(())
    }

    /// A host that is not in the cluster gets a vote and a proxy.
    fn take_in_hosts(&mut self) {
        let (cluster, agents) = (&self.records.cluster, &self.records.agents);
        let Some(host) = self.controller.host_to_take_in(self.now(), cluster, agents.keys()) else { return };
        let Some(agent) = agents.get(host) else { return };
        let address = self.records.told_address(host).unwrap_or(host);
        let proxy = Proxy { address: Address::new(address, agent.port), host: host.clone(), is_offline: false };
        let what = format!("host {host} ({address}) is in the cluster, with proxy {}", proxy.address);
        let next = cluster.with_host(proxy, address).map_err(AgentError::from);
        match next.and_then(|next| self.records.change(next, "up", &what)) {
            Ok(()) => self.note(&what),
            Err(error) => {
                self.note(&format!("a host is not taken in: {error}"));
                self.read_again();
            }
        }
    }
}
