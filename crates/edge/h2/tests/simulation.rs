//! A client and a server's end of a connection in one process: what each sends is cut anywhere, windows open by little, streams
//! are reset by either side, the server announces its end. All that happens follows from a seed, which a failure names.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

use std::{collections::BTreeMap, sync::LazyLock};

use h2::{
    ErrorCode, Event, ServerConnection, Settings, StreamKey,
    frame::{self, FrameHeader, HEADER_LEN, flag, kind},
    hpack::{Decoder, Encoder, HeaderLimits, Indexing},
};
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
}

/// A part of the body of a stream, of the request's as of the answer's.
fn body(stream: u32, from: usize, count: usize) -> &'static [u8] {
    static BYTES: LazyLock<Vec<u8>> =
        LazyLock::new(|| (0..200_000usize).map(|place| (place * 7 + place / 251) as u8).collect());
    let start = stream as usize * 31 % 9_973 + from;
    &BYTES[start..start + count]
}

/// A stream as the client has it.
#[derive(Debug, Default)]
struct Asked {
    length: usize,
    sent: usize,
    has_ended: bool,
    window: i64,
    /// Of the answer.
    received: usize,
    receive_window: usize,
    has_head: bool,
    is_over: bool,
    was_reset: bool,
}

/// A stream as whoever answers has it.
#[derive(Debug)]
struct Answered {
    received: usize,
    unconsumed: usize,
    has_ended: bool,
    sent: usize,
    has_head: bool,
}

struct World {
    random: Seeded,
    machine: ServerConnection,
    settings: Settings,
    head: RequestHead,
    encoder: Encoder,
    decoder: Decoder,
    /// On its way to the server, and to the client.
    up: Vec<u8>,
    down: Vec<u8>,
    asked: BTreeMap<u32, Asked>,
    answered: BTreeMap<u32, (StreamKey, Answered)>,
    next: u32,
    window: i64,
    receive_window: usize,
    initial_window: usize,
    /// The last stream that the server serves.
    last: Option<u32>,
    served: usize,
}

