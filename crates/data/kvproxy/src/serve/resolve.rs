//! Where servers are. Names are resolved before the proxy serves, and again from time to time by a thread that may wait for it.

use std::{
    io,
    net::ToSocketAddrs as _,
    sync::{Arc, PoisonError, RwLock, atomic::Ordering},
    time::Duration,
};

use super::{sockets::Target, worker::Shared};
use crate::nutcracker::{Address, PoolConfig};

/// How often names are looked up again.
const INTERVAL: Duration = Duration::from_secs(10);
/// How often is looked whether the process ends meanwhile.
const STEP: Duration = Duration::from_millis(200);

/// The places of all servers, by pool and server.
#[derive(Debug)]
pub struct ServerAddresses(RwLock<Vec<Vec<Result<Target, String>>>>);

impl ServerAddresses {
    /// Looks all of them up.
    #[must_use]
    pub fn of_pools(pools: &[PoolConfig]) -> Self {
        Self(RwLock::new(look_up(pools)))
    }

    /// Where a server is.
    pub fn of(&self, pool: usize, server: usize) -> io::Result<Target> {
        let places = self.0.read().unwrap_or_else(PoisonError::into_inner);
        match places.get(pool).and_then(|servers| servers.get(server)) {
            Some(Ok(target)) => Ok(target.clone()),
            Some(Err(problem)) => Err(io::Error::other(problem.clone())),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Looks names up again while the process serves; at once if there are none.
    pub fn keep(self: &Arc<Self>, pools: Vec<PoolConfig>, shared: Arc<Shared>) -> io::Result<()> {
        let is_named = |address: &Address| matches!(address, Address::Tcp { host, .. } if host.parse::<std::net::IpAddr>().is_err());
        if !pools.iter().flat_map(|pool| &pool.servers).any(|server| is_named(&server.address)) {
            return Ok(());
        }
        let places = Arc::clone(self);
        std::thread::Builder::new().name("names".into()).spawn(move || {
            let mut waited = Duration::ZERO;
            while !shared.stops.load(Ordering::Relaxed) {
                std::thread::sleep(STEP);
                waited += STEP;
                if waited < INTERVAL {
                    continue;
                }
                waited = Duration::ZERO;
                let found = look_up(&pools);
                let mut known = places.0.write().unwrap_or_else(PoisonError::into_inner);
                for (known, found) in known.iter_mut().flatten().zip(found.into_iter().flatten()) {
                    // A name that is not found for a while keeps its last address.
                    if found.is_ok() || known.is_err() {
                        *known = found;
                    }
                }
            }
        })?;
        Ok(())
    }
}

fn look_up(pools: &[PoolConfig]) -> Vec<Vec<Result<Target, String>>> {
    pools.iter().map(|pool| pool.servers.iter().map(|server| target(&server.address)).collect()).collect()
}

/// The place of an address.
pub fn target(address: &Address) -> Result<Target, String> {
    match address {
        Address::Unix { path, .. } => Ok(Target::Unix(path.clone())),
        Address::Tcp { host, port } => {
            let mut found =
                (host.as_str(), *port).to_socket_addrs().map_err(|error| format!("{host} is not known: {error}"))?;
            found.next().map(Target::Tcp).ok_or_else(|| format!("{host} has no address"))
        }
    }
}
