//! Clients that wait, and who is served when.

use crate::{Server, SessionId, config::Settings};

const START: i64 = 1_000_000;

/// A server with clients, and what time it is.
struct World {
    server: Server,
    clients: Vec<SessionId>,
    now: i64,
}

impl World {
    fn new(clients: usize) -> Self {
        let mut server = Server::new(Settings::default(), 7, 7, START, None, std::rc::Rc::new(|| 0));
        let clients = (0..clients).map(|_| server.connect(String::new(), String::new(), START)).collect();
        Self { server, clients, now: START }
    }

    /// Has a client send commands, one a line.
    fn send(&mut self, client: usize, commands: &str) {
        let input = self.server.input(self.clients[client]).expect("it is connected");
        for line in commands.lines() {
            input.extend_from_slice(line.trim().as_bytes());
            input.extend_from_slice(b"\r\n");
        }
        self.server.run(self.clients[client], self.now);
    }

    /// What a client was sent, its lines by blanks.
    fn output(&mut self, client: usize) -> String {
        let (output, _) = self.server.output(self.clients[client]).expect("it is connected");
        String::from_utf8(std::mem::take(output)).expect("replies are text here").replace("\r\n", " ").trim().to_owned()
    }

    fn check(&mut self, client: usize, commands: &str, expected: &str) {
        self.send(client, commands);
        assert_eq!(self.output(client), expected, "{client}: {commands}");
    }

    fn expect(&mut self, client: usize, expected: &str) {
        assert_eq!(self.output(client), expected, "client {client}");
    }

    fn advance(&mut self, ms: i64) {
        self.now += ms;
        self.server.tick(self.now);
    }

    /// What has been propagated, without SELECT.
    fn effects(&mut self) -> String {
        let text = String::from_utf8_lossy(self.server.effects().bytes()).into_owned();
        self.server.effects().clear();
        let words: Vec<&str> = text.split("\r\n").collect();
        let mut commands = Vec::new();
        let mut at = 0;
        while let Some(count) = words.get(at).and_then(|word| word.strip_prefix('*')) {
            let count: usize = count.parse().expect("a number of words");
            let command: Vec<&str> = (0..count).map(|word| words[at + 2 + 2 * word]).collect();
            at += 1 + 2 * count;
            if command[0] != "SELECT" {
                commands.push(command.join(" "));
            }
        }
        commands.join(", ")
    }
}

#[test]
fn who_waits_longest_is_served_first() {
    let mut world = World::new(4);
    for client in 0..3 {
        world.check(client, "BLPOP a b 0", "");
    }
    world.check(3, "RPUSH b x", ":1");
    world.expect(0, "*2 $1 b $1 x");
    world.expect(1, "");
    world.check(3, "RPUSH a y z w", ":3");
    world.expect(1, "*2 $1 a $1 y");
    world.expect(2, "*2 $1 a $1 z");
    world.expect(0, "");
    world.check(3, "LRANGE a 0 -1", "*1 $1 w");
    assert_eq!(world.effects(), "RPUSH b x, LPOP b, RPUSH a y z w, LPOP a, LPOP a");
    assert_eq!(world.server.shared.statistics.blocked, 0);
    assert!(world.server.shared.sessions.blocked.queues.is_empty());
}

#[test]
fn a_place_in_the_queue_is_kept_when_there_is_nothing_after_all() {
    let mut world = World::new(3);
    world.check(0, "BLPOP a 0", "");
    world.check(1, "BLPOP a 0", "");
    world.check(2, "MULTI\nRPUSH a x\nDEL a\nEXEC", "+OK +QUEUED +QUEUED *2 :1 :1");
    world.expect(0, "");
    world.check(2, "RPUSH a y", ":1");
    world.expect(0, "*2 $1 a $1 y");
    world.expect(1, "");
}

#[test]
fn the_key_that_became_ready_first_is_taken_from() {
    let mut world = World::new(2);
    world.check(0, "BLPOP a b c 0", "");
    world.check(1, "MULTI\nRPUSH c 1\nRPUSH b 2\nRPUSH a 3\nEXEC", "+OK +QUEUED +QUEUED +QUEUED *3 :1 :1 :1");
    world.expect(0, "*2 $1 c $1 1");
    assert_eq!(world.effects(), "MULTI, RPUSH c 1, RPUSH b 2, RPUSH a 3, EXEC, LPOP c");
}

