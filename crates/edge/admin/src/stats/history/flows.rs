//! How many requests go from which frontend to which backend.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use super::series::grown;

/// Pairs that are remembered.
const FLOWS_MAX: usize = 2_048;
/// Seconds that a rate is the mean of: long enough to be read.
pub const FLOW_SECONDS: u32 = 10;

/// A frontend's name and a backend's.
type Pair = (Arc<str>, Arc<str>);

/// The rates of all pairs.
#[derive(Debug, Default)]
pub struct Flows(HashMap<Pair, Flow>);

#[derive(Debug, Default)]
struct Flow {
    seen: u64,
    total: Option<u64>,
    recent: VecDeque<u64>,
}

impl Flows {
    /// Takes in what came from a frontend to a backend up to a second.
    pub fn push(&mut self, second: u64, pair: &(&Arc<str>, &Arc<str>), total: u64) {
        let pair = (Arc::clone(pair.0), Arc::clone(pair.1));
        if self.0.len() >= FLOWS_MAX && !self.0.contains_key(&pair) {
            return;
        }
        let flow = self.0.entry(pair).or_default();
        flow.seen = second;
        let before = flow.total.replace(total);
        if flow.recent.len() == FLOW_SECONDS as usize {
            flow.recent.pop_front();
        }
        flow.recent.push_back(before.map_or(0, |before| grown(total, before)));
    }

    /// Forgets the pairs that nothing was said of in this second.
    pub fn end_second(&mut self, second: u64) {
        self.0.retain(|_, flow| flow.seen == second);
    }

    /// Frontend, backend, and requests of the last [`FLOW_SECONDS`]; those with none are left out.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, u64)> {
        let flows = self.0.iter().map(|((from, to), flow)| (&**from, &**to, flow.recent.iter().sum()));
        flows.filter(|(.., requests)| *requests > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_the_last_seconds() {
        let (web, app): (Arc<str>, Arc<str>) = ("web".into(), "app".into());
        let mut flows = Flows::default();
        for second in 1..=30_u64 {
            flows.push(second, &(&web, &app), 1_000 + second * 7);
            flows.end_second(second);
        }
        assert_eq!(flows.iter().collect::<Vec<_>>(), [("web", "app", 70)]);
        for second in 31..=40 {
            flows.push(second, &(&web, &app), 1_210);
        }
        assert_eq!(flows.iter().count(), 0, "nothing came for a while");
        flows.end_second(41);
        assert!(flows.0.is_empty(), "gone");
    }
}
