//! One server as the farm knows it: settings, states, load.

use crate::config::ServerConfig;
use crate::health::{Check, CheckKind};
use crate::order::Tree;

/// The scale between a weight in the configuration and the weight used for choosing, so that small weights can be
/// reduced in small steps. HAProxy's number: the sequences of `roundrobin` depend on it.
pub(crate) const WEIGHT_SCALE: u32 = 16;
/// The greatest weight used for choosing.
pub(crate) const EFFECTIVE_WEIGHT_MAX: u32 = crate::config::WEIGHT_MAX * WEIGHT_SCALE;

/// Whether a server works, as far as checks and traffic tell. Only `Stopped` is down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum OperationalState {
    /// Down.
    Stopped,
    /// Up since a moment ago, with rising weight and limit (`slowstart`).
    Starting,
    /// Up.
    #[default]
    Running,
    /// Up, but it asked for no new visitors (`http-check disable-on-404`): shown as `NOLB`.
    Stopping,
}

impl OperationalState {
    /// The number used in state files.
    pub fn code(self) -> u8 {
        match self {
            Self::Stopped => 0,
            Self::Starting => 1,
            Self::Running => 2,
            Self::Stopping => 3,
        }
    }

    /// The state with this number in state files.
    pub fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Stopped),
            1 => Some(Self::Starting),
            2 => Some(Self::Running),
            3 => Some(Self::Stopping),
            _ => None,
        }
    }
}

/// What people, the configuration and name resolution say about a server: a set of flags with HAProxy's numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdminState(u8);

impl AdminState {
    /// Ready: nothing is set.
    pub const READY: Self = Self(0);
    /// Forced into maintenance.
    pub const FORCED_MAINT: Self = Self(0x01);
    /// In maintenance because the server it tracks is.
    pub const INHERITED_MAINT: Self = Self(0x02);
    /// In maintenance since the configuration says `disabled`.
    pub const CONFIG_MAINT: Self = Self(0x04);
    /// Forced into drain.
    pub const FORCED_DRAIN: Self = Self(0x08);
    /// In drain because the server it tracks is.
    pub const INHERITED_DRAIN: Self = Self(0x10);
    /// In maintenance because its name does not resolve.
    pub const RESOLUTION_MAINT: Self = Self(0x20);

    /// Its name was set at run time.
    pub const NAME_SET: Self = Self(0x40);

    const ANY_MAINT: u8 = 0x23;
    const ANY_DRAIN: u8 = 0x18;

    /// The number used in state files.
    pub fn bits(self) -> u8 {
        self.0
    }

    /// The flags with this number in state files; unknown ones are dropped.
    pub fn from_bits(bits: u8) -> Self {
        Self(bits & 0x7f)
    }

    /// Whether all flags of `other` are set.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether the server is in maintenance, for whatever reason.
    pub fn is_maint(self) -> bool {
        self.0 & Self::ANY_MAINT != 0
    }

    /// Whether the server is draining, for whatever reason.
    pub fn is_drain(self) -> bool {
        self.0 & Self::ANY_DRAIN != 0
    }

    pub(crate) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// The three things that decide whether and how much a server takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) state: OperationalState,
    pub(crate) admin: AdminState,
    pub(crate) weight: u32,
}

impl Standing {
    /// Whether new visitors may be sent to the server.
    pub(crate) fn is_usable(&self) -> bool {
        self.weight > 0
            && !self.admin.is_maint()
            && !self.admin.is_drain()
            && matches!(self.state, OperationalState::Starting | OperationalState::Running)
    }
}

/// Counters of one server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerCounters {
    pub(crate) served_max: u32,
    pub(crate) queue_max: u32,
    pub(crate) chosen: u64,
    pub(crate) retries: u64,
    pub(crate) redispatches: u64,
    pub(crate) failed_checks: u64,
    pub(crate) failed_observations: u64,
    pub(crate) went_down: u64,
}

/// One server of a farm.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) config: ServerConfig,
    /// The server's number in HAProxy's sense (`id`), unique in the farm.
    pub(crate) number: u32,
    pub(crate) initial_weight: u32,
    pub(crate) user_weight: u32,
    pub(crate) maxconn: u32,
    pub(crate) minconn: u32,
    pub(crate) slowstart_s: u64,

    /// What the algorithm has been told.
    pub(crate) current: Standing,
    /// What it is going to be told.
    pub(crate) next: Standing,
    pub(crate) last_change_ms: u64,
    pub(crate) down_time_s: u64,
    /// When a step of the slow start is due.
    pub(crate) warmup_due_ms: Option<u64>,
    pub(crate) consecutive_errors: u32,
    pub(crate) check: Check,
    /// Questions to its agent (`agent-check`).
    pub(crate) agent: Option<Box<Check>>,
    /// Whether the followed server (`track`) is checked.
    pub(crate) followed_check: bool,
    /// Whether it is down.
    pub(crate) followed_stopped: bool,
    /// Health by the agent of the followed server, if one is asked.
    pub(crate) followed_agent: Option<u32>,

    /// Streams that hold a slot.
    pub(crate) served: u32,
    /// The server is gone; its place waits for another.
    pub(crate) is_vacant: bool,
    /// Tickets in the server's own queue.
    pub(crate) queued: u32,
    /// Tickets that ever left the server's queue for a slot, for their position in the log.
    pub(crate) queue_index: u32,
    pub(crate) counters: ServerCounters,

    /// The set the algorithm has put the server into. It stays set while the server is taken out for a moment.
    pub(crate) tree: Option<Tree>,
    /// `roundrobin`: next position, last position and the rest of the division of the cycle by the weight.
    pub(crate) next_position: u32,
    pub(crate) last_position: u32,
    pub(crate) rest_weight: u32,
    /// `roundrobin`: the next saturated server in the list that one choice builds.
    pub(crate) next_full: Option<u32>,
    /// Consistent hashes: weight of all servers before this one when the farm was built.
    pub(crate) cumulative_weight: u32,
    /// Consistent hashes: points on the ring, and points that the server had at most.
    pub(crate) points: u32,
    pub(crate) points_max: u32,
}

