//! Both machines against each other: what each sends is cut anywhere, windows open by little, either side resets streams, the server
//! announces its end. All that happens follows from a seed, which a failure names.

#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

use std::{collections::BTreeMap, sync::LazyLock};

use h2::{ClientConnection, ErrorCode, Event, RequestOptions, ServerConnection, Settings, StreamKey};
use http::{Limits, RequestHead, ResponseHead, Version};

/// Random numbers that follow from a seed (xorshift64*).
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33).unwrap() % bound
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }
}

/// A part of the body of a stream.
fn body(stream: u32, from: usize, count: usize) -> &'static [u8] {
    static BYTES: LazyLock<Vec<u8>> =
        LazyLock::new(|| (0..200_000usize).map(|place| (place * 7 + place / 251) as u8).collect());
    let start = stream as usize * 31 % 9_973 + from;
    &BYTES[start..start + count]
}

/// One side of a stream.
#[derive(Debug)]
struct Side {
    key: StreamKey,
    /// What it sends, and how much of that it has sent.
    length: usize,
    sent: usize,
    with_trailers: bool,
    has_head: bool,
    has_ended: bool,
    received: usize,
    unconsumed: usize,
    has_received_all: bool,
}

impl Side {
    fn new(key: StreamKey, length: usize, with_trailers: bool) -> Self {
        Self {
            key,
            length,
            sent: 0,
            with_trailers,
            has_head: false,
            has_ended: false,
            received: 0,
            unconsumed: 0,
            has_received_all: false,
        }
    }
}

fn length_of(stream: u32, factor: usize) -> usize {
    [0, 1, 300, 20_000, 70_000][stream as usize / 2 * factor % 5]
}

#[derive(Default)]
struct Tally {
    answered: usize,
    refused: usize,
    reset: usize,
}

struct World {
    random: Seeded,
    client: ClientConnection,
    server: ServerConnection,
    /// On its way to the server, and to the client.
    up: Vec<u8>,
    down: Vec<u8>,
    asked: BTreeMap<u32, Side>,
    answered: BTreeMap<u32, Side>,
    heads: (RequestHead, ResponseHead),
    tally: Tally,
}

