//! Which task goes on next.

use crate::{session::Close, table::Flags};

use super::{Shared, Task};
use crate::server::sessions::Sessions;

/// How many tasks make their results at the same time while memory is short.
const TASKS_AT_ONCE: usize = 2;

impl Sessions {
    /// Whether nobody waits for what a task would find.
    fn is_unwanted(&self, task: &Task) -> bool {
        let is_gone = match self.by_id.get(&task.session) {
            Some(Some(session)) => session.close == Close::Now,
            Some(None) => false,
            None => true,
        };
        is_gone && !task.found.command.flags.contains(Flags::WRITE)
    }
}

impl Shared {
    /// The place of the task that goes on next. Each keeps what it makes until its end, so while memory is short, few of them make
    /// something at the same time: the oldest.
    pub(super) fn next_task(&self) -> Option<usize> {
        let has_no_room = self.sessions.postponing.has_no_room;
        let tasks = &self.tasks;
        let mut may_go_on = (0..).zip(&tasks.queue).filter(|(_, task)| tasks.may_go_on(task, has_no_room));
        if !self.condition.memory_short || tasks.queue.len() <= TASKS_AT_ONCE {
            return may_go_on.next().map(|(place, _)| place);
        }
        let mut oldest = [None; TASKS_AT_ONCE];
        for (place, task) in may_go_on {
            // One that must come to its end, or is over already, does so; others may need the keys that it holds.
            if task.has_changed() || task.is_holding() || self.sessions.is_unwanted(task) {
                return Some(place);
            }
            let youngest = oldest.iter_mut().max_by_key(|one| one.map_or(u64::MAX, |(number, _)| number));
            if let Some(one) = youngest.filter(|one| one.is_none_or(|(number, _)| number > task.number)) {
                *one = Some((task.number, place));
            }
        }
        // In the order of the queue, which turns.
        oldest.iter().flatten().map(|(_, place)| *place).min()
    }
}
