//! Lines of `program` sections.

use super::{Group, Keyword, LineParser};
use crate::keywords::program;

const fn line(name: &'static str, arguments: &'static str, parser: LineParser) -> Keyword {
    Keyword::new(Group::Program, name, arguments, "3.7").line(parser)
}

/// The table.
pub const KEYWORDS: &[Keyword] = &[
    line("command", "<command> [<argument>...]", program::command)
        .doc("The program, to be found in PATH, and its arguments.", "command /usr/bin/exporter --port 9101"),
    line("group", "<name>", program::identity).doc("The program's group; by default the master's.", "group daemon"),
    line("option", "start-on-reload", program::option)
        .doc(
            "A reload starts another instance, which is the default. The former one gets SIGUSR1 either way.",
            "no option start-on-reload",
        )
        .negatable(),
    line("user", "<name>", program::identity).doc("The program's user; by default the master's.", "user daemon"),
];
