//! Queues by their commands: replies, what the log gets, who waits.

use keyspace::Millis;

use crate::{SessionId, groups::testing::Shard};

impl Shard {
    /// Sends a command at a time.
    fn ask_at(&mut self, client: SessionId, now: Millis, command: &str) -> String {
        self.0.input(client).expect("it is connected").extend_from_slice(format!("{command}\r\n").as_bytes());
        self.0.run(client, now);
        self.output(client)
    }
}

/// The text behind a name in a reply.
fn field(reply: &str, name: &str) -> String {
    let words: Vec<&str> = reply.split(' ').collect();
    let place = words.iter().position(|word| *word == name).unwrap_or_else(|| panic!("no {name} in {reply}"));
    let next = words[place + 1];
    if next.starts_with('$') { words[place + 2].to_owned() } else { next.trim_start_matches(':').to_owned() }
}

fn begin() -> (Shard, SessionId) {
    let mut shard = Shard::new();
    let client = shard.client();
    shard.log();
    (shard, client)
}

#[test]
fn a_message_is_pushed_reserved_and_deleted() {
    let (mut shard, client) = begin();
    assert_eq!(shard.ask(client, "QUEUE PUSH q hello"), "$10 1048576000 ");
    assert_eq!(shard.ask(client, "TYPE q"), "+queue ");
    assert_eq!(shard.ask(client, "OBJECT ENCODING q"), "$5 queue ");
    let given = shard.ask(client, "QUEUE RESERVE q TIMEOUT 500 CONSUMER w1");
    assert_eq!((field(&given, "body"), field(&given, "attempts")), ("hello".into(), "1".into()));
    let receipt = field(&given, "receipt");
    assert_eq!(receipt, "1048576000-1");
    assert_eq!(shard.ask(client, "QUEUE RESERVE q"), "*-1 ");
    assert_eq!(shard.ask(client, &format!("QUEUE DELETE q {receipt}")), ":1 ");
    assert_eq!(shard.ask(client, &format!("QUEUE DELETE q {receipt}")), ":0 ");
    assert_eq!(
        shard.log(),
        [
            "QUEUE PUSH q AT 1000 BODY hello",
            "QUEUE RESERVE q AT 1000 COUNT 1 BYTES 67108864 TIMEOUT 500 CONSUMER w1",
            "QUEUE DELETE q AT 1000 1048576000-1",
        ]
    );
    let stat = shard.ask(client, "QUEUE STAT q");
    for (name, value) in [("ready", "0"), ("published", "1"), ("delivered", "1"), ("deleted", "1"), ("seen", "1000")] {
        assert_eq!(field(&stat, name), value, "{name}");
    }
}

#[test]
fn many_are_pushed_at_once_and_an_id_counts_once() {
    let (mut shard, client) = begin();
    assert_eq!(shard.ask(client, "QUEUE PUSH q PRIORITY 5 BODY a b"), "*2 $10 1048576000 $10 1048576001 ");
    assert_eq!(shard.ask(client, "QUEUE PUSH q ID x BODY c"), "*1 $10 1048576002 ");
    assert_eq!(shard.ask(client, "QUEUE PUSH q IDBODY x c y d"), "*2 $10 1048576002 $10 1048576003 ");
    let given = shard.ask(client, "QUEUE RESERVE q COUNT 10");
    assert!(given.starts_with("*4 "), "{given}");
    let receipts: Vec<_> = (0..4).map(|number| format!("{}-1", 1_048_576_000 + number)).collect();
    let all = receipts.join(" ");
    assert_eq!(shard.ask(client, &format!("QUEUE DELETE q {all}")), "*4 :1 :1 :1 :1 ");
    assert_eq!(shard.ask(client, &format!("QUEUE DELETE q {all}")), "*4 :0 :0 :0 :0 ");
}

#[test]
fn a_stale_receipt_is_refused_and_changes_nothing() {
    let (mut shard, client) = begin();
    shard.ask(client, "QUEUE PUSH q hello");
    let first = field(&shard.ask(client, "QUEUE RESERVE q TIMEOUT 10"), "receipt");
    // Nobody else was given it: it may still be deleted, but not lengthened.
    let refused = shard.ask_at(client, 1010, &format!("QUEUE TOUCH q {first}"));
    assert_eq!(refused, format!("-STALERECEIPT {first}: its reservation has ended "));
    let second = field(&shard.ask_at(client, 1011, "QUEUE RESERVE q TIMEOUT 10"), "receipt");
    shard.log();
    for command in ["DELETE", "TOUCH", "RELEASE", "BURY"] {
        let reply = shard.ask_at(client, 1012, &format!("QUEUE {command} q {first}"));
        assert!(
            reply.starts_with(&format!("-STALERECEIPT {first}: the message was given again")),
            "{command}: {reply}"
        );
    }
    let reply = shard.ask_at(client, 1012, &format!("QUEUE DELETE q {first} {first}"));
    assert_eq!(reply.matches("-STALERECEIPT").count(), 2, "{reply}");
    assert!(shard.log().is_empty());
    let third =
        field(&format!("receipt {}", shard.ask_at(client, 1012, &format!("QUEUE TOUCH q {second} NEW"))), "receipt");
    assert_eq!(third, "1048576000-3");
    assert!(shard.ask_at(client, 1013, &format!("QUEUE DELETE q {second}")).starts_with("-STALERECEIPT"));
    assert_eq!(shard.ask_at(client, 1013, &format!("QUEUE DELETE q {third}")), ":1 ");
}

