//! `CLIENT`: about connections.

mod kill;
mod list;
mod tracking;

use keyspace::Failure;

use crate::{
    Context, SessionId,
    server::{Command, Handler},
    session::ReplyMode,
    table::{Categories, Flags},
};

use super::{connection, help, replication};

const GROUP: &str = "connection";
/// The most replicas that a connection can ask for.
const REPLICAS_MAX: usize = 100;
const EASY: Flags = Flags::NOSCRIPT.union(Flags::LOADING).union(Flags::STALE).union(Flags::TELLS_NO_KEYS);
const ADMIN: Flags = EASY.union(Flags::ADMIN);

const fn easy(name: &'static str, arity: i32, handler: Handler) -> Command {
    Command::new(name, arity, handler).flags(EASY).group(GROUP, Categories::CONNECTION)
}

const fn admin(name: &'static str, arity: i32, handler: Handler) -> Command {
    Command::new(name, arity, handler).flags(ADMIN).group(GROUP, Categories::CONNECTION)
}

/// The group's commands.
pub const COMMANDS: &[Command] = &[Command::new("CLIENT", -2, |_| Err(Failure::Syntax))
    .flags(Flags::KEEPS_CACHING)
    .group(GROUP, Categories::empty())
    .docs("2.4.0", "depends on the subcommand", "About connections.")
    .subcommands(&[
        easy("CACHING", 3, tracking::caching).docs("6.0.0", "O(1)", "Whether what the next command reads is tracked.").syntax("mode<YES|NO>"),
        easy("GETNAME", 2, getname).docs("2.6.9", "O(1)", "The name of the connection."),
        easy("GETREDIR", 2, tracking::getredir).docs(
            "6.0.0",
            "O(1)",
            "Who is told of stale keys instead of the connection.",
        ),
        easy("HELP", 2, show_help).docs("5.0.0", "O(1)", "The subcommands."),
        easy("ID", 2, id).docs("5.0.0", "O(1)", "The number of the connection."),
        easy("INFO", 2, list::info).docs("6.2.0", "O(1)", "The connection's line of CLIENT LIST."),
        admin("IMPORT-SOURCE", 3, import_source).docs(
            "8.1.0",
            "O(1)",
            "Whether what the connection sends comes from another server: for it no key has expired, and meanwhile no key is removed before somebody asks for it (Valkey).",
        ).syntax("enabled<ON|OFF>"),
        admin("KILL", -3, kill::kill).docs("2.4.0", "O(N) for N clients", "Closes connections.").syntax("filter<ip:port!2.8.12|new-format<[ID/client-id:integer@2.8.12]|[TYPE/normal_master_slave_pubsub<NORMAL|MASTER@3.2.0|SLAVE|REPLICA@5.0.0|PUBSUB>@2.8.12]|[USER/username]|[ADDR/ip:port]|[LADDR/ip:port@6.2.0]|[SKIPME/yes/no]>...>"),
        admin("LIST", -2, list::list).docs("2.4.0", "O(N) for N clients", "A line for each connection.").syntax("[TYPE/normal_master_replica_pubsub<NORMAL|MASTER|REPLICA|PUBSUB>@5.0.0] [ID/id{client-id:integer...}@6.2.0]"),
        admin("NO-EVICT", 3, no_evict).docs(
            "7.0.0",
            "O(1)",
            "Whether the connection may be closed because clients take too much memory.",
        ).syntax("enabled<ON|OFF>"),
        admin("PAUSE", -3, pause).flags(ADMIN.union(Flags::MEETS_ALL_KEYS)).docs("2.9.50", "O(1)", "Has commands wait for some time: all, or those that write.").syntax("timeout:integer [mode<WRITE|ALL>@6.2.0]"),
        easy("REPLICA-ACK", -2, replica_ack).docs(
            "7.0.0",
            "O(1)",
            "So many replicas have what the connection is told of before it is told.",
        ).syntax("[replicas:integer]"),
        easy("REPLY", 3, reply).docs("3.2.0", "O(1)", "Says whether commands are answered.").syntax("on_off_skip<ON|OFF|SKIP>"),
        easy("SETNAME", 3, setname).docs("2.6.9", "O(1)", "Gives the connection a name.").syntax("connection-name"),
        easy("TRACKING", -3, tracking::tracking).docs(
            "6.0.0",
            "O(N) for N prefixes",
            "Whether the connection is told when keys change that it has in a cache.",
        ).syntax("status<ON|OFF> [REDIRECT/client-id:integer] [PREFIX/prefix...*] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]"),
        easy("TRACKINGINFO", 2, tracking::trackinginfo).docs(
            "6.2.0",
            "O(1)",
            "What the connection is told of its keys.",
        ),
        admin("UNBLOCK", -3, unblock).docs(
            "5.0.0",
            "O(log N) for N waiting clients",
            "Ends another connection's waiting for keys.",
        ).syntax("client-id:integer [timeout_error<TIMEOUT|ERROR>]"),
        admin("UNPAUSE", 2, unpause).docs("6.2.0", "O(N) for N waiting clients", "Ends what CLIENT PAUSE began."),
    ])];

fn getname(context: &mut Context<'_>) -> Result<(), Failure> {
    let name = &context.session.name;
    context.reply.bulk_or_null(Some(name.as_slice()).filter(|name| !name.is_empty()));
    Ok(())
}

fn setname(context: &mut Context<'_>) -> Result<(), Failure> {
    connection::set_name(context, context.words.at(2))?;
    context.reply.ok();
    Ok(())
}

fn id(context: &mut Context<'_>) -> Result<(), Failure> {
    context.reply.integer(context.session.id.0 as i64);
    Ok(())
}

