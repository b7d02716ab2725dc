//! Commands that take long, in steps.
//!
//! A command that is about very many elements ([`StepLimits::from`]) becomes a *task* when it has been checked: a machine that goes on by
//! some elements at a time ([`Work::step`]), for about a millisecond in a turn. The command's client waits, with all it has sent
//! behind it; others go on. The keys that the command names are *busy* until it has ended:
//!
//! - A key that is only read may be read by others, not changed. All others are the task's alone.
//! - A client whose command names a busy key that it cannot share waits until a task has ended, then its command is looked at
//!   again; those who wait keep their order. So nobody sees half of a command.
//! - Whatever else might meet a busy key (a script with keys that it did not declare, a client that is woken, `FLUSHALL`, a
//!   checkpoint that must be now) first drives all tasks to their end ([`Server::finish_tasks`]). A busy key does not expire.
//!
//! A task takes effect when it ends: then it is propagated, as one command, and answered. Until then most tasks have changed
//! nothing: they make a result that no key has yet. One that [changes](Work::changes) its key step by step must not be cut in two
//! by a checkpoint's moment, for the log would run it again on what is left: no checkpoint begins while one is under way
//! ([`Server::is_changing`]), and when one is due, no other starts ([`Server::hold_tasks`]).
//!
//! What a task makes takes memory. While there is no room, one that has not changed anything yet waits as commands that write do;
//! when memory is full of what does not leave it, such as what the task has made, it fails.
//!
//! A command whose words are keys may have very many. It holds them step by step too, before it does anything else, one such command
//! at a time: it waits for those that others hold, and nobody who holds keys waits for it. Those that are not in memory are read some
//! at a time, off the loop, before the step that is about them.
//!
//! In a transaction, a script and the log everything is done in one go.

mod order;

use std::{collections::VecDeque, ops::Range, rc::Rc};

use keyspace::{Bytes, Failure, Keys, Millis, ReadFailure, Value};
use resp::{Protocol, Reply};

use crate::{
    Context, Session, SessionId,
    session::{Close, PIECE_FROM, Pieces},
    table::{Access, Flags},
    words::Words,
};

use super::{
    Command, FoundCommand, Server, Shared,
    execution::{Ended, HEAD, OUT_OF_MEMORY},
    portions::{OUTPUT_MAX, PORTION_MIN},
    sent::TaskWords,
};

/// How long all tasks of a turn may take together, in microseconds.
const TURN_US: u64 = 1_000;
/// A step that takes longer than this is followed by a smaller one.
const STEP_US_MAX: u64 = 400;
/// One that takes less by a larger one.
const STEP_US_MIN: u64 = 100;
/// How many elements the first step is about.
const FIRST_STEP: usize = 128;
/// The least that a step is about.
const STEP_MIN: usize = 128;
/// So many keys are read together, at most, for a step.
const LOADS_MAX: usize = 256;
/// Who waits for keys that are read for a task: this and the task's number. No client has such a number.
const TASK_BIT: u64 = 1 << 63;
/// How many elements a step is about when nobody is to go on before the end.
const WHOLE_STEP: usize = 1 << 16;

/// How far a step came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// There is more to do.
    More,
    /// The command has taken effect and is answered.
    Done,
}

/// Some of a command's words.
#[derive(Debug, Clone)]
pub struct Window {
    /// So many from the first on.
    pub head: usize,
    /// And these.
    pub part: Range<usize>,
}

