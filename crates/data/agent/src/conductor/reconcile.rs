//! What runs here is what the cluster says is to run here: after each change of it, by whomever, programs are started and ended.

use cluster::{Address, Server, ServerKind};

use super::Conductor;
use crate::{
    beginning,
    credentials::Credentials,
    processes::{self, Declared},
};

impl Conductor {
    /// Starts what is to run here and ends what is not, when the cluster has changed.
    pub(super) fn reconcile(&mut self) {
        let epoch = self.records.cluster.epoch;
        // Before a cluster is known nothing is ended: what runs may belong to one whose record is lost.
        if self.reconciled == Some(epoch) || epoch == 0 {
            return;
        }
        self.reconciled = Some(epoch);
        self.remember_passwords();
        let wanted = self.wanted();
        let (now, mut has_changed) = (self.now(), false);
        let declared: Vec<Declared> = self.processes.declared().cloned().collect();
        for one in &declared {
            if !one.is_loose && !wanted.iter().any(|other| other.is_same_as(one)) {
                self.note(&format!("{} is told to end: the cluster has it no more, or has it offline", one.name));
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
    }

    /// Writes the list of programs.
    pub(super) fn write_declared(&mut self) {
        let all: Vec<Declared> = self.processes.declared().cloned().collect();
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

    /// What the cluster says is to run here.
    fn wanted(&self) -> Vec<Declared> {
        let (cluster, host) = (&self.records.cluster, self.options.host_name());
        let servers = cluster.servers().map(|(_, server)| server);
        let stores = servers.filter(|server: &&Server| server.host == host).map(beginning::program_of);
        let proxies = cluster.proxies.iter().filter(|proxy| proxy.host == host && !proxy.is_offline);
        proxies.map(|proxy| beginning::proxy(&proxy.address)).chain(stores).collect()
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
