//! Keywords of the `global` section.

use std::collections::HashMap;

use crate::{
    args,
    diagnostics::Problem,
    keywords::bind,
    line::{Line, Modifier},
    model::{CliLevel, Identity, StatsSocket},
    scope::Scope,
    table::Group,
    units::Unit,
};

/// Most workers, as HAProxy's most threads.
pub const THREADS_MAX: u32 = 64;

/// Highest number of a core in `cpu-map`, plus one.
const CORES_MAX: usize = 1024;

/// What relative paths are relative to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DefaultPath {
    /// Where the program was started.
    #[default]
    Current,
    /// The directory of the file that is read.
    Config,
    /// The directory above it.
    Parent,
    /// A given directory.
    Origin(String),
}

impl DefaultPath {
    /// The directory that is put before relative paths in `file`.
    #[must_use]
    pub fn directory(&self, file: &str) -> Option<String> {
        let directory = file.rsplit_once('/').map_or("", |(directory, _)| directory);
        match self {
            Self::Current => None,
            Self::Config => Some(directory.to_owned()),
            Self::Parent if directory.is_empty() => Some("..".to_owned()),
            Self::Parent => Some(format!("{directory}/..")),
            Self::Origin(path) => Some(path.clone()),
        }
    }
}

/// What is kept of the `global` section until everything is read.
#[derive(Debug, Default)]
pub struct Pending {
    /// `default-path`.
    pub default_path: DefaultPath,
    /// What is put before relative paths in the file that is read.
    pub current_directory: Option<String>,
    /// `-L` was given, so that `localpeer` is ignored.
    pub is_localpeer_forced: bool,
    /// `noreuseport`.
    pub is_without_reuseport: bool,
    /// `maxconn` of proxies that have none (`-N`).
    pub proxy_maxconn: Option<u32>,
    /// How many proxies there were when the first `stats` line made the proxy `GLOBAL`, which takes a number.
    pub proxies_before_stats: Option<usize>,
    /// How each `defaults` section has been used.
    pub usage: Vec<crate::keywords::sections::Usage>,
    /// Numbers that were given to proxies, and their places.
    pub proxy_ids: HashMap<u32, usize>,
    /// `expose-experimental-directives`.
    pub exposes_experimental: bool,
    /// Listening sockets so far, of all sections.
    pub listeners: usize,
    /// Servers so far, of all sections.
    pub servers: usize,
    /// Keywords that were given and may be given only once.
    pub seen: Vec<&'static str>,
}

/// Whether `name` is given for the first time; warns otherwise, and the first one counts.
pub(super) fn is_first(scope: &mut Scope<'_>, line: &Line, name: &'static str) -> bool {
    if scope.state.simple.seen.contains(&name) {
        scope.warn(line, Problem::new(format!("'{name}' already specified. Continuing.")).at(0));
        return false;
    }
    scope.state.simple.seen.push(name);
    true
}

/// Whether what a line says is on: it is not after `no`.
fn is_on(line: &Line) -> bool {
    line.modifier() != Modifier::No
}

/// `daemon`.
pub fn daemon(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 0)?;
    scope.state.global.daemon = true;
    Ok(())
}

/// `expose-experimental-directives`.
pub fn expose_experimental_directives(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::ignore_more(scope, line, 0, 0);
    scope.state.simple.exposes_experimental = true;
    Ok(())
}

/// `master-worker`.
pub fn master_worker(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    match line.word(1) {
        "" => {}
        "no-exit-on-failure" => scope.state.global.no_exit_on_failure = true,
        _ => {
            let message = format!("'{}' only supports 'no-exit-on-failure' option.", line.word(0));
            return Err(Problem::new(message).at(1));
        }
    }
    scope.state.global.master_worker = true;
    Ok(())
}

/// `set-dumpable`, `quiet`, `pp2-never-send-local`, `zero-warning`, `external-check`, `insecure-fork-wanted`,
/// `insecure-setuid-wanted`, `strict-limits`, `no-memory-trimming`, `h2-workaround-bogus-websocket-clients`.
pub fn switch(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 0)?;
    let global = &mut scope.state.global;
    let field = match line.word(0) {
        "set-dumpable" => &mut global.set_dumpable,
        "quiet" => &mut global.quiet,
        "no-memory-trimming" => &mut global.no_memory_trimming,
        "pp2-never-send-local" => &mut global.pp2_never_send_local,
        "zero-warning" => &mut global.zero_warning,
        "external-check" => &mut global.external_check,
        "insecure-fork-wanted" => &mut global.insecure_fork,
        "insecure-setuid-wanted" => &mut global.insecure_setuid,
        "h2-workaround-bogus-websocket-clients" => &mut global.tune.h2.is_without_websockets,
        _ => &mut global.strict_limits,
    };
    *field = is_on(line);
    Ok(())
}

