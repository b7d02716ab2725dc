//! OBJECT: how values are held.

use keyspace::{Entry, Failure, MaxmemoryPolicy, Value};

use crate::{
    Context,
    groups::strings,
    server::Command,
    table::{Access, Categories, Flags, KeySpec},
};

use super::GROUP;

/// What `OBJECT` can be asked.
pub(super) const SUBCOMMANDS: &[Command] = &[
    Command::new("ENCODING", 3, encoding)
        .flags(Flags::READONLY)
        .keys(&[KeySpec::one(2, Access::RO)])
        .group(GROUP, Categories::KEYSPACE)
        .docs("2.2.3", "O(1)", "Returns the form in which the store holds a value.")
        .syntax("key#0"),
    Command::new("FREQ", 3, frequency)
        .flags(Flags::READONLY)
        .keys(&[KeySpec::one(2, Access::RO)])
        .group(GROUP, Categories::KEYSPACE)
        .docs("4.0.0", "O(1)", "Returns how often clients use a key, on a logarithmic scale.")
        .syntax("key#0"),
    Command::new("HELP", 2, help).flags(Flags::LOADING.union(Flags::STALE)).group(GROUP, Categories::KEYSPACE).docs(
        "6.2.0",
        "O(1)",
        "Lists the subcommands.",
    ),
    Command::new("IDLETIME", 3, idle_time)
        .flags(Flags::READONLY)
        .keys(&[KeySpec::one(2, Access::RO)])
        .group(GROUP, Categories::KEYSPACE)
        .docs("2.2.3", "O(1)", "Returns the seconds since a client used a key.")
        .syntax("key#0"),
    Command::new("REFCOUNT", 3, references)
        .flags(Flags::READONLY)
        .keys(&[KeySpec::one(2, Access::RO)])
        .group(GROUP, Categories::KEYSPACE)
        .docs("2.2.3", "O(1)", "Returns the number of references to a value.")
        .syntax("key#0"),
];

/// `OBJECT` without a subcommand does not come here: its arity is checked before.
pub(super) fn unknown(_: &mut Context<'_>) -> Result<(), Failure> {
    Err(Failure::Syntax)
}

fn help(context: &mut Context<'_>) -> Result<(), Failure> {
    const LINES: &[&str] = &[
        "OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "ENCODING <key>",
        "    Return the form in which the store holds the value of <key>.",
        "FREQ <key>",
        "    Return how often clients use <key>, on a logarithmic scale.",
        "IDLETIME <key>",
        "    Return the seconds since a client used <key>.",
        "REFCOUNT <key>",
        "    Return the number of references to the value of <key>.",
        "HELP",
        "    Print this help.",
    ];
    context.reply.array(LINES.len());
    LINES.iter().for_each(|line| context.reply.simple(line));
    Ok(())
}

/// Answers with something about an entry, which does not count as its use.
fn about(context: &mut Context<'_>, answer: impl FnOnce(&mut resp::Reply<'_>, &Entry)) -> Result<(), Failure> {
    match context.keys.peek(context.words.at(2))? {
        Some(entry) => answer(&mut context.reply, entry),
        None => context.reply.null(),
    }
    Ok(())
}

/// What `OBJECT ENCODING` calls the form of a value.
pub fn encoding_of(value: &Value) -> &'static str {
    match value {
        Value::String(string) => strings::encoding(string),
        Value::List(list) => list.encoding(),
        Value::Set(set) => set.encoding(),
        Value::SortedSet(set) => set.encoding(),
        Value::Hash(hash) => hash.encoding(),
        Value::Stream(_) => "stream",
        Value::Queue(_) => "queue",
    }
}

fn encoding(context: &mut Context<'_>) -> Result<(), Failure> {
    about(context, |reply, entry| {
        let encoding = entry.value.as_ref().map_or("unknown", encoding_of);
        reply.bulk(encoding.as_bytes());
    })
}

/// Redis shares the objects of small integers between all keys, and says so with the largest number.
fn references(context: &mut Context<'_>) -> Result<(), Failure> {
    const SHARED_BELOW: i64 = 10_000;
    let shares = !is_by_frequency(context) && !is_by_age(context);
    about(context, |reply, entry| {
        let shared = match &entry.value {
            Some(Value::String(string)) if strings::encoding(string) == "int" => {
                keyspace::number::parse_integer(string).is_some_and(|number| (0..SHARED_BELOW).contains(&number))
            }
            _ => false,
        };
        reply.integer(if shared && shares { i64::from(i32::MAX) } else { 1 });
    })
}

fn is_by_frequency(context: &Context<'_>) -> bool {
    context.shared.settings.maxmemory_policy.is_by_frequency()
}

fn is_by_age(context: &Context<'_>) -> bool {
    use MaxmemoryPolicy::{AllkeysLru, VolatileLru};
    matches!(context.shared.settings.maxmemory_policy, AllkeysLru | VolatileLru)
}

fn idle_time(context: &mut Context<'_>) -> Result<(), Failure> {
    if context.keys.contains(context.words.at(2))? && is_by_frequency(context) {
        return Err(Failure::text(
            "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between \
             policies at runtime LRU and LFU data will take some time to adjust.",
        ));
    }
    let usage = context.keys.space().usage.clone();
    about(context, |reply, entry| reply.integer(i64::from(usage.age(entry.touched))))
}

fn frequency(context: &mut Context<'_>) -> Result<(), Failure> {
    if context.keys.contains(context.words.at(2))? && !is_by_frequency(context) {
        return Err(Failure::text(
            "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching \
             between policies at runtime LRU and LFU data will take some time to adjust.",
        ));
    }
    let usage = context.keys.space().usage.clone();
    about(context, |reply, entry| reply.integer(i64::from(usage.frequency(entry.touched))))
}
