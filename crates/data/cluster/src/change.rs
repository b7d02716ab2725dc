//! What an operator may change about a cluster. Each change gives the cluster after it, one epoch later, or says why not.

use crate::{
    model::{Address, Cluster, Group, GroupId, Proxy, Server, ServerKind},
    policy::Policy,
    settings::Scope,
    slots::{Move, NoRange, NoStep, SLOTS, SlotEvent, SlotRange, SlotState},
};

/// The most servers that a cluster has.
const SERVERS_MAX: usize = 4_096;

/// Why a cluster is not changed so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no such group.
    #[error("there is no group {0} (see `tidegate cluster status`)")]
    NoGroup(GroupId),
    /// The number is taken.
    #[error("group {0} is there already")]
    GroupExists(GroupId),
    /// The group has slots.
    #[error(
        "group {group} still has to do with {slots} slots, {first} the first: move them to the other groups first \
         (`tidegate cluster slot rebalance --drain {group}`)"
    )]
    HasSlots {
        /// Which.
        group: GroupId,
        /// How many.
        slots: u16,
        /// The first.
        first: u16,
    },
    /// There is no such server.
    #[error("there is no server {0} in the cluster")]
    NoServer(Address),
    /// It is in another group.
    #[error("{server} is in group {group}")]
    OtherGroup {
        /// Which.
        server: Address,
        /// Where it is.
        group: GroupId,
    },
    /// A group is of one kind.
    #[error(
        "{server} is a {kind}, and the servers of group {group} are of another kind: a replica gets its master's log as it is, and its \
         promise is its group's. Make a group of its own for it (`server add-group`) and move slots there"
    )]
    OtherKind {
        /// Which.
        server: Address,
        /// What it is.
        kind: ServerKind,
        /// Which group.
        group: GroupId,
    },
    /// It is the master.
    #[error("{0} is the master of its group: promote another server first")]
    IsMaster(Address),
    /// Too few replicas would be left.
    #[error(
        "without {server} group {group} has {left} replicas, and its writes wait for {ack}: add another server first (`server add \
         {group}`), or say for how many they are to wait (--ack {left})"
    )]
    NeededForAck {
        /// Which.
        server: Address,
        /// Whose.
        group: GroupId,
        /// How many replicas are left.
        left: usize,
        /// How many a write waits for.
        ack: u32,
    },
    /// More acknowledgements than replicas.
    #[error("writes cannot wait for {ack} replicas where there are {replicas}")]
    AckTooHigh {
        /// How many are wanted.
        ack: u32,
        /// How many there are.
        replicas: usize,
    },
    /// It is a proxy.
    #[error("{0} is a proxy of the cluster")]
    IsProxy(Address),
    /// There is no such proxy.
    #[error("there is no proxy {0} (see `tidegate cluster proxy list`)")]
    NoProxy(Address),
    /// There is such a machine.
    #[error("host {0} is in the cluster already")]
    HostExists(String),
    /// There is no such machine.
    #[error("there is no host {0} (see `tidegate cluster host list`)")]
    NoHost(String),
    /// It has a master.
    #[error(
        "host {host} has the master of group {group}, {server}: wait until another server has its place, or promote one \
         (`server promote {group} SERVER`)"
    )]
    HostHasMaster {
        /// Which machine.
        host: String,
        /// Which group.
        group: GroupId,
        /// The master.
        server: Address,
    },
    /// It is the only one.
    #[error("host {0} is the only one")]
    OnlyHost(String),
    /// Another machine has its address.
    #[error("host {host} has the address {address} already")]
    AddressTaken {
        /// Which machine has it.
        host: String,
        /// Which address.
        address: String,
    },
    /// Something is not right with a slot.
    #[error("slot {slot}: {problem}")]
    Slot {
        /// Which.
        slot: u16,
        /// What.
        #[source]
        problem: NoStep,
    },
    /// Not a range of slots.
    #[error(transparent)]
    Range(#[from] NoRange),
    /// Slots have been given out.
    #[error("{0} slots are given out already: `slot rebalance` changes who has them")]
    Initialised(u16),
    /// There is nothing to do it with.
    #[error("there are no groups yet: add one first (server add-group)")]
    NoGroups,
    /// There is no other group.
    #[error("group {0} is the only one: nobody else can have its slots")]
    OnlyGroup(GroupId),
    /// Enough.
    #[error("a cluster has {SERVERS_MAX} servers at most")]
    TooMany,
    /// Moves are under way.
    #[error("slots {0} are on their way already: wait for that (`slot info`), or cancel it (`slot cancel`)")]
    MovesUnderWay(SlotRange),
}

