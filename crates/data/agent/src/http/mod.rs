//! Requests to the agent: HTTP with JSON, one request a connection. Whoever may open the folder's socket may ask everything: it is the
//! owner's. By TCP it is looked at who asks (`guard`), and the page is served too.

mod client;
mod guard;
mod look;
mod message;
mod serve;
mod token;

use cluster::Address;
use serde_json::Value;

use crate::{
    backups::{Content, Task},
    connection::Command,
    survey::{Measured, Survey},
};

pub use client::{Fetched, ask, ask_at, ask_leader, fetch_at, passed_on, token_in};
pub use serve::{Desk, listen, listen_tcp};
pub use token::Token;

/// Something that is asked.
#[derive(Clone, Debug)]
pub struct Request {
    /// GET or POST.
    pub method: String,
    /// What, without the query.
    pub path: String,
    /// What stands behind the question mark.
    pub query: String,
    /// With what; null if nothing.
    pub body: Value,
    /// What servers have said of their slots, for a request that needs to know it.
    pub measured: Option<Measured>,
    /// Another agent has passed it on: it is not passed on again.
    pub is_passed_on: bool,
}

/// What is said to it.
#[derive(Debug)]
pub enum Response {
    /// This.
    Said {
        /// HTTP's number.
        status: u16,
        /// What.
        body: Value,
    },
    /// What a server says to this.
    Ask(Question),
    /// The request is to come again, with what servers say of their slots.
    Measure(Survey),
    /// The same is asked again, with what this server says of itself (`found`).
    Look(Address),
    /// What comes of this.
    Backup(Task),
    /// These bytes.
    Content(Content),
    /// What the agent that leads says to it.
    PassOn {
        /// Where its REST is.
        api: String,
        /// The request.
        request: Request,
    },
}

/// A question to a server, which whoever serves the request asks.
#[derive(Debug)]
pub struct Question {
    /// Who.
    pub server: Address,
    /// What.
    pub command: Command,
    /// What is made of the answer.
    pub shape: fn(&Self, &resp::Value) -> Value,
}

impl Response {
    /// It is so.
    #[must_use]
    pub fn good(body: Value) -> Self {
        Self::Said { status: 200, body }
    }

    /// It is not done, and why.
    #[must_use]
    pub fn refused(status: u16, problem: impl ToString) -> Self {
        Self::Said { status, body: serde_json::json!({ "error": problem.to_string() }) }
    }
}
