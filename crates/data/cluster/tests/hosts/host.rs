//! An agent of a host, as the crate `agent` is one: what carries out what [`Controller`] decides. It votes and tells others how it is.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use cluster::{
    Address, SlotRange,
    ballot::{VoterReport, Will},
    controller::{Action, Controller, CopyNumber, Decision, Exit, LeaderAction, Silence, pending::Moment},
    fence::Fence,
    keeper::Patience,
    leading::Leader,
    plan::Move,
    slots::{Phase, SlotEvent},
    voter::Voter,
};

use super::{
    moves::ROUND_MS,
    planted::Planted,
    world::{Commit, Guard, Record, name},
};

/// How long an answer of the coordinator is waited for.
pub const COMMIT_MS: u64 = 2_000;

/// What an agent says to another one.
#[derive(Clone)]
pub struct SeenView {
    pub host: usize,
    pub will: Option<Will>,
    pub report: VoterReport,
    pub leader_silent_ms: u64,
    pub ended: VecDeque<(usize, Address, String)>,
}

/// A commit that is under way.
pub struct Pending {
    pub number: u64,
    pub sent_at: u64,
    /// What is done about it when it is written.
    pub decision: Option<Decision>,
}

/// What of an agent goes with its process.
pub struct Agent {
    pub voter: Voter,
    pub record: Record,
    pub controller: Controller,
    pub claims: Option<u64>,
    pub pending: Option<Pending>,
    pub will: Option<Will>,
    pub leader_heard_at: u64,
    pub peers: BTreeMap<usize, (SeenView, u64)>,
    pub ended: VecDeque<(usize, Address, String)>,
    pub runs: BTreeMap<Address, String>,
    /// What copies units, by the copy's number.
    pub copies: BTreeMap<CopyNumber, usize>,
    /// When each server was asked that has not answered.
    pub rounds: BTreeMap<Address, u64>,
    /// Servers that were told to remove something, and when.
    pub clearing: BTreeMap<usize, u64>,
    /// What somebody wants of slots.
    pub requests: Vec<(SlotRange, SlotEvent)>,
    /// It votes by what it has heard; otherwise by what its host's disk has.
    pub learns_at_once: bool,
    moving: (u64, Vec<(Move, Phase)>),
}

impl Agent {
    pub fn new(
        host: usize,
        (record, voter): (Record, Voter),
        (patience, planted): (Patience, Option<Planted>),
        now: u64,
    ) -> Self {
        let leased_at = if planted == Some(Planted::AgentForgetsLeases) { 0 } else { now };
        let fence = Fence::new((patience.lease_ms, patience.margin_ms), now, leased_at);
        Self {
            voter,
            record,
            controller: Controller::new(&name(host), patience, fence),
            claims: None,
            pending: None,
            will: None,
            leader_heard_at: now,
            peers: BTreeMap::new(),
            ended: VecDeque::new(),
            runs: BTreeMap::new(),
            copies: BTreeMap::new(),
            rounds: BTreeMap::new(),
            clearing: BTreeMap::new(),
            requests: Vec::new(),
            learns_at_once: true,
            moving: (0, Vec::new()),
        }
    }

    /// What is on its way.
    pub fn moving(&mut self) -> Vec<(Move, Phase)> {
        if self.moving.0 != self.record.state_version {
            self.moving = (self.record.state_version, self.record.cluster.moving());
        }
        self.moving.1.clone()
    }

    /// Takes over what the coordinator has, part by part: what is newer.
    pub fn take_record(&mut self, record: &Record) {
        let own = &mut self.record;
        own.revision = own.revision.max(record.revision);
        if record.state_version > own.state_version {
            (own.cluster, own.state_version) = (Arc::clone(&record.cluster), record.state_version);
        }
        for (group, (in_sync, version)) in &record.in_sync {
            if own.in_sync.get(group).is_none_or(|known| known.1 < *version) {
                own.in_sync.insert(*group, (in_sync.clone(), *version));
            }
        }
        if record.pending.1 > own.pending.1 {
            own.pending.clone_from(&record.pending);
        }
        if record.leader.as_ref().map(|leader| leader.1) > own.leader.as_ref().map(|leader| leader.1) {
            own.leader.clone_from(&record.leader);
        }
        for (host, version) in &record.voters {
            let known = own.voters.entry(host.clone()).or_default();
            *known = (*known).max(*version);
        }
        if record.history.number > self.record.history.number {
            self.record.history = Arc::clone(&record.history);
        }
        if self.learns_at_once {
            self.voter.learn(&self.record.cluster);
        }
    }

    pub fn guard(&self) -> Guard {
        Guard {
            state_version: self.record.state_version,
            leader_version: self.record.leader.as_ref().map_or(0, |leader| leader.1),
            voters: self.record.voters.clone(),
        }
    }

    /// The leader that it would become.
    pub fn stand(&mut self, host: usize, now: u64) -> Option<Commit> {
        loop {
            let fresh = self.peers.values().filter(|(_, at)| at + 1_000 >= now);
            let others_ms: Vec<u64> = fresh.map(|(view, at)| view.leader_silent_ms + (now - at)).collect();
            let silence = Silence { own_ms: now.saturating_sub(self.leader_heard_at), others_ms: &others_ms };
            match self.controller.poll_leader(now, self.record.known(&[]), silence)? {
                LeaderAction::Follow | LeaderAction::BeginAnew => {
                    self.copies.clear();
                    self.clearing.clear();
                    self.requests.clear();
                    self.rounds.clear();
                    self.will = None;
                    self.leader_heard_at = now;
                }
                // What it knows is what it has heard.
                LeaderAction::ReadAgain => {}
                LeaderAction::Claim(term) => {
                    self.claims = Some(term);
                    let seen = self.record.leader.as_ref().map_or(0, |leader| leader.1);
                    return Some(Commit::Lead { leader: Leader { host: name(host), term, api: String::new() }, seen });
                }
            }
        }
    }

