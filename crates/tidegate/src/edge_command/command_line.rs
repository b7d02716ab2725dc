//! Words of the command line.

use std::path::PathBuf;

use edge::role::EdgeOptions;

use super::quick_start::QuickStart;

/// What the command line says.
#[derive(Debug, Default)]
pub struct CommandLine {
    pub edge: EdgeOptions,
    pub check: bool,
    /// `-cc`: the condition to evaluate instead of serving.
    pub condition: Option<String>,
    pub version: u8,
    pub help: bool,
    pub daemon: bool,
    pub foreground: bool,
    pub master_worker: bool,
    pub pidfile: Option<PathBuf>,
    pub finish: Vec<u32>,
    pub terminate: Vec<u32>,
    pub take_sockets_from: Option<PathBuf>,
    pub control: Vec<String>,
    pub directory: Option<PathBuf>,
    pub debug: bool,
    /// `-dL`: list the files that the program was loaded from.
    pub libraries: bool,
    /// `-dK`: the classes of keywords to list.
    pub keywords: Option<String>,
    /// `--from`, `--to` and what goes with them.
    pub quick_start: QuickStart,
    /// What is worth a warning.
    pub warnings: Vec<String>,
}

/// Flags that have no effect here, and why.
const WITHOUT_EFFECT: [(&str, &str); 5] = [
    ("-de", "epoll is the only poller here"),
    ("-dp", "poll() is not used for connections anyway"),
    ("-dk", "there is no kqueue on Linux"),
    ("-dv", "there are no event ports on Linux"),
    ("-dG", "getaddrinfo() is the only way here to look a name up"),
];

/// Options that take a value and are not HAProxy's.
const LONG_OPTIONS: [&str; 8] =
    ["--from", "--to", "--health", "--stats", "--email", "--directory", "--directory-ca", "--folder"];

/// Why a flag has no effect, if it has none.
fn without_effect(flag: &str) -> Option<&'static str> {
    if flag.starts_with("-dM") {
        return Some("memory is never read here before it is written, and there are no pools to debug");
    }
    WITHOUT_EFFECT.iter().find(|(name, _)| *name == flag).map(|(_, reason)| *reason)
}

/// The flag that HAProxy takes a word for that goes on behind it: flags cannot be joined, and what `-d` does not know is `-d`.
fn shortened(word: &str) -> Option<&'static str> {
    ["-db", "-c", "-D", "-q", "-v", "-V", "-W", "-d"].into_iter().find(|flag| word.starts_with(flag) && word != *flag)
}

