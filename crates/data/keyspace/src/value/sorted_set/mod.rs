//! Sorted sets: members with scores.

mod building;
mod order;
mod spread;

pub use building::Building;
pub use order::{Member, OrderBound};

use crate::{
    elements::Elements,
    hash_index::{self, HashIndex, Hashed},
    value::{
        Ledger, Portions,
        directory::Directory,
        ledger::{Native, State},
    },
};
pub(super) use order::Order;
use order::compare;
pub use spread::Spread;
pub(super) use spread::{ORDER, member, write_record};
pub(super) use spread::{move_records, score_in};

impl Hashed for Member {
    fn name(&self) -> &[u8] {
        &self.name
    }
}

/// How large a sorted set may become and still be a list: `zset-max-listpack-*`.
#[derive(Debug, Clone, Copy)]
pub struct SmallLimits {
    /// The most members.
    pub members: usize,
    /// The longest member.
    pub member_len: usize,
}

/// Members with scores, ordered by score, then by member.
#[derive(Debug, Clone)]
pub enum SortedSet {
    /// Few and short ones, in order. A small set stays one until it has outgrown the limits.
    Small(Vec<Member>),
    /// Many, or long ones: by name and in order.
    Large {
        /// By name.
        names: HashIndex<Member>,
        /// In order.
        order: Order,
        /// If they are records.
        ledger: Option<Box<Ledger>>,
    },
    /// They are records, and not in memory.
    Spread(Box<Spread>),
}

/// A small set of Redis holds whole scores as integers, which know no minus zero.
fn without_sign_of_zero(score: f64) -> f64 {
    if score == 0.0 { 0.0 } else { score }
}

/// A range of ranks, the last one not included.
pub type Ranks = std::ops::Range<usize>;

impl SortedSet {
    /// An empty one that is to get a first member of that length.
    pub fn new(seed: u64, limits: SmallLimits, first_len: usize) -> Self {
        if limits.members == 0 || first_len > limits.member_len {
            Self::new_large(seed)
        } else {
            Self::Small(Vec::new())
        }
    }

    /// An empty one that is not small.
    pub fn new_large(seed: u64) -> Self {
        Self::Large { names: HashIndex::new(seed), order: Order::default(), ledger: None }
    }

    /// One of members that differ, small if they fit.
    pub fn from_members(seed: u64, limits: SmallLimits, members: Vec<Member>) -> Self {
        let small =
            members.len() <= limits.members && members.iter().all(|member| member.name.len() <= limits.member_len);
        if small {
            let mut members = members;
            members.iter_mut().for_each(|member| member.score = without_sign_of_zero(member.score));
            members.sort_unstable_by(Member::compare);
            return Self::Small(members);
        }
        let mut set = Self::new_large(seed);
        members.into_iter().for_each(|member| set.insert_new(seed, limits, member));
        set
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Small(members) => members.len(),
            Self::Large { order, .. } => order.len(),
            Self::Spread(spread) => spread.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it has more members than are kept whole.
    pub(super) fn is_beyond(&self, whole_max: usize) -> bool {
        !matches!(self, Self::Large { ledger: Some(_), .. } | Self::Spread(_)) && self.len() > whole_max
    }

    /// Has all members become records, as checkpoints take them.
    pub(super) fn keep(&mut self, elements: Elements, seed: u64) {
        self.enlarge(seed);
        if let Self::Large { names, ledger, .. } = self {
            *ledger = Some(Box::new(Ledger::of_new(elements, names.seed())));
        }
    }

    /// That of members that have records, in these parts.
    pub(super) fn of_members(names: HashIndex<Member>, order: Order, elements: Elements, parts: Directory) -> Self {
        let ledger = Ledger::of_records(elements, names.seed(), parts);
        Self::Large { names, order, ledger: Some(Box::new(ledger)) }
    }

    /// Leaves the members to their records, which have all of them. Returns what it was before.
    pub(super) fn let_go(&mut self) -> Option<Self> {
        let Self::Large { names, ledger, .. } = self else { return None };
        let (elements, parts) = ledger.take()?.into_records();
        let spread = Spread::with_parts(elements, names.len(), names.seed(), parts);
        Some(std::mem::replace(self, Self::Spread(Box::new(spread))))
    }

    /// Whether freeing it takes a while.
    pub(crate) fn is_large(&self) -> bool {
        matches!(self, Self::Large { names, .. } if names.is_large())
    }

    /// Frees some members of what nobody needs any more. Returns whether there are more.
    pub(crate) fn shed(&mut self) -> bool {
        const MEMBERS: usize = 512;
        let Self::Large { names, order, .. } = self else { return false };
        names.shed() || {
            order.remove(order.len().saturating_sub(MEMBERS), MEMBERS, drop);
            order.len() > 0
        }
    }

    /// As `OBJECT ENCODING` has it.
    pub fn encoding(&self) -> &'static str {
        match self {
            Self::Small(_) => "listpack",
            Self::Large { .. } | Self::Spread(_) => "skiplist",
        }
    }

