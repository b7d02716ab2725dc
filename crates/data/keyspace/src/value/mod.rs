//! Values of keys.

pub mod copying;
mod directory;
pub(crate) mod footprint;
mod gathering;
pub mod hash;
pub mod hyperloglog;
pub(crate) mod ledger;
mod limits;
pub mod list;
pub mod named;
pub mod packed;
mod portions;
pub mod queue;
pub mod set;
pub mod sorted_set;
mod spread;
pub(crate) mod stored;
pub mod stream;
pub mod walk;

use crate::Bytes;
pub(crate) use gathering::{Gathering, SPAN as GATHERED};
pub use hash::Hash;
pub use ledger::Ledger;
pub use limits::ValueLimits;
pub use list::List;
pub use named::Named;
pub use portions::{Form, Portions};
pub use queue::Queue;
pub use set::Set;
pub use sorted_set::SortedSet;
pub use spread::Descriptor;
pub use stream::Stream;

/// What a key holds.
#[derive(Debug, Clone)]
pub enum Value {
    /// A string.
    String(Bytes),
    /// A list.
    List(Box<List>),
    /// A set.
    Set(Box<Set>),
    /// A sorted set.
    SortedSet(Box<SortedSet>),
    /// A hash.
    Hash(Box<Hash>),
    /// A stream.
    Stream(Box<Stream>),
    /// A queue.
    Queue(Box<Queue>),
}

impl Value {
    /// The type's name, as `TYPE` gives it.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::String(_) => "string",
            Self::List(_) => "list",
            Self::Set(_) => "set",
            Self::SortedSet(_) => "zset",
            Self::Hash(_) => "hash",
            Self::Stream(_) => "stream",
            Self::Queue(_) => "queue",
        }
    }
}

/// A type of values, so that a lookup can ask for it.
pub trait Kind: Sized {
    /// The value as this type, if it is one.
    fn of(value: &Value) -> Option<&Self>;
    /// The same to change it.
    fn of_mut(value: &mut Value) -> Option<&mut Self>;
    /// A value of this type.
    fn into_value(self) -> Value;
    /// Whether it has more elements than are kept whole.
    fn is_beyond(&self, whole_max: usize) -> bool;
}

impl Kind for Bytes {
    fn of(value: &Value) -> Option<&Self> {
        if let Value::String(string) = value { Some(string) } else { None }
    }
    fn of_mut(value: &mut Value) -> Option<&mut Self> {
        if let Value::String(string) = value { Some(string) } else { None }
    }
    fn into_value(self) -> Value {
        Value::String(self)
    }
    fn is_beyond(&self, _: usize) -> bool {
        false
    }
}

macro_rules! kinds {
    ($($kind:ident),*) => {$(
        impl Kind for $kind {
            fn of(value: &Value) -> Option<&Self> {
                if let Value::$kind(inner) = value { Some(inner) } else { None }
            }
            fn of_mut(value: &mut Value) -> Option<&mut Self> {
                if let Value::$kind(inner) = value { Some(inner) } else { None }
            }
            fn into_value(self) -> Value {
                Value::$kind(Box::new(self))
            }
            fn is_beyond(&self, whole_max: usize) -> bool {
                $kind::is_beyond(self, whole_max)
            }
        }
    )*};
}

kinds!(List, Set, SortedSet, Hash, Stream, Queue);

const _: () = assert!(size_of::<Option<Value>>() <= 32);
