//! Worker threads: one operating system thread each, with its own tokio `LocalRuntime`.
//!
//! Tasks are spawned with `tokio::task::spawn_local` and never leave their thread, so nothing on the path of a
//! request takes a lock. The control thread talks to the workers by commands of the role's own type.

use crate::listen::Count;
use crate::listen::{AcceptMode, AcceptorSeed, AcceptorThreads, Address, ConnectionCounts, Listener, SeedSource};
use crate::log;
use std::any::Any;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::sync::mpsc;

/// How worker threads are run.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// How many (`nbthread`); at least one.
    pub count: usize,
    /// The processors that each worker may run on (`cpu-map`), by index; workers past the end, or with an empty list,
    /// run anywhere.
    pub cpu_map: Vec<Vec<usize>>,
    /// Task polls between two looks at the sockets when tasks are always ready. `None`: tokio's default (61).
    pub event_interval: Option<u32>,
    /// Task polls between two looks at the queue of tasks woken by other threads. `None`: tokio's default (31).
    pub global_queue_interval: Option<u32>,
    /// Socket events taken in one look (`tune.maxpollevents`). `None`: tokio's default (1024).
    pub max_io_events: Option<usize>,
    /// Connections accepted from a listener before other tasks get their turn (`tune.maxaccept`).
    pub max_accept: usize,
    /// What a worker that panics does to the process.
    pub on_panic: OnPanic,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        Self {
            count: 1,
            cpu_map: Vec::new(),
            event_interval: None,
            global_queue_interval: None,
            max_io_events: None,
            max_accept: 64,
            on_panic: OnPanic::default(),
        }
    }
}

/// What a panic of a worker's main future does. (A panic in a task spawned on a worker ends that task alone.)
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnPanic {
    /// The process exits with [`PANIC_EXIT_CODE`]: a worker that is gone leaves its sockets unserved, and a master
    /// starts the process again at once.
    #[default]
    Exit,
    /// It is reported by [`Workers::join`] alone.
    Report,
}

/// The exit code of a process whose worker panicked: that of a process ended by `SIGABRT`.
pub const PANIC_EXIT_CODE: i32 = 134;

/// What a worker's main future gets.
#[derive(Debug)]
pub struct WorkerContext<C> {
    /// Which worker, from zero; its thread is named `worker-` and this number plus one.
    pub index: usize,
    /// Commands from the control thread. `None` means: close the listeners, finish what is running, and return.
    pub commands: mpsc::UnboundedReceiver<C>,
}

/// How a worker ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerEnd {
    /// Which worker.
    pub index: usize,
    /// The panic's message, if it ended by one.
    pub panic: Option<String>,
}

type Run<C> = Arc<dyn Fn(&LocalRuntime, WorkerContext<C>) + Send + Sync>;

/// The worker threads of a process, as their control thread holds them.
pub struct Workers<C> {
    options: WorkerOptions,
    run: Run<C>,
    senders: Vec<mpsc::UnboundedSender<C>>,
    counts: Vec<Arc<Count>>,
    threads: AcceptorThreads,
    ended: (mpsc::UnboundedSender<WorkerEnd>, mpsc::UnboundedReceiver<WorkerEnd>),
    running: usize,
}

