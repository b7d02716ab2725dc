//! A short run of every fuzz target of this crate: the messages of the tests, and seeded mutations of them.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

#[path = "../../../../fuzz/src/sample_messages.rs"]
mod sample_messages;

/// The messages that stand in data/messages.txt.
fn corpus() -> Vec<Vec<u8>> {
    let hexadecimal = include_str!("data/messages.txt").lines().filter_map(|line| {
        let text = line.strip_prefix("bin(")?;
        Some(&text[..text.find(')')?])
    });
    let byte = |text: &str, at: usize| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap();
    let bytes = |text: &str| (0..text.len() / 2).map(|at| byte(text, at)).collect::<Vec<u8>>();
    let mut corpus: Vec<Vec<u8>> = hexadecimal.map(bytes).collect();
    corpus.sort();
    corpus.dedup();
    corpus
}

#[test]
fn broken_messages_never_break_a_decoder() {
    let corpus = corpus();
    assert!(corpus.len() > 150, "{}", corpus.len());
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |most: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 11).unwrap() % most
    };
    for message in &corpus {
        sample_messages::fields(message);
        for _ in 0..8 {
            let mut broken = message.clone();
            for _ in 0..=random(3) {
                if broken.is_empty() {
                    break;
                }
                let at = random(broken.len());
                match random(4) {
                    0 => broken.truncate(at),
                    1 => broken[at] = [0, 1, 0x7f, 0x80, 0xff][random(5)],
                    2 => broken.insert(at, u8::try_from(random(256)).unwrap()),
                    _ => broken[at] ^= 1 << random(8),
                }
            }
            sample_messages::fields(&broken);
        }
    }
}
