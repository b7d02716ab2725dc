//! When which server is checked, and on which worker.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    rc::Rc,
    sync::{Arc, PoisonError, atomic::Ordering::Relaxed},
    time::Duration,
};

use balance::{AgentReport, CheckKind, CheckReport, CheckStatus, ServerId};
use live::{Instance, LiveProxy, LiveServer, Process, ring::Ring};
use tokio::{
    task::{Id, JoinHandle, JoinSet},
    time::{Instant, sleep_until},
};

use super::{
    board::{CheckBoard, Notices, kinds, worker_of},
    events,
    run::{self, Ended},
};

/// Checks begun in one turn of the event loop, so that many that fall due together leave room for requests in between.
const BEGIN_MAX: usize = 32;
/// Time between two steps of slow starts.
const WARMUP_TICK: Duration = Duration::from_secs(1);

fn id(server: &LiveServer) -> ServerId {
    ServerId::new(server.index.0 as usize)
}

fn now_ms(process: &Process) -> u64 {
    process.milliseconds(Instant::now().into_std())
}

/// Every check of an instance, in order of declaration.
fn checked(instance: &Instance) -> impl Iterator<Item = (&Arc<LiveProxy>, Arc<LiveServer>, CheckKind)> {
    instance
        .proxies
        .iter()
        .filter(|proxy| proxy.settings().kind.has_backend() && !proxy.settings().disabled)
        .flat_map(|proxy| proxy.servers.iter().map(move |server| (proxy, server)))
        .flat_map(|(proxy, server)| kinds(&server).map(move |kind| (proxy, Arc::clone(&server), kind)))
}

/// Plans the first check of every server, and brings servers with `track` in line with those they follow. Once for each
/// instance, before its workers [`start`].
pub fn prepare(instance: &Instance) {
    let now_ms = now_ms(&instance.process);
    let intervals: Vec<u32> = checked(instance)
        .map(|(proxy, server, kind)| proxy.farm().check_interval_ms(id(&server), kind).unwrap_or_default())
        .collect();
    let spread = instance.config.global.max_spread_checks.unwrap_or_default().as_millis();
    let delays = balance::health::first_check_delays_ms(&intervals, u32::try_from(spread).unwrap_or(u32::MAX));
    for ((proxy, server, kind), delay_ms) in checked(instance).zip(delays) {
        // Varnish asks at once: a backend that has too few good answers at the start waits for that.
        let is_windowed = kind == CheckKind::Health && proxy.farm().probes(id(&server)).is_some();
        let delay_ms = if is_windowed { 0 } else { delay_ms };
        proxy.farm().schedule_check(id(&server), kind, now_ms + delay_ms);
    }
    events::follow_all(instance, now_ms);
}

/// A worker's schedule; ends with its checks in flight when it is dropped.
#[derive(Debug)]
pub struct Checks {
    task: JoinHandle<()>,
}

impl Drop for Checks {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Starts the checks of an instance that fall to worker `worker` of `workers`. Must be called on that worker.
#[must_use]
pub fn start(
    instance: &Arc<Instance>,
    board: &CheckBoard,
    ring: Option<Rc<Ring>>,
    worker: usize,
    workers: usize,
) -> Checks {
    let notices = board.of_worker(worker, workers);
    let scheduler = Scheduler { ring, ..Scheduler::new(instance, worker, workers) };
    Checks { task: tokio::task::spawn_local(scheduler.run(notices)) }
}

struct Slot {
    proxy: Arc<LiveProxy>,
    server: Arc<LiveServer>,
    kind: CheckKind,
    /// The time of this server's entry in the queue that counts; others are stale.
    queued_ms: Option<u64>,
}

impl Slot {
    fn key(&self) -> (u64, CheckKind) {
        (self.server.key, self.kind)
    }