impl<C: Send + 'static> Workers<C> {
    /// Starts `options.count` workers, each running the future that `run` makes for it until that ends.
    pub fn start<F, R>(options: WorkerOptions, run: F) -> io::Result<Self>
    where
        F: Fn(WorkerContext<C>) -> R + Send + Sync + 'static,
        R: Future<Output = ()> + 'static,
    {
        let count = options.count.max(1);
        let mut workers = Self {
            options,
            run: Arc::new(move |runtime, context| runtime.block_on(run(context))),
            senders: Vec::new(),
            counts: Vec::new(),
            threads: AcceptorThreads::default(),
            ended: mpsc::unbounded_channel(),
            running: 0,
        };
        workers.resize(count)?;
        Ok(workers)
    }

    /// How many take commands.
    pub fn count(&self) -> usize {
        self.senders.len()
    }

    /// Changes how many there are, at least one. Those above the new count get `None` for their next command and end
    /// when they are done; their sockets are served by the others from the next [`Self::distribute`] on.
    pub fn resize(&mut self, count: usize) -> io::Result<()> {
        let count = count.max(1);
        self.senders.truncate(count);
        while self.senders.len() < count {
            self.spawn(self.senders.len())?;
        }
        Ok(())
    }

    fn spawn(&mut self, index: usize) -> io::Result<()> {
        let (sender, commands) = mpsc::unbounded_channel();
        let context = WorkerContext { index, commands };
        let run = Arc::clone(&self.run);
        let options = self.options.clone();
        let ended = self.ended.0.clone();
        let (report, started) = std::sync::mpsc::channel();
        std::thread::Builder::new().name(format!("worker-{}", index + 1)).spawn(move || {
            let result = catch_unwind(AssertUnwindSafe(|| {
                let runtime = match prepare(&options, index) {
                    Ok(runtime) => runtime,
                    Err(error) => {
                        let _ = report.send(Err(error));
                        return;
                    }
                };
                let _ = report.send(Ok(()));
                run(&runtime, context);
            }));
            let panic = result.err().map(|payload| panic_text(&*payload));
            if let Some(text) = &panic {
                log::alert!("worker-{} panicked: {text}", index + 1);
                if options.on_panic == OnPanic::Exit {
                    std::process::exit(PANIC_EXIT_CODE);
                }
            }
            let _ = ended.send(WorkerEnd { index, panic });
        })?;
        started.recv().unwrap_or_else(|_| Err(io::Error::other("the worker thread ended at once")))?;
        self.running += 1;
        self.senders.push(sender);
        if self.counts.len() <= index {
            self.counts.push(Arc::default());
        }
        Ok(())
    }

    /// Sends a command to one worker. Returns whether it is there to get it.
    pub fn send(&self, index: usize, command: C) -> bool {
        self.senders.get(index).is_some_and(|sender| sender.send(command).is_ok())
    }

    /// Ways to the workers that do not keep them from finishing.
    pub fn weak_senders(&self) -> Vec<mpsc::WeakUnboundedSender<C>> {
        self.senders.iter().map(mpsc::UnboundedSender::downgrade).collect()
    }

    /// Sends each worker the command that `make` gives for its index.
    pub fn broadcast(&self, mut make: impl FnMut(usize) -> C) {
        for (index, sender) in self.senders.iter().enumerate() {
            // A worker that has ended has been reported.
            let _ = sender.send(make(index));
        }
    }

    /// The number of connections of each worker, as counted by the [`crate::ConnectionGuard`]s that are alive.
    pub fn connection_counts(&self) -> ConnectionCounts {
        ConnectionCounts::new(self.counts.clone())
    }

    /// Splits listeners among the workers: for each worker, its share of each listener that it serves.
    pub fn distribute(&mut self, listeners: &[Listener]) -> io::Result<Vec<Vec<AcceptorSeed>>> {
        let workers = self.count();
        let mut shares: Vec<Vec<AcceptorSeed>> = Vec::new();
        shares.resize_with(workers, Vec::new);
        let all_counts = self.counts.get(..workers).unwrap_or(&self.counts);
        let max_accept = self.options.max_accept.max(1);
        let is_accepted_from = |listener: &&Listener| !matches!(listener.spec.address, Address::Datagrams(_));
        for listener in listeners.iter().filter(is_accepted_from) {
            let spec = Arc::new(listener.spec.clone());
            let in_use = &listener.in_use;
            let seed = |source| AcceptorSeed { spec: Arc::clone(&spec), max_accept, source, in_use: in_use.clone() };
            let eligible: Vec<usize> = spec.eligible(workers).collect();
            let counts: Vec<Arc<Count>> = eligible.iter().filter_map(|index| all_counts.get(*index)).cloned().collect();
            let mut give = |index: usize, source| {
                if let Some(share) = shares.get_mut(index) {
                    share.push(seed(source));
                }
            };
            match spec.effective_mode() {
                AcceptMode::ReusePort => {
                    for (place, (index, count)) in eligible.iter().zip(&counts).enumerate() {
                        let sockets = listener.sockets_of(place, eligible.len());
                        let count = Arc::clone(count);
                        match spec.address {
                            _ if sockets.is_empty() => {}
                            Address::SharedDatagrams(_) => give(*index, SeedSource::Datagrams { sockets, count }),
                            _ => give(*index, SeedSource::Direct { sockets, count }),
                        }
                    }
                }
                AcceptMode::Shared if eligible.len() == 1 => {
                    for (index, count) in eligible.iter().zip(&counts) {
                        let sockets = listener.sockets.clone();
                        give(*index, SeedSource::Direct { sockets, count: Arc::clone(count) });
                    }
                }
                AcceptMode::Shared => {
                    for (index, count) in eligible.iter().zip(&counts) {
                        let thread = self.threads.shared(*index)?;
                        let counts = std::slice::from_ref(count);
                        for (connections, registration) in
                            thread.register(&spec, &listener.sockets, counts, max_accept, in_use)?
                        {
                            let sockets = listener.sockets.clone();
                            give(*index, SeedSource::Handed { connections, registration, sockets });
                        }
                    }
                }
                AcceptMode::Dispatch => {
                    let thread = self.threads.dispatch()?;
                    let ends = thread.register(&spec, &listener.sockets, &counts, max_accept, in_use)?;
                    for (index, (connections, registration)) in eligible.iter().zip(ends) {
                        let sockets = listener.sockets.clone();
                        give(*index, SeedSource::Handed { connections, registration, sockets });
                    }
                }
            }
        }
        Ok(shares)
    }

    /// Tells all workers to finish (their next command is `None`) without waiting for them.
    pub fn finish(&mut self) {
        self.senders.clear();
    }

    /// Tells all workers to finish and waits until the last has. Returns how each one ended, those that a
    /// [`Self::resize`] took away included. May be cancelled and called again.
    pub async fn join(&mut self) -> Vec<WorkerEnd> {
        self.finish();
        self.ends().await
    }

    /// Waits until the last worker has ended, as those do that were told so by a command; they still take others until then.
    /// May be cancelled and called again.
    pub async fn ends(&mut self) -> Vec<WorkerEnd> {
        let mut ends = Vec::new();
        while self.running > 0 {
            let Some(end) = self.ended.1.recv().await else { break };
            self.running -= 1;
            ends.push(end);
        }
        ends
    }
}

