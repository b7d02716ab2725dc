//! Replication, as the store has it: sockets, threads and folders around what `replication` decides and `shard` applies.
//!
//! ```text
//! master                                   replica
//! the loop: PSYNC -> answer                a thread (`link`): handshake, PSYNC, stream, acknowledgements
//! a thread for each replica (`feed`):        |-- a snapshot: other tables and a log in a folder beside (`copy`)
//!   tables' snapshot, then the log           `-- pieces -> the loop: Shard::apply
//!   as it lies on the disk
//! ```
//!
//! So a replica that is slow, or takes a copy, costs its master's loop nothing: what it is given is read from files. A replica makes its
//! copy beside its old data, which it serves until the copy is there as a whole.

mod ask;
mod copy;
mod failover;
mod feed;
mod link;
mod promises;
mod replicas;
mod set_aside;

use std::{io, sync::Arc};

use commands::{
    config::{LogLevel, Settings},
    replication::{MasterLink, Request, Role},
};
use keyspace::Millis;
use mio::Waker;
use oplog::ReplicationId;
use replication::{
    parting::Histories,
    replica::{LinkOptions, LinkState, Position},
};
use shard::{chain, follow::Piece};

use crate::{
    StoreError, clock,
    folder::{ShardNumber, StoreFolder},
    followers, messages,
    opening::{self, Shard},
    role,
    sockets::Sockets,
};

use self::{
    copy::Copied,
    failover::TakeOver,
    link::{FromLink, LinkThread},
    promises::Promises,
    replicas::Replicas,
    set_aside::Parting,
};

pub use copy::finish as finish_copy;

/// How long is waited before the master is tried again, in milliseconds.
const RETRY_MS: Millis = 1000;
/// So many bytes of the master's log are applied in a turn: clients are served in between.
const APPLIED_MAX: usize = 4 << 20;

/// The replication of a shard.
pub struct Replicator {
    waker: Arc<Waker>,
    /// What commands have asked for.
    asked: Vec<Request>,
    /// What follows the master; nothing on a master, or before the next try.
    link: Option<LinkThread>,
    /// When the master is tried again.
    retry_at: Millis,
    /// What was said last of why the link is down: it is said once.
    last_failure: Option<String>,
    replicas: Replicas,
    promises: Promises,
    /// Old data are being given up, and may be set aside in part: when it is looked for that next.
    looks_for_files_at: Option<Millis>,
    /// When those who follow the log by a name are looked for next.
    looks_for_followers_at: Millis,
    /// The master has asked to be relieved.
    taking_over: Option<TakeOver>,
}

impl Replicator {
    /// Of a shard without a master and without replicas.
    pub fn new(waker: Arc<Waker>) -> Self {
        Self {
            replicas: Replicas::new(Arc::clone(&waker)),
            waker,
            asked: Vec::new(),
            link: None,
            retry_at: 0,
            last_failure: None,
            promises: Promises::default(),
            looks_for_files_at: Some(0),
            looks_for_followers_at: 0,
            taking_over: None,
        }
    }

    /// Takes over the role that the folder or the settings say.
    pub fn begin(&mut self, shard: &mut Shard, folder: &StoreFolder) -> Result<(), StoreError> {
        let configured = shard.server.shared.settings.replicaof.0.clone();
        let begun = role::begin(folder.root(), configured);
        if begun.may_have_lost && begun.master.is_none() {
            // What this machine lost in a crash, replicas may have: they have parted from here on.
            let history = new_history()?;
            shard.begin_history(history, clock::now())?;
        }
        self.tell_histories(shard);
        if let Some((host, port)) = begun.master {
            let shared = &mut shard.server.shared;
            shared.settings.replicaof.0 = Some((host.clone(), port));
            shared.replication.role = Role::Replica(Box::new(MasterLink::new(host, port)));
            self.asked.push(Request::Follow);
        }
        Ok(())
    }

    /// Takes over how far replicas are: replies that wait for them may go out then.
    pub fn begin_turn(&mut self, shard: &mut Shard, now: Millis) {
        self.replicas.look(shard, now);
        let is_follower = shard.role().is_follower();
        let wanted = match is_follower {
            true => 0,
            false => usize::try_from(shard.server.shared.settings.replica_ack.0).unwrap_or(usize::MAX),
        };
        let replication = &mut shard.server.shared.replication;
        let more = replication.promised().filter(|_| !is_follower).max().unwrap_or(0);
        if wanted == 0 && more == 0 && self.promises.is_empty() {
            return;
        }
        let asked: Vec<usize> = replication.promised().filter(|_| !is_follower).chain([wanted]).collect();
        let Some(end) = shard.persistence().map(|persistence| persistence.log().end()) else { return };
        self.promises.follow(&asked, end);
        self.promises.note_acknowledged(&self.replicas.acknowledged(shard, wanted), end);
        let replication = &mut shard.server.shared.replication;
        replication.asks_for_acks |= replication.has_news && replication.waits_to_be_asked();
        if let Some(persistence) = shard.persistence_mut() {
            persistence.wait_for_replicas(wanted, more);
            persistence.set_acknowledged(self.promises.kept());
        }
    }

