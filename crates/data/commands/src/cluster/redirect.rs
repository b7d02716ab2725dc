//! Where a command with keys is to go, as a node sees it.

use keyspace::{Failure, slot::cluster_slot};

use super::{Membership, Peer, Standing};
use crate::table::Flags;

/// Why a node does not run a command on keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Redirect {
    /// The keys are of several slots.
    CrossSlot,
    /// Another node has the slot.
    Moved {
        /// The slot.
        slot: u16,
        /// Where that node is.
        place: String,
    },
    /// Nobody has it.
    NotServed,
    /// A connection that fills slots must not any more: a later one does, or they are this node's own.
    Fenced {
        /// The slot.
        slot: u16,
    },
    /// It would write all keys, and this is a replica.
    ReadOnly,
    /// This node must not serve now: it knows no cluster yet, or nobody has said that it still may.
    Down,
}

impl Redirect {
    /// The error, as Redis Cluster has it.
    #[must_use]
    pub fn failure(&self) -> Failure {
        match self {
            Self::CrossSlot => Failure::text("CROSSSLOT Keys in request don't hash to the same slot"),
            Self::Moved { slot, place } => Failure::owned(format!("MOVED {slot} {place}")),
            Self::Fenced { slot } => Failure::owned(format!(
                "STALEMOVER slot {slot} is filled by somebody else by now, or is this node's own"
            )),
            Self::NotServed => Failure::text("CLUSTERDOWN Hash slot not served"),
            Self::ReadOnly => Failure::text("READONLY You can't write against a read only replica."),
            Self::Down => Failure::text("CLUSTERDOWN The cluster is down"),
        }
    }
}

