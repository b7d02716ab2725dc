//! What hosts of VCL have in common, on both sides.

use std::{
    net::{IpAddr, SocketAddr},
    rc::Rc,
    sync::Arc,
};

use cache::{bans::Expression, index::Digest};
use http::Headers;
use telemetry::vsl::VslTag;
use vcl::{
    program::{HeaderRef, ObjectIndex, StorageIndex},
    run::{Backend, Failure, Value, Workspace},
    subroutine::Subroutine,
    variables::{StorageVariable, Variable},
};

use crate::{
    directors::{
        Choice, Director, ShardParameters, ShardTask,
        shard::{Change, REPLICAS},
        shard_key,
    },
    loaded::{Loaded, Made},
    log::{Log, MessageTags},
};

/// The client's connection, as VCL asks about it.
#[derive(Clone, Debug, Default)]
pub struct Connection {
    /// Where the client is, by the PROXY protocol too (`client.ip`).
    pub client: Option<SocketAddr>,
    /// Where it went to (`server.ip`).
    pub server: Option<SocketAddr>,
    /// The other end of the connection (`remote.ip`).
    pub remote: Option<SocketAddr>,
    /// This end of it (`local.ip`).
    pub local: Option<SocketAddr>,
    /// The name of the listening socket (`local.socket`).
    pub socket: Option<Arc<str>>,
    /// Its address as it was given (`local.endpoint`); that of this end if it is `None`.
    pub endpoint: Option<Arc<str>>,
    /// The number of the session (`sess.xid`).
    pub xid: u64,
    /// The user and the group at the other end of a unix socket.
    pub credentials: Option<(u32, u32)>,
    /// What the PROXY protocol, version 2, said beside addresses.
    pub proxy_tlvs: Option<Arc<[u8]>>,
}

/// Gives numbers of transactions.
pub type Numbers = Rc<dyn Fn() -> u64>;

/// What a host has beside its messages.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) loaded: Arc<Loaded>,
    pub(crate) connection: Connection,
    /// When the task that runs now was woken.
    pub(crate) now: f64,
    pub(crate) cookies: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) ban_error: Option<String>,
    /// Whether the program has banned something, or purged a tag.
    pub(crate) has_banned: bool,
    pub(crate) log: Log,
    /// The first thing that went wrong in VCL.
    pub(crate) first_error: Option<String>,
    /// What runs now.
    pub(crate) subroutine: Subroutine,
    pub(crate) wishes: ConnectionWishes,
    /// What this task has said of shard directors and their parameters.
    pub(crate) shard_task: ShardTask,
    /// Changes of shard directors that wait for their rings to be made anew: at the end of the task at last.
    pub(crate) shard_changes: Vec<(ObjectIndex, Change)>,
}

/// What a program asks of the connection and the request's body, and what is known of that.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnectionWishes {
    /// `std.cache_req_body(size)`: a body of so many bytes at most is kept, so that it can be sent again.
    pub cached_body: Option<u64>,
    /// `std.set_ip_tos(tos)`
    pub tos: Option<u8>,
    /// `sess.timeout_idle`, in seconds.
    pub timeout_idle: Option<f64>,
    /// The length of the request's body, where its head says it.
    pub body_length: Option<u64>,
}

impl Drop for Common {
    fn drop(&mut self) {
        while let Some((director, _)) = self.shard_changes.first() {
            self.reconfigure_shard(*director, REPLICAS);
        }
    }
}

impl Common {
    pub(crate) fn new(loaded: &Arc<Loaded>, connection: Connection, now: f64) -> Self {
        let loaded = Arc::clone(loaded);
        Self {
            loaded,
            connection,
            now,
            cookies: Vec::new(),
            ban_error: None,
            has_banned: false,
            log: Log::default(),
            first_error: None,
            subroutine: Subroutine::Init,
            wishes: ConnectionWishes::default(),
            shard_task: ShardTask::default(),
            shard_changes: Vec::new(),
        }
    }

