//! Gives this host's vote to the masters of all groups, again and again: a thread for each master, so that one that hangs holds up
//! nobody. Needs neither the coordinator nor the leader.

use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use cluster::{
    Address, GroupId,
    voter::{ClockReading, Vote},
};

use crate::{
    board::Board,
    clock::Clock,
    connection::{Connection, Login, command, text},
    link::field,
};

/// How long a master may take to answer.
const PATIENCE: Duration = Duration::from_millis(400);
/// How long one that does not answer is left alone.
const PAUSE: Duration = Duration::from_millis(100);
/// How often a vote is given again while it lasts.
const VOTES_AT_ONCE: u64 = 8;
/// How long an answer of the clock may be of use, in milliseconds.
const READING_MS_MAX: u64 = 100;

/// What voting needs.
#[derive(Clone, Debug)]
pub struct Voting {
    /// What is shared.
    pub board: Arc<Board>,
    /// How the voter is called.
    pub name: String,
    /// The stores' password.
    pub login: Login,
    /// For how long a vote counts, in milliseconds.
    pub lease_ms: u64,
    /// The clock.
    pub clock: Clock,
}

/// Begins to vote.
///
/// # Errors
///
/// The system has no thread left.
pub fn start(voting: Voting) -> io::Result<()> {
    thread::Builder::new().name("votes".into()).spawn(move || look_after(&voting)).map(drop)
}

fn look_after(voting: &Voting) {
    let mut threads: BTreeMap<(GroupId, Address, Arc<str>), Arc<AtomicBool>> = BTreeMap::new();
    let mut seen = 0;
    loop {
        seen = voting.board.wait(seen, Duration::from_secs(1));
        let masters = masters(voting);
        threads.retain(|key, stops| {
            let stays = masters.contains(key);
            stops.store(!stays, Ordering::Relaxed);
            stays
        });
        for key in masters {
            let (group, server, node) = key.clone();
            if threads.contains_key(&key) {
                continue;
            }
            let (mut own, stops) = (voting.clone(), Arc::new(AtomicBool::new(false)));
            own.login.node = Some(node);
            let told = Arc::clone(&stops);
            let name = format!("vote {}", server.port());
            let started = thread::Builder::new().name(name).spawn(move || serve(&own, group, &server, &told));
            if started.is_ok() {
                threads.insert(key, stops);
            }
        }
    }
}

/// The masters that this host's voter looks after, and which nodes of the cluster they are.
fn masters(voting: &Voting) -> Vec<(GroupId, Address, Arc<str>)> {
    let board = voting.board.look();
    let node = |group: GroupId, master: &Address| {
        let group = board.voter.cluster().groups.get(&group)?;
        Some(group.server(master)?.id.as_str().into())
    };
    let masters =
        board.voter.masters().filter_map(|(group, master)| Some((group, master.clone(), node(group, master)?)));
    masters.collect()
}

/// A connection to a process of a master.
struct Elector {
    connection: Connection,
    run: String,
    reading: ClockReading,
}

fn serve(voting: &Voting, group: GroupId, server: &Address, stops: &AtomicBool) {
    let mut open: Option<Elector> = None;
    while !stops.load(Ordering::Relaxed) {
        let elector = match open.take() {
            Some(elector) => Ok(elector),
            None => Elector::open(voting, server),
        };
        let Ok(mut elector) = elector else {
            thread::sleep(PAUSE);
            continue;
        };
        if elector.vote(voting, group, server).is_err() {
            continue;
        }
        let end = Instant::now() + Duration::from_millis(voting.lease_ms / VOTES_AT_ONCE);
        voting.wait(group, server, &elector.run, end);
        open = Some(elector);
    }
}

impl Voting {
    /// Waits until the next vote is due, or until one may be given that might not before.
    fn wait(&self, group: GroupId, server: &Address, run: &str, end: Instant) {
        let wanted = self.board.look().wants(group, server, run);
        let mut seen = 0;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let is_news = !wanted && self.board.look().wants(group, server, run);
            if left.is_zero() || is_news {
                return;
            }
            seen = self.board.wait(seen, left);
        }
    }
}

impl Elector {
    fn open(voting: &Voting, server: &Address) -> io::Result<Self> {
        let mut connection = Connection::open_as(server, PATIENCE, &voting.login)?;
        let replies = connection.ask(&[command(&["INFO", "server"])])?;
        let info = replies.first().map(text).unwrap_or_default();
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, "INFO server has no run_id");
        let run = field(&info, "run_id").ok_or_else(wrong)?.to_owned();
        let pid = field(&info, "process_id").and_then(|pid| pid.parse().ok()).unwrap_or(0);
        voting.board.look().runs.insert(server.clone(), (run.clone(), pid));
        let mut elector = Self { connection, run, reading: ClockReading { clock_us: 0, heard_at: 0 } };
        elector.read_clock(voting)?;
        Ok(elector)
    }

    fn read_clock(&mut self, voting: &Voting) -> io::Result<()> {
        self.ask(voting, &["CLUSTER", "LEASE", "0", "0", "SINCE", "0"])
    }

    fn ask(&mut self, voting: &Voting, words: &[&str]) -> io::Result<()> {
        let replies = self.connection.ask(&[command(words)])?;
        let clock = replies.first().and_then(resp::Value::as_integer).and_then(|clock| u64::try_from(clock).ok());
        // One that refuses a vote does not tell its clock: it knows of another epoch, or of no cluster yet.
        if let Some(clock_us) = clock {
            self.reading = ClockReading { clock_us, heard_at: voting.clock.now() };
        }
        Ok(())
    }

    fn vote(&mut self, voting: &Voting, group: GroupId, server: &Address) -> io::Result<()> {
        if voting.clock.now() > self.reading.heard_at + READING_MS_MAX {
            self.read_clock(voting)?;
        }
        let vote = voting.board.look().voter.vote(group, server, &self.run, self.reading);
        let Some(Vote { epoch, since_us, ms }) = vote else { return Ok(()) };
        let (epoch, ms, since, run) = (epoch.to_string(), ms.to_string(), since_us.to_string(), self.run.clone());
        let words = ["CLUSTER", "LEASE", &epoch, &ms, "SINCE", &since, "VOTER", &voting.name, "RUN", &run];
        self.ask(voting, &words)
    }
}
