//! A copy of all keys, made of a snapshot in a folder beside the store's own data.
//!
//! ```text
//! shard-0.copy/shard-0   tables and a log that are being made
//! shard-0.ready          the same when all of it is there
//! shard-0                what is served: shard-0.ready takes its place
//! shard-0.old            what was served before; it is removed
//! ```
//!
//! Each name is given by one rename, so that a crash leaves the old data or the new, and nothing of both. The keys are taken in by a server
//! of the copy's own, some megabytes at a time: between two of these all is written to the tables, and memory is empty again.

use std::{
    fs,
    io::BufRead,
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
    thread,
};

use commands::{
    Server, Session, SessionId,
    config::{Memory, Settings, Text},
};
use engine::Batch;
use mio::{Poll, Token, Waker};
use oplog::{Log, disk::RealDisk};
use replication::{parting::Parting, replica::Position};
use shard::records::ShardTables;

use crate::{
    StoreError,
    archive::sync_folder,
    clock, engines,
    folder::{ShardFolder, ShardNumber, StoreFolder},
    import::{
        rdb::{self, Entry, Head},
        source::Source,
        value,
    },
    messages, opening,
};

use super::{
    histories::Begun,
    set_aside::{self, Saved},
};

/// So many bytes of values are in memory before they are written to the tables.
const PIECE_BYTES: usize = 64 << 20;
/// So many keys are.
const PIECE_KEYS: usize = 200_000;
/// What the copy's tables may take of memory besides.
const TABLES_BYTES: u64 = 64 << 20;

/// A copy that is whole.
#[derive(Debug)]
pub struct Copied {
    /// What it is a copy of.
    pub position: Position,
    /// How many keys it has.
    pub keys: u64,
    /// What the own data have that the master has not.
    pub parted: Parting,
    /// All histories that the master's log tells, if it has said so.
    pub histories: Vec<Begun>,
    folder: PathBuf,
}

fn copying(root: &Path) -> PathBuf {
    root.join("shard-0.copy")
}

fn ready(root: &Path) -> PathBuf {
    root.join("shard-0.ready")
}

fn old(root: &Path) -> PathBuf {
    root.join("shard-0.old")
}

fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> StoreError {
    let path = path.to_owned();
    move |source| StoreError::Folder { path, source }
}

/// Makes a copy of a snapshot.
///
/// # Errors
///
/// The snapshot is damaged or has what is not there; the disk's.
pub fn make(
    root: &Path,
    settings: &Settings,
    position: Position,
    snapshot: &mut dyn BufRead,
) -> Result<Copied, StoreError> {
    let folder = copying(root);
    remove(&folder);
    let settings = Settings {
        dir: Text(folder.display().to_string()),
        maxmemory: Memory(4 * TABLES_BYTES),
        // What a command could do on the master it can do here.
        proto_max_bulk_len: Memory(i64::MAX as u64),
        log_retention_size: Memory(1),
        ..settings.clone()
    };
    let (keys, selected) = fill(&folder, &settings, snapshot)?;
    finish_making(&folder, &settings, position, selected)?;
    Ok(Copied { position, keys, parted: Parting::Nowhere, histories: Vec::new(), folder })
}

