//! A shard: commands, log and tables, and the order of things in a turn.
//!
//! ```text
//! begin_turn -> take_released -> (may_run, run) for each client -> tick -> poll_request until there is none -> fulfil_requests
//!     -> end_turn -> hold or send `ready`
//! ```
//!
//! Whoever owns it has the sockets: it puts what clients send into the server's input, and sends what the server has for them when
//! [`TurnEnd::wait_for`] or [`take_released`](Shard::take_released) says that it may go out. All clients that are ready share one turn,
//! and with it one write to the log and one sync: group commit. With `appendfsync always` several turns do.

pub mod follow;
mod room;

pub use room::MemoryGauge;

use std::{cell::Cell, collections::VecDeque, rc::Rc};

use commands::{
    Server, SessionId,
    config::{LogLevel, Settings},
    host::Stopwatch,
    server::{Answer, Request},
};
use keyspace::Millis;
use oplog::{Offset, disk::Disk};

use crate::{Persistence, ShardError, Workers, World, held::HeldReplies, long_queries::LONG};

use self::{follow::Role, room::Room};

/// How often what is due is looked for at least.
pub const TICK_MS: Millis = 100;
/// From how much on the calendar's clock was set, and has not just been corrected a little. More than a tick: so it is noticed before
/// a command sees it.
const CLOCK_SET_MS: Millis = 1_000;
const _: () = assert!(CLOCK_SET_MS > TICK_MS);

/// What a shard is made of, besides log and tables.
pub struct ShardOptions {
    /// The settings.
    pub settings: Settings,
    /// A random number for the hashes of keys, if no tables have one.
    pub key_seed: u64,
    /// Another one, for what commands draw.
    pub seed: u64,
    /// A clock of microseconds for commands.
    pub stopwatch: Stopwatch,
    /// How much memory there is.
    pub memory: Box<dyn MemoryGauge>,
    /// The process around.
    pub world: Rc<dyn World>,
}

/// A shard.
pub struct Shard<D: Disk, W: Workers> {
    /// What runs commands.
    pub server: Server,
    /// Log and tables; without them everything is in memory.
    pub(crate) persistence: Option<Persistence<D, W>>,
    pub(crate) role: Role,
    pub(crate) room: Room,
    world: Rc<dyn World>,
    /// Sessions with something to be sent.
    pub ready: Vec<SessionId>,
    /// Sessions whose replies wait until the log is safe up to an offset.
    held: HeldReplies,
    /// What commands ask of whoever owns this.
    outside: VecDeque<Request>,
    /// A checkpoint that one has asked for.
    checkpoint_asked: Option<Checkpoint>,
    /// All that commands have done so far is in the log, as safe as it has to be.
    is_settled: Rc<Cell<bool>>,
    next_tick: Millis,
    /// What the calendar's clock said when it was last compared with one that nobody sets, and what that one said.
    compared: (Millis, Millis),
}

/// When a checkpoint is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Checkpoint {
    /// Before anybody is answered.
    Now,
    /// When there is time.
    Soon,
}

/// What is to be done at the end of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnEnd {
    /// Replies of the turn, reads included, wait until they are released up to there ([`hold_ready`](Shard::hold_ready)); nothing if all
    /// go out at once.
    pub wait_for: Option<Offset>,
    /// The next turn is to come at once.
    pub is_busy: bool,
}

impl<D: Disk, W: Workers> Shard<D, W> {
    /// One that has everything in memory alone.
    pub fn in_memory(options: ShardOptions) -> Self {
        let now = options.world.now();
        let ShardOptions { settings, key_seed, seed, stopwatch, memory, world } = options;
        let server = Server::new(settings, key_seed, seed, now, None, stopwatch);
        Self::of(server, None, memory, world)
    }

    /// One that goes on where log and tables end. Returns how many commands of the log ran again, too.
    ///
    /// # Errors
    ///
    /// Log or tables cannot be read, or a command of the log does not run.
    pub fn recovered(mut persistence: Persistence<D, W>, options: ShardOptions) -> Result<(Self, u64), ShardError> {
        let now = options.world.now();
        let ShardOptions { settings, seed, stopwatch, memory, world, .. } = options;
        let tables = persistence.tables();
        let key_seed = tables.key_seed();
        let mut server = Server::new(settings, key_seed, seed, now, Some(Box::new(tables)), stopwatch);
        let count = persistence.recover(&mut server)?;
        server.set_now(now);
        server.set_history(persistence.replication_id().to_string());
        server.set_persistence_figures(persistence.figures());
        Ok((Self::of(server, Some(persistence), memory, world), count))
    }

