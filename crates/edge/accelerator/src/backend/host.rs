//! What VCL sees and changes on the backend's side.

use std::{net::IpAddr, sync::Arc};

use cache::{index::Digest, object::Object};
use http::{Headers, RequestHead, ResponseHead};
use telemetry::vsl::VslTag;
use vcl::{
    modules::{Function, Method},
    pattern::TooHard,
    program::{Endpoint, HeaderRef, ObjectIndex, StorageIndex},
    run::{Backend, Failure, Host, Value, Workspace},
    variables::{Message, StorageVariable, Variable},
};

use crate::{
    common::{Common, DirectorFacts, bytes_of, is_first_line, seconds, set_field, status_of, text, unset_field},
    log::{BEREQ, BERESP, Log, MessageTags},
    modules::{self, Exchange},
};

/// What VCL decides about a response.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Decisions {
    pub(crate) ttl: f64,
    pub(crate) grace: f64,
    pub(crate) keep: f64,
    pub(crate) age: f64,
    pub(crate) is_uncacheable: bool,
    pub(crate) streams: bool,
    pub(crate) gzips: bool,
    pub(crate) gunzips: bool,
    pub(crate) has_includes: bool,
    pub(crate) storage: Option<StorageIndex>,
    /// The place of the storage whose turn it is.
    pub(crate) turn: usize,
}

/// How long the backend may take; seconds, 0 for what is the rule.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timeouts {
    /// To connect.
    pub connect: f64,
    /// Until the first byte of the response.
    pub first_byte: f64,
    /// Between two bytes of it.
    pub between_bytes: f64,
}

/// A fetch, and all that VCL may ask about it.
pub(crate) struct BackendHost {
    pub(crate) common: Common,
    pub(crate) xid: u64,
    pub(crate) started: f64,
    pub(crate) received: f64,
    pub(crate) request: RequestHead,
    /// The request as it was made, for a program that may want it back.
    pub(crate) original: Option<Box<RequestHead>>,
    pub(crate) response: ResponseHead,
    pub(crate) body: Vec<u8>,
    pub(crate) drops_body: bool,
    pub(crate) hint: Option<Backend>,
    /// Who the client is, if its program has said so.
    pub(crate) identity: Option<Vec<u8>>,
    pub(crate) asked: Option<Backend>,
    pub(crate) digest: Option<Digest>,
    /// What the program wants done to the body (`beresp.filters`), if it has said so by name.
    pub(crate) named_filters: Option<Vec<u8>>,
    pub(crate) decisions: Decisions,
    pub(crate) timeouts: Timeouts,
    pub(crate) retries: u32,
    pub(crate) stale: Option<Arc<Object>>,
    pub(crate) was_304: bool,
    pub(crate) is_background: bool,
    pub(crate) is_hitmiss: bool,
    pub(crate) is_hitpass: bool,
    pub(crate) is_pass: bool,
}

impl BackendHost {
    /// The backend that is asked in the end.
    pub(crate) fn resolved(&self, backend: Option<Backend>) -> Option<Backend> {
        let key = self.digest.as_ref().map_or(&[][..], |digest| &digest.0);
        self.common.resolve(backend, &DirectorFacts { key, url: self.request.target(), digest: self.digest })
    }

    fn headers(&self, message: Message) -> Option<&Headers> {
        match message {
            Message::Bereq => Some(&self.request.headers),
            Message::Beresp => Some(&self.response.headers),
            _ => None,
        }
    }

    fn headers_mut(&mut self, message: Message) -> Option<&mut Headers> {
        self.headers_and_log(message).map(|(headers, _)| headers)
    }

    /// The fields of a message, and where their changes are noted.
    fn headers_and_log(&mut self, message: Message) -> Option<(&mut Headers, (&mut Log, MessageTags))> {
        let log = &mut self.common.log;
        match message {
            Message::Bereq => Some((&mut self.request.headers, (log, BEREQ))),
            Message::Beresp => Some((&mut self.response.headers, (log, BERESP))),
            _ => None,
        }
    }

    /// Notes how long the response lives by now.
    fn record_ttl(&mut self) {
        let decisions = &self.decisions;
        let cacheable = if decisions.is_uncacheable || self.is_pass { "uncacheable" } else { "cacheable" };
        let origin = self.received - decisions.age;
        self.common.log.write(
            VslTag::TTL,
            format_args!(
                "VCL {:.0} {:.0} {:.0} {origin:.0} {cacheable}",
                decisions.ttl, decisions.grace, decisions.keep
            ),
        );
    }

