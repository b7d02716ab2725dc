//! CLUSTER: what a node tells of the cluster, what whoever looks after the cluster tells the node, and what the node passes on to him.
//!
//! Where the store stands alone all of it is refused as Redis refuses it, HELP too. Nodes do not talk to each other: what Redis'
//! nodes decide among themselves is decided by the cluster's agent, so commands that change a cluster are passed on to it (`change`).

mod change;
mod show;
mod slots;
mod steer;

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
        "Lets the next command reach a slot that is being moved: here it is where it was until it has moved.",
    ),
    Command::new("READONLY", 1, |context| reads_replica(context, true))
        .flags(Flags::FAST.union(Flags::LOADING).union(Flags::STALE))
        .group("cluster", Categories::CONNECTION)
        .docs("3.0.0", "O(1)", "Lets the connection read from a replica."),
    Command::new("READWRITE", 1, |context| reads_replica(context, false))
        .flags(Flags::FAST.union(Flags::LOADING).union(Flags::STALE))
        .group("cluster", Categories::CONNECTION)
        .docs("3.0.0", "O(1)", "Ends that."),
    Command::new("CLUSTER", -2, no_cluster)
        .group("cluster", Categories::empty())
        .docs("3.0.0", "depends on the subcommand", "The cluster and its slots.")
        .subcommands(&[
            of(
                "ACK",
                -5,
                "7.0.0",
                steer::ack,
                "Has a master acknowledge what so many of these replicas have; an order older than the last is refused.",
            )
            .syntax("term:integer serial:integer replicas:integer [host-port...]")
            .flags(STEERS),
            change("ADDSLOTS", -3, "3.0.0", change::add_slots, "Gives slots that nobody has to a master.")
                .syntax("slot:integer..."),
            change("ADDSLOTSRANGE", -4, "7.0.0", change::add_slots_range, "Gives ranges of slots that nobody has to a master.")
                .syntax("range{start-slot:integer end-slot:integer}..."),
            change("BUMPEPOCH", 2, "3.0.0", change::bump_epoch, "The epoch stays: the coordinator gives each change its own."),
            of(
                "CONNECTION",
                -3,
                "7.0.0",
                steer::connection,
                "Says what the connection is: a client, a proxy, what moves slots, or the agent that leads since a term.",
            )
            .syntax("peer<CLIENT|PROXY|MOVER/fill{first-slot:integer last-slot:integer epoch:integer}|AGENT/term:integer>")
            .flags(STEERS),
            of("COUNT-FAILURE-REPORTS", 3, "3.0.0", show::failure_reports, "How many nodes report a node as failed.")
                .syntax("node-id")
                .flags(SHOWS),
            of("COUNTKEYSINSLOT", 3, "3.0.0", slots::count, "How many keys a slot has.")
                .syntax("slot:integer")
                .flags(Flags::STALE),
            of("DELKEYSINSLOT", 5, "7.0.0", slots::delete, "Removes some keys of slots that are another node's.")
                .syntax("first-slot:integer last-slot:integer count:integer")
                .flags(Flags::ADMIN.union(Flags::WRITE)),
            change("DELSLOTS", -3, "3.0.0", change::del_slots, "Takes slots from whoever has them: nobody serves them any more.")
                .syntax("slot:integer..."),
            change("DELSLOTSRANGE", -4, "7.0.0", change::del_slots_range, "Takes ranges of slots from whoever has them.")
                .syntax("range{start-slot:integer end-slot:integer}..."),
            change("FAILOVER", -2, "3.0.0", change::failover, "Has a replica take its master's place without a failed command.")
                .syntax("[options<FORCE|TAKEOVER>]"),
            change("FLUSHSLOTS", 2, "3.0.0", change::flush_slots, "Takes all slots from a master without keys."),
            change("FORGET", 3, "3.0.0", change::forget, "Removes a node.")
                .syntax("node-id"),
            of("GETKEYSINSLOT", 4, "3.0.0", slots::keys, "Some keys of a slot.")
                .syntax("slot:integer count:integer")
                .flags(Flags::STALE),
            of("HELP", 2, "5.0.0", show::help, "The subcommands.").flags(Flags::LOADING.union(Flags::STALE)),
            of("INFO", 2, "3.0.0", show::info, "The state of the cluster."),
            of("KEYSLOT", 3, "3.0.0", show::key_slot, "The slot of a key.").syntax("key"),
            of("LEASE", -4, "7.0.0", steer::lease, "Lets the node serve for so many milliseconds more.")
                .syntax("epoch:integer milliseconds:integer [SINCE/since{microseconds:integer [VOTER/voter{name RUN/run-id}]}]")
                .flags(STEERS),
            of("LINKS", 2, "7.0.0", show::links, "The connections between nodes: there are none."),
            change("MEET", -4, "3.0.0", change::meet, "Has an empty node join: a master without slots.")
                .syntax("ip port:integer [cluster-bus-port:integer]"),
            of("MYID", 2, "3.0.0", show::my_id, "The node's name."),
            of("MYSHARDID", 2, "7.2.0", show::my_shard_id, "The name of the node's shard: its group."),
            of("NODES", 2, "3.0.0", show::nodes, "The nodes."),
            of(
                "PAUSE",
                -3,
                "7.0.0",
                steer::pause,
                "Has commands on some slots wait, for a time, or until the slots are another node's.",
            )
            .syntax("slots<range{first-slot:integer last-slot:integer milliseconds:integer}|END> [NUMBER/number:integer]")
            .flags(STEERS),
            of("REPLICAS", 3, "5.0.0", show::replicas, "The replicas of a master.").syntax("node-id").flags(SHOWS),
            change("REPLICATE", 3, "3.0.0", change::replicate, "Makes a node without slots the replica of a master.")
                .syntax("node-id"),
            change("RESET", -2, "3.0.0", change::reset, "Has a node that was removed forget its cluster.")
                .syntax("[reset-type<HARD|SOFT>]")
                .flags(Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::STALE)),
            change("SAVECONFIG", 2, "3.0.0", change::save_config, "Does nothing: the coordinator has the state of the cluster."),
            change("SET-CONFIG-EPOCH", 3, "3.0.0", change::set_config_epoch, "Is refused: epochs are the coordinator's.")
                .syntax("config-epoch:integer"),
            change("SETSLOT", -4, "3.0.0", change::set_slot, "Moves a slot with its keys.")
                .syntax("slot:integer subcommand<IMPORTING/importing|MIGRATING/migrating|NODE/node|STABLE>"),
            of("SHARDS", 2, "7.0.0", show::shards, "The shards with their slots and nodes."),
            of("SLAVES", 3, "3.0.0", show::replicas, "The former name of REPLICAS.").syntax("node-id").flags(SHOWS),
            of("SLOT-STATS", -5, "8.0.0", slots::statistics, "What slots of this node have and take.")
                .syntax("range<SLOTSRANGE/range{first-slot:integer last-slot:integer}> [METRIC/metric<cpu-usec>]"),
            of("SLOTS", 2, "3.0.0", show::slots, "Which node has which slots."),
            of("TOPOLOGY", -4, "7.0.0", steer::topology, "Tells the node how the cluster is.")
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
