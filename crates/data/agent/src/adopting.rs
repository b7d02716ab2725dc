//! A store that stands alone becomes the first group of a new cluster: its files move into a folder of that, on the same disk.
//!
//! What is about to happen is written down first (`adopt.json`), and is taken away when the coordinator knows the cluster. So an adoption
//! that was interrupted goes on where it was, and nobody begins another cluster in the folder meanwhile.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use cluster::{Address, Server};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::{
    beginning::{self, Ports},
    error::AgentError,
    options::Options,
    processes,
};

/// What a folder of a store has.
const SHARD: &str = "shard-0";
/// What a Redis leaves in its folder.
const OF_REDIS: [&str; 3] = ["dump.rdb", "appendonly.aof", "appendonlydir"];
/// What a store writes into its folder besides that: nothing else in there is moved.
const OF_STORE: [&str; 5] = ["agent-term", "followers", "histories", LOCK, "replication"];
/// What its other names begin with.
const BEGINNINGS: [&str; 2] = ["shard-", "set-aside-"];
/// The file that a store holds locked while it runs.
const LOCK: &str = "lock";

/// What is about to happen.
#[derive(Debug, Serialize, Deserialize)]
struct Plan {
    server: Server,
}

fn plan_file(options: &Options) -> PathBuf {
    options.folder.path().join("adopt.json")
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> AgentError {
    let path = path.to_owned();
    move |source| AgentError::File { path, source }
}

/// Whether a folder has the data of a store that stands alone.
#[must_use]
pub fn is_store(options: &Options) -> bool {
    options.folder.path().join(SHARD).exists()
}

/// Whether an adoption was begun.
#[must_use]
pub fn is_begun(options: &Options) -> bool {
    plan_file(options).exists()
}

/// Looks whether a new cluster may begin in a folder, or one goes on there.
///
/// # Errors
///
/// It has other data, which would be left aside.
pub fn refuse(options: &Options) -> Result<(), AgentError> {
    let dir = options.folder.path().display();
    if is_begun(options) && options.adopted.is_none() {
        return Err(AgentError::Other(format!(
            "{dir}: a store was about to become a cluster there, and that was interrupted: `tidegate cluster adopt --dir {dir}` goes on with it"
        )));
    }
    let is_known = options.folder.coordinator().exists();
    if is_known || options.adopted.is_some() {
        return Ok(());
    }
    if is_store(options) {
        return Err(AgentError::Other(format!(
            "{dir} has the data of a single store, which a new cluster would not serve: `tidegate cluster adopt --dir {dir}` makes a cluster of \
             it, and --dir names another folder for a cluster without it"
        )));
    }
    let found: Vec<&str> = OF_REDIS.into_iter().filter(|name| options.folder.path().join(name).exists()).collect();
    if !found.is_empty() {
        return Err(AgentError::Other(format!(
            "{dir} has Redis' data ({}), which a cluster does not read in place: begin the cluster in another folder (--dir), then `tidegate \
             import {dir} --to HOST:PORT` brings it there",
            found.join(", ")
        )));
    }
    Ok(())
}

/// What an adoption would do.
///
/// # Errors
///
/// There is nothing to adopt.
pub fn plan(options: &Options) -> Result<String, AgentError> {
    check(options)?;
    let dir = options.folder.path().display();
    Ok(format!(
        "the store in {dir} becomes the master of group 1 of a new cluster, with all slots: its files move into a folder of their own in {dir}"
    ))
}

/// Whether there is a store that can be adopted, or an adoption that was interrupted.
fn check(options: &Options) -> Result<(), AgentError> {
    let root = options.folder.path().display();
    if is_begun(options) {
        return Ok(());
    }
    if options.folder.coordinator().exists() {
        return Err(AgentError::Other(format!(
            "{root} has a cluster already: `tidegate cluster up --dir {root}` goes on with it"
        )));
    }
    if !is_store(options) {
        return Err(AgentError::Other(format!(
            "{root} has no data of a store (there is no {SHARD}): --dir names the folder that `tidegate store --dir` had"
        )));
    }
    Ok(())
}

/// Moves the files of a store into a folder of its own, and has a cluster begin with it.
///
/// # Errors
///
/// There is no store, a cluster is there already, or the disk fails: then it is done again from where it was.
pub fn prepare(mut options: Options) -> Result<Options, AgentError> {
    let root = options.folder.path().to_owned();
    let file = plan_file(&options);
    check(&options)?;
    if !is_begun(&options) {
        let mut ports = Ports { host: options.host.clone(), next: options.port, is_own: true };
        let plan = Plan { server: beginning::server(ports.take()?, options.host_name())? };
        let text = serde_json::to_vec(&plan).unwrap_or_default();
        processes::replace(&file, &text).map_err(failed(&file))?;
    }
    let text = fs::read_to_string(&file).map_err(failed(&file))?;
    let plan: Plan = serde_json::from_str(&text)
        .map_err(|error| AgentError::Unreadable { place: file.display().to_string(), problem: error.to_string() })?;
    // The address of an adoption that was interrupted may be another host's by now.
    let server = Server { address: Address::new(&options.host, plan.server.address.port()), ..plan.server };
    let home = options.folder.store(&beginning::program_of(&server).name);
    fs::create_dir_all(&home).map_err(failed(&home))?;
    // NOTE: an adoption that goes on has begun at a time when no store ran.
    let _held = [held(&root, &root)?, held(&home, &root)?];
    for path in of_store(&root)? {
        let to = home.join(path.file_name().unwrap_or_default());
        if to.exists() {
            return Err(AgentError::Other(format!(
                "{} and {} are both there: a store was begun in {root} after the adoption was interrupted. Move what is not wanted away, then \
                 `tidegate cluster adopt --dir {root}` goes on",
                path.display(),
                to.display(),
                root = root.display()
            )));
        }
        fs::rename(&path, &to).map_err(failed(&path))?;
    }
    options.adopted = Some(server);
    Ok(options)
}

/// Whether a store writes a file or a folder of this name.
fn is_of_store(name: &str) -> bool {
    OF_STORE.contains(&name.strip_suffix(".new").unwrap_or(name)) || BEGINNINGS.iter().any(|one| name.starts_with(one))
}

/// What a store has in its folder.
fn of_store(root: &Path) -> Result<Vec<PathBuf>, AgentError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root).map_err(failed(root))? {
        let path = entry.map_err(failed(root))?.path();
        let name = path.file_name().and_then(OsStr::to_str).filter(|name| is_of_store(name));
        found.extend(name.is_some().then_some(path));
    }
    found.sort();
    Ok(found)
}