/// What is asked of an answer, by the stream.
fn answer_length(stream: u32) -> usize {
    [0, 1, 300, 20_000, 70_000][stream as usize / 2 % 5]
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Seeded(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let settings = Settings {
            stream_window: [1_000, 65_535, 200_000][random.below(3)],
            connection_window: [65_535, 300_000][random.below(2)],
            streams_max: [1, 5, 100][random.below(3)],
            output_bytes_max: [8_000, 65_536][random.below(2)],
            ..Settings::default()
        };
        let mut world = Self {
            machine: ServerConnection::new(settings, Limits::default()),
            settings,
            head: RequestHead::new(),
            encoder: Encoder::new(),
            decoder: Decoder::new(4_096),
            up: frame::PREFACE.to_vec(),
            down: Vec::new(),
            asked: BTreeMap::new(),
            answered: BTreeMap::new(),
            next: 1,
            window: 65_535,
            receive_window: 65_535,
            initial_window: [100, 65_535, 1_000_000][random.below(3)],
            last: None,
            served: 0,
            random,
        };
        let initial = u32::try_from(world.initial_window).unwrap();
        frame::write_settings(&mut world.up, &[(4, initial), (2, 0)]);
        frame::write_settings_ack(&mut world.up);
        world
    }

    fn write(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        FrameHeader { length: u32::try_from(payload.len()).unwrap(), kind, flags, stream }.write(&mut self.up);
        self.up.extend_from_slice(payload);
    }

    /// The client does something.
    fn ask(&mut self) {
        let streams = self.asked.values().filter(|asked| !asked.is_over).count();
        match self.random.below(8) {
            0 | 1 if streams < self.settings.streams_max as usize && self.last.is_none() => self.begin(),
            2..=4 => self.upload(),
            5 => self.open_windows(),
            6 if self.random.one_in(20) => {
                let Some(stream) = self.some_open() else { return };
                frame::write_reset(&mut self.up, stream, ErrorCode::CANCEL);
                let asked = self.asked.get_mut(&stream).unwrap();
                (asked.is_over, asked.was_reset, asked.has_ended) = (true, true, true);
            }
            7 if self.random.one_in(10) => frame::write_ping(&mut self.up, 0, [1; 8]),
            _ => {}
        }
    }

    fn some_open(&mut self) -> Option<u32> {
        let open: Vec<u32> = self.asked.iter().filter(|(_, asked)| !asked.is_over).map(|(id, _)| *id).collect();
        if open.is_empty() { None } else { Some(open[self.random.below(open.len())]) }
    }

    fn begin(&mut self) {
        let stream = self.next;
        self.next += 2;
        let length = [0, 0, 5, 3_000, 150_000][self.random.below(5)];
        let tells = self.random.one_in(2);
        let mut block = Vec::new();
        self.encoder.begin(&mut block);
        let (text, path) = (length.to_string(), format!("/{stream}"));
        let fields = [(":method", "POST"), (":scheme", "https"), (":authority", "a"), (":path", &path), ("x", "y")];
        for (name, value) in fields.into_iter().chain(tells.then_some(("content-length", &text[..]))) {
            self.encoder.field(&mut block, name.as_bytes(), value.as_bytes(), Indexing::Index);
        }
        let ends = if length == 0 { flag::END_STREAM } else { 0 };
        let cut = self.random.below(block.len() + 1);
        let (first, rest) = block.split_at(cut);
        self.write(kind::HEADERS, ends, stream, first);
        self.write(kind::CONTINUATION, flag::END_HEADERS, stream, rest);
        let asked = Asked {
            length,
            has_ended: length == 0,
            window: i64::from(self.settings.stream_window),
            receive_window: self.initial_window,
            ..Asked::default()
        };
        self.asked.insert(stream, asked);
    }

    fn upload(&mut self) {
        let Some(stream) = self.some_open() else { return };
        let most = 1 + self.random.below(16_000);
        let padding = if self.random.one_in(4) { self.random.below(50) } else { 0 };
        let asked = self.asked.get_mut(&stream).unwrap();
        let room = asked.window.min(self.window) - padding as i64 - 1;
        let count = (asked.length - asked.sent).min(most).min(usize::try_from(room).unwrap_or(0));
        if asked.has_ended || count == 0 {
            return;
        }
        let data = body(stream, asked.sent, count);
        asked.sent += count;
        asked.has_ended = asked.sent == asked.length;
        let flags = if asked.has_ended { flag::END_STREAM } else { 0 };
        let padded = [&[padding as u8][..], data, &vec![0; padding]].concat();
        let (flags, payload) = if padding > 0 { (flags | flag::PADDED, padded) } else { (flags, data.to_vec()) };
        asked.window -= payload.len() as i64;
        self.window -= payload.len() as i64;
        self.write(kind::DATA, flags, stream, &payload);
    }

    fn open_windows(&mut self) {
        let more = 1 + self.random.below(60_000);
        if self.receive_window < 100_000 {
            self.receive_window += more;
            frame::write_window_update(&mut self.up, 0, u32::try_from(more).unwrap());
        }
        let Some(stream) = self.some_open() else { return };
        let asked = self.asked.get_mut(&stream).unwrap();
        if asked.receive_window < 100_000 {
            asked.receive_window += more;
            frame::write_window_update(&mut self.up, stream, u32::try_from(more).unwrap());
        }
    }

    /// Some of what the client has sent arrives.
    fn arrive(&mut self) {
        if !self.machine.may_receive() {
            return;
        }
        let count = 1 + self.random.below(20_000);
        let count = count.min(self.up.len());
        let input = self.up[..count].to_vec();
        let mut used = 0;
        while let Some(event) = self.machine.next(&input, &mut used, &mut self.head).unwrap() {
            self.take(event, &input);
        }
        assert!(input.len() - used < 32);
        self.up.drain(..used);
        let unread: usize = self.answered.values().map(|(_, answered)| answered.unconsumed).sum();
        assert!(unread <= self.settings.connection_window.max(65_535) as usize);
        assert!(self.machine.streams() <= self.settings.streams_max as usize);
    }

    fn take(&mut self, event: Event, input: &[u8]) {
        match event {
            Event::Request(key) => {
                assert_eq!(self.head.target(), format!("/{}", key.id()).as_bytes());
                let has_ended = http::request_body_length(&self.head).is_empty();
                let answered = Answered { received: 0, unconsumed: 0, has_ended, sent: 0, has_head: false };
                self.answered.insert(key.id(), (key, answered));
            }
            Event::Data { stream, from, to, ends } => {
                let (_, answered) = self.answered.get_mut(&stream.id()).unwrap();
                assert!(input[from..to] == *body(stream.id(), answered.received, to - from));
                answered.received += to - from;
                answered.unconsumed += to - from;
                answered.has_ended |= ends;
                if ends {
                    assert_eq!(answered.received, self.asked[&stream.id()].length);
                }
            }
            Event::Reset { stream, by_peer, code } => {
                assert!(by_peer && self.asked[&stream.id()].was_reset, "{code:?}");
                self.answered.remove(&stream.id());
                self.machine.release(stream, ErrorCode::CANCEL);
            }
            other => panic!("{other:?}"),
        }
    }

    /// Whoever answers does something.
    fn answer(&mut self) {
        if self.answered.is_empty() {
            return;
        }
        let stream = *self.answered.keys().nth(self.random.below(self.answered.len())).unwrap();
        let (key, answered) = self.answered.get_mut(&stream).unwrap();
        let key = *key;
        if answered.unconsumed > 0 {
            let count = 1 + self.random.below(answered.unconsumed);
            answered.unconsumed -= count;
            self.machine.consumed(key, count);
        }
        if !answered.has_ended && !self.random.one_in(30) {
            return;
        }
        if !answered.has_head {
            answered.has_head = true;
            let mut head = ResponseHead::new();
            head.start(Version::Http11, 200);
            head.headers.add(b"x-stream", stream.to_string().as_bytes());
            self.machine.send_head(key, &head, false);
        }
        self.go_on(stream);
    }

    /// Sends what can be sent of an answer, and ends it after the last byte.
    fn go_on(&mut self, stream: u32) {
        let Some((key, answered)) = self.answered.get_mut(&stream) else { return };
        let (key, length) = (*key, answer_length(stream));
        answered.sent += self.machine.send_data(key, body(stream, answered.sent, length - answered.sent), false);
        if answered.sent == length {
            self.machine.end(key);
            self.machine.release(key, ErrorCode::CANCEL);
            self.answered.remove(&stream);
            self.served += 1;
        }
    }

    /// What the server has to send is sent, or a part of it.
    fn send(&mut self) {
        while let Some(key) = self.machine.next_sendable() {
            self.go_on(key.id());
        }
        let mut out = Vec::new();
        self.machine.take_output(&mut out);
        assert!(out.len() < 3 * self.settings.output_bytes_max + 40_000, "{}", out.len());
        self.down.extend_from_slice(&out);
        self.machine.note_unsent(0);
    }

    /// The client reads.
    fn read(&mut self) {
        while let Some((header, rest)) = self.down.split_first_chunk::<HEADER_LEN>() {
            let header = FrameHeader::read(*header);
            let payload = rest[..header.length as usize].to_vec();
            self.down.drain(..HEADER_LEN + payload.len());
            self.hear(header, &payload);
        }
    }

    fn hear(&mut self, header: FrameHeader, payload: &[u8]) {
        let number = |bytes: &[u8]| u32::from_be_bytes(bytes[..4].try_into().unwrap());
        let ends = header.has(flag::END_STREAM) && matches!(header.kind, kind::DATA | kind::HEADERS);
        match header.kind {
            kind::HEADERS => {
                let mut fields = 0;
                let limits = HeaderLimits { fields: 10, bytes: 1_000 };
                let decoded = self.decoder.decode(payload, &limits, |_| {
                    fields += 1;
                    Ok::<(), ()>(())
                });
                decoded.unwrap();
                assert_eq!(fields, 2);
                self.asked.get_mut(&header.stream).unwrap().has_head = true;
            }
            kind::DATA => {
                let asked = self.asked.get_mut(&header.stream).unwrap();
                assert!(asked.has_head && (!asked.is_over || asked.was_reset));
                assert!(payload == body(header.stream, asked.received, payload.len()));
                asked.received += payload.len();
                asked.receive_window = asked.receive_window.checked_sub(payload.len()).expect("the stream's window");
                self.receive_window = self.receive_window.checked_sub(payload.len()).expect("the window");
            }
            kind::WINDOW_UPDATE if header.stream == 0 => self.window += i64::from(number(payload)),
            kind::WINDOW_UPDATE => {
                let asked = self.asked.get_mut(&header.stream).unwrap();
                asked.window += i64::from(number(payload));
                assert!(asked.window <= i64::from(self.settings.stream_window));
            }
            kind::RST_STREAM => {
                let asked = self.asked.get_mut(&header.stream).unwrap();
                // The rest of the body is not wanted.
                assert_eq!((number(payload), asked.is_over), (0, true));
                asked.has_ended = true;
            }
            kind::GOAWAY => {
                assert_eq!(number(&payload[4..]), 0, "{}", ErrorCode(number(&payload[4..])).name());
                self.last = Some(number(payload));
            }
            kind::PING if !header.has(flag::ACK) => {
                frame::write_ping(&mut self.up, flag::ACK, payload.try_into().unwrap())
            }
            _ => {}
        }
        if ends {
            let asked = self.asked.get_mut(&header.stream).unwrap();
            asked.is_over = true;
            assert!(asked.was_reset || asked.received == answer_length(header.stream), "{}", header.stream);
        }
    }
}

