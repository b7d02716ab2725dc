//! The replacement of a master's program: the probe, what is left to the successor, and taking over.

use super::{Channel, Control, Input, Master};
use crate::log;
use crate::process::channel::{Descriptor, Outgoing};
use crate::process::handoff::{KeptOpen, State, VERSION, WorkerHandoff};
use crate::process::launch;
use crate::process::machine::{Event, Machine, RequestId};
use crate::process::message::PlanFile;
use crate::process::now;
use crate::process::role::Role;
use crate::process::signals;
use crate::system::take_inherited;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How long a probe may think.
const PROBE_TIME_MAX: Duration = Duration::from_secs(60);

/// How long a replacement waits for clients of the control sockets that have not said what they want.
const CLIENTS_TIME_MAX: Duration = Duration::from_secs(1);

/// What a master asks a probe: here is my state, could you go on from it?
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Question;

/// What a probe answers.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Verdict {
    /// Why not; nothing if it could.
    pub(crate) refusal: Option<String>,
}

impl<R: Role> Master<R> {
    /// Starts the new program as a probe; its verdict comes in as an event.
    pub(super) fn probe(&mut self) {
        let state = self.state(&[]).and_then(|state| state.write());
        let program = self.program.clone();
        let input = self.input.clone();
        tokio::task::spawn_local(async move {
            let event = match probe(program, state).await {
                Ok(Verdict { refusal: None }) => Event::ProbePassed,
                Ok(Verdict { refusal: Some(text) }) => Event::ProbeFailed { text },
                Err(error) => Event::ProbeFailed { text: format!("the new program cannot take over: {error}") },
            };
            let _ = input.send(Input::Event(event));
        });
    }

    fn state(&self, requests: &[RequestId]) -> io::Result<State> {
        let control = self.control.iter();
        let asked = requests.iter().filter_map(|request| self.requests.get_key_value(request));
        Ok(State {
            version: VERSION,
            memory: self.machine.memory().clone(),
            next_generation: self.next_generation,
            next_request: self.next_request,
            plan: self.adopted.as_ref().map(|plan| plan.file.as_raw_fd()),
            sockets: self.table.iter().map(|(key, socket)| (key.clone(), socket.as_fd().as_raw_fd())).collect(),
            workers: self
                .links
                .iter()
                .map(|(id, link)| WorkerHandoff {
                    id: *id,
                    pid: link.pid,
                    channel: link.channel.descriptor().as_raw_fd(),
                    keys: link.keys.iter().cloned().collect(),
                })
                .collect(),
            control: control.clone().map(|control| (control.socket.as_raw_fd(), control.open_to_all)).collect(),
            control_names: control.map(|control| control.name.clone()).collect(),
            requests: asked.map(|(request, client)| (*request, client.as_raw_fd())).collect(),
        })
    }

