//! Commands by group of the manual. Each module declares its commands beside what runs them.

pub mod connection;
pub mod keys;
pub mod server;
pub mod strings;
pub mod transactions;

use crate::table::Command;

/// All commands.
pub fn all() -> impl Iterator<Item = &'static Command> {
    [connection::COMMANDS, keys::COMMANDS, server::COMMANDS, strings::COMMANDS, transactions::COMMANDS]
        .into_iter()
        .flatten()
}
