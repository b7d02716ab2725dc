//! Tells running stores the settings that the cluster keeps, and knows who was told and who refuses.

use std::collections::BTreeMap;

use cluster::{Address, Server, settings::Which};

use super::{Conductor, steps::Orders};
use crate::{
    link::{Order, Report},
    settings,
};

/// After so long, in milliseconds, a store that has refused a setting is told it again.
const AGAIN_MS: u64 = 3_000;

/// What stores say of what they were told.
#[derive(Debug, Default)]
pub struct Told {
    marks: BTreeMap<Address, String>,
    refused: BTreeMap<Address, Refused>,
}

#[derive(Debug)]
struct Refused {
    /// What it would have been told with it.
    mark: String,
    /// Its answer.
    answer: String,
    at: u64,
}

/// What a store has of the cluster's settings.
#[derive(Debug, PartialEq, Eq)]
pub enum Knows<'a> {
    /// All of them.
    All,
    /// Not the latest.
    NotYet,
    /// It refuses some: its answer.
    Refuses(&'a str),
}

impl Told {
    /// A store's round is over.
    pub fn take(&mut self, report: &mut Report, mark: Option<String>, now: u64) {
        if let Some(told) = report.settings_told.take() {
            self.marks.insert(report.server.clone(), told);
        }
        match (report.settings_refused.take(), mark) {
            (Some(answer), Some(mark)) => {
                self.refused.insert(report.server.clone(), Refused { mark, answer, at: now });
            }
            (None, Some(mark)) if self.marks.get(&report.server) == Some(&mark) => {
                self.refused.remove(&report.server);
            }
            _ => {}
        }
    }

    /// Servers that have left are forgotten.
    pub fn retain(&mut self, is_there: impl Fn(&Address) -> bool) {
        self.marks.retain(|server, _| is_there(server));
        self.refused.retain(|server, _| is_there(server));
    }
}

fn which<'a>(group: u32, server: &'a Server) -> Which<'a> {
    Which { group, id: &server.id }
}

impl Conductor {
    /// The mark that a store is to have.
    pub(super) fn settings_mark(&self, address: &Address) -> Option<String> {
        let cluster = &self.records.cluster;
        let (group, server) = cluster.servers().find(|(_, server)| server.address == *address)?;
        server.kind.is_store().then(|| cluster.settings.mark(which(group, server)))
    }

    /// Orders for stores that do not have the latest settings.
    pub(super) fn tell_settings(&self, orders: &mut Orders) {
        let cluster = &self.records.cluster;
        if cluster.settings.is_empty() {
            return;
        }
        let (now, table) = (self.now(), &*self.options.settings);
        for (group, server) in cluster.servers().filter(|(_, server)| server.kind.is_store()) {
            let Some(known) = self.settings_told.marks.get(&server.address) else { continue };
            let which = which(group, server);
            let Some((all, each)) = settings::orders(&cluster.settings, (which, known), table) else { continue };
            let refused = self.settings_told.refused.get(&server.address);
            let has_refused = refused.is_some_and(|refused| refused.mark == cluster.settings.mark(which));
            if has_refused && refused.is_some_and(|refused| now < refused.at + AGAIN_MS) {
                continue;
            }
            // One that is refused does not keep the others from the store.
            let each = if has_refused { each } else { Vec::new() };
            let todo = orders.entry(server.address.clone()).or_default();
            todo.extend(each.into_iter().chain([all]).map(Order::Settings));
        }
    }

    /// What a store has of the cluster's settings.
    pub(super) fn knows_settings(&self, group: u32, server: &Server) -> Knows<'_> {
        let (settings, which) = (&self.records.cluster.settings, which(group, server));
        let known = self.settings_told.marks.get(&server.address);
        if known.is_some_and(|known| settings.due(which, known).is_empty()) {
            return Knows::All;
        }
        let refused = self.settings_told.refused.get(&server.address);
        match refused.filter(|refused| refused.mark == settings.mark(which)) {
            Some(refused) => Knows::Refuses(&refused.answer),
            None => Knows::NotYet,
        }
    }

    /// What a store answers that refuses a setting which is kept for it.
    pub(super) fn refused_setting(&self, group: u32, server: &Server) -> Option<&str> {
        match self.knows_settings(group, server) {
            Knows::Refuses(answer) => Some(answer),
            Knows::All | Knows::NotYet => None,
        }
    }

    /// Stores of this host are started with what the cluster keeps for them.
    pub(super) fn remember_settings(&mut self) {
        let cluster = &self.records.cluster;
        let words = settings::of_stores(&cluster.settings, cluster.servers(), &*self.options.settings);
        self.processes.set_settings(words);
    }
}
