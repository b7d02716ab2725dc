//! Ordered sets over small integers, without allocation once they have grown.
//!
//! Several algorithms keep servers, and the queues keep tickets, sorted by a 32-bit key. Each item is in one set at a
//! time, so the links live in one array indexed by item, shared by all sets: inserting, removing and walking never
//! allocate. Items with equal keys keep the order of their insertion, which HAProxy's own trees promise too and which
//! its choices depend on.
//!
//! Each set is a treap: a binary search tree by key that is also a heap by a priority, here a fixed scramble of the
//! item's number. That keeps it as shallow as a random tree, whatever the order of insertion.

/// No item.
const NONE: u32 = u32::MAX;

/// One of the sets of a [`Forest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tree(u32);

#[derive(Clone, Copy, Debug)]
struct Node {
    key: u32,
    priority: u32,
    parent: u32,
    left: u32,
    right: u32,
    /// The set this item is in, or `NONE`.
    tree: u32,
}

/// The links of all items and the roots of all sets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Forest {
    nodes: Vec<Node>,
    roots: Vec<u32>,
}

impl Forest {
    /// A forest of empty sets over `items` items.
    pub(crate) fn new(items: usize, trees: usize) -> Self {
        let mut forest = Self { nodes: Vec::with_capacity(items), roots: vec![NONE; trees] };
        for _ in 0..items {
            forest.add_item();
        }
        forest
    }

    /// The set with this number.
    pub(crate) fn tree(&self, number: usize) -> Tree {
        debug_assert!(number < self.roots.len());
        Tree(u32::try_from(number).unwrap_or(NONE))
    }

    /// Makes room for one more item and returns it.
    pub(crate) fn add_item(&mut self) -> u32 {
        let item = u32::try_from(self.nodes.len()).unwrap_or(NONE);
        self.nodes.push(Node { key: 0, priority: scramble(item), parent: NONE, left: NONE, right: NONE, tree: NONE });
        item
    }

    /// Makes one more empty set.
    pub(crate) fn add_tree(&mut self) -> Tree {
        self.roots.push(NONE);
        Tree(u32::try_from(self.roots.len() - 1).unwrap_or(NONE))
    }

    /// Whether the item is in a set.
    pub(crate) fn is_linked(&self, item: u32) -> bool {
        self.node(item).tree != NONE
    }

    /// The key the item was last inserted with.
    pub(crate) fn key(&self, item: u32) -> u32 {
        self.node(item).key
    }

    /// The first item of the set.
    pub(crate) fn first(&self, tree: Tree) -> Option<u32> {
        let root = self.root(tree);
        (root != NONE).then(|| self.leftmost(root))
    }

    /// The item that follows this one in its set.
    pub(crate) fn next(&self, item: u32) -> Option<u32> {
        let right = self.node(item).right;
        if right != NONE {
            return Some(self.leftmost(right));
        }
        let mut child = item;
        let mut parent = self.node(child).parent;
        while parent != NONE && self.node(parent).right == child {
            child = parent;
            parent = self.node(child).parent;
        }
        (parent != NONE).then_some(parent)
    }

    /// The first item of the set whose key is at least `key`.
    pub(crate) fn at_or_after(&self, tree: Tree, key: u32) -> Option<u32> {
        let mut at = self.root(tree);
        let mut best = NONE;
        while at != NONE {
            let node = self.node(at);
            if node.key >= key {
                best = at;
                at = node.left;
            } else {
                at = node.right;
            }
        }
        (best != NONE).then_some(best)
    }

    /// Puts the item into a set, behind all items with the same key. It leaves the set it was in.
    pub(crate) fn insert(&mut self, tree: Tree, key: u32, item: u32) {
        self.remove(item);
        let mut parent = NONE;
        let mut at = self.root(tree);
        let mut goes_left = false;
        while at != NONE {
            let node = self.node(at);
            parent = at;
            goes_left = key < node.key;
            at = if goes_left { node.left } else { node.right };
        }
        let node = self.node_mut(item);
        node.key = key;
        node.parent = parent;
        node.left = NONE;
        node.right = NONE;
        node.tree = tree.0;
        if parent == NONE {
            self.set_root(tree, item);
        } else if goes_left {
            self.node_mut(parent).left = item;
        } else {
            self.node_mut(parent).right = item;
        }
        loop {
            let above = self.node(item).parent;
            if above == NONE || self.node(above).priority >= self.node(item).priority {
                return;
            }
            self.rotate_up(item);
        }
    }

    /// Takes the item out of the set it is in, if it is in one.
    pub(crate) fn remove(&mut self, item: u32) {
        if !self.is_linked(item) {
            return;
        }
        loop {
            let Node { left, right, parent, tree, .. } = *self.node(item);
            if left != NONE && right != NONE {
                let heavier = if self.node(left).priority >= self.node(right).priority { left } else { right };
                self.rotate_up(heavier);
                continue;
            }
            let child = if left != NONE { left } else { right };
            if child != NONE {
                self.node_mut(child).parent = parent;
            }
            self.replace_child(Tree(tree), parent, item, child);
            let node = self.node_mut(item);
            node.tree = NONE;
            node.parent = NONE;
            node.left = NONE;
            node.right = NONE;
            return;
        }
    }

