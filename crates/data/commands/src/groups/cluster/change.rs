//! Commands that change the cluster. What can be seen to be wrong here is refused here; the rest is for the agent, which knows the
//! cluster as it is to be.

use keyspace::Failure;

use crate::{
    Context,
    cluster::{SLOTS, SlotRange},
    config,
    server::AgentRequest,
};

use super::{DISABLED, own_id, slots};

/// What to do where nobody looks after a node.
const NO_AGENT: Failure = Failure::text(
    "ERR no agent looks after this node: `tidegate cluster up` runs a cluster with one, and `cluster-agent-socket` names the socket of \
     one that runs",
);
const IN_TRANSACTION: Failure = Failure::text(
    "ERR what changes the cluster is no part of a transaction or a script, as all clients of this node would wait for it: send it by itself; \
     `tidegate cluster slot init` gives out slots that nobody has",
);

/// Has the agent do a command: the reply comes later.
fn pass_on(context: &mut Context<'_>, command: String, other: Option<(String, u16)>) -> Result<(), Failure> {
    let told = context.shared.cluster.as_ref().ok_or(DISABLED)?.agent.clone();
    if context.session.deny_blocking {
        return Err(IN_TRANSACTION);
    }
    // A node that nobody looks after is led to those whom it meets.
    let own = &context.shared.settings.cluster_agent_socket.0;
    let socket = if own.is_empty() { told.unwrap_or_default() } else { own.clone() };
    if socket.is_empty() && other.is_none() {
        return Err(NO_AGENT);
    }
    let request = AgentRequest { number: 0, node: own_id(context), command, socket, other, settings: None };
    context.shared.ask_agent(context.session, request);
    Ok(())
}

/// `CONFIG REWRITE`: the cluster keeps what is set on this node alone.
pub(in crate::groups) fn keep_settings(context: &mut Context<'_>) -> Result<(), Failure> {
    if context.session.deny_blocking {
        return Err(Failure::text(
            "ERR in a cluster CONFIG REWRITE is no part of a transaction or a script, as all clients of this node would wait for it: send it \
             by itself, or use `tidegate cluster config set NAME VALUE --server ADDRESS`",
        ));
    }
    let settings = Some(config::kept::set_here(&context.shared.settings));
    let socket = context.shared.settings.cluster_agent_socket.0.clone();
    let (node, command) = (own_id(context), "REWRITE".to_owned());
    context.shared.ask_agent(context.session, AgentRequest { number: 0, node, command, socket, other: None, settings });
    Ok(())
}

fn text(context: &Context<'_>, place: usize) -> Result<String, Failure> {
    let word = context.words.at(place);
    let is_plain = !word.is_empty() && word.iter().all(u8::is_ascii_graphic);
    is_plain.then(|| String::from_utf8_lossy(word).into_owned()).ok_or(Failure::Syntax)
}

/// Slots as ranges, with spaces between them: `0-5460 7000`.
fn ranges(mut slots: Vec<SlotRange>) -> Result<String, Failure> {
    slots.sort_unstable();
    let mut joined: Vec<SlotRange> = Vec::new();
    for (first, last) in slots {
        match joined.last_mut() {
            Some(before) if before.1 >= first => {
                return Err(Failure::owned(format!("ERR Slot {first} specified multiple times")));
            }
            Some(before) if before.1 + 1 == first => before.1 = last,
            _ => joined.push((first, last)),
        }
    }
    let shown =
        joined.iter().map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") });
    Ok(shown.collect::<Vec<_>>().join(" "))
}

/// A slot, as commands name it that change who has slots: what is no number is no slot either.
fn slot(context: &Context<'_>, place: usize) -> Result<u16, Failure> {
    slots::slot(context, place).map_err(|_| slots::NO_SLOT)
}

fn single(context: &Context<'_>) -> Result<String, Failure> {
    let one = |place| slot(context, place).map(|slot| (slot, slot));
    ranges((2..context.words.len()).map(one).collect::<Result<_, _>>()?)
}

fn pairs(context: &Context<'_>) -> Result<String, Failure> {
    if context.words.len() % 2 == 1 {
        let name = String::from_utf8_lossy(context.words.at(1)).to_ascii_lowercase();
        return Err(Failure::owned(format!("ERR wrong number of arguments for 'cluster|{name}' command")));
    }
    let pair = |place| {
        let (first, last) = (slot(context, place)?, slot(context, place + 1)?);
        if first > last {
            let text = format!("ERR start slot number {first} is greater than end slot number {last}");
            return Err(Failure::owned(text));
        }
        Ok((first, last))
    };
    ranges((2..context.words.len()).step_by(2).map(pair).collect::<Result<_, _>>()?)
}

pub(super) fn add_slots(context: &mut Context<'_>) -> Result<(), Failure> {
    let slots = single(context)?;
    pass_on(context, format!("ADDSLOTS {slots}"), None)
}

pub(super) fn add_slots_range(context: &mut Context<'_>) -> Result<(), Failure> {
    let slots = pairs(context)?;
    pass_on(context, format!("ADDSLOTS {slots}"), None)
}

pub(super) fn del_slots(context: &mut Context<'_>) -> Result<(), Failure> {
    let slots = single(context)?;
    pass_on(context, format!("DELSLOTS {slots}"), None)
}

