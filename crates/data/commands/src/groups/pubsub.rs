//! Messages to whoever listens.

use keyspace::{Bytes, Failure, glob};

use crate::{
    Context,
    groups::help,
    pubsub::Medium,
    server::Command,
    table::{Access, Categories, ChannelWords, Flags, KeySpec},
};

const GROUP: &str = "pubsub";
const LISTEN: Flags = Flags::PUBSUB
    .union(Flags::NOSCRIPT)
    .union(Flags::LOADING)
    .union(Flags::STALE)
    .union(Flags::WHILE_LISTENING)
    .union(Flags::PUSHES)
    .union(Flags::TELLS_NO_KEYS);
const SEND: Flags = Flags::PUBSUB
    .union(Flags::LOADING)
    .union(Flags::STALE)
    .union(Flags::FAST)
    .union(Flags::MAY_REPLICATE)
    .union(Flags::TELLS_NO_KEYS);

/// The group's commands.
pub const COMMANDS: &[Command] = &[
    Command::new("SUBSCRIBE", -2, |context| subscribe(context, Medium::Channel, b"subscribe"))
        .channels(ChannelWords::ALL)
        .flags(LISTEN)
        .group(GROUP, Categories::PUBSUB)
        .docs("2.0.0", "O(N) for N channels", "Listens to channels.")
        .syntax("channel..."),
    Command::new("UNSUBSCRIBE", -1, |context| unsubscribe(context, Medium::Channel, b"unsubscribe"))
        .flags(LISTEN)
        .group(GROUP, Categories::PUBSUB)
        .docs("2.0.0", "O(N) for N channels", "Stops listening to channels, or to all if none are given.")
        .syntax("[channel...]"),
    Command::new("PSUBSCRIBE", -2, |context| subscribe(context, Medium::Pattern, b"psubscribe"))
        .channels(ChannelWords::PATTERNS)
        .flags(LISTEN)
        .group(GROUP, Categories::PUBSUB)
        .docs("2.0.0", "O(N) for N patterns", "Listens to all channels whose names match patterns.")
        .syntax("pattern{pattern:pattern}..."),
    Command::new("PUNSUBSCRIBE", -1, |context| unsubscribe(context, Medium::Pattern, b"punsubscribe"))
        .flags(LISTEN)
        .group(GROUP, Categories::PUBSUB)
        .docs("2.0.0", "O(N) for N patterns", "Stops listening to patterns, or to all patterns if none are given.")
        .syntax("[pattern:pattern...]"),
    Command::new("SSUBSCRIBE", -2, |context| subscribe(context, Medium::Shard, b"ssubscribe"))
        .channels(ChannelWords::ALL)
        .flags(LISTEN)
        .keys(&[KeySpec::range(1, -1, 1, Access::NOT_KEY)])
        .group(GROUP, Categories::PUBSUB)
        .docs("7.0.0", "O(N) for N channels", "Listens to sharded channels.")
        .syntax("shardchannel..."),
    Command::new("SUNSUBSCRIBE", -1, |context| unsubscribe(context, Medium::Shard, b"sunsubscribe"))
        .flags(LISTEN)
        .keys(&[KeySpec::range(1, -1, 1, Access::NOT_KEY)])
        .group(GROUP, Categories::PUBSUB)
        .docs("7.0.0", "O(N) for N channels", "Stops listening to sharded channels, or to all if none are given.")
        .syntax("[shardchannel...]"),
    Command::new("PUBLISH", 3, |context| publish(context, Medium::Channel))
        .channels(ChannelWords::ONE)
        .flags(SEND)
        .group(GROUP, Categories::PUBSUB)
        .docs("2.0.0", "O(N+M) for N listeners and M patterns", "Sends a message to all listeners of a channel.")
        .syntax("channel message"),
    Command::new("SPUBLISH", 3, |context| publish(context, Medium::Shard))
        .channels(ChannelWords::ONE)
        .flags(SEND)
        .keys(&[KeySpec::one(1, Access::NOT_KEY)])
        .group(GROUP, Categories::PUBSUB)
        .docs("7.0.0", "O(N) for N listeners", "Sends a message to all listeners of a sharded channel.")
        .syntax("shardchannel message"),
    Command::new("PUBSUB", -2, |_| Err(Failure::Syntax))
        .group(GROUP, Categories::empty())
        .docs("2.8.0", "depends on the subcommand", "Shows which channels have listeners.")
        .subcommands(&[
            inspect("CHANNELS", -2, channels)
                .docs("2.8.0", "O(N) for N channels", "Lists the channels that have listeners.")
                .syntax("[pattern:pattern]"),
            Command::new("HELP", 2, help)
                .flags(Flags::LOADING.union(Flags::STALE))
                .group(GROUP, Categories::empty())
                .docs("6.2.0", "O(1)", "Lists the subcommands."),
            inspect("NUMPAT", 2, numpat).docs("2.8.0", "O(1)", "Counts the patterns that clients listen to."),
            inspect("NUMSUB", -2, numsub)
                .docs("2.8.0", "O(N) for N channels", "Counts the listeners of each channel.")
                .syntax("[channel...]"),
            inspect("SHARDCHANNELS", -2, shard_channels)
                .docs("7.0.0", "O(N) for N channels", "Lists the sharded channels that have listeners.")
                .syntax("[pattern:pattern]"),
            inspect("SHARDNUMSUB", -2, shard_numsub)
                .docs("7.0.0", "O(N) for N channels", "Counts the listeners of each sharded channel.")
                .syntax("[shardchannel...]"),
        ]),
];

