//! A connection to a server, for several commands at once.

use std::{
    io::{self, Read, Write},
    net::{TcpStream, ToSocketAddrs as _},
    sync::Arc,
    time::{Duration, Instant},
};

use cluster::Address;
use resp::{ReplyLimits, ReplyParser, ReplyProgress, Value};

/// A command's words.
pub type Command = Vec<String>;

/// A command of some words.
#[must_use]
pub fn command<W: ToString>(words: &[W]) -> Command {
    words.iter().map(ToString::to_string).collect()
}

/// As whom a connection speaks.
#[derive(Clone, Default)]
pub struct Login {
    /// The server's password.
    pub password: Option<Arc<str>>,
    /// Which node of the cluster the server is to be: another one is told nothing.
    pub node: Option<Arc<str>>,
    /// It is an agent's that leads since this term: one that leads no more steers nothing.
    pub term: Option<u64>,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Login").field("term", &self.term).finish_non_exhaustive()
    }
}

/// A connection.
pub struct Connection {
    stream: TcpStream,
    parser: ReplyParser,
    received: Vec<u8>,
    patience: Duration,
}

impl Connection {
    /// Connects within a time, which is also what a round of commands may take.
    ///
    /// # Errors
    ///
    /// Nobody listens there.
    pub fn open(address: &Address, patience: Duration) -> io::Result<Self> {
        let found = (address.host(), address.port()).to_socket_addrs()?.next();
        let stream = TcpStream::connect_timeout(&found.ok_or(io::ErrorKind::AddrNotAvailable)?, patience)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, parser: ReplyParser::new(), received: Vec::new(), patience })
    }

    /// The same, and says who it is.
    ///
    /// # Errors
    ///
    /// Nobody listens there, or what is said is refused.
    pub fn open_as(address: &Address, patience: Duration, login: &Login) -> io::Result<Self> {
        let mut connection = Self::open(address, patience)?;
        let auth = login.password.as_ref().map(|password| vec!["AUTH".to_owned(), password.to_string()]);
        let term = login.term.map(|term| command(&["CLUSTER", "CONNECTION", "AGENT", &term.to_string()]));
        let node = login.node.as_ref().map(|node| command(&["CLUSTER", "CONNECTION", "NODE", node]));
        // NOTE: a store of an earlier version does not know the question, and takes any. One that is busy has not answered it: what would be
        // told to it later could be meant for another one.
        let is_of_node = |place: usize| node.is_some() && place == usize::from(auth.is_some());
        let words: Vec<Command> = auth.iter().chain(&node).chain(&term).cloned().collect();
        let replies = if words.is_empty() { Vec::new() } else { connection.ask(&words)? };
        let is_refusal = |(place, reply): &(usize, &Value)| {
            reply.as_error().is_some_and(|error| !is_of_node(*place) || !resp::is_unknown(error))
        };
        match replies.iter().enumerate().find(is_refusal).map(|(_, reply)| reply) {
            Some(refusal) => Err(io::Error::new(io::ErrorKind::PermissionDenied, text(refusal))),
            None => Ok(connection),
        }
    }

    /// Sends commands and gives their replies in order; errors of the server are among them.
    ///
    /// # Errors
    ///
    /// The connection is lost, or not all replies come in time.
    pub fn ask(&mut self, commands: &[Command]) -> io::Result<Vec<Value>> {
        let end = Instant::now() + self.patience;
        let mut bytes = Vec::new();
        commands.iter().for_each(|words| resp::encode_command(&mut bytes, words));
        self.stream.set_write_timeout(Some(self.patience))?;
        self.stream.write_all(&bytes)?;
        commands.iter().map(|_| self.reply(end)).collect()
    }

    /// Sends one command of any bytes and gives its reply.
    ///
    /// # Errors
    ///
    /// The connection is lost, or the reply does not come in time.
    pub fn ask_bytes(&mut self, words: &[&[u8]]) -> io::Result<Value> {
        let mut bytes = Vec::new();
        resp::encode_command(&mut bytes, words);
        self.stream.set_write_timeout(Some(self.patience))?;
        self.stream.write_all(&bytes)?;
        self.reply(Instant::now() + self.patience)
    }

    fn reply(&mut self, end: Instant) -> io::Result<Value> {
        let wrong = |error: resp::ReplyError| io::Error::new(io::ErrorKind::InvalidData, error.to_string());
        loop {
            match self.parser.parse(&self.received, &ReplyLimits::default()).map_err(wrong)? {
                ReplyProgress::Complete { consumed, value } => {
                    self.received.drain(..consumed);
                    return Ok(value);
                }
                ReplyProgress::Incomplete { consumed, .. } => drop(self.received.drain(..consumed)),
            }
            let left = end.saturating_duration_since(Instant::now());
            let silent = || io::Error::new(io::ErrorKind::TimedOut, "it does not answer");
            if left.is_zero() {
                return Err(silent());
            }
            self.stream.set_read_timeout(Some(left))?;
            let mut piece = [0; 16 << 10];
            match self.stream.read(&mut piece) {
                Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection")),
                Ok(len) => self.received.extend_from_slice(piece.get(..len).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(silent()),
                Err(error) => return Err(error),
            }
        }
    }
}

/// A reply as text: what it says, or its error.
#[must_use]
pub fn text(value: &Value) -> String {
    match value {
        Value::Integer(number) => number.to_string(),
        other => {
            String::from_utf8_lossy(other.as_bytes().or_else(|| other.as_error()).unwrap_or_default()).into_owned()
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::{net::TcpListener, thread};

    use super::*;

    /// Whether a server that answers so to the question which node it is is taken for the one that is meant.
    fn is_taken(answer: &'static str) -> bool {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = Address::new("127.0.0.1", listener.local_addr().unwrap().port());
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut received = Vec::new();
            while !received.ends_with(b"node1\r\n") {
                let mut piece = [0; 100];
                let count = stream.read(&mut piece).unwrap();
                received.extend_from_slice(&piece[..count]);
            }
            stream.write_all(answer.as_bytes()).unwrap();
        });
        let login = Login { node: Some("node1".into()), ..Login::default() };
        let opened = Connection::open_as(&address, Duration::from_secs(10), &login);
        server.join().unwrap();
        opened.is_ok()
    }

    #[test]
    fn who_does_not_say_that_it_is_the_one_that_is_meant_is_told_nothing() {
        assert!(is_taken("+OK\r\n"));
        assert!(is_taken("-ERR syntax error\r\n"), "an earlier version");
        for refusal in ["-WRONGNODE this store is node x\r\n", "-BUSY a script runs\r\n", "-LOADING it loads\r\n"] {
            assert!(!is_taken(refusal), "{refusal}");
        }
    }
}
