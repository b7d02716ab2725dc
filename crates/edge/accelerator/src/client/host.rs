//! What VCL sees and changes on the client's side.

use std::sync::Arc;

use cache::{index::Digest, object::Object};
use http::{Headers, RequestHead, ResponseHead};
use sha2::{Digest as _, Sha256};
use telemetry::vsl::VslTag;
use vcl::{
    modules::{Function, Method},
    pattern::TooHard,
    program::{HeaderRef, ObjectIndex, StorageIndex},
    run::{Backend, Failure, Host, Value, Workspace},
    variables::{Message, StorageVariable, Variable},
};

use crate::{
    common::{Common, DirectorFacts, bytes_of, is_first_line, seconds, set_field, status_of, text, unset_field},
    fields,
    log::{BEREQ, Log, MessageTags, REQ, RESP},
    modules::{self, Exchange},
};

/// A request, and all that VCL may ask about it.
pub(crate) struct ClientHost {
    pub(crate) common: Common,
    pub(crate) xid: u64,
    /// When the request came.
    pub(crate) started: f64,
    pub(crate) request: RequestHead,
    /// Fields that the client has named for its connection, unless the program has set them since: they go no further.
    pub(crate) named: Vec<Vec<u8>>,
    /// The request as it came, for a program that may want it back.
    pub(crate) original: Option<Box<RequestHead>>,
    /// What a pipe sends to the backend.
    pub(crate) backend_request: RequestHead,
    pub(crate) response: ResponseHead,
    pub(crate) body: Vec<u8>,
    pub(crate) object: Option<Arc<Object>>,
    pub(crate) hint: Option<Backend>,
    pub(crate) hasher: Sha256,
    pub(crate) digest: Option<Digest>,
    pub(crate) lookup: LookupWishes,
    pub(crate) restarts: u32,
    pub(crate) is_hitmiss: bool,
    pub(crate) is_hitpass: bool,
    pub(crate) identity: Option<Vec<u8>>,
    pub(crate) storage: Option<StorageIndex>,
    pub(crate) purged: Option<usize>,
    /// The request as the client sent it, for other programs and for what its page includes.
    pub(crate) received: Option<RequestHead>,
    /// How many pages it is included in.
    pub(crate) esi_level: u32,
    /// What the program wants done to the body (`resp.filters`), if it has said so by name.
    pub(crate) named_filters: Option<Vec<u8>>,
    /// Whether includes of its page are left as they are (`req.esi`, `resp.do_esi`).
    pub(crate) leaves_includes: bool,
    /// The request of the page that this is included in, through all levels.
    pub(crate) top: Option<Arc<Top>>,
}

/// The request that a client has made, for those of what its page includes (`req_top`).
#[derive(Debug)]
pub(crate) struct Top {
    pub(crate) request: RequestHead,
    pub(crate) started: f64,
}

/// What a request wants of the cache.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LookupWishes {
    pub(crate) ttl: Option<f64>,
    pub(crate) grace: Option<f64>,
    pub(crate) always_misses: bool,
    pub(crate) ignores_busy: bool,
    pub(crate) ignores_vary: bool,
}

impl ClientHost {
    fn headers(&self, message: Message) -> Option<&Headers> {
        match message {
            Message::Req => Some(&self.request.headers),
            Message::ReqTop => Some(&self.top().headers),
            Message::Bereq => Some(&self.backend_request.headers),
            // An object's are not there as such.
            Message::Obj | Message::Beresp => None,
            Message::Resp => Some(&self.response.headers),
        }
    }

    fn headers_mut(&mut self, message: Message) -> Option<&mut Headers> {
        self.headers_and_log(message).map(|(headers, _)| headers)
    }

