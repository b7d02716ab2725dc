//! What a node tells of its cluster.

use keyspace::Failure;
use resp::Reply;

use crate::{
    Context,
    cluster::{Node, Topology},
    groups::help,
};

use super::{DISABLED, known, own_id};

pub(super) fn help(context: &mut Context<'_>) -> Result<(), Failure> {
    context.shared.cluster.as_ref().ok_or(DISABLED)?;
    let lines = [
        (
            "ADDSLOTS <slot> [<slot> ...], ADDSLOTSRANGE <first> <last> [...]",
            "Gives slots that no node has to this master.",
        ),
        ("BUMPEPOCH, SAVECONFIG", "Do nothing: the coordinator has epochs and state."),
        ("COUNT-FAILURE-REPORTS <node-id>", "Counts who reports a node as failed: the agent, or nobody."),
        ("COUNTKEYSINSLOT <slot>", "Counts the keys of a slot."),
        ("DELSLOTS <slot> [<slot> ...], DELSLOTSRANGE <first> <last> [...]", "Takes slots away from their nodes."),
        ("FAILOVER [FORCE]", "Makes this replica take its master's place."),
        ("FLUSHSLOTS", "Takes all slots from this node, which has no keys."),
        ("FORGET <node-id>", "Removes a node from the cluster."),
        ("GETKEYSINSLOT <slot> <count>", "Returns some keys of a slot."),
        ("INFO", "Returns the state of the cluster."),
        ("KEYSLOT <key>", "Returns the slot of a key."),
        ("LINKS", "Lists the connections between nodes: none."),
        ("MEET <ip> <port> [<bus-port>]", "Makes that empty node join; or this one join that node's cluster."),
        ("MYID", "Returns the node's name."),
        ("MYSHARDID", "Returns the name of the node's shard."),
        ("NODES", "Lists the nodes, one per line."),
        ("REPLICAS <node-id>", "Lists the replicas of a master."),
        ("REPLICATE <node-id>", "Makes this node, which has no slots, the replica of a master."),
        ("RESET [HARD|SOFT]", "Makes this removed node forget its cluster."),
        (
            "SETSLOT <slot> (IMPORTING|MIGRATING|STABLE|NODE) [<node-id>]",
            "Moves a slot: MIGRATING does it, with its keys, and waits.",
        ),
        ("SHARDS", "Lists the shards with their slots and nodes."),
        ("SLOTS", "Lists which node has which slots."),
        (
            "TOPOLOGY <epoch> <nodes> [LEASE <milliseconds> [VOTERS <names>]] [AGENT <path>]",
            "Tells the node the state of the cluster.",
        ),
        (
            "LEASE <epoch> <milliseconds> [SINCE <microseconds> [VOTER <name> RUN <run-id>]]",
            "Lets the node serve for this time; returns its clock.",
        ),
        ("ACK <term> <serial> <replicas> [<host:port> ...]", "Sets how many of these replicas must have a write."),
        (
            "PAUSE <first> <last> <milliseconds> [NUMBER <n>] | PAUSE END [NUMBER <n>]",
            "Makes commands on some slots wait.",
        ),
        (
            "SLOT-STATS SLOTSRANGE <first> <last> [METRIC cpu-usec]",
            "Shows the keys and the usage of this node's slots.",
        ),
        ("DELKEYSINSLOT <first> <last> <count>", "Removes some keys of slots that belong to another node."),
        ("CONNECTION CLIENT|PROXY|MOVER <first> <last> <epoch>|AGENT <term>", "Says who uses the connection."),
    ];
    help::reply(context, "CLUSTER", &lines);
    Ok(())
}

pub(super) fn info(context: &mut Context<'_>) -> Result<(), Failure> {
    let membership = context.shared.cluster.as_ref().ok_or(DISABLED)?;
    let (assigned, lost, nodes, size, my_epoch) = membership.topology.as_ref().map_or((0, 0, 1, 0, 0), |topology| {
        let masters = topology.nodes.iter().filter(|node| !node.slots.is_empty());
        let lost = masters.clone().filter(|node| node.has_failed).flat_map(|node| &node.slots);
        let lost: usize = lost.map(|(first, last)| usize::from(last - first) + 1).sum();
        let mine = topology.myself.map(|place| topology.master_of(place)).and_then(|place| topology.nodes.get(place));
        let my_epoch = mine.map_or(0, |node| node.config_epoch);
        (topology.assigned(), lost, topology.nodes.len(), masters.count(), my_epoch)
    });
    let state = if membership.is_in_order(context.shared.stopwatch()) { "ok" } else { "fail" };
    let (epoch, served) = (membership.epoch, assigned.saturating_sub(lost));
    let ack = context.shared.settings.replica_ack.0;
    let counted = membership.counted.as_ref().map(|counted| {
        let members: String = counted.members.iter().map(|(host, port)| format!(" {host}:{port}")).collect();
        format!("cluster_ack:{} {} {ack}{members}\r\n", counted.term, counted.serial)
    });
    let counted = counted.unwrap_or_default();
    let told = &context.shared.settings.cluster_settings_told.0;
    let told = if told.is_empty() { String::new() } else { format!("cluster_settings_told:{told}\r\n") };
    let settled = membership.pauses.iter().filter(|pause| pause.is_settled);
    let pauses: String = settled.map(|pause| format!(" {}", pause.number)).collect();
    let pauses = if pauses.is_empty() { pauses } else { format!("cluster_pauses:{}\r\n", pauses.trim_start()) };
    let text = format!(
        "cluster_state:{state}\r\ncluster_slots_assigned:{assigned}\r\ncluster_slots_ok:{served}\r\ncluster_slots_pfail:0\r\n\
         cluster_slots_fail:{lost}\r\ncluster_known_nodes:{nodes}\r\ncluster_size:{size}\r\ncluster_current_epoch:{epoch}\r\n\
         cluster_my_epoch:{my_epoch}\r\ncluster_stats_messages_sent:0\r\ncluster_stats_messages_received:0\r\n\
         total_cluster_links_buffer_limit_exceeded:0\r\n{counted}{pauses}{told}"
    );
    context.reply.verbatim(*b"txt", text.as_bytes());
    Ok(())
}

