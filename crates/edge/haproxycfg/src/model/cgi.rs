//! `cgi` lines: programs that answer requests.

use std::{path::PathBuf, time::Duration};

use sample::Condition;

/// A `cgi` line.
#[derive(Clone, Debug)]
pub struct Cgi {
    /// Paths that begin like this are its.
    pub prefix: Vec<u8>,
    /// Where the programs are.
    pub folder: PathBuf,
    /// `timeout`: how long a program may run.
    pub timeout: Duration,
    /// `memory`: bytes of address space that a program may have.
    pub memory_bytes_max: Option<u64>,
    /// `processes`: programs at a time.
    pub processes_max: usize,
    /// `queue`: requests that wait for a place among these.
    pub queue_max: usize,
    /// `output`: bytes of an answer.
    pub output_bytes_max: Option<u64>,
    /// `env`: more variables.
    pub environment: Vec<(String, String)>,
    /// When.
    pub condition: Option<Condition>,
}
