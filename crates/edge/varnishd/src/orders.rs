//! What a manager tells a worker, and what that answers: over a socket, each a length (4 bytes, little-endian) and JSON.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use varnishcli::{AdminHealth, BackendEntry, BanEntry, Failure};

use crate::recorded::Recorded;

/// Bytes of a message, at most.
const MESSAGE_BYTES_MAX: u32 = 64 << 20;

/// What a worker begins with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Begin {
    /// The configuration of the edge.
    pub configuration: String,
    /// What is to be done before the first request is taken.
    pub orders: Vec<Order>,
}

/// A program with all that it is made of.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Source {
    /// The name of its main text.
    pub path: String,
    /// The main text.
    pub text: String,
    /// What it includes and looks up.
    pub recorded: Recorded,
    /// Storages that there are.
    pub storages: Vec<String>,
    /// Labels that there are.
    pub labels: Vec<String>,
    /// Whether what is not used is an error.
    pub unused_is_error: bool,
}

/// How long backends are waited for where their program says nothing.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Patience {
    /// `connect_timeout`, in seconds.
    pub connect: f64,
    /// `first_byte_timeout`, in seconds.
    pub first_byte: f64,
}

/// What a worker is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Order {
    /// Load a program.
    Load {
        /// Its name.
        name: String,
        /// The program.
        source: Box<Source>,
        /// For its backends.
        patience: Patience,
        /// Whether its backends are checked.
        is_warm: bool,
    },
    /// New requests go to a program or label.
    Use(String),
    /// Give a program a label.
    Label {
        /// The label.
        label: String,
        /// The program.
        name: String,
    },
    /// Unload a program, or remove a label.
    Discard(String),
    /// Check the backends of a program, or stop that.
    Warm {
        /// The program.
        name: String,
        /// Whether they are checked.
        is_warm: bool,
    },
    /// Set a parameter.
    Set {
        /// Its name.
        name: String,
        /// Its value, as it is shown.
        value: String,
    },
    /// Ban objects.
    Ban(Vec<String>),
    /// List the bans.
    Bans,
    /// List the backends.
    Backends,
    /// Set the health of a backend.
    SetHealth {
        /// `program.backend`
        name: String,
        /// What the administrator says.
        health: AdminHealth,
    },
    /// Say how many requests run in each program.
    Programs,
    /// Set the number of the next transaction, or only show it.
    Xid(Option<u64>),
    /// End by a fault (`debug.panic.worker`).
    Panic,
    /// End.
    Stop,
}

impl Order {
    /// The command that it stands for, as the log shows it.
    #[must_use]
    pub fn described(&self) -> String {
        match self {
            Self::Load { name, source, .. } => format!("vcl.load \"{name}\" {}", source.path),
            Self::Use(name) => format!("vcl.use \"{name}\""),
            Self::Label { label, name } => format!("vcl.label \"{label}\" \"{name}\""),
            Self::Discard(name) => format!("vcl.discard \"{name}\""),
            Self::Warm { name, is_warm } => {
                format!("vcl.state \"{name}\" {}", if *is_warm { "1warm" } else { "0cold" })
            }
            Self::Set { name, value } => format!("param.set {name} {value}"),
            Self::Ban(words) => format!("ban {}", words.join(" ")),
            Self::Bans => "ban.list".to_owned(),
            Self::Backends => "backend.list".to_owned(),
            Self::SetHealth { name, health } => format!("backend.set_health {name} {health:?}"),
            Self::Programs => "vcl.list".to_owned(),
            Self::Xid(number) => number.map_or_else(|| "debug.xid".to_owned(), |number| format!("debug.xid {number}")),
            Self::Panic => "debug.panic.worker".to_owned(),
            Self::Stop => "stop".to_owned(),
        }
    }
}

/// How a program fares.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProgramState {
    /// Its name.
    pub name: String,
    /// Requests in it.
    pub busy: u64,
    /// Whether it was discarded, and only finishes these.
    pub is_discarded: bool,
}

/// What a worker says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// It is done; what there is to say.
    Done(String),
    /// It cannot be done.
    Failed(Failure),
    /// The bans.
    Bans(Vec<BanEntry>),
    /// The backends.
    Backends(Vec<BackendEntry>),
    /// The programs.
    Programs(Vec<ProgramState>),
}

/// A message as it goes over the socket.
///
/// # Errors
/// When it is too long.
pub fn encode(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let body = serde_json::to_vec(message)?;
    let length = u32::try_from(body.len()).ok().filter(|length| *length <= MESSAGE_BYTES_MAX);
    let length = length.ok_or_else(|| io::Error::other("a message that is longer than any may be"))?;
    Ok([&length.to_le_bytes()[..], &body].concat())
}

/// The length in a message's first bytes.
///
/// # Errors
/// When no message is as long.
pub fn length(head: [u8; 4]) -> io::Result<usize> {
    let length = u32::from_le_bytes(head);
    if length > MESSAGE_BYTES_MAX {
        return Err(io::Error::other("a message that is longer than any may be"));
    }
    usize::try_from(length).map_err(io::Error::other)
}

/// Sends a message.
///
/// # Errors
/// When nobody is there.
pub fn send(stream: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    stream.write_all(&encode(message)?)
}

/// Waits for a message.
///
/// # Errors
/// When nobody is there, or the bytes are something else.
pub fn receive<M: DeserializeOwned>(stream: &mut impl Read) -> io::Result<M> {
    let mut head = [0; 4];
    stream.read_exact(&mut head)?;
    let mut body = vec![0; length(head)?];
    stream.read_exact(&mut body)?;
    Ok(serde_json::from_slice(&body)?)
}
