//! A thread for each server. It does one round at a time: the commands of some steps, then questions how the server is. A server
//! that hangs holds up nobody but its own thread.

use std::{
    io,
    sync::mpsc::{self, Receiver, Sender},
    thread,
    time::{Duration, Instant},
};

use cluster::{
    Address,
    controller::Cleared,
    keeper::{Bond, Count, Counting, LogHistory, Observation, Refusal, Role},
};
use resp::Value;

use crate::{
    clock::Clock,
    connection::{Command, Connection, Login, command, text},
    figures::Figures,
};

/// What a round may take.
const ROUND_PATIENCE: Duration = Duration::from_millis(400);

/// Why a round came to nothing. The next one asks anew.
#[derive(Debug, thiserror::Error)]
pub enum RoundError {
    /// The server cannot be reached, or not in time, or does not let the agent in.
    #[error("{0}")]
    Connection(#[from] io::Error),
    /// A Redis refuses what it is to let the agent in by.
    #[error("it refuses the password: {0}")]
    Password(String),
    /// It answers with an error.
    #[error("{0}")]
    Refused(String),
    /// It gave fewer answers than there were questions.
    #[error("{0}")]
    TooFew(&'static str),
    /// Its answer lacks something.
    #[error("{what}: {}", answer.lines().next().unwrap_or_default())]
    Lacks {
        /// What.
        what: String,
        /// What it said.
        answer: String,
    },
    /// It has no run.
    #[error("INFO server has no run_id")]
    NoRun,
    /// A Redis does not say how many replicas it needs.
    #[error("CONFIG GET min-replicas-to-write is refused: the agent's user needs CONFIG")]
    NoConfig,
    /// There was no connection.
    #[error("no connection")]
    NotConnected,
}

impl RoundError {
    /// The term of which a store knows that refuses an agent of an earlier one.
    #[must_use]
    pub fn later_term(&self) -> Option<u64> {
        let Self::Connection(refusal) = self else { return None };
        let refusal = refusal.to_string();
        let (_, words) = refusal.split_once("STALETERM an agent leads since ")?;
        words.split(',').next()?.parse().ok()
    }
}

/// Commands, by what their replies are for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Must be done; an error is told.
    Do(Command),
    /// Have commands on slots wait, for so many milliseconds.
    Pause {
        /// The first and the last slot.
        slots: (u16, u16),
        /// How long.
        ms: u64,
        /// What tells it from other pauses.
        number: u64,
    },
    /// Remove keys of slots that are another server's.
    Clear {
        /// The first and the last slot.
        slots: (u16, u16),
        /// How many at most.
        count: u32,
        /// Where a Redis goes on.
        cursor: Option<String>,
    },
    /// Take settings that the cluster keeps; a refusal is told.
    Settings(Command),
    /// Ask what it does and takes.
    Figures,
    /// End commands that wait for keys: these are about to have another server.
    Unblock,
}

/// A pause that a server has confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paused {
    /// The first and the last slot.
    pub slots: (u16, u16),
    /// What tells it from other pauses.
    pub number: u64,
    /// When it was asked.
    pub asked_at: u64,
    /// When it is over; it may be somewhat later.
    pub until: u64,
}

/// What came of a round.
#[derive(Debug)]
pub struct Report {
    /// Whose.
    pub server: Address,
    /// How it is; nothing if it did not answer.
    pub observation: Result<Observation, RoundError>,
    /// Errors of what it was told.
    pub failures: Vec<String>,
    /// Pauses that it has confirmed.
    pub paused: Vec<Paused>,
    /// How long it took to answer, in microseconds.
    pub round_trip_us: u64,
    /// Removals: the first slot, and what was removed.
    pub cleared: Vec<(u16, Cleared)>,
    /// What it does and takes, if it was asked.
    pub figures: Option<Box<Figures>>,
    /// It is another process than it was.
    pub has_restarted: bool,
    /// Which of the settings that the cluster keeps it was told last; nothing: it has not said.
    pub settings_told: Option<String>,
    /// Why it refuses one of them.
    pub settings_refused: Option<String>,
}

impl Report {
    /// One of a server that has said nothing yet.
    #[must_use]
    pub fn of(server: &Address) -> Self {
        Self {
            server: server.clone(),
            observation: Err(RoundError::NotConnected),
            failures: Vec::new(),
            paused: Vec::new(),
            round_trip_us: 0,
            cleared: Vec::new(),
            figures: None,
            has_restarted: false,
            settings_told: None,
            settings_refused: None,
        }
    }
}

