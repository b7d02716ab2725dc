//! What one object (a side of a proxy, a server, the process) did, from readings of its counters.

use telemetry::HistogramSnapshot;

use super::rings::{Rings, Sample, Window};

/// Seconds between two marks of latency. Quantiles are told over the time since the mark before last, so over one to two
/// times as long: short enough to follow what happens, long enough not to jump.
const LATENCY_MARK_SECONDS: u64 = 5;

/// One step of a side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// Requests, or sessions in TCP mode.
    pub requests: u32,
    /// Those of them that are sessions in TCP mode.
    pub tcp: u32,
    /// Answers with 1xx to 5xx, and requests that got none.
    pub answers: [u32; 6],
    /// Requests or sessions that failed.
    pub errors: u32,
    /// Most sessions at the end of a second.
    pub sessions: u32,
    /// Microseconds within which half of the requests were served; 0 for none.
    pub p50: u32,
    /// Microseconds within which 99 of 100 were.
    pub p99: u32,
}

impl Sample for Point {
    fn merge(&mut self, next: &Self) {
        self.requests = self.requests.saturating_add(next.requests);
        self.tcp = self.tcp.saturating_add(next.tcp);
        for (sum, count) in self.answers.iter_mut().zip(next.answers) {
            *sum = sum.saturating_add(count);
        }
        self.errors = self.errors.saturating_add(next.errors);
        self.sessions = self.sessions.max(next.sessions);
    }
}

/// One step of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerPoint {
    /// Requests, or sessions in TCP mode.
    pub requests: u32,
    /// Those that failed.
    pub errors: u32,
}

impl Sample for ServerPoint {
    fn merge(&mut self, next: &Self) {
        self.requests = self.requests.saturating_add(next.requests);
        self.errors = self.errors.saturating_add(next.errors);
    }
}

/// What was counted so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests, or sessions in TCP mode.
    pub requests: u64,
    /// Those of them that are sessions in TCP mode.
    pub tcp: u64,
    /// Answers with 1xx to 5xx, and requests that got none.
    pub answers: [u64; 6],
    /// Requests or sessions that failed.
    pub errors: u64,
}

impl Counts {
    /// What came since an earlier moment, without what came `aside` of it meanwhile.
    fn since(&self, before: &Self, aside: &Self, aside_before: &Self) -> Point {
        let difference = |count: &dyn Fn(&Self) -> u64| {
            let came = grown(count(self), count(before)).saturating_sub(grown(count(aside), count(aside_before)));
            u32::try_from(came).unwrap_or(u32::MAX)
        };
        let answers = |class: usize| difference(&|counts| counts.answers.get(class).copied().unwrap_or(0));
        Point {
            requests: difference(&|counts| counts.requests),
            tcp: difference(&|counts| counts.tcp),
            answers: std::array::from_fn(answers),
            errors: difference(&|counts| counts.errors),
            ..Point::default()
        }
    }
}

/// How far a counter has come; one that was set back (`clear counters`) counts from 0 again.
pub(super) fn grown(now: u64, before: u64) -> u64 {
    now.checked_sub(before).unwrap_or(now)
}

/// What the counters of an object say at the moment.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// Everything.
    pub all: Counts,
    /// What the statistics page asked for itself: no point has it.
    pub page: Counts,
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

impl Latency {
    fn of(histogram: &HistogramSnapshot) -> Option<Self> {
        Some(Self { p50: histogram.quantile(500)?, p99: histogram.quantile(990)? })
    }

    fn tell(latency: Option<Self>, point: &mut Point) {
        // 0 means that there was none.
        let short = |time: u64| u32::try_from(time).unwrap_or(u32::MAX).max(1);
        (point.p50, point.p99) = latency.map_or((0, 0), |latency| (short(latency.p50), short(latency.p99)));
    }
}

/// What came within a second.
#[derive(Clone, Debug, Default)]
pub struct Second {
    /// In numbers.
    pub point: Point,
    /// Times of its requests.
    pub latency: Option<HistogramSnapshot>,
}

