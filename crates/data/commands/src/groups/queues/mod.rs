//! Queues: `QUEUE` and its subcommands. What they do is crate `queue`'s; here are their words, their replies, who waits for what, and
//! what the log gets.
//!
//! All that a queue does depends on the time. So the log has each command with the time at which it ran, behind the key: `AT ms`. Nobody
//! else may say it.

mod deal;
mod fill;
mod look;
mod manage;
mod options;
mod publish;
mod reserve;
mod settings;
mod show;

#[cfg(test)]
mod tests;

use keyspace::{
    Failure, Millis,
    changes::{Encoded, EventClass},
    value::Queue,
};

use crate::{
    Context,
    cluster::Peer,
    server::Command,
    table::{Access, Categories, Flags, KeySpec},
};

use super::help;

const GROUP: &str = "queue";
/// Where the key stands, and what follows it.
const KEY: usize = 2;
const BEHIND_KEY: usize = 3;

const NO_QUEUE: Failure =
    Failure::text("NOQUEUE There is no queue of this name: QUEUE CREATE makes one, and QUEUE PUSH does so too");

const fn one(access: Access) -> [KeySpec; 1] {
    [KeySpec::one(KEY, access)]
}

const READS: &[KeySpec] = &one(Access::RO.union(Access::ACCESS));
const ADDS: &[KeySpec] = &one(Access::RW.union(Access::INSERT));
const TAKES: &[KeySpec] = &one(Access::RW.union(Access::ACCESS).union(Access::DELETE));
const CHANGES: &[KeySpec] = &one(Access::RW.union(Access::UPDATE));
const REMOVES: &[KeySpec] = &one(Access::RW.union(Access::DELETE));

/// It may wait, but not where a log has it.
const WAITS: Flags = Flags::BLOCKING.union(Flags::IN_LOGS);

const fn command(name: &'static str, arity: i32, handler: crate::server::Handler) -> Command {
    Command::new(name, arity, handler).group(GROUP, Categories::QUEUE)
}

