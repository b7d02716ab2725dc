//! Connections of HTTP/2 in virtual time, with a scripted client and scripted servers.

mod trailers;

use std::{rc::Rc, sync::Arc, time::Duration};

use h2::{
    ErrorCode,
    frame::{self, FrameHeader, HEADER_LEN, flag, kind},
    hpack::{Decoder, Encoder, HeaderLimits, Indexing},
};
use net::Stream;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    task::{JoinHandle, spawn_local, yield_now},
    time::advance,
};

use crate::{
    registry::Order,
    session::{
        self,
        scene::{Scene, receive},
        websocket,
    },
};

/// A client that writes frames and reads them.
struct Client {
    stream: Stream,
    encoder: Encoder,
    decoder: Decoder,
    received: Vec<u8>,
    serving: JoinHandle<()>,
}

/// What the client hears, as text: `HEADERS 1 end :status=200 ...`, `DATA 1 abc`, `RST_STREAM 1 CANCEL`, `GOAWAY 3 NO_ERROR`.
type Heard = String;

impl Client {
    async fn connect(scene: &Scene) -> Self {
        let (stream, arrival) = scene.client_speaking("h2");
        let (worker, instance) = (Rc::clone(&scene.worker), Arc::clone(&scene.instance));
        let serving = session::serve(Rc::clone(&worker), instance, Arc::clone(&scene.frontend), 0, arrival);
        let serving = spawn_local(worker.clocked(serving));
        let (encoder, decoder) = (Encoder::new(), Decoder::new(4_096));
        let mut client = Self { stream, encoder, decoder, received: Vec::new(), serving };
        client.stream.write_all(frame::PREFACE).await.unwrap();
        client.send(kind::SETTINGS, 0, 0, b"").await;
        client
    }

    async fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let mut bytes = Vec::new();
        FrameHeader { length: u32::try_from(payload.len()).unwrap(), kind, flags, stream }.write(&mut bytes);
        bytes.extend_from_slice(payload);
        self.stream.write_all(&bytes).await.unwrap();
    }

    async fn fields(&mut self, stream: u32, fields: &[(&str, &str)], ends: bool) {
        let mut block = Vec::new();
        self.encoder.begin(&mut block);
        for (name, value) in fields {
            self.encoder.field(&mut block, name.as_bytes(), value.as_bytes(), Indexing::Index);
        }
        let flags = flag::END_HEADERS | if ends { flag::END_STREAM } else { 0 };
        self.send(kind::HEADERS, flags, stream, &block).await;
    }

    async fn ask(&mut self, stream: u32, method: &str, path: &str, ends: bool) {
        let fields = [(":method", method), (":scheme", "http"), (":authority", "a"), (":path", path)];
        self.fields(stream, &fields, ends).await;
    }

    /// The next frame that is neither SETTINGS, WINDOW_UPDATE nor PING; `None` at the end.
    async fn hear(&mut self) -> Option<Heard> {
        loop {
            while let Some((header, rest)) = self.received.split_first_chunk::<HEADER_LEN>() {
                let header = FrameHeader::read(*header);
                let length = header.length as usize;
                if rest.len() < length {
                    break;
                }
                let payload = rest[..length].to_vec();
                self.received.drain(..HEADER_LEN + length);
                if let Some(heard) = self.text(header, &payload) {
                    return Some(heard);
                }
            }
            if self.stream.read_buf(&mut self.received).await.unwrap_or(0) == 0 {
                return None;
            }
        }
    }

    fn text(&mut self, header: FrameHeader, payload: &[u8]) -> Option<Heard> {
        let (stream, ends) = (header.stream, if header.has(flag::END_STREAM) { " end" } else { "" });
        let code = |bytes: &[u8]| ErrorCode(u32::from_be_bytes(bytes.try_into().unwrap())).name();
        match header.kind {
            kind::HEADERS => {
                let mut text = format!("HEADERS {stream}{ends}");
                let limits = HeaderLimits { fields: 100, bytes: 10_000 };
                let decoded = self.decoder.decode(payload, &limits, |field| {
                    let (name, value) = (String::from_utf8_lossy(field.name), String::from_utf8_lossy(field.value));
                    text.push_str(&format!(" {name}={value}"));
                    Ok::<(), ()>(())
                });
                decoded.unwrap();
                Some(text)
            }
            kind::DATA => Some(format!("DATA {stream}{ends} {}", String::from_utf8_lossy(payload))),
            kind::RST_STREAM => Some(format!("RST_STREAM {stream} {}", code(payload))),
            kind::GOAWAY => {
                let last = u32::from_be_bytes(payload[..4].try_into().unwrap());
                Some(format!("GOAWAY {last} {}", code(&payload[4..8])))
            }
            _ => None,
        }
    }

    async fn expect(&mut self, expected: &str) {
        assert_eq!(self.hear().await.as_deref(), Some(expected));
    }
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nab";

