//! Sends keys to other servers (`MIGRATE`), on a thread of its own: one migration after the other, over connections that are
//! kept for a while.

use std::{
    collections::HashMap,
    io::{self, Read as _, Write as _},
    net::ToSocketAddrs as _,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use commands::server::{Migrated, Migration};
use mio::Waker;
use resp::{ReplyLimits, ReplyParser, ReplyProgress, Value, encode_command};

use crate::secure::{Outgoing, Peer};

/// How long a connection waits to be used again.
const IDLE: Duration = Duration::from_secs(10);
/// How many there are at most.
const IDLE_MAX: usize = 64;
/// How often is looked whether one has waited for long enough.
const LOOK: Duration = Duration::from_secs(1);

/// The thread, seen from the loop.
#[derive(Debug)]
pub struct Migrations {
    jobs: mpsc::Sender<(Migration, Option<Peer>)>,
    outcomes: mpsc::Receiver<Migrated>,
    sockets: Arc<AtomicU64>,
}

impl Migrations {
    /// Starts the thread. It ends when nobody can ask it any more.
    ///
    /// # Errors
    ///
    /// There are no more threads.
    pub fn start(waker: Arc<Waker>) -> io::Result<Self> {
        let (jobs, todo) = mpsc::channel::<(Migration, Option<Peer>)>();
        let (done, outcomes) = mpsc::channel();
        let sockets = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&sockets);
        thread::Builder::new().name("migrate".into()).spawn(move || {
            let mut targets = Targets::default();
            loop {
                match todo.recv_timeout(LOOK) {
                    Ok((migration, peer)) => {
                        let outcome = targets.send(&migration, peer.as_ref());
                        count.store(targets.0.len() as u64, Ordering::Relaxed);
                        if done.send(outcome).is_err() {
                            return;
                        }
                        let _ = waker.wake();
                    }
                    Err(mpsc::RecvTimeoutError::Timeout) => {
                        targets.0.retain(|_, target| target.used.elapsed() < IDLE);
                        count.store(targets.0.len() as u64, Ordering::Relaxed);
                    }
                    Err(mpsc::RecvTimeoutError::Disconnected) => return,
                }
            }
        })?;
        Ok(Self { jobs, outcomes, sockets })
    }

    /// Has keys sent.
    pub fn send(&self, migration: Migration, peer: Option<Peer>) {
        // The thread ends after this alone.
        let _ = self.jobs.send((migration, peer));
    }

    /// What has become of one.
    pub fn outcome(&self) -> Option<Migrated> {
        self.outcomes.try_recv().ok()
    }

    /// How many connections wait to be used again.
    pub fn sockets(&self) -> u64 {
        self.sockets.load(Ordering::Relaxed)
    }
}

/// A connection, and the database that it is on.
struct Target {
    stream: Outgoing,
    /// How TLS is spoken over it, if it is.
    peer: Option<Peer>,
    db: i64,
    used: Instant,
}

/// Connections by address.
#[derive(Default)]
struct Targets(HashMap<String, Target>);

/// Why keys did not arrive.
enum MigrationFailure {
    Connect,
    Write,
    Read(io::ErrorKind),
    /// What the other server said.
    Refused(String),
}

impl MigrationFailure {
    fn text(&self) -> String {
        match self {
            Self::Connect => "IOERR error or timeout connecting to the client".into(),
            Self::Write => "IOERR error or timeout writing to target instance".into(),
            Self::Read(_) => "IOERR error or timeout reading from target instance".into(),
            Self::Refused(reason) => format!("ERR Target instance replied with error: {reason}"),
        }
    }

    /// A connection that was kept may have been closed meanwhile.
    fn is_stale(&self) -> bool {
        match self {
            Self::Connect | Self::Refused(_) => false,
            Self::Write => true,
            Self::Read(kind) => !matches!(kind, io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut),
        }
    }
}

impl Targets {
    fn send(&mut self, migration: &Migration, peer: Option<&Peer>) -> Migrated {
        let address = format!("{}:{}", migration.host, migration.port);
        let mut accepted = vec![false; migration.parcels.len()];
        let mut trouble = None;
        for _ in 0..2 {
            let kept = self.0.remove(&address).filter(|kept| kept.peer.as_ref() == peer);
            let was_kept = kept.is_some();
            let outcome = match kept.map_or_else(|| connect(migration, peer), Ok) {
                Ok(mut target) => {
                    let outcome = exchange(&mut target, migration, &mut accepted);
                    // After an I/O error what comes next belongs to nobody.
                    if matches!(outcome, Ok(()) | Err(MigrationFailure::Refused(_))) && self.0.len() < IDLE_MAX {
                        target.used = Instant::now();
                        self.0.insert(address.clone(), target);
                    }
                    outcome
                }
                Err(trouble) => Err(trouble),
            };
            trouble = outcome.err();
            let again =
                was_kept && trouble.as_ref().is_some_and(MigrationFailure::is_stale) && !accepted.contains(&true);
            if !again {
                break;
            }
        }
        Migrated { number: migration.number, accepted, error: trouble.map(|trouble| trouble.text()) }
    }
}