    fn request_variable<'w>(&self, variable: Variable, workspace: &'w Workspace) -> Result<Option<Value<'w>>, Failure> {
        let request = &self.request;
        Ok(Some(match variable {
            Variable::BereqMethod => text(workspace, request.method())?,
            Variable::BereqUrl => text(workspace, request.target())?,
            Variable::BereqProto | Variable::BereqProtoOld => text(workspace, request.version_bytes())?,
            Variable::BereqXid => text(workspace, self.xid.to_string().as_bytes())?,
            Variable::BereqRetries => Value::Int(i64::from(self.retries)),
            Variable::BereqTime => Value::Time(self.started),
            Variable::BereqBackend => Value::Backend(self.hint),
            Variable::BereqUncacheable => Value::Bool(self.is_pass),
            Variable::BereqIsBgfetch => Value::Bool(self.is_background),
            Variable::BereqIsHitmiss => Value::Bool(self.is_hitmiss),
            Variable::BereqIsHitpass => Value::Bool(self.is_hitpass),
            Variable::BereqConnectTimeout => Value::Duration(self.timeouts.connect),
            Variable::BereqFirstByteTimeout => Value::Duration(self.timeouts.first_byte),
            Variable::BereqBetweenBytesTimeout => Value::Duration(self.timeouts.between_bytes),
            Variable::BereqHash => match self.digest {
                Some(digest) => Value::Blob(Some(workspace.keep(&digest.0)?)),
                None => Value::Blob(None),
            },
            Variable::Bereq | Variable::Beresp => Value::Void,
            _ => return Ok(None),
        }))
    }

    fn response_variable<'w>(&self, variable: Variable, workspace: &'w Workspace) -> Result<Value<'w>, Failure> {
        let decisions = &self.decisions;
        Ok(match variable {
            Variable::BerespStatus => Value::Int(i64::from(self.response.status())),
            Variable::BerespReason => text(workspace, self.response.reason())?,
            Variable::BerespProto | Variable::BerespProtoOld => text(workspace, self.response.version_bytes())?,
            Variable::BerespTtl => Value::Duration(decisions.ttl.max(0.0) - decisions.age),
            Variable::BerespGrace => Value::Duration(decisions.grace),
            Variable::BerespKeep => Value::Duration(decisions.keep),
            Variable::BerespAge => Value::Duration(decisions.age),
            Variable::BerespTime => Value::Time(self.received),
            Variable::BerespUncacheable => Value::Bool(decisions.is_uncacheable || self.is_pass),
            Variable::BerespDoStream => Value::Bool(decisions.streams),
            Variable::BerespDoGzip => Value::Bool(decisions.gzips),
            Variable::BerespDoGunzip => Value::Bool(decisions.gunzips),
            Variable::BerespDoEsi => Value::Bool(decisions.has_includes),
            Variable::BerespWas304 => Value::Bool(self.was_304),
            Variable::BerespBackend => Value::Backend(self.asked),
            Variable::BerespBackendName => {
                let name = self.asked.and_then(|backend| self.common.loaded.name_of(backend)).unwrap_or_default();
                text(workspace, name.as_bytes())?
            }
            Variable::BerespBackendIp => Value::Ip(self.backend_address()),
            Variable::BerespStorage => Value::Storage(decisions.storage.or_else(|| self.standard_storage())),
            Variable::BerespFilters => text(workspace, &self.filters())?,
            Variable::ClientIdentity if let Some(identity) = &self.identity => text(workspace, identity)?,
            Variable::ClientIdentity => {
                let client = self
                    .common
                    .connection
                    .client
                    .map_or_else(|| "0.0.0.0".to_owned(), |client| client.ip().to_string());
                text(workspace, client.as_bytes())?
            }
            other => return Err(Failure::Host(format!("{} is not there yet", other.name()))),
        })
    }
}

impl BackendHost {
    /// The address of the backend that was asked, where its declaration says it as a number.
    fn backend_address(&self) -> Option<(IpAddr, u16)> {
        let Some(Backend::Declared(index)) = self.asked else { return None };
        match &self.common.loaded.program.backends.get(index.0 as usize)?.endpoint {
            Endpoint::Host { host, port } => Some((host.parse().ok()?, port.parse().ok()?)),
            Endpoint::Path(_) => Some(([0, 0, 0, 0].into(), 0)),
            Endpoint::None | Endpoint::Given => None,
        }
    }

    /// Where the response is kept if its program does not say.
    fn standard_storage(&self) -> Option<StorageIndex> {
        let storages = &self.common.loaded.storages;
        let storage = if self.is_pass { &storages.transient } else { storages.at(self.decisions.turn) };
        let named = &self.common.loaded.program.storages;
        let place = named.iter().position(|name| name == storage.name())?;
        u32::try_from(place).ok().map(StorageIndex)
    }
}

