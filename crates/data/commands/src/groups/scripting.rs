//! Scripts and functions.

use crate::{
    Context, Failure,
    table::{Categories, Command, Flags},
};

/// The group's commands.
pub const COMMANDS: &[Command] = &[Command::new("FUNCTION", -2, |_| Err(Failure::Syntax))
    .group("scripting", Categories::SCRIPTING)
    .docs("7.0.0", "depends on the subcommand", "Libraries of functions.")
    .subcommands(&[Command::new("FLUSH", -2, flush)
        .flags(Flags::WRITE.union(Flags::NOSCRIPT))
        .group("scripting", Categories::SCRIPTING)
        .docs("7.0.0", "O(N) for N functions", "Removes all functions.")])];

fn flush(context: &mut Context<'_>) -> Result<(), Failure> {
    context.reply.ok();
    Ok(())
}
