//! Fetches that no client waits for, and one that several wait for, with a scripted server in virtual time.

use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    io,
    rc::Rc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use net::{MemoryStream, PlainSocket, Stream};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    task::{spawn_local, yield_now},
    time::advance,
};

use super::*;
use crate::session::{
    body::{BodyPump, Intake, PumpFailure, Source},
    scene::Scene,
    wire::Wire,
};

/// Fetches for nobody.
pub(super) async fn fetch<'s>(
    scene: &'s Scene,
    exchange: &mut Transaction,
    body: &str,
) -> Result<Answer<'s>, Unfetched> {
    let (mut kept, mut deadline) = (PinnedConnections::default(), Deadline::default());
    let mut fetch = Fetch::new(&scene.worker, &scene.backend, Wanted::default(), &mut kept, &mut deadline);
    fetch.run(exchange, &mut Nobody { body: body.into(), interim: None }).await
}

/// The whole body of what was fetched, pulled piece by piece.
pub(super) async fn pull(exchange: &Transaction, answer: &mut Answer<'_>) -> Result<String, PumpFailure> {
    let limits = exchange.response_limits(exchange.backend_settings());
    let mut intake = Intake::new(answer.length, &limits);
    let wire = wire_of(answer);
    let mut body = Vec::new();
    loop {
        intake.approve(wire).map_err(PumpFailure::Malformed)?;
        body.extend_from_slice(intake.bytes(wire));
        intake.consume(wire, intake.approved());
        if intake.has_ended() {
            return Ok(String::from_utf8(body).unwrap());
        }
        poll_fn(|context| intake.poll_more(wire, context)).await?;
    }
}

fn wire_of<'w>(answer: &'w mut Answer<'_>) -> &'w mut Codec {
    let AnswerBody::Server { upstream, .. } = &mut answer.body else { panic!("it comes from a server") };
    &mut upstream.connection.codec
}

const GET: &str = "GET /a HTTP/1.1\r\nhost: example.com\r\n\r\n";

