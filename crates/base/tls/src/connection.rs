//! One end of a TLS connection, without its socket.
//!
//! ```text
//!  Hello ──ClientHello──▶ Server ──┐
//!                                  ├──done──▶ Open ──close_notify──▶ Open (has_ended)
//!                         Client ──┘            │
//!    └────────────┴─────────┴──────failure──────┴──▶ Failed
//! ```
//!
//! Whoever owns the socket follows this order: what is received goes into [`Connection::room`], of which [`Connection::fill`] tells
//! how much it was; then [`Connection::handshake`] until it is done, and [`Connection::read`] after that. Whatever was called, what
//! [`Connection::outgoing`] has is to be sent, and [`Connection::sent`] tells how much of it went. [`Connection::write`] takes bytes
//! only while nothing waits to be sent, so that a connection whose peer does not read holds one block.

use std::sync::Arc;

use rustls::{
    HandshakeKind, ProtocolVersion,
    client::UnbufferedClientConnection,
    pki_types::CertificateDer,
    server::UnbufferedServerConnection,
    unbuffered::{ConnectionState, EncodeError, UnbufferedStatus},
};

use crate::{
    acceptor::{Acceptor, Choice, Verifier},
    blocks::{BLOCK, Block},
    ciphers::name_of,
    connector::Connector,
    failure::Failure,
    hello::{ClientHello, FirstBytes, Offered, look},
    identity::Identity,
    path::Fault,
    records::{HEAD, Opened, Records, alert, has_record},
    secrets::{Randoms, Secrets},
    verify::now,
};

/// One end of a TLS connection.
pub struct Connection {
    state: State,
    incoming: Block,
    outgoing: Block,
    /// Decrypted and not read yet: so many bytes of `incoming` from its start, with so many behind them that belong to the record.
    plain: usize,
    behind: usize,
    /// The other end has said that it sends no more.
    has_ended: bool,
    /// This end has said so.
    has_closed: bool,
    /// The socket has ended.
    is_cut_off: bool,
    handshaken: Option<Arc<Handshaken>>,
}

enum State {
    Hello(Arc<Acceptor>),
    Server(Box<ServerHandshake>),
    Client(Box<ClientHandshake>),
    Open(Box<Records>),
    Failed(Failure),
}

struct ServerHandshake {
    connection: UnbufferedServerConnection,
    fed: usize,
    server_name: Option<String>,
    offered: Option<Box<Offered>>,
    identity: Arc<Identity>,
    verifier: Arc<Verifier>,
    randoms: Randoms,
    /// They are kept.
    secrets: Option<Box<Secrets>>,
}

struct ClientHandshake {
    connection: UnbufferedClientConnection,
    fed: usize,
    server_name: Option<String>,
    randoms: Randoms,
}

/// What a handshake has agreed on.
#[derive(Debug)]
pub struct Handshaken {
    /// `TLSv1.3`.
    pub version: &'static str,
    /// OpenSSL's name of the cipher.
    pub cipher: &'static str,
    /// Bits of its key.
    pub cipher_bits: u16,
    /// The protocol.
    pub protocol: Option<Vec<u8>>,
    /// The name that the client asked for.
    pub server_name: Option<String>,
    /// Whether it goes on with a former session.
    pub is_resumed: bool,
    /// What this end showed.
    pub identity: Option<Arc<Identity>>,
    /// What the other end showed.
    pub peer: Peer,
    /// The random bytes of both ends.
    pub randoms: Randoms,
    /// What the client offered, if that is kept.
    pub offered: Option<Box<Offered>>,
    /// The secrets, if they are kept.
    pub secrets: Option<Box<Secrets>>,
}

/// What the other end has shown.
#[derive(Debug, Default)]
pub struct Peer {
    /// Its certificate and those of its issuers.
    pub chain: Vec<Vec<u8>>,
    /// OpenSSL's number of the first thing that was wrong with it and let pass; 0 for nothing.
    pub error: u8,
    /// The same of its issuers, and how far away the issuer is.
    pub issuer_error: (u8, u8),
    /// The same of the last thing, whatever it was: what verifying led to.
    pub verified: u8,
}

