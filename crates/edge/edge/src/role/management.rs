//! A worker under a manager (varnishd's): programs that come and go at run time, on the control thread.
//!
//! The backends of each program are proxies of their own, made as the configuration's are but beside it: an [`Instance`] that no listener
//! leads to. It lasts as long as a request of its program runs; its checks run while the program is warm, on this thread.

use std::{
    collections::HashMap,
    os::{fd::OwnedFd, unix::net::UnixStream as StdUnixStream},
    sync::{Arc, Mutex, PoisonError, atomic::Ordering::Relaxed},
    time::{Duration, Instant, SystemTime},
};

use accelerator::settings::NotSet;
use balance::{CheckKind, OperationalState, ServerId};
use cache::bans::Expression;
use checks::{CheckBoard, Checks};
use haproxycfg::source::Bundle;
use live::{Accelerator, Instance, Place, Process, Running, Targets, Verdict, assemble::Assembly};
use telemetry::vsl::VslTag;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
};
use varnishcli::{AdminHealth, BackendEntry, BanEntry, Failure};
use varnishd::{
    backends::{section_name, sections},
    orders::{self, Answer, Order, Patience, ProgramState, Source},
};
use vcl::{
    program::{BackendIndex, Endpoint, Program},
    run::Backend,
};

use super::backend_entries;

/// How exactly it is known when a backend became healthy or sick.
const CHANGE_ACCURACY: Duration = Duration::from_secs(1);

/// The name under which sections of backends are read.
const NAME: &str = "backends";

/// What a worker needs to hear its manager: where it speaks, and what it says first.
#[derive(Clone, Debug)]
pub struct Management {
    channel: Arc<Mutex<Option<OwnedFd>>>,
    first: Arc<Vec<Order>>,
}

impl Management {
    /// A manager at the other end of `channel`; `first` is done before the first request is taken.
    #[must_use]
    pub fn new(channel: OwnedFd, first: Vec<Order>) -> Self {
        Self { channel: Arc::new(Mutex::new(Some(channel))), first: Arc::new(first) }
    }
}

/// The backends of a program.
struct Watched {
    instance: Arc<Instance>,
    checks: Option<Checks>,
    /// When each became healthy or sick, as it was said last.
    changes: HashMap<String, SystemTime>,
}

/// What the manager speaks with.
pub(super) struct Managed {
    management: Management,
    process: Arc<Process>,
    accelerator: Arc<Accelerator>,
    watched: HashMap<String, Watched>,
}

/// What instances are made with.
pub(super) type Assemble<'a> = dyn Fn(haproxycfg::model::Config, &[Arc<Instance>]) -> Arc<Instance> + 'a;

impl Managed {
    /// The programs of an instance, if it has a proxy whose programs are managed. What the manager says first is done.
    ///
    /// # Errors
    /// Why a program cannot run.
    pub(super) fn begin(management: Management, instance: &Instance, assembly: &Assembly<'_>) -> Result<Self, String> {
        let accelerator = instance.proxies.iter().find_map(|proxy| proxy.accelerator.clone());
        let accelerator = accelerator.ok_or("there is no proxy for the manager's programs")?;
        let process = Arc::clone(&instance.process);
        let mut managed = Self { management, process, accelerator, watched: HashMap::new() };
        let first = Arc::clone(&managed.management.first);
        for order in first.iter() {
            if let Answer::Failed(failure) = managed.obey(order, &|config, beside| assembly.with(beside).apart(config))
            {
                managed.say_at_once(&Answer::Failed(failure.clone()));
                return Err(failure.text);
            }
        }
        Ok(managed)
    }

    /// Says something to the manager before this thread has begun to wait for it.
    fn say_at_once(&self, answer: &Answer) {
        let channel = self.management.channel.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(channel) = channel {
            // A manager that is gone needs no answer.
            let _ = orders::send(&mut StdUnixStream::from(channel), answer);
        }
    }

    /// Says that requests are taken, and does what the manager says until it is gone. Then the process ends.
    pub(super) async fn run(mut self, assemble: Box<Assemble<'static>>) {
        let channel = self.management.channel.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(channel) = channel else { return };
        let Ok(mut stream) = into_stream(channel) else { std::process::exit(1) };
        let mut answer = Answer::Done(String::new());
        loop {
            let said = match orders::encode(&answer) {
                Ok(bytes) => stream.write_all(&bytes).await,
                Err(error) => Err(error),
            };
            let order = match said {
                Ok(()) => receive(&mut stream).await,
                Err(error) => Err(error),
            };
            answer = match order {
                Ok(Order::Stop) | Err(_) => std::process::exit(0),
                Ok(Order::Panic) => std::process::abort(),
                Ok(order) => {
                    let answer = self.obey(&order, &*assemble);
                    self.record(&order, &answer);
                    answer
                }
            };
        }
    }

