//! Scripted clients and servers for tests, in virtual time and without processes.

use std::{rc::Rc, sync::Arc};

use http::{Parsed, RequestParser};
use live::{Instance, LiveProxy, Shared};
use logs::WorkerLog;
use net::Stream;
use runtime::ConnectionGuard;
use tokio::{
    io::AsyncReadExt as _,
    net::{TcpListener, TcpStream, UnixStream},
    task::{LocalSet, yield_now},
};

use super::{
    Arrival, Counted,
    transaction::{ClientSide, RequestStage, Transaction},
};
use crate::{
    test_instance::{configuration, instance},
    worker::{Neighbours, Worker},
};

/// A worker, and a backend with one server whose part the test plays.
pub(super) struct Scene {
    pub(super) worker: Rc<Worker>,
    pub(super) instance: Arc<Instance>,
    pub(super) frontend: Arc<LiveProxy>,
    pub(super) backend: Arc<LiveProxy>,
    listener: TcpListener,
}

impl Scene {
    /// Runs `play` in one whose backend has these lines. Time stands still but where `play` moves it on.
    pub(super) async fn run<F: Future<Output = ()>>(lines: &str, play: impl FnOnce(Rc<Self>) -> F) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let text = format!(
            "defaults\n mode http\n timeout client 1h\n timeout server 10s\n timeout connect 5s\n\
             frontend front\n bind 127.0.0.1:1\n default_backend back\n\
             backend back\n server s1 {address}\n{lines}\n"
        );
        let (process, instance, outputs) = instance(configuration(&text), 1);
        let shared = Arc::new(Shared::new(process, Arc::default(), Arc::clone(&instance)));
        let neighbours = Neighbours { pages: Arc::new(()), others: Arc::new(()) };
        let worker = Rc::new(Worker::new(0, shared, WorkerLog::new(outputs), 1, neighbours));
        worker.look_at_clock();
        let named =
            |name: &str| instance.proxies.iter().find(|proxy| &*proxy.settings().name == name).cloned().unwrap();
        let (frontend, backend) = (named("front"), named("back"));
        let scene = Rc::new(Self { worker, instance, frontend, backend, listener });
        let local = LocalSet::new();
        // The runtime moves a clock that stands still on when it has nothing to do, though sockets have something to say.
        local.spawn_local(async {
            loop {
                yield_now().await;
            }
        });
        local.run_until(play(scene)).await;
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
    pub(super) fn client(&self) -> (UnixStream, Arrival) {
        let (near, far) = UnixStream::pair().unwrap();
        let arrival = Arrival {
            stream: Stream::Unix(near),
            source: None,
            counted: Counted::enter(&self.worker, &self.frontend, 0),
            guard: ConnectionGuard::default(),
            running: self.worker.count_running(),
        };
        (far, arrival)
    }

    /// What the server gets as the next request, body included if its length is told.
    pub(super) async fn served(&self) -> (TcpStream, String) {
        let (mut connection, _) = self.listener.accept().await.unwrap();
        let request = receive(&mut connection).await;
        (connection, request)
    }

    pub(super) fn traffic(&self) -> &live::counters::Traffic {
        self.backend.backend.traffic.of(0)
    }
}

pub(super) async fn receive(connection: &mut TcpStream) -> String {
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
