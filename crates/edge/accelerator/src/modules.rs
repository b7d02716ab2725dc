//! What modules do that needs a host: directors, cookies, headers, what `std` asks of the world.

use std::sync::Arc;

use http::Headers;
use telemetry::vsl::VslTag;
use vcl::{
    modules::{Function, FunctionId, Method, MethodId, pure},
    pattern::TooHard,
    program::{HeaderRef, ObjectIndex, StorageIndex},
    run::{Backend, Failure, Host, Value, Workspace},
    variables::{StorageVariable, Variable},
};

use crate::{
    common::{Common, text},
    directors::{Director, Policy},
    loaded::Made,
};

type Arguments<'a, 'w> = &'a [Option<Value<'w>>];

fn argument<'w>(arguments: Arguments<'_, 'w>, place: usize) -> Option<Value<'w>> {
    arguments.get(place).copied().flatten()
}

fn text_at<'w>(arguments: Arguments<'_, 'w>, place: usize) -> &'w [u8] {
    argument(arguments, place).and_then(Value::text).unwrap_or_default()
}

/// Does what a function does that needs no message; `None` for others.
pub(crate) fn call<'w>(
    common: &mut Common,
    function: &'static Function,
    arguments: Arguments<'_, 'w>,
    workspace: &'w Workspace,
) -> Option<Result<Value<'w>, Failure>> {
    if let Some(result) = pure::call(function.id, arguments, workspace) {
        return Some(result);
    }
    let found = match function.id {
        FunctionId::StdLog => {
            common.record(VslTag::VCL_Log, text_at(arguments, 0));
            Ok(Value::Void)
        }
        FunctionId::StdSyslog => {
            common.record(VslTag::VCL_Log, text_at(arguments, 1));
            Ok(Value::Void)
        }
        FunctionId::StdTimestamp => {
            let now = common.now;
            common.log.timestamp(&String::from_utf8_lossy(text_at(arguments, 0)), now);
            Ok(Value::Void)
        }
        FunctionId::StdBan => Ok(Value::Bool(common.ban(text_at(arguments, 0)))),
        FunctionId::StdBanError => {
            let error = common.ban_error.clone().unwrap_or_default();
            text(workspace, error.as_bytes())
        }
        FunctionId::StdHealthy => {
            let healthy = match argument(arguments, 0) {
                Some(Value::Backend(Some(backend))) => common.loaded.is_healthy(backend),
                _ => false,
            };
            Ok(Value::Bool(healthy))
        }
        FunctionId::StdRandom => {
            let number = |place| argument(arguments, place).and_then(Value::number).unwrap_or(0.0);
            Ok(Value::Real(number(0) + (number(1) - number(0)) * common.random))
        }
        FunctionId::StdSyntax => {
            let wanted = argument(arguments, 0).and_then(Value::number).unwrap_or(0.0);
            Ok(Value::Bool(f64::from(common.loaded.program.version.0) / 10.0 >= wanted))
        }
        FunctionId::StdGetenv => {
            let name = String::from_utf8_lossy(text_at(arguments, 0)).into_owned();
            match std::env::var(name) {
                Ok(value) => text(workspace, value.as_bytes()),
                Err(_) => Ok(Value::String(None)),
            }
        }
        id => return cookies(common, id, arguments, workspace),
    };
    Some(found)
}

