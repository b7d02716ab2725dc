//! `tidegate store --help`: what the command line may say, and the settings by what they are about.

use std::fmt::Write as _;

use commands::config::{SETTINGS, Setting, Settings, State};

use crate::options::Manner;

/// How wide lines are.
const WIDTH: usize = 80;
/// How far a setting's description is indented.
const INDENT: usize = 6;

/// Settings by what they are about, the ones first that most stores have.
const GROUPS: &[(&str, &[&str])] = &[
    (
        "Addresses and clients",
        &[
            "bind",
            "port",
            "unixsocket",
            "unixsocketperm",
            "protected-mode",
            "requirepass",
            "aclfile",
            "acl-pubsub-default",
            "acllog-max-len",
            "maxclients",
            "timeout",
            "tcp-keepalive",
            "tcp-backlog",
            "socket-mark-id",
            "io-threads",
            "page-address",
        ],
    ),
    (
        "Data: folder, log, tables",
        &[
            "dir",
            "databases",
            "appendfsync",
            "log-retention-size",
            "log-retention-seconds",
            "log-segment-size",
            "tables-behind-max",
            "tables-size-max",
            "tables-engine",
            "tables-read",
        ],
    ),
    (
        "Replication",
        &[
            "replicaof",
            "masterauth",
            "masteruser",
            "replica-ack",
            "replica-rdb-version",
            "replica-log-size-max",
            "replica-set-aside-data",
            "min-replicas-to-write",
            "min-replicas-max-lag",
            "replica-forward",
            "replica-forward-timeout",
            "replica-serve-stale-data",
            "replica-announce-ip",
            "replica-announce-port",
            "replica-announced",
            "replica-priority",
            "repl-timeout",
            "repl-ping-replica-period",
        ],
    ),
    (
        "Cluster",
        &[
            "cluster-enabled",
            "cluster-agent-socket",
            "cluster-wait-for-agent",
            "cluster-proxy",
            "cluster-settings-told",
        ],
    ),
    (
        "TLS",
        &[
            "tls-port",
            "tls-cert-file",
            "tls-key-file",
            "tls-key-file-pass",
            "tls-ca-cert-file",
            "tls-ca-cert-dir",
            "tls-auth-clients",
            "tls-replication",
            "tls-client-cert-file",
            "tls-client-key-file",
            "tls-client-key-file-pass",
            "tls-cluster",
            "tls-protocols",
            "tls-ciphers",
            "tls-ciphersuites",
            "tls-prefer-server-ciphers",
            "tls-session-caching",
            "tls-session-cache-size",
            "tls-session-cache-timeout",
        ],
    ),
    (
        "Memory",
        &[
            "maxmemory",
            "maxmemory-policy",
            "maxmemory-samples",
            "maxmemory-clients",
            "client-output-buffer-limit",
            "client-unread-max",
            "client-query-buffer-limit",
            "proto-max-bulk-len",
            "queue-message-max",
            "tracking-table-max-keys",
            "disable-thp",
        ],
    ),
    (
        "Forms of values",
        &[
            "collection-max-whole-entries",
            "collection-max-whole-bytes",
            "hash-max-listpack-entries",
            "hash-max-listpack-value",
            "list-max-listpack-size",
            "set-max-intset-entries",
            "zset-max-listpack-entries",
            "zset-max-listpack-value",
            "stream-node-max-bytes",
            "stream-node-max-entries",
            "hll-sparse-max-bytes",
        ],
    ),
    (
        "Logs and measurements",
        &[
            "logfile",
            "loglevel",
            "syslog-enabled",
            "syslog-ident",
            "syslog-facility",
            "slowlog-log-slower-than",
            "slowlog-max-len",
            "latency-monitor-threshold",
            "latency-tracking",
            "latency-tracking-info-percentiles",
            "notify-keyspace-events",
        ],
    ),
    (
        "The process",
        &[
            "daemonize",
            "supervised",
            "pidfile",
            "shutdown-on-sigterm",
            "shutdown-on-sigint",
            "oom-score-adj",
            "oom-score-adj-values",
            "busy-reply-threshold",
            "enable-debug-command",
            "enable-protected-configs",
        ],
    ),
];