/// Reads a word that is `ON` or `OFF`.
fn on_or_off(context: &Context<'_>) -> Result<bool, Failure> {
    match context.words {
        words if words.is(2, "ON") => Ok(true),
        words if words.is(2, "OFF") => Ok(false),
        _ => Err(Failure::Syntax),
    }
}

fn no_evict(context: &mut Context<'_>) -> Result<(), Failure> {
    context.session.no_evict = on_or_off(context)?;
    context.reply.ok();
    Ok(())
}

/// Keys may come with times that are over and that later commands change: until all has come nothing expires for the connection. Valkey
/// wants the setting `import-mode` besides; here it is enough that such a connection is there.
fn import_source(context: &mut Context<'_>) -> Result<(), Failure> {
    let imports = on_or_off(context)?;
    context.shared.set_imports(context.session, imports);
    context.reply.ok();
    Ok(())
}

/// Replies to the connection wait for so many replicas, or for as many as the setting `replica-ack` says if those are more.
fn replica_ack(context: &mut Context<'_>) -> Result<(), Failure> {
    match context.words.len() {
        2 => {
            let own = context.shared.replicas_of(context.session);
            context.reply.count(own);
        }
        3 => {
            let wanted = usize::try_from(context.words.integer(2)?).ok().filter(|wanted| *wanted <= REPLICAS_MAX);
            let wanted = wanted.ok_or(Failure::text("ERR replicas must be a number between 0 and 100"))?;
            if wanted > 0 && !context.shared.persistence.enabled {
                return Err(replication::NO_FOLDER);
            }
            context.shared.promise_replicas(context.session, wanted);
            context.reply.ok();
        }
        _ => return Err(help::unknown("CLIENT", context.words)),
    }
    Ok(())
}

fn reply(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    if words.is(2, "ON") {
        context.session.reply_mode = ReplyMode::On;
        context.reply.ok();
    } else if words.is(2, "OFF") {
        context.session.reply_mode = ReplyMode::Off;
    } else if words.is(2, "SKIP") {
        if context.session.reply_mode != ReplyMode::Off {
            context.session.reply_mode = ReplyMode::SkipNext;
        }
    } else {
        return Err(Failure::Syntax);
    }
    Ok(())
}

fn unblock(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    let error = match words.len() {
        3 => None,
        4 if words.is(3, "TIMEOUT") => None,
        4 if words.is(3, "ERROR") => Some("UNBLOCKED client unblocked via CLIENT UNBLOCK"),
        4 => return Err(Failure::text("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")),
        _ => return Err(help::unknown("CLIENT", words)),
    };
    let id = words.integer(2)?;
    let waited = u64::try_from(id).is_ok_and(|id| context.shared.end_blocking(SessionId(id), error));
    context.reply.integer(i64::from(waited));
    Ok(())
}

fn pause(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    let all = match words.len() {
        3 => true,
        4 if words.is(3, "ALL") => true,
        4 if words.is(3, "WRITE") => false,
        4 => return Err(Failure::text("ERR CLIENT PAUSE mode must be WRITE or ALL")),
        _ => return Err(help::unknown("CLIENT", words)),
    };
    const NOT: Failure = Failure::text("ERR timeout is not an integer or out of range");
    let ms = resp::parse_integer(words.at(2)).ok_or(NOT)?;
    if ms < 0 {
        return Err(Failure::text("ERR timeout is negative"));
    }
    // In Redis 7.0 a time that no clock reaches has passed already: nothing waits.
    if let Some(until) = context.now().checked_add(ms) {
        context.shared.begin_pause(all, until);
    }
    context.reply.ok();
    Ok(())
}

fn unpause(context: &mut Context<'_>) -> Result<(), Failure> {
    context.shared.end_pause();
    context.keys.space().expiry_paused = false;
    context.reply.ok();
    Ok(())
}

fn show_help(context: &mut Context<'_>) -> Result<(), Failure> {
    help::reply(
        context,
        "CLIENT",
        &[
            ("CACHING (YES|NO)", "Whether what the next command reads is tracked, with OPTIN or OPTOUT."),
            ("GETNAME", "The name of this connection."),
            ("GETREDIR", "Who is told of stale keys instead of this connection."),
            ("ID", "The number of this connection."),
            ("INFO", "This connection's line of CLIENT LIST."),
            (
                "IMPORT-SOURCE (ON|OFF)",
                "Whether what this connection sends comes from another server: no key has expired for it.",
            ),
            ("KILL <ip:port>", "Closes the connection from an address."),
            (
                "KILL <option> <value> [<option> <value> [...]]",
                "Closes connections by ID, ADDR, LADDR, TYPE, USER; SKIPME (YES|NO): whether this one is left out.",
            ),
            ("LIST [TYPE (NORMAL|MASTER|REPLICA|PUBSUB)] [ID <id> ...]", "A line for each connection."),
            ("NO-EVICT (ON|OFF)", "Whether this connection stays when clients take too much memory."),
            ("PAUSE <milliseconds> [WRITE|ALL]", "Has commands wait: those that write, or all."),
            ("REPLICA-ACK [<replicas>]", "So many replicas have what this connection is told of before it is told."),
            ("REPLY (ON|OFF|SKIP)", "Whether commands of this connection are answered."),
            ("SETNAME <name>", "Gives this connection a name."),
            (
                "TRACKING (ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> [...]] [OPTIN] [OPTOUT] [NOLOOP]",
                "Whether this connection is told when keys change that it has in a cache.",
            ),
            ("TRACKINGINFO", "What this connection is told of its keys."),
            ("UNBLOCK <id> [TIMEOUT|ERROR]", "Ends another connection's waiting."),
            ("UNPAUSE", "Ends what PAUSE began."),
        ],
    );
    Ok(())
}
