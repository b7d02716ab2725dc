//! Several exchanges on one client connection at a time, answered by servers of several codecs, in memory and in virtual time. All
//! that happens follows from a seed.

mod multiplexed;
mod refused;
mod servers;
mod tunnels;

use std::{
    cell::Cell,
    future::poll_fn,
    rc::Rc,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use http::{Parsed, RequestParser};
use net::Deadline;
use tokio::{
    task::spawn_local,
    time::{Instant, sleep},
};

use self::{
    multiplexed::{Connection, Event, Part, Upload},
    servers::{answer_to, serve},
};
use super::{Exchange, Next};
use crate::session::{
    pinned::PinnedConnections,
    scene::{Scene, Seeded},
    transaction::{ClientSide, Transaction},
};

/// A body of so many bytes that is another one's only by accident.
fn body_of(seed: u64, length: usize) -> Vec<u8> {
    let numbers = Seeded::new(seed + 77);
    (0..length).map(|_| b'a' + u8::try_from(numbers.below(26)).unwrap()).collect()
}

/// A request that a client makes.
struct Asked {
    head: String,
    /// The body, framed as the head says.
    framed: Vec<u8>,
    body: Vec<u8>,
}

impl Asked {
    fn new(number: usize, seed: u64, random: &Seeded) -> Self {
        let length = [0, 0, 10, 2_500, 40_000][random.below(5)];
        let chunk_bytes = (random.below(2) == 0).then(|| 1 + random.below(9_000));
        Self::of(number, body_of(seed * 10 + number as u64, length), chunk_bytes)
    }

    /// One with this body, in chunks of so many bytes, or with its length in the head.
    fn of(number: usize, body: Vec<u8>, chunk_bytes: Option<usize>) -> Self {
        let start = format!("POST /{number} HTTP/1.1\r\nhost: a\r\n");
        let Some(chunk_bytes) = chunk_bytes else {
            let head = format!("{start}content-length: {}\r\n\r\n", body.len());
            return Self { head, framed: body.clone(), body };
        };
        let mut framed = Vec::new();
        body.chunks(chunk_bytes).for_each(|piece| http::write_chunk(piece, &mut framed));
        http::write_last_chunk(&mut framed);
        Self { head: format!("{start}transfer-encoding: chunked\r\n\r\n"), framed, body }
    }

    /// Sends the body in pieces, all but its end if the client `leaves`.
    async fn upload(&self, upload: &Upload, random: &Seeded, leaves: bool) {
        let sent = if leaves { 1 + random.below(self.framed.len() - 1) } else { self.framed.len() };
        for piece in self.framed[..sent].chunks(1 + random.below(5_000)) {
            random.pause().await;
            upload.send(piece);
        }
        if leaves {
            random.pause().await;
            upload.end();
        }
    }
}

/// One exchange from its head to its end.
async fn exchange(scene: &Scene, side: &Rc<ClientSide>, mut part: Part, head: &str) -> (Transaction, Next) {
    let mut transaction = Transaction::new(Rc::clone(&scene.worker).instance(), Rc::clone(side), &scene.worker);
    transaction.restart(&scene.instance, side, 1);
    transaction.timeline.first_byte = Some(scene.worker.now());
    transaction.asked.wants_keep_alive = true;
    let parsed = RequestParser::new().parse(head.as_bytes(), &scene.instance.limits(false), &mut transaction.request);
    assert!(matches!(parsed, Ok(Parsed::Complete { .. })), "{head}");
    let id = scene.instance.process.next_session_id.fetch_add(1, Relaxed);
    let registered = scene.worker.registry.register(id, side.accepted, None, Arc::clone(&scene.frontend), 0);
    let (mut deadline, mut kept, mut idle_wish) = (Deadline::default(), PinnedConnections::default(), None);
    let mut exchange = Exchange {
        worker: &scene.worker,
        instance: &scene.instance,
        side,
        handle: &registered.handle,
        client: &mut part,
        deadline: &mut deadline,
        kept: &mut kept,
        idle_wish: &mut idle_wish,
    };
    exchange.begin(&mut transaction);
    let length = http::request_body_length(&transaction.request);
    let next = exchange.answer(&mut transaction, length).await;
    transaction.finish(&scene.worker);
    registered.handle.rests();
    (transaction, next)
}

/// What a client has heard of an exchange.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Heard {
    head: Option<String>,
    body: Vec<u8>,
    is_whole: bool,
}

impl Heard {
    /// The body without its framing.
    fn unframed(&self) -> Vec<u8> {
        if self.head.as_ref().unwrap().contains("content-length") {
            return self.body.clone();
        }
        let mut body = Vec::new();
        let decoded = http::ChunkedDecoder::new(&http::Limits::default()).decode_into(&self.body, &mut body);
        assert!(decoded.unwrap().done, "all chunks have come");
        body
    }
}

/// Reads what comes for two exchanges, until both are over; also for which of them it came, in this order.
async fn read(connection: &Connection, random: &Seeded) -> ([Heard; 2], Vec<usize>) {
    let mut heard = [Heard::default(), Heard::default()];
    let (mut left, mut order) = (2, Vec::new());
    while left > 0 {
        if random.below(4) == 0 {
            random.pause().await;
        }
        let (number, event) = poll_fn(|context| connection.poll_next(context)).await;
        order.push(number);
        let heard = &mut heard[number];
        match event {
            Event::Interim(status) => assert_eq!((status, &heard.head), (103, &None)),
            Event::Head(head) => {
                assert!(heard.head.replace(head).is_none(), "an answer has one head")
            }
            Event::Data(data) => heard.body.extend_from_slice(&data),
            Event::End | Event::CutOff => {
                heard.is_whole = event == Event::End;
                left -= 1;
            }
        }
    }
    (heard, order)
}