/// `noreuseport`.
pub fn noreuseport(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 0)?;
    scope.state.simple.is_without_reuseport = true;
    Ok(())
}

/// `nosplice`.
pub fn nosplice(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 0)?;
    scope.state.global.tune.splice_min = 0;
    Ok(())
}

/// `nbthread`.
pub fn nbthread(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    let word = line.word(1);
    let Ok(number) = word.parse::<i64>() else {
        let message = format!("'nbthread' passed a missing or unparsable integer value in '{word}'");
        return Err(Problem::new(message).at(1).expected(format!("a number from 1 to {THREADS_MAX}")));
    };
    match u32::try_from(number) {
        Ok(threads @ 1..=THREADS_MAX) => scope.state.global.nbthread = Some(threads),
        _ => {
            let message = format!("'nbthread' value must be between 1 and {THREADS_MAX} (was {number})");
            return Err(Problem::new(message).at(1));
        }
    }
    Ok(())
}

/// `nbproc`, which HAProxy no longer has: there is one process of several workers, as many as processes were asked for
/// unless `nbthread` says otherwise.
pub fn nbproc(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    let processes = args::lenient(scope, line, 1, 1..=THREADS_MAX)?;
    if scope.state.global.nbthread.is_none() {
        scope.state.global.nbthread = Some(processes);
    }
    Ok(())
}

/// `thread-groups`.
pub fn thread_groups(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    args::lenient(scope, line, 1, 1..=1_u32)?;
    Ok(())
}

/// `cpu-map`.
pub fn cpu_map(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    if line.word(1).is_empty() || line.word(2).is_empty() {
        let message = format!(
            "cpu-map expects a process number  ('all', 'odd', 'even', a number from 1 to {THREADS_MAX} or a range),  \
             followed by a list of CPU ranges with numbers from 0 to {}.",
            CORES_MAX - 1
        );
        return Err(Problem::new(message).at(1));
    }
    let wrong = |message: String, index: usize| Problem::new(format!("cpu-map : {message}")).at(index);
    let target = line.word(1);
    let (target, increments) = target.strip_prefix("auto:").map_or((target, false), |target| (target, true));
    let (process, thread) = target.split_once('/').map_or((target, None), |(process, thread)| (process, Some(thread)));
    let processes = args::number_set(process, THREADS_MAX).map_err(|message| wrong(message, 1))?;
    let threads = match thread {
        Some(thread) => args::number_set(thread, THREADS_MAX).map_err(|message| wrong(message, 1))?,
        None => Vec::new(),
    };
    let mut cores = Vec::new();
    for (index, word) in line.texts_from(2).enumerate() {
        cores.extend(core_range(word).map_err(|message| wrong(message, index + 2))?);
    }
    cores.sort_unstable();
    cores.dedup();
    if increments && processes.len() != cores.len() && threads.len() != cores.len() {
        let message = "PROC/THREAD range and CPU sets must have the same size to be automatically bound";
        return Err(wrong(message.to_owned(), 1));
    }
    // There is only one process, and 0 stands for all of its workers.
    if !processes.contains(&1) {
        return Ok(());
    }
    let map = &mut scope.state.global.cpu_map;
    if threads.is_empty() || threads == [1] {
        if increments {
            cores.truncate(1);
        }
        map.retain(|(known, _)| *known != 0);
        map.push((0, cores));
    } else {
        for (position, thread) in threads.into_iter().enumerate() {
            let cores = if increments { cores.get(position).copied().into_iter().collect() } else { cores.clone() };
            map.retain(|(known, _)| *known != thread);
            map.push((thread, cores));
        }
    }
    Ok(())
}

