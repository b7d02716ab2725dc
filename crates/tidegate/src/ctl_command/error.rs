//! Why a command was not sent or its answer not read.

use std::io;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum CtlError {
    /// No stats socket is meant, or none can be told from others.
    #[error("{0}")]
    NoPlace(String),
    /// It cannot be reached; the text says what to do.
    #[error("{0}")]
    Unreachable(String),
    /// Nothing was sent, for this reason, or the answer is an error.
    #[error("{0}")]
    Refused(String),
    /// The connection failed.
    #[error("{place}: {source}")]
    Connection {
        /// Where to.
        place: String,
        /// How.
        source: io::Error,
    },
    /// It ended without an answer.
    #[error(
        "{place} closed the connection without an answer: the command may be too long (16 kB with its contents), or the socket has no free \
         connection"
    )]
    NoAnswer {
        /// Who.
        place: String,
    },
    /// The command's contents are missing.
    #[error("this command takes its contents from standard input: add `< FILE`")]
    NoContents,
    /// They cannot be read.
    #[error("standard input: {0}; contents that are no text (a response of OCSP) go in base64: `base64 -w 0 FILE`")]
    Input(io::Error),
    /// Answers cannot be written.
    #[error("standard output: {0}")]
    Output(io::Error),
}
