//! Groups and their servers.

use cluster::{Address, Group, GroupId, Refusal, Server, ServerKind};
use serde_json::{Value, json};

use super::{
    Conductor, GROUP, Handler, PLAN, Problem, Route, address, address_of, change_or_plan, giving_up, group,
    group_number, redis,
};
use crate::{
    api::{Input, Kind, Parameter},
    beginning,
    board::FRESH_MS,
    conductor::status,
    processes::Program,
};

const TAG: &str = "groups";
const SERVER: Parameter = Parameter::required("server", Kind::Text, "The server, as host:port.");
const REDIS: Parameter =
    Parameter::optional("redis", Kind::Text, "Running Redis servers that become the group, as host:port,host:port.");
const USER: Parameter = Parameter::optional("user", Kind::Text, "The user by which agent and proxies log in to them.");
const PASSWORD: Parameter = Parameter::optional("password", Kind::Text, "The password of running Redis servers.");
/// Replicas of a group's master at most, so that a slip of the finger starts no thousand stores.
const REPLICAS_MAX: u64 = 16;

pub(super) const ROUTES: &[Route] = &[
    Route::read("/api/groups", Handler::Answer(all)).named(TAG, "groups", "All groups with their servers."),
    Route::read("/api/groups/{group}", Handler::Answer(one))
        .named(TAG, "group", "A group with its servers.")
        .takes(&[GROUP]),
    Route::read("/api/servers", Handler::Answer(servers)).named(TAG, "servers", "All servers."),
    Route::change("POST", "/api/groups", Handler::Answer(add_group))
        .named(TAG, "addGroup", "Adds a group: a master and replicas, which the agent starts. It has no slots yet.")
        .takes(&[
            Parameter::optional("group", Kind::Integer, "The group's number; without it, the next free one."),
            Parameter::optional(
                "replicas",
                Kind::Integer,
                "How many replicas it has; without it, as many as the other groups.",
            ),
            Parameter::optional(
                "ack",
                Kind::Integer,
                "How many replicas must have a write; without it, as in the other groups.",
            ),
            REDIS,
            Parameter::optional(
                "program",
                Kind::Text,
                "redis-server: the agent starts Redis servers instead of stores.",
            ),
            USER,
            PASSWORD,
            PLAN,
        ]),
    Route::change("DELETE", "/api/groups/{group}", Handler::Answer(remove_group))
        .named(
            TAG,
            "removeGroup",
            "Removes a group that has no slots. The agent ends its servers; their data stays on the disk.",
        )
        .takes(&[GROUP, PLAN]),
    Route::change("POST", "/api/groups/{group}/servers", Handler::Answer(add_server))
        .named(TAG, "addServer", "Adds a replica to a group: a new store, which the agent starts.")
        .takes(&[
            GROUP,
            Parameter::optional("address", Kind::Text, "Its address; without it, a free port."),
            Parameter::optional("redis", Kind::Flag, "A running Redis at this address joins."),
            USER,
            PASSWORD,
            PLAN,
        ]),
    Route::change("DELETE", "/api/groups/{group}/servers/{server}", Handler::Answer(remove_server))
        .named(TAG, "removeServer", "Removes a replica. The agent ends it; its data stays on the disk.")
        .takes(&[
            GROUP,
            SERVER,
            Parameter::optional("ack", Kind::Integer, "How many replicas must have a write from now on."),
            Parameter::optional(
                "gone",
                Kind::Flag,
                "It is gone for good: a group that waits for it goes on with what the others have.",
            ),
            PLAN,
        ]),
    Route::change("POST", "/api/groups/{group}/promote", Handler::Answer(promote))
        .named(TAG, "promote", "Makes a replica the master. No write is lost, and no command fails.")
        .takes(&[
            GROUP,
            SERVER,
            Parameter::optional(
                "gone",
                Kind::Flag,
                "The master is gone for good, and nobody can replace it by itself: the replica becomes the master with what it has.",
            ),
            PLAN,
        ]),
];

fn all(conductor: &mut Conductor, _: &Input) -> Result<Value, Problem> {
    Ok(status::groups(conductor))
}

fn one(conductor: &mut Conductor, input: &Input) -> Result<Value, Problem> {
    status::group(conductor, group(input)?).ok_or_else(|| Refusal::NoGroup(input.integer("group") as u32).into())
}

fn servers(conductor: &mut Conductor, _: &Input) -> Result<Value, Problem> {
    Ok(status::servers(conductor))
}

