//! Under which names a cluster is kept.
//!
//! | name | what |
//! |---|---|
//! | `/tidegate/NAME/state` | the cluster as it is: epoch, groups, slots, proxies |
//! | `/tidegate/NAME/history/EPOCH` | the change that made an epoch: who, when, what, and the cluster after it; 20 digits, so names sort by number |
//! | `/tidegate/NAME/past` | how many changes of the record there were, with marks by which each is told from others; rescues among them |
//! | `/tidegate/NAME/in-sync/GROUP` | which replicas have all that was acknowledged; 10 digits |
//! | `/tidegate/NAME/pending` | what waits for a person, and what was said to it |
//! | `/tidegate/NAME/moves` | slots that are to move and have not yet |
//! | `/tidegate/NAME/agents/HOST` | an agent that runs, by lease: where its REST is, its version |
//! | `/tidegate/NAME/voters/HOST` | written by each start of an agent: the version is the number of that start |
//! | `/tidegate/NAME/leader` | which agent leads, and its term |
//! | `/tidegate/NAME/token` | the token by which agents and people change the cluster |
//!
//! A change of the cluster writes `state`, its line of `history` and `past` in one transaction, if `leader` and all of `voters` are what
//! whoever leads has seen. Who is in sync and who leads are written with `past`, too.

/// The names of one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    root: String,
}

impl Keys {
    /// Those of a cluster by its name.
    #[must_use]
    pub fn new(cluster: &str) -> Self {
        Self { root: format!("/tidegate/{cluster}") }
    }

    /// What all of them begin with.
    #[must_use]
    pub fn all(&self) -> String {
        format!("{}/", self.root)
    }

    /// The cluster as it is.
    #[must_use]
    pub fn state(&self) -> String {
        format!("{}/state", self.root)
    }

    /// The changes behind all that.
    #[must_use]
    pub fn past(&self) -> String {
        format!("{}/past", self.root)
    }

    /// What all changes begin with.
    #[must_use]
    pub fn history(&self) -> String {
        format!("{}/history/", self.root)
    }

    /// The change that made an epoch.
    #[must_use]
    pub fn change(&self, epoch: u64) -> String {
        format!("{}/history/{epoch:020}", self.root)
    }

    /// What the names of all groups' replicas in sync begin with.
    #[must_use]
    pub fn in_sync_all(&self) -> String {
        format!("{}/in-sync/", self.root)
    }

    /// The replicas of a group that are in sync.
    #[must_use]
    pub fn in_sync(&self, group: u32) -> String {
        format!("{}/in-sync/{group:010}", self.root)
    }

    /// What waits for a person.
    #[must_use]
    pub fn pending(&self) -> String {
        format!("{}/pending", self.root)
    }

    /// Slots that are to move.
    #[must_use]
    pub fn moves(&self) -> String {
        format!("{}/moves", self.root)
    }

    /// An agent that runs.
    #[must_use]
    pub fn agent(&self, host: &str) -> String {
        format!("{}/agents/{host}", self.root)
    }

    /// What the names of all agents begin with.
    #[must_use]
    pub fn agents_all(&self) -> String {
        format!("{}/agents/", self.root)
    }

    /// What the names of all voters begin with.
    #[must_use]
    pub fn voters_all(&self) -> String {
        format!("{}/voters/", self.root)
    }

    /// The starts of a host's agent.
    #[must_use]
    pub fn voter(&self, host: &str) -> String {
        format!("{}/voters/{host}", self.root)
    }

    /// Which agent leads.
    #[must_use]
    pub fn leader(&self) -> String {
        format!("{}/leader", self.root)
    }

    /// The token by which the cluster is changed.
    #[must_use]
    pub fn token(&self) -> String {
        format!("{}/token", self.root)
    }
}
