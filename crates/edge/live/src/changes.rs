//! What changed lately: servers that went up or down, what administrators did, reloads. Kept in the process, so that the
//! page shows what happened before it was opened.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use haproxycfg::model::Config;

/// Changes that are remembered.
pub const CHANGES_MAX: usize = 200;
/// Bytes of a text that are remembered.
const TEXT_LEN_MAX: usize = 400;
/// Names of proxies that a reload names.
const NAMES_MAX: usize = 6;

/// What a change means for those who use the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Something works again.
    Good,
    /// Something may fail soon.
    Wary,
    /// Something does not work.
    Bad,
    /// An administrator wanted it so.
    Neutral,
}

impl Tone {
    /// The page's word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Wary => "wary",
            Self::Bad => "bad",
            Self::Neutral => "idle",
        }
    }

    /// Of what a farm says. Its messages are HAProxy's, and so are the words that are looked for.
    #[must_use]
    pub fn of_message(level: balance::LogLevel, text: &str) -> Self {
        match level {
            balance::LogLevel::Emergency | balance::LogLevel::Alert => Self::Bad,
            _ if text.contains(" is UP") => Self::Good,
            _ if text.contains("maintenance") || text.contains("drain") => Self::Neutral,
            _ => Self::Wary,
        }
    }
}

/// A change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its number, from 1.
    pub number: u64,
    /// When, since the epoch.
    pub at: Duration,
    /// What it means.
    pub tone: Tone,
    /// The proxy that it is about, if it is about one.
    pub proxy: Option<Arc<str>>,
    /// What happened.
    pub text: String,
    /// What it sets. A change that sets the same again takes the place of the one before, as programs set weights
    /// every few seconds.
    topic: Option<String>,
}

/// The last changes.
#[derive(Debug, Default)]
pub struct Changes(Mutex<Log>);

#[derive(Debug, Default)]
struct Log {
    last: u64,
    changes: VecDeque<Change>,
}

impl Changes {
    /// Remembers that something happened.
    pub fn note(&self, tone: Tone, proxy: Option<&Arc<str>>, text: impl Into<String>) {
        self.push(tone, proxy, text.into(), None);
    }

    /// Remembers that a configuration was loaded in place of another one.
    pub fn note_reload(&self, before: &Config, now: &Config) {
        let names = |config: &Config| config.proxies.iter().map(|proxy| Arc::clone(&proxy.name)).collect::<Vec<_>>();
        let (before, now) = (names(before), names(now));
        let only_in = |these: &[Arc<str>], those: &[Arc<str>]| {
            let found: Vec<_> = these.iter().filter(|name| !those.contains(name)).map(|name| &**name).collect();
            match found.len() {
                0 => None,
                count if count > NAMES_MAX => Some(format!("{count} proxies")),
                _ => Some(found.join(", ")),
            }
        };
        let mut text = "Configuration loaded again".to_owned();
        for (verb, names) in [("new", only_in(&now, &before)), ("gone", only_in(&before, &now))] {
            if let Some(names) = names {
                text.push_str(&format!("; {verb}: {names}"));
            }
        }
        self.note(Tone::Neutral, None, text);
    }

    /// Remembers that something was set; another value of the same topic takes its place as long as nothing else happens.
    pub fn note_setting(&self, proxy: Option<&Arc<str>>, topic: String, text: String) {
        self.push(Tone::Neutral, proxy, text, Some(topic));
    }

    fn push(&self, tone: Tone, proxy: Option<&Arc<str>>, mut text: String, topic: Option<String>) {
        text.truncate(text.floor_char_boundary(TEXT_LEN_MAX));
        let at = basics::clock::since_1970();
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let repeats = |last: &Change| topic.is_some() && last.topic == topic && last.proxy.as_ref() == proxy;
        if log.changes.back().is_some_and(repeats) {
            log.changes.pop_back();
        } else if log.changes.len() >= CHANGES_MAX {
            log.changes.pop_front();
        }
        log.last += 1;
        let number = log.last;
        log.changes.push_back(Change { number, at, tone, proxy: proxy.cloned(), text, topic });
    }

    /// Those after the one of that number, the oldest first; all, where no change has that number yet.
    #[must_use]
    pub fn after(&self, number: u64) -> Vec<Change> {
        let log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = if number > log.last { 0 } else { number };
        log.changes.iter().filter(|change| change.number > number).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(changes: &Changes, number: u64) -> Vec<String> {
        changes.after(number).into_iter().map(|change| change.text).collect()
    }

    #[test]
    fn only_the_last_are_kept() {
        let changes = Changes::default();
        for number in 1..=CHANGES_MAX + 5 {
            changes.note(Tone::Good, None, format!("{number}"));
        }
        let kept = changes.after(0);
        assert_eq!((kept.len(), kept[0].number, &*kept[0].text), (CHANGES_MAX, 6, "6"));
        assert_eq!(texts(&changes, 204), ["205"]);
        assert_eq!(changes.after(205), []);
        assert_eq!(changes.after(9_999).len(), CHANGES_MAX, "the number of another process");
        changes.note(Tone::Bad, None, "é".repeat(TEXT_LEN_MAX));
        assert_eq!(texts(&changes, 205)[0].len(), TEXT_LEN_MAX);
    }

    #[test]
    fn tones_of_messages() {
        use balance::LogLevel::{Alert, Emergency, Notice};
        for (level, text, tone) in [
            (Alert, "Server app/s1 is DOWN, reason: Layer4 timeout.", Tone::Bad),
            (Emergency, "backend app has no server available!", Tone::Bad),
            (Notice, "Server app/s1 is UP, reason: Layer4 check passed.", Tone::Good),
            (Notice, "Server app/s1 is UP/READY (leaving forced maintenance).", Tone::Good),
            (Notice, "Server app/s1 is going DOWN for maintenance.", Tone::Neutral),
            (Notice, "Server app/s1 enters drain state.", Tone::Neutral),
            (Notice, "Server app/s1 is stopping.", Tone::Wary),
        ] {
            assert_eq!(Tone::of_message(level, text), tone, "{text}");
        }
    }
}
