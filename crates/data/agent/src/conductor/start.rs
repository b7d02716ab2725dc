//! How an agent begins: the coordinator, its vote, its threads, and then the loop.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Sender},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use cluster::{controller::Controller, voter::Voter};
use coord::{Coordinator, keys::Keys};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag,
};

use super::{Conductor, Event, fencing, figures, moves, requests, site};
use crate::{
    backups::Archivist,
    board::{Board, View},
    clock::Clock,
    connection::Login,
    credentials::AllCredentials,
    error::AgentError,
    home,
    http::{self, Desk, Token},
    mover::Mover,
    options::Options,
    peers::{Heard, Peers},
    processes::{self, Processes},
    records::{CLUSTER, Records, Registration, VoterRecord},
    voting::{self, Voting},
    watching,
};

/// Runs an agent on a folder until it is told to end. `ready` is told once, when the cluster serves.
///
/// # Errors
///
/// The cluster cannot be begun, or another agent has the folder.
pub fn run(
    options: Options,
    mover: Option<Box<dyn Mover>>,
    archivist: Option<Arc<dyn Archivist>>,
    ready: impl FnOnce(&str),
) -> Result<(), AgentError> {
    options.check()?;
    let log = open_log(&options)?;
    let stops = stops()?;
    let home = home::open(&options, || stops.load(Ordering::Relaxed), |text| eprintln!("tidegate cluster: {text}"))?;
    options.secret.write(&options.folder.stores_secret(), &options.folder.proxies_secret())?;
    let (coordinator, keys, clock) = (home.coordinator, Keys::new(CLUSTER), Clock::start());
    let token = if options.etcd.is_empty() {
        Token::of(&options.folder)?
    } else {
        Token::agree(&options.folder, &*coordinator, &keys.token())?
    };
    let (records, board) = begin_voting(&options, &coordinator, &keys, clock)?;
    let declared = processes::declared(&options.folder)?;
    let (sender, events) = mpsc::channel();
    let login = Login { password: options.secret.password.clone(), term: None };
    let heard = heard_by(&board, &sender);
    let desk = desk(&board, &heard, &sender, (token.clone(), login.clone()));
    let desk = Arc::new(Desk { archivist, ..desk });
    http::listen(&options.folder, Arc::clone(&desk))?;
    let site = site::open(&options, desk)?;
    let api = site.map(|address| address.to_string()).unwrap_or_default();
    let voting = Voting {
        board: Arc::clone(&board),
        name: options.host_name().to_owned(),
        login: login.clone(),
        lease_ms: options.patience.lease_ms,
        clock,
    };
    voting::start(voting).map_err(no_thread)?;
    start_watching(&options, (coordinator, keys), api, (&records, &sender))?;
    let fence = fencing::new_fence(options.patience, clock.now());
    let mut controller = Controller::new(options.host_name(), options.patience, fence);
    controller.can_copy = mover.is_some();
    controller.ask_each_ms = options.ask_each_ms;
    let conductor = Conductor {
        records,
        processes: Processes::new(&options, declared),
        controller,
        copies: moves::Copies::new(),
        links: BTreeMap::new(),
        silent: BTreeMap::new(),
        mover,
        clock,
        peers: Peers::new(Arc::clone(&board), token, heard),
        board,
        login,
        pids: BTreeMap::new(),
        _lock: home.lock,
        events,
        sender,
        fencing: fencing::Fencing::default(),
        credentials: AllCredentials::read(&options.folder.secrets())?,
        measured: None,
        log,
        last_log: String::new(),
        figures: figures::Figures::default(),
        site,
        reconciled: None,
        is_ending: false,
        options,
    };
    conductor.serve(&stops, ready)
}

fn open_log(options: &Options) -> Result<File, AgentError> {
    let failed = |path: PathBuf| move |source| AgentError::File { path, source };
    let path = options.folder.log();
    let logs = path.parent().unwrap_or(options.folder.path()).to_owned();
    fs::create_dir_all(&logs).map_err(failed(logs))?;
    OpenOptions::new().create(true).append(true).open(&path).map_err(failed(path))
}

/// Becomes true when a signal says that the agent is to end.
fn stops() -> Result<Arc<AtomicBool>, AgentError> {
    let stops = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register(signal, Arc::clone(&stops))
            .map_err(|error| AgentError::Other(format!("signal {signal} cannot be caught: {error}")))?;
    }
    Ok(stops)
}

/// NOTE: the order matters. Who has been told of promises of a voter before this one finds it started anew from here on, and the record
/// is read after that: it is as new as anything that was promised.
fn begin_voting(
    options: &Options,
    coordinator: &Arc<dyn Coordinator>,
    keys: &Keys,
    clock: Clock,
) -> Result<(Records, Arc<Board>), AgentError> {
    let (name, patience) = (options.host_name(), options.patience);
    let record = VoterRecord { lease_ms: patience.lease_ms };
    let (incarnation, before) = Records::begin_voting(&**coordinator, keys, name, &record)?;
    let records = Records::read(Arc::clone(coordinator), keys.clone())?;
    let mut voter = Voter::new(incarnation, patience, clock.now(), before.lease_ms);
    voter.learn(&records.shared);
    voter.note_leader(records.leader().map_or(0, |leader| leader.term));
    Ok((records, Arc::new(Board::new(name, voter, clock))))
}

/// What happens when another agent has said something: it is on the board at once, and the loop hears of it.
fn heard_by(board: &Arc<Board>, sender: &Sender<Event>) -> Arc<Heard> {
    let (board, sender) = (Arc::clone(board), Mutex::new(sender.clone()));
    Arc::new(move |view: View| {
        board.take(view.clone());
        let sender = sender.lock().unwrap_or_else(PoisonError::into_inner);
        // When the loop has ended, so has everything.
        let _ = sender.send(Event::Peer(Box::new(view)));
    })
}

fn desk(board: &Arc<Board>, heard: &Arc<Heard>, sender: &Sender<Event>, (token, login): (Token, Login)) -> Desk {
    let requests = Mutex::new(sender.clone());
    let hand_over = move |request, answer| {
        let requests = requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.send(Event::Request(request, answer)).is_ok()
    };
    let (told, of_board) = (Arc::clone(heard), Arc::clone(board));
    let exchange = move |body| {
        told(serde_json::from_value(body).ok()?);
        serde_json::to_value(of_board.view()).ok()
    };
    Desk {
        hand_over: Box::new(hand_over),
        access: requests::access,
        exchange: Box::new(exchange),
        token,
        login,
        archivist: None,
    }
}

fn no_thread(error: std::io::Error) -> AgentError {
    AgentError::Other(format!("the system has no thread left: {error}"))
}

/// Registers this agent, and hears of what changes from what was read on.
fn start_watching(
    options: &Options,
    (coordinator, keys): (Arc<dyn Coordinator>, Keys),
    api: String,
    (records, sender): (&Records, &Sender<Event>),
) -> Result<(), AgentError> {
    let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let registration = serde_json::to_vec(&Registration { api, port: options.port, version, at }).unwrap_or_default();
    let key = keys.agent(options.host_name());
    watching::register(Arc::clone(&coordinator), key, registration).map_err(no_thread)?;
    let watcher = Mutex::new(sender.clone());
    let tell = move |heard| {
        let watcher = watcher.lock().unwrap_or_else(PoisonError::into_inner);
        watcher.send(Event::Coordinator(heard)).is_ok()
    };
    watching::start(coordinator, keys, records.revision(), tell).map_err(no_thread)
}
