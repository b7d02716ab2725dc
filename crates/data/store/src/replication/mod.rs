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
mod histories;
mod link;
mod replicas;
mod set_aside;

use std::{io, sync::Arc};

use commands::{
    Server,
    config::{LogLevel, Settings},
    replication::{Attach, Replica, ReplicaState, Request},
};
use keyspace::Millis;
use mio::Waker;
use oplog::{Offset, ReplicationId};
use replication::{
    conductor::{Action, Conductor, Situation},
    failover::{Candidate, Plan},
    parting::Histories,
    promises::Promises,
    replica::{LinkOptions, LinkState, Position},
};
use shard::{chain, follow::Piece, release::Acknowledged};

use crate::{
    StoreError, clock,
    folder::{ShardNumber, StoreFolder},
    followers, messages,
    opening::{self, Shard},
    role,
    secure::CurrentSecurity,
    sockets::Sockets,
};

use self::{
    copy::Copied,
    histories::{Begun, KeptHistories},
    link::{FromLink, LinkThread},
    replicas::Replicas,
};

pub use copy::finish as finish_copy;

/// So many bytes of the master's log are applied in a turn: clients are served in between.
const APPLIED_MAX: usize = 4 << 20;

/// The replication of a shard.
pub struct Replicator {
    waker: Arc<Waker>,
    security: CurrentSecurity,
    /// What commands have asked for.
    asked: Vec<Request>,
    /// What follows the master; nothing on a master, or before the next try.
    link: Option<LinkThread>,
    /// What decides when to do something.
    conductor: Conductor,
    replicas: Replicas,
    promises: Promises,
    /// How the master has asked to be relieved.
    taking_over: Option<Attach>,
    /// The log tells a history that this process has begun.
    has_own_history: bool,
    /// Where the next history begins that the master has told of.
    next_history: Option<Offset>,
}

impl Replicator {
    /// Of a shard without a master and without replicas.
    pub fn new(waker: Arc<Waker>, security: CurrentSecurity) -> Self {
        Self {
            replicas: Replicas::new(Arc::clone(&waker)),
            waker,
            security,
            asked: Vec::new(),
            link: None,
            conductor: Conductor::default(),
            promises: Promises::default(),
            taking_over: None,
            has_own_history: false,
            next_history: None,
        }
    }

