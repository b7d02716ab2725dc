//! Clients that send much before they read: what is made for them is bounded, and whoever reads gets everything.

#![expect(clippy::unwrap_used, reason = "a test")]

use commands::{
    Server, SessionId,
    config::{Memory, Settings},
    session::Close,
};

const NOW: i64 = 1_700_000_000_000;
const KB: usize = 1024;

struct Shard {
    server: Server,
    id: SessionId,
}

impl Shard {
    fn new(settings: Settings) -> Self {
        let mut server = Server::new(settings, 1, 1, NOW, None, std::rc::Rc::new(|| 0));
        let id = server.connect("127.0.0.1:1".into(), "127.0.0.1:2".into(), NOW);
        Self { server, id }
    }

    fn with_unread_max(bytes: usize) -> Self {
        Self::new(Settings { client_unread_max: Memory(bytes as u64), ..Settings::default() })
    }

    /// Has another client run something; its reply.
    fn aside(&mut self, command: &str) -> String {
        let other = self.server.connect("127.0.0.1:3".into(), "127.0.0.1:2".into(), NOW);
        let words: Vec<&str> = command.splitn(4, ' ').collect();
        resp::encode_command(self.server.input(other).unwrap(), &words);
        self.server.run(other, NOW);
        let reply = String::from_utf8_lossy(self.server.output(other).unwrap().0).into_owned();
        self.server.disconnect(other);
        reply
    }

    /// The client sends something. What can run does, without anything being read.
    fn send(&mut self, bytes: &str) {
        self.server.input(self.id).unwrap().extend_from_slice(bytes.as_bytes());
        self.server.run(self.id, NOW);
        self.go_on();
    }

    fn go_on(&mut self) {
        while self.server.can_go_on() {
            self.server.go_on(NOW);
        }
    }

    fn unread(&mut self) -> usize {
        self.server.output(self.id).unwrap().0.len()
    }

    /// Reads all there is to read, so many bytes at a time. Returns what came, and the most that was unread.
    fn read(&mut self, portion: usize) -> (Vec<u8>, usize) {
        let (mut all, mut most) = (Vec::new(), 0);
        loop {
            most = most.max(self.unread());
            let output = self.server.output(self.id).unwrap().0;
            if output.is_empty() {
                return (all, most);
            }
            let len = output.len().min(portion);
            all.extend(output.drain(..len));
            self.go_on();
        }
    }

    fn info(&mut self, field: &str) -> u64 {
        let info = self.aside("INFO all");
        let line = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).unwrap();
        line.parse().unwrap()
    }

    fn said(&mut self) -> String {
        self.server.take_log_lines().map(|line| line.text).collect::<Vec<_>>().join("\n")
    }
}

#[test]
fn no_more_runs_for_who_has_much_to_read() {
    for pieces in [1, 7] {
        let mut shard = Shard::new(Settings::default());
        let value = "x".repeat(100_000);
        shard.aside(&format!("SET key {value}"));
        let all = "GET key\r\n".repeat(400) + "PING\r\n";
        for piece in all.as_bytes().chunks(all.len() / pieces + 1) {
            shard.send(str::from_utf8(piece).unwrap());
        }
        assert!((1024 * KB..1300 * KB).contains(&shard.unread()), "{}", shard.unread());
        assert_eq!((shard.info("clients_to_read"), shard.info("client_unread_pauses")), (1, 1));
        assert!(shard.server.owes_replies(shard.id) && !shard.server.can_go_on());
        let (replies, most) = shard.read(30_000);
        assert_eq!(replies.len(), 400 * (value.len() + 11) + 7);
        assert!(replies.ends_with(b"x\r\n+PONG\r\n") && most < 1300 * KB, "{most}");
        assert_eq!(shard.info("clients_to_read"), 0);
        assert!(shard.info("client_unread_pauses") > 20 && !shard.server.owes_replies(shard.id));
    }
}

#[test]
fn what_is_sent_meanwhile_is_taken() {
    // As a client does that sends a long pipeline before it reads.
    let mut shard = Shard::with_unread_max(64 * KB);
    shard.aside(&format!("SET key {}", "x".repeat(1_000)));
    for _ in 0..100 {
        shard.send(&"GET key\r\n".repeat(100));
        assert!(shard.unread() < 70 * KB, "{}", shard.unread());
    }
    assert_eq!(shard.info("clients_to_read"), 1);
    let (replies, _) = shard.read(usize::MAX);
    assert_eq!(replies.len(), 10_000 * 1_009);
}

#[test]
fn commands_that_are_longer_than_their_replies_run() {
    let mut shard = Shard::with_unread_max(KB);
    shard.send(&"SET key value\r\n".repeat(10_000));
    assert_eq!((shard.unread(), shard.info("clients_to_read")), (50_000, 0));
    // With as much to read as before, these are not.
    shard.send(&"LOLWUT\r\n".repeat(10_000));
    assert_eq!(shard.info("clients_to_read"), 1);
    assert!(shard.unread() < 400 * KB, "{}", shard.unread());
}

#[test]
fn less_may_be_unread_while_memory_is_short_and_any_amount_if_so_set() {
    let mut shard = Shard::new(Settings::default());
    shard.aside(&format!("SET key {}", "x".repeat(10_000)));
    shard.server.condition_mut().memory_short = true;
    shard.send(&"GET key\r\n".repeat(500));
    assert!((64 * KB..90 * KB).contains(&shard.unread()), "{}", shard.unread());
    shard.server.condition_mut().memory_short = false;
    shard.go_on();
    assert!(shard.unread() > 1000 * KB, "there is memory again: {}", shard.unread());
    shard.aside("CONFIG SET client-unread-max 0");
    shard.go_on();
    assert_eq!(shard.unread(), 500 * 10_010);
}