    fn obey(&mut self, order: &Order, assemble: &Assemble<'_>) -> Answer {
        for gone in self.accelerator.sweep() {
            self.watched.remove(&format!("{gone} (discarded)"));
        }
        let done = match order {
            Order::Load { name, source, patience, is_warm } => {
                self.load(name, source, *patience, assemble).map(|()| self.warm(name, *is_warm))
            }
            Order::Use(name) if self.accelerator.activate(name) => Ok(()),
            Order::Use(name) => Err(Failure::cannot(format!("No VCL named {name} is loaded"))),
            Order::Label { label, name } => {
                self.accelerator.label(label, name);
                Ok(())
            }
            Order::Discard(name) => {
                self.accelerator.discard(name);
                if let Some(mut watched) = self.watched.remove(name) {
                    watched.checks = None;
                    // NOTE: requests that run in it hold its proxies.
                }
                self.accelerator.sweep();
                Ok(())
            }
            Order::Warm { name, is_warm } => {
                self.warm(name, *is_warm);
                Ok(())
            }
            Order::Set { name, value } if name == "vsl_mask" => self.set_mask(value),
            Order::Set { name, value } => match self.accelerator.set(name, value) {
                // What the edge's own settings stand for takes effect with the next start.
                Ok(()) | Err(NotSet::Unknown) => Ok(()),
                Err(NotSet::Invalid) => Err(Failure::parameter(format!("{name} cannot be {value}"))),
            },
            Order::Ban(words) => self.ban(words),
            Order::SetHealth { name, health } => self.set_health(name, *health),
            Order::Bans => return Answer::Bans(self.bans()),
            Order::Backends => return Answer::Backends(self.backends()),
            Order::Programs => return Answer::Programs(self.programs()),
            Order::Xid(number) => {
                if let Some(number) = number {
                    self.accelerator.numbers.store(number + 1, Relaxed);
                }
                let now = self.accelerator.numbers.load(Relaxed).saturating_sub(1);
                return Answer::Done(format!("XID is {now} chunk 1"));
            }
            Order::Panic | Order::Stop => Ok(()),
        };
        match done {
            Ok(()) => Answer::Done(String::new()),
            Err(failure) => Answer::Failed(failure),
        }
    }

    /// Notes an order and its answer in the log, as commands that a worker of Varnish gets.
    fn record(&self, order: &Order, answer: &Answer) {
        let Some(published) = self.process.published() else { return };
        published.record(VslTag::CLI, format!("Rd {}", order.described()).as_bytes());
        let (status, text) = match answer {
            Answer::Failed(failure) => (failure.status as u16, failure.text.as_str()),
            Answer::Done(text) => (200, text.as_str()),
            _ => (200, ""),
        };
        published.record(VslTag::CLI, format!("Wr {status} {} {text}", text.len()).as_bytes());
    }

    fn set_mask(&self, shown: &str) -> Result<(), Failure> {
        let is_set = self.process.published().is_none_or(|published| published.set_mask(shown));
        if is_set { Ok(()) } else { Err(Failure::parameter(format!("vsl_mask cannot be {shown}"))) }
    }

    fn load(
        &mut self,
        name: &str,
        source: &Source,
        patience: Patience,
        assemble: &Assemble<'_>,
    ) -> Result<(), Failure> {
        let options = vcl::Options {
            files: &source.recorded,
            resolver: &source.recorded,
            unused_is_error: source.unused_is_error,
            storages: &source.storages,
            labels: &source.labels,
            ..vcl::Options::default()
        };
        let compiled = vcl::compile(&source.path, &source.text, &options)
            .map_err(|rejected| Failure::parameter(rejected.message().clone()))?;
        let program = Arc::new(compiled.program);
        let text = sections(name, &program, patience, &source.recorded);
        let parsed = haproxycfg::parse(
            &[NAME.to_owned()],
            &Bundle::default().with(NAME, text.as_bytes()),
            std::collections::BTreeMap::new(),
            &haproxycfg::Options::default(),
        );
        let said = super::render(&parsed);
        let config = parsed.config.ok_or_else(|| Failure::cannot(format!("backends of {name}:\n{said}")))?;
        let beside: Vec<Arc<Instance>> = self.watched.values().map(|watched| Arc::clone(&watched.instance)).collect();
        let instance = assemble(config, &beside);
        checks::prepare(&instance);
        let targets = Targets::at(places(name, &program, &instance));
        self.accelerator
            .load(name, program, targets)
            .map_err(|why| Failure::cannot(format!("VCL \"{name}\" Failed initialization\nMessage:\n\t{why}")))?;
        self.watched.insert(name.to_owned(), Watched { instance, checks: None, changes: HashMap::new() });
        Ok(())
    }