pub(super) fn found(conductor: &Conductor, id: GroupId) -> Result<&Group, Problem> {
    conductor.records.cluster.groups.get(&id).ok_or_else(|| Refusal::NoGroup(id).into())
}

fn add_group(conductor: &mut Conductor, input: &Input) -> Result<Value, Problem> {
    let groups = &conductor.records.cluster.groups;
    let next = groups.keys().max().map_or(1, |last| last.saturating_add(1));
    let id = input.maybe_integer("group").map_or(Ok(next), group_number)?;
    let usual = groups.values().map(|group| group.replicas().count() as u64).min().unwrap_or(0);
    if let Some(list) = input.text("redis") {
        return redis::take_group(conductor, id, list, input);
    }
    let kind = redis::kind_of_program(input.text("program"))?;
    if kind == ServerKind::Redis {
        conductor.may_run_redis()?;
    }
    let replicas = input.maybe_integer("replicas").unwrap_or(usual);
    if replicas > REPLICAS_MAX {
        return Err(Problem::Wrong(format!("'replicas' is at most {REPLICAS_MAX}, not {replicas}")));
    }
    let ack = groups.values().map(|group| u64::from(group.ack)).min().unwrap_or(0).min(replicas);
    let ack = input.maybe_integer("ack").unwrap_or(ack);
    begin_group(conductor, (id, kind), (replicas, ack), input.flag("plan"))
}

/// Adds a group with so many replicas, of which so many must have a write.
pub(super) fn begin_group(
    conductor: &mut Conductor,
    (id, kind): (GroupId, ServerKind),
    (replicas, ack): (u64, u64),
    is_plan: bool,
) -> Result<Value, Problem> {
    let mut servers: Vec<Server> = Vec::new();
    for _ in 0..=replicas {
        servers.push(Server { kind, ..conductor.new_store(None, None, &servers)? });
    }
    let names: Vec<String> = servers.iter().map(|server| server.address.to_string()).collect();
    let ack = u32::try_from(ack).unwrap_or(u32::MAX);
    let next = conductor.records.cluster.with_group(id, servers, ack)?;
    let of = if kind.is_store() { "" } else { ", Redis servers that the agent runs" };
    let what = format!("group {id} is added with {}{of}; {}", names.join(", "), redis::what_ack_does(kind, ack));
    if !is_plan {
        conductor.note_grown(id)?;
    }
    change_or_plan(conductor, next, is_plan, json!({ "what": what, "group": id, "servers": names }))
}

fn remove_group(conductor: &mut Conductor, input: &Input) -> Result<Value, Problem> {
    end_group(conductor, group(input)?, input.flag("plan"))
}

/// Removes a group.
pub(super) fn end_group(conductor: &mut Conductor, id: GroupId, is_plan: bool) -> Result<Value, Problem> {
    let next = conductor.records.cluster.without_group(id)?;
    let names: Vec<String> = found(conductor, id)?.servers.iter().map(|server| server.address.to_string()).collect();
    let what = format!("group {id} is removed, and {} with it", names.join(", "));
    let left: Vec<String> =
        found(conductor, id)?.servers.iter().filter_map(|server| conductor.data_of(&server.address)).collect();
    change_or_plan(conductor, next, is_plan, json!({ "what": what, "group": id, "servers": names, "data": left }))
}

fn add_server(conductor: &mut Conductor, input: &Input) -> Result<Value, Problem> {
    let wanted = input.text("address").map(address).transpose()?;
    if input.flag("redis") {
        return redis::take_server(conductor, group(input)?, wanted, input);
    }
    begin_server(conductor, group(input)?, wanted, input.flag("plan"))
}

/// Adds a replica.
pub(super) fn begin_server(
    conductor: &mut Conductor,
    id: GroupId,
    wanted: Option<Address>,
    is_plan: bool,
) -> Result<Value, Problem> {
    let (master, mut kind) = (found(conductor, id)?.master.clone(), found(conductor, id)?.kind());
    if let Some(wanted) = &wanted {
        // One that was started by itself is what it is.
        kind = conductor.loose_kind(wanted).unwrap_or(kind);
        // What it is already says more than that its port is taken.
        let probe = Server { address: wanted.clone(), id: String::new(), host: String::new(), kind };
        conductor.records.cluster.with_server(id, probe)?;
    }
    if kind == ServerKind::Redis {
        conductor.may_run_redis()?;
    }
    let server = Server { kind, ..conductor.new_store(wanted, Some(id), &[])? };
    let name = server.address.to_string();
    let next = conductor.records.cluster.with_server(id, server)?;
    let what = format!("{name} is added to group {id} as a replica of {master}");
    let bytes = conductor.figures.memory(&master);
    change_or_plan(
        conductor,
        next,
        is_plan,
        json!({ "what": what, "group": id, "server": name, "copies_bytes": bytes }),
    )
}

