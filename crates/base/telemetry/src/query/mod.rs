//! Which transactions somebody wants to see, in Varnish's VSL query language (`man vsl-query`).
//!
//! ```text
//! RespStatus >= 500 and not ReqURL ~ "^/health"
//! {2+}Timestamp:Resp[2] > 0.8 or vxid == 4711
//! ```
//!
//! A query is true of a group of transactions when records of the group are as it says. This module reads a query once
//! ([`Query::parse`]) and looks at records in memory; it knows no socket, no file and no clock.
//!
//! Where it is not Varnish's: the tags are those of [`crate::ring::Tag`], what can never be true is an error that says what to
//! write (`RespStatus:503`), and so is `\d` within quotes, which Varnish reads as `d`.

mod error;
mod lexer;
mod parser;
mod selection;
mod test;
mod vocabulary;

use crate::ring::Tag;
use test::Test;

pub use error::QueryError;
pub use vocabulary::{TagName, Vocabulary, tags_named};

/// Bytes of a query, and levels of its parentheses, at most: reading one takes as much of the stack as it is deep.
const QUERY_BYTES_MAX: usize = 64 * 1024;
const DEPTH_MAX: usize = 64;

/// A query that was read and can be asked.
#[derive(Clone, Debug)]
pub struct Query {
    expression: Expression,
}

/// A record of a transaction in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// How far below the group's first transaction its transaction is: 1 for that itself, 0 where there are no groups.
    pub level: u32,
    /// The number of its transaction.
    pub transaction: u64,
    /// The number of its tag.
    pub tag: u16,
    /// Its text.
    pub text: &'a [u8],
}

#[derive(Clone, Debug)]
enum Expression {
    /// One of them is true.
    Any(Vec<Expression>),
    /// All of them are true.
    All(Vec<Expression>),
    Not(Box<Expression>),
    /// Some record passes it.
    Test(Test),
}

impl Query {
    /// Reads a query. Each line of the text is one, and one of them has to be true.
    ///
    /// # Errors
    /// When it is no query, or one that nothing can ever be true of; with the place, and what to write instead.
    pub fn parse(text: &str) -> Result<Self, QueryError> {
        Self::parse_for(&Vocabulary::RING, text)
    }

    /// Reads a query of a log with those tags.
    ///
    /// # Errors
    /// As [`Query::parse`].
    pub fn parse_for(vocabulary: &Vocabulary, text: &str) -> Result<Self, QueryError> {
        parser::parse(vocabulary, text).map(|expression| Self { expression })
    }

    /// What is true where one of `queries` is; nothing when there are none.
    pub fn any(queries: impl IntoIterator<Item = Self>) -> Option<Self> {
        let expressions: Vec<Expression> = queries.into_iter().map(|query| query.expression).collect();
        (!expressions.is_empty()).then_some(Self { expression: Expression::Any(expressions) })
    }

    /// The tags that it asks about.
    #[must_use]
    pub fn tags(&self) -> Vec<Tag> {
        let mut tests = Vec::new();
        self.expression.tests(&mut tests);
        let is_meant = |tag: &Tag| tests.iter().any(|test| test.asks_about(*tag));
        Tag::ALL.iter().copied().filter(is_meant).collect()
    }

    /// The tags of those of its expressions that find nothing because this version writes no such records.
    #[must_use]
    pub fn never_found(&self) -> Vec<Tag> {
        let mut tests = Vec::new();
        self.expression.tests(&mut tests);
        tests.retain(|test| !Tag::ALL.iter().any(|tag| tag.is_written() && test.asks_about(*tag)));
        let is_meant = |tag: &Tag| tests.iter().any(|test| test.asks_about(*tag));
        Tag::ALL.iter().copied().filter(is_meant).collect()
    }

    /// Whether it is true of a group with these records.
    #[must_use]
    pub fn matches(&self, group: &[Entry<'_>]) -> bool {
        self.expression.matches(group)
    }
}

impl Expression {
    /// All its tests.
    fn tests<'a>(&'a self, into: &mut Vec<&'a Test>) {
        match self {
            Self::Any(list) | Self::All(list) => list.iter().for_each(|expression| expression.tests(into)),
            Self::Not(expression) => expression.tests(into),
            Self::Test(test) => into.push(test),
        }
    }

    fn matches(&self, group: &[Entry<'_>]) -> bool {
        match self {
            Self::Any(list) => list.iter().any(|expression| expression.matches(group)),
            Self::All(list) => list.iter().all(|expression| expression.matches(group)),
            Self::Not(expression) => !expression.matches(group),
            Self::Test(test) => group.iter().any(|entry| test.passes(entry)),
        }
    }
}

#[cfg(test)]
mod tests;
