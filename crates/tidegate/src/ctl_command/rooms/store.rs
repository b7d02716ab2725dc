//! A store, or Redis, as redis-cli asks it.

use std::{
    fmt::Write as _,
    io::{self, Write as _},
    time::Duration,
};

use resp::Value;
use store::{client::Client, secure::TlsTrouble};

use super::{
    super::{answer::Verdict, error::CtlError, words::Word},
    Room, Usage, value,
};
use crate::{
    access::{AccessArguments, OwnedAccess},
    style::{columns, lasting},
};

/// Where a store listens unless something else is said.
const DEFAULT_ADDRESS: &str = "127.0.0.1:6379";
/// How long to wait for a reply. Commands that wait for others may take that long.
const PATIENCE: Duration = Duration::from_secs(60);
/// Clients that are listed.
const CLIENTS_MAX: usize = 20;
/// Commands whose answers do not end.
const STREAMS: [&str; 7] = ["subscribe", "psubscribe", "ssubscribe", "monitor", "sync", "psync", "hello"];

/// A store at an address.
pub struct Store {
    address: String,
    access: Result<OwnedAccess, TlsTrouble>,
    /// Kept from one command to the next: transactions and SELECT are a connection's.
    client: Option<Client>,
}

impl Store {
    /// The one at HOST:PORT, at a port of this machine, or at the path of a socket.
    pub fn new(address: Option<String>, access: &AccessArguments) -> Self {
        let address = address.unwrap_or_else(|| DEFAULT_ADDRESS.to_owned());
        let address = if address.parse::<u16>().is_ok() { format!("127.0.0.1:{address}") } else { address };
        Self { address, access: access.access(), client: None }
    }

    /// The reply. A connection that has ended is opened again, but the command is not sent twice.
    fn ask(&mut self, words: &[Vec<u8>]) -> Result<Value, CtlError> {
        let place = &self.address;
        let client = match &mut self.client {
            Some(client) => client,
            none => {
                let access = self.access.as_ref().map_err(|problem| CtlError::NoPlace(problem.to_string()))?;
                let opened = Client::connect(place, access.as_ref(), PATIENCE).map_err(|error| {
                    CtlError::Unreachable(format!("the store at {place}: {error}; name it with --store HOST:PORT"))
                })?;
                none.insert(opened)
            }
        };
        let told = client.tell(words);
        if told.is_err() {
            self.client = None;
        }
        told.map_err(|source| CtlError::Connection { place: format!("the store at {}", self.address), source })
    }

    fn text(&mut self, words: &[&str]) -> Result<String, CtlError> {
        let words: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        let value = self.ask(&words)?;
        if let Some(error) = value.as_error() {
            return Err(CtlError::Refused(String::from_utf8_lossy(error).into_owned()));
        }
        match value.as_bytes() {
            Some(text) => Ok(String::from_utf8_lossy(text).into_owned()),
            None => Ok(value::text(&value)),
        }
    }

    /// `INFO`'s fields of these names, with what they are called here.
    fn fields(&mut self, fields: &[(&str, &str)]) -> Result<String, CtlError> {
        let info = self.text(&["INFO", "everything"])?;
        let mut out = String::new();
        for (name, called) in fields {
            let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            if let Some(value) = value {
                let _ = writeln!(out, "  {called:<16}{}", value.trim());
            }
        }
        Ok(out)
    }

    fn clients(&mut self) -> Result<String, CtlError> {
        let list = self.text(&["CLIENT", "LIST"])?;
        let mut rows = vec![["CLIENT", "NAME", "AGE", "IDLE", "DB", "COMMAND"].map(str::to_owned)];
        for line in list.lines().take(CLIENTS_MAX) {
            let field = |name: &str| {
                line.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('=')).unwrap_or("-").to_owned()
            };
            let seconds = |name: &str| field(name).parse().map_or_else(|_| field(name), lasting);
            rows.push([field("addr"), field("name"), seconds("age"), seconds("idle"), field("db"), field("cmd")]);
        }
        let more = list.lines().count().saturating_sub(CLIENTS_MAX);
        let more = if more > 0 { format!("  and {more} more: client list\n") } else { String::new() };
        Ok(format!("{}{more}", columns(&rows)))
    }
}

