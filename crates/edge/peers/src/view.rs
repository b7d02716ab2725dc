//! What `show peers` tells.

use std::sync::Arc;

use crate::{
    hello::Status,
    section::{ConnectionId, Peer, Progress, Section, Stage},
};

/// A section as it is now.
#[derive(Clone, Debug)]
pub struct SectionView {
    /// HAProxy's flags.
    pub flags: u32,
    /// Milliseconds until the end of waiting for a lesson, negative if that is past.
    pub resync_timeout: Option<i64>,
    /// How often its timers were looked at.
    pub calls: u32,
    /// Its peers.
    pub peers: Vec<PeerView>,
}

/// A peer.
#[derive(Clone, Debug)]
pub struct PeerView {
    /// Its name.
    pub name: Arc<str>,
    /// Whether it is this process.
    pub is_local: bool,
    /// The connection with it, and HAProxy's number of its state.
    pub connection: Option<(ConnectionId, u32)>,
    /// The last status.
    pub status: Status,
    /// Milliseconds since the last greeting.
    pub last_handshake: Option<u64>,
    /// Milliseconds until it is connected again, negative if that is past.
    pub reconnect: Option<i64>,
    /// Milliseconds until it is told that this process lives.
    pub heartbeat: Option<i64>,
    /// Confirmations to be sent.
    pub confirm: u32,
    /// Heartbeats sent and received.
    pub heartbeats: (u32, u32),
    /// Connections given up because nothing came.
    pub silences: u32,
    /// Connections opened.
    pub connections: u32,
    /// Messages that made no sense.
    pub protocol_errors: u32,
    /// Connections that came while there was one.
    pub collisions: u32,
    /// HAProxy's flags.
    pub flags: u32,
    /// The table that updates come of.
    pub receiving: Option<usize>,
    /// The table that updates are sent of.
    pub sending: Option<usize>,
    /// How far it is with each table.
    pub cursors: Vec<CursorView>,
    /// Words that were sent.
    pub sent_words: Vec<Arc<str>>,
    /// Words that were received.
    pub received_words: Vec<Option<Arc<str>>>,
}

/// How far a peer is with a table.
#[derive(Clone, Copy, Debug)]
pub struct CursorView {
    /// The number of the table there.
    pub remote_id: u64,
    /// The types of data there.
    pub remote_data: u64,
    /// HAProxy's flags.
    pub flags: u32,
    /// The last update of it that was acknowledged.
    pub last_acked: u32,
    /// The last change that was sent.
    pub last_pushed: u32,
    /// The last update that came.
    pub last_get: u32,
    /// Where its lesson began.
    pub teaching_origin: u32,
    /// The last change that it acknowledged.
    pub update: u32,
}

impl Section {
    /// Everything about it.
    #[must_use]
    pub fn view(&self, now: u64) -> SectionView {
        let stage = match self.stage {
            Stage::Local => 0,
            Stage::Remote => 1,
            Stage::Finished => 3,
        };
        let teacher = match self.teacher {
            None => 0,
            Some((_, false)) => 4,
            Some((_, true)) => 4 | 8,
        };
        let stopping = if self.stopping.is_some() && !self.is_over() { 0x1_0000 } else { 0 };
        SectionView {
            flags: stage | teacher | self.notes | stopping,
            resync_timeout: until(self.resync_timeout, now),
            calls: self.calls,
            peers: self.peers.iter().map(|peer| self.view_peer(peer, now)).collect(),
        }
    }

    fn view_peer(&self, peer: &Peer, now: u64) -> PeerView {
        let connection = peer.connection.and_then(|id| {
            let state = match self.connections.get(&id)?.progress {
                Progress::Stranger => 0,
                Progress::Opening => 5,
                Progress::Greeted => 6,
                Progress::Established => 7,
                Progress::Ending => 11,
            };
            Some((id, state))
        });
        let flags = [
            (peer.is_taught, 0x1),
            (peer.lesson_is_over, 0x8),
            (peer.has_learned_all, 0x10),
            (peer.teaches, 0x100),
            (peer.is_behind, 0x200),
            (peer.is_alive, 0x2000_0000),
            (peer.heartbeat_is_due, 0x4000_0000),
            (peer.is_old, 0x8000_0000),
        ];
        let cursors = peer.cursors.iter().map(|cursor| CursorView {
            remote_id: cursor.remote.as_ref().map_or(0, |remote| remote.id),
            remote_data: cursor.remote.as_ref().map_or(0, |remote| remote.data),
            flags: match cursor.lesson {
                Some(lesson) if lesson.at >= lesson.end => 3,
                _ => 0,
            },
            last_acked: cursor.last_acked,
            last_pushed: cursor.last_pushed as u32,
            last_get: cursor.last_get,
            teaching_origin: cursor.lesson.map_or(cursor.acked, |_| 0) as u32,
            update: cursor.acked as u32,
        });
        PeerView {
            name: Arc::clone(&peer.name),
            is_local: peer.is_local,
            connection,
            status: peer.status,
            last_handshake: peer.last_handshake.map(|time| now.saturating_sub(time)),
            reconnect: until(peer.reconnect, now),
            heartbeat: until(peer.heartbeat, now),
            confirm: peer.confirm,
            heartbeats: (peer.heartbeats_sent, peer.heartbeats_received),
            silences: peer.silences,
            connections: peer.connections,
            protocol_errors: peer.protocol_errors,
            collisions: peer.collisions,
            flags: flags.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).sum(),
            receiving: peer.receiving.as_ref().and_then(|receiving| receiving.table),
            sending: peer.sending,
            cursors: cursors.collect(),
            sent_words: peer.sent_words.words().cloned().collect(),
            received_words: peer.received_words.words().map(Option::<&Arc<str>>::cloned).collect(),
        }
    }
}

fn until(time: Option<u64>, now: u64) -> Option<i64> {
    time.map(|time| time.cast_signed() - now.cast_signed())
}
