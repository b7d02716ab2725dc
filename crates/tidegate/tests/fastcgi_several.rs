//! FastCGI with an application that takes several requests on a connection.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{net::SocketAddr, thread, time::Duration};

use support::{Edge, FastCgiApp, Fpm, OnQuestion, Wire, free_address, resident_kilobytes, wait_until};

struct Site {
    edge: Edge,
    front: SocketAddr,
    app: FastCgiApp,
}

impl Site {
    /// An application in front of which stands a backend of one worker; `options` are lines of its section.
    fn start(app: FastCgiApp, options: &str) -> Self {
        let front = free_address();
        let edge = Edge::start_single(&format!(
            "global\n nbthread 1\ndefaults\n mode http\n timeout client 20s\n timeout server 20s\n timeout connect 2s\n\
             frontend site\n bind {front}\n default_backend programs\n\
             backend programs\n option abortonclose\n use-fcgi-app app\n server s {} proto fcgi\n\
             fcgi-app app\n docroot /srv\n {options}\n",
            app.address
        ));
        Self { edge, front, app }
    }

    fn get(&self, path: &str) -> String {
        Wire::connect(self.front).get(path).text()
    }

    /// A request that the application answers when it is told to.
    fn begin(&self, path: &str) -> Wire {
        let mut client = Wire::connect(self.front);
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        client
    }

    /// So many requests that wait in the application, and how many of them were on one connection; then they are answered.
    fn ask_together(&self, count: usize) -> usize {
        // One after the other, so that each sees the connection of the one before; the first of them opens it.
        assert!(self.get("/first").starts_with("/first on "));
        let mut clients: Vec<Wire> = (0..count).map(|place| self.begin(&format!("/wait/{place}"))).collect();
        wait_until("all have come", || self.app.waiting() == count);
        let together = self.app.together_max();
        for (place, client) in clients.iter_mut().enumerate().rev() {
            self.app.release(&place.to_string());
            assert!(client.answer().text().starts_with(&format!("/wait/{place} on ")));
        }
        together
    }
}

#[test]
fn one_connection_carries_several_requests() {
    let site = Site::start(FastCgiApp::start(OnQuestion::Silent), "option mpxs-conns\n option max-reqs 8");
    assert_eq!(site.ask_together(6), 6);
    assert_eq!((site.app.connections_used(), site.app.questions()), (1, 0));
    // More than it takes goes over others.
    assert_eq!(site.ask_together(20), 8);
    assert!(site.app.connections_used() >= 3);
}

#[test]
fn requests_have_a_connection_each_unless_that_is_said() {
    let site = Site::start(FastCgiApp::start(OnQuestion::Silent), "");
    assert_eq!(site.ask_together(4), 1);
    assert!(site.app.connections_used() >= 4);
}

#[test]
fn an_application_says_how_many_requests_it_takes() {
    let site = |question, options: &str| {
        let site = Site::start(FastCgiApp::start(question), &format!("option get-values\n {options}"));
        // The first request has a connection of its own kind, beside which the application is asked.
        site.get("/");
        wait_until("it is asked", || site.app.questions() == 1);
        // Its answer is known when it shows; what was opened before that is used until it ends.
        site
    };
    let says = |pairs: &[(&'static str, &'static str)]| OnQuestion::Says(pairs.to_vec());
    let all = site(says(&[("FCGI_MAX_REQS", "3"), ("FCGI_MPXS_CONNS", "1")]), "");
    wait_until("three are together", || all.ask_together(6) == 3);
    let limited = site(says(&[("FCGI_MPXS_CONNS", "1")]), "option max-reqs 2");
    wait_until("two are together", || limited.ask_together(6) == 2);
    let none =
        site(says(&[("FCGI_MAX_REQS", "50"), ("FCGI_MPXS_CONNS", "0")]), "option mpxs-conns\n option max-reqs 9");
    assert_eq!(none.ask_together(6), 1);
    assert_eq!(none.app.questions(), 1);
}

#[test]
fn whatever_an_application_does_when_it_is_asked_no_request_is_lost() {
    let pairs = vec![("FCGI_MAX_REQS", "1"), ("FCGI_MPXS_CONNS", "0")];
    for question in [OnQuestion::SaysAndCloses(pairs), OnQuestion::Closes, OnQuestion::Silent] {
        let site = Site::start(FastCgiApp::start(question.clone()), "option get-values");
        for _ in 0..20 {
            let mut client = Wire::connect(site.front);
            client.send("POST /p HTTP/1.1\r\nHost: a\r\ncontent-length: 3\r\n\r\nabc");
            assert!(client.answer().text().ends_with("with 3"), "{question:?}");
        }
        assert_eq!(site.app.questions(), 1, "{question:?}");
    }
    // PHP-FPM closes the connection on which it was asked, and has one process here.
    let Some(fpm) = Fpm::start(1, "<?php echo 'hello';") else { return };
    let front = free_address();
    let _edge = Edge::start_single(&format!(
        "global\n nbthread 1\ndefaults\n mode http\n timeout client 20s\n timeout server 20s\n timeout connect 2s\n\
         frontend site\n bind {front}\n default_backend php\n\
         backend php\n use-fcgi-app app\n server s unix@{} proto fcgi\n\
         fcgi-app app\n docroot {}\n index index.php\n option get-values\n option mpxs-conns\n option max-reqs 5\n",
        fpm.socket().display(),
        fpm.root().display()
    ));
    for _ in 0..20 {
        assert_eq!(Wire::connect(front).get("/").text(), "hello");
    }
}

