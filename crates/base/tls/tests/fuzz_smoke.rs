//! A short run of the fuzz targets: first flights, and records after a handshake, by chance.

#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

#[path = "../../../../fuzz/src/tls.rs"]
mod targets;

use std::time::{Duration, Instant};

use ::tls::{ClientOptions, Connection, Connector};

/// How long each goes on: `TIDEGATE_FUZZ_SECONDS`, or a moment.
fn time() -> Duration {
    std::env::var("TIDEGATE_FUZZ_SECONDS")
        .ok()
        .and_then(|seconds| seconds.parse().ok())
        .map_or(Duration::from_millis(300), Duration::from_secs)
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize
    }
}

/// Runs a target for a while, by chance that follows from a number; how often.
fn run(mut once: impl FnMut(&mut Random)) -> usize {
    let (end, mut count) = (Instant::now() + time(), 0);
    while count < 3 || Instant::now() < end {
        count += 1;
        once(&mut Random(0x9e37_79b9_7f4a_7c15 ^ (count as u64) << 20));
    }
    count
}

#[test]
fn first_flights() {
    let connector = Connector::new(&ClientOptions::default()).unwrap();
    let count = run(|random| {
        let mut client = Connection::client(&connector, Some("localhost"), None).unwrap();
        client.handshake().unwrap();
        let mut flight = client.outgoing().to_vec();
        for _ in 0..random.next() % 4 {
            let at = random.next() % flight.len();
            match random.next() % 5 {
                0 => flight.truncate(at + 1),
                1 => flight[at % 64] = random.next() as u8,
                2 => {
                    let copied = flight[at..].to_vec();
                    flight.extend(copied);
                }
                3 => drop(flight.remove(at)),
                _ => flight[at] ^= 1 << (random.next() % 8),
            }
            if flight.is_empty() {
                flight.push(22);
            }
        }
        targets::hello(&flight);
    });
    println!("{count} first flights");
}

#[test]
fn records_on_their_way() {
    let count = run(|random| {
        let length = random.next() % 200;
        let bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
        targets::records(&bytes);
    });
    println!("{count} connections");
}