impl Cluster {
    pub(crate) fn next(&self) -> Self {
        Self { epoch: self.epoch + 1, ..self.clone() }
    }

    fn group(&self, id: GroupId) -> Result<&Group, Refusal> {
        self.groups.get(&id).ok_or(Refusal::NoGroup(id))
    }

    /// With one more group: its first server is the master.
    ///
    /// # Errors
    ///
    /// The number is taken, or a server is in the cluster already.
    pub fn with_group(&self, id: GroupId, servers: Vec<Server>, ack: u32) -> Result<Self, Refusal> {
        if self.groups.contains_key(&id) {
            return Err(Refusal::GroupExists(id));
        }
        for server in &servers {
            self.is_new(&server.address)?;
            Self::is_of_kind(id, server, servers.first())?;
        }
        let replicas = servers.len().saturating_sub(1);
        if ack as usize > replicas {
            return Err(Refusal::AckTooHigh { ack, replicas });
        }
        let master = servers.first().ok_or(Refusal::NoGroup(id))?.address.clone();
        let mut next = self.next();
        let config_epoch = next.epoch;
        next.groups.insert(id, Group { servers, master, ack, is_strict: false, config_epoch, reign: None });
        Ok(next)
    }

    fn is_of_kind(group: GroupId, server: &Server, other: Option<&Server>) -> Result<(), Refusal> {
        match other {
            Some(other) if other.kind != server.kind => {
                Err(Refusal::OtherKind { server: server.address.clone(), kind: server.kind, group })
            }
            _ => Ok(()),
        }
    }

    fn is_new(&self, address: &Address) -> Result<(), Refusal> {
        if let Some(group) = self.group_of(address) {
            return Err(Refusal::OtherGroup { server: address.clone(), group });
        }
        if self.proxy(address).is_some() {
            return Err(Refusal::IsProxy(address.clone()));
        }
        if self.servers().count() >= SERVERS_MAX { Err(Refusal::TooMany) } else { Ok(()) }
    }

    /// Without a group that has no slots.
    ///
    /// # Errors
    ///
    /// It has some, or is not there.
    pub fn without_group(&self, id: GroupId) -> Result<Self, Refusal> {
        self.group(id)?;
        let concerned: Vec<u16> = (0..SLOTS).filter(|slot| self.slots.state(*slot).concerns(id)).collect();
        if let Some(first) = concerned.first() {
            return Err(Refusal::HasSlots { group: id, slots: concerned.len() as u16, first: *first });
        }
        let mut next = self.next();
        next.groups.remove(&id);
        Ok(next.without_settings_of_gone())
    }

    /// With one more replica in a group.
    ///
    /// # Errors
    ///
    /// The group is not there, or the server is in the cluster already.
    pub fn with_server(&self, id: GroupId, server: Server) -> Result<Self, Refusal> {
        let others = self.group(id)?.servers.first();
        self.is_new(&server.address)?;
        Self::is_of_kind(id, &server, others)?;
        let mut next = self.next();
        if let Some(group) = next.groups.get_mut(&id) {
            group.servers.push(server);
        }
        Ok(next)
    }

    /// Without a replica. `ack`: for how many of those left a write waits from now on, if not for as many as before.
    ///
    /// # Errors
    ///
    /// It is not there, or a master, or fewer are left than a write waits for.
    pub fn without_server(&self, id: GroupId, address: &Address, ack: Option<u32>) -> Result<Self, Refusal> {
        self.member(id, address)?;
        let group = self.group(id)?;
        if group.master == *address {
            return Err(Refusal::IsMaster(address.clone()));
        }
        let left = group.replicas().count().saturating_sub(1);
        match ack {
            Some(ack) if ack as usize > left => return Err(Refusal::AckTooHigh { ack, replicas: left }),
            None if group.ack as usize > left => {
                return Err(Refusal::NeededForAck { server: address.clone(), group: id, left, ack: group.ack });
            }
            _ => {}
        }
        let mut next = self.next();
        if let Some(group) = next.groups.get_mut(&id) {
            group.servers.retain(|server| server.address != *address);
            group.ack = ack.unwrap_or(group.ack);
        }
        Ok(next.without_settings_of_gone())
    }

