//! What a shard director goes by: what a call says, below it what is said for this task, for a set of parameters (`shard_param`), and
//! what is the rule.

use cache::index::Digest;
use vcl::program::ObjectIndex;

use super::hash_32;

/// Where a key comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// The key of the cache for a backend's request, the URL for a client's.
    #[default]
    Hash,
    /// The URL.
    Url,
    /// It is given as a number.
    Key,
    /// It is given as bytes.
    Blob,
}

impl By {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hash => "HASH",
            Self::Url => "URL",
            Self::Key => "KEY",
            Self::Blob => "BLOB",
        }
    }

    pub(crate) fn of_word(word: &str) -> Self {
        [Self::Url, Self::Key, Self::Blob].into_iter().find(|by| by.name() == word).unwrap_or_default()
    }
}

/// How a director looks at health.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Healthy {
    /// The one that is chosen must be healthy.
    #[default]
    Chosen,
    /// It is not looked at.
    Ignore,
    /// Those that alternatives skip must be healthy too.
    All,
}

impl Healthy {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Chosen => "CHOSEN",
            Self::Ignore => "IGNORE",
            Self::All => "ALL",
        }
    }

    pub(crate) fn of_word(word: &str) -> Self {
        [Self::Ignore, Self::All].into_iter().find(|healthy| healthy.name() == word).unwrap_or_default()
    }
}

/// What a choice goes by in the end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShardParameters {
    /// Where the key comes from.
    pub by: By,
    /// The key.
    pub key: u32,
    /// How many backends are skipped.
    pub alternative: i64,
    /// How likely the next backend is asked, so that it knows the objects too; -1 for what the director says.
    pub warmup: f64,
    /// Whether a backend that became healthy gets its requests little by little.
    pub rampup: bool,
    /// How health is looked at.
    pub healthy: Healthy,
}

impl Default for ShardParameters {
    fn default() -> Self {
        Self { by: By::Hash, key: 0, alternative: 0, warmup: -1.0, rampup: true, healthy: Healthy::Chosen }
    }
}

/// The key that is looked for on the ring. `digest` is that of a request to a backend.
pub(crate) fn shard_key(by: By, key: u32, url: &[u8], digest: Option<Digest>) -> u32 {
    match (by, digest) {
        (By::Key | By::Blob, _) => key,
        (By::Hash, Some(Digest([a, b, c, d, ..]))) => u32::from_be_bytes([a, b, c, d]),
        (By::Hash | By::Url, _) => hash_32(&[url]),
    }
}

/// What is said of it in one place; `None` for what is not.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Wishes {
    /// With the key for [`By::Key`] and [`By::Blob`].
    pub by: Option<(By, u32)>,
    pub alternative: Option<i64>,
    pub warmup: Option<f64>,
    pub rampup: Option<bool>,
    pub healthy: Option<Healthy>,
}

impl Wishes {
    /// These over those.
    pub(crate) fn over(self, below: Self) -> Self {
        Self {
            by: self.by.or(below.by),
            alternative: self.alternative.or(below.alternative),
            warmup: self.warmup.or(below.warmup),
            rampup: self.rampup.or(below.rampup),
            healthy: self.healthy.or(below.healthy),
        }
    }

    /// With what is the rule for what nothing is said about.
    pub(crate) fn complete(self) -> ShardParameters {
        let rule = ShardParameters::default();
        let (by, key) = self.by.unwrap_or((rule.by, rule.key));
        ShardParameters {
            by,
            key,
            alternative: self.alternative.unwrap_or(rule.alternative),
            warmup: self.warmup.unwrap_or(rule.warmup),
            rampup: self.rampup.unwrap_or(rule.rampup),
            healthy: self.healthy.unwrap_or(rule.healthy),
        }
    }
}

/// What is below what is said for a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Below {
    /// The rule.
    Rule,
    /// A set of parameters as `vcl_init` left it.
    Set(ObjectIndex),
    /// A set of parameters with what this task has said of it.
    SetOfTask(ObjectIndex),
}

/// What one request or fetch has said of directors and sets of parameters.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShardTask {
    said: Vec<(ObjectIndex, Wishes, Below)>,
}

impl ShardTask {
    fn find(&self, object: ObjectIndex) -> Option<(Wishes, Below)> {
        self.said.iter().find(|(known, ..)| *known == object).map(|(_, wishes, below)| (*wishes, *below))
    }

    /// Says something of a set of parameters.
    pub(crate) fn set_parameters(&mut self, set: ObjectIndex, wishes: Wishes) {
        self.put(set, wishes, Below::Set(set));
    }

    /// Says something of a director, over a set of parameters that was given with it or the one that goes with the director.
    pub(crate) fn set_director(
        &mut self,
        director: ObjectIndex,
        wishes: Wishes,
        given: Option<ObjectIndex>,
        associated: Option<ObjectIndex>,
    ) {
        let below = given.map(Below::Set).or(associated.map(Below::SetOfTask)).unwrap_or(Below::Rule);
        self.put(director, wishes, below);
    }

    fn put(&mut self, object: ObjectIndex, wishes: Wishes, below: Below) {
        self.said.retain(|(known, ..)| *known != object);
        self.said.push((object, wishes, below));
    }

    /// What holds for a set of parameters in this task; `of_set` gives what `vcl_init` left.
    pub(crate) fn of_set(&self, set: ObjectIndex, of_set: impl Fn(ObjectIndex) -> Wishes) -> Wishes {
        self.find(set).map_or(Wishes::default(), |(wishes, _)| wishes).over(of_set(set))
    }

    /// What holds for a director.
    pub(crate) fn of_director(
        &self,
        director: ObjectIndex,
        associated: Option<ObjectIndex>,
        of_set: impl Fn(ObjectIndex) -> Wishes,
    ) -> Wishes {
        let below = |below: Below| match below {
            Below::Rule => Wishes::default(),
            Below::Set(set) => of_set(set),
            Below::SetOfTask(set) => self.of_set(set, &of_set),
        };
        match self.find(director) {
            Some((wishes, under)) => wishes.over(below(under)),
            None => below(associated.map_or(Below::Rule, Below::SetOfTask)),
        }
    }
}
