//! The options of HAProxy's command line as a table: help, manual pages and completions come from it.

use std::fmt::Write as _;

/// The word that an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    None,
    /// A file or a folder, which shells complete.
    Path(&'static str),
    /// Anything else.
    Word(&'static str),
    /// It stands in the same word as the option: `-dKacl`.
    Attached(&'static str),
}

/// A line of the help.
#[derive(Clone, Copy, Debug)]
pub struct OptionHelp {
    pub flag: &'static str,
    pub value: Value,
    /// More such words may follow.
    pub is_list: bool,
    pub doc: &'static str,
}

const fn option(flag: &'static str, value: Value, doc: &'static str) -> OptionHelp {
    OptionHelp { flag, value, is_list: false, doc }
}

const fn list(flag: &'static str, value: Value, doc: &'static str) -> OptionHelp {
    OptionHelp { flag, value, is_list: true, doc }
}

/// All options that the help names. Those of HAProxy that have no effect are taken too, with a warning.
pub const OPTIONS: &[OptionHelp] = &[
    list("-f", Value::Path("file|folder"), "configuration; of a folder, all *.cfg in order"),
    list(
        "--from",
        Value::Word("address"),
        "without a file: listen here, as in --from :80; of a name, as in --from example.com, HTTPS with a certificate that comes by itself",
    ),
    list("--to", Value::Word("server"), "without a file: servers for the requests, as in --to app1:8080 app2:8080"),
    option("--health", Value::Word("path"), "with --to: a server is healthy when it answers this path with 2xx or 3xx"),
    option(
        "--stats",
        Value::Word("address"),
        "with --to: the address of the statistics (default 127.0.0.1:8404; none: no statistics)",
    ),
    option("--email", Value::Word("address"), "with --from NAME: whom the authority of certificates writes to"),
    option(
        "--directory",
        Value::Word("url"),
        "with --from NAME: the authority (default Let's Encrypt; staging: theirs for tests)",
    ),
    option(
        "--directory-ca",
        Value::Path("file"),
        "with --directory: the certificate that the authority itself is trusted by",
    ),
    option(
        "--folder",
        Value::Path("folder"),
        "with --from NAME: where certificates and keys are kept (default /var/lib/tidegate/certificates for root)",
    ),
    option("--print", Value::None, "with --to: print the equivalent haproxy.cfg, and end"),
    option("-c", Value::None, "check the configuration and say whether it is valid"),
    option("-v", Value::None, "version"),
    option("-vv", Value::None, "version, and how it was built"),
    option("-W", Value::None, "with a master process (the default of `tidegate edge`)"),
    option("-Ws", Value::None, "with a master process, in the foreground, for systemd"),
    option("-D", Value::None, "detach"),
    option("-db", Value::None, "stay in the foreground"),
    option("-d", Value::None, "stay in the foreground, and print more"),
    option("-q", Value::None, "quiet"),
    option("-V", Value::None, "verbose: takes back an earlier -q"),
    option("-p", Value::Path("file"), "write the process number there"),
    option("-n", Value::Word("count"), "most connections of the process"),
    option("-N", Value::Word("count"), "most connections of a proxy without maxconn"),
    option("-C", Value::Path("folder"), "change to this folder before reading files"),
    option("-L", Value::Word("name"), "name of this machine among peers"),
    option("-S", Value::Word("address"), "the address at which the master takes commands"),
    option("-x", Value::Path("socket"), "take listening sockets from the process behind this stats socket"),
    list("-sf", Value::Word("pid"), "once serving, let these processes finish"),
    list("-st", Value::Word("pid"), "once serving, end these processes"),
    option("-m", Value::Word("megabytes"), "most memory of the process; maxconn follows from it"),
    option("-cc", Value::Word("condition"), "evaluate a condition as `.if` does; the exit code says whether it holds"),
    option("-dS", Value::None, "never splice"),
    option("-dR", Value::None, "one socket per address (as noreuseport)"),
    option("-dV", Value::None, "do not verify certificates of servers (as ssl-server-verify none)"),
    option("-dW", Value::None, "warnings are errors (as zero-warning)"),
    option("-dr", Value::None, "start servers without an address if their names cannot be resolved"),
    option("-dD", Value::None, "also report suspicious settings"),
    option("-dL", Value::None, "list the files that the program was loaded from"),
    option("-dK", Value::Attached("class,..."), "list keywords; -dKhelp lists the classes"),
    option("-h", Value::None, "this help"),
];

impl OptionHelp {
    /// The option and what follows it: `-sf <pid>...`.
    fn synopsis(&self) -> String {
        let (gap, value) = match self.value {
            Value::None => return self.flag.to_owned(),
            Value::Path(value) | Value::Word(value) => (" ", value),
            Value::Attached(value) => ("", value),
        };
        format!("{}{gap}<{value}>{}", self.flag, if self.is_list { "..." } else { "" })
    }
}

/// What the command line may say.
pub fn usage(program: &str) -> String {
    let mut text = format!("Usage: {program} [-f <file|folder>]* [options]\n");
    for option in OPTIONS {
        let _ = writeln!(text, "  {:<21} {}", option.synopsis(), option.doc);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{super::command_line, *};

    #[test]
    fn every_option_of_the_table_is_read() {
        for option in OPTIONS {
            let words = [option.flag, "1"].map(str::to_owned);
            let alone = command_line::parse(&words[..1]);
            let with_word = command_line::parse(&words);
            match option.value {
                Value::Path(_) | Value::Word(_) => {
                    assert!(with_word.is_ok(), "{with_word:?}");
                    assert!(alone.is_err() || option.is_list, "{} needs a word", option.flag);
                }
                Value::None | Value::Attached(_) => {
                    assert!(alone.is_ok(), "{alone:?}");
                    assert!(with_word.is_err(), "{} takes no word", option.flag);
                }
            }
        }
    }

    #[test]
    fn help_has_a_line_for_each() {
        let text = usage("haproxy");
        assert!(
            text.starts_with("Usage: haproxy [-f <file|folder>]* [options]\n  -f <file|folder>...   configuration;")
        );
        assert!(text.contains("\n  -dK<class,...>        list keywords;"), "{text}");
        assert_eq!(text.lines().count(), OPTIONS.len() + 1);
    }
}
