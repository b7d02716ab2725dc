//! Commands about keys of any type.

use crate::{
    Context, Failure,
    changes::EventClass,
    table::{Access, Categories, Command, Flags, KeySpec},
};

const GROUP: &str = "generic";

/// The group's commands.
pub const COMMANDS: &[Command] = &[
    Command::new("DEL", -2, del)
        .flags(Flags::WRITE)
        .keys(&[KeySpec::range(1, -1, 1, Access::RM.union(Access::DELETE))])
        .group(GROUP, Categories::KEYSPACE)
        .docs("1.0.0", "O(1) for each key", "Removes keys."),
    Command::new("UNLINK", -2, del)
        .flags(Flags::WRITE.union(Flags::FAST))
        .keys(&[KeySpec::range(1, -1, 1, Access::RM.union(Access::DELETE))])
        .group(GROUP, Categories::KEYSPACE)
        .docs("4.0.0", "O(1) for each key", "Removes keys; what they held is freed in the background."),
    Command::new("EXISTS", -2, exists)
        .flags(Flags::READONLY.union(Flags::FAST))
        .keys(&[KeySpec::range(1, -1, 1, Access::RO)])
        .group(GROUP, Categories::KEYSPACE)
        .docs("1.0.0", "O(1) for each key", "How many of the keys are there."),
    Command::new("TYPE", 2, type_of)
        .flags(Flags::READONLY.union(Flags::FAST))
        .keys(&[KeySpec::one(1, Access::RO)])
        .group(GROUP, Categories::KEYSPACE)
        .docs("1.0.0", "O(1)", "The type of what a key holds."),
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
        count += i64::from(context.keys.value(key)?.is_some());
    }
    context.reply.integer(count);
    Ok(())
}

fn type_of(context: &mut Context<'_>) -> Result<(), Failure> {
    let name = context.keys.peek(context.words.at(1))?.and_then(|entry| entry.value.as_ref());
    context.reply.simple(name.map_or("none", crate::Value::type_name));
    Ok(())
}