fn core_range(word: &str) -> Result<std::ops::RangeInclusive<usize>, String> {
    if !word.starts_with(|character: char| character.is_ascii_digit()) {
        return Err(format!("'{word}' is not a CPU range."));
    }
    let (low, high) = word.split_once('-').map_or((word, None), |(low, high)| (low, Some(high)));
    let number = |text: &str| text.parse::<usize>().map_err(|_| format!("'{word}' is not a CPU range."));
    let low = number(low)?;
    let high = match high {
        None => low,
        Some("") => CORES_MAX - 1,
        Some(high) => number(high)?,
    };
    if low.max(high) >= CORES_MAX {
        return Err(format!("supports CPU numbers from 0 to {}.", CORES_MAX - 1));
    }
    Ok(low.min(high)..=low.max(high))
}

/// `user`, `group`, `uid`, `gid`. Names are looked up at start.
pub fn identity(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    let keyword = line.word(0);
    let is_user = matches!(keyword, "user" | "uid");
    let what = if matches!(keyword, "uid" | "gid") { "an integer argument." } else { "a name." };
    let word = args::required(line, 1, what)?;
    let identity = if matches!(keyword, "uid" | "gid") {
        let Ok(number) = word.parse() else {
            let (name, kind) = if is_user { ("user", "user") } else { ("group", "group") };
            let message = format!(
                "{keyword}: string '{word}' is not a number. You might want to use the '{name}' parameter to use a \
                 system {kind} name."
            );
            return Err(Problem::new(message).at(1));
        };
        Identity::Number(number)
    } else {
        Identity::Name(word.to_owned())
    };
    let first = is_first(scope, line, if is_user { "user/uid" } else { "group/gid" });
    if first {
        let field = if is_user { &mut scope.state.global.user } else { &mut scope.state.global.group };
        *field = Some((identity, line.location()));
    }
    Ok(())
}

/// `chroot`, `pidfile`, `server-state-base`, `server-state-file`.
pub fn path(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let (name, what) = match line.word(0) {
        "chroot" => ("chroot", "a directory as an argument."),
        "pidfile" => ("pidfile", "a file name as an argument."),
        "server-state-base" => ("server-state-base", "one argument: a directory path."),
        _ => ("server-state-file", "one argument: a file path."),
    };
    args::no_more(line, 1)?;
    let path = args::required(line, 1, what)?.to_owned();
    if is_first(scope, line, name) {
        let global = &mut scope.state.global;
        let field = match name {
            "chroot" => &mut global.chroot,
            "pidfile" => &mut global.pidfile,
            "server-state-base" => &mut global.server_state_base,
            _ => &mut global.server_state_file,
        };
        *field = Some(path);
    }
    Ok(())
}

/// `maxconn`, `maxconnrate`, `maxsessrate`, `maxsslconn`, `maxsslrate`, `ulimit-n`, `spread-checks`.
pub fn number(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    let (name, most) = match line.word(0) {
        "maxconn" => ("maxconn", i32::MAX.unsigned_abs()),
        "maxconnrate" => ("maxconnrate", i32::MAX.unsigned_abs()),
        "maxsessrate" => ("maxsessrate", i32::MAX.unsigned_abs()),
        "maxsslconn" => ("maxsslconn", i32::MAX.unsigned_abs()),
        "maxsslrate" => ("maxsslrate", i32::MAX.unsigned_abs()),
        "ulimit-n" => ("ulimit-n", i32::MAX.unsigned_abs()),
        _ => ("spread-checks", 50),
    };
    let number = args::lenient(scope, line, 1, 0..=most)?;
    if is_first(scope, line, name) {
        let global = &mut scope.state.global;
        match name {
            // 0 is as if it had not been said.
            "maxconn" => global.maxconn = Some(number).filter(|number| *number > 0),
            "maxconnrate" => global.maxconnrate = number,
            "maxsessrate" => global.maxsessrate = number,
            "maxsslconn" => global.maxsslconn = number,
            "maxsslrate" => global.maxsslrate = number,
            "ulimit-n" => global.ulimit_n = Some(number.into()).filter(|number| *number > 0),
            _ => global.spread_checks = number,
        }
    }
    Ok(())
}

/// `hard-stop-after`, `grace`, `max-spread-checks`.
pub fn time(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::ignore_more(scope, line, 1, 0);
    let value = args::time(scope, line, 1, Unit::Millisecond)?;
    let global = &mut scope.state.global;
    let field = match line.word(0) {
        "hard-stop-after" => &mut global.hard_stop_after,
        "grace" => &mut global.grace,
        _ => &mut global.max_spread_checks,
    };
    *field = Some(value);
    Ok(())
}