/// What came of two exchanges of one connection.
#[derive(Debug, PartialEq)]
struct Played {
    heard: [Heard; 2],
    order: Vec<usize>,
    ends: [End; 2],
    /// How long it took.
    time: Duration,
}

/// How an exchange ended.
#[derive(Debug, PartialEq)]
struct End {
    next: Next,
    letters: [u8; 2],
    status: u16,
    server: Option<String>,
}

impl End {
    fn of((transaction, next): (Transaction, Next)) -> Self {
        let server = transaction.route.server.as_ref().map(|server| server.config.name.to_string());
        Self { next, letters: transaction.ending.letters(), status: transaction.answered.status, server }
    }
}

/// Plays two exchanges at a time on one connection. The client of the first leaves within its body, if it `leaves`.
async fn play(scene: Rc<Scene>, seed: u64, leaves: bool) -> Played {
    let random = Seeded::new(seed);
    let begun = Instant::now();
    let serving = spawn_local(serve(Rc::clone(&scene), seed, Rc::clone(&random)));
    let side = ClientSide::nobody(&scene.instance, Arc::clone(&scene.frontend), scene.worker.now());
    let (side, connection) = (Rc::new(side), Connection::default());
    let mut asked = [0, 1].map(|number| Asked::new(number, seed, &random));
    if leaves {
        asked[0] = Asked::of(0, body_of(seed, 5_000), Some(4_000));
    }
    let ((first, first_upload), (second, second_upload)) = (connection.begin(0), connection.begin(1));
    let running = scene.worker.clocked(async {
        tokio::join!(exchange(&scene, &side, first, &asked[0].head), exchange(&scene, &side, second, &asked[1].head))
    });
    let (ended, (heard, order), (), ()) = tokio::join!(
        running,
        read(&connection, &random),
        asked[0].upload(&first_upload, &random, leaves),
        asked[1].upload(&second_upload, &random, false),
    );
    serving.abort();
    for (number, heard) in heard.iter().enumerate().filter(|(_, heard)| heard.is_whole) {
        assert_eq!(heard.unframed(), answer_to(seed, number, &asked[number].body), "seed {seed}, exchange {number}");
    }
    // Whatever became of them: what was lent has been given back, and each was counted once.
    assert_eq!((scene.backend.farm().streams(), scene.backend.backend.sessions.value()), (0, 0), "seed {seed}");
    assert_eq!(scene.frontend.frontend.traffic.of(0).requests.value(), 2, "seed {seed}");
    Played { heard, order, ends: [End::of(ended.0), End::of(ended.1)], time: begun.elapsed() }
}

/// The same in a scene of its own, whose servers speak HTTP/1 and frames, with a clock of its own.
fn play_alone(seed: u64, leaves: bool) -> (Played, [u64; 2], usize) {
    let result = Rc::new(Cell::new(None));
    let told = Rc::clone(&result);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(Scene::run(" server s2 10.0.0.2:81", |scene| async move {
        let played = play(Rc::clone(&scene), seed, leaves).await;
        let traffic = scene.traffic();
        let idle = scene.worker.servers.borrow().len();
        told.set(Some((played, [traffic.connects.value(), traffic.reuses.value()], idle)));
    }));
    result.take().unwrap()
}

#[test]
fn one_connection_carries_two_exchanges_that_servers_of_two_codecs_answer() {
    let mut switches = 0;
    for seed in 0..50 {
        let (played, connects_and_reuses, idle) = play_alone(seed, false);
        for (end, heard) in played.ends.iter().zip(&played.heard) {
            assert!(heard.is_whole, "seed {seed}: {heard:?}");
            assert_eq!((end.next, end.letters, end.status), (Next::KeepAlive, *b"--", 200), "seed {seed}");
        }
        // Each codec has answered one of them, and its connection waits for the next request.
        let mut names = played.ends.each_ref().map(|end| end.server.clone().unwrap());
        names.sort();
        assert_eq!((names, connects_and_reuses, idle), (["s1", "s2"].map(str::to_owned), [2, 0], 2), "seed {seed}");
        switches += played.order.windows(2).filter(|pair| pair[0] != pair[1]).count();
        if seed < 5 {
            assert!(play_alone(seed, false).0 == played, "all follows from the seed {seed}");
        }
    }
    assert!(switches > 100, "what both get goes out by turns: {switches}");
}

#[test]
fn a_client_that_leaves_one_exchange_goes_on_with_the_other() {
    for seed in 0..50 {
        let (Played { heard: [left, heard], ends: [cut, end], .. }, _, idle) = play_alone(seed, true);
        assert!(left.body.is_empty(), "seed {seed}: {left:?}");
        assert_eq!((cut.next, cut.letters), (Next::Close, *b"CD"), "seed {seed}");
        assert!(heard.is_whole, "seed {seed}: {heard:?}");
        assert_eq!((end.next, end.letters, end.status), (Next::KeepAlive, *b"--", 200), "seed {seed}");
        assert_eq!(idle, 1, "seed {seed}: what was left in the middle serves nobody else");
    }
}
