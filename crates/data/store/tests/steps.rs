//! Commands in steps on a real store: others are served meanwhile, and what is cut off has not been.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use support::{Client, Folder, Running, start};

const COUNT: usize = 40_000;
/// So many commands of others at least are served meanwhile.
const SERVED: usize = 5;

/// A store with a sorted set of many members.
fn filled(folder: &Folder, words: &[&str]) -> (Running, Client) {
    const AT_ONCE: usize = 5_000;
    let store = start(&folder.data(), words);
    let mut client = store.client();
    for from in (0..COUNT).step_by(AT_ONCE) {
        let members = (from..from + AT_ONCE).flat_map(|number| [number.to_string(), format!("m{number}")]);
        let words: Vec<String> = ["ZADD".to_owned(), "z".to_owned()].into_iter().chain(members).collect();
        assert_eq!(client.command(&words), resp::Value::Integer(AT_ONCE as i64));
    }
    (store, client)
}

fn send(client: &mut Client, words: &[&str]) {
    let mut bytes = Vec::new();
    resp::encode_command(&mut bytes, words);
    assert!(client.send(&bytes));
}

#[test]
fn others_are_served_while_much_is_removed() {
    for words in [&[][..], &["--collection-max-whole-entries", "64"], &["--io-threads", "2"]] {
        let folder = Folder::new();
        let (mut store, mut client) = filled(&folder, words);
        let (mut other, mut monitor) = (store.client(), store.client());
        assert_eq!(monitor.text(&["MONITOR"]), "OK");
        send(&mut client, &["ZREMRANGEBYRANK", "z", "0", "-11"]);
        // A checkpoint must not see half of it.
        other.text(&["BGSAVE"]);
        for number in 0..SERVED {
            assert_eq!(other.text(&["SET", "served", &number.to_string()]), "OK");
        }
        assert_eq!(other.text(&["ZCARD", "z"]), "10");
        assert_eq!(client.reply().unwrap(), resp::Value::Integer(COUNT as i64 - 10));
        // It is shown when it takes effect.
        let mut served = 0;
        while !matches!(monitor.reply().unwrap().as_bytes(), Some(line) if line.windows(15).any(|name| name == b"ZREMRANGEBYRANK"))
        {
            served += 1;
        }
        assert!(served >= SERVED, "{served}");
        store.kill();
        let mut store = start(&folder.data(), words);
        assert_eq!(store.client().text(&["ZCARD", "z"]), "10");
        assert_eq!(store.stop(), Some(0));
    }
}

/// A store that is killed in the middle of a command has all of it or nothing; one that is asked to end has all.
#[test]
fn a_command_that_is_cut_off_has_not_been() {
    for is_killed in [true, false] {
        let folder = Folder::new();
        let words = ["--collection-max-whole-entries", "64", "--appendfsync", "always"];
        let (mut store, mut client) = filled(&folder, &words);
        let mut other = store.client();
        send(&mut client, &["ZREMRANGEBYRANK", "z", "0", "-11"]);
        // The checkpoint waits for it.
        assert!(other.text(&["BGSAVE"]).starts_with("Background saving"));
        for number in 0..3 {
            assert_eq!(other.text(&["SET", "k", &number.to_string()]), "OK");
        }
        if is_killed {
            store.kill();
        } else {
            assert_eq!(store.stop(), Some(0));
        }
        let mut store = start(&folder.data(), &words);
        let left = store.client().text(&["ZCARD", "z"]);
        let all = COUNT.to_string();
        assert!(left == "10" || is_killed && left == all, "{left}");
        assert_eq!(store.client().text(&["GET", "k"]), "2");
        assert_eq!(store.stop(), Some(0));
    }
}
