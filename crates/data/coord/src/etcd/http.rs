//! Requests to etcd's JSON gateway: one connection each, HTTP/1.0, so that a body ends where the connection does.

use std::{
    io::{self, Read as _, Write as _},
    net::{TcpStream, ToSocketAddrs as _},
    time::{Duration, Instant},
};

use serde_json::Value;

/// How long a connection may take to be made.
const CONNECT_PATIENCE: Duration = Duration::from_millis(500);
/// Bytes of the largest answer.
const ANSWER_MAX: usize = 64 << 20;
/// Bytes of the longest head of an answer.
const HEAD_MAX: usize = 16 << 10;

/// A place where etcd listens for clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    host: String,
    port: u16,
}

impl Endpoint {
    /// Reads `http://HOST:PORT`.
    ///
    /// # Errors
    ///
    /// It is none, or asks for what is not there.
    pub fn parse(text: &str) -> Result<Self, String> {
        let rest = match text.split_once("://") {
            Some(("http", rest)) => rest,
            Some(("https", _)) => return Err(format!("{text}: TLS to etcd is not supported yet: use http://")),
            Some((scheme, _)) => {
                return Err(format!("{text}: '{scheme}' is no scheme of etcd's clients: use http://HOST:PORT"));
            }
            None => text,
        };
        if rest.contains('@') {
            return Err(format!("{text}: accounts of etcd are not supported yet"));
        }
        let wrong = || format!("{text}: http://HOST:PORT is expected, such as http://10.0.0.1:2379");
        let (host, port) = rest.trim_end_matches('/').rsplit_once(':').ok_or_else(wrong)?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?;
        let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'/' && byte != b'?';
        if host.is_empty() || !host.bytes().all(is_plain) {
            return Err(wrong());
        }
        Ok(Self { host: host.to_owned(), port })
    }

    /// How it is called in messages.
    #[must_use]
    pub fn name(&self) -> String {
        format!("http://{}:{}", self.host, self.port)
    }

    /// Sends a request. What comes back is read from the answer.
    ///
    /// # Errors
    ///
    /// Nobody is there, or it does not take the request.
    pub fn post(&self, path: &str, body: &Value, patience: Duration) -> io::Result<Answer> {
        let end = Instant::now() + patience;
        let found = (self.host.as_str(), self.port).to_socket_addrs()?.next();
        let stream = TcpStream::connect_timeout(
            &found.ok_or(io::ErrorKind::AddrNotAvailable)?,
            CONNECT_PATIENCE.min(patience).max(Duration::from_millis(1)),
        )?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(patience))?;
        let text = body.to_string();
        let request = format!(
            "POST {path} HTTP/1.0\r\nhost: {}:{}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{text}",
            self.host,
            self.port,
            text.len()
        );
        (&stream).write_all(request.as_bytes())?;
        Ok(Answer { stream, received: Vec::new(), has_head: false, end })
    }
}

/// An answer that is on its way.
#[derive(Debug)]
pub struct Answer {
    stream: TcpStream,
    received: Vec<u8>,
    has_head: bool,
    end: Instant,
}

fn wrong(problem: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem.into())
}

impl Answer {
    /// Until when the answer is waited for from now on.
    pub fn end_at(&mut self, end: Instant) {
        self.end = end;
    }

    /// Reads some more; false at the end.
    fn read(&mut self) -> io::Result<bool> {
        let silent = || io::Error::new(io::ErrorKind::TimedOut, "it does not answer");
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(silent());
        }
        self.stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        let mut piece = [0; 16 << 10];
        match self.stream.read(&mut piece) {
            Ok(0) => return Ok(false),
            Ok(len) => self.received.extend_from_slice(piece.get(..len).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                return Err(silent());
            }
            Err(error) => return Err(error),
        }
        if self.received.len() > ANSWER_MAX {
            return Err(wrong(format!("its answer has more than {ANSWER_MAX} bytes")));
        }
        Ok(true)
    }

    fn skip_head(&mut self) -> io::Result<()> {
        while !self.has_head {
            if let Some(end) = self.received.windows(4).position(|four| four == b"\r\n\r\n") {
                if !self.received.starts_with(b"HTTP/1.") {
                    return Err(wrong("its answer is no HTTP"));
                }
                self.received.drain(..end + 4);
                self.has_head = true;
            } else if self.received.len() > HEAD_MAX {
                return Err(wrong("its answer's head has no end"));
            } else if !self.read()? {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection"));
            }
        }
        Ok(())
    }

    /// The whole answer.
    ///
    /// # Errors
    ///
    /// It does not come in time, or is no JSON.
    pub fn whole(mut self) -> io::Result<Value> {
        self.skip_head()?;
        while self.read()? {}
        serde_json::from_slice(&self.received).map_err(|error| wrong(format!("its answer is no JSON: {error}")))
    }

    /// The next line of an answer that goes on and on; nothing at its end.
    ///
    /// # Errors
    ///
    /// It does not come in time, or is no JSON.
    pub fn line(&mut self) -> io::Result<Option<Value>> {
        self.skip_head()?;
        loop {
            if let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.received.drain(..=end).collect();
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                let value = serde_json::from_slice(&line);
                return value.map(Some).map_err(|error| wrong(format!("its answer is no JSON: {error}")));
            }
            if !self.read()? {
                return Ok(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read_or_refused_with_the_reason() {
        for (text, name) in [
            ("http://10.0.0.1:2379", "http://10.0.0.1:2379"),
            ("http://etcd-1:2379/", "http://etcd-1:2379"),
            ("127.0.0.1:1", "http://127.0.0.1:1"),
            ("http://[::1]:2379", "http://::1:2379"),
        ] {
            assert_eq!(Endpoint::parse(text).unwrap().name(), name);
        }
        for (text, expected) in [
            ("https://a:1", "TLS to etcd is not supported yet"),
            ("http://a", "http://HOST:PORT is expected"),
            ("http://a:b", "http://HOST:PORT is expected"),
            ("http://:1", "http://HOST:PORT is expected"),
            ("redis://a:1", "'redis' is no scheme"),
            ("http://me:you@a:1", "accounts of etcd are not supported yet"),
        ] {
            let error = Endpoint::parse(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
