//! `tidegate edge` and `tidegate haproxy`: HAProxy's command line.
//!
//! The options are read by hand because HAProxy's are of a kind that no parser of today knows: single letters that take
//! the next word, words behind one dash (`-sf`, `-Ws`), and lists that go on to the next dash (`-f a b`, `-sf 1 2`).

use std::{collections::BTreeMap, path::PathBuf, process::ExitCode};

use edge::role::{EdgeOptions, EdgeRole, control_name, read, render};
use haproxycfg::{Verdict, model::CliLevel};
use runtime::process::{EndOldProcesses, Mode, OldProcesses, Options, group_id, user_id};

/// Whose habits the program has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Personality {
    /// With a master process unless told otherwise.
    Tidegate,
    /// As `haproxy`.
    Haproxy,
}

/// What the command line says.
#[derive(Debug, Default)]
struct CommandLine {
    edge: EdgeOptions,
    check: bool,
    /// `-cc`: the condition to evaluate instead of serving.
    condition: Option<String>,
    version: u8,
    daemon: bool,
    foreground: bool,
    master_worker: bool,
    single: bool,
    pidfile: Option<PathBuf>,
    finish: Vec<u32>,
    terminate: Vec<u32>,
    take_sockets_from: Option<PathBuf>,
    control: Vec<String>,
    directory: Option<PathBuf>,
    debug: bool,
}

/// Runs the edge as the words say.
pub fn run(program: &str, words: &[String], personality: Personality) -> ExitCode {
    let mut line = match parse(words) {
        Ok(line) => line,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::FAILURE;
        }
    };
    program.clone_into(&mut line.edge.program);
    line.edge.has_master = (line.master_worker || personality == Personality::Tidegate) && !line.single;
    line.edge.language.hostname = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if line.version > 0 {
        print_version(line.version > 1);
        return ExitCode::SUCCESS;
    }
    if let Some(condition) = &line.condition {
        return check_condition(condition);
    }
    if let Some(directory) = &line.directory
        && let Err(error) = std::env::set_current_dir(directory)
    {
        eprintln!(
            "[ALERT]    ({}) : Could not change to directory {}: {error}",
            std::process::id(),
            directory.display()
        );
        return ExitCode::FAILURE;
    }
    if line.edge.sources.is_empty() {
        eprintln!("[ALERT]    ({}) : No configuration file given: name one with -f", std::process::id());
        print_usage(program);
        return ExitCode::FAILURE;
    }
    if line.check {
        return check(&line.edge);
    }
    serve(line, personality)
}

/// `-cc`: success when the condition holds, 1 when it does not, 2 when it cannot be read.
fn check_condition(text: &str) -> ExitCode {
    // What is not UTF-8 there must not end the program.
    let text_of = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
    let environment = std::env::vars_os().map(|(name, value)| (text_of(name), text_of(value))).collect();
    let text = with_variables(text, &environment);
    match haproxycfg::condition::evaluate(&text, &environment) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let pid = std::process::id();
            eprintln!("[ALERT]    ({pid}) : {} in '{text}' at position {}.", error.message, error.offset + 1);
            ExitCode::from(2)
        }
    }
}

/// A condition with the environment's values for `$NAME` and `${NAME}`; quotes stay for the predicates.
fn with_variables(text: &str, environment: &BTreeMap<String, String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut parts = text.split('$');
    out.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let name_end = |text: &str| text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
        let (name, rest) = match part.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            Some(found) => found,
            None => part.split_at(name_end(part)),
        };
        if name.is_empty() {
            out.push('$');
        }
        out.push_str(environment.get(name).map_or("", String::as_str));
        out.push_str(rest);
    }
    out
}

fn check(options: &EdgeOptions) -> ExitCode {
    let (parsed, _) = read(options);
    eprint!("{}", render(&parsed));
    let verdict = parsed.verdict();
    if !options.is_quiet(parsed.config.as_ref()) {
        if parsed.has_warnings() && verdict == Verdict::Valid {
            println!("Warnings were found.");
        }
        if let Some(message) = verdict.message() {
            println!("{message}");
        }
    }
    ExitCode::from(verdict.exit_code())
}

