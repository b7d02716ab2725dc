//! Receiving the PROXY protocol header that `accept-proxy` and `expect-proxy` demand.

use std::{
    future::poll_fn,
    task::Poll,
    time::{Duration, Instant},
};

use http::proxy_protocol::{Decoded, Proxied, decode};

use super::{transaction::ClientSide, wire::Wire};
use crate::net::Deadline;

/// How long the header may take where no timeout is configured.
const HEADER_TIME: Duration = Duration::from_secs(10);

/// Receives the header and takes the addresses over.
///
/// # Errors
/// When it does not come whole and in time, or is none. The connection must be closed.
pub async fn receive(client: &mut Wire, side: &mut ClientSide) -> Result<(), ()> {
    let timeouts = &side.frontend.settings().timeouts;
    let limit = timeouts.http_request.or(timeouts.client).unwrap_or(HEADER_TIME);
    let mut deadline = Deadline::default();
    deadline.set(Some(Instant::now() + limit));
    let proxied = poll_fn(|context| {
        loop {
            if !client.received.is_empty() {
                match decode(client.received.bytes()) {
                    Ok(Decoded::Complete { consumed, proxied, .. }) => {
                        let addresses = match proxied {
                            Proxied::Inet { source, destination } => Some((source, destination)),
                            Proxied::Local | Proxied::Unknown | Proxied::Unix { .. } => None,
                        };
                        client.received.consume(consumed);
                        return Poll::Ready(Ok(addresses));
                    }
                    Ok(Decoded::Incomplete) => {}
                    Err(_) => return Poll::Ready(Err(())),
                }
            }
            match client.poll_receive(context) {
                Poll::Ready(Ok(count)) if count > 0 => {}
                Poll::Ready(_) => return Poll::Ready(Err(())),
                Poll::Pending => return deadline.poll(context).map(|()| Err(())),
            }
        }
    })
    .await?;
    if let Some((source, destination)) = proxied {
        side.source.set(Some(source));
        side.original_source = Some(source);
        side.changed_destination.set(Some(destination));
    }
    side.received_proxy = true;
    Ok(())
}
