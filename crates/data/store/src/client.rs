//! A connection to a store or to Redis, for commands that ask something and wait for the answer.

use std::{
    io::{self, Read, Write},
    net::ToSocketAddrs as _,
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use resp::{ReplyLimits, ReplyParser, ReplyProgress, Value};

use crate::secure::{Outgoing, Peer};

/// How long it may take to connect.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);

trait Stream: Read + Write {
    fn set_patience(&self, patience: Option<Duration>) -> io::Result<()>;
}

impl Stream for Outgoing {
    fn set_patience(&self, patience: Option<Duration>) -> io::Result<()> {
        let socket = self.socket();
        socket.set_read_timeout(patience).and_then(|()| socket.set_write_timeout(patience))
    }
}

impl Stream for UnixStream {
    fn set_patience(&self, patience: Option<Duration>) -> io::Result<()> {
        self.set_read_timeout(patience).and_then(|()| self.set_write_timeout(patience))
    }
}

/// How a server lets one in.
#[derive(Debug, Clone, Copy, Default)]
pub struct Access<'a> {
    /// USER:PASSWORD, or a password.
    pub password: Option<&'a str>,
    /// How TLS is spoken with it, if it is. A path of a socket has none.
    pub peer: Option<&'a Peer>,
}

/// A connection.
pub struct Client {
    stream: Box<dyn Stream>,
    parser: ReplyParser,
    received: Vec<u8>,
}

impl Client {
    /// Connects to HOST:PORT, or to the path of a socket, and says the password if there is one.
    ///
    /// # Errors
    ///
    /// Nobody listens there, or the password is wrong.
    pub fn connect(address: &str, access: Access<'_>, patience: Duration) -> io::Result<Self> {
        let stream: Box<dyn Stream> = if address.contains('/') {
            Box::new(UnixStream::connect(Path::new(address))?)
        } else {
            let found = address.to_socket_addrs()?.next().ok_or(io::ErrorKind::AddrNotAvailable)?;
            Box::new(Outgoing::connect(&found, CONNECT_PATIENCE, access.peer)?)
        };
        stream.set_patience(Some(patience))?;
        let mut client = Self { stream, parser: ReplyParser::new(), received: Vec::new() };
        if let Some(password) = access.password {
            client.ask(&["AUTH", password])?;
        }
        Ok(client)
    }

    /// Sends a command and gives its answer; one that is an error is an error here.
    ///
    /// # Errors
    ///
    /// The connection is lost, nothing comes for too long, or the answer is an error.
    pub fn ask<W: AsRef<[u8]>>(&mut self, words: &[W]) -> io::Result<Value> {
        let value = self.tell(words)?;
        match value.as_error() {
            Some(text) => Err(io::Error::other(String::from_utf8_lossy(text).into_owned())),
            None => Ok(value),
        }
    }

    /// Sends a command and gives its answer, which may be an error.
    ///
    /// # Errors
    ///
    /// The connection is lost, or nothing comes for too long.
    pub fn tell<W: AsRef<[u8]>>(&mut self, words: &[W]) -> io::Result<Value> {
        let mut bytes = Vec::new();
        resp::encode_command(&mut bytes, words);
        self.stream.write_all(&bytes)?;
        self.reply()
    }

    /// The same as [`Client::ask`], of an answer that is text.
    ///
    /// # Errors
    ///
    /// Those of [`Client::ask`].
    pub fn ask_text<W: AsRef<[u8]>>(&mut self, words: &[W]) -> io::Result<String> {
        let value = self.ask(words)?;
        Ok(String::from_utf8_lossy(value.as_bytes().unwrap_or_default()).into_owned())
    }

    /// A setting's value, if there is one of the name.
    ///
    /// # Errors
    ///
    /// Those of [`Client::ask`].
    pub fn setting(&mut self, name: &str) -> io::Result<Option<String>> {
        let value = self.ask(&["CONFIG", "GET", name])?;
        let Value::Array(words) = &value else { return Ok(None) };
        Ok(words.get(1).and_then(Value::as_bytes).map(|text| String::from_utf8_lossy(text).into_owned()))
    }

    fn reply(&mut self) -> io::Result<Value> {
        let wrong = |error: resp::ReplyError| io::Error::new(io::ErrorKind::InvalidData, error.to_string());
        loop {
            match self.parser.parse(&self.received, &ReplyLimits::default()).map_err(wrong)? {
                ReplyProgress::Complete { consumed, value } => {
                    self.received.drain(..consumed);
                    return Ok(value);
                }
                ReplyProgress::Incomplete { consumed, .. } => drop(self.received.drain(..consumed)),
            }
            let mut piece = [0; 16 << 10];
            match self.stream.read(&mut piece) {
                Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection")),
                Ok(len) => self.received.extend_from_slice(piece.get(..len).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "it does not answer"));
                }
                Err(error) => return Err(error),
            }
        }
    }
}
