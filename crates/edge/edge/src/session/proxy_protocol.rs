//! Receiving the PROXY protocol header that `accept-proxy` and `expect-proxy` demand.

use std::{future::poll_fn, rc::Rc, task::Poll, time::Duration};

use ::http::proxy_protocol::{Decoded, Proxied, ProxyError, decode, tlv_type, tlvs};

use super::{http::Session, transaction::ProxyFields};

/// How long the header may take where no timeout is configured.
const HEADER_TIME: Duration = Duration::from_secs(10);

/// Why there is no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The client closed.
    Closed,
    /// Or reset its connection.
    Reset,
    /// It took too long.
    Timeout,
    /// The end came within the header.
    Truncated,
    /// It is something else.
    NoHeader,
    /// It is malformed.
    Malformed,
}

impl Refused {
    /// What HAProxy says of it.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Closed => "Connection closed while waiting for PROXY protocol header",
            Self::Reset => "Connection error while waiting for PROXY protocol header",
            Self::Timeout => "Timeout while waiting for PROXY protocol header",
            Self::Truncated => "Truncated PROXY protocol header received",
            Self::NoHeader => "Received something which does not look like a PROXY protocol header",
            Self::Malformed => "Received an invalid PROXY protocol header",
        }
    }

    /// Whether nothing was to be learnt from the client, which `option dontlognull` keeps out of the log.
    #[must_use]
    pub fn is_silent(self) -> bool {
        matches!(self, Self::Closed | Self::Reset)
    }
}

/// Receives the header and takes the addresses over.
///
/// # Errors
/// When it does not come whole and in time, or is none. The connection must be closed.
pub async fn receive(session: &mut Session) -> Result<(), Refused> {
    let timeouts = &session.side.frontend.settings().timeouts;
    let limit = timeouts.http_request.or(timeouts.client).unwrap_or(HEADER_TIME);
    session.deadline.set(Some(session.worker.now() + limit));
    let (client, deadline) = (&mut session.client, &mut session.deadline);
    let (proxied, fields) = poll_fn(|context| {
        loop {
            if !client.received.is_empty() {
                match decode(client.received.bytes()) {
                    Ok(Decoded::Complete { consumed, proxied, tlvs }) => {
                        let fields = fields(client.received.bytes().get(tlvs).unwrap_or_default());
                        let addresses = match proxied {
                            Proxied::Inet { source, destination } => Some((source, destination)),
                            Proxied::Local | Proxied::Unknown | Proxied::Unix { .. } => None,
                        };
                        client.received.consume(consumed);
                        return Poll::Ready(Ok((addresses, fields)));
                    }
                    Ok(Decoded::Incomplete) => {}
                    Err(ProxyError::NoHeader) => return Poll::Ready(Err(Refused::NoHeader)),
                    Err(_) => return Poll::Ready(Err(Refused::Malformed)),
                }
            }
            match client.poll_receive(context) {
                Poll::Ready(Ok(count)) if count > 0 => {}
                Poll::Ready(Ok(_)) if client.received.is_empty() => return Poll::Ready(Err(Refused::Closed)),
                Poll::Ready(Ok(_)) => return Poll::Ready(Err(Refused::Truncated)),
                Poll::Ready(Err(_)) => return Poll::Ready(Err(Refused::Reset)),
                Poll::Pending => return deadline.poll(context).map(|()| Err(Refused::Timeout)),
            }
        }
    })
    .await?;
    // Nobody else knows of the connection yet.
    let side = Rc::get_mut(&mut session.side).ok_or(Refused::Reset)?;
    if let Some((source, destination)) = proxied {
        session.registered.handle.source.set(Some(source));
        side.source.set(Some(source));
        side.changed_destination.set(Some(destination));
    }
    if let Some(fields) = fields {
        // There is one header.
        let _ = side.more.get_or_init(Rc::default).proxy_fields.set(fields);
    }
    side.received_proxy = true;
    Ok(())
}

/// What the header says beside addresses; `None` for nothing that is known.
fn fields(bytes: &[u8]) -> Option<ProxyFields> {
    let mut fields = ProxyFields::default();
    for (kind, value) in tlvs(bytes) {
        match kind {
            tlv_type::AUTHORITY => fields.authority = Some(value.to_vec()),
            tlv_type::UNIQUE_ID => fields.unique_id = Some(value.to_vec()),
            _ => {}
        }
    }
    (fields.authority.is_some() || fields.unique_id.is_some()).then_some(fields)
}
