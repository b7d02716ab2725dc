//! The loop that all comes together in: it hears of servers, processes and requests, asks the keepers what is to be done, and has it
//! done. One thread owns all of it, so decisions are made one after the other.

mod figures;
mod moves;
mod reconcile;
mod requests;
mod site;
mod status;
mod steps;

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::Write as _,
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, Sender},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use cluster::{Address, Epoch, GroupId, keeper::Keeper, nodes};
use coord::{Embedded, keys::Keys};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag,
};

use crate::{
    beginning,
    error::AgentError,
    http::{self, Desk, Request, Response},
    link::{Link, Order, Report},
    mover::Mover,
    options::Options,
    processes::{self, Happening, Processes},
    records::Records,
};

/// How the cluster is called in the coordinator.
pub const CLUSTER: &str = "main";
/// How often the loop looks by itself.
const LOOK_EACH: Duration = Duration::from_millis(10);

/// Something that the loop hears of.
#[derive(Debug)]
pub enum Event {
    /// A server's round is over.
    Report(Report),
    /// Somebody asks.
    Request(Request, Sender<Response>),
}

/// Everything of an agent.
pub struct Conductor {
    /// How it runs.
    pub options: Options,
    /// The cluster.
    pub records: Records,
    /// Programs that run here.
    pub processes: Processes,
    /// Who looks after groups.
    pub keepers: BTreeMap<GroupId, Keeper>,
    /// Slots on their way.
    pub moves: moves::Moves,
    links: BTreeMap<Address, Link>,
    /// Why servers do not answer.
    pub silent: BTreeMap<Address, String>,
    /// What slots are copied by.
    pub mover: Option<Box<dyn Mover>>,
    clock: Instant,
    events: Receiver<Event>,
    sender: Sender<Event>,
    /// The change of the cluster that proxies were told of last.
    told_proxies: Option<Epoch>,
    log: File,
    last_log: String,
    /// What servers do and take.
    pub figures: figures::Figures,
    /// What slots were found to have last, and when.
    measured: Option<(u64, crate::survey::Measured)>,
    /// Where REST and the page are.
    pub site: Option<SocketAddr>,
    /// The epoch whose programs run.
    reconciled: Option<Epoch>,
    /// It was told to end.
    pub is_ending: bool,
}

/// Runs an agent on a folder until it is told to end. `ready` is told once, when the cluster serves.
///
/// # Errors
///
/// The cluster cannot be begun, or another agent has the folder.
pub fn run(options: Options, mover: Option<Box<dyn Mover>>, ready: impl FnOnce(&str)) -> Result<(), AgentError> {
    let failed = |path: std::path::PathBuf| move |source| AgentError::File { path, source };
    let log_path = options.folder.log();
    let logs = log_path.parent().unwrap_or(options.folder.path()).to_owned();
    fs::create_dir_all(&logs).map_err(failed(logs))?;
    let coordinator = Arc::new(Embedded::open(&options.folder.coordinator())?);
    let log = OpenOptions::new().create(true).append(true).open(&log_path).map_err(failed(log_path))?;
    let mut records = Records::read(coordinator, Keys::new(CLUSTER))?;
    if records.cluster.epoch == 0 {
        records.change(beginning::begin(&options)?, "up", "the cluster begins")?;
    }
    let declared = processes::declared(&options.folder)?;
    let (sender, events) = mpsc::channel();
    let requests = Mutex::new(sender.clone());
    let hand_over = move |request, answer| {
        let requests = requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.send(Event::Request(request, answer)).is_ok()
    };
    let desk = Arc::new(Desk { hand_over: Box::new(hand_over), access: requests::access });
    http::listen(&options.folder, Arc::clone(&desk))?;
    let site = site::open(&options, desk)?;
    let processes = Processes::new(options.folder.clone(), options.program.clone(), declared);
    let conductor = Conductor {
        records,
        processes,
        keepers: BTreeMap::new(),
        moves: moves::Moves::default(),
        links: BTreeMap::new(),
        silent: BTreeMap::new(),
        mover,
        clock: Instant::now(),
        events,
        sender,
        told_proxies: None,
        log,
        last_log: String::new(),
        figures: figures::Figures::default(),
        measured: None,
        site,
        reconciled: None,
        is_ending: false,
        options,
    };
    conductor.serve(ready)
}

