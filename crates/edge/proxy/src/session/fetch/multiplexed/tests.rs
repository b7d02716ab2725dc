//! Exchanges on connections of HTTP/2, with scripted servers in virtual time.

use std::future::poll_fn;

use h2::{ErrorCode, Event, ServerConnection, Settings, StreamKey};
use http::{Limits, RequestHead, ResponseHead, Version};
use net::Stream;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    task::yield_now,
};

use crate::session::{
    body::{Sink as _, Source as _},
    fetch::{
        Answer, AnswerBody, HeadEnd, Unfetched,
        tests::{fetch, pull},
    },
    scene::Scene,
};

/// A server that is told what to do.
pub(in crate::session) struct Server {
    stream: Stream,
    pub(in crate::session) machine: ServerConnection,
    received: Vec<u8>,
    heads: RequestHead,
    keys: Vec<StreamKey>,
}

impl Server {
    pub(in crate::session) async fn accept(scene: &Scene) -> Self {
        let (_, stream) = scene.accept().await;
        let machine = ServerConnection::new(Settings::default(), Limits::default());
        Self { stream, machine, received: Vec::new(), heads: RequestHead::new(), keys: Vec::new() }
    }

    /// What comes next: `GET /a`, `DATA 1 abc`, `TRAILERS 1 a: b`, `RESET 1 CANCEL`, or `CLOSED`.
    pub(in crate::session) async fn hear(&mut self) -> String {
        loop {
            let mut used = 0;
            let event = self.machine.next(&self.received, &mut used, &mut self.heads).unwrap();
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let heard = match event {
                Some(Event::Request(key)) => {
                    self.keys.push(key);
                    Some(format!("{} {}", text(self.heads.method()), text(self.heads.target())))
                }
                Some(Event::Data { stream, from, to, ends }) => {
                    self.machine.consumed(stream, to - from);
                    let end = if ends { " end" } else { "" };
                    Some(format!("DATA {}{end} {}", stream.id(), text(&self.received[from..to])))
                }
                Some(Event::Trailers(stream)) => {
                    Some(format!("TRAILERS {} {}", stream.id(), text(self.machine.trailers()).trim_end()))
                }
                Some(Event::Reset { stream, code, .. }) => {
                    self.machine.release(stream, ErrorCode::CANCEL);
                    Some(format!("RESET {} {}", stream.id(), code.name()))
                }
                Some(other) => panic!("{other:?}"),
                None => None,
            };
            self.received.drain(..used);
            self.flush().await;
            if let Some(heard) = heard {
                return heard;
            }
            if self.stream.read_buf(&mut self.received).await.unwrap_or(0) == 0 {
                return "CLOSED".to_owned();
            }
        }
    }

    pub(in crate::session) async fn flush(&mut self) {
        let mut out = Vec::new();
        self.machine.take_output(&mut out);
        self.machine.note_unsent(0);
        let _ = self.stream.write_all(&out).await;
    }

    pub(in crate::session) fn key(&self, stream: u32) -> StreamKey {
        *self.keys.iter().find(|key| key.id() == stream).unwrap()
    }

    pub(in crate::session) async fn head(&mut self, stream: u32, status: u16, fields: &[(&str, &str)]) {
        let mut head = ResponseHead::new();
        head.start(Version::Http11, status);
        for (name, value) in fields {
            head.headers.add(name.as_bytes(), value.as_bytes());
        }
        self.machine.send_head(self.key(stream), &head, false);
        self.flush().await;
    }

    pub(in crate::session) async fn data(&mut self, stream: u32, data: &[u8]) -> usize {
        self.machine.next_sendable();
        let sent = self.machine.send_data(self.key(stream), data, false);
        self.flush().await;
        sent
    }

    pub(in crate::session) async fn end(&mut self, stream: u32) {
        self.machine.end(self.key(stream));
        self.machine.release(self.key(stream), ErrorCode::CANCEL);
        self.flush().await;
    }

    pub(in crate::session) async fn answer(&mut self, stream: u32, body: &str) {
        self.head(stream, 200, &[("content-length", &body.len().to_string())]).await;
        self.data(stream, body.as_bytes()).await;
        self.end(stream).await;
    }

