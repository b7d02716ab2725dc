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
    .docs("2.4.0", "depends on the subcommand", "Manages connections.")
    .subcommands(&[
        easy("CACHING", 3, tracking::caching).docs("6.0.0", "O(1)", "Says whether the server tracks the keys that the next command reads.").syntax("mode<YES|NO>"),
        easy("GETNAME", 2, getname).docs("2.6.9", "O(1)", "Returns the name of the connection."),
        easy("GETREDIR", 2, tracking::getredir).docs(
            "6.0.0",
            "O(1)",
            "Returns the connection that gets notices of stale keys for this one.",
        ),
        easy("HELP", 2, show_help).docs("5.0.0", "O(1)", "Lists the subcommands."),
        easy("ID", 2, id).docs("5.0.0", "O(1)", "Returns the number of the connection."),
        easy("INFO", 2, list::info).docs("6.2.0", "O(1)", "Returns the connection's line of CLIENT LIST."),
        admin("IMPORT-SOURCE", 3, import_source).docs(
            "8.1.0",
            "O(1)",
            "Says whether the connection's commands come from another server. For such a connection no key has expired, and meanwhile the server removes a key only when a client asks for it (Valkey).",
        ).syntax("enabled<ON|OFF>"),
        admin("KILL", -3, kill::kill).docs("2.4.0", "O(N) for N clients", "Closes connections.").syntax("filter<ip:port!2.8.12|new-format<[ID/client-id:integer@2.8.12]|[TYPE/normal_master_slave_pubsub<NORMAL|MASTER@3.2.0|SLAVE|REPLICA@5.0.0|PUBSUB>@2.8.12]|[USER/username]|[ADDR/ip:port]|[LADDR/ip:port@6.2.0]|[SKIPME/yes/no]>...>"),
        admin("LIST", -2, list::list).docs("2.4.0", "O(N) for N clients", "Lists all connections, one per line.").syntax("[TYPE/normal_master_replica_pubsub<NORMAL|MASTER|REPLICA|PUBSUB>@5.0.0] [ID/id{client-id:integer...}@6.2.0]"),
        admin("NO-EVICT", 3, no_evict).docs(
            "7.0.0",
            "O(1)",
            "Says whether the server may close the connection when clients take too much memory.",
        ).syntax("enabled<ON|OFF>"),
        admin("PAUSE", -3, pause).flags(ADMIN.union(Flags::MEETS_ALL_KEYS)).docs("2.9.50", "O(1)", "Makes commands wait for some time: all, or those that write.").syntax("timeout:integer [mode<WRITE|ALL>@6.2.0]"),
        easy("REPLICA-ACK", -2, replica_ack).docs(
            "7.0.0",
            "O(1)",
            "Sets how many replicas must have a write before the connection sees it.",
        ).syntax("[replicas:integer]"),
        easy("REPLY", 3, reply).docs("3.2.0", "O(1)", "Says whether the server answers commands.").syntax("on_off_skip<ON|OFF|SKIP>"),
        easy("SETNAME", 3, setname).docs("2.6.9", "O(1)", "Gives the connection a name.").syntax("connection-name"),
        easy("TRACKING", -3, tracking::tracking).docs(
            "6.0.0",
            "O(N) for N prefixes",
            "Says whether the server tells the connection when keys in its cache change.",
        ).syntax("status<ON|OFF> [REDIRECT/client-id:integer] [PREFIX/prefix...*] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]"),
        easy("TRACKINGINFO", 2, tracking::trackinginfo).docs(
            "6.2.0",
            "O(1)",
            "Shows which notices of keys the connection gets.",
        ),
        admin("UNBLOCK", -3, unblock).docs(
            "5.0.0",
            "O(log N) for N waiting clients",
            "Ends another connection's wait for keys.",
        ).syntax("client-id:integer [timeout_error<TIMEOUT|ERROR>]"),
        admin("UNPAUSE", 2, unpause).docs("6.2.0", "O(N) for N waiting clients", "Ends CLIENT PAUSE."),
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
    // A node that may not serve, or has another reason, keeps them all the same.
    context.keys.space().expiry_paused = context.shared.do_keys_stay();
    context.reply.ok();
    Ok(())
}

fn show_help(context: &mut Context<'_>) -> Result<(), Failure> {
    help::reply(
        context,
        "CLIENT",
        &[
            (
                "CACHING (YES|NO)",
                "Says whether the server tracks the keys that the next command reads, with OPTIN or OPTOUT.",
            ),
            ("GETNAME", "Returns the name of this connection."),
            ("GETREDIR", "Returns the connection that gets notices of stale keys for this one."),
            ("ID", "Returns the number of this connection."),
            ("INFO", "Returns this connection's line of CLIENT LIST."),
            (
                "IMPORT-SOURCE (ON|OFF)",
                "Says whether this connection's commands come from another server: for it, no key has expired.",
            ),
            ("KILL <ip:port>", "Closes the connection from an address."),
            (
                "KILL <option> <value> [<option> <value> [...]]",
                "Closes connections by ID, ADDR, LADDR, TYPE, USER; SKIPME (YES|NO): whether this one is left out.",
            ),
            ("LIST [TYPE (NORMAL|MASTER|REPLICA|PUBSUB)] [ID <id> ...]", "Lists all connections, one per line."),
            ("NO-EVICT (ON|OFF)", "Says whether this connection stays when clients take too much memory."),
            ("PAUSE <milliseconds> [WRITE|ALL]", "Makes commands wait: those that write, or all."),
            ("REPLICA-ACK [<replicas>]", "Sets how many replicas must have a write before this connection sees it."),
            ("REPLY (ON|OFF|SKIP)", "Says whether the server answers commands of this connection."),
            ("SETNAME <name>", "Gives this connection a name."),
            (
                "TRACKING (ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> [...]] [OPTIN] [OPTOUT] [NOLOOP]",
                "Says whether the server tells this connection when keys in its cache change.",
            ),
            ("TRACKINGINFO", "Shows which notices of keys this connection gets."),
            ("UNBLOCK <id> [TIMEOUT|ERROR]", "Ends another connection's wait."),
            ("UNPAUSE", "Ends PAUSE."),
        ],
    );
    Ok(())
}
