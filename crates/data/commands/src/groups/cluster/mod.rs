//! CLUSTER: what a node tells of the cluster, what whoever looks after the cluster tells the node, and what the node passes on to him.
//!
//! Where the store stands alone all of it is refused as Redis refuses it, HELP too. Nodes do not talk to each other: what Redis'
//! nodes decide among themselves is decided by the cluster's agent, so commands that change a cluster are passed on to it (`change`).

mod change;
mod show;
mod slots;
mod steer;

pub(in crate::groups) use change::keep_settings;

use std::borrow::Cow;

use keyspace::Failure;

use crate::{
    Context,
    cluster::Topology,
    server::Command,
    table::{Categories, Flags},
};

/// Of subcommands that change the cluster.
const CHANGES: Flags = Flags::ADMIN.union(Flags::STALE).union(Flags::NO_ASYNC_LOADING);
/// Of those that show it to administrators.
const SHOWS: Flags = Flags::ADMIN.union(Flags::STALE).union(Flags::TELLS_NO_KEYS);
/// Of those by which a node is told what to do.
const STEERS: Flags = Flags::ADMIN
    .union(Flags::STALE)
    .union(Flags::LOADING)
    .union(Flags::NOSCRIPT)
    .union(Flags::NO_MULTI)
    .union(Flags::TELLS_NO_KEYS);

type Handler = fn(&mut Context<'_>) -> Result<(), Failure>;

const fn of(name: &'static str, arity: i32, since: &'static str, handler: Handler, summary: &'static str) -> Command {
    Command::new(name, arity, handler)
        .flags(Flags::STALE.union(Flags::TELLS_NO_KEYS))
        .group("cluster", Categories::empty())
        .docs(since, "", summary)
}

const fn change(
    name: &'static str,
    arity: i32,
    since: &'static str,
    handler: Handler,
    summary: &'static str,
) -> Command {
    of(name, arity, since, handler, summary).flags(CHANGES)
}

/// The group's commands.
pub const COMMANDS: &[Command] = &[
    Command::new("ASKING", 1, asking).flags(Flags::FAST).group("cluster", Categories::CONNECTION).docs(
        "3.0.0",
        "O(1)",
        "Lets the next command reach a slot that is on its way here. In this store a slot stays with its former owner until all of it has moved.",
    ),
    Command::new("READONLY", 1, |context| reads_replica(context, true))
        .flags(Flags::FAST.union(Flags::LOADING).union(Flags::STALE))
        .group("cluster", Categories::CONNECTION)
        .docs("3.0.0", "O(1)", "Lets the connection read from a replica."),
    Command::new("READWRITE", 1, |context| reads_replica(context, false))
        .flags(Flags::FAST.union(Flags::LOADING).union(Flags::STALE))
        .group("cluster", Categories::CONNECTION)
        .docs("3.0.0", "O(1)", "Ends READONLY."),
    Command::new("CLUSTER", -2, no_cluster)
        .group("cluster", Categories::empty())
        .docs("3.0.0", "depends on the subcommand", "Manages the cluster and its slots.")
        .subcommands(&[
            of(
                "ACK",
                -5,
                "7.0.0",
                steer::ack,
                "Tells a master which replicas to count, and how many of them must have a write before it acknowledges the write. The master refuses an order that is older than its last one.",
            )
            .syntax("term:integer serial:integer replicas:integer [host-port...]")
            .flags(STEERS),
            change("ADDSLOTS", -3, "3.0.0", change::add_slots, "Gives slots that no node has to a master.")
                .syntax("slot:integer..."),
            change("ADDSLOTSRANGE", -4, "7.0.0", change::add_slots_range, "Gives ranges of slots that no node has to a master.")
                .syntax("range{start-slot:integer end-slot:integer}..."),
            change("BUMPEPOCH", 2, "3.0.0", change::bump_epoch, "Does nothing: the coordinator gives each change its epoch."),
            of(
                "CONNECTION",
                -3,
                "7.0.0",
                steer::connection,
                "Says who uses the connection: a client, a proxy, a mover of slots, or the agent that leads since a term. NODE says which node is meant: another one refuses. The agent also says of the master that the next REPLICAOF names since which epoch it is the master, which node it is, and whether all that the replica has was that master's: then the replica copies no master that lacks some of it.",
            )
            .syntax("peer<CLIENT|PROXY|MOVER/fill{first-slot:integer last-slot:integer epoch:integer}|AGENT/term:integer|MASTER/since{epoch:integer [KEEP] [NODE/master-id]}|NODE/node-id>")
            .flags(STEERS),
            of("COUNT-FAILURE-REPORTS", 3, "3.0.0", show::failure_reports, "Returns how many nodes report a node as failed.")
                .syntax("node-id")
                .flags(SHOWS),
            of("COUNTKEYSINSLOT", 3, "3.0.0", slots::count, "Counts the keys of a slot.")
                .syntax("slot:integer")
                .flags(Flags::STALE),
            of("DELKEYSINSLOT", 5, "7.0.0", slots::delete, "Removes some keys of slots that belong to another node.")
                .syntax("first-slot:integer last-slot:integer count:integer")
                .flags(Flags::ADMIN.union(Flags::WRITE)),
            change("DELSLOTS", -3, "3.0.0", change::del_slots, "Takes slots away from their nodes: no node serves them any more.")
                .syntax("slot:integer..."),
            change("DELSLOTSRANGE", -4, "7.0.0", change::del_slots_range, "Takes ranges of slots away from their nodes: no node serves them any more.")
                .syntax("range{start-slot:integer end-slot:integer}..."),
            change("FAILOVER", -2, "3.0.0", change::failover, "Makes a replica take its master's place. No command fails.")
                .syntax("[options<FORCE|TAKEOVER>]"),
            change("FLUSHSLOTS", 2, "3.0.0", change::flush_slots, "Takes all slots from a master without keys."),
            change("FORGET", 3, "3.0.0", change::forget, "Removes a node.")
                .syntax("node-id"),
            of("GETKEYSINSLOT", 4, "3.0.0", slots::keys, "Returns some keys of a slot.")
                .syntax("slot:integer count:integer")
                .flags(Flags::STALE),
            of("HELP", 2, "5.0.0", show::help, "Lists the subcommands.").flags(Flags::LOADING.union(Flags::STALE)),
            of("INFO", 2, "3.0.0", show::info, "Returns the state of the cluster."),
            of("KEYSLOT", 3, "3.0.0", show::key_slot, "Returns the slot of a key.").syntax("key"),
            of("LEASE", -4, "7.0.0", steer::lease, "Lets the node serve for a number of milliseconds more.")
                .syntax("epoch:integer milliseconds:integer [SINCE/since{microseconds:integer [VOTER/voter{name RUN/run-id}]}]")
                .flags(STEERS),
            of("LINKS", 2, "7.0.0", show::links, "Lists the connections between nodes: none."),
            change("MEET", -4, "3.0.0", change::meet, "Makes an empty node join, as a master without slots.")
                .syntax("ip port:integer [cluster-bus-port:integer]"),
            of("MYID", 2, "3.0.0", show::my_id, "Returns the node's name."),
            of("MYSHARDID", 2, "7.2.0", show::my_shard_id, "Returns the name of the node's shard: its group."),
            of("NODES", 2, "3.0.0", show::nodes, "Lists the nodes."),
            of(
                "PAUSE",
                -3,
                "7.0.0",
                steer::pause,
                "Makes commands on some slots wait, for a time, or until the slots belong to another node.",
            )
            .syntax("slots<range{first-slot:integer last-slot:integer milliseconds:integer}|END> [NUMBER/number:integer]")
            .flags(STEERS),
            of("REPLICAS", 3, "5.0.0", show::replicas, "Lists the replicas of a master.").syntax("node-id").flags(SHOWS),
            change("REPLICATE", 3, "3.0.0", change::replicate, "Makes a node without slots the replica of a master.")
                .syntax("node-id"),
            change("RESET", -2, "3.0.0", change::reset, "Makes a removed node forget its cluster.")
                .syntax("[reset-type<HARD|SOFT>]")
                .flags(Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::STALE)),
            change("SAVECONFIG", 2, "3.0.0", change::save_config, "Does nothing: the coordinator has the state of the cluster."),
            change("SET-CONFIG-EPOCH", 3, "3.0.0", change::set_config_epoch, "Refused: the coordinator gives epochs.")
                .syntax("config-epoch:integer"),
            change("SETSLOT", -4, "3.0.0", change::set_slot, "Moves a slot with its keys.")
                .syntax("slot:integer subcommand<IMPORTING/importing|MIGRATING/migrating|NODE/node|STABLE>"),
            of("SHARDS", 2, "7.0.0", show::shards, "Lists the shards with their slots and nodes."),
            of("SLAVES", 3, "3.0.0", show::replicas, "The old name of REPLICAS.").syntax("node-id").flags(SHOWS),
            of("SLOT-STATS", -5, "8.0.0", slots::statistics, "Shows the keys and the usage of this node's slots.")
                .syntax("range<SLOTSRANGE/range{first-slot:integer last-slot:integer}> [METRIC/metric<cpu-usec>]"),
            of("SLOTS", 2, "3.0.0", show::slots, "Lists which node has which slots."),
            of("TOPOLOGY", -4, "7.0.0", steer::topology, "Tells the node the state of the cluster.")
                .syntax("epoch:integer nodes [LEASE/lease{milliseconds:integer [VOTERS/names]}] [AGENT/path]")
                .flags(STEERS),
        ]),
];

