//! What is counted and logged when a request is over.

use std::time::Instant;

use super::Session;
use crate::session::{logging, transaction::Transaction};

impl Session {
    /// Counts the transaction and logs it.
    pub fn finish(&mut self, transaction: &mut Transaction) {
        let end = Instant::now();
        transaction.timeline.end = Some(end);
        let worker = self.worker.index;
        let front = self.side.frontend.frontend.traffic.of(worker);
        front.bytes_in.add(transaction.bytes_in);
        front.bytes_out.add(transaction.bytes_out);
        self.worker.traffic().bytes_out.add(transaction.bytes_out);
        if transaction.status > 0 {
            front.response(transaction.status).increment();
        }
        if transaction.has_request {
            let from = transaction.timeline.first_byte.unwrap_or(end);
            front.latency.get_or_init(Box::default).record(micros(from, end));
        }
        if let Some(backend) = &transaction.backend {
            self.count_backend(transaction, backend.backend.traffic.of(worker), end);
            if let Some(server) = &transaction.server {
                let traffic = server.side.traffic.of(worker);
                traffic.sessions.increment();
                traffic.balanced.increment();
                traffic.requests.increment();
                self.count_times(transaction, traffic, end);
            }
        }
        logging::log(&self.worker, transaction);
        let handle = &self.registered.handle;
        if handle.upstream.borrow().is_some() {
            *handle.upstream.borrow_mut() = None;
        }
    }

    fn count_backend(&self, transaction: &Transaction, traffic: &crate::counters::Traffic, end: Instant) {
        if transaction.status > 0 {
            traffic.response(transaction.status).increment();
        }
        traffic.requests.increment();
        if transaction.server.is_some() {
            traffic.balanced.increment();
        }
        self.count_times(transaction, traffic, end);
    }

    fn count_times(&self, transaction: &Transaction, traffic: &crate::counters::Traffic, end: Instant) {
        traffic.bytes_in.add(transaction.bytes_in);
        traffic.bytes_out.add(transaction.bytes_out);
        let times = &transaction.timeline;
        let between = |from: Option<Instant>, to: Option<Instant>| {
            u64::try_from(Transaction::milliseconds(from, to)).ok()
        };
        if let Some(time) = between(times.request, times.dequeued) {
            traffic.queue_time.record(time);
        }
        if let Some(time) = between(times.dequeued, times.connected) {
            traffic.connect_time.record(time);
        }
        if let Some(time) = between(times.connected, times.response) {
            traffic.response_time.record(time);
        }
        if let Some(time) = between(times.first_byte, times.end) {
            traffic.total_time.record(time);
        }
        if let Some(from) = times.first_byte {
            traffic.latency.get_or_init(Box::default).record(micros(from, end));
        }
    }
}

fn micros(from: Instant, to: Instant) -> u64 {
    u64::try_from(to.saturating_duration_since(from).as_micros()).unwrap_or(u64::MAX)
}
