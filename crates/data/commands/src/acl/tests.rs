use crate::{
    config::Settings,
    groups::{self, testing::Shard},
    table::Access,
};

use super::{Acl, User, merge_selectors, user};

/// The description of a user of some rules.
fn described(rules: &str) -> String {
    let table = groups::table();
    let mut user = User::new(b"somebody", false);
    let words: Vec<&[u8]> = rules.split(' ').map(str::as_bytes).collect();
    for rule in merge_selectors(&words).unwrap() {
        user.apply(&rule, &table, false).unwrap_or_else(|error| panic!("{rules}: {error}"));
    }
    String::from_utf8(user.describe(&table)).unwrap()
}

#[test]
fn rules_are_described_by_the_shortest_ones_that_make_the_same() {
    for (rules, expected) in [
        ("", "off resetchannels -@all"),
        ("on nopass ~* &* +@all", "on nopass ~* &* +@all"),
        ("on allkeys allchannels allcommands", "on ~* &* +@all"),
        ("+get +set -get", "off resetchannels -@all +set"),
        ("%R~a %W~a %RW~b %r~c", "off ~a ~b %R~c resetchannels -@all"),
        ("&b &a &b", "off resetchannels &b &a -@all"),
        ("+@string", "off resetchannels -@all +@string"),
        ("+@all -client", "off resetchannels +@all -client"),
        ("+@all -client|kill", "off resetchannels +@all -client|kill"),
        ("+client -client|id", "off resetchannels -@all +client -client|id"),
        ("+client|id", "off resetchannels -@all +client|id"),
        ("+select|0 +select|1 +select|0", "off resetchannels -@all +select|0 +select|1"),
        ("+@all +select|0", "off resetchannels +@all"),
        (
            "+get ( ~a +set ) (&c)",
            "off resetchannels -@all +get (~a resetchannels -@all +set) (resetchannels &c -@all)",
        ),
        ("+get (~a) clearselectors", "off resetchannels -@all +get"),
        ("on nopass +@all ~x reset", "off sanitize-payload resetchannels -@all"),
    ] {
        assert_eq!(described(rules), expected, "{rules}");
    }
}

#[test]
fn what_is_described_makes_the_same_again() {
    for rules in [
        "on +@all -@dangerous +info ~a* %R~b*",
        "+@read +@write -flushall",
        "+@hash (%W~x* +@list -lpush)",
        "-@all +acl|whoami",
    ] {
        let once = described(rules);
        assert_eq!(described(&once), once, "{rules}");
    }
}

#[test]
fn wrong_rules_say_what_is_wrong() {
    let table = groups::table();
    for (before, rule, expected) in [
        ("", "+nosuch", "Unknown command or category name in ACL"),
        ("", "-get|key", "Unknown command or category name in ACL"),
        ("", "+config|nosuch", "Unknown command or category name in ACL"),
        ("", "+get|a|b", "Unknown command or category name in ACL"),
        ("", "+config|get|x", "Allowing first-arg of a subcommand is not supported"),
        ("", "+@nosuch", "Unknown command or category name in ACL"),
        ("", "+select|", "Syntax error"),
        ("", "%~a", "Syntax error"),
        ("", "%R", "Syntax error"),
        ("", "%RR~a", "Syntax error"),
        ("", "~a b", "Syntax error"),
        ("", "nosuch", "Syntax error"),
        ("", " () ", "Syntax error"),
        ("", "(nosuch)", "Syntax error"),
        ("", "#0", "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"),
        ("", "<x", "The password you are trying to remove from the user does not exist"),
    ] {
        let mut user = User::new(b"somebody", false);
        user.apply(before.as_bytes(), &table, false).unwrap();
        let error = user.apply(rule.as_bytes(), &table, false).unwrap_err();
        assert_eq!(error.to_string(), expected, "{rule}");
    }
    let mut user = User::new(b"somebody", true);
    assert!(user.apply(b"&a", &table, true).is_err());
    user.apply(b"~*", &table, true).unwrap();
    assert!(user.apply(b"~a", &table, true).is_err());
}

#[test]
fn passwords_are_hashes() {
    let table = groups::table();
    let mut user = User::new(b"somebody", false);
    user.apply(b">secret", &table, false).unwrap();
    assert!(!user.accepts(b"secret"), "it is off");
    user.apply(b"on", &table, false).unwrap();
    assert!(user.accepts(b"secret") && !user.accepts(b"secre") && !user.accepts(b""));
    assert_eq!(user.passwords, ["2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"]);
    assert_eq!(user::hash(b"secret"), user.passwords[0]);
    user.apply(b"<secret", &table, false).unwrap();
    assert!(!user.accepts(b"secret"));
    user.apply(b"nopass", &table, false).unwrap();
    assert!(user.accepts(b"anything"));
}

