//! Receiving the headers that `accept-proxy`, `expect-proxy`, `accept-netscaler-cip` and `expect-netscaler-cip` demand.

use std::{future::poll_fn, net::SocketAddr, rc::Rc, task::Poll, time::Duration};

use ::http::{
    netscaler::{self, NetscalerError},
    proxy_protocol::{Decoded, Proxied, ProxyError, decode, tlv_type, tlvs},
};
use accelerator::{log::CloseReason, proxy_header};
use telemetry::vsl::VslTag;

use super::{Expected, handshake::TlsRefused, http::Session, transaction::ProxyFields, varnish_log};

/// How long the headers may take where no timeout is configured.
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
    /// The same of a NetScaler's header.
    Netscaler(NetscalerRefused),
    /// It speaks of a protocol that is not known.
    Protocol,
    /// It and this end speak no TLS with each other.
    Tls(TlsRefused),
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
            Self::Protocol => "Received an unhandled protocol in the PROXY protocol header",
            Self::Malformed => "Received an invalid PROXY protocol header",
            Self::Netscaler(why) => why.text(),
            Self::Tls(why) => why.text(),
        }
    }

    /// HAProxy's number of it.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Closed => 11,
            Self::Reset => 12,
            Self::Timeout => 13,
            Self::Truncated => 14,
            Self::NoHeader => 15,
            Self::Malformed => 16,
            Self::Protocol => 17,
            // They follow in the order of the words.
            Self::Netscaler(why) => 18 + why as u8,
            Self::Tls(why) => why.code(),
        }
    }

    /// Whether nothing was to be learnt from the client, which `option dontlognull` keeps out of the log.
    #[must_use]
    pub fn is_silent(self) -> bool {
        matches!(
            self,
            Self::Closed
                | Self::Reset
                | Self::Netscaler(NetscalerRefused::Closed | NetscalerRefused::Reset)
                | Self::Tls(TlsRefused::Closed)
        )
    }
}

/// Why there is no header of a NetScaler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetscalerRefused {
    Closed,
    Reset,
    Timeout,
    Truncated,
    Magic,
    Protocol,
}

impl NetscalerRefused {
    fn text(self) -> &'static str {
        match self {
            Self::Closed => "Connection closed while waiting for NetScaler Client IP header",
            Self::Reset => "Connection error while waiting for NetScaler Client IP header",
            Self::Timeout => "Timeout while waiting for a NetScaler Client IP header",
            Self::Truncated => "Truncated NetScaler Client IP header received",
            Self::Magic => "Received an invalid NetScaler Client IP magic number",
            Self::Protocol => "Received an unhandled protocol in the NetScaler Client IP header",
        }
    }

    fn of(error: NetscalerError) -> Refused {
        Refused::Netscaler(match error {
            NetscalerError::Magic => Self::Magic,
            NetscalerError::Form | NetscalerError::Protocol | NetscalerError::Length => Self::Protocol,
        })
    }

    /// What went wrong with the connection, while such a header was waited for.
    fn instead_of(refused: Refused) -> Refused {
        match refused {
            Refused::Closed => Refused::Netscaler(Self::Closed),
            Refused::Reset => Refused::Netscaler(Self::Reset),
            Refused::Timeout => Refused::Netscaler(Self::Timeout),
            Refused::Truncated => Refused::Netscaler(Self::Truncated),
            other => other,
        }
    }
}

/// Source and destination.
type Addresses = (SocketAddr, SocketAddr);

/// Receives the headers and takes the addresses over.
///
/// # Errors
/// When one does not come whole and in time, or is none. The connection must be closed.
pub async fn receive(session: &mut Session, expected: Expected) -> Result<(), Refused> {
    let timeouts = &session.side.frontend.settings().timeouts;
    let limit = timeouts.http_request.or(timeouts.client).unwrap_or(HEADER_TIME);
    session.deadline.set(Some(session.worker.now() + limit));
    if expected.proxy && session.side.frontend.varnishd().is_some() {
        receive_as_varnish(session).await?;
    } else if expected.proxy {
        let (addresses, fields) = header(session, decode_header).await?;
        take_over(session, addresses)?;
        let side = Rc::get_mut(&mut session.side).ok_or(Refused::Reset)?;
        if let Some(fields) = fields {
            // There is one header.
            let _ = side.more.get_or_init(Rc::default).proxy_fields.set(fields);
        }
        side.received_proxy = true;
    }
    if let Some(magic) = expected.netscaler {
        let addresses = header(session, |bytes| match netscaler::decode(bytes, magic) {
            Ok(netscaler::Decoded::Incomplete) => Ok(None),
            Ok(netscaler::Decoded::Complete { consumed, source, destination }) => {
                Ok(Some((consumed, (source, destination))))
            }
            Err(error) => Err(NetscalerRefused::of(error)),
        });
        let addresses = addresses.await.map_err(NetscalerRefused::instead_of)?;
        take_over(session, Some(addresses))?;
    }
    Ok(())
}