impl Peer {
    /// Takes what was wrong and let pass.
    fn note(&mut self, faults: &[Fault]) {
        let code = |fault: &Fault| fault.distrust.code();
        self.error = faults.iter().find(|fault| fault.depth == 0).map_or(0, code);
        let of_issuers = faults.iter().find(|fault| fault.depth > 0);
        self.issuer_error = of_issuers.map_or((0, 0), |fault| (code(fault), fault.depth));
        self.verified = faults.last().map_or(0, code);
    }
}

/// What reading has led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadOutcome {
    /// So many bytes were read.
    Data(usize),
    /// More has to be received first.
    More,
    /// The other end sends no more.
    End,
}

impl Connection {
    /// The end of a connection that a client has opened.
    #[must_use]
    pub fn server(acceptor: Arc<Acceptor>) -> Self {
        Self::new(State::Hello(acceptor))
    }

    /// The end of a connection to a server that is asked for this name, or for none; `protocols` instead of those of the options.
    ///
    /// # Errors
    /// When the name is none.
    pub fn client(connector: &Connector, name: Option<&str>, protocols: Option<&[Vec<u8>]>) -> Result<Self, Failure> {
        let connection = connector.begin(name, protocols)?;
        let server_name = name.map(str::to_owned);
        Ok(Self::new(State::Client(Box::new(ClientHandshake {
            connection,
            fed: 0,
            server_name,
            randoms: Randoms::default(),
        }))))
    }

    fn new(state: State) -> Self {
        Self {
            state,
            incoming: Block::default(),
            outgoing: Block::default(),
            plain: 0,
            behind: 0,
            has_ended: false,
            has_closed: false,
            is_cut_off: false,
            handshaken: None,
        }
    }

    /// What the handshake has agreed on, once it is done.
    #[must_use]
    pub fn handshaken(&self) -> Option<&Arc<Handshaken>> {
        self.handshaken.as_ref()
    }

    /// Whether the handshake is not done.
    #[must_use]
    pub fn is_handshaking(&self) -> bool {
        !matches!(self.state, State::Open(_))
    }

    /// Where what is received goes.
    pub fn room(&mut self) -> &mut [u8] {
        self.incoming.room()
    }

    /// Takes in so many bytes that were received.
    pub fn fill(&mut self, count: usize) {
        self.incoming.fill(count);
    }

    /// Notes that the socket has ended.
    pub fn cut_off(&mut self) {
        self.is_cut_off = true;
    }

    /// Gives back the memory that holds nothing.
    pub fn rest(&mut self) {
        if self.plain == 0 {
            self.incoming.rest();
        }
        if self.outgoing.is_empty() {
            self.outgoing.rest();
        }
    }

    /// What is to be sent.
    #[must_use]
    pub fn outgoing(&self) -> &[u8] {
        self.outgoing.bytes()
    }

    /// Notes that so much of it was sent.
    pub fn sent(&mut self, count: usize) {
        self.outgoing.consume(count);
        if self.outgoing.is_empty() {
            self.outgoing.rest();
        }
    }

    /// Whether reading would get somewhere with what has been received.
    #[must_use]
    pub fn may_read(&self) -> bool {
        if self.plain > 0 || self.has_ended || self.is_cut_off {
            return true;
        }
        match &self.state {
            State::Open(records) => has_record(self.incoming.bytes(), records.is_tls13()),
            State::Failed(_) => true,
            _ => false,
        }
    }

    fn fail(&mut self, failure: Failure) -> Failure {
        self.state = State::Failed(failure.clone());
        failure
    }