#[test]
fn within_a_transaction_nobody_waits_and_nobody_is_served() {
    let mut world = World::new(2);
    world.check(0, "MULTI\nBLPOP a 0\nBLMOVE a b LEFT LEFT 0\nEXEC", "+OK +QUEUED +QUEUED *2 *-1 $-1");
    world.check(0, "BLPOP a 0", "");
    world.check(
        1,
        "MULTI\nRPUSH a x\nLLEN a\nRPUSH a y\nLRANGE a 0 -1\nEXEC",
        "+OK +QUEUED +QUEUED +QUEUED +QUEUED *4 :1 :1 :2 *2 $1 x $1 y",
    );
    world.expect(0, "*2 $1 a $1 x");
}

#[test]
fn keys_of_other_types_wake_nobody() {
    let mut world = World::new(2);
    world.check(0, "BLPOP a b 0", "");
    world.check(1, "SADD a x\nRPUSH b y", ":1 :1");
    world.expect(0, "*2 $1 b $1 y");
    world.check(0, "BLPOP b a 0", "-WRONGTYPE Operation against a key holding the wrong kind of value");
}

#[test]
fn one_move_wakes_another() {
    let mut world = World::new(5);
    world.check(0, "BLMOVE a b LEFT RIGHT 0", "");
    world.check(1, "BRPOPLPUSH b c 0", "");
    world.check(2, "BLMOVE c d RIGHT LEFT 0", "");
    world.check(3, "BLPOP d 0", "");
    world.check(4, "RPUSH a x", ":1");
    world.expect(0, "$1 x");
    world.expect(1, "$1 x");
    world.expect(2, "$1 x");
    world.expect(3, "*2 $1 d $1 x");
    assert_eq!(world.effects(), "RPUSH a x, LMOVE a b LEFT RIGHT, RPOPLPUSH b c, LMOVE c d RIGHT LEFT, LPOP d");
    assert_eq!(world.server.keyspace.database(0).map(|database| database.len()), Some(0));
}

#[test]
fn two_moves_in_a_circle_end() {
    let mut world = World::new(3);
    world.check(0, "BRPOPLPUSH a b 0", "");
    world.check(1, "BRPOPLPUSH b a 0", "");
    world.check(2, "RPUSH a x", ":1");
    world.expect(0, "$1 x");
    world.expect(1, "$1 x");
    world.check(2, "LRANGE a 0 -1\nEXISTS b", "*1 $1 x :0");
    world.check(0, "DEL a\nBRPOPLPUSH a a 0", ":1");
    world.check(2, "RPUSH a y", ":1");
    world.expect(0, "$1 y");
    world.check(2, "LRANGE a 0 -1", "*1 $1 y");
}

#[test]
fn a_move_to_a_key_of_another_type_fails_and_moves_nothing() {
    let mut world = World::new(3);
    world.check(0, "BLMOVE a b LEFT LEFT 0", "");
    world.check(1, "BLPOP a 0", "");
    world.check(2, "SET b x\nRPUSH a 1 2", "+OK :2");
    world.expect(0, "-WRONGTYPE Operation against a key holding the wrong kind of value");
    world.expect(1, "*2 $1 a $1 1");
}

#[test]
fn several_elements_go_to_one_client() {
    let mut world = World::new(3);
    world.check(0, "BLMPOP 0 2 a b RIGHT COUNT 2", "");
    world.check(1, "BLMPOP 0 1 b LEFT COUNT 5", "");
    world.check(2, "RPUSH b 1 2 3", ":3");
    world.expect(0, "*2 $1 b *2 $1 3 $1 2");
    world.expect(1, "*2 $1 b *1 $1 1");
    assert_eq!(world.effects(), "RPUSH b 1 2 3, RPOP b 2, LPOP b 1");
}