    /// Whether the backend still has this server: another one may have taken its place.
    fn is_there(&self) -> bool {
        let now = self.proxy.servers.with(self.server.index.0 as usize, |now| now.key);
        now == Some(self.server.key) && !self.server.is_gone.load(Relaxed)
    }
}

/// What a check or a question to an agent came to.
enum Finished {
    Health(Ended),
    Agent(AgentReport),
}

struct Scheduler {
    process: Arc<Process>,
    ring: Option<Rc<Ring>>,
    /// Checks; an empty place waits for the next one.
    slots: Vec<Option<Slot>>,
    by_key: HashMap<(u64, CheckKind), usize>,
    queue: BinaryHeap<Reverse<(u64, usize)>>,
    running: JoinSet<Finished>,
    running_slots: HashMap<Id, usize>,
    /// Backends with slow starts that this worker takes the steps of.
    warming: Vec<Arc<LiveProxy>>,
    next_tick: Instant,
}

impl Scheduler {
    fn new(instance: &Arc<Instance>, worker: usize, workers: usize) -> Self {
        let slots: Vec<_> = checked(instance)
            .filter(|(_, server, _)| worker_of(server, workers) == worker)
            .map(|(proxy, server, kind)| Some(Slot { proxy: Arc::clone(proxy), server, kind, queued_ms: None }))
            .collect();
        let is_warming = |proxy: &LiveProxy| {
            proxy.index.0 as usize % workers.max(1) == worker
                && proxy.servers.iter().any(|server| !server.config.slowstart.is_zero())
        };
        let mut scheduler = Self {
            process: Arc::clone(&instance.process),
            ring: None,
            by_key: slots.iter().flatten().enumerate().map(|(slot, entry)| (entry.key(), slot)).collect(),
            queue: BinaryHeap::with_capacity(slots.len()),
            running: JoinSet::new(),
            running_slots: HashMap::new(),
            warming: instance.proxies.iter().filter(|proxy| is_warming(proxy)).cloned().collect(),
            next_tick: Instant::now() + WARMUP_TICK,
            slots,
        };
        for slot in 0..scheduler.slots.len() {
            scheduler.enqueue(slot);
        }
        scheduler
    }

    async fn run(mut self, notices: Arc<Notices>) {
        loop {
            let is_more = self.begin_due();
            // NOTE: before more are begun. Ends that had to wait for all beginnings would plan the next checks for the same
            // moment, and so on for ever.
            while let Some(ended) = self.running.try_join_next_with_id() {
                self.end(ended);
            }
            if is_more {
                tokio::task::yield_now().await;
                continue;
            }
            self.warm_up();
            let wake_at = self.wake_at();
            tokio::select! {
                () = sleep_until(wake_at.unwrap_or(self.next_tick)), if wake_at.is_some() => {}
                Some(ended) = self.running.join_next_with_id() => self.end(ended),
                () = notices.notify.notified() => {
                    let keys = std::mem::take(&mut *notices.keys.lock().unwrap_or_else(PoisonError::into_inner));
                    for key in keys {
                        for kind in [CheckKind::Health, CheckKind::Agent] {
                            if let Some(slot) = self.by_key.get(&(key, kind)).copied() {
                                self.enqueue(slot);
                                self.forget_if_gone(slot);
                            }
                        }
                    }
                    let added = std::mem::take(&mut *notices.added.lock().unwrap_or_else(PoisonError::into_inner));
                    for (proxy, server) in added {
                        self.add(proxy, server);
                    }
                }
            }
        }
    }

    /// When there is something to do next; `None` waits for others.
    fn wake_at(&self) -> Option<Instant> {
        let due = self
            .queue
            .peek()
            .map(|Reverse((due_ms, _))| Instant::from_std(self.process.started) + Duration::from_millis(*due_ms));
        let tick = Some(self.next_tick).filter(|_| !self.warming.is_empty());
        due.into_iter().chain(tick).min()
    }

    /// Takes a server in that came at run time.
    fn add(&mut self, proxy: Arc<LiveProxy>, server: Arc<LiveServer>) {
        let knows = |warming: &Arc<LiveProxy>| Arc::ptr_eq(warming, &proxy);
        if !server.config.slowstart.is_zero() && !self.warming.iter().any(knows) {
            self.warming.push(Arc::clone(&proxy));
        }
        for kind in kinds(&server) {
            let slot = self.slots.iter().position(Option::is_none).unwrap_or_else(|| {
                self.slots.push(None);
                self.slots.len() - 1
            });
            self.by_key.insert((server.key, kind), slot);
            if let Some(vacant) = self.slots.get_mut(slot) {
                *vacant = Some(Slot { proxy: Arc::clone(&proxy), server: Arc::clone(&server), kind, queued_ms: None });
            }
            self.enqueue(slot);
        }
    }

    /// Lets go of a server that its backend no longer has. While a check of it is under way, its place is not given away.
    fn forget_if_gone(&mut self, slot: usize) {
        let Some(Some(entry)) = self.slots.get(slot) else { return };
        if entry.is_there() || self.running_slots.values().any(|running| *running == slot) {
            return;
        }
        self.by_key.remove(&entry.key());
        if let Some(vacant) = self.slots.get_mut(slot) {
            *vacant = None;
        }
    }

