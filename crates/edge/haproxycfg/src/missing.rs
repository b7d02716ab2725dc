//! Messages about what is missing, which several parts give.

use crate::model::Server;

/// That a proxy, or what HAProxy makes one of, may wait for ever.
pub(crate) fn timeouts(kind: &str, name: &str) -> String {
    format!(
        "missing timeouts for {kind} '{name}'.\n   | While not properly invalid, you will certainly encounter various \
         problems\n   | with such a configuration. To fix this, please ensure that all following\n   | timeouts are set to \
         a non-zero value: 'client', 'connect', 'server'."
    )
}

/// An agent needs a port.
#[must_use]
pub(crate) fn agent_port(server: &Server) -> Option<String> {
    let has_port = server.agent_port.or(server.check_port).is_some();
    (server.agent_check && !has_port)
        .then(|| format!("server {} does not have agent port. Agent check has been disabled.", server.name))
}
