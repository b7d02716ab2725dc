//! Numbers and records of what happened: counters and histograms with one writer each, summed on read, and the ring of
//! transactions.

mod counter;
mod histogram;
pub mod ring;

pub use counter::{Counter, Gauge, PerWorker, SlidingAverage};
pub use histogram::{Histogram, HistogramSnapshot};
