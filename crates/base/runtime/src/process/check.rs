//! The check of a configuration for a master, in a process of its own.
//!
//! What a check leaves behind goes with its process: the memory of the parser, the pages of the program that it touched,
//! and whatever a configuration may do to it. Meanwhile the master goes on: names that nobody answers for do not keep it
//! from starting a worker that died.

use super::channel::{Channel, Descriptor, Outgoing, memory_file, read_memory_file};
use super::machine::Generation;
use super::message::PlanFile;
use super::role::{CheckReason, Role};
use super::{caught_check, launch};
use crate::log;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// How long a check may take.
const CHECK_TIME_MAX: Duration = Duration::from_secs(120);

/// What a master asks.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Question {
    pub(crate) reason: CheckReason,
    /// What the configuration will be called.
    pub(crate) generation: Generation,
}

/// The answer. With it comes a file: the plan, or why there is none.
#[derive(Debug, Serialize, Deserialize)]
struct Verdict {
    accepted: bool,
}

/// Has another process check the configuration.
pub(crate) async fn ask(question: &Question) -> Result<PlanFile, String> {
    let failed = |error: io::Error| format!("cannot check the configuration: {error}");
    let (mut child, socket) = launch::start(launch::running_program(), "check").map_err(failed)?;
    let answer = tokio::time::timeout(CHECK_TIME_MAX, converse(socket, question)).await;
    if answer.is_err() {
        // It is alive, so its number is still its own.
        let _ = child.kill();
    }
    // It has closed its end, which is the last thing that it did. The loop may have taken note of that already.
    let _ = child.wait();
    answer.map_err(|_| "the check of the configuration takes too long".to_owned())?.map_err(failed)?
}

async fn converse(socket: OwnedFd, question: &Question) -> io::Result<Result<PlanFile, String>> {
    let channel = Channel::new(socket)?;
    channel.post(Outgoing::new(question, Vec::new())?)?;
    let answer = channel.receive::<Verdict>().await?;
    let Some((Verdict { accepted }, descriptors)) = answer else {
        return Err(io::Error::other("its process ended without an answer"));
    };
    let file = descriptors.into_iter().next().ok_or(io::ErrorKind::InvalidData)?;
    while channel.receive::<Verdict>().await?.is_some() {}
    if accepted {
        return PlanFile::open(file).map(Ok);
    }
    Ok(Err(String::from_utf8_lossy(&read_memory_file(file)?).into_owned()))
}

/// The other side: checks, answers and ends.
pub(crate) async fn answer<R: Role>(mut role: R, socket: OwnedFd) -> io::Result<i32> {
    log::name_parent();
    let channel = Channel::new(socket)?;
    let Some((Question { reason, generation }, _)) = channel.receive::<Question>().await? else { return Ok(1) };
    let plan = caught_check(&mut role, reason).and_then(|plan| {
        PlanFile::new(generation, plan).map_err(|error| format!("cannot pass the configuration on: {error}"))
    });
    let accepted = plan.is_ok();
    let file = match plan {
        Ok(plan) => plan.file,
        Err(text) => memory_file("tidegate-refusal", text.as_bytes())?,
    };
    let file: Arc<dyn Descriptor> = Arc::new(file);
    channel.post(Outgoing::new(&Verdict { accepted }, vec![file])?)?;
    channel.flush().await?;
    Ok(0)
}