impl Room for Store {
    fn send(&mut self, command: &str) -> Result<Verdict, CtlError> {
        let (mut bytes, mut ranges) = (Vec::new(), Vec::new());
        resp::split_arguments(command.as_bytes(), &mut bytes, &mut ranges)
            .map_err(|error| CtlError::Refused(format!("{error}: a closing quote has a blank behind it")))?;
        let words: Vec<Vec<u8>> = ranges.into_iter().filter_map(|range| bytes.get(range).map(<[u8]>::to_vec)).collect();
        let Some(first) = words.first() else { return Ok(Verdict::Fine) };
        let name = String::from_utf8_lossy(first).to_lowercase();
        if STREAMS.contains(&name.as_str()) {
            return Err(CtlError::Refused(format!(
                "'{name}' changes what the connection is, so it has no single answer: use `redis-cli`"
            )));
        }
        let reply = self.ask(&words)?;
        if name == "quit" {
            self.client = None;
        }
        let text = value::text(&reply);
        if reply.as_error().is_some() {
            io::stderr().write_all(text.as_bytes()).map_err(CtlError::Output)?;
            return Ok(Verdict::Refused);
        }
        // INFO and its kind are texts of lines, which people want to read.
        let text = match reply.as_bytes() {
            Some(bytes) if bytes.contains(&b'\n') => String::from_utf8_lossy(bytes).replace("\r\n", "\n"),
            _ => text,
        };
        io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush()).map_err(CtlError::Output)?;
        Ok(Verdict::Fine)
    }

    fn tell(&mut self, word: Word) -> Result<String, CtlError> {
        match word {
            Word::Uptime => self.fields(&[
                ("redis_version", "version"),
                ("process_id", "process"),
                ("tcp_port", "port"),
                ("uptime_in_seconds", "up, seconds"),
                ("total_commands_processed", "commands"),
            ]),
            Word::Memory => self.fields(&[
                ("used_memory_human", "used"),
                ("used_memory_peak_human", "most so far"),
                ("used_memory_rss_human", "of the system"),
                ("maxmemory_human", "limit"),
                ("maxmemory_policy", "beyond it"),
                ("mem_fragmentation_ratio", "fragmentation"),
                ("evicted_keys", "keys evicted"),
            ]),
            Word::Connections => {
                let counts = self.fields(&[
                    ("connected_clients", "now"),
                    ("maxclients", "limit"),
                    ("blocked_clients", "waiting"),
                    ("total_connections_received", "so far"),
                    ("rejected_connections", "refused"),
                ])?;
                Ok(format!("{counts}\n{}", self.clients()?))
            }
            Word::Workers => self.fields(&[
                ("process_id", "process"),
                ("io_threads_active", "io threads"),
                ("instantaneous_ops_per_sec", "commands/second"),
                ("used_cpu_user", "CPU, seconds"),
                ("used_cpu_sys", "CPU of system"),
            ]),
            Word::Routes | Word::Servers => self.fields(&[
                ("role", "role"),
                ("master_host", "master"),
                ("master_port", "port"),
                ("master_link_status", "link"),
                ("connected_slaves", "replicas"),
                ("slave0", "replica"),
                ("slave1", "replica"),
                ("slave2", "replica"),
                ("cluster_enabled", "cluster"),
            ]),
            Word::Plugins => Ok("a store has no modules: its commands are built in (`command list`)\n".to_owned()),
        }
    }

    fn usages(&mut self) -> Vec<Usage> {
        let words = ["COMMAND", "LIST"].map(|word| word.as_bytes().to_vec());
        let Ok(Value::Array(names)) = self.ask(&words) else { return Vec::new() };
        let name = |value: &Value| Some(Usage::new(String::from_utf8_lossy(value.as_bytes()?).to_lowercase(), ""));
        let mut usages: Vec<Usage> = names.iter().filter_map(name).collect();
        usages.sort_by(|one, other| one.text.cmp(&other.text));
        usages
    }
}
