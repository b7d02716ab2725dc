//! Going on in the background, which takes another process.

use std::{
    os::unix::process::CommandExt,
    process::{Command, Stdio},
};

/// Says to this program, started again, that it is in the background already.
pub(crate) const IN_BACKGROUND: &str = "TIDEGATE_TOOL_IN_BACKGROUND";

/// Starts this program again, apart from the terminal.
pub(crate) fn spawn_in_background(tool: &str, words: &[String]) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let mut command = Command::new(program);
    command.arg0(tool).args(words).env(IN_BACKGROUND, "1");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    command.spawn().map(drop).map_err(|error| format!("cannot go to the background: {error}"))
}
