//! How long the parts of a message may be, and how much a queue keeps of what it counts. The longest body is a setting of whoever owns
//! the queue.

/// The longest name of a group of messages.
pub const GROUP_LEN_MAX: usize = 256;
/// The longest de-duplication id.
pub const ID_LEN_MAX: usize = 256;
/// The longest name of where an answer goes.
pub const REPLY_TO_LEN_MAX: usize = 1024;
/// How many headers a message has at most.
pub const HEADERS_MAX: usize = 64;
/// The longest name of a header.
pub const HEADER_NAME_LEN_MAX: usize = 256;
/// The longest value of a header.
pub const HEADER_LEN_MAX: usize = 64 << 10;
/// The longest name of a consumer that is kept; longer ones are cut.
pub const CONSUMER_LEN_MAX: usize = 128;
/// The longest reason that is kept; longer ones are cut.
pub const REASON_LEN_MAX: usize = 256;
/// How many consumers a queue knows by name; those that were silent for longest are forgotten first.
pub const CONSUMERS_MAX: usize = 64;
/// How many reasons of failures a queue counts one by one.
pub const REASONS_MAX: usize = 32;
/// How many priorities of ready messages a queue keeps apart; with more of them, finding the next message takes longer.
pub const LANES_MAX: usize = 64;
/// How many messages a command moves that are due, besides what it does itself.
pub const DUE_STEPS: usize = 128;
/// How many rounds of that a reservation makes which finds nothing.
pub const DUE_ROUNDS: usize = 8;
/// How many due messages are counted exactly for a look at the figures.
pub const COUNTED_MAX: usize = 10_000;

/// A string, cut to a length.
pub fn cut(string: &[u8], len_max: usize) -> &[u8] {
    string.get(..len_max).unwrap_or(string)
}
