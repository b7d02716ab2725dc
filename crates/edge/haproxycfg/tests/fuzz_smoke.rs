//! A short run of the fuzz targets of this crate: the lines of its tests, and seeded mutations of them.

#[path = "../../../../fuzz/src/configuration.rs"]
mod configuration;

mod mutation;

use haproxycfg::source::Bundle;

use self::mutation::{Random, mutate};

/// Lines to start from: those of both corpora, with sections around them.
fn corpus() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    let mut context = "";
    for line in
        include_str!("../src/tests/settings.txt").lines().chain(include_str!("../src/rules/tests/lines.txt").lines())
    {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            context = match name {
                "global" => "global",
                "backend" => "backend b\nmode http\nserver s1 127.0.0.1:1",
                "listen" => "listen l\nmode http",
                "userlist" => "userlist u",
                "http-errors" => "http-errors e",
                "file" => "",
                name if name.contains("defaults") => "defaults d",
                _ => "frontend f\nmode http\nbind :1",
            };
        } else if let Some(text) = line.get(2..).filter(|_| line.starts_with(['=', '!', '-', '+'])) {
            seeds.push(format!("{context}\n{}\n", text.replace(" ## ", "\n")).into_bytes());
        }
    }
    assert!(seeds.len() > 1500, "{}", seeds.len());
    seeds
}

/// How many texts are tried; `FUZZ_ROUNDS` in the environment asks for more.
const ROUNDS: usize = 3000;

#[test]
fn broken_text_never_breaks_the_parser() {
    let seeds = corpus();
    let mut random = Random(0x5eed_cafe);
    let rounds = std::env::var("FUZZ_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(ROUNDS);
    for round in 0..rounds {
        let seed = random.0;
        let mut text = seeds[random.below(seeds.len())].clone();
        for _ in 0..random.below(3) {
            text.extend_from_slice(&seeds[random.below(seeds.len())]);
        }
        let other = &seeds[random.below(seeds.len())];
        mutate(&mut random, &mut text, other);
        if std::panic::catch_unwind(|| configuration::configuration(&text)).is_err() {
            panic!("round {round}, seed {seed:#x}: {:?}", String::from_utf8_lossy(&text));
        }
    }
}

#[test]
fn broken_bundles_are_refused() {
    let bundle = Bundle::default().with("a", b"one").with("b", b"").with_directory("c", &["x.cfg", "y.cfg"]);
    let bytes = bundle.to_bytes();
    let mut random = Random(0xb0_d1e5);
    for _ in 0..ROUNDS {
        let mut text = bytes.clone();
        mutate(&mut random, &mut text, &bytes);
        configuration::bundle(&text);
    }
}
