//! nutcracker.yml, the configuration of twemproxy, read as it is.
//!
//! ```text
//! alpha:                      a pool: a listening address, and the servers behind it
//!   listen: 127.0.0.1:22121
//!   hash: fnv1a_64
//!   redis: true
//!   servers:
//!    - 127.0.0.1:6379:1 name
//! ```

mod directives;
pub mod table;
mod yaml;

use std::{collections::HashSet, fmt, time::Duration};

pub use directives::{Address, PoolConfig, ServerConfig, SlotsConfig};

/// A fault of a configuration, and where it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// The line, from 1 on; 0 where it is about the whole file.
    pub line: usize,
    /// What is wrong, and what would be right.
    pub problem: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(formatter, "conf: {}", self.problem),
            line => write!(formatter, "conf: line {line}: {}", self.problem),
        }
    }
}

impl ConfigError {
    pub(crate) fn at(line: usize, problem: impl Into<String>) -> Self {
        Self { line, problem: problem.into() }
    }
}

/// Reads a configuration.
///
/// # Errors
/// The first fault.
pub fn parse(text: &str) -> Result<Vec<PoolConfig>, ConfigError> {
    let pools = yaml::read(text)?.into_iter().map(PoolConfig::read).collect::<Result<Vec<_>, _>>()?;
    if pools.is_empty() {
        return Err(ConfigError::at(0, "there are no pools: a pool is a name with its directives below it"));
    }
    let (mut names, mut addresses) = (HashSet::new(), HashSet::new());
    for pool in &pools {
        if !names.insert(pool.name.as_str()) {
            return Err(ConfigError::at(pool.line, format!("two pools are named '{}'", pool.name)));
        }
        if !addresses.insert(&pool.listen) {
            let problem = format!("pool '{}' listens on '{}', as another pool does", pool.name, pool.listen);
            return Err(ConfigError::at(pool.line, problem));
        }
    }
    Ok(pools)
}

/// A time in milliseconds.
fn milliseconds(number: u64) -> Duration {
    Duration::from_millis(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{hashes::Hash, ring::Distribution};

    const ALPHA: &str = "
alpha:
  listen: 127.0.0.1:22121
  hash: murmur
  hash_tag: \"{}\"
  distribution: modula
  timeout: 400
  redis: true
  redis_db: 3
  auto_eject_hosts: true
  server_retry_timeout: 2000
  server_failure_limit: 1
  server_connections: 2
  servers:
   - 127.0.0.1:6379:1
   - 127.0.0.1:11211:2
   - localhost:6380:3 third
   - /tmp/redis.sock:1
beta:
  listen: /tmp/beta.sock 0666
  redis: true
  servers:
   - 127.0.0.1:6379:1
";

    #[test]
    fn pools_and_their_servers_are_read() {
        let pools = parse(ALPHA).unwrap();
        let [alpha, beta] = pools.as_slice() else { panic!("{pools:?}") };
        assert_eq!(
            (alpha.name.as_str(), alpha.hash, alpha.distribution),
            ("alpha", Hash::Murmur, Distribution::Modula)
        );
        assert_eq!((alpha.hash_tag, alpha.redis_db), (Some(*b"{}"), 3));
        assert_eq!(alpha.timeout, Some(Duration::from_millis(400)));
        assert_eq!(alpha.server_connections, 2);
        let names: Vec<&str> = alpha.servers.iter().map(|server| server.name.as_str()).collect();
        // Points are computed from these: without a port where it is memcached's, as in libmemcached.
        assert_eq!(names, ["127.0.0.1:6379", "127.0.0.1", "third", "/tmp/redis.sock"]);
        assert_eq!(beta.listen, Address::Unix { path: "/tmp/beta.sock".into(), mode: Some(0o666) });
        assert_eq!((beta.hash, beta.distribution, beta.timeout), (Hash::Fnv1aOf64, Distribution::Ketama, None));
    }

    #[test]
    fn faults_name_the_line_the_directive_and_what_would_be_right() {
        let with = |from: &str, to: &str| parse(&ALPHA.replace(from, to)).unwrap_err().to_string();
        for (from, to, said) in [
            ("hash: murmur", "hash: sha1", "line 4: directive \"hash\" is not a valid hash"),
            ("redis_db: 3", "redis_dbs: 3", "line 9: directive \"redis_dbs\" is unknown"),
            ("timeout: 400", "timeout: soon", "line 7: directive \"timeout\" is not a number"),
            ("redis_db: 3", "redis_db: 3\n  redis_db: 4", "line 10: directive \"redis_db\" is a duplicate"),
            ("auto_eject_hosts: true", "auto_eject_hosts: yes", "is not \"true\" or \"false\""),
            ("\"{}\"", "\"{\"", "is not a valid hash tag string with two characters"),
            ("6379:1\n   - 127", "6379\n   - 127", "has an invalid \"hostname:port:weight [name]\""),
            ("127.0.0.1:6379:1\n   - 127", "127.0.0.1:6379:0\n   - 127", "has a zero weight"),
            ("localhost:6380:3 third", "localhost:6380:3 127.0.0.1", "has servers with same name '127.0.0.1'"),
            ("  listen: 127.0.0.1:22121\n", "", "directive \"listen:\" is missing"),
            ("  listen: /tmp/beta.sock 0666", "  listen: 127.0.0.1:22121", "as another pool does"),
            ("beta:", "alpha:", "two pools are named 'alpha'"),
            ("  redis: true\n  redis_db: 3", "  redis: false", "pool 'alpha' is one of memcached"),
            ("hash: murmur", "hash: [", "line "),
        ] {
            let error = with(from, to);
            assert!(error.contains(said), "{to:?}: {error}");
        }
        assert!(parse("").unwrap_err().to_string().contains("no pools"));
        assert!(parse("alpha").unwrap_err().to_string().contains("line 1"));
        assert!(parse("alpha:\n  servers: 3\n").unwrap_err().to_string().contains("line 2"));
        assert!(parse("alpha:\n  listen: *x\n").is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_text_brings_it_down(text in "[a-z:\\-\\[\\]{}&*!|>'\"#%@ \n0-9]{0,200}") {
            let _ = parse(&text);
        }
    }
}
