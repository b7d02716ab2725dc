//! A replica's link with masters that are scripts.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use super::*;

const SET: &[u8] = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n";
const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
const GETACK: &[u8] = b"*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n";

fn id(byte: u8) -> ReplicationId {
    ReplicationId::from_random([byte; 20])
}

/// A link and what has become of it.
struct Peer {
    link: Link,
    events: Vec<Event>,
    now: i64,
    /// What the master sends comes in pieces of this length.
    step: usize,
}

impl Peer {
    fn new(options: LinkOptions, step: usize) -> Self {
        let options = LinkOptions { timeout_ms: 60_000, port: 7000, ..options };
        let position = Position { history: id(1), offset: Offset(99) };
        let mut link = Link::new(options, position, 0);
        link.handle_connected(0);
        Self { link, events: Vec::new(), now: 0, step }
    }

    /// What it has sent since, as the words of commands.
    fn sent(&mut self) -> String {
        let bytes = self.link.poll_transmit().unwrap_or_default();
        let mut parser = resp::RequestParser::new();
        let (mut at, mut commands) = (0, Vec::new());
        while at < bytes.len() {
            match parser.parse(&bytes[at..], &resp::Limits::default()).unwrap() {
                resp::Progress::Complete { consumed } => {
                    let words: Vec<_> = parser.arguments(&bytes[at..]).iter().map(String::from_utf8_lossy).collect();
                    commands.push(words.join(" "));
                    at += consumed;
                }
                resp::Progress::Empty { consumed } => {
                    commands.push("-".into());
                    at += consumed;
                }
                resp::Progress::Incomplete { .. } => panic!("half a command"),
            }
        }
        commands.join(", ")
    }

    fn hear(&mut self, bytes: &[u8]) -> Result<(), LinkError> {
        for piece in bytes.chunks(self.step) {
            self.link.handle_bytes(piece, self.now)?;
            while let Some(event) = self.link.poll_event()? {
                self.events.push(event);
            }
        }
        Ok(())
    }

    /// Up to the answer to PSYNC.
    fn shake_hands(&mut self) {
        assert_eq!(self.sent(), "PING");
        self.hear(b"+PONG\r\n").unwrap();
        self.hear(b"+OK\r\n+OK\r\n-ERR Unrecognized REPLCONF option: tidegate-acks\r\n").unwrap();
        self.sent();
    }

    fn snapshot(&self) -> Vec<u8> {
        self.events
            .iter()
            .filter_map(|event| if let Event::Snapshot(bytes) = event { Some(bytes.clone()) } else { None })
            .flatten()
            .collect()
    }

    fn stream(&self) -> Vec<u8> {
        self.events
            .iter()
            .filter_map(|event| if let Event::Piece(piece) = event { Some(piece.bytes.clone()) } else { None })
            .flatten()
            .collect()
    }
}

#[test]
fn a_replica_says_who_it_is_and_where_it_was() {
    let options = LinkOptions {
        user: Some(b"joe".to_vec()),
        password: Some(b"secret".to_vec()),
        address: Some("10.0.0.9".into()),
        ..LinkOptions::default()
    };
    let mut peer = Peer::new(options, 3);
    assert_eq!(peer.sent(), "PING");
    assert_eq!(peer.link.state().word(), "handshake");
    peer.hear(b"-NOAUTH Authentication required.\r\n").unwrap();
    assert_eq!(
        peer.sent(),
        "AUTH joe secret, REPLCONF listening-port 7000, REPLCONF ip-address 10.0.0.9, REPLCONF capa eof capa psync2 capa tidegate-queues, \
         REPLCONF tidegate-acks yes"
    );
    peer.hear(b"+OK\r\n+OK\r\n-ERR what address\r\n+OK\r\n+OK\r\n").unwrap();
    assert_eq!(peer.sent(), format!("PSYNC {} 100", id(1)), "what the master does not know it does without");
    // A store tells all histories of its log.
    peer.hear(format!("\n\n+CONTINUE {} {}@0,{}@50\r\n", id(2), id(1), id(2)).as_bytes()).unwrap();
    peer.hear(SET).unwrap();
    let histories = vec![(id(1), Offset(0)), (id(2), Offset(50))];
    assert_eq!(peer.events[0], Event::Continued(id(2), Some(histories)));
    assert_eq!(peer.stream(), SET);
    assert_eq!(peer.link.state().word(), "connected");
    peer.link.handle_progress(Offset(120), Offset(110), 5);
    assert_eq!(peer.sent(), "REPLCONF ACK 120 FACK 110", "this master wants to know at once");
}

#[test]
fn a_snapshot_ends_by_its_length_or_its_mark() {
    let mark = "0123456789abcdef0123456789abcdef01234567";
    let snapshot = format!("REDIS{}{}", "x".repeat(500), &mark[..39]);
    let by_mark = format!("$EOF:{mark}\r\n{snapshot}{mark}");
    let by_length = format!("\n\n\n${}\r\n{snapshot}", snapshot.len());
    for transfer in [by_mark, by_length] {
        for step in [1, 2, 39, 40, 41, 64, 5000] {
            let mut peer = Peer::new(LinkOptions::default(), step);
            peer.shake_hands();
            peer.hear(format!("+FULLRESYNC {} 5000\r\n", id(3)).as_bytes()).unwrap();
            assert_eq!(peer.events, [Event::FullCopy(Position { history: id(3), offset: Offset(5000) }, None)]);
            peer.hear(transfer.as_bytes()).unwrap();
            assert_eq!(peer.snapshot(), snapshot.as_bytes(), "{step}");
            assert_eq!(peer.events.last(), Some(&Event::SnapshotEnd), "{step}");
            peer.hear(&[SET, SET].concat()).unwrap();
            assert_eq!(peer.stream(), b"", "nothing before the keys are there");
            peer.sent();
            peer.link.loaded(1).unwrap();
            assert_eq!(peer.sent(), "REPLCONF ACK 5000 FACK 5000");
            peer.hear(SET).unwrap();
            assert_eq!(peer.stream(), [SET, SET, SET].concat(), "{step}");
        }
    }
}

