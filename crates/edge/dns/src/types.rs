//! What a section is told and tells.

use std::net::IpAddr;

/// How long what was known before counts on after an error, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// `hold nx`.
    pub nx: u64,
    /// `hold other`.
    pub other: u64,
    /// `hold refused`.
    pub refused: u64,
    /// `hold timeout`.
    pub timeout: u64,
    /// `hold valid`: how long `do-resolve` takes an answer that is there.
    pub valid: u64,
    /// `hold obsolete`: how long a record counts that answers no longer have.
    pub obsolete: u64,
}

/// What a section's lines say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Name servers; all of them are asked at once.
    pub nameservers: usize,
    /// `accepted_payload_size`.
    pub payload_size: u16,
    /// `resolve_retries`: how often a question is sent.
    pub retries: u32,
    /// `timeout resolve`, in milliseconds: from one resolution to the next.
    pub resolve_ms: u64,
    /// `timeout retry`, in milliseconds.
    pub retry_ms: u64,
    /// `hold`.
    pub hold: Hold,
}

/// What a name server has been asked and has said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "HAProxy's words, as 'show resolvers' prints them")]
pub struct Counters {
    pub sent: u64,
    pub send_error: u64,
    pub valid: u64,
    pub update: u64,
    pub cname: u64,
    pub cname_error: u64,
    pub any_err: u64,
    pub nx: u64,
    pub timeout: u64,
    pub refused: u64,
    pub other: u64,
    pub invalid: u64,
    pub too_big: u64,
    pub truncated: u64,
    pub outdated: u64,
}

/// A server, as whoever runs the section numbers them.
pub type ServerKey = usize;

/// Someone who waits for one answer.
pub type WaiterKey = u64;

/// Who gave an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Updater {
    /// The name server of this number.
    NameServer(usize),
    /// An answer that was there for another server.
    Cache,
    /// A record that came with a service.
    Additional,
}

/// The servers that a section resolves.
pub trait Servers {
    /// The address that a server has.
    fn address(&self, server: ServerKey) -> Option<IpAddr>;
    /// Gives a server an address, which it may have already.
    fn set_address(&mut self, server: ServerKey, address: IpAddr, by: Updater);
    /// Takes the address away.
    fn clear_address(&mut self, server: ServerKey);
    /// Whether a server is in maintenance for want of an address.
    fn is_unresolved(&self, server: ServerKey) -> bool;
    /// Puts a server into maintenance for want of an address.
    fn set_unresolved(&mut self, server: ServerKey, cause: &str);
    /// Ends that. `by_answer` is whether an answer for the server's own name did it.
    fn set_resolved(&mut self, server: ServerKey, by_answer: bool);
    /// Gives a server the name of a service's host, or takes it away.
    fn set_host(&mut self, server: ServerKey, host: Option<&str>);
    /// The port of a server.
    fn port(&self, server: ServerKey) -> u16;
    /// Gives a server the port of a service, or 0.
    fn set_port(&mut self, server: ServerKey, port: u16);
    /// Gives a server the weight of a service, 0 to 256.
    fn set_weight(&mut self, server: ServerKey, weight: u16);
}

/// A question that is to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// To this name server.
    pub nameserver: usize,
    /// Its id, for `Section::handle_sent`.
    pub id: u16,
    /// The message.
    pub message: Vec<u8>,
}

/// What `Section::ask` has at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A fresh answer; `None` when the name has no address.
    Known(Option<IpAddr>),
    /// `Section::poll_answer` will tell.
    Waits,
}
