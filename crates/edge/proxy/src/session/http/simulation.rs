//! Many clients, servers and faults at once, in memory and in virtual time; all that happens follows from a seed.
//!
//! What always holds: answers come in the order of their requests, each whole or cut off by the end of the connection; a server's
//! connection carries one request at a time; what was lent is given back; the counters say what happened.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use http::{
    BodyLength, ChunkedDecoder, Limits, Method, Parsed, RequestHead, RequestParser, ResponseHead, ResponseParser,
};
use net::Stream;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    task::spawn_local,
    time::{sleep, timeout},
};

use crate::session::{
    self,
    scene::{Scene, Seeded},
};

const CLIENTS: usize = 6;
const REQUESTS_MAX: usize = 5;

/// What is sent in pieces is sent in pieces of so many bytes at least, so that it takes no hours.
const PIECE_BYTES_MIN: usize = 50;

/// Chunks are so long: a client that sends two requests before it reads must not fill both ways by their framing.
const CHUNK_BYTES_MIN: usize = 200;

/// What happened, as both ends saw it.
#[derive(Default)]
struct Seen {
    /// How often servers got a request, by its number.
    served: RefCell<HashMap<usize, usize>>,
    /// Requests that clients have begun to send.
    asked: Cell<u64>,
    /// Answers that came whole.
    answered: Cell<u64>,
    /// Answers of servers that came whole.
    by_servers: Cell<u64>,
    /// Requests that were never answered, as the connection ended.
    unanswered: Cell<u64>,
}

fn add(cell: &Cell<u64>, more: usize) {
    cell.set(cell.get() + more as u64);
}

/// The body of a message at the front of `bytes`, with how long it is there; `None` if it is not whole.
fn body_at(bytes: &[u8], length: BodyLength) -> Option<(Vec<u8>, usize)> {
    match length {
        BodyLength::None => Some((Vec::new(), 0)),
        BodyLength::Exact(length) => {
            let length = usize::try_from(length).unwrap();
            Some((bytes.get(..length)?.to_vec(), length))
        }
        BodyLength::Chunked => {
            let mut body = Vec::new();
            let progress = ChunkedDecoder::new(&Limits::default()).decode_into(bytes, &mut body).unwrap();
            progress.done.then_some((body, progress.consumed))
        }
        BodyLength::UntilClose => None,
    }
}

fn body_of(number: usize, length: usize) -> Vec<u8> {
    (0..length).map(|at| b'a' + u8::try_from((at * 7 + number * 13) % 26).unwrap()).collect()
}

