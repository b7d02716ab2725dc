//! Why a setting cannot be taken. The texts are Redis' own where Redis refuses the same.

use super::clients::LimitTrouble;

/// Why the words of a value are none of its setting: whoever wrote them is to write others.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidValue {
    /// There are too many words, or too few.
    #[error("wrong number of arguments")]
    WordCount,
    /// It is no integer.
    #[error("argument couldn't be parsed into an integer")]
    NotInteger,
    /// It is beyond the bounds.
    #[error("argument must be between {least} and {most} inclusive")]
    OutOfBounds {
        /// The least that may be.
        least: i128,
        /// The most.
        most: i128,
    },
    /// It is no number of bytes.
    #[error("argument must be a memory value")]
    NotMemory,
    /// It is neither a number of bytes nor a part of something.
    #[error("argument must be a memory or percent value")]
    NotMemoryOrPercent,
    /// It is a part of more than all.
    #[error("percentage argument must be less or equal to 100")]
    OverAll,
    /// It is neither of both.
    #[error("argument must be 'yes' or 'no'")]
    NotFlag,
    /// Another name or path than the one that was said would be worse than none.
    #[error("argument must be UTF-8")]
    NotUtf8,
    /// It is none of these words.
    #[error("argument(s) must be one of the following: {}", .0.join(", "))]
    NotOneOf(Vec<&'static str>),
    /// A letter that no class of events has.
    #[error("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.")]
    EventClass,
    /// `save` has something else than pairs of seconds and changes.
    #[error("Invalid save parameters")]
    SavePoints,
    /// A percentile is no number.
    #[error("Invalid latency-tracking-info-percentiles parameters")]
    Percentile,
    /// A percentile is beyond the bounds.
    #[error("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]")]
    PercentileBounds,
    /// A score of the kernel's is no number, or beyond the bounds.
    #[error("Invalid oom-score-adj-values, elements must be between -2000 and 2000.")]
    OomScore,
    /// The scores are in no order.
    #[error("The oom-score-adj-values must be non-decreasing: master, replica, child")]
    OomOrder,
    /// A checkpoint and none.
    #[error("shutdown options SAVE and NOSAVE can't be used simultaneously")]
    SaveAndNoSave,
    /// The port of a master is no port.
    #[error("Invalid master port")]
    MasterPort,
    /// The name of a file has a folder in it.
    #[error("a name can't be a path, just a filename")]
    NotFileName,
    /// What the store's allocator does not do.
    #[error("Active defragmentation cannot be enabled: the store's allocator is the system's")]
    Defragmentation,
    /// A bound of what clients leave unread is none.
    #[error(transparent)]
    OutputLimit(#[from] LimitTrouble),
}

/// Why a command cannot have another name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenameError {
    /// There is no such command.
    #[error("No such command in rename-command: '{0}'")]
    Unknown(String),
    /// Another command has the name.
    #[error("Target command name already exists: '{0}'")]
    Taken(String),
}

/// Why a line of redis.conf, or a setting of the command line, cannot be taken: whoever wrote it is to correct it, unless a file that it
/// names cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// A quote has no end.
    #[error("unbalanced quotes")]
    Quotes,
    /// `include` has not one word.
    #[error("include takes the name of one file")]
    IncludeWords,
    /// `user` has no name.
    #[error("'user' needs a name and rules")]
    UserWords,
    /// `rename-command` has not two words.
    #[error("'rename-command' takes a command and its new name, or \"\"")]
    RenameWords,
    /// A command cannot have another name.
    #[error(transparent)]
    Rename(#[from] RenameError),
    /// The directive does what the store has not.
    #[error("'{name}' is refused: {reason}")]
    Refused {
        /// The directive.
        name: &'static str,
        /// What the store has not.
        reason: &'static str,
    },
    /// There is no such setting.
    #[error("there is no setting '{name}'{}", hint(*.nearest))]
    Unknown {
        /// What was asked for.
        name: String,
        /// What was meant, maybe.
        nearest: Option<&'static str>,
    },
    /// The setting has no value.
    #[error("'{name}': {reason}; it needs a value")]
    NoValue {
        /// The setting.
        name: &'static str,
        /// What is wrong with none.
        reason: InvalidValue,
    },
    /// The value is none of the setting.
    #[error("'{name}': {reason}")]
    Value {
        /// The setting.
        name: &'static str,
        /// What is wrong.
        reason: InvalidValue,
    },
    /// The store does not do this yet.
    #[error("'{name}' is not there yet: {reason}")]
    Missing {
        /// The setting.
        name: &'static str,
        /// What is not there.
        reason: &'static str,
    },
    /// A file that is named cannot be taken.
    #[error(transparent)]
    Include(#[from] IncludeError),
}

/// Why files that a line names cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IncludeError {
    /// Files name one another, maybe without end.
    #[error("files include one another more than {0} deep")]
    TooDeep(usize),
    /// Some cannot be read: each with why.
    #[error("{}", .0.iter().map(|(path, reason)| format!("cannot read {path}: {reason}")).collect::<Vec<_>>().join("; "))]
    Unreadable(Vec<(String, String)>),
}

fn hint(name: Option<&str>) -> String {
    name.map_or(" (CONFIG GET * shows those that there are)".to_owned(), |name| format!("; did you mean '{name}'?"))
}