/// A command in steps.
pub trait Work: std::fmt::Debug {
    /// Goes on by about so many elements. What it writes into the reply is kept until the end.
    ///
    /// # Errors
    ///
    /// The command's error. Nothing must have been changed.
    fn step(&mut self, context: &mut Context<'_>, budget: usize) -> Result<Progress, Failure>;

    /// Whether it changes its keys before the last step.
    fn changes(&self) -> bool {
        false
    }

    /// Large values that it has made and does not need any more.
    fn remains(&mut self) -> Vec<Value> {
        Vec::new()
    }

    /// The words that the next step is to see; all without it.
    fn window(&self, budget: usize) -> Option<Window> {
        let _ = budget;
        None
    }

    /// How far apart its keys are among its words, from the second one on, if there may be too many to be held at once.
    fn keys_apart(&self) -> Option<usize> {
        None
    }

    /// Whether what a step has written into the reply is not looked at again by another one.
    fn appends(&self) -> bool {
        false
    }

    /// What belongs in front of the reply, if that is known at the end only.
    fn head(&mut self) -> Option<Vec<u8>> {
        None
    }

    /// Keys that it holds besides those that the command names, and does not need any more.
    fn held(&mut self) -> Vec<Bytes> {
        Vec::new()
    }

    /// Whether it has done so: for one that begins by looking.
    fn has_changed(&self) -> bool {
        self.changes()
    }
}

/// When commands go on over several turns, and how.
#[derive(Debug, Clone, Copy)]
pub struct StepLimits {
    /// A command that is about more elements is a task.
    pub from: usize,
    /// The same where the elements are keys.
    pub keys_from: usize,
    /// How many elements a step is about at most.
    pub step_max: usize,
    /// How many steps a turn has at most.
    pub steps: usize,
    /// A command that gives more elements gives them in portions: [`PORTION_MIN`], and less in tests.
    pub portion_min: usize,
}

impl Default for StepLimits {
    fn default() -> Self {
        Self { from: 2_000, keys_from: 24_000, step_max: 4_096, steps: 64, portion_min: PORTION_MIN }
    }
}

/// A command that is under way.
#[derive(Debug)]
struct Task {
    session: SessionId,
    /// Its own.
    number: u64,
    words: TaskWords,
    found: FoundCommand,
    db: usize,
    protocol: Protocol,
    /// When it came: to it, no key expires later.
    now: Millis,
    /// Its client wants no reply.
    is_muted: bool,
    /// The keys that are busy for it, and whether others may read each.
    keys: Vec<(Bytes, bool)>,
    work: Box<dyn Work>,
    /// The reply so far: what is not touched again, and the rest.
    pieces: Pieces,
    output: Vec<u8>,
    budget: usize,
    elapsed_us: u64,
    has_begun: bool,
    /// Keys among its words that are held over turns.
    wide: Option<WideKeys>,
    /// The places of words whose keys were read, or were in memory when that was looked at.
    loaded: Range<usize>,
    /// How many are being read.
    loading: usize,
}

/// Keys among words.
#[derive(Debug)]
struct WideKeys {
    /// How far apart they are.
    apart: usize,
    /// The place of the next one to be held; the first is that of the first word behind the name.
    next: usize,
}

impl Task {
    /// Whether its keys are half changed.
    fn has_changed(&self) -> bool {
        self.has_begun && self.work.has_changed()
    }

    /// Whether it is about to hold very many keys.
    fn is_holding(&self) -> bool {
        self.wide.as_ref().is_some_and(|wide| wide.next < self.words.len())
    }

    /// What it has made of its reply.
    fn made_len(&self) -> usize {
        self.pieces.len() + self.output.capacity()
    }

    /// Whether it is of those, and can still be left.
    fn may_be_left(&self, those: Flags) -> bool {
        self.found.command.flags.contains(those) && !self.has_changed()
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    /// The command in run goes on in steps: it has begun this.
    pub(super) begun: Option<Box<dyn Work>>,
    queue: VecDeque<Task>,
    /// None that changes keys step by step is to begin: a checkpoint waits.
    hold: bool,
    /// Keys that were held by a task that is over: others may change them now.
    held: Vec<Bytes>,
    /// Whose command is about to hold very many keys.
    holding: Option<SessionId>,
    /// Clients that wait for a busy key, in order.
    waiting: Vec<SessionId>,
    /// Replies to sessions that were not in their places.
    replies: Vec<(SessionId, Pieces)>,
    /// How many there have been.
    pub(crate) count: u64,
    /// How many steps they took.
    pub(crate) steps: u64,
}

impl Tasks {
    /// Whether there is anything to do, now or later.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.replies.is_empty() && self.has_let_go()
    }

    /// Whether no key of a task that is over is held.
    fn has_let_go(&self) -> bool {
        self.held.is_empty()
    }

    /// A key was read for somebody. Returns false if that is no task.
    pub(super) fn loaded(&mut self, id: SessionId) -> bool {
        if id.0 & TASK_BIT == 0 {
            return false;
        }
        if let Some(task) = self.queue.iter_mut().find(|task| task.number | TASK_BIT == id.0) {
            task.loading = task.loading.saturating_sub(1);
        }
        true
    }