    pub(in crate::session) async fn refuse(&mut self, stream: u32, code: ErrorCode) {
        self.machine.release(self.key(stream), code);
        self.flush().await;
    }
}

/// A backend whose requests go to a server of HTTP/2.
async fn run<F: Future<Output = ()>>(lines: &str, play: impl FnOnce(std::rc::Rc<Scene>) -> F) {
    Scene::run_with("proto h2 maxconn 9", lines, play).await;
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: example.com\r\n\r\n")
}

async fn settled() {
    for _ in 0..20 {
        yield_now().await;
    }
}

async fn body_of(scene: &Scene, request: &str, body: &str) -> Result<String, Unfetched> {
    let mut exchange = scene.exchange_of_nobody(request);
    let mut answer = scene.worker.clocked(fetch(scene, &mut exchange, body)).await?;
    let body = pull_all(&exchange, &mut answer).await;
    drop(answer);
    Ok(format!("{} {body}", exchange.response.status()))
}

async fn pull_all(exchange: &crate::session::transaction::Transaction, answer: &mut Answer<'_>) -> String {
    match pull(exchange, answer).await {
        Ok(body) => body,
        Err(why) => format!("{why:?}"),
    }
}

fn slots(scene: &Scene) -> u64 {
    scene.backend.servers.named("s1").unwrap().side.sessions.value()
}

/// Connections, idle ones, those opened, requests that went over one that stood.
fn counts(scene: &Scene) -> (u64, u64, u64, u64) {
    let server = scene.backend.servers.named("s1").unwrap();
    let traffic = scene.traffic();
    (server.connections.value(), server.idle.value(), traffic.connects.value(), traffic.reuses.value())
}

