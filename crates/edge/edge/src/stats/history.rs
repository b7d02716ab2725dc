//! The last two minutes, second by second: what the page draws.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use telemetry::HistogramSnapshot;

/// Proxies whose last two minutes are remembered; those beyond have rates but no curves.
pub const PROXIES_MAX: usize = 256;
/// Servers in all whose last two minutes are remembered.
pub const SERVERS_MAX: usize = 512;

/// Seconds that are remembered.
pub const HISTORY_SECONDS: usize = 120;

/// Seconds between two marks of latency. Quantiles are told over the time since the mark before last, so over one to two
/// times as long: short enough to follow what happens, long enough not to jump.
const LATENCY_MARK_SECONDS: u64 = 5;

/// One second of one object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// Requests, or sessions in TCP mode.
    pub requests: u32,
    /// Those that failed.
    pub errors: u32,
    /// Sessions at the end of the second.
    pub sessions: u32,
    /// Microseconds within which half of the requests of this second were served; 0 for none.
    pub p50: u32,
    /// Microseconds within which 99 of 100 were.
    pub p99: u32,
}

/// What the counters of an object say at the moment.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// Requests, or sessions in TCP mode, so far.
    pub requests: u64,
    /// Those that failed, so far.
    pub errors: u64,
    /// Sessions now.
    pub sessions: u64,
    /// Times of requests so far; `None` where they are not measured.
    pub latency: Option<HistogramSnapshot>,
}

/// Half and nearly all of the requests of the last seconds were served within these microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// The median.
    pub p50: u64,
    /// 99 of 100.
    pub p99: u64,
}

/// What an object did in the last [`HISTORY_SECONDS`].
#[derive(Debug, Default)]
pub struct Series {
    points: VecDeque<Point>,
    seconds: u64,
    last: Reading,
    marks: [Option<HistogramSnapshot>; 2],
    latency: Option<Latency>,
}

impl Series {
    /// Takes in what the counters say a second later.
    pub fn push(&mut self, reading: Reading) {
        self.seconds += 1;
        let grown = |now: u64, before: u64| u32::try_from(now.checked_sub(before).unwrap_or(now)).unwrap_or(u32::MAX);
        let mut point = Point {
            requests: grown(reading.requests, self.last.requests),
            errors: grown(reading.errors, self.last.errors),
            sessions: u32::try_from(reading.sessions).unwrap_or(u32::MAX),
            ..Point::default()
        };
        // The first reading has nothing before it to be compared with: what it counts may be hours old.
        if self.seconds == 1 {
            (point.requests, point.errors) = (0, 0);
        }
        if let Some(latency) = &reading.latency {
            if let Some(of_second) = self.last.latency.as_ref().map(|before| latency.since(before)) {
                let microseconds =
                    |per_mille| of_second.quantile(per_mille).unwrap_or(0).try_into().unwrap_or(u32::MAX);
                (point.p50, point.p99) = (microseconds(500), microseconds(990));
            }
            self.mark(latency);
        }
        if self.points.len() == HISTORY_SECONDS {
            self.points.pop_front();
        }
        self.points.push_back(point);
        self.last = reading;
    }

    fn mark(&mut self, latency: &HistogramSnapshot) {
        let [before, newest] = &mut self.marks;
        let since = before.as_ref().or(newest.as_ref());
        let recent = since.map(|since| latency.since(since));
        self.latency =
            recent.and_then(|recent| Some(Latency { p50: recent.quantile(500)?, p99: recent.quantile(990)? }));
        if newest.is_none() || self.seconds.is_multiple_of(LATENCY_MARK_SECONDS) {
            *before = newest.replace(latency.clone());
        }
    }

    /// Quantiles over the last five to ten seconds; `None` while nothing was served or nothing is measured.
    #[must_use]
    pub fn latency(&self) -> Option<Latency> {
        self.latency
    }

    /// The points after a second of its own count, oldest first, at most those that are remembered.
    pub fn points_after(&self, second: u64) -> impl ExactSizeIterator<Item = &Point> {
        let wanted = usize::try_from(self.seconds.saturating_sub(second)).unwrap_or(usize::MAX);
        self.points.iter().skip(self.points.len().saturating_sub(wanted))
    }

    /// Seconds since it began.
    #[must_use]
    pub fn seconds(&self) -> u64 {
        self.seconds
    }
}

/// The last two minutes of everything that has room in it.
#[derive(Debug, Default)]
pub struct History {
    seconds: u64,
    servers: usize,
    bytes_out: VecDeque<u64>,
    bytes_out_total: Option<u64>,
    proxies: HashMap<Arc<str>, ProxyHistory>,
}

/// The last two minutes of a proxy.
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
    series: Series,
}

impl ProxyHistory {
    /// Of a server.
    #[must_use]
    pub fn server(&self, name: &str) -> Option<&Series> {
        self.servers.get(name).map(|server| &server.series)
    }
}

