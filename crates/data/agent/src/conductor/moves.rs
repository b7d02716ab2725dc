//! The copies of slots that run. Which begin and end, and how fast they are, [`cluster::controller`] decides.

use std::collections::BTreeMap;

use cluster::{
    Address,
    controller::{CopyNews, CopyNumber, MoveSeen},
    slots::{Move, Phase},
};

use super::Conductor;
use crate::mover::{CopyError, CopyTask, Copying, End};

/// The copies that run, and those that were asked to end and have not yet.
pub type Copies = BTreeMap<CopyNumber, Box<dyn Copying>>;

/// How far a range is, for people and programs.
#[derive(Clone, Debug)]
pub struct Shown {
    /// What moves.
    pub what: Move,
    /// How far it is.
    pub phase: Phase,
    /// Keys that there are to be copied, about.
    pub keys_about: u64,
    /// How its copy is. The problem is why it does not go on, or what went wrong last.
    pub seen: MoveSeen,
}

impl Conductor {
    /// Every range that is on its way.
    #[must_use]
    pub fn shown_moves(&self) -> Vec<Shown> {
        let now = self.now();
        let shown = |(what, phase): (Move, Phase)| {
            let mut seen = self.controller.move_seen(what, now);
            let absent = self.mover.is_none().then(|| "this version cannot copy slots yet".to_owned());
            seen.problem = seen.problem.or(absent);
            Shown { what, phase, keys_about: self.size_about(what).0, seen }
        };
        self.records.moving().iter().copied().map(shown).collect()
    }

    /// Keys and bytes of some slots, if all slots of their group have the same.
    pub(super) fn size_about(&self, what: Move) -> (u64, u64) {
        let cluster = &self.records.cluster;
        let Some(group) = cluster.groups.get(&what.from) else { return (0, 0) };
        let (keys, bytes) = self.figures.size(&group.master);
        let owned = u64::from(cluster.slots.count_of(what.from)).max(1);
        let share = |all: u64| all * u64::from(what.slots.count()) / owned;
        (share(keys), share(bytes))
    }

    /// Tells the controller how copies are.
    pub(super) fn look_at_copies(&mut self, now: u64) {
        let controller = &mut self.controller;
        self.copies.retain(|number, copy| {
            // NOTE: looked at first: one that has ended has said why by then.
            let has_ended = copy.has_ended();
            let news = match copy.progress() {
                Ok(progress) => CopyNews::Progress(progress),
                Err(CopyError::Outdated(problem)) => CopyNews::Outdated(problem),
                Err(problem) => CopyNews::Failed(problem.to_string()),
            };
            controller.handle_copy(*number, news, now);
            if has_ended {
                controller.handle_copy(*number, CopyNews::Ended, now);
            }
            !has_ended
        });
    }

    pub(super) fn stop_copy(&mut self, number: CopyNumber) {
        match self.copies.get_mut(&number) {
            Some(copy) => copy.ask_to_end(),
            None => {
                let now = self.now();
                self.controller.handle_copy(number, CopyNews::Ended, now);
            }
        }
    }

    /// A server as what copies slots is told of it.
    fn end_of(&self, address: Address) -> End {
        let kind = self.records.cluster.kind_of(&address);
        let credentials = self.credentials.of(&address).cloned();
        let server = self.records.cluster.servers().map(|(_, server)| server).find(|server| server.address == address);
        let node = server.filter(|server| server.kind.is_store()).map(|server| server.id.clone());
        End { address, kind, node, credentials }
    }

    pub(super) fn start_copy(&mut self, number: CopyNumber, what: Move, (source, target): (Address, Address)) {
        let (source, target) = (self.end_of(source), self.end_of(target));
        let task = CopyTask { source, target, slots: what.slots, epoch: self.records.cluster.epoch };
        let Some(mover) = &self.mover else { return };
        match mover.start(&task) {
            Ok(copy) => drop(self.copies.insert(number, copy)),
            Err(problem) => {
                let now = self.now();
                self.controller.handle_copy(number, CopyNews::Failed(problem.to_string()), now);
                self.controller.handle_copy(number, CopyNews::Ended, now);
            }
        }
    }
}