    /// Makes the ring of a shard director anew, with the changes that wait; whether it has backends.
    pub(crate) fn reconfigure_shard(&mut self, director: ObjectIndex, replicas: i64) -> bool {
        let (own, others) = std::mem::take(&mut self.shard_changes).into_iter().partition(|(of, _)| *of == director);
        self.shard_changes = others;
        let changes: Vec<Change> = Vec::into_iter(own).map(|(_, change)| change).collect();
        let loaded = Arc::clone(&self.loaded);
        let Some(Made::Director(Director::Shard(shard))) = loaded.made(director) else { return false };
        let (notes, has_backends) = shard.reconfigure(&changes, replicas);
        let name = loaded.name_of(Backend::Object(director)).unwrap_or_default();
        for note in notes {
            self.record(VslTag::Notice, format!("vmod_directors: shard {name}: {note}").as_bytes());
        }
        if !has_backends {
            self.record(VslTag::Error, format!("vmod_directors: shard {name}: .reconfigure() no backends").as_bytes());
        }
        has_backends
    }

    /// Notes when something was reached (`std.timestamp()`).
    pub(crate) fn timestamp(&mut self, label: &[u8]) {
        let now = self.now;
        self.log.timestamp(&String::from_utf8_lossy(label), now);
    }

    pub(crate) fn record(&mut self, tag: VslTag, text: &[u8]) {
        if tag == VslTag::VCL_Error && self.first_error.is_none() {
            self.first_error = Some(String::from_utf8_lossy(text).into_owned());
        }
        self.log.record(tag, text);
    }

    /// Notes what an ACL with `+log` has said.
    pub(crate) fn record_acl(&mut self, acl: &str, entry: Option<&str>) {
        match entry {
            Some(entry) => self.log.write(VslTag::VCL_acl, format_args!("MATCH {acl} {entry}")),
            None => self.log.write(VslTag::VCL_acl, format_args!("NO_MATCH {acl}")),
        }
    }

    /// Notes a match that was given up.
    pub(crate) fn record_hard_match(&mut self, pattern: &str) {
        let text = format_args!("a match with {pattern} took too long and counts as none");
        self.log.write(VslTag::VCL_Error, text);
    }

    /// Variables that mean the same on both sides.
    pub(crate) fn variable<'w>(
        &self,
        variable: Variable,
        workspace: &'w Workspace,
    ) -> Result<Option<Value<'w>>, Failure> {
        let settings = &self.loaded.settings;
        Ok(Some(match variable {
            Variable::Now => Value::Time(self.now),
            Variable::ClientIp => address(self.connection.client),
            Variable::ServerIp => address(self.connection.server),
            Variable::RemoteIp => address(self.connection.remote),
            Variable::LocalIp => address(self.connection.local),
            Variable::LocalSocket => text(workspace, self.connection.socket.as_deref().unwrap_or_default().as_bytes())?,
            Variable::LocalEndpoint => match (&self.connection.endpoint, self.connection.local) {
                (Some(endpoint), _) => text(workspace, endpoint.as_bytes())?,
                (None, Some(local)) => text(workspace, local.to_string().as_bytes())?,
                (None, None) => Value::String(Some(&[])),
            },
            Variable::SessXid => text(workspace, self.connection.xid.to_string().as_bytes())?,
            Variable::ServerHostname => text(workspace, settings.hostname.as_bytes())?,
            Variable::ServerIdentity if settings.identity.is_empty() => text(workspace, settings.hostname.as_bytes())?,
            Variable::ServerIdentity => text(workspace, settings.identity.as_bytes())?,
            _ => return Ok(None),
        }))
    }

    pub(crate) fn storage(&self, storage: StorageIndex, variable: StorageVariable) -> Value<'static> {
        let name = self.loaded.program.storages.get(storage.0 as usize);
        let storage = name.and_then(|name| self.loaded.storages.of_name(name));
        let bytes = |bytes: u64| Value::Bytes(i64::try_from(bytes).unwrap_or(i64::MAX));
        match (storage, variable) {
            (Some(storage), StorageVariable::FreeSpace) => bytes(storage.free()),
            (Some(storage), StorageVariable::UsedSpace) => bytes(storage.used()),
            (storage, StorageVariable::Happy) => Value::Bool(storage.is_some()),
            (None, _) => Value::Bytes(0),
        }
    }

    /// The backend that is asked in the end. `digest` is that of a request to a backend.
    pub(crate) fn resolve(&self, backend: Option<Backend>, asked: &DirectorFacts<'_>) -> Option<Backend> {
        let loaded = &self.loaded;
        loaded.resolve(backend?, |director, object| {
            let mut shard = ShardParameters::default();
            if let (Some(object), Director::Shard(_)) = (object, director) {
                let wishes = self.shard_task.of_director(object, director.associated(), |set| loaded.shard_set(set));
                shard = wishes.complete();
                shard.key = shard_key(shard.by, shard.key, asked.url, asked.digest);
            }
            Choice { key: asked.key, random: loaded.draw(self.now), now: self.now, shard }
        })
    }

    /// Bans what a text says; what is wrong with it is kept for `std.ban_error()`.
    pub(crate) fn ban(&mut self, expression: &[u8]) -> bool {
        let parsed = Expression::parse(&String::from_utf8_lossy(expression));
        match parsed {
            Ok(expression) => {
                self.loaded.cache.bans().add(expression, self.now);
                self.has_banned = true;
                self.ban_error = None;
                true
            }
            Err(why) => {
                self.record(VslTag::VCL_Error, format!("ban(): {why}").as_bytes());
                self.ban_error = Some(why.to_string());
                false
            }
        }
    }
}