fn remove_server(conductor: &mut Conductor, input: &Input) -> Result<Value, Problem> {
    let ack = input.maybe_integer("ack").map(|ack| u32::try_from(ack).unwrap_or(u32::MAX));
    let (id, server) = (group(input)?, address_of(input, "server")?);
    let in_sync = conductor.records.in_sync(id).of(found(conductor, id)?);
    if status::group_serves(conductor, id) || !in_sync.members.contains(&server) {
        return end_server(conductor, (id, &server), ack, input.flag("plan"));
    }
    if !input.flag("gone") {
        return Err(Problem::Refused(format!(
            "group {id} has no master that serves, and {server} may have what no other server of it has: start that server. If it is gone for \
             good, `tidegate cluster server remove {id} {server} --gone{}` lets the group go on with what the others have",
            giving_up::ack_hint(conductor, id)
        )));
    }
    giving_up::remove(conductor, (id, &server), ack, input.flag("plan"))
}

/// Removes a replica.
pub(super) fn end_server(
    conductor: &mut Conductor,
    (id, server): (GroupId, &Address),
    ack: Option<u32>,
    is_plan: bool,
) -> Result<Value, Problem> {
    let next = conductor.records.cluster.without_server(id, server, ack)?;
    let group = next.groups.get(&id).ok_or(Refusal::NoGroup(id))?;
    let (left, waits) = (group.replicas().count(), group.ack);
    let what =
        format!("{server} is removed from group {id}, which has {left} replicas then; its writes wait for {waits}");
    let data = conductor.data_of(server);
    change_or_plan(
        conductor,
        next,
        is_plan,
        json!({ "what": what, "group": id, "server": server.to_string(), "data": data }),
    )
}

fn promote(conductor: &mut Conductor, input: &Input) -> Result<Value, Problem> {
    let (id, server, is_plan) = (group(input)?, address_of(input, "server")?, input.flag("plan"));
    match input.flag("gone") {
        true => giving_up::replace_master(conductor, id, &server, is_plan),
        false => hand_over(conductor, id, &server, is_plan),
    }
}

/// Makes a replica the master.
pub(super) fn hand_over(
    conductor: &mut Conductor,
    id: GroupId,
    server: &Address,
    is_plan: bool,
) -> Result<Value, Problem> {
    let now = conductor.now();
    conductor.records.cluster.with_master(id, server)?;
    let found = found(conductor, id)?.clone();
    let in_sync = conductor.records.in_sync(id);
    let Some(keeper) = conductor.controller.keeper_mut(id) else {
        return Err(Problem::Refused(format!("group {id} has not been looked at yet: try again")));
    };
    // A plan is refused like the thing itself: it is tried on a copy.
    let mut tried = keeper.clone();
    let keeper = if is_plan { &mut tried } else { keeper };
    keeper.hand_over(server, &found, &in_sync, now).map_err(|error| Problem::Refused(error.to_string()))?;
    let what = format!("{server} becomes the master of group {id}, {} its replica", found.master);
    Ok(json!({ "what": what, "group": id, "from": found.master.to_string(), "to": server.to_string() }))
}

impl Conductor {
    /// What a program is that belongs to no group yet.
    fn loose_kind(&self, address: &Address) -> Option<ServerKind> {
        let found = self.processes.declared().find(|one| one.is_loose && one.address == *address)?;
        Some(if found.program == Program::Redis { ServerKind::Redis } else { ServerKind::Store })
    }

    /// A server that is to be a store of ours: at an address, or at a free port of a host that has none of the group's, nor of those
    /// that are thought of `beside` it.
    fn new_store(&self, wanted: Option<Address>, group: Option<GroupId>, beside: &[Server]) -> Result<Server, Problem> {
        let is_ours = |address: &Address| self.processes.declared().any(|one| one.is_loose && one.address == *address);
        let (address, host) = match wanted {
            Some(address) => {
                let host = self.host_at(&address)?;
                if !is_ours(&address) && host == self.options.host_name() {
                    self.may_start_at(&address)?;
                }
                self.must_be_up(&host)?;
                (address, host)
            }
            None => {
                let hosts = self.records.cluster.hosts_for(group);
                // Nobody starts a server on a host whose agent is gone.
                let hosts: Vec<&str> = hosts.into_iter().filter(|host| self.is_host_up(host)).collect();
                let count = |host: &&&str| beside.iter().filter(|server| server.host == **host).count();
                let host = hosts.iter().min_by_key(count).copied().unwrap_or_default().to_owned();
                let taken: Vec<Address> = beside.iter().map(|server| server.address.clone()).collect();
                (self.free_address(&host, &taken)?, host)
            }
        };
        Ok(beginning::server(address, &host)?)
    }

