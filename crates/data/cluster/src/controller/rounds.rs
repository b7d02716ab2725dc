//! When servers are asked how they are. A server has one round at a time: what it is told, then questions. What it is to be told while one
//! is under way is said again in a later turn; what is said once waits here.

use std::collections::BTreeMap;

use super::{Action, Controller};
use crate::{
    keeper::Step,
    model::{Address, Cluster},
};

/// How often a server is asked what it does and takes, in milliseconds.
const FIGURES_EACH_MS: u64 = 1_000;

/// The rounds of a server.
#[derive(Clone, Debug, Default)]
struct Round {
    is_under_way: bool,
    /// It did not answer in the last one.
    is_silent: bool,
    began_at: Option<u64>,
    /// When it was asked last what it does and takes.
    figures_at: Option<u64>,
    /// What is said once and could not be said yet.
    waiting: Vec<Action>,
}

impl Round {
    /// What is to be done of these orders now.
    fn poll(&mut self, (now, each_ms): (u64, u64), orders: Vec<Action>, server: &Address) -> Vec<Action> {
        let mut all = std::mem::take(&mut self.waiting);
        all.extend(orders);
        // Nobody is asked without a pause who does not answer.
        let is_urgent = !all.is_empty() && !self.is_silent;
        let is_due = self.began_at.is_none_or(|at| now >= at + each_ms);
        if self.is_under_way || !(is_urgent || is_due) {
            self.waiting = all.into_iter().filter(Action::is_said_once).collect();
            return Vec::new();
        }
        let wants_figures = self.figures_at.is_none_or(|at| now >= at + FIGURES_EACH_MS);
        if wants_figures {
            self.figures_at = Some(now);
        }
        (self.is_under_way, self.began_at) = (true, Some(now));
        all.push(Action::Ask { server: server.clone(), wants_figures });
        all
    }
}

/// Those of all servers.
#[derive(Clone, Debug, Default)]
pub(super) struct Rounds(BTreeMap<Address, Round>);

impl Rounds {
    /// Another server is asked at an address from now on: a round that is under way there is not its own.
    pub(super) fn forget(&mut self, server: &Address) {
        self.0.remove(server);
    }
}

impl Controller {
    /// A server's round is over: it has answered, or not.
    pub fn handle_round(&mut self, server: &Address, has_answered: bool) {
        if let Some(round) = self.rounds.0.get_mut(server) {
            (round.is_under_way, round.is_silent) = (false, !has_answered);
        }
    }

    /// Of what servers are to be told, what they are told now, each with its questions.
    pub(super) fn poll_rounds(&mut self, now: u64, cluster: &Cluster, orders: Vec<Action>) -> Vec<Action> {
        let mut by_server: BTreeMap<Address, Vec<Action>> = BTreeMap::new();
        for order in orders {
            if let Some(server) = order.server() {
                by_server.entry(server.clone()).or_default().push(order);
            }
        }
        self.rounds.0.retain(|server, _| cluster.group_of(server).is_some());
        let (times, mut actions) = ((now, self.ask_each_ms), Vec::new());
        for (_, server) in cluster.servers() {
            let round = self.rounds.0.entry(server.address.clone()).or_default();
            let orders = by_server.remove(&server.address).unwrap_or_default();
            actions.extend(round.poll(times, orders, &server.address));
        }
        actions
    }
}

impl Action {
    /// The server that is told, if it is something that a server is told.
    #[must_use]
    pub fn server(&self) -> Option<&Address> {
        match self {
            Self::Step(_, step) => step.server(),
            Self::Unblock(server)
            | Self::PauseSlots { server, .. }
            | Self::EndPause { server, .. }
            | Self::Clear { server, .. }
            | Self::Ask { server, .. } => Some(server),
            _ => None,
        }
    }

    /// Whether it is not said again if it is not done.
    fn is_said_once(&self) -> bool {
        matches!(self, Self::PauseSlots { .. } | Self::EndPause { .. } | Self::Step(_, Step::EndPause { .. }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> Address {
        Address::new("a", 1)
    }

    fn ask(wants_figures: bool) -> Action {
        Action::Ask { server: server(), wants_figures }
    }

    #[test]
    fn what_is_said_once_waits_for_the_round_that_is_under_way() {
        let mut round = Round::default();
        let end = |number| Action::EndPause { server: server(), number };
        assert_eq!(round.poll((0, 100), Vec::new(), &server()), [ask(true)]);
        assert_eq!(round.poll((10, 100), vec![end(3), Action::Unblock(server())], &server()), []);
        assert_eq!(round.poll((20, 100), vec![end(4)], &server()), []);
        round.is_under_way = false;
        let told = round.poll((21, 100), vec![Action::Unblock(server())], &server());
        assert_eq!(told, [end(3), end(4), Action::Unblock(server()), ask(false)]);
        round.is_under_way = false;
        assert_eq!(round.poll((22, 100), Vec::new(), &server()), []);
        assert_eq!(round.poll((121, 100), Vec::new(), &server()), [ask(false)]);
    }

    #[test]
    fn who_does_not_answer_is_asked_at_intervals() {
        let mut round = Round::default();
        round.poll((0, 100), Vec::new(), &server());
        (round.is_under_way, round.is_silent) = (false, true);
        assert_eq!(round.poll((99, 100), vec![Action::Unblock(server())], &server()), []);
        let told = round.poll((1_000, 100), vec![Action::Unblock(server())], &server());
        assert_eq!(told, [Action::Unblock(server()), ask(true)]);
    }
}
