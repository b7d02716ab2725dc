//! A shard whose writes come from another one's log.
//!
//! A follower keeps the log of its master as it is: the same bytes at the same offsets, under the id of the same history. So it goes
//! on after a restart where its own log ends, another follower may read from it, and once it is promoted its log goes on under an id
//! of its own, from an offset that its former master's followers know too.
//!
//! What is handed in is a [`Piece`]: whole commands, and whole transactions. Its form is checked before any of it runs, and it is
//! appended in one go after all of it has run. So a crash leaves all of it or nothing, and a piece that is cut off or damaged changes
//! nothing.
//!
//! Nothing changes by itself meanwhile: keys expire and leave when the master's log says so ([`Server::set_following`]), and commands
//! of clients that write are refused. Whatever takes effect all the same is an error that ends the shard (`check_role`): what
//! is in its log must not differ from its master's.

use commands::{
    Server, Session,
    server::{FoundCommand, Table},
    table::Flags,
};
use keyspace::Millis;
use oplog::{Entry, Offset, ReplicationId, disk::Disk};

use crate::{
    Persistence, Shard, ShardError, Workers, World,
    effects::{Effect, Effects, is_named, time_of},
    persistence::log_session,
};

/// What clients are told whose commands write.
pub(super) const READ_ONLY: &str = "READONLY You can't write against a read only replica.";

/// As much of a command's name is told.
const NAME_MAX: usize = 40;

/// Where a shard's writes come from.
pub enum Role {
    /// From clients.
    Master,
    /// From the log of another shard.
    Follower(Box<Following>),
}

/// What a follower keeps of the log that it follows.
pub struct Following {
    /// Whose writes they are.
    session: Session,
    effects: Effects,
    /// How many commands of the log have failed.
    failed: u64,
}

impl Following {
    /// The log goes on with a database that is selected.
    pub(crate) fn select(&mut self, db: usize) {
        self.session.db = db;
    }
}

impl Role {
    /// Whether its writes come from another shard's log.
    #[must_use]
    #[inline]
    pub fn is_follower(&self) -> bool {
        matches!(self, Self::Follower(_))
    }
}

/// A part of a log that is followed: whole commands, and whole transactions.
#[derive(Debug, Clone, Copy)]
pub struct Piece<'a> {
    /// Which history the log tells there.
    pub history: ReplicationId,
    /// The commands, the offset of their first byte, and when they were appended.
    pub entry: Entry<'a>,
}

/// Why a piece was not taken. Nothing of it was applied, unless the shard itself failed.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// The shard follows nobody.
    #[error("this shard follows no other one")]
    NotFollowing,
    /// The shard has no log.
    #[error("a shard without a folder cannot follow another one")]
    NoLog,
    /// The piece does not begin where the follower's log ends.
    #[error(
        "the log that is followed goes on at offset {offset}, and what is here ends at {end}: another copy is needed"
    )]
    Gap {
        /// Where the piece begins.
        offset: Offset,
        /// Where the follower's log ends.
        end: Offset,
    },
    /// The piece is of another history than the one that was asked for.
    #[error("the log that is followed tells another history from offset {offset} on: another copy is needed")]
    OtherHistory {
        /// Where the piece begins.
        offset: Offset,
    },
    /// A command is damaged or cut off.
    #[error("the command at offset {offset} of the log that is followed is damaged: {reason}")]
    Damaged {
        /// Where it is.
        offset: Offset,
        /// What is wrong.
        reason: String,
    },
    /// The shard cannot go on.
    #[error(transparent)]
    Shard(#[from] ShardError),
}

/// Whether a command may stand in a log: one that writes, or one that goes with those. Whatever else a hostile master sends (`SHUTDOWN`,
/// `CONFIG SET`, commands that wait) does not run.
fn is_of_log(table: &Table, words: &[&[u8]]) -> bool {
    const BESIDE: [&str; 5] = ["SELECT", "MULTI", "EXEC", "PING", "REPLCONF"];
    let found = table.find(words);
    found.is_some_and(|FoundCommand { command, .. }| {
        let flags = command.flags;
        BESIDE.contains(&command.name)
            || flags.intersects(Flags::WRITE | Flags::MAY_REPLICATE)
                && (flags.contains(Flags::IN_LOGS) || !flags.contains(Flags::BLOCKING))
                && !flags.intersects(Flags::RUNS_SCRIPT | Flags::ADMIN)
    })
}

