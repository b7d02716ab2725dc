//! The table of converters.

use crate::keyword::Converter;

const TABLES: &[&[Converter]] = &[];

/// Every converter of HAProxy 2.6, supported or not, in groups.
pub fn converters() -> impl Iterator<Item = &'static Converter> {
    TABLES.iter().flat_map(|table| table.iter())
}

/// The converter called `name`.
pub(crate) fn find(name: &str) -> Option<&'static Converter> {
    converters().find(|converter| converter.name == name || converter.aliases.contains(&name))
}

/// The name of every converter.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    converters().flat_map(|converter| std::iter::once(converter.name).chain(converter.aliases.iter().copied()))
}