    /// The fields of a message that may be changed, and where that is noted.
    fn headers_and_log(&mut self, message: Message) -> Option<(&mut Headers, (&mut Log, MessageTags))> {
        let log = &mut self.common.log;
        match message {
            Message::Req => Some((&mut self.request.headers, (log, REQ))),
            Message::Bereq => Some((&mut self.backend_request.headers, (log, BEREQ))),
            Message::Resp => Some((&mut self.response.headers, (log, RESP))),
            Message::ReqTop | Message::Obj | Message::Beresp => None,
        }
    }

    fn storage_index(&self, name: &str) -> Option<StorageIndex> {
        let place = self.common.loaded.program.storages.iter().position(|known| known == name)?;
        u32::try_from(place).ok().map(StorageIndex)
    }

    fn top(&self) -> &RequestHead {
        self.top.as_ref().map_or(&self.request, |top| &top.request)
    }

    /// A key that is the same for the same client (`client.identity`).
    fn client_key(&self) -> Vec<u8> {
        match (&self.identity, self.common.connection.client) {
            (Some(identity), _) => identity.clone(),
            (None, Some(client)) => client.ip().to_string().into_bytes(),
            (None, None) => b"0.0.0.0".to_vec(),
        }
    }

    /// How long the connection may be silent, in one of its ways.
    fn session_timeout(&self, variable: Variable) -> f64 {
        let [idle, linger, send, idle_send] = self.common.loaded.settings.session_timeouts;
        match variable {
            Variable::SessTimeoutIdle => self.common.wishes.timeout_idle.unwrap_or(idle),
            Variable::SessTimeoutLinger => linger,
            Variable::SessSendTimeout => send,
            _ => idle_send,
        }
    }

