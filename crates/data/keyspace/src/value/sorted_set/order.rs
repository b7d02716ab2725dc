//! Members in order, with their ranks: a B+ tree whose branches count what is below them.
//!
//! Every operation walks one path, so it takes time that grows with the logarithm of the number of members, and moves at
//! most a few nodes' content; nothing is ever copied as a whole when the tree grows. A branch keeps the score of its first
//! member beside the pointer, which decides most comparisons without another access; names are compared where scores are
//! the same.

use std::cmp::Ordering;

use resp::{Protocol, Reply};

use crate::Bytes;

/// A member with its score.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// The score, never a NaN.
    pub score: f64,
    /// The member.
    pub name: Bytes,
}

/// The most members of a leaf, and branches of another node.
const NODE_LEN_MAX: usize = 64;
/// A node with fewer is joined with a neighbour.
const NODE_LEN_MIN: usize = NODE_LEN_MAX / 4;

#[derive(Debug, Clone)]
enum Node {
    Leaf(Vec<Member>),
    Inner(Vec<Branch>),
}

#[derive(Debug, Clone)]
struct Branch {
    /// The members below.
    count: usize,
    /// The first one's score.
    score: f64,
    node: Box<Node>,
}

/// A place between members.
#[derive(Debug, Clone, Copy)]
pub enum OrderBound<'a> {
    /// In front of the first one of a score.
    BeforeScore(f64),
    /// Behind the last one of a score.
    AfterScore(f64),
    /// In front of a name, where all scores are the same.
    BeforeName(&'a [u8]),
    /// Behind a name, where all scores are the same.
    AfterName(&'a [u8]),
    /// In front of a member, or where it would be.
    Before(f64, &'a [u8]),
}

impl OrderBound<'_> {
    /// Whether a member is in front of the place.
    pub(super) fn is_behind<'b>(&self, score: f64, name: impl FnOnce() -> &'b [u8]) -> bool {
        match self {
            Self::BeforeScore(bound) => score < *bound,
            Self::AfterScore(bound) => score <= *bound,
            Self::BeforeName(bound) => name() < *bound,
            Self::AfterName(bound) => name() <= *bound,
            Self::Before(bound, bound_name) => score < *bound || (score == *bound && name() < *bound_name),
        }
    }
}

impl Member {
    /// The order of scores, then of names.
    pub fn compare(&self, other: &Self) -> Ordering {
        compare(self, other.score, &other.name)
    }

    /// Writes it: with its score, flat in the older protocol, a pair in the newer one.
    pub fn reply(&self, reply: &mut Reply<'_>, with_score: bool) {
        if with_score && reply.protocol() == Protocol::Resp3 {
            reply.array(2);
        }
        reply.bulk(&self.name);
        if with_score {
            reply.double(self.score);
        }
    }
}

/// The same with the other member in parts.
pub(super) fn compare(left: &Member, score: f64, name: &[u8]) -> Ordering {
    left.score.partial_cmp(&score).unwrap_or(Ordering::Equal).then_with(|| left.name.as_slice().cmp(name))
}

impl Node {
    fn len(&self) -> usize {
        match self {
            Self::Leaf(members) => members.len(),
            Self::Inner(branches) => branches.len(),
        }
    }

    fn count(&self) -> usize {
        match self {
            Self::Leaf(members) => members.len(),
            Self::Inner(branches) => branches.iter().map(|branch| branch.count).sum(),
        }
    }

    fn first(&self) -> Option<&Member> {
        match self {
            Self::Leaf(members) => members.first(),
            Self::Inner(branches) => branches.first()?.node.first(),
        }
    }

    /// How many members are in front of a place.
    fn rank(&self, place: &OrderBound<'_>) -> usize {
        match self {
            Self::Leaf(members) => members.partition_point(|member| place.is_behind(member.score, || &member.name)),
            Self::Inner(branches) => {
                let index = branch_of(branches, place);
                let before: usize = branches.iter().take(index).map(|branch| branch.count).sum();
                before + branches.get(index).map_or(0, |branch| branch.node.rank(place))
            }
        }
    }

    /// Puts a member that is not there. A node that became too large gives its upper part.
    fn insert(&mut self, member: Member) -> Option<Branch> {
        match self {
            Self::Leaf(members) => {
                let at = members.partition_point(|other| compare(other, member.score, &member.name).is_lt());
                let last = at == members.len();
                members.insert(at, member);
                // Whoever adds in order leaves full nodes behind.
                split(members, last).map(|upper| Branch::new(Self::Leaf(upper)))
            }
            Self::Inner(branches) => {
                let index = branch_of(branches, &OrderBound::Before(member.score, &member.name));
                let branch = branches.get_mut(index)?;
                branch.count += 1;
                if branch.score > member.score {
                    branch.score = member.score;
                }
                let upper = branch.node.insert(member)?;
                branch.count -= upper.count;
                branches.insert(index + 1, upper);
                let last = index + 2 == branches.len();
                split(branches, last).map(|upper| Branch::new(Self::Inner(upper)))
            }
        }
    }

