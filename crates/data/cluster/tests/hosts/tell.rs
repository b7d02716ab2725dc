//! What `TELL=1` and `TELL=2` show of a world.

use cluster::{controller::Action, keeper::Step};

use super::{World, log::UNITS, number, world::HOSTS};

impl World {
    /// What `TELL=1` shows.
    pub fn tell(&self) {
        let leaders: Vec<usize> = (0..HOSTS)
            .filter(|host| self.hosts[*host].agent.as_ref().is_some_and(|agent| agent.controller.term().is_some()))
            .collect();
        eprintln!(
            "{} epoch {} leaders {leaders:?} lost {} slow {}",
            self.now, self.record.cluster.epoch, self.network.lost, self.network.slow
        );
        for (group, found) in &self.record.cluster.groups {
            let in_sync = self.record.in_sync.get(group).map(|known| known.0.of(found).members).unwrap_or_default();
            eprintln!("  group {group}: {} in sync {in_sync:?}", found.master);
        }
        for (index, store) in self.stores.iter().enumerate() {
            let owned: Vec<usize> = (0..UNITS).filter(|unit| store.owns(*unit)).collect();
            let serves = store.serves(self.store_clock(index));
            let (run, epoch, pauses) = (&store.run, store.epoch, &store.pauses);
            eprintln!(
                "  {run} in epoch {epoch} owns {owned:?}, serves {serves}, pauses {pauses:?}, log {}",
                store.log.len()
            );
        }
        for (what, phase) in self.record.cluster.moving() {
            eprintln!("  slots {} {phase:?} from {} to {}", what.slots, what.from, what.to);
        }
    }
}

/// Whether `TELL=2` shows it: what is said again and again is not of interest.
pub fn is_told_of(action: &Action) -> bool {
    let is_usual = match action {
        Action::Step(_, step) => {
            matches!(step, Step::Tell { .. } | Step::Follow { .. } | Step::Promote { .. } | Step::Count { .. })
        }
        Action::Clear { .. } => true,
        _ => false,
    };
    !is_usual && number("TELL").is_some_and(|tell| tell > 1)
}