    /// Goes on with the handshake; whether it is done. If not, more has to be received.
    ///
    /// # Errors
    /// Why it failed. What waits to be sent tells the other end.
    pub fn handshake(&mut self) -> Result<bool, Failure> {
        let done = match &mut self.state {
            State::Hello(acceptor) => {
                let acceptor = Arc::clone(acceptor);
                match self.take_hello(&acceptor) {
                    Ok(true) => return self.handshake(),
                    other => other,
                }
            }
            State::Server(handshake) => {
                let step = |bytes: &mut [u8]| {
                    let (discard, next) = step(handshake.connection.process_tls_records(bytes));
                    (discard, next, handshake.connection.wants_write())
                };
                let line = Line { incoming: &mut self.incoming, outgoing: &mut self.outgoing };
                let done = drive(step, &mut handshake.fed, line, &mut handshake.randoms);
                if let Some(secrets) = &mut handshake.secrets {
                    secrets.gather();
                }
                done
            }
            State::Client(handshake) => {
                let step = |bytes: &mut [u8]| {
                    let (discard, next) = step(handshake.connection.process_tls_records(bytes));
                    (discard, next, handshake.connection.wants_write())
                };
                let line = Line { incoming: &mut self.incoming, outgoing: &mut self.outgoing };
                drive(step, &mut handshake.fed, line, &mut handshake.randoms)
            }
            State::Open(_) => return Ok(true),
            State::Failed(failure) => return Err(failure.clone()),
        };
        match done {
            Ok(true) => self.open().map(|()| true).map_err(|failure| self.fail(failure)),
            Ok(false) if self.is_cut_off => Err(self.fail(Failure::Closed)),
            Ok(false) if self.incoming.len() >= BLOCK => {
                Err(self.fail(Failure::Protocol("a message of the handshake that is too long".to_owned())))
            }
            Ok(false) => Ok(false),
            Err(failure) => Err(self.fail(failure)),
        }
    }

    /// Waits for a whole ClientHello and chooses a certificate.
    fn take_hello(&mut self, acceptor: &Acceptor) -> Result<bool, Failure> {
        let (chosen, hello) = match look(self.incoming.bytes(), acceptor.keeps().hello) {
            FirstBytes::Incomplete => return Ok(false),
            FirstBytes::PlainHttp => return Err(Failure::PlainHttp),
            FirstBytes::NotTls => return Err(Failure::NotTls),
            FirstBytes::OtherTls => (acceptor.any(), ClientHello::default()),
            FirstBytes::Hello(hello) => match acceptor.choose(&hello) {
                Choice::Certificate(served, config) => (Some((served, config)), hello),
                Choice::Refused => (None, hello),
            },
        };
        let Some((served, config)) = chosen else {
            const UNRECOGNIZED_NAME: u8 = 112;
            self.put(&[21, 3, 3, 0, 2, 2, UNRECOGNIZED_NAME]);
            return Err(Failure::NoCertificateForName);
        };
        let connection = UnbufferedServerConnection::new(config).map_err(|error| Failure::of(&error))?;
        self.state = State::Server(Box::new(ServerHandshake {
            connection,
            fed: 0,
            server_name: hello.server_name,
            offered: hello.offered,
            identity: Arc::clone(&served.identity),
            verifier: Arc::clone(&served.verifier),
            randoms: Randoms::default(),
            secrets: acceptor.keeps().secrets.then(Box::default),
        }));
        Ok(true)
    }

    fn put(&mut self, bytes: &[u8]) {
        put(&mut self.outgoing, bytes);
    }

    /// Takes the keys of a handshake that is done.
    fn open(&mut self) -> Result<(), Failure> {
        let state = std::mem::replace(&mut self.state, State::Failed(Failure::Closed));
        let wrong = |error: rustls::Error| Failure::of(&error);
        let (handshaken, records) = match state {
            State::Server(handshake) => {
                let ServerHandshake { connection, server_name, offered, identity, verifier, randoms, secrets, .. } =
                    *handshake;
                let mut handshaken = agreed(&connection)?;
                handshaken.server_name = server_name;
                (handshaken.randoms, handshaken.offered, handshaken.secrets) = (randoms, offered, secrets);
                handshaken.identity = Some(identity);
                note_let_pass(&mut handshaken, &verifier, &connection);
                let (secrets, kernel) = connection.dangerous_into_kernel_connection().map_err(wrong)?;
                (handshaken, Records::of_server(&secrets, kernel)?)
            }
            State::Client(handshake) => {
                let ClientHandshake { connection, fed: _, server_name, randoms } = *handshake;
                let mut handshaken = agreed(&connection)?;
                (handshaken.server_name, handshaken.randoms) = (server_name, randoms);
                let (secrets, kernel) = connection.dangerous_into_kernel_connection().map_err(wrong)?;
                (handshaken, Records::of_client(&secrets, kernel)?)
            }
            State::Hello(_) | State::Open(_) | State::Failed(_) => return Err(Failure::Closed),
        };
        self.handshaken = Some(Arc::new(handshaken));
        self.state = State::Open(Box::new(records));
        Ok(())
    }

