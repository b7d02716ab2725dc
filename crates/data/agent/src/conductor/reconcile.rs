//! What runs here is what the cluster says is to run here: after each change of it, by whomever, programs are started and ended.

use std::fs;

use cluster::{
    Address, Server, ServerKind,
    controller::{FAILOVER, IS_MASTER},
};

use super::{Conductor, site};
use crate::{
    adopting, beginning,
    credentials::Credentials,
    identity,
    processes::{self, Declared, Program},
};

impl Conductor {
    /// Starts what is to run here and ends what is not, when the cluster has changed.
    pub(super) fn reconcile(&mut self) {
        let epoch = self.records.cluster.epoch;
        // Before a cluster is known nothing is ended: what runs may belong to one whose record is lost.
        if self.reconciled.is_some_and(|(known, _)| known == epoch) || epoch == 0 {
            return;
        }
        let is_first = self.reconciled.replace((epoch, self.now())).is_none();
        if !is_first {
            self.tell_of_failover();
        }
        self.remember_settings();
        self.remember_passwords();
        self.remember_address();
        site::remember(&self.options, self.site);
        if let Err(error) = adopting::finish(&self.options) {
            self.note(&format!("the next start takes the store for one that is still to be adopted: {error}"));
        }
        let wanted = self.wanted();
        let (now, mut has_changed) = (self.now(), false);
        let declared: Vec<Declared> = self.processes.declared().cloned().collect();
        let former = self.former_address().map(str::to_owned);
        let former = former.as_deref();
        for one in &declared {
            if !one.is_loose && !wanted.iter().any(|other| other.is_same_as(one)) {
                let why = match former == Some(one.address.host()) {
                    true => "it listens at an address that this host has no more",
                    false => "the cluster has it no more, or has it offline",
                };
                self.note(&format!("{} is told to end: {why}", one.name));
                self.processes.stop(&one.address, now);
                has_changed = true;
            }
        }
        for one in wanted {
            match declared.iter().find(|other| other.is_same_as(&one)) {
                Some(other) if !other.is_loose => {}
                Some(_) => has_changed |= self.processes.bind(&one.address),
                None => {
                    self.processes.add(one);
                    has_changed = true;
                }
            }
        }
        if has_changed {
            self.write_declared();
        }
        self.tell_stores_who_they_are();
    }

    /// Writes beside each store's folder which node of the cluster the store is. So a store knows it from this machine, whatever the names say by
    /// which others have come to it: what is meant for another node it refuses.
    fn tell_stores_who_they_are(&mut self) {
        let host = self.options.host_name();
        let servers = self.records.cluster.servers().map(|(_, server)| server);
        let own: Vec<&Server> = servers.filter(|server| server.kind.is_store() && server.host == host).collect();
        let mut problems = Vec::new();
        for one in self.processes.declared().filter(|one| one.program == Program::Store) {
            let path = self.options.folder.node_of(&one.name);
            let id = own.iter().find(|server| server.address == one.address && !one.is_loose).map(|server| &server.id);
            let known = fs::read_to_string(&path).ok();
            let done = match (id, known) {
                (Some(id), Some(known)) if known.trim() == id => Ok(()),
                (Some(id), _) => processes::replace(&path, format!("{id}\n").as_bytes()),
                (None, Some(_)) => fs::remove_file(&path),
                (None, None) => Ok(()),
            };
            // Without it a store takes what comes to it, as one of an earlier version does.
            problems.extend(done.err().map(|error| format!("{}: {error}", path.display())));
        }
        problems.iter().for_each(|problem| self.note(problem));
    }

    /// Whoever looks at the terminal of `up` sees failovers there.
    fn tell_of_failover(&self) {
        let epoch = self.records.cluster.epoch;
        let last = self.records.last_changes().front().filter(|change| change.epoch == epoch);
        if let Some(change) = last.filter(|change| change.by == FAILOVER && change.what.contains(IS_MASTER)) {
            eprintln!("tidegate cluster: {}", change.what);
        }
    }

    /// Writes the list of programs.
    pub(super) fn write_declared(&mut self) {
        let all: Vec<Declared> = self.processes.declared().cloned().collect();
        if let Err(taken) = self.claims.take(&self.options.folder, &all) {
            self.note(&taken.warning());
        }
        if let Err(error) = processes::declare(&self.options.folder, &all) {
            // The next start makes it again from what the cluster says.
            self.note(&format!("the list of programs cannot be written: {error}"));
        }
    }

    /// Redis servers that run here have the cluster's password: proxies find it where they find those of others.
    fn remember_passwords(&mut self) {
        let Some(password) = self.login.password.as_deref() else { return };
        let own = Credentials { user: None, password: password.to_owned() };
        let host = self.options.host_name();
        let servers = self.records.cluster.servers().map(|(_, server)| server);
        let ours = servers.filter(|server| !server.kind.is_store() && server.host == host);
        let new: Vec<Address> = ours
            .map(|server| server.address.clone())
            .filter(|address| self.credentials.of(address) != Some(&own))
            .collect();
        if new.is_empty() {
            return;
        }
        if let Err(error) = self.credentials.add(&self.options.folder.secrets(), &new, &own) {
            self.note(&format!("proxies do not learn the password of new Redis servers: {error}"));
        }
    }

    /// The next start finds this host's address in the folder.
    fn remember_address(&mut self) {
        if self.is_address_known {
            return;
        }
        match identity::remember(&self.options) {
            Ok(()) => self.is_address_known = true,
            Err(error) => self.note(&format!("the folder does not know this host's address: {error}")),
        }
    }

    /// The address that the record has for this host, if it is another one by now.
    fn former_address(&self) -> Option<&str> {
        let known = self.records.cluster.address_of(self.options.host_name());
        known.filter(|address| *address != self.options.host)
    }

    /// What the cluster says is to run here. What it has by an address that this host has no more waits until it has the new one.
    fn wanted(&self) -> Vec<Declared> {
        let (cluster, host) = (&self.records.cluster, self.options.host_name());
        let former = self.former_address();
        let is_here = |address: &Address| former != Some(address.host());
        let servers = cluster.servers().map(|(_, server)| server);
        let stores = servers.filter(|server: &&Server| server.host == host && is_here(&server.address));
        let proxies = cluster.proxies.iter().filter(|proxy| proxy.host == host && !proxy.is_offline);
        let proxies = proxies.filter(|proxy| is_here(&proxy.address));
        proxies.map(|proxy| beginning::proxy(&proxy.address)).chain(stores.map(beginning::program_of)).collect()
    }

    /// Starts a server that belongs to no group yet.
    pub(super) fn start_loose(&mut self, address: Address, kind: ServerKind) -> Result<Declared, crate::AgentError> {
        let server = Server { kind, ..beginning::server(address, self.options.host_name())? };
        let declared = Declared { is_loose: true, ..beginning::program_of(&server) };
        self.processes.add(declared.clone());
        self.write_declared();
        Ok(declared)
    }
}
