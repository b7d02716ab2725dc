//! The loop that all comes together in: it hears of servers, processes and requests, asks the keepers what is to be done, and has it
//! done. One thread owns all of it, so decisions are made one after the other.

mod awaited;
mod emptied;
mod fencing;
mod figures;
mod hosts;
mod leading;
mod links;
mod moves;
mod policy;
mod reconcile;
mod requests;
mod settings;
mod site;
mod start;
mod status;
mod steps;

pub use start::run;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{self, Write as _},
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, Sender},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use cluster::{Address, Epoch, Server, ServerKind, ballot::Incarnation, controller::Controller};

use crate::{
    board::{Board, View},
    claims::Claims,
    clock::Clock,
    connection::Login,
    copies::KeptCopy,
    credentials::AllCredentials,
    error::AgentError,
    health::Health,
    http::{Request, Response},
    link::{Link, Report},
    mover::Mover,
    options::Options,
    peers::Peers,
    processes::{Happening, Processes},
    records::Records,
    redis_link,
    watching::Heard,
};

/// How often the loop looks by itself.
const LOOK_EACH: Duration = Duration::from_millis(10);
/// The same while commands on slots wait for what it does.
const LOOK_HURRIED: Duration = Duration::from_millis(1);

/// Something that the loop hears of.
#[derive(Debug)]
pub enum Event {
    /// A round of the server with this name is over.
    Report(Arc<str>, Box<Report>),
    /// Somebody asks.
    Request(Request, Sender<Response>),
    /// A proxy has said which orders about Redis servers it has done, or does not answer.
    Proxy(Address, Option<u64>),
    /// The coordinator has changed.
    Coordinator(Heard),
    /// Another agent has said something; it is on the board.
    Peer(Box<View>),
    /// Something for people to know.
    Note(String),
}

/// Everything of an agent.
pub struct Conductor {
    /// How it runs.
    pub options: Options,
    /// The cluster.
    pub records: Records,
    /// Programs that run here.
    pub processes: Processes,
    /// What decides.
    pub controller: Controller,
    /// What copies slots that are on their way.
    copies: moves::Copies,
    links: links::Links,
    /// Why servers do not answer.
    pub silent: BTreeMap<Address, String>,
    /// What slots are copied by.
    pub mover: Option<Box<dyn Mover>>,
    clock: Clock,
    /// What threads share.
    pub board: Arc<Board>,
    peers: Peers,
    /// As whom servers are talked to.
    login: Login,
    /// Processes of this host's programs, as they were seen last.
    pids: BTreeMap<Address, u32>,
    /// Stores that were put off because their folders were emptied.
    emptied: BTreeSet<Address>,
    /// The lock of the folder.
    _lock: Option<File>,
    events: Receiver<Event>,
    sender: Sender<Event>,
    /// Who asks proxies.
    pub fencing: fencing::Fencing,
    /// What Redis servers let the agent in by.
    pub credentials: AllCredentials,
    log: File,
    last_log: String,
    /// What servers do and take.
    pub figures: figures::Figures,
    /// What stores were told of settings.
    pub settings_told: settings::Told,
    /// What slots were found to have last, and when.
    measured: Option<(u64, crate::survey::Measured)>,
    /// Where REST and the page are.
    pub site: Option<SocketAddr>,
    /// The epoch whose programs run, and since when.
    reconciled: Option<(Epoch, u64)>,
    /// Which start of this host's voter this process is.
    incarnation: Incarnation,
    /// How the coordinator is; nothing: it is a file of the folder.
    health: Option<Arc<Health>>,
    /// What the folder has of the record.
    copy: KeptCopy,
    /// The addresses that no other agent steers.
    claims: Claims,
    /// The folder knows this host's address.
    is_address_known: bool,
    /// It was told to end.
    pub is_ending: bool,
}

impl Conductor {
    /// Milliseconds since the agent began.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.clock.now()
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

