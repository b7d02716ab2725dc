//! What the server says of itself.

use std::fmt::Write as _;

use crate::{
    Context, Failure,
    table::{Categories, Command, Flags},
};

/// The group's commands.
pub const COMMANDS: &[Command] = &[
    Command::new("INFO", -1, info)
        .flags(Flags::LOADING.union(Flags::STALE))
        .group("server", Categories::DANGEROUS)
        .docs("1.0.0", "O(1)", "Figures of the server, by section."),
    Command::new("TIME", 1, time)
        .flags(Flags::FAST.union(Flags::LOADING).union(Flags::STALE))
        .group("server", Categories::empty())
        .docs("2.6.0", "O(1)", "The server's time: seconds and microseconds."),
];

fn info(context: &mut Context<'_>) -> Result<(), Failure> {
    let mut text = String::new();
    let changes = context.keys.changes.dirty;
    let statistics = &context.shared.statistics;
    let space = context.keys.space();
    let (hits, misses, expired) = (space.hits, space.misses, space.expired);
    let _ = write!(
        text,
        "# Server\r\nredis_version:{}\r\nredis_mode:standalone\r\n\r\n# Clients\r\nconnected_clients:{}\r\n\
         blocked_clients:{}\r\n\r\n# Persistence\r\nloading:0\r\n\
         rdb_changes_since_last_save:{}\r\n\r\n# Stats\r\ntotal_connections_received:{}\r\ntotal_commands_processed:{}\r\n\
         keyspace_hits:{}\r\nkeyspace_misses:{}\r\nexpired_keys:{}\r\n\r\n# Keyspace\r\n",
        crate::REDIS_VERSION,
        context.shared.sessions.len(),
        statistics.blocked,
        changes,
        statistics.connections,
        statistics.processed,
        hits,
        misses,
        expired,
    );
    let now = context.now();
    for db in 0..context.keys.space().len() {
        if let Some(database) = context.keys.space().database(db).filter(|database| !database.is_empty()) {
            let (keys, expires, ttl) = (database.len(), database.expiring_len(), database.mean_ttl(now));
            let _ = write!(text, "db{db}:keys={keys},expires={expires},avg_ttl={ttl}\r\n");
        }
    }
    context.reply.verbatim(*b"txt", text.as_bytes());
    Ok(())
}

fn time(context: &mut Context<'_>) -> Result<(), Failure> {
    let now = context.now();
    context.reply.array(2);
    context.reply.bulk((now / 1000).to_string().as_bytes());
    context.reply.bulk((now % 1000 * 1000).to_string().as_bytes());
    Ok(())
}