#[tokio::test(start_paused = true)]
async fn one_connection_carries_several_exchanges() {
    run("", |scene| async move {
        let script = async {
            let mut server = Server::accept(&scene).await;
            assert_eq!(server.hear().await, "GET /1");
            let mut text = Vec::new();
            server.heads.write_to(&mut text);
            assert_eq!(String::from_utf8(text).unwrap(), get("/1"));
            assert_eq!((server.hear().await, server.hear().await), ("GET /2".to_owned(), "GET /3".to_owned()));
            assert_eq!(slots(&scene), 3);
            // In whatever order.
            server.head(3, 103, &[("link", "x")]).await;
            server.answer(5, "three").await;
            server.answer(3, "two").await;
            settled().await;
            assert_eq!((slots(&scene), counts(&scene).1), (1, 0));
            server.answer(1, "one").await;
            settled().await;
            assert_eq!(counts(&scene), (1, 1, 1, 2), "idle now");
            assert_eq!(server.hear().await, "GET /4");
            assert_eq!(counts(&scene), (1, 0, 1, 3));
            server.answer(7, "four").await;
            server
        };
        let asking = async {
            let first = async {
                assert_eq!(body_of(&scene, &get("/1"), "").await.unwrap(), "200 one");
            };
            let others = async {
                settled().await;
                let (two, three) = (get("/2"), get("/3"));
                let both = tokio::join!(body_of(&scene, &two, ""), body_of(&scene, &three, ""));
                assert_eq!((both.0.unwrap(), both.1.unwrap()), ("200 two".to_owned(), "200 three".to_owned()));
            };
            tokio::join!(first, others);
            settled().await;
            assert_eq!(body_of(&scene, &get("/4"), "").await.unwrap(), "200 four");
        };
        let (mut server, ()) = tokio::join!(script, asking);
        settled().await;
        scene.worker.servers.borrow_mut().clear();
        assert_eq!(server.hear().await, "CLOSED");
        settled().await;
        assert_eq!(counts(&scene), (0, 0, 1, 3));
        assert_eq!(slots(&scene), 0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn bodies_and_trailers_go_both_ways() {
    const POST: &str = "POST /p HTTP/1.1\r\nhost: a\r\nte: trailers\r\ntransfer-encoding: chunked\r\n\r\n";
    run("", |scene| async move {
        let script = async {
            let mut server = Server::accept(&scene).await;
            assert_eq!(server.hear().await, "POST /p");
            assert_eq!(server.hear().await, "DATA 1 hello");
            assert_eq!(server.hear().await, "TRAILERS 1 x-sum: 5");
            server.head(1, 200, &[("content-type", "application/grpc")]).await;
            server.data(1, b"abc").await;
            server.machine.send_trailers(server.key(1), b"grpc-status: 0\r\n");
            server.machine.release(server.key(1), ErrorCode::CANCEL);
            server.flush().await;
            server
        };
        let chunks = "5\r\nhello\r\n0\r\nx-sum: 5\r\n\r\n";
        let (_server, body) = tokio::join!(script, body_of(&scene, POST, chunks));
        assert_eq!(body.unwrap(), "200 3\r\nabc\r\n0\r\ngrpc-status: 0\r\n\r\n");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_the_server_has_not_begun_is_asked_again() {
    const POST: &str = "POST /p HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\n";
    run("http-reuse always", |scene| async move {
        let script = async {
            let mut server = Server::accept(&scene).await;
            assert_eq!(server.hear().await, "GET /1");
            server.answer(1, "one").await;
            assert_eq!((server.hear().await, server.hear().await), ("POST /p".to_owned(), "DATA 3 end abc".to_owned()));
            server.refuse(3, ErrorCode::REFUSED_STREAM).await;
            let mut second = Server::accept(&scene).await;
            assert_eq!((second.hear().await, second.hear().await), ("POST /p".to_owned(), "DATA 1 end abc".to_owned()));
            second.answer(1, "two").await;
            // It leaves: what is on its way is answered, and the next request goes elsewhere.
            second.machine.leave();
            second.flush().await;
            assert_eq!(second.hear().await, "CLOSED");
            assert_eq!(server.hear().await, "GET /3");
            // This one leaves with a request that it has not seen.
            let goaway = [0, 0, 8, h2::frame::kind::GOAWAY, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0];
            server.stream.write_all(&goaway).await.unwrap();
            let mut third = Server::accept(&scene).await;
            assert_eq!(third.hear().await, "GET /3");
            third.answer(1, "three").await;
            (server, third)
        };
        let asking = async {
            assert_eq!(body_of(&scene, &get("/1"), "").await.unwrap(), "200 one");
            assert_eq!(body_of(&scene, POST, "abc").await.unwrap(), "200 two");
            settled().await;
            assert_eq!(body_of(&scene, &get("/3"), "").await.unwrap(), "200 three");
        };
        tokio::join!(script, asking);
        assert_eq!(scene.traffic().response_errors.value(), 0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn streams_and_connections_that_break() {
    run("", |scene| async move {
        let script = async {
            let mut server = Server::accept(&scene).await;
            for (path, code) in [("GET /1", ErrorCode::INTERNAL_ERROR), ("GET /2", ErrorCode::CANCEL)] {
                assert_eq!(server.hear().await, path);
                let stream = server.keys.last().unwrap().id();
                if stream == 3 {
                    server.head(stream, 200, &[("content-length", "9")]).await;
                    server.data(stream, b"some").await;
                }
                server.refuse(stream, code).await;
            }
            assert_eq!(server.hear().await, "GET /3");
            server.head(5, 200, &[("connection", "close"), ("content-length", "1")]).await;
            server.data(5, b"more than that").await;
            assert_eq!(server.hear().await, "RESET 5 PROTOCOL_ERROR");
            assert_eq!(server.hear().await, "GET /4");
            // It closes a connection that stood just when a request comes.
            drop(server);
            let mut server = Server::accept(&scene).await;
            assert_eq!(server.hear().await, "GET /4");
            drop(server);
        };
        let asking = async {
            let first = body_of(&scene, &get("/1"), "").await;
            assert!(matches!(first, Err(Unfetched::NoResponse { end: HeadEnd::Broken, .. })));
            let second = body_of(&scene, &get("/2"), "").await.unwrap();
            assert!(second.starts_with("200 Receive"), "{second}");
            let third = body_of(&scene, &get("/3"), "").await;
            assert!(matches!(&third, Ok(text) if text.contains("Receive")), "{third:?}");
            let fourth = body_of(&scene, &get("/4"), "").await;
            assert!(matches!(fourth, Err(Unfetched::NoResponse { end: HeadEnd::Empty, .. })));
        };
        tokio::join!(script, asking);
        settled().await;
        let (connections, idle, connects, _) = counts(&scene);
        assert_eq!((connections, idle, connects), (0, 0, 2));
        assert_eq!(slots(&scene), 0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn who_reads_slowly_stalls_nobody_else() {
    run("", |scene| async move {
        let body = vec![b'x'; 500_000];
        let script = async {
            let mut server = Server::accept(&scene).await;
            assert_eq!(server.hear().await, "GET /slow");
            server.head(1, 200, &[("content-length", "500000")]).await;
            let mut sent = 0;
            loop {
                let more = server.data(1, &body[sent..]).await;
                sent += more;
                settled().await;
                if more == 0 {
                    break;
                }
            }
            assert_eq!(sent, 65_535, "its window");
            for number in 0..5 {
                assert_eq!(server.hear().await, format!("GET /{number}"));
                server.answer(3 + number * 2, &"y".repeat(60_000)).await;
            }
            assert_eq!(server.hear().await, "RESET 1 CANCEL");
            // The connection goes on.
            assert_eq!(server.hear().await, "GET /last");
            server.answer(13, "last").await;
            server
        };
        let asking = async {
            let mut exchange = scene.exchange_of_nobody(&get("/slow"));
            let slow = scene.worker.clocked(fetch(&scene, &mut exchange, "")).await.ok().unwrap();
            settled().await;
            for number in 0..5 {
                let body = body_of(&scene, &get(&format!("/{number}")), "").await.unwrap();
                assert_eq!(body.len(), 60_004);
            }
            drop(slow);
            assert_eq!(body_of(&scene, &get("/last"), "").await.unwrap(), "200 last");
        };
        tokio::join!(script, asking);
        assert_eq!(counts(&scene).2, 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn some_connections_are_not_shared() {
    run("http-reuse never", |scene| async move {
        let script = async {
            for number in 0..2 {
                let mut server = Server::accept(&scene).await;
                assert_eq!(server.hear().await, format!("GET /{number}"));
                server.answer(1, "alone").await;
                assert_eq!(server.hear().await, "CLOSED");
            }
        };
        let asking = async {
            for number in 0..2 {
                assert_eq!(body_of(&scene, &get(&format!("/{number}")), "").await.unwrap(), "200 alone");
            }
        };
        tokio::join!(script, asking);
        settled().await;
        assert_eq!(counts(&scene), (0, 0, 2, 0));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn requests_that_come_together_open_one_connection() {
    run("", |scene| async move {
        let script = async {
            let mut server = Server::accept(&scene).await;
            for number in 0..5 {
                assert_eq!(server.hear().await, "GET /");
                server.answer(1 + number * 2, "together").await;
            }
            server
        };
        let (request, scene_here) = (get("/"), &scene);
        let asking = async {
            let ask = || body_of(scene_here, &request, "");
            let answers = tokio::join!(ask(), ask(), ask(), ask(), ask());
            for answer in [answers.0, answers.1, answers.2, answers.3, answers.4] {
                assert_eq!(answer.unwrap(), "200 together");
            }
        };
        tokio::join!(script, asking);
        assert_eq!(counts(&scene).2, 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_always_leaves_after_so_many_is_not_sent_more() {
    run("", |scene| async move {
        let script = async {
            let mut stays = Vec::new();
            for connection in 0..4 {
                let mut server = Server::accept(&scene).await;
                for stream in [1, 3] {
                    assert!(server.hear().await.starts_with("GET"));
                    server.answer(stream, "x").await;
                }
                if connection < 3 {
                    server.machine.leave();
                    server.flush().await;
                }
                stays.push(server);
            }
            stays
        };
        let asking = async {
            for _ in 0..8 {
                assert_eq!(body_of(&scene, &get("/"), "").await.unwrap(), "200 x");
                settled().await;
            }
        };
        let (_servers, ()) = tokio::join!(script, asking);
        // The last one has not left, and gets no third request all the same.
        let script = async {
            let mut server = Server::accept(&scene).await;
            assert_eq!(server.hear().await, "GET /");
            server.answer(1, "y").await;
            server
        };
        let (request, _) = (get("/"), ());
        let (_server, body) = tokio::join!(script, body_of(&scene, &request, ""));
        assert_eq!(body.unwrap(), "200 y");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_leads_nowhere_is_given_up() {
    run("", |scene| async move {
        let script = async {
            let mut silent = Server::accept(&scene).await;
            assert_eq!(silent.hear().await, "GET /1");
            // No answer: it is reset after 'timeout server'. What is asked meanwhile and later goes elsewhere.
            assert_eq!(silent.hear().await, "RESET 1 CANCEL");
            let mut second = Server::accept(&scene).await;
            assert_eq!(second.hear().await, "GET /2");
            second.answer(1, "two").await;
            (silent, second)
        };
        let asking = async {
            let first = body_of(&scene, &get("/1"), "").await;
            assert!(matches!(first, Err(Unfetched::NoResponse { end: HeadEnd::Timeout, .. })));
            assert_eq!(body_of(&scene, &get("/2"), "").await.unwrap(), "200 two");
        };
        let ((mut silent, _second), ()) = tokio::join!(script, asking);
        // A PING is not answered either.
        silent.received.clear();
        let mut rest = Vec::new();
        while silent.stream.read_buf(&mut rest).await.unwrap() > 0 {}
        settled().await;
        assert_eq!(counts(&scene).0, 1);
    })
    .await;
}

const HANDSHAKE: &str = "GET /chat HTTP/1.1\r\nhost: example.com\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                         sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n\r\n";

#[tokio::test(start_paused = true)]
async fn websockets_go_by_connect() {
    run("", |scene| async move {
        let script = async {
            let mut server = Server::accept(&scene).await;
            let settings = Settings { knows_protocols: true, ..Settings::default() };
            server.machine = ServerConnection::new(settings, Limits::default());
            server.flush().await;
            assert_eq!(server.hear().await, "GET /chat");
            assert_eq!(server.machine.pseudo_fields().protocol(), b"websocket");
            assert!(!server.heads.headers.contains(b"sec-websocket-key"));
            server.head(1, 200, &[("sec-websocket-protocol", "chat")]).await;
            server.data(1, b"hello").await;
            assert_eq!(server.hear().await, "DATA 1 world");
            server.end(1).await;
            server
        };
        let asking = async {
            let mut exchange = scene.exchange_of_nobody(HANDSHAKE);
            let answer = scene.worker.clocked(fetch(&scene, &mut exchange, "")).await.ok().unwrap();
            let response = &exchange.response;
            assert_eq!((response.status(), answer.length), (101, http::BodyLength::None));
            let accept = response.headers.first(b"sec-websocket-accept");
            assert_eq!(accept, Some(&b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="[..]));
            assert!(
                http::switches_protocols(&response.headers) && response.headers.contains(b"sec-websocket-protocol")
            );
            let AnswerBody::Server { mut upstream, .. } = answer.body else { panic!() };
            let codec = &mut upstream.connection.codec;
            let sent = poll_fn(|context| codec.poll_send(b"world", context)).await.unwrap();
            assert_eq!(sent, 5);
            let mut heard = codec.received().to_vec();
            codec.consume(heard.len());
            while poll_fn(|context| codec.poll_receive(context)).await.unwrap() > 0 {
                heard.extend_from_slice(codec.received());
                codec.consume(codec.received().len());
            }
            assert_eq!(heard, b"hello");
        };
        tokio::join!(script, asking);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_knows_no_websockets_is_not_asked_for_one() {
    run("", |scene| async move {
        let script = async {
            let mut server = Server::accept(&scene).await;
            server.flush().await;
            assert_eq!(server.hear().await, "GET /else");
            server.answer(1, "x").await;
            server
        };
        let asking = async {
            let refused = body_of(&scene, HANDSHAKE, "").await;
            assert!(matches!(refused, Err(Unfetched::NoResponse { end: HeadEnd::Junk, .. })));
            assert_eq!(body_of(&scene, &get("/else"), "").await.unwrap(), "200 x");
        };
        tokio::join!(script, asking);
    })
    .await;
}