const DISABLED: Failure = Failure::text("ERR This instance has cluster support disabled");

fn no_cluster(_: &mut Context<'_>) -> Result<(), Failure> {
    Err(DISABLED)
}

/// The cluster; a node that belongs to none is one by itself. An error where the store stands alone.
fn known<'a>(context: &'a Context<'_>) -> Result<Cow<'a, Topology>, Failure> {
    let membership = context.shared.cluster.as_ref().ok_or(DISABLED)?;
    Ok(membership.topology.as_ref().map_or_else(
        || {
            let shared = &context.shared;
            let port = u16::try_from(shared.settings.port.0).unwrap_or(0);
            Cow::Owned(Topology::of_one(&shared.host.process().run_id, port))
        },
        Cow::Borrowed,
    ))
}

/// The node's name.
fn own_id(context: &Context<'_>) -> String {
    let id = known(context).ok().and_then(|known| Some(known.nodes.get(known.myself?)?.id.clone()));
    id.unwrap_or_default()
}

fn asking(context: &mut Context<'_>) -> Result<(), Failure> {
    context.shared.cluster.as_ref().ok_or(DISABLED)?;
    context.reply.ok();
    Ok(())
}

fn reads_replica(context: &mut Context<'_>, reads: bool) -> Result<(), Failure> {
    context.shared.cluster.as_ref().ok_or(DISABLED)?;
    context.session.standing.reads_replica = reads;
    context.reply.ok();
    Ok(())
}
