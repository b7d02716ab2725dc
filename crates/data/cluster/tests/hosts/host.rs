//! An agent of a host, as the crate `agent` is one: it votes, tells others how it is, and leads if it has to.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use cluster::{
    Address, GroupId, SlotRange,
    ballot::{Belief, VoterReport, Will},
    fence::Fence,
    keeper::{Keeper, Patience, Situation, Step},
    leading::{Candidacy, Leader},
    migration::Migration,
    plan::Move,
    slots::{Phase, SlotEvent},
    voter::Voter,
};

use super::world::{Commit, Guard, Record, name};

/// A unit on its way, as whoever leads has it.
pub struct UnderWay {
    pub machine: Migration,
    /// What copies it, and what copied it before and has not ended yet.
    pub copy: Option<usize>,
    pub ending: Vec<usize>,
    /// Since when it is being cleared, and whether it is.
    pub clears_since: Option<u64>,
    pub is_cleared: bool,
}

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
}

/// What of an agent goes with its process.
pub struct Agent {
    pub voter: Voter,
    pub record: Record,
    pub term: Option<u64>,
    pub claims: Option<u64>,
    belief: Belief,
    pub keepers: BTreeMap<GroupId, Keeper>,
    pub pending: Option<Pending>,
    pub will: Option<Will>,
    pub leader_heard_at: u64,
    pub peers: BTreeMap<usize, (SeenView, u64)>,
    pub ended: VecDeque<(usize, Address, String)>,
    heard_ended: BTreeSet<String>,
    pub runs: BTreeMap<Address, String>,
    pub patience: Patience,
    pub fence: Fence,
    pub moves: BTreeMap<u16, UnderWay>,
    pub pauses: u64,
    /// Groups that get no votes because of moves.
    pub held: Vec<GroupId>,
    /// What somebody wants of slots.
    pub requests: Vec<(SlotRange, SlotEvent)>,
    moving: (u64, Vec<(Move, Phase)>),
}

impl Agent {
    pub fn new(record: Record, voter: Voter, patience: Patience, now: u64) -> Self {
        Self {
            voter,
            record,
            term: None,
            claims: None,
            belief: Belief::default(),
            keepers: BTreeMap::new(),
            pending: None,
            will: None,
            leader_heard_at: now,
            peers: BTreeMap::new(),
            ended: VecDeque::new(),
            heard_ended: BTreeSet::new(),
            runs: BTreeMap::new(),
            patience,
            fence: Fence::new((patience.lease_ms, patience.margin_ms), 1, now),
            moves: BTreeMap::new(),
            pauses: 0,
            held: Vec::new(),
            requests: Vec::new(),
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

    fn led_term(&self) -> Option<u64> {
        self.term.filter(|term| self.record.leader.as_ref().is_some_and(|(leader, _)| leader.term == *term))
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
        if record.leader.as_ref().map(|leader| leader.1) > own.leader.as_ref().map(|leader| leader.1) {
            own.leader.clone_from(&record.leader);
        }
        for (host, version) in &record.voters {
            let known = own.voters.entry(host.clone()).or_default();
            *known = (*known).max(*version);
        }
        self.voter.learn(&self.record.cluster);
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
        if self.term.is_some() && self.led_term().is_none() {
            self.term = None;
            self.keepers.clear();
            self.moves.clear();
            self.requests.clear();
            self.will = None;
            self.leader_heard_at = now;
        }
        if self.term.is_some() || self.pending.is_some() {
            return None;
        }
        let others: Vec<u64> = self
            .peers
            .values()
            .filter(|(_, at)| at + 1_000 >= now)
            .map(|(view, at)| view.leader_silent_ms + (now - at))
            .collect();
        let leader = self.record.leader.as_ref();
        let candidacy = Candidacy {
            host: &name(host),
            leader: leader.map(|leader| &leader.0),
            is_own_term: false,
            told_term: 0,
            silent_ms: now.saturating_sub(self.leader_heard_at),
            patience_ms: self.patience.master_ms,
            others_silent_ms: &others,
            hosts: &self.record.cluster.hosts,
        };
        let term = candidacy.term_to_claim()?;
        self.claims = Some(term);
        let seen = leader.map_or(0, |leader| leader.1);
        Some(Commit::Lead { leader: Leader { host: name(host), term, api: String::new() }, seen })
    }

    /// A commit has come to an end, or nobody knows.
    pub fn committed(&mut self, done: bool) {
        if let Some(term) = self.claims.take()
            && done
        {
            self.term = Some(term);
            if self.led_term().is_some() {
                self.keepers.clear();
                self.moves.clear();
                self.belief = Belief::new(term);
                self.will = Some(Will { term, ..Will::default() });
                self.voter.handle_will(&Will { term, ..Will::default() });
            }
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
        self.take_report(view.host, &view.report.clone(), now);
        for (_, server, run) in view.ended.clone() {
            self.hear_ended(&server, &run, now);
        }
        self.peers.insert(view.host, (view, now));
        is_news
    }

    pub fn take_report(&mut self, host: usize, report: &VoterReport, now: u64) {
        self.belief.note(&name(host), report, now);
        for (group, promise) in &report.promises {
            if let Some(keeper) = self.keepers.get_mut(group) {
                keeper.handle_promise(&name(host), report.incarnation, promise, now);
            }
        }
    }

    pub fn hear_ended(&mut self, server: &Address, run: &str, now: u64) {
        if self.term.is_none() || !self.heard_ended.insert(run.to_owned()) {
            return;
        }
        let Some(group) = self.record.cluster.group_of(server) else { return };
        let patience = self.patience;
        let is_old = self.runs.get(server).is_some_and(|known| known != run);
        let keeper = self.keepers.entry(group).or_insert_with(|| Keeper::new(group, patience, now));
        if is_old { keeper.note_ended(run, now) } else { keeper.handle_exited(server, Some(run), now) }
    }

    /// What keepers want, by group.
    pub fn poll(&mut self, now: u64) -> Vec<(GroupId, Step)> {
        let cluster = Arc::clone(&self.record.cluster);
        let believed_since = self.belief.since(&cluster, &self.record.voters);
        let mut steps = Vec::new();
        for group in cluster.groups.keys() {
            let in_sync = self.record.in_sync.get(group).map(|known| known.0.clone()).unwrap_or_default();
            let patience = self.patience;
            let keeper = self.keepers.entry(*group).or_insert_with(|| Keeper::new(*group, patience, now));
            keeper.hold_leases(self.held.contains(group));
            let situation = Situation {
                cluster: &cluster,
                in_sync: &in_sync,
                incarnations: &self.record.voters,
                term: self.term.unwrap_or(0),
                believed_since,
            };
            steps.extend(keeper.poll_steps(now, situation).into_iter().map(|step| (*group, step)));
        }
        steps
    }

    /// Tells its own voter what it wants; says whether others are to be told.
    pub fn tell_will(&mut self, host: usize, now: u64) -> bool {
        let Some(term) = self.term else { return false };
        let asks = self.keepers.iter().filter_map(|(group, keeper)| Some((*group, keeper.ask()?)));
        let verdicts = self.keepers.iter().filter_map(|(group, keeper)| Some((*group, keeper.verdict()?.clone())));
        let will = Will { term, asks: asks.collect(), verdicts: verdicts.collect() };
        self.voter.handle_will(&will);
        let report = self.voter.report(now);
        self.take_report(host, &report, now);
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
