//! What comes from peers.

use std::sync::Arc;

use stick::Learned;

use super::{ConnectionId, Lesson, Progress, RECONNECT_MS, Receiving, Section};
use crate::{
    hello::{self, Status},
    message::{self, Control, Frame, FrameError},
    table::RemoteTable,
    update,
    varint::Reader,
};

/// How a connection goes on after something was read.
enum Step {
    /// With the next message.
    Next,
    /// When there are more bytes.
    Wait,
    /// Not at all.
    Over,
}

impl Section {
    /// Bytes came. Afterwards the connection may have something to send, and there may be something to do.
    pub fn handle_bytes(&mut self, id: ConnectionId, bytes: &[u8], now: u64) {
        let len_max = self.input_len_max();
        // Whatever is read at once, no more is kept than one message is long.
        for bytes in bytes.chunks(len_max) {
            let Some(connection) = self.connections.get_mut(&id) else { return };
            if connection.progress == Progress::Ending {
                return;
            }
            let mut input = std::mem::take(&mut connection.input);
            input.extend_from_slice(bytes);
            let mut at = 0;
            while let Some(rest) = input.get(at..)
                && let Some(progress) = self.connections.get(&id).map(|connection| connection.progress)
            {
                let step = match progress {
                    Progress::Stranger => self.read_hello(id, rest, &mut at, now),
                    Progress::Greeted => self.read_status(id, rest, &mut at, now),
                    Progress::Established => self.read_message(id, rest, &mut at, now),
                    Progress::Opening | Progress::Ending => Step::Over,
                };
                match step {
                    Step::Next => {}
                    Step::Wait => break,
                    Step::Over => return,
                }
            }
            input.drain(..at.min(input.len()));
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.input = input;
            }
        }
    }

    fn read_hello(&mut self, id: ConnectionId, bytes: &[u8], at: &mut usize, now: u64) -> Step {
        let hello = match hello::parse_hello(bytes, &self.config.local) {
            Ok(Some((hello, len))) => {
                *at += len;
                hello
            }
            Ok(None) if bytes.len() > hello::LEN_MAX => {
                self.close(id, now);
                return Step::Over;
            }
            Ok(None) => return Step::Wait,
            Err(status) => {
                self.end_with(id, &status.line(), now);
                return Step::Over;
            }
        };
        let Some(index) = self.peers.iter().position(|peer| *peer.name == *hello.from) else {
            self.end_with(id, &Status::RemoteName.line(), now);
            return Step::Over;
        };
        let (is_local, current) = self.peers.get(index).map_or((false, None), |peer| (peer.is_local, peer.connection));
        // A process that ends learns nothing more, least of all from itself.
        if self.stopping.is_some() || (is_local && current.is_some()) {
            self.end_with(id, &Status::TryAgain.line(), now);
            return Step::Over;
        }
        if let Some(current) = current {
            // Both sides have greeted each other at the same time. If each took the connection of the other one and closed
            // its own, as HAProxy does, none would be left: the one whose name comes first keeps its own.
            if *self.config.local < *hello.from && self.is_being_greeted(current, now) {
                self.end_with(id, &Status::TryAgain.line(), now);
                return Step::Over;
            }
            self.close(current, now);
            let retry = self.random_retry(now);
            if let Some(peer) = self.peers.get_mut(index) {
                peer.reconnect = Some(retry);
                peer.collisions += 1;
            }
        }
        if let Some(peer) = self.peers.get_mut(index) {
            peer.is_old = hello.is_old;
            peer.is_alive = true;
        }
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.output = Status::Success.line();
        }
        self.establish(id, index, true, now);
        Step::Next
    }

    fn read_status(&mut self, id: ConnectionId, bytes: &[u8], at: &mut usize, now: u64) -> Step {
        let Some((status, len)) = hello::parse_status(bytes) else {
            if bytes.len() > hello::LEN_MAX {
                self.close(id, now);
                return Step::Over;
            }
            return Step::Wait;
        };
        *at += len;
        let Some(index) = self.connections.get(&id).and_then(|connection| connection.peer) else { return Step::Over };
        let Some(peer) = self.peers.get_mut(index) else { return Step::Over };
        peer.status = status;
        peer.last_handshake = Some(now);
        if status == Status::Success {
            self.establish(id, index, false, now);
            return Step::Next;
        }
        peer.is_old |= status == Status::Version;
        self.close(id, now);
        Step::Over
    }

    fn read_message(&mut self, id: ConnectionId, bytes: &[u8], at: &mut usize, now: u64) -> Step {
        let Some(index) = self.connections.get(&id).and_then(|connection| connection.peer) else { return Step::Over };
        let outcome = match message::frame(bytes, self.config.message_len_max) {
            Ok(None) => return Step::Wait,
            Ok(Some(frame)) => {
                *at += frame.len;
                self.take(id, index, frame, now)
            }
            Err(error) => Err(error),
        };
        if let Err(error) = outcome {
            if let Some(peer) = self.peers.get_mut(index).filter(|_| error == FrameError::Protocol) {
                peer.protocol_errors += 1;
            }
            self.end_with(id, &error.bytes(), now);
            return Step::Over;
        }
        match self.peers.get_mut(index) {
            Some(peer) if peer.connection == Some(id) => {
                peer.is_alive = true;
                Step::Next
            }
            _ => Step::Over,
        }
    }

    fn take(&mut self, id: ConnectionId, index: usize, frame: Frame<'_>, now: u64) -> Result<(), FrameError> {
        let malformed = FrameError::Protocol;
        match (frame.class, frame.kind) {
            (message::CLASS_CONTROL, kind) => {
                if let Some(control) = Control::of(kind) {
                    self.take_control(id, index, control, now);
                }
            }
            (message::CLASS_TABLE, message::DEFINE) => self.take_definition(index, frame.payload).ok_or(malformed)?,
            (message::CLASS_TABLE, message::SWITCH) => self.take_switch(index, frame.payload).ok_or(malformed)?,
            (message::CLASS_TABLE, message::ACK) => self.take_ack(index, frame.payload).ok_or(malformed)?,
            (message::CLASS_TABLE, kind) if update::Form::of(kind).is_some() => {
                self.take_update(index, kind, frame.payload, now).ok_or(malformed)?;
            }
            (message::CLASS_RESERVED, _) => return Err(malformed),
            // What later versions say, and errors, after which the peer closes.
            (message::CLASS_ERROR, _) | (_, _) => {}
        }
        Ok(())
    }

    fn take_control(&mut self, id: ConnectionId, index: usize, control: Control, now: u64) {
        match control {
            Control::ResyncRequest => {
                self.notes |= super::notes::REQUESTED;
                self.begin_lesson(index);
            }
            Control::ResyncFinished => self.finish_learning(index, true, now),
            Control::ResyncPartial => self.finish_learning(index, false, now),
            Control::ResyncConfirm => {
                let Some(peer) = self.peers.get_mut(index) else { return };
                if self.stopping.is_some() {
                    peer.has_learned_all = true;
                    self.close(id, now);
                    return;
                }
                if peer.is_taught && peer.lesson_is_over {
                    (peer.is_taught, peer.lesson_is_over) = (false, false);
                    for cursor in &mut peer.cursors {
                        if let Some(Lesson { end, .. }) = cursor.lesson.take() {
                            // What changed meanwhile has a later number.
                            cursor.last_pushed = cursor.last_pushed.max(end);
                            cursor.acked = cursor.last_pushed;
                        }
                    }
                }
            }
            Control::Heartbeat => {
                if let Some(peer) = self.peers.get_mut(index) {
                    peer.reconnect = Some(now + RECONNECT_MS);
                    peer.heartbeats_received += 1;
                }
            }
        }
    }

    fn take_definition(&mut self, index: usize, payload: &[u8]) -> Option<()> {
        let (remote, is_readable) = RemoteTable::decode(payload)?;
        let peer = self.peers.get_mut(index)?;
        peer.receiving = None;
        // Numbers may be given anew.
        for cursor in &mut peer.cursors {
            if cursor.remote.as_ref().is_some_and(|known| known.id == remote.id) {
                cursor.remote = None;
            }
        }
        if !is_readable {
            return Some(());
        }
        let remote = Arc::new(remote);
        let named = self.config.tables.iter().position(|shared| shared.name.as_bytes() == remote.name);
        let table = named.filter(|table| {
            self.config.tables.get(*table).is_some_and(|shared| remote.fits(shared.table.definition()))
        });
        if let Some(cursor) = table.and_then(|table| peer.cursors.get_mut(table)) {
            cursor.remote = Some(Arc::clone(&remote));
        }
        peer.receiving = Some(Receiving { table, remote });
        Some(())
    }

    fn take_switch(&mut self, index: usize, payload: &[u8]) -> Option<()> {
        let number = Reader::new(payload).integer()?;
        let peer = self.peers.get_mut(index)?;
        let found = peer.cursors.iter().enumerate().find_map(|(table, cursor)| {
            let remote = cursor.remote.as_ref().filter(|remote| remote.id == number)?;
            Some(Receiving { table: Some(table), remote: Arc::clone(remote) })
        });
        peer.receiving = found;
        Some(())
    }

    fn take_update(&mut self, index: usize, kind: u8, payload: &[u8], now: u64) -> Option<()> {
        let peer = self.peers.get_mut(index)?;
        let Some(Receiving { table, remote }) = peer.receiving.clone() else { return Some(()) };
        if remote.key.is_none() {
            // Keys of a type that is not known here: nothing can be read.
            return Some(());
        }
        // A table that is not shared is read all the same: words in it are not sent again for others.
        let shared = table.and_then(|table| self.config.tables.get(table));
        let nothing = stick::Layout::default();
        let layout = shared.map_or(&nothing, |shared| &shared.table.definition().layout);
        let update = update::decode(kind, payload, &remote, layout, &mut peer.received_words)?;
        let cursor = table.and_then(|table| peer.cursors.get_mut(table));
        if let (Some(cursor), Some(shared)) = (cursor, shared) {
            cursor.last_get = update.id.unwrap_or(cursor.last_get.wrapping_add(1));
            let learned =
                Learned { key: &update.key, remaining_ms: update.remaining_ms.map(u64::from), values: &update.values };
            // A table that is full and purges nothing has no room for it.
            let _ = shared.table.learn(&learned, now);
        }
        Some(())
    }

    fn take_ack(&mut self, index: usize, payload: &[u8]) -> Option<()> {
        let peer = self.peers.get_mut(index)?;
        if peer.is_taught {
            return Some(());
        }
        let (number, update) = message::ack(payload)?;
        let place = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
        if let Some(cursor) = place.and_then(|place| peer.cursors.get_mut(place)) {
            // Peers say the lower half. It is one of the last ones that were sent.
            let behind = (cursor.last_pushed as u32).wrapping_sub(update);
            if let Some(acked) = cursor.last_pushed.checked_sub(u64::from(behind)) {
                cursor.acked = acked;
            }
        }
        Some(())
    }
}
