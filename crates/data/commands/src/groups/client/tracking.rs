//! `CLIENT TRACKING` and what belongs to it, for caches of clients.

use std::collections::BTreeSet;

use keyspace::{Bytes, Failure};

use crate::{
    Context, SessionId,
    session::{ClientTracking, Close},
};

fn read_options(context: &Context<'_>) -> Result<(ClientTracking, Vec<Bytes>), Failure> {
    let words = context.words;
    let mut options = ClientTracking::default();
    let mut prefixes = Vec::new();
    let mut at = 3;
    while at < words.len() {
        let has_more = at + 1 < words.len();
        if words.is(at, "REDIRECT") && has_more {
            at += 1;
            if options.redirect != 0 {
                return Err(Failure::text("ERR A client can only redirect to a single other client"));
            }
            let id = words.integer(at)?;
            options.redirect = u64::try_from(id)
                .ok()
                .filter(|id| is_there(context, SessionId(*id)))
                .ok_or(Failure::text("ERR The client ID you want redirect to does not exist"))?;
        } else if words.is(at, "BCAST") {
            options.broadcast = true;
        } else if words.is(at, "OPTIN") {
            options.opt_in = true;
        } else if words.is(at, "OPTOUT") {
            options.opt_out = true;
        } else if words.is(at, "NOLOOP") {
            options.no_loop = true;
        } else if words.is(at, "PREFIX") && has_more {
            at += 1;
            prefixes.push(Bytes::from_slice(words.at(at)));
        } else {
            return Err(Failure::Syntax);
        }
        at += 1;
    }
    Ok((options, prefixes))
}

/// Whether there is a client of a number.
fn is_there(context: &Context<'_>, id: SessionId) -> bool {
    let is_open = |session: &Option<Box<crate::Session>>| session.as_ref().is_none_or(|one| one.close != Close::Now);
    context.shared.sessions.by_id.get(&id).is_some_and(is_open)
}

/// Whether one of two begins with the other: a key of one would then be told twice.
fn overlap(one: &[u8], other: &[u8]) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

fn check_prefixes(former: Option<&ClientTracking>, prefixes: &[Bytes]) -> Result<(), Failure> {
    let told = |prefix: &[u8], known: &[u8], which: &str| {
        let (prefix, known) = (String::from_utf8_lossy(prefix), String::from_utf8_lossy(known));
        Failure::owned(format!(
            "ERR Prefix '{prefix}' overlaps with {which} prefix '{known}'. Prefixes for a single client must not overlap."
        ))
    };
    for (place, prefix) in prefixes.iter().enumerate() {
        if let Some(known) = former.and_then(|former| former.prefixes.iter().find(|known| overlap(prefix, known))) {
            return Err(told(prefix, known, "an existing"));
        }
        if let Some(known) = prefixes.iter().skip(place + 1).find(|known| overlap(prefix, known)) {
            return Err(told(prefix, known, "another provided"));
        }
    }
    Ok(())
}

pub(super) fn tracking(context: &mut Context<'_>) -> Result<(), Failure> {
    let (mut options, prefixes) = read_options(context)?;
    match super::on_or_off(context)? {
        false => context.shared.untrack(context.session),
        true => {
            let former = context.session.tracking.as_deref();
            if !options.broadcast && !prefixes.is_empty() {
                return Err(Failure::text("ERR PREFIX option requires BCAST mode to be enabled"));
            }
            if former.is_some_and(|former| former.broadcast != options.broadcast) {
                return Err(Failure::text(
                    "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then \
                     re-enabling it with a different mode.",
                ));
            }
            if options.broadcast && (options.opt_in || options.opt_out) {
                return Err(Failure::text("ERR OPTIN and OPTOUT are not compatible with BCAST"));
            }
            if options.opt_in && options.opt_out {
                return Err(Failure::text("ERR You can't specify both OPTIN mode and OPTOUT mode"));
            }
            let turns = |former: &ClientTracking| options.opt_in && former.opt_out || options.opt_out && former.opt_in;
            if former.is_some_and(turns) {
                return Err(Failure::text(
                    "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then \
                     re-enabling it with a different mode.",
                ));
            }
            if options.broadcast {
                check_prefixes(former, &prefixes)?;
            }
            options.caching = former.is_some_and(|former| former.caching);
            options.prefixes = BTreeSet::from_iter(prefixes);
            context.shared.track(context.session, options);
        }
    }
    context.reply.ok();
    Ok(())
}

pub(super) fn caching(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    let Some(tracking) = &mut context.session.tracking else {
        return Err(Failure::text(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
        ));
    };
    if words.is(2, "YES") {
        if !tracking.opt_in {
            return Err(Failure::text("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode."));
        }
    } else if words.is(2, "NO") {
        if !tracking.opt_out {
            return Err(Failure::text("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode."));
        }
    } else {
        return Err(Failure::Syntax);
    }
    tracking.caching = true;
    context.reply.ok();
    Ok(())
}

/// Who gets the messages: 0 for the client itself, -1 for nobody.
fn redirection(context: &Context<'_>) -> i64 {
    let tracking = context.session.tracking.as_ref();
    tracking.map_or(-1, |tracking| i64::try_from(tracking.redirect).unwrap_or(i64::MAX))
}

pub(super) fn getredir(context: &mut Context<'_>) -> Result<(), Failure> {
    let redirection = redirection(context);
    context.reply.integer(redirection);
    Ok(())
}

pub(super) fn trackinginfo(context: &mut Context<'_>) -> Result<(), Failure> {
    let redirection = redirection(context);
    let off = ClientTracking::default();
    let is_on = context.session.tracking.is_some();
    let tracking = context.session.tracking.as_deref().unwrap_or(&off);
    let flags: Vec<&str> = [
        (true, if is_on { "on" } else { "off" }),
        (tracking.broadcast, "bcast"),
        (tracking.opt_in, "optin"),
        (tracking.opt_in && tracking.caching, "caching-yes"),
        (tracking.opt_out, "optout"),
        (tracking.opt_out && tracking.caching, "caching-no"),
        (tracking.no_loop, "noloop"),
        (tracking.broken, "broken_redirect"),
    ]
    .into_iter()
    .filter_map(|(holds, name)| holds.then_some(name))
    .collect();
    let reply = &mut context.reply;
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"redirect");
    reply.integer(redirection);
    reply.bulk(b"prefixes");
    reply.array(tracking.prefixes.len());
    tracking.prefixes.iter().for_each(|prefix| reply.bulk(prefix));
    Ok(())
}
