//! How an agent begins: the coordinator, its vote, its threads, and then the loop.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File, OpenOptions},
    net::SocketAddr,
    os::unix::process::CommandExt as _,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Sender},
    },
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use cluster::{ballot::Incarnation, controller::Controller, voter::Voter};
use coord::{Coordinator, keys::Keys};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag,
};

use super::{Conductor, Event, fencing, figures, moves, requests, settings, site};
use crate::{
    backups::Archivist,
    board::{Board, View},
    clock::Clock,
    connection::Login,
    copies::{self, KeptCopy},
    credentials::AllCredentials,
    error::AgentError,
    health::Health,
    home,
    http::{self, Desk, Token},
    identity,
    mover::Mover,
    options::Options,
    peers::{Heard, Peers},
    processes::{self, Processes},
    records::{CLUSTER, Records, Registration, VoterRecord},
    said,
    stranded::{self, Stranded},
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
    let options = identity::with_known_address(options)?;
    options.check()?;
    let log = open_log(&options)?;
    let stops = stops()?;
    let home = home::open(&options, || stops.load(Ordering::Relaxed), |text| eprintln!("tidegate cluster: {text}"))?;
    let options = identity::settled(options, &*home.coordinator, &Keys::new(CLUSTER))?;
    options.check()?;
    options.secret.write(&options.folder.stores_secret(), &options.folder.proxies_secret())?;
    let (coordinator, keys, clock) = (home.coordinator, Keys::new(CLUSTER), Clock::start());
    let token = token(&options, &*coordinator, &keys)?;
    match look_for(&options, (&coordinator, &keys), &token, &stops)? {
        Found::Known if options.is_rescue => return Err(AgentError::Other(NOTHING_TO_RESCUE.into())),
        Found::Known => {}
        Found::Over => return Ok(()),
        Found::Anew => return Err(begun_anew()),
    }
    let (records, board, incarnation) = begin_voting(&options, &coordinator, &keys, clock)?;
    let declared = processes::declared(&options.folder)?;
    let (sender, events) = mpsc::channel();
    let login = Login { password: options.secret.password.clone(), term: None };
    let heard = heard_by(&board, &sender);
    let desk = desk(&board, &heard, &sender, (token.clone(), login.clone()));
    let desk = Arc::new(Desk { archivist, ..desk });
    http::listen(&options.folder, Arc::clone(&desk))?;
    let site = site::open(&options, desk)?;
    let voting = Voting {
        board: Arc::clone(&board),
        name: options.host_name().to_owned(),
        login: login.clone(),
        lease_ms: options.patience.lease_ms,
        clock,
    };
    voting::start(voting).map_err(no_thread)?;
    let health = watch_health(&options, &coordinator, &keys)?;
    start_watching(&options, (coordinator, keys), site, (&records, &sender))?;
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
        emptied: BTreeSet::new(),
        _lock: home.lock,
        events,
        sender,
        fencing: fencing::Fencing::default(),
        credentials: AllCredentials::read(&options.folder.secrets())?,
        measured: None,
        log,
        last_log: String::new(),
        figures: figures::Figures::default(),
        settings_told: settings::Told::default(),
        site,
        reconciled: None,
        incarnation,
        health,
        copy: KeptCopy::of(&options.folder)?,
        is_address_known: false,
        is_ending: false,
        options,
    };
    conductor.serve(&stops, ready)
}

/// What an agent says that is to rescue a cluster whose coordinator knows it.
pub(super) const NOTHING_TO_RESCUE: &str =
    "the coordinator knows this cluster: there is nothing to rescue. `tidegate cluster check` says what is wrong";

/// Whether the coordinator knows the cluster of a folder.
enum Found {
    /// It does, or there is none yet.
    Known,
    /// It did not, and now it does: the agent begins as if it were just started.
    Anew,
    /// The agent is to end.
    Over,
}

/// Runs this program anew, as the same process: nothing is left of what the agent was while it waited.
fn begun_anew() -> AgentError {
    let mut words = std::env::args_os();
    let program = words.next();
    let program = std::env::current_exe().ok().map(Into::into).or(program).unwrap_or_default();
    let error = std::process::Command::new(program).args(words).exec();
    AgentError::Other(format!("the coordinator knows the cluster now, and this program cannot begin anew: {error}"))
}

