//! The settings that a store has, for help, manual pages and completions.

use commands::config::{SETTINGS, Settings, State};

/// What help tells of a setting.
#[derive(Debug, Clone)]
pub struct SettingHelp {
    /// Its name in redis.conf, and behind `--` on the command line.
    pub name: &'static str,
    /// What it is.
    pub doc: &'static str,
    /// What it is when nothing is said; may be nothing.
    pub default: String,
}

/// The settings that do something, by name.
#[must_use]
pub fn settings() -> Vec<SettingHelp> {
    let defaults = Settings::default();
    let supported = SETTINGS.iter().filter(|setting| setting.state == State::Supported);
    let mut settings: Vec<_> = supported
        .map(|setting| SettingHelp { name: setting.name, doc: setting.doc, default: (setting.text)(&defaults) })
        .collect();
    settings.sort_by_key(|setting| setting.name);
    settings
}