#[test]
fn keys_have_the_access_that_the_words_say() {
    let table = groups::table();
    for (command, expected) in [
        ("SET k v", vec![(1, Access::OW | Access::UPDATE)]),
        ("SET k v EX 1 get", vec![(1, Access::RW | Access::ACCESS | Access::UPDATE)]),
        ("BITFIELD k GET u8 0 OVERFLOW FAIL GET u8 1", vec![(1, Access::RO | Access::ACCESS)]),
        ("BITFIELD k GET u8 0 SET u8 0 1", vec![(1, Access::RW | Access::ACCESS | Access::UPDATE)]),
        ("SPUBLISH channel text", vec![]),
        ("SPUBLISH channel", vec![]),
    ] {
        let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        let found = table.find(&words).unwrap();
        assert_eq!(found.command.key_accesses(&words), expected, "{command}");
    }
    let places = |command: &str| {
        let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        let found = table.find(&words).unwrap();
        let accesses = found.command.key_accesses(&words);
        accesses.iter().map(|(place, access)| (*place, access.contains(Access::ACCESS))).collect::<Vec<_>>()
    };
    assert_eq!(places("SORT a BY x GET STORE STORE b"), [(1, true), (7, false)]);
    assert_eq!(places("EVAL script 2 a b c"), [(3, true), (4, true)]);
    assert_eq!(places("EVAL script 5 a b c"), []);
    assert_eq!(places("COPY a b"), [(1, true), (2, false)]);
}

#[test]
fn sessions_follow_their_users() {
    let mut shard = Shard::new();
    let (admin, other) = (shard.client(), shard.client());
    assert_eq!(shard.ask(admin, "ACL SETUSER alice on >pw ~a* &news +get +set +subscribe +multi +exec"), "+OK ");
    assert_eq!(shard.ask(other, "AUTH alice pw"), "+OK ");
    assert_eq!(shard.ask(other, "GET a1"), "$-1 ");
    assert!(shard.ask(other, "GET b1").starts_with("-NOPERM this user has no permissions to access one of the keys"));
    assert!(shard.ask(other, "ACL WHOAMI").contains("'acl|whoami' command"));
    shard.ask(other, "MULTI");
    shard.ask(other, "SET a1 x");
    shard.ask(other, "GET a1");
    shard.ask(admin, "ACL SETUSER alice -set");
    let executed = shard.ask(other, "EXEC");
    assert!(executed.starts_with("*2 -NOPERM ACLs rules changed") && executed.ends_with("$-1 "), "{executed}");
    assert!(shard.ask(other, "SUBSCRIBE news").starts_with("*3 "));
    shard.ask(admin, "ACL SETUSER alice resetchannels");
    assert_eq!(shard.0.output(other).unwrap().1, crate::session::Close::Now);
    assert_eq!(shard.ask(admin, "PUBLISH news x"), ":0 ");
    let another = shard.client();
    shard.ask(another, "AUTH alice pw");
    assert_eq!(shard.ask(admin, "ACL DELUSER alice nobody"), ":1 ");
    assert_eq!(shard.0.output(another).unwrap().1, crate::session::Close::Now);
}

#[test]
fn the_default_user_may_be_closed() {
    let mut shard = Shard::new();
    let (admin, early) = (shard.client(), shard.client());
    shard.ask(admin, "ACL SETUSER root on nopass ~* &* +@all");
    shard.ask(admin, "AUTH root x");
    shard.ask(admin, "CONFIG SET requirepass pw");
    assert_eq!(shard.ask(early, "PING"), "+PONG ", "it was there before");
    let late = shard.client();
    assert_eq!(shard.ask(late, "PING"), "-NOAUTH Authentication required. ");
    assert_eq!(shard.ask(late, "AUTH pw"), "+OK ");
    let later = shard.client();
    shard.ask(admin, "ACL SETUSER default nopass");
    assert_eq!(shard.ask(later, "PING"), "+PONG ", "nobody needs to say who he is");
    shard.ask(admin, "ACL SETUSER default off");
    assert_eq!(shard.ask(later, "PING"), "-NOAUTH Authentication required. ");
}