    /// Puts a server into the queue for when its farm says.
    fn enqueue(&mut self, slot: usize) {
        let Some(Some(entry)) = self.slots.get_mut(slot) else { return };
        let Some(due_ms) = entry.proxy.farm().check_due_ms(id(&entry.server), entry.kind) else { return };
        if entry.queued_ms.is_none_or(|queued| due_ms < queued) {
            entry.queued_ms = Some(due_ms);
            self.queue.push(Reverse((due_ms, slot)));
        }
    }

    /// Begins checks that are due; whether there are more.
    fn begin_due(&mut self) -> bool {
        let now_ms = now_ms(&self.process);
        let mut left = BEGIN_MAX;
        while let Some(Reverse((due_ms, slot))) = self.queue.peek().copied()
            && due_ms <= now_ms
        {
            if left == 0 {
                return true;
            }
            left -= 1;
            self.queue.pop();
            let entry = self.slots.get_mut(slot).and_then(Option::as_mut);
            let Some(entry) = entry.filter(|entry| entry.queued_ms == Some(due_ms)) else {
                continue;
            };
            entry.queued_ms = None;
            let begins = entry.proxy.with_farm(|farm| {
                let (server, kind) = (id(&entry.server), entry.kind);
                let is_due = farm.check_due_ms(server, kind).is_some_and(|due| due <= now_ms);
                is_due && farm.check_begin(server, kind, now_ms)
            });
            if begins {
                let (proxy, server) = (Arc::clone(&entry.proxy), Arc::clone(&entry.server));
                let task = match entry.kind {
                    CheckKind::Health => {
                        self.running.spawn_local(async move { Finished::Health(run::health(&proxy, &server).await) })
                    }
                    CheckKind::Agent => {
                        self.running.spawn_local(async move { Finished::Agent(run::agent(&proxy, &server).await) })
                    }
                };
                self.running_slots.insert(task.id(), slot);
            } else {
                self.enqueue(slot);
            }
        }
        false
    }

    fn end(&mut self, ended: Result<(Id, Finished), tokio::task::JoinError>) {
        let (task, finished) = match ended {
            Ok((task, finished)) => (task, Some(finished)),
            Err(error) => (error.id(), None),
        };
        let Some(slot) = self.running_slots.remove(&task) else { return };
        if let Some(entry) = self.slots.get(slot).and_then(Option::as_ref).filter(|entry| entry.is_there()) {
            let now_ms = now_ms(&self.process);
            let server = id(&entry.server);
            // A check that broke must not end the checks of its server.
            let broken =
                || CheckReport { status: CheckStatus::SocketError, code: 0, info: "internal error".to_owned() };
            let finished = finished.unwrap_or_else(|| match entry.kind {
                CheckKind::Health => Finished::Health(Ended { progress: None, report: broken() }),
                CheckKind::Agent => Finished::Agent(AgentReport::Failed(broken())),
            });
            entry.proxy.with_farm(|farm| match finished {
                Finished::Health(Ended { progress, report }) => {
                    if let Some(progress) = progress {
                        farm.check_progress(server, progress, now_ms);
                    }
                    farm.check_end(server, report, now_ms);
                }
                Finished::Agent(report) => farm.agent_end(server, report, now_ms),
            });
            let wants_record = self.ring.as_ref().filter(|_| entry.kind == CheckKind::Health);
            let stats = wants_record.and_then(|_| entry.proxy.farm().server_stats(server, now_ms));
            if let (Some(ring), Some(stats)) = (&self.ring, stats) {
                let number = self.process.next_session_id.fetch_add(1, Relaxed);
                ring.checked(number, &entry.proxy.settings().name, &stats);
            }
        }
        self.enqueue(slot);
        self.forget_if_gone(slot);
    }

    fn warm_up(&mut self) {
        if self.warming.is_empty() || Instant::now() < self.next_tick {
            return;
        }
        self.next_tick = Instant::now() + WARMUP_TICK;
        let now_ms = now_ms(&self.process);
        for proxy in &self.warming {
            proxy.with_farm(|farm| {
                if farm.poll_timeout_ms().is_some_and(|due| due <= now_ms) {
                    farm.handle_timeout(now_ms);
                }
            });
        }
    }
}

#[cfg(test)]
mod tests;
