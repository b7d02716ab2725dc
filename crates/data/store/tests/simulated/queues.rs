//! Commands on queues, at random. Receipts and ids are those of replies.

use super::random::Random;

/// So many of the last receipts are known.
const KNOWN_MAX: usize = 12;

/// What replies have told of.
#[derive(Debug, Default)]
pub struct Queues {
    receipts: Vec<Vec<u8>>,
}

fn words(text: &str) -> Vec<Vec<u8>> {
    text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

impl Queues {
    /// A command on one of a few queues.
    pub fn command(&self, random: &mut Random) -> Vec<Vec<u8>> {
        let key = format!("q{{t0}}{}", random.below(2));
        let receipt = || self.receipts.get(random.clone().below(KNOWN_MAX)).or(self.receipts.first());
        let receipt = receipt().map_or_else(|| "1-1".to_owned(), |text| String::from_utf8_lossy(text).into_owned());
        let (number, ms) = (random.below(50), random.below(2_000));
        words(&match random.below(24) {
            0..6 => format!("QUEUE PUSH {key} body-{number}"),
            6 => format!("QUEUE PUSH {key} GROUP g{} BODY one-{number} two", random.below(2)),
            7 => format!(
                "QUEUE PUSH {key} ID id-{} DELAY {ms} EXPIRE {} BODY {}",
                number % 6,
                ms * 2,
                "x".repeat(number)
            ),
            8 => {
                format!("QUEUE PUSH {key} PRIORITY {number} HEADER name value REPLYTO r IDBODY a{number} x b{number} y")
            }
            9..14 => format!("QUEUE RESERVE {key} COUNT {} TIMEOUT {ms} CONSUMER c{}", 1 + number % 4, number % 3),
            14..17 => format!("QUEUE DELETE {key} {receipt}"),
            17 => format!("QUEUE TOUCH {key} {receipt} TIMEOUT {ms} NEW"),
            18 => format!("QUEUE RELEASE {key} {receipt} DELAY {ms} REASON why"),
            19 => format!("QUEUE BURY {key} {receipt}"),
            20 => format!("QUEUE REDRIVE {key} COUNT {}", 1 + number % 3),
            21 => match number {
                0 => format!("QUEUE PURGE {key}"),
                1 => format!("DEL {key}"),
                2..10 => format!("QUEUE MOVE {key} q{{t0}}5 COUNT 2"),
                10..20 => format!("QUEUE PAUSE {key} {ms}"),
                _ => format!("QUEUE PURGE {key} STATE dead"),
            },
            22 => format!("QUEUE CREATE {key} MAXLEN 20 OVERFLOW drop-oldest ATTEMPTS 2 WINDOW 5000 MAXDEAD 3"),
            _ => format!("QUEUE CONFIGURE {key} MAXLEN {} ATTEMPTS {}", 10 + number, number % 3),
        })
    }

    /// Whether a message was given.
    pub fn gave(&self) -> bool {
        !self.receipts.is_empty()
    }

    /// What a reply tells of.
    pub fn note(&mut self, reply: &[u8]) {
        let lines: Vec<&[u8]> = reply.split(|byte| *byte == b'\n').map(|line| line.trim_ascii_end()).collect();
        for pair in lines.windows(3).filter(|pair| pair[0] == b"receipt") {
            self.receipts.insert(0, pair[2].to_vec());
        }
        self.receipts.truncate(KNOWN_MAX);
    }
}