/// Receives the header of a listener of varnishd.
async fn receive_as_varnish(session: &mut Session) -> Result<(), Refused> {
    let idle = session.side.frontend.varnishd().map(|parameters| parameters.timeouts().idle);
    session.deadline.set(idle.map(|idle| session.worker.now() + idle));
    let side = Rc::clone(&session.side);
    let read = |bytes: &[u8]| match proxy_header::read(bytes) {
        Ok(None) => Ok(None),
        Ok(Some(header)) => {
            let fields = fields(bytes.get(header.fields.clone()).unwrap_or_default());
            Ok(Some((header.consumed, (header, fields))))
        }
        Err(garbage) => {
            if let Some(words) = &garbage.words {
                varnish_log::note(&side, VslTag::ProxyGarbage, words);
            }
            varnish_log::closes(&side, garbage.reason);
            Err(Refused::Malformed)
        }
    };
    let received = header(session, read).await;
    if matches!(received, Err(Refused::Timeout)) {
        let silent = session.client.received.is_empty();
        let reason = if silent { CloseReason::RxCloseIdle } else { CloseReason::RxTimeout };
        varnish_log::closes(&side, reason);
    }
    let (header, fields) = received?;
    for (tag, text) in [(VslTag::Proxy, &header.record), (VslTag::ProxyGarbage, &header.ignored)] {
        if let Some(text) = text {
            varnish_log::note(&side, tag, text);
        }
    }
    drop(side);
    take_over(session, header.ends)?;
    let side = Rc::get_mut(&mut session.side).ok_or(Refused::Reset)?;
    if let Some(fields) = fields {
        let _ = side.more.get_or_init(Rc::default).proxy_fields.set(fields);
    }
    side.received_proxy = true;
    Ok(())
}

/// Receives one header: `read` gives its length and what it says once it is whole.
async fn header<T>(
    session: &mut Session,
    read: impl Fn(&[u8]) -> Result<Option<(usize, T)>, Refused>,
) -> Result<T, Refused> {
    let (client, deadline) = (&mut session.client, &mut session.deadline);
    poll_fn(|context| {
        loop {
            if !client.received.is_empty() {
                match read(client.received.bytes()) {
                    Ok(Some((consumed, said))) => {
                        client.received.consume(consumed);
                        return Poll::Ready(Ok(said));
                    }
                    Ok(None) => {}
                    Err(refused) => return Poll::Ready(Err(refused)),
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
    .await
}

fn take_over(session: &mut Session, addresses: Option<Addresses>) -> Result<(), Refused> {
    // Nobody else knows of the connection yet.
    let side = Rc::get_mut(&mut session.side).ok_or(Refused::Reset)?;
    if let Some((source, destination)) = addresses {
        session.registered.handle.source.set(Some(source));
        side.source.set(Some(source));
        side.changed_destination.set(Some(destination));
    }
    Ok(())
}

/// What a header of the PROXY protocol says: addresses, if there are any, and fields.
type Said = (Option<Addresses>, Option<ProxyFields>);

fn decode_header(bytes: &[u8]) -> Result<Option<(usize, Said)>, Refused> {
    match decode(bytes) {
        Ok(Decoded::Complete { consumed, proxied, tlvs }) => {
            let fields = fields(bytes.get(tlvs).unwrap_or_default());
            let addresses = match proxied {
                Proxied::Inet { source, destination } => Some((source, destination)),
                Proxied::Local | Proxied::Unknown | Proxied::Unix { .. } => None,
            };
            Ok(Some((consumed, (addresses, fields))))
        }
        Ok(Decoded::Incomplete) => Ok(None),
        Err(ProxyError::NoHeader) => Err(Refused::NoHeader),
        Err(ProxyError::UnknownProtocol) => Err(Refused::Protocol),
        Err(_) => Err(Refused::Malformed),
    }
}

/// What the header says beside addresses; `None` for nothing that is known.
fn fields(bytes: &[u8]) -> Option<ProxyFields> {
    let mut fields = ProxyFields::default();
    for (kind, value) in tlvs(bytes) {
        match kind {
            tlv_type::AUTHORITY => fields.authority = Some(value.to_vec()),
            tlv_type::UNIQUE_ID => fields.unique_id = Some(value.to_vec()),
            tlv_type::NETNS => fields.namespace = std::str::from_utf8(value).ok().map(str::to_owned),
            _ => {}
        }
    }
    // Asked for or not, it is bounded: a header has 64 KiB at most, and what is kept of it is a few hundred bytes in practice.
    if tlvs(bytes).any(|(kind, _)| matches!(kind, tlv_type::ALPN | tlv_type::AUTHORITY | tlv_type::SSL)) {
        fields.tlvs = Some(bytes.into());
    }
    let is_any = fields.tlvs.is_some() || fields.unique_id.is_some() || fields.namespace.is_some();
    is_any.then_some(fields)
}
