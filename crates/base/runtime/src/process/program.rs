//! Turning into a program beside the workers, in the process that was made for it.

use super::launch::{PROGRAM_VARIABLE, VARIABLE};
use super::role::ProgramSpec;
use rustix::process::{Gid, Uid};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Takes the user and group of the program and turns into it. Returns only on failure.
pub(crate) fn turn_into(spec: &ProgramSpec) -> io::Error {
    let Some((program, arguments)) = spec.command.split_first() else {
        return io::Error::other(format!("The program section '{}' lacks a command to launch.", spec.name));
    };
    let failed = |what: &str, id: u32| io::Error::other(format!("[{program}.main()] Cannot set {what} {id}."));
    if let Some(gid) = spec.gid {
        if rustix::process::getgroups().is_ok_and(|groups| !groups.is_empty())
            && rustix::thread::set_thread_groups(&[]).is_err()
        {
            crate::log::warning!(
                "[{program}.main()] Failed to drop supplementary groups. Using 'gid'/'group' without 'uid'/'user' is \
                 generally useless."
            );
        }
        let id = Gid::from_raw(gid);
        if rustix::thread::set_thread_res_gid(id, id, id).is_err() {
            return failed("gid", gid);
        }
    }
    if let Some(uid) = spec.uid {
        let id = Uid::from_raw(uid);
        if rustix::thread::set_thread_res_uid(id, id, id).is_err() {
            return failed("uid", uid);
        }
    }
    // NOTE: the standard library lets signals through and gives SIGPIPE its usual meaning again.
    let error = Command::new(program).args(arguments).env_remove(VARIABLE).env_remove(PROGRAM_VARIABLE).exec();
    io::Error::other(format!("Cannot execute {program}: {}", crate::listen::plain(&error)))
}