    fn request_variable<'w>(&self, variable: Variable, workspace: &'w Workspace) -> Result<Option<Value<'w>>, Failure> {
        let request = &self.request;
        Ok(Some(match variable {
            Variable::ReqMethod => text(workspace, request.method())?,
            Variable::ReqUrl => text(workspace, request.target())?,
            Variable::ReqProto | Variable::ReqProtoOld => text(workspace, request.version_bytes())?,
            Variable::ReqTopMethod => text(workspace, self.top().method())?,
            Variable::ReqTopUrl => text(workspace, self.top().target())?,
            Variable::ReqTopProto => text(workspace, self.top().version_bytes())?,
            Variable::ReqTopTime => Value::Time(self.top.as_ref().map_or(self.started, |top| top.started)),
            Variable::ReqXid => text(workspace, self.xid.to_string().as_bytes())?,
            Variable::ReqRestarts => Value::Int(i64::from(self.restarts)),
            Variable::ReqEsiLevel => Value::Int(i64::from(self.esi_level)),
            Variable::ReqEsi => Value::Bool(!self.leaves_includes),
            Variable::ReqTime => Value::Time(self.started),
            Variable::ReqTransport => text(workspace, b"HTTP/1")?,
            Variable::ReqBackendHint => Value::Backend(self.hint),
            Variable::ReqCanGzip => Value::Bool(fields::accepts_gzip(&request.headers)),
            Variable::ReqTtl => Value::Duration(self.lookup.ttl.unwrap_or(-1.0)),
            Variable::ReqGrace => Value::Duration(self.lookup.grace.unwrap_or(-1.0)),
            Variable::ReqHashAlwaysMiss => Value::Bool(self.lookup.always_misses),
            Variable::ReqHashIgnoreBusy => Value::Bool(self.lookup.ignores_busy),
            Variable::ReqHashIgnoreVary => Value::Bool(self.lookup.ignores_vary),
            Variable::ReqHash => match self.digest {
                Some(digest) => Value::Blob(Some(workspace.keep(&digest.0)?)),
                None => Value::Blob(None),
            },
            Variable::ReqIsHitmiss => Value::Bool(self.is_hitmiss),
            Variable::ReqIsHitpass => Value::Bool(self.is_hitpass),
            Variable::ReqStorage => Value::Storage(self.storage),
            Variable::ClientIdentity => text(workspace, &self.client_key())?,
            Variable::Req | Variable::Resp => Value::Void,
            _ => return Ok(None),
        }))
    }

    fn object_variable<'w>(&self, variable: Variable, workspace: &'w Workspace) -> Result<Option<Value<'w>>, Failure> {
        let Some(object) = &self.object else {
            return Ok(match variable {
                Variable::ObjHits => Some(Value::Int(0)),
                Variable::ObjUncacheable => Some(Value::Bool(true)),
                Variable::ObjCanEsi => Some(Value::Bool(false)),
                // What is passed is for one client.
                Variable::ObjStorage => Some(Value::Storage(self.storage_index("Transient"))),
                Variable::ObjTime => Some(Value::Time(0.0)),
                Variable::ObjAge | Variable::ObjTtl | Variable::ObjGrace | Variable::ObjKeep => {
                    Some(Value::Duration(0.0))
                }
                _ => None,
            });
        };
        let (head, lifetime, now) = (object.head(), object.lifetime(), self.common.now);
        Ok(Some(match variable {
            Variable::ObjHits => Value::Int(i64::try_from(object.hits()).unwrap_or(i64::MAX)),
            Variable::ObjStatus => Value::Int(i64::from(head.status())),
            Variable::ObjReason => text(workspace, head.reason())?,
            Variable::ObjProto => text(workspace, head.version_bytes())?,
            Variable::ObjAge => Value::Duration(object.age(now)),
            Variable::ObjTime => Value::Time(lifetime.origin),
            Variable::ObjTtl => Value::Duration(lifetime.fresh_until() - now),
            Variable::ObjGrace => Value::Duration(lifetime.grace),
            Variable::ObjKeep => Value::Duration(lifetime.keep),
            Variable::ObjUncacheable => {
                Value::Bool(object.variant().is_none() || object.kind() != cache::object::Kind::Ordinary)
            }
            Variable::ObjCanEsi => Value::Bool(object.page().is_some()),
            Variable::ObjStorage => Value::Storage(self.storage_index(object.storage().name())),
            _ => return Ok(None),
        }))
    }

    fn response_variable<'w>(&self, variable: Variable, workspace: &'w Workspace) -> Result<Value<'w>, Failure> {
        Ok(match variable {
            Variable::RespStatus => Value::Int(i64::from(self.response.status())),
            Variable::RespReason => text(workspace, self.response.reason())?,
            Variable::RespProto | Variable::RespProtoOld => text(workspace, self.response.version_bytes())?,
            Variable::RespTime => Value::Time(self.common.now),
            Variable::RespIsStreaming => {
                Value::Bool(self.object.as_ref().is_some_and(|object| object.body().length().is_none()))
            }
            Variable::RespDoEsi => Value::Bool(!self.leaves_includes),
            Variable::RespFilters => text(workspace, &self.filters())?,
            Variable::BereqMethod => text(workspace, self.backend_request.method())?,
            Variable::BereqUrl => text(workspace, self.backend_request.target())?,
            Variable::BereqProto | Variable::BereqProtoOld => text(workspace, self.backend_request.version_bytes())?,
            Variable::BereqBackend => Value::Backend(self.hint),
            Variable::BereqXid => text(workspace, self.xid.to_string().as_bytes())?,
            Variable::BereqTime => Value::Time(self.common.now),
            Variable::BereqHash => match self.digest {
                Some(digest) => Value::Blob(Some(workspace.keep(&digest.0)?)),
                None => Value::Blob(None),
            },
            Variable::SessTimeoutIdle
            | Variable::SessTimeoutLinger
            | Variable::SessSendTimeout
            | Variable::SessIdleSendTimeout => Value::Duration(self.session_timeout(variable)),
            Variable::BereqConnectTimeout => Value::Duration(0.0),
            other => return Err(Failure::Host(format!("{} is not there yet", other.name()))),
        })
    }
}

