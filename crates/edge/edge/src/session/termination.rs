//! How a session ended, as the log tells it: the first two letters of HAProxy's termination state, for TCP and HTTP alike.

use telemetry::Counter;

use super::{
    transaction::{Termination, Transaction},
    upstream::Unreachable,
};
use crate::{counters::Traffic, tunnel::TunnelEnd};

impl Transaction {
    /// Ends because there is no connection to a server.
    pub fn end_unreachable(&mut self, why: &Unreachable) {
        let (cause, phase) = match why {
            Unreachable::NoServer | Unreachable::Refused(_) => (b'S', b'C'),
            Unreachable::QueueFull | Unreachable::QueueTimeout => (b's', b'Q'),
            Unreachable::ConnectTimeout => (b's', b'C'),
            // Who waits in a queue has no server yet.
            Unreachable::ClientGone => (b'C', if self.server.is_some() { b'C' } else { b'Q' }),
            // HAProxy ends that as it ends a transfer.
            Unreachable::ClientFailed => return self.end_broken(b'C'),
            Unreachable::Killed => (b'K', b'C'),
            Unreachable::NoSource => (b'I', b'C'),
            Unreachable::Elsewhere => (b'L', b'C'),
        };
        self.terminate(cause, phase);
    }

    /// Ends with its tunnel, and counts who broke it.
    pub fn end_tunnel(&mut self, end: &TunnelEnd) {
        match end {
            TunnelEnd::Closed { .. } => {}
            TunnelEnd::ClientError(_) => self.end_broken(b'C'),
            TunnelEnd::ServerError(_) => {
                self.count_upstream(|traffic| &traffic.response_errors);
                self.end_broken(b'S');
            }
            TunnelEnd::ClientTimeout => self.end_broken(b'c'),
            TunnelEnd::ServerTimeout => self.end_broken(b's'),
            TunnelEnd::Killed(cause) => self.terminate(*cause, b'-'),
        }
    }

    /// Ends while bytes were going both ways, for this cause, and counts who broke it.
    fn end_broken(&mut self, cause: u8) {
        self.terminate(cause, b'D');
        let broken_by: fn(&Traffic) -> &Counter = match cause {
            b'C' | b'c' => |traffic| &traffic.client_aborts,
            _ => |traffic| &traffic.server_aborts,
        };
        broken_by(self.client.frontend.frontend.traffic.of(self.worker)).increment();
        self.count_upstream(broken_by);
    }

    /// Counts for the backend and the server.
    pub(super) fn count_upstream(&self, counter: fn(&Traffic) -> &Counter) {
        if let Some(backend) = &self.backend {
            counter(backend.backend.traffic.of(self.worker)).increment();
        }
        if let Some(server) = &self.server {
            counter(server.side.traffic.of(self.worker)).increment();
        }
    }

    /// Ends with these letters unless something ended it before.
    pub fn terminate(&mut self, cause: u8, phase: u8) {
        if self.termination == Termination::NORMAL {
            self.termination = Termination::new(cause, phase);
        }
    }
}
