//! What the manager does with fewer rights than root's, as the user of `-j`.
//!
//! As in Varnish the manager's process stays root's: it binds ports, reads its secret, and starts workers, each of which becomes the user
//! for good once it has its sockets. What somebody else names to it, programs and what they include, it reads as that user. What is
//! published belongs to the user's group, so that members of that may run varnishlog and the other tools.

use std::{
    fs, io,
    os::unix::fs::{PermissionsExt as _, chown},
    path::Path,
};

use rustix::{
    process::{Gid, Uid, getgroups},
    thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid},
};

/// A folder for the user and members of its group; files that root makes in it belong to that group too.
const FOLDER_MODE: u32 = 0o2750;

/// A user and its group.
pub(super) type Owner = (u32, u32);

/// This thread is the user until it is dropped.
struct AsUser {
    groups: Vec<Gid>,
}

impl AsUser {
    fn begin((user, group): Owner) -> io::Result<Self> {
        let this = Self { groups: getgroups()? };
        let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
        // NOTE: these are this thread's alone. What was done of them when one fails is undone by the drop.
        set_thread_groups(&[group])?;
        set_thread_res_gid(Gid::ROOT, group, Gid::ROOT)?;
        set_thread_res_uid(Uid::ROOT, user, Uid::ROOT)?;
        Ok(this)
    }
}

impl Drop for AsUser {
    fn drop(&mut self) {
        let is_back = set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT)
            .and_then(|()| set_thread_res_gid(Gid::ROOT, Gid::ROOT, Gid::ROOT))
            .and_then(|()| set_thread_groups(&self.groups));
        // IMPORTANT: a manager that is half somebody else would fail later, and nobody would know why.
        if is_back.is_err() {
            std::process::abort();
        }
    }
}

/// Does something as the user, if there is one.
///
/// # Errors
/// The system does not let this thread become that user.
pub(super) fn as_user<T>(user: Option<Owner>, act: impl FnOnce() -> T) -> io::Result<T> {
    let _as_user = user.map(AsUser::begin).transpose()?;
    Ok(act())
}

/// Makes a folder where the user publishes, or what its group may read of what root publishes.
pub(super) fn give_folder(folder: &Path, (user, group): Owner) -> Result<(), String> {
    let given = fs::create_dir_all(folder)
        .and_then(|()| chown(folder, Some(user), Some(group)))
        .and_then(|()| fs::set_permissions(folder, fs::Permissions::from_mode(FOLDER_MODE)));
    given.map_err(|error| format!("{}: {error}", folder.display()))
}
