//! What chooses a backend: directors of the module `directors`, and those of VCL 3.
//!
//! NOTE: they are not those of the crate `balance`. There a server has slots and a queue, and a choice takes one; here a choice is a
//! name, which may be chosen long before it is asked, and the same key must go where Varnish's would: its points on a ring and its
//! hash come from SHA-256.

mod members;
pub(crate) mod shard;
mod shard_parameters;

use sha2::{Digest as _, Sha256};
use vcl::{program::ObjectIndex, run::Backend};

pub use members::{Members, Policy};
pub use shard::Shard;
pub use shard_parameters::{By, Healthy, ShardParameters};
pub(crate) use shard_parameters::{ShardTask, Wishes, shard_key};

/// What a choice may depend on.
#[derive(Clone, Copy, Debug)]
pub struct Choice<'c> {
    /// What decides for a director of VCL 3 that goes by a key.
    pub key: &'c [u8],
    /// From 0 to 1, by chance.
    pub random: f64,
    /// The time.
    pub now: f64,
    /// What a shard director goes by.
    pub shard: ShardParameters,
}

/// What a director asks of the world about its members.
pub trait Neighbours {
    /// Whether a backend may be asked, or any of a director's.
    fn is_healthy(&self, backend: Backend) -> bool;
    /// When that changed; 0 if it never did.
    fn changed(&self, backend: Backend) -> f64;
}

/// A director.
#[derive(Debug)]
pub enum Director {
    /// One with a list of members.
    Members(Members),
    /// One with a ring.
    Shard(Shard),
}

impl Director {
    /// The backend for the next request.
    #[must_use]
    pub fn choose(&self, choice: &Choice<'_>, neighbours: &impl Neighbours) -> Option<Backend> {
        match self {
            Self::Members(members) => {
                members.choose(choice.key, choice.random, |backend| neighbours.is_healthy(backend))
            }
            Self::Shard(shard) => shard.choose(choice, neighbours),
        }
    }

    /// All that it chooses among.
    #[must_use]
    pub fn members(&self) -> Vec<Backend> {
        match self {
            Self::Members(members) => members.all().into_iter().map(|(backend, _)| backend).collect(),
            Self::Shard(shard) => shard.members(),
        }
    }

    /// Its kind in `backend.list`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Members(members) => members.policy().name(),
            Self::Shard(_) => "shard",
        }
    }

    /// The set of parameters that goes with it.
    pub(crate) fn associated(&self) -> Option<ObjectIndex> {
        match self {
            Self::Members(_) => None,
            Self::Shard(shard) => shard.associated(),
        }
    }
}

/// The number of 32 bits that Varnish makes of texts behind one another: the last bytes of their SHA-256, the lowest one first.
#[must_use]
pub fn hash_32(texts: &[&[u8]]) -> u32 {
    let mut hasher = Sha256::new();
    for text in texts {
        hasher.update(text);
    }
    let digest: [u8; 32] = hasher.finalize().into();
    let [.., a, b, c, d] = digest;
    u32::from_le_bytes([a, b, c, d])
}

#[cfg(test)]
mod tests;
