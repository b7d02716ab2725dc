//! The manager: programs, parameters and the worker, as commands change them.

use std::{
    os::unix::process::ExitStatusExt as _,
    path::PathBuf,
    process::ExitStatus,
    sync::Arc,
    time::{Duration, Instant},
};

use varnishcli::{ChildState, Failure, Param, Parameters, Status, VclState};
use vsm::{
    Publisher, WorkingDirectory,
    counters::{Counters, Mgt},
};

use super::{
    Shared,
    programs::{self, Entry, Program, Surroundings, Text},
    rights,
    worker::Worker,
};
use crate::{
    Frontend, configuration,
    orders::{Answer, Begin, Order, Patience, ProgramState},
};

/// How long a worker may take to begin.
const BEGIN_TIME: Duration = Duration::from_secs(60);
/// Bits of the exit code: what became of workers (as varnishd has them).
const ENDED_BADLY: i32 = 0x20;
const ENDED_BY_SIGNAL: i32 = 0x40;
const LEFT_A_CORE: i32 = 0x80;

/// The manager.
pub struct Manager {
    /// Itself, for threads that outlive a call.
    pub(super) shared: Option<Shared>,
    pub(super) directory: WorkingDirectory,
    /// What it publishes: where it listens, and its counters.
    pub(super) publisher: Option<Publisher>,
    pub(super) counters: Option<Arc<Counters<Mgt>>>,
    pub(super) secret: Option<PathBuf>,
    pub(super) frontend: Frontend,
    pub(super) identity: Vec<String>,
    pub(super) parameters: Parameters,
    pub(super) entries: Vec<Entry>,
    pub(super) active: Option<String>,
    pub(super) worker: Option<Worker>,
    pub(super) state: ChildState,
    pub(super) panic: Option<String>,
    /// What the process ends with.
    pub(super) exit_code: i32,
}

impl Manager {
    /// Whether clients have to know a secret.
    pub(super) fn has_secret(&self) -> bool {
        self.secret.is_some()
    }

    pub(super) fn program(&self, name: &str) -> Option<&Program> {
        self.entries.iter().find_map(|entry| match entry {
            Entry::Program(program) if program.name == name => Some(&**program),
            _ => None,
        })
    }

    pub(super) fn program_mut(&mut self, name: &str) -> Option<&mut Program> {
        self.entries.iter_mut().find_map(|entry| match entry {
            Entry::Program(program) if program.name == name => Some(&mut **program),
            _ => None,
        })
    }

    /// The program that a name means, by a label too.
    pub(super) fn resolve(&self, name: &str) -> String {
        let target = self.entries.iter().find_map(|entry| match entry {
            Entry::Label { name: label, target } if label == name => Some(target.clone()),
            _ => None,
        });
        target.unwrap_or_else(|| name.to_owned())
    }

    fn storage_names(&self) -> Vec<String> {
        let name = |(place, storage): (usize, &String)| match storage.split_once('=') {
            Some((name, _)) => name.to_owned(),
            None => format!("s{place}"),
        };
        let mut names: Vec<String> = self.frontend.storages.iter().enumerate().map(name).collect();
        if names.is_empty() {
            names.push("s0".to_owned());
        }
        if !names.iter().any(|name| name == "Transient") {
            names.push("Transient".to_owned());
        }
        names
    }

    /// Storages with their kinds.
    pub(super) fn storage_list(&self) -> Vec<(String, String)> {
        let kind = |name: &str| {
            let said = self.frontend.storages.iter().find_map(|storage| {
                let (own, rest) = storage.split_once('=').unwrap_or(("", storage));
                (own == name).then(|| rest.split(',').next().unwrap_or_default().to_owned())
            });
            said.unwrap_or_else(|| "malloc".to_owned())
        };
        self.storage_names().into_iter().map(|name| (name.clone(), kind(&name))).collect()
    }

    /// Compiles a program.
    pub(super) fn compile(&self, name: &str, text: &Text) -> Result<Program, Failure> {
        let labels = self.entries.iter().filter_map(|entry| match entry {
            Entry::Label { name, .. } => Some(name.clone()),
            Entry::Program(_) => None,
        });
        let around = Surroundings {
            vcl_path: self.parameters.string(Param::vcl_path).to_owned(),
            takes_paths: self.parameters.is_on(Param::vcc_unsafe_path),
            storages: self.storage_names(),
            labels: labels.collect(),
            unused_is_error: self.parameters.is_on(Param::vcc_err_unref),
        };
        // NOTE: nothing is read to somebody who has the secret that the user of `-j` may not read.
        rights::as_user(self.frontend.becomes, || programs::compile(name, text, around))
            .map_err(|error| Failure::cannot(format!("The manager cannot become the user of -j: {error}")))?
    }

    /// Compiles a program and has the worker load it.
    pub(super) fn load(&mut self, name: &str, text: &Text, state: VclState) -> Result<(), Failure> {
        let mut program = self.compile(name, text)?;
        program.state = state;
        program.is_warm = state != VclState::Cold;
        program.idle_since = Some(Instant::now());
        if self.worker.is_some() {
            self.ask(&self.order_to_load(&program))?;
        }
        self.entries.push(Entry::Program(Box::new(program)));
        Ok(())
    }

    fn order_to_load(&self, program: &Program) -> Order {
        Order::Load {
            name: program.name.clone(),
            source: Box::new(program.source.clone()),
            patience: Patience {
                connect: self.parameters.number(Param::connect_timeout),
                first_byte: self.parameters.number(Param::first_byte_timeout),
            },
            is_warm: program.is_warm,
        }
    }

