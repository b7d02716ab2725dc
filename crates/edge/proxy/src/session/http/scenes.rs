//! Scenes of the request path: what a client and its servers say and do, step by step, in memory and in virtual time. Where nothing
//! can happen, time goes on to the next time-out.

use std::{collections::VecDeque, rc::Rc, sync::Arc, time::Duration};

use net::Stream;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    task::{JoinHandle, spawn_local},
    time::{sleep, timeout},
};

use crate::session::{
    self,
    scene::{Scene, receive},
};

/// What happens next.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// What follows is about this client; it connects if it has not yet.
    As(usize),
    /// The client sends this.
    Says(&'static str),
    /// The client sends no more, and goes on reading.
    Ends,
    /// The client closes its connection.
    Leaves,
    /// The client gets just this.
    Hears(&'static str),
    /// The client gets a whole response with this status, whatever it says.
    Page(u16),
    /// The client gets a whole response with this status and this body, whatever else it says.
    Body(u16, &'static str),
    /// The client sends so many bytes while the server gets them.
    Uploads(usize),
    /// The server sends so many bytes while the client gets them.
    Streams(usize),
    /// The client's connection ends, and nothing came before that.
    Over,
    /// A server gets a connection.
    Connected,
    /// It gets just this.
    Gets(&'static str),
    /// A server gets this request on a new connection, body included.
    Opened(&'static str),
    /// A server gets this request on the connection that was used last.
    Asked(&'static str),
    /// It answers this.
    Answers(&'static str),
    /// It closes the connection.
    Closes,
    /// The connection to it ends, and nothing came before that.
    Dropped,
}
use Step::*;

/// What the backend has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counted {
    connects: u64,
    reuses: u64,
    retries: u64,
    response_errors: u64,
    client_aborts: u64,
    server_aborts: u64,
}

struct Play {
    name: &'static str,
    /// Lines of the backend.
    lines: &'static str,
    steps: &'static [Step],
    counted: Counted,
}

/// How long a step may take: longer than every time-out but that of a silent client.
const PATIENCE: Duration = Duration::from_secs(100);

struct Stage {
    scene: Rc<Scene>,
    clients: Vec<Option<Stream>>,
    /// Which of them acts.
    acting: usize,
    serving: Vec<JoinHandle<()>>,
    server: Option<Stream>,
    /// Connections that a server has closed or that are not used any more stay open at its side until the end.
    before: VecDeque<Stream>,
}

async fn read_exactly(stream: &mut Stream, expected: &str) {
    let mut bytes = vec![0; expected.len()];
    let mut count = 0;
    while count < bytes.len() {
        match stream.read(&mut bytes[count..]).await {
            Ok(0) | Err(_) => break,
            Ok(more) => count += more,
        }
    }
    assert_eq!(String::from_utf8_lossy(&bytes[..count]), expected);
}

async fn read_page(stream: &mut Stream, status: u16) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let read = stream.read_u8().await;
        head.push(read.unwrap_or_else(|error| panic!("{error} after {:?}", String::from_utf8_lossy(&head))));
    }
    let head = String::from_utf8(head).unwrap();
    assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
    let head = head.to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length = length.map_or(0, |text| text.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    String::from_utf8(body).unwrap()
}

/// Sends so many bytes from one end while they come to the other.
async fn pour(from: &mut Stream, to: &mut Stream, count: usize) {
    let bytes: Vec<u8> = (0..count).map(|at| b'a' + u8::try_from(at % 23).unwrap()).collect();
    let mut poured = vec![0; count];
    let (sent, received) = tokio::join!(from.write_all(&bytes), to.read_exact(&mut poured));
    sent.unwrap();
    received.unwrap();
    assert!(poured == bytes, "all of it, in order");
}

async fn read_end(stream: &mut Stream) {
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    assert_eq!(String::from_utf8_lossy(&rest), "");
}

impl Stage {
    fn client(&mut self) -> &mut Stream {
        self.clients[self.acting].as_mut().expect("the client is there")
    }

    fn ends(&mut self) -> (&mut Stream, &mut Stream) {
        (self.clients[self.acting].as_mut().unwrap(), self.server.as_mut().unwrap())
    }

    fn act_as(&mut self, client: usize) {
        while self.clients.len() <= client {
            let (stream, arrival) = self.scene.client();
            let (worker, instance) = (Rc::clone(&self.scene.worker), Arc::clone(&self.scene.instance));
            let served = session::serve(Rc::clone(&worker), instance, Arc::clone(&self.scene.frontend), 0, arrival);
            self.serving.push(spawn_local(worker.clocked(served)));
            self.clients.push(Some(stream));
        }
        self.acting = client;
    }

    fn server(&mut self) -> &mut Stream {
        self.server.as_mut().expect("a server was asked")
    }

    async fn take(&mut self, step: Step) {
        match step {
            As(client) => self.act_as(client),
            Says(text) => self.client().write_all(text.as_bytes()).await.unwrap(),
            Ends => self.client().shut_write(),
            Leaves => drop(self.clients[self.acting].take()),
            Hears(text) => read_exactly(self.client(), text).await,
            Page(status) => drop(read_page(self.client(), status).await),
            Body(status, text) => assert_eq!(read_page(self.client(), status).await, text),
            Uploads(count) => {
                let (client, server) = self.ends();
                pour(client, server, count).await;
            }
            Streams(count) => {
                let (client, server) = self.ends();
                pour(server, client, count).await;
            }
            Over => read_end(self.client()).await,
            Connected => {
                let (_, connection) = self.scene.accept().await;
                self.before.extend(self.server.replace(connection));
            }
            Gets(text) => read_exactly(self.server(), text).await,
            Opened(text) => {
                let (connection, request) = self.scene.served().await;
                assert_eq!(request, text);
                self.before.extend(self.server.replace(connection));
            }
            Asked(text) => assert_eq!(receive(self.server()).await, text),
            Answers(text) => self.server().write_all(text.as_bytes()).await.unwrap(),
            Closes => drop(self.server.take()),
            Dropped => read_end(self.server()).await,
        }
    }
}

async fn run(play: &'static Play) {
    Scene::run(play.lines, |scene| async move {
        let (clients, serving, before) = (Vec::new(), Vec::new(), VecDeque::new());
        let mut stage = Stage { scene: Rc::clone(&scene), clients, acting: 0, serving, server: None, before };
        stage.act_as(0);
        for (at, step) in play.steps.iter().enumerate() {
            eprintln!("{}: {step:?}", play.name);
            let taken = timeout(PATIENCE, stage.take(*step)).await;
            assert!(taken.is_ok(), "{}: step {at} does not come: {step:?}", play.name);
        }
        stage.clients.clear();
        for serving in stage.serving {
            timeout(PATIENCE, serving).await.expect("the connection is over").unwrap();
        }
        // What fetches for the cache ends by itself, if what it waits for ends.
        drop((stage.server, stage.before));
        while scene.worker.running.get() > 0 {
            sleep(Duration::from_secs(1)).await;
        }
        let traffic = scene.traffic();
        let counted = Counted {
            connects: traffic.connects.value(),
            reuses: traffic.reuses.value(),
            retries: traffic.retries.value(),
            response_errors: traffic.response_errors.value(),
            client_aborts: traffic.client_aborts.value(),
            server_aborts: traffic.server_aborts.value(),
        };
        assert_eq!(counted, play.counted, "{}", play.name);
        // Whatever happened, what was lent has been given back.
        let lent = (scene.backend.farm().streams(), scene.backend.backend.sessions.value(), scene.worker.running.get());
        assert_eq!(lent, (0, 0, 0), "{}", play.name);
    })
    .await;
}

const GET: &str = "GET /a HTTP/1.1\r\nhost: a\r\n\r\n";
const POST: &str = "POST /a HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\n";
const POST_WHOLE: &str = "POST /a HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\nbody";
const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nab";
const LONG: &str = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n";
const VIA: &str = "GET /a HTTP/1.1\r\nhost: a\r\nVia: 1.1 tidegate\r\n\r\n";
const POST_VIA: &str = "POST /a HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\nVia: 1.1 tidegate\r\n\r\n";
const FRESH: &str = "HTTP/1.1 200 OK\r\ncache-control: max-age=100\r\ncontent-length: 2\r\n\r\nab";
const PRIVATE: &str = "HTTP/1.1 200 OK\r\ncache-control: no-store\r\ncontent-length: 2\r\n\r\nab";
const CHUNKS: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n";

const NONE: Counted =
    Counted { connects: 0, reuses: 0, retries: 0, response_errors: 0, client_aborts: 0, server_aborts: 0 };
const ONE: Counted = Counted { connects: 1, ..NONE };

#[rustfmt::skip]
static PLAYS: &[Play] = &[
    Play { name: "requests follow each other on both connections", lines: "", counted: Counted { reuses: 2, ..ONE }, steps: &[
        Says(GET), Opened(GET), Answers(OK), Hears(OK), Says(GET), Asked(GET), Answers(CHUNKS), Hears(CHUNKS),
        Says(GET), Asked(GET), Answers(OK), Hears(OK),
    ] },
    Play { name: "pipelined requests are answered in order", lines: "", counted: Counted { reuses: 1, ..ONE }, steps: &[
        Says(GET), Says(GET), Opened(GET), Answers(OK), Hears(OK), Asked(GET), Answers(CHUNKS), Hears(CHUNKS),
    ] },
    Play { name: "a client that asks for it is closed", lines: "", counted: ONE, steps: &[
        Says("GET /a HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"), Opened(GET), Answers(OK),
        Hears("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nab"), Over,
    ] },
    Play { name: "an old client gets no chunks", lines: "", counted: ONE, steps: &[
        Says("GET /a HTTP/1.0\r\nhost: a\r\n\r\n"), Opened("GET /a HTTP/1.0\r\nhost: a\r\nconnection: keep-alive\r\n\r\n"), Answers(CHUNKS),
        Hears("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nab"), Over,
    ] },
    Play { name: "an answer that ends with its connection", lines: "", counted: ONE, steps: &[
        Says(GET), Opened(GET), Answers("HTTP/1.1 200 OK\r\n\r\nabc"), Closes,
        Hears("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nabc"), Over,
    ] },
    Play { name: "answers without a body", lines: "", counted: Counted { reuses: 2, ..ONE }, steps: &[
        Says("HEAD /a HTTP/1.1\r\nhost: a\r\n\r\n"), Opened("HEAD /a HTTP/1.1\r\nhost: a\r\n\r\n"), Answers(LONG), Hears(LONG),
        Says(GET), Asked(GET), Answers("HTTP/1.1 204 No Content\r\n\r\n"), Hears("HTTP/1.1 204 No Content\r\n\r\n"),
        Says(GET), Asked(GET), Answers("HTTP/1.1 304 Not Modified\r\n\r\n"), Hears("HTTP/1.1 304 Not Modified\r\n\r\n"),
    ] },
    Play { name: "an interim answer comes before the one that counts", lines: "", counted: ONE, steps: &[
        Says(GET), Opened(GET), Answers("HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"),
        Hears("HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"), Answers(OK), Hears(OK),
    ] },
    Play { name: "a body that comes in pieces", lines: "", counted: ONE, steps: &[
        Says(POST), Says("bo"), Says("dy"), Opened(POST_WHOLE), Answers(OK), Hears(OK),
    ] },
    Play { name: "an answer comes before the body is whole", lines: "", counted: ONE, steps: &[
        Says("POST /a HTTP/1.1\r\nhost: a\r\ncontent-length: 40000\r\n\r\n"), Connected, Gets("POST /a HTTP/1.1\r\nhost: a\r\ncontent-length: 40000\r\n\r\n"),
        Answers(OK), Hears("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nab"), Over, Dropped,
    ] },
    Play { name: "a server that closed meanwhile is asked anew", lines: " http-reuse always\n retry-on all-retryable-errors", counted: Counted { connects: 2, ..ONE }, steps: &[
        Says(GET), Opened(GET), Answers(OK), Hears(OK), Closes, Says(GET), Opened(GET), Answers(OK), Hears(OK),
    ] },
    Play { name: "a request is sent again after no answer", lines: " retry-on empty-response", counted: Counted { connects: 2, retries: 2, ..NONE }, steps: &[
        Says(POST_WHOLE), Opened(POST_WHOLE), Closes, Opened(POST_WHOLE), Answers(OK), Hears(OK),
    ] },
    Play { name: "no answer is told of", lines: "", counted: Counted { response_errors: 1, ..ONE }, steps: &[
        Says(GET), Opened(GET), Closes, Page(502),
    ] },
    Play { name: "half a head is no answer", lines: "", counted: Counted { response_errors: 1, ..ONE }, steps: &[
        Says(GET), Opened(GET), Answers("HTTP/1.1 200 OK\r\ncont"), Closes, Page(502),
    ] },
    Play { name: "junk is no answer", lines: "", counted: Counted { response_errors: 1, ..ONE }, steps: &[
        Says(GET), Opened(GET), Answers("hello\r\n\r\n"), Page(502), Dropped,
    ] },
    Play { name: "a server that says nothing", lines: "", counted: Counted { response_errors: 1, ..ONE }, steps: &[
        Says(GET), Opened(GET), Page(504), Dropped,
    ] },
    Play { name: "a server that leaves within its body cuts the client off", lines: "", counted: Counted { response_errors: 1, server_aborts: 1, ..ONE }, steps: &[
        Says(GET), Opened(GET), Answers(LONG), Answers("abc"), Hears(LONG), Hears("abc"), Closes, Over,
    ] },
    Play { name: "a server that falls silent within its body cuts the client off", lines: "", counted: Counted { server_aborts: 1, ..ONE }, steps: &[
        Says(GET), Opened(GET), Answers(LONG), Answers("abc"), Hears(LONG), Hears("abc"), Over, Dropped,
    ] },
    Play { name: "a client that leaves before its head is whole", lines: "", counted: NONE, steps: &[Says("GET /a HT"), Leaves] },
    Play { name: "a client that leaves within its body", lines: "", counted: Counted { client_aborts: 1, ..ONE }, steps: &[
        Says(POST), Says("bo"), Connected, Gets(POST), Gets("bo"), Leaves, Dropped,
    ] },
    Play { name: "a client that leaves while it waits", lines: " option abortonclose", counted: Counted { client_aborts: 1, ..ONE }, steps: &[
        Says(GET), Opened(GET), Leaves, Dropped,
    ] },
    Play { name: "a client that only ends what it sends gets its answer", lines: "", counted: ONE, steps: &[
        Says(GET), Ends, Opened(GET), Answers(OK), Hears(OK), Over,
    ] },
    Play { name: "replies of rules keep the connection", lines: " http-request return status 200 content-type text/plain string no if { path /no }\n http-request deny if { path /never }", counted: ONE, steps: &[
        Says("GET /no HTTP/1.1\r\nhost: a\r\n\r\n"), Hears("HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-type: text/plain\r\n\r\nno"),
        Says("GET /never HTTP/1.1\r\nhost: a\r\n\r\n"), Page(403), Says(GET), Opened(GET), Answers(OK), Hears(OK),
    ] },
    Play { name: "a reply to a request whose body is not whole ends the connection", lines: " http-request deny", counted: NONE, steps: &[
        Says(POST), Page(403), Over,
    ] },
    Play { name: "a body that came whole is dropped with its reply", lines: " http-request deny if { path /a }", counted: ONE, steps: &[
        Says(POST_WHOLE), Page(403), Says("GET /b HTTP/1.1\r\nhost: a\r\n\r\n"), Opened("GET /b HTTP/1.1\r\nhost: a\r\n\r\n"), Answers(OK), Hears(OK),
    ] },
    Play { name: "bodies larger than all buffers, both ways", lines: "", counted: Counted { reuses: 1, ..ONE }, steps: &[
        Says("POST /a HTTP/1.1\r\nhost: a\r\ncontent-length: 300000\r\n\r\n"), Connected, Gets("POST /a HTTP/1.1\r\nhost: a\r\ncontent-length: 300000\r\n\r\n"),
        Uploads(300_000), Answers("HTTP/1.1 200 OK\r\ncontent-length: 500000\r\n\r\n"), Hears("HTTP/1.1 200 OK\r\ncontent-length: 500000\r\n\r\n"),
        Streams(500_000), Says(GET), Asked(GET), Answers(OK), Hears(OK),
    ] },
    Play { name: "a client that leaves within a large answer", lines: "", counted: Counted { client_aborts: 1, ..ONE }, steps: &[
        Says(GET), Opened(GET), Answers("HTTP/1.1 200 OK\r\ncontent-length: 5000000\r\n\r\n"), Hears("HTTP/1.1 200 OK\r\ncontent-length: 5000000\r\n\r\n"),
        Streams(200_000), Leaves, Answers("more"), Dropped,
    ] },
    Play { name: "what a cache has is not asked for", lines: " shared-cache", counted: ONE, steps: &[
        Says(GET), Opened(VIA), Answers(FRESH), Body(200, "ab"), Says(GET), Body(200, "ab"), As(1), Says(GET), Body(200, "ab"),
    ] },
    Play { name: "what a cache may not keep is asked for each time", lines: " shared-cache", counted: Counted { reuses: 1, ..ONE }, steps: &[
        Says(GET), Opened(VIA), Answers(PRIVATE), Body(200, "ab"), Says(GET), Asked(VIA), Answers(PRIVATE), Body(200, "ab"),
    ] },
    Play { name: "a cache passes what changes something", lines: " shared-cache", counted: ONE, steps: &[
        Says(POST), Connected, Gets(POST_VIA), Says("body"), Gets("body"), Answers(OK), Body(200, "ab"),
    ] },
    Play { name: "a client that leaves while it waits takes nothing from the next", lines: " shared-cache", counted: Counted { client_aborts: 1, ..ONE }, steps: &[
        Says(GET), Opened(VIA), As(1), Says(GET), As(0), Leaves, As(1), Answers(FRESH), Body(200, "ab"), Says(GET), Body(200, "ab"),
    ] },
    Play { name: "several clients wait for one fetch that fails", lines: " shared-cache", counted: Counted { response_errors: 1, ..ONE }, steps: &[
        Says(GET), Opened(VIA), As(1), Says(GET), Closes, As(0), Page(502), As(1), Page(502),
    ] },
    Play { name: "a server that leaves within the body of what is cached", lines: " shared-cache", counted: Counted { connects: 2, response_errors: 1, server_aborts: 1, ..NONE }, steps: &[
        Says(GET), Opened(VIA), Answers("HTTP/1.1 200 OK\r\ncache-control: max-age=100\r\ncontent-length: 10\r\n\r\nabc"), Closes, As(1), Says(GET), Opened(VIA),
        Answers(FRESH), Body(200, "ab"),
    ] },
    Play { name: "what is no request is told so", lines: "", counted: NONE, steps: &[Says("hello\r\n\r\n"), Page(400), Over] },
];

#[tokio::test(start_paused = true)]
async fn the_request_path_scene_by_scene() {
    for play in PLAYS {
        run(play).await;
    }
}
