//! The directives of a pool: the one table of names, values, defaults and meanings. Reading a configuration, `tidegate explain` and the
//! reference use it.

use std::fmt::Write as _;

use super::{
    directives::{COUNT_MAX, Given, PoolConfig, count, listen_of, number, truth},
    milliseconds,
};
use crate::{hashes::Hash, ring::Distribution};

/// Gives a pool the value.
type Setter = fn(&mut PoolConfig, &str, &mut Given) -> Result<(), String>;

/// A directive.
pub struct Directive {
    /// Its name.
    pub name: &'static str,
    /// What it takes.
    pub takes: &'static str,
    /// What it is if it is left out.
    pub default: &'static str,
    /// What it does.
    pub doc: &'static str,
    /// Reads a value; `None` for the list of servers.
    pub(super) set: Option<Setter>,
}

/// The name of the page of docs/reference.
pub const PAGE: &str = "nutcracker.md";
/// The directive that takes a list.
pub(super) const SERVERS: &str = "servers";

/// All of them, in the order of twemproxy's manual.
pub const DIRECTIVES: &[Directive] = &[
    Directive {
        name: "listen",
        takes: "host:port, or a path and who may connect: /run/pool.sock 0666",
        default: "none: it is needed",
        doc: "Where clients of this pool connect.",
        set: Some(|_, text, given| {
            given.listen = Some(listen_of(text)?);
            Ok(())
        }),
    },
    Directive {
        name: "client_connections",
        takes: "a number up to 65535",
        default: "0: as many as there are file descriptors",
        doc: "Connections of clients at most.",
        set: Some(|pool, text, _| {
            pool.client_connections = count(text)?;
            Ok(())
        }),
    },
    Directive {
        name: "hash",
        takes: "one_at_a_time, md5, crc16, crc32, crc32a, fnv1_64, fnv1a_64, fnv1_32, fnv1a_32, hsieh, murmur, jenkins",
        default: "fnv1a_64",
        doc: "How a number is made of a key.",
        set: Some(|pool, text, _| {
            let known = || Hash::names().collect::<Vec<_>>().join(", ");
            let hash = Hash::named(text);
            pool.hash = hash.ok_or_else(|| format!("is not a valid hash: '{text}' (there are {})", known()))?;
            Ok(())
        }),
    },
    Directive {
        name: "hash_tag",
        takes: "two characters: \"{}\"",
        default: "none",
        doc: "Of keys that have both characters, only what stands between them is hashed.",
        set: Some(|pool, text, _| {
            let two = <[u8; 2]>::try_from(text.as_bytes()).ok();
            pool.hash_tag = Some(two.ok_or("is not a valid hash tag string with two characters")?);
            Ok(())
        }),
    },
    Directive {
        name: "distribution",
        takes: "ketama, modula, random",
        default: "ketama",
        doc: "How the number of a key chooses a server.",
        set: Some(|pool, text, _| {
            let problem = || format!("is not a valid distribution: '{text}' (there are ketama, modula, random)");
            pool.distribution = Distribution::named(text).ok_or_else(problem)?;
            Ok(())
        }),
    },
    Directive {
        name: "timeout",
        takes: "milliseconds",
        default: "none: any time",
        doc: "How long opening a connection to a server, and a server's answer, may take.",
        set: Some(|pool, text, _| {
            pool.timeout = Some(milliseconds(number(text, u64::MAX)?));
            Ok(())
        }),
    },
    Directive {
        name: "backlog",
        takes: "a number up to 65535",
        default: "512",
        doc: "How many connections may wait to be accepted.",
        set: Some(|pool, text, _| {
            pool.backlog = i32::try_from(number(text, COUNT_MAX)?).unwrap_or(i32::MAX);
            Ok(())
        }),
    },
    Directive {
        name: "tcpkeepalive",
        takes: "true, false",
        default: "false",
        doc: "Whether the kernel probes silent connections to servers.",
        set: Some(|pool, text, _| {
            pool.tcpkeepalive = truth(text)?;
            Ok(())
        }),
    },
    Directive {
        name: "reuseport",
        takes: "true, false",
        default: "false",
        doc: "Whether other processes may listen at the same address.",
        set: Some(|pool, text, _| {
            pool.reuseport = truth(text)?;
            Ok(())
        }),
    },
    Directive {
        name: "preconnect",
        takes: "true, false",
        default: "false",
        doc: "Whether connections to servers are opened at the start, before the first request.",
        set: Some(|pool, text, _| {
            pool.preconnect = truth(text)?;
            Ok(())
        }),
    },
    Directive {
        name: "redis",
        takes: "true",
        default: "false: memcached, which is refused",
        doc: "The servers speak Redis' protocol. Tidegate does not speak memcached's.",
        set: Some(|_, text, given| {
            given.speaks_redis = truth(text)?;
            Ok(())
        }),
    },
    Directive {
        name: "redis_auth",
        takes: "a password",
        default: "none",
        doc: "What servers are given, and what clients have to know.",
        set: Some(|pool, text, _| {
            pool.redis_auth = Some(text.to_owned());
            Ok(())
        }),
    },
    Directive {
        name: "redis_db",
        takes: "a number",
        default: "0",
        doc: "The database of the servers. Clients see number 0.",
        set: Some(|pool, text, _| {
            pool.redis_db = u32::try_from(number(text, u64::from(u32::MAX))?).unwrap_or(u32::MAX);
            Ok(())
        }),
    },
    Directive {
        name: "server_connections",
        takes: "a number from 1 to 65535",
        default: "1",
        doc: "Connections to each server at most.",
        set: Some(|pool, text, _| {
            pool.server_connections = count(text)?;
            Ok(())
        }),
    },
    Directive {
        name: "auto_eject_hosts",
        takes: "true, false",
        default: "false",
        doc: "Whether the keys of a server that fails go to the others for a while.",
        set: Some(|pool, text, _| {
            pool.auto_eject_hosts = truth(text)?;
            Ok(())
        }),
    },
    Directive {
        name: "server_retry_timeout",
        takes: "milliseconds",
        default: "30000",
        doc: "With auto_eject_hosts: after how long a server that was left out is tried again.",
        set: Some(|pool, text, _| {
            pool.server_retry_timeout = milliseconds(number(text, u64::MAX)?);
            Ok(())
        }),
    },
    Directive {
        name: "server_failure_limit",
        takes: "a number",
        default: "2",
        doc: "With auto_eject_hosts: after how many failures in a row a server is left out.",
        set: Some(|pool, text, _| {
            pool.server_failure_limit = u32::try_from(number(text, u64::from(u32::MAX))?).unwrap_or(u32::MAX);
            Ok(())
        }),
    },
    Directive {
        name: SERVERS,
        takes: "a list of host:port:weight [name], or /path:weight [name]",
        default: "none: at least one is needed",
        doc: "The servers. With a name, a server keeps its keys when its address changes.",
        set: None,
    },
];

