//! A thread for each Redis of the cluster, as `link` has one for each store. A Redis knows nothing of slots, epochs and leases: it is
//! asked by INFO and CONFIG, and told by REPLICAOF, CLIENT PAUSE, SCAN and UNLINK.

use std::{
    io,
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use cluster::{
    Address,
    controller::Cleared,
    keeper::{Count, Counting, Observation},
};
use resp::Value;

use crate::{
    clock::Clock,
    connection::{Command, Connection, command, text},
    credentials::Credentials,
    figures::Figures,
    link::{Link, Order, Paused, Report, RoundError, number, role_of},
};

/// What a round may take.
const ROUND_PATIENCE: Duration = Duration::from_millis(400);

/// A connection that has said who it is.
///
/// # Errors
///
/// Nobody listens there, or it does not let the agent in.
pub fn open(server: &Address, credentials: Option<&Credentials>, patience: Duration) -> Result<Connection, RoundError> {
    let mut open = Connection::open(server, patience)?;
    if let Some(credentials) = credentials {
        let replies = open.ask(&[credentials.command()])?;
        if let Some(error) = replies.first().and_then(Value::as_error) {
            return Err(RoundError::Password(String::from_utf8_lossy(error).into_owned()));
        }
    }
    Ok(open)
}

/// Starts a server's thread. It ends when the link goes.
///
/// # Errors
///
/// The system has no thread left.
pub fn start(
    server: Address,
    credentials: Option<Credentials>,
    clock: Clock,
    report: impl Fn(Report) -> bool + Send + 'static,
) -> io::Result<Link> {
    let (orders, given) = mpsc::channel();
    let name = format!("redis {}", server.port());
    let mut seat = Seat { server, credentials, clock, connection: None, run: None };
    thread::Builder::new().name(name).spawn(move || seat.serve(&given, &report))?;
    Ok(Link::of(orders))
}

struct Seat {
    server: Address,
    credentials: Option<Credentials>,
    clock: Clock,
    connection: Option<Connection>,
    /// Which process it was.
    run: Option<String>,
}

impl Seat {
    fn serve(&mut self, orders: &Receiver<Vec<Order>>, report: &impl Fn(Report) -> bool) {
        while let Ok(orders) = orders.recv() {
            let mut round = Report::of(&self.server);
            let result = self.go_round(&orders, &mut round);
            if result.is_err() {
                self.connection = None;
            }
            round.observation = result;
            if !report(round) {
                return;
            }
        }
    }

    fn now(&self) -> u64 {
        self.clock.now()
    }

    fn go_round(&mut self, orders: &[Order], round: &mut Report) -> Result<Observation, RoundError> {
        if self.connection.is_none() {
            self.connection = Some(open(&self.server, self.credentials.as_ref(), ROUND_PATIENCE)?);
        }
        for order in orders {
            self.obey(order, round)?;
        }
        let (asked_at, begun) = (self.now(), Instant::now());
        let questions = [
            command(&["INFO", "server"]),
            command(&["INFO", "replication"]),
            command(&["CONFIG", "GET", "min-replicas-to-write"]),
        ];
        let answers = self.ask(&questions)?;
        round.round_trip_us = begun.elapsed().as_micros() as u64;
        if let Some(figures) = &mut round.figures {
            figures.round_trip_us = begun.elapsed().as_micros() as u64;
        }
        let run = answers.first().map(text).and_then(|info| field(&info, "run_id").map(str::to_owned));
        round.has_restarted = run.is_some() && self.run.is_some() && self.run != run;
        self.run = run.or(self.run.take());
        observed(&answers, (asked_at, self.now()))
    }

    fn ask(&mut self, commands: &[Command]) -> Result<Vec<Value>, RoundError> {
        let Some(open) = &mut self.connection else { return Err(RoundError::NotConnected) };
        Ok(open.ask(commands)?)
    }

    /// One command's reply; an error of the server is noted.
    fn tell(&mut self, words: &[&str], round: &mut Report) -> Result<Value, RoundError> {
        let mut replies = self.ask(&[command(words)])?;
        let reply = replies.pop().ok_or(RoundError::TooFew("it gave no answer"))?;
        if let Some(error) = reply.as_error() {
            let name = words.iter().take(2).copied().collect::<Vec<_>>().join(" ");
            round.failures.push(format!("{name}: {}", String::from_utf8_lossy(error)));
        }
        Ok(reply)
    }

    fn obey(&mut self, order: &Order, round: &mut Report) -> Result<(), RoundError> {
        match order {
            // Redis servers keep their settings themselves: none are told to them.
            Order::Do(words) | Order::Settings(words) => {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                self.tell(&words, round)?;
            }
            Order::Figures => {
                let reply = self.tell(&["INFO", "all"], round)?;
                round.figures = Some(Box::new(Figures::of(&text(&reply), 0)));
            }
            Order::Pause { slots, ms, number, .. } => {
                let asked_at = self.now();
                if self.tell(&["CLIENT", "PAUSE", &ms.to_string(), "WRITE"], round)?.as_error().is_none() {
                    round.paused.push(Paused { slots: *slots, number: *number, asked_at, until: asked_at + ms });
                }
            }
            Order::Clear { slots, count, cursor } => self.remove_some(*slots, (*count, cursor.as_deref()), round)?,
            Order::Unblock => self.unblock(round)?,
        }
        Ok(())
    }

    /// Removes what one SCAN finds of some slots, and says where the next one goes on.
    fn remove_some(
        &mut self,
        (first, last): (u16, u16),
        (count, cursor): (u32, Option<&str>),
        round: &mut Report,
    ) -> Result<(), RoundError> {
        let from = cursor.unwrap_or("0");
        let reply = self.tell(&["SCAN", from, "COUNT", &count.to_string()], round)?;
        let Some([next, keys]) = reply.as_slice() else { return Ok(()) };
        let keys = keys.as_slice().unwrap_or_default().iter().filter_map(Value::as_bytes);
        let keys: Vec<&[u8]> = keys.filter(|key| (first..=last).contains(&keyspace::slot::cluster_slot(key))).collect();
        if !keys.is_empty() {
            let words: Vec<&[u8]> = std::iter::once(b"UNLINK".as_slice()).chain(keys).collect();
            let Some(open) = &mut self.connection else { return Err(RoundError::NotConnected) };
            let reply = open.ask_bytes(&words)?;
            if let Some(error) = reply.as_error() {
                // These keys are looked at again: it takes no writes now (NOREPLICAS, MISCONF), or its user may not do that.
                round.failures.push(format!("UNLINK: {}", String::from_utf8_lossy(error)));
                return Ok(());
            }
        }
        round.cleared.push((first, Cleared::Walked { from: from.to_owned(), next: text(next) }));
        Ok(())
    }

    /// Ends commands that wait (BLPOP and the like): a proxy has them wait where their keys are then.
    fn unblock(&mut self, round: &mut Report) -> Result<(), RoundError> {
        let list = text(&self.tell(&["CLIENT", "LIST"], round)?);
        let is_blocked = |line: &&str| {
            line.split(' ').any(|part| part.strip_prefix("flags=").is_some_and(|flags| flags.contains('b')))
        };
        let id = |line: &str| line.split(' ').find_map(|part| part.strip_prefix("id=").map(str::to_owned));
        let blocked: Vec<Command> = list
            .lines()
            .filter(is_blocked)
            .filter_map(id)
            .map(|id| command(&["CLIENT", "UNBLOCK", &id, "ERROR"]))
            .collect();
        if !blocked.is_empty() {
            self.ask(&blocked)?;
        }
        Ok(())
    }
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim))
}