fn is_number_below(word: Option<&&[u8]>, bound: usize) -> bool {
    let number = word.and_then(|word| resp::parse_integer(word)).and_then(|number| usize::try_from(number).ok());
    number.is_some_and(|number| number < bound)
}

/// Checks the form of a piece: commands are whole and such as a log has, and transactions end in it. Returns how many commands there
/// are.
///
/// # Errors
///
/// What is wrong, and where.
pub fn check_piece(
    effects: &mut Effects,
    (table, databases): (&Table, usize),
    entry: &Entry<'_>,
) -> Result<usize, FollowError> {
    let damaged = |offset: Offset, reason| FollowError::Damaged { offset, reason };
    let (mut count, mut transaction) = (0, None);
    let look = |effect: Effect<'_>| {
        count += 1;
        if !is_of_log(table, effect.words) {
            let name = effect.words.first().copied().unwrap_or_default().escape_ascii().to_string();
            let name = name.get(..NAME_MAX).unwrap_or(&name).to_owned();
            return Err(damaged(effect.offset, format!("'{name}' is none that a log has")));
        }
        // What follows would change another database than it is meant for.
        if is_named(effect.words, "SELECT") && !is_number_below(effect.words.get(1), databases) {
            return Err(damaged(
                effect.offset,
                format!("it selects a database, and here are {databases} (`databases`)"),
            ));
        }
        match transaction {
            None if is_named(effect.words, "MULTI") => transaction = Some(effect.offset),
            None if is_named(effect.words, "EXEC") => {
                return Err(damaged(effect.offset, "an EXEC without a MULTI".to_owned()));
            }
            Some(_) if is_named(effect.words, "EXEC") => transaction = None,
            Some(_) if is_named(effect.words, "MULTI") => {
                return Err(damaged(effect.offset, "a MULTI within a transaction".to_owned()));
            }
            _ => {}
        }
        Ok(())
    };
    effects.each(entry, look, damaged)?;
    match transaction {
        Some(offset) => Err(damaged(offset, "a transaction has no end".to_owned())),
        None => Ok(count),
    }
}

impl<D: Disk, W: Workers> Shard<D, W> {
    /// Where its writes come from.
    pub fn role(&self) -> &Role {
        &self.role
    }

    /// Follows another shard's log from now on, from where the own log ends. Returns that place.
    ///
    /// # Errors
    ///
    /// It has no log, or what has taken effect so far cannot be written.
    pub fn follow(&mut self, now: Millis) -> Result<(ReplicationId, Offset), FollowError> {
        let persistence = self.persistence.as_mut().ok_or(FollowError::NoLog)?;
        self.server.finish_tasks();
        self.server.unblock_all();
        persistence.commit_at_once(&mut self.server, now)?;
        persistence.refuse_writes(&mut self.server, Some(READ_ONLY.to_owned()));
        self.server.set_following(true);
        let mut session = log_session();
        session.db = persistence.selected;
        self.role = Role::Follower(Box::new(Following { session, effects: Effects::default(), failed: 0 }));
        Ok((persistence.replication_id(), persistence.log().end()))
    }

    /// Takes the place that a log begins at which is to be followed from its beginning: in a log without anything.
    ///
    /// # Errors
    ///
    /// There is something in the log, or it cannot be written.
    pub fn adopt_history(&mut self, history: ReplicationId, from: Offset, now: Millis) -> Result<(), FollowError> {
        let persistence = self.persistence.as_mut().ok_or(FollowError::NoLog)?;
        let end = persistence.log().end();
        if !self.role.is_follower() {
            return Err(FollowError::NotFollowing);
        }
        if end != from {
            return Err(FollowError::Gap { offset: from, end });
        }
        persistence.set_history(history, now)?;
        self.server.set_history(history.to_string());
        Ok(())
    }

    /// Applies the next piece of the log that is followed, all of it or nothing. What it has already is left out.
    ///
    /// # Errors
    ///
    /// The piece cannot be taken; [`FollowError::Shard`] if the shard cannot go on.
    pub fn apply(&mut self, piece: &Piece<'_>) -> Result<(), FollowError> {
        let Role::Follower(following) = &mut self.role else { return Err(FollowError::NotFollowing) };
        let persistence = self.persistence.as_mut().ok_or(FollowError::NoLog)?;
        let (entry, end) = (&piece.entry, persistence.log().end());
        if piece.history != persistence.replication_id() {
            return Err(FollowError::OtherHistory { offset: entry.offset });
        }
        if entry.end() <= end {
            return Ok(());
        }
        if entry.offset != end {
            return Err(FollowError::Gap { offset: entry.offset, end });
        }
        let known = (self.server.table(), self.server.keyspace.len());
        check_piece(&mut following.effects, known, entry)?;
        self.room.pace.spend(entry.commands.len() as u64);
        run(&mut self.server, following, entry, &*self.world)?;
        persistence.selected = following.session.db;
        persistence.append_piece(entry)?;
        Ok(())
    }

