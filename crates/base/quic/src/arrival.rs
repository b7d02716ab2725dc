//! Clients that want to begin a connection.

use std::{
    net::{IpAddr, SocketAddr},
    rc::Rc,
    sync::Arc,
    time::Instant,
};

use quinn_proto::Incoming;
use tls::Acceptor;

use crate::{connection::Connection, endpoint::Endpoint, settings::Terms, socket::Datagram};

/// Why no connection has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// That was no packet of a client.
    Noise,
    /// Client and server could not agree. The client has been told.
    Failed,
}

/// A client that wants to begin a connection. One about which nothing is decided is ignored: it will ask again.
pub struct Arrival {
    endpoint: Rc<Endpoint>,
    incoming: Option<Incoming>,
}

impl Arrival {
    /// Gives a datagram to the connection of this socket that it is for; or else the client that wants to begin one.
    #[must_use]
    pub fn receive(endpoint: &Rc<Endpoint>, datagram: Datagram<'_>, now: Instant) -> Option<Self> {
        let incoming = endpoint.handle(datagram, now)?;
        Some(Self { endpoint: Rc::clone(endpoint), incoming: Some(incoming) })
    }

    /// The client's address, which may be a lie as long as it is not [proven](Self::is_proven).
    #[must_use]
    pub fn from(&self) -> Option<SocketAddr> {
        self.incoming.as_ref().map(Incoming::remote_address)
    }

    /// The address of this machine that it speaks with.
    #[must_use]
    pub fn to(&self) -> Option<IpAddr> {
        self.incoming.as_ref().and_then(Incoming::local_ip)
    }

    /// Whether the client has shown that it gets what is sent to its address.
    #[must_use]
    pub fn is_proven(&self) -> bool {
        self.incoming.as_ref().is_some_and(Incoming::remote_address_validated)
    }

    /// Begins the connection.
    ///
    /// # Errors
    /// Why there is none.
    pub fn accept(mut self, terms: &Terms, acceptor: Arc<Acceptor>, now: Instant) -> Result<Connection, Rejected> {
        let incoming = self.incoming.take().ok_or(Rejected::Noise)?;
        let mut output = Vec::new();
        let config = terms.config(acceptor);
        let begun = self.endpoint.with_machine(|machine| {
            machine.accept(incoming, now, &mut output, Some(config)).map_err(|error| error.response)
        });
        let (handle, machine) = begun.map_err(|response| match response {
            None => Rejected::Noise,
            Some(transmit) => {
                self.endpoint.answer(&transmit, &output);
                Rejected::Failed
            }
        })?;
        let inbox = self.endpoint.begins(handle);
        Ok(Connection::new(Rc::clone(&self.endpoint), handle, machine, inbox))
    }

    /// Has the client prove its address. One that has tried that already is refused.
    pub fn retry(mut self) {
        let Some(incoming) = self.incoming.take() else { return };
        let mut output = Vec::new();
        let transmit = self.endpoint.with_machine(|machine| match machine.retry(incoming, &mut output) {
            Ok(transmit) => transmit,
            Err(error) => machine.refuse(error.into_incoming(), &mut output),
        });
        self.endpoint.answer(&transmit, &output);
    }

    /// Tells the client that it is not served.
    pub fn refuse(mut self) {
        let Some(incoming) = self.incoming.take() else { return };
        let mut output = Vec::new();
        let transmit = self.endpoint.with_machine(|machine| machine.refuse(incoming, &mut output));
        self.endpoint.answer(&transmit, &output);
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        if let Some(incoming) = self.incoming.take() {
            self.endpoint.with_machine(|machine| machine.ignore(incoming));
        }
    }
}
