//! What runs a command, and the table with such: [`table`] itself leaves open what that is.

use keyspace::Failure;

use super::Context;
use crate::table;

/// Runs a command.
pub type Handler = fn(&mut Context<'_>) -> Result<(), Failure>;
/// A command, or a subcommand, with what runs it.
pub type Command = table::Command<Handler>;
/// A command that was found by its words.
pub type FoundCommand = table::FoundCommand<Handler>;
/// All commands.
pub type Table = table::Table<Handler>;
/// How a command of very many words is done in steps.
pub type Wide = table::Wide<Handler>;