/// Reads the words behind the program's name.
pub fn parse(words: &[String]) -> Result<CommandLine, String> {
    let mut line = CommandLine::default();
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        let mut value = |what: &str| words.next().cloned().ok_or_else(|| format!("option '{word}' expects {what}"));
        match word.as_str() {
            "-f" => {
                line.edge.sources.push(value("a file or folder")?);
                while let Some(next) = words.next_if(|next| !next.starts_with('-')) {
                    line.edge.sources.push(next.clone());
                }
            }
            "--" => line.edge.sources.extend(words.by_ref().cloned()),
            "--from" | "--to" => {
                let first = value("an address")?;
                let list = if word == "--from" { &mut line.quick_start.from } else { &mut line.quick_start.to };
                list.push(first);
                while let Some(next) = words.next_if(|next| !next.starts_with('-')) {
                    list.push(next.clone());
                }
            }
            "--health" => line.quick_start.health = Some(value("a path")?),
            "--email" => line.quick_start.email = Some(value("a mail address")?),
            "--directory" => line.quick_start.directory = Some(value("the URL of an authority's directory")?),
            "--directory-ca" => line.quick_start.directory_ca = Some(value("a file")?),
            "--folder" => line.quick_start.folder = Some(value("a folder")?),
            "--stats" => line.quick_start.stats = Some(value("an address, or none")?),
            "--print" => line.quick_start.print = true,
            "-c" => line.check = true,
            "-cc" => line.condition = Some(value("a condition")?),
            "-v" => line.version = 1,
            "-vv" => line.version = 2,
            "-W" => line.master_worker = true,
            // systemd is told whenever it asks to be, and wants its process in the foreground whatever the file says.
            "-Ws" => (line.master_worker, line.foreground) = (true, true),
            "-D" => line.daemon = true,
            "-db" => line.foreground = true,
            "-d" => {
                line.debug = true;
                line.warnings.push("'-d' stays in the foreground and shows no events: 'tidegate log' does.".to_owned());
            }
            "-q" => line.edge.quiet = true,
            "-V" => (line.edge.quiet, line.edge.verbose) = (false, true),
            "-dS" => line.edge.no_splice = true,
            "-dr" => line.edge.language.tolerates_unresolved = true,
            "-dD" => line.edge.language.diagnoses = true,
            "-dL" => line.libraries = true,
            "-dV" => line.edge.language.servers_unverified = true,
            "-dW" => line.edge.language.zero_warning = true,
            "-dR" => line.edge.language.noreuseport = true,
            "-p" => line.pidfile = Some(value("a file")?.into()),
            "-n" => line.edge.language.maxconn = Some(number(&value("a number of connections")?, word)?),
            "-N" => line.edge.language.proxy_maxconn = Some(number(&value("a number of connections")?, word)?),
            "-m" => line.edge.language.memory_max_mb = u64::from(number(&value("megabytes")?, word)?),
            "-C" => line.directory = Some(value("a folder")?.into()),
            "-L" => line.edge.language.localpeer = Some(value("a name")?),
            "-x" => {
                let socket = value("a stats socket")?.into();
                if line.take_sockets_from.replace(socket).is_some() {
                    line.warnings.push("-x option already set, overwriting the value".to_owned());
                }
            }
            "-S" => line.control.push(value("an address")?),
            "-sf" | "-st" => {
                let mut pids = Vec::new();
                while let Some(next) = words.next_if(|next| next.bytes().all(|byte| byte.is_ascii_digit())) {
                    pids.push(number(next, word)?);
                }
                if word == "-sf" { line.finish = pids } else { line.terminate = pids }
            }
            word if word.starts_with("-dK") => line.keywords = word.strip_prefix("-dK").map(str::to_owned),
            word if without_effect(word).is_some() => {
                let reason = without_effect(word).unwrap_or_default();
                line.warnings.push(format!("'{word}' has no effect: {reason}."));
            }
            word if shortened(word).is_some() => {
                let flag = shortened(word).unwrap_or_default();
                line.warnings.push(format!("'{word}' is taken as '{flag}', as HAProxy does; the rest has no effect."));
                match flag {
                    "-c" => line.check = true,
                    "-D" => line.daemon = true,
                    "-q" => line.edge.quiet = true,
                    "-v" => line.version = 1,
                    "-V" => (line.edge.quiet, line.edge.verbose) = (false, true),
                    "-W" => line.master_worker = true,
                    "-db" => line.foreground = true,
                    _ => line.debug = true,
                }
            }
            "-h" | "--help" => line.help = true,
            word if word.split_once('=').is_some_and(|(option, _)| LONG_OPTIONS.contains(&option)) => {
                let (option, value) = word.split_once('=').unwrap_or_default();
                return Err(format!("the value of '{option}' stands behind a blank: {option} {value}"));
            }
            word if !word.starts_with('-') => {
                return Err(format!("'{word}' is not an option; a file or folder of configuration is named with -f"));
            }
            word => {
                let known = LONG_OPTIONS.iter().chain(&["--print", "--help"]).copied();
                let meant = basics::nearest::nearest(word, known).map(|meant| format!("; did you mean '{meant}'?"));
                let meant = meant.unwrap_or_else(|| "; run with -h to see them all".into());
                return Err(format!("unknown option '{word}'{meant}"));
            }
        }
    }
    Ok(line)
}