#[test]
fn time_is_over_when_it_is() {
    let mut world = World::new(4);
    world.check(0, "BLPOP a 1", "");
    world.check(1, "BLMOVE a b LEFT LEFT 0.25", "");
    world.check(2, "BLPOP a 0.001", "");
    world.check(3, "BLPOP a 0", "");
    assert_eq!(world.server.next_deadline(), Some(START + 1));
    world.advance(1);
    world.expect(2, "*-1");
    world.advance(248);
    world.expect(1, "");
    world.advance(1);
    world.expect(1, "*-1");
    world.advance(750);
    world.expect(0, "*-1");
    assert_eq!(world.server.next_deadline(), None);
    world.advance(1_000_000_000);
    world.expect(3, "");
    world.check(0, "RPUSH a x", ":1");
    world.expect(3, "*2 $1 a $1 x");
}

#[test]
fn what_was_sent_meanwhile_waits_too() {
    let mut world = World::new(2);
    world.check(0, "BLPOP a 0\nPING\nBLPOP b 0\nPING", "");
    world.check(1, "RPUSH a x", ":1");
    world.expect(0, "*2 $1 a $1 x +PONG");
    world.check(1, "RPUSH b y", ":1");
    world.expect(0, "*2 $1 b $1 y +PONG");
}

#[test]
fn waiting_may_be_ended_by_another() {
    let mut world = World::new(3);
    for client in 0..3 {
        world.check(client, "BLPOP a b 5", "");
    }
    let ids = world.clients.clone();
    assert!(world.server.shared.end_blocking(ids[0], None));
    assert!(world.server.shared.end_blocking(ids[1], Some("UNBLOCKED client unblocked via CLIENT UNBLOCK")));
    assert!(!world.server.shared.end_blocking(ids[1], None));
    world.expect(0, "*-1");
    world.expect(1, "-UNBLOCKED client unblocked via CLIENT UNBLOCK");
    world.server.disconnect(ids[2]);
    assert!(world.server.shared.sessions.blocked.queues.is_empty());
    assert_eq!((world.server.shared.statistics.blocked, world.server.next_deadline()), (0, None));
    world.check(0, "RPUSH a x\nLLEN a", ":1 :1");
}

#[test]
fn clients_end_each_others_waiting() {
    let mut world = World::new(3);
    world.check(0, "CLIENT ID\nBLPOP a 0\nPING", ":1");
    world.check(1, "CLIENT ID\nBLMOVE a b LEFT LEFT 0", ":2");
    let wrong = "-ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR -ERR value is not an integer or out of range";
    world.check(2, "CLIENT UNBLOCK 1 WHY\nCLIENT UNBLOCK x", wrong);
    world.check(2, "CLIENT UNBLOCK 1\nCLIENT UNBLOCK 2 ERROR\nCLIENT UNBLOCK 2\nCLIENT UNBLOCK 3", ":1 :1 :0 :0");
    world.expect(0, "*-1 +PONG");
    world.expect(1, "-UNBLOCKED client unblocked via CLIENT UNBLOCK");
    world.check(2, "CLIENT UNBLOCK 99\nCLIENT UNBLOCK -1", ":0 :0");
}

#[test]
fn who_wants_no_replies_gets_none_for_waiting() {
    let mut world = World::new(3);
    world.check(0, "CLIENT REPLY OFF\nBLPOP a 0\nCLIENT REPLY ON", "");
    world.check(1, "CLIENT REPLY SKIP\nBLPOP a 0\nPING", "");
    world.check(2, "RPUSH a x y", ":2");
    world.expect(0, "+OK");
    world.expect(1, "+PONG");
    world.check(2, "EXISTS a", ":0");
}

#[test]
fn databases_that_change_places_wake_clients() {
    let mut world = World::new(2);
    world.check(0, "BLPOP a 0", "");
    world.check(1, "SELECT 1\nRPUSH a x\nSWAPDB 0 1", "+OK :1 +OK");
    world.expect(0, "*2 $1 a $1 x");
    world.check(0, "BLPOP a 0", "");
    world.check(1, "RPUSH a y\nPEXPIRE a 10", ":1 :1");
    world.now += 20;
    world.check(1, "SWAPDB 0 1", "+OK");
    world.expect(0, "");
    world.check(1, "SELECT 0\nRPUSH a z", "+OK :1");
    world.expect(0, "*2 $1 a $1 z");
}