    /// Tells a history of its own from here on, as its replicas may have what this one has lost.
    ///
    /// # Errors
    ///
    /// The log cannot be written.
    pub fn begin_history(&mut self, history: ReplicationId, now: Millis) -> Result<(), ShardError> {
        if let Some(persistence) = &mut self.persistence {
            persistence.set_history(history, now)?;
            self.server.set_history(history.to_string());
        }
        Ok(())
    }

    /// Follows nobody any more: writes come from clients, and the log tells a history of its own from here on.
    ///
    /// # Errors
    ///
    /// The log cannot be written.
    pub fn promote(&mut self, history: ReplicationId, now: Millis) -> Result<(), FollowError> {
        if !self.role.is_follower() {
            return Err(FollowError::NotFollowing);
        }
        let persistence = self.persistence.as_mut().ok_or(FollowError::NoLog)?;
        persistence.set_history(history, now)?;
        persistence.refuse_writes(&mut self.server, None);
        self.server.set_following(false);
        self.server.set_history(history.to_string());
        self.role = Role::Master;
        Ok(())
    }

    /// Whether more of the log that is followed may be applied: not while the tables are too far behind, or memory is short.
    pub fn may_apply(&self) -> bool {
        !(self.room.pace.is_spent(0) || self.room.has_no_room)
    }

    /// Fails if something took effect on a follower that its master's log does not have.
    #[inline]
    pub(crate) fn check_role(&self) -> Result<(), ShardError> {
        match self.role.is_follower() && !self.server.has_no_effects() {
            true => Err(ShardError::OwnWrite),
            false => Ok(()),
        }
    }
}

/// Runs the commands of an entry. One that fails is told of and passed over, as a replica of Redis does: it stands in the log, and
/// whatever made it fail here will do so again when the log is run again.
fn run(server: &mut Server, following: &mut Following, entry: &Entry<'_>, world: &dyn World) -> Result<(), ShardError> {
    let Following { session, effects, failed } = following;
    session.replayed_at = time_of(entry);
    let broken = |offset: Offset, reason| ShardError::Replay { offset: offset.0, reason };
    let run = |effect: Effect<'_>| {
        if let Err(reason) = server.follow(session, effect.words) {
            *failed += 1;
            // The first ones, and fewer and fewer of what may be very many.
            if failed.is_power_of_two() {
                let name = String::from_utf8_lossy(effect.words.first().copied().unwrap_or_default()).into_owned();
                world.warn(&format!(
                    "'{name}' of the master's log, at offset {}, fails here: {reason} ({failed} in all)",
                    effect.offset
                ));
            }
        }
        Ok(())
    };
    effects.each(entry, run, broken)
}

impl<D: Disk, W: Workers> Persistence<D, W> {
    /// Appends what was applied, as the log that is followed has it.
    fn append_piece(&mut self, entry: &Entry<'_>) -> Result<(), ShardError> {
        self.commit.log_time = self.commit.log_time.max(entry.time_ms);
        // Its times to live count from there, also when it is run again.
        self.commit.log.begin_frame_of(entry.time_ms);
        self.commit.log.append(entry.commands, entry.time_ms)?;
        Ok(())
    }

    /// The log tells another history from here on.
    fn set_history(&mut self, history: ReplicationId, now: Millis) -> Result<(), ShardError> {
        if self.commit.log.replication_id() != history {
            self.commit.log.set_replication_id(history, now.unsigned_abs())?;
        }
        Ok(())
    }

    /// The histories that the log tells, the oldest first, each with the offset where it begins or where the log does.
    pub fn histories(&self) -> Vec<(ReplicationId, Offset)> {
        let mut histories: Vec<(ReplicationId, Offset)> = Vec::new();
        for segment in self.commit.log.segments() {
            if let Some(former) = segment.former_id.filter(|former| histories.last().is_none_or(|(id, _)| id != former))
            {
                histories.push((former, segment.first_offset));
            }
            if histories.last().is_none_or(|(id, _)| *id != segment.replication_id) {
                histories.push((segment.replication_id, segment.first_offset));
            }
        }
        histories
    }
}