fn serve(mut line: CommandLine, personality: Personality) -> ExitCode {
    // `-D` counts for more than `-db`, and these for more than the file.
    let foreground = (line.foreground || line.debug) && !line.daemon;
    let (mut daemon, mut master, mut pidfile) = (line.daemon, line.master_worker, line.pidfile.take());
    // NOTE: `daemon`, `master-worker` and `pidfile` may stand in the file, so it is read once for them alone; not by the
    // processes that this one starts, to which they mean nothing.
    let config = if runtime::process::is_told() { None } else { read(&line.edge).0.config };
    if let Some(config) = config {
        daemon |= config.global.daemon && !foreground;
        master |= config.global.master_worker;
        pidfile = pidfile.or_else(|| config.global.pidfile.as_ref().map(PathBuf::from));
    }
    let master = (master || personality == Personality::Tidegate) && !line.single;
    line.edge.foreground = foreground;
    line.edge.console = !daemon && !line.edge.quiet;
    let control = match line.control.iter().map(|text| control_listener(text)).collect::<Result<Vec<_>, _>>() {
        Ok(control) => control,
        Err(message) => {
            eprintln!("[ALERT]    ({}) : {message}", std::process::id());
            return ExitCode::FAILURE;
        }
    };
    line.edge.master_sockets = control.iter().map(|spec| listed(&spec.address)).collect();
    let old_processes = match (line.finish.is_empty(), line.terminate.is_empty()) {
        (true, true) => None,
        (false, _) => Some(OldProcesses { pids: line.finish, how: EndOldProcesses::Finish }),
        (true, false) => Some(OldProcesses { pids: line.terminate, how: EndOldProcesses::Terminate }),
    };
    line.edge.takes_over = old_processes.is_some();
    let options = Options {
        mode: if master { Mode::MasterWorker } else { Mode::Single },
        daemon,
        pidfile,
        old_processes,
        take_sockets_from: line.take_sockets_from,
        control,
    };
    runtime::process::run(EdgeRole::new(line.edge), options)
}

/// An address of `-S`: a path, `ip:port`, or HAProxy's prefixes, then options of `bind` lines after commas.
fn control_listener(text: &str) -> Result<runtime::ListenSpec, String> {
    let mut words = text.split(',').filter(|word| !word.is_empty());
    let address = words.next().unwrap_or_default();
    let number = |number: &str, prefix: &str| {
        number.parse().map_err(|_| format!("-S: '{address}': {prefix} takes the number of a descriptor"))
    };
    let parsed = if let Some(path) = address.strip_prefix("unix@") {
        runtime::Address::Unix(path.into())
    } else if let Some(name) = address.strip_prefix("abns@") {
        runtime::Address::Abstract(name.to_owned())
    } else if let Some(descriptor) = address.strip_prefix("fd@") {
        runtime::Address::Inherited(number(descriptor, "fd@")?)
    } else if let Some(descriptor) = address.strip_prefix("sockpair@") {
        runtime::Address::SocketPair(number(descriptor, "sockpair@")?)
    } else if let Ok(address) = address.parse() {
        runtime::Address::Ip(address)
    } else {
        runtime::Address::Unix(address.into())
    };
    let mut spec = runtime::ListenSpec::new(control_name(CliLevel::Admin), parsed);
    let words: Vec<&str> = words.collect();
    let mut rest = words.iter().copied();
    while let Some(word) = rest.next() {
        let first = words.first().copied().unwrap_or_default();
        let wrong = |what: &str| format!("'{address} {first}' : '{word}' {what}");
        let value = rest.next().ok_or_else(|| wrong("expects a value"));
        let id = |value: &str| value.parse().map_err(|_| wrong("expects a number"));
        match word {
            "level" => {
                let level = match value? {
                    "user" => CliLevel::User,
                    "operator" => CliLevel::Operator,
                    "admin" => CliLevel::Admin,
                    _ => return Err(wrong("only supports 'user', 'operator', and 'admin'")),
                };
                control_name(level).clone_into(&mut spec.name);
            }
            "mode" => {
                let bits = u32::from_str_radix(value?, 8).map_err(|_| wrong("expects an octal number"))?;
                spec.unix.mode = Some(bits);
            }
            "uid" => spec.unix.uid = Some(id(value?)?),
            "gid" => spec.unix.gid = Some(id(value?)?),
            "user" => spec.unix.uid = Some(user_id(value?).ok().flatten().ok_or_else(|| wrong("names nobody"))?),
            "group" => spec.unix.gid = Some(group_id(value?).ok().flatten().ok_or_else(|| wrong("names no group"))?),
            _ => return Err(format!("'{address} {first}' : unknown keyword '{word}'.")),
        }
    }
    Ok(spec)
}

