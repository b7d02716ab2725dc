//! Settings of a store that its cluster keeps: what they may be, and which are not for people to set because the cluster decides them.

use super::{Change, SETTINGS, SettingError, Settings, file, find};

/// What the cluster decides itself, and by which command.
const OF_CLUSTER: &[(&str, &str)] = &[
    ("aclfile", "the agent and the proxies log in as the user `default`, whom a file of users could lock out"),
    ("bind", "stores listen at their host's address (`tidegate cluster up --host`)"),
    ("cluster-agent-socket", "each host's agent gives its stores its own"),
    ("cluster-enabled", "each store of a cluster is a node of it"),
    ("cluster-node-timeout", "`tidegate cluster up --failover-after MS` says after which silence a master is given up"),
    ("cluster-settings-told", "the agent notes by it what the store was told (`tidegate cluster config set`)"),
    ("cluster-wait-for-agent", "an agent that waits for a rescue sets it for the nodes that it starts"),
    ("daemonize", "the agent runs the store, and starts it again when it ends"),
    ("dir", "each store has a folder of its own in the cluster's (`tidegate cluster up --dir`)"),
    ("logfile", "the agent writes what stores say to the folder `logs` of the cluster"),
    ("masterauth", "it is the cluster's password (`tidegate cluster up --requirepass-file`)"),
    ("masteruser", "stores log in to each other as the user `default`"),
    ("pidfile", "the agent knows the store's process (`tidegate cluster status`)"),
    ("port", "each store has a port of its own (`tidegate cluster server add GROUP HOST:PORT`)"),
    ("protected-mode", "`tidegate cluster up --protected-mode` says it for stores and proxies"),
    (
        "replica-ack",
        "it follows from how many replicas the group's writes wait for (`tidegate cluster up --ack`, `server remove --ack`)",
    ),
    ("replica-announce-ip", "others know the store by the address that the cluster has"),
    ("replica-announce-port", "others know the store by the address that the cluster has"),
    ("replicaof", "the cluster decides who follows whom (`tidegate cluster server promote`)"),
    ("requirepass", "it is the cluster's password (`tidegate cluster up --requirepass-file`)"),
    ("supervised", "the agent runs the store, and starts it again when it ends"),
    ("tables-engine", "the data of a store stays in the engine that it was written with"),
];
/// What begins so is the cluster's, too.
const TLS: (&str, &str) = ("tls-", "what nodes, agents and proxies say to each other has no TLS");
/// What no two stores may share.
const OF_ONE_STORE: &[&str] = &["page-address", "unixsocket"];

/// A value as its store has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptValue {
    /// The setting.
    pub name: &'static str,
    /// The value as `CONFIG GET` gives it.
    pub text: String,
    /// The store takes it when it starts, and not while it runs.
    pub is_at_start: bool,
    /// No two stores may have the same.
    pub is_of_one_store: bool,
    /// Why it has no effect, if it has none.
    pub note: Option<String>,
}

/// Why a setting is not kept: whoever asked is to ask for something else.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeptError {
    /// It is not for people to set.
    #[error("'{name}' is not set by hand in a cluster: {reason}")]
    OfCluster {
        /// Which.
        name: &'static str,
        /// Who decides it.
        reason: &'static str,
    },
    /// There is no such setting, or it has not this value.
    #[error("{error}{}", about(*.doc))]
    Setting {
        /// What is wrong.
        error: SettingError,
        /// What the setting is.
        doc: Option<&'static str>,
    },
}

fn about(doc: Option<&str>) -> String {
    doc.map_or_else(String::new, |doc| format!(". It is: {doc}"))
}

