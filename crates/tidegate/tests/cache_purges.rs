//! What is purged while a server makes its response does not come back with that response.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
};

use support::{Edge, Origin, VarnishInstance, Wire, free_address, wait_until};

const PROGRAM: &str = "vcl 4.1; import purge; import xkey; backend default { .host = \"HOST\"; .port = \"ORIGIN\"; }
    sub vcl_recv {
        if (req.method == \"PURGE\") { return (purge); }
        if (req.method == \"SOFT\") { set req.http.soft = 1; set req.method = \"GET\"; set req.hash_ignore_busy = true; return (hash); }
        if (req.method == \"TAG\") { xkey.purge(\"all a\"); return (synth(200)); }
        if (req.method == \"BAN\") { ban(\"req.url == \" + req.url); return (synth(200)); }
    }
    sub vcl_miss { if (req.http.soft) { purge.soft(0s, 10s, 0s); return (synth(200)); } }";

fn ask(front: SocketAddr, method: &str, fields: &str) -> String {
    Wire::connect(front).ask(format!("{method} /a HTTP/1.1\r\nHost: a\r\n{fields}\r\n")).text()
}

/// A page that changes while the server makes it for a slow request.
fn purged_while_it_is_made(method: &str, start: impl Fn(&Origin) -> (Box<dyn std::any::Any>, SocketAddr)) {
    let [is_new, is_begun, is_made] = [(); 3].map(|()| Arc::new(AtomicBool::new(false)));
    let (new, begun, made) = (Arc::clone(&is_new), Arc::clone(&is_begun), Arc::clone(&is_made));
    let origin = Origin::answering(move |request| {
        let page = if new.load(SeqCst) { "new" } else { "old" };
        if request.field("x-slow").is_some() {
            begun.store(true, SeqCst);
            wait_until("it is made", || made.load(SeqCst));
        }
        format!("HTTP/1.1 200 OK\r\ncache-control: max-age=100\r\nxkey: a\r\ncontent-length: 3\r\n\r\n{page}")
            .into_bytes()
    });
    let (_running, front) = start(&origin);
    let slow = thread::spawn(move || ask(front, "GET", "X-Slow: 1\r\n"));
    wait_until("the server makes it", || is_begun.load(SeqCst));
    is_new.store(true, SeqCst);
    ask(front, method, "");
    // What has a tag is not known before it comes.
    if !["BAN", "TAG"].contains(&method) {
        assert_eq!(ask(front, "GET", ""), "new", "{method}: who comes now does not wait for what is out of date");
    }
    is_made.store(true, SeqCst);
    slow.join().unwrap();
    assert_eq!(ask(front, "GET", ""), "new", "{method}");
}

#[test]
fn programs_purge_what_is_on_its_way() {
    for method in ["PURGE", "SOFT", "BAN", "TAG"] {
        purged_while_it_is_made(method, |origin| {
            let ours = VarnishInstance::ours(PROGRAM, &[], origin);
            let front = ours.front;
            (Box::new(ours), front)
        });
    }
}

#[test]
fn unsafe_methods_make_invalid_what_is_on_its_way() {
    purged_while_it_is_made("DELETE", |origin| {
        let front = free_address();
        let edge = Edge::start_single(&format!(
            "defaults\n mode http\n timeout client 9s\n timeout server 9s\n timeout connect 1s\n\
             frontend site\n bind {front}\n default_backend app\n\
             backend app\n shared-cache\n server s1 {}\n",
            origin.address,
        ));
        (Box::new(edge), front)
    });
}
