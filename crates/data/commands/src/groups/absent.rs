//! Commands of Redis that are known here and refused, or that have little to say on a server that stands alone.

use keyspace::Failure;

use crate::{
    Context,
    server::Command,
    table::{Categories, Flags},
};

use super::{
    cluster::{NO_CLUSTER, no_cluster},
    help,
};

const REPLICATION: &str = "replication comes with the cluster";
const MODULES: &str = "there are no modules: what is written for Redis' own machine code cannot run here";
const SENTINEL: &str = "the cluster will fail over by itself; Redis' Sentinel is a program of its own";

const ADMIN: Flags = Flags::ADMIN.union(Flags::NOSCRIPT);

/// The group's commands.
pub const COMMANDS: &[Command] = &[
    Command::new("ASKING", 1, no_cluster)
        .flags(Flags::FAST)
        .group("cluster", Categories::CONNECTION)
        .missing(NO_CLUSTER)
        .docs("3.0.0", "O(1)", "Lets the next command reach a slot that is being moved."),
    Command::new("FAILOVER", -1, no_replication)
        .flags(ADMIN.union(Flags::STALE))
        .group("server", Categories::empty())
        .missing(REPLICATION)
        .docs("6.2.0", "O(1)", "Makes a replica the master.")
        .syntax("[TO/target{host port:integer [FORCE]}] [ABORT] [TIMEOUT/milliseconds:integer]"),
    Command::new("MODULE", -2, no_modules)
        .group("server", Categories::empty())
        .missing(MODULES)
        .docs("4.0.0", "depends on the subcommand", "Modules.")
        .subcommands(&[
            Command::new("HELP", 2, module_help)
                .flags(Flags::LOADING.union(Flags::STALE))
                .group("server", Categories::empty())
                .docs("5.0.0", "O(1)", "The subcommands."),
            Command::new("LIST", 2, module_list).flags(ADMIN).group("server", Categories::empty()).docs(
                "4.0.0",
                "O(1)",
                "The modules: none.",
            ),
            absent_module("LOAD", -3, "4.0.0", "Loads a module.").syntax("path [arg...]"),
            absent_module("LOADEX", -3, "7.0.0", "Loads a module with settings.")
                .syntax("path [configs{CONFIG name value}...] [args{ARGS arg}...]"),
            absent_module("UNLOAD", 3, "4.0.0", "Removes a module.").syntax("name"),
        ]),
    Command::new("PSYNC", -3, no_snapshot)
        .flags(ADMIN.union(Flags::NO_ASYNC_LOADING).union(Flags::NO_MULTI))
        .group("server", Categories::empty())
        .missing(REPLICATION)
        .docs("2.8.0", "", "What a replica asks its master for.")
        .syntax("replicationid offset:integer"),
    Command::new("READONLY", 1, no_cluster)
        .flags(Flags::FAST.union(Flags::LOADING).union(Flags::STALE))
        .group("cluster", Categories::CONNECTION)
        .missing(NO_CLUSTER)
        .docs("3.0.0", "O(1)", "Lets the connection read from a replica."),
    Command::new("READWRITE", 1, no_cluster)
        .flags(Flags::FAST.union(Flags::LOADING).union(Flags::STALE))
        .group("cluster", Categories::CONNECTION)
        .missing(NO_CLUSTER)
        .docs("3.0.0", "O(1)", "Ends that."),
    Command::new("REPLCONF", -1, no_replication)
        .flags(ADMIN.union(Flags::LOADING).union(Flags::STALE).union(Flags::ALLOW_BUSY))
        .group("server", Categories::empty())
        .missing(REPLICATION)
        .docs("3.0.0", "O(1)", "What replicas tell their master."),
    Command::new("REPLICAOF", 3, replicaof)
        .flags(ADMIN.union(Flags::NO_ASYNC_LOADING).union(Flags::STALE))
        .group("server", Categories::empty())
        .missing(REPLICATION)
        .docs("5.0.0", "O(1)", "Makes the server a replica; `NO ONE` is taken: it is none.")
        .syntax("args<host-port{host port:integer}|no-one{NO ONE}>"),
    Command::new("ROLE", 1, role)
        .flags(Flags::NOSCRIPT.union(Flags::LOADING).union(Flags::STALE).union(Flags::FAST))
        .group("server", Categories::ADMIN.union(Categories::DANGEROUS))
        .docs("2.8.12", "O(1)", "What the server is in replication: a master without replicas."),
    Command::new("SENTINEL", -2, |_| Err(Failure::text("ERR this is no Sentinel: it is a program of its own")))
        .flags(ADMIN)
        .group("sentinel", Categories::empty())
        .missing(SENTINEL)
        .docs("2.8.4", "depends on the subcommand", "Sentinel."),
    Command::new("SLAVEOF", 3, replicaof)
        .flags(ADMIN.union(Flags::NO_ASYNC_LOADING).union(Flags::STALE))
        .group("server", Categories::empty())
        .missing(REPLICATION)
        .docs("1.0.0", "O(1)", "The former name of REPLICAOF.")
        .syntax("args<host-port{host port:integer}|no-one{NO ONE}>"),
    Command::new("SYNC", 1, no_snapshot)
        .flags(ADMIN.union(Flags::NO_ASYNC_LOADING).union(Flags::NO_MULTI))
        .group("server", Categories::empty())
        .missing(REPLICATION)
        .docs("1.0.0", "", "What a replica asked its master for, before PSYNC."),
    Command::new("WAIT", 3, wait)
        .flags(Flags::NOSCRIPT)
        .group("generic", Categories::CONNECTION)
        .docs("3.0.0", "O(1)", "Waits until so many replicas have what the connection wrote: there are none yet.")
        .syntax("numreplicas:integer timeout:integer"),
];

