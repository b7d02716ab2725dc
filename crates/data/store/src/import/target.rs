//! The store that what is imported goes to: many commands at once, and a look at what became of each.

use std::{
    io::{self, Read as _, Write as _},
    net::TcpStream,
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use resp::{ReplyLimits, ReplyParser, ReplyProgress, Value};

use crate::{client::Access, secure::Outgoing};

/// A store that is slow may wait for its disk; one that says nothing for so long has gone.
const PATIENCE: Duration = Duration::from_secs(600);
/// How long it may take to agree on TLS.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
/// So much is sent before replies are read.
const BATCH_BYTES: usize = 1 << 20;
const BATCH_COMMANDS: usize = 1000;
/// Refusals that are told word by word.
const TOLD_MAX: usize = 10;
/// As much of a name is told.
const NAME_MAX: usize = 60;

trait Connection: io::Read + io::Write + Send {}
impl<T: io::Read + io::Write + Send> Connection for T {}

/// What is told of a command that is refused: its name and its key. It is made into text only then.
struct Name(Vec<u8>);

impl Name {
    fn of<A: AsRef<[u8]>>(words: &[A]) -> Self {
        let word = |index: usize| words.get(index).map(AsRef::as_ref).unwrap_or_default();
        let short = |word| <[u8]>::get(word, ..NAME_MAX).unwrap_or(word);
        // A password is not told.
        let second = if word(0) == b"AUTH" { b"" } else { short(word(1)) };
        Self([short(word(0)), b" ", second].concat())
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0).trim_end().escape_debug().to_string()
    }
}

/// A connection to a store.
pub struct Target {
    stream: Box<dyn Connection>,
    batch: Vec<u8>,
    /// The commands of the batch, as they are told of.
    names: Vec<Name>,
    /// Those of a batch that was sent and is not answered yet: the store works on it while the next one is gathered.
    awaited: Vec<Name>,
    parser: ReplyParser,
    received: Vec<u8>,
    /// What of it is understood.
    understood: usize,
    /// How many were refused, and what of the first ones.
    pub refused: u64,
    /// What of the first ones.
    pub reasons: Vec<String>,
}

impl Target {
    /// Connects to HOST:PORT, or to the path of a socket.
    ///
    /// # Errors
    ///
    /// Nobody listens there, or the password is wrong.
    pub fn connect(address: &str, access: Access<'_>) -> io::Result<Self> {
        let login = access.password.map(|password| (None, password));
        match access.peer.filter(|_| !address.contains('/')) {
            None => Self::connect_as(address, login),
            Some(peer) => {
                let stream = Outgoing::over(TcpStream::connect(address)?, CONNECT_PATIENCE, Some(peer))?;
                let socket = stream.socket();
                socket.set_read_timeout(Some(PATIENCE)).and_then(|()| socket.set_write_timeout(Some(PATIENCE)))?;
                Self::greet(Box::new(stream), login)
            }
        }
    }

    /// The same as a user.
    ///
    /// # Errors
    ///
    /// Nobody listens there, or the password is wrong.
    pub fn connect_as(address: &str, login: Option<(Option<&str>, &str)>) -> io::Result<Self> {
        if address.contains('/') {
            let stream = UnixStream::connect(Path::new(address))?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            Self::greet(Box::new(stream), login)
        } else {
            Self::over(TcpStream::connect(address)?, login, PATIENCE)
        }
    }

