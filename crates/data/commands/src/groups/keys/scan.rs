//! Commands that look for keys: KEYS, SCAN, RANDOMKEY.

use keyspace::{
    Bytes, Database, Failure, glob,
    slot::{self, SLOTS},
};

use crate::{Context, arguments::cursor, server::Scanning, session::Rest};

pub(super) fn keys(context: &mut Context<'_>) -> Result<(), Failure> {
    let pattern = context.words.at(1);
    let now = context.now();
    let (db, space) = (context.keys.db, context.keys.space());
    if context.session.takes_turns(space.database(db).map_or(0, Database::len), context.shared) {
        let walk = space.begin_walk(db, pattern, now);
        context.session.go_on_with(Rest::Keys(walk), context.shared);
        return Ok(());
    }
    let deferred = context.reply.defer();
    let (mut count, mut cursor) = (0, 0);
    let mut found = Vec::new();
    loop {
        cursor = context.keys.walk(cursor, STEP, &mut found)?;
        for walked in found.drain(..).filter(|walked| walked.expire_at > now && glob::matches(pattern, &walked.key)) {
            context.reply.bulk(&walked.key);
            count += 1;
        }
        if cursor == 0 {
            break;
        }
    }
    context.reply.finish_array(deferred, count);
    Ok(())
}

/// How many keys KEYS looks at together.
const STEP: usize = 1000;

struct Options<'a> {
    count: usize,
    /// Of slots behind each other that are this node's own alone: a proxy goes on where the next ones are.
    of_own_slots: bool,
    pattern: Option<&'a [u8]>,
    type_name: Option<&'a [u8]>,
}

fn options<'a>(context: &Context<'a>) -> Result<Options<'a>, Failure> {
    let words = context.words;
    let mut options = Options { count: 10, of_own_slots: false, pattern: None, type_name: None };
    let mut at = 2;
    while at < words.len() {
        let argument = words.get(at + 1).ok_or(Failure::Syntax)?;
        if words.is(at, "COUNT") {
            let count = words.integer(at + 1)?;
            options.count = usize::try_from(count).ok().filter(|count| *count > 0).ok_or(Failure::Syntax)?;
        } else if words.is(at, "MATCH") {
            options.pattern = Some(argument).filter(|pattern| *pattern != b"*");
        } else if words.is(at, "TYPE") {
            options.type_name = Some(argument);
        } else if words.is(at, "SLOTS") && words.is(at + 1, "OWN") && context.shared.cluster.is_some() {
            options.of_own_slots = true;
        } else {
            return Err(Failure::Syntax);
        }
        at += 2;
    }
    Ok(options)
}

pub(super) fn scan(context: &mut Context<'_>) -> Result<(), Failure> {
    let cursor = cursor(context.words.at(1))?;
    let Options { count, of_own_slots, .. } = options(context)?;
    if of_own_slots {
        context.shared.admits_slot(context.session, slot::of_cursor(cursor))?;
    }
    let db = context.keys.db;
    let len = context.keys.space().database(db).map_or(0, Database::len);
    context.work_on(count.min(len), Scanning::new(cursor, count, scan_some))
}

fn scan_some(context: &mut Context<'_>, cursor: u64, count: usize) -> Result<(u64, usize), Failure> {
    let options = options(context)?;
    let now = context.now();
    let mut found = 0;
    let mut expired: Vec<Bytes> = Vec::new();
    let mut walked = Vec::new();
    // The first slot that it does not get to.
    let end = if options.of_own_slots { context.shared.end_of_own_slots(slot::of_cursor(cursor)) } else { SLOTS };
    if end <= slot::of_cursor(cursor) && cursor > 0 {
        // It has become another node's since the command began.
        return Ok((cursor, 0));
    }
    let mut next = context.keys.walk(cursor, count, &mut walked)?;
    if end < SLOTS && (next == 0 || slot::of_cursor(next) >= end) {
        next = slot::cursor(end);
        walked.retain(|walked| slot::slot(&walked.key) < end);
    }
    for walked in walked {
        let matches = options.pattern.is_none_or(|pattern| glob::matches(pattern, &walked.key));
        let of_type = options.type_name.is_none_or(|name| walked.type_name.as_bytes().eq_ignore_ascii_case(name));
        if matches && walked.expire_at <= now {
            expired.push(walked.key);
        } else if matches && of_type {
            context.reply.bulk(&walked.key);
            found += 1;
        }
    }
    // Whoever meets a key that has expired removes it.
    for key in expired {
        context.keys.contains(&key)?;
    }
    Ok((next, found))
}

/// So many keys are drawn at most whose time has come and that nothing removes here, as in Redis.
const KEPT_MAX: usize = 100;

pub(super) fn randomkey(context: &mut Context<'_>) -> Result<(), Failure> {
    let mut kept = 0;
    loop {
        let Some(walked) = context.keys.random(&mut context.shared.random)? else {
            context.reply.null();
            return Ok(());
        };
        let expired = context.keys.space().expired;
        if context.keys.contains(&walked.key)? {
            context.reply.bulk(&walked.key);
            return Ok(());
        }
        // A master removes a key that has expired. On a replica, or in a pause, it stays: Redis names one of them in the end.
        kept += usize::from(context.keys.space().expired == expired);
        if kept == KEPT_MAX {
            context.reply.bulk(&walked.key);
            return Ok(());
        }
    }
}
