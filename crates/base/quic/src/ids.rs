//! Ids of connections, which say where a connection is served.
//!
//! ```text
//!  process (4 bytes)   endpoint (2)   random (10)
//! ```
//!
//! RFC 9000 section 5.1 forbids what lets others correlate the ids of one connection: process and endpoint are those of many
//! connections, and the rest is random.

use quinn_proto::{ConnectionId, ConnectionIdGenerator, InvalidCid};

/// Bytes of an id.
pub const ID_BYTES: usize = 16;

/// Where a connection is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// The process.
    pub process: u32,
    /// Its endpoint: one worker's end of one socket ([`PostOffice::open`](crate::PostOffice::open)). A worker may have several sockets of one
    /// address.
    pub endpoint: u16,
}

impl Origin {
    /// What an id of this length and beginning says. Ids that clients have chosen say anything.
    fn of(id: &[u8]) -> Option<Self> {
        let (process, rest) = id.split_first_chunk()?;
        let endpoint = rest.first_chunk()?;
        Some(Self { process: u32::from_be_bytes(*process), endpoint: u16::from_be_bytes(*endpoint) })
    }

    /// Who serves the connection that a datagram is for; `None` if that is for none that exists yet, or no packet of QUIC.
    #[must_use]
    pub fn of_datagram(bytes: &[u8]) -> Option<Self> {
        const LONG_HEADER: u8 = 0x80;
        let (first, rest) = bytes.split_first()?;
        if first & LONG_HEADER == 0 {
            return Self::of(rest.get(..ID_BYTES)?);
        }
        // Behind the version stands a length.
        let (length, id) = rest.get(4..)?.split_first()?;
        if usize::from(*length) == ID_BYTES { Self::of(id.get(..ID_BYTES)?) } else { None }
    }

    fn write(self, random: [u8; ID_BYTES - 6]) -> ConnectionId {
        let mut id = [0; ID_BYTES];
        let bytes = self.process.to_be_bytes().into_iter().chain(self.endpoint.to_be_bytes()).chain(random);
        id.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
        ConnectionId::new(&id)
    }
}

/// Makes ids of one origin.
pub struct Ids {
    pub origin: Origin,
    /// Tokens of resets are those of other processes, too: whoever asks for a connection of one that is gone can be told.
    pub knows_others: bool,
}

impl ConnectionIdGenerator for Ids {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut random = [0; ID_BYTES - 6];
        // NOTE: without random numbers there is no QUIC: keys of handshakes need them too. What is left then are equal ids, which the
        // endpoint refuses to give out twice.
        let _ = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty());
        self.origin.write(random)
    }

    fn validate(&self, id: &ConnectionId) -> Result<(), InvalidCid> {
        if self.knows_others || Origin::of(id) == Some(self.origin) { Ok(()) } else { Err(InvalidCid) }
    }

    fn cid_len(&self) -> usize {
        ID_BYTES
    }

    fn cid_lifetime(&self) -> Option<std::time::Duration> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_name_their_endpoint() {
        let origin = Origin { process: 70_000, endpoint: 3 };
        let ids = |origin, knows_others| Ids { origin, knows_others };
        let id = ids(origin, false).generate_cid();
        assert!(ids(origin, false).validate(&id).is_ok());
        let other = Origin { endpoint: 4, ..origin };
        assert!(ids(other, false).validate(&id).is_err() && ids(other, true).validate(&id).is_ok());
        let short = [&[0x40][..], &id, b"payload"].concat();
        assert_eq!(Origin::of_datagram(&short), Some(origin));
        let long = [&[0xc3, 0, 0, 0, 1, ID_BYTES as u8][..], &id, b"\0payload"].concat();
        assert_eq!(Origin::of_datagram(&long), Some(origin));
        assert_ne!(ids(origin, false).generate_cid(), id);
    }

    #[test]
    fn what_names_nobody_is_told_apart() {
        for bytes in
            [&b""[..], b"\x40", b"\x40short", b"\xc0", b"\xc0\0\0\0\x01\x08clients!", b"\xc0\0\0\0\x01\x10cut off"]
        {
            assert_eq!(Origin::of_datagram(bytes), None, "{bytes:?}");
        }
    }
}
