//! How long a disk tier takes to start: `warm_start [OBJECTS] [BYTES]` fills one in a temporary folder and opens it again.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "an example")]

use std::{sync::Arc, time::Instant};

use cache::{
    index::{Cache, Found, Query},
    object::{Kind, Lifetime, Object},
    storage::{Stevedore, disk::RealFiles},
};
use http::{Headers, ResponseHead, Version};

fn digest(number: usize) -> [u8; 32] {
    let mut digest = [0; 32];
    let mut mixed = number as u64 ^ 0x9e37_79b9_7f4a_7c15;
    for chunk in digest.chunks_mut(8) {
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^= mixed >> 27;
        chunk.copy_from_slice(&mixed.to_le_bytes());
    }
    digest
}

fn head() -> ResponseHead {
    let mut head = ResponseHead::new();
    head.start(Version::Http11, 200);
    let fields = [
        ("Server", "nginx"),
        ("Date", "Mon, 23 Nov 2026 12:00:00 GMT"),
        ("Content-Type", "text/html; charset=utf-8"),
        ("Content-Length", "1000"),
        ("Last-Modified", "Mon, 23 Nov 2026 11:00:00 GMT"),
        ("ETag", "\"6742f9a0-3e8\""),
        ("Cache-Control", "public, max-age=3600"),
    ];
    for (name, value) in fields {
        head.headers.add(name.as_bytes(), value.as_bytes());
    }
    head
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<usize>().unwrap());
    let (objects, bytes) = (arguments.next().unwrap_or(1_000_000), arguments.next().unwrap_or(1000));
    let folder = tempfile::tempdir_in(".").unwrap();
    let path = folder.path().join("cache");
    let size = objects as u64 * (bytes as u64 + 2048);
    let now = 1000.0;
    let request = Headers::new();
    let start = Instant::now();
    {
        let cache = Cache::new();
        let files = Box::new(RealFiles::open(&path, size).unwrap());
        let (storage, _) = Stevedore::file("s0", files, size, &cache, now).unwrap();
        let body = vec![b'x'; bytes];
        for number in 0..objects {
            let Found::Miss { fetch, .. } = cache.lookup(&Query::new(digest(number), b"/", &request, now)) else {
                panic!()
            };
            let lifetime = Lifetime { origin: now, ttl: 3600.0, grace: 10.0, keep: 0.0 };
            let (object, mut filler) = Object::start(&cache, &storage, Kind::Ordinary, head(), lifetime).unwrap();
            filler.expect(bytes as u64);
            filler.write(&body).unwrap();
            filler.finish();
            fetch.publish(object);
        }
        let journal = storage.disk().unwrap().journal_bytes();
        println!("filled {objects} objects of {bytes} bytes in {:.2?}; journal {journal} bytes", start.elapsed());
    }
    let before = resident();
    let start = Instant::now();
    let cache = Cache::new();
    let files = Box::new(RealFiles::open(&path, size).unwrap());
    let (storage, recovered) = Stevedore::file("s0", files, size, &cache, now).unwrap();
    println!("started in {:.2?}: {recovered:?}", start.elapsed());
    let start = Instant::now();
    let found = (0..1000).filter(|number| {
        let query = Query::new(digest(number * (objects / 1000).max(1)), b"/", &request, now);
        matches!(cache.lookup(&query), Found::Hit(object) if object.head().headers.len() == 7)
    });
    println!("{} of 1000 found, looked at for the first time, in {:.2?}", found.count(), start.elapsed());
    println!("{} bytes of memory an object", (resident().saturating_sub(before)) / objects as u64);
    drop((Arc::clone(&storage), storage));
}
