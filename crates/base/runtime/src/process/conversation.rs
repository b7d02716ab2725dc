//! What people say on a master's control socket, and what is to be done about it.
//!
//! This crate carries bytes between people, the master and its workers; what they mean is the role's business
//! ([`super::Role::conversation`]).

use super::role::MasterStatus;

/// One conversation, without any input or output of its own.
///
/// Contract: bytes that come are given to [`Conversation::feed`]; then [`Conversation::next`] is called and done until it
/// says [`Step::Wait`], which means that more bytes are needed, or [`Step::End`].
pub trait Conversation {
    /// Takes bytes.
    fn feed(&mut self, bytes: &[u8]);

    /// What is to be done next.
    fn next(&mut self, status: &MasterStatus) -> Step;
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing until more bytes have come.
    Wait,
    /// This is said.
    Say(String),
    /// A worker is asked, its whole answer passed on, and then this said.
    Relay {
        /// The worker's process number.
        pid: u32,
        /// What it is asked.
        text: String,
        /// What is said after its answer.
        then: String,
    },
    /// The master is given an order, which it answers itself; the conversation ends with the answer.
    Order(Order),
    /// This is said, and then it is over.
    End(String),
}

/// What a master can be told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// To read the configuration again.
    Reload,
    /// To go on as the program that is on disk.
    Upgrade,
    /// To end when all connections have.
    Drain,
    /// To end now.
    Stop,
}

/// The conversation of a role that says nothing else: one line, one answer.
#[derive(Debug, Default)]
pub struct Plain {
    line: Vec<u8>,
}

/// The longest line of a [`Plain`] conversation.
const LINE_MAX: usize = 4096;

const HELP: &str = "\
The following commands are valid at this level:
  drain     : end when all connections have
  reload    : read the configuration again
  show proc : show the processes
  status    : the same for programs, as JSON
  stop      : end now
  upgrade   : replace the program by the one on disk
";

impl Order {
    /// The order that a word gives.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        Some(match word {
            "reload" => Self::Reload,
            "upgrade" => Self::Upgrade,
            "drain" => Self::Drain,
            "stop" => Self::Stop,
            _ => return None,
        })
    }
}

impl Conversation for Plain {
    fn feed(&mut self, bytes: &[u8]) {
        self.line.extend_from_slice(bytes);
    }

    fn next(&mut self, status: &MasterStatus) -> Step {
        let Some(end) = self.line.iter().position(|byte| *byte == b'\n') else {
            return if self.line.len() > LINE_MAX { Step::End(String::new()) } else { Step::Wait };
        };
        let line = String::from_utf8_lossy(self.line.get(..end).unwrap_or_default());
        match line.trim() {
            "status" => Step::End(status.to_json()),
            "show proc" => Step::End(status.table("-")),
            other => Order::named(other).map_or_else(|| Step::End(HELP.to_owned()), Step::Order),
        }
    }
}
