//! What is written of a log to be run again.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::path::Path;

use store::{
    StoreError,
    log_dump::{Dump, Form, dump, point},
};
use support::{Folder, start};

fn dumped(folder: &Path, form: Form, from: Option<u64>, with_flushes: bool) -> Result<String, (String, StoreError)> {
    let from = from.map(|offset| point(&offset.to_string()).unwrap());
    let mut out = Vec::new();
    let what = Dump { folder: folder.to_owned(), from, to: None, follow: false, form, with_flushes };
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