/// A server's thread, as others see it.
#[derive(Debug)]
pub struct Link {
    orders: Sender<Vec<Order>>,
}

impl Link {
    /// Starts a server's thread. It ends when this goes.
    ///
    /// # Errors
    ///
    /// The system has no thread left.
    pub fn start(
        server: Address,
        clock: Clock,
        login: Login,
        report: impl Fn(Report) -> bool + Send + 'static,
    ) -> io::Result<Self> {
        let (orders, given) = mpsc::channel();
        let name = format!("server {}", server.port());
        thread::Builder::new().name(name).spawn(move || serve((&server, &login), clock, &given, &report))?;
        Ok(Self::of(orders))
    }

    /// That of a thread which takes orders there.
    #[must_use]
    pub fn of(orders: Sender<Vec<Order>>) -> Self {
        Self { orders }
    }

    /// Begins a round. Says whether there is somebody to do it.
    pub fn begin(&self, orders: Vec<Order>) -> bool {
        self.orders.send(orders).is_ok()
    }
}

fn serve(
    (server, login): (&Address, &Login),
    clock: Clock,
    orders: &Receiver<Vec<Order>>,
    report: &impl Fn(Report) -> bool,
) {
    let mut connection = None;
    while let Ok(orders) = orders.recv() {
        let mut round = Report::of(server);
        let result = go_round((server, login), clock, &mut connection, &orders, &mut round);
        if result.is_err() {
            connection = None;
        }
        round.observation = result;
        if !report(round) {
            return;
        }
    }
}

fn go_round(
    (server, login): (&Address, &Login),
    clock: Clock,
    connection: &mut Option<Connection>,
    orders: &[Order],
    round: &mut Report,
) -> Result<Observation, RoundError> {
    let now = || clock.now();
    if connection.is_none() {
        *connection = Some(Connection::open_as(server, ROUND_PATIENCE, login)?);
    }
    let Some(open) = connection else { return Err(RoundError::NotConnected) };
    let ordered_at = now();
    let begun = Instant::now();
    let commands: Vec<Command> = orders.iter().map(command_of).collect();
    let done = if commands.is_empty() { Vec::new() } else { open.ask(&commands)? };
    // NOTE: what was ordered is answered before the questions go out. A server tells where its log ends by what was in it when a turn began:
    // writes of the turn in which it was ordered something come behind that.
    let asked_at = now();
    // NOTE: the order matters. Whose acknowledgements count, and which pauses are on, is known before how far the log is: nothing behind
    // that was acknowledged by what counted before.
    let answers = open.ask(&[command(&["CLUSTER", "INFO"]), command(&["INFO", "server", "replication"])])?;
    let answered_at = now();
    let round_trip_us = begun.elapsed().as_micros() as u64;
    round.round_trip_us = round_trip_us;
    for (order, reply) in orders.iter().zip(&done) {
        match (order, reply.as_error()) {
            (Order::Settings(_), Some(error)) => {
                round.settings_refused = Some(String::from_utf8_lossy(error).into_owned())
            }
            (_, Some(error)) => round.failures.push(format!("{}: {}", name_of(order), String::from_utf8_lossy(error))),
            // Counted from before it was asked: it is not over sooner.
            (Order::Pause { slots, ms, number, .. }, None) => {
                let (asked_at, until) = (ordered_at, ordered_at + ms);
                round.paused.push(Paused { slots: *slots, number: *number, asked_at, until });
            }
            (Order::Clear { slots, .. }, None) => {
                let count = reply.as_integer().and_then(|count| u64::try_from(count).ok()).unwrap_or(0);
                round.cleared.push((slots.0, Cleared::Keys(count)));
            }
            (Order::Figures, None) => round.figures = Some(Box::new(Figures::of(&text(reply), round_trip_us))),
            (Order::Do(_) | Order::Settings(_) | Order::Unblock, None) => {}
        }
    }
    let observed = observed(&answers, asked_at, answered_at)?;
    let info = answers.first().map(text).unwrap_or_default();
    round.settings_told = Some(field(&info, "cluster_settings_told").unwrap_or_default().to_owned());
    Ok(observed)
}

/// Ends a pause.
pub(crate) fn end_pause(number: u64) -> Order {
    Order::Do(command(&["CLUSTER", "PAUSE", "END", "NUMBER", &number.to_string()]))
}

