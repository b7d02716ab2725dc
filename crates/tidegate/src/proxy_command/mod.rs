//! `tidegate proxy`: many stores as one. Reads nutcracker.yml and takes nutcracker's options; or a list of servers will do.

mod background;
mod options;

use std::{
    fs,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use clap::Parser as _;
use kvproxy::{nutcracker, serve, statistics};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag,
};

use background::Caller;
use options::ProxyArguments;

/// Runs as the words say, under this name.
pub fn run(name: &'static str, words: &[String]) -> ExitCode {
    let words = std::iter::once(name.to_owned()).chain(words.iter().cloned());
    let arguments = match ProxyArguments::try_parse_from(words) {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = error.print();
            // nutcracker's code for wrong options is 1; Tidegate's own commands have 2.
            let wrong = if name == "nutcracker" { 1 } else { 2 };
            return ExitCode::from(if error.use_stderr() { wrong } else { 0 });
        }
    };
    if arguments.version {
        println!("This is nutcracker-0.5.0 (by Tidegate {})", env!("CARGO_PKG_VERSION"));
        return ExitCode::SUCCESS;
    }
    if arguments.describe_stats {
        print!("{}", statistics::DESCRIPTION);
        return ExitCode::SUCCESS;
    }
    match try_run(name, &arguments) {
        Ok(code) => code,
        Err(message) => {
            eprintln!("{name}: {message}");
            ExitCode::FAILURE
        }
    }
}

fn try_run(name: &str, arguments: &ProxyArguments) -> Result<ExitCode, String> {
    let pools = match arguments.pools() {
        Ok(pools) if arguments.test_conf => {
            drop(pools);
            eprintln!("{name}: configuration file '{}' syntax is ok", arguments.conf_file.display());
            return Ok(ExitCode::SUCCESS);
        }
        Ok(pools) => pools,
        Err(error) if arguments.test_conf => {
            eprintln!("{error}");
            return Err(format!("configuration file '{}' syntax is invalid", arguments.conf_file.display()));
        }
        Err(error) => return Err(error),
    };
    let caller = if arguments.daemonize {
        match background::enter()? {
            Caller::Done(code) => return Ok(code),
            Caller::Waiting(socket) => Some(socket),
        }
    } else {
        None
    };
    let (stops, reopens) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    for signal in [SIGINT, SIGTERM] {
        flag::register(signal, Arc::clone(&stops)).map_err(|error| error.to_string())?;
    }
    flag::register(SIGHUP, Arc::clone(&reopens)).map_err(|error| error.to_string())?;
    let started = pools.iter().map(described).collect::<Vec<_>>();
    let running = serve::start(serve::Options {
        pools,
        workers: arguments.workers,
        client_output_max: arguments.client_output_limit,
        statistics: arguments.statistics()?,
        log: arguments.output.clone(),
        topology: arguments.source()?,
    });
    let running = running.map_err(|error| error.to_string())?;
    if let Some(path) = &arguments.pid_file {
        fs::write(path, format!("{}\n", std::process::id()))
            .map_err(|error| format!("the pid file {} cannot be written: {error}", path.display()))?;
    }
    match caller {
        Some(caller) => caller.serving(),
        None => started.iter().for_each(|line| eprintln!("{name}: {line}")),
    }
    running.wait(|| {
        if reopens.swap(false, Ordering::Relaxed)
            && let Err(error) = running.reopen_log()
        {
            eprintln!("{name}: {error}");
        }
        stops.load(Ordering::Relaxed)
    });
    let was_told = stops.swap(false, Ordering::Relaxed);
    if was_told {
        let (notice, patience) = arguments.shutdown();
        // Who says so again does not want to wait.
        running.drain(notice, patience, || stops.load(Ordering::Relaxed));
    }
    running.stop();
    if let Some(path) = &arguments.pid_file {
        let _ = fs::remove_file(path);
    }
    Ok(if was_told { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What a pool does, for whoever starts it.
fn described(pool: &nutcracker::PoolConfig) -> String {
    if pool.slots.is_some() {
        return format!("pool '{}' on {}", pool.name, pool.listen);
    }
    let servers = pool.servers.len();
    let plural = if servers == 1 { "" } else { "s" };
    format!("pool '{}' on {}: {servers} server{plural}", pool.name, pool.listen)
}