/// QUEUE.
pub const COMMANDS: &[Command] = &[Command::new("QUEUE", -2, |context| Err(help::unknown("QUEUE", context.words)))
    .group(GROUP, Categories::QUEUE)
    .docs("7.0.0", "depends on the subcommand", "Queues: messages that wait, and are given to one consumer at a time.")
    .subcommands(&[
        command("BURY", -4, deal::bury)
            .flags(Flags::WRITE.union(Flags::FAST))
            .keys(CHANGES)
            .docs("7.0.0", "O(log N)", "Has a message that is reserved die.")
            .syntax("key#0 receipt [REASON/reason]"),
        command("CONFIGURE", -4, settings::configure)
            .flags(Flags::WRITE.union(Flags::FAST))
            .keys(CHANGES)
            .docs("7.0.0", "O(1)", "Changes settings of a queue.")
            .syntax(settings::SYNTAX),
        command("CREATE", -3, settings::create)
            .flags(Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST))
            .keys(ADDS)
            .docs("7.0.0", "O(1)", "Makes a queue.")
            .syntax(settings::SYNTAX),
        command("DELETE", -4, deal::delete)
            .flags(Flags::WRITE.union(Flags::FAST))
            .keys(REMOVES)
            .docs("7.0.0", "O(log N) for each receipt", "Removes messages that are done.")
            .syntax("key#0 receipt..."),
        command("FILL", -5, fill::fill)
            .flags(Flags::WRITE.union(Flags::NOSCRIPT).union(Flags::NO_MULTI))
            .keys(&one(Access::OW.union(Access::INSERT)))
            .group(GROUP, Categories::QUEUE.union(Categories::DANGEROUS))
            .docs("7.0.0", "O(N) for N records", "Makes a queue of another store's records: for copies between stores.")
            .syntax("key#0 [HEADER/header] [RECORDS/record{name value}...]"),
        command("HELP", 2, help_reply).flags(Flags::LOADING.union(Flags::STALE)).docs(
            "7.0.0",
            "O(1)",
            "Lists the subcommands.",
        ),
        command("MOVE", -4, manage::move_messages)
            .flags(Flags::WRITE.union(Flags::DENYOOM))
            .keys(&[KeySpec::one(2, Access::RW.union(Access::ACCESS).union(Access::DELETE)), KeySpec::one(3, Access::RW.union(Access::INSERT))])
            .docs("7.0.0", "O(log N) for each message", "Takes messages to another queue.")
            .syntax("source#0 destination#1 [STATE/state] [COUNT/count:integer] [IDS/id...]"),
        command("PAUSE", -3, manage::pause)
            .flags(Flags::WRITE.union(Flags::FAST))
            .keys(CHANGES)
            .docs("7.0.0", "O(1)", "Gives nothing until QUEUE RESUME, or for some time.")
            .syntax("key#0 [milliseconds:integer]"),
        command("PEEK", -3, look::peek)
            .flags(Flags::READONLY)
            .keys(READS)
            .docs("7.0.0", "O(log N) for each message", "Shows messages without reserving them.")
            .syntax("key#0 [STATE/state] [COUNT/count:integer] [FROM/from:integer] [IDS/id...]"),
        command("PURGE", -3, manage::purge)
            .flags(Flags::WRITE)
            .keys(REMOVES)
            .docs("7.0.0", "O(1) for all, O(log N) for each message of a state", "Removes messages.")
            .syntax("key#0 [STATE/state] [COUNT/count:integer]"),
        command("PUSH", -4, publish::push)
            .flags(Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST).union(WAITS))
            .keys(ADDS)
            .docs("7.0.0", "O(log N) for each message", "Publishes messages.")
            .syntax("key#0 [ID/id] [GROUP/group] [PRIORITY/priority:integer] [DELAY/delay:integer] [EXPIRE/expire:integer] [REPLYTO/reply_to] [HEADER/header{name value}...*] [BLOCK/block:integer] [BODY/body...] [IDBODY/idbody{id body}...]"),
        command("REDRIVE", -3, manage::redrive)
            .flags(Flags::WRITE)
            .keys(CHANGES)
            .docs("7.0.0", "O(log N) for each message", "Has dead messages live again.")
            .syntax("key#0 [REASON/reason] [COUNT/count:integer] [FROM/from:integer] [IDS/id...]"),
        command("RELEASE", -4, deal::release)
            .flags(Flags::WRITE.union(Flags::FAST))
            .keys(CHANGES)
            .docs("7.0.0", "O(log N)", "Gives a message back that is reserved.")
            .syntax("key#0 receipt [DELAY/delay:integer] [REASON/reason] [UNCOUNTED]"),
        command("REMOVE", -4, manage::remove)
            .flags(Flags::WRITE)
            .keys(REMOVES)
            .docs("7.0.0", "O(log N) for each id", "Removes messages by their ids, whoever has them.")
            .syntax("key#0 id..."),
        command("RESERVE", -3, reserve::reserve)
            .flags(Flags::WRITE.union(Flags::FAST).union(WAITS))
            .keys(TAKES)
            .docs("7.0.0", "O(log N) for each message", "Reserves messages; can wait until there are any.")
            .syntax("key#0 [COUNT/count:integer] [BYTES/bytes:integer] [TIMEOUT/timeout:integer] [BLOCK/block:integer] [CONSUMER/consumer]"),
        command("RESUME", 3, manage::resume)
            .flags(Flags::WRITE.union(Flags::FAST))
            .keys(CHANGES)
            .docs("7.0.0", "O(1)", "Ends a pause.")
            .syntax("key#0"),
        command("STAT", 3, look::stat)
            .flags(Flags::READONLY)
            .keys(READS)
            .docs("7.0.0", "O(1); O(N) for N messages that are due", "Shows the figures of a queue.")
            .syntax("key#0"),
        command("TIDY", 3, manage::tidy)
            .flags(Flags::WRITE)
            .keys(CHANGES)
            .docs("7.0.0", "O(1)", "Does some of what is due; other commands do so too.")
            .syntax("key#0"),
        command("TOUCH", -4, deal::touch)
            .flags(Flags::WRITE.union(Flags::FAST))
            .keys(CHANGES)
            .docs("7.0.0", "O(log N)", "Lengthens a reservation.")
            .syntax("key#0 receipt [TIMEOUT/timeout:integer] [NEW]"),
    ])];

