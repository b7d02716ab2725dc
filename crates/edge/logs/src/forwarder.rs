//! Sends the lines of rings to their servers over TCP or stream sockets, and connects again when a connection ends.

use std::{io, sync::Arc, time::Duration};

use haproxycfg::model::{Server, ServerAddress, ServerPort};
use tokio::{
    io::{AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpStream, UnixStream},
    time::{sleep, timeout},
};

use super::log_ring::{LogRing, Reader};

/// How long it waits after a connection that failed.
const RETRY_TIME: Duration = Duration::from_secs(1);
/// Bytes of lines that are sent at a time.
const BATCH_BYTES_MAX: usize = 16 * 1024;
/// The port of syslog, for servers without one.
const PORT_DEFAULT: u16 = 514;

/// Sends all lines of a ring to one of its servers, for ever.
pub(super) async fn run(ring: Arc<LogRing>, server: Server) {
    let mut reader = ring.attach();
    loop {
        // What ends a connection is the server's business; the lines wait here.
        let _ = connect_and_send(&ring, &server, &mut reader).await;
        sleep(RETRY_TIME).await;
    }
}

async fn within<T>(limit: Option<Duration>, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    match limit {
        None => work.await,
        Some(limit) => timeout(limit, work).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())),
    }
}

async fn connect_and_send(ring: &LogRing, server: &Server, reader: &mut Reader) -> io::Result<()> {
    let limits = (ring.settings().timeout_connect, ring.settings().timeout_server);
    match &server.address {
        ServerAddress::Unix(path) => {
            let stream = within(limits.0, UnixStream::connect(path)).await?;
            let (mut incoming, outgoing) = stream.into_split();
            send(reader, outgoing, server.octet_count, limits.1, async move {
                let mut ignored = [0; 512];
                while incoming.read(&mut ignored).await.is_ok_and(|count| count > 0) {}
            })
            .await
        }
        address => {
            let port = match server.port {
                ServerPort::Fixed(port) if port > 0 => port,
                _ => PORT_DEFAULT,
            };
            let stream = match (address, &server.fqdn) {
                (ServerAddress::Ip(ip), _) => within(limits.0, TcpStream::connect((*ip, port))).await?,
                (_, Some(name)) => within(limits.0, TcpStream::connect((name.as_str(), port))).await?,
                _ => return Err(io::ErrorKind::AddrNotAvailable.into()),
            };
            let (mut incoming, outgoing) = stream.into_split();
            send(reader, outgoing, server.octet_count, limits.1, async move {
                let mut ignored = [0; 512];
                while incoming.read(&mut ignored).await.is_ok_and(|count| count > 0) {}
            })
            .await
        }
    }
}

/// Sends lines until the connection ends, which `closed` waits for.
async fn send(
    reader: &mut Reader,
    mut outgoing: impl AsyncWrite + Unpin,
    octet_count: bool,
    limit: Option<Duration>,
    closed: impl Future<Output = ()>,
) -> io::Result<()> {
    let mut closed = std::pin::pin!(closed);
    let mut bytes = Vec::new();
    loop {
        let (lines, next) = tokio::select! {
            lines = reader.lines(BATCH_BYTES_MAX) => lines,
            () = &mut closed => return Ok(()),
        };
        bytes.clear();
        for line in &lines {
            frame(line, octet_count, &mut bytes);
        }
        tokio::select! {
            sent = within(limit, outgoing.write_all(&bytes)) => sent?,
            () = &mut closed => return Ok(()),
        }
        reader.took(next);
    }
}

/// RFC 6587: a line with its length before it, or with a line feed behind it.
fn frame(line: &[u8], octet_count: bool, out: &mut Vec<u8>) {
    if octet_count {
        out.extend_from_slice(line.len().to_string().as_bytes());
        out.push(b' ');
    }
    out.extend_from_slice(line);
    if !octet_count {
        out.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames() {
        let framed = |line: &[u8], octet_count| {
            let mut out = Vec::new();
            frame(line, octet_count, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(framed(b"<5>hello", true), "8 <5>hello");
        assert_eq!(framed(b"<5>hello", false), "<5>hello\n");
        assert_eq!(framed(b"", true), "0 ");
    }
}
