//! What commands do.

use std::time::{Duration, Instant};

use varnishcli::{
    AdminHealth, BackendEntry, BanEntry, ChildState, Failure, Instance, Outcome, Param, Parameters, Pids, VclEntry,
    VclKind, VclSource, VclState,
};

use super::{
    programs::{Entry, INLINE, Text},
    state::Manager,
};
use crate::{
    Place,
    orders::{Answer, Order, ProgramState},
};

fn unexpected() -> Failure {
    Failure::cannot("the worker's answer is about something else")
}

impl Manager {
    /// A worker is told what programs it checks the backends of, as these come and go.
    fn settle_temperatures(&mut self, states: &[ProgramState]) {
        let cooldown = Duration::from_secs_f64(self.parameters.number(Param::vcl_cooldown).max(0.0));
        let needed: Vec<String> = self
            .active
            .iter()
            .map(|active| self.resolve(active))
            .chain(self.entries.iter().filter_map(|entry| match entry {
                Entry::Label { target, .. } => Some(target.clone()),
                Entry::Program(_) => None,
            }))
            .collect();
        let mut changes = Vec::new();
        for entry in &mut self.entries {
            let Entry::Program(program) = entry else { continue };
            let is_needed = needed.contains(&program.name);
            let is_busy = states.iter().any(|state| state.name == program.name && state.busy > 0);
            program.idle_since = match (is_needed, program.idle_since) {
                (true, _) => None,
                (false, since) => Some(since.unwrap_or_else(Instant::now)),
            };
            let has_cooled = program.idle_since.is_some_and(|since| since.elapsed() >= cooldown);
            let is_warm = match program.state {
                VclState::Warm => true,
                VclState::Cold => is_busy,
                VclState::Auto => is_needed || is_busy || !has_cooled,
            };
            if is_warm != program.is_warm {
                program.is_warm = is_warm;
                changes.push((program.name.clone(), is_warm));
            }
        }
        if self.worker.is_some() {
            for (name, is_warm) in changes {
                // A worker that is gone has no backends to check.
                let _ = self.ask(&Order::Warm { name, is_warm });
            }
        }
    }

    fn entry(&self, entry: &Entry, states: &[ProgramState]) -> VclEntry {
        let busy_of = |name: &str| {
            states.iter().find(|state| state.name == name && !state.is_discarded).map_or(0, |state| state.busy)
        };
        let temperature = |name: &str| match self.program(name) {
            Some(program) if program.is_warm && program.state == VclState::Cold => "cooling",
            Some(program) if program.is_warm => "warm",
            _ => "cold",
        };
        let is_active = self.active.as_deref() == Some(entry.name());
        match entry {
            Entry::Program(program) => VclEntry {
                name: program.name.clone(),
                kind: VclKind::Program(program.state),
                temperature: temperature(&program.name),
                busy: self.worker.is_some().then(|| busy_of(&program.name)),
                is_active,
                is_discarded: false,
                uses: program.uses.clone(),
            },
            Entry::Label { name, target } => VclEntry {
                name: name.clone(),
                kind: VclKind::Label(target.clone()),
                temperature: temperature(target),
                busy: self.worker.is_some().then_some(0),
                is_active,
                is_discarded: false,
                uses: Vec::new(),
            },
        }
    }
}

impl Instance for Manager {
    fn secret(&mut self) -> Option<Vec<u8>> {
        std::fs::read(self.secret.as_ref()?).ok()
    }

    fn identity(&mut self) -> Vec<String> {
        self.identity.clone()
    }

    fn parameters(&mut self) -> &mut Parameters {
        &mut self.parameters
    }

    fn parameter_changed(&mut self, name: &str) {
        let order = Order::Set { name: name.to_owned(), value: self.parameters.text(name) };
        if self.worker.is_some() {
            // A worker that has gone is told when another one begins.
            let _ = self.ask(&order);
        }
    }

    fn vcls(&mut self) -> Vec<VclEntry> {
        let states = self.program_states();
        self.settle_temperatures(&states);
        let mut entries: Vec<VclEntry> = self.entries.iter().map(|entry| self.entry(entry, &states)).collect();
        entries.extend(states.iter().filter(|state| state.is_discarded).map(|state| VclEntry {
            name: state.name.clone(),
            kind: VclKind::Program(VclState::Cold),
            temperature: "busy",
            busy: Some(state.busy),
            is_active: false,
            is_discarded: true,
            uses: Vec::new(),
        }));
        entries
    }

    fn vcl_load(&mut self, name: &str, source: VclSource<'_>, state: VclState) -> Outcome {
        let text = match source {
            VclSource::File(path) => Text::File(path.to_owned()),
            VclSource::Text(text) => Text::Given(INLINE.to_owned(), text.to_owned()),
        };
        self.load(name, &text, state)?;
        Ok("VCL compiled.\n".to_owned())
    }

