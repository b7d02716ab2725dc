//! Commands of replication: who is whose replica, what replicas say, and those who wait for them.

use keyspace::{Bytes, Failure, changes::Words};

use crate::{
    Context,
    config::Master,
    replication::{Attach, Bond, MasterLink, ReplicaState, Request, Role},
    server::{self, Command},
    session::{AwaitedReplicas, ReplicaTraits},
    table::{Categories, Flags},
};

const ADMIN: Flags = Flags::ADMIN.union(Flags::NOSCRIPT);
const EASY: Flags =
    Flags::NOSCRIPT.union(Flags::LOADING).union(Flags::STALE).union(Flags::FAST).union(Flags::TELLS_NO_KEYS);
/// What comes without a folder.
pub(super) const NO_FOLDER: Failure =
    Failure::text("ERR a store without a folder (dir) has no log, and cannot replicate: start it with --dir FOLDER");

/// The group's commands.
pub const COMMANDS: &[Command] = &[
    Command::new("PSYNC", -3, psync)
        .flags(ADMIN.union(Flags::NO_ASYNC_LOADING).union(Flags::NO_MULTI))
        .group("server", Categories::empty())
        .docs("2.8.0", "", "A replica asks its master for the log from an offset on.")
        .syntax("replicationid offset:integer"),
    Command::new("REPLCONF", -1, replconf)
        .flags(ADMIN.union(Flags::LOADING).union(Flags::STALE).union(Flags::ALLOW_BUSY).union(Flags::TELLS_NO_KEYS))
        .group("server", Categories::empty())
        .docs("3.0.0", "O(1)", "A replica tells its master about itself."),
    Command::new("REPLICAOF", 3, replicaof)
        .flags(ADMIN.union(Flags::NO_ASYNC_LOADING).union(Flags::STALE).union(Flags::TELLS_NO_KEYS))
        .group("server", Categories::empty())
        .docs("5.0.0", "O(1)", "Makes the server a replica of another one, or a master.")
        .syntax("args<host-port{host port:integer}|no-one{NO ONE}>"),
    Command::new("ROLE", 1, role).flags(EASY).group("server", Categories::ADMIN.union(Categories::DANGEROUS)).docs(
        "2.8.12",
        "O(1)",
        "Returns the server's role in replication, with its replicas or its master.",
    ),
    Command::new("SLAVEOF", 3, replicaof)
        .flags(ADMIN.union(Flags::NO_ASYNC_LOADING).union(Flags::STALE).union(Flags::TELLS_NO_KEYS))
        .group("server", Categories::empty())
        .docs("1.0.0", "O(1)", "The old name of REPLICAOF.")
        .syntax("args<host-port{host port:integer}|no-one{NO ONE}>"),
    Command::new("SYNC", 1, sync)
        .flags(ADMIN.union(Flags::NO_ASYNC_LOADING).union(Flags::NO_MULTI))
        .group("server", Categories::empty())
        .docs("1.0.0", "", "A replica asks its master for a copy; the predecessor of PSYNC."),
    Command::new("WAIT", 3, wait)
        .flags(Flags::NOSCRIPT)
        .group("generic", Categories::CONNECTION)
        .docs("3.0.0", "O(1)", "Waits until a number of replicas have the writes of this connection.")
        .syntax("numreplicas:integer timeout:integer"),
    Command::new("WAITAOF", 4, waitaof)
        .flags(Flags::NOSCRIPT)
        .group("generic", Categories::CONNECTION)
        .docs(
            "7.2.0",
            "O(1)",
            "Waits until the writes of this connection are durable, here and on a number of replicas.",
        )
        .syntax("numlocal:integer numreplicas:integer timeout:integer"),
];

fn replicaof(context: &mut Context<'_>) -> Result<(), Failure> {
    if !context.shared.persistence.enabled {
        return Err(NO_FOLDER);
    }
    if context.shared.is_steered_by_others(context.session) {
        return Err(Failure::text(
            "ERR REPLICAOF not allowed in cluster mode: CLUSTER FAILOVER at a replica, or `tidegate cluster server promote`, makes it the \
             master; CLUSTER REPLICATE makes a node without slots another master's replica",
        ));
    }
    let shared = &mut context.shared;
    if shared.replication.failover.is_some() {
        return Err(Failure::text("ERR REPLICAOF not allowed while failing over."));
    }
    if context.words.is(1, "NO") && context.words.is(2, "ONE") {
        if shared.replication.master().is_some() {
            shared.replication.role = Role::Master;
            shared.outbox.push(server::Request::Replication(Request::Promote));
            shared.settings.replicaof = Master(None);
        }
        context.reply.ok();
        return Ok(());
    }
    let port = context.words.integer(2).ok().and_then(|port| u16::try_from(port).ok());
    let port = port.ok_or(Failure::text("ERR Invalid master port"))?;
    let host = String::from_utf8_lossy(context.words.at(1)).into_owned();
    let said = context.session.said_of_master.take();
    let is_known = |known: &Option<Bond>| match (&said, known) {
        (Some(said), Some(known)) => {
            (said.since, &said.node) == (known.since, &known.node) && (known.is_bound || !said.is_bound)
        }
        (Some(_), None) => false,
        (None, _) => true,
    };
    let is_followed = |link: &MasterLink| link.host == host && link.port == port && is_known(&link.bond);
    if shared.replication.master().is_some_and(is_followed) {
        context.reply.simple("OK Already connected to specified master");
        return Ok(());
    }
    let link = MasterLink { bond: said, ..MasterLink::new(host.clone(), port) };
    shared.replication.role = Role::Replica(Box::new(link));
    shared.outbox.push(server::Request::Replication(Request::Follow));
    shared.settings.replicaof = Master(Some((host, port)));
    context.reply.ok();
    Ok(())
}

