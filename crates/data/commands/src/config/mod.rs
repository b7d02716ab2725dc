//! Settings by redis.conf's names: one table for the file, the command line, `CONFIG` and the reference.

mod choices;
mod clients;
mod error;
pub mod file;
pub mod kept;
mod kinds;
mod limits;
mod lists;
mod renames;
mod rewrite;
mod settings;

pub use choices::{
    AclPubsub, Allowed, CopyVersion, EndpointType, Fsync, LogLevel, OomScoreAdjust, PropagationError, ReplicaLoad,
    SanitizeDump, Supervised, SyslogFacility, TablesEngine, TablesRead, TlsClients,
};
pub use clients::{ClientsMemory, LimitTrouble, OutputLimit, OutputLimits};
pub use error::{IncludeError, InvalidValue, RenameError, SettingError};
pub use kinds::{Choice, Events, Flag, Hertz, Integer, Kind, Memory, Password, Text};
pub use lists::{FileName, Master, NoDefragmentation, Octal, OomScores, Percentiles, SavePoints, ShutdownOnSignal};
pub use renames::{FindOwnName, Renamed, Renames};
pub(crate) use rewrite::quoted;
pub use rewrite::{UserLine, rewrite};
pub use settings::{SETTINGS, Settings};

/// Whether a setting does something here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It does what it does in Redis.
    Supported,
    /// It is taken so that files and scripts work, and changes nothing, for the reason that is given.
    WithoutEffect(&'static str),
    /// It is not there yet, and whoever sets it counts on it: setting it is an error.
    Missing(&'static str),
}

/// When a setting may be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// By `CONFIG SET` too.
    Free,
    /// By `CONFIG SET` where `enable-protected-configs` lets it.
    Protected,
    /// In the file and on the command line alone.
    AtStart,
}

/// A setting's row.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Its name in redis.conf.
    pub name: &'static str,
    /// Another name that works: mostly the one that it had before.
    pub alias: Option<&'static str>,
    /// When it may be changed.
    pub change: Change,
    /// Whether it does something.
    pub state: State,
    /// What it is.
    pub doc: &'static str,
    /// Its value as text.
    pub text: fn(&Settings) -> String,
    /// The same where it may be no text.
    pub bytes: fn(&Settings) -> Vec<u8>,
    /// Reads it. The error says what would be right.
    pub set: fn(&mut Settings, &[&[u8]]) -> Result<(), InvalidValue>,
}

/// Lines of a file that set nothing: the name, why it is refused, and what it does.
pub const DIRECTIVES: &[(&str, Option<&str>, &str)] = &[
    ("include", None, "Reads other files in its place; names may have wildcards."),
    ("user", None, "A user, with the rules of ACL SETUSER."),
    ("loadmodule", Some("the store has no modules: machine code for Redis cannot run here"), "Loads a module."),
    (
        "rename-command",
        None,
        "Gives a command another name for clients and scripts, or none (`\"\"`). Rules of ACLs, statistics and the log have its own name.",
    ),
];

/// Finds a setting by name, in any case.
pub fn find(name: &[u8]) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| {
        setting.name.as_bytes().eq_ignore_ascii_case(name)
            || setting.alias.is_some_and(|alias| alias.as_bytes().eq_ignore_ascii_case(name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_takes_the_text_that_it_gives() {
        let mut settings = Settings::default();
        for setting in SETTINGS {
            let text = (setting.text)(&settings);
            let words: Vec<&[u8]> =
                if text.is_empty() { vec![b""] } else { text.split(' ').map(str::as_bytes).collect() };
            (setting.set)(&mut settings, &words).unwrap_or_else(|error| panic!("{}: {error}", setting.name));
            assert_eq!((setting.text)(&settings), text, "{}", setting.name);
        }
    }

    #[test]
    fn wrong_values_are_refused_in_redis_words() {
        let mut settings = Settings::default();
        for (name, value, expected) in [
            ("databases", "0", "argument must be between 1 and 128 inclusive"),
            ("databases", "x", "argument couldn't be parsed into an integer"),
            ("maxmemory", "1xb", "argument must be a memory value"),
            (
                "client-query-buffer-limit",
                "1023kb",
                "argument must be between 1048576 and 9223372036854775807 inclusive",
            ),
            ("proto-max-bulk-len", "0", "argument must be between 1048576 and 9223372036854775807 inclusive"),
            (
                "hll-sparse-max-bytes",
                "9223372036854775808",
                "argument must be between 0 and 9223372036854775807 inclusive",
            ),
            ("hz", "-1", "argument must be between 0 and 2147483647 inclusive"),
            ("appendonly", "maybe", "argument must be 'yes' or 'no'"),
            ("appendfsync", "often", "argument(s) must be one of the following: everysec, always, no"),
            ("save", "60", "Invalid save parameters"),
            ("save", "0 1", "Invalid save parameters"),
            ("unixsocketperm", "9", "argument couldn't be parsed into an integer"),
            ("dbfilename", "a/b", "a name can't be a path, just a filename"),
            ("replicaof", "host", "wrong number of arguments"),
            (
                "shutdown-on-sigint",
                "never",
                "argument(s) must be one of the following: default, save, nosave, now, force",
            ),
            ("shutdown-on-sigint", "save nosave", "shutdown options SAVE and NOSAVE can't be used simultaneously"),
            (
                "latency-tracking-info-percentiles",
                "10.0 101",
                "latency-tracking-info-percentiles parameters should sit between [0.0,100.0]",
            ),
        ] {
            let setting = find(name.as_bytes()).expect(name);
            let refused = (setting.set)(&mut settings, &[value.as_bytes()]).map_err(|reason| reason.to_string());
            assert_eq!(refused, Err(expected.to_owned()), "{name} {value}");
        }
        let setting = find(b"MAXMEMORY").expect("names are taken in any case");
        assert_eq!((setting.set)(&mut settings, &[b"2kb"]), Ok(()));
        assert_eq!(settings.maxmemory.0, 2048);
        let setting = find(b"hz").expect("it is there");
        assert_eq!((setting.set)(&mut settings, &[b"1000"]), Ok(()), "the nearest bound is taken");
        assert_eq!(settings.hz.0, 500);
        let setting = find(b"slaveof").expect("the name that it had before");
        assert_eq!((setting.set)(&mut settings, &[b"host", b"70000"]), Err(InvalidValue::MasterPort));
        let setting = find(b"shutdown-on-sigterm").expect("it is there");
        assert_eq!((setting.set)(&mut settings, &[b"force", b"nosave now"]), Ok(()));
        assert_eq!((setting.text)(&settings), "nosave now force");
    }
}
