//! What a group waits for that has no master which serves, and what a person can do about it, in words.

use cluster::{Address, Group, GroupId, keeper::Awaited};

use super::{Conductor, requests::ack_hint, status::is_served};

impl Conductor {
    /// Whom a group waits for; nobody if it serves, or will soon.
    pub(super) fn awaited(&self, id: GroupId) -> Vec<Awaited> {
        let (now, cluster) = (self.now(), &self.records.cluster);
        let (Some(group), Some(keeper)) = (cluster.groups.get(&id), self.controller.keepers().get(&id)) else {
            return Vec::new();
        };
        if is_served(self, id) || !group.kind().is_store() {
            return Vec::new();
        }
        keeper.awaited(now, group, &self.records.in_sync(id).of(group))
    }

    /// The same for people, with what they can do; nothing if nobody is waited for.
    pub(super) fn advice(&self, id: GroupId) -> Option<String> {
        let (awaited, group) = (self.awaited(id), self.records.cluster.groups.get(&id)?);
        if awaited.is_empty() {
            return None;
        }
        let names: Vec<String> = awaited.iter().map(described).collect();
        let start = match awaited.iter().filter(|one| one.fallen.is_none()).count() {
            0 => "",
            1 => ": start it",
            _ => ": start them",
        };
        let whom = names.join(", ");
        let loss = self.controller.keepers().get(&id).and_then(|keeper| keeper.master_loss(group));
        let loss = loss.map_or(String::new(), |loss| format!("Its master {} {loss}. ", group.master));
        Some(format!(
            "{loss}It waits for {whom}, as nobody else of it has all that was acknowledged{start}. {}",
            self.way_out(id, group, &awaited)
        ))
    }

    /// What can be done if they are gone for good.
    fn way_out(&self, id: GroupId, group: &Group, awaited: &[Awaited]) -> String {
        let (now, Some(keeper)) = (self.now(), self.controller.keepers().get(&id)) else { return String::new() };
        let in_sync = self.records.in_sync(id).of(group);
        // Whether that is known already is asked when it is done.
        let may_go =
            |one: &&Awaited| !one.is_master && keeper.may_give_up(now, (group, &in_sync), &one.server, true).is_ok();
        if let Some(Awaited { server, .. }) = awaited.iter().find(may_go) {
            let ack = ack_hint(self, id);
            return format!(
                "If {server} is gone for good: `tidegate cluster server remove {id} {server} --gone{ack}` has the group go on with what the others \
                 have"
            );
        }
        match keeper.best_there(now, group) {
            Some((best, end)) => format!(
                "If {} gone for good: `tidegate cluster server promote {id} {best} --gone` makes {best} the master with what it has (up to \
                 offset {end}); what was acknowledged behind that is lost",
                gone(awaited)
            ),
            None => "No other server of it answers".to_owned(),
        }
    }
}

fn described(Awaited { server, is_master, fallen }: &Awaited) -> String {
    match (fallen, is_master) {
        (Some((end, had)), _) => {
            format!("what {server} had (its folder was set back: its log went on to {had}, and ends at {end})")
        }
        (None, true) => format!("its master {server}, which does not answer"),
        (None, false) => format!("{server}, which was in sync and does not answer"),
    }
}

/// Those that do not answer.
fn gone(awaited: &[Awaited]) -> String {
    let silent = awaited.iter().filter(|one| one.fallen.is_none()).map(|one| &one.server);
    let silent: Vec<String> = silent.map(Address::to_string).collect();
    format!("{} {}", silent.join(" and "), if silent.len() == 1 { "is" } else { "are" })
}
