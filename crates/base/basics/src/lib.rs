//! What texts of all rooms have in common: the calendar, hexadecimal digits, amounts, words that are nearly the same, and what time it is.
//! Knows nothing of any room, and uses nothing but the standard library.

pub mod amount;
pub mod calendar;
pub mod clock;
pub mod hex;
pub mod nearest;

pub use amount::{many, ordinal};
pub use calendar::Date;
pub use nearest::nearest;