    fn may_go_on(&self, task: &Task, has_no_room: bool) -> bool {
        let is_held = self.hold && !task.has_begun && task.work.changes();
        !(is_held || task.loading > 0 || has_no_room && task.may_be_left(Flags::WRITE))
    }
}

impl Session {
    /// Whether a command that is about so many elements is done in steps.
    pub fn takes_steps(&self, elements: usize, shared: &Shared) -> bool {
        elements > shared.step_limits.from && !self.deny_blocking && !self.internal && self.retry.is_none()
    }
}

impl Context<'_> {
    /// Does what is about so many elements: at once, or, if they are many, over several turns. Nothing must have been changed or
    /// answered yet.
    ///
    /// # Errors
    ///
    /// As of [`Work::step`].
    pub fn work_on(&mut self, elements: usize, mut work: impl Work + 'static) -> Result<(), Failure> {
        if self.session.takes_steps(elements, self.shared) {
            self.shared.tasks.begun = Some(Box::new(work));
            return Ok(());
        }
        self.work_off(&mut work)
    }

    /// Does all of it at once.
    pub(super) fn work_off(&mut self, work: &mut impl Work) -> Result<(), Failure> {
        let start = self.reply.position();
        while work.step(self, usize::MAX)? == Progress::More {
            // One that cannot read what comes next may never come to its end.
            self.keys.check()?;
        }
        if let Some(head) = work.head() {
            let rest = self.reply.take_from(start);
            self.reply.raw(&head);
            self.reply.raw(&rest);
        }
        Ok(())
    }
}

/// Calls with a command's keys, and whether it only reads each.
fn each_key<'a>(command: &Command, words: &[&'a [u8]], mut each: impl FnMut(&'a [u8], bool)) {
    let reads = command.flags.contains(Flags::READONLY);
    let mut places = Vec::new();
    let mut tell = |places: &mut Vec<usize>, reads: bool| {
        places.drain(..).filter_map(|place| words.get(place)).for_each(|key| each(key, reads));
    };
    match command.key_places {
        Some(find) => {
            find(words, &mut places);
            tell(&mut places, reads);
        }
        None => {
            for spec in command.keys {
                spec.places(words, &mut places);
                tell(&mut places, reads || spec.access.contains(Access::RO));
            }
        }
    }
}

/// Whether a command may meet any key without naming it.
fn meets_all(found: FoundCommand, words: &[&[u8]]) -> bool {
    let command = found.command;
    let has_patterns =
        || words.iter().any(|word| word.eq_ignore_ascii_case(b"BY") || word.eq_ignore_ascii_case(b"GET"));
    let is_keyless = command.keys.is_empty() && command.key_places.is_none();
    command.flags.contains(Flags::WRITE) && is_keyless
        || command.flags.contains(Flags::MEETS_ALL_KEYS)
        || command.flags.contains(Flags::MEETS_ALL_BY_PATTERNS) && has_patterns()
}

impl Server {
    /// Whether tasks are half done with what keys hold: no checkpoint may begin.
    pub fn is_changing(&self) -> bool {
        self.shared.tasks.queue.iter().any(Task::has_changed)
    }

    /// Says whether a checkpoint waits for such tasks: no other begins meanwhile.
    pub fn hold_tasks(&mut self, hold: bool) {
        self.shared.tasks.hold = hold;
    }

    /// How many commands were done in steps, and in how many steps.
    pub fn tasks_done(&self) -> (u64, u64) {
        (self.shared.tasks.count, self.shared.tasks.steps)
    }

    /// Whether a task may go on at once.
    pub(super) fn has_steps(&self) -> bool {
        let tasks = &self.shared.tasks;
        !tasks.replies.is_empty() || !tasks.has_let_go() || self.shared.next_task().is_some()
    }

