//! What lines are sent through: opened once for the process and shared by its workers.

use std::{
    io::{self, Write as _},
    net::{SocketAddr, ToSocketAddrs as _},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::SystemTime,
};

use haproxycfg::model::{LogDestination, LogLineFormat, Ring};

use super::{dates::Dates, descriptor::Descriptor, file::LogFile, log_ring::LogRing, loss::Loss, unix::UnixSyslog};

/// Bytes of the ring `buf0`.
const BUFFER_SIZE: usize = 1024 * 1024;

/// Lines that did not arrive; `DroppedLogs` is the sum.
#[derive(Debug, Default)]
pub struct Counters {
    dropped: AtomicU64,
    failed: AtomicU64,
}

impl Counters {
    /// Lines for which a socket or pipe had no room.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    /// Lines that could not be sent for another reason: nobody listens, no such file.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failed.load(Relaxed)
    }
}

/// Everything that is open for logs.
#[derive(Debug, Default)]
pub struct Outputs {
    known: Mutex<Vec<(LogDestination, Arc<Output>)>>,
    /// One output for each, so that lines for a ring stay in order whatever `log` lines they come by.
    rings: Mutex<Vec<(Arc<LogRing>, Arc<Output>)>>,
    /// `buf0`, once something was written there.
    buffer: OnceLock<Arc<LogRing>>,
    counters: Counters,
    /// Bytes that may wait for a file.
    file_bytes_max: AtomicUsize,
    /// Whether the first failure was reported; more are only counted.
    failure_reported: AtomicBool,
}

/// One destination.
#[derive(Debug)]
pub(super) enum Output {
    /// The sockets are each sender's own.
    Udp(SocketAddr),
    Unix(UnixSyslog),
    Descriptor(Descriptor),
    File(LogFile),
    /// Memory.
    Ring(Arc<LogRing>),
    /// A host without an address: lines count as failed.
    Nowhere,
}

impl Output {
    /// Where lines go, as a message has it behind other words.
    fn place(&self) -> String {
        match self {
            Self::Udp(address) => format!(" ({address})"),
            Self::Unix(socket) => format!(" ({})", socket.name()),
            Self::Descriptor(_) => " (a descriptor)".to_owned(),
            Self::File(file) => format!(" ({})", file.path().display()),
            Self::Ring(_) | Self::Nowhere => String::new(),
        }
    }
}

/// What HAProxy's `buf0` is.
fn buffer_settings() -> Ring {
    Ring {
        name: "buf0".into(),
        description: "in-memory ring buffer".to_owned(),
        format: LogLineFormat::Timed,
        maxlen: BUFFER_SIZE,
        size: BUFFER_SIZE,
        servers: Vec::new(),
        timeout_connect: None,
        timeout_server: None,
    }
}

fn lookup(host: &str, port: u16) -> Option<SocketAddr> {
    (host, port).to_socket_addrs().ok()?.next()
}

impl Outputs {
    /// None open yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Has these rings from now on. Those that were there and are the same keep their lines.
    pub fn set_rings(&self, wanted: &[Ring]) {
        let mut rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = |settings: &Ring| {
            let is_same = |(ring, _): &&(Arc<LogRing>, Arc<Output>)| {
                let old = ring.settings();
                (&old.name, &old.description, old.format) == (&settings.name, &settings.description, settings.format)
                    && (old.maxlen, old.size) == (settings.maxlen, settings.size)
            };
            rings.iter().find(is_same).cloned()
        };
        let made = |settings: &Ring| {
            let ring = Arc::new(LogRing::new(settings.clone()));
            (Arc::clone(&ring), Arc::new(Output::Ring(ring)))
        };
        let new: Vec<_> = wanted.iter().map(|settings| kept(settings).unwrap_or_else(|| made(settings))).collect();
        *rings = new;
    }

    /// All rings, in the order of the configuration.
    #[must_use]
    pub fn rings(&self) -> Vec<Arc<LogRing>> {
        let rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        rings.iter().map(|(ring, _)| Arc::clone(ring)).collect()
    }

