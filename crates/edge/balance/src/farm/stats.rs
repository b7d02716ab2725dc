//! What the statistics show about a farm.

use crate::ServerId;
use crate::config::CheckConfig;
use crate::health::{Check, CheckStatus};
use crate::server::{AdminState, OperationalState};

use super::Farm;

/// The state of a server in one value; `Display` gives HAProxy's words for it (`UP 1/3`, `MAINT (via bk/s1)`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerStatus {
    /// In maintenance because its name does not resolve.
    MaintResolution,
    /// In maintenance because the server it tracks is.
    MaintVia(String),
    /// In maintenance.
    Maint,
    /// Down.
    Down,
    /// Down, as an agent says.
    DownAgent,
    /// Down, and so many of so many good checks have been counted.
    GoingUp(u32, u32),
    /// Up.
    Up,
    /// Up, and so many of so many bad checks are left.
    GoingDown(u32, u32),
    /// Up, but it takes no new visitors (404 with `disable-on-404`).
    NoLb,
    /// The same, on its way down.
    NoLbGoingDown(u32, u32),
    /// Draining.
    Drain,
    /// Draining, while an agent is asked.
    DrainAgent,
    /// Draining, on its way down.
    DrainGoingDown(u32, u32),
    /// Not checked, so taken for up.
    NoCheck,
}

impl std::fmt::Display for ServerStatus {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::MaintResolution => formatter.write_str("MAINT (resolution)"),
            Self::MaintVia(via) => write!(formatter, "MAINT (via {via})"),
            Self::Maint => formatter.write_str("MAINT"),
            Self::Down => formatter.write_str("DOWN"),
            Self::DownAgent => formatter.write_str("DOWN (agent)"),
            Self::GoingUp(done, wanted) => write!(formatter, "DOWN {done}/{wanted}"),
            Self::Up => formatter.write_str("UP"),
            Self::GoingDown(left, of) => write!(formatter, "UP {left}/{of}"),
            Self::NoLb => formatter.write_str("NOLB"),
            Self::NoLbGoingDown(left, of) => write!(formatter, "NOLB {left}/{of}"),
            Self::Drain => formatter.write_str("DRAIN"),
            Self::DrainAgent => formatter.write_str("DRAIN (agent)"),
            Self::DrainGoingDown(left, of) => write!(formatter, "DRAIN {left}/{of}"),
            Self::NoCheck => formatter.write_str("no check"),
        }
    }
}

/// The last check of a server, as the statistics show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckView {
    /// Its result.
    pub status: CheckStatus,
    /// Whether another one is running (shown as `* L4OK`).
    pub in_progress: bool,
    /// The code, if the result has one.
    pub code: Option<u16>,
    /// How long it took.
    pub duration_ms: Option<u64>,
    /// More about it.
    pub info: String,
    /// The settings.
    pub config: CheckConfig,
    /// The counter, 0 to `rise + fall - 1`.
    pub health: u32,
}

impl CheckView {
    /// What there is to see of a check, unless it is switched off or rests.
    fn of(check: &Check) -> Option<Self> {
        (check.enabled && !check.paused).then(|| Self {
            status: check.status,
            in_progress: check.in_progress,
            code: check.status.has_code().then_some(check.code),
            duration_ms: check.duration_ms,
            info: check.info.clone(),
            config: check.config.unwrap_or_default(),
            health: check.health,
        })
    }
}

/// Numbers of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerStats {
    /// Its name.
    pub name: String,
    /// Its number (`sid`).
    pub number: u32,
    /// Its state.
    pub status: ServerStatus,
    /// The state as checks see it, without the administrative one.
    pub state: OperationalState,
    /// The administrative state.
    pub admin: AdminState,
    /// Whether it is a backup server.
    pub backup: bool,
    /// Weight in force, slow start included, in the user's scale (`weight`).
    pub weight: u32,
    /// Weight wanted by the user (`uweight`).
    pub user_weight: u32,
    /// Weight in the configuration.
    pub initial_weight: u32,
    /// Streams that hold a slot (`scur`), and their maximum (`smax`).
    pub served: u32,
    /// Most streams that held a slot.
    pub served_max: u32,
    /// `maxconn`, 0 without (`slim`).
    pub maxconn: u32,
    /// Requests in its queue (`qcur`).
    pub queued: u32,
    /// Most requests in its queue (`qmax`).
    pub queue_max: u32,
    /// `maxqueue`, 0 without (`qlimit`).
    pub maxqueue: u32,
    /// Times it was chosen by the algorithm (`lbtot`).
    pub chosen: u64,
    /// Attempts repeated on it (`wretr`).
    pub retries: u64,
    /// Requests sent elsewhere after a failure (`wredis`).
    pub redispatches: u64,
    /// Failed checks (`chkfail`).
    pub failed_checks: u64,
    /// Times it went down (`chkdown`).
    pub went_down: u64,
    /// Times `on-error` was reached (`hanafail`).
    pub failed_observations: u64,
    /// Seconds since its last change of state (`lastchg`).
    pub last_change_s: u64,
    /// Seconds it was down (`downtime`).
    pub down_time_s: u64,
    /// Progress of a slow start in percent (`throttle`).
    pub throttle: Option<u32>,
    /// The server it follows (`tracked`).
    pub track: Option<String>,
    /// The last check, if checks run and are not paused.
    pub check: Option<CheckView>,
    /// The last question to its agent, if it is asked.
    pub agent: Option<CheckView>,
    /// Whether checks are switched on, so that the counters about them mean something.
    pub check_enabled: bool,
}