    /// The host that an address is of.
    pub(super) fn host_at(&self, address: &Address) -> Result<String, Problem> {
        let cluster = &self.records.cluster;
        if cluster.hosts.is_empty() {
            return Ok(self.options.host_name().to_owned());
        }
        let found = cluster.host_with(address.host()).map(str::to_owned);
        found.ok_or_else(|| {
            let known: Vec<&str> = cluster.hosts.iter().filter_map(|host| cluster.address_of(host)).collect();
            Problem::Refused(format!(
                "{address} is on none of the cluster's hosts ({}): run `tidegate cluster up` with --etcd there first",
                known.join(", ")
            ))
        })
    }

    /// Whether a host's agent is there.
    pub(in crate::conductor) fn is_host_up(&self, host: &str) -> bool {
        let now = self.now();
        host == self.options.host_name()
            || self.board.look().peers.get(host).is_some_and(|peer| peer.heard_at + FRESH_MS >= now)
    }

    /// Nothing is begun on a host whose agent is gone: nobody would start it.
    pub(super) fn must_be_up(&self, host: &str) -> Result<(), Problem> {
        if self.is_host_up(host) {
            return Ok(());
        }
        let address = self.records.cluster.address_of(host).unwrap_or("unknown");
        Err(Problem::Refused(format!(
            "no agent answers on host {host} ({address}), so nobody would start it there: run `tidegate cluster up` there first, or name an \
             address of another host (`tidegate cluster host list`)"
        )))
    }

    /// Whether a program of ours can listen there, on this host.
    pub(super) fn may_start_at(&self, address: &Address) -> Result<(), Problem> {
        beginning::free(address).map_err(|error| {
            let problem = match error.kind() {
                std::io::ErrorKind::AddrInUse => format!(
                    "{address} belongs to a program that this cluster has not started. If it is a Redis, it becomes a group of its own: \
                     `server add-group --redis {address}`, or a replica in one: `server add GROUP {address} --redis`. Leave the address out \
                     and a new server is started"
                ),
                _ => format!("nobody can listen on {address} here ({error}): name an address of the agent's machine"),
            };
            Problem::Refused(problem)
        })
    }

    /// A free port of a host, above those of the cluster's own.
    pub(super) fn free_address(&self, host: &str, taken: &[Address]) -> Result<Address, Problem> {
        let cluster = &self.records.cluster;
        let own = || {
            let servers = cluster.servers().map(|(_, server)| (&server.host, &server.address));
            let proxies = cluster.proxies.iter().map(|proxy| (&proxy.host, &proxy.address));
            servers.chain(proxies).filter(|(of, _)| *of == host).map(|(_, address)| address)
        };
        let is_own = host == self.options.host_name();
        let usual = if is_own { self.options.host.as_str() } else { cluster.address_of(host).unwrap_or(host) };
        let address = own().next().map_or(usual, Address::host);
        let of_host = taken.iter().filter(|one| one.host() == address);
        let last = own().chain(of_host).map(Address::port).max().unwrap_or(self.options.port);
        let mut ports = beginning::Ports { host: address.to_owned(), next: last, is_own };
        Ok(ports.take()?)
    }

    /// The machine whose agent looks after a server that joins by itself: this one if it has started it, or else nobody's.
    pub(super) fn host_of(&self, address: &Address) -> String {
        let is_ours = self.processes.declared().any(|one| one.address == *address);
        if is_ours { self.options.host_name().to_owned() } else { String::new() }
    }

    /// A server that leaves goes on running, as one that belongs to no group.
    pub(super) fn loosen(&mut self, address: &Address) {
        if self.processes.loosen(address) {
            self.write_declared();
        }
    }

    /// Where the data of a store of ours is.
    pub(super) fn data_of(&self, address: &Address) -> Option<String> {
        let declared = self.processes.declared().find(|declared| declared.address == *address)?;
        Some(self.options.folder.store(&declared.name).display().to_string())
    }
}
