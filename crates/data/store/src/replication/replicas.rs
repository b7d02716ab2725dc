//! The replicas of a store, as its loop sees them.

use std::sync::Arc;

use commands::{
    SessionId,
    cluster::Counted,
    config::CopyVersion,
    replication::{Attach, Replica, ReplicaState},
    session::Close,
};
use keyspace::{Millis, rdb::FileVersion};
use mio::Waker;
use oplog::Offset;
use replication::{
    master::{Answer, LogView, Request, answer},
    replica::Position,
};

use crate::{export::RdbOptions, folder::StoreFolder, listener::Stream, messages, opening::Shard, sockets::Sockets};

use super::feed::{FeedThread, Start};

/// Bytes of the log that may be behind a copy of some slots.
const SLOTS_BEHIND: u64 = 256 << 10;

/// One who gets a copy when the tables have the log up to an offset.
struct Behind {
    end: Offset,
    stream: Stream,
    attach: Attach,
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
    waker: Arc<Waker>,
}

impl Replicas {
    pub fn new(waker: Arc<Waker>) -> Self {
        Self { feeds: Vec::new(), awaited: Vec::new(), behind: Vec::new(), followers: Vec::new(), waker }
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
        // So does one of old who asks with SYNC: it has no offset that what it gets could be counted from.
        let applied = shard.server.shared.persistence.applied;
        // Of slots that move much of the log would be about other keys: a copy of now has less behind it.
        let is_far = attach.traits.slots.is_some() && end.0.saturating_sub(applied) > SLOTS_BEHIND;
        if (attach.traits.copy_only || attach.from.is_none()) && applied < end.0 || is_far {
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
            if shard.server.shared.persistence.applied >= end.0 {
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
        let timeout_ms = shard.server.shared.settings.repl_timeout.0.saturating_mul(1000);
        match FeedThread::start(stream, start, folder.root().to_owned(), (timeout_ms, Arc::clone(&self.waker))) {
            Ok(feed) => {
                if !shard.server.shared.replication.has_replicas() {
                    // One that has just come needs no ping.
                    shard.server.shared.replication.pinged = now;
                }
                shard.server.shared.replication.replicas.push((id, replica));
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
    fn start(&self, shard: &Shard, attach: &Attach) -> Result<Start, String> {
        let Some(persistence) = shard.persistence() else { return Err("there is no log".into()) };
        let log = persistence.log();
        let view = LogView { histories: persistence.histories(), first: log.first(), end: log.written() };
        let request = match &attach.from {
            Some((history, next)) => Request::parse(history, next).unwrap_or(Request { history: None, next: 0 }),
            None => Request { history: None, next: 0 },
        };
        let why = match answer(&request, &view) {
            Answer::Continue { history, from } => {
                let reader = log.read(from).map_err(|error| error.to_string())?;
                return Ok(Start::Continue { history, from, reader: Box::new(reader) });
            }
            Answer::Full(why) => why,
        };
        let tables = persistence.engine().snapshot();
        let applied = tables.applied().map_err(|error| error.to_string())?;
        let offset = applied.map_or(log.first(), |offset| Offset(offset.0));
        let reader = log.read(offset).map_err(|error| error.to_string())?;
        let position = Position { history: persistence.replication_id(), offset };
        let selected = shard::records::selected_in(|name| tables.get(name)).map_err(|error| error.to_string())?;
        let mut options = RdbOptions { without_keys: attach.traits.functions_only, ..RdbOptions::default() };
        options.slots = attach.traits.slots;
        options.file.compress = shard.server.shared.settings.rdbcompression.0;
        if shard.server.shared.settings.replica_rdb_version == CopyVersion::Nine {
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
        Ok(Start::Full { position, why, tables, options, reader: Box::new(reader), traits, is_old })
    }

    /// Takes over how far replicas are, and lets those go that have gone.
    pub fn look(&mut self, shard: &mut Shard, now: Millis) {
        if self.feeds.is_empty() {
            return;
        }
        let timeout_ms = shard.server.shared.settings.repl_timeout.0.saturating_mul(1000);
        let mut gone = Vec::new();
        for (id, feed) in &self.feeds {
            feed.set_timeout(timeout_ms);
            let is_closed = shard.server.output(*id).is_none_or(|(_, close)| close != Close::No);
            if is_closed || feed.has_ended() {
                gone.push(*id);
                continue;
            }
            let replicas = &mut shard.server.shared.replication.replicas;
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
        let replicas = &shard.server.shared.replication.replicas;
        let found = replicas.iter().find(|(other, _)| *other == id);
        found.map(|(_, replica)| format!("at {}:{}", replica.address, replica.port)).unwrap_or_default()
    }

    fn forget(&self, shard: &mut Shard, id: SessionId) {
        let replicas = &mut shard.server.shared.replication.replicas;
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
        let bound = shard.server.shared.settings.replica_log_size_max.0;
        let end = shard.persistence().map_or(Offset(0), |persistence| persistence.log().end());
        let (near, far): (Vec<_>, Vec<_>) =
            followers.into_iter().partition(|(_, at)| bound == 0 || end.0.saturating_sub(at.0) <= bound);
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
            shard.server.shared.replication.log_followers =
                self.followers.iter().map(|(name, at)| (name.clone(), at.0)).collect();
            self.keep_log(shard);
        }
    }

    /// What replicas are still to be given stays in the log, up to a bound.
    fn keep_log(&mut self, shard: &mut Shard) {
        let bound = shard.server.shared.settings.replica_log_size_max.0;
        let end = shard.persistence().map_or(Offset(0), |persistence| persistence.log().end());
        if bound > 0 {
            let is_too_far = |feed: &FeedThread| end.0.saturating_sub(feed.position().0) > bound;
            let given_up: Vec<SessionId> =
                self.feeds.iter().filter(|(_, feed)| is_too_far(feed)).map(|(id, _)| *id).collect();
            self.feeds.retain(|(id, _)| !given_up.contains(id));
            for id in given_up {
                messages::warn(&format!(
                    "the replica {} is behind by more of the log than replica-log-size-max, {bound} bytes: it is given up, and \
                     needs a copy when it comes again",
                    self.name_of(shard, id)
                ));
                self.forget(shard, id);
            }
        }
        let followers = self.followers.iter().map(|(_, at)| *at);
        let from = self.feeds.iter().map(|(_, feed)| feed.position()).chain(followers).min();
        if let Some(persistence) = shard.persistence_mut() {
            persistence.keep_log_from(from);
        }
    }

    /// Up to where replicas have the log that are given it, those first that have the most. In a cluster only those count that the agent
    /// has named, `wanted` of them; of more of them than that, the others may be anybody.
    pub fn acknowledged(&self, shard: &Shard, wanted: usize) -> Vec<Offset> {
        let replicas: Vec<&Replica> =
            shard.server.shared.replication.replicas.iter().map(|(_, replica)| replica).collect();
        acknowledged(&replicas, shard.server.shared.counted(), wanted)
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

fn acknowledged(replicas: &[&Replica], counted: Option<&Counted>, wanted: usize) -> Vec<Offset> {
    let is_online = |replica: &&&Replica| replica.state == ReplicaState::Online;
    let sorted = |mut offsets: Vec<Offset>| {
        offsets.sort_unstable_by(|left, right| right.cmp(left));
        offsets
    };
    let all = sorted(replicas.iter().filter(is_online).map(|replica| Offset(replica.applied)).collect());
    let Some((counted, place)) = counted.zip(wanted.checked_sub(1)) else { return all };
    let of = |(host, port): &(String, u16)| {
        // One that has come anew is where it says now, whatever it had before: that connection is not over yet.
        let last = replicas.iter().rfind(|replica| replica.address == *host && replica.port == *port);
        last.filter(is_online).map(|replica| Offset(replica.applied))
    };
    let named = sorted(counted.members.iter().filter_map(of).collect());
    // Fewer than are wanted are no promise of anybody's.
    let Some(bound) = named.get(place) else { return Vec::new() };
    let bounded = |(number, offset): (usize, Offset)| if number < place { offset } else { offset.min(*bound) };
    all.into_iter().enumerate().map(bounded).collect()
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
    let syncs = &mut shard.server.shared.replication.syncs;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn replica(host: &str, applied: u64) -> Replica {
        Replica { address: host.into(), port: 7, applied, state: ReplicaState::Online, ..Replica::default() }
    }

    fn told(replicas: &[Replica], names: Option<&str>, wanted: usize) -> Vec<u64> {
        let replicas: Vec<&Replica> = replicas.iter().collect();
        let members = |names: &str| names.chars().map(|name| (name.to_string(), 7)).collect();
        let counted = names.map(|names| Counted { term: 1, serial: 1, members: members(names) });
        acknowledged(&replicas, counted.as_ref(), wanted).into_iter().map(|offset| offset.0).collect()
    }

    #[test]
    fn those_count_that_were_named() {
        let three = [replica("a", 10), replica("b", 30), replica("c", 20)];
        for (names, wanted, expected) in [
            (None, 1, &[30, 20, 10][..]),
            (Some(""), 0, &[30, 20, 10]),
            (Some("abc"), 1, &[30, 20, 10]),
            (Some("a"), 1, &[10, 10, 10]),
            (Some("ac"), 1, &[20, 20, 10]),
            (Some("ac"), 2, &[30, 10, 10]),
            // Nobody is named, or somebody who is not there.
            (Some(""), 1, &[]),
            (Some("d"), 1, &[]),
            (Some("ad"), 2, &[]),
        ] {
            assert_eq!(told(&three, names, wanted), expected, "{names:?} {wanted}");
        }
    }

    #[test]
    fn one_that_comes_anew_counts_once_and_by_what_it_says_now() {
        let copying = Replica { state: ReplicaState::Copying, ..replica("a", 0) };
        assert_eq!(told(&[replica("a", 50), replica("a", 20)], Some("a"), 1), [20, 20]);
        assert_eq!(told(&[replica("a", 50), copying.clone()], Some("a"), 1), [0; 0]);
        assert_eq!(told(&[replica("a", 50), replica("a", 40)], Some("ab"), 2), [0; 0]);
        assert_eq!(told(&[replica("b", 50), copying], Some("ab"), 1), [50]);
    }
}