/// What a director may go by.
pub(crate) struct DirectorFacts<'a> {
    /// What decides for a director of VCL 3 that goes by a key.
    pub(crate) key: &'a [u8],
    /// The URL.
    pub(crate) url: &'a [u8],
    /// The key of the cache, for a request to a backend.
    pub(crate) digest: Option<Digest>,
}

/// A text of the host's as a value.
pub(crate) fn text<'w>(workspace: &'w Workspace, bytes: &[u8]) -> Result<Value<'w>, Failure> {
    Ok(Value::String(Some(workspace.keep(bytes)?)))
}

fn address(address: Option<SocketAddr>) -> Value<'static> {
    // NOTE: a client of a unix socket is at 0.0.0.0, as in Varnish.
    let unknown = (IpAddr::from([0, 0, 0, 0]), 0);
    Value::Ip(Some(address.map_or(unknown, |address| (address.ip(), address.port()))))
}

/// Seconds of a value.
pub(crate) fn seconds(value: Value<'_>) -> f64 {
    value.number().unwrap_or(0.0)
}

/// Bytes that would end a field, and with it begin another one.
fn is_field_value(value: &[u8]) -> bool {
    !value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0))
}

/// Gives a field a value, or says why it cannot have it.
pub(crate) fn set_field(
    headers: &mut Headers,
    header: &HeaderRef,
    value: &[u8],
    (log, tags): (&mut Log, MessageTags),
) -> Result<(), Failure> {
    if !is_field_value(value) {
        return Err(Failure::Host(format!("Bad header {}: its value has a line break", header.name.text)));
    }
    let name = header.name.text.as_bytes();
    record_unset(headers, header.name.lower.as_bytes(), (log, tags));
    log.field(tags.header, name, value);
    headers.set_named(header.name.id, name, &[value]);
    Ok(())
}

/// Whether a variable stands in the first line of a message, where nothing may be empty.
pub(crate) fn is_first_line(variable: Variable) -> bool {
    matches!(
        variable,
        Variable::ReqMethod
            | Variable::ReqUrl
            | Variable::BereqMethod
            | Variable::BereqUrl
            | Variable::RespReason
            | Variable::BerespReason
    )
}

/// Removes a field.
pub(crate) fn unset_field(headers: &mut Headers, header: &HeaderRef, (log, tags): (&mut Log, MessageTags)) {
    let name = header.name.lower.as_bytes();
    record_unset(headers, name, (log, tags));
    headers.remove_named(header.name.id, name);
}

/// Notes the fields of a name, which are about to go.
pub(crate) fn record_unset(headers: &Headers, name: &[u8], (log, tags): (&mut Log, MessageTags)) {
    if log.is_on() {
        for (name, value) in headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name)) {
            log.field(tags.unset, name, value);
        }
    }
}

/// A status that a message can have.
pub(crate) fn status_of(value: Value<'_>) -> Result<u16, Failure> {
    let Value::Int(status) = value else { return Err(Failure::NoAnswer) };
    // NOTE: what is above 999 goes to VCL alone: the last three digits are sent, as in Varnish.
    u16::try_from(status % 1000)
        .ok()
        .filter(|status| *status >= 100)
        .ok_or_else(|| Failure::Host(format!("illegal status ({status}): it is from 100 to 999")))
}

/// The bytes of a text or blob.
pub(crate) fn bytes_of(value: Value<'_>) -> &[u8] {
    match value {
        Value::String(bytes) | Value::Blob(bytes) => bytes.unwrap_or_default(),
        _ => &[],
    }
}
