//! The command line: what `tidegate store` does with its words.

use std::{
    fmt::Write as _,
    io::{self, Write as _},
    process::ExitCode,
};

use commands::config::{SETTINGS, Settings, State};

use crate::{allocator, error::chain, options};

/// Runs a store as the words say, until it ends. They are `[redis.conf] [--setting value ...]`, as redis-server takes them.
pub fn run(words: &[String]) -> ExitCode {
    if words.iter().any(|word| word == "--help" || word == "-h") {
        // Whoever reads it may have seen enough.
        let _ = io::stdout().write_all(help().as_bytes());
        return ExitCode::SUCCESS;
    }
    allocator::give_back_in_background();
    match options::read(words).and_then(|start| crate::run(start, allocator::allocated)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tidegate store: {}", chain(&error));
            ExitCode::FAILURE
        }
    }
}

/// What the command line may say.
fn help() -> String {
    let mut text = String::from(
        "A server that speaks Redis' protocol, whose data may be larger than memory.\n\n\
         Usage: tidegate store [FILE] [--SETTING VALUE ...] [--until POINT]\n\n  \
         FILE             a redis.conf; what the words behind it say wins over it\n  \
         --until POINT    go back to a time or an offset of the log before starting\n  \
         --help           this\n\n\
         Examples:\n  \
         tidegate store --dir /var/lib/tidegate --port 6379\n  \
         tidegate store /etc/redis/redis.conf --maxmemory 2gb\n  \
         tidegate store                     everything in memory, and gone when it ends\n\n\
         Settings (`tidegate explain NAME` tells more; docs/reference/redis-settings.md has all, those without effect too):\n\n",
    );
    let defaults = Settings::default();
    let mut supported: Vec<_> = SETTINGS.iter().filter(|setting| setting.state == State::Supported).collect();
    supported.sort_by_key(|setting| setting.name);
    for setting in supported {
        let default = (setting.text)(&defaults);
        let default = if default.is_empty() { String::new() } else { format!(" [{default}]") };
        let _ = writeln!(text, "  --{:<34} {}{default}", setting.name, setting.doc);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_what_is_there() {
        let text = help();
        for wanted in ["Usage: tidegate store", "--until POINT", "  --maxmemory ", "[everysec]"] {
            assert!(text.contains(wanted), "{wanted}");
        }
        assert!(!text.contains("--tls-port"), "what is not there is not offered");
    }
}
