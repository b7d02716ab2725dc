//! Scripted clients and servers for tests, in virtual time, without processes and without sockets.

use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    net::SocketAddr,
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use http::{Parsed, RequestParser};
use live::{Instance, LiveProxy, Shared};
use logs::WorkerLog;
use net::{
    MemoryStream, Stream, Target,
    connect::{ConnectOptions, Connecting, Network},
};
use runtime::ConnectionGuard;
use tokio::{
    io::AsyncReadExt as _,
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::LocalSet,
    time::sleep,
};

use super::{
    Arrival, Counted,
    fetch::framed,
    transaction::{ClientSide, RequestStage, Transaction},
};
use crate::{
    test_instance::{configuration, instance},
    worker::{Neighbours, Worker},
};

/// Bytes on their way that a stream holds.
const STREAM_BYTES_MAX: usize = 64 << 10;

/// The port of servers that speak `framed` instead of HTTP/1.
pub(super) const FRAMED_PORT: u16 = 81;

/// Where connections are opened in a scene: the test has their other ends.
struct Stage(UnboundedSender<(SocketAddr, Stream)>);

impl Network for Stage {
    fn connect<'a>(&'a self, target: &'a Target, _: ConnectOptions<'a>) -> Connecting<'a> {
        let Target::Inet(address) = *target else { panic!("{target:?}") };
        let (near, far) = MemoryStream::pair(STREAM_BYTES_MAX);
        let near = if address.port() == FRAMED_PORT { near.speaking(framed::NAME) } else { near };
        let sent = self.0.send((address, Stream::Memory(far)));
        let refused = || std::io::ErrorKind::ConnectionRefused.into();
        Box::pin(std::future::ready(sent.map(|()| Stream::Memory(near)).map_err(|_| refused())))
    }
}

/// A worker, and a backend with a server whose part the test plays.
pub(super) struct Scene {
    pub(super) worker: Rc<Worker>,
    pub(super) instance: Arc<Instance>,
    pub(super) frontend: Arc<LiveProxy>,
    pub(super) backend: Arc<LiveProxy>,
    accepted: RefCell<UnboundedReceiver<(SocketAddr, Stream)>>,
}

impl Scene {
    /// Runs `play` in one whose backend has these lines. Time stands still while anything can happen.
    pub(super) async fn run<F: Future<Output = ()>>(lines: &str, play: impl FnOnce(Rc<Self>) -> F) {
        Self::run_with("", lines, play).await;
    }

    /// The same with a server that has these words.
    pub(super) async fn run_with<F: Future<Output = ()>>(words: &str, lines: &str, play: impl FnOnce(Rc<Self>) -> F) {
        let text = format!(
            "defaults\n mode http\n timeout client 1h\n timeout server 10s\n timeout connect 5s\n\
             frontend front\n bind 127.0.0.1:1\n default_backend back\n\
             backend back\n server s1 10.0.0.1:80 {words}\n{lines}\n"
        );
        let (process, instance, outputs) = instance(configuration(&text), 1);
        let shared = Arc::new(Shared::new(process, Arc::default(), Arc::clone(&instance)));
        let (connecting, accepted) = unbounded_channel();
        let neighbours = Neighbours { pages: Arc::new(()), others: Arc::new(()), network: Arc::new(Stage(connecting)) };
        let worker = Rc::new(Worker::new(0, shared, WorkerLog::new(outputs), 1, neighbours));
        worker.look_at_clock();
        let named =
            |name: &str| instance.proxies.iter().find(|proxy| &*proxy.settings().name == name).cloned().unwrap();
        let (frontend, backend) = (named("front"), named("back"));
        let accepted = RefCell::new(accepted);
        let scene = Rc::new(Self { worker, instance, frontend, backend, accepted });
        LocalSet::new().run_until(play(scene)).await;
    }

    /// An exchange that no client has asked for.
    pub(super) fn exchange_of_nobody(&self, request: &str) -> Transaction {
        let client = ClientSide::nobody(&self.instance, Arc::clone(&self.frontend), self.worker.now());
        self.exchange(request, &Rc::new(client))
    }

    /// An exchange with a request that is complete.
    pub(super) fn exchange(&self, request: &str, client: &Rc<ClientSide>) -> Transaction {
        let mut exchange = Transaction::new(Arc::clone(&self.instance), Rc::clone(client), &self.worker);
        exchange.restart(&self.instance, client, 1);
        let parsed =
            RequestParser::new().parse(request.as_bytes(), &self.instance.limits(false), &mut exchange.request);
        assert!(matches!(parsed, Ok(Parsed::Complete { .. })), "{request}");
        exchange.asked.stage = RequestStage::Complete;
        exchange.asked.wants_keep_alive = true;
        exchange.timeline.first_byte = Some(self.worker.now());
        exchange.timeline.request = exchange.timeline.first_byte;
        exchange.route.backend = Some(Arc::clone(&self.backend));
        exchange
    }

    /// A client that has just connected, and this end of its connection.
    pub(super) fn client(&self) -> (Stream, Arrival) {
        self.arrive(MemoryStream::pair(STREAM_BYTES_MAX))
    }

    /// The same for one that has agreed to speak this protocol.
    pub(super) fn client_speaking(&self, protocol: &'static str) -> (Stream, Arrival) {
        let (near, far) = MemoryStream::pair(STREAM_BYTES_MAX);
        self.arrive((near.speaking(protocol), far))
    }

    fn arrive(&self, (near, far): (MemoryStream, MemoryStream)) -> (Stream, Arrival) {
        let arrival = Arrival {
            destination: None,
            stream: Stream::Memory(near),
            source: None,
            counted: Counted::enter(&self.worker, &self.frontend, 0),
            guard: ConnectionGuard::default(),
            running: self.worker.count_running(),
        };
        (Stream::Memory(far), arrival)
    }

    /// The next connection that is opened to a server.
    pub(super) async fn accept(&self) -> (SocketAddr, Stream) {
        poll_fn(|context| self.accepted.borrow_mut().poll_recv(context)).await.unwrap()
    }

    /// What the server gets as the next request, body included if its length is told.
    pub(super) async fn served(&self) -> (Stream, String) {
        let (_, mut connection) = self.accept().await;
        let request = receive(&mut connection).await;
        (connection, request)
    }

    pub(super) fn traffic(&self) -> &live::counters::Traffic {
        self.backend.backend.traffic.of(0)
    }
}

pub(super) async fn receive(connection: &mut Stream) -> String {
    let mut request = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&request);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if length.is_none_or(|length| body.len() >= length.parse().unwrap()) {
                return text.into_owned();
            }
        }
        assert_ne!(connection.read_buf(&mut request).await.unwrap(), 0, "{request:?}");
    }
}

/// Random numbers that follow from a seed (xorshift64*).
#[derive(Debug)]
pub(super) struct Seeded(Cell<u64>);

impl Seeded {
    pub(super) fn new(seed: u64) -> Rc<Self> {
        Rc::new(Self(Cell::new(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)))
    }

    /// A number below `bound`.
    pub(super) fn below(&self, bound: usize) -> usize {
        let mut state = self.0.get();
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        self.0.set(state);
        usize::try_from(state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33).unwrap() % bound
    }

    /// Lets some time pass, or none.
    pub(super) async fn pause(&self) {
        if self.below(3) > 0 {
            sleep(Duration::from_millis(self.below(200) as u64)).await;
        }
    }
}