#[test]
fn a_consumer_that_waits_is_served_by_a_push_a_delay_and_a_time_out_in_turn() {
    let (mut shard, client) = begin();
    let waiting: Vec<_> = (0..4).map(|_| shard.client()).collect();
    for client in &waiting {
        assert_eq!(shard.ask(*client, "QUEUE RESERVE q BLOCK 0 TIMEOUT 50"), "");
    }
    shard.ask(client, "QUEUE PUSH q first");
    assert!(shard.output(waiting[0]).contains(" first "), "who came first");
    assert_eq!(shard.output(waiting[1]), "");
    shard.ask(client, "QUEUE PUSH q DELAY 20 BODY second");
    assert_eq!(shard.output(waiting[1]), "");
    assert!(shard.0.next_deadline().is_some_and(|at| at <= 1020));
    shard.0.tick(1019);
    assert_eq!(shard.output(waiting[1]), "");
    shard.0.tick(1020);
    assert!(shard.output(waiting[1]).contains(" second "));
    shard.0.tick(1049);
    assert_eq!(shard.output(waiting[2]), "");
    shard.0.tick(1050);
    let again = shard.output(waiting[2]);
    assert!(again.contains(" first ") && field(&again, "attempts") == "2", "{again}");
    assert_eq!(shard.output(waiting[3]), "");
    assert_eq!(shard.ask_at(client, 1051, "QUEUE PAUSE q 100"), "+OK ");
    shard.ask_at(client, 1051, "QUEUE PUSH q third");
    shard.0.tick(1150);
    assert_eq!(shard.output(waiting[3]), "", "paused");
    shard.0.tick(1151);
    assert!(shard.output(waiting[3]).contains(" first "), "what ran out comes first");
    let log = shard.log();
    assert!(log.iter().all(|command| command.contains(" AT ") && !command.contains("BLOCK")), "{log:?}");
}

#[test]
fn a_wait_has_an_end() {
    let (mut shard, client) = begin();
    assert_eq!(shard.ask(client, "QUEUE RESERVE q BLOCK 100"), "");
    shard.0.tick(1099);
    assert_eq!(shard.output(client), "");
    shard.0.tick(1100);
    assert_eq!(shard.output(client), "*-1 ");
    assert!(shard.log().is_empty());
    shard.ask(client, "MULTI");
    shard.ask(client, "QUEUE RESERVE q BLOCK 0");
    assert_eq!(shard.ask(client, "EXEC"), "*1 *-1 ", "nobody waits in a transaction");
}

#[test]
fn a_full_queue_refuses_drops_or_has_its_publisher_wait() {
    let (mut shard, client) = begin();
    shard.ask(client, "QUEUE CREATE q MAXLEN 1");
    shard.ask(client, "QUEUE PUSH q a");
    let refused = shard.ask(client, "QUEUE PUSH q b");
    assert_eq!(refused, "-QUEUEFULL The queue has no room for 1 more (MAXLEN 1, MAXBYTES 0): retry in 1000 ms ");
    assert_eq!(shard.ask(client, "QUEUE CONFIGURE q OVERFLOW drop-oldest"), "+OK ");
    shard.ask(client, "QUEUE PUSH q c");
    shard.ask(client, "QUEUE CONFIGURE q OVERFLOW block");
    let (patient, hasty) = (shard.client(), shard.client());
    assert_eq!(shard.ask(patient, "QUEUE PUSH q BLOCK 500 BODY d"), "");
    assert_eq!(shard.ask(hasty, "QUEUE PUSH q BLOCK 5 BODY e"), "");
    shard.0.tick(1005);
    assert!(shard.output(hasty).starts_with("-QUEUEFULL"));
    let given = shard.ask_at(client, 1006, "QUEUE RESERVE q");
    assert_eq!(field(&given, "body"), "c");
    assert_eq!(shard.output(patient), "");
    shard.ask_at(client, 1007, &format!("QUEUE DELETE q {}", field(&given, "receipt")));
    assert!(shard.output(patient).starts_with("*1 $10 "), "there is room now");
    assert_eq!(field(&shard.ask_at(client, 1008, "QUEUE STAT q"), "dropped"), "1");
    let never = shard.ask_at(client, 1008, "QUEUE PUSH q BODY f g");
    assert!(never.starts_with("-QUEUEFULL The queue never has room"), "{never}");
}