impl Server {
    pub(crate) fn new(mut config: ServerConfig, number: u32) -> Self {
        config.weight = config.weight.min(crate::config::WEIGHT_MAX);
        // `minconn` alone, or above `maxconn`, raises `maxconn`; `maxconn` alone is a fixed limit.
        let maxconn = config.maxconn.max(config.minconn);
        let minconn = if config.minconn == 0 { maxconn } else { config.minconn };
        let admin =
            if config.disabled { AdminState::CONFIG_MAINT.with(AdminState::FORCED_MAINT) } else { AdminState::READY };
        let check = Check::new(config.check, config.disabled);
        // One whose results are counted in a window may have too few at the start.
        let is_down = config.disabled || check.probes.as_ref().is_some_and(|probes| !probes.is_healthy());
        let state = if is_down { OperationalState::Stopped } else { OperationalState::Running };
        let standing = Standing { state, admin, weight: 0 };
        let agent = config.agent.map(|agent| Box::new(Check::new(Some(agent), false)));
        Self {
            number,
            initial_weight: config.weight,
            user_weight: config.weight,
            maxconn,
            minconn,
            slowstart_s: config.slowstart_ms.div_ceil(1_000),
            current: standing,
            next: standing,
            last_change_ms: 0,
            down_time_s: 0,
            warmup_due_ms: None,
            consecutive_errors: 0,
            check,
            agent,
            followed_check: false,
            followed_stopped: false,
            followed_agent: None,
            served: 0,
            is_vacant: false,
            queued: 0,
            queue_index: 0,
            counters: ServerCounters::default(),
            tree: None,
            next_position: 0,
            last_position: 0,
            rest_weight: 0,
            next_full: None,
            cumulative_weight: 0,
            points: 0,
            points_max: 0,
            config,
        }
    }

    /// Tells that what the algorithm was told is now the truth.
    pub(crate) fn commit(&mut self) {
        self.current = self.next;
    }

    /// The check of that kind, if it has one.
    pub(crate) fn check_of(&self, kind: CheckKind) -> Option<&Check> {
        match kind {
            CheckKind::Health => self.check.config.is_some().then_some(&self.check),
            CheckKind::Agent => self.agent.as_deref(),
        }
    }

    /// The same, to be changed.
    pub(crate) fn check_of_mut(&mut self, kind: CheckKind) -> Option<&mut Check> {
        match kind {
            CheckKind::Health => self.check.config.is_some().then_some(&mut self.check),
            CheckKind::Agent => self.agent.as_deref_mut(),
        }
    }

    /// Whether neither checks nor the agent have a word against the server.
    pub(crate) fn checks_agree(&self) -> bool {
        (!self.check.enabled || self.check.is_up())
            && self.agent.as_ref().is_none_or(|agent| !agent.enabled || agent.is_up())
    }

    /// Health by the agent of this server, or of the one that it follows, if one is asked.
    pub(crate) fn agent_health(&self) -> Option<u32> {
        if self.config.track.is_some() {
            return self.followed_agent;
        }
        self.agent.as_ref().filter(|agent| agent.enabled).map(|agent| agent.health)
    }

    /// The state in which the server comes up.
    pub(crate) fn first_up_state(&self) -> OperationalState {
        if self.slowstart_s > 0 { OperationalState::Starting } else { OperationalState::Running }
    }

    /// Adds the time since the last change to the time the server was down.
    pub(crate) fn count_down_time(&mut self, now_ms: u64) {
        self.down_time_s += (now_ms / 1_000).saturating_sub(self.last_change_ms / 1_000);
    }

    /// Whole seconds since the last change of state, and whether that is still within the slow start.
    pub(crate) fn warmup_s(&self, now_ms: u64) -> Option<u64> {
        let elapsed = (now_ms / 1_000).checked_sub(self.last_change_ms / 1_000)?;
        (elapsed < self.slowstart_s).then_some(elapsed)
    }
}