    /// A member's score.
    pub fn score(&self, name: &[u8]) -> Option<f64> {
        match self {
            Self::Small(members) => members.iter().find(|member| member.name.as_slice() == name),
            Self::Large { names, .. } => names.get(name),
            Self::Spread(spread) => return spread.score(name),
        }
        .map(|member| member.score)
    }

    /// Puts a member that is not there.
    pub fn insert_new(&mut self, seed: u64, limits: SmallLimits, mut member: Member) {
        if let Self::Small(members) = self {
            if members.len() < limits.members && member.name.len() <= limits.member_len {
                member.score = without_sign_of_zero(member.score);
                let at = members.partition_point(|other| compare(other, member.score, &member.name).is_lt());
                members.insert(at, member);
                return;
            }
            self.enlarge(seed);
        }
        match self {
            Self::Small(_) => {}
            Self::Large { names, order, ledger } => {
                let hash = names.hash(&member.name);
                if let Some(ledger) = ledger {
                    ledger.note(hash, &member.name, State::Absent);
                }
                names.insert_new(hash, member.clone());
                order.insert(member);
            }
            Self::Spread(spread) => spread.insert_new(&member),
        }
    }

    fn enlarge(&mut self, seed: u64) {
        let Self::Small(members) = self else { return };
        let members = std::mem::take(members);
        let (mut names, mut order) = (HashIndex::new(seed), Order::default());
        for member in members {
            names.insert_new(names.hash(&member.name), member.clone());
            order.insert(member);
        }
        *self = Self::Large { names, order, ledger: None };
    }

    /// Gives a member that is there another score.
    pub fn change_score(&mut self, name: &[u8], score: f64) {
        match self {
            Self::Small(members) => {
                let Some(at) = members.iter().position(|member| member.name.as_slice() == name) else { return };
                let mut member = members.remove(at);
                member.score = without_sign_of_zero(score);
                let at = members.partition_point(|other| compare(other, score, name).is_lt());
                members.insert(at, member);
            }
            Self::Large { names, order, ledger } => {
                let hash = names.hash(name);
                let Some(member) = names.get_mut_hashed(hash, name) else { return };
                let former = std::mem::replace(&mut member.score, score);
                if let Some(ledger) = ledger {
                    ledger.note(hash, name, State::Score(former));
                }
                let rank = order.rank(&OrderBound::Before(former, name));
                let mut moved = None;
                order.remove(rank, 1, |member| moved = Some(member));
                if let Some(mut member) = moved {
                    member.score = score;
                    order.insert(member);
                }
            }
            Self::Spread(spread) => spread.change_score(name, score),
        }
    }

    /// Removes a member and gives its score.
    pub fn remove(&mut self, name: &[u8]) -> Option<f64> {
        match self {
            Self::Small(members) => {
                let at = members.iter().position(|member| member.name.as_slice() == name)?;
                Some(members.remove(at).score)
            }
            Self::Large { names, order, ledger } => {
                let hash = names.hash(name);
                let member = names.remove_hashed(hash, name)?;
                if let Some(ledger) = ledger {
                    ledger.note(hash, name, State::Score(member.score));
                }
                order.remove(order.rank(&OrderBound::Before(member.score, name)), 1, |_| {});
                Some(member.score)
            }
            Self::Spread(spread) => spread.remove(name),
        }
    }

    /// Removes members by rank and hands them out.
    pub fn remove_ranks(&mut self, ranks: Ranks, mut removed: impl FnMut(Member)) {
        let count = ranks.len();
        match self {
            Self::Small(members) => {
                let to = ranks.end.min(members.len());
                members.drain(ranks.start.min(to)..to).for_each(removed);
            }
            Self::Large { names, order, ledger } => order.remove(ranks.start, count, |member| {
                let hash = names.hash(&member.name);
                names.remove_hashed(hash, &member.name);
                if let Some(ledger) = ledger {
                    ledger.note(hash, &member.name, State::Score(member.score));
                }
                removed(member);
            }),
            Self::Spread(spread) => spread.remove_ranks(ranks, removed),
        }
    }

