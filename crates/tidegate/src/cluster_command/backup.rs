//! `tidegate cluster backup` and `restore`: all groups at one moment, and into a cluster of any size.
//!
//! Each group's backup is one of a store, in a folder of the archive of its own (`group-1`, ...), with the log up to where it went at
//! the moment. The description of the whole (`cluster/NAME.json`) is written last: without it there is none.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::{
    archive::Archive,
    backup::{self, Restore},
    export::{self, RdbOptions},
    import::{self, Import},
};

use super::{CommandError, WhichArguments, ask, at, change::NOT_DONE, confirm::DryRun, get, group_backup};
use basics::many;

use crate::{access::OwnedAccess, backup_command::archive};

/// The version of the description.
const VERSION: u32 = 1;
/// Where descriptions are in an archive.
const PLACE: &str = "cluster";
/// How often another moment is asked for when one was missed.
const TRIES_MAX: u32 = 5;
const PAUSE_BETWEEN: Duration = Duration::from_millis(200);

/// Options of `tidegate cluster backup`.
#[derive(Args, Debug)]
pub struct BackupArguments {
    /// The archive: a folder, or s3://bucket/prefix (as for `tidegate backup`).
    #[arg(long)]
    to: String,
    /// Show the existing backups instead of making one.
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    which: WhichArguments,
}

/// Options of `tidegate cluster restore`.
#[derive(Args, Debug)]
pub struct RestoreArguments {
    /// The archive: a folder, or s3://bucket/prefix.
    #[arg(long)]
    from: String,
    /// The name of a backup (`cluster backup --list` shows them); without it, the newest.
    #[arg(long)]
    backup: Option<String>,
    /// The target for the keys, as HOST:PORT: a proxy of a cluster of any size, or a store. Without it, the proxy of the cluster in --dir.
    #[arg(long)]
    into: Option<String>,
    /// Load into a target that has keys already, and replace keys of the same names.
    #[arg(long)]
    replace: bool,
    /// A folder for temporary files, with room for twice the data of the largest group.
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    work_dir: PathBuf,
    #[command(flatten)]
    dry: DryRun,
    #[command(flatten)]
    which: WhichArguments,
}

/// What a backup of a cluster is.
#[derive(Debug, Serialize, Deserialize)]
struct Description {
    version: u32,
    /// The change of the cluster that was the last one.
    epoch: u64,
    groups: Vec<GroupBackup>,
    /// The record of the cluster, for `cluster rescue --record`.
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    record: serde_json::Value,
}

/// The part of a group.
#[derive(Debug, Serialize, Deserialize)]
struct GroupBackup {
    id: u64,
    /// The name of its backup in the folder of the group.
    backup: String,
    /// Up to where its log goes.
    offset: u64,
    records: u64,
}

fn group_place(place: &str, group: u64) -> String {
    format!("{}/group-{group}", place.trim_end_matches('/'))
}

/// Makes a backup, or shows those that are there.
pub fn backup(arguments: &BackupArguments) -> Result<String, CommandError> {
    let archive = archive(&arguments.to).map_err(CommandError::Backup)?;
    if arguments.list {
        let names = names(&*archive)?;
        return Ok(if names.is_empty() {
            format!("there are no backups of a cluster in {}", arguments.to)
        } else {
            names.join("\n")
        });
    }
    let mut tries = 0;
    loop {
        match make(arguments, &*archive) {
            Err(Fault::Again(problem)) if tries + 1 < TRIES_MAX => {
                tries += 1;
                eprintln!("tidegate cluster: {problem}; trying again");
                std::thread::sleep(PAUSE_BETWEEN);
            }
            Err(Fault::Again(problem) | Fault::Final(problem)) => return Err(problem),
            Ok(done) => return Ok(done),
        }
    }
}

/// Why there is no backup.
enum Fault {
    /// Another moment may do.
    Again(CommandError),
    /// Trying again would not help.
    Final(CommandError),
}

