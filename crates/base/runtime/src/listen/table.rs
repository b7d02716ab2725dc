//! The sockets that a process holds, by what they are bound to.
//!
//! A socket in the kernel has a queue of connections that wait to be accepted. With `SO_REUSEPORT` each socket of a
//! port has its own, and closing a socket resets what waits in it. So a socket, once bound, is kept for as long as
//! the configuration listens on its address at all: when the number of workers shrinks, the surplus sockets are
//! served by the workers that remain ([`Listener::sockets_of`]). Only an address that is no longer wanted is closed,
//! after what waits there has been accepted.

use super::bind::{BindError, StagedSocket, stage, update};
use super::guard::InUse;
use super::spec::{Address, ListenSpec};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Names a socket the same way in the master, its workers and a new master after an upgrade.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct SocketKey {
    pub(crate) group: GroupKey,
    /// Which of the sockets that share the port.
    pub(crate) index: usize,
}

/// All sockets of one spec: what it is bound to, and which of the specs that are bound to the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct GroupKey {
    identity: String,
    occurrence: usize,
}

/// A listening socket, shared by everything in this process that accepts from it.
#[derive(Debug)]
pub(crate) struct Socket {
    descriptor: OwnedFd,
    /// No one will accept from it any more once its last user in this process is gone: what waits must be accepted.
    retired: AtomicBool,
}

impl Socket {
    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    pub(crate) fn try_clone(&self) -> io::Result<OwnedFd> {
        self.descriptor.try_clone()
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// One bound [`ListenSpec`] with its sockets, ready to be given to the workers
/// ([`Workers::distribute`](crate::Workers::distribute)).
#[derive(Debug)]
pub struct Listener {
    /// What was asked for.
    pub spec: ListenSpec,
    pub(crate) sockets: Vec<Arc<Socket>>,
    pub(crate) in_use: InUse,
}

impl Listener {
    /// The sockets that worker `index` of `count` serves: its own, and its part of those that are left over from a
    /// time with more workers. None when there are more workers than sockets.
    pub(crate) fn sockets_of(&self, index: usize, count: usize) -> Vec<Arc<Socket>> {
        self.sockets.iter().skip(index).step_by(count.max(1)).cloned().collect()
    }

    /// A descriptor of each socket, for handing them to another program.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sockets.iter().map(|socket| socket.as_fd())
    }
}

/// The sockets of a process.
#[derive(Debug, Default)]
pub(crate) struct SocketTable {
    sockets: BTreeMap<SocketKey, Arc<Socket>>,
    /// The specs that the kept sockets were last set up for.
    specs: HashMap<GroupKey, ListenSpec>,
}

/// Sockets made for a new configuration, not yet part of the table. Dropping it closes them.
#[derive(Debug)]
pub(crate) struct Prepared {
    staged: Vec<(SocketKey, ListenSpec, StagedSocket)>,
    specs: Vec<(GroupKey, ListenSpec)>,
}

/// A way to get a bound socket other than making one: from an old process (`-x`).
pub(crate) type Inherit<'a> = &'a mut dyn FnMut(&ListenSpec) -> Option<OwnedFd>;

fn group_keys(specs: &[ListenSpec]) -> Vec<(GroupKey, ListenSpec)> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut keys = Vec::with_capacity(specs.len());
    for spec in specs {
        let identity = spec.identity();
        let count = seen.entry(identity.clone()).or_default();
        keys.push((GroupKey { identity, occurrence: *count }, spec.clone()));
        *count += 1;
    }
    keys
}

impl SocketTable {
    /// Makes the sockets that `specs` need and the table lacks. All or nothing: on an error the table and the outside
    /// are as before.
    pub(crate) fn prepare(
        &self,
        specs: &[ListenSpec],
        workers: usize,
        inherit: Inherit<'_>,
    ) -> Result<Prepared, BindError> {
        let specs = group_keys(specs);
        let mut staged = Vec::new();
        for (group, spec) in &specs {
            // Sockets of the same port, and copies of one descriptor, share what arrives.
            if group.occurrence > 0
                && !matches!(spec.address, Address::Ip(_) | Address::Inherited(_) | Address::SharedDatagrams(_))
            {
                return Err(BindError {
                    place: spec.place.clone(),
                    address: spec.address.to_string(),
                    what: "cannot bind socket",
                    source: io::Error::new(io::ErrorKind::AddrInUse, "the address is listened on twice"),
                });
            }
            for index in 0..spec.socket_count(workers) {
                let key = SocketKey { group: group.clone(), index };
                if self.sockets.contains_key(&key) {
                    continue;
                }
                let socket = match inherit(spec) {
                    Some(socket) => StagedSocket::inherited(socket),
                    None => stage(spec)?,
                };
                staged.push((key, spec.clone(), socket));
            }
        }
        Ok(Prepared { staged, specs })
    }

