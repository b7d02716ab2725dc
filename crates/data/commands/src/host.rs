//! What a server asks of the process it runs in: figures of the machine, and the file of settings.

use std::rc::Rc;

use keyspace::Millis;

use crate::config::Settings;

/// A clock of microseconds that only measures durations.
pub type Stopwatch = Rc<dyn Fn() -> u64>;

/// Memory of the process and the machine, in bytes.
#[derive(Debug, Clone, Default)]
pub struct MemoryFigures {
    /// What is allocated.
    pub used: u64,
    /// What of that was so before there was any data.
    pub at_start: u64,
    /// What the machine held for it then: the program, stacks, what the allocator keeps for itself.
    pub resident_at_start: u64,
    /// What the machine holds of the process.
    pub resident: u64,
    /// The allocator's name and version.
    pub allocator: String,
    /// What it has given out, in places as large as they are.
    pub allocator_allocated: u64,
    /// Pages with such places.
    pub allocator_active: u64,
    /// What the machine holds of its pages.
    pub allocator_resident: u64,
    /// What the machine has.
    pub total: u64,
}

/// Time of cores that the process took, in microseconds.
#[derive(Debug, Clone, Copy, Default)]
pub struct CpuFigures {
    /// In the kernel.
    pub system: u64,
    /// Outside of it.
    pub user: u64,
    /// In the kernel, by this thread.
    pub thread_system: u64,
    /// Outside of it, by this thread.
    pub thread_user: u64,
}

/// The log and the tables.
#[derive(Debug, Clone, Copy, Default)]
pub struct PersistenceFigures {
    /// Whether there are any.
    pub enabled: bool,
    /// A checkpoint is under way.
    pub in_progress: bool,
    /// When the last one was done, in milliseconds since 1970.
    pub last_checkpoint: Millis,
    /// How long it took.
    pub last_checkpoint_ms: Millis,
    /// Whether it failed.
    pub failed: bool,
    /// How many there were.
    pub checkpoints: u64,
    /// Where the log begins and ends.
    pub log: (u64, u64),
    /// How far of it is durable.
    pub durable: u64,
    /// The tables have all up to here.
    pub applied: u64,
    /// The log cannot be written.
    pub log_failed: bool,
    /// Keys that are not in memory are read by io_uring.
    pub reads_by_ring: bool,
}

/// What does not change while the process runs.
#[derive(Debug, Clone, Default)]
pub struct ProcessFigures {
    /// Its number.
    pub id: u32,
    /// A random name of this run, in hexadecimal digits.
    pub run_id: String,
    /// The program.
    pub executable: String,
    /// Who supervises it: `no`, `systemd`, `upstart`.
    pub supervised: &'static str,
    /// The file of settings; empty if there is none.
    pub config_file: String,
    /// The operating system.
    pub os: String,
}

/// Whether settings of TLS are changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsChange {
    /// None is.
    None,
    /// Some are: files are read anew.
    Some,
}

/// Why a server cannot listen as settings say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListenTrouble {
    /// An address cannot be listened on.
    Address,
    /// There is something about the settings of TLS.
    Tls,
}

/// The process.
pub trait Host {
    /// What does not change.
    fn process(&self) -> ProcessFigures {
        ProcessFigures::default()
    }

    /// Microseconds since 1970; nothing where time is what the server is told.
    fn time_us(&self) -> Option<u64> {
        None
    }

    /// Its memory.
    fn memory(&self) -> MemoryFigures {
        MemoryFigures::default()
    }

    /// Gives what is free back to the machine.
    fn purge_memory(&self) {}

    /// Its cores' time.
    fn cpu(&self) -> CpuFigures {
        CpuFigures::default()
    }

    /// Opens what other settings listen on, and is not listened on yet; reads the certificates of TLS, if there are none yet or `tls`
    /// says that these are changed. Whoever runs the shard takes both over when the command is over
    /// ([`Request::Listen`](crate::server::Request::Listen)).
    ///
    /// # Errors
    ///
    /// What cannot be done; the log has why. Then nothing changes.
    fn listen(&self, settings: &Settings, tls: TlsChange) -> Result<(), ListenTrouble> {
        let _ = (settings, tls);
        Ok(())
    }

    /// Sees to it that so many clients can be served.
    ///
    /// # Errors
    ///
    /// The system does not let it be: so many can.
    fn make_room_for_clients(&self, count: i64) -> Result<(), i64> {
        let _ = count;
        Ok(())
    }

    /// Reads the file of settings. Nothing if there is none.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    fn read_config(&self) -> Result<Option<Vec<u8>>, String> {
        Ok(None)
    }

    /// Writes it, as a whole or not at all.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    fn write_config(&self, text: &[u8]) -> Result<(), String> {
        let _ = text;
        Ok(())
    }

    /// Which node of its cluster this server is, as the agent of its machine has written down; nothing: nobody has.
    fn node(&self) -> Option<String> {
        None
    }

    /// The latest term of an agent that was kept; 0 if none was.
    fn kept_term(&self) -> u64 {
        0
    }

    /// Keeps the term of an agent, so that it is known after the next start, whatever happens.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    fn keep_term(&self, term: u64) -> Result<(), String> {
        let _ = term;
        Ok(())
    }
}

/// None: in tests, and wherever a server runs that nobody administers.
#[derive(Debug, Clone, Copy)]
pub struct NoHost;

impl Host for NoHost {}