/// `node`.
pub fn node(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    let name = line.word(1);
    let is_valid = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-' | '.');
    if name.is_empty() || !name.chars().all(is_valid) {
        let message = "'node' requires valid node name - non-empty string with digits(0-9), letters(A-Z, a-z), \
                       dot(.), hyphen(-) or underscode(_).";
        return Err(Problem::new(message).at(1));
    }
    scope.state.global.node = Some(name.to_owned());
    Ok(())
}

/// `description`.
pub fn description(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::required(line, 1, "a string argument.")?;
    scope.state.global.description = Some(line.joined_from(1));
    Ok(())
}

/// `localpeer`.
pub fn localpeer(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    args::no_more(line, 1)?;
    let name = args::required(line, 1, "a name as an argument.")?.to_owned();
    if scope.state.simple.is_localpeer_forced {
        let message = "'localpeer' ignored since it is already set by using the '-L' command line argument.";
        scope.warn(line, Problem::new(message).at(0));
        return Ok(());
    }
    scope.state.global.environment.insert("HAPROXY_LOCALPEER".to_owned(), name.clone());
    scope.state.global.localpeer = Some(name);
    Ok(())
}

/// `setenv`, `presetenv`, `unsetenv`, `resetenv`.
pub fn environment(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let keyword = line.word(0);
    if matches!(keyword, "setenv" | "presetenv") {
        args::no_more(line, 3)?;
        args::ignore_more(scope, line, 2, 0);
    }
    let environment = &mut scope.state.global.environment;
    match keyword {
        "setenv" | "presetenv" => {
            if line.word(2).is_empty() {
                return Err(Problem::new(format!("'{keyword}' expects a name and a value.")).at(line.len()));
            }
            let name = line.word(1);
            if name.contains('=') {
                let message = format!("'{keyword}' failed on variable '{name}' : Invalid argument.");
                return Err(Problem::new(message).at(1));
            }
            if keyword == "setenv" || !environment.contains_key(name) {
                environment.insert(name.to_owned(), line.word(2).to_owned());
            }
        }
        "unsetenv" => {
            args::required(line, 1, "at least one variable name.")?;
            for name in line.texts_from(1) {
                environment.remove(name);
            }
        }
        _ => environment.retain(|name, _| line.texts_from(1).any(|kept| kept == name)),
    }
    Ok(())
}

/// `default-path`.
pub fn default_path(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let mode = match line.word(1) {
        "current" => DefaultPath::Current,
        "config" => DefaultPath::Config,
        "parent" => DefaultPath::Parent,
        "origin" if line.word(2).is_empty() => {
            return Err(Problem::new("'default-path origin' expects a directory as an argument.").at(2));
        }
        "origin" => DefaultPath::Origin(line.word(2).to_owned()),
        word => {
            let problem = if word.is_empty() { "missing" } else { "unsupported" };
            let message = format!(
                "{problem} default-path mode '{word}' for 'default-path', supported modes include 'current', \
                 'config', 'parent', and 'origin'."
            );
            return Err(Problem::new(message).at(1).nearest(word, ["current", "config", "parent", "origin"]));
        }
    };
    let directory = mode.directory(line.file());
    if let DefaultPath::Origin(path) = &mode
        && !matches!(scope.files.list(path), Ok(Some(_)))
    {
        let message = format!("couldn't set 'default-path' to origin '{path}': it is not a directory.");
        return Err(Problem::new(message).at(2));
    }
    scope.state.simple.default_path = mode;
    scope.state.simple.current_directory = directory;
    Ok(())
}

/// `unix-bind`.
pub fn unix_bind(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let mut index = 1;
    while !line.word(index).is_empty() {
        let value = line.word(index + 1).to_owned();
        let number = || value.parse::<u32>();
        let invalid = |what: &str| Problem::new(format!("unix-bind '{what}' expects a number.")).at(index + 1);
        let options = &mut scope.state.global.unix_bind;
        match line.word(index) {
            "prefix" if value.is_empty() => {
                return Err(Problem::new("unix_bind 'prefix' expects a path as an argument.").at(index + 1));
            }
            "prefix" => {
                if options.prefix.is_some() {
                    let message = "unix-bind 'prefix' already specified. Continuing.";
                    scope.warn(line, Problem::new(message).at(index));
                } else {
                    options.prefix = Some(value);
                }
            }
            "mode" => {
                let mode = u32::from_str_radix(&value, 8).map_err(|_| invalid("mode"))?;
                options.mode = Some(mode);
            }
            "uid" => options.user = Some(Identity::Number(number().map_err(|_| invalid("uid"))?)),
            "gid" => options.group = Some(Identity::Number(number().map_err(|_| invalid("gid"))?)),
            "user" => options.user = Some(Identity::Name(value)),
            "group" => options.group = Some(Identity::Name(value)),
            word => {
                let message = "'unix-bind' only supports the 'prefix', 'mode', 'uid', 'gid', 'user' and 'group' \
                               options.";
                let known = ["prefix", "mode", "uid", "gid", "user", "group"];
                return Err(Problem::new(message).at(index).nearest(word, known));
            }
        }
        index += 2;
    }
    Ok(())
}

