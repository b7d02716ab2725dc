//! How a shard deals with its clients' sockets: what is read and run, what waits, and what is sent when.

use commands::SessionId;
use keyspace::Millis;
use mio::{Token, event::Event};
use oplog::Offset;
use shard::long_queries::LONG;

use crate::{
    StoreError,
    connection::{Holds, ReadOutcome},
    lanes::Event as LaneEvent,
    sockets::{FIRST_LISTENER, SIGNALS, WAKER},
};

use super::EventLoop;

impl EventLoop {
    pub(super) fn handle(&mut self, event: &Event, now: Millis) {
        match event.token() {
            WAKER => {}
            SIGNALS => {
                let ending = self.sockets.borrow_mut().signals.received();
                if let Some(ending) = ending {
                    self.end_by(ending);
                }
            }
            Token(token) if token >= FIRST_LISTENER => {
                self.sockets.borrow_mut().accept(token - FIRST_LISTENER, &mut self.shard.server, now);
            }
            Token(token) => {
                let mut sockets = self.sockets.borrow_mut();
                let Some(connection) = sockets.connections.get_mut(token) else { return };
                if event.is_writable() && std::mem::take(&mut connection.write_blocked) && !connection.holds.any() {
                    self.shard.ready.push(connection.session);
                }
                let goes_on = event.is_writable() && connection.has_unsent();
                if event.is_readable() || event.is_read_closed() || goes_on {
                    connection.sends_no_more |= event.is_read_closed();
                    if connection.holds.any() {
                        connection.read_pending = true;
                    } else {
                        drop(sockets);
                        self.read(token, now);
                    }
                }
            }
        }
    }

    /// Whether lanes have left nothing, and will wake the loop if they do.
    pub(super) fn may_sleep(&self) -> bool {
        self.sockets.borrow().lanes.as_ref().is_none_or(|lanes| lanes.may_sleep())
    }

    /// Runs what clients of lanes have sent.
    pub(super) fn serve_lanes(&mut self, now: Millis) -> Result<(), StoreError> {
        if let Some(lanes) = &mut self.sockets.borrow_mut().lanes {
            lanes.collect()?;
        }
        loop {
            let mut sockets = self.sockets.borrow_mut();
            let next = sockets.lanes.as_mut().and_then(|lanes| lanes.next(&mut self.shard.server));
            drop(sockets);
            match next {
                Some((session, LaneEvent::Input)) => self.run_remote(session, now),
                // One that is held is sent what it gets when the log is safe.
                Some((session, LaneEvent::Writable)) => {
                    if !self.is_held(session) {
                        self.shard.ready.push(session);
                    }
                }
                None => return Ok(()),
            }
        }
    }

    fn is_held(&self, session: SessionId) -> bool {
        let mut sockets = self.sockets.borrow_mut();
        sockets.lanes.as_mut().and_then(|lanes| lanes.remote(session)).is_some_and(|remote| remote.holds.any())
    }

    /// Runs what a client of a lane has sent, or has its lane wait if that cannot be now.
    pub(super) fn run_remote(&mut self, session: SessionId, now: Millis) {
        let mut guard = self.sockets.borrow_mut();
        let sockets = &mut *guard;
        let Some(lanes) = &mut sockets.lanes else { return };
        let Some(remote) = lanes.remote(session) else { return };
        if remote.holds.any() {
            remote.pending = true;
            return lanes.stop(session);
        }
        if self.shard.server.has_more_to_run(session) {
            self.resume.push(session);
            return lanes.stop(session);
        }
        if !self.shard.may_run(session) {
            self.deferred.push(session);
            return lanes.stop(session);
        }
        let len = self.shard.server.query_lens(session).map_or(0, |lens| lens.came);
        if !self.shard.admits_query(session, len, now) {
            self.deferred.push(session);
            return lanes.stop(session);
        }
        lanes.go(session);
        drop(guard);
        self.shard.run(session, now);
    }

    /// Gives lanes what they have to send.
    pub(super) fn hand_over(&mut self) -> Result<(), StoreError> {
        if let Some(lanes) = &mut self.sockets.borrow_mut().lanes {
            lanes.hand_over(&mut self.shard.server)?;
        }
        Ok(())
    }

