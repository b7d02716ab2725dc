//! Commands by group of the manual. Each module declares its commands beside what runs them.

pub mod absent;
pub mod acl;
pub mod bitmaps;
pub mod client;
pub mod cluster;
pub mod command;
pub mod config;
pub mod connection;
pub mod debug;
mod draws;
pub mod failover;
pub mod geo;
pub mod hashes;
pub(crate) mod help;
pub mod hyperloglog;
pub mod info;
pub mod keys;
pub mod latency;
pub mod lists;
pub mod memory;
pub mod persistence;
pub mod pubsub;
pub mod queues;
pub mod replication;
pub mod scripting;
pub mod server;
pub mod sets;
pub mod slowlog;
pub mod sorted_sets;
pub mod streams;
pub mod strings;
pub mod transactions;

#[cfg(test)]
pub(crate) mod testing;

use crate::server::{Command, Table};

/// All commands.
pub fn all() -> impl Iterator<Item = &'static Command> {
    [
        absent::COMMANDS,
        acl::COMMANDS,
        bitmaps::COMMANDS,
        client::COMMANDS,
        cluster::COMMANDS,
        command::COMMANDS,
        config::COMMANDS,
        connection::COMMANDS,
        debug::COMMANDS,
        hashes::COMMANDS,
        geo::COMMANDS,
        hyperloglog::COMMANDS,
        info::COMMANDS,
        keys::COMMANDS,
        latency::COMMANDS,
        lists::COMMANDS,
        memory::COMMANDS,
        persistence::COMMANDS,
        pubsub::COMMANDS,
        queues::COMMANDS,
        failover::COMMANDS,
        replication::COMMANDS,
        scripting::COMMANDS,
        server::COMMANDS,
        sorted_sets::change::COMMANDS,
        sorted_sets::combine::COMMANDS,
        sorted_sets::pop::COMMANDS,
        sorted_sets::random::COMMANDS,
        sorted_sets::range::COMMANDS,
        sorted_sets::read::COMMANDS,
        sets::COMMANDS,
        slowlog::COMMANDS,
        streams::append::COMMANDS,
        streams::claim::COMMANDS,
        streams::groups::COMMANDS,
        streams::info::COMMANDS,
        streams::pending::COMMANDS,
        streams::range::COMMANDS,
        streams::read::COMMANDS,
        strings::COMMANDS,
        transactions::COMMANDS,
    ]
    .into_iter()
    .flatten()
}

/// The table of all commands.
pub fn table() -> Table {
    Table::new(all())
}

/// The name of a command by that name in capitals.
pub fn own_name(name: &[u8]) -> Option<&'static str> {
    all().map(|command| command.name).find(|own| own.as_bytes() == name)
}