/// Keeps stores from running in a folder, for as long as the file is open; nothing if none has ever run there.
fn held(folder: &Path, root: &Path) -> Result<Option<File>, AgentError> {
    let path = folder.join(LOCK);
    let file = match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(failed(&path))?,
    };
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(_) => Err(AgentError::Other(format!(
            "a store runs in {} ({} is locked): end it first, with whatever starts it again; then `tidegate cluster adopt --dir {}` goes on",
            folder.display(),
            path.display(),
            root.display()
        ))),
    }
}

/// The coordinator knows the cluster: nothing is left to be done.
///
/// # Errors
///
/// The disk fails.
pub fn finish(options: &Options) -> Result<(), AgentError> {
    let file = plan_file(options);
    match fs::remove_file(&file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(&file)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Folder, Shape};

    fn options(folder: &Path) -> Options {
        let shape = Shape { groups: None, replicas: Some(0), ack: None };
        Options { shape, ..Options::of(Folder::new(folder.to_owned())) }
    }

    #[test]
    fn a_store_becomes_the_first_group_also_after_an_interruption() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join(SHARD)).unwrap();
        fs::write(root.join("lock"), "x").unwrap();
        let refused = refuse(&options(root)).unwrap_err().to_string();
        assert!(
            refused.contains("has the data of a single store") && refused.contains("cluster adopt --dir"),
            "{refused}"
        );
        let first = prepare(options(root)).unwrap();
        let server = first.adopted.clone().unwrap();
        let home = root.join(beginning::program_of(&server).name);
        assert!(home.join(SHARD).exists() && home.join("lock").exists() && !root.join(SHARD).exists());
        // It was interrupted before the coordinator knew it: nothing else begins there, and it goes on as it was.
        let refused = refuse(&options(root)).unwrap_err().to_string();
        assert!(refused.contains("was interrupted"), "{refused}");
        fs::rename(home.join("lock"), root.join("lock")).unwrap();
        let second = prepare(options(root)).unwrap();
        assert_eq!(second.adopted.as_ref().map(|server| &server.id), Some(&server.id));
        assert!(home.join("lock").exists());
        let host = beginning::Host { name: "local".into(), address: "127.0.0.1".into(), port: 6379, is_own: false };
        let cluster = beginning::begin(&second, &[host]).unwrap();
        assert_eq!(cluster.groups.len(), 1);
        assert_eq!(cluster.groups[&1].servers, [server]);
        assert_eq!(cluster.slots.owner(16_383), Some(1));
        finish(&second).unwrap();
        fs::create_dir_all(root.join("coordinator")).unwrap();
        assert!(refuse(&options(root)).is_ok());
        assert!(prepare(options(root)).unwrap_err().to_string().contains("has a cluster already"));
    }

    /// A folder that is a disk of its own, with what people have put beside the data, and what the cluster has there.
    #[test]
    fn only_what_a_store_writes_is_moved() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let of_store = ["lock", "replication", "agent-term", "followers", "set-aside-7.resp", "shard-0.old"];
        let others = [
            "lost+found",
            "redis.conf",
            "stores.conf",
            "proxies.password",
            "topology.secrets",
            "topology.nodes",
            "agent.sock",
            "record.json",
            "notes",
        ];
        fs::create_dir_all(root.join(SHARD)).unwrap();
        of_store.iter().chain(&others).for_each(|name| fs::write(root.join(name), "x").unwrap());
        let server = prepare(options(root)).unwrap().adopted.unwrap();
        let home = root.join(beginning::program_of(&server).name);
        for name in of_store.iter().chain(&[SHARD]) {
            assert!(home.join(name).exists() && !root.join(name).exists(), "{name}");
        }
        for name in others {
            assert!(root.join(name).exists() && !home.join(name).exists(), "{name}");
        }
    }

    #[test]
    fn nothing_moves_while_a_store_runs() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join(SHARD)).unwrap();
        let lock = File::create(root.join(LOCK)).unwrap();
        let server = prepare(options(root)).unwrap().adopted.unwrap();
        let home = root.join(beginning::program_of(&server).name);
        // It was interrupted, and somebody has the store run meanwhile.
        for (from, to) in [(home.as_path(), root), (root, home.as_path())] {
            fs::rename(from.join(LOCK), to.join(LOCK)).ok();
            fs::create_dir_all(root.join("shard-1")).unwrap();
            flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
            let refused = prepare(options(root)).unwrap_err().to_string();
            assert!(refused.starts_with(&format!("a store runs in {}", to.display())), "{refused}");
            assert!(root.join("shard-1").exists());
            flock(&lock, FlockOperation::Unlock).unwrap();
        }
        // It has written anew what was moved already.
        fs::create_dir_all(root.join(SHARD)).unwrap();
        let refused = prepare(options(root)).unwrap_err().to_string();
        assert!(refused.contains("are both there") && root.join(SHARD).exists(), "{refused}");
        fs::remove_dir_all(root.join(SHARD)).unwrap();
        prepare(options(root)).unwrap();
        assert!(home.join("shard-1").exists());
    }

    #[test]
    fn folders_of_others_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(refuse(&options(folder.path())).is_ok(), "an empty one is for a new cluster");
        assert!(prepare(options(folder.path())).unwrap_err().to_string().contains("has no data of a store"));
        fs::write(folder.path().join("dump.rdb"), "REDIS").unwrap();
        let refused = refuse(&options(folder.path())).unwrap_err().to_string();
        assert!(refused.contains("has Redis' data (dump.rdb)"), "{refused}");
    }
}