    /// A member's rank, and its score.
    pub fn rank(&self, name: &[u8]) -> Option<(usize, f64)> {
        match self {
            Self::Small(members) => {
                let at = members.iter().position(|member| member.name.as_slice() == name)?;
                members.get(at).map(|member| (at, member.score))
            }
            Self::Large { names, order, .. } => {
                let score = names.get(name)?.score;
                Some((order.rank(&OrderBound::Before(score, name)), score))
            }
            Self::Spread(spread) => spread.rank(name),
        }
    }

    /// How many members are in front of a place.
    pub fn rank_of(&self, place: &OrderBound<'_>) -> usize {
        match self {
            Self::Small(members) => members.partition_point(|member| place.is_behind(member.score, || &member.name)),
            Self::Large { order, .. } => order.rank(place),
            Self::Spread(spread) => spread.rank_of(place),
        }
    }

    /// The member of a rank.
    pub fn at(&self, rank: usize) -> Option<Member> {
        match self {
            Self::Small(members) => members.get(rank).cloned(),
            Self::Large { order, .. } => order.at(rank).cloned(),
            Self::Spread(spread) => spread.at(rank),
        }
    }

    /// The members of some ranks in portions, if they are records.
    pub fn portions(&self, ranks: Ranks, reverse: bool, with_scores: bool) -> Option<Portions> {
        if let Self::Spread(spread) = self { spread.portions(ranks, reverse, with_scores) } else { None }
    }

    /// Calls with the members of some ranks in order, or from the last to the first.
    pub fn each(&self, ranks: Ranks, reverse: bool, mut each: impl FnMut(&Member)) {
        let count = ranks.len();
        let Some(last) = ranks.end.checked_sub(1).filter(|_| count > 0) else { return };
        match (self, reverse) {
            (Self::Small(members), false) => members.iter().skip(ranks.start).take(count).for_each(each),
            (Self::Small(members), true) => members.iter().take(ranks.end).rev().take(count).for_each(each),
            (Self::Large { order, .. }, false) => order.upwards(ranks.start).take(count).for_each(each),
            (Self::Large { order, .. }, true) => order.downwards(last).take(count).for_each(each),
            (Self::Spread(spread), false) => spread.each_while(ranks, |member| {
                each(member);
                true
            }),
            (Self::Spread(spread), true) => spread.each_down(ranks, each),
        }
    }

    /// Calls with the members of some ranks in order until that says no.
    pub fn each_while(&self, ranks: Ranks, mut each: impl FnMut(&Member) -> bool) {
        let count = ranks.len();
        let _ = match self {
            Self::Small(members) => members.iter().skip(ranks.start).take(count).all(&mut each),
            Self::Large { order, .. } => order.upwards(ranks.start).take(count).all(&mut each),
            Self::Spread(spread) => {
                spread.each_while(ranks, each);
                true
            }
        };
    }

    /// The same as [`scan`](Self::scan) for who has to meet each member once: the set may leave memory between two calls, and be
    /// small when it comes back.
    pub fn scan_once(&self, cursor: u64, count: usize, seed: u64, mut each: impl FnMut(&Member)) -> Option<u64> {
        match self {
            Self::Small(members) => {
                let ahead = |member: &&Member| cursor == 0 || hash_index::is_ahead(&member.name, seed, cursor);
                members.iter().filter(ahead).for_each(each);
                None
            }
            _ => self.scan(cursor, count, &mut each),
        }
    }

    /// Gives about `count` members from a cursor on; returns the cursor to go on with, nothing at the end.
    pub fn scan(&self, cursor: u64, count: usize, mut each: impl FnMut(&Member)) -> Option<u64> {
        match self {
            Self::Small(members) => {
                members.iter().for_each(each);
                None
            }
            Self::Large { names, .. } => names.scan(cursor, count, &mut each),
            Self::Spread(spread) => spread.scan(cursor, count, each),
        }
    }
}

impl Native for HashIndex<Member> {
    fn state(&self, hash: u64, name: &[u8]) -> State<'_> {
        self.get_hashed(hash, name).map_or(State::Absent, |member| State::Score(member.score))
    }

    fn walk(&self, cursor: u64, count: usize, each: &mut dyn FnMut(&[u8], State<'_>)) -> Option<u64> {
        self.scan(cursor, count, |member| each(&member.name, State::Score(member.score)))
    }
}