    /// Has the command that has just been checked go on in steps.
    #[cold]
    pub(super) fn begin_task(&mut self, session: &mut Session, words: &[&[u8]], found: FoundCommand, elapsed_us: u64) {
        let Some(work) = self.shared.tasks.begun.take() else { return };
        let mut keys = Vec::new();
        let changes = work.changes();
        let is_shared = found.command.flags.contains(Flags::READONLY);
        let wide = work.keys_apart().map(|apart| WideKeys { apart, next: 1 });
        if let Some(WideKeys { apart, .. }) = wide {
            let len = session.sent.as_ref().map_or(words.len(), |sent| sent.word_count());
            self.keyspace.busy.begin_wide(session.id.0, is_shared, len / apart);
        } else {
            each_key(found.command, words, |key, reads| keys.push((Bytes::from_slice(key), reads && !changes)));
        }
        for (key, is_shared) in &keys {
            self.keyspace.busy.hold(key, *is_shared);
        }
        session.loading += 1;
        self.shared.tasks.count += 1;
        self.shared.tasks.queue.push_back(Task {
            session: session.id,
            number: self.shared.tasks.count,
            words: TaskWords::new(words, session.sent.take()),
            found,
            db: session.db,
            protocol: session.protocol,
            now: self.time_for(session),
            is_muted: !session.replies_wanted(),
            keys,
            work,
            pieces: Pieces::default(),
            output: Vec::new(),
            budget: FIRST_STEP,
            elapsed_us,
            has_begun: false,
            wide,
            loaded: 0..0,
            loading: 0,
        });
        self.shared.refresh_onlookers();
    }

    /// Has a client's command wait, if it names a key that is busy for another one.
    #[cold]
    pub(super) fn waits_for_tasks(&mut self, session: &mut Session, found: FoundCommand, words: &[&[u8]]) -> bool {
        let meets = match &session.transaction {
            Some(transaction) if found.command.flags.contains(Flags::RUNS_TRANSACTION) => {
                transaction.commands.iter().any(|command| {
                    let words: Vec<&[u8]> = command.iter().map(Bytes::as_slice).collect();
                    self.shared.table.find(&words).is_some_and(|found| self.meets_task(found, &words))
                })
            }
            Some(_) => false,
            None if meets_all(found, words) => {
                self.finish_tasks();
                false
            }
            // It waits for each key in turn.
            None if self.has_many_keys(session, found, words) => false,
            None => self.meets_task(found, words),
        };
        if meets {
            session.loading += 1;
            self.shared.tasks.waiting.push(session.id);
        }
        meets
    }

    /// Whether a command names a busy key that it cannot share.
    fn meets_task(&self, found: FoundCommand, words: &[&[u8]]) -> bool {
        let reads = found.command.flags.contains(Flags::READONLY);
        let mut meets = false;
        each_key(found.command, words, |key, _| meets |= self.keyspace.busy.refuses(key, reads));
        meets
    }

    /// Makes way for a command that cannot wait.
    #[cold]
    pub(super) fn settle_tasks(&mut self, found: FoundCommand, words: &[&[u8]]) {
        if meets_all(found, words) || self.meets_task(found, words) {
            self.finish_tasks();
        }
    }

    /// Brings all tasks to their end at once.
    pub fn finish_tasks(&mut self) {
        while let Some(mut task) = self.shared.tasks.queue.pop_front() {
            // One may wait for what another one has.
            if self.step(&mut task, WHOLE_STEP) {
                self.end_task(task);
                self.release_held(usize::MAX);
            } else {
                self.shared.tasks.queue.push_back(task);
            }
        }
        self.release_held(usize::MAX);
    }

    /// Goes on with tasks, for about a millisecond.
    #[cold]
    pub(super) fn go_on_with_tasks(&mut self) {
        for (id, reply) in std::mem::take(&mut self.shared.tasks.replies) {
            self.answer_task(id, reply);
        }
        self.release_held(self.shared.step_limits.step_max);
        let begin = (self.shared.clock.stopwatch)();
        let mut since = begin;
        for _ in 0..self.shared.step_limits.steps {
            let Some(next) = self.shared.next_task() else { break };
            let Some(mut task) = self.shared.tasks.queue.remove(next) else { break };
            let budget = task.budget.min(self.shared.step_limits.step_max);
            let is_over = self.step(&mut task, budget);
            let now = (self.shared.clock.stopwatch)();
            let elapsed = now.saturating_sub(since);
            since = now;
            if is_over {
                self.end_task(task);
                self.after_command();
            } else {
                if elapsed > STEP_US_MAX {
                    task.budget = (budget / 2).max(STEP_MIN);
                } else if elapsed < STEP_US_MIN {
                    task.budget = (budget * 2).min(self.shared.step_limits.step_max);
                }
                self.shared.tasks.queue.push_back(task);
            }
            if now.saturating_sub(begin) > TURN_US {
                break;
            }
        }
        self.shared.refresh_onlookers();
    }

