//! What clients see: of each unit one store at most serves, and it has all that was acknowledged.

use super::{
    World,
    log::{UNITS, WRITES_MAX, What},
    number,
};

impl World {
    pub fn clients(&mut self) {
        let serving: Vec<usize> = (0..self.stores.len())
            .filter(|index| self.store_runs(*index) && self.stores[*index].serves(self.store_clock(*index)))
            .collect();
        for index in &serving {
            self.acknowledge(*index);
        }
        for unit in 0..UNITS {
            let serves = |index: &&usize| self.stores[**index].serves_unit(unit, self.store_clock(**index));
            let serving: Vec<usize> = serving.iter().filter(serves).copied().collect();
            let names = || serving.iter().map(|index| self.stores[*index].run.clone()).collect::<Vec<_>>();
            assert!(serving.len() <= 1, "two serve unit {unit} at {}: {:?}", self.now, names());
            if let Some(index) = serving.first() {
                self.serve(*index, unit);
            }
        }
    }

    /// Clients are answered whose writes are as safe as they are to be.
    fn acknowledge(&mut self, index: usize) {
        let store = &mut self.stores[index];
        let safe = store.safe().min(store.log.len());
        let from = store.acknowledged.min(safe);
        for (_, what) in &store.log.entries()[from..safe] {
            if let What::Write { unit, id } = *what {
                if self.desk.forgiven.contains(&id) {
                    continue;
                }
                let is_new = self.acknowledged[unit].insert(id);
                if is_new && number("TELL").is_some_and(|tell| tell > 1) {
                    eprintln!(
                        "{} {} acknowledges {id} of unit {unit}: {:?} replicas {:?}",
                        self.now, store.run, store.counting, store.replicas
                    );
                }
            }
        }
        store.acknowledged = safe;
    }

    /// A client reads what there is of a unit, or writes.
    fn serve(&mut self, index: usize, unit: usize) {
        self.served[unit] += 1;
        let (now, store) = (self.now, &mut self.stores[index]);
        // What it has acknowledged itself it has.
        if self.served_by[unit] != store.run || now.is_multiple_of(1_000) {
            self.served_by[unit].clone_from(&store.run);
            let has = store.log.state(unit);
            if let Some(lost) = self.acknowledged[unit].iter().find(|id| !has.contains(id)) {
                panic!("{} serves unit {unit} at {now} without the acknowledged write {lost}", store.run);
            }
        }
        if self.random.one_in(20) && self.written < WRITES_MAX {
            self.written += 1;
            let (number, id) = (self.next_number(), self.written);
            self.stores[index].log.push(number, What::Write { unit, id });
        }
    }
}