#[test]
fn who_is_closed_for_output_is_told_of_in_the_log() {
    let mut shard = Shard::new(Settings::default());
    shard.aside("CONFIG SET client-output-buffer-limit normal 500kb 0 0");
    shard.aside(&format!("SET key {}", "x".repeat(100_000)));
    shard.send(&"GET key\r\n".repeat(20));
    assert_eq!(shard.server.output(shard.id).unwrap().1, Close::Now);
    let said = shard.said();
    assert!(said.starts_with(&format!("Client id={} addr=127.0.0.1:1 ", shard.id.0)), "{said}");
    assert!(said.ends_with(" scheduled to be closed ASAP for overcoming of output buffer limits."), "{said}");
    assert_eq!(said.lines().count(), 1);
}

#[test]
fn with_a_bound_on_clients_output_piles_up_as_in_redis() {
    let mut shard = Shard::new(Settings::default());
    shard.aside("CONFIG SET maxmemory-clients 3mb");
    shard.aside(&format!("SET key {}", "x".repeat(100_000)));
    shard.send(&"GET key\r\n".repeat(25));
    assert!(shard.unread() > 2_500_000);
    shard.send(&"GET key\r\n".repeat(25));
    shard.server.sessions_with_output(&mut Vec::new());
    assert_eq!(shard.server.output(shard.id).unwrap().1, Close::Now);
    assert!(
        shard.said().contains("overcoming of output buffer limits") || shard.said().contains("Evicting client: id=")
    );
}

#[test]
fn what_nobody_asked_for_has_limits_of_its_own() {
    let mut shard = Shard::with_unread_max(KB);
    shard.send("SUBSCRIBE channel\r\n");
    for _ in 0..100 {
        shard.aside(&format!("PUBLISH channel {}", "x".repeat(10_000)));
    }
    assert!(shard.unread() > 1_000_000);
    shard.send("PING\r\n");
    assert_eq!(shard.info("clients_to_read"), 0);
    let (replies, _) = shard.read(usize::MAX);
    assert!(replies.ends_with(b"$4\r\npong\r\n$0\r\n\r\n"));
    shard.aside("CONFIG SET client-output-buffer-limit pubsub 100kb 0 0");
    for _ in 0..20 {
        shard.aside(&format!("PUBLISH channel {}", "x".repeat(10_000)));
    }
    assert!(shard.said().contains("overcoming of output buffer limits"), "{}", shard.said());
}

#[test]
fn half_of_a_command_stays_in_its_place() {
    let mut shard = Shard::with_unread_max(KB);
    let long = "x".repeat(3_000);
    shard.aside(&format!("SET key {long}"));
    let all = format!("*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n*2\r\n$4\r\nECHO\r\n$3000\r\n{long}\r\n").repeat(50);
    let mut replies = Vec::new();
    for piece in all.as_bytes().chunks(1_700) {
        shard.send(str::from_utf8(piece).unwrap());
        let output = shard.server.output(shard.id).unwrap().0;
        replies.extend(output.drain(..output.len() / 2));
        shard.go_on();
    }
    replies.extend(shard.read(500).0);
    assert!(replies == format!("$3000\r\n{long}\r\n").repeat(100).into_bytes());
    assert!(!shard.server.owes_replies(shard.id));
}

#[test]
fn all_clients_together_have_a_part_of_memory_to_read() {
    const CLIENTS: usize = 40;
    let mut shard = Shard::new(Settings { maxmemory: Memory(8 << 20), ..Settings::default() });
    shard.aside(&format!("SET key {}", "x".repeat(30_000)));
    let ids: Vec<SessionId> =
        (0..CLIENTS).map(|_| shard.server.connect("127.0.0.1:1".into(), "127.0.0.1:2".into(), NOW)).collect();
    // Some ask for little more than is counted, and nothing more of theirs waits to run.
    for (number, id) in ids.iter().enumerate() {
        let gets = if number % 2 == 0 { 2 } else { 100 };
        shard.server.input(*id).unwrap().extend_from_slice("GET key\r\n".repeat(gets).as_bytes());
        shard.server.run(*id, NOW);
    }
    let unread = |shard: &mut Shard| -> usize { ids.iter().map(|id| shard.server.output(*id).unwrap().0.len()).sum() };
    let (share, reply) = (1 << 20, 30_010);
    for _ in 0..100 {
        shard.go_on();
        let now = unread(&mut shard);
        assert!(now <= share + CLIENTS * 2 * reply, "{now}");
    }
    // One that has nothing to read is served meanwhile.
    assert_eq!(shard.aside("STRLEN key"), ":30000\r\n");
    let mut counts = vec![0; CLIENTS];
    while unread(&mut shard) > 0 {
        for (count, id) in counts.iter_mut().zip(&ids) {
            let output = shard.server.output(*id).unwrap().0;
            *count += output.drain(..output.len().min(50_000)).count();
        }
        shard.go_on();
        let now = unread(&mut shard);
        assert!(now <= share + CLIENTS * 2 * reply, "{now}");
    }
    let wanted: Vec<usize> = (0..CLIENTS).map(|number| if number % 2 == 0 { 2 } else { 100 } * reply).collect();
    assert_eq!(counts, wanted);
    assert_eq!(shard.info("clients_to_read"), 0);
}
