//! Typed samples and the casts between their types.
//!
//! Whether a cast exists at all is known from the types alone ([`Type::casts_to`]) and is checked when an expression is
//! parsed; whether one given value survives it (is this text an address?) is known only when it is evaluated
//! ([`Value::cast`]).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::bytes::Bytes;
use crate::number;

/// The types of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// Any type: known only when the sample is there (a variable).
    Any,
    /// True or false.
    Bool,
    /// A signed integer of 64 bits.
    Sint,
    /// An address of either family; only an input type.
    Addr,
    /// An IPv4 address.
    Ipv4,
    /// An IPv6 address.
    Ipv6,
    /// A character string.
    Str,
    /// A block of bytes.
    Bin,
    /// An HTTP method.
    Meth,
}

impl Type {
    /// The name used in messages and in the reference.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Type::Any => "any",
            Type::Bool => "bool",
            Type::Sint => "sint",
            Type::Addr => "addr",
            Type::Ipv4 => "ipv4",
            Type::Ipv6 => "ipv6",
            Type::Str => "str",
            Type::Bin => "bin",
            Type::Meth => "meth",
        }
    }

    /// Whether a sample of this type can be turned into one of type `to`, at least for some values.
    #[must_use]
    pub const fn casts_to(self, to: Type) -> bool {
        use Type::{Addr, Any, Bin, Bool, Ipv4, Ipv6, Meth, Sint, Str};
        match (self, to) {
            (Any, _) | (_, Any) => true,
            (Bool, Bool | Sint | Str | Bin) => true,
            (Sint, Bool | Sint | Addr | Ipv4 | Ipv6 | Str | Bin) => true,
            (Ipv4, Sint | Addr | Ipv4 | Ipv6 | Str | Bin) => true,
            (Ipv6, Addr | Ipv4 | Ipv6 | Str | Bin) => true,
            (Str, _) => true,
            (Bin, Str | Bin | Meth) => true,
            (Meth, Str | Bin | Meth) => true,
            (Bool | Sint | Addr | Ipv4 | Ipv6 | Bin | Meth, _) => false,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A sample's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// True or false.
    Bool(bool),
    /// A signed integer.
    Sint(i64),
    /// An IPv4 address.
    Ipv4(Ipv4Addr),
    /// An IPv6 address.
    Ipv6(Ipv6Addr),
    /// A character string, in no particular encoding.
    Str(Bytes<'a>),
    /// A block of bytes.
    Bin(Bytes<'a>),
    /// An HTTP method, as written.
    Meth(Bytes<'a>),
}

impl<'a> Value<'a> {
    /// A string.
    pub fn str(text: impl Into<Bytes<'a>>) -> Self {
        Value::Str(text.into())
    }

    /// A block of bytes.
    pub fn bin(bytes: impl Into<Bytes<'a>>) -> Self {
        Value::Bin(bytes.into())
    }

    /// An address of either family.
    #[must_use]
    pub fn address(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Value::Ipv4(address),
            IpAddr::V6(address) => Value::Ipv6(address),
        }
    }

    /// The type of this value.
    #[must_use]
    pub const fn kind(&self) -> Type {
        match self {
            Value::Bool(_) => Type::Bool,
            Value::Sint(_) => Type::Sint,
            Value::Ipv4(_) => Type::Ipv4,
            Value::Ipv6(_) => Type::Ipv6,
            Value::Str(_) => Type::Str,
            Value::Bin(_) => Type::Bin,
            Value::Meth(_) => Type::Meth,
        }
    }

    /// The value as one of type `to`; none when there is no such cast or this value does not survive it.
    #[must_use]
    pub fn cast(self, to: Type) -> Option<Value<'a>> {
        match to {
            Type::Any => Some(self),
            Type::Bool => match self {
                Value::Bool(_) => Some(self),
                other => other.to_integer().map(|value| Value::Bool(value != 0)),
            },
            // An IPv4 address becomes an integer, never a condition.
            Type::Sint => match self {
                Value::Ipv4(address) => Some(Value::Sint(i64::from(u32::from(address)))),
                other => other.to_integer().map(Value::Sint),
            },
            Type::Addr => self.to_address(),
            Type::Ipv4 => match self.to_address_or(Type::Ipv4)? {
                Value::Ipv6(address) => number::mapped_v4(address).map(Value::Ipv4),
                other => Some(other),
            },
            Type::Ipv6 => match self.to_address_or(Type::Ipv6)? {
                Value::Ipv4(address) => Some(Value::Ipv6(address.to_ipv6_mapped())),
                other => Some(other),
            },
            Type::Str => self.into_text().map(Value::Str),
            Type::Bin => self.into_block().map(Value::Bin),
            Type::Meth => match self {
                Value::Str(bytes) | Value::Bin(bytes) | Value::Meth(bytes) => Some(Value::Meth(bytes)),
                _ => None,
            },
        }
    }

    fn to_integer(&self) -> Option<i64> {
        match self {
            Value::Bool(value) => Some(i64::from(*value)),
            Value::Sint(value) => Some(*value),
            Value::Str(text) if !text.is_empty() => Some(number::read_int64(text).0),
            _ => None,
        }
    }

    fn to_address(&self) -> Option<Value<'a>> {
        match self {
            Value::Sint(value) => Some(Value::Ipv4(number::low_address(*value))),
            Value::Ipv4(address) => Some(Value::Ipv4(*address)),
            Value::Ipv6(address) => Some(Value::Ipv6(*address)),
            Value::Str(text) => number::parse_address(text).map(Value::address),
            Value::Bool(_) | Value::Bin(_) | Value::Meth(_) => None,
        }
    }

    /// Like `to_address`, but a string must be an address of the family asked for.
    fn to_address_or(&self, family: Type) -> Option<Value<'a>> {
        let address = self.to_address()?;
        if matches!(self, Value::Str(_)) && address.kind() != family {
            return None;
        }
        Some(address)
    }

    /// The text of this value, as `cast(Type::Str)` makes it.
    #[must_use]
    pub fn into_text(self) -> Option<Bytes<'a>> {
        match self {
            Value::Bool(value) => Some(Bytes::Borrowed(if value { b"1" } else { b"0" })),
            Value::Sint(value) => Some(value.to_string().into()),
            Value::Ipv4(address) => Some(address.to_string().into()),
            Value::Ipv6(address) => Some(number::ipv6_text(address).into()),
            Value::Str(bytes) | Value::Meth(bytes) => Some(bytes),
            // A string ends at its first NUL.
            Value::Bin(bytes) => {
                let end = memchr::memchr(0, &bytes).unwrap_or(bytes.len());
                Some(bytes.slice(0, end))
            }
        }
    }

    /// The bytes of this value, as `cast(Type::Bin)` makes them: integers and addresses in network byte order.
    #[must_use]
    pub fn into_block(self) -> Option<Bytes<'a>> {
        match self {
            Value::Bool(value) => Some(i64::from(value).to_be_bytes().to_vec().into()),
            Value::Sint(value) => Some(value.to_be_bytes().to_vec().into()),
            Value::Ipv4(address) => Some(address.octets().to_vec().into()),
            Value::Ipv6(address) => Some(address.octets().to_vec().into()),
            Value::Str(bytes) | Value::Bin(bytes) | Value::Meth(bytes) => Some(bytes),
        }
    }

    /// A copy that borrows nothing: what a variable keeps.
    #[must_use]
    pub fn into_static(self) -> Value<'static> {
        match self {
            Value::Bool(value) => Value::Bool(value),
            Value::Sint(value) => Value::Sint(value),
            Value::Ipv4(address) => Value::Ipv4(address),
            Value::Ipv6(address) => Value::Ipv6(address),
            Value::Str(bytes) => Value::Str(Bytes::Shared(bytes.into_shared())),
            Value::Bin(bytes) => Value::Bin(Bytes::Shared(bytes.into_shared())),
            Value::Meth(bytes) => Value::Meth(Bytes::Shared(bytes.into_shared())),
        }
    }
}