    /// Adds prepared sockets. Nothing is removed yet: the running configuration still uses what it uses.
    ///
    /// Returns the keys that were added, for [`Self::remove`] should the new configuration fail later.
    pub(crate) fn commit(&mut self, prepared: Prepared) -> Result<Vec<SocketKey>, BindError> {
        let mut added = Vec::new();
        for (key, spec, staged) in prepared.staged {
            match staged.commit(&spec) {
                Ok(socket) => {
                    self.insert(key.clone(), socket);
                    added.push(key);
                }
                Err(error) => {
                    self.remove(&added);
                    return Err(error);
                }
            }
        }
        for (group, spec) in prepared.specs {
            if let Some(old) = self.specs.get(&group)
                && *old != spec
            {
                for (_, socket) in self.group(&group) {
                    // The options of a socket in use are adjusted in place. One that the system refuses stays as it
                    // was: that is no reason to stop serving.
                    if let Err(error) = update(&socket.descriptor, old, &spec) {
                        crate::log::warning!("{error}: left as it was");
                    }
                }
            }
            self.specs.insert(group, spec);
        }
        Ok(added)
    }

    fn group<'a>(&'a self, group: &'a GroupKey) -> impl Iterator<Item = (&'a SocketKey, &'a Arc<Socket>)> {
        let first = SocketKey { group: group.clone(), index: 0 };
        self.sockets.range(first..).take_while(move |(key, _)| key.group == *group)
    }

    /// Takes a socket in that was bound elsewhere.
    pub(crate) fn insert(&mut self, key: SocketKey, descriptor: OwnedFd) {
        self.sockets.insert(key, Arc::new(Socket { descriptor, retired: AtomicBool::new(false) }));
    }

    /// Closes these sockets here.
    pub(crate) fn remove(&mut self, keys: &[SocketKey]) {
        for key in keys {
            self.sockets.remove(key);
        }
    }

    /// The bound listeners of `specs`, for one load.
    pub(crate) fn listeners(&self, specs: &[ListenSpec], in_use: &InUse) -> Vec<Listener> {
        group_keys(specs)
            .into_iter()
            .map(|(group, spec)| {
                let sockets = self.group(&group).map(|(_, socket)| Arc::clone(socket)).collect();
                Listener { spec, sockets, in_use: in_use.clone() }
            })
            .collect()
    }

    /// The keys of the sockets that `specs` do not use.
    pub(crate) fn unused(&self, specs: &[ListenSpec]) -> Vec<SocketKey> {
        let wanted: BTreeSet<GroupKey> = group_keys(specs).into_iter().map(|(group, _)| group).collect();
        self.sockets.keys().filter(|key| !wanted.contains(&key.group)).cloned().collect()
    }

    /// Marks sockets as given up by the whole service (or takes the mark back), see [`Socket::retired`].
    pub(crate) fn set_retired(&self, keys: &[SocketKey], retired: bool) {
        for key in keys {
            if let Some(socket) = self.sockets.get(key) {
                socket.retired.store(retired, Ordering::Release);
            }
        }
    }

    /// Everything that is held.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&SocketKey, &Arc<Socket>)> {
        self.sockets.iter()
    }

    /// The keys of everything that is held.
    pub(crate) fn keys(&self) -> Vec<SocketKey> {
        self.sockets.keys().cloned().collect()
    }

    /// Notes what the sockets were set up for, after they were [inserted](Self::insert).
    pub(crate) fn set_specs(&mut self, specs: &[ListenSpec]) {
        self.specs.extend(group_keys(specs));
    }

    /// Forgets the specs of groups that hold no socket any more.
    pub(crate) fn forget_unused_specs(&mut self) {
        let held: BTreeSet<&GroupKey> = self.sockets.keys().map(|key| &key.group).collect();
        self.specs.retain(|group, _| held.contains(group));
    }
}

#[cfg(test)]
mod tests {
    use super::super::guard::InUse;
    use super::super::spec::AcceptMode;
    use super::*;
    use std::net::SocketAddr;

    fn tcp(port: u16) -> ListenSpec {
        ListenSpec::new("test", Address::Ip(SocketAddr::from(([127, 0, 0, 1], port))))
    }

    fn free_port() -> u16 {
        std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
    }

    fn add(table: &mut SocketTable, specs: &[ListenSpec], workers: usize) -> Result<usize, BindError> {
        let prepared = table.prepare(specs, workers, &mut |_| None)?;
        Ok(table.commit(prepared)?.len())
    }

    fn served(table: &SocketTable, spec: &ListenSpec, workers: usize) -> Vec<usize> {
        let listeners = table.listeners(std::slice::from_ref(spec), &InUse::new().0);
        (0..workers).map(|index| listeners[0].sockets_of(index, workers).len()).collect()
    }

    #[test]
    fn sockets_are_kept_when_there_are_fewer_workers_and_served_by_those() {
        let mut table = SocketTable::default();
        let spec = tcp(free_port());
        assert_eq!(add(&mut table, std::slice::from_ref(&spec), 4).unwrap(), 4);
        assert_eq!(served(&table, &spec, 4), [1, 1, 1, 1]);
        assert_eq!(add(&mut table, std::slice::from_ref(&spec), 3).unwrap(), 0);
        assert_eq!(served(&table, &spec, 3), [2, 1, 1]);
        assert_eq!(served(&table, &spec, 1), [4]);
        assert_eq!(add(&mut table, std::slice::from_ref(&spec), 6).unwrap(), 2);
        assert_eq!(served(&table, &spec, 6), [1; 6]);
        assert!(table.unused(std::slice::from_ref(&spec)).is_empty());
        assert_eq!(table.unused(&[]).len(), 6);
    }