    /// The proxy at an address.
    #[must_use]
    pub fn proxy(&self, address: &Address) -> Option<&Proxy> {
        self.proxies.iter().find(|proxy| proxy.address == *address)
    }

    /// With one more proxy.
    ///
    /// # Errors
    ///
    /// The address is taken.
    pub fn with_proxy(&self, proxy: Proxy) -> Result<Self, Refusal> {
        self.is_new(&proxy.address)?;
        let mut next = self.next();
        next.proxies.push(proxy);
        Ok(next)
    }

    /// Without a proxy.
    ///
    /// # Errors
    ///
    /// There is no such proxy.
    pub fn without_proxy(&self, address: &Address) -> Result<Self, Refusal> {
        self.proxy(address).ok_or_else(|| Refusal::NoProxy(address.clone()))?;
        let mut next = self.next();
        next.proxies.retain(|proxy| proxy.address != *address);
        Ok(next)
    }

    /// With a proxy that takes clients, or takes none.
    ///
    /// # Errors
    ///
    /// There is no such proxy.
    pub fn with_proxy_offline(&self, address: &Address, is_offline: bool) -> Result<Self, Refusal> {
        self.proxy(address).ok_or_else(|| Refusal::NoProxy(address.clone()))?;
        let mut next = self.next();
        next.proxies
            .iter_mut()
            .filter(|proxy| proxy.address == *address)
            .for_each(|proxy| proxy.is_offline = is_offline);
        Ok(next)
    }

    /// With another policy.
    #[must_use]
    pub fn with_policy(&self, policy: Policy) -> Self {
        Self { policy, ..self.next() }
    }

    /// With settings of stores: names with their values, none where a value is taken back.
    #[must_use]
    pub fn with_settings(&self, scope: &Scope, changes: &[(String, Option<String>)]) -> Self {
        let mut next = self.next();
        for (name, value) in changes {
            next.settings.set(scope, name, value.clone(), next.epoch);
        }
        next
    }

    /// Without what was kept of groups and servers that are not there any more.
    #[must_use]
    pub fn without_settings_of_gone(mut self) -> Self {
        let mut settings = std::mem::take(&mut self.settings);
        settings.retain(|scope| match scope {
            Scope::Cluster => true,
            Scope::Group(group) => self.groups.contains_key(group),
            Scope::Server(id) => self.servers().any(|(_, server)| server.id == *id),
        });
        self.settings = settings;
        self
    }

    fn member(&self, id: GroupId, address: &Address) -> Result<(), Refusal> {
        self.group(id)?;
        match self.group_of(address) {
            None => Err(Refusal::NoServer(address.clone())),
            Some(group) if group != id => Err(Refusal::OtherGroup { server: address.clone(), group }),
            Some(_) => Ok(()),
        }
    }

    /// With another master of a group. Whether it has the data is not looked at here.
    ///
    /// # Errors
    ///
    /// It is not in the group.
    pub fn with_master(&self, id: GroupId, address: &Address) -> Result<Self, Refusal> {
        self.member(id, address)?;
        let mut next = self.next();
        let epoch = next.epoch;
        if let Some(group) = next.groups.get_mut(&id) {
            group.master = address.clone();
            group.config_epoch = epoch;
        }
        Ok(next)
    }

    /// The same cluster, one epoch later: what voters have promised for that epoch is done with.
    #[must_use]
    pub fn renewed(&self) -> Self {
        self.next()
    }