impl History {
    /// Seconds since it began.
    #[must_use]
    pub fn seconds(&self) -> u64 {
        self.seconds
    }

    /// Of a proxy.
    #[must_use]
    pub fn proxy(&self, name: &str) -> Option<&ProxyHistory> {
        self.proxies.get(name)
    }

    /// Bytes that the process sent in each second after one, oldest first.
    pub fn bytes_out_after(&self, second: u64) -> impl Iterator<Item = u64> {
        let wanted = usize::try_from(self.seconds.saturating_sub(second)).unwrap_or(usize::MAX);
        self.bytes_out.iter().copied().skip(self.bytes_out.len().saturating_sub(wanted))
    }

    /// Begins a new second, the process having sent that many bytes so far.
    pub fn begin_second(&mut self, bytes_out: u64) {
        self.seconds += 1;
        if self.bytes_out.len() == HISTORY_SECONDS {
            self.bytes_out.pop_front();
        }
        let before = self.bytes_out_total.replace(bytes_out);
        self.bytes_out.push_back(before.map_or(0, |before| bytes_out.checked_sub(before).unwrap_or(bytes_out)));
    }

    /// Takes in what a proxy and its servers say in this second.
    pub fn push<'a, R: FnOnce() -> Reading>(
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
        for (side, reading) in [(&mut proxy.frontend, frontend), (&mut proxy.backend, backend)] {
            if let Some(reading) = reading {
                side.get_or_insert_default().push(reading);
            }
        }
        for (name, read) in servers {
            let known = proxy.servers.contains_key(name);
            if !known && self.servers >= SERVERS_MAX {
                continue;
            }
            self.servers += usize::from(!known);
            let server = proxy.servers.entry(Arc::clone(name)).or_default();
            server.seen = self.seconds;
            server.series.push(read());
        }
    }

    /// Forgets whatever did not say anything in this second: it is gone.
    pub fn end_second(&mut self) {
        let seconds = self.seconds;
        self.proxies.retain(|_, proxy| proxy.seen == seconds);
        self.servers = 0;
        for proxy in self.proxies.values_mut() {
            proxy.servers.retain(|_, server| server.seen == seconds);
            self.servers += proxy.servers.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use telemetry::Histogram;

    use super::*;

    #[test]
    fn points_are_differences_and_the_oldest_go() {
        let mut series = Series::default();
        series.push(Reading { requests: 1_000_000, errors: 7, ..Reading::default() });
        for second in 1..=200_u64 {
            series.push(Reading {
                requests: 1_000_000 + second * 10,
                errors: 7 + second,
                sessions: second,
                latency: None,
            });
        }
        let points: Vec<_> = series.points_after(0).collect();
        assert_eq!(points.len(), HISTORY_SECONDS);
        assert!(points.iter().all(|point| point.requests == 10 && point.errors == 1));
        assert_eq!(points.last().unwrap().sessions, 200);
        assert_eq!(series.points_after(199).len(), 2);
        assert_eq!(series.points_after(1_000).len(), 0);
    }

    #[test]
    fn what_was_counted_before_the_first_look_is_no_burst() {
        let mut series = Series::default();
        series.push(Reading { requests: 5_000, ..Reading::default() });
        assert_eq!(series.points_after(0).next().unwrap().requests, 0);
    }

    #[test]
    fn memory_is_bounded_and_freed() {
        let mut history = History::default();
        let name = |text: String| -> Arc<str> { text.into() };
        let servers: Vec<_> = (0..SERVERS_MAX).map(|index| name(format!("s{index}"))).collect();
        let mut second = |proxies: usize| {
            history.begin_second(proxies as u64 * 1_000);
            for index in 0..proxies {
                let readings = servers.iter().map(|server| (server, Reading::default));
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
        assert_eq!(history.bytes_out_after(2).collect::<Vec<_>>(), [0, 1_000], "0 and then 1,000 in all");
    }

    #[test]
    fn latency_follows_the_last_seconds() {
        let histogram = Histogram::default();
        let mut series = Series::default();
        let mut push = |value: Option<u64>| {
            for _ in 0..100 {
                value.inspect(|value| histogram.record(*value));
            }
            let mut latency = HistogramSnapshot::default();
            histogram.add_to(&mut latency);
            series.push(Reading { latency: Some(latency), ..Reading::default() });
            series.latency()
        };
        push(Some(1_000));
        assert!(push(Some(1_000)).unwrap().p50 >= 1_000);
        for _ in 0..11 {
            push(Some(50_000));
        }
        let now = push(Some(50_000)).unwrap();
        assert!(now.p50 >= 50_000 && now.p99 >= 50_000, "{now:?}");
        for _ in 0..10 {
            push(None);
        }
        assert_eq!(push(None), None, "nothing was served for a while");
    }
}