impl Host for BackendHost {
    fn header(&self, header: &HeaderRef) -> Option<&[u8]> {
        self.headers(header.message)?.value_named(header.name.id, header.name.lower.as_bytes())
    }

    fn set_header(&mut self, header: &HeaderRef, value: &[u8]) -> Result<(), Failure> {
        match self.headers_and_log(header.message) {
            Some((headers, log)) => set_field(headers, header, value, log),
            None => Ok(()),
        }
    }

    fn borrowed(&self, variable: Variable) -> Option<&[u8]> {
        match variable {
            Variable::BereqMethod => Some(self.request.method()),
            Variable::BereqUrl => Some(self.request.target()),
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
        let decisions = &mut self.decisions;
        match variable {
            Variable::BereqMethod => {
                self.common.record(VslTag::BereqMethod, written);
                self.request.set_method(written);
            }
            Variable::BereqUrl => {
                self.common.record(VslTag::BereqURL, written);
                self.request.set_target(written);
            }
            Variable::BereqBackend => {
                if let Value::Backend(backend) = value {
                    self.hint = backend;
                }
            }
            Variable::BereqConnectTimeout => self.timeouts.connect = seconds(value),
            Variable::BereqFirstByteTimeout => self.timeouts.first_byte = seconds(value),
            Variable::BereqBetweenBytesTimeout => self.timeouts.between_bytes = seconds(value),
            Variable::BerespStatus => {
                let status = status_of(value)?;
                self.response.set_status(status);
                self.common.log.status(BERESP, status);
                self.common.record(VslTag::BerespReason, self.response.reason());
            }
            Variable::BerespReason => {
                self.common.record(VslTag::BerespReason, written);
                self.response.set_reason(written);
            }
            Variable::BerespTtl | Variable::BerespGrace | Variable::BerespKeep | Variable::BerespUncacheable => {
                match variable {
                    // NOTE: VCL counts from now, an object from its origin.
                    Variable::BerespTtl => decisions.ttl = (seconds(value) + decisions.age).max(0.0),
                    Variable::BerespGrace => decisions.grace = seconds(value).max(0.0),
                    Variable::BerespKeep => decisions.keep = seconds(value).max(0.0),
                    // NOTE: what has been for one client stays so, as in Varnish.
                    _ => decisions.is_uncacheable |= value.is_true(),
                }
                self.record_ttl();
            }
            Variable::BerespDoGzip | Variable::BerespDoGunzip | Variable::BerespDoEsi
                if self.named_filters.is_some() =>
            {
                return Err(Failure::Host("beresp.filters are already fixed".to_owned()));
            }
            Variable::BerespDoStream => decisions.streams = value.is_true(),
            Variable::BerespDoGzip => decisions.gzips = value.is_true(),
            Variable::BerespDoGunzip => decisions.gunzips = value.is_true(),
            Variable::BerespDoEsi => decisions.has_includes = value.is_true(),
            Variable::BerespFilters => self.named_filters = Some(written.to_vec()),
            Variable::BerespStorage => {
                if let Value::Storage(storage) = value {
                    decisions.storage = storage;
                }
            }
            Variable::BerespStorageHint => {
                let named = &self.common.loaded.program.storages;
                let place = named.iter().position(|name| name.as_bytes() == written);
                decisions.storage = place.and_then(|place| u32::try_from(place).ok()).map(StorageIndex);
            }
            Variable::BerespBody => {
                self.body.clear();
                self.body.extend_from_slice(bytes_of(value));
            }
            Variable::BereqProtoOld | Variable::BerespProtoOld => {}
            other => return Err(Failure::Host(format!("{} cannot be set yet", other.name()))),
        }
        Ok(())
    }

    fn append_body(&mut self, _: Variable, value: Value<'_>) -> Result<(), Failure> {
        self.body.extend_from_slice(bytes_of(value));
        Ok(())
    }

    fn unset_variable(&mut self, variable: Variable) {
        if variable == Variable::BereqBody {
            self.drops_body = true;
            self.request.forget_body();
        }
    }

    fn storage(&self, storage: StorageIndex, variable: StorageVariable) -> Value<'static> {
        self.common.storage(storage, variable)
    }

    fn backend_name(&self, backend: Backend) -> Option<&str> {
        self.common.loaded.name_of(backend)
    }

    fn resolve(&mut self, backend: Option<Backend>) -> Option<Backend> {
        self.resolved(backend)
    }

    fn hash_data(&mut self, _: &[u8]) {}

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

impl Exchange for BackendHost {
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
            Some(original) => self.request.clone_from(original),
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
