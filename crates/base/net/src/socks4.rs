//! The way through a SOCKS4 proxy.

use std::{
    future::poll_fn,
    io,
    net::{IpAddr, SocketAddr},
};

use crate::stream::Stream;

/// Version 4, and the command to connect.
const CONNECT: [u8; 2] = [4, 1];
/// Who HAProxy says it is, which access rules of the proxy may know.
const USER: &[u8] = b"HAProxy\0";
/// What an answer says when the connection stands.
const GRANTED: u8 = 90;
const ANSWER_BYTES: usize = 8;

/// Asks the proxy at the other end for a connection to `address`, and waits until it stands. The caller bounds the time.
///
/// # Errors
/// HAProxy's words for what went wrong.
pub async fn ask(stream: &Stream, address: SocketAddr) -> io::Result<()> {
    let IpAddr::V4(ip) = address.ip().to_canonical() else {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "SOCKS4 Proxy knows no IPv6"));
    };
    let mut question = CONNECT.to_vec();
    question.extend_from_slice(&address.port().to_be_bytes());
    question.extend_from_slice(&ip.octets());
    question.extend_from_slice(USER);
    let mut rest = question.as_slice();
    while !rest.is_empty() {
        match stream.try_write(rest) {
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                poll_fn(|context| stream.poll_writable(context)).await?;
            }
            Err(_) => return Err(io::Error::other("SOCKS4 Proxy write error during handshake")),
        }
    }
    let mut answer = [0; ANSWER_BYTES];
    let mut length = 0;
    while let Some(room) = answer.get_mut(length..).filter(|room| !room.is_empty()) {
        match stream.try_read(room) {
            Ok(0) => return Err(io::Error::other("SOCKS4 Proxy read error during handshake")),
            Ok(count) => length += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => stream.readable().await?,
            Err(_) => return Err(io::Error::other("SOCKS4 Proxy handshake aborted by server")),
        }
    }
    match answer {
        [_, GRANTED, ..] => Ok(()),
        _ => Err(io::Error::new(io::ErrorKind::ConnectionRefused, "SOCKS4 Proxy deny the request")),
    }
}
