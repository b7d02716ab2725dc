//! The store: a server that speaks Redis' protocol.
//!
//! A thread runs the loop (`event_loop`) of a shard. All that is Redis is in `commands`, and what makes it outlive the process is in
//! `shard`; here are sockets, threads, clocks, folders.

mod agent_link;
pub mod allocator;
pub mod archive;
pub mod backup;
mod beginning;
mod check_system;
pub mod client;
mod clock;
pub mod command;
mod connection;
mod daemon;
mod descriptors;
mod engines;
mod error;
mod event_loop;
pub mod export;
mod folder;
pub mod followers;
mod forward;
mod help;
mod host;
pub mod import;
mod lanes;
mod life;
mod listener;
pub mod log_dump;
pub mod log_json;
mod log_threads;
mod messages;
mod migrate;
mod opening;
pub mod options;
mod other_nodes;
mod overhead;
mod page;
pub mod point;
mod replace;
mod replication;
mod role;
pub mod running;
pub mod secure;
pub mod setting_help;
mod signals;
pub mod slotmove;
mod sockets;
pub mod status;
mod stillness;
mod supervisor;
mod syslog;
mod terms;
mod until;
mod users;
mod workers;
mod world;

use std::{io::Write as _, path::Path};

use commands::config::Settings;

pub use commands::{REDIS_VERSION, config::kept, reference};
pub use error::StoreError;
pub use keyspace::glob::matches_ignoring_case;
pub use life::Life;
pub use options::Start;

/// Runs a store until it is told to stop. `memory_used` says how much memory the process has allocated.
///
/// # Errors
///
/// It could not start: an address is taken, a folder cannot be written.
pub fn run(mut start: Start, life: Life, memory_used: fn() -> usize) -> Result<(), StoreError> {
    life.choose_process_file(&mut start.settings);
    let settings = &start.settings;
    messages::set_level(settings.loglevel);
    enter_folder(settings)?;
    open_messages(&start)?;
    life.begin();
    for note in &start.notes {
        messages::notice(note);
    }
    let port = if settings.port.0 == 0 { settings.tls_port.0 } else { settings.port.0 };
    let version = env!("CARGO_PKG_VERSION");
    messages::notice(&format!("Tidegate's store {version} starts. Port: {port}, PID: {}", std::process::id()));
    let has_folder = !settings.dir.0.is_empty();
    start.settings.maxclients.0 = descriptors::make_room(settings.maxclients.0)?;
    let settings = &start.settings;
    if settings.disable_thp.0 {
        // A kernel without huge pages has none to switch off.
        let _ = rustix::thread::disable_transparent_huge_pages(true);
    }
    if has_folder {
        messages::notice(&format!("The data is in {}", settings.dir.0));
    }
    check_system::warn(settings);
    if !settings.page_address.0.is_empty() {
        messages::notice(&format!("The page is at http://{}/", settings.page_address.0));
    }
    event_loop::EventLoop::new(start, memory_used, life)?.run()?;
    messages::notice(if has_folder {
        "The store has all that it had in its folder, and is now ready to exit, bye bye..."
    } else {
        "The store is now ready to exit, and what was in memory is gone, bye bye..."
    });
    Ok(())
}

/// Makes the folder of the data the current one, as Redis does: what other settings name is there, unless they say where it is.
fn enter_folder(settings: &Settings) -> Result<(), StoreError> {
    if settings.dir.0.is_empty() {
        return Ok(());
    }
    let path = Path::new(&settings.dir.0);
    let entered = std::fs::create_dir_all(path).and_then(|()| std::env::set_current_dir(path));
    entered.map_err(|source| StoreError::Folder { path: path.to_owned(), source })
}

/// Has messages go where the settings say.
fn open_messages(start: &Start) -> Result<(), StoreError> {
    let settings = &start.settings;
    if !settings.logfile.0.is_empty() {
        let path = Path::new(&settings.logfile.0);
        messages::open(path).map_err(|(path, source)| StoreError::Messages { path, source })?;
        // Whoever starts it by hand would see nothing at all.
        let mut stderr = std::io::stderr();
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let _ = writeln!(stderr, "messages go to {}", path.display());
        for note in &start.notes {
            let _ = writeln!(stderr, "{note}");
        }
    }
    if let Some(syslog) = syslog::Syslog::of(settings).map_err(StoreError::Loop)? {
        messages::open_syslog(syslog);
    }
    Ok(())
}