fn command_of(order: &Order) -> Command {
    match order {
        Order::Do(words) | Order::Settings(words) => words.clone(),
        // A store sends those that wait elsewhere itself.
        Order::Unblock => command(&["PING"]),
        Order::Figures => command(&["INFO", "clients", "memory", "stats", "commandstats", "keyspace"]),
        Order::Pause { slots: (first, last), ms, number, .. } => {
            let [first, last, number] = [u64::from(*first), u64::from(*last), *number].map(|word| word.to_string());
            command(&["CLUSTER", "PAUSE", &first, &last, &ms.to_string(), "NUMBER", &number])
        }
        Order::Clear { slots: (first, last), count, .. } => {
            command(&["CLUSTER", "DELKEYSINSLOT", &first.to_string(), &last.to_string(), &count.to_string()])
        }
    }
}

fn name_of(order: &Order) -> String {
    command_of(order).iter().take(2).cloned().collect::<Vec<_>>().join(" ")
}

/// A field of what `INFO` and its like say.
pub(crate) fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim))
}

pub(crate) fn number(text: &str, name: &str) -> Result<u64, RoundError> {
    let found = field(text, name).and_then(|value| value.parse().ok());
    found.ok_or_else(|| RoundError::Lacks { what: format!("its answer has no {name}"), answer: text.to_owned() })
}

/// What a server has said of itself.
fn observed(answers: &[Value], asked_at: u64, answered_at: u64) -> Result<Observation, RoundError> {
    let [info, replication] = answers else { return Err(RoundError::TooFew("it gave too few answers")) };
    let replication = text(replication);
    let info = text(info);
    let role = role_of(&replication)?;
    // A replica is in order too while its master is.
    let serves = role == Role::Master && field(&info, "cluster_state") == Some("ok");
    Ok(Observation {
        asked_at,
        answered_at,
        role,
        // NOTE: not what ROLE says: there, a replica without its master has no offset, and that is when it matters.
        offset: number(&replication, "master_repl_offset")?,
        // A store of an earlier version does not say.
        durable: number(&replication, "log_durable_offset").unwrap_or(0),
        epoch: number(&info, "cluster_current_epoch")?,
        counting: field(&info, "cluster_ack").and_then(counting_of),
        followers: followers_of(&replication),
        run: field(&replication, "run_id").ok_or(RoundError::NoRun)?.to_owned(),
        serves,
        pauses: field(&info, "cluster_pauses").map(numbers).unwrap_or_default(),
        bond: bond_of(&replication),
        histories: field(&replication, "log_histories").map(LogHistory::all_in).unwrap_or_default(),
    })
}

/// What a replica knows of what it keeps; a store of an earlier version says nothing of that.
fn bond_of(replication: &str) -> Option<Bond> {
    let since = number(replication, "master_since_epoch").ok()?;
    let refusal = field(replication, "master_refused").and_then(|text| {
        let value =
            |name: &str| text.split(',').find_map(|one| one.strip_prefix(name)?.strip_prefix('=')?.parse().ok());
        Some(Refusal { until: value("lacks_from")?, end: value("lacks_to")? })
    });
    Some(Bond { since, refusal })
}

fn numbers(text: &str) -> Vec<u64> {
    text.split_whitespace().filter_map(|number| number.parse().ok()).collect()
}

/// Whose acknowledgements count, as `CLUSTER INFO` says it.
fn counting_of(text: &str) -> Option<Counting> {
    let mut words = text.split_whitespace();
    let (term, serial) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let ack = words.next()?.parse().ok()?;
    let members: Option<Vec<Address>> = words.map(|word| word.parse().ok()).collect();
    Some(Counting { term, serial, count: Count { ack, members: members? } })
}

/// Who follows it: `slave0:ip=10.0.0.1,port=6379,state=online,...`.
fn followers_of(replication: &str) -> Vec<Address> {
    let of = |line: &str| {
        let (name, fields) = line.strip_prefix("slave")?.split_once(':')?;
        name.parse::<u32>().ok()?;
        let value = |name: &str| fields.split(',').find_map(|one| one.strip_prefix(name)?.strip_prefix('='));
        Some(Address::new(value("ip")?, value("port")?.parse().ok()?))
    };
    replication.lines().filter_map(of).collect()
}

pub(crate) fn role_of(replication: &str) -> Result<Role, RoundError> {
    match field(replication, "role") {
        Some("master") => Ok(Role::Master),
        Some("slave") => {
            let port = u16::try_from(number(replication, "master_port")?).unwrap_or(0);
            let master = Address::new(field(replication, "master_host").unwrap_or_default(), port);
            let is_linked = field(replication, "master_link_status") == Some("up");
            Ok(Role::Replica { master, is_linked })
        }
        _ => Err(RoundError::Lacks { what: "INFO replication has no role".into(), answer: replication.to_owned() }),
    }
}
