//! `tidegate edge` and `tidegate haproxy`: HAProxy's command line.
//!
//! The options are read by hand because HAProxy's are of a kind that no parser of today knows: single letters that take
//! the next word, words behind one dash (`-sf`, `-Ws`), and lists that go on to the next dash (`-f a b`, `-sf 1 2`).

mod command_line;
mod control;
mod https_start;
mod quick_start;
pub mod usage;
mod version;

use std::{collections::BTreeMap, io::Write as _, path::PathBuf, process::ExitCode};

use edge::role::{EdgeRole, Given, read, render};
use haproxycfg::Verdict;
use runtime::log::{self, Level};
use runtime::process::{EndOldProcesses, Introduction, Mode, OldProcesses, Options, is_first, run_file};

use self::command_line::CommandLine;
pub use self::quick_start::{Configuration, bind_address, url};

/// Whose habits the program has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Personality {
    /// With a master process unless told otherwise.
    Tidegate,
    /// As `haproxy`.
    Haproxy,
}

/// The code for options that are none, of all commands that are Tidegate's own.
const WRONG_OPTION: u8 = 2;

/// Runs the edge as the words say.
pub fn run(program: &str, words: &[String], personality: Personality) -> ExitCode {
    let mut line = match command_line::parse(words) {
        Ok(line) => line,
        Err(message) => {
            eprintln!("{message}");
            return match personality {
                Personality::Haproxy => ExitCode::FAILURE,
                Personality::Tidegate => ExitCode::from(WRONG_OPTION),
            };
        }
    };
    // What a user types to come here.
    let called = if personality == Personality::Tidegate { "tidegate edge" } else { program };
    if line.help {
        // Whoever reads it may have seen enough.
        let _ = std::io::stdout().write_all(usage::usage(called).as_bytes());
        return ExitCode::SUCCESS;
    }
    let quick_start = match take_quick_start(&mut line) {
        Ok(Some(configuration)) if line.quick_start.print => {
            // Whoever reads it may have seen enough.
            let _ = std::io::stdout().write_all(configuration.text.as_bytes());
            return ExitCode::SUCCESS;
        }
        Ok(configuration) => configuration,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::FAILURE;
        }
    };
    line.edge.has_master = line.master_worker || personality == Personality::Tidegate;
    line.edge.plugins = crate::plugins::PLUGINS;
    line.edge.language.hostname = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if line.version > 0 {
        version::print_version(line.version > 1);
        return ExitCode::SUCCESS;
    }
    if let Some(condition) = &line.condition {
        return check_condition(condition);
    }
    // Processes that this one starts are there already.
    if let Some(directory) = line.directory.as_ref().filter(|_| is_first())
        && let Err(error) = std::env::set_current_dir(directory)
    {
        eprintln!(
            "[ALERT]    ({}) : Could not change to directory {}: {error}",
            std::process::id(),
            directory.display()
        );
        return ExitCode::FAILURE;
    }
    if is_first() {
        for warning in &line.warnings {
            log::print(Level::Warning, warning);
        }
    }
    if line.edge.sources.is_empty() {
        let without =
            if personality == Personality::Tidegate { ", or start without one: --from :80 --to app:8080" } else { "" };
        log::print(Level::Alert, &format!("No configuration file given: name one with -f{without}"));
        eprint!("{}", usage::usage(called));
        return ExitCode::FAILURE;
    }
    if line.check {
        return check(&line);
    }
    serve(line, personality, quick_start)
}

/// Runs the edge as a configuration says that options of another command stand for.
pub fn run_configuration(configuration: Configuration, quiet: bool) -> ExitCode {
    let mut line = CommandLine::default();
    line.edge.has_master = true;
    line.edge.quiet = quiet;
    line.edge.plugins = crate::plugins::PLUGINS;
    line.edge.language.hostname = rustix::system::uname().nodename().to_string_lossy().into_owned();
    give(&mut line, &configuration);
    serve(line, Personality::Tidegate, Some(configuration))
}

/// Has a configuration be read in the place of files.
fn give(line: &mut CommandLine, configuration: &Configuration) {
    line.edge.sources.push(quick_start::NAME.to_owned());
    line.edge.given = Some(Given { name: quick_start::NAME.to_owned(), text: configuration.text.clone() });
}

/// Has the configuration that `--from` and `--to` stand for be read in the place of files.
fn take_quick_start(line: &mut CommandLine) -> Result<Option<quick_start::Configuration>, String> {
    if !line.quick_start.is_asked_for() {
        return Ok(None);
    }
    if !line.edge.sources.is_empty() {
        return Err(
            "'--from' and '--to' stand for a configuration: '-f' cannot stand beside them; --print shows it".to_owned()
        );
    }
    let configuration = line.quick_start.configuration()?;
    give(line, &configuration);
    Ok(Some(configuration))
}

