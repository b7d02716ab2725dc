//! What whoever looks after the cluster tells a node.

use std::cmp::Ordering;

use keyspace::Failure;

use crate::{
    Context,
    cluster::{Counted, MembershipError, Peer, SlotPause, Vote},
    groups::cluster::slots::range,
    replication::Bond,
};

use super::DISABLED;

/// The longest lease and the longest pause, in milliseconds.
const TIME_MAX: u64 = 24 * 60 * 60 * 1000;

/// The longest name of a node.
const NODE_MAX: usize = 64;

/// The most replicas that a write may wait for.
const REPLICAS_MAX: u64 = 1_024;

/// The most voters that a cluster has.
const VOTERS_MAX: usize = 1_024;

fn refused(error: &MembershipError) -> Failure {
    Failure::owned(error.to_string())
}

fn number(context: &Context<'_>, place: usize, most: u64) -> Result<u64, Failure> {
    let number = context.words.integer(place)?;
    u64::try_from(number).ok().filter(|number| *number <= most).ok_or(Failure::NotInteger)
}

/// In so many milliseconds, on the clock of leases.
fn after(context: &Context<'_>, place: usize) -> Result<u64, Failure> {
    Ok(context.shared.stopwatch() + number(context, place, TIME_MAX)? * 1000)
}

pub(super) fn topology(context: &mut Context<'_>) -> Result<(), Failure> {
    let epoch = number(context, 2, i64::MAX as u64)?;
    let text = std::str::from_utf8(context.words.at(3)).map_err(|_| Failure::text("ERR the topology is no text"))?;
    let (mut lease, mut voted, mut agent) = (None, None, None);
    for place in (4..context.words.len()).step_by(2) {
        if place + 1 == context.words.len() {
            return Err(Failure::Syntax);
        }
        match context.words.at(place).to_ascii_uppercase().as_slice() {
            b"LEASE" => lease = Some(after(context, place + 1)?),
            // They give leases: without one they would have nothing to say.
            b"VOTERS" if lease.is_some() => voted = Some(voters(context.words.at(place + 1))?),
            b"AGENT" => agent = Some(path(context.words.at(place + 1))?),
            _ => return Err(Failure::Syntax),
        }
    }
    let now = context.shared.stopwatch();
    let membership = context.shared.cluster.as_mut().ok_or(DISABLED)?;
    let (was_paused, before) = (!membership.pauses.is_empty(), membership.master_since());
    membership.learn(epoch, text, lease).map_err(|error| refused(&error))?;
    if let Some(voters) = voted {
        membership.set_voters(voters);
    }
    membership.agent = agent.or(membership.agent.take());
    membership.note_new_master(before, now);
    if was_paused {
        // Some of the slots may be another node's by now.
        context.shared.let_postponed_go();
    }
    context.shared.redirect_waiting();
    context.reply.ok();
    Ok(())
}

/// The longest path of a socket.
const PATH_MAX: usize = 107;

/// Where the agent's socket is.
fn path(text: &[u8]) -> Result<String, Failure> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.starts_with('/') && text.len() <= PATH_MAX);
    text.map(str::to_owned).ok_or(Failure::text("ERR AGENT is followed by the whole path of the agent's socket"))
}

/// Names of voters, separated by commas.
fn voters(text: &[u8]) -> Result<Vec<String>, Failure> {
    let text = std::str::from_utf8(text).map_err(|_| Failure::text("ERR the voters are no text"))?;
    let voters: Vec<String> = text.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    if voters.is_empty() || voters.len() > VOTERS_MAX {
        return Err(Failure::owned(format!("ERR a cluster has 1 to {VOTERS_MAX} voters")));
    }
    Ok(voters)
}

pub(super) fn lease(context: &mut Context<'_>) -> Result<(), Failure> {
    let epoch = number(context, 2, i64::MAX as u64)?;
    match context.words.len() {
        4 => {
            let until = after(context, 3)?;
            let membership = context.shared.cluster.as_mut().ok_or(DISABLED)?;
            membership.prolong(epoch, until).map_err(|error| refused(&error))?;
            context.reply.ok();
        }
        6 | 10 if context.words.is(4, "SINCE") => {
            // Counted from a moment that this node has told: a lease that has waited in its socket while the process was stopped gives
            // it no time that nobody meant to give.
            let (ms, since) = (number(context, 3, TIME_MAX)?, number(context, 5, i64::MAX as u64)?);
            let now = context.shared.stopwatch();
            let is_vote = context.words.len() == 10;
            if is_vote && !(context.words.is(6, "VOTER") && context.words.is(8, "RUN")) {
                return Err(Failure::Syntax);
            }
            let run = context.shared.host.process().run_id;
            let membership = context.shared.cluster.as_mut().ok_or(DISABLED)?;
            if since > now {
                return Err(Failure::text("ERR SINCE is later than this node's clock says"));
            }
            if since > 0 && is_vote {
                let no_text = |_| Failure::text("ERR a name is no text");
                let vote = Vote {
                    voter: std::str::from_utf8(context.words.at(7)).map_err(no_text)?,
                    run: std::str::from_utf8(context.words.at(9)).map_err(no_text)?,
                    epoch,
                    until: since + ms * 1000,
                };
                membership.take_vote(vote, &run).map_err(|error| refused(&error))?;
            } else if since > 0 {
                membership.prolong(epoch, since + ms * 1000).map_err(|error| refused(&error))?;
            }
            context.reply.integer(now as i64);
        }
        _ => return Err(Failure::Syntax),
    }
    context.shared.end_await_of_lease();
    Ok(())
}

