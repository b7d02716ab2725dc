//! The proxy with clients and servers that are scripted.

use super::*;
use crate::{nutcracker, policy::ReadFrom};

pub(super) struct Scene {
    pub proxy: Proxy,
    now: u64,
}

impl Scene {
    pub fn new(directives: &str) -> Self {
        let text = format!(
            "pool:\n  listen: 127.0.0.1:1\n  redis: true\n  hash: murmur\n{directives}  servers:\n   - 127.0.0.1:2:1 a\n   - \
             127.0.0.1:3:1 b\n"
        );
        Self { proxy: Proxy::new(nutcracker::parse(&text).unwrap(), 1 << 20, 0, 0), now: 0 }
    }

    pub fn client(&mut self) -> usize {
        self.proxy.add_client(0).unwrap()
    }

    /// A key of this server.
    pub fn key(&mut self, server: usize) -> String {
        let ring = &mut self.proxy.pools[0].ring;
        (0..).map(|number| format!("k{number}")).find(|key| ring.server_of(key.as_bytes()) == Some(server)).unwrap()
    }

    pub fn ask(&mut self, client: usize, words: &str) {
        let mut bytes = Vec::new();
        resp::encode_command(&mut bytes, &words.split(' ').collect::<Vec<_>>());
        self.proxy.received(client, &bytes);
        self.settle();
    }

    /// Opens what is to be opened, and goes on with clients that go on.
    pub fn settle(&mut self) {
        loop {
            for index in std::mem::take(&mut self.proxy.work.close) {
                self.proxy.forget(index);
            }
            let (open, resume) =
                (std::mem::take(&mut self.proxy.work.open), std::mem::take(&mut self.proxy.work.resume));
            if open.is_empty() && resume.is_empty() {
                return;
            }
            open.into_iter().for_each(|index| self.proxy.link_opened(index));
            resume.into_iter().for_each(|index| self.proxy.received(index, &[]));
        }
    }

    /// What a connection was to send, which has been sent now.
    pub fn sent(&mut self, link: usize) -> String {
        let before = self.proxy.links[link].unsent();
        let output = std::mem::take(&mut self.proxy.links[link].output);
        self.proxy.links[link].has_sent(before);
        self.proxy.link_sent(link);
        self.settle();
        let words = String::from_utf8(output).unwrap();
        words
            .split("\r\n")
            .filter(|word| !word.starts_with(['*', '$']) && !word.is_empty())
            .collect::<Vec<_>>()
            .join(" ")
    }

    pub fn reply(&mut self, link: usize, bytes: &str) {
        self.proxy.link_received(link, bytes.as_bytes());
        self.settle();
    }

    pub fn said(&mut self, client: usize) -> String {
        String::from_utf8(std::mem::take(&mut self.proxy.clients[client].output)).unwrap()
    }

    pub fn wait(&mut self, milliseconds: u64) {
        self.now += milliseconds;
        self.proxy.set_time(self.now * 1000, self.now * 1000);
        self.proxy.tick();
        self.settle();
    }
}

#[test]
fn answers_come_in_order_though_servers_do_not() {
    let mut scene = Scene::new("");
    let (client, a, b) = (scene.client(), scene.key(0), scene.key(1));
    for words in [format!("GET {a}"), format!("GET {b}"), "PING".into(), format!("MGET {b} {a} {b}")] {
        scene.ask(client, &words);
    }
    assert_eq!(scene.sent(0), format!("GET {a} MGET {a}"));
    assert_eq!(scene.sent(1), format!("GET {b} MGET {b} {b}"));
    scene.reply(1, "$1\r\nB\r\n*2\r\n$1\r\nx\r\n$1\r\nz\r\n");
    assert_eq!(scene.said(client), "");
    scene.reply(0, "$1\r");
    scene.reply(0, "\nA\r\n*1\r\n$1\r\ny\r\n");
    assert_eq!(scene.said(client), "$1\r\nA\r\n$1\r\nB\r\n+PONG\r\n*3\r\n$1\r\nx\r\n$1\r\ny\r\n$1\r\nz\r\n");
}

#[test]
fn replies_to_who_has_left_reach_nobody() {
    let mut scene = Scene::new("");
    let (gone, key) = (scene.client(), scene.key(0));
    scene.ask(gone, &format!("GET {key}"));
    scene.proxy.remove_client(gone, false);
    let next = scene.client();
    assert_eq!(next, gone, "the place is used again");
    scene.ask(next, &format!("GET {key}"));
    scene.reply(0, "$4\r\ngone\r\n$4\r\nnext\r\n");
    assert_eq!(scene.said(next), "$4\r\nnext\r\n");
}

