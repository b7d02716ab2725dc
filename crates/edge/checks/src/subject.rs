//! What is checked: a server, or an agent about it.

use std::time::Duration;

use haproxycfg::model::{CheckProtocol, CheckStep};
use live::{CheckPlace, LiveProxy, LiveServer};
use net::Target;

/// What a sequence of steps is run against.
#[derive(Clone, Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) proxy: &'a LiveProxy,
    /// The server that it is about; a mail has none.
    pub(crate) server: Option<&'a LiveServer>,
    pub(crate) protocol: CheckProtocol,
    pub(crate) steps: &'a [CheckStep],
    /// Where connections go unless a step or `place` says otherwise.
    pub(crate) target: Target,
    /// What of that is not the server's own.
    pub(crate) place: CheckPlace,
    /// How long it may take, if no timeout says otherwise.
    pub(crate) interval: Duration,
}

impl<'a> Subject<'a> {
    /// The health check of a server.
    pub(super) fn health(proxy: &'a LiveProxy, server: &'a LiveServer) -> Self {
        let check = &proxy.settings().check;
        Self {
            proxy,
            server: Some(server),
            protocol: check.protocol,
            steps: &check.steps,
            target: server.target(),
            place: server.check_place(),
            interval: server.config.inter,
        }
    }

    /// The question to a server's agent.
    pub(super) fn agent(proxy: &'a LiveProxy, server: &'a LiveServer, steps: &'a [CheckStep]) -> Self {
        Self {
            proxy,
            server: Some(server),
            protocol: CheckProtocol::Agent,
            steps,
            target: server.target(),
            place: server.agent_place(),
            interval: server.config.agent_inter,
        }
    }
}
