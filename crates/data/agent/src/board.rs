//! What the threads of an agent share: its vote, what it tells other agents, and what they have told it. Whoever holds it does nothing
//! that takes time, so votes and promises wait neither for the coordinator nor for the loop.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use cluster::{
    Address, Epoch, GroupId,
    ballot::{VoterReport, Will},
    voter::Voter,
};
use serde::{Deserialize, Serialize};

use crate::clock::Clock;

/// Ends of processes that others are told of.
const ENDED_MAX: usize = 32;
/// For how long what another agent said is taken to be so, in milliseconds.
pub const FRESH_MS: u64 = 1_000;

/// The path of the question that agents ask each other.
pub const EXCHANGE: &str = "/api/agents/exchange";

/// A program of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    /// Its process, if it runs.
    pub pid: Option<u32>,
    /// How often its agent has started it.
    pub starts: u64,
    /// It has ended, and waits to be started again.
    #[serde(default)]
    pub is_held: bool,
    /// The number of the last restart of it that a person has confirmed and that was done.
    #[serde(default)]
    pub released: u64,
}

/// A process that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Whose it was.
    pub server: Address,
    /// Its run, as the server called it.
    pub run: String,
}

/// What an agent says of itself.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct View {
    /// Which host.
    pub host: String,
    /// The process of the agent.
    pub pid: u32,
    /// The record that it votes by.
    pub epoch: Epoch,
    /// Why it cannot write the record down, and votes by an earlier one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record_problem: Option<String>,
    /// For how long it has not heard of the leader, in milliseconds.
    pub leader_silent_ms: u64,
    /// If it leads: what it wants.
    pub will: Option<Will>,
    /// If it leads: servers that do not answer, and are no masters. Nobody waits for them.
    #[serde(default)]
    pub given_up: BTreeSet<Address>,
    /// Its promises.
    pub report: VoterReport,
    /// Its programs, by address.
    pub programs: BTreeMap<String, Running>,
    /// Processes that have ended, the last last.
    pub ended: VecDeque<Ended>,
}

/// Another agent.
#[derive(Clone, Debug)]
pub struct Peer {
    /// What it said last.
    pub view: View,
    /// When.
    pub heard_at: u64,
}

/// What is on the board.
#[derive(Debug)]
pub struct Inner {
    /// The host's vote.
    pub voter: Voter,
    /// What is told of this host; the report and the epoch are looked up when it is told.
    pub own: View,
    /// Other agents.
    pub peers: BTreeMap<String, Peer>,
    /// Runs of masters that were talked to: the run and the process.
    pub runs: BTreeMap<Address, (String, u32)>,
    /// When the leader was heard last.
    pub leader_heard_at: u64,
    generation: u64,
}

/// The board.
#[derive(Debug)]
pub struct Board {
    inner: Mutex<Inner>,
    changed: Condvar,
    clock: Clock,
}

impl Board {
    /// One of a host.
    #[must_use]
    pub fn new(host: &str, voter: Voter, clock: Clock) -> Self {
        let own = View { host: host.to_owned(), pid: std::process::id(), ..View::default() };
        let inner = Inner {
            voter,
            own,
            peers: BTreeMap::new(),
            runs: BTreeMap::new(),
            leader_heard_at: clock.now(),
            generation: 1,
        };
        Self { inner: Mutex::new(inner), changed: Condvar::new(), clock }
    }

    /// What is on it.
    pub fn look(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes it, and wakes those who wait for that.
    pub fn change<T>(&self, act: impl FnOnce(&mut Inner) -> T) -> T {
        let mut inner = self.look();
        let result = act(&mut inner);
        inner.generation += 1;
        drop(inner);
        self.changed.notify_all();
        result
    }

    /// Waits until it is another one than that of a number, up to a time. Gives its number.
    pub fn wait(&self, seen: u64, patience: Duration) -> u64 {
        let inner = self.look();
        let is_same = |inner: &mut Inner| inner.generation == seen;
        let waited = self.changed.wait_timeout_while(inner, patience, is_same);
        waited.unwrap_or_else(PoisonError::into_inner).0.generation
    }

    /// What this host tells others now.
    #[must_use]
    pub fn view(&self) -> View {
        let now = self.clock.now();
        let inner = self.look();
        View {
            epoch: inner.voter.cluster().epoch,
            report: inner.voter.report(now),
            leader_silent_ms: if inner.own.will.is_some() { 0 } else { now.saturating_sub(inner.leader_heard_at) },
            ..inner.own.clone()
        }
    }

    /// Another agent has said something.
    pub fn take(&self, view: View) {
        let now = self.clock.now();
        let mut inner = self.look();
        let known = inner.peers.get(&view.host).map(|peer| &peer.view);
        let mut is_news = known.is_none_or(|known| known.ended != view.ended || known.given_up != view.given_up);
        if let Some(will) = &view.will
            && will.term >= inner.voter.term()
        {
            is_news |= inner.voter.will() != will;
            inner.voter.handle_will(will);
            inner.leader_heard_at = now;
        }
        inner.peers.insert(view.host.clone(), Peer { view, heard_at: now });
        if is_news {
            inner.generation += 1;
            drop(inner);
            self.changed.notify_all();
        }
    }

    /// The leader of this host's agent itself wants this.
    pub fn lead(&self, will: Option<Will>) {
        let mut inner = self.look();
        if inner.own.will == will {
            return;
        }
        if let Some(will) = &will {
            inner.voter.handle_will(will);
        }
        inner.own.will = will;
        inner.generation += 1;
        drop(inner);
        self.changed.notify_all();
    }

    /// Servers that the leader has given up.
    #[must_use]
    pub fn given_up(&self) -> BTreeSet<Address> {
        let inner = self.look();
        let of_leader = |view: &&View| view.will.as_ref().is_some_and(|will| will.term == inner.voter.term());
        let mut views = std::iter::once(&inner.own).chain(inner.peers.values().map(|peer| &peer.view));
        views.find(of_leader).map(|view| view.given_up.clone()).unwrap_or_default()
    }

    /// For how long other agents that were heard lately have not heard of the leader.
    #[must_use]
    pub fn others_silent_ms(&self) -> Vec<u64> {
        let inner = self.look();
        let now = self.clock.now();
        let fresh = inner.peers.values().filter(|peer| peer.heard_at + FRESH_MS >= now);
        fresh.map(|peer| peer.view.leader_silent_ms + now.saturating_sub(peer.heard_at)).collect()
    }
}

impl Inner {
    /// The process of a server of this host has ended. Gives its run, if it is known.
    pub fn note_ended(&mut self, server: &Address, pid: Option<u32>) -> Option<String> {
        let (run, of) = self.runs.get(server)?;
        if pid != Some(*of) {
            return None;
        }
        let run = run.clone();
        self.own.ended.push_back(Ended { server: server.clone(), run: run.clone() });
        if self.own.ended.len() > ENDED_MAX {
            self.own.ended.pop_front();
        }
        Some(run)
    }

    /// Whom this host would vote for among its own group's masters.
    #[must_use]
    pub fn wants(&self, group: GroupId, server: &Address, run: &str) -> bool {
        self.voter.wants(group, server, run)
    }
}