    /// With all slots given to the groups in equal shares.
    ///
    /// # Errors
    ///
    /// Some are given out already, or there is no group.
    pub fn with_slots_shared_out(&self) -> Result<Self, Refusal> {
        let given = (0..SLOTS).filter(|slot| self.slots.state(*slot) != SlotState::Offline).count() as u16;
        if given > 0 {
            return Err(Refusal::Initialised(given));
        }
        let count = u32::try_from(self.groups.len()).ok().filter(|count| *count > 0).ok_or(Refusal::NoGroups)?;
        let mut next = self.next();
        // The bounds as redis-cli and CLUSTER have them: shares differ by one slot at most.
        let bound = |index: u32| (u32::from(SLOTS) * index / count) as u16;
        for (index, id) in (0..).zip(self.groups.keys()) {
            if bound(index) < bound(index + 1) {
                let range = SlotRange::new(bound(index), bound(index + 1) - 1)?;
                next = next.after(range, SlotEvent::Assign(*id))?;
            }
        }
        Ok(next)
    }

    /// With something having happened to slots, in the same epoch.
    fn after(mut self, slots: SlotRange, event: SlotEvent) -> Result<Self, Refusal> {
        self.slots = self.slots.after(slots, event).map_err(|(slot, problem)| Refusal::Slot { slot, problem })?;
        Ok(self)
    }

    /// With something having happened to slots.
    ///
    /// # Errors
    ///
    /// It cannot happen to one of them, or there is no such group.
    pub fn with_slots(&self, slots: SlotRange, event: SlotEvent) -> Result<Self, Refusal> {
        let slots = SlotRange::new(slots.first, slots.last)?;
        if let SlotEvent::Assign(id) | SlotEvent::Begin(id) = event {
            self.group(id)?;
        }
        self.next().after(slots, event)
    }

    /// With slots that are to move, all or none; slots in another group's hands than the move says are refused.
    ///
    /// # Errors
    ///
    /// Some are on their way already.
    pub fn with_moves(&self, moves: &[Move]) -> Result<Self, Refusal> {
        let mut next = self.next();
        for one in moves {
            self.group(one.to)?;
            next = next.after(one.slots, SlotEvent::Begin(one.to))?;
        }
        Ok(next)
    }

