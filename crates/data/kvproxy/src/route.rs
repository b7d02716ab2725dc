//! What becomes of each command: one server's, split over several, asked of all, or answered here.

use commands::{
    server::Table,
    table::{Access, Begin, Find, Flags},
};

/// Where a command goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// To the server of the key at this place.
    Key(usize),
    /// To the server that all of its keys belong to.
    Keys,
    /// In parts to the servers of its keys, which come with so many words each.
    Split(usize, Merge),
    /// To all servers.
    Everywhere(Merge),
    /// To the first server that is alive: all would say the same, or it has what belongs to no key.
    First,
    /// Server after server, with the server's number in the cursor.
    Scan,
    /// Answered here.
    Local,
    /// By a connection of the client's own to the server of its keys, for it may wait.
    Blocking,
    /// By a connection of the client's own, from `WATCH` or `MULTI` to `EXEC`.
    Transaction,
    /// By a connection of the client's own to the first server, until nothing is subscribed to.
    Subscription,
    /// Not through a proxy. Why not, and what to do instead.
    Refused(&'static str),
}

/// How the replies to the parts of a command become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// Numbers are added.
    Sum,
    /// All say the same; the first one is it.
    Same,
    /// Elements go where their keys were.
    InOrder,
    /// Arrays are joined.
    Joined,
    /// One of those that have something.
    AnyOne,
    /// Numbers at the same place: the least counts.
    Least,
    /// Texts of `INFO`; servers that fail are left out.
    Information,
}

const ONE_SERVER: &str = "it is about one server: connect to that";
const NOT_OF_KEYS: &str = "it is about all of a server's keys by number: a proxy shows one database";

/// The route of each command, by its number in the table.
#[derive(Debug)]
pub struct Routes {
    routes: Vec<Route>,
    /// Whether a command only reads.
    reads: Vec<bool>,
}

impl Routes {
    /// Of all commands.
    #[must_use]
    pub fn new(table: &Table) -> Self {
        let mut routes = vec![Route::Refused(ONE_SERVER); table.len()];
        for found in table.each() {
            if let Some(route) = routes.get_mut(found.index) {
                *route = named(&found.full_name()).unwrap_or_else(|| by_keys(found.command));
            }
        }
        let mut reads = vec![false; table.len()];
        for found in table.each() {
            if let Some(reads) = reads.get_mut(found.index) {
                *reads = found.command.flags.contains(Flags::READONLY);
            }
        }
        Self { routes, reads }
    }

    /// Has `PUBLISH` go to all servers.
    pub fn publish_everywhere(&mut self, table: &Table) {
        let route = table.find(&[b"PUBLISH"]).and_then(|found| self.routes.get_mut(found.index));
        route.into_iter().for_each(|route| *route = Route::Everywhere(Merge::Sum));
    }

    /// Whether the command of that number only reads.
    #[inline]
    #[must_use]
    pub fn only_reads(&self, index: usize) -> bool {
        self.reads.get(index).copied().unwrap_or(false)
    }

    /// Of the command of that number.
    #[inline]
    #[must_use]
    pub fn of(&self, index: usize) -> Route {
        self.routes.get(index).copied().unwrap_or(Route::Refused(ONE_SERVER))
    }
}

