//! Commands about keys of any type.

mod dump;
mod expire;
mod migrate;
mod object;
mod places;
mod scan;
mod sort;
mod sorting;

pub use object::encoding_of;

use keyspace::{Failure, changes::EventClass};

use crate::{
    Context,
    server::{Command, Wide},
    table::{Access, Begin, Categories, Find, Flags, KeySpec, Replies},
};

const GROUP: &str = "generic";

/// The group's commands.
pub const COMMANDS: &[Command] = &[
    Command::new("DEL", -2, del)
        .flags(Flags::WRITE)
        .keys(&[KeySpec::range(1, -1, 1, Access::RM.union(Access::DELETE))])
        .group(GROUP, Categories::KEYSPACE)
        .wide(Wide::of_keys(1, Replies::Sum))
        .docs("1.0.0", "O(1) for each key", "Removes keys.").syntax("key#0..."),
    Command::new("UNLINK", -2, del)
        .flags(Flags::WRITE.union(Flags::FAST))
        .keys(&[KeySpec::range(1, -1, 1, Access::RM.union(Access::DELETE))])
        .group(GROUP, Categories::KEYSPACE)
        .wide(Wide::of_keys(1, Replies::Sum))
        .docs("4.0.0", "O(1) for each key", "Removes keys, and frees their values in the background.").syntax("key#0..."),
    Command::new("EXISTS", -2, exists)
        .flags(Flags::READONLY.union(Flags::FAST))
        .keys(&[KeySpec::range(1, -1, 1, Access::RO)])
        .group(GROUP, Categories::KEYSPACE)
        .wide(Wide::of_keys(1, Replies::Sum))
        .docs("1.0.0", "O(1) for each key", "Counts the keys that exist.").syntax("key#0..."),
    Command::new("TYPE", 2, type_of)
        .flags(Flags::READONLY.union(Flags::FAST))
        .keys(&[KeySpec::one(1, Access::RO)])
        .group(GROUP, Categories::KEYSPACE)
        .docs("1.0.0", "O(1)", "Returns the type of a key's value.").syntax("key#0"),
    Command::new("TOUCH", -2, touch)
        .flags(Flags::READONLY.union(Flags::FAST))
        .keys(&[KeySpec::range(1, -1, 1, Access::RO)])
        .group(GROUP, Categories::KEYSPACE)
        .wide(Wide::of_keys(1, Replies::Sum))
        .docs("3.2.1", "O(1) for each key", "Marks keys as used now, and counts those that exist.").syntax("key#0..."),
    Command::new("EXPIRE", -3, expire::expire)
        .flags(Flags::WRITE.union(Flags::FAST))
        .keys(&[KeySpec::one(1, Access::RW.union(Access::UPDATE))])
        .group(GROUP, Categories::KEYSPACE)
        .docs("1.0.0", "O(1)", "Sets after how many seconds a key expires.").syntax("key#0 seconds:integer [condition<NX|XX|GT|LT>@7.0.0]"),
    Command::new("PEXPIRE", -3, expire::pexpire)
        .flags(Flags::WRITE.union(Flags::FAST))
        .keys(&[KeySpec::one(1, Access::RW.union(Access::UPDATE))])
        .group(GROUP, Categories::KEYSPACE)
        .docs("2.6.0", "O(1)", "Sets after how many milliseconds a key expires.").syntax("key#0 milliseconds:integer [condition<NX|XX|GT|LT>@7.0.0]"),
    Command::new("EXPIREAT", -3, expire::expireat)
        .flags(Flags::WRITE.union(Flags::FAST))
        .keys(&[KeySpec::one(1, Access::RW.union(Access::UPDATE))])
        .group(GROUP, Categories::KEYSPACE)
        .docs("1.2.0", "O(1)", "Sets when a key expires, in seconds since 1970.").syntax("key#0 unix-time-seconds:unix-time [condition<NX|XX|GT|LT>@7.0.0]"),
    Command::new("PEXPIREAT", -3, expire::pexpireat)
        .flags(Flags::WRITE.union(Flags::FAST))
        .keys(&[KeySpec::one(1, Access::RW.union(Access::UPDATE))])
        .group(GROUP, Categories::KEYSPACE)
        .docs("2.6.0", "O(1)", "Sets when a key expires, in milliseconds since 1970.").syntax("key#0 unix-time-milliseconds:unix-time [condition<NX|XX|GT|LT>@7.0.0]"),
    Command::new("TTL", 2, expire::ttl)
        .flags(Flags::READONLY.union(Flags::FAST))
        .keys(&[KeySpec::one(1, Access::RO.union(Access::ACCESS))])
        .group(GROUP, Categories::KEYSPACE)
        .docs("1.0.0", "O(1)", "Returns the seconds until a key expires.").syntax("key#0"),
    Command::new("PTTL", 2, expire::pttl)
        .flags(Flags::READONLY.union(Flags::FAST))
        .keys(&[KeySpec::one(1, Access::RO.union(Access::ACCESS))])
        .group(GROUP, Categories::KEYSPACE)
        .docs("2.6.0", "O(1)", "Returns the milliseconds until a key expires.").syntax("key#0"),
    Command::new("EXPIRETIME", 2, expire::expiretime)
        .flags(Flags::READONLY.union(Flags::FAST))
        .keys(&[KeySpec::one(1, Access::RO.union(Access::ACCESS))])
        .group(GROUP, Categories::KEYSPACE)
        .docs("7.0.0", "O(1)", "Returns when a key expires, in seconds since 1970.").syntax("key#0"),
    Command::new("PEXPIRETIME", 2, expire::pexpiretime)
        .flags(Flags::READONLY.union(Flags::FAST))
        .keys(&[KeySpec::one(1, Access::RO.union(Access::ACCESS))])
        .group(GROUP, Categories::KEYSPACE)
        .docs("7.0.0", "O(1)", "Returns when a key expires, in milliseconds since 1970.").syntax("key#0"),
    Command::new("PERSIST", 2, expire::persist)
        .flags(Flags::WRITE.union(Flags::FAST))
        .keys(&[KeySpec::one(1, Access::RW.union(Access::UPDATE))])
        .group(GROUP, Categories::KEYSPACE)
        .docs("2.2.0", "O(1)", "Removes the expiry of a key.").syntax("key#0"),
    Command::new("KEYS", 2, scan::keys)
        .flags(Flags::READONLY)
        .group(GROUP, Categories::KEYSPACE.union(Categories::DANGEROUS))
        .docs("1.0.0", "O(N) for N keys of the database", "Returns the keys that match a pattern.").syntax("pattern:pattern"),
    Command::new("SCAN", -2, scan::scan).flags(Flags::READONLY).group(GROUP, Categories::KEYSPACE).docs(
        "2.8.0",
        "O(1) for each call, O(N) for all N keys",
        "Walks over the keys of the database in steps.",
    ).syntax("cursor:integer [MATCH/pattern:pattern] [COUNT/count:integer] [TYPE/type@6.0.0]"),
    Command::new("MIGRATE", -6, migrate::migrate)
        .secrets(migrate::secrets)
        .flags(Flags::WRITE)
        .keys(&[KeySpec::one(3, Access::RW.union(Access::ACCESS).union(Access::DELETE))])
        .key_places(migrate::places)
        .group(GROUP, Categories::KEYSPACE.union(Categories::DANGEROUS))
        .docs("2.6.0", "O(N) for N keys", "Moves keys to another server. Only this client waits meanwhile.").syntax("host port:integer key_or_empty_string<key#0|empty_string=\"\"> destination-db:integer timeout:integer [COPY@3.0.0] [REPLACE@3.0.0] [authentication<[AUTH/password@4.0.7]|[AUTH2/username_password{username password}@6.0.0]>] [KEYS/key#1...@3.0.6]"),
    Command::new("RANDOMKEY", 1, scan::randomkey).flags(Flags::READONLY).group(GROUP, Categories::KEYSPACE).docs(
        "1.0.0",
        "O(1)",
        "Returns a random key.",
    ),
    Command::new("RENAME", 3, places::rename)
        .flags(Flags::WRITE)
        .keys(&[
            KeySpec::one(1, Access::RW.union(Access::ACCESS).union(Access::DELETE)),
            KeySpec::one(2, Access::OW.union(Access::UPDATE)),
        ])
        .group(GROUP, Categories::KEYSPACE)
        .docs("1.0.0", "O(1)", "Renames a key, and replaces a key that has the new name.").syntax("key#0 newkey#1"),
    Command::new("RENAMENX", 3, places::rename_if_absent)
        .flags(Flags::WRITE.union(Flags::FAST))
        .keys(&[
            KeySpec::one(1, Access::RW.union(Access::ACCESS).union(Access::DELETE)),
            KeySpec::one(2, Access::OW.union(Access::INSERT)),
        ])
        .group(GROUP, Categories::KEYSPACE)
        .docs("1.0.0", "O(1)", "Renames a key if no key has the new name.").syntax("key#0 newkey#1"),
    Command::new("MOVE", 3, places::move_to)
        .flags(Flags::WRITE.union(Flags::FAST))
        .keys(&[KeySpec::one(1, Access::RW.union(Access::ACCESS).union(Access::UPDATE))])
        .group(GROUP, Categories::KEYSPACE)
        .docs("1.0.0", "O(1)", "Moves a key to another database.").syntax("key#0 db:integer"),
    Command::new("COPY", -3, places::copy)
        .flags(Flags::WRITE.union(Flags::DENYOOM))
        .keys(&[KeySpec::one(1, Access::RO.union(Access::ACCESS)), KeySpec::one(2, Access::OW.union(Access::UPDATE))])
        .group(GROUP, Categories::KEYSPACE)
        .docs("6.2.0", "O(N) for N elements of a collection", "Copies the value of a key to another key.").syntax("source#0 destination#1 [DB/destination-db:integer] [REPLACE]"),
    Command::new("OBJECT", -2, object::unknown)
        .subcommands(object::SUBCOMMANDS)
        .group(GROUP, Categories::empty())
        .docs("2.2.3", "depends on the subcommand", "Shows how the store holds a value."),
    Command::new("DUMP", 2, dump::dump)
        .flags(Flags::READONLY)
        .keys(&[KeySpec::one(1, Access::RO.union(Access::ACCESS))])
        .group(GROUP, Categories::KEYSPACE)
        .docs("2.6.0", "O(N) for N bytes", "Returns the value of a key as bytes for RESTORE.").syntax("key#0"),
    Command::new("RESTORE", -4, dump::restore)
        .flags(Flags::WRITE.union(Flags::DENYOOM))
        .keys(&[KeySpec::one(1, Access::OW.union(Access::UPDATE))])
        .group(GROUP, Categories::KEYSPACE.union(Categories::DANGEROUS))
        .docs("2.6.0", "O(N) for N bytes", "Sets a key to a value from DUMP.").syntax("key#0 ttl:integer serialized-value [REPLACE@3.0.0] [ABSTTL@5.0.0] [IDLETIME/seconds:integer@5.0.0] [FREQ/frequency:integer@5.0.0]"),
    Command::new("SORT", -2, sort::sort)
        .flags(Flags::WRITE.union(Flags::DENYOOM).union(Flags::MEETS_ALL_BY_PATTERNS))
        .keys(&[
            KeySpec::one(1, Access::RO.union(Access::ACCESS)),
            KeySpec { begin: Begin::Unknown, find: Find::Unknown, access: Access::RO.union(Access::ACCESS) },
            KeySpec { begin: Begin::Unknown, find: Find::Unknown, access: Access::OW.union(Access::UPDATE) },
        ])
        .group(
            GROUP,
            Categories::SET.union(Categories::SORTED_SET).union(Categories::LIST).union(Categories::DANGEROUS),
        )
        .key_places(sort::places)
        .docs(
            "1.0.0",
            "O(N+M*log(M)) for N elements and M of them answered",
            "Sorts the elements of a list, a set or a sorted set.",
        ).syntax("key#0 [BY/pattern:pattern] [LIMIT/offset_count{offset:integer count:integer}] [GET/pattern:pattern...*] [order<ASC|DESC>] [sorting=ALPHA] [STORE/destination#2]"),
    Command::new("SORT_RO", -2, sort::sort_readonly)
        .flags(Flags::READONLY.union(Flags::MEETS_ALL_BY_PATTERNS))
        .keys(&[
            KeySpec::one(1, Access::RO.union(Access::ACCESS)),
            KeySpec { begin: Begin::Unknown, find: Find::Unknown, access: Access::RO.union(Access::ACCESS) },
        ])
        .group(
            GROUP,
            Categories::SET.union(Categories::SORTED_SET).union(Categories::LIST).union(Categories::DANGEROUS),
        )
        .key_places(sort::places)
        .docs("7.0.0", "O(N+M*log(M)) for N elements and M of them answered", "Sorts as SORT does, but stores no result.").syntax("key#0 [BY/pattern:pattern] [LIMIT/offset_count{offset:integer count:integer}] [GET/pattern:pattern...*] [order<ASC|DESC>] [sorting=ALPHA]"),
    Command::new("SWAPDB", 3, places::swap_databases)
        .flags(Flags::WRITE.union(Flags::FAST))
        .group("server", Categories::KEYSPACE.union(Categories::DANGEROUS))
        .docs("4.0.0", "O(1)", "Swaps two databases.").syntax("index1:integer index2:integer"),
];