impl Membership {
    /// Whether a command of such flags on these keys runs here. With keys the slot of the first is given.
    ///
    /// # Errors
    ///
    /// Where it is to go instead, or why it cannot run.
    pub fn route<'a>(
        &self,
        keys: impl Iterator<Item = &'a [u8]>,
        flags: Flags,
        standing: Standing,
        now: u64,
    ) -> Result<Option<u16>, Redirect> {
        let mut first: Option<u16> = None;
        for key in keys {
            let slot = cluster_slot(key);
            match first {
                Some(known) if known == slot => continue,
                Some(_) if standing.peer == Peer::Client => return Err(Redirect::CrossSlot),
                _ => self.route_slot(slot, flags, standing, now)?,
            }
            first = first.or(Some(slot));
        }
        // What has no keys and writes is about all of them.
        let is_mover = matches!(standing.peer, Peer::Mover { .. });
        if first.is_none() && flags.contains(Flags::WRITE) && !is_mover && !self.may_serve(now) {
            let is_replica = self
                .topology
                .as_ref()
                .is_some_and(|known| known.myself.is_some_and(|place| known.master_of(place) != place));
            return Err(if is_replica { Redirect::ReadOnly } else { Redirect::Down });
        }
        Ok(first)
    }

    pub(crate) fn route_slot(&self, slot: u16, flags: Flags, standing: Standing, now: u64) -> Result<(), Redirect> {
        if let Peer::Mover { pass } = standing.peer {
            return if self.may_fill(slot, pass) { Ok(()) } else { Err(Redirect::Fenced { slot }) };
        }
        let Some((topology, myself)) = self.topology.as_ref().and_then(|known| Some((known, known.myself?))) else {
            return Err(Redirect::NotServed);
        };
        let owner = topology.owner(slot).ok_or(Redirect::NotServed)?;
        let reads_here = owner != myself
            && owner == topology.master_of(myself)
            && standing.reads_replica
            && flags.contains(Flags::READONLY);
        if reads_here {
            // Who reads from a replica takes what it has: it has no lease.
            return Ok(());
        }
        if owner == myself {
            return if self.may_serve(now) { Ok(()) } else { Err(Redirect::Down) };
        }
        let node = topology.nodes.get(owner).ok_or(Redirect::NotServed)?;
        Err(Redirect::Moved { slot, place: format!("{}:{}", node.host, node.port) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The slot of "a" is 15495, of "b" 3300, of "c" 7365.
    const TEXT: &str = "\
m 127.0.0.1:1@2 myself,master - 0 0 1 connected 0-9999
o 127.0.0.1:3@4 master - 0 0 1 connected 10000-15999
r 127.0.0.1:5@6 slave m 0 0 1 connected
";

    fn told(text: &str, lease: Option<u64>) -> Membership {
        let mut membership = Membership::default();
        membership.learn(1, text, lease).unwrap();
        membership
    }

    fn routed(membership: &Membership, keys: &[&str], flags: Flags, standing: Standing) -> String {
        match membership.route(keys.iter().map(|key| key.as_bytes()), flags, standing, 10) {
            Ok(slot) => format!("{slot:?}"),
            Err(redirect) => String::from_utf8_lossy(&redirect.failure().bytes()).into_owned(),
        }
    }

    #[test]
    fn keys_go_to_their_owner() {
        let mut node = told(TEXT, None);
        let client = Standing::default();
        let proxy = Standing { peer: Peer::Proxy, ..client };
        let mover = Standing { peer: Peer::Mover { pass: node.admit_mover((15_000, 15_999), 1).unwrap() }, ..client };
        for (keys, standing, expected) in [
            (&["b"][..], client, "Some(3300)"),
            (&["a"], client, "MOVED 15495 127.0.0.1:3"),
            (&["b", "c"], client, "CROSSSLOT Keys in request don't hash to the same slot"),
            (&["b", "c"], proxy, "Some(3300)"),
            (&["b", "a"], proxy, "MOVED 15495 127.0.0.1:3"),
            (&["{b}1", "{b}2"], client, "Some(3300)"),
            (&["a"], mover, "Some(15495)"),
            (&["b"], mover, "STALEMOVER slot 3300 is filled by somebody else by now, or is this node's own"),
            (&[], client, "None"),
            (&["foo{bar}1x"], client, "Some(5061)"),
            // Slot 16058 is nobody's.
            (&["k24"], client, "CLUSTERDOWN Hash slot not served"),
            (&["z"], client, "Some(8157)"),
        ] {
            assert_eq!(routed(&node, keys, Flags::WRITE, standing), expected, "{keys:?} {standing:?}");
        }
    }

    #[test]
    fn a_replica_serves_reads_to_those_who_want_that() {
        let replica = told(&TEXT.replace("myself,", "").replace("6 slave", "6 myself,slave"), None);
        let reads = Standing { reads_replica: true, ..Standing::default() };
        assert_eq!(routed(&replica, &["b"], Flags::READONLY, Standing::default()), "MOVED 3300 127.0.0.1:1");
        assert_eq!(routed(&replica, &["b"], Flags::READONLY, reads), "Some(3300)");
        assert_eq!(routed(&replica, &["b"], Flags::WRITE, reads), "MOVED 3300 127.0.0.1:1");
        assert_eq!(routed(&replica, &["a"], Flags::READONLY, reads), "MOVED 15495 127.0.0.1:3");
        let cut = told(&TEXT.replace("myself,", "").replace("6 slave", "6 myself,slave"), Some(0));
        assert!(routed(&cut, &[], Flags::WRITE, reads).starts_with("READONLY "));
    }

    #[test]
    fn who_has_no_lease_serves_nothing() {
        let node = told(TEXT, Some(10));
        assert_eq!(routed(&node, &["b"], Flags::READONLY, Standing::default()), "CLUSTERDOWN The cluster is down");
        assert_eq!(routed(&node, &[], Flags::WRITE, Standing::default()), "CLUSTERDOWN The cluster is down");
        assert_eq!(routed(&node, &[], Flags::READONLY, Standing::default()), "None");
        assert_eq!(routed(&told(TEXT, Some(11)), &["b"], Flags::READONLY, Standing::default()), "Some(3300)");
        let unborn = Membership::default();
        assert_eq!(routed(&unborn, &["b"], Flags::READONLY, Standing::default()), "CLUSTERDOWN Hash slot not served");
    }
}
