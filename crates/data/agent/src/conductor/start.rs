//! How an agent begins: the coordinator, its vote, its threads, and then the loop.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File, OpenOptions},
    net::SocketAddr,
    os::unix::process::CommandExt as _,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::AtomicBool,
        mpsc::{self, Sender},
    },
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use cluster::{ballot::Incarnation, controller::Controller, heights::AllHeights, record::Standing, voter::Voter};
use coord::{Coordinator, Etcd, keys::Keys};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag,
};

use super::{Conductor, Event, fencing, figures, links, moves, requests, settings, site};
use crate::{
    backups::Archivist,
    board::{Board, View},
    claims::Claims,
    clock::Clock,
    connection::Login,
    copies::{self, KeptCopy},
    credentials::AllCredentials,
    error::AgentError,
    health::Health,
    heights::{self, KeptHeights},
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
    refuse_no_cluster(&options)?;
    let log = open_log(&options)?;
    let stops = stops()?;
    let Some(home) = home::open(&options, &stops, |text| eprintln!("tidegate cluster: {text}"))? else {
        return Ok(());
    };
    let mut claims = Claims::default();
    let declared = processes::declared(&options.folder)?;
    claims.take(&options.folder, &declared).map_err(|taken| taken.refusal(&options.folder))?;
    let options = identity::settled(options, &*home.coordinator, &Keys::new(CLUSTER))?;
    options.check()?;
    options.secret.write(&options.folder.stores_secret(), &options.folder.proxies_secret())?;
    let (coordinator, keys, clock) = (home.coordinator, Keys::new(CLUSTER), Clock::start());
    let token = token(&options, &*coordinator, &keys)?;
    match look_for(&options, (&coordinator, &keys), &token, &stops)? {
        Found::Known if options.is_rescue => return Err(AgentError::Other(NOTHING_TO_RESCUE.into())),
        Found::Known => {}
        Found::Over => return Ok(()),
        Found::Anew => return Err(begun_anew(&options)),
    }
    let Begun { records, board, incarnation, copy, heights } = begin_voting(&options, &coordinator, &keys, clock)?;
    let declared = processes::declared(&options.folder)?;
    let (sender, events) = mpsc::channel();
    let login = Login { password: options.secret.password.clone(), ..Login::default() };
    let heard = heard_by(&board, &sender);
    let desk = desk(&board, &heard, &sender, (token.clone(), login.clone()));
    let desk = Arc::new(Desk { archivist, ..desk });
    http::listen(&options.folder, Arc::clone(&desk))?;
    let site = site::open(&options, desk)?;
    start_voting(&options, &board, &login, clock)?;
    keep_heights(&options, &board, heights, &sender)?;
    let health = watch_health(&options, &coordinator, &keys)?;
    start_watching(&options, (coordinator, keys), site, (&records, &sender))?;
    let controller = new_controller(&options, mover.is_some(), clock);
    let conductor = Conductor {
        records,
        processes: Processes::new(&options, declared),
        controller,
        copies: moves::Copies::new(),
        links: links::Links::default(),
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
        copy,
        claims,
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
fn begun_anew(options: &Options) -> AgentError {
    // NOTE: where the program was when it was started: a package that was upgraded since has put another one there, and the system would name the
    // one that was removed.
    let program = &options.program;
    let error = std::process::Command::new(program).args(std::env::args_os().skip(1)).exec();
    AgentError::Other(format!(
        "the coordinator knows the cluster now, and {} cannot begin anew: {error}",
        program.display()
    ))
}

/// Looks whether the coordinator knows the cluster of the folder, and waits for that where it may come to know it.
fn look_for(
    options: &Options,
    (coordinator, keys): (&Arc<dyn Coordinator>, &Keys),
    token: &Token,
    stops: &AtomicBool,
) -> Result<Found, AgentError> {
    let copy = copies::read(&options.folder)?.unwrap_or_default();
    let (standing, known) = copies::standing(coordinator, keys, &copy)?;
    let is_unknown = known.cluster.epoch == 0;
    // A folder without a copy may be rescued by one that was kept elsewhere.
    if standing == Standing::Continues && !(is_unknown && options.is_rescue) {
        if is_unknown {
            refuse_orphans(options)?;
        }
        said::compare(options, &known.cluster)?;
        return Ok(Found::Known);
    }
    let reason = stranded::reason(options, &copy, (standing, &known));
    if options.etcd.is_empty() && !options.is_rescue {
        return Err(AgentError::Other(reason));
    }
    let login = Login { password: options.secret.password.clone(), ..Login::default() };
    let (desk, requests) = stranded::desk(token.clone(), login);
    let serving = Arc::clone(&desk.serving);
    let desk = Arc::new(desk);
    http::listen(&options.folder, Arc::clone(&desk))?;
    let since = Instant::now();
    if !options.etcd.is_empty() {
        eprintln!("tidegate cluster: {reason}");
        let api = site::open(options, desk)?.map(|address| site::told(options, address)).unwrap_or_default();
        register(options, (coordinator, keys), api)?;
    }
    let (coordinator, keys, token) = (Arc::clone(coordinator), keys.clone(), token.clone());
    let mut stranded = Stranded {
        options,
        coordinator,
        keys,
        token,
        copy,
        reason,
        since,
        processes: None,
        is_ending: false,
        serving,
        looked_at: None,
    };
    let is_rescued = stranded.wait(&requests, stops)?;
    Ok(if is_rescued && !options.is_rescue { Found::Anew } else { Found::Over })
}

/// A rescue of a folder that is none of a cluster makes nothing there.
fn refuse_no_cluster(options: &Options) -> Result<(), AgentError> {
    if !options.is_rescue {
        return Ok(());
    }
    let folder = &options.folder;
    let files = [folder.record(), folder.identity(), folder.processes(), folder.coordinator()];
    let has_stores = || {
        let mut entries = fs::read_dir(folder.path()).into_iter().flatten().filter_map(Result::ok);
        entries.any(|entry| entry.file_name().to_string_lossy().starts_with("store-"))
    };
    if files.iter().any(|file| file.exists()) || has_stores() {
        return Ok(());
    }
    let path = folder.path().display();
    Err(AgentError::Other(format!(
        "{path} is no folder of a cluster: it has no record.json, no host.json and no store. --dir names the one that `up` has"
    )))
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
    let (own, again) = (options.clone(), keys.clone());
    let begin_anew = move || {
        // NOTE: asked by a connection of its own: what this agent knows is of the coordinator before.
        let (Ok(etcd), Ok(copy)) = (Etcd::new(&own.etcd.join(",")), copies::read(&own.folder)) else { return };
        let etcd: Arc<dyn Coordinator> = Arc::new(etcd);
        let found = copies::standing(&etcd, &again, &copy.unwrap_or_default());
        if found.is_ok_and(|(standing, known)| standing == Standing::Continues && known.cluster.epoch > 0) {
            eprintln!(
                "tidegate cluster: another coordinator is at {}, and knows all that this host knows: the agent begins anew by it",
                own.etcd.join(",")
            );
            eprintln!("tidegate cluster: {}", begun_anew(&own));
        }
    };
    health.watch(Arc::clone(coordinator), keys.clone(), begin_anew).map_err(no_thread)?;
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

/// What an agent begins with.
struct Begun {
    records: Records,
    board: Arc<Board>,
    incarnation: Incarnation,
    copy: KeptCopy,
    /// What the folder has of how far servers were.
    heights: AllHeights,
}

/// NOTE: the order matters. Who has been told of promises of a voter before this one finds it started anew from here on, and the record
/// is read after that: it is as new as anything that was promised.
fn begin_voting(
    options: &Options,
    coordinator: &Arc<dyn Coordinator>,
    keys: &Keys,
    clock: Clock,
) -> Result<Begun, AgentError> {
    let (name, patience) = (options.host_name(), options.patience);
    let record = VoterRecord { lease_ms: patience.lease_ms };
    let (incarnation, before) = Records::begin_voting(&**coordinator, keys, name, &record)?;
    let records = Records::read(Arc::clone(coordinator), keys.clone())?;
    let mut voter = Voter::new(incarnation, patience, clock.now(), before.lease_ms);
    let mut copy = KeptCopy::of(&options.folder)?;
    let (heights, problem) = heights::read(&options.folder);
    voter.remember(&heights);
    if let Some(problem) = problem {
        eprintln!("tidegate cluster: {problem}");
    }
    // Only by what is on the disk.
    if copy.keep(&records) {
        voter.learn(&records.shared);
    }
    voter.note_leader(records.leader().map_or(0, |leader| leader.term));
    Ok(Begun { records, board: Arc::new(Board::new(name, voter, clock)), incarnation, copy, heights })
}

fn start_voting(options: &Options, board: &Arc<Board>, login: &Login, clock: Clock) -> Result<(), AgentError> {
    let (board, name) = (Arc::clone(board), options.host_name().to_owned());
    let voting = Voting { board, name, login: login.clone(), lease_ms: options.patience.lease_ms, clock };
    voting::start(voting).map_err(no_thread)
}

/// Has the folder have what the host's voter remembers of how far servers were; it has `known`.
fn keep_heights(
    options: &Options,
    board: &Arc<Board>,
    known: AllHeights,
    sender: &Sender<Event>,
) -> Result<(), AgentError> {
    let (kept, sender) = (KeptHeights::new(options.folder.clone(), known), sender.clone());
    // When the loop has ended, so has everything.
    let tell = move |problem| _ = sender.send(Event::Note(problem));
    heights::start(kept, Arc::clone(board), tell).map_err(no_thread)
}

fn new_controller(options: &Options, can_copy: bool, clock: Clock) -> Controller {
    let fence = fencing::new_fence(options.patience, clock.now());
    let mut controller = Controller::new(options.host_name(), options.patience, fence);
    controller.can_copy = can_copy;
    controller.ask_each_ms = options.ask_each_ms;
    controller
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
        serving: Arc::default(),
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
