//! What programs have in common that come one after another.

mod files;
mod throttles;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use files::FilesRead;
pub(crate) use throttles::ThrottleCall;
use throttles::Throttles;

/// Files that programs have read, tokens of `vsthrottle`, chance.
#[derive(Debug, Default)]
pub struct Lasting {
    pub(crate) files: FilesRead,
    pub(crate) throttles: Throttles,
    drawn: AtomicU64,
}

impl Lasting {
    /// A number from 0 to 1, by chance: another one each time. Nobody who sees some can be kept from knowing the next.
    pub(crate) fn draw(&self, now: f64) -> f64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let drawn = self.drawn.fetch_add(STEP, Relaxed) ^ now.to_bits();
        let mixed = (drawn ^ (drawn >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}