fn no_replication(_: &mut Context<'_>) -> Result<(), Failure> {
    Err(Failure::text("ERR replication is not there yet: it comes with the cluster"))
}

/// `redis-cli --rdb` asks for these.
fn no_snapshot(_: &mut Context<'_>) -> Result<(), Failure> {
    Err(Failure::text(
        "ERR replication is not there yet: it comes with the cluster; `tidegate backup` copies the data while the store serves",
    ))
}

fn no_modules(_: &mut Context<'_>) -> Result<(), Failure> {
    Err(Failure::text("ERR there are no modules here"))
}

const fn absent_module(name: &'static str, arity: i32, since: &'static str, summary: &'static str) -> Command {
    Command::new(name, arity, no_modules)
        .flags(ADMIN.union(Flags::NO_ASYNC_LOADING))
        .group("server", Categories::empty())
        .missing(MODULES)
        .docs(since, "O(1)", summary)
}

fn module_help(context: &mut Context<'_>) -> Result<(), Failure> {
    help::reply(
        context,
        "MODULE",
        &[
            ("LIST", "The modules: there are none."),
            ("LOAD, LOADEX, UNLOAD", "Are refused: what is written for Redis' own machine code cannot run here."),
        ],
    );
    Ok(())
}

fn module_list(context: &mut Context<'_>) -> Result<(), Failure> {
    context.reply.array(0);
    Ok(())
}

fn replicaof(context: &mut Context<'_>) -> Result<(), Failure> {
    if context.words.is(1, "NO") && context.words.is(2, "ONE") {
        context.reply.ok();
        return Ok(());
    }
    no_replication(context)
}

fn role(context: &mut Context<'_>) -> Result<(), Failure> {
    context.reply.array(3);
    context.reply.bulk(b"master");
    context.reply.integer(context.shared.persistence.log.1 as i64);
    context.reply.array(0);
    Ok(())
}

fn wait(context: &mut Context<'_>) -> Result<(), Failure> {
    let wanted = context.words.integer(1)?;
    let timeout =
        context.words.integer(2).map_err(|_| Failure::text("ERR timeout is not an integer or out of range"))?;
    if timeout < 0 {
        return Err(Failure::text("ERR timeout is negative"));
    }
    if wanted <= 0 || context.session.deny_blocking {
        context.reply.integer(0);
        return Ok(());
    }
    let deadline = (timeout > 0).then(|| context.keys.now.saturating_add(timeout));
    context.session.block(context.words.0, Vec::new(), deadline, b":0\r\n".to_vec());
    Ok(())
}