#[test]
fn events_that_are_alike_are_one_entry() {
    let mut shard = Shard::new();
    let (admin, other) = (shard.client(), shard.client());
    shard.ask(admin, "ACL SETUSER alice on nopass ~a +get +eval +multi");
    shard.ask(other, "AUTH alice x");
    for command in ["SET a 1", "SET a 2", "GET b", "EVAL \"return redis.call('del', KEYS[1])\" 1 a"] {
        shard.ask(other, command);
    }
    shard.ask(other, "AUTH alice2 x");
    let log = shard.ask(admin, "ACL LOG");
    assert!(log.starts_with("*4 "), "{log}");
    for part in
        ["$4 auth $7 context $8 toplevel $6 object $4 AUTH $8 username $6 alice2", "$3 lua $6 object $3 del", ":2 "]
    {
        assert!(log.contains(part), "{part}: {log}");
    }
    assert!(log.contains(" cmd=eval user=alice ") && !log.contains("cmd=NULL"), "{log}");
    assert!(shard.ask(admin, "ACL LOG 1").starts_with("*1 "));
    shard.ask(admin, "CONFIG SET acllog-max-len 2");
    shard.ask(other, "SET c 1");
    assert!(shard.ask(admin, "ACL LOG").starts_with("*2 "));
    assert_eq!(shard.ask(admin, "ACL LOG RESET"), "+OK ");
    assert_eq!(shard.ask(admin, "ACL LOG"), "*0 ");
}

#[derive(Debug)]
struct Lines(std::cell::RefCell<Vec<u8>>);

impl super::UserFile for std::rc::Rc<Lines> {
    fn name(&self) -> String {
        "users".into()
    }
    fn read(&self) -> Result<Vec<u8>, String> {
        Ok(self.0.borrow().clone())
    }
    fn write(&self, text: &[u8]) -> Result<(), String> {
        self.0.replace(text.to_vec());
        Ok(())
    }
}

#[test]
fn users_are_kept_in_a_file() {
    let file = std::rc::Rc::new(Lines(b"user alice on nopass ~* +@all\n\n  user bob off -@all \n".to_vec().into()));
    let mut shard = Shard::new();
    shard.0.load_users(Some(Box::new(std::rc::Rc::clone(&file)))).unwrap();
    let (admin, alice) = (shard.client(), shard.client());
    assert_eq!(shard.ask(admin, "ACL USERS"), "*3 $5 alice $3 bob $7 default ");
    shard.ask(alice, "AUTH alice x");
    shard.ask(admin, "ACL SETUSER carol on +get");
    assert_eq!(shard.ask(admin, "ACL SAVE"), "+OK ");
    let saved = String::from_utf8(file.0.borrow().clone()).unwrap();
    assert!(saved.contains("user carol on resetchannels -@all +get\n"), "{saved}");
    file.0.replace(b"user alice +nosuch\nuser x on >\nuser alice on\nnobody\nuser \nuser y (+get\n".to_vec());
    assert_eq!(
        shard.ask(admin, "ACL LOAD"),
        "-ERR users:1: Error in applying operation '+nosuch': Unknown command or category name in ACL. WARNING: Duplicate user \
         'alice' found on line 3. users:4 should start with user keyword followed by the username. users:5 should start with \
         user keyword followed by the username. users:6: Unmatched parenthesis in selector definition. WARNING: ACL errors \
         detected, no change to the previously active ACL rules was performed "
    );
    assert_eq!(shard.ask(alice, "PING"), "+PONG ");
    file.0.replace(b"user default on nopass ~* +@all".to_vec());
    assert_eq!(shard.ask(admin, "ACL LOAD"), "+OK ");
    assert_eq!(shard.ask(admin, "ACL USERS"), "*1 $7 default ");
    assert_eq!(shard.0.output(alice).unwrap().1, crate::session::Close::Now);
    assert!(shard.ask(admin, "SUBSCRIBE a").starts_with("-NOPERM"), "the file gives no channels");
}

#[test]
fn users_may_stand_in_the_settings() {
    let table = groups::table();
    let line = |text: &str| -> Vec<keyspace::Bytes> {
        text.split(' ').map(|word| keyspace::Bytes::from_slice(word.as_bytes())).collect()
    };
    let mut acl = Acl::new(&Settings::default(), &table);
    acl.load_lines(&[line("default on nopass ~* +@all -flushall"), line("bob on >x ( +get ~a )")], &table, false)
        .unwrap();
    assert_eq!(
        acl.default_user().describe(&table).as_slice(),
        b"on nopass sanitize-payload ~* resetchannels +@all -flushall"
    );
    for (text, expected) in [
        ("bob +nosuch", "user bob: '+nosuch': Unknown command or category name in ACL"),
        ("bob (+get", "user bob: Unmatched parenthesis in '(+get'"),
    ] {
        assert_eq!(acl.load_lines(&[line(text)], &table, false), Err(expected.to_owned()));
    }
    assert!(acl.load_lines(&[line("a on"), line("a off")], &table, false).unwrap_err().contains("Duplicate user"));
}