    /// Takes over the role that the folder or the settings say.
    pub fn begin(&mut self, shard: &mut Shard, folder: &StoreFolder) -> Result<(), StoreError> {
        let configured = shard.server.settings().replicaof.0.clone();
        self.replicas.histories = KeptHistories::of(folder.root());
        let begun = role::begin(folder.root(), configured);
        if begun.may_have_lost && begun.master.is_none() {
            // What this machine lost in a crash, replicas may have: they have parted from here on.
            let history = new_history()?;
            self.note_history(shard, history);
            shard.begin_history(history, clock::now())?;
            self.has_own_history = true;
        }
        self.tell_histories(shard);
        if let Some((host, port)) = begun.master {
            shard.server.set_master(host, port, begun.bond);
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
            false => usize::try_from(shard.server.settings().replica_ack.0).unwrap_or(usize::MAX),
        };
        let replication = shard.server.replication_mut();
        let more = replication.promised().filter(|_| !is_follower).max().unwrap_or(0);
        if wanted == 0 && more == 0 && self.promises.is_empty() {
            return;
        }
        let asked: Vec<usize> = replication.promised().filter(|_| !is_follower).chain([wanted]).collect();
        let Some(end) = shard.persistence().map(|persistence| persistence.log().end()) else { return };
        self.promises.follow(&asked, end);
        self.promises.handle_acknowledged(&self.replicas.acknowledged(shard, wanted), end);
        let replication = shard.server.replication_mut();
        replication.asks_for_acks |= replication.has_news && replication.waits_to_be_asked();
        if let Some(persistence) = shard.persistence_mut() {
            persistence.wait_for_replicas(wanted, more);
            let kept = self.promises.kept().map(|(replicas, offset)| Acknowledged { replicas, offset });
            persistence.set_acknowledged(kept.collect());
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
                Request::TakeOver(attach) => {
                    let next = attach.from.as_ref().map(|(_, next)| next.as_slice());
                    self.conductor.handle_take_over(next, now);
                    self.taking_over = Some(attach);
                }
                Request::Reconnect => self.reconnect(shard, now),
                Request::AbortFailover => self.abort_failover(shard, folder, "Failover manually aborted", now)?,
            }
        }
        self.begin_own_history(shard, now)?;
        self.act(shard, sockets, folder, now)?;
        self.replicas.take_released(shard, sockets, folder, now);
        self.replicas.begin_those_behind(shard, folder, now);
        let is_busy = match shard.role().is_follower() {
            true => self.follow_on(shard, folder, now)?,
            false => false,
        };
        self.act(shard, sockets, folder, now)?;
        if let Some(end) = shard.persistence().map(|persistence| persistence.log().end()) {
            shard.server.tell_replicas(end.0, now);
        }
        let replication = shard.server.replication();
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
        let waiting = shard.server.replication().waiting.len();
        let is_failing_over = shard.server.replication().failover.is_some();
        self.replicas.wants_acks(waiting > 0 || !self.promises.is_empty() || is_failing_over);
        if waiting > 0 {
            shard.server.serve_those_who_wait_for_replicas(durable.0);
        }
        shard.server.replication().waiting.len() < waiting
    }

    /// Does what the conductor says.
    fn act(
        &mut self,
        shard: &mut Shard,
        sockets: &mut Sockets,
        folder: &StoreFolder,
        now: Millis,
    ) -> Result<(), StoreError> {
        while let Some(action) = self.conductor.poll_action(&self.situation(shard), now) {
            match action {
                Action::LookForFiles => {
                    let may_become_more = copy::is_giving_up(folder.root());
                    shard.server.replication_mut().set_aside = set_aside::files(folder);
                    self.conductor.handle_files(may_become_more);
                }
                Action::LookForFollowers => self.replicas.set_followers(shard, followers::all(folder.root())),
                Action::Connect => self.connect(shard, folder, now)?,
                Action::TakeOver => self.take_over(shard, sockets, folder, now)?,
                Action::HandOver { target, has_all } => {
                    messages::notice(&failover::handing_over(&target, has_all));
                    self.hand_over(shard, folder, target, now)?;
                }
                Action::GiveUpFailover => {
                    self.abort_failover(shard, folder, "Replica never caught up before timeout", now)?;
                }
            }
        }
        Ok(())
    }

    /// How things are, for the conductor.
    fn situation(&self, shard: &Shard) -> Situation {
        let replication = shard.server.replication();
        let asker = self.taking_over.as_ref().filter(|_| self.conductor.is_taking_over());
        let failover = replication.failover.as_ref().filter(|failover| !failover.is_asked);
        let is_online = |replica: &&Replica| replica.state == ReplicaState::Online;
        Situation {
            is_replica: shard.role().is_follower() && !waits_for_agent(&shard.server),
            end: shard.persistence().map(|persistence| persistence.log().end()),
            is_quiet: failover.is_some() && shard.server.is_quiet(),
            is_asked_to_take_over: asker.is_some_and(|asker| shard.server.session_address(asker.session).is_some()),
            failover: failover.map(|failover| {
                let (target, deadline) = (failover.target.clone(), failover.deadline);
                let online = replication.replicas.iter().map(|(_, replica)| replica).filter(is_online);
                let candidate = |replica: &Replica| Candidate {
                    address: (replica.address.clone(), replica.port),
                    acknowledged: Offset(replica.applied),
                };
                (Plan { target, deadline, is_forced: failover.is_forced }, online.map(candidate).collect())
            }),
        }
    }

    fn follow(&mut self, shard: &mut Shard, folder: &StoreFolder, now: Millis) -> Result<(), StoreError> {
        let Some(master) = shard.server.replication().master() else { return Ok(()) };
        let (host, port) = (master.host.clone(), master.port);
        messages::notice(&format!("this store follows {host}:{port}"));
        role::write(folder.root(), Some((&host, port)), master.bond.as_ref());
        self.link = None;
        shard.server.set_master_client(None, now);
        // What replicas of this store have may not be the new master's: they ask again.
        self.replicas.drop_all(shard);
        shard.follow(now).map_err(failed)?;
        self.conductor.handle_follow(now);
        Ok(())
    }

    fn promote(&mut self, shard: &mut Shard, folder: &StoreFolder, now: Millis) -> Result<(), StoreError> {
        if !shard.role().is_follower() {
            return Ok(());
        }
        self.link = None;
        self.conductor.handle_promoted();
        shard.server.set_master_client(None, now);
        let history = new_history()?;
        self.note_history(shard, history);
        shard.promote(history, now).map_err(failed)?;
        self.has_own_history = true;
        // They are to learn of the new history.
        self.replicas.drop_all(shard);
        self.tell_histories(shard);
        role::write(folder.root(), None, None);
        messages::notice("this store is a master from now on");
        Ok(())
    }

    /// A process that is the master of a group tells a history of its own. Its folder may be older than what its replicas have: what it writes
    /// from here on is not what they have by the same offsets.
    fn begin_own_history(&mut self, shard: &mut Shard, now: Millis) -> Result<(), StoreError> {
        if self.has_own_history || shard.role().is_follower() || !shard.server.is_master_of_slots() {
            return Ok(());
        }
        self.has_own_history = true;
        let history = new_history()?;
        self.note_history(shard, history);
        shard.begin_history(history, now)?;
        // They go on where they are, if it is a part of this log.
        self.replicas.drop_all(shard);
        self.tell_histories(shard);
        Ok(())
    }

    /// A history is about to begin at the log's end.
    fn note_history(&mut self, shard: &Shard, history: ReplicationId) {
        if let Some(persistence) = shard.persistence() {
            self.replicas.histories.begin(history, (persistence.histories(), persistence.log().end()));
        }
    }

    /// Which history the log told before, for those who ask.
    pub fn tell_histories(&mut self, shard: &mut Shard) {
        let Some(persistence) = shard.persistence() else { return };
        let end = persistence.log().end();
        let histories = self.replicas.histories.all(persistence.histories(), end);
        self.next_history = self.replicas.histories.next_behind(end);
        let all = Histories { begun: histories.clone(), end };
        let former = match histories.as_slice() {
            [.., (former, _), (_, from)] => Some((former.to_string(), from.0 + 1)),
            _ => None,
        };
        shard.server.replication_mut().former = former;
        shard.server.replication_mut().histories = all.field();
    }

    /// Takes what the master has sent. Whether there is more.
    fn follow_on(&mut self, shard: &mut Shard, folder: &StoreFolder, now: Millis) -> Result<bool, StoreError> {
        if self.link.is_none() {
            return Ok(false);
        }
        let mut applied = 0;
        while applied < APPLIED_MAX && shard.may_apply() {
            let Some(event) = self.link.as_ref().and_then(LinkThread::event) else { break };
            match event {
                FromLink::Piece(piece) => {
                    applied += piece.bytes.len();
                    if let Err(reason) = apply(shard, &piece, now)? {
                        self.give_up(shard, &reason, now);
                        break;
                    }
                }
                FromLink::Continued(history, all) => self.continued(shard, folder, (history, all), now)?,
                FromLink::Copied(copied) => self.install(shard, folder, *copied, now)?,
                FromLink::Ended { reason, is_refusal, lost } => {
                    self.give_up(shard, &reason, now);
                    note_refusal(shard, lost);
                    if is_refusal && shard.server.replication().failover.is_some() {
                        self.abort_failover(shard, folder, "Failover target rejected psync request", now)?;
                    }
                    break;
                }
            }
        }
        if let Some((link, report)) =
            self.link.as_ref().map(LinkThread::report).zip(shard.server.replication_mut().master_mut())
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
        let end = shard.persistence().map(|persistence| persistence.log().end());
        if self.next_history.zip(end).is_some_and(|(next, end)| next <= end) {
            self.tell_histories(shard);
        }
        Ok(applied >= APPLIED_MAX)
    }

    /// The master is a client as long as the link is there.
    fn tell_master_client(&self, shard: &mut Shard, now: Millis) {
        let report = self.link.as_ref().map(LinkThread::report);
        let socket = report.filter(|report| report.state == LinkState::Connected).and_then(|report| report.socket);
        let known = shard.server.replication_mut().master_client.as_mut();
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
        let reason = "it was cut by a command";
        if let Some(is_said) = self.conductor.handle_cut(reason, now) {
            self.tell_down(shard, reason, is_said, now);
        }
        shard.server.set_master_client(None, now);
    }

    fn connect(&mut self, shard: &mut Shard, folder: &StoreFolder, now: Millis) -> Result<(), StoreError> {
        let server = &shard.server;
        let Some((persistence, master)) = shard.persistence().zip(server.replication().master()) else {
            // Without a log, or a master, there is nothing to follow; nobody is told each second.
            let _ = self.conductor.handle_down("there is nothing to follow", now);
            return Ok(());
        };
        self.conductor.handle_linking();
        let address = (master.host.clone(), master.port);
        let position = Position { history: persistence.replication_id(), offset: persistence.log().end() };
        let begun = self.replicas.histories.all(persistence.histories(), position.offset);
        let histories = Histories { begun, end: position.offset };
        let settings = server.settings();
        let is_bound = master.bond.as_ref().is_some_and(|bond| bond.is_bound);
        let mut options = options(settings);
        options.node = master.bond.as_ref().and_then(|bond| bond.node.clone());
        options.hands_over = server.replication().failover.is_some();
        self.link = Some(LinkThread::start(link::Task {
            address,
            peer: self.security.of_replication(settings),
            options,
            position,
            histories,
            is_bound,
            settings: settings.clone(),
            root: folder.root().to_owned(),
            waker: Arc::clone(&self.waker),
        })?);
        if let Some(master) = shard.server.replication_mut().master_mut() {
            master.state = "connecting";
        }
        Ok(())
    }

    /// The link is down; it is tried again in a while.
    fn give_up(&mut self, shard: &mut Shard, reason: &str, now: Millis) {
        let is_said = self.conductor.handle_down(reason, now);
        self.tell_down(shard, reason, is_said, now);
    }

    fn tell_down(&mut self, shard: &mut Shard, reason: &str, is_said: bool, now: Millis) {
        self.link = None;
        if let Some(master) = shard.server.replication_mut().master_mut() {
            if master.is_up() || master.down_since.is_none() {
                master.down_since = Some(now);
            }
            master.state = "connect";
            master.copy = None;
            if is_said {
                messages::say(
                    LogLevel::Warning,
                    &format!("the link to the master {}:{} is down: {reason}", master.host, master.port),
                );
            }
        }
    }

    fn continued(
        &mut self,
        shard: &mut Shard,
        folder: &StoreFolder,
        (history, all): (ReplicationId, Option<Vec<Begun>>),
        now: Millis,
    ) -> Result<(), StoreError> {
        self.conductor.handle_success();
        match all {
            Some(all) => self.replicas.histories.take(all),
            None => self.note_history(shard, history),
        }
        if let Some(end) = shard.persistence().map(|persistence| persistence.log().end()) {
            if shard.server.history() != history.to_string() {
                self.replicas.drop_all(shard);
            }
            shard.adopt_history(history, end, now).map_err(failed)?;
            messages::notice(&format!("the master goes on with its log from offset {end}"));
            bind(shard, folder);
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
        self.conductor.handle_success();
        // What they were given is of another log.
        self.replicas.drop_all(shard);
        let waker = &self.waker;
        let keyspace = &shard.server.keyspace;
        let has_keys = (0..keyspace.len()).any(|db| keyspace.database(db).is_some_and(|database| !database.is_empty()));
        let parted = copied.parted.set_aside(has_keys, shard.server.settings().replica_set_aside_data.0);
        if parted != copied.parted && has_keys {
            messages::warn(
                "what this store had has no history in common with its new master's data: it is replaced, and not kept (setting \
                 replica-set-aside-data)",
            );
        }
        let mut copied = copied;
        copied.parted = parted;
        let histories = std::mem::take(&mut copied.histories);
        let old = shard.replace(now, |settings: &Settings| {
            copied.install(folder)?;
            let opened = opening::open(folder, ShardNumber::FIRST, settings, None, Arc::clone(waker))?;
            Ok::<_, StoreError>(opened)
        });
        old?;
        self.replicas.histories.take(histories);
        // What was open of it has been closed by now.
        copy::give_up_later(folder.root());
        self.conductor.handle_replaced();
        let Position { offset, history } = copied.position;
        messages::notice(&format!(
            "{} keys are there as of the master's offset {offset}, history {history}",
            copied.keys
        ));
        self.tell_histories(shard);
        bind(shard, folder);
        if let Some(link) = &self.link {
            link.installed(offset);
        }
        Ok(())
    }
}

