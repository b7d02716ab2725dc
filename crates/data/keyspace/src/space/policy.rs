//! Which keys go when memory is full.

/// `maxmemory-policy`: what goes when memory is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaxmemoryPolicy {
    /// Of keys that expire, those not used for longest.
    VolatileLru,
    /// Of keys that expire, those used least often.
    VolatileLfu,
    /// Of keys that expire, any.
    VolatileRandom,
    /// Of keys that expire, those that expire first.
    VolatileTtl,
    /// Keys not used for longest.
    AllkeysLru,
    /// Keys used least often.
    AllkeysLfu,
    /// Any keys.
    AllkeysRandom,
    /// None: what is not used leaves memory but stays on disk; without a disk, writes are refused.
    NoEviction,
}

impl MaxmemoryPolicy {
    /// Whether keys are told apart by how often they are used.
    pub fn is_by_frequency(self) -> bool {
        matches!(self, Self::VolatileLfu | Self::AllkeysLfu)
    }

    /// Whether only keys that expire go.
    pub fn is_volatile(self) -> bool {
        matches!(self, Self::VolatileLru | Self::VolatileLfu | Self::VolatileRandom | Self::VolatileTtl)
    }
}