/// Commands whose keys do not say where they go.
fn named(name: &str) -> Option<Route> {
    let (container, _) = name.split_once('|').unwrap_or((name, ""));
    Some(match (name, container) {
        ("mget", _) => Route::Split(1, Merge::InOrder),
        ("mset", _) => Route::Split(2, Merge::Same),
        ("del" | "unlink" | "exists" | "touch", _) => Route::Split(1, Merge::Sum),
        ("dbsize", _) => Route::Everywhere(Merge::Sum),
        ("keys", _) => Route::Everywhere(Merge::Joined),
        ("randomkey", _) => Route::Everywhere(Merge::AnyOne),
        ("script|exists", _) => Route::Everywhere(Merge::Least),
        ("flushall" | "flushdb" | "script|load" | "script|flush" | "function|load" | "function|delete", _)
        | ("function|flush" | "function|restore", _) => Route::Everywhere(Merge::Same),
        ("scan", _) => Route::Scan,
        ("multi" | "exec" | "discard" | "watch" | "unwatch", _) => Route::Transaction,
        ("subscribe" | "psubscribe" | "ssubscribe" | "unsubscribe" | "punsubscribe" | "sunsubscribe", _) => {
            Route::Subscription
        }
        ("publish" | "spublish" | "time" | "lastsave" | "lolwut" | "config|get", _) => Route::First,
        ("function|list" | "function|dump" | "function|stats" | "config|help", _) => Route::First,
        (_, "pubsub" | "command") => Route::First,
        ("ping" | "echo" | "auth" | "hello" | "select" | "quit" | "reset" | "info" | "readonly" | "readwrite", _)
        | (_, "client") => Route::Local,
        ("swapdb" | "move", _) => Route::Refused(NOT_OF_KEYS),
        ("migrate", _) => Route::Refused("a proxy's servers are its configuration: connect to the server of the key"),
        ("wait" | "waitaof", _) => {
            Route::Refused("writes of a client go over connections that others share: connect to the server of the key")
        }
        ("script" | "function" | "config" | "object" | "xgroup" | "xinfo" | "memory", _) => Route::First,
        _ => return None,
    })
}

/// Commands that go by their keys.
fn by_keys(command: &commands::server::Command) -> Route {
    if command.flags.contains(Flags::BLOCKING) {
        return Route::Blocking;
    }
    match command.keys {
        [] if command.key_places.is_none() => Route::Refused(ONE_SERVER),
        [keys] if command.key_places.is_none() && !keys.access.contains(Access::NOT_KEY) => {
            match (keys.begin, keys.find) {
                (Begin::Index(place), Find::Range { last: 0, .. }) => Route::Key(place),
                _ => Route::Keys,
            }
        }
        _ => Route::Keys,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_the_route_that_its_keys_and_its_nature_ask_for() {
        let table = commands::groups::table();
        let routes = Routes::new(&table);
        for (words, route) in [
            ("GET", Route::Key(1)),
            ("SET", Route::Key(1)),
            ("HGETALL", Route::Key(1)),
            ("OBJECT ENCODING", Route::Key(2)),
            ("XINFO STREAM", Route::Key(2)),
            ("RENAME", Route::Keys),
            ("EVAL", Route::Keys),
            ("FCALL", Route::Keys),
            ("ZUNIONSTORE", Route::Keys),
            ("SORT", Route::Keys),
            ("MSETNX", Route::Keys),
            ("MGET", Route::Split(1, Merge::InOrder)),
            ("MSET", Route::Split(2, Merge::Same)),
            ("DEL", Route::Split(1, Merge::Sum)),
            ("DBSIZE", Route::Everywhere(Merge::Sum)),
            ("SCRIPT LOAD", Route::Everywhere(Merge::Same)),
            ("BLPOP", Route::Blocking),
            ("XREAD", Route::Blocking),
            ("CLIENT SETNAME", Route::Local),
            ("CONFIG GET", Route::First),
            ("COMMAND DOCS", Route::First),
            ("CONFIG SET", Route::Refused(ONE_SERVER)),
            ("SHUTDOWN", Route::Refused(ONE_SERVER)),
            ("MONITOR", Route::Refused(ONE_SERVER)),
            ("REPLICAOF", Route::Refused(ONE_SERVER)),
            ("CLUSTER SLOTS", Route::Refused(ONE_SERVER)),
            ("DEBUG", Route::Refused(ONE_SERVER)),
        ] {
            let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
            let found = table.find(&words).unwrap();
            assert_eq!(routes.of(found.index), route, "{}", found.full_name());
        }
    }
}
