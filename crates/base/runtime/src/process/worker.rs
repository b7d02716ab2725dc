//! The worker process: takes sockets and configurations from its master and hosts the service.

use super::channel::{Channel, Descriptor, Outgoing, cut, memory_file, read_memory_file};
use super::host::{Host, make_load};
use super::message::{self, FromWorker, PlanHeader, ToWorker};
use super::privileges;
use super::role::{DrainReason, Role, Service as _};
use super::signals::{self, Caught};
use crate::listen::SocketTable;
use crate::log;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Serves until the master, a signal or the end of the master says to end. Returns the exit code.
pub(crate) async fn serve<R: Role>(role: R, socket: OwnedFd) -> io::Result<i32> {
    let mut caught = signals::listen(signals::SERVING)?;
    let channel = Channel::new(socket)?;
    let Some((mut host, first, blob)) = begin(role, &channel).await? else { return Ok(1) };
    if !load(&mut host, &channel, first, blob).await? {
        return Ok(1);
    }
    let talker = host.service().talker();
    let reason = loop {
        tokio::select! {
            received = channel.receive::<ToWorker>() => match received? {
                None => {
                    log::warning!("the master is gone: ending when all connections have");
                    break DrainReason::Orphaned;
                }
                Some((ToWorker::Sockets { keys }, descriptors)) => host.receive(keys, descriptors),
                Some((ToWorker::Load { generation }, descriptors)) => match descriptors.into_iter().next() {
                    Some(file) if !host.lacks_sockets() => {
                        let (header, blob) = message::read(file)?;
                        load(&mut host, &channel, header, blob).await?;
                    }
                    _ => {
                        host.forget_received();
                        let text = "the worker has no room for more sockets: too many open files".to_owned();
                        say(&channel, &FromWorker::Refused { generation, text }).await?;
                    }
                },
                Some((ToWorker::Retire { keys }, _)) => host.table().set_retired(&keys, true),
                Some((ToWorker::Talk, descriptors)) => descriptors.into_iter().for_each(&talker),
                Some((ToWorker::Inherit, descriptors)) => {
                    for file in descriptors {
                        host.service().inherit(read_memory_file(file)?);
                    }
                }
                Some((ToWorker::Drain { reason }, _)) => break reason,
            },
            signal = caught.recv() => match signal {
                Some(Caught::User1) => {
                    say(&channel, &FromWorker::Drains).await?;
                    break DrainReason::Replaced;
                }
                Some(Caught::Pause) => host.service().pause(true),
                Some(Caught::Resume) => host.service().pause(false),
                Some(Caught::Quit) => signals::log_memory(),
                Some(Caught::End(number)) => return Ok(128 + number),
                Some(Caught::HangUp) => host.service().hang_up(),
                // Reloads are the master's business.
                Some(Caught::User2 | Caught::Child | Caught::Alarm) | None => {}
            },
        }
    };
    if reason == DrainReason::Replaced
        && let Some(legacy) = host.service().legacy()
    {
        leave(&channel, &legacy);
    }
    let closed = || {
        // A master that is gone need not know; one that reads slowly finds out by a timer.
        let _ = Outgoing::new(&FromWorker::Closed, Vec::new()).and_then(|message| channel.post(message));
    };
    tokio::select! {
        code = host.drain(reason, closed) => Ok(code),
        never = talk_on(&channel, &talker) => never,
    }
}

/// Leaves something to the next worker, if that can be done.
fn leave(channel: &Channel, legacy: &[u8]) {
    let sent = memory_file("tidegate-legacy", legacy).and_then(|file| {
        let file: Arc<dyn Descriptor> = Arc::new(file);
        channel.post(Outgoing::new(&FromWorker::Legacy, vec![file])?)
    });
    if let Err(error) = sent {
        log::warning!("cannot hand over to the next worker: {error}");
    }
}

/// Goes on talking while the service drains; what else the master says has been decided already.
async fn talk_on(channel: &Channel, talker: &dyn Fn(OwnedFd)) -> io::Result<i32> {
    loop {
        match channel.receive::<ToWorker>().await {
            Ok(Some((ToWorker::Talk, descriptors))) => descriptors.into_iter().for_each(talker),
            Ok(Some((ToWorker::Retire { .. } | ToWorker::Sockets { .. } | ToWorker::Load { .. }, _))) => {}
            Ok(Some((ToWorker::Drain { .. } | ToWorker::Inherit, _))) => {}
            // The end of the master changes nothing any more.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }
}

/// Takes the first configuration, makes the service and gives privileges up.
async fn begin<R: Role>(mut role: R, channel: &Channel) -> io::Result<Option<(Host<R::Service>, PlanHeader, Vec<u8>)>> {
    let mut table = SocketTable::default();
    let (header, blob) = loop {
        match channel.receive::<ToWorker>().await? {
            Some((ToWorker::Sockets { keys }, descriptors)) => {
                if descriptors.len() < keys.len() {
                    return Err(io::Error::other("no room for its sockets: too many open files"));
                }
                for (key, descriptor) in keys.into_iter().zip(descriptors) {
                    table.insert(key, descriptor);
                }
            }
            Some((ToWorker::Load { .. }, descriptors)) => break read_plan(descriptors)?,
            Some((ToWorker::Retire { .. } | ToWorker::Talk | ToWorker::Inherit, _)) => {}
            // Told to end, or left alone, before there was anything to do.
            Some((ToWorker::Drain { .. }, _)) | None => return Ok(None),
        }
    };
    let (load, _) = make_load(&table, &header, blob);
    let made = role.open(&load).and_then(|service| privileges::apply(&header.settings).map(|()| service));
    match made {
        Ok(service) => Ok(Some((Host::new(service, table), header, load.blob))),
        Err(text) => {
            say(channel, &FromWorker::Refused { generation: header.generation, text: cut(text) }).await?;
            Ok(None)
        }
    }
}

fn read_plan(descriptors: Vec<OwnedFd>) -> io::Result<(PlanHeader, Vec<u8>)> {
    match descriptors.into_iter().next() {
        Some(file) => message::read(file),
        None => Err(io::Error::new(io::ErrorKind::InvalidData, "a configuration came without its file")),
    }
}

/// Gives the service a configuration and tells the master what came of it. Returns whether it serves by it.
async fn load<S: super::Service>(
    host: &mut Host<S>,
    channel: &Channel,
    header: PlanHeader,
    blob: Vec<u8>,
) -> io::Result<bool> {
    let generation = header.generation;
    let result = host.load(header, blob).await;
    let good = result.is_ok();
    let answer = match result {
        Ok(()) => FromWorker::Ready { generation },
        Err(text) => FromWorker::Refused { generation, text: cut(text) },
    };
    say(channel, &answer).await?;
    Ok(good)
}

async fn say(channel: &Channel, message: &FromWorker) -> io::Result<()> {
    match channel.post(Outgoing::new(message, Vec::new())?) {
        Ok(()) => {}
        // The master is gone: the next receive says so.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
        Err(error) => return Err(error),
    }
    match channel.flush().await {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}