/// The past of a side.
#[derive(Debug, Default)]
pub struct Series {
    rings: Rings<Point>,
    seconds: u64,
    last: Reading,
    marks: [Option<HistogramSnapshot>; 2],
    /// Times of requests when the steps began that are not over yet: of ten minutes, of an hour.
    step_marks: [Option<HistogramSnapshot>; 2],
    latency: Option<Latency>,
}

impl Series {
    /// Takes in what the counters say a second later: in the second of that number.
    pub fn push(&mut self, second: u64, reading: Reading) -> Second {
        let is_first = self.seconds == 0;
        self.seconds += 1;
        // The first reading has nothing before it to be compared with: what it counts may be hours old.
        let mut point = match is_first {
            true => Point::default(),
            false => reading.all.since(&self.last.all, &reading.page, &self.last.page),
        };
        point.sessions = u32::try_from(reading.sessions).unwrap_or(u32::MAX);
        let none = HistogramSnapshot::default();
        let of_second = reading.latency.as_ref().map(|latency| match is_first {
            true => HistogramSnapshot::default(),
            false => latency.since(self.last.latency.as_ref().unwrap_or(&none)),
        });
        if let Some(latency) = &reading.latency {
            self.mark(latency);
            if is_first {
                self.step_marks = [Some(latency.clone()), Some(latency.clone())];
            }
        }
        let [ten, hour] = &mut self.step_marks;
        self.rings.push(second, &point, |window, point| {
            let mark = match window {
                Window::Minute => return Latency::tell(of_second.as_ref().and_then(Latency::of), point),
                Window::TenMinutes => &mut *ten,
                Window::Hour => &mut *hour,
            };
            let Some(latency) = &reading.latency else { return };
            Latency::tell(Latency::of(&latency.since(mark.as_ref().unwrap_or(&none))), point);
            *mark = Some(latency.clone());
        });
        self.last = reading;
        Second { point, latency: of_second }
    }

    fn mark(&mut self, latency: &HistogramSnapshot) {
        let [before, newest] = &mut self.marks;
        let since = before.as_ref().or(newest.as_ref());
        self.latency = since.and_then(|since| Latency::of(&latency.since(since)));
        if newest.is_none() || self.seconds.is_multiple_of(LATENCY_MARK_SECONDS) {
            *before = newest.replace(latency.clone());
        }
    }

    /// Quantiles over the last five to ten seconds; `None` while nothing was served or nothing is measured.
    #[must_use]
    pub fn latency(&self) -> Option<Latency> {
        self.latency
    }

    /// Points of a window: see [`Rings::after`].
    pub fn after(&self, window: Window, since: u64, now: u64) -> impl ExactSizeIterator<Item = &Point> {
        self.rings.after(window, since, now)
    }

    /// The last minute in one.
    #[must_use]
    pub fn last_minute(&self) -> Point {
        let mut sum = Point::default();
        self.after(Window::Minute, 0, u64::MAX).for_each(|point| sum.merge(point));
        sum
    }

    /// The last second.
    #[must_use]
    pub fn last_second(&self) -> Point {
        self.after(Window::Minute, 0, u64::MAX).last().copied().unwrap_or_default()
    }

    /// Requests so far, without those of the statistics page.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.last.all.requests.saturating_sub(self.last.page.requests)
    }
}

/// The past of a server.
#[derive(Debug, Default)]
pub struct ServerSeries {
    rings: Rings<ServerPoint>,
    last: Option<Counts>,
}

impl ServerSeries {
    /// Takes in what the counters say a second later.
    pub fn push(&mut self, second: u64, counts: Counts) {
        let before = self.last.replace(counts).unwrap_or(counts);
        let none = Counts::default();
        let Point { requests, errors, .. } = counts.since(&before, &none, &none);
        self.rings.push(second, &ServerPoint { requests, errors }, |_, _| {});
    }

    /// The last second.
    #[must_use]
    pub fn last_second(&self) -> ServerPoint {
        self.after(Window::Minute, 0, u64::MAX).last().copied().unwrap_or_default()
    }

    /// Points of a window: see [`Rings::after`].
    pub fn after(&self, window: Window, since: u64, now: u64) -> impl ExactSizeIterator<Item = &ServerPoint> {
        self.rings.after(window, since, now)
    }
}

