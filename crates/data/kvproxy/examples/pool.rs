//! A proxy alone, for profilers and `bench/proxy.py --lean`: `pool NUTCRACKER.YML [SECONDS]`, or `pool --topology FILE LISTEN [SECONDS]`.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a tool for measuring")]

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use kvproxy::{
    nutcracker::{self, PoolConfig, SlotsConfig},
    policy::ReadFrom,
    serve::{self, Source},
};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (pools, topology, seconds) = match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["--topology", file, listen, rest @ ..] => {
            let slots =
                SlotsConfig { retry_for: Duration::from_secs(5), of_one_server: false, read_from: ReadFrom::Master };
            let pool = PoolConfig::of_slots("pool", listen, slots).unwrap();
            (vec![pool], Some(Source::File(PathBuf::from(file))), rest.first().copied())
        }
        [file, rest @ ..] => {
            (nutcracker::parse(&std::fs::read_to_string(file).unwrap()).unwrap(), None, rest.first().copied())
        }
        [] => {
            eprintln!("pool NUTCRACKER.YML [SECONDS] | pool --topology FILE LISTEN [SECONDS]");
            return;
        }
    };
    let options =
        serve::Options { pools, workers: 1, client_output_max: 1 << 28, statistics: None, log: None, topology };
    let running = serve::start(options).unwrap();
    let end = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds.parse().unwrap()));
    running.wait(|| end.is_some_and(|end| Instant::now() >= end));
    running.stop();
}