fn make(arguments: &BackupArguments, archive: &dyn Archive) -> Result<String, Fault> {
    let which = &arguments.which;
    let status = get(which, "/api/status").map_err(Fault::Final)?;
    let mut begun = Vec::new();
    for group in at(&status, "groups").as_array().into_iter().flatten() {
        let id = at(group, "id").as_u64().unwrap_or(0);
        let master = at(group, "master").as_str().unwrap_or_default();
        let failed = |problem| Fault::Final(CommandError::Group { group: id, source: Box::new(problem) });
        if at(group, "kind") == "redis" {
            return Err(Fault::Final(CommandError::RedisGroup(id)));
        }
        if at(group, "state") != "ok" {
            return Err(failed(CommandError::NoMaster));
        }
        let place = group_backup::master_folder(which, &status, group).map_err(failed)?;
        begun.push((id, master.to_owned(), group_backup::BegunGroupBackup::begin(place).map_err(failed)?));
    }
    let cut = ask(which, "POST", "/api/cut", &json!({})).map_err(Fault::Again)?;
    let place_of = |id: u64| {
        at(&cut, "groups").as_array().into_iter().flatten().find(move |group| at(group, "id").as_u64() == Some(id))
    };
    // All files are held before any is copied, which takes long: stores do not keep their logs for that.
    let mut cuts = Vec::new();
    for (id, master, begun) in begun {
        let Some(found) = place_of(id).filter(|found| at(found, "master").as_str() == Some(&master)) else {
            return Err(Fault::Again(CommandError::AnotherMaster(id)));
        };
        let offset = at(found, "offset").as_u64().unwrap_or(0);
        let place = group_place(&arguments.to, id);
        let to = crate::backup_command::archive(&place).map_err(|error| Fault::Final(CommandError::Backup(error)))?;
        let missed = |problem| Fault::Again(CommandError::Group { group: id, source: Box::new(problem) });
        let cut = begun.cut(offset, &*to).map_err(missed)?;
        cuts.push((id, offset, to, cut));
    }
    let mut parts = Vec::new();
    for (id, offset, to, cut) in cuts {
        let missed = |problem| Fault::Again(CommandError::Group { group: id, source: Box::new(problem) });
        let made = cut.copy_to(&*to).map_err(missed)?;
        let backup = made.name.trim_start_matches("backups/").to_owned();
        parts.push(GroupBackup { id, backup, offset, records: made.manifest.records.count });
    }
    let (epoch, records) =
        (at(&cut, "epoch").as_u64().unwrap_or(0), parts.iter().map(|part| part.records).sum::<u64>());
    let name =
        parts.iter().map(|part| part.backup.as_str()).max().unwrap_or("empty").trim_end_matches(".json").to_owned();
    let record = get(which, "/api/record").map_err(Fault::Final)?;
    let description = Description { version: VERSION, epoch, groups: parts, record };
    write(archive, &name, &description).map_err(Fault::Final)?;
    let waited = at(&cut, "waited_ms").as_u64().unwrap_or(0);
    if which.json {
        let shown = json!({ "backup": name, "records": records, "waited_ms": waited, "groups": description.groups });
        return Ok(shown.to_string());
    }
    Ok(format!(
        "{name}: {} at one moment, {}; commands waited for {waited} ms\n  restore it: tidegate cluster restore \
         --from {} --backup {name} --into HOST:PORT",
        many(description.groups.len(), "group", "groups"),
        many(records, "record", "records"),
        arguments.to
    ))
}

fn write(archive: &dyn Archive, name: &str, description: &Description) -> Result<(), CommandError> {
    let bytes = serde_json::to_vec_pretty(description)?;
    let path = format!("{PLACE}/{name}.json");
    let put = archive.put(&path, &mut bytes.as_slice(), bytes.len() as u64);
    put.map_err(|source| CommandError::NotWritten { archive: archive.name().to_string(), path, source })
}

/// Names of all backups, the oldest first.
fn names(archive: &dyn Archive) -> Result<Vec<String>, CommandError> {
    let listed = archive
        .list(PLACE)
        .map_err(|source| CommandError::NotListed { archive: archive.name().to_string(), source })?;
    let name = |path: String| {
        let name = path.rsplit('/').next().unwrap_or_default();
        name.strip_suffix(".json").map(str::to_owned)
    };
    let mut names: Vec<String> = listed.into_iter().filter_map(|(path, _)| name(path)).collect();
    names.sort_unstable();
    Ok(names)
}