    /// A command asks for something. It is done in the next turn.
    pub fn ask(&mut self, request: Request) {
        self.asked.push(request);
    }

    /// Does what commands asked for, takes what the master and replicas have sent, and has the log tell replicas what they are to know.
    pub fn turn(
        &mut self,
        shard: &mut Shard,
        sockets: &mut Sockets,
        folder: Option<&StoreFolder>,
        now: Millis,
    ) -> Result<bool, StoreError> {
        let Some(folder) = folder else { return Ok(false) };
        for request in std::mem::take(&mut self.asked) {
            match request {
                Request::Follow => {
                    if !self.promises.is_empty() {
                        forsake_those_who_wait(shard, sockets);
                    }
                    self.follow(shard, folder, now)?;
                }
                Request::Promote => self.promote(shard, folder, now)?,
                Request::Attach(attach) => self.replicas.attach(shard, sockets, folder, attach, now),
                Request::TakeOver(attach) => self.taking_over = Some(TakeOver::new(attach, now)),
                Request::Reconnect => self.reconnect(shard, now),
                Request::AbortFailover => self.abort_failover(shard, folder, "Failover manually aborted", now)?,
            }
        }
        self.look_for_files(shard, folder, now);
        self.replicas.take_released(shard, sockets, folder, now);
        self.replicas.begin_those_behind(shard, folder, now);
        let is_busy = match shard.role().is_follower() {
            true => self.follow_on(shard, folder, now)?,
            false => false,
        };
        self.take_over(shard, sockets, folder, now)?;
        self.fail_over(shard, folder, now)?;
        if let Some(end) = shard.persistence().map(|persistence| persistence.log().end()) {
            shard.server.tell_replicas(end.0, now);
        }
        let replication = &shard.server.shared.replication;
        let asks_next = !self.promises.is_empty() && replication.has_news && replication.waits_to_be_asked();
        Ok(is_busy || asks_next)
    }

    /// The turn's effects are in the log: whoever waits for them is told. Whether clients have got replies by that.
    pub fn end_turn(&mut self, shard: &mut Shard) -> bool {
        let Some(persistence) = shard.persistence() else { return false };
        let (written, durable, safe) = (persistence.log().written(), persistence.log().durable(), persistence.safe());
        if let Some(link) = &self.link {
            link.tell_progress(safe.min(written), durable);
        }
        self.replicas.tell_written(written);
        let waiting = shard.server.shared.replication.waiting.len();
        let is_failing_over = shard.server.shared.replication.failover.is_some();
        self.replicas.wants_acks(waiting > 0 || !self.promises.is_empty() || is_failing_over);
        if waiting > 0 {
            shard.server.serve_those_who_wait_for_replicas(durable.0);
        }
        shard.server.shared.replication.waiting.len() < waiting
    }

    /// Has those who ask know what of old data is set aside, and the log be kept for those who follow it.
    fn look_for_files(&mut self, shard: &mut Shard, folder: &StoreFolder, now: Millis) {
        if self.looks_for_files_at.is_some_and(|at| now >= at || at > now + RETRY_MS) {
            let is_going_on = copy::is_giving_up(folder.root());
            shard.server.shared.replication.set_aside = set_aside::files(folder);
            self.looks_for_files_at = is_going_on.then_some(now + RETRY_MS);
        }
        let at = self.looks_for_followers_at;
        if now >= at || at > now + RETRY_MS {
            self.looks_for_followers_at = now + RETRY_MS;
            self.replicas.set_followers(shard, followers::all(folder.root()));
        }
    }

    fn follow(&mut self, shard: &mut Shard, folder: &StoreFolder, now: Millis) -> Result<(), StoreError> {
        let Some(master) = shard.server.shared.replication.master() else { return Ok(()) };
        let (host, port) = (master.host.clone(), master.port);
        messages::notice(&format!("this store follows {host}:{port}"));
        role::write(folder.root(), Some((&host, port)));
        self.link = None;
        shard.server.set_master_client(None, now);
        self.last_failure = None;
        // What replicas of this store have may not be the new master's: they ask again.
        self.replicas.drop_all(shard);
        shard.follow(now).map_err(failed)?;
        self.retry_at = now;
        Ok(())
    }

