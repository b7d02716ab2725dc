//! Kinds of settings that are about clients.

use resp::parse_integer;

use super::{
    InvalidValue,
    kinds::{Kind, Memory},
};

/// Why a bound of what clients leave unread is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LimitTrouble {
    /// It is not a class and three numbers, or several such.
    #[error("Wrong number of arguments in buffer limit configuration.")]
    WordCount,
    /// No clients are of this class.
    #[error("Invalid client class specified in buffer limit configuration.")]
    Class,
    /// A number is none.
    #[error("Error in hard, soft or soft_seconds setting in buffer limit configuration.")]
    Number,
}

/// How much output one class of clients may leave unread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OutputLimit {
    /// At this a client is closed at once; 0: never.
    pub hard: u64,
    /// At this it is closed if it stays so for `soft_seconds`; 0: never.
    pub soft: u64,
    /// How long.
    pub soft_seconds: i64,
}

/// `client-output-buffer-limit`: the limit of each class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputLimits {
    /// Of clients that are nothing else.
    pub normal: OutputLimit,
    /// Of replicas.
    pub replica: OutputLimit,
    /// Of those that listen to channels.
    pub pubsub: OutputLimit,
}

impl OutputLimits {
    /// Redis' own.
    pub const DEFAULT: Self = Self {
        normal: OutputLimit { hard: 0, soft: 0, soft_seconds: 0 },
        replica: OutputLimit { hard: 256 << 20, soft: 64 << 20, soft_seconds: 60 },
        pubsub: OutputLimit { hard: 32 << 20, soft: 8 << 20, soft_seconds: 60 },
    };
}

impl Kind for OutputLimits {
    fn parse(words: &[&[u8]]) -> Result<Self, InvalidValue> {
        let mut limits = Self::DEFAULT;
        limits.update(words).map(|()| limits)
    }

    fn update(&mut self, words: &[&[u8]]) -> Result<(), InvalidValue> {
        let is_blank = |byte: &u8| byte.is_ascii_whitespace();
        let words: Vec<&[u8]> =
            words.iter().flat_map(|word| word.split(is_blank)).filter(|word| !word.is_empty()).collect();
        if !words.len().is_multiple_of(4) {
            return Err(LimitTrouble::WordCount.into());
        }
        let mut limits = *self;
        for part in words.chunks_exact(4) {
            let [class, hard, soft, seconds] = part else { continue };
            let of_class = match class.to_ascii_lowercase().as_slice() {
                b"normal" => &mut limits.normal,
                b"slave" | b"replica" => &mut limits.replica,
                b"pubsub" => &mut limits.pubsub,
                _ => return Err(LimitTrouble::Class.into()),
            };
            let read = || {
                let soft_seconds = parse_integer(seconds).filter(|seconds| *seconds >= 0)?;
                let memory = |word: &[u8]| <Memory>::parse(&[word]).ok().map(|memory| memory.0);
                Some(OutputLimit { hard: memory(hard)?, soft: memory(soft)?, soft_seconds })
            };
            *of_class = read().ok_or(LimitTrouble::Number)?;
        }
        *self = limits;
        Ok(())
    }

    fn text(&self) -> String {
        let classes = [("normal", self.normal), ("slave", self.replica), ("pubsub", self.pubsub)];
        let texts = classes.map(|(name, limit)| format!("{name} {} {} {}", limit.hard, limit.soft, limit.soft_seconds));
        texts.join(" ")
    }
}

/// `maxmemory-clients`: a number of bytes, or a part of `maxmemory`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientsMemory {
    /// So many bytes; 0: no bound.
    Bytes(u64),
    /// So many percent of `maxmemory`.
    Percent(u64),
}

impl ClientsMemory {
    /// How many bytes that is.
    pub fn bytes(self, maxmemory: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => maxmemory / 100 * percent + maxmemory % 100 * percent / 100,
        }
    }
}

impl Kind for ClientsMemory {
    fn parse(words: &[&[u8]]) -> Result<Self, InvalidValue> {
        let [word] = words else { return Err(InvalidValue::WordCount) };
        let Some(percent) = word.strip_suffix(b"%") else {
            return <Memory>::parse(words).map(|memory| Self::Bytes(memory.0));
        };
        let percent = parse_integer(percent).and_then(|percent| u64::try_from(percent).ok());
        match percent {
            Some(percent) if percent <= 100 => Ok(Self::Percent(percent)),
            Some(_) => Err(InvalidValue::OverAll),
            None => Err(InvalidValue::NotMemoryOrPercent),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Bytes(bytes) => bytes.to_string(),
            Self::Percent(percent) => format!("{percent}%"),
        }
    }
}