/// Plays a backup into a cluster.
pub fn restore(arguments: &RestoreArguments) -> Result<String, CommandError> {
    let archive = archive(&arguments.from).map_err(CommandError::Backup)?;
    let names = names(&*archive)?;
    let wanted = match &arguments.backup {
        Some(name) => names.iter().find(|known| *known == name).ok_or_else(|| CommandError::NoSuchBackup {
            from: arguments.from.clone(),
            name: name.clone(),
            known: names.join(", "),
        })?,
        None => names.last().ok_or_else(|| CommandError::NoBackup(arguments.from.clone()))?,
    };
    let description = read(&*archive, wanted)?;
    let into = match &arguments.into {
        Some(into) => into.clone(),
        None => proxy(&arguments.which)?,
    };
    if arguments.dry.is_dry {
        let records: u64 = description.groups.iter().map(|part| part.records).sum();
        let (records, groups) = (many(records, "record", "records"), many(description.groups.len(), "group", "groups"));
        return Ok(format!("{wanted}: {records} of {groups} would be loaded into {into}\n{NOT_DONE}"));
    }
    let work = tempfile::Builder::new()
        .prefix("tidegate-restore-")
        .tempdir_in(&arguments.work_dir)
        .map_err(|source| CommandError::WorkDir { path: arguments.work_dir.clone(), source })?;
    let mut keys = 0;
    for (number, part) in description.groups.iter().enumerate() {
        // The first group's libraries of functions are everybody's; keys of the others do not make the target look used.
        let is_first = number == 0;
        let played = play(arguments, part, work.path(), &into, is_first);
        let group = part.id;
        keys += played.map_err(|source| CommandError::Restored { group, source: Box::new(source), keys })?;
    }
    if arguments.which.json {
        return Ok(json!({ "backup": wanted, "into": into, "keys": keys }).to_string());
    }
    let groups = many(description.groups.len(), "group", "groups");
    Ok(format!("{wanted}: {} of {groups} are in {into}", many(keys, "key", "keys")))
}

fn read(archive: &dyn Archive, name: &str) -> Result<Description, CommandError> {
    let path = format!("{PLACE}/{name}.json");
    let failed =
        |problem| CommandError::Description { archive: archive.name().to_string(), path: path.clone(), problem };
    let mut content = String::new();
    let mut file = archive.get(&path).map_err(|error| failed(error.to_string()))?;
    std::io::Read::read_to_string(&mut file, &mut content).map_err(|error| failed(error.to_string()))?;
    let description: Description = serde_json::from_str(&content).map_err(|error| failed(error.to_string()))?;
    if description.version != VERSION {
        return Err(failed(format!("version {} is not known here (version {VERSION} is)", description.version)));
    }
    Ok(description)
}

/// The first proxy of a cluster.
fn proxy(which: &WhichArguments) -> Result<String, CommandError> {
    let status = get(which, "/api/status")?;
    let found = at(&status, "proxies").as_array().into_iter().flatten().find(|proxy| at(proxy, "state") == "online");
    let address = found.and_then(|proxy| at(proxy, "address").as_str());
    address.map(str::to_owned).ok_or(CommandError::NoProxy)
}

/// Plays one group's part; says how many keys it had.
fn play(
    arguments: &RestoreArguments,
    part: &GroupBackup,
    work: &Path,
    into: &str,
    is_first: bool,
) -> Result<u64, CommandError> {
    let place = group_place(&arguments.from, part.id);
    let from = archive(&place).map_err(CommandError::Backup)?;
    let (dir, file) = (work.join("store"), work.join("dump.rdb"));
    let what = Restore { backup: Some(part.backup.clone()), until: None };
    backup::restore(&what, &*from, &dir).map_err(CommandError::backup)?;
    let options = RdbOptions {
        without_keys: false,
        file: export::FileOptions { version: export::FileVersion::Ten, compress: true, has_queues: true },
        without_functions: !is_first,
        slots: None,
        auxiliary: Vec::new(),
    };
    export::export_to_file(&dir, &options, &file).map_err(CommandError::backup)?;
    fs::remove_dir_all(&dir).map_err(|source| CommandError::WorkFile { path: dir.clone(), source })?;
    let access = OwnedAccess::by_password();
    let import = Import { path: &file, to: into, access: access.as_ref(), replace: arguments.replace || !is_first };
    let imported = import::import(&import).map_err(CommandError::backup)?;
    fs::remove_file(&file).map_err(|source| CommandError::WorkFile { path: file.clone(), source })?;
    if imported.refused > 0 {
        let (into, reasons) = (into.to_owned(), imported.reasons.join("; "));
        return Err(CommandError::KeysRefused { into, count: imported.refused, reasons });
    }
    Ok(imported.keys)
}
