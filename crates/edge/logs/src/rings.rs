//! The tasks that send the lines of rings to their servers.

use std::{sync::Arc, time::Duration};

use haproxycfg::model::{Ring, Server};
use tokio::task::{JoinHandle, spawn_local};

use super::{forwarder, log_ring::LogRing};

/// How long an ending process waits for servers to take what is left.
const LAST_TIME: Duration = Duration::from_secs(1);
/// How often it looks whether they have.
const LOOK_TIME: Duration = Duration::from_millis(10);

/// Sends the lines of all rings to their servers.
#[derive(Debug, Default)]
pub struct Forwarders(Vec<Running>);

#[derive(Debug)]
struct Running {
    ring: Arc<LogRing>,
    server: Server,
    task: JoinHandle<()>,
}

fn is_same(old: &Server, new: &Server) -> bool {
    (&old.address, old.port, &old.fqdn, old.octet_count) == (&new.address, new.port, &new.fqdn, new.octet_count)
}

impl Forwarders {
    /// Sends for the rings that there are now. Connections of rings and servers that have not changed stay.
    pub fn follow(&mut self, wanted: Vec<(Arc<LogRing>, Ring)>) {
        let mut old = std::mem::take(&mut self.0);
        for (ring, settings) in wanted {
            for server in &settings.servers {
                let known = old
                    .iter()
                    .position(|running| Arc::ptr_eq(&running.ring, &ring) && is_same(&running.server, server));
                let running = match known {
                    Some(index) => old.swap_remove(index),
                    None => Running {
                        task: spawn_local(forwarder::run(Arc::clone(&ring), server.clone())),
                        ring: Arc::clone(&ring),
                        server: server.clone(),
                    },
                };
                self.0.push(running);
            }
        }
        for running in old {
            running.task.abort();
        }
    }

    /// Waits for a moment until servers have what is left, then ends.
    pub async fn finish(&mut self) {
        let mut looks = LAST_TIME.as_millis() / LOOK_TIME.as_millis();
        while looks > 0 && self.0.iter().any(|running| running.ring.is_held()) {
            looks -= 1;
            tokio::time::sleep(LOOK_TIME).await;
        }
        for running in self.0.drain(..) {
            running.task.abort();
        }
    }
}