/// How a master makes itself known: what it runs, and what it says.
fn introduction(line: &CommandLine, quick_start: Option<quick_start::Configuration>) -> Introduction {
    let absolute = |source: &String| {
        std::path::absolute(source).map_or_else(|_| source.clone(), |path| path.display().to_string())
    };
    let configuration = match &quick_start {
        Some(quick_start) => vec![quick_start.options.clone()],
        None => line.edge.sources.iter().map(absolute).collect(),
    };
    let greeting = quick_start.map(|quick_start| quick_start.greeting).filter(|_| !line.edge.quiet).unwrap_or_default();
    Introduction { folder: run_file::own_folder(), configuration, greeting }
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
            log::print(Level::Alert, &format!("{} in '{text}' at position {}.", error.message, error.offset + 1));
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

/// What is listed when a configuration has been found good: `-dL` and `-dK`.
fn list(line: &CommandLine) {
    let mut out = String::new();
    if line.libraries {
        if !line.edge.quiet {
            out.push_str("List of loaded object files:\n");
        }
        out.push_str(&edge::libraries::names());
    }
    if let Some(classes) = &line.keywords {
        out.push_str(&edge::keyword_dump::dump(classes));
    }
    // Whoever reads it may have seen enough.
    let _ = std::io::stdout().write_all(out.as_bytes());
}

/// Warns of `-S` where there is no master to take commands; whether it did.
fn warn_of_control(line: &CommandLine, master_worker: bool) -> bool {
    let idle = !line.control.is_empty() && !line.edge.has_master && !master_worker;
    if idle && !line.edge.quiet {
        let message = "config : a master CLI socket was defined, but master-worker mode (-W) is not enabled.";
        log::print(Level::Warning, message);
    }
    idle
}

fn check(line: &CommandLine) -> ExitCode {
    let options = &line.edge;
    let (parsed, _) = read(options);
    if !options.quiet {
        eprint!("{}", render(&parsed));
    }
    let verdict = parsed.verdict();
    let mut has_warnings = parsed.has_warnings();
    if let Some(config) = &parsed.config {
        has_warnings |= warn_of_control(line, config.global.master_worker);
        list(line);
    }
    if !options.is_quiet(parsed.config.as_ref()) {
        if has_warnings && verdict == Verdict::Valid {
            println!("Warnings were found.");
        }
        if let Some(message) = verdict.message() {
            println!("{message}");
        }
    }
    ExitCode::from(verdict.exit_code())
}

fn serve(mut line: CommandLine, personality: Personality, quick_start: Option<quick_start::Configuration>) -> ExitCode {
    // `-D` counts for more than `-db`, and these for more than the file.
    let foreground = (line.foreground || line.debug) && !line.daemon;
    let (mut daemon, mut master, mut pidfile) = (line.daemon, line.master_worker, line.pidfile.take());
    // NOTE: `daemon`, `master-worker` and `pidfile` may stand in the file, so it is read once for them alone; not by the
    // processes that this one starts, to which they mean nothing.
    let config = if runtime::process::is_told() { None } else { read(&line.edge).0.config };
    if let Some(config) = config {
        if is_first() {
            warn_of_control(&line, config.global.master_worker);
            list(&line);
        }
        daemon |= config.global.daemon && !foreground;
        master |= config.global.master_worker;
        pidfile = pidfile.or_else(|| config.global.pidfile.as_ref().map(PathBuf::from));
    }
    let master = master || personality == Personality::Tidegate;
    // As in HAProxy, who stays where it was started is no file's business.
    let pidfile = pidfile.filter(|_| daemon || master);
    line.edge.foreground = foreground;
    line.edge.console = !daemon && !line.edge.quiet;
    let control = match line.control.iter().map(|text| control::control_listener(text)).collect::<Result<Vec<_>, _>>() {
        Ok(control) => control,
        Err(message) => {
            log::print(Level::Alert, &message);
            return ExitCode::FAILURE;
        }
    };
    line.edge.master_sockets = control.iter().map(|spec| control::listed(&spec.address)).collect();
    let introduction = master.then(|| introduction(&line, quick_start));
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
        introduction,
    };
    runtime::process::run(EdgeRole::new(line.edge), options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_see_the_environment() {
        let environment = [("A".to_owned(), "1".to_owned())].into();
        for (text, expected) in
            [("streq(\"$A\",${A}x)", "streq(\"1\",1x)"), ("streq($NONE,a) $", "streq(,a) $"), ("${A", "${A")]
        {
            assert_eq!(with_variables(text, &environment), expected);
        }
    }
}
