//! Filters of a stream: what works on bodies while they pass.
//!
//! What they keep of a stream is rare, so it stands beside the transaction. On the way, a [`BodyPump`](super::body::BodyPump)
//! that has any works with [`Stages`].

mod compression;
mod pace;
mod shared;
mod stages;
mod trace;

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use haproxycfg::model::{Amount, Bandwidth, BandwidthLimit, Filter, Sharing};
use http::Coding;
use live::LiveProxy;
use sample::Options;

pub use self::{
    compression::{Compression, choose, judge},
    pace::{BandwidthLimiter, StreamLimiter},
    stages::Stages,
    trace::{Point, tell},
};
use self::{shared::SharedLimiter, trace::PayloadTrace};
use super::transaction::Transaction;
use crate::worker::Worker;

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
    how: How,
}

#[derive(Debug)]
enum How {
    /// Bytes a period of milliseconds.
    Own(u64, u64),
    /// By an entry of a table.
    Shared(Rc<shared::Entry>),
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

/// The stages of both directions of a tunnel: to the server, and to the client.
#[must_use]
pub fn tunnel_stages(
    transaction: &Transaction,
    worker: &Rc<Worker>,
    backend: &LiveProxy,
) -> (Option<Box<Stages>>, Option<Box<Stages>>) {
    if !has_filters(&transaction.client.frontend, backend) {
        return (None, None);
    }
    (transaction.stages(worker, backend, true), transaction.stages(worker, backend, false))
}

impl Transaction {
    /// What filters keep of it.
    #[must_use]
    pub fn stream_filters(&self) -> &StreamFilters {
        self.by_rules.filters.get_or_init(Box::default)
    }

    /// Whether the response is compressed.
    #[must_use]
    pub fn compresses(&self) -> bool {
        self.by_rules.filters.get().is_some_and(|filters| filters.compresses.get())
    }

    /// `set-bandwidth-limit`.
    pub fn set_bandwidth_limit(&self, wanted: &BandwidthLimit, options: Options) {
        let frontend = Arc::clone(&self.client.frontend);
        let backend = self.route.backend.clone().unwrap_or_else(|| Arc::clone(&frontend));
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
        let how = match &filter.sharing {
            Sharing::Stream(period) => {
                let default_ms = u64::try_from(period.as_millis()).unwrap_or(u64::MAX);
                How::Own(amount(&wanted.limit, filter.limit), amount(&wanted.period, default_ms))
            }
            Sharing::Key { expr, table, .. } => {
                let Some(table) = self.instance.tables.get(*table) else { return };
                let definition = table.definition();
                let value = expr.evaluate(self, Options { is_final: true, ..options }).value();
                let key = value.and_then(|value| sample::stick_key(value, definition.key, definition.key_len));
                match key.and_then(|key| shared::Entry::of(table, &key, &self.clock)) {
                    Some(entry) => How::Shared(entry),
                    None => return,
                }
            }
        };
        let mut limits = self.stream_filters().limits.borrow_mut();
        limits.retain(|known| known.filter.name != filter.name);
        limits.push(Limit { filter, how });
    }

    /// The limits of bandwidth that are on in a direction.
    fn paces(&self, inbound: bool, now: Instant) -> Vec<BandwidthLimiter> {
        let Some(filters) = self.by_rules.filters.get() else { return Vec::new() };
        let limits = filters.limits.borrow();
        let wanted = limits.iter().filter(|limit| limit.filter.inbound == inbound);
        let pace = |Limit { filter, how }: &Limit| match how {
            How::Own(bytes, period_ms) => BandwidthLimiter::Own(StreamLimiter::new(
                *bytes,
                Duration::from_millis(*period_ms),
                filter.min_size,
                now,
            )),
            How::Shared(entry) => {
                let limit = stick::Limit { data: filter.rate(), events: filter.limit, together: filter.min_size };
                BandwidthLimiter::Shared(SharedLimiter::new(Rc::clone(entry), limit))
            }
        };
        wanted.map(pace).collect()
    }

    /// The stages that filters put a body into, if any.
    pub fn stages(&self, worker: &Rc<Worker>, backend: &LiveProxy, inbound: bool) -> Option<Box<Stages>> {
        let mut stages = Stages::default();
        let mut any = false;
        for pace in self.paces(inbound, worker.now()) {
            stages.pace(pace);
            any = true;
        }
        for filter in of(&self.client.frontend, backend) {
            let Filter::Trace(trace) = filter else { continue };
            if trace.random_forwarding {
                stages.shuffle(Rc::clone(worker));
                any = true;
            }
            if let Some(trace) = PayloadTrace::new(trace, self, backend, inbound) {
                stages.trace(trace);
                any = true;
            }
        }
        any.then(|| Box::new(stages))
    }
}
