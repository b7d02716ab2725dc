//! How long a disk tier takes to start: `warm_start fill PATH 1000000 1000`, then `warm_start start PATH 1000000 1000`.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "an example")]

use std::{path::Path, sync::Arc, time::Instant};

use cache::{
    index::{Cache, Found, Query},
    object::{Kind, Lifetime, Object},
    storage::{
        Stevedore,
        disk::{RealFiles, Recovered},
    },
};
use http::{Headers, ResponseHead, Version};

const NOW: f64 = 1000.0;

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

/// User and system time of this process, in hundredths of a second.
fn cpu_time() -> (u64, u64) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let mut fields = stat.rsplit(')').next().unwrap().split_whitespace().skip(11).map(|field| field.parse().unwrap());
    (fields.next().unwrap(), fields.next().unwrap())
}

fn open(path: &Path, size: u64, cache: &Arc<Cache>) -> (Arc<Stevedore>, Recovered) {
    let files = Box::new(RealFiles::open(path, size).unwrap());
    Stevedore::file("s0", files, size, cache, NOW).unwrap()
}

fn fill(storage: &Arc<Stevedore>, cache: &Arc<Cache>, objects: usize, bytes: usize) {
    let (request, body, start) = (Headers::new(), vec![b'x'; bytes], Instant::now());
    for number in 0..objects {
        let Found::Miss { fetch, .. } = cache.lookup(&Query::new(digest(number), b"/", &request, NOW)) else {
            panic!()
        };
        let lifetime = Lifetime { origin: NOW, ttl: 3600.0, grace: 10.0, keep: 0.0 };
        let (object, mut filler) = Object::start(cache, storage, Kind::Ordinary, head(), lifetime).unwrap();
        filler.expect(bytes as u64);
        filler.write(&body).unwrap();
        filler.finish();
        fetch.publish(object);
    }
    let journal = storage.disk().unwrap().journal_bytes();
    println!("filled {objects} objects of {bytes} bytes in {:.2?}; journal {journal} bytes", start.elapsed());
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, path, objects, bytes] = &arguments[..] else { panic!("warm_start fill|start PATH OBJECTS BYTES") };
    let (objects, bytes) = (objects.parse::<usize>().unwrap(), bytes.parse::<usize>().unwrap());
    let size = objects as u64 * (bytes as u64 + 2048);
    let (cache, before, start) = (Cache::new(), resident(), Instant::now());
    let (storage, recovered) = open(Path::new(path), size, &cache);
    println!("started in {:.2?}, CPU {:?} s/100: {recovered:?}", start.elapsed(), cpu_time());
    if what == "fill" {
        return fill(&storage, &cache, objects, bytes);
    }
    println!("{} bytes of memory an object", resident().saturating_sub(before) / objects as u64);
    let (request, start) = (Headers::new(), Instant::now());
    let found = (0..1000).filter(|number| {
        let query = Query::new(digest(number * (objects / 1000).max(1)), b"/", &request, NOW);
        matches!(cache.lookup(&query), Found::Hit(object) if object.head().fields().count() == 7)
    });
    println!("{} of 1000 found, looked at for the first time, in {:.2?}", found.count(), start.elapsed());
    // NOTE: a process that ends does not take a million objects apart.
    std::process::exit(0);
}