#[test]
fn what_becomes_a_list_otherwise_wakes_clients_too() {
    let mut world = World::new(2);
    for way in ["RPUSH b x\nRENAME b a", "RPUSH b x\nCOPY b a\nDEL b", "SELECT 1\nRPUSH a x\nMOVE a 0\nSELECT 0"] {
        world.check(0, "BLPOP a 0", "");
        world.send(1, way);
        world.expect(0, "*2 $1 a $1 x");
    }
}

#[test]
fn the_newer_protocol_has_its_own_nothing() {
    let mut world = World::new(1);
    world.send(0, "HELLO 3");
    world.output(0);
    world.check(0, "BLPOP a 0.01\nBLMOVE a b LEFT LEFT 0.01\nBLMPOP 0.01 1 a LEFT", "");
    for _ in 0..3 {
        world.advance(10);
        world.expect(0, "_");
    }
}

#[test]
fn a_key_named_twice_is_waited_for_once() {
    let mut world = World::new(2);
    world.check(0, "BLPOP a a b a 0", "");
    world.check(1, "RPUSH a x y", ":2");
    world.expect(0, "*2 $1 a $1 x");
    world.check(1, "LLEN a", ":1");
}

#[test]
fn databases_are_apart() {
    let mut world = World::new(2);
    world.check(0, "SELECT 3\nBLPOP a 0", "+OK");
    world.check(1, "RPUSH a x\nSELECT 3\nRPUSH a y", ":1 +OK :1");
    world.expect(0, "*2 $1 a $1 y");
}

#[test]
fn a_served_client_that_watches_the_key_fails_its_transaction() {
    let mut world = World::new(3);
    world.check(0, "WATCH a\nBLPOP a 0", "+OK");
    world.check(1, "WATCH b\nRPUSH a x", "+OK :1");
    world.expect(0, "*2 $1 a $1 x");
    world.check(0, "MULTI\nPING\nEXEC", "+OK +QUEUED *-1");
    world.check(1, "MULTI\nPING\nEXEC", "+OK +QUEUED *1 +PONG");
}

#[test]
fn ten_thousand_waiting_clients_cost_a_push_little() {
    let mut world = World::new(10_001);
    for client in 0..10_000 {
        world.send(client, "BLPOP a 0");
    }
    for element in 0..5000 {
        world.check(10_000, &format!("RPUSH a {element}"), ":1");
    }
    world.expect(4999, "*2 $1 a $4 4999");
    world.expect(5000, "");
}

#[test]
fn emptied_databases_and_expired_keys_fail_transactions() {
    let mut world = World::new(2);
    for empty in ["FLUSHALL", "FLUSHDB", "SWAPDB 0 1"] {
        world.check(0, "SET a x\nWATCH a b", "+OK +OK");
        world.check(1, empty, "+OK");
        world.check(0, "MULTI\nPING\nEXEC", "+OK +QUEUED *-1");
        world.check(1, "FLUSHALL", "+OK");
    }
    world.check(0, "WATCH b", "+OK");
    world.check(1, "FLUSHALL", "+OK");
    world.check(0, "MULTI\nPING\nEXEC", "+OK +QUEUED *1 +PONG");
    world.check(0, "SET a 1 PX 100\nWATCH a", "+OK +OK");
    world.now += 101;
    world.check(0, "MULTI\nINCR a\nEXEC", "+OK +QUEUED *-1");
    world.check(0, "SET a 1 PX 100", "+OK");
    world.now += 101;
    world.check(0, "WATCH a\nMULTI\nINCR a\nEXEC", "+OK +OK +QUEUED *1 :1");
}