/// Numbers of the whole backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendStats {
    /// Whether any server takes part (`UP` or `DOWN`).
    pub is_up: bool,
    /// Streams in the backend (`scur`).
    pub streams: u32,
    /// Most streams in the backend (`smax`).
    pub streams_max: u32,
    /// Streams that hold a slot of a server.
    pub served: u32,
    /// Requests in all queues (`qcur`).
    pub queued_total: u32,
    /// Requests in the backend's own queue.
    pub queued: u32,
    /// Most requests in the backend's own queue (`qmax`).
    pub queue_max: u32,
    /// Total weight of the servers in use, in the user's scale (`weight`).
    pub weight: u32,
    /// Active servers that are usable (`act`).
    pub active: u32,
    /// Backup servers that are usable (`bck`).
    pub backup: u32,
    /// Times a server was chosen (`lbtot`).
    pub chosen: u64,
    /// Repeated attempts (`wretr`).
    pub retries: u64,
    /// Requests sent elsewhere after a failure (`wredis`).
    pub redispatches: u64,
    /// Times the backend lost its last server (`chkdown`).
    pub went_down: u64,
    /// Seconds since it lost its last server or got the first one (`lastchg`).
    pub last_change_s: u64,
    /// Seconds without a server (`downtime`).
    pub down_time_s: u64,
}

impl<W> Farm<W> {
    /// Servers that take new requests now: `nbsrv`.
    pub fn usable(&self) -> u32 {
        self.pool.usable()
    }

    /// Usable active servers.
    pub fn active(&self) -> u32 {
        self.pool.active
    }

    /// Usable backup servers.
    pub fn backup(&self) -> u32 {
        self.pool.backup
    }

    /// Streams in the backend, queued ones included: `be_conn`.
    pub fn streams(&self) -> u32 {
        self.pool.streams
    }

    /// Requests in the backend's own queue.
    pub fn queued(&self) -> u32 {
        self.queues.backend_len()
    }

    /// Streams that hold a slot of a server: `srv_conn`.
    pub fn served(&self, server: ServerId) -> u32 {
        self.pool.servers.find(server).map_or(0, |server| server.served)
    }

    /// Requests in a server's queue: `srv_queue`.
    pub fn server_queued(&self, server: ServerId) -> u32 {
        self.pool.servers.find(server).map_or(0, |server| server.queued)
    }

    /// How many streams a server may hold now, dynamic limit and slow start included; `None` without a limit.
    pub fn limit(&self, server: ServerId, now_ms: u64) -> Option<u32> {
        self.pool.servers.find(server)?;
        Some(self.pool.limit(server, now_ms)).filter(|&limit| limit > 0)
    }

    /// Whether a server may be given new visitors: `srv_is_up` of one that is not draining.
    pub fn is_usable(&self, server: ServerId) -> bool {
        self.pool.servers.find(server).is_some_and(|server| server.current.is_usable())
    }

    /// Whether a server is up, as `srv_is_up` sees it: not in maintenance, and running (draining included).
    pub fn is_up(&self, server: ServerId) -> bool {
        self.pool
            .servers
            .find(server)
            .is_some_and(|server| !server.current.admin.is_maint() && server.current.state != OperationalState::Stopped)
    }

