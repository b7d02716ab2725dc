//! What the benchmarks send to a store, where redis-benchmark cannot: keys as popular as Zipf says, values of any size that
//! do not compress, and the longest time in which nothing was answered at all.
//!
//! `cargo run --release -p store --example load -- --port 6379 --keys 1000000 --size 1000 --op set --order sequence`
//!
//! Prints one line of JSON: operations a second, microseconds of p50, p99, p99.9 and the longest, and the longest silence.

#![allow(clippy::indexing_slicing, reason = "a tool for benchmarks: it may stop")]

use std::{
    collections::{HashMap, VecDeque},
    io::{self, Read as _, Write as _},
    net::SocketAddr,
    time::{Duration, Instant},
};

use mio::{Events, Interest, Poll, Token, net::TcpStream};

struct Options {
    address: SocketAddr,
    connections: usize,
    pipeline: usize,
    keys: u64,
    size: usize,
    is_read: bool,
    /// Commands in all.
    count: u64,
    seconds: f64,
    order: Order,
}

enum Order {
    /// One after another.
    Sequence,
    /// Each as likely.
    Uniform,
    /// As Zipf's law has it with this exponent, the popular ones anywhere.
    Zipf(Zipf),
}

impl Options {
    fn read() -> Result<Self, String> {
        let words: Vec<String> = std::env::args().skip(1).collect();
        let mut given = HashMap::new();
        for pair in words.chunks(2) {
            let [name, value] = pair else { return Err("an option has no value".into()) };
            given.insert(name.trim_start_matches("--").to_owned(), value.clone());
        }
        let mut take = |name: &str, default: &str| given.remove(name).unwrap_or_else(|| default.to_owned());
        let number = |name: &str, text: String| text.parse::<f64>().map_err(|_| format!("{name} is no number: {text}"));
        let keys = number("keys", take("keys", "100000"))? as u64;
        let seconds = number("seconds", take("seconds", "1e9"))?;
        let options = Self {
            address: format!("127.0.0.1:{}", take("port", "6379")).parse().map_err(|_| "no such port".to_owned())?,
            connections: number("connections", take("connections", "64"))? as usize,
            pipeline: number("pipeline", take("pipeline", "1"))?.max(1.0) as usize,
            keys,
            size: number("size", take("size", "100"))? as usize,
            is_read: take("op", "get") == "get",
            count: number("count", take("count", if seconds < 1e9 { "1e18" } else { "1e6" }))? as u64,
            seconds,
            order: match take("order", "uniform").as_str() {
                "sequence" => Order::Sequence,
                "uniform" => Order::Uniform,
                zipf => Order::Zipf(Zipf::new(keys, number("order", zipf.trim_start_matches("zipf:").to_owned())?)),
            },
        };
        match given.keys().next() {
            Some(name) => Err(format!("no option --{name}")),
            None => Ok(options),
        }
    }
}

/// Ranks as Zipf's law has them, by rejection from the inverse of its integral (Hörmann and Derflinger, 1996).
struct Zipf {
    exponent: f64,
    low: f64,
    high: f64,
    shortcut: f64,
    ranks: f64,
}