fn settings(random: &mut Seeded) -> Settings {
    Settings {
        stream_window: random.of(&[1_000, 65_535, 200_000]),
        connection_window: random.of(&[65_535, 300_000]),
        streams_max: random.of(&[1, 5, 100]),
        output_bytes_max: random.of(&[8_000, 65_536]),
        header_table_size: random.of(&[0, 100, 4_096]),
        ..Settings::default()
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Seeded(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let client = ClientConnection::new(settings(&mut random), Limits::default());
        let server = ServerConnection::new(settings(&mut random), Limits::default());
        Self {
            client,
            server,
            up: Vec::new(),
            down: Vec::new(),
            asked: BTreeMap::new(),
            answered: BTreeMap::new(),
            heads: (RequestHead::new(), ResponseHead::new()),
            tally: Tally::default(),
            random,
        }
    }

    fn ask(&mut self) {
        let mut head = RequestHead::new();
        head.start(b"POST", b"/", Version::Http11);
        head.headers.add(b"host", b"example.com");
        head.headers.add(b"x-number", (self.random.below(3)).to_string().as_bytes());
        let Some(key) = self.client.send_request(&head, &RequestOptions::default()) else { return };
        let side = Side::new(key, length_of(key.id(), 1), self.random.one_in(3));
        self.asked.insert(key.id(), side);
        self.go_on_asking(key.id());
    }

    fn go_on_asking(&mut self, stream: u32) {
        let Some(side) = self.asked.get_mut(&stream) else { return };
        if side.has_ended || self.client.is_reset(side.key) {
            return;
        }
        side.sent += self.client.send_data(side.key, body(stream, side.sent, side.length - side.sent), false);
        if side.sent == side.length {
            side.has_ended = true;
            match side.with_trailers {
                true => self.client.send_trailers(side.key, b"x-sum: 1\r\n"),
                false => self.client.end(side.key),
            }
        }
    }

    fn go_on_answering(&mut self, stream: u32) {
        let Some(side) = self.answered.get_mut(&stream) else { return };
        if !side.has_head || self.server.is_reset(side.key) {
            return;
        }
        side.sent += self.server.send_data(side.key, body(stream, side.sent, side.length - side.sent), false);
        if side.sent == side.length {
            match side.with_trailers {
                true => self.server.send_trailers(side.key, b"grpc-status: 0\r\n"),
                false => self.server.end(side.key),
            }
            self.server.release(side.key, ErrorCode::CANCEL);
            self.answered.remove(&stream);
        }
    }

    /// The server's side does something.
    fn answer(&mut self) {
        if self.answered.is_empty() {
            return;
        }
        let stream = *self.answered.keys().nth(self.random.below(self.answered.len())).unwrap();
        let Some(side) = self.answered.get_mut(&stream) else { return };
        if side.unconsumed > 0 {
            let count = 1 + self.random.below(side.unconsumed);
            side.unconsumed -= count;
            self.server.consumed(side.key, count);
        }
        if self.random.one_in(60) {
            self.server.release(side.key, self.random.of(&[ErrorCode::REFUSED_STREAM, ErrorCode::INTERNAL_ERROR]));
            self.answered.remove(&stream);
            return;
        }
        // Mostly when all has come, at times before.
        if !side.has_head && (side.has_received_all || self.random.one_in(20)) {
            let mut head = ResponseHead::new();
            if self.random.one_in(4) {
                head.start(Version::Http11, 103);
                self.server.send_head(side.key, &head, false);
            }
            head.start(Version::Http11, 200);
            if self.random.one_in(2) {
                head.headers.add(b"content-length", side.length.to_string().as_bytes());
            }
            side.has_head = true;
            self.server.send_head(side.key, &head, false);
        }
        self.go_on_answering(stream);
    }

    /// The client's side does something.
    fn take(&mut self) {
        if self.asked.is_empty() {
            return;
        }
        let stream = *self.asked.keys().nth(self.random.below(self.asked.len())).unwrap();
        let Some(side) = self.asked.get_mut(&stream) else { return };
        if side.unconsumed > 0 {
            let count = 1 + self.random.below(side.unconsumed);
            side.unconsumed -= count;
            self.client.consumed(side.key, count);
        }
        if side.has_received_all && side.unconsumed == 0 || self.random.one_in(60) {
            self.client.release(side.key, ErrorCode::CANCEL);
            self.asked.remove(&stream);
        }
    }

    fn server_hears(&mut self) {
        if !self.server.may_receive() {
            return;
        }
        let count = (1 + self.random.below(20_000)).min(self.up.len());
        let (input, mut used) = (self.up[..count].to_vec(), 0);
        while let Some(event) = self.server.next(&input, &mut used, &mut self.heads.0).unwrap() {
            match event {
                Event::Request(key) => {
                    let mut side = Side::new(key, length_of(key.id(), 3), self.random.one_in(3));
                    side.has_received_all = http::request_body_length(&self.heads.0).is_empty();
                    self.answered.insert(key.id(), side);
                }
                Event::Data { stream, from, to, ends } => {
                    hears(self.answered.get_mut(&stream.id()), stream, &input[from..to], ends)
                }
                Event::Trailers(stream) => hears(self.answered.get_mut(&stream.id()), stream, b"", true),
                Event::Reset { stream, by_peer, code } => {
                    assert!(by_peer, "{code:?}");
                    self.server.release(stream, ErrorCode::CANCEL);
                    self.answered.remove(&stream.id());
                }
                Event::Refused => {}
                other => panic!("{other:?}"),
            }
        }
        self.up.drain(..used);
    }

    fn client_hears(&mut self) {
        if !self.client.may_receive() {
            return;
        }
        let count = (1 + self.random.below(20_000)).min(self.down.len());
        let (input, mut used) = (self.down[..count].to_vec(), 0);
        while let Some(event) = self.client.next(&input, &mut used, &mut self.heads.1).unwrap() {
            match event {
                Event::Response { stream, ends } => {
                    let side = self.asked.get_mut(&stream.id()).unwrap();
                    assert!(!side.has_head);
                    side.has_head = self.heads.1.status() == 200;
                    side.has_received_all = ends;
                    self.check(stream, ends);
                }
                Event::Data { stream, from, to, ends } => {
                    let side = self.asked.get_mut(&stream.id());
                    assert!(side.as_ref().unwrap().has_head);
                    hears(side, stream, &input[from..to], ends);
                    self.check(stream, ends);
                }
                Event::Trailers(stream) => {
                    assert_eq!(self.client.trailers(), b"grpc-status: 0\r\n");
                    hears(self.asked.get_mut(&stream.id()), stream, b"", true);
                    self.check(stream, true);
                }
                Event::Reset { stream, by_peer, code } => {
                    assert!(by_peer, "{code:?}");
                    let side = self.asked.remove(&stream.id()).unwrap();
                    match code {
                        ErrorCode::REFUSED_STREAM => self.tally.refused += 1,
                        _ => self.tally.reset += 1,
                    }
                    // Whatever came before is worth what it was.
                    assert!(code != ErrorCode::NO_ERROR || side.has_received_all);
                    self.client.release(stream, ErrorCode::CANCEL);
                }
                other => panic!("{other:?}"),
            }
        }
        self.down.drain(..used);
        let unread: usize = self.asked.values().map(|side| side.unconsumed).sum();
        assert!(unread <= self.client.settings().connection_window as usize);
    }

    fn check(&mut self, stream: StreamKey, ends: bool) {
        if ends {
            assert_eq!(self.asked[&stream.id()].received, length_of(stream.id(), 3));
            self.tally.answered += 1;
        }
    }

    fn send(&mut self) {
        while let Some(key) = self.server.next_sendable() {
            self.go_on_answering(key.id());
        }
        while let Some(key) = self.client.next_sendable() {
            self.go_on_asking(key.id());
        }
        let mut out = Vec::new();
        self.server.take_output(&mut out);
        self.down.append(&mut out);
        out.clear();
        self.client.take_output(&mut out);
        self.up.append(&mut out);
        self.server.note_unsent(0);
        self.client.note_unsent(0);
    }
}

fn hears(side: Option<&mut Side>, stream: StreamKey, data: &[u8], ends: bool) {
    let side = side.unwrap();
    assert!(data == body(stream.id(), side.received, data.len()));
    side.received += data.len();
    side.unconsumed += data.len();
    side.has_received_all |= ends;
}

/// Plays for so many steps, then lets everything come to its end.
fn play(seed: u64, steps: usize) -> Tally {
    let mut world = World::new(seed);
    let leaves_at = if seed.is_multiple_of(3) { steps / 2 } else { usize::MAX };
    for step in 0..steps {
        world.client.look_at_clock(step as u64 * 20);
        world.server.look_at_clock(step as u64 * 20);
        if step == leaves_at {
            world.server.begin_leaving();
        }
        for _ in 0..4 {
            match world.random.below(6) {
                0 => world.ask(),
                1 => world.server_hears(),
                2 => world.answer(),
                3 => world.send(),
                4 => world.client_hears(),
                _ => world.take(),
            }
        }
    }
    let mut rounds = 0;
    while !world.asked.is_empty() || !world.answered.is_empty() {
        rounds += 1;
        assert!(rounds < 100_000, "seed {seed} does not come to its end: {:?} {:?}", world.asked, world.answered);
        world.client.look_at_clock((steps + rounds) as u64 * 20);
        world.server.look_at_clock((steps + rounds) as u64 * 20);
        for _ in 0..4 {
            world.server_hears();
            world.answer();
            world.send();
            world.client_hears();
            world.take();
        }
    }
    assert_eq!((world.client.streams(), world.client.has_server_left()), (0, leaves_at < steps));
    world.tally
}

#[test]
fn every_answer_arrives_whole() {
    let (first, count) = match std::env::var("SEED") {
        Ok(seed) => (seed.parse().unwrap(), 1),
        Err(_) => (1, 30),
    };
    let mut all = Tally::default();
    for seed in first..first + count {
        eprintln!("seed {seed}");
        let tally = play(seed, 1_000);
        all.answered += tally.answered;
        all.refused += tally.refused;
        all.reset += tally.reset;
    }
    let many = usize::try_from(count).unwrap();
    assert!(all.answered > 10 * many && (count == 1 || all.refused > many && all.reset > many));
}
