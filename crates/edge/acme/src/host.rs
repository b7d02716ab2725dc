//! Who serves the certificates.

use std::sync::Arc;

use tls::Identity;

/// How urgent something is that is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// It is well.
    Notice,
    /// It did not go well, and is tried again.
    Warning,
    /// Somebody has to look at it.
    Alert,
}

/// Who serves the certificates. Called on the thread of certificates; must not block for long.
pub trait Host: Send + Sync {
    /// Serves this certificate from now on.
    fn install(&self, name: &str, identity: &Arc<Identity>);

    /// Sets an entry of a map, or removes it.
    fn show_in_map(&self, map: &str, key: &str, value: Option<&str>);

    /// Says something.
    fn tell(&self, level: Level, text: &str);
}