fn cookies<'w>(
    common: &mut Common,
    id: FunctionId,
    arguments: Arguments<'_, 'w>,
    workspace: &'w Workspace,
) -> Option<Result<Value<'w>, Failure>> {
    let name = text_at(arguments, 0);
    let listed = |name: &[u8]| text_at(arguments, 0).split(|byte| *byte == b',').any(|item| item.trim_ascii() == name);
    let matches = |name: &[u8]| match argument(arguments, 0) {
        Some(Value::Regex(pattern)) => pattern.is_match(name).unwrap_or(false),
        _ => false,
    };
    let jar = &mut common.cookies;
    let found = match id {
        FunctionId::CookieParse => {
            *jar = parse_cookies(name);
            Ok(Value::Void)
        }
        FunctionId::CookieClean => {
            jar.clear();
            Ok(Value::Void)
        }
        FunctionId::CookieDelete => {
            jar.retain(|(known, _)| known != name);
            Ok(Value::Void)
        }
        FunctionId::CookieFilter => {
            jar.retain(|(known, _)| !listed(known));
            Ok(Value::Void)
        }
        FunctionId::CookieFilterRe => {
            jar.retain(|(known, _)| !matches(known));
            Ok(Value::Void)
        }
        FunctionId::CookieKeep => {
            jar.retain(|(known, _)| listed(known));
            Ok(Value::Void)
        }
        FunctionId::CookieKeepRe => {
            jar.retain(|(known, _)| matches(known));
            Ok(Value::Void)
        }
        FunctionId::CookieIsset => Ok(Value::Bool(jar.iter().any(|(known, _)| known == name))),
        FunctionId::CookieGet => match jar.iter().find(|(known, _)| known == name) {
            Some((_, value)) => text(workspace, value),
            None => Ok(Value::String(None)),
        },
        FunctionId::CookieGetRe => match jar.iter().find(|(known, _)| matches(known)) {
            Some((_, value)) => text(workspace, value),
            None => Ok(Value::String(None)),
        },
        FunctionId::CookieSet => {
            let value = text_at(arguments, 1).to_vec();
            match jar.iter_mut().find(|(known, _)| known == name) {
                Some((_, old)) => *old = value,
                None => jar.push((name.to_vec(), value)),
            }
            Ok(Value::Void)
        }
        FunctionId::CookieGetString => {
            let pairs: Vec<Vec<u8>> = jar.iter().map(|(name, value)| [name.as_slice(), b"=", value].concat()).collect();
            text(workspace, &pairs.join(&b"; "[..]))
        }
        _ => return None,
    };
    Some(found)
}

fn parse_cookies(header: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut jar: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    for pair in header.split(|byte| *byte == b';').map(<[u8]>::trim_ascii) {
        let Some(at) = pair.iter().position(|byte| *byte == b'=') else { continue };
        let (name, value) = (pair.get(..at).unwrap_or_default(), pair.get(at + 1..).unwrap_or_default());
        match jar.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value.to_vec(),
            None => jar.push((name.to_vec(), value.to_vec())),
        }
    }
    jar
}

/// Does what a function does with the fields of a message; `None` for functions that do something else. `headers` gives the message's.
pub(crate) fn change<'w>(
    function: &'static Function,
    arguments: Arguments<'_, 'w>,
    headers: &mut Headers,
    workspace: &'w Workspace,
) -> Option<Result<Value<'w>, Failure>> {
    let Some(Value::Header(header)) = argument(arguments, 0) else { return None };
    let name = header.name.lower.as_bytes();
    match function.id {
        FunctionId::StdCollect => {
            let separator = text_at(arguments, 1);
            let values: Vec<Vec<u8>> = headers.all(name).map(<[u8]>::to_vec).collect();
            if values.len() > 1 {
                headers.remove(name);
                headers.add(header.name.text.as_bytes(), &values.join(separator));
            }
            Some(Ok(Value::Void))
        }
        FunctionId::HeaderAppend => {
            headers.add(header.name.text.as_bytes(), text_at(arguments, 1));
            Some(Ok(Value::Void))
        }
        FunctionId::HeaderRemove => {
            let Some(Value::Regex(pattern)) = argument(arguments, 1) else { return None };
            headers
                .retain(|known, value| !known.eq_ignore_ascii_case(name) || !pattern.is_match(value).unwrap_or(false));
            Some(Ok(Value::Void))
        }
        FunctionId::HeaderGet => {
            let Some(Value::Regex(pattern)) = argument(arguments, 1) else { return None };
            let found = headers.all(name).find(|value| pattern.is_match(value).unwrap_or(false)).map(<[u8]>::to_vec);
            Some(match found {
                Some(value) => text(workspace, &value),
                None => Ok(Value::String(None)),
            })
        }
        _ => None,
    }
}

/// A function that nobody here does.
pub(crate) fn missing(function: &Function) -> Failure {
    Failure::Host(format!("{}.{}() is not there yet", function.module, function.name))
}

