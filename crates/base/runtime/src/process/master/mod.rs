//! The shell of a master process: carries out what the [`Machine`] decides and tells it what came of it.
//!
//! One thread, one loop, one queue of events. Nothing here waits for a worker: what goes to one is queued on its
//! channel. A configuration is checked by another process ([`super::check`]).

mod commands;
mod introduction;
pub(super) mod upgrade;

use super::channel::{Channel, Descriptor, Outgoing};
use super::check::{self, Question};
use super::control::{self, Gate, Reply};
use super::footprint;
use super::handoff::State;
use super::launch;
use super::machine::{Action, Event, Generation, Machine, Notice, PlannedProgram, RequestId, Status, Timer, WorkerId};
use super::message::{FromWorker, KEYS_MAX, PlanFile, ToWorker};
use super::notify::Notifier;
use super::old::{self, Inherited};
use super::options::Options;
use super::role::{CheckReason, DrainReason, MasterStatus, Role, WorkerState};
use super::signals::{self, Caught};
use super::talk::ConversationRequest;
use super::{Started, now, privileges};
use crate::listen::{SocketKey, SocketTable};
use crate::log;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, waitpid};
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

/// What the first configuration of a master is called.
pub(super) const FIRST_GENERATION: Generation = 1;

/// What may come into the loop.
#[derive(Debug)]
enum Input {
    Event(Event),
    Signal(Caught),
    Asked(ConversationRequest),
    Said(WorkerId, FromWorker, Vec<OwnedFd>),
    Checked(Result<PlanFile, String>),
}

/// The line to a worker process.
struct Link {
    pid: u32,
    channel: Rc<Channel>,
    /// The sockets that it has.
    keys: BTreeSet<SocketKey>,
    reader: AbortHandle,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// A configuration whose sockets are bound.
struct Candidate {
    plan: PlanFile,
    /// Sockets that were made for it.
    added: Vec<SocketKey>,
}

/// A socket that takes commands.
struct Control {
    name: String,
    socket: OwnedFd,
    open_to_all: bool,
}

pub(crate) struct Master<R> {
    role: Rc<R>,
    options: Options,
    program: PathBuf,
    machine: Machine,
    inputs: mpsc::UnboundedReceiver<Input>,
    input: mpsc::UnboundedSender<Input>,
    table: SocketTable,
    /// What is served.
    adopted: Option<PlanFile>,
    /// What is to be served first, checked before this process was a master.
    first: Option<PlanFile>,
    /// What is to be served next.
    candidate: Option<Candidate>,
    next_generation: Generation,
    links: HashMap<WorkerId, Link>,
    requests: HashMap<RequestId, OwnedFd>,
    next_request: RequestId,
    control: Vec<Control>,
    gate: Rc<Gate>,
    timers: HashMap<Timer, AbortHandle>,
    notifier: Notifier,
    /// What the machine has yet to be told of what was just done.
    news: Vec<Event>,
    /// What a former worker left, until another one serves.
    legacy: Option<OwnedFd>,
    /// An upgrade is due as soon as nothing else is to be handled.
    exec: Option<Vec<RequestId>>,
    started: Started,
    exit: Option<i32>,
    successor: bool,
}

impl<R: Role> Master<R> {
    /// A master that starts from nothing, to serve this configuration.
    pub(crate) fn begin(role: R, options: Options, first: PlanFile, started: Started) -> io::Result<Self> {
        Ok(Self { first: Some(first), ..Self::new(role, options, started)? })
    }

    /// A master that goes on with what its predecessor left.
    pub(crate) fn succeed(role: R, options: Options, state: State) -> io::Result<Self> {
        let mut master = Self { successor: true, ..Self::new(role, options, Started::default())? };
        master.take_over(state)?;
        Ok(master)
    }

    fn new(role: R, options: Options, started: Started) -> io::Result<Self> {
        let (input, inputs) = mpsc::unbounded_channel();
        Ok(Self {
            role: Rc::new(role),
            options,
            program: launch::program_on_disk()?,
            machine: Machine::new(),
            inputs,
            input,
            table: SocketTable::default(),
            adopted: None,
            first: None,
            candidate: None,
            next_generation: FIRST_GENERATION,
            links: HashMap::new(),
            requests: HashMap::new(),
            next_request: 1,
            control: Vec::new(),
            gate: Rc::default(),
            timers: HashMap::new(),
            notifier: Notifier::from_environment(),
            news: Vec::new(),
            legacy: None,
            exec: None,
            started,
            exit: None,
            successor: false,
        })
    }

