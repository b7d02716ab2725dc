//! Several exchanges on one client connection at a time, answered by servers of several codecs, in memory and in virtual time. All
//! that happens follows from a seed.

mod multiplexed;
mod servers;

use std::{cell::Cell, future::poll_fn, rc::Rc, time::Duration};

use http::{Parsed, RequestParser};
use net::Deadline;
use tokio::{task::spawn_local, time::sleep};

use self::{
    multiplexed::{Connection, Event, Part, Upload},
    servers::{answer_to, serve},
};
use super::{Exchange, Next};
use crate::session::{
    pinned::PinnedConnections,
    scene::Scene,
    transaction::{ClientSide, Transaction},
};

/// Random numbers that follow from a seed (xorshift64*).
#[derive(Debug)]
struct Seeded(Cell<u64>);

impl Seeded {
    fn new(seed: u64) -> Rc<Self> {
        Rc::new(Self(Cell::new(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)))
    }

    /// A number below `bound`.
    fn below(&self, bound: usize) -> usize {
        let mut state = self.0.get();
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        self.0.set(state);
        usize::try_from(state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33).unwrap() % bound
    }

    /// Lets some time pass, or none.
    async fn pause(&self) {
        if self.below(3) > 0 {
            sleep(Duration::from_millis(self.below(200) as u64)).await;
        }
    }
}

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
        let body = body_of(seed * 10 + number as u64, length);
        let start = format!("POST /{number} HTTP/1.1\r\nhost: a\r\n");
        if random.below(2) == 0 {
            return Self { head: format!("{start}content-length: {length}\r\n\r\n"), framed: body.clone(), body };
        }
        let mut framed = Vec::new();
        for piece in body.chunks(1 + random.below(9_000)) {
            http::write_chunk(piece, &mut framed);
        }
        http::write_last_chunk(&mut framed);
        Self { head: format!("{start}transfer-encoding: chunked\r\n\r\n"), framed, body }
    }

    /// Sends the body in pieces.
    async fn upload(&self, upload: &Upload, random: &Seeded) {
        for piece in self.framed.chunks(1 + random.below(5_000)) {
            random.pause().await;
            upload.send(piece);
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
    let id = scene.instance.process.next_session_id.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let registered = scene.worker.registry.register(id, side.accepted, None, std::sync::Arc::clone(&scene.frontend), 0);
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
#[derive(Debug, Default)]
struct Heard {
    head: Option<String>,
    body: Vec<u8>,
    is_whole: bool,
}

/// Reads what comes for so many exchanges, until all are over; also how often it came for another one than before.
async fn read(connection: &Connection, count: usize, random: &Seeded) -> (Vec<Heard>, usize) {
    let mut heard: Vec<Heard> = (0..count).map(|_| Heard::default()).collect();
    let (mut left, mut last, mut switches) = (count, 0, 0);
    while left > 0 {
        if random.below(4) == 0 {
            random.pause().await;
        }
        let (number, event) = poll_fn(|context| connection.poll_next(context)).await;
        switches += usize::from(std::mem::replace(&mut last, number) != number);
        let heard = &mut heard[number];
        match event {
            Event::Interim(status) => assert_eq!((status, &heard.head), (103, &None)),
            Event::Head(head) => assert!(heard.head.replace(head).is_none(), "an answer has one head"),
            Event::Data(data) => heard.body.extend_from_slice(&data),
            Event::End | Event::CutOff => {
                heard.is_whole = event == Event::End;
                left -= 1;
            }
        }
    }
    (heard, switches)
}

/// The body of an answer without its framing.
fn unframed(heard: &Heard) -> Vec<u8> {
    if heard.head.as_ref().unwrap().contains("content-length") {
        return heard.body.clone();
    }
    let mut body = Vec::new();
    let decoded = http::ChunkedDecoder::new(&http::Limits::default()).decode_into(&heard.body, &mut body);
    assert!(decoded.unwrap().done, "all chunks have come");
    body
}

#[tokio::test(start_paused = true)]
async fn one_connection_carries_two_exchanges_that_servers_of_two_codecs_answer() {
    let mut all_switches = 0;
    for seed in 0..50 {
        let switches = Rc::new(Cell::new(0));
        let counted = Rc::clone(&switches);
        Scene::run(" server s2 10.0.0.2:81", |scene| async move {
            let random = Seeded::new(seed);
            let serving = spawn_local(serve(Rc::clone(&scene), seed, Rc::clone(&random)));
            let side = Rc::new(ClientSide::nobody(
                &scene.instance,
                std::sync::Arc::clone(&scene.frontend),
                scene.worker.now(),
            ));
            let connection = Connection::default();
            let asked = [Asked::new(0, seed, &random), Asked::new(1, seed, &random)];
            let ((first, first_upload), (second, second_upload)) = (connection.begin(0), connection.begin(1));
            let running = scene.worker.clocked(async {
                tokio::join!(
                    exchange(&scene, &side, first, &asked[0].head),
                    exchange(&scene, &side, second, &asked[1].head)
                )
            });
            let (ended, (heard, switches), (), ()) = tokio::join!(
                running,
                read(&connection, 2, &random),
                asked[0].upload(&first_upload, &random),
                asked[1].upload(&second_upload, &random),
            );
            let names: Vec<_> = [&ended.0, &ended.1]
                .map(|(transaction, _)| transaction.route.server.as_ref().map(|server| server.config.name.to_string()))
                .into_iter()
                .collect();
            for (number, (heard, (transaction, next))) in heard.iter().zip([&ended.0, &ended.1]).enumerate() {
                let expected = answer_to(seed, number, &asked[number].body);
                assert!(heard.is_whole, "seed {seed}: {heard:?}");
                assert_eq!(unframed(heard), expected, "seed {seed}, exchange {number}");
                assert_eq!(
                    (*next, transaction.ending.letters(), transaction.answered.status),
                    (Next::KeepAlive, *b"--", 200),
                    "seed {seed}, exchange {number}"
                );
            }
            // Each codec has answered one of them.
            assert!(names.contains(&Some("s1".to_owned())) && names.contains(&Some("s2".to_owned())), "{names:?}");
            let traffic = scene.traffic();
            assert_eq!((traffic.connects.value(), traffic.reuses.value()), (2, 0));
            assert_eq!(scene.frontend.frontend.traffic.of(0).requests.value(), 2);
            assert_eq!((scene.backend.farm().streams(), scene.backend.backend.sessions.value()), (0, 0));
            assert_eq!(scene.worker.servers.borrow().len(), 2, "both connections wait for the next request");
            serving.abort();
            counted.set(switches);
        })
        .await;
        all_switches += switches.get();
    }
    assert!(all_switches > 100, "what both exchanges get goes out by turns: {all_switches}");
}