    /// Moves the item above its parent, keeping the order.
    fn rotate_up(&mut self, item: u32) {
        let parent = self.node(item).parent;
        let Node { parent: above, left: parent_left, tree, .. } = *self.node(parent);
        if parent_left == item {
            let inner = self.node(item).right;
            self.node_mut(parent).left = inner;
            if inner != NONE {
                self.node_mut(inner).parent = parent;
            }
            self.node_mut(item).right = parent;
        } else {
            let inner = self.node(item).left;
            self.node_mut(parent).right = inner;
            if inner != NONE {
                self.node_mut(inner).parent = parent;
            }
            self.node_mut(item).left = parent;
        }
        self.node_mut(parent).parent = item;
        self.node_mut(item).parent = above;
        self.replace_child(Tree(tree), above, parent, item);
    }

    fn replace_child(&mut self, tree: Tree, parent: u32, old: u32, new: u32) {
        if parent == NONE {
            self.set_root(tree, new);
        } else if self.node(parent).left == old {
            self.node_mut(parent).left = new;
        } else {
            self.node_mut(parent).right = new;
        }
    }

    fn leftmost(&self, mut at: u32) -> u32 {
        while self.node(at).left != NONE {
            at = self.node(at).left;
        }
        at
    }

    #[expect(clippy::indexing_slicing, reason = "items are made by add_item and never taken away")]
    fn node(&self, item: u32) -> &Node {
        &self.nodes[item as usize]
    }

    #[expect(clippy::indexing_slicing, reason = "items are made by add_item and never taken away")]
    fn node_mut(&mut self, item: u32) -> &mut Node {
        &mut self.nodes[item as usize]
    }

    #[expect(clippy::indexing_slicing, reason = "a Tree is made by this forest and never taken away")]
    fn root(&self, tree: Tree) -> u32 {
        self.roots[tree.0 as usize]
    }

    #[expect(clippy::indexing_slicing, reason = "a Tree is made by this forest and never taken away")]
    fn set_root(&mut self, tree: Tree, item: u32) {
        self.roots[tree.0 as usize] = item;
    }
}

/// A fixed, well mixed priority for an item: a bijection, so no two items share one.
fn scramble(item: u32) -> u32 {
    let mut value = item.wrapping_add(0x9e37_79b9);
    value = (value ^ (value >> 16)).wrapping_mul(0x21f0_aaad);
    value = (value ^ (value >> 15)).wrapping_mul(0x735a_2d97);
    value ^ (value >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn walk(forest: &Forest, tree: Tree) -> Vec<u32> {
        let mut items = Vec::new();
        let mut at = forest.first(tree);
        while let Some(item) = at {
            items.push(item);
            at = forest.next(item);
        }
        items
    }

    proptest! {
        /// Against a plain list that inserts behind equal keys.
        #[test]
        fn keeps_order_of_key_then_insertion(steps in prop::collection::vec((0u32..40, 0usize..2, 0u32..6, any::<bool>()), 0..400)) {
            let mut forest = Forest::new(40, 2);
            let mut lists: [Vec<(u32, u32)>; 2] = [Vec::new(), Vec::new()];
            for (item, set, key, insert) in steps {
                for list in &mut lists {
                    list.retain(|&(_, other)| other != item);
                }
                if insert {
                    let tree = forest.tree(set);
                    forest.insert(tree, key, item);
                    let at = lists[set].partition_point(|&(other, _)| other <= key);
                    lists[set].insert(at, (key, item));
                } else {
                    forest.remove(item);
                }
                for (number, list) in lists.iter().enumerate() {
                    let tree = forest.tree(number);
                    prop_assert_eq!(walk(&forest, tree), list.iter().map(|&(_, item)| item).collect::<Vec<_>>());
                    for key in 0..7 {
                        let expected = list.iter().find(|&&(other, _)| other >= key).map(|&(_, item)| item);
                        prop_assert_eq!(forest.at_or_after(tree, key), expected);
                    }
                }
            }
        }
    }

    #[test]
    fn stays_shallow_when_filled_in_order() {
        let mut forest = Forest::new(10_000, 1);
        let tree = forest.tree(0);
        for item in 0..10_000 {
            forest.insert(tree, item, item);
        }
        let mut deepest = 0;
        for item in 0..10_000 {
            let mut depth = 0;
            let mut at = item;
            while forest.node(at).parent != NONE {
                at = forest.node(at).parent;
                depth += 1;
            }
            deepest = deepest.max(depth);
        }
        assert!(deepest < 60, "{deepest}");
    }
}