    /// Asks the worker.
    pub(super) fn ask(&mut self, order: &Order) -> Result<Answer, Failure> {
        let patience = Duration::from_secs_f64(self.parameters.number(Param::cli_timeout).max(1.0));
        let Some(worker) = &mut self.worker else {
            let text = "Unknown request in manager process (child not running).\nType 'help' for more info.\n";
            return Err(Failure { status: Status::Unknown, text: text.to_owned() });
        };
        match worker.ask(order, patience) {
            Ok(Answer::Failed(failure)) => Err(failure),
            Ok(answer) => Ok(answer),
            Err(error) => {
                // NOTE: whether it hangs or is gone: what it would answer now could be the answer to something else.
                worker.kill();
                let text = format!("CLI communication error ({error})");
                Err(Failure { status: Status::Communication, text })
            }
        }
    }

    /// How the programs fare in the worker.
    pub(super) fn program_states(&mut self) -> Vec<ProgramState> {
        match self.worker.is_some().then(|| self.ask(&Order::Programs)) {
            Some(Ok(Answer::Programs(states))) => states,
            _ => Vec::new(),
        }
    }

    /// Starts a worker.
    pub(super) fn launch(&mut self) -> Result<(), String> {
        self.state = ChildState::Starting;
        self.give_worker_its_folder()?;
        let shared = self.shared.clone();
        let started = Worker::start(move |pid, status| {
            if let Some(shared) = shared {
                shared.lock().worker_ended(pid, status);
            }
        });
        let mut worker = match started {
            Ok(worker) => worker,
            Err(error) => {
                self.state = ChildState::Stopped;
                return Err(format!("the worker cannot be started: {error}"));
            }
        };
        let begin =
            Begin { configuration: configuration(&self.frontend, &self.parameters), orders: self.orders_to_begin() };
        let answer = worker.begin(&begin, BEGIN_TIME);
        let why = match answer {
            Ok(Answer::Failed(failure)) => failure.text,
            Ok(_) => {
                eprintln!("Child launched OK ({})", worker.pid);
                self.count(Mgt::child_start);
                self.worker = Some(worker);
                self.state = ChildState::Running;
                return Ok(());
            }
            Err(_) => worker.said(),
        };
        worker.kill();
        if let Some(status) = worker.end() {
            self.note_end(status);
        }
        self.state = ChildState::Stopped;
        Err(why)
    }

    fn orders_to_begin(&self) -> Vec<Order> {
        let changed = Parameters::names().filter(|name| !self.parameters.is_default(name));
        let set = |name: &str| Order::Set { name: name.to_owned(), value: self.parameters.text(name) };
        let mut orders: Vec<Order> = changed.map(set).collect();
        for entry in &self.entries {
            orders.push(match entry {
                Entry::Program(program) => self.order_to_load(program),
                Entry::Label { name, target } => Order::Label { label: name.clone(), name: target.clone() },
            });
        }
        orders.extend(self.active.clone().map(Order::Use));
        orders
    }

    /// Ends the worker.
    pub(super) fn stop_worker(&mut self) {
        let Some(worker) = self.worker.take() else { return };
        self.state = ChildState::Stopping;
        eprintln!("Stopping Child");
        if let Some(status) = worker.end() {
            self.note_end(status);
        }
        self.clear_worker_memory();
        self.state = ChildState::Stopped;
    }

    /// A worker has ended by itself.
    fn worker_ended(&mut self, pid: u32, status: ExitStatus) {
        let Some(worker) = self.worker.take_if(|worker| worker.pid == pid) else { return };
        self.state = ChildState::Died;
        self.note_end(status);
        if !status.success() {
            let said = worker.said();
            self.panic = Some(format!("Child ({pid}) ended: {status}\n{}", said.trim_end()));
        }
        eprintln!("Child ({pid}) ended: {status}");
        drop(worker);
        self.clear_worker_memory();
        if !self.parameters.is_on(Param::auto_restart) {
            self.state = ChildState::Stopped;
            return;
        }
        if let Err(why) = self.launch() {
            eprintln!("Child does not start again: {why}");
        }
    }

    fn count(&self, counter: Mgt) {
        if let Some(counters) = &self.counters {
            counters.add(counter, 1);
        }
    }

    fn note_end(&mut self, status: ExitStatus) {
        self.count(match status.signal() {
            Some(_) => Mgt::child_died,
            None if self.state == ChildState::Stopping => Mgt::child_exit,
            None => Mgt::child_stop,
        });
        if status.core_dumped() {
            self.count(Mgt::child_dump);
        }
        if status.code().is_some_and(|code| code != 0) {
            self.exit_code |= ENDED_BADLY;
        }
        if status.signal().is_some() {
            self.exit_code |= ENDED_BY_SIGNAL;
        }
        if status.core_dumped() {
            self.exit_code |= LEFT_A_CORE;
        }
    }

    /// Makes the folder where the worker publishes; it could not, as whom it becomes.
    fn give_worker_its_folder(&self) -> Result<(), String> {
        let folder = self.directory.path().join(vsm::WORKER_FOLDER);
        self.frontend.becomes.map_or(Ok(()), |owner| rights::give_folder(&folder, owner))
    }

    /// What a worker published is nobody's any more.
    pub(super) fn clear_worker_memory(&self) {
        // Readers that see it would believe that it runs. It is only memory: nothing is lost if it stays.
        let _ = std::fs::remove_dir_all(self.directory.path().join(vsm::WORKER_FOLDER));
    }
}