#[test]
fn each_waits_for_its_own_type() {
    let mut world = World::new(4);
    world.check(0, "BLPOP a 0", "");
    world.check(1, "BZPOPMIN a b 0", "");
    world.check(2, "BZMPOP 0 2 b a MAX COUNT 2", "");
    world.check(3, "ZADD a 1 x 2 y 3 z", ":3");
    world.expect(0, "");
    world.expect(1, "*3 $1 a $1 x $1 1");
    world.expect(2, "*2 $1 a *2 *2 $1 z $1 3 *2 $1 y $1 2");
    world.check(1, "BZPOPMIN a b 0", "");
    world.check(3, "MULTI\nZADD b 1 v\nZADD a 1 w\nEXEC", "+OK +QUEUED +QUEUED *2 :1 :1");
    world.expect(1, "*3 $1 b $1 v $1 1");
    world.check(3, "DEL a\nRPUSH a u", ":1 :1");
    world.expect(0, "*2 $1 a $1 u");
}

#[test]
fn who_is_about_to_go_takes_nothing() {
    let mut world = World::new(3);
    world.check(0, "BLPOP a 0", "");
    world.check(1, "BLPOP a 0", "");
    let gone = world.clients[0];
    world.server.shared.sessions.get_mut(gone).expect("it is connected").close = crate::session::Close::Now;
    world.check(2, "RPUSH a x", ":1");
    world.expect(1, "*2 $1 a $1 x");
    world.server.disconnect(gone);
    world.check(2, "RPUSH a y\nLLEN a", ":1 :1");
}

#[test]
fn who_waits_is_shown_once_and_as_it_was_sent() {
    let mut world = World::new(3);
    world.check(0, "CONFIG SET slowlog-log-slower-than 0\nMONITOR", "+OK +OK");
    world.check(1, "XREAD BLOCK 0 STREAMS a $", "");
    assert!(world.output(0).ends_with(r#""XREAD" "BLOCK" "0" "STREAMS" "a" "$""#));
    world.check(2, "SLOWLOG RESET\nXADD a 1-1 f v", "+OK $3 1-1");
    world.expect(1, "*1 *2 $1 a *1 *2 $3 1-1 *2 $1 f $1 v");
    let shown = world.output(0);
    assert!(shown.contains(r#""XADD""#) && !shown.contains(r#""XREAD""#), "{shown}");
    world.send(2, "SLOWLOG GET\nINFO commandstats");
    let told = world.output(2);
    assert!(told.contains("*6 $5 XREAD $5 BLOCK $1 0 $7 STREAMS $1 a $1 $ "), "{told}");
    assert!(told.contains("cmdstat_xread:calls=1,"), "{told}");
    // It counts from the beginning, and once if its time is over.
    world.send(1, "BLPOP b 1");
    world.send(2, "INFO commandstats");
    assert!(world.output(2).contains("cmdstat_blpop:calls=1,"));
    world.advance(1_000);
    world.expect(1, "*-1");
    world.send(2, "INFO commandstats");
    assert!(world.output(2).contains("cmdstat_blpop:calls=1,"));
}

#[test]
fn what_expires_before_a_transaction_is_over_serves_nobody() {
    let mut world = World::new(4);
    world.server.shared.settings.enable_debug_command = crate::config::Allowed::Yes;
    world.check(0, "BLPOP a 10", "");
    world.check(1, "BZPOPMIN a 10", "");
    world.check(2, "XREAD BLOCK 10000 STREAMS a $", "");
    for (make, reply) in [("RPUSH a x", ":1"), ("ZADD a 1 x", ":1"), ("XADD a 1-1 f v", "$3 1-1")] {
        world.send(3, &format!("MULTI\n{make}\nPEXPIRE a 100\nDEBUG SLEEP 0.2\nEXEC"));
        assert!(world.output(3).ends_with(&format!("*3 {reply} :1 +OK")), "{make}");
        // Whoever runs the server sleeps as long as that.
        world.now += 200;
        world.server.shared.debug.sleep_us = 0;
        (0..3).for_each(|client| world.expect(client, ""));
        world.check(3, "EXISTS a", ":0");
    }
    assert!(world.effects().ends_with("DEL a"));
    world.check(
        3,
        "MULTI\nRPUSH a x\nPEXPIRE a 1000\nDEBUG SLEEP 0.2\nEXEC",
        "+OK +QUEUED +QUEUED +QUEUED *3 :1 :1 +OK",
    );
    world.expect(0, "*2 $1 a $1 x");
}
