//! What is counted and logged when a request is over.

use std::time::Instant;

use super::Session;
use crate::{
    counters::Traffic,
    session::{filter, logging, transaction::Transaction},
};

impl Session {
    /// Counts the transaction and logs it.
    pub fn finish(&mut self, transaction: &mut Transaction) {
        let end = self.worker.now();
        transaction.timeline.end = Some(end);
        let worker = self.worker.index;
        let front = self.side.frontend.frontend.traffic.of(worker);
        front.bytes_in.add(transaction.bytes_in);
        front.bytes_out.add(transaction.bytes_out);
        self.worker.traffic().bytes_out.add(transaction.bytes_out);
        if let Some(listener) = self.side.frontend.listener_traffic(self.side.listener, worker) {
            listener.bytes_in.add(transaction.bytes_in);
            listener.bytes_out.add(transaction.bytes_out);
        }
        // A request that got no answer counts among the other ones.
        let counts_response = transaction.status > 0 || transaction.has_request;
        if counts_response {
            front.response(transaction.status).increment();
        }
        let times = Times::of(transaction, end);
        if transaction.is_page_request {
            self.end_page_request(transaction, counts_response);
        } else if transaction.has_request {
            front.latency.get_or_init(Box::default).record(times.latency_us);
        }
        if let Some(backend) = &transaction.backend {
            let traffic = backend.backend.traffic.of(worker);
            if counts_response {
                traffic.response(transaction.status).increment();
            }
            traffic.requests.increment();
            if transaction.server.is_some() {
                traffic.balanced.increment();
            }
            times.count(transaction, traffic);
            if let Some(server) = &transaction.server {
                let traffic = server.side.traffic.of(worker);
                traffic.balanced.increment();
                times.count(transaction, traffic);
            }
        } else if self.side.frontend.settings().kind.has_backend() {
            // As in HAProxy, what a `listen` section answers itself passes through both of its sides.
            let traffic = self.side.frontend.backend.traffic.of(worker);
            traffic.bytes_in.add(transaction.bytes_in);
            traffic.bytes_out.add(transaction.bytes_out);
        }
        if transaction.has_tables {
            transaction.count_tracked_bytes();
        }
        logging::log(&self.worker, transaction);
        if let Some(backend) =
            transaction.backend.as_ref().filter(|backend| filter::has_filters(&self.side.frontend, backend)).cloned()
        {
            filter::tell(transaction, &backend, filter::Point::End);
        }
        if transaction.has_tables {
            transaction.end_tracking();
        }
        self.registered.handle.rests();
    }

    /// Notes that a request comes from the statistics page itself.
    pub(super) fn begin_page_request(&self, transaction: &Transaction) {
        for traffic in self.page_sides(transaction) {
            traffic.page.get_or_init(Box::default).requests.increment();
        }
    }

    #[cold]
    fn end_page_request(&self, transaction: &Transaction, counts_response: bool) {
        self.worker.traffic().page_bytes_out.add(transaction.bytes_out);
        for traffic in self.page_sides(transaction).filter(|_| counts_response) {
            traffic.page.get_or_init(Box::default).response(transaction.status).increment();
        }
    }

    /// The sides that count a request: a backend, too, where the page stands in one.
    fn page_sides<'a>(&'a self, transaction: &'a Transaction) -> impl Iterator<Item = &'a Traffic> {
        let worker = self.worker.index;
        let backend = transaction.backend.as_ref().map(|backend| backend.backend.traffic.of(worker));
        std::iter::once(self.side.frontend.frontend.traffic.of(worker)).chain(backend)
    }
}

/// How long each stage took: milliseconds, `None` for one that never came.
struct Times {
    queue: Option<u64>,
    connect: Option<u64>,
    response: Option<u64>,
    total: Option<u64>,
    latency_us: u64,
}

impl Times {
    fn of(transaction: &Transaction, end: Instant) -> Self {
        let times = &transaction.timeline;
        let between = |from: Option<Instant>, to: Option<Instant>| {
            let (from, to) = (from?, to?);
            if from == to {
                return Some(0);
            }
            let took = to.saturating_duration_since(from);
            Some(took.as_secs() * 1_000 + u64::from(took.subsec_millis()))
        };
        let took = end.saturating_duration_since(times.first_byte.unwrap_or(end));
        let total = times.first_byte.map(|_| took.as_secs() * 1_000 + u64::from(took.subsec_millis()));
        Self {
            queue: between(times.request, times.dequeued),
            // A kept connection stood before it was asked for.
            connect: if times.connected == times.dequeued {
                times.connected.map(|_| 0)
            } else {
                between(times.dequeued, times.connected)
            },
            // Often the request came with a connection at hand, and all of the answer at once.
            response: if times.connected == times.first_byte && times.response == times.end {
                total
            } else {
                between(times.connected, times.response)
            },
            total,
            latency_us: took.as_secs() * 1_000_000 + u64::from(took.subsec_micros()),
        }
    }

    fn count(&self, transaction: &Transaction, traffic: &Traffic) {
        traffic.bytes_in.add(transaction.bytes_in);
        traffic.bytes_out.add(transaction.bytes_out);
        for (average, time) in [
            (&traffic.queue_time, self.queue),
            (&traffic.connect_time, self.connect),
            (&traffic.response_time, self.response),
            (&traffic.total_time, self.total),
        ] {
            if let Some(time) = time {
                average.record(time);
            }
        }
        if self.total.is_some() && !transaction.is_page_request {
            traffic.latency.get_or_init(Box::default).record(self.latency_us);
        }
    }
}