    #[test]
    fn only_some_workers_may_serve_an_address() {
        let mut table = SocketTable::default();
        let port = free_port();
        let odd = ListenSpec { workers: vec![0, 2, 7], ..tcp(port) };
        let even = ListenSpec { workers: vec![1, 3], ..tcp(port) };
        assert_eq!(odd.eligible(4).collect::<Vec<_>>(), [0, 2]);
        assert_eq!(even.eligible(1).collect::<Vec<_>>(), [0]);
        assert_eq!(add(&mut table, &[odd.clone(), even], 4).unwrap(), 4);
        // What is asked of the same address by another load is served from the sockets that are there.
        assert_eq!(add(&mut table, &[tcp(port)], 4).unwrap(), 2);
        assert_eq!(served(&table, &odd, 4), [1; 4]);
    }

    #[test]
    fn the_same_address_twice_is_two_groups() {
        let mut table = SocketTable::default();
        let port = free_port();
        let specs = [tcp(port), tcp(port)];
        assert_eq!(add(&mut table, &specs, 2).unwrap(), 4);
        assert_eq!(table.unused(&specs[..1]).len(), 2);
        // What cannot be bound twice is refused.
        let name = Address::Abstract(format!("tidegate-table-{port}"));
        let twice = [ListenSpec::new("a", name.clone()), ListenSpec::new("b", name)];
        assert!(add(&mut table, &twice, 2).unwrap_err().is_in_use());
    }

    #[test]
    fn it_is_all_or_nothing() {
        let mut table = SocketTable::default();
        let port = free_port();
        let error = add(&mut table, &[tcp(port), ListenSpec::new("x", Address::SocketPair(3))], 2).unwrap_err();
        assert!(error.to_string().contains("'sockpair@' is not supported") && error.address == "sockpair@3");
        assert!(table.keys().is_empty());
        // The port is free: without SO_REUSEPORT a socket that is left would be in the way.
        std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    }

    #[test]
    fn what_cannot_change_makes_another_socket_and_what_can_does_not() {
        let port = free_port();
        let plain = tcp(port);
        for change in [
            (|spec| spec.backlog = Some(7)) as fn(&mut ListenSpec),
            |spec| spec.mode = AcceptMode::Shared,
            |spec| spec.defer_accept = true,
            |spec| spec.tcp_fast_open = true,
            |spec| spec.maxseg = Some(1000),
            |spec| spec.tcp_user_timeout = Some(std::time::Duration::from_secs(1)),
        ] {
            let mut changed = plain.clone();
            change(&mut changed);
            assert_ne!(changed, plain);
            assert_eq!(changed.identity(), plain.identity());
            let mut table = SocketTable::default();
            add(&mut table, std::slice::from_ref(&plain), 1).unwrap();
            assert_eq!(add(&mut table, std::slice::from_ref(&changed), 1).unwrap(), 0);
            assert_eq!(add(&mut table, std::slice::from_ref(&plain), 1).unwrap(), 0);
        }
        for change in [
            (|spec| spec.interface = Some("lo".into())) as fn(&mut ListenSpec),
            |spec| spec.transparent = true,
            |spec| spec.v6only = Some(true),
        ] {
            let mut changed = plain.clone();
            change(&mut changed);
            assert_ne!(changed.identity(), plain.identity());
        }
    }

    #[test]
    fn sockets_listen_only_when_begun() {
        let mut table = SocketTable::default();
        let port = free_port();
        let spec = tcp(port);
        add(&mut table, std::slice::from_ref(&spec), 1).unwrap();
        assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
        for (_, socket) in table.iter() {
            super::super::bind::begin(&spec, socket).unwrap();
        }
        assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    }

    #[test]
    fn an_inherited_socket_serves_two_listeners() {
        let inherited = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let spec = ListenSpec::new("x", Address::Inherited(std::os::fd::AsRawFd::as_raw_fd(&inherited)));
        let mut table = SocketTable::default();
        let twice = [spec.clone(), spec];
        assert_eq!(add(&mut table, &twice, 1).unwrap(), 2);
        assert_eq!(add(&mut table, &twice, 1).unwrap(), 0, "a reload keeps both");
        let unix = ListenSpec::new("x", Address::Abstract(format!("tidegate-twice-{}", std::process::id())));
        assert!(add(&mut table, &[unix.clone(), unix], 1).is_err());
    }

    #[test]
    fn only_tcp_sockets_share_ports() {
        for address in [Address::Unix("/x".into()), Address::Abstract("x".into()), Address::Inherited(3)] {
            let spec = ListenSpec::new("x", address);
            assert_eq!((spec.effective_mode(), spec.socket_count(8)), (AcceptMode::Shared, 1));
        }
        assert_eq!(tcp(1).socket_count(8), 8);
        assert_eq!(tcp(1).socket_count(0), 1);
    }
}