fn role(context: &mut Context<'_>) -> Result<(), Failure> {
    let (reply, shared) = (&mut context.reply, &context.shared);
    let end = shared.persistence.log.1 as i64;
    match &shared.replication.role {
        Role::Replica(link) => {
            reply.array(5);
            reply.bulk(b"slave");
            reply.bulk(link.host.as_bytes());
            reply.integer(link.port.into());
            reply.bulk(link.state.as_bytes());
            reply.integer(if link.is_up() { end } else { -1 });
        }
        Role::Master => {
            reply.array(3);
            reply.bulk(b"master");
            reply.integer(end);
            let online = || {
                let all = shared.replication.replicas.iter().map(|(_, replica)| replica);
                all.filter(|replica| replica.state == ReplicaState::Online)
            };
            reply.array(online().count());
            for replica in online() {
                reply.array(3);
                reply.bulk(replica.address.as_bytes());
                reply.bulk(replica.port.to_string().as_bytes());
                reply.bulk(replica.applied.to_string().as_bytes());
            }
        }
    }
    Ok(())
}

fn psync(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = (context.words.at(1).to_vec(), context.words.at(2).to_vec());
    context.words.integer(2)?;
    let takes_over = context.words.is(3, "FAILOVER");
    if takes_over {
        if context.shared.replication.master().is_none() {
            return Err(Failure::text("ERR PSYNC FAILOVER can't be sent to a master."));
        }
        if words.0 != context.shared.replication_id.as_bytes() {
            return Err(Failure::text("ERR PSYNC FAILOVER replid must match my replid."));
        }
    }
    attach(context, Some(words), takes_over)
}

fn sync(context: &mut Context<'_>) -> Result<(), Failure> {
    attach(context, None, false)
}

fn attach(context: &mut Context<'_>, from: Option<(Vec<u8>, Vec<u8>)>, takes_over: bool) -> Result<(), Failure> {
    if !context.shared.persistence.enabled {
        return Err(NO_FOLDER);
    }
    let traits = context.session.replica.get_or_insert_default();
    // Who asks a second time gets no second log.
    if traits.is_attached {
        return Ok(());
    }
    if context.shared.replication.failover.is_some() {
        return Err(Failure::text("NOMASTERLINK Can't SYNC while failing over"));
    }
    if !takes_over && context.shared.replication.master().is_some_and(|link| !link.is_up()) {
        return Err(Failure::text("NOMASTERLINK Can't SYNC while not connected with my master"));
    }
    if context.reply.position() > 0 {
        return Err(Failure::text("ERR SYNC and PSYNC are invalid with pending output"));
    }
    traits.is_attached = true;
    let request = Attach { session: context.session.id, from, traits: (**traits).clone() };
    let request = if takes_over { Request::TakeOver(request) } else { Request::Attach(request) };
    context.shared.outbox.push(server::Request::Replication(request));
    Ok(())
}

