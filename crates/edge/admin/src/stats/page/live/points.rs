//! Points of charts, column by column; a column of zeros is left out.

use serde::Serialize;

use crate::stats::history::{Point, Series, ServerSeries, Window};

/// Which points the page has not got yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Missing {
    /// Of which window.
    pub(super) window: Window,
    /// The last second that it knows of.
    pub(super) since: u64,
    /// The last second.
    pub(super) now: u64,
}

/// Points step by step, the last one of the step that ended last.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Points {
    /// How many there are.
    n: usize,
    /// Requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    r: Vec<u32>,
    /// Sessions in TCP mode.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    t: Vec<u32>,
    /// Errors.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    e: Vec<u32>,
    /// Answers with 1xx.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    c1: Vec<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    c2: Vec<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    c3: Vec<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    c4: Vec<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    c5: Vec<u32>,
    /// Requests without an answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    c0: Vec<u32>,
    /// Sessions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    s: Vec<u32>,
    /// Median microseconds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    p50: Vec<u32>,
    /// Microseconds for 99 of 100.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    p99: Vec<u32>,
    /// Bytes to clients (process).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) bytes: Vec<u64>,
}

impl Points {
    /// Those of a side.
    pub(super) fn of(series: &Series, missing: Missing) -> Self {
        let points: Vec<_> = series.after(missing.window, missing.since, missing.now).collect();
        let column = |value: fn(&Point) -> u32| without_zeros(points.iter().map(|point| value(point)));
        Self {
            n: points.len(),
            r: column(|point| point.requests),
            t: column(|point| point.tcp),
            e: column(|point| point.errors),
            c1: column(|Point { answers: [one, ..], .. }| *one),
            c2: column(|Point { answers: [_, two, ..], .. }| *two),
            c3: column(|Point { answers: [_, _, three, ..], .. }| *three),
            c4: column(|Point { answers: [_, _, _, four, ..], .. }| *four),
            c5: column(|Point { answers: [_, _, _, _, five, _], .. }| *five),
            c0: column(|Point { answers: [.., none], .. }| *none),
            s: column(|point| point.sessions),
            p50: column(|point| point.p50),
            p99: column(|point| point.p99),
            bytes: Vec::new(),
        }
    }

    /// Those of a server.
    pub(super) fn of_server(series: &ServerSeries, missing: Missing) -> Self {
        let points: Vec<_> = series.after(missing.window, missing.since, missing.now).collect();
        Self {
            n: points.len(),
            r: without_zeros(points.iter().map(|point| point.requests)),
            e: without_zeros(points.iter().map(|point| point.errors)),
            ..Self::default()
        }
    }
}

fn without_zeros(values: impl Iterator<Item = u32> + Clone) -> Vec<u32> {
    if values.clone().all(|value| value == 0) { Vec::new() } else { values.collect() }
}