    /// Removes members by rank.
    fn remove(&mut self, from: usize, count: usize, removed: &mut impl FnMut(Member)) {
        match self {
            Self::Leaf(members) => {
                let to = (from + count).min(members.len());
                members.drain(from.min(to)..to).for_each(removed);
            }
            Self::Inner(branches) => {
                let mut before = 0;
                let mut affected = None;
                for (index, branch) in branches.iter_mut().enumerate() {
                    let len = branch.count;
                    let first = from.saturating_sub(before).min(len);
                    let last = (from + count).saturating_sub(before).min(len);
                    before += len;
                    if first < last {
                        branch.node.remove(first, last - first, removed);
                        branch.count -= last - first;
                        if let Some(member) = branch.node.first() {
                            branch.score = member.score;
                        }
                        affected = affected.or(Some(index));
                    }
                }
                let Some(affected) = affected else { return };
                branches.retain(|branch| branch.count > 0);
                // What is left of the range stands in two nodes beside each other at most.
                for index in [affected + 1, affected] {
                    if branches.get(index).is_some_and(|branch| branch.node.len() < NODE_LEN_MIN) {
                        join(branches, index);
                    }
                }
            }
        }
    }

    /// The leaf with the member of a rank, and its index in there.
    fn leaf(&self, mut rank: usize) -> Option<(&[Member], usize)> {
        let mut node = self;
        loop {
            match node {
                Self::Leaf(members) => return Some((members, rank)),
                Self::Inner(branches) => {
                    let branch = branches.iter().find(|branch| {
                        let found = rank < branch.count;
                        if !found {
                            rank -= branch.count;
                        }
                        found
                    })?;
                    node = &branch.node;
                }
            }
        }
    }
}

impl Branch {
    fn new(node: Node) -> Self {
        Self { count: node.count(), score: node.first().map_or(0.0, |member| member.score), node: Box::new(node) }
    }
}

/// The branch in which a place is: the last one whose first member is in front of it.
fn branch_of(branches: &[Branch], place: &OrderBound<'_>) -> usize {
    let behind = branches.partition_point(|branch| {
        place.is_behind(branch.score, || branch.node.first().map_or(&[], |member| &member.name))
    });
    behind.saturating_sub(1)
}

fn split<T>(items: &mut Vec<T>, at_end: bool) -> Option<Vec<T>> {
    if items.len() <= NODE_LEN_MAX {
        return None;
    }
    let at = if at_end { items.len() - 1 } else { items.len() / 2 };
    let mut upper = Vec::with_capacity(NODE_LEN_MAX + 1);
    upper.extend(items.drain(at..));
    Some(upper)
}

/// Joins a small node with a neighbour if both fit into one.
fn join(branches: &mut Vec<Branch>, index: usize) {
    for left in [index.saturating_sub(1), index] {
        let (Some(one), Some(other)) = (branches.get(left), branches.get(left + 1)) else { continue };
        let fits = one.node.len() + other.node.len() <= NODE_LEN_MAX * 3 / 4;
        if !fits {
            continue;
        }
        let right = branches.remove(left + 1);
        let Some(one) = branches.get_mut(left) else { return };
        one.count += right.count;
        match (&mut *one.node, *right.node) {
            (Node::Leaf(members), Node::Leaf(more)) => members.extend(more),
            (Node::Inner(below), Node::Inner(more)) => below.extend(more),
            // All leaves are equally deep.
            _ => debug_assert!(false, "neighbours are of one kind"),
        }
        return;
    }
}

/// Members in order.
#[derive(Debug, Clone)]
pub struct Order {
    root: Node,
    len: usize,
}

impl Default for Order {
    fn default() -> Self {
        Self { root: Node::Leaf(Vec::new()), len: 0 }
    }
}

impl Order {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Puts a member that is not there.
    pub fn insert(&mut self, member: Member) {
        self.len += 1;
        if let Some(upper) = self.root.insert(member) {
            let lower = std::mem::replace(&mut self.root, Node::Leaf(Vec::new()));
            let mut branches = Vec::with_capacity(NODE_LEN_MAX + 1);
            branches.extend([Branch::new(lower), upper]);
            self.root = Node::Inner(branches);
        }
    }

    /// How many members are in front of a place.
    pub fn rank(&self, place: &OrderBound<'_>) -> usize {
        self.root.rank(place)
    }

    /// Removes members by rank.
    pub fn remove(&mut self, from: usize, count: usize, mut removed: impl FnMut(Member)) {
        let count = count.min(self.len.saturating_sub(from));
        if count == 0 {
            return;
        }
        self.root.remove(from, count, &mut removed);
        self.len -= count;
        if self.len == 0 {
            *self = Self::default();
            return;
        }
        while let Node::Inner(branches) = &mut self.root {
            if branches.len() > 1 {
                break;
            }
            let Some(only) = branches.pop() else { break };
            self.root = *only.node;
        }
    }

