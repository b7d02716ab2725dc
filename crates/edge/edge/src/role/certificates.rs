//! Who serves the certificates that come by themselves: all listeners of the running instance.

use std::sync::Arc;

use acme::{Host, Level};
use haproxycfg::model::Config;
use live::{Shared, changes::Tone};
use logs::{AdminLog, LogLevel, Severity};
use tls::Identity;

use super::identities;

/// The running instance.
pub(super) struct Listeners {
    pub(super) shared: Arc<Shared>,
    pub(super) log: Arc<AdminLog>,
}

impl Host for Listeners {
    fn install(&self, name: &str, identity: &Arc<Identity>) {
        let instance = self.shared.instance();
        instance.tls.replace_certificate(name, identity);
    }

    fn show_in_map(&self, map: &str, key: &str, value: Option<&str>) {
        let instance = self.shared.instance();
        let Some(reference) = instance.config.patterns.of_file(map) else { return };
        match value {
            Some(value) => reference.put(key.as_bytes(), value.as_bytes()),
            None => {
                reference.delete(key.as_bytes());
            }
        }
    }

    fn tell(&self, level: Level, text: &str) {
        let (log_level, severity, tone) = match level {
            Level::Notice => (LogLevel::Notice, Severity::Notice, Tone::Good),
            Level::Warning => (LogLevel::Warning, Severity::Warning, Tone::Wary),
            Level::Alert => (LogLevel::Alert, Severity::Alert, Tone::Bad),
        };
        // For the statistics page, where sentences begin with a capital.
        let shown = text.replacen("certificate ", "Certificate ", 1);
        self.shared.process.changes.note(tone, None, shown);
        let instance = self.shared.instance();
        self.log.both(&instance.log_targets, log_level, severity, format_args!("{text}"));
    }
}

/// Who the process is going to be: the user and group that own what it makes before.
pub(super) fn owner(config: &Config) -> (Option<u32>, Option<u32>) {
    let global = &config.global;
    let user = identities::user(global.user.as_ref().map(|(identity, _)| identity));
    (user, identities::group(global.group.as_ref().map(|(identity, _)| identity)))
}
