//! Commands about the connection.

use keyspace::{Bytes, Failure};
use resp::Protocol;

use crate::{
    Context,
    cluster::Standing,
    server::Command,
    session::{Close, ReplyMode},
    table::{Categories, Flags},
};

const GROUP: &str = "connection";
const EASY: Flags = Flags::FAST.union(Flags::LOADING).union(Flags::STALE).union(Flags::TELLS_NO_KEYS);

const LEAVING: Flags = EASY
    .union(Flags::NOSCRIPT)
    .union(Flags::NO_AUTH)
    .union(Flags::ALLOW_BUSY)
    .union(Flags::NOT_QUEUED)
    .union(Flags::WHILE_LISTENING);

/// The group's commands.
pub const COMMANDS: &[Command] = &[
    Command::new("PING", -1, ping)
        .flags(Flags::FAST.union(Flags::WHILE_LISTENING).union(Flags::TELLS_NO_KEYS))
        .group(GROUP, Categories::CONNECTION)
        .docs("1.0.0", "O(1)", "Answers, to show that the server works.")
        .syntax("[message]"),
    Command::new("ECHO", 2, echo)
        .flags(EASY)
        .group(GROUP, Categories::CONNECTION)
        .docs("1.0.0", "O(1)", "Returns its argument.")
        .syntax("message"),
    Command::new("SELECT", 2, select)
        .flags(EASY)
        .group(GROUP, Categories::CONNECTION)
        .docs("1.0.0", "O(1)", "Changes the database of the connection.")
        .syntax("index:integer"),
    Command::new("QUIT", -1, quit).flags(LEAVING).group(GROUP, Categories::CONNECTION).docs(
        "1.0.0",
        "O(1)",
        "Closes the connection.",
    ),
    Command::new("AUTH", -2, auth)
        .secrets(|words, places| places.extend(1..words.len().min(3)))
        .flags(EASY.union(Flags::NOSCRIPT).union(Flags::NO_AUTH).union(Flags::ALLOW_BUSY))
        .group(GROUP, Categories::CONNECTION)
        .docs("1.0.0", "O(N) for N passwords of the user", "Logs the client in.")
        .syntax("[username@6.0.0] password"),
    Command::new("HELLO", -1, hello)
        .secrets(hello_secrets)
        .flags(EASY.union(Flags::NOSCRIPT).union(Flags::NO_AUTH).union(Flags::ALLOW_BUSY))
        .group(GROUP, Categories::CONNECTION)
        .docs("6.0.0", "O(1)", "Chooses the protocol's version, logs in, and describes the server.")
        .syntax("[arguments{protover:integer [AUTH/username_password{username password}] [SETNAME/clientname]}]"),
    Command::new("RESET", 1, reset).flags(LEAVING).group(GROUP, Categories::CONNECTION).docs(
        "6.2.0",
        "O(1)",
        "Resets the connection to its state at the beginning.",
    ),
];

fn ping(context: &mut Context<'_>) -> Result<(), Failure> {
    if context.words.len() > 2 {
        return Err(Failure::text("ERR wrong number of arguments for 'ping' command"));
    }
    if context.session.is_subscriber_only() {
        context.reply.array(2);
        context.reply.bulk(b"pong");
        context.reply.bulk(context.words.at(1));
        return Ok(());
    }
    match context.words.get(1) {
        Some(text) => context.reply.bulk(text),
        None => context.reply.simple("PONG"),
    }
    Ok(())
}

fn echo(context: &mut Context<'_>) -> Result<(), Failure> {
    context.reply.bulk(context.words.at(1));
    Ok(())
}

fn select(context: &mut Context<'_>) -> Result<(), Failure> {
    let number = context.words.integer(1)?;
    if i32::try_from(number).is_err() {
        return Err(Failure::text("ERR value is out of range, value must between -2147483648 and 2147483647"));
    }
    let number = usize::try_from(number).ok().filter(|number| *number < context.keys.space().len());
    let number = number.ok_or(Failure::DatabaseRange)?;
    if number > 0 && context.shared.cluster.is_some() {
        return Err(Failure::text("ERR SELECT is not allowed in cluster mode"));
    }
    context.session.db = number;
    context.reply.ok();
    Ok(())
}