    fn of(
        server: Server,
        persistence: Option<Persistence<D, W>>,
        memory: Box<dyn MemoryGauge>,
        world: Rc<dyn World>,
    ) -> Self {
        let now = world.now();
        Self {
            server,
            persistence,
            role: Role::Master,
            room: Room::new(memory, now),
            world,
            ready: Vec::new(),
            held: HeldReplies::default(),
            outside: VecDeque::new(),
            checkpoint_asked: None,
            is_settled: Rc::default(),
            next_tick: now,
            compared: (now, 0),
        }
    }

    /// Log and tables, if there are any.
    pub fn persistence(&self) -> Option<&Persistence<D, W>> {
        self.persistence.as_ref()
    }

    /// The same, for whoever does the workers' jobs or hands acknowledgements in.
    pub fn persistence_mut(&mut self) -> Option<&mut Persistence<D, W>> {
        self.persistence.as_mut()
    }

    /// Says, while a command runs, whether what was done before it needs not wait for the log: its replies can be sent meanwhile.
    pub fn settled(&self) -> Rc<Cell<bool>> {
        Rc::clone(&self.is_settled)
    }

    /// When [`tick`](Self::tick) has something to do.
    #[inline]
    pub fn next_tick(&self) -> Millis {
        self.next_tick
    }

    /// Whether [`tick`](Self::tick) is due.
    #[inline]
    pub fn is_tick(&self, now: Millis) -> bool {
        now >= self.next_tick
    }

    /// Whether there is more to do in a millisecond, though nobody has sent anything.
    #[inline]
    pub fn is_moving(&self) -> bool {
        self.room.is_moving
    }

    /// A turn begins.
    #[inline]
    pub fn begin_turn(&mut self, now: Millis) {
        if now >= self.next_tick || self.next_tick > now + TICK_MS {
            self.compare_clocks(now);
        }
    }

    /// What is done each now and then is not put off until a clock that was set back is again where it was, and nobody waits longer
    /// or shorter because it was set.
    fn compare_clocks(&mut self, now: Millis) {
        let uptime = Millis::try_from(self.world.elapsed().as_millis()).unwrap_or(Millis::MAX);
        let by = (now - self.compared.0) - (uptime - self.compared.1);
        self.compared = (now, uptime);
        if self.next_tick > now + TICK_MS {
            self.next_tick = now;
            self.room.over_since = None;
            if let Some(persistence) = &mut self.persistence {
                persistence.clock_was_set_back(now);
            }
        }
        if by.abs() >= CLOCK_SET_MS {
            let text = format!("the clock was set by {}.{:03} s", by / 1000, by.abs() % 1000);
            self.world.say(LogLevel::Notice, &text);
            self.room.over_since = None;
            self.room.pace.clock_was_set(now);
            self.server.clock_was_set(by);
        }
    }

    /// Sessions whose replies may go out by now, in order: once for each turn that they were held in.
    #[inline]
    pub fn take_released(&mut self) -> Vec<SessionId> {
        let Some(persistence) = self.persistence.as_ref().filter(|_| !self.held.is_empty()) else { return Vec::new() };
        self.held.take_released(|replicas| persistence.safe_for(replicas))
    }

    /// What has become of the command of a caller within the process, once that may be told: not before a client would be. To be asked
    /// between turns, when their sessions are held or in `ready`.
    pub fn answer(&mut self, caller: SessionId) -> Option<Answer> {
        if self.server.is_output_listed(caller) || self.held.has(caller) {
            return None;
        }
        self.server.answer(caller)
    }

    /// Sessions whose replies may not go out yet: they wait no longer, and are not to get them.
    pub fn take_unreleased(&mut self) -> Vec<SessionId> {
        let Some(persistence) = &self.persistence else { return Vec::new() };
        self.held.take_unreleased(|replicas| persistence.safe_for(replicas))
    }

    /// So many clients are sent what they waited for.
    pub fn note_released(&mut self, clients: usize) {
        if let Some(persistence) = &mut self.persistence {
            persistence.released(clients);
        }
    }

    /// Has those of the sessions in `ready` wait until the log is safe up to an offset whose output tells of what is not yet as safe as
    /// they were promised. Returns these; the others stay in `ready`.
    pub fn hold_ready(&mut self, offset: Offset) -> Vec<SessionId> {
        let Some(persistence) = &self.persistence else { return Vec::new() };
        let mut waiting = Vec::new();
        for session in std::mem::take(&mut self.ready) {
            let replicas = persistence.replicas_for(self.server.take_promised_replicas(session));
            if self.server.is_output_plain(session) || persistence.safe_for(replicas) >= offset {
                self.ready.push(session);
            } else {
                self.held.add(replicas, offset, session);
                waiting.push(session);
            }
        }
        waiting
    }