/// The page of the reference.
#[must_use]
pub fn page() -> String {
    let mut text = String::from(
        "# nutcracker.yml\n\nThese are the directives of a pool in twemproxy's configuration, which `tidegate proxy -c nutcracker.yml` reads \
         ([Many stores as one](../many-stores.md)). This page comes from the table of the directives.\n\n\
         | Directive | Takes | Default | What it does |\n|---|---|---|---|\n",
    );
    for Directive { name, takes, default, doc, .. } in DIRECTIVES {
        let _ = writeln!(text, "| `{name}` | {takes} | {default} | {doc} |");
    }
    text
}

/// What a word means in nutcracker.yml; nothing if it is no directive.
#[must_use]
pub fn explain(word: &str) -> Option<String> {
    let one = DIRECTIVES.iter().find(|one| one.name == word.trim().trim_end_matches(':'))?;
    let Directive { name, takes, default, doc, .. } = one;
    Some(format!("{name}: (a directive of nutcracker.yml)\n    {doc}\n    takes: {takes}\n    default: {default}\n"))
}

/// All names that [`explain`] knows.
#[must_use]
pub fn names() -> Vec<String> {
    DIRECTIVES.iter().map(|one| one.name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_what_is_true() {
        let hash = DIRECTIVES.iter().find(|one| one.name == "hash").unwrap();
        assert_eq!(hash.takes, Hash::names().collect::<Vec<_>>().join(", "));
        let one = |name: &str, value: &str| {
            let text =
                format!("p:\n  listen: 127.0.0.1:1\n  redis: true\n  servers:\n  - 127.0.0.1:2:1\n  {name}: {value}\n");
            super::super::parse(&text).map(|mut pools| pools.remove(0))
        };
        // What is left out is what the table says.
        let standard = format!("{:?}", one("redis_db", "0").unwrap());
        for directive in DIRECTIVES {
            let value = directive.default.split(':').next().unwrap();
            if directive.set.is_some() && value != "none" && directive.name != "redis" {
                assert_eq!(format!("{:?}", one(directive.name, value).unwrap()), standard, "{}", directive.name);
            }
            assert!(explain(directive.name).is_some() && page().contains(directive.name));
        }
        let error = one("timeot", "400").unwrap_err().to_string();
        assert!(error.ends_with("directive \"timeot\" is unknown; did you mean \"timeout\"?"), "{error}");
        assert!(explain("nothing").is_none());
    }
}
