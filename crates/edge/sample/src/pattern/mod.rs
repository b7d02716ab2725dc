//! Patterns: how they are read, kept and matched.
//!
//! A [`Matcher`] holds all patterns of one ACL: those that stand in it are compiled into it ([`PatternSet`]); those of files
//! are shared with whatever else uses the file ([`PatternReference`]). Few are compared one after the other; many are
//! indexed: exact strings by hash, prefixes and networks in order, substrings by how they begin.

mod elements;
mod expressions;
mod files;
mod index;
mod live;
mod parse;
mod reference;
mod set;
mod sub;
mod tree;

use std::sync::Arc;

pub use files::PatternReferences;
pub use reference::{Hit, LookUp, PatternReference};

pub(crate) use live::LiveIndex;
pub(crate) use parse::{Operator, integer_pattern};
pub(crate) use reference::{Compilation, PatternExpression, User, value as map_value};
pub(crate) use set::{PatternOptions, PatternSet};

/// What stands around a word for `-m dir` and for `-m dom`.
const DIR_DELIMITERS: &[u8] = b"/?";
const DOM_DELIMITERS: &[u8] = b"/?.:";

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

/// A matching method with its patterns: those that stand in the ACL, and those of each file, which may differ in `-i`.
///
/// What stands in the ACL is kept here rather than behind a pointer: with hundreds of ACLs, what costs is fetching them from
/// memory.
#[derive(Clone, Debug)]
pub(crate) struct Matcher {
    method: MatchMethod,
    inline: PatternSet,
    /// Through which those that stand in the ACL are changed.
    reference: Arc<PatternReference>,
    files: Box<[Arc<PatternExpression>]>,
    /// The user list whose groups the patterns are.
    user_list: Option<Box<str>>,
}

impl Matcher {
    pub(crate) fn new(
        method: MatchMethod,
        inline: PatternSet,
        reference: Arc<PatternReference>,
        files: Vec<Arc<PatternExpression>>,
        user_list: Option<Box<str>>,
    ) -> Self {
        Matcher { method, inline, reference, files: files.into_boxed_slice(), user_list }
    }

    /// Whether `value` matches one of the patterns, if it is of a type that needs no cast.
    #[inline]
    pub(crate) fn matches_as_is(&self, value: &Value<'_>) -> Option<bool> {
        match (self.method.input(), value) {
            (Type::Str, Value::Str(bytes)) if self.method != MatchMethod::Group => {
                Some(self.any(|set| set.find_bytes(bytes).is_some(), value))
            }
            (Type::Meth, Value::Meth(bytes)) => Some(self.any(|set| set.find_bytes(bytes).is_some(), value)),
            (Type::Addr, Value::Ipv4(_) | Value::Ipv6(_)) => Some(self.any(|set| set.find(value).is_some(), value)),
            (Type::Sint, Value::Bool(value)) if self.method == MatchMethod::Bool => Some(*value),
            (Type::Sint, Value::Sint(number)) if self.method != MatchMethod::Bool => {
                Some(self.any(|set| set.find_integer(*number).is_some(), value))
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
                let is_in = |group: &[u8]| context.in_group(list, &user, group);
                let is_in_any = |index: &LiveIndex| index.words().any(is_in);
                let inline = match self.reference.changed() {
                    None => self.inline.words().any(is_in),
                    Some(expression) => expression.read(is_in_any),
                };
                inline || self.files.iter().any(|file| file.read(is_in_any))
            }
            method => {
                let Some(value) = value.cast(method.input()) else { return false };
                self.any(|set| set.find(&value).is_some(), &value)
            }
        }
    }

    #[inline]
    fn any(&self, compiled: impl FnOnce(&PatternSet) -> bool, value: &Value<'_>) -> bool {
        let is_live = |expression: &PatternExpression| expression.read(|index| index.find(value).is_some());
        let inline = match self.reference.changed() {
            None => compiled(&self.inline),
            Some(expression) => is_live(expression),
        };
        inline || self.files.iter().any(|file| is_live(file))
    }
}
