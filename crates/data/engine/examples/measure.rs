//! How fast the engine is here: `cargo run --profile quick -p engine --example measure`.

#![expect(clippy::unwrap_used, reason = "what fails cannot be measured")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{Batch, Bounds, Direction, Engine, FjallEngine, FjallOptions, LogOffset, Tables, record};

/// Key of 16 bytes and value of 100, as the design's figures have them.
const VALUE: [u8; 100] = [7; 100];

fn key(number: u64) -> [u8; 16] {
    // Scattered, as hashes of keys are.
    let scattered = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut key = [0; 16];
    let (first, second) = key.split_at_mut(8);
    first.copy_from_slice(&(scattered >> 54 << 48 | scattered << 10 >> 16).to_be_bytes());
    second.copy_from_slice(&number.to_be_bytes());
    key
}

fn cpu_us() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let ticks: f64 = stat.split(' ').skip(13).take(2).filter_map(|word| word.parse::<f64>().ok()).sum();
    ticks * 10_000.0
}

/// What the process takes of memory, in megabytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok()).unwrap_or_default() >> 10
}

fn report(what: &str, count: u64, run: impl FnOnce()) {
    let (begin, cpu) = (Instant::now(), cpu_us());
    run();
    let (wall, cpu) = (begin.elapsed().as_secs_f64(), cpu_us() - cpu);
    println!(
        "{what:40} {:8.2} us each, {:6.2} us of CPU, {:8.0} a second",
        wall * 1e6 / count as f64,
        cpu / count as f64,
        count as f64 / wall
    );
}

fn engines(engine: &dyn Engine, records: u64) {
    for size in [32, 1_000, 100_000] {
        let mut longest = Duration::ZERO;
        report(&format!("write in batches of {size}"), records, || {
            for first in (0..records - records % size as u64).step_by(size) {
                let mut batch = Batch::new();
                for number in first..first + size as u64 {
                    batch.put(key(number), VALUE);
                }
                batch.set_applied(LogOffset(first));
                let begin = Instant::now();
                engine.write(&batch).unwrap();
                longest = longest.max(begin.elapsed());
            }
        });
        let memory = engine.memory_bytes() >> 20;
        println!("longest batch {} ms, {memory} MB in memory, process {} MB", longest.as_millis(), resident());
    }
    report("settle", records, || engine.sync().unwrap());
    std::thread::sleep(Duration::from_secs(2));
    report("get, any", 200_000, || {
        for number in 0..200_000 {
            assert!(engine.get(&key(number * 7919 % records)).unwrap().is_some());
        }
    });
    report("get, hot", 1_000_000, || {
        for number in 0..1_000_000 {
            assert!(engine.get(&key(number % 1_000)).unwrap().is_some());
        }
    });
    report("get, not there", 200_000, || {
        for number in 0..200_000 {
            assert!(engine.get(&key(number + records * 2)).unwrap().is_none());
        }
    });
    report("scan", records, || {
        assert!(engine.scan(&Bounds::all(), Direction::Forward).count() as u64 >= records);
    });
    let (disk, memory) = (engine.disk_bytes() >> 20, engine.memory_bytes() >> 20);
    println!("{disk} MB on disk, {memory} MB in memory, process {} MB", resident());
}

fn overlay(engine: Arc<dyn Engine>) {
    let mut tables = Tables::new(engine);
    let name = |number: u64| format!("user:{:012}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24);
    let keys: Vec<_> = (0..1_000_000).map(|n| record::key(1, (n % 1024) as u16, 0, name(n).as_bytes())).collect();
    for count in [10_000_usize, 200_000, 1_000_000] {
        report(&format!("put into an overlay of {count}"), count as u64, || {
            for key in keys.iter().take(count) {
                tables.put(key.clone(), VALUE);
            }
        });
        report(&format!("get out of an overlay of {count}"), count as u64, || {
            for key in keys.iter().rev().skip(keys.len() - count) {
                assert!(tables.get_in_memory(key).is_some());
            }
        });
        tables.freeze(LogOffset(1));
        tables.written();
    }
}

fn main() {
    let records = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(500_000);
    let folder = std::env::temp_dir().join(format!("tidegate-measure-{}", std::process::id()));
    let open = || FjallEngine::open(&folder, &FjallOptions::default()).unwrap();
    engines(&open(), records);
    report("open again", 1, || drop(open()));
    overlay(Arc::new(open()));
    let _ = std::fs::remove_dir_all(folder);
}
