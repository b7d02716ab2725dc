//! Redis servers that join: those that run already, with what they have, and those that the agent is to run.

use std::{env, path::Path};

use cluster::{Address, GroupId, Refusal, SLOTS, Server, ServerKind, SlotState, keeper::Role};
use serde_json::{Value, json};

use super::{Conductor, Problem, address, change_or_plan};
use crate::{api::Input, beginning, credentials::Credentials, probe};

/// Servers that are named at once at most.
const NAMED_MAX: usize = 16;

/// What kind of server a program is.
pub(super) fn kind_of_program(program: Option<&str>) -> Result<ServerKind, Problem> {
    match program {
        None | Some("" | "tidegate" | "store") => Ok(ServerKind::Store),
        Some("redis-server" | "valkey-server") => Ok(ServerKind::Redis),
        Some(other) => Err(Problem::Wrong(format!(
            "'program' is redis-server, valkey-server or store, not {other}; where it is, `cluster up --redis-server PATH` says"
        ))),
    }
}

/// What it means that so many replicas must have a write.
pub(super) fn what_ack_does(kind: ServerKind, ack: u32) -> String {
    match (kind, ack) {
        (ServerKind::Store, _) => format!("its writes wait for {ack} replicas"),
        (ServerKind::Redis, 0) => "its writes need no replica".to_owned(),
        (ServerKind::Redis, _) => format!("its master refuses writes with fewer than {ack} replicas"),
    }
}

fn credentials_of(input: &Input) -> Option<Credentials> {
    let password = input.text("password").filter(|password| !password.is_empty())?.to_owned();
    Some(Credentials { user: input.text("user").filter(|user| !user.is_empty()).map(str::to_owned), password })
}

/// A group of servers that run already.
pub(super) fn take_group(conductor: &mut Conductor, id: GroupId, list: &str, input: &Input) -> Result<Value, Problem> {
    let addresses: Vec<Address> = list.split(',').map(|text| address(text.trim())).collect::<Result<_, _>>()?;
    if addresses.len() > NAMED_MAX {
        return Err(Problem::Wrong(format!("{} servers at once: {NAMED_MAX} at most", addresses.len())));
    }
    // What they are already says more than what they answer.
    let named = addresses.iter().map(|address| {
        let (id, host) = (String::new(), String::new());
        Server { address: address.clone(), id, host, kind: ServerKind::Redis }
    });
    conductor.records.cluster.with_group(id, named.collect(), 0)?;
    conductor.has_one_host()?;
    let credentials = credentials_of(input);
    let found = probe::servers(&addresses, credentials.as_ref())?;
    let found = probe::as_group(found)?;
    let keys = found.first().map_or(0, |master| master.keys);
    let given = (0..SLOTS).filter(|slot| conductor.records.cluster.slots.state(*slot) != SlotState::Offline).count();
    if keys > 0 && given > 0 {
        let master = found.first().map_or(String::new(), |master| master.address.to_string());
        return Err(Problem::Refused(format!(
            "{master} has {keys} keys, and their slots belong to other groups: nobody would find them, and moves to it would remove them. \
             Begin a cluster with it (`tidegate cluster up --redis {master}`), where it has all slots, and move them on from there; or \
             empty it (FLUSHALL), if they are not wanted"
        )));
    }
    let replicas = u64::try_from(found.len().saturating_sub(1)).unwrap_or(u64::MAX);
    let ack = input.maybe_integer("ack").unwrap_or(0);
    let names: Vec<String> = found.iter().map(|one| one.address.to_string()).collect();
    let servers: Vec<Server> =
        found.iter().map(|one| beginning::foreign(one.address.clone())).collect::<Result<_, _>>()?;
    let ack = u32::try_from(ack).unwrap_or(u32::MAX);
    let next = conductor.records.cluster.with_group(id, servers, ack)?;
    let what = format!(
        "group {id} is added with the running Redis servers {} ({keys} keys, {replicas} replicas); {}",
        names.join(", "),
        what_ack_does(ServerKind::Redis, ack)
    );
    remember(conductor, credentials.as_ref(), &addresses, input.flag("plan"))?;
    change_or_plan(
        conductor,
        next,
        input.flag("plan"),
        json!({ "what": what, "group": id, "servers": names, "keys": keys }),
    )
}

