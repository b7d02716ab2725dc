//! Numbers and records of what happened: counters and histograms with one writer each, summed on read, the ring of
//! transactions, queries of it, and the time of day where the machine is.

mod counter;
mod histogram;
mod local_time;
pub mod query;
pub mod ring;
pub mod vsl;

pub use counter::{Counter, Gauge, PerWorker, SlidingAverage, WorkerGauge};
pub use histogram::{Histogram, HistogramSnapshot};
pub use local_time::{LocalTime, local_offset, local_time};
