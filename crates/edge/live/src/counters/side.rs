//! The numbers of one side of a proxy, or of a server or listener.

use telemetry::{Gauge, PerWorker};

use super::Traffic;
use crate::rates::RateWindow;

/// The numbers of one side of a proxy, or of a server or listener.
#[derive(Debug)]
pub struct SideCounters {
    /// Counted by each worker.
    pub traffic: PerWorker<Traffic>,
    /// `scur`, `smax`.
    pub sessions: Gauge,
    /// Sessions a second.
    pub session_rate: RateWindow,
    /// Requests a second.
    pub request_rate: RateWindow,
    /// Connections a second.
    pub connection_rate: RateWindow,
}

impl SideCounters {
    /// All zero.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        Self {
            traffic: PerWorker::new(workers),
            sessions: Gauge::default(),
            session_rate: RateWindow::default(),
            request_rate: RateWindow::default(),
            connection_rate: RateWindow::default(),
        }
    }
}
