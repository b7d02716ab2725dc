//! Opening a connection to a server for a request: where to, where from, and the PROXY header before all else.

use std::{
    future::poll_fn,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    task::Poll,
};

use haproxycfg::model::{Mode, Namespace, ProxyOptions, SendProxy, ServerPort, UseSource};
use live::{LiveProxy, LiveServer, sockets};
use net::{Deadline, Namespaces, Stream, Target, connect::ConnectOptions};

use super::{Requester, Unreachable, reuse::goes_by_http1};
use crate::{
    session::{
        descriptors,
        handshake::{self, server_name},
        transaction::Transaction,
    },
    worker::Worker,
};

/// What tells PROXY headers apart.
pub(super) fn greeting(header: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    header.hash(&mut hasher);
    hasher.finish()
}

pub(super) async fn open(
    worker: &Worker,
    transaction: &mut Transaction,
    proxy: &Arc<LiveProxy>,
    server: &LiveServer,
    is_first: bool,
    requester: &mut impl Requester,
) -> Result<Stream, Unreachable> {
    let target = destination(transaction, server);
    let settings = proxy.settings();
    let tune = &transaction.instance.config.global.tune;
    let source = server.config.source.as_ref().or(settings.source.as_ref());
    let client = match source.and_then(|source| source.usesrc.as_ref()) {
        Some(UseSource::Header { name, occurrence }) => {
            let found = address_in_header(&transaction.request.headers, name, *occurrence);
            Some(found.ok_or(Unreachable::NoSource)?)
        }
        _ => transaction.source.get(),
    };
    let options = ConnectOptions {
        source: source.map(|source| sockets::source(source, client)),
        keepalive: settings.options.srvtcpka.then(|| sockets::keepalive(settings.server_keepalive)),
        no_linger: settings.options.nolinger,
        user_timeout: server.config.tcp_user_timeout,
        socks4: server.config.socks4,
        namespace: server.config.namespace.as_ref().and_then(|wanted| namespace(transaction, wanted)),
        receive_buffer: tune.rcvbuf_server,
        send_buffer: tune.sndbuf_server,
        // The server is not told of the connection before there is something to send, and it may be the one to speak first.
        fast_open: server.config.tfo
            && is_first
            && (settings.mode == Mode::Http || server.config.send_proxy.is_some() || requester.has_spoken()),
        ..ConnectOptions::default()
    };
    let mut deadline = Deadline::default();
    let limit = transaction.by_rules.connect_timeout.get().or(settings.timeouts.connect);
    deadline.set(limit.map(|limit| worker.now() + limit));
    let stream = match connect(worker, (&target, options), &mut deadline, requester).await {
        // NOTE: connections that are idle must not keep others from being opened.
        Err(Unreachable::Refused(error)) if descriptors::are_lacking(&error) && descriptors::free(worker).await => {
            connect(worker, (&target, options), &mut deadline, requester).await?
        }
        connected => connected?,
    };
    transaction.route.source = stream.local_address();
    transaction.route.destination = match target {
        Target::Inet(address) => Some(address),
        _ => None,
    };
    if let Some(version) = server.config.send_proxy {
        let header = proxy_header(transaction, version, server.config.proxy_options);
        // NOTE: a fresh socket takes a few hundred bytes at once; one that does not is as good as broken.
        match stream.try_write(&header) {
            Ok(count) if count == header.len() => {}
            Ok(_) => return Err(Unreachable::Refused(io::ErrorKind::WriteZero.into())),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                write_when_ready(&stream, &header).await.map_err(Unreachable::Refused)?;
            }
            Err(error) => return Err(Unreachable::Refused(error)),
        }
    }
    match server.tls.as_deref().filter(|_| server.speaks_tls()) {
        None => Ok(stream),
        Some(connector) => {
            let name = server_name(transaction, server);
            let http1 = [b"http/1.1".to_vec()];
            let protocols = goes_by_http1(transaction, server).then_some(&http1[..]);
            Box::pin(handshake::connect(
                worker,
                stream,
                (&connector.now(), name.as_deref(), protocols),
                &mut deadline,
                requester,
            ))
            .await
        }
    }
}