/// What the command line may say.
pub fn help(manner: Manner) -> String {
    let name = match manner {
        Manner::Tidegate => "tidegate store",
        Manner::Redis => "redis-server",
    };
    let mut text = format!(
        "A server that speaks Redis' protocol, whose data may be larger than memory.\n\n\
         Usage: {name} [FILE] [--SETTING VALUE ...] [--until POINT] [-]\n"
    );
    if manner == Manner::Tidegate {
        text += "       tidegate store status|stop [--dir DIR | --port PORT | --socket PATH]\n";
    }
    text += "\n  \
             FILE             a redis.conf; settings on the command line override it\n  \
             -                settings from standard input; they override the file\n  \
             --until POINT    go back to a time or an offset of the log before starting\n  \
             -v, --version    the version\n  \
             -h, --help       this help\n";
    text += match manner {
        Manner::Tidegate => {
            "  status           show the state of a running store (--json for programs)\n  \
             stop             end a running store, when all its data is on the disk\n\
             \nExamples:\n  \
             tidegate store --dir /var/lib/tidegate --port 6379\n  \
             tidegate store /etc/redis/redis.conf --maxmemory 2gb\n  \
             tidegate store                  all data in memory, and gone at the end\n  \
             tidegate store status           the store on port 6379\n"
        }
        Manner::Redis => {
            "  --check-system   show settings of the machine that harm the store\n\n\
             Examples:\n  \
             redis-server                    data in the current folder\n  \
             redis-server /etc/redis/redis.conf --port 7777\n  \
             echo 'maxmemory 128mb' | redis-server -\n  \
             redis-server --save '' --appendonly no      all data in memory only\n"
        }
    };
    text += "\nSettings, with their defaults. `tidegate explain NAME` says more;\n\
             docs/reference/redis-settings.md lists all, also those without effect.\n";
    let defaults = Settings::default();
    for (title, names) in GROUPS {
        let _ = write!(text, "\n{title}:\n");
        for setting in names.iter().filter_map(|name| SETTINGS.iter().find(|setting| setting.name == *name)) {
            describe(&mut text, setting, &defaults);
        }
    }
    text
}

fn describe(text: &mut String, setting: &Setting, defaults: &Settings) {
    if setting.state != State::Supported {
        return;
    }
    let default = (setting.text)(defaults);
    let default = if default.is_empty() { String::new() } else { format!(" [{default}]") };
    let head = format!("--{}{default}", setting.name);
    wrap(text, &head, 2);
    wrap(text, setting.doc, INDENT);
}

/// Adds words in lines of at most [`WIDTH`], each indented.
fn wrap(text: &mut String, words: &str, indent: usize) {
    let mut line = String::new();
    for word in words.split(' ') {
        if !line.is_empty() && indent + line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(text, "{:indent$}{line}", "");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line += word;
    }
    let _ = writeln!(text, "{:indent$}{line}", "");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_what_is_there_in_lines_of_80() {
        let text = help(Manner::Tidegate);
        for wanted in [
            "Usage: tidegate store",
            "--until POINT",
            "  --maxmemory [0]\n",
            "[everysec]",
            "\nMemory:\n",
            "status|stop",
        ] {
            assert!(text.contains(wanted), "{wanted}");
        }
        assert!(!text.contains("--cluster-port"), "what is not there is not offered");
        let redis = help(Manner::Redis);
        assert!(redis.contains("Usage: redis-server [FILE]") && !redis.contains("status|stop"));
        for line in text.lines().chain(redis.lines()) {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
    }

    #[test]
    fn every_setting_has_one_place() {
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        grouped.sort_unstable();
        let mut supported: Vec<&str> =
            SETTINGS.iter().filter(|setting| setting.state == State::Supported).map(|setting| setting.name).collect();
        supported.sort_unstable();
        assert_eq!(grouped, supported);
    }
}
