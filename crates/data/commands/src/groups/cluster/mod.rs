//! CLUSTER: what a node tells of the cluster, and what whoever looks after the cluster tells the node.
//!
//! Where the store stands alone all of it is refused as Redis refuses it, HELP too. Nodes do not talk to each other: what Redis'
//! nodes decide among themselves is decided by `tidegate cluster`, so the commands that change a cluster point there.

mod show;
mod slots;
mod steer;

use keyspace::Failure;

use crate::{
    Context,
    cluster::Topology,
    server::Command,
    table::{Categories, Flags},
};

/// Why commands that change the cluster are refused.
pub(super) const DECIDED_ELSEWHERE: &str = "`tidegate cluster` decides that for all nodes";

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

const fn refused(name: &'static str, arity: i32, since: &'static str, summary: &'static str) -> Command {
    of(name, arity, since, decided_elsewhere, summary).flags(CHANGES).missing(DECIDED_ELSEWHERE)
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
            refused("ADDSLOTS", -3, "3.0.0", "Gives a node slots."),
            refused("ADDSLOTSRANGE", -4, "7.0.0", "Gives a node ranges of slots."),
            refused("BUMPEPOCH", 2, "3.0.0", "Begins a new epoch of the configuration."),
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
            refused("DELSLOTS", -3, "3.0.0", "Takes slots from a node."),
            refused("DELSLOTSRANGE", -4, "7.0.0", "Takes ranges of slots from a node."),
            refused("FAILOVER", -2, "3.0.0", "Has a replica take its master's place."),
            refused("FLUSHSLOTS", 2, "3.0.0", "Takes all slots from a node."),
            refused("FORGET", 3, "3.0.0", "Removes a node."),
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
            refused("MEET", -4, "3.0.0", "Has nodes join."),
            of("MYID", 2, "3.0.0", show::my_id, "The node's name."),
            of("NODES", 2, "3.0.0", show::nodes, "The nodes."),
            of(
                "PAUSE",
                -3,
                "7.0.0",
                steer::pause,
                "Has commands on some slots wait, until the next change of the cluster.",
            )
            .syntax("slots<range{first-slot:integer last-slot:integer milliseconds:integer}|END>")
            .flags(STEERS),
            of("REPLICAS", 3, "5.0.0", show::replicas, "The replicas of a master.").syntax("node-id").flags(SHOWS),
            refused("REPLICATE", 3, "3.0.0", "Makes a node the replica of a master."),
            refused("RESET", -2, "3.0.0", "Has a node forget its cluster.")
                .flags(Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::STALE)),
            refused("SAVECONFIG", 2, "3.0.0", "Writes the state of the cluster into its file."),
            refused("SET-CONFIG-EPOCH", 3, "3.0.0", "Sets the epoch of a new node."),
            refused("SETSLOT", -4, "3.0.0", "Moves a slot."),
            of("SHARDS", 2, "7.0.0", show::shards, "The shards with their slots and nodes."),
            of("SLAVES", 3, "3.0.0", show::replicas, "The former name of REPLICAS.").syntax("node-id").flags(SHOWS),
            of("SLOT-STATS", -5, "8.0.0", slots::statistics, "What slots of this node have and take.")
                .syntax("range<SLOTSRANGE/range{first-slot:integer last-slot:integer}> [METRIC/metric<cpu-usec>]"),
            of("SLOTS", 2, "3.0.0", show::slots, "Which node has which slots."),
            of("TOPOLOGY", -4, "7.0.0", steer::topology, "Tells the node how the cluster is.")
                .syntax("epoch:integer nodes [LEASE/lease{milliseconds:integer [VOTERS/names]}]")
                .flags(STEERS),
        ]),
];

const DISABLED: Failure = Failure::text("ERR This instance has cluster support disabled");

fn no_cluster(_: &mut Context<'_>) -> Result<(), Failure> {
    Err(DISABLED)
}

fn decided_elsewhere(context: &mut Context<'_>) -> Result<(), Failure> {
    known(context)?;
    Err(Failure::owned(format!("ERR {DECIDED_ELSEWHERE}: see `tidegate cluster --help`")))
}

/// The cluster; an error where the store stands alone or knows nothing of it yet.
fn known<'a>(context: &'a Context<'_>) -> Result<&'a Topology, Failure> {
    let membership = context.shared.cluster.as_ref().ok_or(DISABLED)?;
    membership.topology.as_ref().ok_or(Failure::text("CLUSTERDOWN this node has not been told of its cluster yet"))
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