/// A running server as a replica of a group.
pub(super) fn take_server(
    conductor: &mut Conductor,
    id: GroupId,
    wanted: Option<Address>,
    input: &Input,
) -> Result<Value, Problem> {
    let wanted = wanted.ok_or_else(|| Problem::Wrong("'address' is missing: where does the Redis listen?".into()))?;
    let group = conductor.records.cluster.groups.get(&id).ok_or(Refusal::NoGroup(id))?;
    let master = group.master.clone();
    let (no_id, host) = (String::new(), String::new());
    let probe = Server { address: wanted.clone(), id: no_id, host, kind: ServerKind::Redis };
    conductor.records.cluster.with_server(id, probe)?;
    conductor.has_one_host()?;
    let given = credentials_of(input);
    let mut credentials = given.clone().or_else(|| conductor.credentials.of(&master).cloned());
    let mut asked = probe::servers(std::slice::from_ref(&wanted), credentials.as_ref());
    if asked.is_err() && given.is_none() && credentials.take().is_some() {
        // It need not have its master's password.
        asked = probe::servers(std::slice::from_ref(&wanted), None).or(asked);
    }
    let found = asked?;
    let Some(found) = found.first() else { return Err(Problem::Refused(format!("{wanted} does not answer"))) };
    if found.role == Role::Master && found.keys > 0 {
        return Err(Problem::Refused(format!(
            "{wanted} has {} keys, which it would lose: a replica takes over what its master has. Empty it first (FLUSHALL), if they are \
             not wanted",
            found.keys
        )));
    }
    let next = conductor.records.cluster.with_server(id, beginning::foreign(found.address.clone())?)?;
    let what = format!("the running Redis {wanted} is added to group {id} as a replica of {master}");
    remember(conductor, credentials.as_ref(), std::slice::from_ref(&wanted), input.flag("plan"))?;
    let bytes = conductor.figures.memory(&master);
    let answer = json!({ "what": what, "group": id, "server": wanted.to_string(), "copies_bytes": bytes });
    change_or_plan(conductor, next, input.flag("plan"), answer)
}

fn remember(
    conductor: &mut Conductor,
    credentials: Option<&Credentials>,
    servers: &[Address],
    is_plan: bool,
) -> Result<(), Problem> {
    if is_plan {
        return Ok(());
    }
    let path = conductor.options.folder.secrets();
    match credentials {
        Some(credentials) => conductor.credentials.add(&path, servers, credentials)?,
        // One that was there before may have had a password.
        None => conductor.credentials.remove(&path, servers)?,
    }
    Ok(())
}

impl Conductor {
    /// Proxies of other hosts are not told on which slots requests wait.
    fn has_one_host(&self) -> Result<(), Problem> {
        if self.records.cluster.hosts.is_empty() {
            return Ok(());
        }
        Err(Problem::Refused(
            "groups of Redis servers are for clusters whose agent and proxies run on one host: proxies of several hosts cannot be waited for \
             yet. The Redis servers themselves may be anywhere"
                .into(),
        ))
    }

    /// Whether there is a program to run Redis servers by.
    pub(super) fn may_run_redis(&self) -> Result<(), Problem> {
        self.has_one_host()?;
        let program = &self.options.redis_program;
        let is_path = program.components().count() > 1;
        let places = env::var_os("PATH").unwrap_or_default();
        let found = if is_path {
            Path::new(program).is_file()
        } else {
            env::split_paths(&places).any(|place| place.join(program).is_file())
        };
        if found {
            return Ok(());
        }
        Err(Problem::Refused(format!(
            "there is no program {} where the agent runs: install it (Debian: apt install redis-server), or say where it is (`tidegate \
             cluster up --redis-server PATH`)",
            program.display()
        )))
    }
}