    /// Has what is ready wait until the log is safe up to an offset, as far as it tells of what is not safe yet.
    pub(super) fn hold(&mut self, offset: Offset) {
        let mut sockets = self.sockets.borrow_mut();
        for session in self.shard.hold_ready(offset) {
            if let Some(holds) = sockets.holds(session) {
                holds.add();
            }
        }
    }

    /// Sends what the log is safe for by now, and goes on with what these clients sent meanwhile.
    pub(super) fn release(&mut self, now: Millis) {
        let mut sessions = self.shard.take_released();
        if sessions.is_empty() {
            return;
        }
        let mut sockets = self.sockets.borrow_mut();
        sessions.retain(|session| sockets.holds(*session).is_some_and(Holds::release));
        drop(sockets);
        self.shard.note_released(sessions.len());
        self.shard.ready.extend_from_slice(&sessions);
        self.send();
        for session in sessions {
            let mut sockets = self.sockets.borrow_mut();
            let Some(token) = sockets.tokens.get(&session).copied() else {
                drop(sockets);
                self.release_remote(session, now);
                continue;
            };
            let connection = sockets.connections.get_mut(token);
            let is_pending = connection.is_some_and(|connection| std::mem::take(&mut connection.read_pending));
            drop(sockets);
            if is_pending {
                self.read(token, now);
            }
        }
    }

    /// The same for a client of a lane.
    fn release_remote(&mut self, session: SessionId, now: Millis) {
        let mut sockets = self.sockets.borrow_mut();
        let Some(lanes) = &mut sockets.lanes else { return };
        let is_pending = lanes.remote(session).is_some_and(|remote| std::mem::take(&mut remote.pending));
        drop(sockets);
        if is_pending {
            self.run_remote(session, now);
        }
    }

    /// Reads from a client and runs what has come: one buffer's worth in a turn. Whoever sends without a pause would have
    /// everybody wait otherwise, and fill memory with replies that nobody sends.
    pub(super) fn read(&mut self, token: usize, now: Millis) {
        let mut guard = self.sockets.borrow_mut();
        let sockets = &mut *guard;
        let Some(connection) = sockets.connections.get_mut(token) else { return };
        if connection.holds.any() {
            connection.read_pending = true;
            return;
        }
        let session = connection.session;
        if self.shard.server.has_more_to_run(session) {
            self.resume.push(session);
            return;
        }
        if !self.shard.may_run(session) {
            self.deferred.push(session);
            return;
        }
        if connection.is_pipeline() && sockets.give_to_lane(token, &mut self.shard.server) {
            return;
        }
        let Some(connection) = sockets.connections.get_mut(token) else { return };
        let Some(mut input) = self.shard.server.input(session) else { return };
        if input.len() > LONG {
            let len = input.len();
            if !self.shard.admits_query(session, len, now) {
                self.deferred.push(session);
                return;
            }
            let Some(again) = self.shard.server.input(session) else { return };
            input = again;
        }
        let before = input.len();
        let outcome = connection.read(&mut sockets.scratch, input);
        let came = input.len() - before;
        let statistics = self.shard.server.statistics_mut();
        statistics.reads += 1;
        statistics.input_bytes += came as u64;
        // The end of what it sends is still to be met.
        let has_ended = connection.sends_no_more;
        if outcome == ReadOutcome::Closed {
            sockets.end(token, &mut self.shard.server);
            return;
        }
        drop(guard);
        let before = self.shard.server.statistics().processed;
        self.shard.run(session, now);
        if self.has_lanes
            && let Some(connection) = self.sockets.borrow_mut().connections.get_mut(token)
        {
            // They may have reset what is counted.
            connection.note_commands(self.shard.server.statistics().processed.saturating_sub(before));
        }
        if outcome == ReadOutcome::More || has_ended {
            self.resume.push(session);
        }
    }

    /// Sends what there is to send.
    pub(super) fn send(&mut self) {
        let mut sockets = self.sockets.borrow_mut();
        for session in self.shard.ready.drain(..) {
            sockets.send(session, &mut self.shard.server);
        }
    }
}