    fn vcl_use(&mut self, name: &str) -> Result<(), Failure> {
        let program = self.resolve(name);
        if let Some(program) = self.program_mut(&program)
            && program.state == VclState::Auto
            && !program.is_warm
        {
            program.is_warm = true;
            let order = Order::Warm { name: program.name.clone(), is_warm: true };
            if self.worker.is_some() {
                self.ask(&order)?;
            }
        }
        if self.worker.is_some() {
            self.ask(&Order::Use(name.to_owned()))?;
        }
        self.active = Some(name.to_owned());
        Ok(())
    }

    fn vcl_discard(&mut self, names: &[String]) -> Result<(), Failure> {
        for name in names {
            if self.worker.is_some() {
                self.ask(&Order::Discard(name.clone()))?;
            }
            self.entries.retain(|entry| entry.name() != name);
        }
        Ok(())
    }

    fn vcl_label(&mut self, label: &str, name: &str) -> Result<(), Failure> {
        if let Some(program) = self.program_mut(name)
            && !program.is_warm
        {
            program.is_warm = true;
            let order = Order::Warm { name: name.to_owned(), is_warm: true };
            if self.worker.is_some() {
                self.ask(&order)?;
            }
        }
        if self.worker.is_some() {
            self.ask(&Order::Label { label: label.to_owned(), name: name.to_owned() })?;
            if self.active.as_deref() == Some(label) {
                self.ask(&Order::Use(label.to_owned()))?;
            }
        }
        let known = self.entries.iter_mut().find_map(|entry| match entry {
            Entry::Label { name: known, target } if known == label => Some(target),
            _ => None,
        });
        match known {
            Some(target) => name.clone_into(target),
            None => self.entries.push(Entry::Label { name: label.to_owned(), target: name.to_owned() }),
        }
        Ok(())
    }

    fn vcl_state(&mut self, name: &str, state: VclState) -> Result<(), Failure> {
        let Some(program) = self.program_mut(name) else { return Ok(()) };
        program.state = state;
        if state == VclState::Auto && !program.is_warm {
            program.idle_since = Some(Instant::now());
        }
        let states = self.program_states();
        self.settle_temperatures(&states);
        Ok(())
    }

    fn vcl_files(&mut self, name: &str) -> Vec<(String, String)> {
        self.program(name).map(|program| program.files.clone()).unwrap_or_default()
    }

    fn ban(&mut self, words: &[String]) -> Result<(), Failure> {
        self.ask(&Order::Ban(words.to_vec())).map(drop)
    }

    fn bans(&mut self) -> Result<Vec<BanEntry>, Failure> {
        match self.ask(&Order::Bans)? {
            Answer::Bans(bans) => Ok(bans),
            _ => Err(unexpected()),
        }
    }

    fn backends(&mut self) -> Result<Vec<BackendEntry>, Failure> {
        match self.ask(&Order::Backends)? {
            Answer::Backends(backends) => Ok(backends),
            _ => Err(unexpected()),
        }
    }

    fn set_backend_health(&mut self, name: &str, health: AdminHealth) -> Result<(), Failure> {
        self.ask(&Order::SetHealth { name: name.to_owned(), health }).map(drop)
    }

    fn storages(&mut self) -> Vec<(String, String)> {
        self.storage_list()
    }

    fn state(&mut self) -> ChildState {
        self.state
    }

    fn start(&mut self) -> Outcome {
        self.launch().map(|()| String::new()).map_err(|why| Failure::cannot(format!("Child does not start:\n{why}")))
    }

    fn stop(&mut self) -> Outcome {
        self.stop_worker();
        Ok(String::new())
    }

    fn pids(&mut self) -> Pids {
        Pids { master: std::process::id(), worker: self.worker.as_ref().map(|worker| worker.pid) }
    }

    fn panic_text(&mut self) -> Option<String> {
        self.panic.clone()
    }

    fn clear_panic(&mut self, _counters: bool) {
        self.panic = None;
    }

    fn listeners(&mut self) -> Vec<(String, String, String)> {
        let line = |listen: &crate::Listen| {
            let (address, port) = match &listen.place {
                Place::Inet(address) => (address.ip().to_string(), address.port().to_string()),
                Place::Path { path, .. } => (path.clone(), "-".to_owned()),
            };
            (listen.name.clone(), address, port)
        };
        self.frontend.listen.iter().map(line).collect()
    }

    fn debug(&mut self, command: &str, arguments: &[String]) -> Option<Outcome> {
        match command {
            "debug.xid" => {
                let number = match arguments.first().map(|word| word.parse::<u64>()) {
                    Some(Ok(number)) => Some(number),
                    Some(Err(_)) => return Some(Err(Failure::parameter("Not a number"))),
                    None => None,
                };
                Some(self.ask(&Order::Xid(number)).map(|answer| match answer {
                    Answer::Done(text) => text,
                    _ => String::new(),
                }))
            }
            "debug.srandom" | "debug.fragfetch" | "debug.reqpool.fail" => {
                Some(Ok("Tidegate has no such thing: the command has no effect here".to_owned()))
            }
            "debug.panic.worker" => {
                let _ = self.ask(&Order::Panic);
                Some(Ok(String::new()))
            }
            "debug.panic.master" => std::process::abort(),
            _ => None,
        }
    }
}
