//! A short run of every fuzz target of this crate: the messages of the tests, and seeded mutations of them.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

#[path = "../../../../fuzz/src/sample_messages.rs"]
mod sample_messages;

#[path = "../../../../fuzz/src/tokens.rs"]
mod tokens;

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

/// Numbers that are the same in each run.
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap() % most
    }

    /// The message with one to three changes.
    fn broken(&mut self, message: &[u8]) -> Vec<u8> {
        let mut broken = message.to_vec();
        for _ in 0..=self.below(3) {
            if broken.is_empty() {
                break;
            }
            let at = self.below(broken.len());
            match self.below(4) {
                0 => broken.truncate(at),
                1 => broken[at] = [0, 1, 0x7f, 0x80, 0xff][self.below(5)],
                2 => broken.insert(at, u8::try_from(self.below(256)).unwrap()),
                _ => broken[at] ^= 1 << self.below(8),
            }
        }
        broken
    }
}

#[test]
fn broken_messages_never_break_a_decoder() {
    let corpus = corpus();
    assert!(corpus.len() > 150, "{}", corpus.len());
    let mut random = Seeded(0x9e37_79b9_7f4a_7c15);
    for message in &corpus {
        sample_messages::fields(message);
        for _ in 0..8 {
            sample_messages::fields(&random.broken(message));
        }
    }
}

#[test]
fn broken_tokens_and_keys_are_told_from_right_ones() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tokens");
    let mut random = Seeded(0x9e37_79b9_7f4a_7c15);
    let mut played = 0;
    for line in include_str!("data/tokens/cases.txt").lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('\t').collect();
        let Ok(mut message) = std::fs::read(folder.join(fields[1])) else { continue };
        message.push(0);
        message.extend_from_slice(fields[4].as_bytes());
        tokens::verify(&message);
        for _ in 0..8 {
            tokens::verify(&random.broken(&message));
        }
        played += 1;
    }
    assert!(played > 60, "{played}");
}
