//! The replicas of a store, as its loop sees them.

use std::sync::Arc;

use commands::{
    SessionId,
    config::CopyVersion,
    replication::{Attach, Replica, ReplicaState},
    session::Close,
};
use keyspace::{Millis, rdb::FileVersion};
use mio::Waker;
use oplog::Offset;
use replication::{
    master::{Answer, LogView, Request, answer},
    parting::field_of,
    promises::{Standing, acknowledged},
    replica::Position,
    retention::{self, Retention, WantedCopy, waits_for_tables},
};

use crate::{export::RdbOptions, folder::StoreFolder, listener::Stream, messages, opening::Shard, sockets::Sockets};

use super::{
    feed::{FeedThread, Start},
    histories::KeptHistories,
};

/// One who gets a copy when the tables have the log up to an offset.
struct Behind {
    end: Offset,
    stream: Stream,
    attach: Attach,
}

/// Why a replica cannot be given the log: it comes again, and may be given it then.
#[derive(Debug, thiserror::Error)]
enum StartError {
    /// This server keeps none.
    #[error("there is no log")]
    NoLog,
    /// What it lacks cannot be read.
    #[error(transparent)]
    Log(#[from] oplog::LogError),
    /// The tables cannot be read.
    #[error(transparent)]
    Tables(#[from] engine::Error),
}

/// All of them.
pub struct Replicas {
    feeds: Vec<(SessionId, FeedThread)>,
    /// Those whose sockets lanes have still to give back.
    awaited: Vec<Attach>,
    /// Those who wait for the tables.
    behind: Vec<Behind>,
    /// Where those are who follow the log by a name.
    followers: Vec<(String, Offset)>,
    /// The histories of the log that they are given.
    pub histories: KeptHistories,
    waker: Arc<Waker>,
}

impl Replicas {
    pub fn new(waker: Arc<Waker>) -> Self {
        Self {
            feeds: Vec::new(),
            awaited: Vec::new(),
            behind: Vec::new(),
            followers: Vec::new(),
            histories: KeptHistories::default(),
            waker,
        }
    }

    /// Gives a connection the log.
    pub fn attach(
        &mut self,
        shard: &mut Shard,
        sockets: &mut Sockets,
        folder: &StoreFolder,
        attach: Attach,
        now: Millis,
    ) {
        match sockets.take_stream(attach.session) {
            Some(stream) => self.arrived(shard, stream, folder, attach, now),
            None => self.awaited.push(attach),
        }
    }

    /// Who gets no log behind the copy wants it as of now: the tables are brought there first.
    fn arrived(&mut self, shard: &mut Shard, stream: Stream, folder: &StoreFolder, attach: Attach, now: Millis) {
        let end = shard.persistence().map_or(Offset(0), |persistence| persistence.log().end());
        let wanted = WantedCopy {
            is_copy_only: attach.traits.copy_only,
            is_old: attach.from.is_none(),
            is_of_slots: attach.traits.slots.is_some(),
        };
        if waits_for_tables(wanted, Offset(shard.server.persistence_figures().applied), end) {
            if let Some(persistence) = shard.persistence_mut() {
                persistence.press();
            }
            self.behind.push(Behind { end, stream, attach });
        } else {
            self.begin(shard, stream, folder, &attach, now);
        }
    }

    /// Goes on with those for whom the tables are far enough.
    pub fn begin_those_behind(&mut self, shard: &mut Shard, folder: &StoreFolder, now: Millis) {
        if self.behind.is_empty() {
            return;
        }
        shard.tell_figures();
        for Behind { end, stream, attach } in std::mem::take(&mut self.behind) {
            if shard.server.persistence_figures().applied >= end.0 {
                self.begin(shard, stream, folder, &attach, now);
            } else {
                self.behind.push(Behind { end, stream, attach });
            }
        }
    }

    /// Does the same for those whose sockets a lane had.
    pub fn take_released(&mut self, shard: &mut Shard, sockets: &mut Sockets, folder: &StoreFolder, now: Millis) {
        if self.awaited.is_empty() {
            return;
        }
        for (id, stream) in sockets.take_released() {
            if let Some(place) = self.awaited.iter().position(|attach| attach.session == id) {
                let attach = self.awaited.swap_remove(place);
                self.arrived(shard, stream, folder, attach, now);
            }
        }
    }

    fn begin(&mut self, shard: &mut Shard, stream: Stream, folder: &StoreFolder, attach: &Attach, now: Millis) {
        let id = attach.session;
        let Some(address) = shard.server.session_address(id) else { return };
        let (replica, what, start) = match self.start(shard, attach) {
            Ok(start) => (replica_of(attach, &address, now), told_of(&start, attach, shard), start),
            Err(reason) => {
                messages::warn(&format!("a replica at {address} cannot be given the log: {reason}"));
                return shard.server.disconnect(id);
            }
        };
        messages::notice(&format!("the replica at {}:{} {what}", replica.address, replica.port));
        let timeout_ms = shard.server.settings().repl_timeout.0.saturating_mul(1000);
        match FeedThread::start(stream, start, folder.root().to_owned(), (timeout_ms, Arc::clone(&self.waker))) {
            Ok(feed) => {
                if !shard.server.replication().has_replicas() {
                    // One that has just come needs no ping.
                    shard.server.replication_mut().pinged = now;
                }
                shard.server.replication_mut().replicas.push((id, replica));
                self.feeds.push((id, feed));
            }
            Err(error) => {
                messages::warn(&format!("a replica cannot be served: {error}"));
                shard.server.disconnect(id);
            }
        }
        self.keep_log(shard);
    }

    /// How a replica begins: with the log from where it is, or with all keys.
    fn start(&self, shard: &Shard, attach: &Attach) -> Result<Start, StartError> {
        let Some(persistence) = shard.persistence() else { return Err(StartError::NoLog) };
        let log = persistence.log();
        let histories = self.histories.all(persistence.histories(), log.end());
        // A Redis takes no more than it expects.
        let told = if attach.traits.is_eager { format!(" {}", field_of(&histories)) } else { String::new() };
        let view = LogView { histories, first: log.first(), end: log.written() };
        let request = match &attach.from {
            Some((history, next)) => Request::parse(history, next).unwrap_or(Request { history: None, next: 0 }),
            None => Request { history: None, next: 0 },
        };
        let why = match answer(&request, &view) {
            Answer::Continue { history, from } => {
                let reader = log.read(from)?;
                return Ok(Start::Continue { history, told, from, reader: Box::new(reader) });
            }
            Answer::Full(why) => why,
        };
        let tables = persistence.engine().snapshot();
        let applied = tables.applied()?;
        let offset = applied.map_or(log.first(), |offset| Offset(offset.0));
        let reader = log.read(offset)?;
        let position = Position { history: persistence.replication_id(), offset };
        let selected = shard::records::selected_in(|name| tables.get(name))?;
        let mut options = RdbOptions { without_keys: attach.traits.functions_only, ..RdbOptions::default() };
        options.slots = attach.traits.slots;
        options.file.has_queues = attach.traits.takes_queues;
        options.file.compress = shard.server.settings().rdbcompression.0;
        if shard.server.settings().replica_rdb_version == CopyVersion::Nine {
            // It has no functions, and who reads it neither.
            (options.file.version, options.without_functions) = (FileVersion::Nine, true);
        }
        options.auxiliary = vec![
            ("repl-stream-db", selected.to_string()),
            ("repl-id", position.history.to_string()),
            ("repl-offset", position.offset.to_string()),
        ];
        let traits = attach.traits.clone();
        let is_old = attach.from.is_none();
        Ok(Start::Full { position, told, why, tables, options, reader: Box::new(reader), traits, is_old })
    }

    /// Takes over how far replicas are, and lets those go that have gone.
    pub fn look(&mut self, shard: &mut Shard, now: Millis) {
        if self.feeds.is_empty() {
            return;
        }
        let timeout_ms = shard.server.settings().repl_timeout.0.saturating_mul(1000);
        let mut gone = Vec::new();
        for (id, feed) in &self.feeds {
            feed.set_timeout(timeout_ms);
            let is_closed = shard.server.output(*id).is_none_or(|(_, close)| close != Close::No);
            if is_closed || feed.has_ended() {
                gone.push(*id);
                continue;
            }
            let replicas = &mut shard.server.replication_mut().replicas;
            if let Some((_, replica)) = replicas.iter_mut().find(|(other, _)| other == id) {
                feed.report(replica, now);
            }
        }
        if !gone.is_empty() {
            self.feeds.retain(|(id, _)| !gone.contains(id));
            for id in gone {
                self.forget(shard, id);
            }
        }
        self.keep_log(shard);
    }

    fn name_of(&self, shard: &Shard, id: SessionId) -> String {
        let replicas = &shard.server.replication().replicas;
        let found = replicas.iter().find(|(other, _)| *other == id);
        found.map(|(_, replica)| format!("at {}:{}", replica.address, replica.port)).unwrap_or_default()
    }

    fn forget(&self, shard: &mut Shard, id: SessionId) {
        let replicas = &mut shard.server.replication_mut().replicas;
        if let Some(place) = replicas.iter().position(|(other, _)| *other == id) {
            let (_, replica) = replicas.remove(place);
            messages::notice(&format!("the replica at {}:{} has gone", replica.address, replica.port));
        }
        shard.server.disconnect(id);
    }

    /// Lets all of them go.
    pub fn drop_all(&mut self, shard: &mut Shard) {
        for (id, _) in std::mem::take(&mut self.feeds) {
            self.forget(shard, id);
        }
        self.keep_log(shard);
    }

    /// Those who follow the log by a name, and where they are by now.
    pub fn set_followers(&mut self, shard: &mut Shard, followers: Vec<(String, Offset)>) {
        let bound = shard.server.settings().replica_log_size_max.0;
        let end = shard.persistence().map_or(Offset(0), |persistence| persistence.log().end());
        let (near, far): (Vec<_>, Vec<_>) =
            followers.into_iter().partition(|(_, at)| retention::is_within(*at, end, bound));
        for (name, _) in far {
            if self.followers.iter().any(|(known, _)| *known == name) {
                messages::warn(&format!(
                    "'{name}', which follows the log, is behind by more than replica-log-size-max, {bound} bytes: the log is \
                     kept for it no more"
                ));
            }
        }
        if near != self.followers {
            self.followers = near;
            shard.server.replication_mut().log_followers =
                self.followers.iter().map(|(name, at)| (name.clone(), at.0)).collect();
            self.keep_log(shard);
        }
    }

    /// What replicas are still to be given stays in the log, up to a bound.
    fn keep_log(&mut self, shard: &mut Shard) {
        let bound = shard.server.settings().replica_log_size_max.0;
        let end = shard.persistence().map_or(Offset(0), |persistence| persistence.log().end());
        let positions = self.feeds.iter().map(|(id, feed)| (*id, feed.position()));
        let followers = self.followers.iter().map(|(_, at)| *at);
        let Retention { given_up, from } = retention::retain(positions, followers, (end, bound));
        if !given_up.is_empty() {
            self.feeds.retain(|(id, _)| !given_up.contains(id));
        }
        for id in given_up {
            messages::warn(&format!(
                "the replica {} is behind by more of the log than replica-log-size-max, {bound} bytes: it is given up, and \
                 needs a copy when it comes again",
                self.name_of(shard, id)
            ));
            self.forget(shard, id);
        }
        if let Some(persistence) = shard.persistence_mut() {
            persistence.keep_log_from(from);
        }
    }

    /// Up to where replicas have the log, as far as they [count](acknowledged).
    pub fn acknowledged(&self, shard: &Shard, wanted: usize) -> Vec<Offset> {
        let replicas = shard.server.replication().replicas.iter();
        let replicas: Vec<Standing<'_>> = replicas.map(|(_, replica)| standing(replica)).collect();
        let counted = shard.server.counted_replicas().map(|counted| counted.members.as_slice());
        acknowledged(&replicas, counted, wanted)
    }

    /// The log is in files up to there.
    pub fn tell_written(&self, written: Offset) {
        self.feeds.iter().for_each(|(_, feed)| feed.tell_written(written));
    }

    /// Whether the loop is to be woken for acknowledgements.
    pub fn wants_acks(&self, is_wanted: bool) {
        self.feeds.iter().for_each(|(_, feed)| feed.set_ack_wanted(is_wanted));
    }
}

/// A replica, as far as it counts for what is promised.
fn standing(replica: &Replica) -> Standing<'_> {
    Standing {
        host: &replica.address,
        port: replica.port,
        is_online: replica.state == ReplicaState::Online,
        applied: Offset(replica.applied),
    }
}

/// What is known of a replica that has come.
fn replica_of(attach: &Attach, address: &str, now: Millis) -> Replica {
    let host = match attach.traits.address.as_str() {
        "" => host_of(address),
        announced => announced.to_owned(),
    };
    Replica {
        address: host,
        port: attach.traits.port,
        is_eager: attach.traits.is_eager,
        heard: now,
        ..Replica::default()
    }
}

/// What a replica is given, in words; and counts it.
fn told_of(start: &Start, attach: &Attach, shard: &mut Shard) -> String {
    let syncs = &mut shard.server.replication_mut().syncs;
    match start {
        Start::Continue { from, .. } => {
            syncs.1 += 1;
            format!("goes on from offset {from}")
        }
        Start::Full { position, why, .. } => {
            syncs.0 += 1;
            syncs.2 += u64::from(attach.from.as_ref().is_some_and(|(history, _)| history != b"?"));
            format!("is given all keys as of offset {}: {why}", position.offset)
        }
    }
}

/// The host of an address with a port.
fn host_of(address: &str) -> String {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']').to_owned()
}
