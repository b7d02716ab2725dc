//! Modules: what their functions do that need a host, a file for each.
//!
//! A function gets what it may look at and change as an [`Exchange`]; so both hosts, and that of `vcl_init`, call the same code.

mod blob;
mod cookie;
mod directors;
mod header;
mod init;
mod proxy;
mod purge;
mod shard;
mod standard;
mod unix;
mod vsthrottle;
mod vtc;
pub(crate) mod xkey;

use std::sync::Arc;

use cache::index::Digest;
use http::Headers;
use vcl::{
    modules::{Function, Method},
    program::{HeaderRef, ObjectIndex},
    run::{Backend, Failure, Value, Workspace, pure},
    subroutine::{Subroutine, Subroutines},
    variables::Message,
};

use crate::{
    common::Common,
    directors::Director,
    loaded::{Loaded, Made},
};
pub(crate) use init::InitHost;

type Arguments<'a, 'w> = &'a [Option<Value<'w>>];
type Outcome<'w> = Result<Value<'w>, Failure>;

/// What a module's function may look at and change.
pub(crate) trait Exchange {
    /// What all hosts have.
    fn common(&self) -> &Common;
    /// The same, to change it.
    fn common_mut(&mut self) -> &mut Common;
    /// The fields of a message, if it is here.
    fn headers(&self, message: Message) -> Option<&Headers>;
    /// The values of a message's fields of a name, if it is here. An object's are not to be had otherwise.
    fn values(&self, message: Message, name: &[u8]) -> Option<Vec<Vec<u8>>> {
        Some(self.headers(message)?.all(name).map(<[u8]>::to_vec).collect())
    }
    /// The same, if they may be changed.
    fn headers_mut(&mut self, message: Message) -> Option<&mut Headers>;
    /// Gives a message back the head that it came with.
    fn roll_back(&mut self, message: Message) -> Result<(), Failure>;
    /// The key of the cache, once it is made.
    fn digest(&self) -> Option<Digest>;
    /// The URL of the request, or of the request to a backend.
    fn url(&self) -> &[u8];
}

fn argument<'w>(arguments: Arguments<'_, 'w>, place: usize) -> Option<Value<'w>> {
    arguments.get(place).copied().flatten()
}

/// The text at a place; empty for one that is not set.
fn text_at<'w>(arguments: Arguments<'_, 'w>, place: usize) -> &'w [u8] {
    argument(arguments, place).and_then(Value::text).unwrap_or_default()
}

fn number_at(arguments: Arguments<'_, '_>, place: usize) -> f64 {
    argument(arguments, place).and_then(Value::number).unwrap_or(0.0)
}

fn integer_at(arguments: Arguments<'_, '_>, place: usize) -> i64 {
    match argument(arguments, place) {
        Some(Value::Int(number) | Value::Bytes(number)) => number,
        _ => 0,
    }
}

fn header_at<'w>(arguments: Arguments<'_, 'w>, place: usize) -> Option<&'w HeaderRef> {
    match argument(arguments, place) {
        Some(Value::Header(header)) => Some(header),
        _ => None,
    }
}

fn fail<T>(why: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Host(why.into()))
}

/// A text as a value; one that is not there is not set.
fn string<'w>(workspace: &'w Workspace, text: Option<&[u8]>) -> Outcome<'w> {
    match text {
        Some(text) => Ok(Value::String(Some(workspace.keep(text)?))),
        None => Ok(Value::String(None)),
    }
}

fn count(number: usize) -> Value<'static> {
    Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

/// Whether a subroutine runs for a backend's side: a fetch, or a pipe, which sends a request of its own.
fn is_of_backend(subroutine: Subroutine) -> bool {
    Subroutines::BACKEND.contains(subroutine) || subroutine == Subroutine::Pipe
}

/// Whether the program is being loaded or goes.
fn is_of_program(subroutine: Subroutine) -> bool {
    matches!(subroutine, Subroutine::Init | Subroutine::Fini)
}

/// Does what a function does.
pub(crate) fn call<'w>(
    exchange: &mut impl Exchange,
    function: &'static Function,
    arguments: Arguments<'_, 'w>,
    workspace: &'w Workspace,
) -> Outcome<'w> {
    if let Some(result) = pure::call(function.id, arguments, workspace) {
        return result;
    }
    let done = match function.module {
        "std" => standard::call(exchange, function.id, arguments, workspace),
        "cookie" => cookie::call(exchange.common_mut(), function.id, arguments, workspace),
        "header" => header::call(exchange, function.id, arguments, workspace),
        "directors" => Some(directors::lookup(exchange.common(), arguments)),
        "purge" => purge::call(exchange, function.id, arguments),
        "xkey" => xkey::call(exchange.common_mut(), function.id, arguments),
        "vsthrottle" => vsthrottle::call(exchange.common(), function.id, arguments),
        "unix" => unix::call(exchange.common_mut(), function.id, workspace),
        "proxy" => proxy::call(exchange.common(), function.id, workspace),
        "vtc" => vtc::call(exchange.common_mut(), function.id, arguments, workspace),
        _ => None,
    };
    done.unwrap_or_else(|| fail(format!("{}.{}() is not there yet", function.module, function.name)))
}

/// Does what an object's method does.
pub(crate) fn method<'w>(
    exchange: &mut impl Exchange,
    object: ObjectIndex,
    method: &'static Method,
    arguments: Arguments<'_, 'w>,
    workspace: &'w Workspace,
) -> Outcome<'w> {
    let loaded = Arc::clone(&exchange.common().loaded);
    let done = match loaded.made(object) {
        Some(Made::Director(Director::Members(members))) => {
            directors::method(exchange.common(), object, members, method, arguments)
        }
        Some(Made::Director(Director::Shard(shard))) => shard::method(exchange, object, shard, method.id, arguments),
        Some(Made::ShardParameters(_)) => shard::parameters(exchange, object, method.id, arguments, workspace),
        Some(Made::Blob(blob)) => blob::method(blob, method.id, arguments, workspace),
        None => return fail(format!(".{}() of an object that was not made", method.name)),
    };
    done.unwrap_or_else(|| fail(format!(".{}() is not there yet", method.name)))
}

/// Makes an object in `vcl_init`.
pub(crate) fn make(common: &Common, object: ObjectIndex, arguments: Arguments<'_, '_>) -> Result<(), Failure> {
    let declared = common.loaded.program.objects.get(object.0 as usize).ok_or(Failure::NoAnswer)?;
    let made = match declared.class.name.split_once('.') {
        Some(("directors", class)) => directors::make(class, arguments),
        Some(("blob", "blob")) => Some(Made::Blob(blob::make(&declared.name, arguments)?)),
        _ => None,
    };
    match made {
        Some(made) => common.loaded.make(object, made),
        None => fail(format!("objects of {} are not there yet", declared.class.name)),
    }
}

/// The name of a backend or director, for messages and rings.
fn name_of(loaded: &Loaded, backend: Backend) -> String {
    loaded.name_of(backend).unwrap_or_default().to_owned()
}
