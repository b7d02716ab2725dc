//! What is sent to peers.

use super::{ConnectionId, HEARTBEAT_MS, Peer, Progress, Section, SharedTable, Stage, Transmit};
use crate::{
    message::{self, Control},
    table,
    update::{self, Form},
};

/// A buffer that has this much is sent before more is put into it.
const OUTPUT_LEN: usize = 16_384;
/// Entries that are read from a table at once.
const BATCH: usize = 64;

impl Section {
    /// Appends what is to be sent on a connection, some 16 KiB at most. To be asked again when all of that has been sent,
    /// and after each event.
    pub fn poll_transmit(&mut self, id: ConnectionId, out: &mut Vec<u8>, now: u64) -> Transmit {
        let Some(connection) = self.connections.get_mut(&id) else { return Transmit::Last };
        out.append(&mut connection.output);
        match connection.progress {
            Progress::Ending => Transmit::Last,
            Progress::Established => {
                let index = connection.peer;
                match index.and_then(|index| self.peers.get_mut(index).map(|peer| (index, peer))) {
                    Some((index, peer)) => {
                        let asks = self.teacher == Some((index, false)) && peer.teaches;
                        if asks {
                            self.teacher = Some((index, true));
                        }
                        let is_up_to_date = self.stage == Stage::Finished;
                        let mut sender = Sender {
                            peer,
                            tables: &self.config.tables,
                            len_max: self.config.message_len_max,
                            updates_max: self.config.updates_max.max(1),
                            out,
                            now,
                        };
                        sender.send(asks, is_up_to_date)
                    }
                    None => Transmit::Last,
                }
            }
            _ => Transmit::All,
        }
    }
}

/// Writes to one peer.
struct Sender<'a> {
    peer: &'a mut Peer,
    tables: &'a [SharedTable],
    len_max: usize,
    updates_max: usize,
    out: &'a mut Vec<u8>,
    now: u64,
}

impl Sender<'_> {
    fn send(&mut self, asks: bool, is_up_to_date: bool) -> Transmit {
        if std::mem::take(&mut self.peer.heartbeat_is_due) {
            self.out.extend_from_slice(&Control::Heartbeat.bytes());
            self.peer.heartbeats_sent += 1;
        }
        if asks {
            self.out.extend_from_slice(&Control::ResyncRequest.bytes());
        }
        // Begins behind the table that was last, so that each gets its turn.
        let count = self.tables.len();
        let first = self.peer.sending.map_or(0, |last| last + 1);
        for table in (0..count).map(|offset| (first + offset) % count) {
            self.acknowledge(table);
            let is_whole = match (self.peer.is_taught, self.peer.lesson_is_over, self.peer.teaches) {
                (true, false, _) => self.teach(table),
                // A peer that teaches is not told anything meanwhile, nor one that has not confirmed its lesson.
                (true, true, _) | (false, _, true) => true,
                (false, _, false) => self.push(table),
            };
            if !is_whole {
                return Transmit::More;
            }
        }
        if self.peer.is_taught && !self.peer.lesson_is_over {
            let end = if is_up_to_date { Control::ResyncFinished } else { Control::ResyncPartial };
            self.out.extend_from_slice(&end.bytes());
            self.peer.lesson_is_over = true;
        }
        for _ in 0..std::mem::take(&mut self.peer.confirm) {
            self.out.extend_from_slice(&Control::ResyncConfirm.bytes());
        }
        Transmit::All
    }

    fn acknowledge(&mut self, table: usize) {
        let Some(cursor) = self.peer.cursors.get_mut(table) else { return };
        if cursor.last_get != cursor.last_acked
            && let Some(remote) = &cursor.remote
        {
            message::put_ack(self.out, remote.id, cursor.last_get);
            cursor.last_acked = cursor.last_get;
        }
    }

    /// Sends what is left of a lesson; whether that was all.
    fn teach(&mut self, table: usize) -> bool {
        let Some(lesson) = self.peer.cursors.get(table).and_then(|cursor| cursor.lesson) else { return true };
        let timed = !self.peer.is_old;
        let (at, is_whole) = self.updates(table, lesson.at, lesson.end, timed, true);
        if at != lesson.at {
            // The peer takes what it gets, if it does not find the time to say so.
            self.peer.is_alive = true;
        }
        if let Some(lesson) = self.peer.cursors.get_mut(table).and_then(|cursor| cursor.lesson.as_mut()) {
            lesson.at = at;
        }
        is_whole
    }

    /// Sends what changed; whether that was all.
    fn push(&mut self, table: usize) -> bool {
        let Some(shared) = self.tables.get(table) else { return true };
        let Some(from) = self.peer.cursors.get(table).map(|cursor| cursor.last_pushed) else { return true };
        let end = shared.table.last_update();
        if from >= end {
            return true;
        }
        let before = self.out.len();
        let (at, is_whole) = self.updates(table, from, end, false, false);
        if let Some(cursor) = self.peer.cursors.get_mut(table) {
            cursor.last_pushed = at;
        }
        if self.out.len() > before {
            // That says that this process lives.
            self.peer.heartbeat = Some(self.now + HEARTBEAT_MS);
        }
        is_whole
    }

    /// Sends the changes after `at`, up to `end` at least, those that were learned among them if that is wanted. How far
    /// that got, and whether to the end.
    fn updates(&mut self, table: usize, mut at: u64, end: u64, timed: bool, with_learned: bool) -> (u64, bool) {
        let Some(shared) = self.tables.get(table) else { return (at, true) };
        let definition = shared.table.definition();
        let mut previous: Option<u64> = None;
        let mut sent = 0;
        while at < end {
            if self.out.len() >= OUTPUT_LEN {
                return (at, false);
            }
            let updates = shared.table.updates_after(at, BATCH, self.now);
            for change in updates.changes {
                if self.out.len() >= OUTPUT_LEN || sent >= self.updates_max {
                    return (at, false);
                }
                at = change.id;
                if change.learned && !with_learned {
                    continue;
                }
                self.define(table);
                let incremental = previous == Some(change.id - 1);
                let form = Form { incremental, timed };
                let words = &mut self.peer.sent_words;
                if update::encode(self.out, definition, &change, form, words, self.len_max) {
                    previous = Some(change.id);
                    sent += 1;
                }
            }
            at = updates.upto.max(at);
        }
        (at, true)
    }

    /// Says which table the updates after this are of, unless the peer knows.
    fn define(&mut self, table: usize) {
        if self.peer.sending == Some(table) {
            return;
        }
        if let Some(shared) = self.tables.get(table) {
            let payload = table::encode(shared.table.definition(), &shared.name, table as u64 + 1);
            message::put(self.out, message::DEFINE, &payload);
            self.peer.sending = Some(table);
        }
    }
}
