//! CLUSTER: its subcommands are known, and refused as Redis refuses all of them, HELP too, where it stands alone.

use keyspace::Failure;

use crate::{
    Context,
    server::Command,
    table::{Categories, Flags},
};

pub(super) const NO_CLUSTER: &str = "the cluster is not there yet";

/// Of subcommands that change the cluster.
const CHANGES: Flags = Flags::ADMIN.union(Flags::STALE).union(Flags::NO_ASYNC_LOADING);
/// Of those that show it to administrators.
const SHOWS: Flags = Flags::ADMIN.union(Flags::STALE);

const fn absent(name: &'static str, arity: i32, since: &'static str, summary: &'static str) -> Command {
    Command::new(name, arity, no_cluster)
        .flags(Flags::STALE)
        .group("cluster", Categories::empty())
        .missing(NO_CLUSTER)
        .docs(since, "", summary)
}

/// The group's commands.
pub const COMMANDS: &[Command] = &[Command::new("CLUSTER", -2, no_cluster)
    .group("cluster", Categories::empty())
    .missing(NO_CLUSTER)
    .docs("3.0.0", "depends on the subcommand", "The cluster and its slots.")
    .subcommands(&[
        absent("ADDSLOTS", -3, "3.0.0", "Gives a node slots.").flags(CHANGES),
        absent("ADDSLOTSRANGE", -4, "7.0.0", "Gives a node ranges of slots.").flags(CHANGES),
        absent("BUMPEPOCH", 2, "3.0.0", "Begins a new epoch of the configuration.").flags(CHANGES),
        absent("COUNT-FAILURE-REPORTS", 3, "3.0.0", "How many nodes report a node as failed.").flags(SHOWS),
        absent("COUNTKEYSINSLOT", 3, "3.0.0", "How many keys a slot has."),
        absent("DELSLOTS", -3, "3.0.0", "Takes slots from a node.").flags(CHANGES),
        absent("DELSLOTSRANGE", -4, "7.0.0", "Takes ranges of slots from a node.").flags(CHANGES),
        absent("FAILOVER", -2, "3.0.0", "Has a replica take its master's place.").flags(CHANGES),
        absent("FLUSHSLOTS", 2, "3.0.0", "Takes all slots from a node.").flags(CHANGES),
        absent("FORGET", 3, "3.0.0", "Removes a node.").flags(CHANGES),
        absent("GETKEYSINSLOT", 4, "3.0.0", "Some keys of a slot."),
        absent("HELP", 2, "5.0.0", "The subcommands.").flags(Flags::LOADING.union(Flags::STALE)),
        absent("INFO", 2, "3.0.0", "The state of the cluster."),
        absent("KEYSLOT", 3, "3.0.0", "The slot of a key."),
        absent("LINKS", 2, "7.0.0", "The connections between nodes."),
        absent("MEET", -4, "3.0.0", "Has nodes join.").flags(CHANGES),
        absent("MYID", 2, "3.0.0", "The node's name."),
        absent("NODES", 2, "3.0.0", "The nodes."),
        absent("REPLICAS", 3, "5.0.0", "The replicas of a master.").flags(SHOWS),
        absent("REPLICATE", 3, "3.0.0", "Makes a node the replica of a master.").flags(CHANGES),
        absent("RESET", -2, "3.0.0", "Has a node forget its cluster.")
            .flags(Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::STALE)),
        absent("SAVECONFIG", 2, "3.0.0", "Writes the state of the cluster into its file.").flags(CHANGES),
        absent("SET-CONFIG-EPOCH", 3, "3.0.0", "Sets the epoch of a new node.").flags(CHANGES),
        absent("SETSLOT", -4, "3.0.0", "Moves a slot.").flags(CHANGES),
        absent("SHARDS", 2, "7.0.0", "The shards with their slots and nodes."),
        absent("SLAVES", 3, "3.0.0", "The former name of REPLICAS.").flags(SHOWS),
        absent("SLOTS", 2, "3.0.0", "Which node has which slots."),
    ])];

pub(super) fn no_cluster(_: &mut Context<'_>) -> Result<(), Failure> {
    Err(Failure::text("ERR This instance has cluster support disabled"))
}