    fn promote(&mut self, shard: &mut Shard, folder: &StoreFolder, now: Millis) -> Result<(), StoreError> {
        if !shard.role().is_follower() {
            return Ok(());
        }
        self.link = None;
        shard.server.set_master_client(None, now);
        shard.promote(new_history()?, now).map_err(failed)?;
        // They are to learn of the new history.
        self.replicas.drop_all(shard);
        self.tell_histories(shard);
        role::write(folder.root(), None);
        messages::notice("this store is a master from now on");
        Ok(())
    }

    /// Which history the log told before, for those who ask.
    pub fn tell_histories(&self, shard: &mut Shard) {
        let Some(persistence) = shard.persistence() else { return };
        let histories = persistence.histories();
        let all = Histories { begun: histories.clone(), end: persistence.log().end() };
        let former = match histories.as_slice() {
            [.., (former, _), (_, from)] => Some((former.to_string(), from.0 + 1)),
            _ => None,
        };
        shard.server.shared.replication.former = former;
        shard.server.shared.replication.histories = all.field();
    }

    /// Takes what the master has sent. Whether there is more.
    fn follow_on(&mut self, shard: &mut Shard, folder: &StoreFolder, now: Millis) -> Result<bool, StoreError> {
        if self.link.is_none() {
            if now >= self.retry_at || self.retry_at > now + RETRY_MS {
                self.connect(shard, folder)?;
            }
            return Ok(false);
        }
        let mut applied = 0;
        while applied < APPLIED_MAX && shard.may_apply() {
            let Some(event) = self.link.as_ref().and_then(LinkThread::event) else { break };
            match event {
                FromLink::Piece(piece) => {
                    applied += piece.bytes.len();
                    if let Err(reason) = apply(shard, &piece, now)? {
                        self.give_up(shard, reason, now);
                        break;
                    }
                }
                FromLink::Continued(history) => self.continued(shard, history, now)?,
                FromLink::Copied(copied) => self.install(shard, folder, *copied, now)?,
                FromLink::Ended { reason, is_refusal } => {
                    self.give_up(shard, reason, now);
                    if is_refusal && shard.server.shared.replication.failover.is_some() {
                        self.abort_failover(shard, folder, "Failover target rejected psync request", now)?;
                    }
                    break;
                }
            }
        }
        if let Some((link, report)) =
            self.link.as_ref().map(LinkThread::report).zip(shard.server.shared.replication.master_mut())
        {
            report.state = link.state.word();
            report.heard = Some(link.heard);
            report.copy = link.copy;
            if report.is_up() {
                report.down_since = None;
            }
            if matches!(link.state, LinkState::Sync | LinkState::Connected) {
                Self::end_failover(shard);
            }
        }
        self.tell_master_client(shard, now);
        Ok(applied >= APPLIED_MAX)
    }

    /// The master is a client as long as the link is there.
    fn tell_master_client(&self, shard: &mut Shard, now: Millis) {
        let report = self.link.as_ref().map(LinkThread::report);
        let socket = report.filter(|report| report.state == LinkState::Connected).and_then(|report| report.socket);
        let known = shard.server.shared.replication.master_client.as_mut();
        match (socket, known) {
            (None, None) => {}
            (Some((peer, ..)), Some(known)) if known.connection.address == peer.to_string() => {
                known.last_interaction = report.map_or(now, |report| report.heard);
            }
            (socket, _) => {
                let words = socket.map(|(peer, own, number)| (peer.to_string(), own.to_string(), number));
                shard.server.set_master_client(words, now);
            }
        }
    }

    /// Cuts the link and begins another one at once.
    fn reconnect(&mut self, shard: &mut Shard, now: Millis) {
        if self.link.is_some() {
            self.give_up(shard, "it was cut by a command".to_owned(), now);
            self.retry_at = now;
        }
        shard.server.set_master_client(None, now);
    }

    fn connect(&mut self, shard: &mut Shard, folder: &StoreFolder) -> Result<(), StoreError> {
        let Some(persistence) = shard.persistence() else { return Ok(()) };
        let position = Position { history: persistence.replication_id(), offset: persistence.log().end() };
        let histories = Histories { begun: persistence.histories(), end: position.offset };
        let shared = &mut shard.server.shared;
        let settings = &shared.settings;
        let Some(master) = shared.replication.master() else { return Ok(()) };
        let address = (master.host.clone(), master.port);
        let mut options = options(settings);
        options.hands_over = shared.replication.failover.is_some();
        self.link = Some(LinkThread::start(link::Task {
            address,
            options,
            position,
            histories,
            settings: settings.clone(),
            root: folder.root().to_owned(),
            waker: Arc::clone(&self.waker),
        })?);
        if let Some(master) = shared.replication.master_mut() {
            master.state = "connecting";
        }
        Ok(())
    }

