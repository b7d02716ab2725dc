//! Scripts that run long.
//!
//! A script has the keys for itself: nothing else may run before it ends. But a script that never ends must not make the store
//! deaf. So Lua stops each hundred thousand instructions to look at the clock. Once `busy-reply-threshold` has passed, each
//! such look hands the server to whoever owns it ([`WhileBusy`]): sockets are read, and other clients get their answer, which
//! is `BUSY` for all commands but the few that can end the script or leave no trace. The loop could not do that any other way:
//! the script's stack lies on the loop's own, and Lua 5.1 cannot leave a script in the middle and come back to it.

use std::rc::Rc;

use keyspace::{Bytes, Failure};
use resp::Protocol;

use crate::SessionId;

use super::Server;

/// What the owner of a server does while a script is busy: lets other clients send and be answered, then comes back soon.
pub type WhileBusy = Rc<dyn Fn(&mut Server)>;

/// The script that runs.
#[derive(Debug)]
pub struct Running {
    /// Its digest, or the function's name.
    pub name: String,
    /// Whether it is one of `EVAL`, and not a function.
    pub is_script: bool,
    /// The command that runs it.
    pub command: Vec<Bytes>,
    /// Whose command that is.
    pub session: SessionId,
    /// The protocol of that session.
    pub protocol: Protocol,
    /// What that session has been sent meanwhile.
    pub messages: Vec<u8>,
    /// With more of that, the session is closed.
    pub messages_max: usize,
    /// The keys that the session wants to be told of once a command that reads is called.
    pub cached: Vec<Bytes>,
    /// Since when, in microseconds of the stopwatch.
    pub begun_us: u64,
    /// It has called a command that writes.
    pub wrote: bool,
    /// It is to end.
    pub killed: bool,
}

impl Running {
    /// The error for others meanwhile.
    pub fn busy_failure(&self) -> Failure {
        Failure::text(if self.is_script {
            "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
        } else {
            "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE."
        })
    }
}

/// Asks the script that runs to end.
///
/// # Errors
///
/// None runs, it is one of the other kind, or it has written: half of what it does must not stay.
pub fn kill(running: Option<&mut Running>, is_script: bool) -> Result<(), Failure> {
    let Some(running) = running else { return Err(Failure::text("NOTBUSY No scripts in execution right now.")) };
    if running.wrote {
        return Err(Failure::text(
            "UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the \
             script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command.",
        ));
    }
    if running.is_script != is_script {
        return Err(running.busy_failure());
    }
    running.killed = true;
    Ok(())
}

impl Server {
    /// Looks whether the script that runs has run too long, and lets others be answered then. Returns whether it is to end.
    pub(super) fn pause_script(&mut self) -> bool {
        let limit_us = u64::try_from(self.shared.settings.lua_time_limit.0).unwrap_or(0).saturating_mul(1000);
        let elapsed = match &self.shared.scripting.running {
            Some(running) => (self.shared.clock.stopwatch)().saturating_sub(running.begun_us),
            None => return false,
        };
        if limit_us == 0 || elapsed < limit_us {
            return false;
        }
        self.shared.scripting.is_busy = true;
        if let Some(serve) = self.shared.scripting.while_busy.clone() {
            // A script's time stands still.
            let now = self.now();
            serve(self);
            self.set_now(now);
        }
        self.shared.shutdown.is_asked || self.shared.scripting.running.as_ref().is_some_and(|running| running.killed)
    }
}
