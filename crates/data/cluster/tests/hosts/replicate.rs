//! Replicas that follow their masters, and those that refuse to.

use cluster::keeper::Refusal;

use super::{World, number, planted::Planted};

impl World {
    pub fn replicate(&mut self) {
        for index in 0..self.stores.len() {
            let Some(master) = self.stores[index].master.clone() else { continue };
            let id = self.stores[index].master_id.clone();
            let Some(source) = self.reached(&master, id.as_deref()) else {
                self.stores[index].is_linked = false;
                continue;
            };
            let is_cut = self.network.is_cut(self.stores[index].host, self.stores[source].host);
            let both_run = self.store_runs(index) && self.store_runs(source);
            let address = self.stores[index].server.address.clone();
            if both_run && !is_cut && self.stores[source].master.is_none() {
                if !self.random.one_in(4) {
                    continue;
                }
                if self.refuses(index, source) {
                    continue;
                }
                let (log, all) = (&self.stores[index].log, &self.stores[source].log);
                let (known, end) = (log.len(), all.len());
                let upto = if log.is_prefix_of(all) {
                    known + self.random.below((end - known) as u64 + 1) as usize
                } else {
                    end
                };
                self.follow(index, source, upto);
                (self.stores[index].is_linked, self.stores[index].is_bound) = (true, true);
                self.stores[source].replicas.insert(address, upto);
            } else if !both_run || self.stores[source].master.is_some() || self.random.one_in(50) {
                self.stores[index].is_linked = false;
                self.stores[source].replicas.remove(&address);
            }
        }
    }

    /// Whether a store refuses to copy what has lost a part of what it has itself.
    fn refuses(&mut self, index: usize, source: usize) -> bool {
        let (log, all) = (&self.stores[index].log, &self.stores[source].log);
        let is_bound = self.stores[index].is_bound && !self.is_redis(index);
        let refuses = is_bound && !log.is_prefix_of(all) && self.planted != Some(Planted::CopiesWhatHasLost);
        let refusal = refuses.then(|| Refusal { until: log.common_with(all) as u64, end: log.len() as u64 });
        let address = self.stores[source].server.address.clone();
        let store = &mut self.stores[index];
        if let Some(bond) = &mut store.bond {
            bond.refusal = refusal;
        }
        if refuses && std::mem::take(&mut store.is_linked) {
            let own = store.server.address.clone();
            self.stores[source].replicas.remove(&own);
            if number("TELL").is_some_and(|tell| tell > 1) {
                eprintln!("{} {own} refuses to copy {address}: {refusal:?}", self.now);
            }
        }
        refuses
    }

    fn follow(&mut self, index: usize, source: usize, upto: usize) {
        if self.is_redis(index) {
            self.follow_redis(index, source, upto);
            return;
        }
        let mut log = std::mem::take(&mut self.stores[index].log);
        log.follow(&self.stores[source].log, upto);
        self.stores[index].log = log;
        let told = self.stores[source].histories.iter().filter(|history| history.from <= upto as u64);
        self.stores[index].histories = told.cloned().collect();
    }
}
