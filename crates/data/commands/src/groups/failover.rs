//! `FAILOVER`: a master hands over to one of its replicas.

use keyspace::Failure;

use crate::{
    Context,
    replication::{Failover, ReplicaState, Request, Role},
    server::{self, Command},
    table::{Categories, Flags},
};

/// The group's commands.
pub const COMMANDS: &[Command] = &[Command::new("FAILOVER", -1, failover)
    .flags(Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::STALE).union(Flags::TELLS_NO_KEYS))
    .group("server", Categories::empty())
    .docs("6.2.0", "O(1)", "Makes a replica the master.")
    .syntax("[TO/target{host port:integer [FORCE]}] [ABORT] [TIMEOUT/milliseconds:integer]")];

/// What the words say: who, whether by force, and after how many milliseconds.
#[derive(Default)]
struct FailoverArguments {
    target: Option<(String, u16)>,
    is_forced: bool,
    timeout: Option<i64>,
}

fn failover(context: &mut Context<'_>) -> Result<(), Failure> {
    if context.words.len() == 2 && context.words.is(1, "ABORT") {
        return abort(context);
    }
    let wanted = read(context)?;
    let replication = &context.shared.replication;
    if replication.failover.is_some() {
        return Err(Failure::text("ERR FAILOVER already in progress."));
    }
    if replication.role != Role::Master {
        return Err(Failure::text("ERR FAILOVER is not valid when server is a replica."));
    }
    if replication.replicas.is_empty() {
        return Err(Failure::text("ERR FAILOVER requires connected replicas."));
    }
    let FailoverArguments { target, is_forced, timeout } = wanted;
    if is_forced && (target.is_none() || timeout.is_none()) {
        return Err(Failure::text("ERR FAILOVER with force option requires both a timeout and target HOST and IP."));
    }
    if let Some((host, port)) = &target {
        let mut replicas = replication.replicas.iter().map(|(_, replica)| replica);
        let replica = replicas.find(|replica| replica.address == *host && replica.port == *port);
        match replica.map(|replica| replica.state) {
            None => return Err(Failure::text("ERR FAILOVER target HOST and PORT is not a replica.")),
            Some(ReplicaState::Online) => {}
            Some(_) => return Err(Failure::text("ERR FAILOVER target replica is not online.")),
        }
    }
    let deadline = timeout.map(|timeout| context.now().saturating_add(timeout));
    context.shared.begin_failover(Failover { target, deadline, is_forced, is_asked: false });
    context.reply.ok();
    Ok(())
}

fn abort(context: &mut Context<'_>) -> Result<(), Failure> {
    let replication = &mut context.shared.replication;
    if replication.failover.is_none() {
        return Err(Failure::text("ERR No failover in progress."));
    }
    context.shared.outbox.push(server::Request::Replication(Request::AbortFailover));
    context.reply.ok();
    Ok(())
}

fn read(context: &Context<'_>) -> Result<FailoverArguments, Failure> {
    let words = context.words;
    let mut wanted = FailoverArguments::default();
    let mut at = 1;
    while at < words.len() {
        if words.is(at, "TIMEOUT") && at + 1 < words.len() && wanted.timeout.is_none() {
            let timeout = words.integer(at + 1)?;
            if timeout <= 0 {
                return Err(Failure::text("ERR FAILOVER timeout must be greater than 0"));
            }
            wanted.timeout = Some(timeout);
            at += 2;
        } else if words.is(at, "TO") && at + 2 < words.len() && wanted.target.is_none() {
            let host = String::from_utf8_lossy(words.at(at + 1)).into_owned();
            // A port that is none is nobody's.
            let port = u16::try_from(words.integer(at + 2)?).unwrap_or(0);
            wanted.target = Some((host, port));
            at += 3;
        } else if words.is(at, "FORCE") && !wanted.is_forced {
            wanted.is_forced = true;
            at += 1;
        } else {
            return Err(Failure::Syntax);
        }
    }
    Ok(wanted)
}
