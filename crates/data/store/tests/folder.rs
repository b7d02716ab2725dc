//! Numbered databases, and what the tables call them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use support::{Folder, start};

#[test]
fn more_databases_than_there_were_are_empty() {
    let folder = Folder::new();
    let mut store = start(&folder.data(), &["--databases", "2"]);
    let mut client = store.client();
    // An emptied database gets another number in the tables.
    for round in ["1", "2"] {
        client.text(&["FLUSHDB"]);
        client.text(&["SET", "round", round]);
        client.text(&["SAVE"]);
    }
    assert_eq!(store.stop(), Some(0));
    let store = start(&folder.data(), &["--databases", "8"]);
    let mut client = store.client();
    for db in 1..8 {
        client.text(&["SELECT", &db.to_string()]);
        assert_eq!(client.text(&["GET", "round"]), "(nil)", "in database {db}");
        client.text(&["SET", "round", "other"]);
    }
    client.text(&["SAVE"]);
    client.text(&["SELECT", "0"]);
    assert_eq!(client.text(&["GET", "round"]), "2");
}
