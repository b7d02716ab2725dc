//! What is written of a log to be run again.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::path::Path;

use store::{
    StoreError,
    log_dump::{Dump, Form, dump, point},
};
use support::{Folder, start, wait_until};

fn dumped(folder: &Path, form: Form, from: Option<u64>, with_flushes: bool) -> Result<String, (String, StoreError)> {
    let from = from.map(|offset| point(&offset.to_string()).unwrap());
    let mut out = Vec::new();
    let what = Dump { folder: folder.to_owned(), from, to: None, follow: false, form, follower: None, with_flushes };
    let ended = dump(&what, &mut out);
    let text = String::from_utf8(out).unwrap();
    match ended {
        Ok(_) => Ok(text),
        Err(error) => Err((text, error)),
    }
}

#[test]
fn what_was_to_be_undone_does_not_come_back_by_accident() {
    let folder = Folder::new();
    let mut store = start(&folder.data(), &["--appendfsync", "always"]);
    let mut client = store.client();
    client.text(&["SET", "before", "1"]);
    client.text(&["DEL", "before"]);
    client.text(&["SET", "after", "1"]);
    client.text(&["FLUSHALL"]);
    client.text(&["SET", "later", "1"]);
    store.kill();
    let plain = dumped(&folder.data(), Form::Lines, None, false).unwrap();
    assert_eq!(plain.lines().count(), 5, "people see all of it: {plain}");
    let offset_of = |word: &str| -> u64 {
        let line = plain.lines().find(|line| line.contains(word)).unwrap();
        line.split(' ').next().unwrap().parse().unwrap()
    };
    // Written to be run again, it ends in front of what would empty everything.
    for form in [Form::Commands, Form::Raw] {
        let (written, error) = dumped(&folder.data(), form, None, false).unwrap_err();
        assert!(written.contains("after") && !written.contains("FLUSHALL"), "{written}");
        let said = error.to_string();
        assert!(said.contains(&format!("in front of `FLUSHALL` at offset {}", offset_of("FLUSHALL"))), "{said}");
        let from = said.split("--from ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap().parse().unwrap();
        let behind = dumped(&folder.data(), form, Some(from), false).unwrap();
        assert!(behind.contains("later") && !behind.contains("after"), "{behind}");
        assert!(dumped(&folder.data(), form, None, true).unwrap().contains("FLUSHALL"));
    }

    // The store goes back to before the DEL, and what came since is set aside.
    let begin = offset_of("DEL");
    let mut store = start(&folder.data(), &["--until", &begin.to_string()]);
    assert_eq!(store.client().text(&["GET", "before"]), "1");
    assert_eq!(store.stop(), Some(0));
    let aside = folder.data().join("shard-0").join(format!("log-after-{begin}"));
    let plain = dumped(&aside, Form::Lines, None, false).unwrap();
    assert!(plain.starts_with(&format!("{begin} ")) && plain.lines().count() == 4, "it begins there: {plain}");
    for form in [Form::Commands, Form::Raw] {
        let (written, error) = dumped(&aside, form, None, true).unwrap_err();
        assert_eq!(written, "");
        let said = error.to_string();
        let again = format!("--from {begin} has it run again");
        assert!(said.contains("with `DEL before`") && said.contains(&again), "{said}");
        let behind = said.split("--from ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap().parse().unwrap();
        assert!(dumped(&aside, form, Some(begin), true).unwrap().contains("DEL"));
        let rest = dumped(&aside, form, Some(behind), true).unwrap();
        assert!(!rest.contains("DEL") && rest.contains("after"), "{rest}");
    }
}

#[test]
fn a_transaction_that_empties_everything_is_not_run_in_part() {
    let folder = Folder::new();
    let mut store = start(&folder.data(), &["--appendfsync", "always"]);
    let mut client = store.client();
    for words in [&["MULTI"][..], &["SET", "a", "1"], &["FLUSHDB"], &["SET", "b", "1"], &["EXEC"]] {
        client.text(words);
    }
    store.kill();
    let (written, error) = dumped(&folder.data(), Form::Commands, None, false).unwrap_err();
    assert!(written.contains("\"MULTI\"") && !written.contains("EXEC"), "{written}");
    assert!(error.to_string().contains("it stands in a transaction, of which nothing runs now"), "{error}");
}

fn lines_of_json(text: &str) -> Vec<serde_json::Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn programs_follow_the_log_as_json() {
    let folder = Folder::new();
    let store = start(&folder.data(), &[]);
    let mut client = store.client();
    client.text(&["SET", "a", "1"]);
    client.text(&["SELECT", "3"]);
    client.text(&["MULTI"]);
    client.text(&["SET", "b", "2"]);
    client.text(&["INCR", "b"]);
    client.text(&["EXEC"]);
    client.text(&["FLUSHALL"]);
    let all = lines_of_json(&dumped(&folder.data(), Form::Json, None, false).unwrap());
    let commands: Vec<String> = all.iter().map(|line| line["command"].to_string()).collect();
    let expected = [
        r#"["SET","a","1"]"#,
        r#"["MULTI"]"#,
        r#"["SET","b","2"]"#,
        r#"["INCR","b"]"#,
        r#"["EXEC"]"#,
        r#"["FLUSHALL"]"#,
    ];
    assert_eq!(commands, expected);
    assert_eq!(all.iter().map(|line| line["db"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 3, 3, 3, 3, 3]);
    // Whoever goes on at `next` gets what follows, and a transaction whole.
    for (place, follows) in [(0, 1), (1, 1), (2, 1), (3, 1), (4, 5)] {
        let next = all[place]["next"].as_u64();
        let rest = lines_of_json(&dumped(&folder.data(), Form::Json, next, false).unwrap());
        assert_eq!(rest[0]["command"], all[follows]["command"], "behind {place}");
    }
}

#[test]
fn the_log_is_kept_for_a_follower_with_a_name() {
    let folder = Folder::new();
    let store = start(
        &folder.data(),
        &["--log-segment-size", "1mb", "--log-retention-size", "1mb", "--replica-log-size-max", "40mb"],
    );
    let mut client = store.client();
    let follow = || {
        let mut out = Vec::new();
        let what = Dump {
            folder: folder.data(),
            from: None,
            to: None,
            follow: false,
            form: Form::Json,
            follower: Some("billing".into()),
            with_flushes: false,
        };
        dump(&what, &mut out).map(|count| (count, String::from_utf8(out).unwrap()))
    };
    client.text(&["SET", "first", "1"]);
    let (count, text) = follow().unwrap();
    assert!(count == 1 && text.contains("first"), "{text}");
    assert_eq!(follow().unwrap().0, 0, "it goes on where it was");
    let first = |client: &mut support::Client| -> u64 {
        let info = client.text(&["INFO", "replication"]);
        let line = info.lines().find_map(|line| line.strip_prefix("repl_backlog_first_byte_offset:"));
        line.unwrap().trim().parse().unwrap()
    };
    let value = "v".repeat(1 << 20);
    let write = |client: &mut support::Client| {
        client.text(&["SET", "key", &value]);
        client.text(&["SAVE"]);
    };
    client.text(&["SET", "second", "1"]);
    let begun = first(&mut client);
    wait_until("the store knows the follower", || {
        client.text(&["INFO", "replication"]).contains("log_follower_billing:")
    });
    (0..8).for_each(|_| write(&mut client));
    assert_eq!(first(&mut client), begun, "nothing of it is given up");
    let (_, text) = follow().unwrap();
    assert!(text.contains("second") && !text.contains("first"), "{}", &text[..200]);
    // It has had them: they go.
    wait_until("the log is short again", || {
        write(&mut client);
        first(&mut client) > begun
    });
    // One that never comes again is given up at the bound, and told so when it does.
    wait_until("the log is given up for it", || {
        write(&mut client);
        first(&mut client) > begun + (45 << 20)
    });
    let error = follow().unwrap_err();
    assert!(error.to_string().contains("removed") || format!("{error:?}").contains("Removed"), "{error:?}");
}
