//! How connections begin and end.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, TcpStream},
    thread,
    time::Duration,
};

use support::{Folder, PATIENCE, Running, start};

/// Sends all that there is to send, and gives what comes until the store closes.
fn answered(store: &Running, bytes: &[u8], pause: Duration) -> String {
    let mut stream = TcpStream::connect(store.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(bytes).unwrap();
    thread::sleep(pause);
    stream.shutdown(Shutdown::Write).unwrap();
    let mut replies = Vec::new();
    stream.read_to_end(&mut replies).expect("the store closes");
    String::from_utf8(replies).unwrap()
}

/// `printf 'PING\r\n' | nc -N`: whether the end comes with the last bytes or later.
#[test]
fn a_client_that_sends_no_more_gets_its_replies_and_is_closed() {
    for fsync in ["everysec", "always"] {
        let folder = Folder::new();
        let store = start(&folder.data(), &["--appendfsync", fsync, "--maxmemory", "64mb"]);
        for pause in [0, 20] {
            let pause = Duration::from_millis(pause);
            for _ in 0..20 {
                assert_eq!(answered(&store, b"PING\r\n", pause), "+PONG\r\n", "{fsync} {pause:?}");
                assert_eq!(answered(&store, b"SET a 1\r\nINCR a\r\n", pause), "+OK\r\n:2\r\n", "{fsync} {pause:?}");
            }
            // Nobody could tell what a list is given now: Redis closes it as well.
            assert_eq!(answered(&store, b"PING\r\nBLPOP nothing 0\r\n", pause), "+PONG\r\n");
            let many = "ECHO 0123456789\r\n".repeat(20_000);
            assert_eq!(answered(&store, many.as_bytes(), pause), "$10\r\n0123456789\r\n".repeat(20_000));
        }
        assert_eq!(answered(&store, b"", Duration::ZERO), "");
    }
}

/// A reply that has to be read from the disk first comes as well.
#[test]
fn a_client_that_sends_no_more_waits_for_cold_keys() {
    let folder = Folder::new();
    let words = ["--enable-debug-command", "yes"];
    let mut store = start(&folder.data(), &words);
    assert_eq!(store.client().text(&["SET", "cold", "still there"]), "OK");
    store.stop();
    let store = start(&folder.data(), &words);
    assert_eq!(answered(&store, b"GET cold\r\n", Duration::ZERO), "$11\r\nstill there\r\n");
}