fn help(context: &mut Context<'_>) -> Result<(), Failure> {
    const LINES: &[(&str, &str)] = &[
        ("CHANNELS [<pattern>]", "Lists the channels that have listeners."),
        ("NUMPAT", "Counts the patterns that clients listen to."),
        ("NUMSUB [<channel> ...]", "Counts the listeners of each channel."),
        ("SHARDCHANNELS [<pattern>]", "Lists the sharded channels that have listeners."),
        ("SHARDNUMSUB [<shardchannel> ...]", "Counts the listeners of each sharded channel."),
    ];
    super::help::reply(context, "PUBSUB", LINES);
    Ok(())
}

const fn inspect(name: &'static str, arity: i32, handler: crate::server::Handler) -> Command {
    Command::new(name, arity, handler)
        .flags(Flags::PUBSUB.union(Flags::LOADING).union(Flags::STALE).union(Flags::TELLS_NO_KEYS))
        .group(GROUP, Categories::PUBSUB)
}

/// What the reply counts: sharded channels are counted by themselves.
fn count(context: &Context<'_>, medium: Medium) -> usize {
    let session = &context.session;
    if medium == Medium::Shard { session.listening.shard_channels.len() } else { session.subscriptions() }
}

fn subscribe(context: &mut Context<'_>, medium: Medium, kind: &[u8]) -> Result<(), Failure> {
    // Transactions may, although several replies come of one command, for the sake of old clients.
    if context.session.deny_blocking && (context.session.internal || medium == Medium::Shard) {
        let name = String::from_utf8_lossy(kind).to_ascii_uppercase();
        return Err(Failure::owned(format!("ERR {name} isn't allowed for a DENY BLOCKING client")));
    }
    for name in context.words.from(1) {
        context.shared.sessions.subscribe(context.session, medium, name);
        let count = count(context, medium);
        context.reply.push(3);
        context.reply.bulk(kind);
        context.reply.bulk(name);
        context.reply.count(count);
    }
    Ok(())
}

fn unsubscribe(context: &mut Context<'_>, medium: Medium, kind: &[u8]) -> Result<(), Failure> {
    let mut names: Vec<Bytes> = context.words.from(1).iter().map(|name| Bytes::from_slice(name)).collect();
    if names.is_empty() {
        names.extend(context.session.listening(medium).iter().cloned());
        names.sort_unstable();
    }
    for name in &names {
        context.shared.sessions.unsubscribe(context.session, medium, name);
        let count = count(context, medium);
        context.reply.push(3);
        context.reply.bulk(kind);
        context.reply.bulk(name);
        context.reply.count(count);
    }
    if names.is_empty() {
        let count = count(context, medium);
        context.reply.push(3);
        context.reply.bulk(kind);
        context.reply.null();
        context.reply.count(count);
    }
    Ok(())
}

fn publish(context: &mut Context<'_>, medium: Medium) -> Result<(), Failure> {
    let (channel, text) = (context.words.at(1), context.words.at(2));
    let id = context.session.id;
    // What a script calls answers the script, and not its client; what is not answered is no place for a message either.
    let has_place = !context.session.internal && context.session.replies_wanted();
    let mut own = has_place.then_some((id, &mut context.reply));
    // A message that a replica of a cluster hands on comes back to it by its master.
    let comes_back = medium == Medium::Channel && context.shared.hands_on(context.session, channel, text);
    let receivers = if comes_back {
        context.shared.sessions.listeners(channel)
    } else {
        context.shared.publish(medium, channel, text, &mut own)
    };
    context.reply.count(receivers);
    crate::groups::replication::tell_replicas(context);
    Ok(())
}

fn reply_names(context: &mut Context<'_>, mut names: Vec<Bytes>) {
    if let Some(pattern) = context.words.get(2) {
        names.retain(|name| glob::matches(pattern, name));
    }
    context.reply.array(names.len());
    for name in &names {
        context.reply.bulk(name);
    }
}

/// Names are asked for by one pattern at most.
fn one_pattern(context: &Context<'_>) -> Result<(), Failure> {
    if context.words.len() > 3 { Err(help::unknown("PUBSUB", context.words)) } else { Ok(()) }
}

fn channels(context: &mut Context<'_>) -> Result<(), Failure> {
    one_pattern(context)?;
    let names = context.shared.sessions.pubsub.channels.keys().cloned().collect();
    reply_names(context, names);
    Ok(())
}

fn shard_channels(context: &mut Context<'_>) -> Result<(), Failure> {
    one_pattern(context)?;
    let names = context.shared.sessions.pubsub.shards.keys().cloned().collect();
    reply_names(context, names);
    Ok(())
}

fn numpat(context: &mut Context<'_>) -> Result<(), Failure> {
    let count = context.shared.sessions.pubsub.patterns.len();
    context.reply.count(count);
    Ok(())
}

fn numsub(context: &mut Context<'_>) -> Result<(), Failure> {
    let names = context.words.from(2);
    context.reply.array(names.len() * 2);
    for name in names {
        context.reply.bulk(name);
        context.reply.count(context.shared.sessions.pubsub.channels.get(*name).map_or(0, Vec::len));
    }
    Ok(())
}

fn shard_numsub(context: &mut Context<'_>) -> Result<(), Failure> {
    let names = context.words.from(2);
    context.reply.array(names.len() * 2);
    for name in names {
        context.reply.bulk(name);
        context.reply.count(context.shared.sessions.pubsub.shards.get(*name).map_or(0, Vec::len));
    }
    Ok(())
}