impl Zipf {
    fn new(ranks: u64, exponent: f64) -> Self {
        let ranks = ranks as f64;
        let mut zipf = Self { exponent, low: 0.0, high: 0.0, shortcut: 0.0, ranks };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(ranks + 0.5);
        zipf.shortcut = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    fn weight(&self, rank: f64) -> f64 {
        rank.powf(-self.exponent)
    }

    fn integral(&self, rank: f64) -> f64 {
        let power = 1.0 - self.exponent;
        if power.abs() < 1e-9 { rank.ln() } else { (rank.powf(power) - 1.0) / power }
    }

    fn inverse(&self, integral: f64) -> f64 {
        let power = 1.0 - self.exponent;
        if power.abs() < 1e-9 { integral.exp() } else { (1.0 + integral * power).powf(1.0 / power) }
    }

    /// A rank from 0 on.
    fn draw(&self, random: &mut Random) -> u64 {
        loop {
            let at = self.high + random.unit() * (self.low - self.high);
            let wide = self.inverse(at);
            let rank = wide.round().clamp(1.0, self.ranks);
            if rank - wide <= self.shortcut || at >= self.integral(rank + 0.5) - self.weight(rank) {
                return rank as u64 - 1;
            }
        }
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Commands on their way.
struct Connection {
    stream: TcpStream,
    output: Vec<u8>,
    input: Vec<u8>,
    sent: VecDeque<Instant>,
}

struct Load {
    options: Options,
    random: Random,
    begun: u64,
    misses: u64,
    errors: u64,
    /// Microseconds of each answer, in steps of 5%.
    latencies: Vec<u64>,
    longest_us: u64,
}

impl Load {
    fn command(&mut self, out: &mut Vec<u8>) {
        let key = match &self.options.order {
            Order::Sequence => self.begun % self.options.keys,
            Order::Uniform => self.random.next() % self.options.keys,
            Order::Zipf(zipf) => mix(zipf.draw(&mut self.random)) % self.options.keys,
        };
        self.begun += 1;
        let name = format!("key:{key:012}");
        if self.options.is_read {
            resp::encode_command(out, &[b"GET".as_slice(), name.as_bytes()]);
            return;
        }
        let mut value = Vec::with_capacity(self.options.size + 8);
        while value.len() < self.options.size {
            value.extend_from_slice(&self.random.next().to_le_bytes());
        }
        value.truncate(self.options.size);
        resp::encode_command(out, &[b"SET".as_slice(), name.as_bytes(), &value]);
    }

    fn note(&mut self, latency: Duration) {
        let us = latency.as_micros() as u64;
        self.longest_us = self.longest_us.max(us);
        let step = ((us.max(1) as f64).ln() / 1.05_f64.ln()) as usize;
        if self.latencies.len() <= step {
            self.latencies.resize(step + 1, 0);
        }
        self.latencies[step] += 1;
    }

    fn percentile(&self, share: f64) -> u64 {
        let wanted = (self.latencies.iter().sum::<u64>() as f64 * share) as u64;
        let mut seen = 0;
        for (step, count) in self.latencies.iter().enumerate() {
            seen += count;
            if seen > wanted {
                return 1.05_f64.powi(step as i32 + 1) as u64;
            }
        }
        self.longest_us
    }
}

/// How long the reply to a GET or SET is; nothing if it has not come whole.
fn reply_len(input: &[u8]) -> Option<usize> {
    let line = input.windows(2).position(|two| two == b"\r\n")? + 2;
    let bulk = match input.first()? {
        b'$' => resp::parse_integer(&input[1..line - 2]).filter(|len| *len >= 0).map_or(0, |len| len as usize + 2),
        _ => 0,
    };
    (input.len() >= line + bulk).then_some(line + bulk)
}

fn write(connection: &mut Connection) -> io::Result<()> {
    while !connection.output.is_empty() {
        match connection.stream.write(&connection.output) {
            Ok(count) => drop(connection.output.drain(..count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = Options::read()?;
    let mut poll = Poll::new()?;
    let mut connections = Vec::new();
    for index in 0..options.connections {
        let stream = std::net::TcpStream::connect(options.address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let mut stream = TcpStream::from_std(stream);
        poll.registry().register(&mut stream, Token(index), Interest::READABLE | Interest::WRITABLE)?;
        let (output, input, sent) = (Vec::new(), Vec::new(), VecDeque::new());
        connections.push(Connection { stream, output, input, sent });
    }
    let seed = u64::from(std::process::id());
    let mut load =
        Load { options, random: Random(seed), begun: 0, misses: 0, errors: 0, latencies: Vec::new(), longest_us: 0 };
    let began = Instant::now();
    let until = began + Duration::from_secs_f64(load.options.seconds);
    for connection in &mut connections {
        for _ in 0..load.options.pipeline {
            load.command(&mut connection.output);
            connection.sent.push_back(began);
        }
        write(connection)?;
    }
    let mut events = Events::with_capacity(1024);
    let mut scratch = vec![0; 1 << 18];
    let (mut answered, mut last_answer, mut silence) = (0_u64, began, Duration::ZERO);
    while answered < load.begun {
        poll.poll(&mut events, None)?;
        for event in &events {
            let connection = &mut connections[event.token().0];
            write(connection)?;
            loop {
                match connection.stream.read(&mut scratch) {
                    Ok(0) => return Err("the server closed a connection".into()),
                    Ok(count) => connection.input.extend_from_slice(&scratch[..count]),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error.into()),
                }
            }
            let now = Instant::now();
            let mut consumed = 0;
            while let Some(len) = reply_len(&connection.input[consumed..]) {
                match connection.input[consumed] {
                    b'-' => load.errors += 1,
                    b'$' if connection.input[consumed + 1] == b'-' => load.misses += 1,
                    _ => {}
                }
                consumed += len;
                answered += 1;
                silence = silence.max(now - last_answer);
                last_answer = now;
                if let Some(sent) = connection.sent.pop_front() {
                    load.note(now - sent);
                }
                if load.begun < load.options.count && now < until {
                    load.command(&mut connection.output);
                    connection.sent.push_back(now);
                }
            }
            connection.input.drain(..consumed);
            write(connection)?;
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    println!(
        r#"{{"count": {answered}, "seconds": {seconds:.2}, "rate": {:.0}, "p50_us": {}, "p99_us": {}, "p999_us": {}, "longest_us": {}, "silence_us": {}, "misses": {}, "errors": {}}}"#,
        answered as f64 / seconds,
        load.percentile(0.5),
        load.percentile(0.99),
        load.percentile(0.999),
        load.longest_us,
        silence.as_micros(),
        load.misses,
        load.errors,
    );
    Ok(())
}