    fn serve(mut self, stops: &AtomicBool, ready: impl FnOnce(&str)) -> Result<(), AgentError> {
        self.note(&format!("agent {} looks after {}", std::process::id(), self.options.folder.path().display()));
        // What runs is known before anybody is answered.
        self.follow_record();
        self.hold_what_waits();
        self.look_after_processes();
        let mut ready = Some(ready);
        while !self.is_ending && !stops.load(Ordering::Relaxed) {
            if let Err(error) = self.turn() {
                self.note(&error.to_string());
                self.end();
                return Err(error);
            }
            if ready.is_some()
                && self.serves()
                && let Some(ready) = ready.take()
            {
                ready(&status::greeting(&self));
            }
        }
        self.end();
        Ok(())
    }

    /// Whether the cluster serves, as far as this agent can tell.
    fn serves(&self) -> bool {
        if self.records.cluster.epoch == 0 {
            return false;
        }
        // Who does not lead asks no servers: that its proxy runs is what it knows.
        if self.leads() { status::serves(self) } else { status::own_proxies_listen(self) }
    }

    /// Hears what has happened, and does what follows from it.
    fn turn(&mut self) -> Result<(), AgentError> {
        let patience = if self.controller.is_hurried() { LOOK_HURRIED } else { LOOK_EACH };
        let mut event = self.events.recv_timeout(patience).ok();
        while let Some(heard) = event {
            match heard {
                Event::Report(id, report) => self.handle_report(&id, *report),
                Event::Proxy(proxy, done) => {
                    let now = self.now();
                    self.controller.handle_proxy(&proxy, done, now);
                }
                Event::Coordinator(heard) => self.handle_coordinator(heard),
                Event::Peer(view) => self.handle_peer(&view),
                Event::Note(text) => self.note(&text),
                Event::Request(request, answer) => {
                    let response = self.answer(request);
                    // Whoever asked may have gone.
                    let _ = answer.send(response);
                }
            }
            event = self.events.try_recv().ok();
        }
        if self.records.incarnation(self.options.host_name()) > self.incarnation {
            return Err(self.replaced());
        }
        self.stand_for_leader();
        self.look_after_hosts()?;
        self.follow_record();
        self.look_after_processes();
        self.tell_of_programs();
        if self.leads() {
            self.conduct();
            self.tell_will();
        }
        Ok(())
    }

    /// Answers a request, or has it passed on to the agent that leads.
    fn answer(&mut self, request: Request) -> Response {
        if self.leads() || requests::is_of_host(&request.path) {
            return requests::answer(self, &request);
        }
        if request.method == "GET" && request.path == "/api/status" && self.is_leader_gone() {
            return requests::answer(self, &request);
        }
        match self.records.leader() {
            Some(leader) if !request.is_passed_on => Response::PassOn { api: leader.api.clone(), request },
            Some(leader) => Response::refused(503, format!("{} leads the cluster, at {}", leader.host, leader.api)),
            None => Response::refused(503, "no agent leads the cluster yet: ask again"),
        }
    }

    /// What follows from the record as it is, before programs are started: a proxy without a topology ends at once.
    fn follow_record(&mut self) {
        let shared = Arc::clone(&self.records.shared);
        // NOTE: before the vote by it: what a master has served by is what most folders have.
        let is_kept = self.copy.keep(&self.records);
        let problem = self.copy.problem().map(str::to_owned);
        if self.board.look().own.record_problem != problem {
            if let Some(problem) = &problem {
                self.note(&format!("the record is not written, and this host does not vote by it: {problem}"));
            }
            self.board.change(|board| board.own.record_problem = problem);
        }
        if is_kept && self.board.look().voter.cluster().epoch < shared.epoch {
            self.board.change(|board| board.voter.learn(&shared));
        }
        self.tell_proxies();
        self.reconcile();
    }