    /// Runs until the end. Returns the exit code.
    pub(crate) async fn run(mut self) -> io::Result<i32> {
        let mut caught = signals::listen(signals::MASTER)?;
        let input = self.input.clone();
        tokio::task::spawn_local(async move {
            while let Some(signal) = caught.recv().await {
                if input.send(Input::Signal(signal)).is_err() {
                    break;
                }
            }
        });
        if let Err(text) = privileges::set_descriptor_limit(None) {
            log::warning!("{text}");
        }
        if self.successor {
            // The program before this one may not have known how.
            self.introduce();
        } else {
            self.open_control()?;
        }
        self.serve_control()?;
        self.tell(Event::Start);
        // Workers of a predecessor may have ended meanwhile.
        self.reap();
        while self.exit.is_none() {
            let input = match self.exec.take() {
                None => self.inputs.recv().await,
                Some(requests) => match self.inputs.try_recv() {
                    Ok(input) => {
                        self.exec = Some(requests);
                        Some(input)
                    }
                    Err(_) => self.execute(requests).await,
                },
            };
            let Some(input) = input else { break };
            self.take(input);
        }
        self.take_leave();
        Ok(self.exit.unwrap_or(0))
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Event(event) => {
                if let Event::Timer(timer) = &event {
                    self.timers.remove(timer);
                }
                self.tell(event);
            }
            Input::Signal(signal) => self.signal(signal),
            Input::Asked(asked) => self.asked(asked),
            Input::Said(worker, said, descriptors) => self.said(worker, said, descriptors),
            Input::Checked(checked) => self.checked(checked),
        }
    }