fn del(context: &mut Context<'_>) -> Result<(), Failure> {
    let mut count = 0;
    for key in context.words.from(1) {
        if context.keys.remove(key)? {
            context.keys.modified(key);
            context.keys.notify(EventClass::GENERIC, "del", key);
            count += 1;
        }
    }
    context.reply.integer(count);
    Ok(())
}

fn exists(context: &mut Context<'_>) -> Result<(), Failure> {
    let mut count = 0;
    for key in context.words.from(1) {
        // It is a hit or a miss, but no use of the key.
        if context.keys.contains(key)? {
            context.keys.space().hits += 1;
            count += 1;
        } else {
            context.keys.value(key)?;
        }
    }
    context.reply.integer(count);
    Ok(())
}

fn type_of(context: &mut Context<'_>) -> Result<(), Failure> {
    let key = context.words.at(1);
    let value = context.keys.peek(key)?.and_then(|entry| entry.value.as_ref());
    let name = value.map(keyspace::Value::type_name);
    context.keys.asked(key, name.is_some());
    context.reply.simple(name.unwrap_or("none"));
    Ok(())
}

fn touch(context: &mut Context<'_>) -> Result<(), Failure> {
    let mut count = 0;
    for key in context.words.from(1) {
        count += i64::from(context.keys.value(key)?.is_some());
    }
    context.reply.integer(count);
    Ok(())
}
