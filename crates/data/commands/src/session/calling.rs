//! What a caller within the process has that clients have not.

use keyspace::Millis;

/// A caller's command.
#[derive(Debug, Default)]
pub(crate) struct Calling {
    /// If it waits, it is answered at this time, as if its own were over.
    pub(crate) deadline: Option<Millis>,
    /// What has come of its reply, if that is given in portions.
    pub(crate) reply: Vec<u8>,
}