    /// The ring of that name.
    #[must_use]
    pub fn ring(&self, name: &str) -> Option<Arc<LogRing>> {
        self.rings().into_iter().find(|ring| &*ring.settings().name == name)
    }

    /// Writes a line to one of the sinks that always exist: `stdout`, `stderr`, or the ring `buf0`.
    pub fn write_to_sink(&self, name: &str, line: &str) {
        // NOTE: a standard stream may be a pipe that nobody reads; whoever asks for it accepts to wait.
        let _ = match name {
            "stdout" => writeln!(io::stdout(), "{line}"),
            "stderr" => writeln!(io::stderr(), "{line}"),
            _ => {
                let ring = self.buffer.get_or_init(|| Arc::new(LogRing::new(buffer_settings())));
                let mut dates = Dates::default();
                dates.set(SystemTime::now());
                let mut bytes = b"<0>".to_vec();
                dates.write_iso(&mut bytes);
                bytes.extend_from_slice(line.as_bytes());
                let _lost = ring.write(std::iter::once(&*bytes));
                Ok(())
            }
        };
    }

    /// The ring `buf0`, if something was written there.
    #[must_use]
    pub fn buffer(&self) -> Option<Arc<LogRing>> {
        self.buffer.get().cloned()
    }

    /// Lines lost since the process started.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The output for a destination. It never fails: a destination that is not there yet is tried again later. A host
    /// name is looked up, which may take a while.
    pub(super) fn open(&self, destination: &LogDestination) -> Arc<Output> {
        if let LogDestination::Ring(name) = destination {
            let rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
            let known = rings.iter().find(|(ring, _)| *ring.settings().name == **name);
            return known.map_or_else(|| Arc::new(Output::Nowhere), |(_, output)| Arc::clone(output));
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, output)) = known.iter().find(|(known, _)| known == destination) {
            return Arc::clone(output);
        }
        let output = Arc::new(match destination {
            LogDestination::Udp(address) => Output::Udp(*address),
            LogDestination::UdpHost { host, port } => match lookup(host, *port) {
                Some(address) => Output::Udp(address),
                None => Output::Nowhere,
            },
            LogDestination::Unix(path) => Output::Unix(UnixSyslog::open(path.clone().into_bytes())),
            LogDestination::Abstract(name) => match runtime::abstract_name(name) {
                Ok(name) => Output::Unix(UnixSyslog::open([&[0], &name[..]].concat())),
                Err(_) => Output::Nowhere,
            },
            LogDestination::Descriptor(number) => Output::Descriptor(Descriptor::copy(*number)),
            LogDestination::File(path) => Output::File(LogFile::open(path, self.file_bytes_max.load(Relaxed))),
            LogDestination::Ring(_) => Output::Nowhere,
        });
        known.push((destination.clone(), Arc::clone(&output)));
        output
    }

    /// Lets so many bytes wait for each file, and opens all files anew: those under their paths may be others.
    pub fn renew_files(&self, bytes_max: usize) {
        self.file_bytes_max.store(bytes_max, Relaxed);
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, output) in &*known {
            if let Output::File(file) = &**output {
                file.set_bytes_max(bytes_max);
                file.reopen();
            }
        }
    }

    /// Closes what no targets use any more: after a reload, once the old configuration is gone. What targets have opened
    /// stays open until then, even when they are dropped and compiled anew.
    pub fn close_unused(&self) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(_, output)| Arc::strong_count(output) > 1);
    }

    #[cfg(test)]
    pub(super) fn count_open(&self) -> usize {
        self.known.lock().unwrap().len()
    }

    /// Counts what was lost, and reports the first failure.
    pub(super) fn count(&self, loss: Loss, output: Option<&Output>) {
        if loss.dropped > 0 {
            self.counters.dropped.fetch_add(loss.dropped, Relaxed);
        }
        if loss.failed > 0 {
            self.counters.failed.fetch_add(loss.failed, Relaxed);
        }
        if let Some(error) = loss.error
            && !self.failure_reported.swap(true, Relaxed)
        {
            let place = output.map(Output::place).unwrap_or_default();
            runtime::log::write(
                runtime::log::Level::Alert,
                format_args!("cannot send to a log target{place}: {error}"),
            );
        }
    }
}