impl Host for ClientHost {
    fn header(&self, header: &HeaderRef) -> Option<&[u8]> {
        let (id, name) = (header.name.id, header.name.lower.as_bytes());
        match header.message {
            Message::Obj | Message::Beresp => self.object.as_ref()?.head().value_named(id, name),
            message => self.headers(message)?.value_named(id, name),
        }
    }

    fn set_header(&mut self, header: &HeaderRef, value: &[u8]) -> Result<(), Failure> {
        if header.message == Message::Req && !self.named.is_empty() {
            self.named.retain(|name| name != header.name.lower.as_bytes());
        }
        match self.headers_and_log(header.message) {
            Some((headers, log)) => set_field(headers, header, value, log),
            None => Ok(()),
        }
    }

    fn borrowed(&self, variable: Variable) -> Option<&[u8]> {
        match variable {
            Variable::ReqMethod => Some(self.request.method()),
            Variable::ReqUrl => Some(self.request.target()),
            Variable::ReqProto => Some(self.request.version_bytes()),
            _ => None,
        }
    }

    fn unset_header(&mut self, header: &HeaderRef) {
        if let Some((headers, log)) = self.headers_and_log(header.message) {
            unset_field(headers, header, log);
        }
    }

    fn variable<'w>(&self, variable: Variable, workspace: &'w Workspace) -> Result<Value<'w>, Failure> {
        if let Some(value) = self.request_variable(variable, workspace)? {
            return Ok(value);
        }
        if let Some(value) = self.object_variable(variable, workspace)? {
            return Ok(value);
        }
        match self.common.variable(variable, workspace)? {
            Some(value) => Ok(value),
            None => self.response_variable(variable, workspace),
        }
    }

    fn set_variable(&mut self, variable: Variable, value: Value<'_>) -> Result<(), Failure> {
        let written = value.text().unwrap_or_default();
        if written.is_empty() && is_first_line(variable) {
            return Err(Failure::Host(format!("Setting {} to empty string", variable.name())));
        }
        match variable {
            Variable::ReqMethod => {
                self.common.record(VslTag::ReqMethod, written);
                self.request.set_method(written);
            }
            Variable::ReqUrl => {
                self.common.record(VslTag::ReqURL, written);
                self.request.set_target(written);
            }
            Variable::BereqMethod => self.backend_request.set_method(written),
            Variable::BereqUrl => self.backend_request.set_target(written),
            Variable::ReqBackendHint | Variable::BereqBackend => {
                self.hint = match value {
                    Value::Backend(backend) => backend,
                    _ => None,
                }
            }
            Variable::ReqTtl => self.lookup.ttl = Some(seconds(value)).filter(|ttl| *ttl >= 0.0),
            Variable::ReqGrace => self.lookup.grace = Some(seconds(value)).filter(|grace| *grace >= 0.0),
            Variable::ReqHashAlwaysMiss => self.lookup.always_misses = value.is_true(),
            Variable::ReqHashIgnoreBusy => self.lookup.ignores_busy = value.is_true(),
            Variable::ReqHashIgnoreVary => self.lookup.ignores_vary = value.is_true(),
            Variable::ReqStorage => {
                if let Value::Storage(storage) = value {
                    self.storage = storage;
                }
            }
            Variable::ClientIdentity => self.identity = Some(written.to_vec()),
            Variable::RespStatus => {
                let status = status_of(value)?;
                self.response.set_status(status);
                self.common.log.status(RESP, status);
                self.common.record(VslTag::RespReason, self.response.reason());
            }
            Variable::RespReason => {
                self.common.record(VslTag::RespReason, written);
                self.response.set_reason(written);
            }
            Variable::RespBody => {
                self.body.clear();
                self.body.extend_from_slice(bytes_of(value));
            }
            Variable::RespFilters => self.named_filters = Some(written.to_vec()),
            // NOTE: who is included cannot turn off what its page does, as in Varnish.
            Variable::ReqEsi if self.esi_level > 0 => {}
            Variable::RespDoEsi if self.named_filters.is_some() => {
                return Err(Failure::Host("resp.filters are already fixed".to_owned()));
            }
            Variable::ReqEsi | Variable::RespDoEsi => self.leaves_includes = !value.is_true(),
            Variable::SessTimeoutIdle => self.common.wishes.timeout_idle = Some(seconds(value).max(0.0)),
            // These are the listener's; a program that sets them to what it likes changes nothing else.
            _ if variable.limit().is_some() => {
                self.common.log.write(VslTag::Notice, format_args!("{} has no effect yet", variable.name()));
            }
            other => return Err(Failure::Host(format!("{} cannot be set yet", other.name()))),
        }
        Ok(())
    }

    fn append_body(&mut self, _: Variable, value: Value<'_>) -> Result<(), Failure> {
        self.body.extend_from_slice(bytes_of(value));
        Ok(())
    }

    fn unset_variable(&mut self, _: Variable) {}

    fn storage(&self, storage: StorageIndex, variable: StorageVariable) -> Value<'static> {
        self.common.storage(storage, variable)
    }

    fn backend_name(&self, backend: Backend) -> Option<&str> {
        self.common.loaded.name_of(backend)
    }

    fn resolve(&mut self, backend: Option<Backend>) -> Option<Backend> {
        let key = self.client_key();
        self.common.resolve(backend, &DirectorFacts { key: &key, url: self.request.target(), digest: None })
    }

    fn hash_data(&mut self, data: &[u8]) {
        self.common.record(VslTag::Hash, data);
        self.hasher.update(data);
    }

    fn end_hash_data(&mut self) {
        self.hasher.update(b"\0");
    }

    fn ban(&mut self, expression: &[u8]) -> Result<(), Failure> {
        self.common.ban(expression);
        Ok(())
    }

    fn log_acl(&mut self, acl: &str, entry: Option<&str>) {
        self.common.record_acl(acl, entry);
    }

    fn log_hard_match(&mut self, pattern: &str, _: TooHard) {
        self.common.record_hard_match(pattern);
    }

    fn call<'w>(
        &mut self,
        function: &'static Function,
        arguments: &[Option<Value<'w>>],
        workspace: &'w Workspace,
    ) -> Result<Value<'w>, Failure> {
        modules::call(self, function, arguments, workspace)
    }

    fn method<'w>(
        &mut self,
        object: ObjectIndex,
        method: &'static Method,
        arguments: &[Option<Value<'w>>],
        workspace: &'w Workspace,
    ) -> Result<Value<'w>, Failure> {
        modules::method(self, object, method, arguments, workspace)
    }

    fn make(&mut self, _: ObjectIndex, _: &[Option<Value<'_>>]) -> Result<(), Failure> {
        Err(Failure::NoAnswer)
    }
}

impl Exchange for ClientHost {
    fn values(&self, message: Message, name: &[u8]) -> Option<Vec<Vec<u8>>> {
        match message {
            Message::Obj | Message::Beresp => {
                Some(self.object.as_ref()?.head().all(name).map(<[u8]>::to_vec).collect())
            }
            message => Some(self.headers(message)?.all(name).map(<[u8]>::to_vec).collect()),
        }
    }

    fn common(&self) -> &Common {
        &self.common
    }

    fn common_mut(&mut self) -> &mut Common {
        &mut self.common
    }

    fn headers(&self, message: Message) -> Option<&Headers> {
        Self::headers(self, message)
    }

    fn headers_mut(&mut self, message: Message) -> Option<&mut Headers> {
        Self::headers_mut(self, message)
    }

    fn roll_back(&mut self, _: Message) -> Result<(), Failure> {
        match &self.original {
            Some(original) => {
                self.request.clone_from(original);
                self.named = fields::named_by_connection(&self.request.headers);
            }
            None => return Err(Failure::NoAnswer),
        }
        Ok(())
    }

    fn digest(&self) -> Option<Digest> {
        self.digest
    }

    fn url(&self) -> &[u8] {
        self.request.target()
    }
}
