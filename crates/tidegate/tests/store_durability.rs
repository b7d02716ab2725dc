//! What a store has acknowledged is there after its process is gone.

mod support;

use std::{
    sync::{Arc, Mutex},
    thread,
};

use support::{Store, free_address};

/// Clients count up keys of their own until the store is killed; the last acknowledged number of each must be there.
fn write_until_killed(arguments: &[&str]) -> (Store, Vec<u64>) {
    const CLIENTS: usize = 4;
    let mut store = Store::start(arguments);
    let acknowledged = Arc::new(Mutex::new(vec![0; CLIENTS]));
    let writers: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let mut connection = store.client();
            let acknowledged = Arc::clone(&acknowledged);
            thread::spawn(move || {
                for number in 1u64.. {
                    let key = format!("writer:{client}");
                    if connection.try_command(&["SET", &key, &number.to_string()]).is_none() {
                        return;
                    }
                    acknowledged.lock().unwrap()[client] = number;
                }
            })
        })
        .collect();
    support::wait_until("every client has written", || acknowledged.lock().unwrap().iter().all(|count| *count > 50));
    store.kill();
    for writer in writers {
        writer.join().unwrap();
    }
    let acknowledged = acknowledged.lock().unwrap().clone();
    (store, acknowledged)
}

#[test]
fn no_acknowledged_write_is_lost_by_kill_9() {
    for policy in ["always", "everysec"] {
        // The kernel outlives the process, so even `everysec` loses nothing here.
        let (killed, acknowledged) = write_until_killed(&["--appendfsync", policy]);
        let store = Store::start_in(Arc::clone(&killed.folder), &[]);
        let mut client = store.client();
        for (writer, count) in acknowledged.iter().enumerate() {
            let found: u64 = client.text(&["GET", &format!("writer:{writer}")]).parse().unwrap();
            assert!(found == *count || found == count + 1, "{policy}: {found} is there, {count} was acknowledged");
        }
    }
}

#[test]
fn a_store_that_was_stopped_has_nothing_to_run_again() {
    let mut store = Store::start(&[]);
    let mut client = store.client();
    for number in 0..500 {
        assert_eq!(client.text(&["SET", &format!("key:{number}"), "x"]), "OK");
    }
    assert_eq!(client.text(&["DEL", "key:0"]), "1");
    assert_eq!(client.text(&["SELECT", "3"]), "OK");
    assert_eq!(client.text(&["SET", "other", "y", "EX", "1000"]), "OK");
    assert_eq!(store.stop(), 0);
    let again = Store::start_in(Arc::clone(&store.folder), &[]);
    assert!(!again.output().contains("ran again"), "{}", again.output());
    let mut client = again.client();
    assert_eq!(client.text(&["DBSIZE"]), "499");
    assert_eq!(client.text(&["GET", "key:0"]), "(nil)");
    assert_eq!(client.text(&["GET", "key:499"]), "x");
    client.text(&["SELECT", "3"]);
    assert_eq!(client.text(&["GET", "other"]), "y");
}

#[test]
fn two_stores_do_not_share_a_folder() {
    let store = Store::start(&[]);
    let mut second = Store::spawn(free_address(), Arc::clone(&store.folder), &[]);
    assert_eq!(second.wait_end(), 1);
    assert!(second.output().contains("is in use by another process"), "{}", second.output());
}
