//! Numbers and records of what happened: counters and histograms with one writer each, summed on read.

mod counter;
mod histogram;

pub use counter::{Counter, Gauge, PerWorker, SlidingAverage};
pub use histogram::{Histogram, HistogramSnapshot};
