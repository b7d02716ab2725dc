//! What is counted and logged when a request is over.

use std::{rc::Rc, time::Instant};

use live::counters::Traffic;

use super::{filter, logging, transaction::Transaction};
use crate::worker::Worker;

impl Transaction {
    /// Counts it and logs it: it is over.
    pub fn finish(&mut self, worker: &Worker) {
        let end = worker.now();
        self.timeline.end = Some(end);
        let client = Rc::clone(&self.client);
        let (frontend, index) = (&client.frontend, worker.index);
        let front = frontend.frontend.traffic.of(index);
        front.bytes_in.add(self.bytes_in);
        front.bytes_out.add(self.bytes_out);
        worker.traffic().bytes_out.add(self.bytes_out);
        if let Some(listener) = frontend.listener_traffic(client.listener, index) {
            listener.bytes_in.add(self.bytes_in);
            listener.bytes_out.add(self.bytes_out);
        }
        // A request that got no answer counts among the other ones.
        let counts_response = self.answered.status > 0 || self.asked.is_complete();
        if counts_response {
            front.response(self.answered.status).increment();
        }
        let times = Times::of(self, end);
        if self.answered.is_for_page {
            self.end_page_request(worker, counts_response);
        } else if self.asked.is_complete() {
            front.latency.get_or_init(Box::default).record(times.latency_us);
        }
        if let Some(backend) = &self.route.backend {
            let traffic = backend.backend.traffic.of(index);
            if counts_response {
                traffic.response(self.answered.status).increment();
            }
            traffic.requests.increment();
            if self.route.server.is_some() {
                traffic.balanced.increment();
            }
            times.count(self, traffic);
            if let Some(server) = &self.route.server {
                let traffic = server.side.traffic.of(index);
                traffic.balanced.increment();
                times.count(self, traffic);
            }
        } else if frontend.settings().kind.has_backend() {
            // As in HAProxy, what a `listen` section answers itself passes through both of its sides.
            let traffic = frontend.backend.traffic.of(index);
            traffic.bytes_in.add(self.bytes_in);
            traffic.bytes_out.add(self.bytes_out);
        }
        if self.has_tables {
            self.count_tracked_bytes();
        }
        self.end_varnish_log();
        logging::log(worker, self);
        if let Some(backend) =
            self.route.backend.as_ref().filter(|backend| filter::has_filters(frontend, backend)).cloned()
        {
            filter::tell(self, &backend, filter::Point::End);
        }
        if self.has_tables {
            self.end_tracking();
        }
    }

    /// Notes that the statistics page asks for its own sake.
    pub(super) fn begin_page_request(&self, worker: &Worker) {
        for traffic in self.page_sides(worker) {
            traffic.page.get_or_init(Box::default).requests.increment();
        }
    }

    #[cold]
    fn end_page_request(&self, worker: &Worker, counts_response: bool) {
        worker.traffic().page_bytes_out.add(self.bytes_out);
        for traffic in self.page_sides(worker).filter(|_| counts_response) {
            traffic.page.get_or_init(Box::default).response(self.answered.status).increment();
        }
    }

    /// The sides that count a request: a backend, too, where the page stands in one.
    fn page_sides(&self, worker: &Worker) -> impl Iterator<Item = &Traffic> {
        let index = worker.index;
        let backend = self.route.backend.as_ref().map(|backend| backend.backend.traffic.of(index));
        std::iter::once(self.client.frontend.frontend.traffic.of(index)).chain(backend)
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
        if self.total.is_some() && !transaction.answered.is_for_page {
            traffic.latency.get_or_init(Box::default).record(self.latency_us);
        }
    }
}