    /// The link is down; it is tried again in a while.
    fn give_up(&mut self, shard: &mut Shard, reason: String, now: Millis) {
        self.link = None;
        self.retry_at = now + RETRY_MS;
        if let Some(master) = shard.server.shared.replication.master_mut() {
            if master.is_up() || master.down_since.is_none() {
                master.down_since = Some(now);
            }
            master.state = "connect";
            master.copy = None;
            if self.last_failure.as_ref() != Some(&reason) {
                messages::say(
                    LogLevel::Warning,
                    &format!("the link to the master {}:{} is down: {reason}", master.host, master.port),
                );
            }
        }
        self.last_failure = Some(reason);
    }

    fn continued(&mut self, shard: &mut Shard, history: ReplicationId, now: Millis) -> Result<(), StoreError> {
        self.last_failure = None;
        if let Some(end) = shard.persistence().map(|persistence| persistence.log().end()) {
            if shard.server.shared.replication_id != history.to_string() {
                self.replicas.drop_all(shard);
            }
            shard.adopt_history(history, end, now).map_err(failed)?;
            messages::notice(&format!("the master goes on with its log from offset {end}"));
        }
        self.tell_histories(shard);
        Ok(())
    }

    /// A copy is there as a whole: it takes the place of what there is.
    fn install(
        &mut self,
        shard: &mut Shard,
        folder: &StoreFolder,
        copied: Copied,
        now: Millis,
    ) -> Result<(), StoreError> {
        self.last_failure = None;
        // What they were given is of another log.
        self.replicas.drop_all(shard);
        let waker = &self.waker;
        let keyspace = &shard.server.keyspace;
        let has_keys = (0..keyspace.len()).any(|db| keyspace.database(db).is_some_and(|database| !database.is_empty()));
        let is_kept = has_keys && shard.server.shared.settings.replica_set_aside_data.0;
        let parted = if copied.parted == Parting::Unrelated && !is_kept { Parting::Nowhere } else { copied.parted };
        if parted != copied.parted && has_keys {
            messages::warn(
                "what this store had has no history in common with its new master's data: it is replaced, and not kept (setting \
                 replica-set-aside-data)",
            );
        }
        let mut copied = copied;
        copied.parted = parted;
        let old = shard.replace(now, |settings: &Settings| {
            copied.install(folder)?;
            let opened = opening::open(folder, ShardNumber::FIRST, settings, None, Arc::clone(waker))?;
            Ok::<_, StoreError>(opened)
        });
        old?;
        // What was open of it has been closed by now.
        copy::give_up_later(folder.root());
        self.looks_for_files_at = Some(now);
        let Position { offset, history } = copied.position;
        messages::notice(&format!(
            "{} keys are there as of the master's offset {offset}, history {history}",
            copied.keys
        ));
        self.tell_histories(shard);
        if let Some(link) = &self.link {
            link.installed(offset);
        }
        Ok(())
    }
}

fn failed(error: shard::follow::FollowError) -> StoreError {
    match error {
        shard::follow::FollowError::Shard(error) => error.into(),
        other => StoreError::Follow(other.to_string()),
    }
}

/// Applies a piece; why the link is to end, if it cannot be.
fn apply(shard: &mut Shard, piece: &replication::cut::Piece, now: Millis) -> Result<Result<(), String>, StoreError> {
    let Some(history) = shard.persistence().map(|persistence| persistence.replication_id()) else { return Ok(Ok(())) };
    let entry = oplog::Entry { offset: piece.offset, time_ms: now.unsigned_abs(), commands: &piece.bytes };
    match shard.apply(&Piece { history, entry }) {
        Ok(()) => Ok(Ok(())),
        Err(shard::follow::FollowError::Shard(error)) => Err(error.into()),
        Err(other) => Ok(Err(chain(&other))),
    }
}

fn options(settings: &Settings) -> LinkOptions {
    let said = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let port = match (settings.replica_announce_port.0, settings.port.0) {
        (0, own) => own,
        (announced, _) => announced,
    };
    LinkOptions {
        user: said(&settings.masteruser.0).map(String::into_bytes),
        password: said(&settings.masterauth.0).map(String::into_bytes),
        port: u16::try_from(port).unwrap_or(0),
        address: said(&settings.replica_announce_ip.0),
        hands_over: false,
        slots: None,
        timeout_ms: settings.repl_timeout.0.saturating_mul(1000),
    }
}

/// An id for a history that begins.
fn new_history() -> Result<ReplicationId, StoreError> {
    let mut random = [0; 20];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty()).map_err(io::Error::from)?;
    Ok(ReplicationId::from_random(random))
}

/// Closes clients whose replies wait for replicas of this master, which is a replica itself from now on: what they wrote may be given
/// up, so it is not acknowledged.
fn forsake_those_who_wait(shard: &mut Shard, sockets: &mut Sockets) {
    for session in shard.take_unreleased() {
        sockets.close_session(session, &mut shard.server);
    }
}