/// Why a setting is the cluster's to decide, if it is.
pub(crate) fn decided(name: &'static str) -> Option<&'static str> {
    if name.starts_with(TLS.0) {
        return Some(TLS.1);
    }
    OF_CLUSTER.iter().find(|(known, _)| *known == name).map(|(_, reason)| *reason)
}

/// Reads what a cluster is to keep of a setting.
///
/// # Errors
///
/// There is no such setting, the cluster decides it, or the value is none of it: what would be right.
pub fn read(name: &str, value: &str) -> Result<KeptValue, KeptError> {
    let mut settings = Settings::default();
    let setting = find(name.as_bytes());
    if let Some(setting) = setting
        && let Some(reason) = decided(setting.name)
    {
        return Err(KeptError::OfCluster { name: setting.name, reason });
    }
    let wrong = |error| KeptError::Setting { error, doc: setting.map(|setting| setting.doc) };
    let note =
        file::set(setting.map_or(name, |setting| setting.name).as_bytes(), &[value.as_bytes()], &mut settings, |_| {
            None
        });
    let (note, setting) = match (note, setting) {
        (Ok(note), Some(setting)) => (note, setting),
        // Lines of a file that are no settings.
        (Ok(_), None) => return Err(wrong(SettingError::Unknown { name: name.to_owned(), nearest: None })),
        (Err(error), _) => return Err(wrong(error)),
    };
    Ok(KeptValue {
        name: setting.name,
        text: (setting.text)(&settings),
        is_at_start: setting.change != Change::Free,
        is_of_one_store: OF_ONE_STORE.contains(&setting.name),
        note,
    })
}

/// All settings that a cluster may keep, with their defaults.
pub fn defaults() -> impl Iterator<Item = (&'static str, String)> {
    let settings = Settings::default();
    let all = SETTINGS.iter().filter(|setting| decided(setting.name).is_none());
    all.map(move |setting| (setting.name, (setting.text)(&settings)))
}

/// What is not at its default, of what a cluster may keep.
pub fn set_here(settings: &Settings) -> Vec<(&'static str, String)> {
    let found = defaults().filter_map(|(name, default)| {
        let text = (find(name.as_bytes())?.text)(settings);
        (text != default).then_some((name, text))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_stores_read_them() {
        let kept = read("MaxMemory", "1gb").unwrap();
        assert_eq!((kept.name, kept.text.as_str(), kept.is_at_start), ("maxmemory", "1073741824", false));
        assert!(read("io-threads", "2").unwrap().is_at_start);
        assert!(read("page-address", "127.0.0.1:1").unwrap().is_of_one_store);
        assert!(read("hz", "20").unwrap().note.is_some_and(|note| note.contains("has no effect")));
        assert_eq!(read("slave-priority", "5").unwrap().name, "replica-priority");
        // What does not name all classes of clients leaves the others as they are.
        let limits = read("client-output-buffer-limit", "normal 1mb 0 0").unwrap().text;
        assert!(limits.starts_with("normal 1048576 0 0 slave "), "{limits}");
    }

    #[test]
    fn what_the_cluster_decides_and_what_makes_no_sense_is_refused() {
        for (name, value, expected) in [
            ("port", "7000", "'port' is not set by hand in a cluster: each store has a port of its own"),
            ("slaveof", "a 1", "'replicaof' is not set by hand in a cluster: the cluster decides who follows whom"),
            ("tls-port", "7", "'tls-port' is not set by hand in a cluster: what nodes"),
            ("maxmemry", "1gb", "there is no setting 'maxmemry'; did you mean 'maxmemory'?"),
            ("maxmemory", "50%", "'maxmemory': argument must be a memory value. It is: How much memory"),
            ("maxmemory-policy", "some", "'maxmemory-policy': argument(s) must be one of the following: volatile-lru"),
            ("timeout", "-1", "'timeout': argument must be between 0 and 2147483647 inclusive. It is: "),
            ("replica-read-only", "no", "'replica-read-only' is not there yet"),
            ("user", "a on", "there is no setting 'user'"),
            ("include", "x", "there is no setting 'include'"),
        ] {
            let error = read(name, value).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{name}: {error}");
        }
        for (name, _) in OF_CLUSTER {
            assert!(find(name.as_bytes()).is_some(), "{name}");
        }
    }

    #[test]
    fn each_text_is_one_word_that_means_the_same() {
        for (name, text) in defaults() {
            let again = read(name, &text).unwrap_or_else(|error| panic!("{name} {text}: {error}"));
            assert_eq!(again.text, text, "{name}");
        }
        let mut settings = Settings::default();
        assert_eq!(set_here(&settings), []);
        settings.timeout.0 = 7;
        settings.port.0 = 1;
        assert_eq!(set_here(&settings), [("timeout", "7".to_owned())]);
    }
}
