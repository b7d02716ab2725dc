//! All commands: the one table of names, syntax, help and numbers of arguments.

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Its name.
    pub name: &'static str,
    /// How it is written.
    pub syntax: &'static str,
    /// What it does.
    pub help: &'static str,
    /// Arguments that it needs.
    pub arguments_min: usize,
    /// Arguments that it may have; `None` for any number.
    pub arguments_max: Option<usize>,
    /// Whether it has a JSON form.
    pub has_json: bool,
    /// For developers: `help` names it with `-d` or `-a` only.
    pub is_debug: bool,
    /// Whether a client that has not said who it is may use it.
    pub is_for_strangers: bool,
    /// Whether the worker does it: without one it is not known.
    pub is_for_worker: bool,
}

const fn command(name: &'static str, syntax: &'static str, help: &'static str, least: usize, most: usize) -> Command {
    Command {
        name,
        syntax,
        help,
        arguments_min: least,
        arguments_max: Some(most),
        has_json: false,
        is_debug: false,
        is_for_strangers: false,
        is_for_worker: false,
    }
}

impl Command {
    const fn json(mut self) -> Self {
        self.has_json = true;
        self
    }

    const fn debug(mut self) -> Self {
        self.is_debug = true;
        self
    }

    const fn strangers(mut self) -> Self {
        self.is_for_strangers = true;
        self
    }

    const fn worker(mut self) -> Self {
        self.is_for_worker = true;
        self
    }

    const fn unlimited(mut self) -> Self {
        self.arguments_max = None;
        self
    }

    /// The one with that name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|command| command.name == name)
    }
}

const LIST: &str = "backend.list [-j] [-p] [<backend_pattern>]";
const HEALTH: &str = "backend.set_health <backend_pattern> [auto|healthy|sick]";
const BAN: &str = "ban <field> <operator> <arg> [&& <field> <oper> <arg> ...]";
const INLINE: &str = "vcl.inline <configname> <quoted_VCLstring> [auto|cold|warm]";
const LOAD: &str = "vcl.load <configname> <filename> [auto|cold|warm]";

/// Every command, by name.
pub const ALL: &[Command] = &[
    command("auth", "auth <response>", "Answers the challenge.", 1, 1).strangers(),
    command("backend.list", LIST, "Lists backends and their health; -p with results of probes.", 0, 2).worker().json(),
    command("backend.set_health", HEALTH, "Sets the health of the backends that the pattern matches.", 2, 2).worker(),
    command("ban", BAN, "Bans all objects of which all the conditions are true.", 3, 0).worker().unlimited(),
    command("ban.list", "ban.list [-j]", "Lists the bans, the latest first.", 0, 0).worker().json(),
    command("banner", "banner", "Shows what is said to a new client.", 0, 0),
    command("debug.fragfetch", "debug.fragfetch", "Fetches in pieces of so many bytes.", 1, 1).worker().debug(),
    command("debug.listen_address", "debug.listen_address", "Shows where the worker listens.", 0, 0).worker().debug(),
    command("debug.panic.master", "debug.panic.master", "Ends the managing process by a fault.", 0, 0).debug(),
    command("debug.panic.worker", "debug.panic.worker", "Ends the worker by a fault.", 0, 0).debug(),
    command("debug.reqpool.fail", "debug.reqpool.fail", "Lets requests fail for want of memory.", 1, 1)
        .worker()
        .debug(),
    command("debug.shutdown.delay", "debug.shutdown.delay", "Delays the worker's end.", 1, 1).worker().debug(),
    command("debug.srandom", "debug.srandom", "Seeds the random numbers.", 0, 1).worker().debug(),
    command("debug.vmod", "debug.vmod", "Shows the modules that are loaded.", 0, 0).worker().debug(),
    command("debug.xid", "debug.xid [<xid> [<cachesize>]]", "Shows or sets the next transaction's number.", 0, 2)
        .worker()
        .debug(),
    command("help", "help [-j|<command>]", "Lists the commands, or explains one.", 0, 1).json().strangers(),
    command("panic.clear", "panic.clear [-z]", "Forgets the last panic; -z sets its counter to 0 too.", 0, 1),
    command("panic.show", "panic.show [-j]", "Shows the last panic.", 0, 0).json(),
    command("param.reset", "param.reset <param>", "Gives a parameter its default value.", 1, 1),
    command("param.set", "param.set [-j] <param> <value>", "Gives a parameter a value.", 2, 2).json(),
    command("param.show", "param.show [-l|-j] [<param>|changed]", "Shows parameters; -l with their meanings.", 0, 2)
        .json(),
    command("pid", "pid [-j]", "Shows the processes.", 0, 0).json(),
    command("ping", "ping [-j] [<timestamp>]", "Keeps the connection alive.", 0, 1).json().strangers(),
    command("quit", "quit", "Closes the connection.", 0, 0).strangers(),
    command("start", "start", "Starts the worker.", 0, 0),
    command("status", "status [-j]", "Shows the worker's state.", 0, 0).json(),
    command("stop", "stop", "Stops the worker.", 0, 0),
    command("storage.list", "storage.list [-j]", "Lists the storages.", 0, 0).json(),
    command("vcl.deps", "vcl.deps [-j]", "Lists the VCLs and what each depends on.", 0, 0).json(),
    command(
        "vcl.discard",
        "vcl.discard <name_pattern>...",
        "Unloads all VCLs and labels that a pattern matches.",
        1,
        0,
    )
    .unlimited(),
    command("vcl.inline", INLINE, "Compiles and loads the VCL that stands here.", 2, 3),
    command("vcl.label", "vcl.label <label> <configname>", "Gives a VCL a label, or moves it there.", 2, 2),
    command("vcl.list", "vcl.list [-j]", "Lists the VCLs.", 0, 0).json(),
    command("vcl.load", LOAD, "Compiles and loads a file with VCL.", 2, 3),
    command("vcl.show", "vcl.show [-v] [<configname>]", "Shows the text of a VCL; -v with what it includes.", 0, 2),
    command("vcl.state", "vcl.state <configname> [auto|cold|warm]", "Sets the state of a VCL.", 2, 2),
    command("vcl.symtab", "vcl.symtab", "Shows the names that VCLs know.", 0, 0).debug(),
    command("vcl.use", "vcl.use <configname|label>", "New requests go to this VCL.", 1, 1),
];