#[test]
fn what_is_no_reply_costs_the_server_its_connection_and_nobody_else() {
    for nonsense in ["HTTP/1.1 400\r\n", "+OK\r\n+OK\r\n", "$x\r\n"] {
        let mut scene = Scene::new("");
        let (client, a, b) = (scene.client(), scene.key(0), scene.key(1));
        scene.ask(client, &format!("GET {a}"));
        scene.reply(0, nonsense);
        assert_eq!(scene.proxy.links[0].state, LinkState::Closed, "{nonsense:?}");
        scene.said(client);
        scene.ask(client, &format!("GET {b}"));
        scene.reply(1, ":7\r\n");
        assert_eq!(scene.said(client), ":7\r\n");
    }
}

#[test]
fn a_server_that_takes_too_long_is_given_up_and_what_waits_by_itself_is_not() {
    let mut scene = Scene::new("  timeout: 100\n");
    let (client, waiting, key) = (scene.client(), scene.client(), scene.key(0));
    scene.ask(client, &format!("GET {key}"));
    scene.ask(waiting, &format!("BLPOP {key} 0"));
    scene.wait(99);
    assert_eq!(scene.said(client), "");
    scene.wait(2);
    assert_eq!(scene.said(client), "-ERR Connection timed out (server 127.0.0.1:2)\r\n");
    assert_eq!(scene.said(waiting), "");
    scene.reply(2, "*2\r\n$1\r\nk\r\n$1\r\nv\r\n");
    assert_eq!(scene.said(waiting), "*2\r\n$1\r\nk\r\n$1\r\nv\r\n");
    assert!(scene.proxy.pools[0].servers[0].spare == [2], "it is kept for the next one");
}

#[test]
fn who_sends_more_than_a_server_takes_is_held_up_and_goes_on() {
    let mut scene = Scene::new("");
    let (client, key) = (scene.client(), scene.key(0));
    let value = "x".repeat(1 << 20);
    for _ in 0..20 {
        scene.ask(client, &format!("SET {key} {value}"));
    }
    assert!(scene.proxy.links[0].output.len() <= 18 << 20, "{}", scene.proxy.links[0].output.len());
    assert!(scene.proxy.clients[client].is_paused());
    scene.sent(0);
    assert!(!scene.proxy.clients[client].is_paused());
    scene.sent(0);
    scene.reply(0, &"+OK\r\n".repeat(20));
    assert_eq!(scene.said(client), "+OK\r\n".repeat(20));
}

#[test]
fn a_lost_connection_ends_a_transaction_without_half_of_it() {
    let mut scene = Scene::new("");
    let (client, key) = (scene.client(), scene.key(0));
    scene.ask(client, "MULTI");
    scene.ask(client, &format!("SET {key} 1"));
    assert_eq!(scene.sent(2), format!("MULTI SET {key} 1"));
    scene.reply(2, "+OK\r\n+QUEUED\r\n");
    scene.proxy.link_failed(2, &LinkFailure::Eof);
    scene.settle();
    scene.ask(client, "EXEC");
    assert_eq!(
        scene.said(client),
        "+OK\r\n+QUEUED\r\n-EXECABORT Transaction discarded because of previous errors.\r\n"
    );
    // What was watched by a connection that is lost may have changed.
    scene.ask(client, &format!("WATCH {key}"));
    scene.reply(2, "+OK\r\n");
    scene.proxy.link_failed(2, &LinkFailure::Eof);
    scene.settle();
    scene.ask(client, "MULTI");
    scene.ask(client, "EXEC");
    assert_eq!(scene.said(client), "+OK\r\n+OK\r\n*-1\r\n");
    scene.ask(client, &format!("GET {key}"));
    scene.reply(0, "$1\r\n1\r\n");
    assert_eq!(scene.said(client), "$1\r\n1\r\n");
}

/// A proxy that follows a cluster, told of nodes by their lines; the slot of "a" is 15495.
fn clustered(lines: &str) -> Scene {
    following(lines, ReadFrom::Master, false)
}