    /// Whether a session is to be read from and run: if not, it is asked again in a millisecond.
    #[inline]
    pub fn may_run(&mut self, session: SessionId) -> bool {
        let is_spent = self.room.pace.is_spent(self.server.effects().len() as u64);
        !(is_spent || self.room.has_no_room && self.server.is_postponed(session))
    }

    /// The same for one whose query has so many bytes so far: long ones take turns while memory is short.
    #[inline]
    pub fn admits_query(&mut self, session: SessionId, len: usize, now: Millis) -> bool {
        let room = &mut self.room;
        len <= LONG || room.long_queries.admits(session, &mut self.server, now, room.memory.used(), room.short_from)
    }

    /// Runs what a session has sent.
    #[inline]
    pub fn run(&mut self, session: SessionId, now: Millis) {
        let is_settled = self.persistence.is_none() || self.held.is_empty() && self.server.has_no_effects();
        self.is_settled.set(is_settled);
        self.server.run(session, now);
        self.make_room_early(now);
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Millis) {
        self.next_tick = now + TICK_MS;
        if !self.server.is_periodic_paused() {
            self.server.tick(now);
            self.server.shutdown_mut().is_asked |= self.server.shutdown().waits;
        }
    }

    /// Looks when something is due next.
    #[inline]
    pub fn plan_tick(&mut self, now: Millis) {
        if let Some(deadline) = self.server.next_deadline() {
            self.next_tick = self.next_tick.min(deadline.max(now + 1));
        }
    }

    /// Fails if a command has changed half of what it is about: nothing that it is a part of may be written.
    ///
    /// # Errors
    ///
    /// It has.
    #[inline]
    pub fn check_broken(&mut self) -> Result<(), ShardError> {
        self.server.condition_mut().broken.take().map_or(Ok(()), |reason| Err(ShardError::Halved(reason)))
    }

    /// What commands ask of whoever owns this. What they ask of the shard itself is taken note of, and done by
    /// [`fulfil_requests`](Self::fulfil_requests) and [`end_turn`](Self::end_turn).
    #[inline]
    pub fn poll_request(&mut self) -> Option<Request> {
        if self.outside.is_empty() {
            self.sort_requests();
        }
        self.outside.pop_front()
    }

    /// Whether something waits to be asked for by [`poll_request`](Self::poll_request).
    #[inline]
    fn has_requests(&mut self) -> bool {
        self.sort_requests();
        !self.outside.is_empty() || self.checkpoint_asked.is_some()
    }

    /// Takes what commands have asked for apart: what is the shard's own matter, and what is not.
    #[inline]
    fn sort_requests(&mut self) {
        while let Some(request) = self.server.poll_request() {
            match (request, &mut self.persistence) {
                (Request::Save, _) => self.checkpoint_asked = Some(Checkpoint::Now),
                (Request::Checkpoint, _) => drop(self.checkpoint_asked.get_or_insert(Checkpoint::Soon)),
                (Request::Load(load), Some(persistence)) => persistence.want(load),
                (Request::Warm(warmup), Some(persistence)) => persistence.want_elements(warmup),
                // Without tables nothing is anywhere else.
                (Request::Load(load), None) => self.server.loaded(&load, None),
                (Request::Warm(warmup), None) => self.server.warmed(warmup.session),
                (other, _) => self.outside.push_back(other),
            }
        }
    }

    /// Does the checkpoints that commands have asked for.
    ///
    /// # Errors
    ///
    /// Log or tables cannot be written.
    #[inline]
    pub fn fulfil_requests(&mut self, now: Millis) -> Result<(), ShardError> {
        self.sort_requests();
        match self.checkpoint_asked.take() {
            Some(asked) => self.do_checkpoint(asked, now),
            None => Ok(()),
        }
    }

    fn do_checkpoint(&mut self, asked: Checkpoint, now: Millis) -> Result<(), ShardError> {
        if let Some(persistence) = &mut self.persistence {
            match asked {
                Checkpoint::Now => persistence.checkpoint_now(&mut self.server, now)?,
                Checkpoint::Soon => persistence.press(),
            }
        }
        self.tell_figures();
        Ok(())
    }

    /// Has commands that are asked know how log and tables are.
    pub fn tell_figures(&mut self) {
        let Some(persistence) = &self.persistence else { return };
        let figures = persistence.figures();
        self.server.set_persistence_figures(figures);
    }

