//! Sends commands of a replica's clients to its master, and takes the answers (`replica-forward`): a connection for each version of the
//! protocol, which all clients share. A thread writes, another one reads.

use std::{
    collections::VecDeque,
    io::{self, Read as _, Write as _},
    net::ToSocketAddrs as _,
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    thread,
    time::Duration,
};

use commands::{config::Settings, server::Forward};
use mio::Waker;
use resp::{Protocol, ReplyLimits, ReplyParser, ReplyProgress, encode_command};

use crate::secure::{Outgoing, Peer, Shared};

/// Bytes of one read.
const READ_LEN: usize = 64 * 1024;

/// Where the master is, and what is said to it first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    host: String,
    port: u16,
    credentials: Option<(Option<String>, String)>,
    patience: Duration,
    /// How TLS is spoken with it, if it is.
    peer: Option<Peer>,
}

impl Upstream {
    /// That of a replica.
    pub fn new(master: (String, u16), settings: &Settings, peer: Option<Peer>) -> Self {
        let said = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let user = said(&settings.masteruser.0);
        Self {
            host: master.0,
            port: master.1,
            credentials: said(&settings.masterauth.0).map(|password| (user, password)),
            patience: Duration::from_secs(settings.repl_timeout.0.max(1).unsigned_abs()),
            peer,
        }
    }

