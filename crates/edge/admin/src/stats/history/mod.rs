//! What happened in the last hour: what the page draws. Kept in the process, so that it is there when one opens the page.
//!
//! Memory is bounded: a side of a proxy takes about 26 kB once an hour is full, a server 3 kB: 10 MB for
//! 200 backends of 8 servers.

mod flows;
mod rings;
mod series;

use std::{collections::HashMap, sync::Arc, time::Duration};

use telemetry::HistogramSnapshot;

pub use flows::FLOW_SECONDS;
use flows::Flows;
pub use rings::{Rings, Window};
pub use series::{Counts, Latency, Point, Reading, Second, Series, ServerPoint, ServerSeries};

/// Proxies whose past is remembered; those beyond have rates but no charts.
pub const PROXIES_MAX: usize = 512;
/// Servers in all whose past is remembered.
pub const SERVERS_MAX: usize = 4_096;

/// The past of everything that has room in it.
#[derive(Debug, Default)]
pub struct History {
    seconds: u64,
    ended_at: Duration,
    servers: usize,
    /// What all frontends did together; counted on from what each did in a second, as frontends come and go.
    process: Series,
    process_reading: Reading,
    sent: Rings<u64>,
    sent_total: Option<BytesSent>,
    proxies: HashMap<Arc<str>, ProxyHistory>,
    flows: Flows,
}

/// Bytes to clients so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BytesSent {
    /// All of them.
    pub bytes: u64,
    /// Those that the statistics page asked for itself.
    pub page_bytes: u64,
}

/// The past of a proxy.
#[derive(Debug, Default)]
pub struct ProxyHistory {
    seen: u64,
    /// Its client side.
    pub frontend: Option<Series>,
    /// Its server side.
    pub backend: Option<Series>,
    servers: HashMap<Arc<str>, ServerHistory>,
}

#[derive(Debug, Default)]
struct ServerHistory {
    seen: u64,
    series: ServerSeries,
}

impl ProxyHistory {
    /// Of a server.
    #[must_use]
    pub fn server(&self, name: &str) -> Option<&ServerSeries> {
        self.servers.get(name).map(|server| &server.series)
    }
}

impl History {
    /// Seconds since it began.
    #[must_use]
    pub fn seconds(&self) -> u64 {
        self.seconds
    }

    /// When the last second ended, since the epoch.
    #[must_use]
    pub fn ended_at(&self) -> Duration {
        self.ended_at
    }

    /// Of a proxy.
    #[must_use]
    pub fn proxy(&self, name: &str) -> Option<&ProxyHistory> {
        self.proxies.get(name)
    }

    /// Of all frontends together.
    #[must_use]
    pub fn process(&self) -> &Series {
        &self.process
    }

    /// Bytes that the process sent in each step after a second, the oldest first.
    pub fn sent_after(&self, window: Window, since: u64) -> impl Iterator<Item = u64> {
        self.sent.after(window, since, self.seconds).copied()
    }

    /// Frontend, backend and requests of the last [`FLOW_SECONDS`].
    pub fn flows(&self) -> impl Iterator<Item = (&str, &str, u64)> {
        self.flows.iter()
    }

    /// Begins to take in a second that ended at a time since the epoch, the process having sent so much by then.
    pub fn begin_second(&mut self, ended_at: Duration, sent: BytesSent) {
        self.seconds += 1;
        self.ended_at = ended_at;
        let before = self.sent_total.replace(sent).unwrap_or(sent);
        let came = series::grown(sent.bytes, before.bytes);
        let own = series::grown(sent.page_bytes, before.page_bytes);
        self.sent.push(self.seconds, &came.saturating_sub(own), |_, _| {});
        self.process_reading.sessions = 0;
    }

    /// Takes in what a proxy and its servers say in this second.
    pub fn push<'a, R: FnOnce() -> Counts>(
        &mut self,
        name: &Arc<str>,
        frontend: Option<Reading>,
        backend: Option<Reading>,
        servers: impl Iterator<Item = (&'a Arc<str>, R)>,
    ) {
        if !self.proxies.contains_key(name) && self.proxies.len() >= PROXIES_MAX {
            return;
        }
        let proxy = self.proxies.entry(Arc::clone(name)).or_default();
        proxy.seen = self.seconds;
        if let Some(reading) = frontend {
            let second = proxy.frontend.get_or_insert_default().push(self.seconds, reading);
            add(&mut self.process_reading, &second);
        }
        if let Some(reading) = backend {
            proxy.backend.get_or_insert_default().push(self.seconds, reading);
        }
        for (name, read) in servers {
            let known = proxy.servers.contains_key(name);
            if !known && self.servers >= SERVERS_MAX {
                continue;
            }
            self.servers += usize::from(!known);
            let server = proxy.servers.entry(Arc::clone(name)).or_default();
            server.seen = self.seconds;
            server.series.push(self.seconds, read());
        }
    }