    /// Removes a member that is there.
    pub fn remove_member(&mut self, member: &Member) {
        self.remove(self.rank(&OrderBound::Before(member.score, &member.name)), 1, |_| {});
    }

    /// The member of a rank.
    pub fn at(&self, rank: usize) -> Option<&Member> {
        let (members, index) = self.root.leaf(rank)?;
        members.get(index)
    }

    /// The members from a rank on.
    pub fn upwards(&self, from: usize) -> impl Iterator<Item = &Member> {
        let mut next = from;
        let mut leaf: &[Member] = &[];
        std::iter::from_fn(move || {
            if leaf.is_empty() {
                let (members, index) = self.root.leaf(next)?;
                leaf = members.get(index..)?;
            }
            let (first, rest) = leaf.split_first()?;
            leaf = rest;
            next += 1;
            Some(first)
        })
    }

    /// The members from a rank down to the first one.
    pub fn downwards(&self, from: usize) -> impl Iterator<Item = &Member> {
        let mut next = Some(from);
        let mut leaf: &[Member] = &[];
        std::iter::from_fn(move || {
            let rank = next?;
            if leaf.is_empty() {
                let (members, index) = self.root.leaf(rank)?;
                leaf = members.get(..=index)?;
            }
            let (last, rest) = leaf.split_last()?;
            leaf = rest;
            next = rank.checked_sub(1);
            Some(last)
        })
    }

    #[cfg(test)]
    fn check(&self) {
        fn walk(node: &Node, depth: usize, leaves: &mut Vec<usize>) {
            assert!(node.len() <= NODE_LEN_MAX);
            match node {
                Node::Leaf(_) => leaves.push(depth),
                Node::Inner(branches) => {
                    for branch in branches {
                        assert_eq!(branch.count, branch.node.count());
                        assert_eq!(branch.score, branch.node.first().expect("no branch is empty").score);
                        walk(&branch.node, depth + 1, leaves);
                    }
                }
            }
        }
        let mut leaves = Vec::new();
        walk(&self.root, 0, &mut leaves);
        assert!(leaves.windows(2).all(|pair| pair[0] == pair[1]), "all leaves are equally deep");
        assert_eq!(self.root.count(), self.len);
        assert!(self.len == 0 || leaves.len() <= self.len / 4 + 1, "{} leaves of {}", leaves.len(), self.len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn member(score: u64, name: u64) -> Member {
        Member { score: score as f64, name: Bytes::from_slice(format!("{name:03}").as_bytes()) }
    }

    /// Random steps on the tree and on a sorted vector.
    #[test]
    fn it_does_what_a_sorted_vector_does() {
        let mut random = Random::new(11);
        let (mut order, mut model) = (Order::default(), Vec::<Member>::new());
        for step in 0..30_000 {
            // It grows, shrinks to nothing, and grows again.
            let grows = step % 10_000 < 6000;
            if random.below(10) < if grows { 8 } else { 1 } {
                let member = member(random.below(300), random.below(500));
                let at = model.partition_point(|other| compare(other, member.score, &member.name).is_lt());
                assert_eq!(order.rank(&OrderBound::Before(member.score, &member.name)), at);
                if model.get(at) != Some(&member) {
                    model.insert(at, member.clone());
                    order.insert(member);
                }
            } else if !model.is_empty() {
                let from = random.below(model.len() as u64) as usize;
                let count = if random.below(20) == 0 { random.below(300) } else { 1 + random.below(2) } as usize;
                let mut removed = Vec::new();
                order.remove(from, count, |member| removed.push(member));
                let expected: Vec<Member> = model.drain(from..(from + count).min(model.len())).collect();
                assert_eq!(removed, expected);
            }
            if step % 500 == 0 {
                order.check();
                let bound = random.below(300) as f64;
                let place = OrderBound::AfterScore(bound);
                assert_eq!(order.rank(&place), model.partition_point(|member| member.score <= bound));
                assert!(order.upwards(0).eq(model.iter()));
                let middle = model.len() / 2;
                assert!(order.upwards(middle).eq(model.iter().skip(middle)));
                assert!(order.downwards(middle).eq(model.iter().take(middle + 1).rev()));
                assert_eq!(order.at(middle), model.get(middle));
            }
        }
    }

    #[test]
    fn members_in_order_fill_the_nodes() {
        let mut order = Order::default();
        (0..10_000).for_each(|number| order.insert(member(number, number)));
        order.check();
        let Node::Inner(branches) = &order.root else { panic!("it is not one leaf") };
        assert!(branches.len() < 6, "{}", branches.len());
        order.remove(10, 9980, |_| {});
        order.check();
        assert_eq!(order.upwards(0).count(), 20);
    }
}
