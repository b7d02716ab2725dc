//! Broken configurations: whatever the text, there is an answer and it is always the same.

use super::*;

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
    for line in include_str!("settings.txt").lines().chain(include_str!("../rules/tests/lines.txt").lines()) {
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

#[test]
fn broken_text_never_breaks_the_parser() {
    let seeds = corpus();
    let mut random = Random(0x5eed_cafe);
    for round in 0..6000 {
        let seed = random.0;
        let mut text = seeds[random.below(seeds.len())].clone();
        for _ in 0..random.below(3) {
            text.extend_from_slice(&seeds[random.below(seeds.len())]);
        }
        let other = &seeds[random.below(seeds.len())];
        mutate(&mut random, &mut text, other);
        let files = Bundle::default().with("t.cfg", &text);
        let outcome = std::panic::catch_unwind(|| {
            let parsed = parse(&["t.cfg".to_owned()], &files, BTreeMap::new(), &options());
            let rendered: String = parsed.diagnostics.iter().map(|diagnostic| diagnostic.render(1)).collect();
            (parsed.config.is_some(), rendered)
        });
        let Ok((is_accepted, rendered)) = outcome else {
            panic!("round {round}, seed {seed:#x}: panic on {:?}", String::from_utf8_lossy(&text));
        };
        let has_alert = rendered.lines().any(|line| line.starts_with("[ALERT]"));
        assert_eq!(is_accepted, !has_alert, "round {round}, seed {seed:#x}: {:?}", String::from_utf8_lossy(&text));
    }
}

#[test]
fn large_configurations_are_read_in_one_go() {
    use std::fmt::Write as _;
    let mut text =
        String::from("defaults\n  mode http\n  timeout client 1s\n  timeout connect 1s\n  timeout server 1s\n");
    for number in 0..3000 {
        let _ = write!(
            text,
            "frontend f{number}\n  bind 127.0.0.1:{}\n  acl a path_beg /x{number}\n  use_backend b{number} if a\n  \
             default_backend b{number}\nbackend b{number}\n  server s1 192.0.2.1:80 check\n  server s2 192.0.2.2:80 track \
             s1\n",
            number + 1
        );
    }
    let _ = writeln!(text, "backend many");
    for number in 0..5000 {
        let _ = writeln!(text, "  server s{number} 192.0.2.1:80");
    }
    let config = config(&text);
    assert_eq!(config.proxies.len(), 6001);
    assert_eq!(config.proxies[6000].servers.len(), 5000);
}