/// `h1-case-adjust` and `h1-case-adjust-file`.
pub fn case_adjust(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    if line.word(0) == "h1-case-adjust" {
        args::no_more(line, 2)?;
        if line.word(2).is_empty() {
            return Err(Problem::new("'h1-case-adjust' expects <from> and <to> as argument.").at(line.len()));
        }
        return add_case_adjustment(scope, line.word(1), line.word(2)).map_err(|problem| problem.at(2));
    }
    args::no_more(line, 1)?;
    args::required(line, 1, "<file> as argument.")?;
    let contents = scope.read_file(line, 1)?;
    let contents = String::from_utf8_lossy(&contents).into_owned();
    for (number, text) in contents.lines().enumerate() {
        let text = text.split('#').next().unwrap_or_default();
        let mut words = text.split_ascii_whitespace();
        let (Some(from), to) = (words.next(), words.next()) else { continue };
        let outcome = match to {
            Some(to) if words.next().is_none() => add_case_adjustment(scope, from, to),
            _ => Err(Problem::new("expects two names")),
        };
        outcome.map_err(|problem| {
            let message = format!("h1-case-adjust-file '{}' line {} : {}", line.word(1), number + 1, problem.message());
            Problem::new(message).at(1)
        })?;
    }
    Ok(())
}

fn add_case_adjustment(scope: &mut Scope<'_>, from: &str, to: &str) -> Result<(), Problem> {
    if !from.eq_ignore_ascii_case(to) {
        return Err(Problem::new("<from> and <to> must not differ execpt the case"));
    }
    let map = &mut scope.state.global.h1_case_adjust;
    if map.insert(from.to_ascii_lowercase(), to.to_owned()).is_some() {
        return Err(Problem::new(format!("duplicate entry '{from}'")));
    }
    Ok(())
}

/// `stats` in `global`.
pub fn stats(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    if crate::table::find(Group::GlobalStats, line.word(1)).is_none() {
        let message =
            format!("'stats' only supports 'socket', 'maxconn', 'bind-process' and 'timeout' (got '{}')", line.word(1));
        let known = ["socket", "maxconn", "bind-process", "timeout"];
        return Err(Problem::new(message).at(1).nearest(line.word(1), known));
    }
    scope.state.simple.proxies_before_stats.get_or_insert(scope.state.proxies.len());
    scope.dispatch(line, 1, Group::GlobalStats)
}

/// `stats socket`.
pub fn stats_socket(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    if line.word(2).is_empty() {
        let message = "'stats socket' in global section expects an address or a path to a UNIX socket";
        return Err(Problem::new(message).at(2));
    }
    let parsed = bind::parse(scope, line, 2)?;
    for bind in parsed.binds {
        let level = bind.level.unwrap_or(CliLevel::Operator);
        scope.state.global.stats_sockets.push(StatsSocket {
            bind,
            level,
            expose_fd_listeners: parsed.expose_fd_listeners,
            severity: parsed.severity,
        });
    }
    Ok(())
}

/// `stats timeout`.
pub fn stats_timeout(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let value = args::time(scope, line, 2, Unit::Millisecond)?;
    if value.is_zero() {
        return Err(Problem::new("'stats timeout' expects a positive value").at(2));
    }
    scope.state.global.stats_timeout = Some(value);
    Ok(())
}

/// `stats maxconn`.
pub fn stats_maxconn(scope: &mut Scope<'_>, line: &Line) -> Result<(), Problem> {
    let number = args::lenient(scope, line, 2, 1..=i32::MAX.unsigned_abs())?;
    scope.state.global.stats_maxconn = Some(number);
    Ok(())
}