#[cfg(test)]
mod tests {
    use telemetry::Histogram;

    use super::*;

    fn reading(requests: u64, errors: u64) -> Reading {
        Reading {
            all: Counts { requests, errors, answers: [0, requests, 0, 0, errors, 0], tcp: 0 },
            ..Reading::default()
        }
    }

    #[test]
    fn points_are_differences() {
        let mut series = Series::default();
        series.push(1, reading(1_000_000, 7));
        for second in 1..=200_u64 {
            series.push(second + 1, Reading { sessions: second, ..reading(1_000_000 + second * 10, 7 + second) });
        }
        let points: Vec<_> = series.after(Window::Minute, 0, 201).collect();
        assert!(points.iter().all(|point| (point.requests, point.errors, point.answers[1]) == (10, 1, 10)));
        assert_eq!(series.last_minute().requests, 600);
        assert_eq!(series.last_second().sessions, 200);
        let step = series.after(Window::TenMinutes, 195, 201).next().unwrap();
        assert_eq!((step.requests, step.sessions), (50, 199), "five seconds up to second 200");
    }

    #[test]
    fn what_was_counted_before_the_first_look_is_no_burst() {
        let mut series = Series::default();
        series.push(1, reading(5_000, 0));
        assert_eq!(series.last_second().requests, 0);
        series.push(2, reading(10, 0));
        assert_eq!(series.last_second().requests, 10, "counters were cleared");
    }

    #[test]
    fn what_the_page_asks_for_itself_is_left_out() {
        let mut series = Series::default();
        for second in 1..=3_u64 {
            let page = Counts { requests: second, answers: [0, second, 0, 0, 0, 0], ..Counts::default() };
            series.push(second, Reading { page, ..reading(second * 5, 0) });
        }
        let point = series.last_second();
        assert_eq!((point.requests, point.answers[1], series.total()), (4, 4, 12));
    }

    #[test]
    fn latency_follows_the_last_seconds() {
        let histogram = Histogram::default();
        let mut series = Series::default();
        let mut second = 0;
        let mut push = |value: Option<u64>| {
            for _ in 0..100 {
                value.inspect(|value| histogram.record(*value));
            }
            let mut latency = HistogramSnapshot::default();
            histogram.add_to(&mut latency);
            second += 1;
            series.push(second, Reading { latency: Some(latency), ..Reading::default() });
            (series.latency(), series.last_second(), series.after(Window::TenMinutes, 0, second).last().copied())
        };
        push(Some(1_000));
        assert!(push(Some(1_000)).0.unwrap().p50 >= 1_000);
        for _ in 0..11 {
            push(Some(50_000));
        }
        let (now, point, _) = push(Some(50_000));
        assert!(now.unwrap().p50 >= 50_000 && now.unwrap().p99 >= 50_000 && point.p50 >= 50_000, "{now:?}");
        let (_, _, step) = push(Some(1_000));
        assert!(step.unwrap().p99 >= 50_000 && step.unwrap().p50 >= 50_000, "seconds 11 to 15: {step:?}");
        for _ in 0..10 {
            push(None);
        }
        let (now, point, step) = push(None);
        assert_eq!(now, None, "nothing was served for a while");
        assert_eq!((point.p50, step.unwrap().p50), (0, 0));
    }

    #[test]
    fn the_first_request_has_its_time() {
        let mut series = Series::default();
        series.push(1, Reading::default());
        let histogram = Histogram::default();
        histogram.record(3_000);
        let mut latency = HistogramSnapshot::default();
        histogram.add_to(&mut latency);
        series.push(2, Reading { latency: Some(latency), ..Reading::default() });
        assert!(series.last_second().p50 >= 3_000);
    }

    #[test]
    fn servers_have_requests_and_errors() {
        let mut series = ServerSeries::default();
        for second in 1..=10_u64 {
            series.push(second, Counts { requests: second * 3, errors: second, ..Counts::default() });
        }
        let points: Vec<_> = series.after(Window::TenMinutes, 0, 10).collect();
        assert_eq!(points, [&ServerPoint { requests: 12, errors: 4 }, &ServerPoint { requests: 15, errors: 5 }]);
    }
}
