//! Commands by group of the manual. Each module declares its commands beside what runs them.

pub mod config;
pub mod connection;
pub mod debug;
pub mod info;
pub mod keys;
pub mod scripting;
pub mod server;
pub mod strings;
pub mod transactions;

use crate::table::Command;

/// All commands.
pub fn all() -> impl Iterator<Item = &'static Command> {
    [
        config::COMMANDS,
        connection::COMMANDS,
        debug::COMMANDS,
        info::COMMANDS,
        keys::COMMANDS,
        scripting::COMMANDS,
        server::COMMANDS,
        strings::COMMANDS,
        transactions::COMMANDS,
    ]
    .into_iter()
    .flatten()
}
