//! Sets.

mod algebra;
mod random;
mod steps;

use keyspace::{Failure, changes::EventClass, value::Set};

use crate::{
    Context,
    arguments::{self, ScanOptions},
    config::Settings,
    server::{Command, Handler, Progress, Scanning, Wide, giving_steps},
    session::Rest,
    table::{Access, Categories, ElementWords, Flags, KeySpec, Replies},
};

const GROUP: &str = "set";
const READ: Flags = Flags::READONLY.union(Flags::FAST);
const WRITE: Flags = Flags::WRITE.union(Flags::FAST);
const STORE: Flags = Flags::WRITE.union(Flags::DENYOOM);

const fn command(name: &'static str, arity: i32, handler: Handler, flags: Flags, keys: &'static [KeySpec]) -> Command {
    Command::new(name, arity, handler).flags(flags).keys(keys).group(GROUP, Categories::SET)
}

const GIVEN: Access = Access::RO.union(Access::ACCESS);
const POP: Access = Access::RW.union(Access::ACCESS).union(Access::DELETE);
const INSERT: Access = Access::RW.union(Access::INSERT);
const LOOKED_AT: &[KeySpec] = &[KeySpec::one(1, Access::RO)];
const READS: &[KeySpec] = &[KeySpec::one(1, GIVEN)];
const READS_ALL: &[KeySpec] = &[KeySpec::range(1, -1, 1, GIVEN)];
const OVERWRITES: &[KeySpec] = &[KeySpec::one(1, Access::OW.union(Access::UPDATE)), KeySpec::range(2, -1, 1, GIVEN)];
const UPDATES: &[KeySpec] = &[KeySpec::one(1, Access::RW.union(Access::UPDATE)), KeySpec::range(2, -1, 1, GIVEN)];

/// The group's commands.
pub const COMMANDS: &[Command] = &[
    command("SADD", -3, sadd, WRITE.union(Flags::DENYOOM), &[KeySpec::one(1, INSERT)])
        .elements(ElementWords::names(2, 1))
        .docs("1.0.0", "O(N) for N members added", "Adds members.")
        .syntax("key#0 member...")
        .wide(Wide::new(1, Replies::Sum)),
    command("SCARD", 2, scard, READ, LOOKED_AT).docs("1.0.0", "O(1)", "Returns the number of members.").syntax("key#0"),
    command("SDIFF", -2, algebra::sdiff, Flags::READONLY, READS_ALL)
        .docs("1.0.0", "O(N) for N members of all sets", "Returns the members of the first set that no other set has.")
        .syntax("key#0..."),
    command("SDIFFSTORE", -3, algebra::sdiffstore, STORE, OVERWRITES)
        .docs("1.0.0", "O(N) for N members of all sets", "Stores the members of the first set that no other set has.")
        .syntax("destination#0 key#1..."),
    command("SINTER", -2, algebra::sinter, Flags::READONLY, READS_ALL)
        .docs("1.0.0", "O(N*M) for N members of the smallest of M sets", "Returns the members that all sets have.")
        .syntax("key#0..."),
    command(
        "SINTERCARD",
        -3,
        algebra::sintercard,
        Flags::READONLY.union(Flags::MOVABLE_KEYS),
        &[KeySpec::counted(1, GIVEN)],
    )
    .docs("7.0.0", "O(N*M) for N members of the smallest of M sets", "Counts the members that all sets have.")
    .syntax("numkeys:integer key#0... [LIMIT/limit:integer]"),
    command("SINTERSTORE", -3, algebra::sinterstore, STORE, UPDATES)
        .docs("1.0.0", "O(N*M) for N members of the smallest of M sets", "Stores the members that all sets have.")
        .syntax("destination#0 key#1..."),
    command("SISMEMBER", 3, sismember, READ, LOOKED_AT)
        .elements(ElementWords::name(2))
        .docs("1.0.0", "O(1)", "Says whether a set has a member.")
        .syntax("key#0 member"),
    command("SMEMBERS", 2, smembers, Flags::READONLY, READS)
        .docs("1.0.0", "O(N) for N members", "Returns all members.")
        .syntax("key#0"),
    command("SMISMEMBER", -3, smismember, READ, READS)
        .elements(ElementWords::names(2, 1))
        .docs("6.2.0", "O(N) for N members asked for", "Says for each of some members whether a set has it.")
        .syntax("key#0 member...")
        .wide(Wide::new(1, Replies::Joined)),
    command("SMOVE", 4, smove, WRITE, &[KeySpec::one(1, POP), KeySpec::one(2, INSERT)])
        .elements(ElementWords::name(3))
        .docs("1.0.0", "O(1)", "Moves a member from one set to another.")
        .syntax("source#0 destination#1 member"),
    command("SPOP", -2, random::spop, WRITE, &[KeySpec::one(1, POP)])
        .docs("1.0.0", "O(N) for N members taken", "Removes and returns random members.")
        .syntax("key#0 [count:integer@3.2.0]"),
    command("SRANDMEMBER", -2, random::srandmember, Flags::READONLY, READS)
        .docs("1.0.0", "O(N) for N members given", "Returns random members.")
        .syntax("key#0 [count:integer@2.6.0]"),
    command("SREM", -3, srem, WRITE, &[KeySpec::one(1, Access::RW.union(Access::DELETE))])
        .elements(ElementWords::names(2, 1))
        .docs("1.0.0", "O(N) for N members to be removed", "Removes members.")
        .syntax("key#0 member...")
        .wide(Wide::new(1, Replies::Sum)),
    command("SSCAN", -3, sscan, Flags::READONLY, READS)
        .docs("2.8.0", "O(1) a call, O(N) for a walk over N members", "Walks over the members in steps.")
        .syntax("key#0 cursor:integer [MATCH/pattern:pattern] [COUNT/count:integer]"),
    command("SUNION", -2, algebra::sunion, Flags::READONLY, READS_ALL)
        .docs("1.0.0", "O(N) for N members of all sets", "Returns the members that any of the sets has.")
        .syntax("key#0..."),
    command("SUNIONSTORE", -3, algebra::sunionstore, STORE, OVERWRITES)
        .docs("1.0.0", "O(N) for N members of all sets", "Stores the members that any of the sets has.")
        .syntax("destination#0 key#1..."),
];