pub(super) fn my_id(context: &mut Context<'_>) -> Result<(), Failure> {
    known(context)?;
    let id = own_id(context);
    context.reply.bulk(id.as_bytes());
    Ok(())
}

pub(super) fn my_shard_id(context: &mut Context<'_>) -> Result<(), Failure> {
    let shard = {
        let topology = known(context)?;
        topology.myself.map(|place| topology.shard_of(place)).unwrap_or_default()
    };
    context.reply.bulk(shard.as_bytes());
    Ok(())
}

pub(super) fn nodes(context: &mut Context<'_>) -> Result<(), Failure> {
    let text = known(context)?.text();
    context.reply.verbatim(*b"txt", text.as_bytes());
    Ok(())
}

pub(super) fn links(context: &mut Context<'_>) -> Result<(), Failure> {
    known(context)?;
    context.reply.array(0);
    Ok(())
}

pub(super) fn failure_reports(context: &mut Context<'_>) -> Result<(), Failure> {
    let failed = {
        let topology = known(context)?;
        let place = find(&topology, context.words.at(2))?;
        topology.nodes.get(place).is_some_and(|node| node.has_failed)
    };
    context.reply.integer(i64::from(failed));
    Ok(())
}

pub(super) fn key_slot(context: &mut Context<'_>) -> Result<(), Failure> {
    context.shared.cluster.as_ref().ok_or(DISABLED)?;
    context.reply.integer(keyspace::slot::cluster_slot(context.words.at(2)).into());
    Ok(())
}

fn find(topology: &Topology, id: &[u8]) -> Result<usize, Failure> {
    topology.find(id).ok_or_else(|| Failure::quoting(&[b"ERR Unknown node ", id.get(..64).unwrap_or(id)]))
}

pub(super) fn replicas(context: &mut Context<'_>) -> Result<(), Failure> {
    let lines = {
        let topology = known(context)?;
        let place = find(&topology, context.words.at(2))?;
        if topology.nodes.get(place).is_some_and(|node| node.master.is_some()) {
            return Err(Failure::text("ERR The specified node is not a master"));
        }
        let line = |(place, _): (usize, &Node)| {
            let mut line = String::new();
            topology.write_line(place, &mut line);
            line
        };
        topology.replicas_of(place).map(line).collect::<Vec<_>>()
    };
    context.reply.array(lines.len());
    lines.iter().for_each(|line| context.reply.bulk(line.as_bytes()));
    Ok(())
}

fn node(reply: &mut Reply<'_>, node: &Node) {
    reply.array(4);
    reply.bulk(node.host.as_bytes());
    reply.integer(node.port.into());
    reply.bulk(node.id.as_bytes());
    reply.map(usize::from(node.host_name.is_some()));
    if let Some(name) = &node.host_name {
        reply.bulk(b"hostname");
        reply.bulk(name.as_bytes());
    }
}

pub(super) fn slots(context: &mut Context<'_>) -> Result<(), Failure> {
    let topology = known(context)?.into_owned();
    let mut ranges: Vec<(u16, u16, usize)> = Vec::new();
    for (place, node) in topology.nodes.iter().enumerate() {
        ranges.extend(node.slots.iter().map(|(first, last)| (*first, *last, place)));
    }
    ranges.sort_unstable();
    let reply = &mut context.reply;
    reply.array(ranges.len());
    for (first, last, place) in ranges {
        let replicas: Vec<&Node> =
            topology.replicas_of(place).map(|(_, node)| node).filter(|node| !node.has_failed).collect();
        reply.array(3 + replicas.len());
        reply.integer(first.into());
        reply.integer(last.into());
        topology.nodes.get(place).into_iter().chain(replicas).for_each(|one| node(reply, one));
    }
    Ok(())
}

pub(super) fn shards(context: &mut Context<'_>) -> Result<(), Failure> {
    let topology = known(context)?.into_owned();
    let offset = context.shared.persistence.log.1 as i64;
    let reply = &mut context.reply;
    let masters = || topology.nodes.iter().enumerate().filter(|(_, node)| node.master.is_none());
    reply.array(masters().count());
    for (place, master) in masters() {
        reply.map(2);
        reply.bulk(b"slots");
        reply.array(master.slots.len() * 2);
        for (first, last) in &master.slots {
            reply.integer((*first).into());
            reply.integer((*last).into());
        }
        reply.bulk(b"nodes");
        reply.array(1 + topology.replicas_of(place).count());
        for (_, one) in [(place, master)].into_iter().chain(topology.replicas_of(place)) {
            let role = if one.master.is_some() { "replica" } else { "master" };
            let health = if one.has_failed { "fail" } else { "online" };
            reply.map(7);
            for (name, value) in [("id", one.id.as_str()), ("ip", &one.host), ("endpoint", &one.host), ("role", role)] {
                reply.bulk(name.as_bytes());
                reply.bulk(value.as_bytes());
            }
            reply.bulk(b"port");
            reply.integer(one.port.into());
            reply.bulk(b"replication-offset");
            reply.integer(offset);
            reply.bulk(b"health");
            reply.bulk(health.as_bytes());
        }
    }
    Ok(())
}