    /// Reads what has come into `into`.
    ///
    /// # Errors
    /// Why the connection failed. What waits to be sent tells the other end.
    pub fn read(&mut self, into: &mut [u8]) -> Result<ReadOutcome, Failure> {
        loop {
            if self.plain > 0 {
                return Ok(ReadOutcome::Data(self.take_plain(into)));
            }
            if self.has_ended {
                return Ok(ReadOutcome::End);
            }
            let records = match &mut self.state {
                State::Open(records) => records,
                State::Failed(failure) => return Err(failure.clone()),
                State::Hello(_) | State::Server(_) | State::Client(_) => return Ok(ReadOutcome::More),
            };
            match records.open(self.incoming.bytes_mut(), &mut self.outgoing) {
                Ok(Some(Opened::Data { offset, length, record })) => {
                    self.incoming.consume(offset);
                    (self.plain, self.behind) = (length, record - offset - length);
                }
                Ok(Some(Opened::Nothing { record })) => self.incoming.consume(record),
                Ok(Some(Opened::End { record })) => {
                    self.incoming.consume(record);
                    self.has_ended = true;
                }
                Ok(None) if self.is_cut_off => return Err(self.fail(Failure::Truncated)),
                Ok(None) => return Ok(ReadOutcome::More),
                Err(failure) => {
                    if !matches!(failure, Failure::Alert(_) | Failure::Renegotiation) {
                        let _ = records.seal_alert(2, alert::BAD_RECORD_MAC, &mut self.outgoing);
                    }
                    self.has_closed = true;
                    return Err(self.fail(failure));
                }
            }
        }
    }

    fn take_plain(&mut self, into: &mut [u8]) -> usize {
        let count = self.plain.min(into.len());
        if let (Some(to), Some(from)) = (into.get_mut(..count), self.incoming.bytes().get(..count)) {
            to.copy_from_slice(from);
        }
        self.plain -= count;
        self.incoming.consume(count);
        if self.plain == 0 {
            self.incoming.consume(std::mem::take(&mut self.behind));
        }
        count
    }

    /// Seals bytes, in two pieces, to be sent; how many went in: none while something waits to be sent.
    ///
    /// # Errors
    /// When the connection failed, or this end has closed it.
    pub fn write(&mut self, first: &[u8], second: &[u8]) -> Result<usize, Failure> {
        if !self.outgoing.is_empty() {
            return Ok(0);
        }
        match &mut self.state {
            State::Open(_) if self.has_closed => Err(Failure::Closed),
            State::Open(records) => match records.seal_data(first, second, &mut self.outgoing) {
                Ok(count) => Ok(count),
                Err(failure) => Err(self.fail(failure)),
            },
            State::Failed(failure) => Err(failure.clone()),
            State::Hello(_) | State::Server(_) | State::Client(_) => Ok(0),
        }
    }

    /// Says that no more will be sent (close_notify), if that can still be said.
    pub fn close(&mut self) {
        if let State::Open(records) = &mut self.state
            && !std::mem::replace(&mut self.has_closed, true)
        {
            let _ = records.seal_alert(1, alert::CLOSE_NOTIFY, &mut self.outgoing);
        }
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Connection").field("handshaken", &self.handshaken).finish_non_exhaustive()
    }
}

fn put(block: &mut Block, bytes: &[u8]) {
    if let Some(room) = block.room().get_mut(..bytes.len()) {
        room.copy_from_slice(bytes);
        block.fill(bytes.len());
    }
}

/// One step of a handshake: how much of what came is done with, and what follows.
enum Step {
    /// Bytes to be sent.
    Send(Vec<u8>),
    /// Go on.
    Continue,
    /// More has to come.
    Blocked,
    /// Data could be sent now.
    Done,
    /// It failed.
    Failed(Failure),
}

