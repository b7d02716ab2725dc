//! What a request asks for, and what it gives.

use std::sync::Arc;

use cache::{index::Waiting, object::Object};
use http::{RequestHead, ResponseHead};
use vcl::run::Backend as Target;

use super::Includes;
use crate::{
    backend::{Backend, Order, Recoding},
    log::Log,
    output::Part,
};

/// What is to be done next for a request.
#[derive(Debug)]
pub enum Step {
    /// Wait for the fetch of another request; then [`Client::woken`](super::Client::woken).
    Wait(Waiting),
    /// Have an object fetched, in a task that lives longer than this request; then [`Client::fetched`](super::Client::fetched).
    Fetch(Box<Order>),
    /// Ask a backend for this client alone: drive the machine, hand on its response by [`Client::passed`](super::Client::passed).
    Pass(Box<Backend>),
    /// Another program is to take the request over, the one with this label: [`Client::switched`](super::Client::switched).
    Switch(String),
    /// Bytes both ways, after this request.
    Pipe(Box<Pipe>),
    /// This goes to the client; that is the end.
    Deliver(Box<Delivery>),
}

/// A request that is piped.
#[derive(Debug)]
pub struct Pipe {
    /// Where to.
    pub backend: Option<Target>,
    /// What is sent first.
    pub request: RequestHead,
    /// The log of what goes to the backend.
    pub log: Log,
}

/// A response for the client.
#[derive(Debug)]
pub struct Delivery {
    /// Its head; the length of the body is in it where it is known.
    pub head: ResponseHead,
    /// Its body.
    pub body: DeliveredBody,
    /// Whether the client's connection ends with it.
    pub closes: bool,
}

/// Where a delivered body comes from.
#[derive(Debug)]
pub enum DeliveredBody {
    /// It has been made here.
    Made(Vec<u8>),
    /// It is stored, or on its way into the cache.
    Object {
        /// The object.
        object: Arc<Object>,
        /// Which part of it.
        part: Part,
        /// What is done to it: the client understands no gzip and the object has nothing else, or the other way round.
        recoding: Recoding,
    },
    /// A page whose includes are replaced by what they name.
    Page {
        /// The page.
        object: Arc<Object>,
        /// Whether all of it is compressed.
        gzip: bool,
        /// How includes are asked for.
        includes: Box<Includes>,
    },
    /// That of the response that was passed; [`Part::Nothing`] leaves it where it is.
    Passed(Part),
}

/// What came of a fetch, for the request that had it made.
#[derive(Debug)]
pub enum Fetched {
    /// An object, in the cache or for this client alone.
    Object(Arc<Object>),
    /// An object, and the head that the client who had it fetched gets instead of the stored one.
    Own(Arc<Object>, Box<ResponseHead>),
    /// Nothing: the fetch was abandoned, or there was no room.
    Nothing,
}