fn help_reply(context: &mut Context<'_>) -> Result<(), Failure> {
    let lines = [
        ("BURY <key> <receipt> [REASON <text>]", "Has a message that is reserved die."),
        (
            "CONFIGURE <key> <setting> <value> [...]",
            "Changes MAXLEN, MAXBYTES, OVERFLOW, MAXDEAD, ATTEMPTS, TIMEOUT, DELAY, EXPIRE, WINDOW, DURABILITY.",
        ),
        ("CREATE <key> [<setting> <value> ...]", "Makes a queue."),
        ("DELETE <key> <receipt> [...]", "Removes messages that are done."),
        (
            "MOVE <source> <destination> [STATE <state>] [COUNT <count>] [IDS <id> ...]",
            "Takes messages to another queue.",
        ),
        ("PAUSE <key> [<milliseconds>]", "Gives nothing until RESUME, or for some time."),
        (
            "PEEK <key> [STATE <state>] [COUNT <count>] [FROM <id>] [IDS <id> ...]",
            "Shows messages without reserving them.",
        ),
        ("PURGE <key> [STATE <state> [COUNT <count>]]", "Removes all messages, or those of a state."),
        ("PUSH <key> <body>", "Publishes a message."),
        (
            "PUSH <key> [<option> ...] BODY <body> [...]",
            "Publishes messages with ID, GROUP, PRIORITY, DELAY, EXPIRE, REPLYTO, HEADER, BLOCK.",
        ),
        ("PUSH <key> [<option> ...] IDBODY <id> <body> [...]", "Publishes messages with an id each."),
        ("REDRIVE <key> [REASON <text>] [COUNT <count>] [FROM <id>] [IDS <id> ...]", "Has dead messages live again."),
        ("RELEASE <key> <receipt> [DELAY <ms>] [REASON <text>] [UNCOUNTED]", "Gives a message back."),
        ("REMOVE <key> <id> [...]", "Removes messages, whoever has them."),
        (
            "RESERVE <key> [COUNT <count>] [BYTES <bytes>] [TIMEOUT <ms>] [BLOCK <ms>] [CONSUMER <name>]",
            "Reserves messages.",
        ),
        ("RESUME <key>", "Ends a pause."),
        ("STAT <key>", "Shows the figures of a queue."),
        ("TIDY <key>", "Does some of what is due."),
        ("TOUCH <key> <receipt> [TIMEOUT <ms>] [NEW]", "Lengthens a reservation."),
    ];
    help::reply(context, "QUEUE", &lines);
    Ok(())
}

/// When a command is run, and where its words go on.
#[derive(Debug, Clone, Copy)]
struct Begun<'a> {
    key: &'a [u8],
    now: Millis,
    /// The first word behind the key, and the time.
    from: usize,
}

/// Begins a command of one key. The log says when it ran.
fn begin<'a>(context: &Context<'a>) -> Result<Begun<'a>, Failure> {
    begin_behind(context, BEHIND_KEY)
}

/// The same with more than one word in front of the time.
fn begin_behind<'a>(context: &Context<'a>, from: usize) -> Result<Begun<'a>, Failure> {
    let words = context.words;
    let key = words.at(KEY);
    if is_log(context) && words.is(from, "AT") && words.len() > from + 1 {
        return Ok(Begun { key, now: words.integer(from + 1)?, from: from + 2 });
    }
    Ok(Begun { key, now: context.now(), from })
}

/// Whether a command comes out of a log: of this shard, of its master, of a shard whose slots come here.
fn is_log(context: &Context<'_>) -> bool {
    let session = &context.session;
    session.replaying || session.is_master || session.imports || matches!(session.standing.peer, Peer::Mover { .. })
}

/// Notes that a queue has changed, and has the log get the command with its time: the words up to the key, and those from one on.
fn changed(context: &mut Context<'_>, begun: Begun<'_>, event: &'static str) {
    let words = context.words;
    log(context, &[begun.key], begun, begun.from..words.len());
    note(context, begun, event);
}

/// Notes that a queue has changed.
fn note(context: &mut Context<'_>, begun: Begun<'_>, event: &'static str) {
    context.keys.modified(begun.key);
    context.keys.notify(EventClass::QUEUE, event, begun.key);
}

/// Has the log get a command: the name as it is, keys, the time, and some of the words.
fn log(context: &mut Context<'_>, keys: &[&[u8]], begun: Begun<'_>, rest: std::ops::Range<usize>) {
    let words = context.words;
    let name = words.at(1).to_ascii_uppercase();
    let rest = rest.filter(|place| *place < words.len());
    let mut encoded = head(&name, keys, begun.now, rest.clone().count());
    rest.for_each(|place| encoded.received_word(context.session.sent.as_ref(), place, words.at(place)));
    context.keys.changes.propagate_encoded(encoded);
}

/// The beginning of a command of the log, with so many words to follow.
fn head(name: &[u8], keys: &[&[u8]], now: Millis, more: usize) -> Encoded {
    let mut encoded = Encoded::default();
    encoded.command(4 + keys.len() + more);
    encoded.word(b"QUEUE");
    encoded.word(name);
    keys.iter().for_each(|key| encoded.word(key));
    encoded.word(b"AT");
    encoded.word(&keyspace::number::integer_bytes(now));
    encoded
}

/// The queue of a key, which must be there, to be changed.
fn queue_mut<'k>(context: &'k mut Context<'_>, key: &[u8]) -> Result<&'k mut Queue, Failure> {
    context.keys.get_mut::<Queue>(key)?.ok_or(NO_QUEUE)
}

/// The same to be looked at.
fn queue<'k>(context: &'k mut Context<'_>, key: &[u8]) -> Result<&'k Queue, Failure> {
    context.keys.get::<Queue>(key)?.ok_or(NO_QUEUE)
}