fn integers_max(settings: &Settings) -> usize {
    settings.integers_max()
}

fn sadd(context: &mut Context<'_>) -> Result<(), Failure> {
    let key = context.words.at(1);
    let most = integers_max(&context.shared.settings);
    let set = context.keys.get_or_insert(key, Set::new)?;
    let added = context.words.from(2).iter().filter(|member| set.add(member, most)).count();
    if added > 0 {
        context.keys.modified_by(key, added);
        context.keys.notify(EventClass::SET, "sadd", key);
    }
    context.reply.count(added);
    Ok(())
}

fn srem(context: &mut Context<'_>) -> Result<(), Failure> {
    let key = context.words.at(1);
    let Some(set) = context.keys.get_mut::<Set>(key)? else {
        context.reply.integer(0);
        return Ok(());
    };
    let removed = context.words.from(2).iter().filter(|member| set.remove(member)).count();
    let empty = set.is_empty();
    if removed > 0 {
        context.keys.modified_by(key, removed);
        context.keys.notify(EventClass::SET, "srem", key);
        if empty {
            context.keys.remove_if(key, Set::is_empty)?;
        }
    }
    context.reply.count(removed);
    Ok(())
}

fn smove(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    let (source, destination, member) = (words.at(1), words.at(2), words.at(3));
    let there = match context.keys.look::<Set>(source)? {
        Some(set) => set.contains(member),
        None => {
            context.reply.integer(0);
            return Ok(());
        }
    };
    context.keys.look::<Set>(destination)?;
    if there && source != destination {
        let most = integers_max(&context.shared.settings);
        let mut empty = false;
        if let Some(set) = context.keys.get_mut::<Set>(source)? {
            set.remove(member);
            empty = set.is_empty();
        }
        context.keys.notify(EventClass::SET, "srem", source);
        if empty {
            context.keys.remove_if(source, Set::is_empty)?;
        }
        context.keys.modified(source);
        if context.keys.get_or_insert(destination, Set::new)?.add(member, most) {
            context.keys.modified(destination);
            context.keys.notify(EventClass::SET, "sadd", destination);
        }
    }
    context.reply.integer(i64::from(there));
    Ok(())
}

fn sismember(context: &mut Context<'_>) -> Result<(), Failure> {
    let set = context.keys.get::<Set>(context.words.at(1))?;
    context.reply.integer(i64::from(set.is_some_and(|set| set.contains(context.words.at(2)))));
    Ok(())
}

fn smismember(context: &mut Context<'_>) -> Result<(), Failure> {
    let set = context.keys.get::<Set>(context.words.at(1))?;
    let members = context.words.from(2);
    context.reply.array(members.len());
    for member in members {
        context.reply.integer(i64::from(set.is_some_and(|set| set.contains(member))));
    }
    Ok(())
}

fn scard(context: &mut Context<'_>) -> Result<(), Failure> {
    let set = context.keys.get::<Set>(context.words.at(1))?;
    context.reply.count(set.map_or(0, Set::len));
    Ok(())
}

fn smembers(context: &mut Context<'_>) -> Result<(), Failure> {
    let set = context.keys.get::<Set>(context.words.at(1))?;
    let Some(set) = set else {
        context.reply.set(0);
        return Ok(());
    };
    let len = set.len();
    if context.session.takes_turns(len, context.shared)
        && let Some(portions) = set.portions()
    {
        context.reply.set(len);
        context.session.go_on_with(Rest::Elements(portions), context.shared);
    } else if context.session.takes_steps(len, context.shared) {
        let mut cursor = 0;
        let step = move |context: &mut Context<'_>, budget: usize| {
            let reply = &mut context.reply;
            if cursor == 0 {
                reply.set(len);
            }
            if let Some(set) = context.keys.look::<Set>(context.words.at(1))? {
                cursor = set.scan_once(cursor, budget, |member| member.reply(reply));
            }
            Ok(Progress::over_if(cursor == 0))
        };
        return context.work_on(len, giving_steps(step));
    } else {
        context.reply.set(len);
        set.each(|member| member.reply(&mut context.reply));
    }
    Ok(())
}

fn sscan(context: &mut Context<'_>) -> Result<(), Failure> {
    let cursor = arguments::cursor(context.words.at(2))?;
    let Some(set) = context.keys.get::<Set>(context.words.at(1))? else {
        context.reply.array(2);
        context.reply.bulk(b"0");
        context.reply.array(0);
        return Ok(());
    };
    let (len, count) = (set.len(), ScanOptions::parse(context.words, 3)?.count);
    context.work_on(count.min(len), Scanning::new(cursor, count, scan_some))
}

fn scan_some(context: &mut Context<'_>, cursor: u64, count: usize) -> Result<(u64, usize), Failure> {
    let options = ScanOptions::parse(context.words, 3)?;
    let Some(set) = context.keys.look::<Set>(context.words.at(1))? else { return Ok((0, 0)) };
    let (reply, mut found) = (&mut context.reply, 0);
    let next = set.scan(cursor, count, |member| {
        let text = member.text();
        if options.matches(&text) {
            reply.bulk(&text);
            found += 1;
        }
    });
    Ok((next, found))
}