    /// Takes in how many requests came from a frontend to a backend so far.
    pub fn push_flow(&mut self, frontend: &Arc<str>, backend: &Arc<str>, total: u64) {
        self.flows.push(self.seconds, &(frontend, backend), total);
    }

    /// Forgets whatever did not say anything in this second: it is gone.
    pub fn end_second(&mut self) {
        let seconds = self.seconds;
        self.process.push(seconds, self.process_reading.clone());
        self.flows.end_second(seconds);
        self.proxies.retain(|_, proxy| proxy.seen == seconds);
        self.servers = 0;
        for proxy in self.proxies.values_mut() {
            proxy.servers.retain(|_, server| server.seen == seconds);
            self.servers += proxy.servers.len();
        }
    }
}

/// Adds a frontend's second to what all of them did.
fn add(sum: &mut Reading, second: &Second) {
    let point = &second.point;
    sum.all.requests += u64::from(point.requests);
    sum.all.tcp += u64::from(point.tcp);
    sum.all.errors += u64::from(point.errors);
    for (sum, count) in sum.all.answers.iter_mut().zip(point.answers) {
        *sum += u64::from(count);
    }
    sum.sessions += u64::from(point.sessions);
    if let Some(latency) = &second.latency {
        sum.latency.get_or_insert_with(HistogramSnapshot::default).add(latency);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(history: &mut History, bytes: u64, page_bytes: u64) {
        history.begin_second(Duration::ZERO, BytesSent { bytes, page_bytes });
    }

    #[test]
    fn memory_is_bounded_and_freed() {
        let mut history = History::default();
        let name = |text: String| -> Arc<str> { text.into() };
        let servers: Vec<_> = (0..SERVERS_MAX).map(|index| name(format!("s{index}"))).collect();
        let mut second = |proxies: usize| {
            begin(&mut history, proxies as u64 * 1_000, 0);
            for index in 0..proxies {
                let readings = servers.iter().map(|server| (server, Counts::default));
                history.push(&name(format!("p{index}")), Some(Reading::default()), None, readings);
            }
            history.end_second();
            let first = history.proxy("p0").is_some_and(|proxy| proxy.server("s0").is_some());
            (history.proxies.len(), history.servers, first)
        };
        assert_eq!(second(PROXIES_MAX + 10), (PROXIES_MAX, SERVERS_MAX, true));
        assert_eq!(second(2), (2, SERVERS_MAX, true));
        assert_eq!(second(0), (0, 0, false));
        assert_eq!(second(1), (1, SERVERS_MAX, true));
        assert_eq!(history.sent_after(Window::Minute, 2).collect::<Vec<_>>(), [0, 1_000], "0 and then 1,000 in all");
    }

    #[test]
    fn the_page_sends_nothing() {
        let mut history = History::default();
        for second in 0..3 {
            begin(&mut history, second * 1_000, second * 900);
        }
        assert_eq!(history.sent_after(Window::Minute, 1).collect::<Vec<_>>(), [100, 100]);
    }

    #[test]
    fn frontends_that_go_leave_no_hole_in_the_sum() {
        let mut history = History::default();
        let read = |requests| Reading { all: Counts { requests, ..Counts::default() }, ..Reading::default() };
        let servers = || std::iter::empty::<(&Arc<str>, fn() -> Counts)>();
        for second in 1..=4_u64 {
            begin(&mut history, 0, 0);
            history.push(&"web".into(), Some(read(second * 10)), None, servers());
            if second < 3 {
                history.push(&"old".into(), Some(read(second * 500)), None, servers());
            }
            history.end_second();
        }
        let sums: Vec<_> = history.process().after(Window::Minute, 0, 4).map(|point| point.requests).collect();
        assert_eq!(sums, [0, 510, 10, 10]);
    }
}