/// Opens a connection, unless whoever wants it leaves or the time is over.
async fn connect(
    worker: &Worker,
    (target, options): (&Target, ConnectOptions<'_>),
    deadline: &mut Deadline,
    requester: &mut impl Requester,
) -> Result<Stream, Unreachable> {
    let mut connecting = worker.neighbours.network.connect(target, options);
    poll_fn(|context| {
        if let Poll::Ready(result) = connecting.as_mut().poll(context) {
            return Poll::Ready(result.map_err(Unreachable::Refused));
        }
        if let Poll::Ready(ended) = requester.poll_leaving(context) {
            return Poll::Ready(Err(ended));
        }
        deadline.poll(context).map(|()| Err(Unreachable::ConnectTimeout))
    })
    .await
}

async fn write_when_ready(stream: &Stream, bytes: &[u8]) -> io::Result<()> {
    poll_fn(|context| stream.poll_writable(context)).await?;
    match stream.try_write(bytes)? {
        count if count == bytes.len() => Ok(()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}

/// Where a server is for this client: `server s1 10.0.0.1` without a port takes the client's, and `server s1 :80` without
/// an address the one that the client connected to.
pub(super) fn destination(transaction: &Transaction, server: &LiveServer) -> Target {
    let target = server.target();
    let Target::Inet(address) = target else { return target };
    let wanted = || transaction.destination();
    let client_port = || wanted().map_or(0, |destination| destination.port());
    let port = match server.port_rule() {
        ServerPort::Fixed(_) => address.port(),
        ServerPort::Same => client_port(),
        ServerPort::Offset(offset) => u16::try_from(i32::from(client_port()) + offset).unwrap_or(0),
    };
    let ip = match address.ip() {
        ip if ip.is_unspecified() => wanted().map_or(ip, |destination| destination.ip()),
        ip => ip,
    };
    Target::Inet(SocketAddr::new(ip, port))
}

/// The IPv4 address that a value of a header is, for `usesrc hdr_ip`; what is none stands for any, as in HAProxy.
pub(super) fn address_in_header(headers: &http::Headers, name: &str, occurrence: i32) -> Option<SocketAddr> {
    let mut values = headers.all(name.as_bytes()).flat_map(http::elements);
    let value = match usize::try_from(occurrence) {
        Ok(from_start) => values.nth(from_start.checked_sub(1)?)?,
        Err(_) => {
            let values: Vec<&[u8]> = values.collect();
            let back = usize::try_from(occurrence.unsigned_abs()).ok()?;
            *values.get(values.len().checked_sub(back)?)?
        }
    };
    let ip = std::str::from_utf8(value).ok().and_then(|text| text.parse::<Ipv4Addr>().ok());
    Some(SocketAddr::new(ip.unwrap_or(Ipv4Addr::UNSPECIFIED).into(), 0))
}

/// The network namespace that a server is in: for `*` the one that the client's PROXY header names, if it is known here.
fn namespace<'a>(transaction: &'a Transaction, wanted: &'a Namespace) -> Option<(&'a str, &'a Namespaces)> {
    let namespaces = &transaction.instance.process.namespaces;
    let name = match wanted {
        Namespace::Named(name) => name,
        Namespace::FromProxyHeader => {
            let fields = transaction.proxy_fields()?;
            fields.namespace.as_deref().filter(|name| namespaces.is_known(name))?
        }
    };
    Some((name, namespaces))
}

pub(super) fn proxy_header(transaction: &Transaction, version: SendProxy, options: ProxyOptions) -> Vec<u8> {
    use http::proxy_protocol::{encode_v1, encode_v2, tlv_type};
    let mut out = Vec::with_capacity(108);
    let ends = transaction.source.get().zip(transaction.destination());
    match version {
        SendProxy::V1 => encode_v1(ends, &mut out),
        SendProxy::V2 if options == ProxyOptions::default() && transaction.proxy_fields().is_none() => {
            encode_v2(ends, &[], &mut out);
        }
        SendProxy::V2 => {
            let fields = transaction.proxy_fields();
            let authority = fields.and_then(|fields| fields.authority.as_deref()).filter(|_| options.authority);
            let unique_id = options.unique_id.then(|| sample::Context::unique_id(transaction).map(|id| id.to_vec()));
            let unique_id = unique_id.map(Option::unwrap_or_default);
            let namespaces = &transaction.instance.process.namespaces;
            let namespace = fields.and_then(|fields| fields.namespace.as_deref());
            let namespace = namespace.filter(|name| namespaces.is_known(name));
            let handshaken = sample::Context::client_tls(transaction);
            let tls = tls_field(handshaken.as_deref(), options);
            let tlvs: Vec<(u8, &[u8])> = [
                options.crc32c.then_some((tlv_type::CRC32C, &[0; 4][..])),
                authority.map(|authority| (tlv_type::AUTHORITY, authority)),
                unique_id.as_deref().map(|id| (tlv_type::UNIQUE_ID, id)),
                options.tls.then_some((tlv_type::SSL, &tls[..])),
                namespace.map(|name| (tlv_type::NETNS, name.as_bytes())),
            ]
            .into_iter()
            .flatten()
            .collect();
            encode_v2(ends, &tlvs, &mut out);
        }
    }
    out
}

/// What a PROXY header says of the client's TLS (its specification, section 2.2.6).
fn tls_field(handshaken: Option<&tls::Handshaken>, options: ProxyOptions) -> Vec<u8> {
    use http::proxy_protocol::tls_type;
    const BY_TLS: u8 = 1;
    const CERTIFICATE_HERE: u8 = 2;
    const CERTIFICATE_OF_SESSION: u8 = 4;
    let Some(handshaken) = handshaken else { return vec![0; 5] };
    let shown = handshaken.peer.chain.first();
    let certificate = match (shown, handshaken.is_resumed) {
        (None, _) => 0,
        (Some(_), true) => CERTIFICATE_OF_SESSION,
        (Some(_), false) => CERTIFICATE_HERE | CERTIFICATE_OF_SESSION,
    };
    let mut field = vec![BY_TLS | certificate, 0, 0, 0, handshaken.peer.verified];
    let mut add = |kind: u8, value: &[u8]| {
        let length = u16::try_from(value.len()).unwrap_or(0);
        field.push(kind);
        field.extend_from_slice(&length.to_be_bytes());
        field.extend(value.iter().take(usize::from(length)));
    };
    let ours = handshaken.identity.as_deref().and_then(|identity| tls::Certificate::read(identity.certificate()));
    add(tls_type::VERSION, handshaken.version.as_bytes());
    if options.certificate_name
        && let Some(name) = shown.and_then(|der| tls::Certificate::read(der)?.common_name())
    {
        add(tls_type::COMMON_NAME, name.as_bytes());
    }
    if options.certificate_key
        && let Some(kind) = ours.as_ref().and_then(tls::Certificate::key_kind)
    {
        add(tls_type::KEY, kind.as_bytes());
    }
    if options.certificate_signature
        && let Some(ours) = &ours
    {
        add(tls_type::SIGNATURE, ours.signature_algorithm().as_bytes());
    }
    if options.cipher {
        add(tls_type::CIPHER, handshaken.cipher.as_bytes());
    }
    field
}