/// The same with a policy of reads, or of a group whose master has all slots.
pub(super) fn following(lines: &str, read_from: ReadFrom, of_one_server: bool) -> Scene {
    let slots = nutcracker::SlotsConfig { retry_for: std::time::Duration::from_secs(5), of_one_server, read_from };
    let pool = PoolConfig::of_slots("pool", "127.0.0.1:1", slots).unwrap();
    let mut scene = Scene { proxy: Proxy::new(vec![pool], 1 << 20, 0, 0), now: 0 };
    scene.proxy.set_topology(0, &commands::cluster::Topology::parse(lines).unwrap());
    scene
}

const ONE: &str = "n1 127.0.0.1:2@0 master - 0 0 1 connected 0-16383\n";

#[test]
fn a_request_follows_its_slot_and_who_told_may_not_know_the_new_server_yet() {
    let mut scene = clustered(ONE);
    let client = scene.client();
    scene.ask(client, "SET a 1");
    scene.reply(0, "-ERR unknown subcommand\r\n-MOVED 15495 127.0.0.1:3\r\n");
    // Lines that are older than what the server has said.
    scene.proxy.set_topology(0, &commands::cluster::Topology::parse(ONE).unwrap());
    assert!(scene.sent(1).ends_with("SET a 1"));
    scene.reply(1, "+OK\r\n+OK\r\n");
    assert_eq!(scene.said(client), "+OK\r\n");
}

#[test]
fn a_command_that_has_waited_for_long_goes_on_waiting_where_its_slot_has_moved_to() {
    let mut scene = clustered(ONE);
    let client = scene.client();
    scene.ask(client, "BLPOP a 0");
    let waits_at = |scene: &Scene| {
        let has = |link: &Link| String::from_utf8_lossy(&link.output).contains("BLPOP");
        scene.proxy.links.iter().find(|(_, link)| has(link)).map(|(index, _)| index).unwrap()
    };
    let first = waits_at(&scene);
    scene.sent(first);
    // Longer than any request is tried again.
    scene.wait(60_000);
    scene.reply(first, "-ERR unknown subcommand\r\n-MOVED 15495 127.0.0.1:3\r\n");
    assert_eq!(scene.said(client), "");
    let second = waits_at(&scene);
    scene.sent(second);
    scene.reply(second, "+OK\r\n*2\r\n$1\r\na\r\n$1\r\nv\r\n");
    assert_eq!(scene.said(client), "*2\r\n$1\r\na\r\n$1\r\nv\r\n");
}

#[test]
fn that_a_server_is_away_is_said_once_and_so_is_that_it_is_back() {
    let mut scene = clustered(ONE);
    let client = scene.client();
    scene.ask(client, "GET a");
    for _ in 0..20 {
        let link = scene.proxy.links.iter().find(|(_, link)| !link.waiting.is_empty()).map(|(index, _)| index);
        scene.proxy.link_failed(link.unwrap(), &LinkFailure::Other("Connection refused".into()));
        scene.wait(20);
    }
    assert_eq!(scene.proxy.work.messages.len(), 1, "{:?}", scene.proxy.work.messages);
    scene.reply(0, "+OK\r\n$1\r\n7\r\n");
    assert_eq!(scene.said(client), "$1\r\n7\r\n");
    assert!(scene.proxy.work.messages[1].ends_with("127.0.0.1:2 answers again, after 20 failures"));
}

#[test]
fn what_a_failed_server_had_been_sent_is_told_or_asked_again() {
    let mut scene = clustered(ONE);
    let (writer, reader) = (scene.client(), scene.client());
    scene.ask(writer, "INCR a");
    scene.ask(reader, "GET a");
    let unsent = scene.proxy.links[0].unsent();
    scene.sent(0);
    scene.proxy.links[0].has_sent(unsent);
    let lines =
        "n1 127.0.0.1:2@0 master,fail - 0 0 1 disconnected\nn2 127.0.0.1:3@0 master - 0 0 2 connected 0-16383\n";
    scene.proxy.set_topology(0, &commands::cluster::Topology::parse(lines).unwrap());
    scene.settle();
    assert!(scene.said(writer).contains("whether the command was done is not known"));
    scene.wait(20);
    assert!(scene.sent(1).ends_with("GET a"));
    scene.reply(1, "+OK\r\n$1\r\n7\r\n");
    assert_eq!(scene.said(reader), "$1\r\n7\r\n");
}