#[test]
fn a_replica_says_each_second_how_far_it_is_and_when_it_is_asked() {
    let mut peer = Peer::new(LinkOptions::default(), 7);
    peer.shake_hands();
    peer.hear(b"+CONTINUE\r\n").unwrap();
    assert_eq!(peer.events, [Event::Continued(id(1), None)]);
    peer.link.handle_progress(Offset(130), Offset(99), 10);
    peer.link.handle_time(999).unwrap();
    assert_eq!(peer.sent(), "");
    peer.link.handle_time(1000).unwrap();
    assert_eq!(peer.sent(), "REPLCONF ACK 130 FACK 99");
    peer.hear(GETACK).unwrap();
    peer.link.handle_progress(Offset(130), Offset(130), 1001);
    assert_eq!(peer.sent(), "", "what was asked about is not applied yet");
    let end = Offset(99 + GETACK.len() as u64);
    peer.link.handle_progress(end, end, 1002);
    assert_eq!(peer.sent(), format!("REPLCONF ACK {end} FACK {end}"));
}

#[test]
fn what_a_replica_says_each_second_is_what_has_come_by_then() {
    let mut peer = Peer::new(LinkOptions::default(), 7);
    peer.shake_hands();
    peer.hear(b"+CONTINUE\r\n").unwrap();
    peer.link.handle_progress(Offset(99), Offset(99), 10);
    // A ping comes in the moment in which something is to be said.
    peer.hear(PING).unwrap();
    peer.link.handle_time(1000).unwrap();
    assert_eq!(peer.sent(), "");
    let end = Offset(99 + PING.len() as u64);
    peer.link.handle_progress(end, end, 1001);
    assert_eq!(peer.sent(), format!("REPLCONF ACK {end} FACK {end}"));
    // It is not waited for long.
    peer.hear(PING).unwrap();
    peer.link.handle_time(2150).unwrap();
    assert_eq!(peer.sent(), "");
    peer.link.handle_time(2201).unwrap();
    assert_eq!(peer.sent(), format!("REPLCONF ACK {end} FACK {end}"));
}

#[test]
fn a_master_that_is_silent_is_given_up_but_not_while_it_is_us() {
    let mut peer = Peer::new(LinkOptions::default(), 100);
    assert!(peer.link.handle_time(60_000).is_ok());
    assert_eq!(peer.link.handle_time(60_001), Err(LinkError::Silent(60)));
    peer.shake_hands();
    peer.hear(format!("+FULLRESYNC {} 0\r\n$3\r\nabc", id(3)).as_bytes()).unwrap();
    assert_eq!(peer.link.state().word(), "sync");
    peer.link.handle_time(500_000).unwrap();
    assert_eq!(peer.sent(), "-", "it says that it is loading");
}

#[test]
fn what_is_not_taken_is_not_read_without_end() {
    let mut peer = Peer::new(LinkOptions::default(), 100);
    peer.shake_hands();
    peer.hear(format!("+FULLRESYNC {} 0\r\n$100000000\r\n", id(3)).as_bytes()).unwrap();
    while peer.link.wants_bytes() {
        peer.link.handle_bytes(&[0; 4096], 0).unwrap();
    }
    assert!(peer.link.held_snapshot < SNAPSHOT_HELD_MAX + 4097);
    while peer.link.poll_event().unwrap().is_some() {}
    assert!(peer.link.wants_bytes());
}

#[test]
fn what_a_master_says_instead_is_told() {
    for (said, expected) in [
        (&b"-NOMASTERLINK Can't SYNC while not connected with my master\r\n"[..], "the master cannot be followed now"),
        (b"-ERR unknown command\r\n", "the master refuses 'PSYNC': ERR unknown command"),
        (b"+CONTINUE abc\r\n", "with what is no answer: +CONTINUE abc"),
        (b"+FULLRESYNC 0 0\r\n", "with what is no answer"),
        (b"$5\r\nhello\r\n", "with what is no answer"),
    ] {
        let mut peer = Peer::new(LinkOptions::default(), 5);
        peer.shake_hands();
        let error = peer.hear(said).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let mut peer = Peer::new(LinkOptions { password: Some(b"x".to_vec()), ..LinkOptions::default() }, 5);
    peer.sent();
    peer.hear(b"+PONG\r\n").unwrap();
    let error = peer.hear(b"-WRONGPASS invalid username-password pair or user is disabled.\r\n").unwrap_err();
    assert!(error.to_string().starts_with("Unable to AUTH to MASTER: WRONGPASS"), "{error}");
    let mut peer = Peer::new(LinkOptions::default(), 5000);
    assert!(peer.hear(&[b'x'; LINE_LEN_MAX + 1]).is_err());
    let mut peer = Peer::new(LinkOptions::default(), 5000);
    peer.shake_hands();
    peer.hear(format!("+FULLRESYNC {} 0\r\n", id(3)).as_bytes()).unwrap();
    assert!(peer.hear(b"-ERR no\r\n").unwrap_err().to_string().contains("no snapshot: -ERR no"));
}