#[tokio::test(start_paused = true)]
async fn exchanges_of_one_connection_do_not_wait_for_each_other() {
    Scene::run("", |scene| async move {
        let mut client = Client::connect(&scene).await;
        client.ask(1, "GET", "/1", true).await;
        let (mut first, request) = scene.served().await;
        assert_eq!(request, "GET /1 HTTP/1.1\r\nhost: a\r\n\r\n");
        client.ask(3, "GET", "/3", true).await;
        let (mut second, _) = scene.served().await;
        assert_eq!((scene.backend.farm().streams(), scene.worker.registry.open()), (2, 3));
        second.write_all(OK).await.unwrap();
        client.expect("HEADERS 3 :status=200 content-length=2").await;
        client.expect("DATA 3 end ab").await;
        first.write_all(b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n").await.unwrap();
        client.expect("HEADERS 1 :status=103 link=x").await;
        first.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
        client.expect("HEADERS 1 end :status=204").await;
        drop(client.stream);
        client.serving.await.unwrap();
        assert_eq!((scene.backend.farm().streams(), scene.worker.registry.open()), (0, 0));
        assert_eq!(scene.frontend.frontend.traffic.of(0).requests.value(), 2);
    })
    .await;
}

/// One with a body is begun once more of what has come was read; others may come in between.
#[tokio::test(start_paused = true)]
async fn requests_that_come_in_one_piece_are_all_served() {
    Scene::run("", |scene| async move {
        let mut client = Client::connect(&scene).await;
        for stream in [1, 3, 7] {
            client.ask(stream, "POST", &format!("/{stream}"), false).await;
        }
        client.ask(9, "GET", "/9", true).await;
        for stream in [7, 1, 3] {
            client.send(kind::DATA, flag::END_STREAM, stream, b"0123456789").await;
        }
        let mut paths = Vec::new();
        let mut servers = Vec::new();
        for _ in 0..4 {
            let (server, request) = scene.served().await;
            paths.push(request.split(' ').nth(1).unwrap().to_owned());
            servers.push(server);
        }
        paths.sort_unstable();
        assert_eq!(paths, ["/1", "/3", "/7", "/9"]);
        for mut server in servers {
            server.write_all(OK).await.unwrap();
        }
        let mut ended = Vec::new();
        while ended.len() < 4 {
            ended.extend(client.hear().await.unwrap().strip_suffix(" end ab").map(str::to_owned));
        }
        ended.sort_unstable();
        assert_eq!(ended, ["DATA 1", "DATA 3", "DATA 7", "DATA 9"]);
    })
    .await;
}

/// Whoever has several exchanges on a connection cannot take the end of one for a wish to be asked again.
#[tokio::test(start_paused = true)]
async fn who_asks_a_server_that_is_about_to_close_is_told() {
    Scene::run("", |scene| async move {
        let mut client = Client::connect(&scene).await;
        client.ask(1, "GET", "/1", true).await;
        let (mut server, _) = scene.served().await;
        server.write_all(OK).await.unwrap();
        client.expect("HEADERS 1 :status=200 content-length=2").await;
        client.expect("DATA 1 end ab").await;
        client.ask(3, "POST", "/3", true).await;
        assert!(receive(&mut server).await.starts_with("POST /3"));
        drop(server);
        let heard = client.hear().await.unwrap();
        assert!(heard.starts_with("HEADERS 3 :status=502"), "{heard}");
    })
    .await;
}

/// As gRPC has it: trailers both ways, around bodies without a length.
#[tokio::test(start_paused = true)]
async fn trailers_go_both_ways() {
    Scene::run("", |scene| async move {
        let mut client = Client::connect(&scene).await;
        client.ask(1, "POST", "/call", false).await;
        let (mut server, _) = scene.served().await;
        client.send(kind::DATA, 0, 1, b"ping").await;
        let mut chunk = [0; 9];
        server.read_exact(&mut chunk).await.unwrap();
        assert_eq!(&chunk, b"4\r\nping\r\n");
        server.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\npong\r\n").await.unwrap();
        client.expect("HEADERS 1 :status=200").await;
        client.expect("DATA 1 pong").await;
        client.fields(1, &[("x-sum", "1")], true).await;
        let mut end = [0; 15];
        server.read_exact(&mut end).await.unwrap();
        assert_eq!(std::str::from_utf8(&end).unwrap(), "0\r\nx-sum: 1\r\n\r\n");
        server.write_all(b"0\r\ngrpc-status: 0\r\n\r\n").await.unwrap();
        client.expect("HEADERS 1 end grpc-status=0").await;
        assert_eq!(scene.worker.registry.open(), 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_reset_frees_its_server() {
    Scene::run("", |scene| async move {
        let mut client = Client::connect(&scene).await;
        for (stream, ends) in [(1, true), (3, false)] {
            client.ask(stream, "POST", "/", ends).await;
            let (mut server, _) = scene.served().await;
            assert_eq!(scene.backend.farm().streams(), 1);
            client.send(kind::RST_STREAM, 0, stream, &8u32.to_be_bytes()).await;
            assert_eq!(server.read(&mut [0; 100]).await.unwrap(), 0, "the server's connection ends");
            assert_eq!(scene.backend.farm().streams(), 0);
        }
        client.ask(5, "GET", "/", true).await;
        scene.served().await.0.write_all(OK).await.unwrap();
        client.expect("HEADERS 5 :status=200 content-length=2").await;
        assert_eq!(scene.traffic().client_aborts.value(), 2);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_body_that_nobody_reads_is_not_waited_for() {
    Scene::run(" http-request deny", |scene| async move {
        let mut client = Client::connect(&scene).await;
        for stream in (1..60).step_by(2) {
            client.ask(stream, "POST", "/", false).await;
            client.send(kind::DATA, 0, stream, &[b'x'; 16_000]).await;
            let head = client.hear().await.unwrap();
            assert!(head.starts_with(&format!("HEADERS {stream} :status=403")), "{head}");
            assert!(client.hear().await.unwrap().starts_with(&format!("DATA {stream} end ")));
            client.expect(&format!("RST_STREAM {stream} NO_ERROR")).await;
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_breaks_off_breaks_off_the_stream_alone() {
    Scene::run("", |scene| async move {
        let mut client = Client::connect(&scene).await;
        client.ask(1, "GET", "/", true).await;
        let (mut server, _) = scene.served().await;
        server.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc").await.unwrap();
        client.expect("HEADERS 1 :status=200 content-length=10").await;
        client.expect("DATA 1 abc").await;
        drop(server);
        client.expect("RST_STREAM 1 INTERNAL_ERROR").await;
        client.ask(3, "GET", "/", true).await;
        scene.served().await.0.write_all(OK).await.unwrap();
        client.expect("HEADERS 3 :status=200 content-length=2").await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_what_is_in_flight_first() {
    Scene::run("", |scene| async move {
        let mut client = Client::connect(&scene).await;
        client.ask(1, "GET", "/", true).await;
        let (mut server, _) = scene.served().await;
        scene.worker.draining.set(true);
        scene.worker.tell(Order::Finish, |_| true);
        client.expect("GOAWAY 2147483647 NO_ERROR").await;
        // This one was on its way.
        client.ask(3, "GET", "/", true).await;
        let (mut second, _) = scene.served().await;
        client.expect("GOAWAY 3 NO_ERROR").await;
        client.ask(5, "GET", "/", true).await;
        for server in [&mut server, &mut second] {
            server.write_all(OK).await.unwrap();
            client.hear().await.unwrap();
            assert!(client.hear().await.unwrap().ends_with("end ab"));
        }
        assert_eq!(client.hear().await, None, "nothing comes of the stream behind the last one");
        client.serving.await.unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn silent_connections_end() {
    Scene::run("", |scene| async move {
        let mut idle = Client::connect(&scene).await;
        let mut expecting = Client::connect(&scene).await;
        expecting.send(kind::HEADERS, flag::END_STREAM, 1, b"\x82").await;
        let mut used = Client::connect(&scene).await;
        used.ask(1, "GET", "/", true).await;
        scene.served().await.0.write_all(OK).await.unwrap();
        used.hear().await.unwrap();
        used.hear().await.unwrap();
        advance(Duration::from_secs(3_601)).await;
        for client in [&mut idle, &mut expecting] {
            client.expect("GOAWAY 0 NO_ERROR").await;
        }
        used.expect("GOAWAY 1 NO_ERROR").await;
        for client in [idle, expecting, used] {
            client.serving.await.unwrap();
        }
    })
    .await;
}

/// What a client does not read of a hundred answers at a time is bounded, for all of them together.
#[tokio::test(start_paused = true)]
async fn slow_readers_of_many_streams_cost_little() {
    Scene::run("", |scene| async move {
        let mut client = Client::connect(&scene).await;
        let large = [&4u16.to_be_bytes()[..], &0x7fff_ffffu32.to_be_bytes()].concat();
        client.send(kind::SETTINGS, 0, 0, &large).await;
        client.send(kind::WINDOW_UPDATE, 0, 0, &0x7f00_0000u32.to_be_bytes()).await;
        let mut servers = Vec::new();
        for number in 0..100 {
            client.ask(2 * number + 1, "GET", "/", true).await;
            servers.push(scene.served().await.0);
        }
        const LENGTH: usize = 300_000;
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {LENGTH}\r\n\r\n");
        let answer = [head.as_bytes(), &vec![b'x'; LENGTH]].concat();
        let mut sent = vec![0; servers.len()];
        for _ in 0..200 {
            for (server, sent) in servers.iter_mut().zip(&mut sent) {
                *sent += server.try_write(&answer[*sent..]).unwrap_or(0);
            }
            yield_now().await;
        }
        // What the streams between the tasks hold is the test's: the rest is what the edge has taken in.
        let taken = sent.iter().sum::<usize>().saturating_sub(100 * (64 << 10));
        assert!(taken < 100 * (16 << 10) + (256 << 10), "{taken}");
        let mut got = 0;
        while got < 100 * LENGTH {
            let heard = client.hear().await.unwrap();
            if let Some(data) = heard.strip_prefix("DATA ") {
                got += data.bytes().filter(|byte| *byte == b'x').count();
            }
            for (server, sent) in servers.iter_mut().zip(&mut sent) {
                *sent += server.try_write(&answer[*sent..]).unwrap_or(0);
            }
        }
        assert_eq!(scene.worker.registry.open(), 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_connect_is_a_tunnel() {
    Scene::run("", |scene| async move {
        let mut client = Client::connect(&scene).await;
        client.fields(1, &[(":method", "CONNECT"), (":authority", "b:443")], false).await;
        let (_, mut server) = scene.accept().await;
        assert_eq!(receive(&mut server).await, "CONNECT b:443 HTTP/1.1\r\nhost: b:443\r\n\r\n");
        server.write_all(b"HTTP/1.1 200 OK\r\n\r\nhello").await.unwrap();
        client.expect("HEADERS 1 :status=200").await;
        client.expect("DATA 1 hello").await;
        client.send(kind::DATA, flag::END_STREAM, 1, b"bye").await;
        let mut all = Vec::new();
        server.read_to_end(&mut all).await.unwrap();
        assert_eq!(all, b"bye");
        server.write_all(b"!").await.unwrap();
        client.expect("DATA 1 !").await;
        drop(server);
        client.expect("DATA 1 end ").await;
        assert_eq!(scene.worker.registry.open(), 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn whoever_breaks_the_protocol_is_told_and_cut_off() {
    Scene::run("", |scene| async move {
        let mut client = Client::connect(&scene).await;
        client.ask(1, "GET", "/", true).await;
        let (mut server, _) = scene.served().await;
        client.send(kind::DATA, 0, 0, b"").await;
        client.expect("GOAWAY 1 PROTOCOL_ERROR").await;
        assert_eq!(client.hear().await, None);
        assert_eq!(server.read(&mut [0; 100]).await.unwrap(), 0);
        drop(client.stream);
        client.serving.await.unwrap();
        assert_eq!((scene.backend.farm().streams(), scene.worker.registry.open()), (0, 0));
        assert_eq!(scene.frontend.frontend.traffic.of(0).request_errors.value(), 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn rules_may_end_the_whole_connection() {
    for (rule, heard) in [("reject", Some("GOAWAY 1 ENHANCE_YOUR_CALM")), ("silent-drop", None)] {
        Scene::run(&format!(" http-request {rule}"), |scene| async move {
            let mut client = Client::connect(&scene).await;
            client.ask(1, "GET", "/", true).await;
            let mut last = None;
            while let Some(text) = client.hear().await {
                last = Some(text);
            }
            assert_eq!(last.as_deref(), heard, "{rule}");
            drop(client.stream);
            client.serving.await.unwrap();
            assert_eq!(scene.worker.registry.open(), 0);
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_malformed_is_counted_and_reaches_nobody() {
    Scene::run("", |scene| async move {
        let mut client = Client::connect(&scene).await;
        client.fields(1, &[(":method", "GET"), (":path", "/")], true).await;
        client.expect("RST_STREAM 1 PROTOCOL_ERROR").await;
        client.ask(3, "GET", "/", true).await;
        let (mut server, request) = scene.served().await;
        assert_eq!(request, "GET / HTTP/1.1\r\nhost: a\r\n\r\n");
        server.write_all(OK).await.unwrap();
        client.expect("HEADERS 3 :status=200 content-length=2").await;
        assert_eq!(scene.frontend.frontend.traffic.of(0).request_errors.value(), 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn websockets_come_by_connect() {
    Scene::run("", |scene| async move {
        let mut client = Client::connect(&scene).await;
        let fields = |path: &'static str| {
            [
                (":method", "CONNECT"),
                (":protocol", "websocket"),
                (":scheme", "http"),
                (":authority", "a"),
                (":path", path),
                ("sec-websocket-version", "13"),
            ]
        };
        client.fields(1, &fields("/chat"), false).await;
        let (mut server, request) = scene.served().await;
        let start = "GET /chat HTTP/1.1\r\nhost: a\r\nsec-websocket-version: 13\r\nconnection: upgrade\r\n\
                     upgrade: websocket\r\nsec-websocket-key: ";
        assert!(request.starts_with(start) && request.len() == start.len() + 24 + 4, "{request}");
        let accept = websocket::accept_of(&request.as_bytes()[start.len()..]);
        let agreed = |accept: &str| {
            format!(
                "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                 sec-websocket-accept: {accept}\r\nsec-websocket-protocol: chat\r\n\r\nhello"
            )
        };
        server.write_all(agreed(&accept).as_bytes()).await.unwrap();
        client.expect("HEADERS 1 :status=200 sec-websocket-protocol=chat").await;
        client.expect("DATA 1 hello").await;
        client.send(kind::DATA, 0, 1, b"world").await;
        let mut heard = [0; 5];
        server.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"world");
        drop(server);
        client.expect("DATA 1 end ").await;
        client.expect("RST_STREAM 1 NO_ERROR").await;
        // A server that answers otherwise has begun nothing.
        client.fields(3, &fields("/no"), false).await;
        let (mut server, _) = scene.served().await;
        let refusal = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        server.write_all(refusal).await.unwrap();
        client.expect("HEADERS 3 end :status=404 content-length=0").await;
        client.expect("RST_STREAM 3 NO_ERROR").await;
        client.fields(5, &fields("/page"), false).await;
        let (mut server, _) = scene.served().await;
        server.write_all(OK).await.unwrap();
        client.expect("RST_STREAM 5 INTERNAL_ERROR").await;
        // One that does not prove that it has understood the key has not agreed: it may have answered somebody else.
        client.fields(7, &fields("/other"), false).await;
        let (mut server, _) = scene.served().await;
        server.write_all(agreed("AAAAAAAAAAAAAAAAAAAAAAAAAAA=").as_bytes()).await.unwrap();
        client.expect("HEADERS 7 :status=502 content-length=107 cache-control=no-cache content-type=text/html").await;
    })
    .await;
}