#[test]
fn what_is_watched_is_watched_before_anything_else_is_read() {
    let mut scene = Scene::new("");
    let (client, key) = (scene.client(), scene.key(0));
    scene.ask(client, &format!("GET {key}"));
    assert_eq!(scene.sent(0), format!("GET {key}"));
    scene.reply(0, "$1\r\n1\r\n");
    // The second time keys are watched already.
    for time in 1..=2 {
        scene.ask(client, &format!("WATCH {key}"));
        scene.ask(client, &format!("GET {key}"));
        assert_eq!((scene.sent(0), scene.sent(2)), (String::new(), format!("WATCH {key}")), "{time}");
        scene.reply(2, "+OK\r\n");
        assert_eq!(scene.sent(0), format!("GET {key}"));
        scene.reply(0, "$1\r\n1\r\n");
    }
    assert_eq!(scene.said(client).matches("+OK").count(), 2);
}

#[test]
fn a_reset_waits_for_what_was_asked_before() {
    let mut scene = Scene::new("");
    let (client, key) = (scene.client(), scene.key(0));
    scene.ask(client, &format!("WATCH {key}"));
    scene.ask(client, "RESET");
    scene.ask(client, "PING");
    assert_eq!(scene.said(client), "");
    scene.reply(2, "+OK\r\n");
    assert_eq!(scene.said(client), "+OK\r\n+RESET\r\n+PONG\r\n");
    assert_eq!(scene.proxy.links.len(), 2, "its own connection is gone");
}

/// A client that has chosen the newer protocol.
fn of_resp3(scene: &mut Scene) -> usize {
    let client = scene.client();
    scene.ask(client, "HELLO 3");
    assert!(scene.said(client).starts_with("%7\r\n$6\r\nserver\r\n"));
    client
}

#[test]
fn who_speaks_the_newer_protocol_has_connections_that_speak_it() {
    let mut scene = Scene::new("");
    let (older, newer, a, b) = (scene.client(), of_resp3(&mut scene), scene.key(0), scene.key(1));
    scene.ask(older, &format!("HGETALL {a}"));
    scene.ask(newer, &format!("HGETALL {a}"));
    scene.ask(newer, &format!("MGET {a} {b}"));
    assert_eq!(scene.sent(0), format!("HGETALL {a}"));
    assert_eq!(scene.sent(2), format!("HELLO 3 HGETALL {a} MGET {a}"));
    assert_eq!(scene.sent(3), format!("HELLO 3 MGET {b}"));
    scene.reply(0, "*2\r\n$1\r\nf\r\n$1\r\nv\r\n");
    scene.reply(3, "%0\r\n*1\r\n_\r\n");
    scene.reply(2, "%0\r\n%1\r\n$1\r\nf\r\n$1\r\nv\r\n*1\r\n$1\r\nx\r\n");
    assert_eq!(scene.said(older), "*2\r\n$1\r\nf\r\n$1\r\nv\r\n");
    assert_eq!(scene.said(newer), "%1\r\n$1\r\nf\r\n$1\r\nv\r\n*2\r\n$1\r\nx\r\n_\r\n");
    // What is left free by one is not given to the other.
    scene.ask(newer, &format!("BLPOP {a} 1"));
    assert_eq!(scene.sent(4), format!("HELLO 3 BLPOP {a} 1"));
    scene.reply(4, "%0\r\n_\r\n");
    assert_eq!(scene.said(newer), "_\r\n");
    scene.ask(older, &format!("BLPOP {a} 1"));
    assert_eq!(scene.sent(5), format!("BLPOP {a} 1"));
    scene.ask(newer, &format!("BLPOP {a} 2"));
    assert_eq!(scene.sent(4), format!("BLPOP {a} 2"));
}

#[test]
fn who_listens_and_speaks_the_newer_protocol_may_ask_meanwhile() {
    let mut scene = Scene::new("");
    let (client, key) = (of_resp3(&mut scene), scene.key(0));
    scene.ask(client, "SUBSCRIBE news");
    let subscribed = ">3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n";
    scene.reply(2, &format!("%0\r\n{subscribed}$14\r\ntidegate:proxy\r\n"));
    scene.ask(client, &format!("GET {key}"));
    scene.ask(client, "PING");
    scene.ask(client, "MULTI");
    let message = ">3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$2\r\nhi\r\n";
    scene.reply(2, message);
    scene.reply(3, "%0\r\n_\r\n");
    assert_eq!(
        scene.said(client),
        format!(
            "{subscribed}{message}_\r\n+PONG\r\n-ERR 'multi' while something is subscribed to cannot go through a proxy\r\n"
        )
    );
    // Nothing is subscribed to any more: its connection is free.
    scene.ask(client, &format!("GET {key}"));
    scene.ask(client, "UNSUBSCRIBE");
    scene.reply(3, "_\r\n");
    assert!(scene.sent(2).ends_with("UNSUBSCRIBE PING tidegate:proxy"));
    scene.reply(2, ">3\r\n$11\r\nunsubscribe\r\n$4\r\nnews\r\n:0\r\n$14\r\ntidegate:proxy\r\n");
    scene.ask(client, "MULTI");
    assert!(scene.said(client).ends_with(":0\r\n+OK\r\n"));
}