/// Takes in all that a snapshot has. Returns how many keys that are, and the database that the stream behind it goes on with.
fn fill(folder: &Path, settings: &Settings, snapshot: &mut dyn BufRead) -> Result<(u64, usize), StoreError> {
    let poll = Poll::new()?;
    let waker = Arc::new(Waker::new(poll.registry(), Token(0))?);
    let store = StoreFolder::take(folder)?;
    let mut persistence = opening::open(&store, ShardNumber::FIRST, settings, None, waker)?;
    let (now, tables) = (clock::now(), persistence.tables());
    let seed = tables.key_seed();
    let stopwatch = Rc::new(clock::stopwatch());
    let mut server = Server::new(settings.clone(), seed, seed, now, Some(Box::new(tables)), stopwatch);
    persistence.recover(&mut server)?;
    let mut session = Session::new(SessionId(0), 0);
    (session.internal, session.replaying) = (true, true);
    let mut source = Source::new(snapshot);
    rdb::begin(&mut source)?;
    let (mut keys, mut selected, mut bytes, mut count) = (0, 0, 0, 0);
    while let Some(head) = rdb::next_head(&mut source)? {
        match head {
            Head::Other(Entry::Database(db)) => {
                session.db = usize::try_from(db).ok().filter(|db| *db < server.keyspace.len()).ok_or(
                    StoreError::Follow(format!(
                        "the master has keys in database {db}, and here are {} (databases)",
                        server.keyspace.len()
                    )),
                )?;
            }
            Head::Other(Entry::StreamDatabase(db)) => selected = usize::try_from(db).unwrap_or(0),
            Head::Other(Entry::Library(code)) => {
                run(&mut server, &mut session, &[b"FUNCTION", b"LOAD", b"REPLACE", &code], b"")?;
            }
            Head::Other(Entry::Key { .. }) => {}
            Head::Key { name, expires, form: value::QUEUE } => {
                keys += 1;
                value::queue(&mut source, &name, |words| {
                    bytes += words.iter().map(|word| word.len()).sum::<usize>();
                    run(&mut server, &mut session, words, &name)?;
                    write_if_full(&mut persistence, &mut server, &mut bytes)
                })?;
                if let Some(at) = expires {
                    run(&mut server, &mut session, &[b"PEXPIREAT", &name, at.to_string().as_bytes()], &name)?;
                }
            }
            Head::Key { name, expires, form } => {
                let payload = rdb::next_payload(&mut source, form)?;
                bytes += payload.len() + name.len();
                (keys, count) = (keys + 1, count + 1);
                let at = expires.unwrap_or(0).to_string();
                let words = [&b"RESTORE"[..], &name, at.as_bytes(), &payload, b"REPLACE", b"ABSTTL"];
                run(&mut server, &mut session, &words, &name)?;
            }
        }
        if bytes >= PIECE_BYTES || count >= PIECE_KEYS {
            (bytes, count) = (0, 0);
            write_piece(&mut persistence, &mut server)?;
        }
    }
    write_piece(&mut persistence, &mut server)?;
    persistence.close(&mut server, clock::now())?;
    Ok((keys, selected))
}

fn run(server: &mut Server, session: &mut Session, words: &[&[u8]], key: &[u8]) -> Result<(), StoreError> {
    server.replay(session, words).map_err(|reason| {
        let key = String::from_utf8_lossy(key.get(..100).unwrap_or(key)).escape_debug().to_string();
        StoreError::Follow(format!("the master's key '{key}' cannot be taken: {reason}"))
    })
}

/// The same once there is so much of it, within a value.
fn write_if_full(
    persistence: &mut opening::Persistence,
    server: &mut Server,
    bytes: &mut usize,
) -> Result<(), StoreError> {
    if *bytes < PIECE_BYTES {
        return Ok(());
    }
    *bytes = 0;
    write_piece(persistence, server)
}

/// Brings what is in memory to the tables, and empties memory.
fn write_piece(persistence: &mut opening::Persistence, server: &mut Server) -> Result<(), StoreError> {
    persistence.note_other_changes(clock::now())?;
    persistence.checkpoint_now(server, clock::now())?;
    if persistence.has_failed() {
        return Err(StoreError::Follow("the tables of the copy cannot be written".into()));
    }
    server.forget_data();
    let tables = persistence.tables();
    server.take_records(tables.key_seed(), Box::new(tables));
    persistence.recover(server)?;
    Ok(())
}

