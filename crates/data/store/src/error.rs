//! Why a store did not start, or stopped.

use std::io;

/// What went wrong, with the remedy where there is one.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Settings are wrong: each problem with its place and remedy.
    #[error("the settings cannot be used:\n  {}", .0.join("\n  "))]
    Settings(Vec<String>),
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: is another server running there? (port and bind choose the address)")]
    Listen {
        /// The address.
        address: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The loop's own means failed.
    #[error("the event loop failed")]
    Loop(#[from] io::Error),
}
