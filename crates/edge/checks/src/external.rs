//! `option external-check`: a program checks a server, with HAProxy's arguments and environment.
//!
//! The program is started on the background thread, as starting one looks at files and waits for the child. Its end comes
//! through a descriptor of the process, so nobody waits for it in a system call.

use std::{
    io,
    os::{
        fd::OwnedFd,
        unix::process::{CommandExt as _, ExitStatusExt as _},
    },
    process::{Child, Command, Stdio},
    time::Duration,
};

use balance::{CheckReport, CheckStatus, ServerId};
use haproxycfg::model::{BindAddress, ExternalCheck, Mode};
use live::{LiveProxy, LiveServer};
use net::Target;
use runtime::log::Level;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use tokio::{io::unix::AsyncFd, sync::oneshot, time::timeout};

/// What HAProxy says where there is no address or port.
const NOT_USED: &str = "NOT_USED";
/// Time that a program has to end after SIGTERM, before it is killed.
const END_PATIENCE: Duration = Duration::from_secs(5);
/// The code of a program that could not be executed.
const NOT_EXECUTED: u16 = 255;

fn report(status: CheckStatus, code: u16, info: String) -> CheckReport {
    CheckReport { status, code, info }
}

/// Runs the program once.
pub(super) async fn run(proxy: &LiveProxy, server: &LiveServer, check: &ExternalCheck) -> CheckReport {
    let settings = proxy.settings();
    let global = &proxy.config.global;
    let interval = server.config.inter;
    let limit = match (settings.timeouts.check, settings.timeouts.connect) {
        (Some(_), Some(connect)) => interval.min(connect),
        _ => interval,
    };
    if !global.insecure_fork && !rustix::process::geteuid().is_root() {
        // HAProxy's system refuses; here nothing is tried.
        let error = "Resource temporarily unavailable";
        runtime::log::write(
            Level::Alert,
            format_args!(
                "Failed to fork process for external health check (likely caused by missing 'insecure-fork-wanted'): \
                 {error}. Aborting."
            ),
        );
        return report(CheckStatus::SocketError, 0, error.to_owned());
    }
    let command = command(proxy, server, check);
    let places = proxy.process.background.programs(global.tune.external_checks_max);
    let (answer, outcome) = oneshot::channel();
    let is_running = proxy.process.background.run(move || {
        tokio::task::spawn_local(async move {
            let Ok(_place) = places.acquire_owned().await else { return };
            supervise(command, limit, answer).await;
        });
    });
    let lost = || report(CheckStatus::SocketError, 0, String::new());
    if !is_running {
        return lost();
    }
    outcome.await.unwrap_or_else(|_| lost())
}

/// The program with its arguments and its environment, which is all that it gets.
fn command(proxy: &LiveProxy, server: &LiveServer, check: &ExternalCheck) -> Command {
    let settings = proxy.settings();
    let (proxy_address, proxy_port) = match settings.binds.first().map(|bind| &bind.address) {
        Some(BindAddress::Inet(address) | BindAddress::Quic(address)) => {
            (address.ip().to_string(), address.port().to_string())
        }
        Some(BindAddress::Unix(path)) => (path.clone(), NOT_USED.to_owned()),
        _ => (NOT_USED.to_owned(), NOT_USED.to_owned()),
    };
    let (address, port) = match server.target() {
        Target::Inet(address) => (address.ip().to_string(), address.port().to_string()),
        Target::Unix(path) | Target::Abstract(path) => (path, NOT_USED.to_owned()),
        Target::Unresolved => (String::new(), String::new()),
    };
    let served = proxy.farm().served(ServerId::new(server.index.0 as usize));
    let used = |text: &str| if text == NOT_USED { String::new() } else { text.to_owned() };
    let mut command = Command::new(&check.command);
    command
        .arg0(&check.command)
        .args([&proxy_address, &proxy_port, &address, &port])
        .env_clear()
        .env("PATH", check.path.as_deref().unwrap_or_default())
        .env("HAPROXY_PROXY_NAME", &*settings.name)
        .env("HAPROXY_PROXY_ID", settings.id.to_string())
        .env("HAPROXY_PROXY_ADDR", used(&proxy_address))
        .env("HAPROXY_PROXY_PORT", used(&proxy_port))
        .env("HAPROXY_SERVER_NAME", &*server.config.name)
        .env("HAPROXY_SERVER_ID", server.config.id.to_string())
        .env("HAPROXY_SERVER_ADDR", used(&address))
        .env("HAPROXY_SERVER_PORT", used(&port))
        .env("HAPROXY_SERVER_MAXCONN", server.config.maxconn.to_string())
        .env("HAPROXY_SERVER_CURCONN", served.to_string())
        .env("HAPROXY_SERVER_SSL", "0")
        .env("HAPROXY_SERVER_PROTO", if settings.mode == Mode::Http { "h1" } else { "tcp" })
        .stdin(Stdio::null());
    command
}

/// Starts the program and sees it to its end; what it came to is told as soon as it is known.
async fn supervise(mut command: Command, limit: Duration, mut answer: oneshot::Sender<CheckReport>) {
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            let words = super::connect::words(&error);
            runtime::log::write(
                Level::Alert,
                format_args!("Failed to exec process for external health check: {words}. Aborting."),
            );
            let _ = answer.send(report(CheckStatus::ProcessError, NOT_EXECUTED, String::new()));
            return;
        }
    };
    let end = tokio::select! {
        end = timeout(limit, wait(&mut child)) => end.ok(),
        // Nobody wants to know any more: the configuration is gone.
        () = answer.closed() => None,
    };
    let outcome = match end {
        Some(Ok((0, true))) => report(CheckStatus::ProcessOk, 0, String::new()),
        Some(Ok((code, exited))) => {
            report(CheckStatus::ProcessError, if exited { code } else { u16::MAX }, String::new())
        }
        Some(Err(error)) => report(CheckStatus::SocketError, 0, super::connect::words(&error)),
        None => {
            runtime::log::write(Level::Warning, format_args!("kill {}", child.id()));
            let _ = kill_process(Pid::from_child(&child), Signal::TERM);
            report(CheckStatus::ProcessTimeout, 0, String::new())
        }
    };
    let is_running = outcome.status == CheckStatus::ProcessTimeout;
    let _ = answer.send(outcome);
    if is_running && timeout(END_PATIENCE, wait(&mut child)).await.is_err() {
        let _ = child.kill();
        let _ = wait(&mut child).await;
    }
}

/// Waits for the end of a program: its code, and whether it ended by itself.
async fn wait(child: &mut Child) -> io::Result<(u16, bool)> {
    let descriptor: OwnedFd = pidfd_open(Pid::from_child(child), PidfdFlags::NONBLOCK)?;
    #[expect(
        deprecated,
        reason = "its successor is unsafe for descriptors that do not own; this one is owned until the end"
    )]
    let descriptor = AsyncFd::new(descriptor)?;
    loop {
        if let Some(status) = child.try_wait()? {
            let code = status.code().and_then(|code| u16::try_from(code).ok()).unwrap_or_default();
            return Ok((code, status.signal().is_none()));
        }
        descriptor.readable().await?.clear_ready();
    }
}
