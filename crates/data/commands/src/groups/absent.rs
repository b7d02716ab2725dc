//! Commands of Redis that are known here and refused, or that have little to say on a server that stands alone.

use keyspace::Failure;

use crate::{
    Context,
    server::Command,
    table::{Categories, Flags},
};

use super::help;

const MODULES: &str = "the store has no modules: machine code for Redis cannot run here";
const SENTINEL: &str = "a cluster fails over by itself (`tidegate cluster`); Redis' Sentinel is a program of its own";

const ADMIN: Flags = Flags::ADMIN.union(Flags::NOSCRIPT);

/// The group's commands.
pub const COMMANDS: &[Command] = &[
    Command::new("MODULE", -2, no_modules)
        .group("server", Categories::empty())
        .missing(MODULES)
        .docs("4.0.0", "depends on the subcommand", "Modules.")
        .subcommands(&[
            Command::new("HELP", 2, module_help)
                .flags(Flags::LOADING.union(Flags::STALE))
                .group("server", Categories::empty())
                .docs("5.0.0", "O(1)", "Lists the subcommands."),
            Command::new("LIST", 2, module_list).flags(ADMIN).group("server", Categories::empty()).docs(
                "4.0.0",
                "O(1)",
                "Lists the modules: none.",
            ),
            absent_module("LOAD", -3, "4.0.0", "Loads a module.").syntax("path [arg...]"),
            absent_module("LOADEX", -3, "7.0.0", "Loads a module with settings.")
                .syntax("path [configs{CONFIG name value}...] [args{ARGS arg}...]"),
            absent_module("UNLOAD", 3, "4.0.0", "Removes a module.").syntax("name"),
        ]),
    Command::new("SENTINEL", -2, |_| Err(Failure::text("ERR this is no Sentinel: it is a program of its own")))
        .flags(ADMIN)
        .group("sentinel", Categories::empty())
        .missing(SENTINEL)
        .docs("2.8.4", "depends on the subcommand", "Sentinel."),
];

fn no_modules(_: &mut Context<'_>) -> Result<(), Failure> {
    Err(Failure::text("ERR there are no modules here"))
}

const fn absent_module(name: &'static str, arity: i32, since: &'static str, summary: &'static str) -> Command {
    Command::new(name, arity, no_modules)
        .flags(ADMIN.union(Flags::NO_ASYNC_LOADING))
        .group("server", Categories::empty())
        .missing(MODULES)
        .docs(since, "O(1)", summary)
}

fn module_help(context: &mut Context<'_>) -> Result<(), Failure> {
    help::reply(
        context,
        "MODULE",
        &[
            ("LIST", "The modules: there are none."),
            ("LOAD, LOADEX, UNLOAD", "Are refused: what is written for Redis' own machine code cannot run here."),
        ],
    );
    Ok(())
}

fn module_list(context: &mut Context<'_>) -> Result<(), Failure> {
    context.reply.array(0);
    Ok(())
}
