//! Sockets to name servers.
//!
//! Over UDP each name server has a connected socket, which takes answers of that address alone, opened with the first
//! question and again after an error. Over TCP (RFC 7766) a task keeps a connection while there are questions.

use std::{
    cell::Cell,
    future::poll_fn,
    io,
    net::SocketAddr,
    rc::Rc,
    task::{Context, Poll},
    time::Duration,
};

use haproxycfg::model::{NameServer, Resolvers};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, ReadBuf},
    net::{TcpStream, UdpSocket, tcp::OwnedReadHalf},
    sync::{Notify, mpsc},
    time::{Instant, sleep, timeout},
};

/// Questions that may wait for a connection, and answers for the section.
const WAITING_MAX: usize = 100;

/// How long a connection without questions is kept.
const IDLE_TIME: Duration = Duration::from_secs(10);

/// An answer, and the name server that it came from.
type Received<'a> = (usize, &'a [u8]);

/// The ways to the name servers of a section.
#[derive(Debug)]
pub(crate) struct Transports {
    nameservers: Vec<Transport>,
    /// Room for one answer, and a byte by which one that is too long is known.
    room: Vec<u8>,
    /// Answers over TCP.
    streamed: mpsc::Receiver<(usize, Vec<u8>)>,
    to_streamed: mpsc::Sender<(usize, Vec<u8>)>,
    last_streamed: Vec<u8>,
}

#[derive(Debug)]
enum Transport {
    Datagram { address: SocketAddr, socket: Option<UdpSocket> },
    Stream { address: SocketAddr, questions: Option<mpsc::Sender<Vec<u8>>>, patience: Duration },
}

impl Transports {
    pub(crate) fn new(config: &Resolvers) -> Self {
        let transport = |nameserver: &NameServer| {
            let address = nameserver.address;
            match nameserver.stream {
                true => Transport::Stream { address, questions: None, patience: config.timeout_retry },
                false => Transport::Datagram { address, socket: None },
            }
        };
        let (to_streamed, streamed) = mpsc::channel(WAITING_MAX);
        Self {
            nameservers: config.nameservers.iter().map(transport).collect(),
            room: vec![0; usize::from(config.accepted_payload_size) + 1],
            streamed,
            to_streamed,
            last_streamed: Vec::new(),
        }
    }

    /// Sends a question; false when it cannot go.
    pub(crate) fn send(&mut self, nameserver: usize, message: Vec<u8>) -> bool {
        match self.nameservers.get_mut(nameserver) {
            None => false,
            Some(Transport::Datagram { address, socket }) => {
                if socket.is_none() {
                    *socket = connect(*address).ok();
                }
                // NOTE: past tokio, which knows of a new socket's readiness only later.
                let send = |socket: &UdpSocket| SockRef::from(socket).send(&message).is_ok();
                let sent = socket.as_ref().is_some_and(send);
                if !sent {
                    *socket = None;
                }
                sent
            }
            Some(Transport::Stream { address, questions, patience }) => {
                let questions = questions.get_or_insert_with(|| {
                    let (to_task, questions) = mpsc::channel(WAITING_MAX);
                    let (address, patience, answers) = (*address, *patience, self.to_streamed.clone());
                    tokio::task::spawn_local(stream(nameserver, address, patience, questions, answers));
                    to_task
                });
                questions.try_send(message).is_ok()
            }
        }
    }

    /// Waits for an answer, a wake-up or the time; the answers that came.
    pub(crate) async fn receive(&mut self, wake: &Notify, due_ms: Option<u64>) -> Option<Received<'_>> {
        let due = async {
            match due_ms {
                Some(due_ms) => sleep(Duration::from_millis(due_ms)).await,
                None => std::future::pending().await,
            }
        };
        let Self { nameservers, room, streamed, last_streamed, .. } = self;
        let (nameserver, length) = tokio::select! {
            biased;
            () = wake.notified() => return None,
            received = poll_fn(|context| poll_datagrams(nameservers, room, context)) => received,
            Some((nameserver, message)) = streamed.recv() => {
                *last_streamed = message;
                return Some((nameserver, last_streamed));
            }
            () = due => return None,
        };
        Some((nameserver, room.get(..length).unwrap_or_default()))
    }
}

