//! Telling systemd how the processes are. A service manager that does not listen is no reason to stop serving.

use std::io;

/// Sends states to the service manager.
#[derive(Debug, Default)]
pub(crate) struct Notifier(supervise::Notifier);

impl Notifier {
    /// As the environment says.
    pub(crate) fn from_environment() -> Self {
        Self(supervise::Notifier::from_environment())
    }

    /// Serving.
    pub(crate) fn ready(&self, status: &str) {
        report(self.0.ready(status));
    }

    /// A reload began.
    pub(crate) fn reloading(&self) {
        report(self.0.reloading(super::now()));
    }

    /// Ending.
    pub(crate) fn stopping(&self) {
        report(self.0.stopping("ending"));
    }
}

fn report(sent: io::Result<()>) {
    if let Err(error) = sent {
        crate::log::warning!("cannot notify the service manager: {error}");
    }
}
