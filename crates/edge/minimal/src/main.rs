//! `tidegate-min`: serves a folder, on one thread, in as little memory as there can be.
//!
//! ```text
//!  server (epoll, accept, times) ─▶ connection (bytes in, bytes out) ─▶ site (which file) ─▶ web::respond (which head, which part)
//! ```
//!
//! What a request means is the edge's crates `http` and `web`, so paths, conditions, ranges, types and listings are those of `tidegate serve`. What is not here: TLS, HTTP/2,
//! compression, caches, rules, logs, reloads; a disk that is slow lets all clients wait.
#![expect(clippy::print_stderr, clippy::print_stdout, reason = "this is a command line tool")]

mod connection;
mod options;
mod server;
mod site;

use std::{
    io,
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    process::ExitCode,
};

use options::{Command, Options};

fn main() -> ExitCode {
    match options::read(std::env::args_os().skip(1)) {
        Ok(Command::Say(text)) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Ok(Command::Serve(options)) => match serve(&options) {
            Ok(()) => ExitCode::SUCCESS,
            Err(problem) => {
                eprintln!("tidegate-min: {problem}");
                ExitCode::FAILURE
            }
        },
        Err(problem) => {
            eprintln!("tidegate-min: {problem}; `tidegate-min --help` says what there is");
            ExitCode::from(2)
        }
    }
}

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
enum ServeError {
    /// The folder cannot be opened.
    #[error("{}: {source}", folder.display())]
    Folder {
        /// Which.
        folder: PathBuf,
        /// Why.
        source: rustix::io::Errno,
    },
    /// The address cannot be had.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The loop has failed.
    #[error("cannot go on: {0}")]
    Loop(io::Error),
}

/// Serves until a signal ends the process.
fn serve(options: &Options) -> Result<(), ServeError> {
    let (folder, address) = (options.folder.clone(), options.address);
    let site = site::Site::open(options).map_err(|source| ServeError::Folder { folder, source })?;
    let listener = TcpListener::bind(address).map_err(|source| ServeError::Listen { address, source })?;
    let shown = listener.local_addr().unwrap_or(address);
    println!("serves {} at http://{shown}/", options.folder.display());
    server::run(&listener, &site, options.connections_max).map_err(ServeError::Loop)
}