fn connect(migration: &Migration, peer: Option<&Peer>) -> Result<Target, MigrationFailure> {
    let timeout = Duration::from_millis(migration.timeout_ms);
    let port = port(&migration.port).ok_or(MigrationFailure::Connect)?;
    let addresses = (migration.host.as_str(), port).to_socket_addrs().map_err(|_| MigrationFailure::Connect)?;
    let mut trouble = MigrationFailure::Connect;
    for address in addresses {
        match Outgoing::connect(&address, timeout, peer) {
            Ok(stream) => return Ok(Target { stream, peer: peer.cloned(), db: 0, used: Instant::now() }),
            // Redis does not look whether the connection came about before it writes.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => trouble = MigrationFailure::Write,
            Err(_) => {}
        }
    }
    Err(trouble)
}

/// A port as Redis reads it: the digits that the word begins with, and of their number as much as a port has room for. There is none
/// below zero.
fn port(word: &str) -> Option<u16> {
    let (is_negative, digits) = word.strip_prefix('-').map_or((false, word), |digits| (true, digits));
    let number = digits.bytes().map_while(|byte| char::from(byte).to_digit(10)).fold(0_i64, |number, digit| {
        number.saturating_mul(10).saturating_add(i64::from(digit)).min(i64::from(i32::MAX))
    });
    (!is_negative || number == 0).then_some((number % (1 << 16)) as u16)
}

/// Sends the keys and reads what the other server says of each.
fn exchange(target: &mut Target, migration: &Migration, accepted: &mut [bool]) -> Result<(), MigrationFailure> {
    let timeout = Some(Duration::from_millis(migration.timeout_ms));
    let socket = target.stream.socket();
    socket
        .set_read_timeout(timeout)
        .and_then(|()| socket.set_write_timeout(timeout))
        .map_err(|_| MigrationFailure::Write)?;
    let mut preludes = 0;
    let mut bytes = Vec::new();
    if let Some(credentials) = &migration.credentials {
        let mut words = vec![b"AUTH".as_slice()];
        words.extend(credentials.user.iter().map(|user| user.as_slice()));
        words.push(&credentials.password);
        encode_command(&mut bytes, &words);
        preludes += 1;
    }
    if target.db != migration.db {
        encode_command(&mut bytes, &["SELECT", &migration.db.to_string()]);
        preludes += 1;
        // Until it is known to have gone well.
        target.db = -1;
    }
    target.stream.write_all(&bytes).map_err(|_| MigrationFailure::Write)?;
    for parcel in &migration.parcels {
        bytes.clear();
        let ttl = parcel.ttl.to_string();
        let mut words = vec![b"RESTORE".as_slice(), &parcel.key, ttl.as_bytes(), &parcel.payload];
        if migration.replace {
            words.push(b"REPLACE");
        }
        encode_command(&mut bytes, &words);
        target.stream.write_all(&bytes).map_err(|_| MigrationFailure::Write)?;
    }
    let mut replies = Replies { stream: &mut target.stream, parser: ReplyParser::new(), buffer: Vec::new() };
    let mut refused = None;
    let mut is_ready = true;
    for _ in 0..preludes {
        if let Some(reason) = replies.error()? {
            refused.get_or_insert(reason);
            is_ready = false;
        }
    }
    for accepted in accepted {
        match replies.error()? {
            None => *accepted = is_ready,
            Some(reason) => {
                refused.get_or_insert(reason);
            }
        }
    }
    if is_ready {
        target.db = migration.db;
    }
    refused.map_or(Ok(()), |reason| Err(MigrationFailure::Refused(reason)))
}

struct Replies<'a> {
    stream: &'a mut Outgoing,
    parser: ReplyParser,
    buffer: Vec<u8>,
}

impl Replies<'_> {
    /// The next reply, if it is an error.
    fn error(&mut self) -> Result<Option<String>, MigrationFailure> {
        const PIECE: usize = 4096;
        loop {
            match self.parser.parse(&self.buffer, &ReplyLimits::default()) {
                Ok(ReplyProgress::Complete { value, consumed }) => {
                    self.buffer.drain(..consumed);
                    self.parser = ReplyParser::new();
                    return Ok(match value {
                        Value::Error(text) => Some(String::from_utf8_lossy(&text).into_owned()),
                        _ => None,
                    });
                }
                Ok(_) => {}
                Err(_) => return Err(MigrationFailure::Read(io::ErrorKind::InvalidData)),
            }
            let mut piece = [0; PIECE];
            match self.stream.read(&mut piece) {
                Ok(0) => return Err(MigrationFailure::Read(io::ErrorKind::UnexpectedEof)),
                Ok(len) => self.buffer.extend_from_slice(piece.get(..len).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(MigrationFailure::Read(error.kind())),
            }
        }
    }
}