    /// Becomes the new program. Returns only if that does not come to pass, with what is to be handled then.
    pub(super) async fn execute(&mut self, requests: Vec<RequestId>) -> Option<Input> {
        // Who has been let in is heard; who comes now waits for the successor.
        self.gate.close();
        let end = now() + CLIENTS_TIME_MAX;
        while !self.gate.is_empty() && now() < end {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // From here to the successor's own handlers signals wait in the kernel. Those that came before are handled
        // first: the pause lets the runtime see them.
        let held = signals::hold_back();
        tokio::time::sleep(Duration::from_millis(1)).await;
        let input = if let Ok(input) = self.inputs.try_recv() {
            self.exec = Some(requests);
            input
        } else {
            let error = match held.and_then(|()| self.replace(&requests)) {
                Ok(error) | Err(error) => error,
            };
            self.gate.open();
            let text = format!("cannot start {}: {error}", self.program.display());
            Input::Event(Event::ExecFailed { text })
        };
        let _ = signals::let_through();
        Some(input)
    }

    fn replace(&self, requests: &[RequestId]) -> io::Result<io::Error> {
        let state = self.state(requests)?;
        let file = state.write()?;
        let mut kept: Vec<BorrowedFd<'_>> = vec![file.as_fd()];
        kept.extend(self.table.iter().map(|(_, socket)| socket.as_fd()));
        kept.extend(self.links.values().map(|link| link.channel.descriptor()));
        kept.extend(self.adopted.iter().map(|plan| plan.file.as_fd()));
        kept.extend(self.control.iter().map(|control| control.socket.as_fd()));
        kept.extend(requests.iter().filter_map(|request| self.requests.get(request)).map(|client| client.as_fd()));
        let _kept = KeptOpen::new(kept)?;
        Ok(launch::replace_by(&self.program, "successor", file.as_raw_fd()))
    }

    /// Takes what the predecessor left.
    pub(super) fn take_over(&mut self, state: State) -> io::Result<()> {
        for (key, number) in state.sockets {
            self.table.insert(key, take_inherited(number)?);
        }
        if let Some(number) = state.plan {
            let plan = PlanFile::open(take_inherited(number)?)?;
            self.table.set_specs(&plan.header.listeners);
            self.adopted = Some(plan);
        }
        for worker in state.workers {
            let keys = worker.keys.into_iter().collect();
            self.link(worker.id, worker.pid, take_inherited(worker.channel)?, keys)?;
        }
        let mut names = state.control_names.into_iter();
        for (number, open_to_all) in state.control {
            let name = names.next().unwrap_or_default();
            self.control.push(Control { name, socket: take_inherited(number)?, open_to_all });
        }
        let mut requests = Vec::new();
        for (request, number) in state.requests {
            self.requests.insert(request, take_inherited(number)?);
            requests.push(request);
        }
        // What the arguments say about the first start has been done.
        self.options.old_processes = None;
        self.options.take_sockets_from = None;
        self.next_generation = state.next_generation;
        self.next_request = state.next_request;
        self.machine = Machine::resume(state.memory, requests);
        if let Some(plan) = &self.adopted {
            self.machine.set_hard_stop_after(plan.header.settings.hard_stop_after);
            self.machine.set_exit_on_failure(!plan.header.programs.may_fail);
        }
        log::notice!("The program has been replaced");
        Ok(())
    }
}

async fn probe(program: PathBuf, state: io::Result<OwnedFd>) -> io::Result<Verdict> {
    let state: Arc<dyn Descriptor> = Arc::new(state?);
    let (mut child, socket) = launch::start(&program, "probe")?;
    let channel = Channel::new(socket)?;
    let asked = channel.post(Outgoing::new(&Question, vec![state])?);
    let verdict = match asked {
        // A program that has ended already has not listened, which the end of its stream says as well.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Ok(Err(error)),
        _ => tokio::time::timeout(PROBE_TIME_MAX, channel.receive::<Verdict>()).await,
    };
    match verdict {
        Ok(Ok(Some((verdict, _)))) => Ok(verdict),
        Ok(Ok(None)) => Err(io::Error::other("it ended without an answer")),
        Ok(Err(error)) => Err(error),
        Err(_) => {
            // It is alive, so its number is still its own.
            let _ = child.kill();
            Err(io::Error::other("it did not answer in time"))
        }
    }
}

/// The other side: answers whether this program could take over.
pub(crate) async fn answer_probe<R: Role>(mut role: R, socket: OwnedFd) -> io::Result<i32> {
    let channel = Channel::new(socket)?;
    let Some((Question, descriptors)) = channel.receive::<Question>().await? else { return Ok(1) };
    let refusal = match descriptors.first().map(State::read) {
        Some(Ok(_)) => crate::process::caught_check(&mut role, crate::process::CheckReason::Probe).err(),
        Some(Err(error)) => Some(error.to_string()),
        None => Some("no state came with the question".to_owned()),
    };
    let refusal = refusal.map(crate::process::channel::cut);
    channel.post(Outgoing::new(&Verdict { refusal }, Vec::new())?)?;
    channel.flush().await?;
    Ok(0)
}