/// Has tables and log say what they are a copy of, and gives them the name of a copy that is whole.
fn finish_making(folder: &Path, settings: &Settings, position: Position, selected: usize) -> Result<(), StoreError> {
    let shard = ShardFolder::first(folder);
    let engine = engines::open(shard.path(), settings, TABLES_BYTES)?;
    let mut batch = Batch::new();
    let (name, value) = ShardTables::selected_record(selected);
    batch.put(name, value);
    batch.set_applied(engine::LogOffset(position.offset.0));
    engine.write(&batch)?;
    engine.sync()?;
    drop(engine);
    // The log that the copy was made with told of nothing.
    fs::remove_dir_all(shard.log()).map_err(failed(&shard.log()))?;
    fs::create_dir_all(shard.log()).map_err(failed(&shard.log()))?;
    let mut salt = [0; 4];
    rustix::rand::getrandom(&mut salt, rustix::rand::GetRandomFlags::empty()).map_err(std::io::Error::from)?;
    let options = oplog::Options {
        first_offset: position.offset,
        segment_len: settings.log_segment_size.0.max(opening::SEGMENT_LEN_MIN),
        ..oplog::Options::new(position.history, u32::from_ne_bytes(salt))
    };
    let (log, _) = Log::open(RealDisk, &shard.log(), options, clock::now().unsigned_abs())?;
    log.syncer().sync()?;
    drop(log);
    sync_folder(shard.path()).and_then(|()| sync_folder(folder)).map_err(failed(folder))
}

impl Copied {
    /// Puts the copy into the place of the store's data, which nobody has open. [`give_up_later`] is to follow.
    ///
    /// # Errors
    ///
    /// The disk's. What was there stays, or the next start goes on with this.
    pub fn install(&self, store: &StoreFolder) -> Result<(), StoreError> {
        let root = store.root();
        let served = ShardFolder::first(root);
        set_aside::note(served.path(), self.parted).map_err(failed(served.path()))?;
        remove(&ready(root));
        fs::rename(ShardFolder::first(&self.folder).path(), ready(root)).map_err(failed(&ready(root)))?;
        sync_folder(root).map_err(failed(root))?;
        remove(&copying(root));
        swap(root)
    }
}

/// Puts a copy that is whole into the place of the data.
fn swap(root: &Path) -> Result<(), StoreError> {
    let served = ShardFolder::first(root);
    give_up(root, &old(root));
    if served.path().exists() {
        fs::rename(served.path(), old(root)).map_err(failed(&old(root)))?;
    }
    fs::rename(ready(root), served.path()).map_err(failed(served.path()))?;
    sync_folder(root).map_err(failed(root))
}

/// Finishes what a crash has interrupted: a copy that is whole is taken over, one that is not is removed.
///
/// # Errors
///
/// The disk's.
pub fn finish(root: &Path) -> Result<(), StoreError> {
    if ready(root).exists() {
        messages::notice("a copy of the master's data was about to be taken over: it is now");
        swap(root)?;
    }
    remove(&copying(root));
    give_up_later(root);
    Ok(())
}

/// Gives old data up: what nobody else has of it is set aside before.
fn give_up(root: &Path, old: &Path) {
    if !old.exists() {
        return;
    }
    match set_aside::save(root, old) {
        Ok(Saved::AsCommands) => remove(old),
        Ok(Saved::Unrelated) => {
            let place = keep(root, old);
            messages::warn(&format!(
                "what this store had has no history in common with its new master's data: IT IS REPLACED, and kept in {place} (setting \
                 replica-set-aside-data). To look at it, move it to be the folder shard-0 of an empty folder, and start a store with \
                 that; remove it if nobody wants it"
            ));
        }
        Err(reason) => {
            let place = keep(root, old);
            messages::warn(&format!(
                "what this store had and its new master has not cannot be set aside as commands: {reason}. The old data stay in {place}"
            ));
        }
    }
}

/// Has old data stay under a name of their own. Returns it.
fn keep(root: &Path, old: &Path) -> String {
    let kept = root.join(set_aside::data_name(clock::now()));
    let place = if fs::rename(old, &kept).is_ok() { kept.as_path() } else { old };
    place.display().to_string()
}

fn remove(path: &Path) {
    if path.exists()
        && let Err(error) = fs::remove_dir_all(path)
    {
        messages::warn(&format!("{} cannot be removed: {error}", path.display()));
    }
}

/// Whether old data are being given up.
pub fn is_giving_up(root: &Path) -> bool {
    old(root).exists()
}

/// The same on a thread: there may be very much in it.
pub fn give_up_later(root: &Path) {
    if !old(root).exists() {
        return;
    }
    let root = root.to_owned();
    // Without a thread it waits for the next start.
    let _ = thread::Builder::new().name("remove".into()).spawn(move || give_up(&root, &old(&root)));
}
