//! The edge: a load balancer that runs haproxy.cfg.

pub mod assemble;
mod background;
pub mod capture;
pub mod checks;
pub mod cli;
pub mod counters;
pub mod crypt;
pub mod dynamic;
pub mod dynamic_cookie;
pub mod keyword_dump;
pub mod libraries;
pub mod live;
pub mod parking;
pub mod peers;
pub mod pool;
pub mod rates;
pub mod registry;
pub mod resolve;
pub mod ring;
pub mod role;
pub mod server_state;
pub mod servers;
pub mod session;
pub mod sources;
pub mod stats;
pub mod stick;
pub mod tunnel;
pub mod variables;
pub mod worker;

#[cfg(test)]
#[path = "../../logs/src/side_by_side.rs"]
pub mod side_by_side;
#[cfg(test)]
mod test_instance;