#[test]
fn an_application_that_takes_one_request_after_all_gets_one() {
    let app = FastCgiApp::start_with(OnQuestion::Silent, true);
    let site = Site::start(app, "option mpxs-conns\n option max-reqs 8");
    assert_eq!(site.ask_together(4), 1);
    assert_eq!(site.ask_together(4), 1);
}

#[test]
fn a_client_that_leaves_ends_its_request_alone() {
    let site = Site::start(FastCgiApp::start(OnQuestion::Silent), "option mpxs-conns\n option max-reqs 8");
    site.get("/");
    let leaves = site.begin("/wait/leaves");
    let mut stays = site.begin("/wait/stays");
    wait_until("both have come", || site.app.waiting() == 2);
    drop(leaves);
    wait_until("it is told", || site.app.aborted() == 1);
    site.app.release("stays");
    assert!(stays.answer().text().starts_with("/wait/stays on "));
    assert!(stays.get("/again").text().starts_with("/again on "));
    assert_eq!(site.app.connections_used(), 1);
    site.app.release("leaves");
    // Its place is free again.
    wait_until("all eight fit", || site.ask_together(8) == 8);
}

#[test]
fn a_client_that_does_not_read_harms_nobody() {
    const BYTES: usize = 60_000_000;
    let options = "option mpxs-conns\n option max-reqs 8\n option mpxs-buffer 64k\n option mpxs-wait 700ms";
    let site = Site::start(FastCgiApp::start(OnQuestion::Silent), options);
    site.get("/");
    let before = resident_kilobytes(site.edge.pid());
    // Alone on its connection it is waited for.
    let mut slow = site.begin(&format!("/big/{BYTES}"));
    assert!(slow.head().unwrap().contains("200 OK"));
    site.app.wait_stuck();
    let mut other = site.begin("/wait/other");
    wait_until("the other one has come", || site.app.waiting() == 1);
    assert_eq!(site.app.connections_used(), 2, "a connection that is not read gets no more requests");
    site.app.release("other");
    assert!(other.answer().text().starts_with("/wait/other"));
    assert_eq!(site.app.aborted(), 0);
    let mut bytes = 0;
    while bytes < BYTES {
        bytes += slow.read(1_000_000).len();
    }
    drop((slow, other));
    // Beside another request it is given up after a while.
    let mut other = site.begin("/wait/beside");
    wait_until("it has come", || site.app.waiting() == 1);
    let mut slow = site.begin(&format!("/big/{BYTES}"));
    wait_until("it is given up", || site.app.aborted() == 1);
    let mut bystander = site.begin("/wait/bystander");
    wait_until("a third one has come", || site.app.waiting() == 2);
    site.app.release("beside");
    site.app.release("bystander");
    assert!(other.answer().text().starts_with("/wait/beside"));
    assert!(bystander.answer().text().starts_with("/wait/bystander"));
    let came = slow.read_to_end();
    assert!(came.starts_with(b"HTTP/1.1 200 OK") && came.len() < BYTES && !came.ends_with(b"0\r\n\r\n"));
    let grown = resident_kilobytes(site.edge.pid()).saturating_sub(before);
    assert!(grown < 8 * 1024, "{grown} kB");
}

/// Who reads more slowly than the application writes, and does read, is not given up, whoever else waits.
#[test]
fn a_client_that_reads_steadily_gets_all() {
    const BYTES: usize = 20_000_000;
    let options = "option mpxs-conns\n option max-reqs 8\n option mpxs-buffer 64k\n option mpxs-wait 500ms";
    let site = Site::start(FastCgiApp::start(OnQuestion::Silent), options);
    site.get("/");
    let mut beside = site.begin("/wait/beside");
    wait_until("it has come", || site.app.waiting() == 1);
    let mut steady = site.begin(&format!("/big/{BYTES}"));
    assert!(steady.head().unwrap().contains("200 OK"));
    let mut bytes = 0;
    while bytes < BYTES {
        bytes += steady.read(200_000).len();
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!((site.app.aborted(), site.app.connections_used()), (0, 1));
    site.app.release("beside");
    assert!(beside.answer().text().starts_with("/wait/beside"));
}

#[test]
fn bodies_come_beside_each_other() {
    let site = Site::start(FastCgiApp::start(OnQuestion::Silent), "option mpxs-conns\n option max-reqs 8");
    site.get("/");
    let mut clients: Vec<Wire> = (0..4).map(|_| Wire::connect(site.front)).collect();
    const BYTES: usize = 3_000_000;
    let piece = vec![b'b'; BYTES / 30];
    for client in &mut clients {
        client.send(format!("POST /b HTTP/1.1\r\nHost: a\r\ncontent-length: {BYTES}\r\n\r\n"));
    }
    for _ in 0..30 {
        clients.iter_mut().for_each(|client| client.send(&piece));
    }
    for client in &mut clients {
        assert!(client.answer().text().ends_with(&format!("with {BYTES}")));
    }
    let mut chunked = Wire::connect(site.front);
    chunked.send("POST /c HTTP/1.1\r\nHost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
    assert!(chunked.answer().text().ends_with("with 3"));
    assert_eq!(site.app.connections_used(), 1);
}