    /// A server has answered, or does not in time.
    pub fn round_is_over(&mut self, server: &Address, asked_at: u64, has_answered: bool) {
        if self.rounds.get(server) == Some(&asked_at) {
            self.rounds.remove(server);
            self.controller.handle_round(server, has_answered);
        }
    }

    pub fn give_up_rounds(&mut self, now: u64) {
        let late = self.rounds.iter().filter(|(_, asked_at)| now > **asked_at + ROUND_MS);
        let late: Vec<(Address, u64)> = late.map(|(server, at)| (server.clone(), *at)).collect();
        late.iter().for_each(|(server, asked_at)| self.round_is_over(server, *asked_at, false));
    }

    /// A commit has come to an end, or nobody knows.
    pub fn committed(&mut self, done: bool, decision: Option<&Decision>, now: u64) {
        let is_led = |term: &u64| done && self.record.leader.as_ref().is_some_and(|(leader, _)| leader.term == *term);
        if let Some(term) = self.claims.take().filter(is_led) {
            self.copies.clear();
            self.rounds.clear();
            let will = self.controller.handle_claimed(term, self.record.known(&[]), now);
            self.voter.handle_will(&will);
            self.will = Some(will);
        }
        if let Some(decision) = decision.filter(|_| done) {
            self.controller.handle_written(&self.record.cluster, decision, now);
        }
    }

    /// Hears another agent. Says whether that is news to be told.
    pub fn hear(&mut self, view: SeenView, now: u64) -> bool {
        let mut is_news = false;
        if let Some(will) = &view.will
            && will.term >= self.voter.term()
        {
            is_news = self.voter.will() != will;
            self.voter.handle_will(will);
            self.leader_heard_at = now;
        }
        self.controller.handle_report(&name(view.host), &view.report, now);
        for (_, server, run) in &view.ended {
            self.hear_ended(server, run, now);
        }
        self.peers.insert(view.host, (view, now));
        is_news
    }

    pub fn hear_ended(&mut self, server: &Address, run: &str, now: u64) {
        let exit = Exit { server, run: Some(run), known: self.runs.get(server).map(String::as_str) };
        self.controller.handle_told_exit(&self.record.cluster, exit, now);
    }

    /// What is to be done.
    pub fn poll(&mut self, now: u64, planted: Option<Planted>) -> Vec<Action> {
        let (moving, mut in_sync) = (self.moving(), self.record.in_sync.clone());
        let known = self.record.known(&moving);
        if planted == Some(Planted::PromotesAnybody) {
            for (id, group) in known.cluster.groups.iter().filter(|(_, group)| !group.kind().is_store()) {
                let entry = in_sync.entry(*id).or_default();
                entry.0.config_epoch = group.config_epoch;
                entry.0.members = group.replicas().map(|server| server.address.clone()).collect();
            }
        }
        let at = Moment { now, date: now };
        self.controller.poll(at, cluster::controller::Record { in_sync: &in_sync, ..known })
    }

    /// Tells its own voter what it wants; says whether others are to be told.
    pub fn tell_will(&mut self, host: usize, now: u64) -> bool {
        let Some(will) = self.controller.will() else { return false };
        self.voter.handle_will(&will);
        let report = self.voter.report(now);
        self.controller.handle_report(&name(host), &report, now);
        let is_news = self.will.as_ref() != Some(&will);
        self.will = Some(will);
        is_news
    }

    pub fn view(&self, host: usize, now: u64) -> SeenView {
        SeenView {
            host,
            will: self.will.clone(),
            report: self.voter.report(now),
            leader_silent_ms: if self.will.is_some() { 0 } else { now.saturating_sub(self.leader_heard_at) },
            ended: self.ended.clone(),
        }
    }
}

/// What is written of a decision.
pub fn commit_of(agent: &Agent, decision: &Decision, guard: Guard) -> Commit {
    match (decision, decision.applied(&agent.record.cluster).unwrap()) {
        (_, Some(cluster)) => {
            let in_sync = decision.in_sync_after(&agent.record.cluster, &agent.record.in_sync);
            Commit::State { cluster, in_sync, guard, is_hand_over: is_hand_over(agent, decision) }
        }
        (Decision::Pending(pending), None) => {
            Commit::Pending { pending: pending.clone(), seen: agent.record.pending.1, guard }
        }
        (Decision::InSync(group, in_sync), None) => {
            let seen = agent.record.in_sync.get(group).map_or(0, |known| known.1);
            Commit::InSync { group: *group, in_sync: in_sync.clone(), seen, guard }
        }
        _ => unreachable!(),
    }
}

fn is_hand_over(agent: &Agent, decision: &Decision) -> bool {
    let Decision::Master { group, .. } = decision else { return false };
    agent.controller.keepers().get(group).is_some_and(|keeper| keeper.handing_over_to().is_some())
}