fn number(text: &str, option: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("option '{option}' expects a number, not '{text}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Result<CommandLine, String> {
        parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn reads_haproxys_options() {
        let parsed = line("-W -f a.cfg b.cfg -f c -D -p /run/x.pid -sf 12 34 -n 100 -S /run/m,level,admin").unwrap();
        assert_eq!(parsed.edge.sources, ["a.cfg", "b.cfg", "c"]);
        assert_eq!(parsed.finish, [12, 34]);
        assert!(parsed.master_worker && parsed.daemon);
        assert_eq!(parsed.edge.language.maxconn, Some(100));
        assert_eq!(parsed.control, ["/run/m,level,admin"]);
        assert_eq!(line("-- x y").unwrap().edge.sources, ["x", "y"]);
    }

    #[test]
    fn servers_may_stand_on_the_command_line() {
        let quick_start =
            line("--from :80 :81 --to a:1 b:2 --to c:3 -q --health /up --stats none --print").unwrap().quick_start;
        assert_eq!((quick_start.from.join(" "), quick_start.to.join(" ")), (":80 :81".into(), "a:1 b:2 c:3".into()));
        assert_eq!((quick_start.health.as_deref(), quick_start.stats.as_deref()), (Some("/up"), Some("none")));
        assert!(quick_start.print && quick_start.is_asked_for());
        assert!(!line("-f a.cfg").unwrap().quick_start.is_asked_for());
    }

    #[test]
    fn no_flag_is_ignored_in_silence() {
        for flag in ["-de", "-dp", "-dk", "-dv", "-dG", "-dM", "-dM0", "-dM0xff,no-merge", "-d", "-x a -x b"] {
            assert_eq!(line(flag).unwrap().warnings.len(), 1, "{flag}");
        }
        let parsed = line("-m 64 -dV -dr -dD -dL -dKacl,cfg -dS -dR -dW -db -q -V").unwrap();
        assert_eq!(parsed.warnings, Vec::<String>::new());
        assert_eq!((parsed.keywords.as_deref(), parsed.libraries), (Some("acl,cfg"), true));
        let language = &parsed.edge.language;
        assert!(language.tolerates_unresolved && language.diagnoses && language.zero_warning && language.noreuseport);
        assert!(language.servers_unverified);
        assert_eq!(language.memory_max_mb, 64);
    }

    #[test]
    fn what_stands_behind_a_flag_has_no_effect() {
        for (text, flag) in [("-cV", "-c"), ("-Dx", "-D"), ("-Wx", "-W"), ("-dbx", "-db"), ("-dX", "-d"), ("-qc", "-q")]
        {
            let parsed = line(text).unwrap();
            assert_eq!(
                parsed.warnings,
                [format!("'{text}' is taken as '{flag}', as HAProxy does; the rest has no effect.")]
            );
        }
        let parsed = line("-cV").unwrap();
        assert!(parsed.check && !parsed.edge.verbose);
        assert!(line("-dX").unwrap().debug);
    }

    #[test]
    fn says_what_is_wrong() {
        for (text, expected) in [
            ("-f", "option '-f' expects a file or folder"),
            ("-m", "option '-m' expects megabytes"),
            ("-n many", "option '-n' expects a number, not 'many'"),
            ("--from", "option '--from' expects an address"),
            ("--from=:80", "the value of '--from' stands behind a blank: --from :80"),
            ("--fast", "unknown option '--fast'; run with -h to see them all"),
            ("--form", "unknown option '--form'; did you mean '--from'?"),
            ("--helth", "unknown option '--helth'; did you mean '--health'?"),
            ("a.cfg", "'a.cfg' is not an option; a file or folder of configuration is named with -f"),
        ] {
            assert_eq!(line(text).unwrap_err(), expected);
        }
    }
}
