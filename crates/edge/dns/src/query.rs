//! Questions.

use crate::Name;

/// The records that are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// IPv4 addresses.
    A,
    /// IPv6 addresses.
    Aaaa,
    /// Services: hosts, ports and weights.
    Srv,
}

impl Kind {
    /// Its number.
    #[must_use]
    pub const fn code(self) -> u16 {
        match self {
            Self::A => 1,
            Self::Aaaa => 28,
            Self::Srv => 33,
        }
    }

    /// What has that number.
    #[must_use]
    pub const fn from_code(code: u16) -> Option<Self> {
        match code {
            1 => Some(Self::A),
            28 => Some(Self::Aaaa),
            33 => Some(Self::Srv),
            _ => None,
        }
    }

    /// What is asked for instead when there is none of it.
    #[must_use]
    pub const fn fallback(self) -> Option<Self> {
        match self {
            Self::A => Some(Self::Aaaa),
            Self::Aaaa => Some(Self::A),
            Self::Srv => None,
        }
    }
}

/// The class of the internet.
pub(crate) const CLASS_IN: u16 = 1;

/// The type of EDNS0's record.
const OPT: u16 = 41;

/// A question that wishes for recursion and takes answers of up to `payload_size` bytes.
#[must_use]
pub fn encode_query(id: u16, kind: Kind, name: &Name, payload_size: u16) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.wire().len() + 28);
    // Flags: recursion desired. Then the counts of questions, answers, authorities and additional records.
    for number in [id, 0x0100, 1, 0, 0, 1] {
        out.extend_from_slice(&number.to_be_bytes());
    }
    out.extend_from_slice(name.wire());
    out.push(0);
    out.extend_from_slice(&kind.code().to_be_bytes());
    out.extend_from_slice(&CLASS_IN.to_be_bytes());
    // The root, the type, the size in place of a class, extended flags in place of a time to live, no data.
    out.push(0);
    out.extend_from_slice(&OPT.to_be_bytes());
    out.extend_from_slice(&payload_size.to_be_bytes());
    out.extend_from_slice(&[0; 6]);
    out
}
