//! `DEBUG`: what tests need to look inside.

use crate::{
    Context, Failure,
    table::{Categories, Command, Flags},
};

/// The group's commands.
pub const COMMANDS: &[Command] = &[Command::new("DEBUG", -2, debug)
    .flags(Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::LOADING).union(Flags::STALE))
    .group("server", Categories::empty())
    .docs("1.0.0", "depends on the subcommand", "Looks inside, for tests.")];

fn debug(context: &mut Context<'_>) -> Result<(), Failure> {
    let words = context.words;
    if words.is(1, "SET-ACTIVE-EXPIRE") && words.len() == 3 {
        context.shared.active_expiry = words.integer(2)? != 0;
    } else if words.is(1, "SLEEP") && words.len() == 3 {
        let seconds = crate::number::float(words.at(2))?;
        context.shared.sleep_us += (seconds.max(0.0) * 1e6) as u64;
    } else if ["JMAP", "RELOAD", "QUICKLIST-PACKED-THRESHOLD", "REPLYBUFFER", "LISTPACK-ENTRIES"]
        .iter()
        .any(|name| words.is(1, name))
    {
        // What these change in Redis is not there, or needs no such switch.
    } else {
        return Err(Failure::text("ERR DEBUG has no such subcommand here: SLEEP, SET-ACTIVE-EXPIRE, RELOAD are there"));
    }
    context.reply.ok();
    Ok(())
}