    /// Slots that are on their way.
    #[must_use]
    pub fn moving(&self) -> Vec<(Move, crate::slots::Phase)> {
        let runs = self.slots.runs().into_iter();
        runs.filter_map(|run| match run.state {
            SlotState::Migrating { from, to, phase, .. } => Some((Move { slots: run.slots, from, to }, phase)),
            _ => None,
        })
        .collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn server(number: u16) -> Server {
        let (id, host) = (format!("n{number}"), "here".into());
        Server { address: Address::new("127.0.0.1", number), id, host, kind: ServerKind::Store }
    }

    pub(crate) fn redis(number: u16) -> Server {
        Server { kind: ServerKind::Redis, ..server(number) }
    }

    /// Groups 1 (servers 1 and 2) and 2 (servers 3 and 4), each with half of the slots.
    pub(crate) fn two_groups() -> Cluster {
        let mut cluster = Cluster::default();
        cluster = cluster.with_group(1, vec![server(1), server(2)], 1).unwrap();
        cluster = cluster.with_group(2, vec![server(3), server(4)], 1).unwrap();
        cluster = cluster.with_slots_shared_out().unwrap();
        cluster.groups.values_mut().for_each(|group| group.config_epoch = 1);
        cluster.epoch = 1;
        cluster.proxies.push(proxy(10));
        cluster
    }

    pub(crate) fn proxy(number: u16) -> Proxy {
        Proxy { address: Address::new("127.0.0.1", number), host: "here".into(), is_offline: false }
    }

    #[test]
    fn bad_operators_are_told_why_not() {
        let cluster = two_groups();
        let address = |port| Address::new("127.0.0.1", port);
        for (result, expected) in [
            (cluster.without_group(1), "group 1 still has to do with 8192 slots, 0 the first"),
            (cluster.without_group(9), "there is no group 9"),
            (cluster.with_group(1, vec![server(9)], 0), "group 1 is there already"),
            (cluster.with_group(3, vec![server(4)], 0), "127.0.0.1:4 is in group 2"),
            (cluster.with_server(1, server(3)), "127.0.0.1:3 is in group 2"),
            (cluster.without_server(1, &address(1), None), "127.0.0.1:1 is the master of its group"),
            (cluster.without_server(1, &address(7), None), "there is no server 127.0.0.1:7"),
            (
                cluster.without_server(1, &address(2), None),
                "without 127.0.0.1:2 group 1 has 0 replicas, and its writes wait for 1",
            ),
            (cluster.without_server(1, &address(2), Some(1)), "writes cannot wait for 1 replicas where there are 0"),
            (cluster.with_group(3, vec![server(9)], 1), "writes cannot wait for 1 replicas where there are 0"),
            (cluster.with_group(3, vec![server(10)], 0), "127.0.0.1:10 is a proxy"),
            (
                cluster.with_server(1, redis(9)),
                "127.0.0.1:9 is a redis, and the servers of group 1 are of another kind",
            ),
            (
                cluster.with_group(3, vec![server(8), redis(9)], 0),
                "127.0.0.1:9 is a redis, and the servers of group 3 are of another kind",
            ),
            (cluster.with_server(1, server(10)), "127.0.0.1:10 is a proxy"),
            (cluster.with_proxy(proxy(2)), "127.0.0.1:2 is in group 1"),
            (cluster.with_proxy(proxy(10)), "127.0.0.1:10 is a proxy"),
            (cluster.without_proxy(&address(2)), "there is no proxy 127.0.0.1:2"),
            (cluster.with_proxy_offline(&address(11), true), "there is no proxy 127.0.0.1:11"),
            (cluster.with_master(1, &address(4)), "127.0.0.1:4 is in group 2"),
            (cluster.with_slots_shared_out(), "16384 slots are given out already"),
            (Cluster::default().with_slots_shared_out(), "there are no groups yet"),
            (cluster.with_slots(SlotRange { first: 9, last: 16_384 }, SlotEvent::Begin(2)), "9 to 16384 are no slots"),
            (cluster.with_slots(SlotRange::ALL, SlotEvent::Begin(2)), "slot 8192: group 2 has it already"),
            (cluster.with_slots(SlotRange::ALL, SlotEvent::Begin(7)), "there is no group 7"),
        ] {
            let text = result.unwrap_err();
            let text = match &text {
                Refusal::Slot { slot, problem } => format!("slot {slot}: {problem}"),
                other => other.to_string(),
            };
            assert!(text.starts_with(expected), "{text}");
        }
    }

    #[test]
    fn servers_and_proxies_come_and_go() {
        let cluster = two_groups().with_server(1, server(5)).unwrap();
        let address = |port| Address::new("127.0.0.1", port);
        let fewer = cluster.without_server(1, &address(2), None).unwrap();
        assert_eq!((fewer.groups[&1].servers.len(), fewer.groups[&1].ack), (2, 1));
        let alone = fewer.without_server(1, &address(5), Some(0)).unwrap();
        assert_eq!((alone.groups[&1].servers.len(), alone.groups[&1].ack), (1, 0));
        let offline = alone.with_proxy_offline(&address(10), true).unwrap();
        assert!(
            offline.proxies[0].is_offline
                && !offline.with_proxy_offline(&address(10), false).unwrap().proxies[0].is_offline
        );
        assert!(offline.without_proxy(&address(10)).unwrap().with_proxy(proxy(10)).is_ok());
        // A record of before has no word of it.
        let text = serde_json::to_string(&two_groups()).unwrap();
        assert!(!text.contains("offline\":false") && serde_json::from_str::<Cluster>(&text).is_ok(), "{text}");
    }

    #[test]
    fn each_change_is_one_epoch() {
        let cluster = two_groups();
        let changed = cluster.with_master(1, &Address::new("127.0.0.1", 2)).unwrap();
        assert_eq!((changed.epoch, changed.groups[&1].config_epoch), (2, 2));
        let range = SlotRange::new(5, 7).unwrap();
        let moved = changed.with_moves(&[Move { slots: range, from: 1, to: 2 }]).unwrap();
        assert_eq!(moved.epoch, 3);
        assert_eq!(moved.moving().len(), 1);
        assert!(moved.with_moves(&[Move { slots: range, from: 1, to: 2 }]).is_err());
        let text = serde_json::to_string(&moved).unwrap();
        assert_eq!(serde_json::from_str::<Cluster>(&text).unwrap(), moved);
    }
}
