//! The table of sample fetches.

mod constant;

use crate::keyword::Fetch;

const TABLES: &[&[Fetch]] = &[constant::FETCHES];

/// Every sample fetch of HAProxy 2.6, supported or not, in groups.
pub fn fetches() -> impl Iterator<Item = &'static Fetch> {
    TABLES.iter().flat_map(|table| table.iter())
}

/// The fetch called `name`.
pub(crate) fn find(name: &str) -> Option<&'static Fetch> {
    fetches().find(|fetch| fetch.name == name || fetch.aliases.contains(&name))
}

/// The name of every supported fetch.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    fetches().flat_map(|fetch| std::iter::once(fetch.name).chain(fetch.aliases.iter().copied()))
}
