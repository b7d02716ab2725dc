//! What a server is spoken TLS with. Its certificate and what it is verified by are replaced while it runs.

use std::sync::{Arc, PoisonError, RwLock};

use tls::{ClientOptions, Connector};

/// What a server is spoken TLS with.
#[derive(Debug)]
pub struct ServerConnector(RwLock<Current>);

#[derive(Debug)]
struct Current {
    options: Arc<ClientOptions>,
    /// Tells connections under these conditions from others.
    fingerprint: [u8; 32],
    connector: Arc<Connector>,
}

impl ServerConnector {
    /// That of these options; nothing where they contradict each other.
    pub(crate) fn new(options: &Arc<ClientOptions>, fingerprint: [u8; 32]) -> Option<Self> {
        let connector = Arc::new(Connector::new(options).ok()?);
        Some(Self(RwLock::new(Current { options: Arc::clone(options), fingerprint, connector })))
    }

    /// What a connection is opened with now.
    #[must_use]
    pub fn now(&self) -> Arc<Connector> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner).connector)
    }

    /// Looks at what is wanted of the server.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&ClientOptions) -> T) -> T {
        look(&self.0.read().unwrap_or_else(PoisonError::into_inner).options)
    }

    /// Changes it, if `change` says to what; whether it has. Connections go on as they were opened; their sessions are not resumed.
    pub(crate) fn edit(&self, change: impl FnOnce(&ClientOptions) -> Option<ClientOptions>) -> bool {
        let mut now = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let Some(options) = change(&now.options) else { return false };
        let Ok(connector) = Connector::new(&options) else { return false };
        let (fingerprint, connector) = (options.fingerprint(), Arc::new(connector));
        *now = Current { options: Arc::new(options), fingerprint, connector };
        true
    }

    /// Tells connections under these conditions from others.
    pub(crate) fn fingerprint(&self) -> [u8; 32] {
        self.0.read().unwrap_or_else(PoisonError::into_inner).fingerprint
    }
}
