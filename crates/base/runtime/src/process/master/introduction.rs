//! What a master tells others of itself, and what it says of others who listen where it does.

use super::Master;
use crate::listen::{Address, ListenSpec, SocketKey, neighbour};
use crate::log;
use crate::process::role::Role;
use crate::process::run_file::RunFile;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::SocketAddr;

impl<R: Role> Master<R> {
    /// Writes the run file, by which commands find this master, for what is served now.
    pub(super) fn introduce(&self) {
        let (Some(introduction), Some(adopted)) = (&self.options.introduction, &self.adopted) else { return };
        let mut addresses: Vec<String> = Vec::new();
        for address in adopted.header.listeners.iter().map(|spec| spec.address.to_string()) {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        let mut taking: Vec<&ListenSpec> =
            adopted.header.listeners.iter().filter(|spec| spec.commands_reach > 0).collect();
        taking.sort_by_key(|spec| std::cmp::Reverse(spec.commands_reach));
        let command_sockets = taking.into_iter().map(|spec| spec.address.to_string()).collect();
        let written = RunFile::of_this_process(introduction.configuration.clone(), addresses)
            .and_then(|file| RunFile { command_sockets, ..file }.write(&introduction.folder));
        if let Err(error) = written {
            log::warning!(
                "no run file in {}: {error}; `tidegate status` and its like will need this process' number, {}",
                introduction.folder.display(),
                std::process::id()
            );
        }
    }

    /// Removes the run file.
    pub(super) fn take_leave(&self) {
        let Some(introduction) = &self.options.introduction else { return };
        if let Ok(file) = RunFile::of_this_process(Vec::new(), Vec::new()) {
            file.remove(&introduction.folder);
        }
    }

    /// Says where it listens, if it is to say so, once it does.
    pub(super) fn greet(&mut self) {
        let Some(introduction) = &mut self.options.introduction else { return };
        let greeting = std::mem::take(&mut introduction.greeting);
        if !self.successor && !greeting.is_empty() {
            // Whoever has closed standard output does not want to hear it.
            let _ = std::io::stdout().write_all(greeting.as_bytes());
        }
    }

    /// Warns of other processes that listen on the addresses of sockets that were just bound: the kernel shares connections out
    /// among all who do.
    pub(super) fn warn_of_neighbours(&self, specs: &[ListenSpec], added: &[SocketKey]) {
        if added.is_empty() {
            return;
        }
        let own: Vec<u64> = self
            .table
            .iter()
            .filter_map(|(_, socket)| rustix::fs::fstat(socket).ok())
            .map(|stat| stat.st_ino)
            .collect();
        let mut seen: BTreeSet<SocketAddr> = BTreeSet::new();
        for spec in specs.iter().filter(|spec| spec.namespace.is_none()) {
            let Address::Ip(address) = spec.address else { continue };
            if !seen.insert(address) {
                continue;
            }
            let Some(neighbour) = neighbour(address, &own) else { continue };
            let remedy = neighbour.pid().map_or_else(String::new, |pid| format!("; '-sf {pid}' replaces it"));
            log::warning!(
                "{}{neighbour} listens on [{address}], too: each connection goes to one of both{remedy}",
                spec.place
            );
        }
    }
}
