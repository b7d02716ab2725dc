//! As much of HTTP/1.1 as is needed: a head of bounded size, a body whose length is said, all of it within a time.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

/// Bytes that a head may have.
const HEAD_MAX: usize = 16 << 10;
/// Bytes that a request's body may have.
pub const BODY_MAX: usize = 64 << 10;

/// A connection of either kind.
pub trait Stream: Read + Write {
    /// How long a read or a write may take.
    ///
    /// # Errors
    ///
    /// The system refuses it.
    fn limit(&self, time: Duration) -> io::Result<()>;
}

impl Stream for TcpStream {
    fn limit(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time)).and_then(|()| self.set_write_timeout(Some(time)))
    }
}

impl Stream for UnixStream {
    fn limit(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time)).and_then(|()| self.set_write_timeout(Some(time)))
    }
}

/// What came over a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The words of the first line.
    pub first: Vec<String>,
    /// Names in small letters, and values.
    headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

fn bad(problem: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem.to_owned())
}

fn left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::Error::new(io::ErrorKind::TimedOut, "it did not come in time")) } else { Ok(left) }
}

impl Message {
    /// A header's value.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// Reads one, whose body has so many bytes at most.
    ///
    /// # Errors
    ///
    /// It is none, or too long, or does not come in time.
    pub fn read(stream: &mut impl Stream, body_max: usize, end: Instant) -> io::Result<Self> {
        let mut piece = [0; 4096];
        let mut message = Self::read_head(stream, end)?;
        let length = message.body_length()?;
        if length > body_max {
            return Err(bad("its body is too long"));
        }
        // What comes behind the body is nobody's.
        message.body.truncate(length);
        if message.body.len() < length
            && message.header("expect").is_some_and(|text| text.eq_ignore_ascii_case("100-continue"))
        {
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        while message.body.len() < length {
            stream.limit(left(end)?)?;
            let wanted = piece.len().min(length - message.body.len());
            let Some(part) = piece.get_mut(..wanted) else { break };
            match stream.read(part) {
                Ok(0) => return Err(bad("its body has no end")),
                Ok(len) => message.body.extend_from_slice(part.get(..len).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(message)
    }

    /// Reads one up to where its body begins; what came with that of the body is in it.
    ///
    /// # Errors
    ///
    /// It is none, or does not come in time.
    pub fn read_head(stream: &mut impl Stream, end: Instant) -> io::Result<Self> {
        let mut bytes = Vec::new();
        let mut piece = [0; 4096];
        let head_len = loop {
            if let Some(place) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                break place;
            }
            if bytes.len() > HEAD_MAX {
                return Err(bad("its head is too long"));
            }
            stream.limit(left(end)?)?;
            match stream.read(&mut piece) {
                Ok(0) => return Err(bad("its head has no end")),
                Ok(len) => bytes.extend_from_slice(piece.get(..len).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        };
        let mut message = Self::parse(bytes.get(..head_len).unwrap_or_default())?;
        message.body = bytes.split_off(head_len + 4);
        Ok(message)
    }

    fn parse(head: &[u8]) -> io::Result<Self> {
        let head = std::str::from_utf8(head).map_err(|_| bad("its head is no text"))?;
        let mut lines = head.split("\r\n");
        let first = lines.next().unwrap_or_default().split(' ').map(str::to_owned).collect();
        let mut headers: Vec<(String, String)> = Vec::new();
        for line in lines {
            let (name, value) = line.split_once(':').ok_or_else(|| bad("a line of its head has no colon"))?;
            if name.is_empty() || name.contains([' ', '\t']) {
                return Err(bad("a line of its head has a blank before the colon"));
            }
            let name = name.to_ascii_lowercase();
            // Two of these could be read in two ways.
            let must_be_one = ["host", "content-length", "authorization", "origin"].contains(&name.as_str());
            if must_be_one && headers.iter().any(|(own, _)| *own == name) {
                return Err(bad(&format!("its head has {name} twice")));
            }
            headers.push((name, value.trim().to_owned()));
        }
        Ok(Self { first, headers, body: Vec::new() })
    }

    /// How long its body is said to be.
    ///
    /// # Errors
    ///
    /// That cannot be told.
    pub fn body_length(&self) -> io::Result<usize> {
        if self.header("transfer-encoding").is_some() {
            return Err(bad("its body has to come whole, with content-length"));
        }
        let Some(length) = self.header("content-length") else { return Ok(0) };
        if !length.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(bad("content-length is no number"));
        }
        length.parse().map_err(|_| bad("content-length is no number"))
    }
}

/// Writes all of it within a time.
///
/// # Errors
///
/// The other side is gone, or too slow.
pub fn write(stream: &mut impl Stream, mut bytes: &[u8], end: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.limit(left(end)?)?;
        match stream.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(len) => bytes = bytes.get(len..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Wire(io::Cursor<Vec<u8>>, Vec<u8>);

    impl Read for Wire {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            // In small pieces, as they may come.
            let len = into.len().min(7);
            self.0.read(into.get_mut(..len).unwrap_or_default())
        }
    }

    impl Write for Wire {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Stream for Wire {
        fn limit(&self, _: Duration) -> io::Result<()> {
            Ok(())
        }
    }

    fn read(text: &str) -> Result<Message, String> {
        let mut wire = Wire(io::Cursor::new(text.as_bytes().to_vec()), Vec::new());
        let end = Instant::now() + Duration::from_secs(60);
        Message::read(&mut wire, 10, end).map_err(|error| error.to_string())
    }

    #[test]
    fn messages_are_read_or_refused() {
        let message = read("POST /x?a=1 HTTP/1.1\r\nHost: a:1\r\nContent-Length: 4\r\n\r\nbodyrest").unwrap();
        assert_eq!(
            (message.first[1].as_str(), message.header("host"), message.body.as_slice()),
            ("/x?a=1", Some("a:1"), &b"body"[..])
        );
        assert_eq!(read("GET / HTTP/1.1\r\n\r\n").unwrap().body, b"");
        for (text, expected) in [
            ("GET / HTTP/1.1\r\n", "its head has no end"),
            ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "its head has host twice"),
            ("GET / HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nab", "its head has content-length twice"),
            ("GET / HTTP/1.1\r\nContent-Length: +2\r\n\r\nab", "content-length is no number"),
            ("GET / HTTP/1.1\r\nContent-Length: 11\r\n\r\n", "its body is too long"),
            ("GET / HTTP/1.1\r\nContent-Length: 3\r\n\r\nab", "its body has no end"),
            ("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", "its body has to come whole, with content-length"),
            ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", "a line of its head has a blank before the colon"),
            ("GET / HTTP/1.1\r\nnonsense\r\n\r\n", "a line of its head has no colon"),
        ] {
            assert_eq!(read(text), Err(expected.to_owned()), "{text}");
        }
        assert_eq!(read(&format!("GET / HTTP/1.1\r\na: {}", "x".repeat(HEAD_MAX))), Err("its head is too long".into()));
    }
}