/// Does what an object's method does.
pub(crate) fn method<'w>(
    common: &mut Common,
    object: ObjectIndex,
    method: &'static Method,
    arguments: Arguments<'_, 'w>,
    workspace: &'w Workspace,
) -> Result<Value<'w>, Failure> {
    let loaded = Arc::clone(&common.loaded);
    let backend = || match argument(arguments, 0) {
        Some(Value::Backend(Some(backend))) => Ok(backend),
        _ => Err(Failure::Host("a director has no use for a backend that is none".to_owned())),
    };
    let weight = || argument(arguments, 1).and_then(Value::number).unwrap_or(1.0);
    match (method.id, loaded.made(object)) {
        (MethodId::RoundRobinAddBackend | MethodId::FallbackAddBackend, Some(Made::Director(director))) => {
            director.add(backend()?, 1.0);
            Ok(Value::Void)
        }
        (MethodId::RandomAddBackend | MethodId::HashAddBackend, Some(Made::Director(director))) => {
            director.add(backend()?, weight());
            Ok(Value::Void)
        }
        (
            MethodId::RoundRobinRemoveBackend
            | MethodId::FallbackRemoveBackend
            | MethodId::RandomRemoveBackend
            | MethodId::HashRemoveBackend,
            Some(Made::Director(director)),
        ) => {
            director.remove(backend()?);
            Ok(Value::Void)
        }
        // NOTE: these choose when the request goes out, as in Varnish; the one by a key must choose now.
        (MethodId::RoundRobinBackend | MethodId::FallbackBackend | MethodId::RandomBackend, Some(_)) => {
            Ok(Value::Backend(Some(Backend::Object(object))))
        }
        (MethodId::HashBackend, Some(Made::Director(director))) => {
            let chosen = director.choose(text_at(arguments, 0), common.random, |member| loaded.is_healthy(member));
            Ok(Value::Backend(chosen))
        }
        (MethodId::BlobGet, Some(Made::Blob(bytes))) => Ok(Value::Blob(Some(workspace.keep(bytes)?))),
        _ => Err(Failure::Host(format!(".{}() is not there yet", method.name))),
    }
}

/// Makes an object in `vcl_init`.
pub(crate) fn make(common: &Common, object: ObjectIndex, arguments: Arguments<'_, '_>) -> Result<(), Failure> {
    let declared = common.loaded.program.objects.get(object.0 as usize).ok_or(Failure::NoAnswer)?;
    let policy = match declared.class.name {
        "directors.round_robin" => Policy::RoundRobin,
        "directors.fallback" => {
            let sticky = argument(arguments, 0).is_some_and(Value::is_true);
            Policy::Fallback { sticky }
        }
        "directors.random" => Policy::Random,
        "directors.hash" => Policy::Hash,
        "blob.blob" if matches!(argument(arguments, 0), None | Some(Value::Enum("IDENTITY"))) => {
            return common.loaded.make(object, Made::Blob(text_at(arguments, 1).to_vec()));
        }
        other => return Err(Failure::Host(format!("objects of {other} are not there yet"))),
    };
    common.loaded.make(object, Made::Director(Director::new(policy)))
}

/// The host of `vcl_init`: there is no message.
pub(crate) struct InitHost {
    pub(crate) common: Common,
}

impl Host for InitHost {
    fn header(&self, _: &HeaderRef) -> Option<&[u8]> {
        None
    }

    fn set_header(&mut self, _: &HeaderRef, _: &[u8]) -> Result<(), Failure> {
        Ok(())
    }

    fn unset_header(&mut self, _: &HeaderRef) {}

    fn variable<'w>(&self, variable: Variable, workspace: &'w Workspace) -> Result<Value<'w>, Failure> {
        Ok(self.common.variable(variable, workspace)?.unwrap_or(Value::Void))
    }

    fn set_variable(&mut self, _: Variable, _: Value<'_>) -> Result<(), Failure> {
        Ok(())
    }

    fn append_body(&mut self, _: Variable, _: Value<'_>) -> Result<(), Failure> {
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
        self.common.resolve(backend, b"")
    }

    fn hash_data(&mut self, _: &[u8]) {}

    fn ban(&mut self, expression: &[u8]) -> Result<(), Failure> {
        self.common.ban(expression);
        Ok(())
    }

    fn log_acl(&mut self, _: &str, _: Option<&str>) {}

    fn log_hard_match(&mut self, _: &str, _: TooHard) {}

    fn call<'w>(
        &mut self,
        function: &'static Function,
        arguments: &[Option<Value<'w>>],
        workspace: &'w Workspace,
    ) -> Result<Value<'w>, Failure> {
        call(&mut self.common, function, arguments, workspace).unwrap_or_else(|| Err(missing(function)))
    }

    fn method<'w>(
        &mut self,
        object: ObjectIndex,
        method_called: &'static Method,
        arguments: &[Option<Value<'w>>],
        workspace: &'w Workspace,
    ) -> Result<Value<'w>, Failure> {
        method(&mut self.common, object, method_called, arguments, workspace)
    }

    fn make(&mut self, object: ObjectIndex, arguments: &[Option<Value<'_>>]) -> Result<(), Failure> {
        make(&self.common, object, arguments)
    }
}