impl Conductor {
    /// Milliseconds since the agent began.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.clock.elapsed().as_millis() as u64
    }

    /// Notes something for people; the same again and again is noted once.
    pub fn note(&mut self, text: &str) {
        if self.last_log != text {
            let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
            // A log that cannot be written stops nothing.
            let _ = writeln!(self.log, "{}.{:03} {text}", at / 1000, at % 1000);
            text.clone_into(&mut self.last_log);
        }
    }

    fn serve(mut self, ready: impl FnOnce(&str)) -> Result<(), AgentError> {
        let stops = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            flag::register(signal, Arc::clone(&stops))
                .map_err(|error| AgentError::Other(format!("signal {signal} cannot be caught: {error}")))?;
        }
        self.note(&format!("agent {} looks after {}", std::process::id(), self.options.folder.path().display()));
        // What runs is known before anybody is answered.
        self.tell_proxies();
        self.reconcile();
        self.look_after_processes();
        let mut ready = Some(ready);
        while !self.is_ending && !stops.load(Ordering::Relaxed) {
            self.turn();
            if ready.is_some()
                && status::serves(&self)
                && let Some(ready) = ready.take()
            {
                ready(&status::greeting(&self));
            }
        }
        self.end();
        Ok(())
    }

    /// Hears what has happened, and does what follows from it.
    fn turn(&mut self) {
        let mut event = self.events.recv_timeout(LOOK_EACH).ok();
        while let Some(heard) = event {
            match heard {
                Event::Report(report) => self.handle_report(report),
                Event::Request(request, answer) => {
                    let response = requests::answer(self, &request);
                    // Whoever asked may have gone.
                    let _ = answer.send(response);
                }
            }
            event = self.events.try_recv().ok();
        }
        // Before they are started: a proxy without a topology ends at once.
        self.tell_proxies();
        self.reconcile();
        self.look_after_processes();
        self.conduct();
    }

    fn look_after_processes(&mut self) {
        let now = self.now();
        for happening in self.processes.check(now) {
            match happening {
                Happening::Adopted(address, pid) => self.note(&format!("{address} runs already, as process {pid}")),
                Happening::Started(address, pid) => self.note(&format!("{address} is started, as process {pid}")),
                Happening::Ended(address, how) => {
                    self.note(&format!("{address} has ended ({how})"));
                    self.heard_exit(&address, now);
                }
                Happening::Failed(address, why) => {
                    self.note(&format!("{address} cannot be started: {why}"));
                    self.heard_exit(&address, now);
                }
            }
        }
        self.processes.forget_ended();
    }

    fn heard_exit(&mut self, address: &Address, now: u64) {
        self.silent.insert(address.clone(), "its process has ended".into());
        if let Some(group) = self.records.cluster.group_of(address) {
            self.keeper(group, now).handle_exited(address, now);
        }
    }

    fn keeper(&mut self, group: GroupId, now: u64) -> &mut Keeper {
        let patience = self.options.patience;
        self.keepers.entry(group).or_insert_with(|| Keeper::new(group, patience, now))
    }

    fn handle_report(&mut self, report: Report) {
        let (now, server) = (self.now(), report.server);
        if let Some(link) = self.links.get_mut(&server) {
            link.is_busy = false;
        }
        for failure in report.failures {
            self.note(&format!("{server} refuses {failure}"));
        }
        let Some(group) = self.records.cluster.group_of(&server) else { return };
        self.moves.handle_answered(&server, report.round_trip_us);
        for paused in report.paused {
            let is_of_all = paused.slots == (0, cluster::SLOTS - 1);
            if !self.moves.handle_paused(group, paused) || is_of_all {
                self.keeper(group, now).handle_paused(&server, now, paused.until);
            }
        }
        for (first, count) in report.cleared {
            self.moves.handle_cleared(first, count);
        }
        if let Some(figures) = report.figures {
            self.figures.take(&server, now, *figures);
        }
        match report.observation {
            Ok(observation) => {
                self.silent.remove(&server);
                self.keeper(group, now).handle_observed(&server, observation);
            }
            Err(why) => {
                self.silent.insert(server, why);
            }
        }
    }

    /// Writes what proxies read, when it has changed.
    fn tell_proxies(&mut self) {
        let epoch = self.records.cluster.epoch;
        if self.told_proxies == Some(epoch) {
            return;
        }
        let text = nodes::render_file(&self.records.cluster, &std::collections::BTreeSet::new());
        let path = self.options.folder.topology();
        match processes::replace(&path, text.as_bytes()) {
            Ok(()) => self.told_proxies = Some(epoch),
            Err(error) => self.note(&format!("{} cannot be written: {error}", path.display())),
        }
    }

    /// The round of a server that is to begin, if it has none and one is due.
    fn begin_round(&mut self, server: &Address, orders: Vec<Order>, now: u64) {
        let ask_each = self.options.ask_each_ms;
        let Some(link) = self.links.get_mut(server) else { return };
        // Nobody is asked without a pause who does not answer.
        let is_urgent = !orders.is_empty() && !self.silent.contains_key(server);
        if !link.is_busy && (is_urgent || now >= link.began_at + ask_each) {
            let mut orders = orders;
            if self.figures.is_due(server, now) {
                orders.push(Order::Figures);
            }
            link.begin(orders, now);
        }
    }

    /// A thread for each server, none for those that have left.
    fn keep_links(&mut self) {
        let servers: Vec<Address> = self.records.cluster.servers().map(|(_, server)| server.address.clone()).collect();
        self.links.retain(|address, _| servers.contains(address));
        self.figures.retain(|address| servers.contains(address));
        for address in servers {
            if self.links.contains_key(&address) {
                continue;
            }
            let sender = self.sender.clone();
            match Link::start(address.clone(), self.clock, move |report| sender.send(Event::Report(report)).is_ok()) {
                Ok(link) => drop(self.links.insert(address, link)),
                Err(error) => self.note(&format!("no thread for {address}: {error}")),
            }
        }
    }

    /// Ends all programs, in order: proxies take no more clients first.
    fn end(&mut self) {
        self.note("the agent ends, with all that it looks after");
        let now = self.now();
        let proxies: Vec<Address> = self.records.cluster.proxies.iter().map(|proxy| proxy.address.clone()).collect();
        proxies.iter().for_each(|address| self.processes.stop(address, now));
        self.processes.stop_all(now);
        while !self.processes.all_ended() {
            let now = self.now();
            self.processes.check(now);
            std::thread::sleep(LOOK_EACH);
        }
        // A socket that nobody listens on says less than none.
        let _ = fs::remove_file(self.options.folder.socket());
    }
}
