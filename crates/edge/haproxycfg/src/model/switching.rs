//! Which backend and which server: `use_backend`, `use-server`, and when persistence counts.

use sample::{Condition, LogFormat};

use super::{ProxyIndex, ServerIndex};

/// `use_backend`.
#[derive(Clone, Debug)]
pub struct UseBackend {
    /// The backend, or text that names it.
    pub target: BackendTarget,
    /// When; `None` is always.
    pub condition: Option<Condition>,
    /// The words behind `use_backend`, for those who ask what runs.
    pub written: Box<str>,
}

/// Which backend.
#[derive(Clone, Debug)]
pub enum BackendTarget {
    /// Known at parse.
    Static(ProxyIndex),
    /// A log-format string whose text names it.
    Dynamic(LogFormat),
}

/// `use-server`.
#[derive(Clone, Debug)]
pub struct UseServer {
    /// The server, or text that names it.
    pub target: ServerTarget,
    /// When.
    pub condition: Option<Condition>,
}

/// Which server.
#[derive(Clone, Debug)]
pub enum ServerTarget {
    /// Known at parse.
    Static(ServerIndex),
    /// A log-format string whose text names it.
    Dynamic(LogFormat),
}

/// `ignore-persist` and `force-persist`.
#[derive(Clone, Debug)]
pub struct PersistRule {
    /// Whether it forces persistence to a down server; otherwise it ignores persistence.
    pub force: bool,
    /// When.
    pub condition: Option<Condition>,
}