/// An address as HAProxy lists it.
fn listed(address: &runtime::Address) -> String {
    match address {
        runtime::Address::Ip(address) if address.is_ipv4() => format!("ipv4@{address}"),
        runtime::Address::Ip(address) => format!("ipv6@{address}"),
        runtime::Address::Unix(path) => format!("unix@{}", path.display()),
        runtime::Address::Abstract(name) => format!("abns@{name}"),
        runtime::Address::Inherited(number) => format!("fd@{number}"),
        runtime::Address::SocketPair(number) => format!("sockpair@{number}"),
    }
}

fn parse(words: &[String]) -> Result<CommandLine, String> {
    let mut line = CommandLine::default();
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        let mut value = |what: &str| words.next().cloned().ok_or_else(|| format!("option '{word}' expects {what}"));
        match word.as_str() {
            "-f" => {
                line.edge.sources.push(value("a file or folder")?);
                while let Some(next) = words.next_if(|next| !next.starts_with('-')) {
                    line.edge.sources.push(next.clone());
                }
            }
            "--" => line.edge.sources.extend(words.by_ref().cloned()),
            "-c" => line.check = true,
            "-cc" => line.condition = Some(value("a condition")?),
            "-v" => line.version = 1,
            "-vv" => line.version = 2,
            "-W" => line.master_worker = true,
            // systemd is told whenever it asks to be, and wants its process in the foreground whatever the file says.
            "-Ws" => (line.master_worker, line.foreground) = (true, true),
            "-D" => line.daemon = true,
            "-db" => {
                line.foreground = true;
                line.single = !line.master_worker && line.single;
            }
            "-d" => line.debug = true,
            "-q" => line.edge.quiet = true,
            "-V" => (line.edge.quiet, line.edge.verbose) = (false, true),
            "-dS" => line.edge.no_splice = true,
            // Pollers and other engines that there is only one of here.
            "-de" | "-dp" | "-dk" | "-dG" | "-dr" | "-dV" | "-dD" | "-dL" | "-dM" => {}
            "-dW" => line.edge.language.zero_warning = true,
            "-dR" => line.edge.language.noreuseport = true,
            "-p" => line.pidfile = Some(value("a file")?.into()),
            "-n" => line.edge.language.maxconn = Some(number(&value("a number of connections")?, word)?),
            "-N" => line.edge.language.proxy_maxconn = Some(number(&value("a number of connections")?, word)?),
            "-m" => {
                value("megabytes")?;
            }
            "-C" => line.directory = Some(value("a folder")?.into()),
            "-L" => line.edge.language.localpeer = Some(value("a name")?),
            "-x" => line.take_sockets_from = Some(value("a stats socket")?.into()),
            "-S" => line.control.push(value("an address")?),
            "-sf" | "-st" => {
                let mut pids = Vec::new();
                while let Some(next) = words.next_if(|next| next.bytes().all(|byte| byte.is_ascii_digit())) {
                    pids.push(number(next, word)?);
                }
                if word == "-sf" { line.finish = pids } else { line.terminate = pids }
            }
            word if word.starts_with("-d") && word.get(2..).is_some_and(|rest| rest.starts_with('M')) => {}
            word => return Err(format!("unknown option '{word}'; run with no option to see them all")),
        }
    }
    Ok(line)
}

fn number(text: &str, option: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("option '{option}' expects a number, not '{text}'"))
}