/// The next datagram. A socket with an error is given up: the next question opens another one.
fn poll_datagrams(nameservers: &mut [Transport], room: &mut [u8], context: &mut Context<'_>) -> Poll<(usize, usize)> {
    for (place, nameserver) in nameservers.iter_mut().enumerate() {
        let Transport::Datagram { socket: socket @ Some(_), .. } = nameserver else { continue };
        let mut buffer = ReadBuf::new(room);
        match socket.as_ref().map(|socket| socket.poll_recv(context, &mut buffer)) {
            Some(Poll::Ready(Ok(()))) => return Poll::Ready((place, buffer.filled().len())),
            Some(Poll::Ready(Err(_))) => *socket = None,
            Some(Poll::Pending) | None => {}
        }
    }
    Poll::Pending
}

fn connect(address: SocketAddr) -> io::Result<UdpSocket> {
    let kind = Type::DGRAM.nonblocking().cloexec();
    let socket = Socket::new(Domain::for_address(address), kind, Some(Protocol::UDP))?;
    socket.connect(&address.into())?;
    UdpSocket::from_std(socket.into())
}

/// Serves the questions to a name server over TCP, until the section is gone.
async fn stream(
    nameserver: usize,
    address: SocketAddr,
    patience: Duration,
    mut questions: mpsc::Receiver<Vec<u8>>,
    answers: mpsc::Sender<(usize, Vec<u8>)>,
) {
    let mut waiting = None;
    loop {
        let question = match waiting.take() {
            Some(question) => question,
            None => match questions.recv().await {
                Some(question) => question,
                None => return,
            },
        };
        if let Ok(Ok(connection)) = timeout(patience, TcpStream::connect(address)).await {
            // A connection that breaks is opened again for the next question; the section asks again by itself.
            let conversation = Conversation { nameserver, patience, answers: answers.clone() };
            waiting = conversation.run(connection, question, &mut questions).await;
        }
    }
}

/// A connection to a name server.
struct Conversation {
    nameserver: usize,
    /// How long an answer may take, and a question to be taken.
    patience: Duration,
    answers: mpsc::Sender<(usize, Vec<u8>)>,
}

impl Conversation {
    /// Asks until nobody asks any more, or the connection is of no use; a question that is left for another connection.
    async fn run(
        self,
        connection: TcpStream,
        first: Vec<u8>,
        questions: &mut mpsc::Receiver<Vec<u8>>,
    ) -> Option<Vec<u8>> {
        let Self { nameserver, patience, answers } = self;
        let (reader, mut writer) = connection.into_split();
        let (to_closed, mut closed) = mpsc::channel::<()>(1);
        // Since when a question waits for something to be heard.
        let silent_since = Rc::new(Cell::new(None));
        let heard = Rc::clone(&silent_since);
        // Reading is a task of its own: an answer that is read in part must not be given up for a question.
        let reading = tokio::task::spawn_local(async move {
            let _until_end = to_closed;
            listen(reader, nameserver, patience, &heard, &answers).await;
        });
        let mut question = first;
        let left = loop {
            // A connection that swallows questions would do so until the system gives it up, many minutes later.
            if silent_since.get().is_some_and(|since: Instant| since.elapsed() >= patience) {
                break Some(question);
            }
            let mut framed = u16::try_from(question.len()).unwrap_or(u16::MAX).to_be_bytes().to_vec();
            framed.append(&mut question);
            if !timeout(patience, writer.write_all(&framed)).await.is_ok_and(|written| written.is_ok()) {
                break None;
            }
            silent_since.set(silent_since.get().or_else(|| Some(Instant::now())));
            question = tokio::select! {
                next = timeout(IDLE_TIME, questions.recv()) => match next {
                    Ok(Some(next)) => next,
                    Ok(None) | Err(_) => break None,
                },
                _ = closed.recv() => break None,
            };
        };
        reading.abort();
        left
    }
}

/// Reads answers until the connection ends, or one of them takes too long.
async fn listen(
    mut reader: OwnedReadHalf,
    nameserver: usize,
    patience: Duration,
    silent_since: &Cell<Option<Instant>>,
    answers: &mpsc::Sender<(usize, Vec<u8>)>,
) {
    loop {
        // NOTE: a first byte may take its time, the others may not.
        let Ok(high) = reader.read_u8().await else { return };
        let rest = async {
            let low = reader.read_u8().await?;
            let mut message = vec![0; usize::from(u16::from_be_bytes([high, low]))];
            reader.read_exact(&mut message).await.map(|_| message)
        };
        let Ok(Ok(message)) = timeout(patience, rest).await else { return };
        silent_since.set(None);
        if answers.send((nameserver, message)).await.is_err() {
            return;
        }
    }
}
