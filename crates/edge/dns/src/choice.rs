//! Which of a name's addresses a server takes.

use std::net::IpAddr;

use crate::{Record, records::Records};

/// A network, for `resolve-net`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// Its address.
    pub address: IpAddr,
    /// Bits of it that count.
    pub bits: u8,
}

impl Network {
    /// Whether an address is in it.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let bits = u32::from(self.bits);
        match (self.address, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let mask = u32::MAX.checked_shl(32_u32.saturating_sub(bits)).unwrap_or(0);
                (network.to_bits() ^ address.to_bits()) & mask == 0
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let mask = u128::MAX.checked_shl(128_u32.saturating_sub(bits)).unwrap_or(0);
                (network.to_bits() ^ address.to_bits()) & mask == 0
            }
            _ => false,
        }
    }
}

/// What a server wants of its addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `resolve-prefer ipv4`; IPv6 otherwise.
    pub prefer_ipv4: bool,
    /// `resolve-net`.
    pub networks: Vec<Network>,
    /// `allow-dup-ip`: two servers of a backend may have the same address.
    pub allow_duplicates: bool,
    /// `ignore-weight`: weights of services do not count.
    pub ignore_weight: bool,
}

/// What came of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The address that it has is the best.
    Keep {
        /// The record with that address.
        item: u64,
    },
    /// Another one.
    Change {
        /// The record with that address.
        item: u64,
        /// The address.
        address: IpAddr,
    },
    /// There is none.
    None,
}

const SCORE_FAMILY: u8 = 8;
const SCORE_NETWORK: u8 = 4;
const SCORE_FREE: u8 = 2;
const SCORE_CURRENT: u8 = 1;
const SCORE_MAX: u8 = SCORE_FAMILY + SCORE_NETWORK + SCORE_FREE + SCORE_CURRENT;

/// The address of `records` that fits best: of the preferred family before of a preferred network, before one that no other
/// server has, before the one that is there. `is_taken` tells whether another server of the backend has a record.
pub(crate) fn choose(
    records: &mut Records,
    options: &Options,
    current: Option<IpAddr>,
    is_taken: &dyn Fn(&[crate::ServerKey]) -> bool,
) -> Choice {
    let mut best: Option<(u8, u64, IpAddr)> = None;
    for item in records.iter() {
        let Record::Address(address) = item.record else { continue };
        let mut score = 0;
        if address.is_ipv4() == options.prefer_ipv4 {
            score += SCORE_FAMILY;
        }
        if options.networks.iter().any(|network| network.contains(address)) {
            score += SCORE_NETWORK;
        }
        if !is_taken(&item.servers) {
            score += SCORE_FREE;
        } else if !options.allow_duplicates {
            continue;
        }
        if current == Some(address) {
            score += SCORE_CURRENT;
        }
        if best.is_none_or(|(most, ..)| score > most) {
            best = Some((score, item.id, address));
            if score == SCORE_MAX {
                return Choice::Keep { item: item.id };
            }
        }
    }
    let Some((_, item, address)) = best else { return Choice::None };
    records.rotate();
    if current == Some(address) { Choice::Keep { item } } else { Choice::Change { item, address } }
}