/// Whether an agent is to tell of the cluster before a master is followed.
fn waits_for_agent(server: &Server) -> bool {
    server.settings().cluster_wait_for_agent.0 && !server.knows_cluster()
}

/// What is there is the master's, all of it, from now on.
fn bind(shard: &mut Shard, folder: &StoreFolder) {
    let Some(master) = shard.server.replication_mut().master_mut() else { return };
    let Some(bond) = &mut master.bond else { return };
    bond.refusal = None;
    if !bond.is_bound {
        bond.is_bound = true;
        role::write(folder.root(), Some((&master.host, master.port)), Some(bond));
    }
}

/// Notes whether the master was not copied because it has lost something, and what.
fn note_refusal(shard: &mut Shard, lost: Option<(Offset, Offset)>) {
    if let Some(bond) = shard.server.replication_mut().master_mut().and_then(|master| master.bond.as_mut()) {
        bond.refusal = lost.map(|(from, to)| (from.0, to.0));
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
    // Replicas of one master are reached as that is.
    let port = match (settings.replica_announce_port.0, settings.tls_port.0) {
        (0, own) if settings.tls_replication.0 && own != 0 => own,
        (0, _) => settings.port.0,
        (announced, _) => announced,
    };
    LinkOptions {
        user: said(&settings.masteruser.0).map(String::into_bytes),
        password: said(&settings.masterauth.0).map(String::into_bytes),
        port: u16::try_from(port).unwrap_or(0),
        address: said(&settings.replica_announce_ip.0),
        hands_over: false,
        slots: None,
        node: None,
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
