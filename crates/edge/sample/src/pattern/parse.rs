//! Patterns in text.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::number;

/// Integers from `least` to `most`, either of which may be open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IntegerRange {
    pub(crate) least: Option<i64>,
    pub(crate) most: Option<i64>,
}

impl IntegerRange {
    pub(crate) fn contains(self, value: i64) -> bool {
        self.least.is_none_or(|least| least <= value) && self.most.is_none_or(|most| value <= most)
    }

    /// The range as text: as two numbers of 16 bits each if it is `dotted`.
    pub(crate) fn text(self, dotted: bool) -> String {
        let end = |value: Option<i64>| match value {
            Some(value) if dotted => format!("{}.{}", value >> 16, value & 0xffff),
            Some(value) => value.to_string(),
            None => String::new(),
        };
        format!("{}:{}", end(self.least), end(self.most))
    }
}

/// A network: an address and which of its bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    V4 { address: u32, mask: u32 },
    V6 { address: u128, bits: u32 },
}

/// Reads `value`, `low:high`, `low:`, `:high` (or with `-` for `:`).
pub(crate) fn integer_range(text: &[u8], dotted: bool) -> Result<IntegerRange, String> {
    let number = |text: &[u8]| if dotted { number::parse_dotted(text) } else { number::parse_integer(text) };
    let shown = || String::from_utf8_lossy(text).into_owned();
    let kind = if dotted { "dotted number" } else { "number" };
    let bad_range = || format!("'{}' is not a valid {kind} range", shown());
    let Some(position) = text.iter().position(|byte| matches!(byte, b':' | b'-')) else {
        if text.is_empty() {
            return Err(bad_range());
        }
        let article = if dotted { "a dotted number" } else { "a number" };
        let value = number(text).ok_or_else(|| format!("'{}' is not {article}", shown()))?;
        return Ok(IntegerRange { least: Some(value), most: Some(value) });
    };
    let (low, high) = (text.get(..position).unwrap_or_default(), text.get(position + 1..).unwrap_or_default());
    let (least, most) = match (low.is_empty(), high.is_empty()) {
        (true, true) => return Err(bad_range()),
        (true, false) => (None, Some(number(high).ok_or_else(bad_range)?)),
        (false, true) => (Some(number(low).ok_or_else(bad_range)?), None),
        (false, false) => (Some(number(low).ok_or_else(bad_range)?), Some(number(high).ok_or_else(bad_range)?)),
    };
    if let (Some(least), Some(most)) = (least, most)
        && least > most
    {
        return Err(bad_range());
    }
    Ok(IntegerRange { least, most })
}

/// An operator before integer patterns of an ACL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Equal,
    GreaterOrEqual,
    Greater,
    LessOrEqual,
    Less,
}

impl Operator {
    pub(crate) fn find(word: &[u8]) -> Option<Self> {
        Some(match word {
            b"eq" => Operator::Equal,
            b"ge" => Operator::GreaterOrEqual,
            b"gt" => Operator::Greater,
            b"le" => Operator::LessOrEqual,
            b"lt" => Operator::Less,
            _ => return None,
        })
    }
}

/// Reads an integer pattern of an ACL below the operator before it. A range is taken as it is, whatever the operator.
pub(crate) fn integer_pattern(text: &[u8], operator: Operator, dotted: bool) -> Result<IntegerRange, String> {
    if operator == Operator::Equal || text.iter().any(|byte| matches!(byte, b':' | b'-')) {
        return integer_range(text, dotted);
    }
    let shown = String::from_utf8_lossy(text);
    let value = if dotted { number::parse_dotted(text) } else { number::parse_integer(text) };
    let value = value.ok_or_else(|| format!("'{shown}' is neither a number nor a supported operator"))?;
    Ok(match operator {
        Operator::Equal => IntegerRange { least: Some(value), most: Some(value) },
        Operator::GreaterOrEqual => IntegerRange { least: Some(value), most: None },
        Operator::Greater => IntegerRange { least: Some(value.saturating_add(1)), most: None },
        Operator::LessOrEqual => IntegerRange { least: None, most: Some(value) },
        Operator::Less => IntegerRange { least: None, most: Some(value.saturating_sub(1)) },
    })
}

/// Reads an address with an optional mask; `resolve` is asked for the address of a host name.
pub(crate) fn network(text: &[u8], resolve: impl Fn(&str) -> Option<IpAddr>) -> Result<Network, String> {
    let refuse = || format!("'{}' is not a valid IPv4 or IPv6 address", String::from_utf8_lossy(text));
    let whole = std::str::from_utf8(text).map_err(|_| refuse())?;
    let (host, mask) = match whole.rsplit_once('/') {
        Some((host, mask)) => (host, Some(mask)),
        None => (whole, None),
    };
    let v4 = |address: Ipv4Addr| {
        let mask = match mask {
            Some(mask) => number::parse_mask4(mask.as_bytes())?,
            None => u32::MAX,
        };
        Some(Network::V4 { address: u32::from(address) & mask, mask })
    };
    if let Ok(address) = host.parse::<Ipv4Addr>() {
        return v4(address).ok_or_else(refuse);
    }
    if let Ok(address) = host.parse::<Ipv6Addr>() {
        let bits = match mask {
            Some(mask) => number::parse_bits(mask.as_bytes(), 128).ok_or_else(refuse)?,
            None => 128,
        };
        let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
        return Ok(Network::V6 { address: u128::from(address) & mask, bits });
    }
    match resolve(host) {
        Some(IpAddr::V4(address)) => v4(address).ok_or_else(refuse),
        _ => Err(refuse()),
    }
}
