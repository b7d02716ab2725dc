//! Bytes for passwords, from a seed that is given.

use sha2::{Digest as _, Sha256};

/// Bytes that nobody can guess who does not know the seed: for passwords.
#[derive(Clone)]
pub struct Secrets {
    seed: [u8; 32],
    drawn: u64,
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Secrets")
    }
}

impl Secrets {
    /// Begins with a seed, which must be secret and never the same again.
    pub fn new(seed: [u8; 32]) -> Self {
        Self { seed, drawn: 0 }
    }

    /// The next bytes.
    pub fn draw(&mut self) -> [u8; 32] {
        self.drawn += 1;
        Sha256::new().chain_update(self.seed).chain_update(self.drawn.to_be_bytes()).finalize().into()
    }
}