#[test]
fn the_newer_protocol_is_refused_once_a_server_does_not_speak_it() {
    let mut scene = Scene::new("");
    let (client, key) = (of_resp3(&mut scene), scene.key(0));
    scene.ask(client, &format!("GET {key}"));
    scene.reply(2, "-ERR unknown command `HELLO`\r\n");
    assert!(scene.said(client).starts_with("-ERR the server does not speak RESP3"));
    let next = scene.client();
    scene.ask(next, "HELLO 3");
    assert_eq!(scene.said(next), "-NOPROTO unsupported protocol version\r\n");
}

#[test]
fn the_protocol_changes_behind_what_was_asked_before() {
    let mut scene = Scene::new("");
    let (client, key) = (scene.client(), scene.key(0));
    scene.ask(client, &format!("GET {key}"));
    scene.ask(client, "HELLO 3");
    assert_eq!(scene.said(client), "");
    scene.reply(0, "$-1\r\n");
    assert!(scene.said(client).starts_with("$-1\r\n%7\r\n"));
    scene.ask(client, "RESET");
    scene.ask(client, &format!("GET {key}"));
    scene.reply(0, "$-1\r\n");
    assert_eq!(scene.said(client), "+RESET\r\n$-1\r\n");
}

proptest::proptest! {
    #[test]
    fn no_bytes_bring_it_down(client_bytes: Vec<u8>, server_bytes: Vec<u8>) {
        let mut scene = Scene::new("");
        let (client, key) = (scene.client(), scene.key(0));
        scene.ask(client, &format!("GET {key}"));
        scene.ask(client, &format!("SUBSCRIBE {key}"));
        scene.reply(0, &String::from_utf8_lossy(&server_bytes));
        scene.proxy.received(client, &client_bytes);
        scene.settle();
    }
}

mod order;
mod plain;

/// Two stores with a half of the slots each, the first slots with the second of them.
const HALVES: &str =
    "n1 127.0.0.1:2@0 master - 0 0 1 connected 8192-16383\nn2 127.0.0.1:3@0 master - 0 0 1 connected 0-8191\n";

/// A name was led to another machine when the connection was made: the store there sends to the one that is meant, by this name.
#[test]
fn a_connection_that_leads_to_another_machine_is_not_kept() {
    let mut scene = clustered(ONE);
    let client = scene.client();
    scene.ask(client, "SET a 1");
    assert!(scene.sent(0).ends_with("SET a 1"));
    scene.reply(0, "+OK\r\n-MOVED 15495 127.0.0.1:2\r\n");
    assert_eq!(scene.proxy.links[0].state, LinkState::Closed);
    assert_eq!(scene.said(client), "", "it is asked again, of a new connection");
}

