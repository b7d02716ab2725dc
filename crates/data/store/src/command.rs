//! The command line: what `tidegate store` and `redis-server` do with their words.

use std::{
    fmt::Write as _,
    io::{self, Write as _},
    process::ExitCode,
};

pub use crate::options::Manner;
use crate::{
    allocator, check_system,
    daemon::{self, Caller},
    error::chain,
    life::Life,
    messages,
    options::{self, Start},
    setting_help::settings,
};

/// Runs a store as the words say, until it ends. They are `[redis.conf] [--setting value ...] [-]`, as redis-server takes them.
pub fn run(words: &[String], manner: Manner) -> ExitCode {
    let name = match manner {
        Manner::Tidegate => "tidegate store",
        Manner::Redis => "redis-server",
    };
    if let Some(code) = special(words, manner) {
        return code;
    }
    match start(words, manner) {
        Ok(Started::Here(start, life)) => {
            allocator::give_back_in_background();
            match crate::run(*start, life, allocator::allocated) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    let text = chain(&error);
                    if messages::are_elsewhere() {
                        messages::warn(&format!("The store ends: {text}"));
                    }
                    eprintln!("{name}: {text}");
                    ExitCode::FAILURE
                }
            }
        }
        Ok(Started::InBackground(code)) => code,
        Err(text) => {
            eprintln!("{name}: {text}");
            ExitCode::FAILURE
        }
    }
}

/// Which process serves.
enum Started {
    Here(Box<Start>, Life),
    /// Another one, or none: the code says so.
    InBackground(ExitCode),
}

fn start(words: &[String], manner: Manner) -> Result<Started, String> {
    let failed = |error: io::Error| format!("the store cannot go to the background (daemonize): {error}");
    let mut caller = Caller::find().map_err(failed)?;
    let start = match &mut caller {
        Some(caller) => options::read(words, manner, caller.input()),
        None => options::read(words, manner, &mut io::stdin().lock()),
    };
    let start = start.map_err(|error| chain(&error))?;
    let life = Life::new(&start.settings, caller);
    if life.wants_background(&start.settings) {
        return daemon::start(&start.input).map(Started::InBackground).map_err(failed);
    }
    Ok(Started::Here(Box::new(start), life))
}

/// Words that ask for something else than a server.
fn special(words: &[String], manner: Manner) -> Option<ExitCode> {
    let is_redis = manner == Manner::Redis;
    let refused = |text: &str| {
        eprintln!("{text}");
        Some(ExitCode::FAILURE)
    };
    if is_redis && words.iter().any(|word| word == "--sentinel") {
        return refused(NO_SENTINEL);
    }
    let first = words.first().map_or("", String::as_str);
    let text = match first {
        "--help" | "-h" => help(manner),
        _ if !is_redis && words.iter().any(|word| word == "--help" || word == "-h") => help(manner),
        "--version" | "-v" => version(),
        "--check-system" if is_redis => {
            let (text, is_good) = check_system::report();
            let _ = io::stdout().write_all(text.as_bytes());
            return Some(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        "--test-memory" if is_redis => {
            return refused("redis-server: --test-memory is not there: memtester, or Memtest86+ at boot, test memory");
        }
        _ => return None,
    };
    // Whoever reads it may have seen enough.
    let _ = io::stdout().write_all(text.as_bytes());
    Some(ExitCode::SUCCESS)
}

/// What is said where Sentinel is asked for.
pub const NO_SENTINEL: &str = "redis-server: Sentinel is not there: replication and failover come with the cluster, which needs no \
                               Sentinel; Redis' own redis-sentinel can watch no store";

/// A line in the form of redis-server's, which scripts take apart.
fn version() -> String {
    format!(
        "Redis server v={} sha=00000000:0 malloc={} bits={} build=tidegate-{}\n",
        commands::REDIS_VERSION,
        allocator::version(),
        usize::BITS,
        env!("CARGO_PKG_VERSION")
    )
}

/// What the command line may say.
fn help(manner: Manner) -> String {
    let name = match manner {
        Manner::Tidegate => "tidegate store",
        Manner::Redis => "redis-server",
    };
    let mut text = format!(
        "A server that speaks Redis' protocol, whose data may be larger than memory.\n\n\
         Usage: {name} [FILE] [--SETTING VALUE ...] [--until POINT] [-]\n\n  \
         FILE             a redis.conf; what the words behind it say wins over it\n  \
         -                settings from standard input; they win over the file\n  \
         --until POINT    go back to a time or an offset of the log before starting\n  \
         -v, --version    the version\n  \
         -h, --help       this\n"
    );
    text += match manner {
        Manner::Tidegate => {
            "\nExamples:\n  \
             tidegate store --dir /var/lib/tidegate --port 6379\n  \
             tidegate store /etc/redis/redis.conf --maxmemory 2gb\n  \
             tidegate store                     everything in memory, and gone when it ends\n"
        }
        Manner::Redis => {
            "  --check-system   what of the machine's settings is bad for the store\n\n\
             Examples:\n  \
             redis-server                                 data in the current folder\n  \
             redis-server /etc/redis/redis.conf --port 7777\n  \
             echo 'maxmemory 128mb' | redis-server -\n  \
             redis-server --save '' --appendonly no       everything in memory, and gone when it ends\n"
        }
    };
    text += "\nSettings (`tidegate explain NAME` tells more; docs/reference/redis-settings.md has all, those without effect too):\n\n";
    for setting in settings() {
        let default = if setting.default.is_empty() { String::new() } else { format!(" [{}]", setting.default) };
        let _ = writeln!(text, "  --{:<34} {}{default}", setting.name, setting.doc);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_what_is_there() {
        let text = help(Manner::Tidegate);
        for wanted in ["Usage: tidegate store", "--until POINT", "  --maxmemory ", "[everysec]"] {
            assert!(text.contains(wanted), "{wanted}");
        }
        assert!(!text.contains("--tls-port"), "what is not there is not offered");
        assert!(help(Manner::Redis).contains("Usage: redis-server [FILE]"));
    }

    #[test]
    fn the_version_is_taken_apart_as_that_of_redis() {
        let text = version();
        let found = text.split("v=").nth(1).and_then(|rest| rest.split(' ').next());
        assert_eq!(found, Some(commands::REDIS_VERSION));
        assert!(text.starts_with("Redis server v=") && text.contains(" bits=64 build=tidegate-"), "{text}");
    }
}
