//! Patterns: how they are read, kept and matched.
//!
//! A [`Matcher`] holds all patterns of one ACL or map. Few are compared one after the other; many are indexed: exact strings
//! by hash, prefixes and networks in sorted order with a link from each to the longest other one that contains it, so that a
//! look-up is one binary search and a short walk.

mod index;
mod parse;
mod set;

pub(crate) use parse::{Operator, integer_pattern};
pub(crate) use set::{PatternOptions, PatternSet};

use crate::context::Context;
use crate::value::{Type, Value};

/// A way of matching, as given with `-m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatchMethod {
    /// The sample is there.
    Found,
    /// The sample is true.
    Bool,
    /// An integer, or a range of them.
    Int,
    /// An address or a network.
    Ip,
    /// Bytes in hexadecimal.
    Bin,
    /// The length of the sample.
    Len,
    /// The whole string.
    Str,
    /// The start of the string.
    Beg,
    /// Some part of the string.
    Sub,
    /// A part of the string between slashes.
    Dir,
    /// A part of the string between dots.
    Dom,
    /// The end of the string.
    End,
    /// A regular expression.
    Reg,
    /// A regular expression whose groups a map's value refers to.
    Regm,
    /// An HTTP method; only the ACL `method` has it.
    Method,
    /// A group of users; only the ACL `http_auth_group` has it.
    Group,
    /// A version of two numbers, or a range of them; only ACLs on TLS versions have it.
    Version,
}

/// The methods that `-m` knows, in the order of the reference.
pub const MATCH_METHODS: [MatchMethod; 14] = [
    MatchMethod::Found,
    MatchMethod::Bool,
    MatchMethod::Int,
    MatchMethod::Ip,
    MatchMethod::Bin,
    MatchMethod::Len,
    MatchMethod::Str,
    MatchMethod::Beg,
    MatchMethod::Sub,
    MatchMethod::Dir,
    MatchMethod::Dom,
    MatchMethod::End,
    MatchMethod::Reg,
    MatchMethod::Regm,
];

impl MatchMethod {
    /// The name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            MatchMethod::Found => "found",
            MatchMethod::Bool => "bool",
            MatchMethod::Int => "int",
            MatchMethod::Ip => "ip",
            MatchMethod::Bin => "bin",
            MatchMethod::Len => "len",
            MatchMethod::Str => "str",
            MatchMethod::Beg => "beg",
            MatchMethod::Sub => "sub",
            MatchMethod::Dir => "dir",
            MatchMethod::Dom => "dom",
            MatchMethod::End => "end",
            MatchMethod::Reg => "reg",
            MatchMethod::Regm => "regm",
            MatchMethod::Method => "method",
            MatchMethod::Group => "group",
            MatchMethod::Version => "version",
        }
    }

    /// The method that `-m` calls `name`.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        MATCH_METHODS.into_iter().find(|method| method.name() == name)
    }

    /// The type that a sample is cast to before it is matched.
    #[must_use]
    pub const fn input(self) -> Type {
        match self {
            MatchMethod::Found => Type::Any,
            MatchMethod::Bool | MatchMethod::Int | MatchMethod::Version => Type::Sint,
            MatchMethod::Ip => Type::Addr,
            MatchMethod::Bin => Type::Bin,
            MatchMethod::Method => Type::Meth,
            MatchMethod::Len
            | MatchMethod::Str
            | MatchMethod::Beg
            | MatchMethod::Sub
            | MatchMethod::Dir
            | MatchMethod::Dom
            | MatchMethod::End
            | MatchMethod::Reg
            | MatchMethod::Regm
            | MatchMethod::Group => Type::Str,
        }
    }

    /// The method for samples of type `output` when none is given.
    #[must_use]
    pub const fn default_for(output: Type) -> Option<Self> {
        match output {
            Type::Bool => Some(MatchMethod::Bool),
            Type::Sint => Some(MatchMethod::Int),
            Type::Addr | Type::Ipv4 | Type::Ipv6 => Some(MatchMethod::Ip),
            Type::Str => Some(MatchMethod::Str),
            Type::Any | Type::Bin | Type::Meth => None,
        }
    }

    /// Whether patterns of this method are integers, which may have operators before them.
    pub(crate) const fn is_numeric(self) -> bool {
        matches!(self, MatchMethod::Int | MatchMethod::Len | MatchMethod::Version)
    }
}

/// A matching method with its patterns: those of each file and those given in place, which may differ in `-i`.
///
/// Nearly always there is one set, which is kept here rather than behind a pointer: with hundreds of ACLs, what costs is
/// fetching them from memory.
#[derive(Clone, Debug)]
pub(crate) struct Matcher {
    method: MatchMethod,
    first: Option<PatternSet>,
    others: Vec<PatternSet>,
    /// The user list whose groups the patterns are.
    user_list: Option<Box<str>>,
}

impl Matcher {
    pub(crate) fn new(method: MatchMethod, sets: Vec<PatternSet>, user_list: Option<Box<str>>) -> Self {
        let mut sets = sets.into_iter();
        Matcher { method, first: sets.next(), others: sets.collect(), user_list }
    }

    /// Whether `value` matches one of the patterns, if it is of a type that needs no cast.
    #[inline]
    pub(crate) fn matches_as_is(&self, value: &Value<'_>) -> Option<bool> {
        match (self.method.input(), value) {
            (Type::Str, Value::Str(bytes)) if self.method != MatchMethod::Group => {
                Some(self.any(|set| set.find_bytes(bytes).is_some()))
            }
            (Type::Meth, Value::Meth(bytes)) => Some(self.any(|set| set.find_bytes(bytes).is_some())),
            (Type::Addr, Value::Ipv4(_) | Value::Ipv6(_)) => Some(self.any(|set| set.find(value).is_some())),
            (Type::Sint, Value::Bool(value)) if self.method == MatchMethod::Bool => Some(*value),
            (Type::Sint, Value::Sint(number)) if self.method != MatchMethod::Bool => {
                Some(self.any(|set| set.find_integer(*number).is_some()))
            }
            _ => None,
        }
    }

    /// Whether `value` matches one of the patterns.
    pub(crate) fn matches(&self, value: Value<'_>, context: &dyn Context) -> bool {
        match self.method {
            MatchMethod::Found => true,
            MatchMethod::Bool => matches!(value.cast(Type::Sint), Some(Value::Sint(value)) if value != 0),
            MatchMethod::Group => {
                let (Some(list), Some(user)) = (&self.user_list, value.into_text()) else { return false };
                self.any(|set| set.words().any(|group| context.in_group(list, &user, group)))
            }
            method => {
                let Some(value) = value.cast(method.input()) else { return false };
                self.any(|set| set.find(&value).is_some())
            }
        }
    }

    fn any(&self, test: impl Fn(&PatternSet) -> bool) -> bool {
        self.first.as_ref().is_some_and(&test) || self.others.iter().any(test)
    }
}