fn put_body(body: &[u8], piece: Option<usize>, message: &mut Vec<u8>) {
    match piece {
        None => {
            message.extend_from_slice(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
            message.extend_from_slice(body);
        }
        Some(piece) => {
            message.extend_from_slice(b"transfer-encoding: chunked\r\n\r\n");
            body.chunks(piece).for_each(|piece| http::write_chunk(piece, message));
            http::write_last_chunk(message);
        }
    }
}

/// Sends in pieces, with pauses; false if the other end has left.
async fn send(stream: &mut Stream, message: &[u8], random: &Seeded) -> bool {
    for piece in message.chunks(PIECE_BYTES_MIN + random.below(12_000)) {
        random.pause().await;
        if stream.write_all(piece).await.is_err() {
            return false;
        }
    }
    true
}

/// A server's end of a connection. It may leave at any step.
async fn serve(mut stream: Stream, seen: Rc<Seen>, random: Rc<Seeded>) {
    let mut bytes = Vec::new();
    loop {
        let mut head = RequestHead::default();
        let (number, consumed) = loop {
            let parsed = RequestParser::new().parse(&bytes, &Limits::default(), &mut head).unwrap();
            if let Parsed::Complete { consumed } = parsed
                && let Some((body, length)) = body_at(&bytes[consumed..], http::request_body_length(&head))
            {
                let number = std::str::from_utf8(&head.target()[1..]).unwrap().parse().unwrap();
                assert_eq!(body, body_of(number, body.len()), "the body of a request is its own");
                break (number, consumed + length);
            }
            if random.below(60) == 0 || !matches!(stream.read_buf(&mut bytes).await, Ok(1..)) {
                return;
            }
        };
        bytes.drain(..consumed);
        assert!(bytes.is_empty(), "a connection carries one request at a time");
        *seen.served.borrow_mut().entry(number).or_default() += 1;
        if random.below(15) == 0 {
            return;
        }
        let body = body_of(number, [0, 5, 4_000, 60_000][random.below(4)]);
        let mut message = b"HTTP/1.1 200 OK\r\nx-number: ".to_vec();
        message.extend_from_slice(format!("{number}\r\n").as_bytes());
        put_body(&body, (random.below(2) == 0).then(|| CHUNK_BYTES_MIN + random.below(9_000)), &mut message);
        if random.below(15) == 0 {
            message.truncate(random.below(message.len()));
            send(&mut stream, &message, &random).await;
            return;
        }
        if !send(&mut stream, &message, &random).await || random.below(10) == 0 {
            return;
        }
    }
}

/// A client that sends some requests, one after the other or several at once, and may leave.
async fn ask(mut stream: Stream, first: usize, seen: Rc<Seen>, random: Rc<Seeded>) {
    let mut bytes = Vec::new();
    let mut next = first;
    while next < first + REQUESTS_MAX {
        let together = if random.below(4) == 0 { 2 } else { 1 };
        let numbers: Vec<_> = (next..next + together).collect();
        next += together;
        for number in &numbers {
            add(&seen.asked, 1);
            let body = body_of(*number, [0, 0, 10, 30_000][random.below(4)]);
            let mut message = format!("POST /{number} HTTP/1.1\r\nhost: a\r\n").into_bytes();
            put_body(&body, (random.below(2) == 0).then(|| CHUNK_BYTES_MIN + random.below(9_000)), &mut message);
            if random.below(25) == 0 {
                message.truncate(random.below(message.len()));
                send(&mut stream, &message, &random).await;
                return;
            }
            if !send(&mut stream, &message, &random).await {
                break;
            }
        }
        if random.below(25) == 0 {
            return;
        }
        for (at, number) in numbers.iter().enumerate() {
            let Some(head) = receive(&mut stream, &mut bytes, *number, &random).await else {
                add(&seen.unanswered, numbers.len() - at);
                return;
            };
            add(&seen.answered, 1);
            if head.status() == 200 {
                add(&seen.by_servers, 1);
            }
            if http::ConnectionOptions::of(&head.headers).close {
                return;
            }
        }
    }
}

/// Gets the answer to the request of this number; `None` if the connection ends before it is whole.
async fn receive(stream: &mut Stream, bytes: &mut Vec<u8>, number: usize, random: &Seeded) -> Option<ResponseHead> {
    loop {
        let mut head = ResponseHead::default();
        let parsed = ResponseParser::new().parse(bytes, &Limits::default(), &mut head).unwrap();
        if let Parsed::Complete { consumed } = parsed {
            let length = http::response_body_length(&head, Method::Post);
            if let Some((body, length)) = body_at(&bytes[consumed..], length) {
                if head.status() == 200 {
                    assert_eq!(
                        head.headers.first(b"x-number"),
                        Some(number.to_string().as_bytes()),
                        "answers come in order"
                    );
                    assert_eq!(body, body_of(number, body.len()), "the body of an answer is its own");
                } else {
                    assert!(matches!(head.status(), 502..=504), "{}", head.status());
                }
                bytes.drain(..consumed + length);
                return Some(head);
            }
        }
        if random.below(8) == 0 {
            random.pause().await;
        }
        if !matches!(stream.read_buf(bytes).await, Ok(1..)) {
            return None;
        }
    }
}

async fn play(scene: Rc<Scene>, seed: u64) -> [u64; 5] {
    let (seen, random) = (Rc::new(Seen::default()), Seeded::new(seed));
    let serving = {
        let (scene, seen, random) = (Rc::clone(&scene), Rc::clone(&seen), Rc::clone(&random));
        spawn_local(async move {
            loop {
                let (_, stream) = scene.accept().await;
                spawn_local(serve(stream, Rc::clone(&seen), Rc::clone(&random)));
            }
        })
    };
    let mut tasks = Vec::new();
    for number in 0..CLIENTS {
        let (client, arrival) = scene.client();
        let (worker, instance) = (Rc::clone(&scene.worker), Arc::clone(&scene.instance));
        let served = session::serve(Rc::clone(&worker), instance, Arc::clone(&scene.frontend), 0, arrival);
        tasks.push(spawn_local(worker.clocked(served)));
        tasks.push(spawn_local(ask(client, number * 100, Rc::clone(&seen), Rc::clone(&random))));
        sleep(Duration::from_millis(random.below(100) as u64)).await;
    }
    for (place, task) in tasks.into_iter().enumerate() {
        let ended = timeout(Duration::from_secs(3_000), task).await;
        ended.unwrap_or_else(|_| panic!("seed {seed}: task {place} does not end")).unwrap();
    }
    serving.abort();
    let front = scene.frontend.frontend.traffic.of(0);
    let lent = (scene.backend.farm().streams(), scene.backend.backend.sessions.value(), scene.worker.running.get());
    assert_eq!(lent, (0, 0, 0), "seed {seed}: what was lent is given back");
    assert!(seen.served.borrow().values().all(|times| *times == 1), "seed {seed}: nothing is asked twice");
    assert!(front.requests.value() >= seen.answered.get(), "seed {seed}: who was answered has been counted");
    assert!(scene.traffic().requests.value() >= seen.by_servers.get(), "seed {seed}: answers are counted");
    assert!(seen.asked.get() >= seen.answered.get(), "seed {seed}: nothing is answered that was not asked");
    [
        seen.asked.get(),
        seen.answered.get(),
        seen.by_servers.get(),
        seen.unanswered.get(),
        scene.traffic().reuses.value(),
    ]
}

/// `SIMULATION_SEEDS=2000` plays so many; a failure says its seed, which `SIMULATION_FIRST=1468 SIMULATION_SEEDS=1` plays again.
#[test]
fn clients_servers_and_faults_at_once() {
    let mut sums = [0; 5];
    let said = |name, otherwise| std::env::var(name).map_or(otherwise, |number| number.parse().unwrap());
    let (first, seeds): (u64, u64) = (said("SIMULATION_FIRST", 0), said("SIMULATION_SEEDS", 20));
    for seed in first..first + seeds {
        let told = Rc::new(Cell::new([0; 5]));
        let result = Rc::clone(&told);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(Scene::run(" server s2 10.0.0.2:80", |scene| async move {
            result.set(play(scene, seed).await);
        }));
        for (sum, more) in sums.iter_mut().zip(told.get()) {
            *sum += more;
        }
    }
    let [asked, answered, by_servers, unanswered, reuses] = sums;
    // All that can happen has happened, and mostly all went well.
    assert!(by_servers > asked / 2 && answered > by_servers && unanswered > 0 && reuses > asked / 4, "{sums:?}");
}
