//! What expressions give.

use std::net::IpAddr;

use crate::{
    pattern::Pattern,
    program::{AclIndex, BackendIndex, HeaderRef, ObjectIndex, ProbeIndex, RoutineIndex, StorageIndex},
    variables::Message,
};

/// A backend, or what chooses one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backend {
    /// One that the program declares.
    Declared(BackendIndex),
    /// A director of VCL 3, by its place in the program.
    Director(u32),
    /// An object that chooses.
    Object(ObjectIndex),
    /// What only the host knows.
    Host(u32),
}

/// A value. Texts and bytes live in the workspace or in the program.
#[derive(Clone, Copy, Debug)]
pub enum Value<'w> {
    /// Nothing.
    Void,
    /// A condition.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Real(f64),
    /// Seconds.
    Duration(f64),
    /// Seconds since 1970.
    Time(f64),
    /// Bytes.
    Bytes(i64),
    /// A text; none for what is not set.
    String(Option<&'w [u8]>),
    /// Bytes.
    Blob(Option<&'w [u8]>),
    /// An address with its port; none for one that is not known.
    Ip(Option<(IpAddr, u16)>),
    /// A backend; none for `none`.
    Backend(Option<Backend>),
    /// A list of addresses.
    Acl(AclIndex),
    /// A probe.
    Probe(Option<ProbeIndex>),
    /// A storage.
    Storage(Option<StorageIndex>),
    /// A routine.
    Routine(RoutineIndex),
    /// One of a few words.
    Enum(&'static str),
    /// A header as such.
    Header(&'w HeaderRef),
    /// A message as such.
    Message(Message),
    /// A regular expression.
    Regex(&'w Pattern),
}

impl<'w> Value<'w> {
    /// The text, if it is one.
    #[must_use]
    pub const fn text(self) -> Option<&'w [u8]> {
        match self {
            Self::String(text) => text,
            _ => None,
        }
    }

    /// Whether it holds as a condition.
    #[must_use]
    pub fn is_true(self) -> bool {
        match self {
            Self::Bool(value) => value,
            Self::Int(value) => value != 0,
            Self::Duration(value) => value > 0.0,
            Self::String(text) => text.is_some(),
            Self::Backend(backend) => backend.is_some(),
            _ => false,
        }
    }

    /// The number that it is.
    #[must_use]
    pub const fn number(self) -> Option<f64> {
        match self {
            Self::Int(value) | Self::Bytes(value) => Some(value as f64),
            Self::Real(value) | Self::Duration(value) | Self::Time(value) => Some(value),
            _ => None,
        }
    }
}
