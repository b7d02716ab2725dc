//! The edge: a load balancer that runs haproxy.cfg.

pub mod counters;
pub mod live;
