//! Bytes both ways between sides that are no sockets of their own: a stream of a client's connection, and servers of two codecs.

use super::{
    multiplexed::{Connection, Event},
    *,
};
use crate::session::{
    fetch::framed::{read_frame, write_frame},
    scene::FRAMED_PORT,
};
use net::Stream;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const CONNECT: &str = "CONNECT a:80 HTTP/1.1\r\nhost: a:80\r\n\r\n";
const UPGRADE: &str = "GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n";

/// The server's end of a tunnel, in whatever it speaks.
struct Server {
    stream: Stream,
    is_framed: bool,
    bytes: Vec<u8>,
}

impl Server {
    /// One that has taken the request, and answers it with this head.
    async fn accept(scene: &Scene, head: &str) -> Self {
        let (address, stream) = scene.accept().await;
        let mut server = Self { stream, is_framed: address.port() == FRAMED_PORT, bytes: Vec::new() };
        while !String::from_utf8_lossy(&server.bytes).contains("\r\n\r\n") {
            assert_ne!(server.stream.read_buf(&mut server.bytes).await.unwrap(), 0);
        }
        server.bytes.clear();
        server.say(b'H', head.as_bytes()).await;
        server
    }

    async fn say(&mut self, kind: u8, bytes: &[u8]) {
        let mut message = Vec::new();
        match self.is_framed {
            true => bytes.chunks(1_000).for_each(|piece| write_frame(kind, piece, &mut message)),
            false => message.extend_from_slice(bytes),
        }
        self.stream.write_all(&message).await.unwrap();
    }

    async fn end(&mut self) {
        if self.is_framed {
            let mut message = Vec::new();
            write_frame(b'E', b"", &mut message);
            self.stream.write_all(&message).await.unwrap();
        } else {
            self.stream.shut_write();
        }
    }

    /// So many bytes of the client.
    async fn hear(&mut self, length: usize) -> Vec<u8> {
        let mut heard = Vec::new();
        loop {
            if self.is_framed {
                while let Some((kind, payload)) = read_frame(&self.bytes) {
                    assert_eq!(kind, b'D');
                    heard.extend_from_slice(payload);
                    let taken = 3 + payload.len();
                    self.bytes.drain(..taken);
                }
            } else {
                heard.append(&mut self.bytes);
            }
            if heard.len() >= length {
                return heard;
            }
            assert_ne!(self.stream.read_buf(&mut self.bytes).await.unwrap(), 0);
        }
    }

    /// Whether the client has ended its half.
    async fn hears_end(&mut self) -> bool {
        if self.is_framed {
            while self.bytes.len() < 3 {
                assert_ne!(self.stream.read_buf(&mut self.bytes).await.unwrap(), 0);
            }
            return self.bytes == [b'E', 0, 0];
        }
        self.stream.read_buf(&mut self.bytes).await.unwrap() == 0
    }
}

/// What the client gets until it has so many bytes, or all.
async fn read(connection: &Connection, length: usize) -> (Vec<u8>, Option<Event>) {
    let mut bytes = Vec::new();
    while bytes.len() < length {
        match poll_fn(|context| connection.poll_next(context)).await.1 {
            Event::Data(data) => bytes.extend_from_slice(&data),
            end => return (bytes, Some(end)),
        }
    }
    (bytes, None)
}

/// Plays a tunnel: what the client and the server say to each other after the head.
async fn tunnel<F: Future<Output = ()>>(
    lines: &str,
    request: &'static str,
    play: impl FnOnce(Connection, multiplexed::Upload, Server) -> F,
) -> Transaction {
    let result = Rc::new(Cell::new(None));
    let told = Rc::clone(&result);
    Scene::run(lines, |scene| async move {
        let side = Rc::new(ClientSide::nobody(&scene.instance, Arc::clone(&scene.frontend), scene.worker.now()));
        let connection = Connection::default();
        let (part, upload) = connection.begin(0);
        let (status, head) = match request {
            CONNECT => (200, "HTTP/1.1 200 OK\r\n\r\n"),
            _ => (101, "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n"),
        };
        let outside = async {
            let server = Server::accept(&scene, head).await;
            let event = poll_fn(|context| connection.poll_next(context)).await.1;
            assert!(
                matches!(&event, Event::Head(text) if text.starts_with(&format!("HTTP/1.1 {status} "))),
                "{event:?}"
            );
            play(connection.clone(), upload, server).await;
        };
        let (transaction, ()) = tokio::join!(scene.worker.clocked(exchange(&scene, &side, part, request)), outside);
        assert_eq!((scene.backend.farm().streams(), scene.worker.servers.borrow().len()), (0, 0));
        told.set(Some(transaction));
    })
    .await;
    let (transaction, next) = result.take().unwrap();
    assert_eq!(next, Next::Close);
    transaction
}

const FRAMED: &str = " use-server s2 if TRUE\n server s2 10.0.0.2:81";

#[tokio::test(start_paused = true)]
async fn a_stream_of_a_connection_is_a_side_of_a_tunnel() {
    for (lines, request) in [("", CONNECT), ("", UPGRADE), (FRAMED, CONNECT), (FRAMED, UPGRADE)] {
        // Much more than any buffer holds, both ways at a time, the client a slow reader.
        let (up, down) = (body_of(1, 200_000), body_of(2, 300_000));
        let (expected_up, expected_down) = (up.clone(), down.clone());
        let transaction = tunnel(lines, request, |connection, upload, mut server| async move {
            upload.send(b"ping");
            assert_eq!(server.hear(4).await, b"ping");
            server.say(b'D', b"pong").await;
            assert_eq!(read(&connection, 4).await.0, b"pong");
            let client = async {
                for piece in up.chunks(7_000) {
                    upload.send(piece);
                    sleep(Duration::from_millis(1)).await;
                }
            };
            let reader = async {
                let (bytes, end) = read(&connection, usize::MAX).await;
                assert!(bytes == down, "all of it, in order");
                // The server has ended its half; the client still has something to say.
                assert_eq!(end, Some(Event::End));
            };
            let speaking = async {
                let expected = expected_up.len();
                let heard = server.hear(expected).await;
                assert!(heard == expected_up, "all of it, in order");
                server.say(b'D', &expected_down).await;
                server.end().await;
            };
            tokio::join!(client, reader, speaking);
            upload.send(b"bye");
            assert_eq!(server.hear(3).await, b"bye");
            upload.end();
            assert!(server.hears_end().await);
        })
        .await;
        assert_eq!(transaction.ending.letters(), *b"--", "{lines} {request}");
        assert_eq!(transaction.bytes_in, 200_007, "{lines} {request}");
        assert!(transaction.bytes_out >= 300_004, "{lines} {request}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_silent_in_a_tunnel_ends_it() {
    for lines in ["", FRAMED] {
        let lines = format!(" timeout tunnel 30s\n{lines}");
        let begun = Instant::now();
        let transaction = tunnel(&lines, CONNECT, |connection, _upload, mut server| async move {
            sleep(Duration::from_secs(20)).await;
            server.say(b'D', b"still here").await;
            assert_eq!(read(&connection, 10).await.0, b"still here");
            assert_eq!(read(&connection, 1).await.1, Some(Event::CutOff));
        })
        .await;
        assert_eq!(begun.elapsed().as_secs(), 50, "{lines}");
        assert_eq!(transaction.ending.letters()[1], b'D', "{lines}");
    }
}