#[test]
fn dead_messages_are_shown_moved_and_live_again() {
    let (mut shard, client) = begin();
    shard.ask(client, "QUEUE CREATE q ATTEMPTS 1");
    shard.ask(client, "QUEUE PUSH q HEADER kind page REPLYTO answers GROUP g BODY a b");
    let receipt = field(&shard.ask(client, "QUEUE RESERVE q"), "receipt");
    assert_eq!(shard.ask(client, &format!("QUEUE RELEASE q {receipt} REASON broken")), "+OK ");
    let dead = shard.ask(client, "QUEUE PEEK q STATE dead");
    for (name, value) in
        [("reason", "broken"), ("state", "dead"), ("group", "g"), ("reply-to", "answers"), ("kind", "page")]
    {
        assert_eq!(field(&dead, name), value, "{dead}");
    }
    assert_eq!(shard.ask(client, "QUEUE REDRIVE q REASON other"), "*2 :0 $-1 ");
    assert_eq!(shard.ask(client, "QUEUE REDRIVE q REASON broken"), "*2 :1 $-1 ");
    assert_eq!(shard.ask(client, "QUEUE MOVE q p COUNT 1"), ":1 ");
    let given = shard.ask(client, "QUEUE RESERVE p");
    assert_eq!((field(&given, "body"), field(&given, "kind")), ("a".into(), "page".into()));
    let receipt = field(&shard.ask(client, "QUEUE RESERVE q"), "receipt");
    assert_eq!(shard.ask(client, &format!("QUEUE BURY q {receipt} REASON poison")), "+OK ");
    assert_eq!(shard.ask(client, "QUEUE PURGE q STATE ready"), ":0 ");
    assert_eq!(shard.ask(client, "QUEUE PURGE q"), ":1 ");
    assert_eq!(shard.ask(client, "QUEUE PEEK q STATE all"), "*0 ");
}

#[test]
fn what_is_wrong_is_said() {
    let (mut shard, client) = begin();
    shard.ask(client, "SET s x");
    for (command, error) in [
        ("PUSH s x", "WRONGTYPE"),
        ("PUSH q", "wrong number of arguments"),
        ("PUSH q AT 5 BODY x", "QUEUE PUSH has no option 'AT'"),
        ("PUSH q COLOUR red BODY x", "no option 'COLOUR'"),
        ("PUSH q ID a BODY x y", "IDBODY gives each message its own"),
        ("PUSH q IDBODY a", "ends with BODY"),
        ("PUSH q PRIORITY -1 BODY x", "PRIORITY is a number"),
        ("PUSH q DELAY x BODY x", "DELAY is a number of milliseconds"),
        ("PUSH q GROUP  BODY x", ""),
        ("RESERVE q COUNT 0", "COUNT is a number from 1 to 1000"),
        ("RESERVE s", "WRONGTYPE"),
        ("STAT q", "NOQUEUE"),
        ("STAT s", "WRONGTYPE"),
        ("DELETE q 12", "'12' is no receipt"),
        ("TOUCH q 12-1", "STALERECEIPT 12-1: the message is gone"),
        ("CREATE q OVERFLOW maybe", "OVERFLOW is one of"),
        ("CREATE q DURABILITY synced", "appendfsync always"),
        ("CREATE q DURABILITY none", "not there"),
        ("PEEK q STATE lost", "NOQUEUE"),
        ("MOVE q q", "same queue"),
        ("MOVE q p", "NOQUEUE"),
        ("FLY q", "unknown subcommand"),
    ] {
        let reply = shard.ask(client, &format!("QUEUE {command}"));
        let is_there = if command.contains("PEEK") { reply.contains("STATE is one of") } else { reply.contains(error) };
        assert!(reply.starts_with('-') && is_there, "{command}: {reply}");
    }
    assert_eq!(shard.ask(client, "EXISTS q p"), ":0 ", "nothing was made by what was refused");
    assert!(shard.ask(client, "QUEUE HELP").contains("RESERVE <key>"));
}

#[test]
fn a_queue_is_dumped_restored_copied_and_renamed() {
    let (mut shard, client) = begin();
    shard.ask(client, "QUEUE PUSH q ID a BODY one");
    shard.ask(client, "QUEUE PUSH q DELAY 500 BODY two");
    let receipt = field(&shard.ask(client, "QUEUE RESERVE q"), "receipt");
    let digest = shard.ask(client, "DEBUG DIGEST-VALUE q");
    assert_eq!(shard.ask(client, "COPY q c"), ":1 ");
    assert_eq!(shard.ask(client, "RENAME q r"), "+OK ");
    for key in ["c", "r"] {
        assert_eq!(shard.ask(client, &format!("DEBUG DIGEST-VALUE {key}")), digest);
        assert_eq!(shard.ask(client, &format!("QUEUE DELETE {key} {receipt}")), ":1 ");
        assert_eq!(shard.ask(client, &format!("QUEUE PUSH {key} ID a BODY one")), "*1 $10 1048576000 ", "it is known");
        assert_eq!(field(&shard.ask_at(client, 1500, &format!("QUEUE RESERVE {key}")), "body"), "two");
    }
    assert!(shard.ask(client, "MEMORY USAGE c").starts_with(':'));
    shard.ask(client, "DEL c r");
    assert_eq!(shard.ask(client, "QUEUE RESERVE r"), "*-1 ");
}
