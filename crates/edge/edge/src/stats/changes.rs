//! What changed lately: servers that went up or down, what administrators did, reloads. Kept in the process, so that the
//! page shows what happened before it was opened.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use haproxycfg::model::Config;

use super::control::{FrontendChange, ProcessChange, ServerChange};

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

    /// Remembers a change of a server that its farm says nothing about.
    pub fn note_server(&self, proxy: &Arc<str>, server: &str, change: &ServerChange) {
        if let Some((what, value)) = words(change) {
            let topic = format!("{what} {server}");
            let text = format!("{proxy}/{server}: {what}{value}");
            self.push(Tone::Neutral, Some(proxy), text, Some(topic));
        }
    }

    /// Remembers a change of a frontend.
    pub fn note_frontend(&self, proxy: &Arc<str>, change: FrontendChange) {
        let (tone, what) = match change {
            FrontendChange::MaxConn(limit) => (Tone::Neutral, format!("maxconn set to {limit}")),
            FrontendChange::Pause => (Tone::Neutral, "disabled: it refuses connections".to_owned()),
            FrontendChange::Resume => (Tone::Good, "enabled again".to_owned()),
            FrontendChange::Stop => (Tone::Neutral, "shut down for good".to_owned()),
        };
        self.note(tone, Some(proxy), format!("{proxy}: {what}"));
    }

    /// Remembers a change of the process.
    pub fn note_process(&self, change: ProcessChange) {
        let (what, value) = match change {
            ProcessChange::MaxConn(limit) => ("maxconn", limit),
            ProcessChange::ConnectionRate(limit) => ("greatest rate of connections", limit),
            ProcessChange::CompressionRate(limit) => ("greatest rate of compression (kB/s)", limit),
            ProcessChange::SessionRate(limit) => ("greatest rate of sessions", limit),
        };
        let value = if value == 0 { "its default".to_owned() } else { value.to_string() };
        self.push(Tone::Neutral, None, format!("Process: {what} set to {value}"), Some(what.to_owned()));
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

    fn push(&self, tone: Tone, proxy: Option<&Arc<str>>, mut text: String, topic: Option<String>) {
        text.truncate(text.floor_char_boundary(TEXT_LEN_MAX));
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
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

/// What a change of a server sets, and to what, where its farm has no message about it.
fn words(change: &ServerChange) -> Option<(&'static str, String)> {
    let place = |ip: &Option<std::net::IpAddr>, port: Option<String>| {
        let parts = [ip.map(|ip| ip.to_string()), port.map(|port| format!("port {port}"))];
        format!(" set to {}", parts.into_iter().flatten().collect::<Vec<_>>().join(" "))
    };
    Some(match change {
        ServerChange::Ready | ServerChange::Drain | ServerChange::Maintain | ServerChange::Health(_) => return None,
        ServerChange::Agent(_) => return None,
        ServerChange::Checks(true) => ("health checks started", String::new()),
        ServerChange::Checks(false) => ("health checks stopped", String::new()),
        ServerChange::AgentChecks(true) => ("agent is asked again", String::new()),
        ServerChange::AgentChecks(false) => ("agent is asked no more", String::new()),
        ServerChange::Weight(weight) => ("weight", format!(" set to {weight}")),
        ServerChange::MaxConn(limit) => ("maxconn", format!(" set to {limit}")),
        ServerChange::Address { ip, port } => {
            let port = port.as_ref().map(|port| match port {
                super::control::PortChange::Fixed(port) => port.to_string(),
                super::control::PortChange::Offset(offset) => format!("{offset:+}"),
                super::control::PortChange::Unreadable(text) => text.clone(),
            });
            ("address", place(ip, port))
        }
        ServerChange::CheckAddress { ip, port } => ("address of checks", place(ip, port.map(|port| port.to_string()))),
        ServerChange::AgentAddress { ip, port } => {
            ("address of the agent", place(ip, port.map(|port| port.to_string())))
        }
        ServerChange::AgentSend(_) => ("question to the agent changed", String::new()),
        ServerChange::HostName(name) => ("host name", format!(" set to {name}")),
        ServerChange::ShutSessions => ("all sessions ended", String::new()),
    })
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
    fn what_is_set_again_and_again_takes_one_place() {
        let changes = Changes::default();
        let app: Arc<str> = "app".into();
        for weight in ["10%", "20%", "30%"] {
            changes.note_server(&app, "s1", &ServerChange::Weight(weight.into()));
        }
        changes.note_server(&app, "s2", &ServerChange::Weight("1".into()));
        changes.note_server(&app, "s2", &ServerChange::ShutSessions);
        changes.note_server(&app, "s2", &ServerChange::Drain);
        assert_eq!(
            texts(&changes, 0),
            ["app/s1: weight set to 30%", "app/s2: weight set to 1", "app/s2: all sessions ended"]
        );
        assert_eq!(changes.after(0)[0].number, 3);
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