fn quit(context: &mut Context<'_>) -> Result<(), Failure> {
    context.session.close = Close::AfterOutput;
    context.reply.ok();
    Ok(())
}

/// Takes a name and a password.
fn authenticate(context: &mut Context<'_>, user: &[u8], password: &[u8]) -> Result<(), Failure> {
    if context.shared.authenticate(context.session, user, password, context.words.at(0)) {
        return Ok(());
    }
    Err(Failure::text("WRONGPASS invalid username-password pair or user is disabled."))
}

fn auth(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    match words.len() {
        2 => {
            if context.shared.sessions.acl.default_user().nopass {
                return Err(Failure::text(
                    "ERR AUTH <password> called without any password configured for the default user. Are you sure your \
                     configuration is correct?",
                ));
            }
            authenticate(context, b"default", words.at(1))?;
        }
        3 => authenticate(context, words.at(1), words.at(2))?,
        _ => return Err(Failure::Syntax),
    }
    context.reply.ok();
    Ok(())
}

/// Gives the connection a name; an empty one takes it away.
pub(super) fn set_name(context: &mut Context<'_>, name: &[u8]) -> Result<(), Failure> {
    if !name.iter().all(u8::is_ascii_graphic) {
        return Err(Failure::text("ERR Client names cannot contain spaces, newlines or special characters."));
    }
    context.session.name = Bytes::from_slice(name);
    Ok(())
}

/// The name and the password of `HELLO`.
fn hello_secrets(words: &[&[u8]], places: &mut Vec<usize>) {
    if let Some(place) = words.iter().skip(2).position(|word| word.eq_ignore_ascii_case(b"AUTH")) {
        places.extend([place + 3, place + 4]);
    }
}

fn hello(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    let mut protocol = context.session.protocol;
    let mut at = 1;
    if let Some(version) = words.get(1) {
        protocol = match keyspace::number::parse_integer(version) {
            Some(2) => Protocol::Resp2,
            Some(3) => Protocol::Resp3,
            Some(_) => return Err(Failure::text("NOPROTO unsupported protocol version")),
            None => return Err(Failure::text("ERR Protocol version is not an integer or out of range")),
        };
        at = 2;
    }
    while at < words.len() {
        if words.is(at, "AUTH") && at + 2 < words.len() {
            authenticate(context, words.at(at + 1), words.at(at + 2))?;
            at += 3;
        } else if words.is(at, "SETNAME") && at + 1 < words.len() {
            set_name(context, words.at(at + 1))?;
            at += 2;
        } else {
            return Err(Failure::quoting(&[b"ERR Syntax error in HELLO option '", words.at(at), b"'"]));
        }
    }
    if !context.session.access.authenticated {
        return Err(Failure::text(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> \
             option can be used to authenticate the client and select the RESP protocol version at the same time",
        ));
    }
    context.session.protocol = protocol;
    context.reply.set_protocol(protocol);
    let reply = &mut context.reply;
    reply.map(7);
    for (name, value) in [("server", "redis"), ("version", crate::REDIS_VERSION)] {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"proto");
    reply.integer(if protocol == Protocol::Resp3 { 3 } else { 2 });
    reply.bulk(b"id");
    reply.integer(context.session.id.0 as i64);
    let mode = if context.shared.cluster.is_some() { "cluster" } else { "standalone" };
    for (name, value) in [("mode", mode), ("role", "master")] {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"modules");
    reply.array(0);
    Ok(())
}

fn reset(context: &mut Context<'_>) -> Result<(), Failure> {
    let session = &mut *context.session;
    context.shared.unwatch(session);
    context.shared.sessions.unsubscribe_all(session);
    context.shared.untrack(session);
    context.shared.end_monitoring(session);
    session.transaction = None;
    session.db = 0;
    session.protocol = Protocol::Resp2;
    session.name.clear();
    context.shared.forget_passed_on(session);
    session.standing = Standing::default();
    context.shared.promise_replicas(session, 0);
    context.shared.set_imports(session, false);
    session.reply_mode = ReplyMode::On;
    context.shared.sessions.become_default(session);
    context.reply.set_protocol(Protocol::Resp2);
    context.reply.simple("RESET");
    Ok(())
}
