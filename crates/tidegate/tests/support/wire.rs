//! One end of a TCP connection, used by scripted clients and scripted servers.

use std::{
    io::{ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    time::Duration,
};

use super::{PATIENCE, read_once};

/// A connection and what was received on it but not looked at.
#[derive(Debug)]
pub struct Wire {
    pub stream: TcpStream,
    pub buffer: Vec<u8>,
    /// Every byte received so far.
    pub received: usize,
}

/// A message as it stood on the wire: of a server an answer, of a client a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub head: String,
    pub body: Vec<u8>,
    /// Field lines after a chunked body.
    pub trailers: String,
}

impl Answer {
    pub fn status(&self) -> u16 {
        self.head
            .split(' ')
            .nth(1)
            .and_then(|code| code.parse().ok())
            .unwrap_or_else(|| panic!("no status: {}", self.head))
    }

    pub fn start_line(&self) -> &str {
        self.head.lines().next().unwrap_or_default()
    }

    /// The value of a field, of the first if there are several.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields(name).first().copied()
    }

    pub fn fields(&self, name: &str) -> Vec<&str> {
        self.head
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once(':'))
            .filter(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
            .collect()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Wire {
    #[track_caller]
    pub fn connect(address: SocketAddr) -> Self {
        Self::new(TcpStream::connect_timeout(&address, PATIENCE).unwrap())
    }

    pub fn new(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, buffer: Vec::new(), received: 0 }
    }

    /// Sends; false when the other end is gone.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).is_ok()
    }

    #[track_caller]
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// Reads once; 0 at the end (also an unclean one).
    #[track_caller]
    pub fn fill(&mut self) -> usize {
        let mut bytes = [0; 65536];
        match read_once(&mut self.stream, &mut bytes) {
            Ok(count) => {
                self.buffer.extend_from_slice(&bytes[..count]);
                self.received += count;
                count
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("nothing came; received before: {:?}", String::from_utf8_lossy(&self.buffer));
            }
            Err(_) => 0,
        }
    }

    /// Reads until so many bytes are there; fewer at the end.
    #[track_caller]
    pub fn read(&mut self, count: usize) -> Vec<u8> {
        while self.buffer.len() < count && self.fill() > 0 {}
        let count = count.min(self.buffer.len());
        self.buffer.drain(..count).collect()
    }

    #[track_caller]
    pub fn expect(&mut self, text: &str) {
        let found = self.read(text.len());
        assert_eq!(String::from_utf8_lossy(&found), text);
    }

    /// Reads to the end of the stream.
    #[track_caller]
    pub fn read_to_end(&mut self) -> Vec<u8> {
        while self.fill() > 0 {}
        std::mem::take(&mut self.buffer)
    }

    /// Whether the other end has closed and nothing more came; waits for it.
    #[track_caller]
    pub fn expect_end(&mut self) {
        let rest = self.read_to_end();
        assert!(rest.is_empty(), "more came: {:?}", String::from_utf8_lossy(&rest));
    }

    /// Whether nothing comes for a while and the connection stays.
    pub fn is_silent_for(&mut self, time: Duration) -> bool {
        if !self.buffer.is_empty() {
            return false;
        }
        self.stream.set_read_timeout(Some(time)).unwrap();
        let mut byte = [0];
        let result = self.stream.peek(&mut byte);
        self.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        matches!(result, Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut))
    }

    /// Reads through the next occurrence of a text; `None` at the end of the stream.
    #[track_caller]
    pub fn read_through(&mut self, end: &[u8]) -> Option<Vec<u8>> {
        let mut from = 0;
        loop {
            if let Some(at) = self.buffer[from..].windows(end.len()).position(|window| window == end) {
                return Some(self.buffer.drain(..from + at + end.len()).collect());
            }
            from = self.buffer.len().saturating_sub(end.len() - 1);
            if self.fill() == 0 {
                return None;
            }
        }
    }

    /// A head with its empty line; `None` at the end of the stream.
    #[track_caller]
    pub fn head(&mut self) -> Option<String> {
        self.read_through(b"\r\n\r\n").map(|head| String::from_utf8_lossy(&head).into_owned())
    }

    /// Sends a request and reads its answer.
    #[track_caller]
    pub fn ask(&mut self, request: impl AsRef<[u8]>) -> Answer {
        self.send(request.as_ref());
        let is_head = request.as_ref().starts_with(b"HEAD ");
        self.answer_to(is_head).expect("the connection ended without an answer")
    }

    /// GET of a path.
    #[track_caller]
    pub fn get(&mut self, path: &str) -> Answer {
        self.ask(format!("GET {path} HTTP/1.1\r\nHost: site\r\n\r\n"))
    }

    #[track_caller]
    pub fn answer(&mut self) -> Answer {
        self.answer_to(false).expect("the connection ended without an answer")
    }

    /// The next answer; `None` when the stream ends before it.
    #[track_caller]
    pub fn answer_to(&mut self, is_head: bool) -> Option<Answer> {
        let head = self.head()?;
        let mut answer = Answer { head, body: Vec::new(), trailers: String::new() };
        let status = answer.status();
        if is_head || status < 200 || status == 204 || status == 304 {
            return Some(answer);
        }
        self.body(&mut answer, true);
        Some(answer)
    }

    /// The next request with its body; `None` at the end of the stream.
    #[track_caller]
    pub fn request(&mut self) -> Option<Answer> {
        let head = self.head()?;
        let mut request = Answer { head, body: Vec::new(), trailers: String::new() };
        self.body(&mut request, false);
        Some(request)
    }

    /// Reads the body of a request with this head; false when the stream ended before its end.
    pub fn skip_body(&mut self, head: &str) -> bool {
        let mut request = Answer { head: head.to_owned(), body: Vec::new(), trailers: String::new() };
        if request.field("transfer-encoding").is_some() {
            return self.chunks(&mut request);
        }
        let length = request.field("content-length").map_or(0, |length| length.parse().unwrap());
        self.read(length).len() == length
    }

    #[track_caller]
    fn body(&mut self, message: &mut Answer, until_end: bool) {
        if message.field("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked")) {
            assert!(self.chunks(message), "the stream ended within chunks");
        } else if let Some(length) = message.field("content-length") {
            let length = length.parse().unwrap();
            message.body = self.read(length);
        } else if until_end {
            message.body = self.read_to_end();
        }
    }

    /// Reads chunks; false when the stream ended within them.
    #[track_caller]
    fn chunks(&mut self, message: &mut Answer) -> bool {
        while let Some(line) = self.read_through(b"\r\n") {
            let line = String::from_utf8_lossy(&line).into_owned();
            let size = line.trim_end().split(';').next().unwrap_or_default();
            let size = usize::from_str_radix(size, 16).unwrap_or_else(|_| panic!("chunk size {line:?}"));
            if size == 0 {
                while let Some(line) = self.read_through(b"\r\n")
                    && line != b"\r\n"
                {
                    message.trailers.push_str(&String::from_utf8_lossy(&line));
                }
                return true;
            }
            let chunk = self.read(size + 2);
            let Some(data) = chunk.strip_suffix(b"\r\n") else { break };
            message.body.extend_from_slice(data);
        }
        false
    }

    pub fn shut_write(&self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }
}