    /// Over a connection that is there, which is given up when the store says nothing for so long.
    ///
    /// # Errors
    ///
    /// It is lost, or the password is wrong.
    pub fn over(stream: TcpStream, login: Option<(Option<&str>, &str)>, patience: Duration) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        Self::greet(Box::new(stream), login)
    }

    fn greet(stream: Box<dyn Connection>, login: Option<(Option<&str>, &str)>) -> io::Result<Self> {
        let mut target = Self {
            stream,
            batch: Vec::new(),
            names: Vec::new(),
            awaited: Vec::new(),
            parser: ReplyParser::new(),
            received: Vec::new(),
            understood: 0,
            refused: 0,
            reasons: Vec::new(),
        };
        if let Some((user, password)) = login {
            let words: Vec<&str> = ["AUTH"].into_iter().chain(user).chain([password]).collect();
            target.send(&words)?;
        }
        target.send(&[b"PING"])?;
        target.finish()?;
        match target.reasons.first() {
            Some(reason) => Err(io::Error::new(io::ErrorKind::PermissionDenied, reason.clone())),
            None => Ok(target),
        }
    }

    /// Says that what comes is of another server: a key may come with a time that is over and that a later command changes. `false` if
    /// the store does not know of that: then such keys are removed before.
    ///
    /// # Errors
    ///
    /// The connection is lost.
    pub fn begin_import(&mut self) -> io::Result<bool> {
        self.send(&["CLIENT", "IMPORT-SOURCE", "ON"])?;
        self.finish()?;
        self.reasons.clear();
        Ok(std::mem::take(&mut self.refused) == 0)
    }

    /// Sends a command, at the latest when [`Target::finish`] is called.
    ///
    /// # Errors
    ///
    /// The connection is lost.
    pub fn send<A: AsRef<[u8]>>(&mut self, words: &[A]) -> io::Result<()> {
        resp::encode_command(&mut self.batch, words);
        self.names.push(Name::of(words));
        if self.batch.len() >= BATCH_BYTES || self.names.len() >= BATCH_COMMANDS { self.begin_next() } else { Ok(()) }
    }

    /// Sends what is there, and waits until all of it is answered.
    ///
    /// # Errors
    ///
    /// The connection is lost.
    pub fn finish(&mut self) -> io::Result<()> {
        self.begin_next()?;
        self.hear_awaited()
    }

    /// Sends what is there, and waits for the answers to what was sent before it.
    fn begin_next(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.batch)?;
        self.stream.flush()?;
        self.batch.clear();
        self.hear_awaited()?;
        self.awaited = std::mem::take(&mut self.names);
        Ok(())
    }

    fn hear_awaited(&mut self) -> io::Result<()> {
        for name in std::mem::take(&mut self.awaited) {
            if let Some(reason) = self.reply()?.as_error() {
                self.refused += 1;
                if self.reasons.len() < TOLD_MAX {
                    self.reasons.push(format!("{}: {}", name.text(), String::from_utf8_lossy(reason)));
                }
            }
        }
        Ok(())
    }

    /// Whether the store has a key in any of its databases.
    ///
    /// # Errors
    ///
    /// The connection is lost, or the user may not know.
    pub fn has_keys(&mut self) -> io::Result<bool> {
        // A proxy has no section of that name, and tells of all its servers by DBSIZE.
        for words in [["INFO", "keyspace"].as_slice(), &["DBSIZE"]] {
            resp::encode_command(&mut self.batch, words);
        }
        self.finish()?;
        let (info, size) = (self.reply()?, self.reply()?);
        if let Some(reason) = info.as_error().or_else(|| size.as_error()) {
            return Err(io::Error::other(String::from_utf8_lossy(reason).into_owned()));
        }
        let has_any = info.as_bytes().is_some_and(|text| String::from_utf8_lossy(text).contains("keys="));
        Ok(has_any || size.as_integer().is_some_and(|count| count > 0))
    }

    /// The answer to a command, behind all that were sent before; or why it is refused.
    ///
    /// # Errors
    ///
    /// The connection is lost.
    pub fn ask<A: AsRef<[u8]>>(&mut self, words: &[A]) -> io::Result<Result<Value, String>> {
        self.finish()?;
        let mut request = Vec::new();
        resp::encode_command(&mut request, words);
        self.stream.write_all(&request)?;
        self.stream.flush()?;
        let reply = self.reply()?;
        Ok(match reply.as_error() {
            Some(reason) => Err(String::from_utf8_lossy(reason).into_owned()),
            None => Ok(reply),
        })
    }

    /// The answers to commands, errors too, behind all that were sent before.
    ///
    /// # Errors
    ///
    /// The connection is lost.
    pub fn ask_all<A: AsRef<[u8]>>(&mut self, commands: &[[A; 2]]) -> io::Result<Vec<Value>> {
        self.finish()?;
        let mut request = Vec::new();
        commands.iter().for_each(|words| resp::encode_command(&mut request, words));
        self.stream.write_all(&request)?;
        self.stream.flush()?;
        commands.iter().map(|_| self.reply()).collect()
    }

    fn reply(&mut self) -> io::Result<Value> {
        let wrong = |error: String| io::Error::new(io::ErrorKind::InvalidData, error);
        loop {
            let rest = self.received.get(self.understood..).unwrap_or_default();
            match self.parser.parse(rest, &ReplyLimits::default()).map_err(|error| wrong(error.to_string()))? {
                ReplyProgress::Complete { consumed, value } => {
                    self.understood += consumed;
                    return Ok(value);
                }
                ReplyProgress::Incomplete { consumed, .. } => self.understood += consumed,
            }
            self.received.drain(..self.understood);
            self.understood = 0;
            let mut piece = [0; 16 << 10];
            match self.stream.read(&mut piece)? {
                0 => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the store closed the connection")),
                len => self.received.extend_from_slice(piece.get(..len).unwrap_or_default()),
            }
        }
    }
}