    /// Makes a step of a task. Returns whether that was the last.
    fn step(&mut self, task: &mut Task, budget: usize) -> bool {
        let own = self.shared.sessions.by_id.get_mut(&task.session).and_then(Option::take);
        let is_there = own.is_some();
        let mut session = own.unwrap_or_else(|| Box::new(Session::new(task.session, task.now)));
        let is_gone = session.close == Close::Now || !self.shared.sessions.by_id.contains_key(&task.session);
        let is_over = if is_gone && !task.found.command.flags.contains(Flags::WRITE) {
            // Nobody waits for what it would find.
            true
        } else if !self.hold_keys(task, budget) {
            self.shared.tasks.steps += 1;
            false
        } else {
            self.shared.tasks.steps += 1;
            session.last_interaction = self.now;
            let budget = self.loaded_for(task, budget);
            budget > 0 && self.step_for(task, &mut session, budget)
        };
        if is_there {
            session.making = if is_over { 0 } else { task.made_len() };
            self.shared.sessions.account(&mut session);
            self.shared.sessions.by_id.insert(task.session, Some(session));
        }
        is_over
    }

    /// Holds some more of a task's keys, if there are many. Returns whether it has all.
    fn hold_keys(&mut self, task: &mut Task, budget: usize) -> bool {
        let Some(wide) = task.wide.as_mut().filter(|wide| wide.next < task.words.len()) else { return true };
        if self.shared.tasks.holding.is_some_and(|other| other != task.session) {
            return false;
        }
        self.shared.tasks.holding = Some(task.session);
        let owner = task.session.0;
        let behind = wide.next.saturating_add(budget.saturating_mul(wide.apart)).min(task.words.len());
        for key in task.words.each(wide.next..behind, wide.apart) {
            if !self.keyspace.busy.hold_wide(owner, key) {
                return false;
            }
            wide.next += wide.apart;
        }
        if wide.next >= task.words.len() {
            self.shared.tasks.holding = None;
        }
        false
    }

    /// How many of a task's words its next step may be about: if they are very many keys, those that have been read. None while they
    /// are being read.
    fn loaded_for(&mut self, task: &mut Task, budget: usize) -> usize {
        // What is brought to its end at once does not wait.
        let waits = self.keyspace.partial && budget < WHOLE_STEP;
        let Some(wide) = task.wide.as_ref().filter(|_| waits) else { return budget };
        let Some(next) = task.work.window(budget).map(|window| window.part).filter(|part| !part.is_empty()) else {
            return budget;
        };
        if !task.loaded.contains(&next.start) {
            let some = next.start..next.end.min(next.start.saturating_add(LOADS_MAX * wide.apart));
            let (keys, id) = (task.words.each(some.clone(), wide.apart), SessionId(task.number | TASK_BIT));
            task.loading = self.ask_for_some(task.db, keys, id);
            task.loaded = some;
            if task.loading > 0 {
                return 0;
            }
        }
        budget.min(task.loaded.end - next.start)
    }

    fn step_for(&mut self, task: &mut Task, session: &mut Session, budget: usize) -> bool {
        let former = session.sent.replace(Rc::clone(task.words.sent()));
        let is_over = self.step_within(task, session, budget);
        session.sent = former;
        is_over
    }