fn replconf(context: &mut Context<'_>) -> Result<(), Failure> {
    if context.words.len().is_multiple_of(2) {
        return Err(Failure::Syntax);
    }
    // The log's own questions for replicas' offsets, when it is run again.
    if context.session.internal {
        return Ok(());
    }
    for at in (1..context.words.len()).step_by(2) {
        let value = context.words.at(at + 1);
        if context.words.is(at, "ACK") || context.words.is(at, "GETACK") {
            // Neither is answered; what replicas say while they are given the log does not come here.
            return Ok(());
        }
        let number = || keyspace::number::integer(value);
        if context.words.is(at, "TIDEGATE-NODE") {
            context.shared.check_node(value)?;
            continue;
        }
        let traits: &mut ReplicaTraits = context.session.replica.get_or_insert_default();
        if context.words.is(at, "LISTENING-PORT") {
            traits.port = u16::try_from(number()?).map_err(|_| Failure::NotInteger)?;
        } else if context.words.is(at, "IP-ADDRESS") {
            traits.address = String::from_utf8_lossy(value).into_owned();
        } else if context.words.is(at, "CAPA") {
            traits.takes_mark |= value.eq_ignore_ascii_case(b"eof");
            traits.takes_queues |= value.eq_ignore_ascii_case(b"tidegate-queues");
        } else if context.words.is(at, "RDB-ONLY") {
            traits.copy_only = number()? == 1;
        } else if context.words.is(at, "RDB-FILTER-ONLY") {
            traits.functions_only = match value {
                b"" => false,
                value if value.eq_ignore_ascii_case(b"functions") => true,
                other => {
                    let text = [b"ERR Unsupported rdb-filter-only option: ", other].concat();
                    return Err(Failure::quoting(&[&text]));
                }
            };
        } else if context.words.is(at, "TIDEGATE-SLOTS") {
            traits.slots = Some(slots_of(value).ok_or(Failure::text("ERR slots are told as first-last, up to 16383"))?);
        } else if context.words.is(at, "TIDEGATE-ACKS") {
            traits.is_eager = true;
        } else if !context.words.is(at, "VERSION") {
            return Err(Failure::quoting(&[b"ERR Unrecognized REPLCONF option: ", context.words.at(at)]));
        }
    }
    context.reply.ok();
    Ok(())
}

/// `first-last`.
fn slots_of(value: &[u8]) -> Option<(u16, u16)> {
    let (first, last) = std::str::from_utf8(value).ok()?.split_once('-')?;
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last && usize::from(last) < crate::cluster::SLOTS).then_some((first, last))
}

fn timeout(context: &Context<'_>, place: usize) -> Result<i64, Failure> {
    let timeout =
        context.words.integer(place).map_err(|_| Failure::text("ERR timeout is not an integer or out of range"))?;
    if timeout < 0 { Err(Failure::text("ERR timeout is negative")) } else { Ok(timeout) }
}

fn wait(context: &mut Context<'_>) -> Result<(), Failure> {
    if context.shared.replication.master().is_some() {
        return Err(Failure::text(
            "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is configured \
             to be writable (which is not the default) writes to replicas are just local and are not propagated.",
        ));
    }
    let wanted = context.words.integer(1)?;
    let timeout = timeout(context, 2)?;
    let awaited = AwaitedReplicas { replicas: u64::try_from(wanted).unwrap_or(0), local: None, offset: None };
    if context.session.deny_blocking {
        let count = context.shared.replication.count_at(context.shared.persistence.log.1, false);
        context.reply.integer(count as i64);
        return Ok(());
    }
    block(context, awaited, timeout, b":0\r\n".to_vec());
    Ok(())
}

fn waitaof(context: &mut Context<'_>) -> Result<(), Failure> {
    let local = context.words.integer(1)?;
    if !(0..=1).contains(&local) {
        return Err(Failure::text("ERR value is out of range, must be between 0 and 1"));
    }
    let wanted = context.words.integer(2)?;
    let timeout = timeout(context, 3)?;
    if context.shared.replication.master().is_some() {
        return Err(Failure::text(
            "ERR WAITAOF cannot be used with replica instances. Please also note that writes to replicas are just local and \
             are not propagated.",
        ));
    }
    if local > 0 && !context.shared.persistence.enabled {
        return Err(Failure::text("ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled."));
    }
    let replicas = u64::try_from(wanted).unwrap_or(0);
    if context.session.deny_blocking {
        let figures = &context.shared.persistence;
        context.reply.array(2);
        context.reply.integer(i64::from(figures.durable >= figures.log.1));
        context.reply.integer(context.shared.replication.count_at(figures.log.1, true) as i64);
        return Ok(());
    }
    let awaited = AwaitedReplicas { replicas, local: Some(local > 0), offset: None };
    block(context, awaited, timeout, b"*2\r\n:0\r\n:0\r\n".to_vec());
    Ok(())
}

fn block(context: &mut Context<'_>, awaited: AwaitedReplicas, timeout: i64, on_timeout: Vec<u8>) {
    let deadline = (timeout > 0).then(|| context.keys.now.saturating_add(timeout));
    context.session.block(context.words.0, Vec::new(), deadline, on_timeout);
    if let Some(blocked) = &mut context.session.blocked {
        blocked.replicas = Some(awaited);
    }
    let replication = &mut context.shared.replication;
    replication.waiting.push(context.session.id);
    replication.asks_for_acks |= awaited.replicas > 0;
}

/// Has replicas be told of a command that changes no key.
pub(crate) fn tell_replicas(context: &mut Context<'_>) {
    if context.shared.replication.has_replicas() {
        let words: Words = context.words.0.iter().map(|word| Bytes::from_slice(word)).collect();
        context.keys.changes.propagate_instead(vec![words]);
    }
}
