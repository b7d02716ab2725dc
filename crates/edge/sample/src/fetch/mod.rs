//! The table of sample fetches.

mod auth;
mod body;
mod connection;
mod constant;
mod content;
mod cookie;
mod header;
mod later;
mod process;
mod request;
mod stick;
mod tls;
mod tls_hello;
mod tls_offer;

use crate::arguments::{Argument, Arguments};
use crate::context::Direction;
use crate::keyword::{Call, Fetch, Fetched};
use crate::parser::ParseContext;
use crate::variables::VariableName;

const TABLES: &[&[Fetch]] = &[
    constant::FETCHES,
    process::FETCHES,
    connection::FETCHES,
    content::FETCHES,
    tls_hello::FETCHES,
    tls_offer::FETCHES,
    tls::FETCHES,
    request::FETCHES,
    header::FETCHES,
    cookie::FETCHES,
    body::FETCHES,
    auth::FETCHES,
    stick::FETCHES,
    stick::COUNTERS,
    stick::INDEXED,
    later::FETCHES,
];

/// Every sample fetch of HAProxy 2.6, supported or not, in groups.
pub fn fetches() -> impl Iterator<Item = &'static Fetch> {
    TABLES.iter().flat_map(|table| table.iter()).chain(tls::certificates())
}

/// The fetch called `name`.
pub(crate) fn find(name: &str) -> Option<&'static Fetch> {
    fetches().find(|fetch| fetch.name == name || fetch.aliases.contains(&name))
}

/// The name of every fetch.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    fetches().flat_map(|fetch| std::iter::once(fetch.name).chain(fetch.aliases.iter().copied()))
}

/// Checks that the first argument is the name of a variable.
pub(crate) fn check_variable(arguments: &mut Arguments, _: &mut ParseContext<'_>) -> Result<(), String> {
    if let Some(first) = arguments.first_mut()
        && let Argument::Str(text) = first
    {
        *first = Argument::Variable(VariableName::parse(text).map_err(|error| error.to_string())?);
    }
    Ok(())
}

/// A head of either direction, as far as header fetches need it.
pub(crate) enum Head<'a> {
    Here(&'a http::Headers),
    Absent(Fetched<'a>),
}

/// The headers of one direction. A fetch that is bound to one direction finds nothing while the other one is processed.
pub(crate) fn head<'a>(call: &Call<'a>, side: Direction) -> Head<'a> {
    if call.options.direction != side {
        return Head::Absent(Fetched::Missing);
    }
    let headers = match side {
        Direction::Request => call.context.request().map(|request| request.headers),
        Direction::Response => call.context.response().map(|response| response.headers),
    };
    match headers {
        Some(headers) => Head::Here(headers),
        None => Head::Absent(call.absent()),
    }
}
