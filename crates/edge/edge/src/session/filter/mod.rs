//! Filters of a stream: what works on bodies while they pass.
//!
//! What they keep of a stream is rare, so it stands beside the transaction. On the way, a [`BodyPump`](super::body::BodyPump)
//! that has any works with [`Stages`].

mod compression;
mod pace;
mod stages;
mod trace;

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use haproxycfg::model::{Amount, Bandwidth, BandwidthLimit, Filter};
use http::Coding;
use sample::Options;

pub use self::{
    compression::{Compression, CompressionLimits, choose, judge},
    pace::Pace,
    stages::Stages,
    trace::{Point, tell},
};
use super::transaction::Transaction;
use crate::{live::LiveProxy, worker::Worker};

/// What filters keep of one transaction.
#[derive(Debug, Default)]
pub struct StreamFilters {
    /// How the response may be written, if it qualifies.
    pub coding: Cell<Option<Coding>>,
    /// Whether the response is compressed.
    pub compresses: Cell<bool>,
    /// Bandwidth limits that rules turned on.
    limits: RefCell<Vec<Limit>>,
}

/// A bandwidth limit that is on.
#[derive(Debug)]
struct Limit {
    filter: Arc<Bandwidth>,
    bytes: u64,
    period_ms: u64,
}

/// Whether either proxy has filters.
#[must_use]
pub fn has_filters(frontend: &LiveProxy, backend: &LiveProxy) -> bool {
    !frontend.settings().filters.is_empty() || !backend.settings().filters.is_empty()
}

/// The filters of a stream in their order: the frontend's, then the backend's.
fn of<'a>(frontend: &'a LiveProxy, backend: &'a LiveProxy) -> impl Iterator<Item = &'a Filter> {
    let further = if std::ptr::eq(frontend, backend) { &[][..] } else { &backend.settings().filters };
    frontend.settings().filters.iter().chain(further)
}

impl Transaction {
    /// What filters keep of it.
    #[must_use]
    pub fn stream_filters(&self) -> &StreamFilters {
        self.filters.get_or_init(Box::default)
    }

    /// Whether the response is compressed.
    #[must_use]
    pub fn compresses(&self) -> bool {
        self.filters.get().is_some_and(|filters| filters.compresses.get())
    }

    /// `set-bandwidth-limit`.
    pub fn set_bandwidth_limit(&self, wanted: &BandwidthLimit, options: Options) {
        let frontend = Arc::clone(&self.client.frontend);
        let backend = self.backend.clone().unwrap_or_else(|| Arc::clone(&frontend));
        let filter = of(&frontend, &backend).find_map(|filter| match filter {
            Filter::Bandwidth(filter) if filter.name == wanted.name => Some(Arc::clone(filter)),
            _ => None,
        });
        let Some(filter) = filter else { return };
        let amount = |given: &Option<Amount>, default: u64| match given {
            None => default,
            Some(Amount::Fixed(number)) => *number,
            Some(Amount::Expr(expression)) => expression
                .integer(self, options)
                .and_then(|number| u64::try_from(number).ok())
                .filter(|number| *number > 0)
                .unwrap_or(default),
        };
        let default_ms = u64::try_from(filter.period.as_millis()).unwrap_or(u64::MAX);
        let limit =
            Limit { bytes: amount(&wanted.limit, filter.limit), period_ms: amount(&wanted.period, default_ms), filter };
        let mut limits = self.stream_filters().limits.borrow_mut();
        limits.retain(|known| known.filter.name != limit.filter.name);
        limits.push(limit);
    }

    /// The limits of bandwidth that are on in a direction.
    pub fn paces(&self, inbound: bool, now: Instant) -> Vec<Pace> {
        let Some(filters) = self.filters.get() else { return Vec::new() };
        let limits = filters.limits.borrow();
        let wanted = limits.iter().filter(|limit| limit.filter.inbound == inbound);
        wanted
            .map(|limit| Pace::new(limit.bytes, Duration::from_millis(limit.period_ms), limit.filter.min_size, now))
            .collect()
    }

    /// The stages that filters put a body into, if any.
    pub fn stages(&self, worker: &Rc<Worker>, backend: &LiveProxy, inbound: bool) -> Option<Box<Stages>> {
        let mut stages = Stages::default();
        let mut any = false;
        for pace in self.paces(inbound, worker.now()) {
            stages.pace(pace);
            any = true;
        }
        let mut filters = of(&self.client.frontend, backend);
        if filters.any(|filter| matches!(filter, Filter::Trace(trace) if trace.random_forwarding)) {
            stages.shuffle(Rc::clone(worker));
            any = true;
        }
        any.then(|| Box::new(stages))
    }
}