fn prepare(options: &WorkerOptions, index: usize) -> io::Result<LocalRuntime> {
    if let Some(processors) = options.cpu_map.get(index).filter(|processors| !processors.is_empty()) {
        pin(processors)?;
    }
    let mut builder = Builder::new_current_thread();
    builder.enable_all();
    if let Some(interval) = options.event_interval {
        builder.event_interval(interval.max(1));
    }
    if let Some(interval) = options.global_queue_interval {
        builder.global_queue_interval(interval.max(1));
    }
    if let Some(events) = options.max_io_events {
        builder.max_io_events_per_tick(events.max(1));
    }
    builder.thread_name(format!("blocking-{}", index + 1));
    builder.build_local(LocalOptions::default())
}

/// Binds the calling thread to these processors.
fn pin(processors: &[usize]) -> io::Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    for &processor in processors {
        if processor >= rustix::thread::CpuSet::MAX_CPU {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("no processor {processor}")));
        }
        set.set(processor);
    }
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// The message of a panic.
pub(crate) fn panic_text(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "no message".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    fn options(count: usize) -> WorkerOptions {
        WorkerOptions { count, on_panic: OnPanic::Report, ..WorkerOptions::default() }
    }

    #[test]
    fn workers_get_commands_and_end_when_there_are_no_more() {
        let sum = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&sum);
        let mut workers = Workers::start(options(3), move |mut context: WorkerContext<usize>| {
            let seen = Arc::clone(&seen);
            async move {
                assert_eq!(std::thread::current().name(), Some(format!("worker-{}", context.index + 1).as_str()));
                while let Some(number) = context.commands.recv().await {
                    seen.fetch_add(number, Ordering::Relaxed);
                }
            }
        })
        .unwrap();
        workers.broadcast(|index| index + 1);
        assert!(workers.send(1, 10));
        assert!(!workers.send(3, 100));
        workers.resize(1).unwrap();
        assert!(!workers.send(1, 100));
        workers.resize(2).unwrap();
        assert!(workers.send(1, 1000));
        let mut ends = block_on(workers.join());
        ends.sort_by_key(|end| end.index);
        let indexes: Vec<usize> = ends.iter().map(|end| end.index).collect();
        assert_eq!(indexes, [0, 1, 1, 2]);
        assert!(ends.iter().all(|end| end.panic.is_none()));
        assert_eq!(sum.load(Ordering::Relaxed), 1 + 2 + 3 + 10 + 1000);
    }

    #[test]
    fn a_panic_is_reported_and_one_in_a_task_is_not_the_workers() {
        let mut workers = Workers::start(options(2), |mut context: WorkerContext<()>| async move {
            let task = tokio::task::spawn_local(async { panic!("in a task") });
            assert!(task.await.is_err());
            if context.index == 1 {
                panic!("number {}", context.index);
            }
            while context.commands.recv().await.is_some() {}
        })
        .unwrap();
        let mut ends = block_on(workers.join());
        ends.sort_by_key(|end| end.index);
        let panics: Vec<Option<&str>> = ends.iter().map(|end| end.panic.as_deref()).collect();
        assert_eq!(panics, [None, Some("number 1")]);
    }

    #[test]
    fn workers_are_bound_to_processors() {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let options = WorkerOptions { cpu_map: vec![vec![0]], ..options(2) };
        let mut workers = Workers::start(options, move |context: WorkerContext<()>| {
            let set = rustix::thread::sched_getaffinity(None).unwrap();
            let _ = sender.send((context.index, set.count()));
            async {}
        })
        .unwrap();
        block_on(workers.join());
        let all = rustix::thread::sched_getaffinity(None).unwrap().count();
        let mut seen: Vec<(usize, u32)> = std::iter::from_fn(|| receiver.try_recv().ok()).collect();
        seen.sort_unstable();
        assert_eq!(seen, [(0, 1), (1, all)]);
        let impossible = WorkerOptions { cpu_map: vec![vec![usize::MAX]], ..WorkerOptions::default() };
        assert!(Workers::<()>::start(impossible, |_| async {}).is_err());
    }
}