/// Numbers of another leader, or of one that is no leader any more, come too late.
pub(super) fn ack(context: &mut Context<'_>) -> Result<(), Failure> {
    let (term, serial) = (number(context, 2, i64::MAX as u64)?, number(context, 3, i64::MAX as u64)?);
    let replicas = number(context, 4, REPLICAS_MAX)?;
    let members: Option<Vec<(String, u16)>> =
        (5..context.words.len()).map(|place| host_and_port(context.words.at(place))).collect();
    let members = members.ok_or(Failure::text("ERR replicas are named by host:port"))?;
    let membership = context.shared.cluster.as_mut().ok_or(DISABLED)?;
    membership.take_count(Counted { term, serial, members }).map_err(|error| refused(&error))?;
    context.shared.settings.replica_ack.0 = replicas as i64;
    context.reply.ok();
    Ok(())
}

fn host_and_port(text: &[u8]) -> Option<(String, u16)> {
    let (host, port) = std::str::from_utf8(text).ok()?.rsplit_once(':')?;
    (!host.is_empty()).then_some((host.to_owned(), port.parse().ok()?))
}

pub(super) fn pause(context: &mut Context<'_>) -> Result<(), Failure> {
    context.shared.cluster.as_ref().ok_or(DISABLED)?;
    let named = |context: &Context<'_>, place: usize| match context.words.len().cmp(&place) {
        Ordering::Less => Err(Failure::Syntax),
        Ordering::Equal => Ok(None),
        Ordering::Greater if context.words.len() == place + 2 && context.words.is(place, "NUMBER") => {
            number(context, place + 1, i64::MAX as u64).map(Some)
        }
        Ordering::Greater => Err(Failure::Syntax),
    };
    if context.words.is(2, "END") {
        let number = named(context, 3)?;
        context.shared.end_slot_pause(number);
        context.reply.ok();
        return Ok(());
    }
    let number = named(context, 5)?.unwrap_or(0);
    let slots = range(context, 2)?;
    let until = after(context, 4)?;
    context.shared.begin_slot_pause(SlotPause { number, slots, until, is_settled: false })?;
    context.reply.ok();
    Ok(())
}

/// What is to be known of the master that the next `REPLICAOF` names.
fn master(context: &mut Context<'_>) -> Result<(), Failure> {
    let mut bond = Bond { since: number(context, 3, i64::MAX as u64)?, ..Bond::default() };
    let mut place = 4;
    while place < context.words.len() {
        if context.words.is(place, "KEEP") {
            bond.is_bound = true;
        } else if context.words.is(place, "NODE") && place + 1 < context.words.len() {
            place += 1;
            bond.node = Some(node(context.words.at(place)).ok_or(Failure::Syntax)?);
        } else {
            return Err(Failure::Syntax);
        }
        place += 1;
    }
    context.session.said_of_master = Some(bond);
    context.reply.ok();
    Ok(())
}

/// The name of a node: it stands in files.
fn node(text: &[u8]) -> Option<String> {
    let is_one = text.len() <= NODE_MAX && text.iter().all(u8::is_ascii_alphanumeric) && !text.is_empty();
    is_one.then(|| String::from_utf8_lossy(text).into_owned())
}

pub(super) fn connection(context: &mut Context<'_>) -> Result<(), Failure> {
    context.shared.cluster.as_ref().ok_or(DISABLED)?;
    if context.words.is(2, "MASTER") && context.words.len() > 3 {
        return master(context);
    }
    if context.words.is(2, "NODE") && context.words.len() == 4 {
        context.shared.check_node(context.words.at(3))?;
        context.reply.ok();
        return Ok(());
    }
    if context.words.len() == 4 {
        if !context.words.is(2, "AGENT") {
            return Err(Failure::Syntax);
        }
        let term = number(context, 3, i64::MAX as u64)?;
        let known = context.shared.cluster.as_ref().ok_or(DISABLED)?.term;
        if term > known {
            context.shared.host.keep_term(term).map_err(|error| {
                Failure::owned(format!("ERR the term of the agent cannot be kept in the store's folder: {error}"))
            })?;
        }
        let membership = context.shared.cluster.as_mut().ok_or(DISABLED)?;
        membership.take_term(term).map_err(|error| refused(&error))?;
        context.session.standing.term = Some(term);
        context.reply.ok();
        return Ok(());
    }
    if context.words.len() == 6 && context.words.is(2, "MOVER") {
        let (slots, epoch) = (range(context, 3)?, number(context, 5, i64::MAX as u64)?);
        let membership = context.shared.cluster.as_mut().ok_or(DISABLED)?;
        let pass = membership.admit_mover(slots, epoch).map_err(|error| refused(&error))?;
        context.session.standing.peer = Peer::Mover { pass };
        context.reply.ok();
        return Ok(());
    }
    if context.words.len() != 3 {
        return Err(Failure::Syntax);
    }
    let peer = match context.words.at(2).to_ascii_uppercase().as_slice() {
        b"CLIENT" => Peer::Client,
        b"PROXY" => Peer::Proxy,
        _ => return Err(Failure::Syntax),
    };
    context.session.standing.peer = peer;
    context.reply.ok();
    Ok(())
}
