//! One process that does it all: HAProxy without `-W`.
//!
//! SIGUSR2 reloads here as well, as far as the privileges that are left allow binding new addresses.

use super::host::{Host, make_load};
use super::message::{PlanHeader, read};
use super::notify::Notifier;
use super::old::{self, Inherited};
use super::options::{OldProcesses, Options};
use super::role::{CheckReason, DrainReason, Role, Service as _};
use super::signals::{self, Caught};
use super::{Started, caught_check, message::PlanFile, privileges};
use crate::listen::{Prepared, SocketTable};
use crate::log;
use std::io;

/// A configuration that has been checked, with its new sockets.
struct Checked {
    header: PlanHeader,
    blob: Vec<u8>,
    prepared: Prepared,
}

fn check<R: Role>(
    role: &mut R,
    reason: CheckReason,
    generation: u64,
    table: &SocketTable,
    old_processes: Option<&OldProcesses>,
    inherited: &mut Inherited,
) -> Result<Checked, String> {
    let plan = caught_check(role, reason)?;
    let prepared = old::prepare(table, &plan.listeners, plan.workers, old_processes, inherited)
        .map_err(|error| old::describe(&error))?;
    let plan = PlanFile::new(generation, plan).map_err(|error| error.to_string())?;
    let (header, blob) = read(&plan.file).map_err(|error| error.to_string())?;
    Ok(Checked { header, blob, prepared })
}

/// Serves until a signal says to end. Returns the exit code.
pub(crate) async fn serve<R: Role>(mut role: R, mut options: Options, mut started: Started) -> io::Result<i32> {
    let mut caught = signals::listen(signals::SERVING)?;
    let notifier = Notifier::from_environment();
    let mut host = match begin(&mut role, &options, &mut started).await {
        Ok(host) => host,
        Err(text) => {
            log::alert!("{text}");
            return Ok(1);
        }
    };
    if let Some(old) = options.old_processes.take() {
        old.end();
    }
    notifier.ready("serving");
    started.serving();
    let mut generation = 1;
    while let Some(signal) = caught.recv().await {
        match signal {
            Caught::User1 => break,
            Caught::HangUp => host.service().hang_up(),
            Caught::User2 => {
                notifier.reloading();
                generation += 1;
                match reload(&mut role, &mut host, generation).await {
                    Ok(()) => log::notice!("Reload succeeded"),
                    Err(text) => log::alert!("Reload failed, nothing has changed: {text}"),
                }
                notifier.ready(&format!("serving generation {generation}"));
            }
            Caught::Pause => host.service().pause(true),
            Caught::Resume => host.service().pause(false),
            Caught::Quit => signals::log_memory(),
            Caught::End(number) => return Ok(128 + number),
            Caught::Child | Caught::Alarm => {}
        }
    }
    log::warning!("Ending when all connections have");
    notifier.stopping();
    Ok(host.drain(DrainReason::Stop, || {}).await)
}

async fn begin<R: Role>(role: &mut R, options: &Options, started: &mut Started) -> Result<Host<R::Service>, String> {
    let mut table = SocketTable::default();
    let mut inherited = match &options.take_sockets_from {
        Some(path) => Inherited::from_process(path)?,
        None => Inherited::default(),
    };
    let old_processes = options.old_processes.as_ref();
    let checked = check(role, CheckReason::Start, 1, &table, old_processes, &mut inherited)?;
    // Sockets of the old process that are not wanted.
    drop(inherited);
    table.commit(checked.prepared).map_err(|error| error.to_string())?;
    started.write_pidfile()?;
    let (load, _) = make_load(&table, &checked.header, checked.blob);
    let service = role.open(&load)?;
    privileges::apply(&checked.header.settings)?;
    let mut host = Host::new(service, table);
    host.load(checked.header, load.blob).await?;
    Ok(host)
}

async fn reload<R: Role>(role: &mut R, host: &mut Host<R::Service>, generation: u64) -> Result<(), String> {
    let mut nothing = Inherited::default();
    let checked = check(role, CheckReason::Reload, generation, host.table(), None, &mut nothing)?;
    host.commit(checked.prepared).map_err(|error| error.to_string())?;
    host.load(checked.header, checked.blob).await
}
