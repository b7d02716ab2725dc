//! A short run of the fuzz targets of this crate: the lines of its tests, and seeded mutations of them.

#![expect(clippy::indexing_slicing, reason = "a test")]

#[path = "../../../../fuzz/src/configuration.rs"]
mod configuration;

use haproxycfg::source::Bundle;

/// A generator of numbers that always gives the same (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

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

/// Bytes that mean something somewhere.
const SPECIAL: &[u8] = b" \t\n\r\0\"'\\#$%{}[](),;:/-+*!=<>@.x0123456789a\xff\xc3";

fn mutate(random: &mut Random, text: &mut Vec<u8>, other: &[u8]) {
    for _ in 0..=random.below(4) {
        let at = random.below(text.len() + 1);
        match random.below(7) {
            0 => text.insert(at, SPECIAL[random.below(SPECIAL.len())]),
            1 if at < text.len() => {
                text.remove(at);
            }
            2 if at < text.len() => text[at] = SPECIAL[random.below(SPECIAL.len())],
            3 if at < text.len() => text[at] ^= 1 << random.below(8),
            4 => text.truncate(at),
            5 => {
                let from = random.below(other.len());
                let length = random.below(other.len() - from + 1);
                text.splice(at..at, other[from..from + length].iter().copied());
            }
            6 => {
                let length = random.below(20).min(text.len() - at);
                let copy = text[at..at + length].to_vec();
                for _ in 0..random.below(30) {
                    text.splice(at..at, copy.iter().copied());
                }
            }
            _ => {}
        }
    }
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