pub(super) fn del_slots_range(context: &mut Context<'_>) -> Result<(), Failure> {
    let slots = pairs(context)?;
    pass_on(context, format!("DELSLOTS {slots}"), None)
}

fn has_keys(context: &mut Context<'_>) -> bool {
    let space = context.keys.space();
    (0..space.len()).any(|db| space.database(db).is_some_and(|keys| !keys.is_empty()))
}

pub(super) fn flush_slots(context: &mut Context<'_>) -> Result<(), Failure> {
    if has_keys(context) {
        return Err(Failure::text("ERR DB must be empty to perform CLUSTER FLUSHSLOTS."));
    }
    pass_on(context, "FLUSHSLOTS".into(), None)
}

pub(super) fn failover(context: &mut Context<'_>) -> Result<(), Failure> {
    let how = match context.words.len() {
        2 => "",
        3 if context.words.is(2, "FORCE") => " FORCE",
        3 if context.words.is(2, "TAKEOVER") => {
            return Err(Failure::text(
                "ERR TAKEOVER would make a master without asking who has what was acknowledged: CLUSTER FAILOVER hands over, and when a \
                 master is dead its agent has a replica take its place by itself",
            ));
        }
        _ => return Err(Failure::Syntax),
    };
    pass_on(context, format!("FAILOVER{how}"), None)
}

pub(super) fn forget(context: &mut Context<'_>) -> Result<(), Failure> {
    let id = text(context, 2)?;
    if id == own_id(context) {
        return Err(Failure::text("ERR I tried hard but I can't forget myself..."));
    }
    pass_on(context, format!("FORGET {id}"), None)
}

pub(super) fn meet(context: &mut Context<'_>) -> Result<(), Failure> {
    let host = text(context, 2)?;
    let port = |place: usize, what: &str| {
        let number = context.words.integer(place).ok().and_then(|port| u16::try_from(port).ok());
        let word = String::from_utf8_lossy(context.words.at(place)).into_owned();
        number
            .filter(|port| *port > 0)
            .ok_or_else(|| Failure::owned(format!("ERR Invalid {what} port specified: {word}")))
    };
    if context.words.len() > 5 {
        return Err(Failure::Syntax);
    }
    let base = port(3, "base")?;
    if context.words.len() == 5 {
        // There is no bus; a port of it that makes no sense is told all the same.
        port(4, "bus")?;
    }
    if host.parse::<std::net::IpAddr>().is_err() {
        return Err(Failure::owned(format!("ERR Invalid node address specified: {host}:{base}")));
    }
    pass_on(context, format!("MEET {host}:{base}"), Some((host, base)))
}

pub(super) fn replicate(context: &mut Context<'_>) -> Result<(), Failure> {
    let id = text(context, 2)?;
    if id == own_id(context) {
        return Err(Failure::text("ERR Can't replicate myself"));
    }
    pass_on(context, format!("REPLICATE {id}"), None)
}

pub(super) fn reset(context: &mut Context<'_>) -> Result<(), Failure> {
    let is_known = context.words.len() == 2
        || context.words.len() == 3 && (context.words.is(2, "HARD") || context.words.is(2, "SOFT"));
    if !is_known {
        return Err(Failure::Syntax);
    }
    let membership = context.shared.cluster.as_ref().ok_or(DISABLED)?;
    let is_member = membership.topology.is_some();
    if context.shared.replication.master().is_none() && has_keys(context) {
        return Err(Failure::text("ERR CLUSTER RESET can't be called with master nodes containing keys"));
    }
    if !is_member {
        context.shared.leave_cluster();
        context.reply.ok();
        return Ok(());
    }
    pass_on(context, "RESET".into(), None)
}

pub(super) fn save_config(context: &mut Context<'_>) -> Result<(), Failure> {
    // The coordinator has it, durably, before anybody is told of it.
    context.shared.cluster.as_ref().ok_or(DISABLED)?;
    context.reply.ok();
    Ok(())
}

pub(super) fn bump_epoch(context: &mut Context<'_>) -> Result<(), Failure> {
    let epoch = context.shared.cluster.as_ref().ok_or(DISABLED)?.epoch;
    // The coordinator gives each change its own: no two nodes have the same to fight about.
    context.reply.simple(format!("STILL {epoch}"));
    Ok(())
}

pub(super) fn set_config_epoch(context: &mut Context<'_>) -> Result<(), Failure> {
    context.shared.cluster.as_ref().ok_or(DISABLED)?;
    Err(Failure::text(
        "ERR epochs are the coordinator's, which gives each change of the cluster the next one: there is nothing to set",
    ))
}

pub(super) fn set_slot(context: &mut Context<'_>) -> Result<(), Failure> {
    let slot = slot(context, 2)?;
    debug_assert!(usize::from(slot) < SLOTS);
    let (name, takes_node) = match context.words.at(3).to_ascii_uppercase().as_slice() {
        b"MIGRATING" => ("MIGRATING", true),
        b"IMPORTING" => ("IMPORTING", true),
        b"NODE" => ("NODE", true),
        b"STABLE" => ("STABLE", false),
        _ => return Err(Failure::text("ERR Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP")),
    };
    if context.words.len() != 4 + usize::from(takes_node) {
        return Err(Failure::text("ERR Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP"));
    }
    let node = if takes_node { format!(" {}", text(context, 4)?) } else { String::new() };
    pass_on(context, format!("SETSLOT {slot} {name}{node}"), None)
}