#[tokio::test(start_paused = true)]
async fn what_no_client_waits_for_is_fetched() {
    Scene::run("http-request set-header x-never-runs 1", |scene| async move {
        let server = async {
            let (mut connection, request) = scene.served().await;
            assert_eq!(request, GET);
            connection.write_all(b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\n").await.unwrap();
            connection.write_all(b"content-length: 12\r\n\r\nhello ").await.unwrap();
            yield_now().await;
            connection.write_all(b"world\n").await.unwrap();
            connection
        };
        let fetching = scene.worker.clocked(async {
            let mut exchange = scene.exchange_of_nobody(GET);
            let mut fetched = fetch(&scene, &mut exchange, "").await.ok().unwrap();
            assert_eq!(exchange.response.status(), 200);
            assert!(
                matches!(&fetched.body, AnswerBody::Server { upstream, keeps: true, .. } if upstream.slot.is_some())
            );
            assert_eq!(pull(&exchange, &mut fetched).await.unwrap(), "hello world\n");
            drop(fetched);
            exchange.answered.status = 200;
            exchange.finish(&scene.worker);
            exchange
        });
        let (_connection, exchange) = tokio::join!(server, fetching);
        assert_eq!(exchange.ending.letters(), *b"--");
        let times = exchange.timeline;
        assert!(
            times.request <= times.dequeued && times.dequeued <= times.connected && times.connected <= times.response
        );
        assert_eq!(exchange.route.server.as_ref().map(|server| &*server.config.name), Some("s1"));
        assert_eq!((scene.traffic().connects.value(), scene.traffic().requests.value()), (1, 1));
        // The slot has been given back.
        assert_eq!(scene.backend.farm().streams(), 0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_no_client_waits_for_is_tried_again_with_its_body() {
    const POST: &str = "POST /a HTTP/1.1\r\nhost: example.com\r\ncontent-length: 3\r\n\r\n";
    Scene::run(" retry-on empty-response", |scene| async move {
        let server = async {
            let (connection, first) = scene.served().await;
            drop(connection);
            let (mut connection, second) = scene.served().await;
            assert_eq!((&*first, &*second), (&*format!("{POST}abc"), &*first));
            connection.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
            connection
        };
        let mut exchange = scene.exchange_of_nobody(POST);
        let (_connection, fetched) = tokio::join!(server, scene.worker.clocked(fetch(&scene, &mut exchange, "abc")));
        assert!(fetched.is_ok_and(|fetched| fetched.length.is_empty()));
        assert_eq!((exchange.response.status(), exchange.route.retries), (204, 1));
        assert_eq!((scene.traffic().connects.value(), scene.traffic().response_errors.value()), (2, 0));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_silent_is_given_up_in_time() {
    Scene::run("", |scene| async move {
        let is_over = Cell::new(false);
        let server = async {
            let connection = scene.served().await;
            advance(Duration::from_secs(9)).await;
            for _ in 0..100 {
                yield_now().await;
            }
            assert!(!is_over.get());
            advance(Duration::from_secs(2)).await;
            connection
        };
        let mut exchange = scene.exchange_of_nobody(GET);
        let fetching = async {
            let fetched = scene.worker.clocked(fetch(&scene, &mut exchange, "")).await;
            is_over.set(true);
            fetched
        };
        let (_connection, fetched) = tokio::join!(server, fetching);
        let Err(Unfetched::NoResponse { end: end @ HeadEnd::Timeout, reused: false }) = fetched else { panic!() };
        assert_eq!(end.ending().letters(), *b"sH");
        assert_eq!(scene.traffic().response_errors.value(), 1);
        assert_eq!(scene.backend.farm().streams(), 0);
    })
    .await;
}

/// What several clients read while one fetch fills it.
#[derive(Default)]
struct Filling {
    bytes: Vec<u8>,
    ended: bool,
    waiting: Vec<Waker>,
}

impl Filling {
    fn add(&mut self, bytes: &[u8], ended: bool) {
        self.bytes.extend_from_slice(bytes);
        self.ended = ended;
        self.waiting.drain(..).for_each(Waker::wake);
    }
}

/// One who reads it, at its own pace.
struct Reader {
    from: Rc<RefCell<Filling>>,
    taken: usize,
    here: Vec<u8>,
}

impl Source for Reader {
    fn received(&self) -> &[u8] {
        &self.here
    }

    fn consume(&mut self, count: usize) {
        self.here.drain(..count);
    }

    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut from = self.from.borrow_mut();
        let new = from.bytes.get(self.taken..).unwrap_or_default();
        if new.is_empty() && !from.ended {
            from.waiting.push(context.waker().clone());
            return Poll::Pending;
        }
        self.here.extend_from_slice(new);
        self.taken = from.bytes.len();
        Poll::Ready(Ok(new.len()))
    }

    fn plain_socket(&mut self) -> Option<PlainSocket<'_>> {
        None
    }
}

#[tokio::test(start_paused = true)]
async fn several_clients_wait_for_one_fetch() {
    Scene::run("", |scene| async move {
        let half_read = Cell::new(0);
        let server = async {
            let (mut connection, _) = scene.served().await;
            connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\nhello ").await.unwrap();
            // They get the beginning while the end has not come.
            while half_read.get() < 2 {
                yield_now().await;
            }
            connection.write_all(b"world\n").await.unwrap();
            connection
        };
        let filling = Rc::new(RefCell::new(Filling::default()));
        let length = Rc::new(Cell::new(None));
        let fetching = scene.worker.clocked(async {
            let mut exchange = scene.exchange_of_nobody(GET);
            let mut fetched = fetch(&scene, &mut exchange, "").await.ok().unwrap();
            length.set(Some(fetched.length));
            let mut intake = Intake::new(fetched.length, &scene.instance.limits(false));
            let wire = wire_of(&mut fetched);
            loop {
                intake.approve(wire).unwrap();
                filling.borrow_mut().add(intake.bytes(wire), intake.has_ended());
                intake.consume(wire, intake.approved());
                if intake.has_ended() {
                    return;
                }
                poll_fn(|context| intake.poll_more(wire, context)).await.unwrap();
            }
        });
        let client = || async {
            let (near, far) = MemoryStream::pair(1 << 10);
            let mut far = Stream::Memory(far);
            let mut wire = Wire::new(Rc::new(Stream::Memory(near)), scene.worker.buffers.clone());
            let (from, length, limits) = (Rc::clone(&filling), Rc::clone(&length), scene.instance.limits(false));
            let delivering = spawn_local(async move {
                let length = loop {
                    match length.get() {
                        Some(length) => break length,
                        None => yield_now().await,
                    }
                };
                let mut reader = Reader { from, taken: 0, here: Vec::new() };
                let mut pump = BodyPump::new(length, &limits, false);
                poll_fn(|context| pump.poll(&mut reader, &mut wire, context)).await.unwrap();
            });
            let mut body = [0; 12];
            far.read_exact(&mut body[..6]).await.unwrap();
            half_read.set(half_read.get() + 1);
            far.read_exact(&mut body[6..]).await.unwrap();
            delivering.await.unwrap();
            assert_eq!(&body, b"hello world\n");
        };
        let (_connection, (), (), ()) = tokio::join!(server, fetching, client(), client());
        assert_eq!(scene.traffic().connects.value(), 1);
    })
    .await;
}
