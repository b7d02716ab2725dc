//! A clock that is set.
//!
//! Keys expire by the calendar, so all goes by its clock. What has lasted for some time, or is to, does not become longer or shorter
//! when somebody sets that clock: it is moved along.

use keyspace::Millis;

use super::Server;

impl Server {
    /// The clock was set by so much, forward or back.
    pub fn clock_was_set(&mut self, by: Millis) {
        let shared = &mut self.shared;
        let moved = |at: Millis| at.saturating_add(by);
        shared.clock.started = moved(shared.clock.started);
        shared.clock.now = moved(shared.clock.now);
        shared.clock.set_by = moved(shared.clock.set_by);
        shared.log.http_told_at = shared.log.http_told_at.map(moved);
        shared.sessions.blocked.deadlines =
            shared.sessions.blocked.deadlines.iter().map(|(deadline, id)| (moved(*deadline), *id)).collect();
        for session in shared.sessions.by_id.values_mut().filter_map(Option::as_deref_mut) {
            session.connection.created = moved(session.connection.created);
            session.last_interaction = moved(session.last_interaction);
            session.output.soft_limit_since = session.output.soft_limit_since.map(moved);
            if let Some(blocked) = &mut session.blocked {
                blocked.deadline = blocked.deadline.map(moved);
            }
        }
        shared.sessions.postponing.pause = shared.sessions.postponing.pause.map(|pause| pause.moved(by));
        shared.sessions.limits.clock_was_set(by);
        shared.statistics.clock_was_set(by);
    }
}