    fn look_after_processes(&mut self) {
        self.put_off_emptied();
        let now = self.now();
        for happening in self.processes.check(now) {
            match happening {
                Happening::Adopted(address, pid) => {
                    self.note(&format!("{address} runs already, as process {pid}"));
                    self.pids.insert(address, pid);
                }
                Happening::Started(address, pid) => {
                    self.note(&format!("{address} is started, as process {pid}"));
                    self.pids.insert(address, pid);
                }
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
        self.let_programs_start();
        self.processes.forget_ended();
    }

    fn heard_exit(&mut self, address: &Address, now: u64) {
        let pid = self.pids.remove(address);
        let run = self.board.change(|board| board.note_ended(address, pid));
        self.take_exit(address, run.as_deref(), now);
    }

    fn handle_report(&mut self, id: &str, mut report: Report) {
        let servers = self.records.cluster.servers();
        if !servers.into_iter().any(|(_, server)| server.address == report.server && server.id == id) {
            // It has left, or is at another address by now: what it says is not about the server that is at this one.
            return;
        }
        let mark = self.settings_mark(&report.server);
        self.settings_told.take(&mut report, mark, self.clock.now());
        let (now, server) = (self.now(), report.server);
        self.controller.handle_round(&server, report.observation.is_ok());
        for failure in report.failures {
            self.note(&format!("{server} refuses {failure}"));
        }
        let cluster = Arc::clone(&self.records.shared);
        self.controller.handle_latency(&server, report.round_trip_us);
        for paused in &report.paused {
            let confirmed = (paused.number, paused.asked_at, paused.until);
            self.controller.handle_paused(&cluster, &server, confirmed, now);
        }
        let is_store = cluster.kind_of(&server).is_store();
        for (first, cleared) in &report.cleared {
            self.controller.handle_cleared(&server, *first, cleared);
        }
        if let Some(figures) = report.figures {
            self.figures.take(&server, now, *figures);
        }
        if report.has_restarted {
            self.note(&format!("{server} is another process than before"));
        }
        match report.observation {
            Ok(mut observation) => {
                if !is_store {
                    // It knows none: what it is told it does.
                    observation.epoch = self.records.cluster.epoch;
                }
                self.silent.remove(&server);
                self.controller.handle_observed(&cluster, &server, observation, now);
            }
            Err(why) => {
                if let Some(known) = why.later_term() {
                    self.controller.handle_stale_term(known);
                }
                self.silent.insert(server, why.to_string());
            }
        }
    }

    /// A thread for each server, none for those that have left.
    fn keep_links(&mut self) {
        let cluster = Arc::clone(&self.records.shared);
        let servers: BTreeMap<&Address, &Server> =
            cluster.servers().map(|(_, server)| (&server.address, server)).collect();
        let without = self.links.retain(&servers);
        // What is known by the address of one that is talked to anew may be another one's.
        let stays = |address: &Address| {
            servers.contains_key(address) && !without.iter().any(|server| server.address == *address)
        };
        self.silent.retain(|address, _| stays(address));
        self.figures.retain(stays);
        self.settings_told.retain(stays);
        for server in without {
            let link = self.link_to(server);
            if let Err(error) = self.links.put(server, link) {
                self.note(&format!("no thread for {}: {error}", server.address));
            }
        }
    }

    fn link_to(&self, server: &Server) -> io::Result<Link> {
        let (sender, id) = (self.sender.clone(), Arc::<str>::from(server.id.as_str()));
        let node = Some(Arc::clone(&id));
        let report = move |report| sender.send(Event::Report(Arc::clone(&id), Box::new(report))).is_ok();
        match server.kind {
            ServerKind::Store => {
                let login = Login { term: self.records.led_term(), node, ..self.login.clone() };
                Link::start(server.address.clone(), self.clock, login, report)
            }
            ServerKind::Redis => {
                let credentials = self.credentials.of(&server.address).cloned();
                redis_link::start(server.address.clone(), credentials, self.clock, report)
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