    /// The state of a server.
    pub fn status(&self, server: ServerId) -> Option<ServerStatus> {
        let server = self.pool.servers.find(server)?;
        let admin = server.current.admin;
        if admin.contains(AdminState::RESOLUTION_MAINT) {
            return Some(ServerStatus::MaintResolution);
        }
        if admin.contains(AdminState::INHERITED_MAINT) {
            return Some(ServerStatus::MaintVia(server.config.track.clone().unwrap_or_default()));
        }
        if admin.is_maint() {
            return Some(ServerStatus::Maint);
        }
        let check = &server.check;
        let is_checked = check.enabled || server.followed_check;
        let is_top = check.health == check.top();
        let (left, of) = (check.health.saturating_sub(check.rise()) + u32::from(check.is_up()), check.fall());
        let agent = server.agent_health();
        Some(match server.current.state {
            OperationalState::Running | OperationalState::Starting => match (admin.is_drain(), is_checked && !is_top) {
                (true, _) if agent.is_some() => ServerStatus::DrainAgent,
                (true, true) => ServerStatus::DrainGoingDown(left, of),
                (true, false) => ServerStatus::Drain,
                (false, true) => ServerStatus::GoingDown(left, of),
                (false, false) if is_checked => ServerStatus::Up,
                (false, false) => ServerStatus::NoCheck,
            },
            OperationalState::Stopping => {
                if is_checked && !is_top {
                    ServerStatus::NoLbGoingDown(left, of)
                } else {
                    ServerStatus::NoLb
                }
            }
            OperationalState::Stopped => {
                let is_going_up = agent.is_some() && !is_checked || is_checked && check.health > 0;
                match agent {
                    Some(0) => ServerStatus::DownAgent,
                    _ if is_going_up => ServerStatus::GoingUp(check.health, check.rise()),
                    _ => ServerStatus::Down,
                }
            }
        })
    }

    /// All numbers of a server.
    pub fn server_stats(&self, id: ServerId, now_ms: u64) -> Option<ServerStats> {
        let status = self.status(id)?;
        let server = self.pool.servers.find(id)?;
        let (multiplier, divider) = (self.pool.weight_multiplier, self.pool.weight_divider);
        let since_change_s = (now_ms / 1_000).saturating_sub(server.last_change_ms / 1_000);
        let is_down = server.current.state == OperationalState::Stopped;
        let is_draining = server.user_weight == 0 || server.current.admin.is_drain();
        let is_warming = server.current.state == OperationalState::Starting && !is_draining;
        let check = &server.check;
        Some(ServerStats {
            name: server.config.name.clone(),
            number: server.number,
            status,
            state: server.current.state,
            admin: server.current.admin,
            backup: server.config.backup,
            weight: (server.current.weight * multiplier).div_ceil(divider),
            user_weight: server.user_weight,
            initial_weight: server.initial_weight,
            served: server.served,
            served_max: server.counters.served_max,
            maxconn: server.maxconn,
            queued: server.queued,
            queue_max: server.counters.queue_max,
            maxqueue: server.config.maxqueue,
            chosen: server.counters.chosen,
            retries: server.counters.retries,
            redispatches: server.counters.redispatches,
            failed_checks: server.counters.failed_checks,
            went_down: server.counters.went_down,
            failed_observations: server.counters.failed_observations,
            last_change_s: since_change_s,
            down_time_s: server.down_time_s + if is_down { since_change_s } else { 0 },
            throttle: is_warming
                .then(|| (100 * multiplier * server.current.weight).div_ceil(divider * server.user_weight)),
            track: server.config.track.clone(),
            check: CheckView::of(check).map(|mut view| {
                // Of an agent, HAProxy tells the duration before there is one.
                view.duration_ms = view.duration_ms.filter(|_| view.status >= CheckStatus::Checked);
                view
            }),
            agent: server.agent.as_deref().and_then(CheckView::of),
            check_enabled: check.enabled,
        })
    }

    /// Forgets the greatest values, or `all` counts (`clear counters`).
    pub fn clear_counters(&mut self, all: bool) {
        if all {
            self.counters = super::BackendCounters::default();
        }
        (self.counters.streams_max, self.counters.queue_max) = (self.pool.streams, self.queues.backend_len());
        for id in self.pool.servers.ids() {
            let server = &mut self.pool.servers[id];
            if all {
                server.counters = crate::server::ServerCounters::default();
            }
            (server.counters.served_max, server.counters.queue_max) = (server.served, server.queued);
        }
    }

    /// All numbers of the backend.
    pub fn backend_stats(&self, now_ms: u64) -> BackendStats {
        let since_change_s = (now_ms / 1_000).saturating_sub(self.last_change_ms / 1_000);
        let is_up = self.pool.total_weight > 0;
        BackendStats {
            is_up,
            streams: self.pool.streams,
            streams_max: self.counters.streams_max,
            served: self.pool.served,
            queued_total: self.queued_total(),
            queued: self.queues.backend_len(),
            queue_max: self.counters.queue_max,
            weight: (self.pool.total_weight * self.pool.weight_multiplier).div_ceil(self.pool.weight_divider),
            active: self.pool.active,
            backup: self.pool.backup,
            chosen: self.counters.chosen,
            retries: self.counters.retries,
            redispatches: self.counters.redispatches,
            went_down: self.counters.went_down,
            last_change_s: since_change_s,
            down_time_s: self.down_time_s + if is_up { 0 } else { since_change_s },
        }
    }
}