    /// Tells the machine, does what it says, and tells it what came of that.
    fn tell(&mut self, event: Event) {
        let mut events = std::collections::VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            for action in self.machine.handle(now(), event) {
                self.perform(action);
            }
            events.extend(self.news.drain(..));
        }
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Prepare => match self.first.take() {
                Some(plan) => {
                    let event = self.prepare(plan);
                    self.news.push(event);
                }
                None => self.check(),
            },
            Action::Spawn { worker, generation } => match self.spawn(worker, generation) {
                Ok(pid) => self.news.push(Event::Spawned { worker, pid }),
                Err(error) => self.news.push(Event::SpawnFailed { worker, text: error.to_string() }),
            },
            Action::Load { worker, generation } => {
                if let Err(error) = self.load(worker, generation) {
                    self.news.push(Event::Refused { worker, generation, text: error.to_string() });
                }
            }
            Action::Adopt { generation } => self.adopt(generation),
            Action::Discard { .. } => {
                if let Some(candidate) = self.candidate.take() {
                    self.table.remove(&candidate.added);
                    self.table.forget_unused_specs();
                    self.forget_unused_keys();
                }
            }
            Action::TellDrain { worker, reason } => self.tell_drain(worker, reason),
            Action::StartProgram { program, generation, index } => {
                self.news.push(match self.start_program(generation, index) {
                    Ok(pid) => Event::ProgramSpawned { program, pid },
                    Err(error) => Event::ProgramNotSpawned { program, text: error.to_string() },
                });
            }
            Action::Kill { pid, signal } => kill(pid, signal),
            Action::Probe => self.probe(),
            Action::Exec { requests } => self.exec = Some(requests),
            Action::Answer { requests, result } => {
                let reply = Reply::from_result(result);
                for request in requests {
                    if let Some(client) = self.requests.remove(&request) {
                        control::answer(client, &reply);
                    }
                }
            }
            Action::CloseSockets => {
                let keys = self.table.keys();
                self.table.remove(&keys);
            }
            Action::Notify(Notice::Ready) => {
                self.notifier.ready(&self.describe());
                self.ready();
            }
            Action::Notify(Notice::Reloading) => self.notifier.reloading(),
            Action::Notify(Notice::Stopping) => {
                self.exec = None;
                self.gate.open();
                self.notifier.stopping();
            }
            Action::SetTimer { timer, after } => {
                let input = self.input.clone();
                let task = tokio::task::spawn_local(async move {
                    tokio::time::sleep(after).await;
                    let _ = input.send(Input::Event(Event::Timer(timer)));
                });
                if let Some(former) = self.timers.insert(timer, task.abort_handle()) {
                    former.abort();
                }
            }
            Action::Log(level, text) => log::write(level, format_args!("{text}")),
            Action::Exit { code } => self.exit = Some(code),
        }
    }

    fn describe(&self) -> String {
        let memory = self.machine.memory();
        format!("serving generation {}, {} reloads", memory.generation, memory.reloads)
    }

    /// The first time that it serves: those who wait for that are told.
    fn ready(&mut self) {
        if let Some(old) = self.options.old_processes.take() {
            old.end();
        }
        self.greet();
        self.started.serving();
        footprint::forget_the_start();
    }

    // Configurations

    /// Has the configuration checked.
    fn check(&self) {
        let reason = if self.adopted.is_none() { CheckReason::Start } else { CheckReason::Reload };
        let question = Question { reason, generation: self.next_generation };
        let input = self.input.clone();
        tokio::task::spawn_local(async move {
            let _ = input.send(Input::Checked(check::ask(&question).await));
        });
    }

    fn checked(&mut self, checked: Result<PlanFile, String>) {
        // Meanwhile it may have been told to end.
        if self.machine.is_preparing() {
            let event = match checked {
                Ok(plan) => self.prepare(plan),
                Err(text) => Event::PrepareFailed { text },
            };
            self.tell(event);
        }
    }

    fn prepare(&mut self, plan: PlanFile) -> Event {
        let generation = plan.header.generation;
        let list = plan.header.programs.list.iter();
        let programs = list
            .map(|spec| PlannedProgram { name: spec.name.clone(), start_on_reload: spec.start_on_reload })
            .collect();
        match self.bind(plan) {
            Ok(replace) => Event::Prepared { generation, replace, programs },
            Err(text) => Event::PrepareFailed { text },
        }
    }

    /// Binds what a configuration needs. Returns whether it needs another worker.
    fn bind(&mut self, plan: PlanFile) -> Result<bool, String> {
        let first = self.adopted.is_none();
        let mut inherited = Inherited::default();
        let source = self.options.take_sockets_from.take().filter(|_| first);
        let inherits = source.is_some();
        if let Some(path) = source {
            match Inherited::from_process(&path) {
                Ok(sockets) => inherited = sockets,
                Err(text) => log::alert!("{text}"),
            }
        }
        let old_processes = self.options.old_processes.as_ref().filter(|_| first);
        let header = &plan.header;
        let prepared = old::prepare(&self.table, &header.listeners, header.workers, old_processes, &mut inherited)
            .map_err(|error| old::describe(&error))?;
        let added = self.table.commit(prepared).map_err(|error| error.to_string())?;
        if first && let Err(text) = self.started.write_pidfile() {
            self.table.remove(&added);
            return Err(text);
        }
        if !first || self.options.old_processes.is_none() && !inherits {
            self.warn_of_neighbours(&plan.header.listeners, &added);
        }
        self.next_generation += 1;
        let replace = self.adopted.as_ref().is_some_and(|adopted| {
            let mut settings = adopted.header.settings.clone();
            // This one can change while a worker lives.
            settings.hard_stop_after = plan.header.settings.hard_stop_after;
            settings != plan.header.settings
        });
        self.candidate = Some(Candidate { plan, added });
        Ok(replace)
    }

    fn adopt(&mut self, generation: Generation) {
        let Some(candidate) = self.candidate.take_if(|candidate| candidate.plan.header.generation == generation) else {
            return;
        };
        let unused = self.table.unused(&candidate.plan.header.listeners);
        self.table.remove(&unused);
        self.table.forget_unused_specs();
        self.machine.set_hard_stop_after(candidate.plan.header.settings.hard_stop_after);
        self.machine.set_exit_on_failure(!candidate.plan.header.programs.may_fail);
        self.adopted = Some(candidate.plan);
        self.forget_unused_keys();
        self.introduce();
    }

    /// The current worker closes what it does not use; former ones drain and are not sent anything any more.
    fn forget_unused_keys(&mut self) {
        let held: BTreeSet<SocketKey> = self.table.keys().into_iter().collect();
        if let Some(link) = self.machine.memory().current.and_then(|current| self.links.get_mut(&current)) {
            link.keys.retain(|key| held.contains(key));
        }
    }

    fn plan(&self, generation: Generation) -> io::Result<&PlanFile> {
        let candidate = self.candidate.as_ref().map(|candidate| &candidate.plan);
        [candidate, self.adopted.as_ref()]
            .into_iter()
            .flatten()
            .find(|plan| plan.header.generation == generation)
            .ok_or_else(|| io::Error::other(format!("there is no configuration {generation}")))
    }

    fn start_program(&self, generation: Generation, index: usize) -> io::Result<u32> {
        let programs = &self.plan(generation)?.header.programs;
        let spec = programs.list.get(index).ok_or(io::ErrorKind::NotFound)?;
        launch::start_program(spec, &programs.environment)
    }

    // Workers

    fn spawn(&mut self, worker: WorkerId, generation: Generation) -> io::Result<u32> {
        let (child, socket) = launch::start(launch::running_program(), "worker")?;
        let pid = child.id();
        self.link(worker, pid, socket, BTreeSet::new())?;
        self.load(worker, generation)?;
        Ok(pid)
    }

    /// Begins to listen to a worker.
    fn link(&mut self, worker: WorkerId, pid: u32, socket: OwnedFd, keys: BTreeSet<SocketKey>) -> io::Result<()> {
        let channel = Rc::new(Channel::new(socket)?);
        let (input, reading) = (self.input.clone(), Rc::clone(&channel));
        let reader = tokio::task::spawn_local(async move {
            loop {
                match reading.receive::<FromWorker>().await {
                    Ok(Some((said, descriptors))) => {
                        if input.send(Input::Said(worker, said, descriptors)).is_err() {
                            return;
                        }
                    }
                    // Its end is noticed as that of a child process.
                    Ok(None) => return,
                    Err(error) => return log::alert!("worker ({pid}): {error}"),
                }
            }
        })
        .abort_handle();
        self.links.insert(worker, Link { pid, channel, keys, reader });
        Ok(())
    }

    /// Sends a configuration, and before it those of its sockets that the worker lacks.
    fn load(&mut self, worker: WorkerId, generation: Generation) -> io::Result<()> {
        let file: Arc<dyn Descriptor> = Arc::new(self.plan(generation)?.file.try_clone()?);
        let link = self.links.get(&worker).ok_or_else(|| io::Error::other("the worker is gone"))?;
        let missing: Vec<_> = self.table.iter().filter(|(key, _)| !link.keys.contains(key)).collect();
        for chunk in missing.chunks(KEYS_MAX) {
            let keys = chunk.iter().map(|(key, _)| (*key).clone()).collect();
            let sockets = chunk.iter().map(|(_, socket)| Arc::clone(socket) as Arc<dyn Descriptor>).collect();
            link.channel.post(Outgoing::new(&ToWorker::Sockets { keys }, sockets)?)?;
        }
        let keys: Vec<SocketKey> = missing.into_iter().map(|(key, _)| key.clone()).collect();
        link.channel.post(Outgoing::new(&ToWorker::Load { generation }, vec![file])?)?;
        self.flush(worker);
        if let Some(link) = self.links.get_mut(&worker) {
            link.keys.extend(keys);
        }
        Ok(())
    }

    /// Has what does not fit into the channel sent when it does.
    fn flush(&self, worker: WorkerId) {
        let Some(channel) = self.links.get(&worker).map(|link| Rc::clone(&link.channel)) else { return };
        if channel.has_queue() {
            tokio::task::spawn_local(async move {
                // A worker that is gone is noticed otherwise.
                let _ = channel.flush().await;
            });
        }
    }

    fn tell_drain(&mut self, worker: WorkerId, reason: DrainReason) {
        let Some(link) = self.links.get(&worker) else { return };
        let kept: BTreeSet<SocketKey> = self.table.keys().into_iter().collect();
        let retired: Vec<SocketKey> = link.keys.iter().filter(|key| !kept.contains(key)).cloned().collect();
        let mut messages: Vec<ToWorker> =
            retired.chunks(KEYS_MAX).map(|keys| ToWorker::Retire { keys: keys.to_vec() }).collect();
        messages.push(ToWorker::Drain { reason });
        for message in messages {
            let sent = Outgoing::new(&message, Vec::new()).and_then(|outgoing| link.channel.post(outgoing));
            if let Err(error) = sent {
                log::warning!("cannot tell worker ({}) to end: {error}", link.pid);
            }
        }
        self.flush(worker);
    }

    fn said(&mut self, worker: WorkerId, said: FromWorker, descriptors: Vec<OwnedFd>) {
        self.tell(match said {
            FromWorker::Ready { generation } => Event::Ready { worker, generation },
            FromWorker::Legacy => {
                self.legacy = descriptors.into_iter().next();
                return self.bequeath(Some(worker));
            }
            FromWorker::Refused { generation, text } => Event::Refused { worker, generation, text },
            FromWorker::Closed => Event::Closed { worker },
            FromWorker::Drains => Event::DrainsAlready { worker },
        });
        self.bequeath(None);
    }

    /// Gives what a former worker left to the one that serves, once there is one other than `from`.
    fn bequeath(&mut self, from: Option<WorkerId>) {
        if self.legacy.is_none() {
            return;
        }
        let memory = self.machine.memory();
        let mut workers = memory.workers.iter();
        let current = workers.find(|worker| Some(worker.id) == memory.current && worker.state == WorkerState::Serving);
        let Some(heir) = current.map(|worker| worker.id).filter(|id| Some(*id) != from) else { return };
        let (Some(link), Some(legacy)) = (self.links.get(&heir), self.legacy.take()) else { return };
        let file: Arc<dyn Descriptor> = Arc::new(legacy);
        let sent = Outgoing::new(&ToWorker::Inherit, vec![file]).and_then(|outgoing| link.channel.post(outgoing));
        if let Err(error) = sent {
            log::warning!("cannot hand over to worker ({}): {error}", link.pid);
        }
        self.flush(heir);
    }

    /// Takes note of child processes that ended.
    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = waitpid(None, WaitOptions::NOHANG) {
            let Some(status) = ended(status) else { continue };
            let pid = pid.as_raw_pid().unsigned_abs();
            let worker = self.links.iter().find(|(_, link)| link.pid == pid).map(|(worker, _)| *worker);
            let Some(worker) = worker else {
                self.tell(Event::ProgramExited { pid, status });
                continue;
            };
            // What it said before it ended comes first.
            let mut said = Vec::new();
            if let Some(link) = self.links.get(&worker) {
                while let Ok(Some(message)) = link.channel.try_receive::<FromWorker>() {
                    said.push(message);
                }
            }
            self.take_queued(worker);
            for (message, descriptors) in said {
                self.said(worker, message, descriptors);
            }
            self.links.remove(&worker);
            self.tell(Event::Exited { worker, status });
        }
    }

    /// Handles what a worker has said and its reader has put into the queue, leaving the rest there in order.
    fn take_queued(&mut self, worker: WorkerId) {
        let mut rest = Vec::new();
        let mut said = Vec::new();
        while let Ok(input) = self.inputs.try_recv() {
            match input {
                Input::Said(from, message, descriptors) if from == worker => said.push((message, descriptors)),
                other => rest.push(other),
            }
        }
        for input in rest {
            let _ = self.input.send(input);
        }
        for (message, descriptors) in said {
            self.said(worker, message, descriptors);
        }
    }

    // Signals and commands

    fn signal(&mut self, signal: Caught) {
        match signal {
            Caught::HangUp => self.tell(Event::Reload { request: None }),
            Caught::User2 if launch::is_other_program(&self.program) => self.tell(Event::Upgrade { request: None }),
            Caught::User2 => self.tell(Event::Reload { request: None }),
            Caught::User1 => self.tell(Event::Drain),
            Caught::End(signal) => self.tell(Event::Stop { signal }),
            Caught::Child => self.reap(),
            Caught::Quit => signals::log_memory(),
            Caught::Alarm => {}
            Caught::Pause => self.kill_all(Signal::TTOU),
            Caught::Resume => self.kill_all(Signal::TTIN),
        }
    }

    fn kill_all(&self, signal: Signal) {
        for link in self.links.values() {
            kill(link.pid, signal.as_raw());
        }
    }

    fn status(&self) -> MasterStatus {
        self.machine.status(std::process::id(), now())
    }
}

fn ended(status: WaitStatus) -> Option<Status> {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Some(Status::Code(code)),
        (None, Some(signal)) => Some(Status::Signal(signal)),
        (None, None) => None,
    }
}

fn kill(pid: u32, signal: i32) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let (Some(pid), Some(signal)) = (pid, Signal::from_named_raw(signal)) {
        // One that has ended already is reaped soon.
        let _ = kill_process(pid, signal);
    }
}
