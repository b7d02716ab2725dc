//! The edge: a load balancer that runs haproxy.cfg.

pub mod counters;
pub mod live;
pub mod logs;

#[cfg(test)]
mod side_by_side;