/// Looks whether the coordinator knows the cluster of the folder, and waits for that where it may come to know it.
fn look_for(
    options: &Options,
    (coordinator, keys): (&Arc<dyn Coordinator>, &Keys),
    token: &Token,
    stops: &AtomicBool,
) -> Result<Found, AgentError> {
    let cluster = Records::read(Arc::clone(coordinator), keys.clone())?.cluster;
    let known = cluster.epoch;
    let copy = copies::read(&options.folder)?.unwrap_or_default();
    // A folder without a copy may be rescued by one that was kept elsewhere.
    if known >= copy.cluster.epoch && !(known == 0 && options.is_rescue) {
        if known == 0 {
            refuse_orphans(options)?;
        }
        said::compare(options, &cluster)?;
        return Ok(Found::Known);
    }
    let reason = stranded::reason(options, &copy, known);
    if options.etcd.is_empty() && !options.is_rescue {
        return Err(AgentError::Other(reason));
    }
    let login = Login { password: options.secret.password.clone(), term: None };
    let (desk, requests) = stranded::desk(token.clone(), login);
    let desk = Arc::new(desk);
    http::listen(&options.folder, Arc::clone(&desk))?;
    let since = Instant::now();
    if !options.etcd.is_empty() {
        eprintln!("tidegate cluster: {reason}");
        let api = site::open(options, desk)?.map(|address| site::told(options, address)).unwrap_or_default();
        register(options, (coordinator, keys), api)?;
    }
    let (coordinator, keys, token) = (Arc::clone(coordinator), keys.clone(), token.clone());
    let mut stranded = Stranded { options, coordinator, keys, token, copy, reason, since, processes: None };
    let is_rescued = stranded.wait(&requests, stops)?;
    Ok(if is_rescued && !options.is_rescue { Found::Anew } else { Found::Over })
}

/// A folder whose stores belong to a cluster that its coordinator does not know, and that has no copy of the record.
fn refuse_orphans(options: &Options) -> Result<(), AgentError> {
    let declared = processes::declared(&options.folder)?;
    if declared.iter().all(|one| one.is_loose) {
        return Ok(());
    }
    let folder = options.folder.path().display();
    let coordinator = match options.etcd.first() {
        Some(url) => format!("etcd at {url}"),
        None => options.folder.coordinator().display().to_string(),
    };
    Err(AgentError::Other(format!(
        "{folder} has stores of a cluster, and its coordinator knows of none: restore {coordinator} from a backup, or name another folder \
         (--dir) to begin anew. Its copy of the record (record.json) is gone, too: a kept one may be put there"
    )))
}

fn token(options: &Options, coordinator: &dyn Coordinator, keys: &Keys) -> Result<Token, AgentError> {
    if options.etcd.is_empty() {
        return Token::of(&options.folder);
    }
    Token::agree(&options.folder, coordinator, &keys.token())
}

/// Has etcd asked again and again whether it is there; a file of the folder always is.
fn watch_health(
    options: &Options,
    coordinator: &Arc<dyn Coordinator>,
    keys: &Keys,
) -> Result<Option<Arc<Health>>, AgentError> {
    if options.etcd.is_empty() {
        return Ok(None);
    }
    let health = Health::new(options.etcd.join(","));
    health.watch(Arc::clone(coordinator), keys.leader()).map_err(no_thread)?;
    Ok(Some(health))
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
) -> Result<(Records, Arc<Board>, Incarnation), AgentError> {
    let (name, patience) = (options.host_name(), options.patience);
    let record = VoterRecord { lease_ms: patience.lease_ms };
    let (incarnation, before) = Records::begin_voting(&**coordinator, keys, name, &record)?;
    let records = Records::read(Arc::clone(coordinator), keys.clone())?;
    let mut voter = Voter::new(incarnation, patience, clock.now(), before.lease_ms);
    voter.learn(&records.shared);
    voter.note_leader(records.leader().map_or(0, |leader| leader.term));
    Ok((records, Arc::new(Board::new(name, voter, clock)), incarnation))
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

fn register(
    options: &Options,
    (coordinator, keys): (&Arc<dyn Coordinator>, &Keys),
    api: String,
) -> Result<(), AgentError> {
    let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let registration = Registration { api, port: options.port, address: options.host.clone(), version, at };
    let registration = serde_json::to_vec(&registration).unwrap_or_default();
    let key = keys.agent(options.host_name());
    watching::register(Arc::clone(coordinator), key, registration).map_err(no_thread)
}

/// Registers this agent, and hears of what changes from what was read on.
fn start_watching(
    options: &Options,
    (coordinator, keys): (Arc<dyn Coordinator>, Keys),
    site: Option<SocketAddr>,
    (records, sender): (&Records, &Sender<Event>),
) -> Result<(), AgentError> {
    let api = site.map(|address| site::told(options, address)).unwrap_or_default();
    register(options, (&coordinator, &keys), api)?;
    let watcher = Mutex::new(sender.clone());
    let tell = move |heard| {
        let watcher = watcher.lock().unwrap_or_else(PoisonError::into_inner);
        watcher.send(Event::Coordinator(heard)).is_ok()
    };
    watching::start(coordinator, keys, records.revision(), tell).map_err(no_thread)
}
