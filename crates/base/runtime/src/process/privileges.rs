//! Users, groups, root directory and limits of a process.
//!
//! The master keeps its privileges: it has to bind sockets at each reload. The worker, which touches what clients
//! send, gives them up before it serves, on its only thread: on Linux a user is a property of a thread, and threads
//! started later inherit it.

use super::role::ProcessSettings;
use rustix::process::{DumpableBehavior, Gid, Resource, Rlimit, Uid};
use std::io;

/// The number of a user, by name or by number, from `/etc/passwd`.
pub fn user_id(name: &str) -> io::Result<Option<u32>> {
    Ok(find(&std::fs::read_to_string("/etc/passwd")?, name, 2))
}

/// The number of a user's first group, from `/etc/passwd`.
pub fn user_group_id(name: &str) -> io::Result<Option<u32>> {
    Ok(find(&std::fs::read_to_string("/etc/passwd")?, name, 3))
}

/// The number of a group, by name, from `/etc/group`.
pub fn group_id(name: &str) -> io::Result<Option<u32>> {
    Ok(find(&std::fs::read_to_string("/etc/group")?, name, 2))
}

fn find(table: &str, name: &str, field: usize) -> Option<u32> {
    let line = table.lines().find(|line| line.split(':').next() == Some(name) && !name.is_empty())?;
    line.split(':').nth(field)?.parse().ok()
}

/// Makes the process what the settings say. To be called once, while there is one thread.
pub(crate) fn apply(settings: &ProcessSettings) -> Result<(), String> {
    match set_descriptor_limit(settings.descriptors_max) {
        Err(text) if settings.lax_limits => crate::log::warning!("{text}"),
        result => result?,
    }
    if let Some(bytes) = settings.memory_max {
        match set_memory_limit(bytes) {
            Err(text) if settings.lax_limits => crate::log::warning!("{text}"),
            result => result?,
        }
    }
    let changes = settings.uid.is_some() || settings.gid.is_some() || settings.groups.is_some();
    if changes && thread_count() > 1 {
        return Err("cannot change user or group: other threads are running already".to_owned());
    }
    if let Some(root) = &settings.chroot {
        rustix::process::chroot(root)
            .and_then(|()| rustix::process::chdir("/"))
            .map_err(|error| format!("Cannot chroot({}): {}", root.display(), plain(error)))?;
    }
    if let Some(gid) = settings.gid {
        let groups: Vec<Gid> = match &settings.groups {
            Some(groups) => groups.iter().map(|group| Gid::from_raw(*group)).collect(),
            None => Vec::new(),
        };
        match rustix::thread::set_thread_groups(&groups) {
            // Without privileges the groups stay; the next step says whether that is meant.
            Ok(()) | Err(rustix::io::Errno::PERM) => {}
            Err(error) => return Err(format!("Cannot set supplementary groups: {}", plain(error))),
        }
        let gid = Gid::from_raw(gid);
        rustix::thread::set_thread_res_gid(gid, gid, gid)
            .map_err(|error| format!("Cannot set gid {}: {}", gid.as_raw(), plain(error)))?;
    }
    if let Some(uid) = settings.uid {
        let uid = Uid::from_raw(uid);
        rustix::thread::set_thread_res_uid(uid, uid, uid)
            .map_err(|error| format!("Cannot set uid {}: {}", uid.as_raw(), plain(error)))?;
    }
    if !settings.gains_rights {
        // Old kernels do not know it, and nobody depends on it.
        let _ = rustix::thread::set_no_new_privs(true);
    }
    if settings.dumpable {
        // NOTE: after the change of user, which takes the permission away.
        rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)
            .map_err(|error| format!("Cannot set dumpable: {}", plain(error)))?;
    }
    Ok(())
}

fn plain(error: rustix::io::Errno) -> String {
    crate::listen::plain(&io::Error::from(error))
}

fn thread_count() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(1, |tasks| tasks.count())
}

/// Allows `wanted` open descriptors, or as many as the hard limit does.
pub(crate) fn set_descriptor_limit(wanted: Option<u64>) -> Result<(), String> {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let new = match (wanted, limit.maximum) {
        (None, maximum) => Rlimit { current: maximum, maximum },
        (Some(wanted), Some(maximum)) => Rlimit { current: Some(wanted), maximum: Some(maximum.max(wanted)) },
        (Some(wanted), None) => Rlimit { current: Some(wanted), maximum: None },
    };
    rustix::process::setrlimit(Resource::Nofile, new)
        .map_err(|error| format!("Cannot raise FD limit to {}: {}", wanted.unwrap_or(0), plain(error)))
}

/// Bounds the memory that belongs to the process alone. What it shares, or maps of its program, does not count: HAProxy
/// bounds addresses instead, of which threads and allocators here take many that they never use.
fn set_memory_limit(bytes: u64) -> Result<(), String> {
    let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
    rustix::process::setrlimit(Resource::Data, limit)
        .map_err(|_| format!("[haproxy.main()] Cannot fix MEM limit to {} megs.", bytes >> 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_users_and_groups() {
        let table = "root:x:0:0:root:/root:/bin/bash\nwww:x:33:34::/:/bin/false\nbad:x:none:0\nshort";
        assert_eq!(find(table, "root", 2), Some(0));
        assert_eq!(find(table, "www", 3), Some(34));
        for name in ["bad", "short", "nobody-there", "", "x"] {
            assert_eq!(find(table, name, 2), None, "{name}");
        }
        assert_eq!(user_id("root").unwrap(), Some(0));
        assert_eq!(group_id("root").unwrap(), Some(0));
    }
}