fn print_version(long: bool) {
    println!(
        "HAProxy version {}-tidegate{} (Tidegate)",
        haproxycfg::condition::HAPROXY_VERSION,
        env!("CARGO_PKG_VERSION")
    );
    if !long {
        return;
    }
    println!("Status: speaks the configuration language and protocols of HAProxy 2.6; see `tidegate explain KEYWORD`.");
    println!("Running on: {}", rustix::system::uname().release().to_string_lossy());
    println!();
    let features = haproxycfg::condition::FEATURES.iter();
    let features = features.map(|(name, there)| format!("{}{name}", if *there { '+' } else { '-' }));
    println!("Feature list : {}", features.collect::<Vec<_>>().join(" "));
    println!();
    println!(
        "Built with multi-threading support (MAX_THREADS={}, default={}).",
        edge::live::WORKERS_MAX,
        std::thread::available_parallelism().map_or(1, usize::from)
    );
    let codings = http::Coding::ALL.map(|coding| format!("{}(\"{}\")", coding.name(), coding.token()));
    println!("Compression algorithms supported : {}", codings.join(", "));
    println!("Available polling systems : epoll (through tokio)");
    println!("Available multiplexer protocols : h1 (HTTP), none (TCP)");
    println!("Available services : prometheus-exporter");
    println!("Available filters :");
    for filter in ["[BWLIM] bwlim-in", "[BWLIM] bwlim-out", "[COMP] compression", "[TRACE] trace"] {
        println!("\t{filter}");
    }
}

fn print_usage(program: &str) {
    eprintln!(
        "Usage: {program} [-f <file|folder>]* [options]
  -f <file|folder>...   configuration; folders give their *.cfg in order
  -c                    check the configuration and say whether it is valid
  -v, -vv               version, and how it was built
  -W, -Ws               with a master process (the default of `tidegate edge`)
  -D, -db               detach, or stay in the foreground
  -d                    foreground, and say more
  -q, -V                quiet, or not
  -p <file>             write the process number there
  -n <count>            most connections of the process
  -N <count>            most connections of a proxy that says nothing else
  -C <folder>           change there before files are read
  -L <name>             name of this machine among peers
  -S <address>          where the master takes commands
  -x <socket>           take listening sockets from the process behind this stats socket
  -sf <pid>...          once serving, let these processes finish
  -st <pid>...          once serving, end these processes
  -dS                   never splice
  -dR                   one socket for each address (as noreuseport)
  -dW                   warnings are errors (as zero-warning)"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Result<CommandLine, String> {
        parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn reads_haproxys_options() {
        let parsed = line("-W -f a.cfg b.cfg -f c -D -p /run/x.pid -sf 12 34 -n 100 -S /run/m,level,admin").unwrap();
        assert_eq!(parsed.edge.sources, ["a.cfg", "b.cfg", "c"]);
        assert_eq!(parsed.finish, [12, 34]);
        assert!(parsed.master_worker && parsed.daemon);
        assert_eq!(parsed.edge.language.maxconn, Some(100));
        assert_eq!(parsed.control, ["/run/m,level,admin"]);
        assert_eq!(line("-- x y").unwrap().edge.sources, ["x", "y"]);
    }

    #[test]
    fn conditions_see_the_environment() {
        let environment = [("A".to_owned(), "1".to_owned())].into();
        for (text, expected) in
            [("streq(\"$A\",${A}x)", "streq(\"1\",1x)"), ("streq($NONE,a) $", "streq(,a) $"), ("${A", "${A")]
        {
            assert_eq!(with_variables(text, &environment), expected);
        }
    }

    #[test]
    fn options_of_control_sockets_are_read() {
        let spec = control_listener("/run/m,level,operator,mode,600,uid,5").unwrap();
        assert_eq!(
            (spec.unix.mode, spec.unix.uid, spec.name.as_str()),
            (Some(0o600), Some(5), "master-socket operator")
        );
        for (text, expected) in [
            ("/run/m,level,king", "'/run/m level' : 'level' only supports 'user', 'operator', and 'admin'"),
            ("/run/m,level", "'/run/m level' : 'level' expects a value"),
            ("/run/m,levle,user", "'/run/m levle' : unknown keyword 'levle'."),
            ("/run/m,mode,9", "'/run/m mode' : 'mode' expects an octal number"),
        ] {
            assert_eq!(control_listener(text).unwrap_err(), expected);
        }
    }

    #[test]
    fn says_what_is_wrong() {
        for (text, expected) in [
            ("-f", "option '-f' expects a file or folder"),
            ("-n many", "option '-n' expects a number, not 'many'"),
            ("--fast", "unknown option '--fast'; run with no option to see them all"),
        ] {
            assert_eq!(line(text).unwrap_err(), expected);
        }
    }
}