/// Plays for so many steps, then lets everything come to its end.
fn play(seed: u64, steps: usize) -> usize {
    let mut world = World::new(seed);
    let leaves_at = if seed.is_multiple_of(3) { steps / 2 } else { usize::MAX };
    for step in 0..steps {
        world.machine.look_at_clock(step as u64 * 20);
        if step == leaves_at {
            world.machine.begin_leaving();
        }
        for _ in 0..4 {
            match world.random.below(5) {
                0 => world.ask(),
                1 => world.arrive(),
                2 => world.answer(),
                3 => world.send(),
                _ => world.read(),
            }
        }
    }
    let mut rounds = 0;
    while world.asked.iter().any(|(id, asked)| !asked.is_over && world.last.is_none_or(|last| *id <= last)) {
        rounds += 1;
        assert!(rounds < 100_000, "seed {seed} does not come to its end: {:?} {:?}", world.asked, world.answered);
        world.machine.look_at_clock((steps + rounds) as u64 * 20);
        world.upload();
        world.open_windows();
        for _ in 0..4 {
            world.arrive();
            world.answer();
            world.send();
            world.read();
        }
    }
    world.served
}

#[test]
fn every_answer_arrives_whole() {
    let (first, count) = match std::env::var("SEED") {
        Ok(seed) => (seed.parse().unwrap(), 1),
        Err(_) => (1, 30),
    };
    let mut served = 0;
    for seed in first..first + count {
        eprintln!("seed {seed}");
        served += play(seed, 1_000);
    }
    assert!(served > 10 * usize::try_from(count).unwrap(), "{served}");
}
