//! A moment of the whole cluster: up to where each group's log goes at it. All masters' commands wait for some milliseconds, so what a
//! client was told before one of these places is before all of them.

use std::{
    io, thread,
    time::{Duration, Instant},
};

use cluster::{Address, GroupId, SLOTS, pauses::Pause};
use serde_json::{Value, json};

use super::{Conductor, Handler, Problem, Route};
use crate::{
    api::Input,
    conductor::status,
    connection::{Command, Connection, Login, command, text},
};

/// How long commands wait at most, should they not be told to go on.
const PAUSE: Duration = Duration::from_millis(1_000);
/// How long a master may take for each of the steps. The loop waits for it: this must stay well below what a lease lasts.
const PATIENCE: Duration = Duration::from_millis(200);

pub(super) const ROUTES: &[Route] = &[Route::change("POST", "/api/cut", Handler::Answer(cut)).named(
    "cluster",
    "cut",
    "The ends of the groups' logs at one moment of the cluster, for a backup. Commands wait for some milliseconds.",
)];

/// NOTE: the loop does it in one go. So no promotion and no move begins meanwhile, whose pauses this one would shorten.
fn cut(conductor: &mut Conductor, _: &Input) -> Result<Value, Problem> {
    if let Some((what, _)) = conductor.records.moving().first() {
        let text = format!("slots {} are on their way: wait for that, or `slot cancel` it", what.slots);
        return Err(Problem::Refused(text));
    }
    if let Some(server) = conductor.controller.keepers().values().find_map(|keeper| keeper.handing_over_to()) {
        return Err(Problem::Refused(format!("{server} is about to become a master: ask again in a moment")));
    }
    let groups = &conductor.records.cluster.groups;
    if let Some((id, _)) = groups.iter().find(|(_, group)| !group.kind().is_store()) {
        return Err(Problem::Refused(format!(
            "group {id} is of Redis servers, which keep no log that could be copied up to a moment"
        )));
    }
    if let Some(id) = groups.keys().find(|id| !status::group_serves(conductor, **id)) {
        return Err(Problem::Refused(format!("group {id} has no master that serves: `cluster check` says why")));
    }
    let masters: Vec<(GroupId, Address)> = groups.iter().map(|(id, group)| (*id, group.master.clone())).collect();
    let began = Instant::now();
    let login = Login { term: conductor.records.led_term(), ..conductor.login.clone() };
    let number = Pause::Cut(conductor.now()).number(login.term.unwrap_or(0));
    let offsets = offsets(&masters, &login, number, began).map_err(|error| Problem::Refused(error.to_string()))?;
    let groups: Vec<Value> = masters
        .iter()
        .zip(offsets)
        .map(|((id, master), offset)| json!({ "id": id, "master": master.to_string(), "offset": offset }))
        .collect();
    Ok(json!({
        "epoch": conductor.records.cluster.epoch,
        "groups": groups,
        "waited_ms": began.elapsed().as_millis() as u64,
    }))
}

/// Why a moment was missed. The next one may do.
#[derive(Debug, thiserror::Error)]
enum CutError {
    /// A master does not answer.
    #[error("the moment was missed: {master}: {source}; ask again")]
    Connection { master: Address, source: io::Error },
    /// It answers with an error.
    #[error("the moment was missed: {master} answers: {error}; ask again")]
    Refused { master: Address, error: String },
    /// It gives no answer.
    #[error("the moment was missed: {0} does not answer; ask again")]
    Silent(Address),
    /// It does not say where its log ends.
    #[error("the moment was missed: {0}: its INFO has no master_repl_offset; ask again")]
    NoOffset(Address),
    /// A thread of this program.
    #[error("the moment was missed: it could not be asked; ask again")]
    NotAsked,
    /// Commands may not have waited any more.
    #[error("the moment was missed: the masters took too long; ask again")]
    TooLate,
}

/// A master while its commands wait.
struct Paused<'a> {
    master: &'a Address,
    connection: Connection,
}

impl<'a> Paused<'a> {
    fn begin(master: &'a Address, login: &Login, number: u64) -> Result<Self, CutError> {
        let failed = |source| CutError::Connection { master: master.clone(), source };
        let connection = Connection::open_as(master, PATIENCE, login).map_err(failed)?;
        let mut paused = Self { master, connection };
        let (last, ms) = ((SLOTS - 1).to_string(), PAUSE.as_millis().to_string());
        let number = number.to_string();
        paused.ask(command(&["CLUSTER", "PAUSE", "0", &last, &ms, "NUMBER", &number]))?;
        Ok(paused)
    }

    fn ask(&mut self, command: Command) -> Result<String, CutError> {
        let master = self.master;
        let failed = |source| CutError::Connection { master: master.clone(), source };
        let replies = self.connection.ask(&[command]).map_err(failed)?;
        match replies.as_slice() {
            [reply] if reply.as_error().is_none() => Ok(text(reply)),
            [reply] => Err(CutError::Refused { master: master.clone(), error: text(reply) }),
            _ => Err(CutError::Silent(master.clone())),
        }
    }

    fn offset(&mut self) -> Result<u64, CutError> {
        let info = self.ask(command(&["INFO", "replication"]))?;
        let offset = info.lines().find_map(|line| line.strip_prefix("master_repl_offset:")?.trim().parse().ok());
        offset.ok_or_else(|| CutError::NoOffset(self.master.clone()))
    }
}

/// Has the commands of all masters wait, asks each how far it is, and lets them go on.
fn offsets(masters: &[(GroupId, Address)], login: &Login, number: u64, began: Instant) -> Result<Vec<u64>, CutError> {
    let paused: Vec<Result<Paused<'_>, CutError>> = thread::scope(|scope| {
        let threads: Vec<_> =
            masters.iter().map(|(_, master)| scope.spawn(|| Paused::begin(master, login, number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(Err(CutError::NotAsked))).collect()
    });
    let mut failure = None;
    let (mut offsets, mut all) = (Vec::new(), Vec::new());
    for one in paused {
        match one {
            Ok(paused) => all.push(paused),
            Err(problem) => failure = Some(problem),
        }
    }
    // A place counts only if all were waiting when it was told.
    if failure.is_none() {
        for one in &mut all {
            match one.offset() {
                Ok(offset) => offsets.push(offset),
                Err(problem) => failure = Some(problem),
            }
        }
    }
    let is_late = began.elapsed() >= PAUSE;
    for mut one in all {
        // Without an answer the pause ends by itself.
        let _ = one.ask(command(&["CLUSTER", "PAUSE", "END", "NUMBER", &number.to_string()]));
    }
    match failure {
        Some(error) => Err(error),
        None if is_late => Err(CutError::TooLate),
        None => Ok(offsets),
    }
}