fn step<Data>(status: UnbufferedStatus<'_, '_, Data>) -> (usize, Step) {
    let UnbufferedStatus { discard, state } = status;
    let step = match state {
        Ok(ConnectionState::EncodeTlsData(mut data)) => {
            let mut bytes = Vec::new();
            loop {
                match data.encode(&mut bytes) {
                    Ok(count) => {
                        bytes.truncate(count);
                        break Step::Send(bytes);
                    }
                    Err(EncodeError::InsufficientSize(size)) => bytes.resize(size.required_size, 0),
                    Err(EncodeError::AlreadyEncoded) => break Step::Continue,
                }
            }
        }
        Ok(ConnectionState::TransmitTlsData(data)) => {
            // What was encoded stands in line before everything else.
            data.done();
            Step::Continue
        }
        Ok(ConnectionState::BlockedHandshake) => Step::Blocked,
        Ok(ConnectionState::WriteTraffic(_)) => Step::Done,
        Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => Step::Failed(Failure::Closed),
        // No record is given to it once the handshake is done, and early data is not accepted.
        Ok(_) => Step::Failed(Failure::Protocol("data came before the handshake was done".to_owned())),
        Err(error) => Step::Failed(Failure::of(&error)),
    };
    (discard, step)
}

/// What has come and what goes.
struct Line<'a> {
    incoming: &'a mut Block,
    outgoing: &'a mut Block,
}

/// Feeds a handshake, record by record, so that nothing of what follows it is taken from our own records. Whether it is done. A step says
/// as well whether there is more to be sent.
fn drive(
    mut step: impl FnMut(&mut [u8]) -> (usize, Step, bool),
    fed: &mut usize,
    line: Line<'_>,
    randoms: &mut Randoms,
) -> Result<bool, Failure> {
    let Line { incoming, outgoing } = line;
    loop {
        let (discard, next, mut has_more) = step(incoming.bytes_mut().get_mut(..*fed).unwrap_or_default());
        incoming.consume(discard);
        *fed -= discard.min(*fed);
        match next {
            Step::Send(bytes) => {
                if outgoing.room().len() < bytes.len() {
                    return Err(Failure::Protocol("a flight of the handshake that is too long".to_owned()));
                }
                randoms.note(&bytes);
                put(outgoing, &bytes);
            }
            Step::Continue => {}
            Step::Done if *fed == 0 => return Ok(true),
            Step::Done | Step::Blocked => {
                let waiting = incoming.bytes().get(*fed..).unwrap_or_default();
                let &[_, _, _, high, low, ref body @ ..] = waiting else { return Ok(false) };
                let length = usize::from(u16::from_be_bytes([high, low]));
                if body.len() < length {
                    return Ok(false);
                }
                randoms.note(waiting.get(..HEAD + length).unwrap_or_default());
                *fed += HEAD + length;
            }
            Step::Failed(failure) => {
                // NOTE: what is told to the other end comes out of the next steps, which must see the same bytes again. A step
                // beyond that would judge them again.
                while has_more {
                    let (discard, next, more) = step(incoming.bytes_mut().get_mut(..*fed).unwrap_or_default());
                    has_more = more;
                    incoming.consume(discard);
                    *fed -= discard.min(*fed);
                    if let Step::Send(bytes) = next {
                        put(outgoing, &bytes);
                    }
                }
                return Err(failure);
            }
        }
    }
}

/// Notes what was wrong with a client's certificates and let pass.
pub(crate) fn note_let_pass(handshaken: &mut Handshaken, verifier: &Verifier, connection: &rustls::CommonState) {
    if verifier.lets_errors_pass()
        && let Some(chain) = connection.peer_certificates()
    {
        handshaken.peer.note(&verifier.judge(chain, now()));
    }
}

pub(crate) fn agreed(connection: &rustls::CommonState) -> Result<Handshaken, Failure> {
    let missing = || Failure::Protocol("the handshake is not complete".to_owned());
    let (cipher, cipher_bits) = name_of(connection.negotiated_cipher_suite().ok_or_else(missing)?);
    let chain = connection.peer_certificates().unwrap_or_default();
    Ok(Handshaken {
        version: match connection.protocol_version() {
            Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
            Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
            _ => return Err(missing()),
        },
        cipher,
        cipher_bits,
        protocol: connection.alpn_protocol().map(<[u8]>::to_vec),
        server_name: None,
        is_resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
        identity: None,
        peer: Peer { chain: chain.iter().map(|der: &CertificateDer<'_>| der.to_vec()).collect(), ..Peer::default() },
        randoms: Randoms::default(),
        offered: None,
        secrets: None,
    })
}