    fn step_within(&mut self, task: &mut Task, session: &mut Session, budget: usize) -> bool {
        let window = task.work.window(budget);
        let mut words = match &window {
            Some(window) => task.words.some(window.head, window.part.clone()),
            None => task.words.all(),
        };
        let current = std::mem::replace(&mut self.shared.sessions.current.session, task.session);
        self.changes.classes = self.shared.settings.notify_keyspace_events.0;
        self.watch_changes();
        let dirty = self.changes.dirty;
        self.keyspace.begin_command();
        let begin = (self.shared.clock.stopwatch)();
        let had_changed = task.has_changed();
        let is_full = self.shared.condition.memory_full && task.may_be_left(Flags::DENYOOM);
        let reply = Reply::new(&mut task.output, task.protocol);
        let keys = Keys::new(&mut self.keyspace, task.db, task.now, &mut self.changes);
        let mut context = Context { words: Words(&words), reply, keys, session, shared: &mut self.shared };
        let progress = if is_full { Err(OUT_OF_MEMORY) } else { task.work.step(&mut context, budget) };
        let progress = match self.keyspace.take_read_failure() {
            Some(ReadFailure::Refused(failure)) if had_changed => {
                Err(self.failure_of(ReadFailure::Halved(failure.to_string())))
            }
            Some(trouble) => Err(self.failure_of(trouble)),
            None => progress,
        };
        task.has_begun = true;
        task.elapsed_us += (self.shared.clock.stopwatch)().saturating_sub(begin);
        let is_over = progress != Ok(Progress::More);
        if is_over {
            if progress.is_err() {
                task.pieces = Pieces::default();
            } else if let Some(head) = task.work.head() {
                task.pieces.push_front(head);
            }
            let is_logged_so = self.changes.instead.is_none() && self.changes.dirty != dirty;
            if window.is_some() {
                let is_head = !is_logged_so && !self.shared.sessions.sees_words();
                words = if is_head { task.words.some(HEAD, 0..0) } else { task.words.all() };
            }
            let (outcome, words_len) = (progress.map(|_| ()), task.words.len());
            // No byte of its reply has been sent yet.
            let (start, elapsed_us) = (0, task.elapsed_us);
            let ended = Ended { outcome, start, elapsed_us, dirty, db: task.db, words_len, is_waiting: false };
            self.end_call(session, &mut task.output, &words, task.found, ended);
        } else if task.output.len() >= PIECE_FROM && task.work.appends() {
            task.pieces.push(std::mem::take(&mut task.output));
        }
        self.shared.sessions.current.session = current;
        is_over
    }

    /// A task is over: its keys are free, its client goes on, and those who waited for keys look again.
    fn end_task(&mut self, mut task: Task) {
        task.work.remains().into_iter().for_each(|value| self.keyspace.bury(value));
        for (key, is_shared) in &task.keys {
            self.keyspace.busy.release(key, *is_shared);
        }
        self.shared.tasks.held.append(&mut task.work.held());
        if self.shared.tasks.holding == Some(task.session) {
            self.shared.tasks.holding = None;
        }
        if task.wide.is_some() {
            self.keyspace.busy.release_wide(task.session.0);
        }
        let mut reply = Pieces::default();
        if !task.is_muted {
            reply = task.pieces;
            reply.push(task.output);
        }
        self.answer_task(task.session, reply);
        self.wake_waiting();
        if self.shared.tasks.is_empty() {
            self.shared.refresh_onlookers();
        }
    }

    /// Has those who waited for keys look again.
    fn wake_waiting(&mut self) {
        for id in std::mem::take(&mut self.shared.tasks.waiting) {
            self.release_waiting(id);
        }
    }

    /// Lets go of up to so many keys that were held.
    fn release_held(&mut self, at_most: usize) {
        if self.shared.tasks.has_let_go() {
            return;
        }
        let held = &mut self.shared.tasks.held;
        for key in held.drain(held.len().saturating_sub(at_most)..) {
            self.keyspace.busy.release(&key, true);
        }
        if self.shared.tasks.has_let_go() {
            self.wake_waiting();
        }
    }

    fn release_waiting(&mut self, id: SessionId) {
        let Some(session) = self.shared.sessions.get_mut(id) else { return };
        session.loading = session.loading.saturating_sub(1);
        self.shared.sessions.schedule.runnable.push_back(id);
    }

    fn answer_task(&mut self, id: SessionId, mut reply: Pieces) {
        match self.shared.sessions.by_id.get_mut(&id) {
            None => {}
            Some(None) => self.shared.tasks.replies.push((id, reply)),
            Some(Some(session)) => {
                if session.close == Close::No && reply.len() > OUTPUT_MAX {
                    self.shared.go_on_answering(id, reply);
                    return;
                }
                if session.close == Close::No {
                    reply.take(&mut session.output.bytes, usize::MAX);
                }
                self.release_waiting(id);
                self.shared.send(id, b"");
            }
        }
    }
}