#[test]
fn a_walk_over_all_keys_goes_from_slot_to_slot_wherever_they_are() {
    let view = |lines: &str| commands::cluster::Topology::parse(lines).unwrap();
    let mut scene = clustered(HALVES);
    scene.proxy.set_view(&view(HALVES), &Default::default());
    let client = scene.client();
    let cursor_at = |slot: usize, position: u64| keyspace::slot::cursor(slot) + position;
    let reply = |cursor: u64| format!("*2\r\n${}\r\n{cursor}\r\n*0\r\n", cursor.to_string().len());
    let said = |scene: &mut Scene| {
        let text = scene.said(client);
        text.split("\r\n").nth(2).unwrap_or(&text).parse::<u64>().map_err(|_| text.clone()).unwrap()
    };
    // What a store says to a proxy that has just come, first.
    let proxy = |cursor: u64| format!("+OK\r\n{}", reply(cursor));
    scene.ask(client, "SCAN 0 COUNT 7");
    let link = |scene: &Scene, words: &str| {
        let has = |link: &Link| String::from_utf8_lossy(&link.output).contains(words);
        scene.proxy.links.iter().find(|(_, link)| has(link)).map(|(index, _)| index).unwrap()
    };
    // The second store has the first slot.
    let second = link(&scene, "OWN");
    assert!(scene.sent(second).ends_with("SCAN 0 COUNT 7 SLOTS OWN"));
    scene.reply(second, &proxy(cursor_at(100, 5)));
    let first_cursor = said(&mut scene);
    // It is where it was: the walk goes on in the middle of the slot.
    scene.ask(client, &format!("SCAN {first_cursor}"));
    assert_eq!(scene.sent(second), format!("SCAN {} SLOTS OWN", cursor_at(100, 5)));
    // It says that the slot is the other one's: there it is walked from its beginning.
    scene.reply(second, "-MOVED 100 127.0.0.1:2\r\n");
    let first = link(&scene, "OWN");
    assert_ne!(first, second);
    assert!(scene.sent(first).ends_with(&format!("SCAN {} SLOTS OWN", cursor_at(100, 0))));
    scene.reply(first, &proxy(cursor_at(101, 0)));
    let next = said(&mut scene);
    // The same where the proxy knew: a cursor of a store that does not have the slot any more.
    scene.ask(client, &format!("SCAN {first_cursor}"));
    assert_eq!(scene.sent(first), format!("SCAN {} SLOTS OWN", cursor_at(100, 0)));
    scene.reply(first, &reply(cursor_at(101, 0)));
    assert_eq!(said(&mut scene), next);
    scene.ask(client, &format!("SCAN {next}"));
    assert_eq!(scene.sent(second), format!("SCAN {} SLOTS OWN", cursor_at(101, 0)));
    scene.reply(second, &reply(0));
    assert_eq!(said(&mut scene), 0);
}

#[test]
fn servers_that_cannot_be_walked_by_slots_are_walked_one_after_the_other() {
    // Nobody has said what these are: a Redis Cluster, or nodes of ours.
    let mut scene = clustered(HALVES);
    let client = scene.client();
    let link_to = |scene: &Scene, server: usize| {
        let is_its = |link: &Link| link.server == server && link.state != LinkState::Closed;
        scene.proxy.links.iter().find(|(_, link)| is_its(link)).map(|(index, _)| index).unwrap()
    };
    let place = |scene: &Scene, slot| scene.proxy.pools[0].slots.as_ref().unwrap().owner(slot).unwrap();
    let (first, second) = (place(&scene, 16_383), place(&scene, 0));
    assert!(first < second);
    let reply = |cursor: u64| format!("*2\r\n${}\r\n{cursor}\r\n*0\r\n", cursor.to_string().len());
    let cursor = |text: String| text.split("\r\n").nth(2).map(str::to_owned).unwrap_or(text);
    scene.ask(client, "SCAN 0 COUNT 7");
    let asked = link_to(&scene, second);
    assert!(scene.sent(asked).ends_with("SCAN 0 COUNT 7 SLOTS OWN"));
    scene.reply(asked, "-ERR Unknown subcommand\r\n-ERR syntax error\r\n");
    let next = link_to(&scene, first);
    assert!(scene.sent(next).ends_with("SCAN 0 COUNT 7"));
    scene.reply(next, &format!("-ERR Unknown subcommand\r\n{}", reply(3)));
    let in_first = cursor(scene.said(client));
    scene.ask(client, &format!("SCAN {in_first}"));
    assert_eq!(scene.sent(next), "SCAN 3");
    scene.reply(next, &reply(0));
    let at_second = cursor(scene.said(client));
    assert_ne!(at_second, "0");
    scene.ask(client, &format!("SCAN {at_second}"));
    assert_eq!(scene.sent(asked), "SCAN 0");
    scene.reply(asked, &reply(0));
    assert_eq!(cursor(scene.said(client)), "0");
    // A cursor of the one kind is none of the other: what it stands for has been walked otherwise.
    for server in &mut scene.proxy.pools[0].servers {
        server.is_store = Some(true);
    }
    scene.ask(client, &format!("SCAN {in_first}"));
    assert!(scene.said(client).contains("scan again from 0"));
    // What a store calls wrong is wrong.
    scene.ask(client, "SCAN 0 COUNT x");
    assert_eq!(scene.sent(asked), "SCAN 0 COUNT x SLOTS OWN");
    scene.reply(asked, "-ERR syntax error\r\n");
    assert_eq!(scene.said(client), "-ERR syntax error\r\n");
}