    /// Ends a turn: commands go on that waited for a disk or for the next turn, memory is made room in, and what took effect goes to
    /// the log. The sessions in `ready` have something to be sent then.
    ///
    /// # Errors
    ///
    /// Log or tables cannot be written, or nothing may be written any more.
    #[inline]
    pub fn end_turn(&mut self, now: Millis, is_tick: bool) -> Result<TurnEnd, ShardError> {
        self.load(now);
        self.server.go_on(now);
        self.make_room(now, true);
        if is_tick || self.room.is_moving {
            self.move_keys(now);
        }
        self.check_broken()?;
        self.check_role()?;
        self.server.sessions_with_output(&mut self.ready);
        let Some(persistence) = &mut self.persistence else {
            self.server.effects().clear();
            return Ok(TurnEnd { wait_for: None, is_busy: false });
        };
        self.room.pace.spend(self.server.effects().len() as u64);
        let wait_for = persistence.commit(&mut self.server, now, self.ready.len())?;
        let is_busy = persistence.advance(&mut self.server, now)? || persistence.waits_for_more();
        let is_busy = is_busy || self.has_requests();
        let Some(persistence) = &mut self.persistence else { return Ok(TurnEnd { wait_for, is_busy }) };
        let figures = self.server.persistence_figures_mut();
        (figures.log.1, figures.durable) = (persistence.log().end().0, persistence.log().durable().0);
        figures.applied = persistence.checkpoints.applied.0;
        self.server.settle_slot_pauses();
        if let Some((bytes, elapsed)) = persistence.take_drained() {
            self.room.pace.drained(bytes, elapsed);
        }
        Ok(TurnEnd { wait_for, is_busy })
    }

    /// Has keys read that commands wait for, and runs those that have them.
    #[inline]
    pub fn load(&mut self, now: Millis) {
        self.sort_requests();
        while let Some(persistence) = &mut self.persistence
            && persistence.load(&mut self.server, now)
        {
            self.is_settled.set(false);
            self.server.run_loaded();
            self.sort_requests();
        }
    }

    /// Closes log and tables and opens them again, while clients wait.
    ///
    /// # Errors
    ///
    /// They cannot be written, or not be opened again.
    pub fn reopen<E: From<ShardError>>(
        &mut self,
        now: Millis,
        open: impl FnOnce(&Settings) -> Result<Persistence<D, W>, E>,
    ) -> Result<(), E> {
        let Some(mut persistence) = self.persistence.take() else { return Ok(()) };
        self.server.finish_replies();
        persistence.drain(&mut self.server, now);
        persistence.close(&mut self.server, now)?;
        self.open_again(now, open)
    }

    /// Gives log and tables up for others, while clients wait: they see the other data from then on. What a follower follows goes on
    /// where the other log ends.
    ///
    /// # Errors
    ///
    /// Those at hand cannot be closed, or the others not be opened.
    pub fn replace<E: From<ShardError>>(
        &mut self,
        now: Millis,
        open: impl FnOnce(&Settings) -> Result<Persistence<D, W>, E>,
    ) -> Result<(), E> {
        let Some(mut persistence) = self.persistence.take() else { return Ok(()) };
        self.server.finish_replies();
        persistence.drain(&mut self.server, now);
        persistence.close_without_checkpoint(&mut self.server, now)?;
        self.server.data_is_replaced();
        self.open_again(now, open)?;
        // What waited to be told of the former log waits no more.
        self.held.let_all_go();
        if let Some(persistence) = &self.persistence {
            self.server.set_history(persistence.replication_id().to_string());
        }
        Ok(())
    }

    fn open_again<E: From<ShardError>>(
        &mut self,
        now: Millis,
        open: impl FnOnce(&Settings) -> Result<Persistence<D, W>, E>,
    ) -> Result<(), E> {
        self.server.forget_data();
        let mut persistence = open(self.server.settings())?;
        let tables = persistence.tables();
        self.server.take_records(tables.key_seed(), Box::new(tables));
        persistence.recover(&mut self.server)?;
        self.server.set_now(now);
        if let Role::Follower(following) = &mut self.role {
            following.select(persistence.selected);
            persistence.refuse_writes(&mut self.server, Some(follow::READ_ONLY.to_owned()));
            self.server.set_following(true);
        }
        self.persistence = Some(persistence);
        self.tell_figures();
        Ok(())
    }

    /// Brings everything to the disk, and ends: with a last checkpoint unless a command has said that there is to be none.
    ///
    /// # Errors
    ///
    /// The log cannot be made durable, or the tables are broken.
    pub fn close(mut self) -> Result<(), ShardError> {
        let now = self.world.now();
        match self.persistence {
            Some(persistence) if self.server.shutdown().without_checkpoint => {
                persistence.close_without_checkpoint(&mut self.server, now)
            }
            Some(persistence) => persistence.close(&mut self.server, now),
            None => Ok(()),
        }
    }
}
