//! The store: a server that speaks Redis' protocol.
//!
//! Each shard is one thread with one loop (`shard`). All that is Redis is in `commands`; here are sockets, clocks, files.

pub mod allocator;
pub mod archive;
pub mod backup;
mod clock;
pub mod command;
mod connection;
mod disk_bound;
mod effects;
mod error;
mod host;
mod lanes;
mod listener;
pub mod log_dump;
mod messages;
mod migrate;
pub mod options;
mod overhead;
mod pace;
mod persistence;
pub mod point;
mod records;
mod shard;
mod signals;
mod sockets;
mod until;
mod users;

use std::{io::Write as _, path::Path};

pub use commands::reference;
pub use error::StoreError;
pub use options::Start;

/// Runs a store until it is told to stop. `memory_used` says how much memory the process has allocated.
///
/// # Errors
///
/// It could not start: an address is taken, a folder cannot be written.
pub fn run(start: Start, memory_used: fn() -> usize) -> Result<(), StoreError> {
    let settings = &start.settings;
    messages::set_level(settings.loglevel);
    if !settings.logfile.0.is_empty() {
        let path = Path::new(&settings.logfile.0);
        messages::open(path).map_err(|(path, source)| StoreError::Messages { path, source })?;
        // Whoever starts it by hand would see nothing at all.
        let mut stderr = std::io::stderr();
        let _ = writeln!(stderr, "tidegate store: messages go to {}", path.display());
        for note in &start.notes {
            let _ = writeln!(stderr, "tidegate store: {note}");
        }
    }
    for note in &start.notes {
        messages::notice(note);
    }
    let (version, port) = (env!("CARGO_PKG_VERSION"), settings.port.0);
    messages::notice(&format!("Tidegate's store {version} starts. Port: {port}, PID: {}", std::process::id()));
    let _process_file = host::ProcessFile::write(settings);
    let has_folder = !settings.dir.0.is_empty();
    shard::Shard::new(start, memory_used)?.run()?;
    messages::notice(if has_folder {
        "The store has all that it had in its folder, and is now ready to exit, bye bye..."
    } else {
        "The store is now ready to exit, and what was in memory is gone, bye bye..."
    });
    Ok(())
}
