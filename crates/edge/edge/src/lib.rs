//! The edge: a load balancer that runs haproxy.cfg.

pub mod assemble;
pub mod checks;
pub mod cli {
    //! Stand-in until the commands are there.
    /// Closes.
    pub async fn serve_socket(_: std::sync::Arc<crate::live::Shared>, _: crate::net::Stream, _: haproxycfg::model::CliLevel) {}
}
pub mod counters;
pub mod crypt;
pub mod live;
pub mod logs;
pub mod net;
pub mod pool;
pub mod rates;
pub mod registry;
pub mod role;
pub mod session;
pub mod stats;
pub mod tunnel;
pub mod worker;

#[cfg(test)]
mod side_by_side;