/// What a server has said of itself. Its epoch is nobody's: whoever has the cluster sets it.
fn observed(answers: &[Value], (asked_at, answered_at): (u64, u64)) -> Result<Observation, RoundError> {
    let [server, replication, least] = answers else { return Err(RoundError::TooFew("it gave too few answers")) };
    if let Some(error) = [server, replication].iter().find_map(|answer| answer.as_error()) {
        return Err(RoundError::Refused(String::from_utf8_lossy(error).into_owned()));
    }
    let replication = text(replication);
    let least = least.as_slice().and_then(|words| words.get(1)).map(text).and_then(|number| number.parse().ok());
    let ack = least.ok_or(RoundError::NoConfig)?;
    // It counts whoever follows it.
    let counting = Counting { count: Count { ack, ..Count::default() }, ..Counting::default() };
    let offset = number(&replication, "master_repl_offset")?;
    Ok(Observation {
        asked_at,
        answered_at,
        role: role_of(&replication)?,
        offset: field(&replication, "slave_repl_offset").and_then(|own| own.parse().ok()).unwrap_or(offset),
        durable: 0,
        epoch: 0,
        counting: Some(counting),
        followers: Vec::new(),
        run: field(&text(server), "run_id").unwrap_or_default().to_owned(),
        serves: true,
        pauses: Vec::new(),
        bond: None,
        histories: Vec::new(),
    })
}