    fn connect(&self) -> io::Result<Shared> {
        let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in (self.host.as_str(), self.port).to_socket_addrs()? {
            match Outgoing::connect(&address, self.patience, self.peer.as_ref()) {
                Ok(stream) => return Shared::new(stream, self.patience),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }
}

/// What became of a command.
pub type Outcome = (u64, Result<Vec<u8>, String>);

/// The threads, seen from the loop. They end when this goes, or when it is to another master.
pub struct Forwarder {
    upstream: Upstream,
    /// For either version of the protocol, once somebody has asked in it.
    links: [Option<mpsc::Sender<Forward>>; 2],
    outcomes: (mpsc::Sender<Outcome>, mpsc::Receiver<Outcome>),
    waker: Arc<Waker>,
}

impl Forwarder {
    /// One to a master.
    pub fn new(upstream: Upstream, waker: Arc<Waker>) -> Self {
        Self { upstream, links: [None, None], outcomes: mpsc::channel(), waker }
    }

    /// What is sent from now on goes to that master. Who waits for the former one is told that it is lost, or what it has answered.
    pub fn set_upstream(&mut self, upstream: Upstream) {
        if self.upstream != upstream {
            self.upstream = upstream;
            self.close();
        }
    }

    /// Nothing is sent any more for now.
    pub fn close(&mut self) {
        self.links = [None, None];
    }

    /// Has a command sent.
    ///
    /// # Errors
    ///
    /// The system has no thread.
    pub fn send(&mut self, forward: Forward) -> io::Result<()> {
        let Some(link) = self.links.get_mut(usize::from(forward.protocol == Protocol::Resp3)) else { return Ok(()) };
        if link.is_none() {
            let (sender, todo) = mpsc::channel();
            let told = Told { outcomes: self.outcomes.0.clone(), waker: Arc::clone(&self.waker) };
            let (upstream, protocol) = (self.upstream.clone(), forward.protocol);
            thread::Builder::new().name("forward".into()).spawn(move || {
                let mut writer = Writer { upstream, protocol, told, open: None };
                todo.iter().for_each(|forward| writer.send(&forward));
                writer.finish();
            })?;
            *link = Some(sender);
        }
        if let Some(link) = link {
            // The thread ends after this alone.
            let _ = link.send(forward);
        }
        Ok(())
    }

    /// What has become of one.
    pub fn outcome(&self) -> Option<Outcome> {
        self.outcomes.1.try_recv().ok()
    }
}

/// Where outcomes go.
#[derive(Clone)]
struct Told {
    outcomes: mpsc::Sender<Outcome>,
    waker: Arc<Waker>,
}

impl Told {
    fn tell(&self, number: u64, outcome: Result<Vec<u8>, String>) {
        let _ = self.outcomes.send((number, outcome));
        let _ = self.waker.wake();
    }
}

/// Whose answers are to come, in order: nobody's are read and left.
#[derive(Default)]
struct Expected {
    numbers: VecDeque<Option<u64>>,
    /// Nothing more is to come: the connection ends with the last of them.
    is_ending: bool,
    /// The connection is no more: nothing is to be sent on it.
    is_closed: bool,
}

/// A connection that is open.
struct Open {
    stream: Shared,
    db: usize,
    expected: Arc<Mutex<Expected>>,
}

fn locked(expected: &Mutex<Expected>) -> MutexGuard<'_, Expected> {
    // What it guards is whole between statements.
    expected.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread that writes.
struct Writer {
    upstream: Upstream,
    protocol: Protocol,
    told: Told,
    open: Option<Open>,
}

impl Writer {
    fn send(&mut self, forward: &Forward) {
        if self.open.as_ref().is_some_and(|open| locked(&open.expected).is_closed) {
            self.close();
        }
        let open = match self.open.take().map_or_else(|| self.connect(), Ok) {
            Ok(open) => self.open.insert(open),
            Err(error) => {
                let Upstream { host, port, .. } = &self.upstream;
                let reason =
                    format!("MASTERDOWN the master {host}:{port} cannot be asked: {error}. Nothing has changed");
                return self.told.tell(forward.number, Err(reason));
            }
        };
        let mut bytes = Vec::new();
        let mut expected = locked(&open.expected);
        if open.db != forward.db {
            open.db = forward.db;
            encode_command(&mut bytes, &["SELECT", &forward.db.to_string()]);
            expected.numbers.push_back(None);
        }
        bytes.extend_from_slice(&forward.commands);
        expected.numbers.extend((1..forward.answers).map(|_| None));
        expected.numbers.push_back(Some(forward.number));
        drop(expected);
        if open.stream.write_all(&bytes).is_err() {
            // Who reads tells all who wait.
            self.close();
        }
    }

    fn connect(&self) -> io::Result<Open> {
        let mut stream = self.upstream.connect()?;
        let mut bytes = Vec::new();
        let mut expected = Expected::default();
        if let Some((user, password)) = &self.upstream.credentials {
            let words = ["AUTH"].into_iter().chain(user.as_deref()).chain([password.as_str()]);
            encode_command(&mut bytes, &words.collect::<Vec<_>>());
            expected.numbers.push_back(None);
        }
        if self.protocol == Protocol::Resp3 {
            encode_command(&mut bytes, &["HELLO", "3"]);
            expected.numbers.push_back(None);
        }
        stream.write_all(&bytes)?;
        let expected = Arc::new(Mutex::new(expected));
        let reader = Reader {
            stream: stream.clone(),
            expected: Arc::clone(&expected),
            told: self.told.clone(),
            master: format!("{}:{}", self.upstream.host, self.upstream.port),
        };
        thread::Builder::new().name("forward-read".into()).spawn(move || reader.run())?;
        Ok(Open { stream, db: 0, expected })
    }

    fn close(&mut self) {
        if let Some(open) = self.open.take() {
            open.stream.shutdown();
        }
    }

    /// Nothing more is to be sent: what was sent is still answered.
    fn finish(&mut self) {
        if let Some(open) = self.open.take() {
            let mut expected = locked(&open.expected);
            expected.is_ending = true;
            if expected.numbers.is_empty() {
                open.stream.shutdown();
            }
        }
    }
}

/// The thread that reads.
struct Reader {
    stream: Shared,
    expected: Arc<Mutex<Expected>>,
    told: Told,
    master: String,
}

impl Reader {
    fn run(mut self) {
        let reason = self.read();
        let mut expected = locked(&self.expected);
        expected.is_closed = true;
        for number in expected.numbers.drain(..).flatten() {
            let text = format!(
                "MASTERDOWN the master {} was lost before it answered: {reason}. The command may have run",
                self.master
            );
            self.told.tell(number, Err(text));
        }
        self.stream.shutdown();
    }

    /// Reads answers until the connection is lost; why it is.
    fn read(&mut self) -> String {
        let (mut parser, mut buffer, mut answer) = (ReplyParser::new(), Vec::new(), Vec::new());
        let mut room = vec![0; READ_LEN];
        loop {
            let (consumed, is_whole) = match parser.parse(&buffer, &ReplyLimits::default()) {
                Ok(ReplyProgress::Complete { consumed, .. }) => (consumed, true),
                Ok(ReplyProgress::Incomplete { consumed, .. }) => (consumed, false),
                Err(error) => return error.to_string(),
            };
            answer.extend(buffer.drain(..consumed));
            if is_whole {
                let mut expected = locked(&self.expected);
                let Some(number) = expected.numbers.pop_front() else {
                    return "it has answered what nobody has asked".into();
                };
                let is_last = expected.is_ending && expected.numbers.is_empty();
                drop(expected);
                let bytes = std::mem::take(&mut answer);
                if let Some(number) = number {
                    self.told.tell(number, Ok(bytes));
                }
                if is_last {
                    return "it is the master no more".into();
                }
                continue;
            }
            match self.stream.read(&mut room) {
                Ok(0) => return "it has closed the connection".into(),
                Ok(len) => buffer.extend_from_slice(room.get(..len).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_timeout(&error) && locked(&self.expected).numbers.is_empty() => {}
                Err(error) if is_timeout(&error) => return "it is silent for longer than repl-timeout".into(),
                Err(error) => return error.to_string(),
            }
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