    fn warm(&mut self, name: &str, is_warm: bool) {
        let Some(watched) = self.watched.get_mut(name) else { return };
        watched.checks = match (is_warm, watched.checks.take()) {
            (false, _) => None,
            (true, Some(checks)) => Some(checks),
            (true, None) => Some(checks::start(&watched.instance, &CheckBoard::default(), None, 0, 1)),
        };
    }

    fn programs(&self) -> Vec<ProgramState> {
        let state = |(program, busy, is_discarded): (Arc<Running>, usize, bool)| ProgramState {
            name: program.loaded.name.clone(),
            busy: busy as u64,
            is_discarded,
        };
        self.accelerator.programs().into_iter().map(state).collect()
    }

    fn ban(&self, words: &[String]) -> Result<(), Failure> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let expression = Expression::of_words(&words).map_err(|why| Failure::parameter(why.to_string()))?;
        self.accelerator.cache.bans().add(expression, seconds(SystemTime::now()));
        Ok(())
    }

    fn bans(&self) -> Vec<BanEntry> {
        let entry = |ban: Arc<cache::bans::Ban>| BanEntry {
            time: ban.time(),
            references: ban.objects(),
            is_completed: ban.is_completed(),
            specification: ban.expression().to_string(),
        };
        self.accelerator.cache.bans().all().into_iter().map(entry).collect()
    }

    fn backends(&mut self) -> Vec<BackendEntry> {
        let mut entries = Vec::new();
        for (program, _, is_discarded) in self.accelerator.programs() {
            if is_discarded {
                continue;
            }
            let name = &program.loaded.name;
            for (index, backend) in (0..).map(BackendIndex).zip(&program.loaded.program.backends) {
                if backend.endpoint != Endpoint::None {
                    entries.push(backend_entries::of_backend(&program, index, section_name(name, &backend.name)));
                }
            }
            entries.extend(backend_entries::of_directors(&program));
        }
        for entry in &mut entries {
            let program = entry.name.split('.').next().unwrap_or_default();
            let Some(watched) = self.watched.get_mut(program) else { continue };
            // NOTE: a farm knows whole seconds since a change: the same one is said to be at the same time.
            let known = watched.changes.entry(entry.name.clone()).or_insert(entry.last_change);
            if entry.last_change > *known + CHANGE_ACCURACY || entry.last_change + CHANGE_ACCURACY < *known {
                *known = entry.last_change;
            }
            entry.last_change = *known;
        }
        entries
    }

    fn set_health(&mut self, name: &str, health: AdminHealth) -> Result<(), Failure> {
        let verdict = match health {
            AdminHealth::Auto => Verdict::Auto,
            AdminHealth::Healthy => Verdict::Healthy,
            AdminHealth::Sick => Verdict::Sick,
        };
        for (program, _, is_discarded) in self.accelerator.programs() {
            let loaded = &program.loaded;
            for (index, backend) in (0..).map(BackendIndex).zip(&loaded.program.backends) {
                if !is_discarded && section_name(&loaded.name, &backend.name) == name {
                    program.targets.set_verdict(index, verdict);
                    force(&program, index, verdict);
                }
            }
        }
        Ok(())
    }
}

/// Has the servers of a backend be as an administrator says: whoever asks for one gets it then.
fn force(program: &Running, index: BackendIndex, verdict: Verdict) {
    let Some(proxy) = program.targets.proxy(Backend::Declared(index)) else { return };
    let now_ms = proxy.process.milliseconds(Instant::now());
    proxy.with_farm(|farm| {
        for server in 0..proxy.servers.iter().count() {
            let server = ServerId::new(server);
            // One without checks has none to stop.
            let _ = farm.set_check_enabled(server, CheckKind::Health, verdict != Verdict::Healthy);
            if verdict == Verdict::Healthy {
                farm.force_health(server, OperationalState::Running, now_ms);
            }
        }
    });
}

/// Where the backends of a program are.
fn places(name: &str, program: &Program, instance: &Instance) -> Vec<Place> {
    let place = |backend: &vcl::program::Backend| match instance.backend(&section_name(name, &backend.name)) {
        Some(proxy) => Place::Own(Arc::clone(proxy)),
        None => Place::Nowhere,
    };
    program.backends.iter().map(place).collect()
}

fn into_stream(channel: OwnedFd) -> std::io::Result<UnixStream> {
    let stream = StdUnixStream::from(channel);
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

async fn receive(stream: &mut UnixStream) -> std::io::Result<Order> {
    let mut head = [0; 4];
    stream.read_exact(&mut head).await?;
    let mut body = vec![0; orders::length(head)?];
    stream.read_exact(&mut body).await?;
    Ok(serde_json::from_slice(&body)?)
}

fn seconds(time: SystemTime) -> f64 {
    basics::clock::of(time).as_secs_f64()
}
