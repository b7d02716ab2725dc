//! `DEBUG`: what tests need to look inside, and to bring about what otherwise takes luck.

use std::ops::RangeInclusive;

use keyspace::{Bytes, Expiry, Failure, Keyspace, Value, changes::EventClass, digest, glob, rdb};
use resp::{Protocol, Reply};

use crate::{
    Context,
    server::{Command, Handler, Request},
    table::{Categories, Flags},
};

/// The group's commands.
pub const COMMANDS: &[Command] = &[Command::new("DEBUG", -2, debug)
    .flags(Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::LOADING).union(Flags::STALE).union(Flags::MEETS_ALL_KEYS))
    .group("server", Categories::empty())
    .docs(
        "1.0.0",
        "depends on the subcommand",
        "Looks inside the server, for tests; `enable-debug-command` allows it.",
    )];

/// Keys that `DEBUG POPULATE` makes at most.
const POPULATE_MAX: i64 = 100_000_000;

/// A name, how many words it takes with the two names, and what runs it.
type Subcommand = (&'static str, RangeInclusive<usize>, Handler);

const SUBCOMMANDS: &[Subcommand] = &[
    ("CHANGE-REPL-ID", 2..=2, nothing),
    ("CONFIG-REWRITE-FORCE-ALL", 2..=2, nothing),
    ("DIGEST", 2..=2, whole_digest),
    ("DIGEST-VALUE", 2..=usize::MAX, digests),
    ("ERROR", 3..=3, error),
    ("HELP", 2..=2, help),
    ("HTSTATS", 3..=4, table_statistics),
    ("HTSTATS-KEY", 3..=4, table_statistics),
    ("JMAP", 2..=2, nothing),
    ("LISTPACK", 3..=3, listpack),
    ("LOADAOF", 2..=2, load_log),
    ("LOG", 3..=3, nothing),
    ("OBJECT", 3..=4, object),
    ("PAUSE-CRON", 3..=3, pause_periodic),
    ("POPULATE", 3..=5, populate),
    ("PROTOCOL", 3..=3, protocol),
    ("QUICKLIST-PACKED-THRESHOLD", 3..=3, nothing),
    ("RELOAD", 2..=5, reload),
    ("REPLICATE", 4..=usize::MAX, nothing),
    ("REPLYBUFFER", 3..=4, nothing),
    ("SET-ACTIVE-EXPIRE", 3..=3, active_expire),
    ("SET-DISABLE-DENY-SCRIPTS", 3..=3, allow_scripts),
    ("SLEEP", 3..=3, sleep),
    ("STRINGMATCH-LEN", 4..=4, match_length),
];

fn debug(context: &mut Context<'_>) -> Result<(), Failure> {
    if !context.may(context.shared.settings.enable_debug_command) {
        return Err(Failure::text(
            "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a \
             local connection, otherwise you need to set this option in the configuration file, and then restart the \
             server.",
        ));
    }
    let words = context.words;
    match SUBCOMMANDS.iter().find(|(name, ..)| words.is(1, name)) {
        Some((_, takes, run)) if takes.contains(&words.len()) => run(context),
        _ => Err(super::help::unknown("DEBUG", words)),
    }
}

fn help(context: &mut Context<'_>) -> Result<(), Failure> {
    const LINES: &[(&str, &str)] = &[
        ("DIGEST", "A digest of all data."),
        ("DIGEST-VALUE <key> [<key> ...]", "A digest of each value."),
        ("ERROR <text>", "Answer with an error of that text."),
        ("OBJECT <key>", "What a value is like inside."),
        ("PAUSE-CRON <0|1>", "Whether what is done each now and then is put off."),
        ("POPULATE <count> [<prefix>] [<size>]", "Make keys <prefix>:<number> that are not there yet."),
        ("PROTOCOL <type>", "Answer with a value of a type of the protocol."),
        ("RELOAD, LOADAOF", "Close log and tables and open them again."),
        (
            "SET-ACTIVE-EXPIRE <0|1>",
            "Whether keys are removed when their time comes, and not only when they are asked for.",
        ),
        ("SLEEP <seconds>", "Do nothing for a while."),
        ("STRINGMATCH-LEN <length> <pattern>", "Match a text of that length against a pattern."),
        (
            "CHANGE-REPL-ID, CONFIG-REWRITE-FORCE-ALL, HTSTATS, HTSTATS-KEY, JMAP, LISTPACK, LOG, QUICKLIST-PACKED-THRESHOLD, REPLICATE, REPLYBUFFER, SET-DISABLE-DENY-SCRIPTS",
            "Taken; what they change in Redis is not here.",
        ),
    ];
    super::help::reply(context, "DEBUG", LINES);
    Ok(())
}

/// What it would change is not here, or needs no such switch.
fn nothing(context: &mut Context<'_>) -> Result<(), Failure> {
    context.reply.ok();
    Ok(())
}

fn error(context: &mut Context<'_>) -> Result<(), Failure> {
    let text: String = String::from_utf8_lossy(context.words.at(2)).replace(['\r', '\n'], " ");
    Err(Failure::owned(text))
}

fn load_log(context: &mut Context<'_>) -> Result<(), Failure> {
    context.shared.outbox.push(Request::Reload);
    context.reply.ok();
    Ok(())
}

/// The log has all that there is, so nothing is saved first, and nothing is left that could be merged. What Redis would find
/// twice, as it was neither removed nor may be replaced, is refused.
fn reload(context: &mut Context<'_>) -> Result<(), Failure> {
    let (mut keep, mut merge) = (false, false);
    for index in 2..context.words.len() {
        match context.words.at(index).to_ascii_uppercase().as_slice() {
            b"NOFLUSH" => keep = true,
            b"MERGE" => merge = true,
            b"NOSAVE" => {}
            _ => {
                return Err(Failure::text("ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options."));
            }
        }
    }
    let has_keys = |space: &Keyspace| (0..space.len()).any(|db| space.database(db).is_some_and(|db| !db.is_empty()));
    if keep && !merge && (!context.shared.scripting.functions.is_empty() || has_keys(context.keys.space())) {
        return Err(Failure::text("ERR Error trying to load the RDB dump, check server logs."));
    }
    context.shared.outbox.push(Request::Reload);
    context.reply.ok();
    Ok(())
}

fn active_expire(context: &mut Context<'_>) -> Result<(), Failure> {
    context.shared.debug.active_expiry = context.words.integer(2)? != 0;
    context.reply.ok();
    Ok(())
}

fn pause_periodic(context: &mut Context<'_>) -> Result<(), Failure> {
    context.shared.debug.periodic_paused = context.words.integer(2)? != 0;
    context.reply.ok();
    Ok(())
}

fn allow_scripts(context: &mut Context<'_>) -> Result<(), Failure> {
    context.shared.debug.scripts_may_all = context.words.integer(2)? != 0;
    context.reply.ok();
    Ok(())
}

fn sleep(context: &mut Context<'_>) -> Result<(), Failure> {
    let seconds = keyspace::number::float(context.words.at(2))?;
    context.shared.debug.sleep_us += (seconds.max(0.0) * 1e6) as u64;
    context.reply.ok();
    Ok(())
}

fn whole_digest(context: &mut Context<'_>) -> Result<(), Failure> {
    let digest = digest::of_all(&mut context.keys)?;
    context.reply.simple(digest.hex());
    Ok(())
}

fn digests(context: &mut Context<'_>) -> Result<(), Failure> {
    let digests = context.words.from(2).iter().map(|key| digest::of_key(&mut context.keys, key));
    let digests = digests.collect::<Result<Vec<_>, _>>()?;
    context.reply.array(digests.len());
    digests.iter().for_each(|digest| context.reply.simple(digest.hex()));
    Ok(())
}

fn table_statistics(context: &mut Context<'_>) -> Result<(), Failure> {
    if context.words.is(1, "HTSTATS-KEY") && !context.keys.contains(context.words.at(2))? {
        return Err(Failure::NoSuchKey);
    }
    context.reply.verbatim(*b"txt", b"The tables here are not Redis'.\n");
    Ok(())
}

fn listpack(context: &mut Context<'_>) -> Result<(), Failure> {
    if !context.keys.contains(context.words.at(2))? {
        return Err(Failure::NoSuchKey);
    }
    context.reply.simple("Listpack structure printed on stdout");
    Ok(())
}

fn match_length(context: &mut Context<'_>) -> Result<(), Failure> {
    const LEN_MAX: usize = 1 << 28;
    let len = crate::arguments::positive(context.words.at(2), None)?.min(LEN_MAX);
    let text = vec![b'x'; len];
    context.reply.integer(i64::from(glob::matches(context.words.at(3), &text)));
    Ok(())
}

fn populate(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    let count = words.integer(2)?.clamp(0, POPULATE_MAX);
    let prefix = words.get(3).unwrap_or(b"key").to_vec();
    let size = words.get(4).map_or(Ok(0), |size| crate::arguments::positive(size, None))?;
    let mut effects = Vec::new();
    for number in 0..count {
        let key = [prefix.as_slice(), b":", number.to_string().as_bytes()].concat();
        if context.keys.contains(&key)? {
            continue;
        }
        let mut value = format!("value:{number}").into_bytes();
        if size > 0 {
            value.resize(size, 0);
        }
        let value = Bytes::from_vec(value);
        effects.push(vec![Bytes::from_slice(b"SET"), Bytes::from_slice(&key), value.clone()]);
        context.keys.set(&key, Value::String(value), Expiry::Clear)?;
        context.keys.modified(&key);
        context.keys.notify(EventClass::STRING, "set", &key);
    }
    context.keys.changes.propagate_instead(effects);
    context.reply.ok();
    Ok(())
}

fn protocol(context: &mut Context<'_>) -> Result<(), Failure> {
    let reply: &mut Reply<'_> = &mut context.reply;
    match context.words.at(2).to_ascii_lowercase().as_slice() {
        b"string" => reply.bulk(b"Hello World"),
        b"integer" => reply.integer(12345),
        // It is what Redis answers, not what it looks like.
        b"double" => reply.double_text(b"3.141"),
        b"null" => reply.null(),
        b"array" => {
            reply.array(3);
            (0..3).for_each(|number| reply.integer(number));
        }
        b"set" => {
            reply.set(3);
            (0..3).for_each(|number| reply.integer(number));
        }
        b"map" => {
            reply.map(3);
            (0..3).for_each(|number| {
                reply.integer(number);
                reply.boolean(number == 1);
            });
        }
        b"attrib" => {
            if reply.attribute(1) {
                reply.bulk(b"key-popularity");
                reply.array(2);
                reply.bulk(b"key:123");
                reply.integer(90);
            }
            reply.bulk(b"Some real reply following the attribute");
        }
        b"push" if reply.protocol() == Protocol::Resp2 => {
            return Err(Failure::text("ERR RESP2 is not supported by this command"));
        }
        b"push" => {
            reply.push(2);
            reply.bulk(b"server-cpu-usage");
            reply.integer(42);
            reply.bulk(b"Some real reply following the push reply");
        }
        b"verbatim" => reply.verbatim(*b"txt", b"This is a verbatim\nstring"),
        b"true" => reply.boolean(true),
        b"false" => reply.boolean(false),
        b"bignum" => reply.big_number(b"1234567999999999999999999999999999999"),
        _ => {
            return Err(Failure::text(
                "ERR Wrong protocol type name. Please use one of the following: \
                 string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false",
            ));
        }
    }
    Ok(())
}

/// What a value is like inside, as one line. It has no address here, and none is shared.
fn object(context: &mut Context<'_>) -> Result<(), Failure> {
    let usage = context.keys.space().usage.clone();
    let limit = context.shared.settings.list_max_listpack_size.0;
    let entry = context.keys.peek_stale(context.words.at(2))?.ok_or(Failure::NoSuchKey)?;
    let value = entry.value.as_ref().ok_or(Failure::NoSuchKey)?;
    let mut bytes = Vec::new();
    rdb::encode_value(value, &mut bytes);
    let mut text = format!(
        "Value at:0x0 refcount:1 encoding:{} serializedlength:{} lru:{} lru_seconds_idle:{}",
        super::keys::encoding_of(value),
        bytes.len().saturating_sub(1),
        usage.used_at(entry.touched),
        usage.age(entry.touched)
    );
    if let Value::List(list) = value {
        let nodes = list.nodes_len();
        let mut size = 0;
        list.each_node(|node| size += node.size());
        text += &format!(
            " ql_nodes:{nodes} ql_avg_node:{:.2} ql_listpack_max:{limit} ql_compressed:0 ql_uncompressed_size:{size}",
            list.len() as f64 / nodes.max(1) as f64
        );
    }
    context.reply.simple(&text);
    Ok(())
}
