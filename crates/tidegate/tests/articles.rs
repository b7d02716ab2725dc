//! The configurations of the articles that the project began with, in front of real web servers.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    collections::HashMap,
    net::{SocketAddr, TcpListener},
    path::Path,
    process::{Command, Stdio},
};

use support::{Edge, Folder, LogServer, Origin, Wire, free_address, listens, nginx, nginx_at, wait_until};

#[track_caller]
fn get(front: SocketAddr, path: &str) -> String {
    Wire::connect(front).get(path).text()
}

/// Who answers so many requests.
#[track_caller]
fn shares(front: SocketAddr, path: &str, count: usize) -> HashMap<String, usize> {
    let mut shares = HashMap::new();
    for _ in 0..count {
        *shares.entry(get(front, path)).or_default() += 1;
    }
    shares
}

/// A port of 127.0.0.1, which is what `localhost` stands for.
fn local_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// A database that is written in one place and read in two others, all of them known by name.
#[test]
fn writes_go_to_the_master_and_reads_to_the_slaves() {
    let [front, master, one, two] = [(); 4].map(|()| local_address());
    let (Some(_master), Some(_one), Some(_two)) =
        (nginx_at(master, "master"), nginx_at(one, "one"), nginx_at(two, "two"))
    else {
        return;
    };
    let edge = Edge::start(&format!(
        "global
 maxconn 4096
 nbproc 2

defaults
 mode http
 clitimeout 150000
 srvtimeout 30000
 contimeout 4000
 balance roundrobin
 stats enable
 stats uri /haproxy?stats

frontend couchdb_lb
 bind localhost:{}

 acl master_methods method POST DELETE PUT
 use_backend master_backend if master_methods
 default_backend slave_backend

backend master_backend
 server couchdb1 localhost:{} weight 1 maxconn 512 check

backend slave_backend
 server couchdb2 localhost:{} weight 1 maxconn 512 check
 server couchdb3 localhost:{} weight 1 maxconn 512 check
",
        front.port(),
        master.port(),
        one.port(),
        two.port()
    ));
    wait_until("the edge listens", || listens(front));
    for method in ["POST", "PUT", "DELETE"] {
        for _ in 0..3 {
            let mut client = Wire::connect(front);
            let answer = client.ask(format!("{method} /name HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{{}}"));
            assert_eq!(answer.text(), "master", "{method}");
        }
    }
    assert_eq!(shares(front, "/name", 8), HashMap::from([("one".into(), 4), ("two".into(), 4)]));
    let page = Wire::connect(front).get("/haproxy?stats");
    assert_eq!(page.status(), 200);
    assert!(page.text().contains("couchdb_lb") && page.text().contains("slave_backend"));
    for word in ["clitimeout", "srvtimeout", "contimeout", "nbproc"] {
        assert!(edge.output().contains(word), "a warning about {word}:\n{}", edge.output());
    }
}

/// The web farm, with what its article goes on to propose: weights, servers that are taken offline, a maintenance page.
#[test]
fn the_web_farm_shares_survives_and_shows_its_statistics() {
    let (Some(mut one), Some(mut two)) = (nginx("webserver01"), nginx("webserver02")) else { return };
    let (log, front, folder) = (LogServer::start(), free_address(), Folder::new());
    let page = folder.file(
        "503.http",
        "HTTP/1.0 503 Service Unavailable\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nBack at noon.",
    );
    let _edge = Edge::start(&format!(
        "global
 log {} local0
 log {} local1 notice
 maxconn 4096

defaults
 log global
 mode http
 option httplog
 option dontlognull
 retries 3
 option redispatch
 maxconn 2000
 contimeout 5000
 clitimeout 50000
 srvtimeout 50000

listen webfarm
 bind {front}
 mode http
 stats enable
 stats uri /haproxy?stats
 balance roundrobin
 option httpclose
 option forwardfor
 errorfile 503 {}
 server webserver01 {} weight 20 check inter 100ms fall 2 rise 1
 server webserver02 {} weight 10 check inter 100ms fall 2 rise 1
",
        log.address,
        LogServer::start().address,
        page.display(),
        one.address,
        two.address
    ));
    let both = HashMap::from([("webserver01".into(), 6), ("webserver02".into(), 3)]);
    assert_eq!(shares(front, "/", 9), both);
    let mut client = Wire::connect(front);
    assert_eq!(client.get("/").field("connection"), Some("close"));
    client.expect_end();
    let table = get(front, "/haproxy?stats;csv");
    assert!(table.starts_with("# pxname,svname,qcur,qmax,scur,smax,slim,stot,"), "{table}");
    let row = |table: &str, column: usize| -> String {
        let line = table.lines().find(|line| line.starts_with("webfarm,webserver01,")).unwrap();
        line.split(',').nth(column).unwrap().to_owned()
    };
    assert_eq!((row(&table, 17).as_str(), row(&table, 18).as_str()), ("UP", "20"));
    assert!(row(&table, 7).parse::<u32>().unwrap() >= 6, "{table}");

    one.kill();
    log.line_with("Server webfarm/webserver01 is DOWN");
    assert_eq!(shares(front, "/", 4), HashMap::from([("webserver02".into(), 4)]));
    two.kill();
    log.line_with("proxy webfarm has no server available!");
    let answer = Wire::connect(front).get("/");
    assert_eq!((answer.status(), answer.text().as_str()), (503, "Back at noon."));
    assert_eq!(row(&get(front, "/haproxy?stats;csv"), 17), "DOWN");
    let page = get(front, "/haproxy?stats");
    assert!(page.contains("webfarm") && page.contains("webserver02"));
}

/// `option forwardfor` and `httpclose` as the server sees them.
#[test]
fn servers_of_the_farm_learn_who_asks() {
    let (origin, front) = (Origin::named("one"), free_address());
    let _edge = Edge::start(&format!(
        "listen webfarm\n mode http\n bind {front}\n contimeout 5000\n clitimeout 50000\n srvtimeout 50000\n option httpclose\n option forwardfor\n server one {}\n",
        origin.address
    ));
    for _ in 0..3 {
        assert_eq!(get(front, "/"), "one");
    }
    let head = origin.last_head().to_ascii_lowercase();
    assert!(head.contains("x-forwarded-for: 127.0.0.1\r\n") && head.contains("connection: close\r\n"), "{head}");
    assert_eq!(origin.connections(), 3);
}

/// The articles' processes give up root; they are written for HAProxy's user.
#[test]
fn the_service_runs_as_haproxys_user() {
    let is_known = |file: &str| std::fs::read_to_string(file).is_ok_and(|text| text.contains("\nhaproxy:"));
    if !rustix::process::geteuid().is_root() || !is_known("/etc/passwd") || !is_known("/etc/group") {
        eprintln!("skipped: needs root, and a user and a group called haproxy");
        return;
    }
    let (origin, front) = (Origin::named("one"), free_address());
    let edge = Edge::start(&format!(
        "global\n user haproxy\n group haproxy\nlisten webfarm\n mode http\n bind {front}\n timeout connect 1s\n timeout client 5s\n timeout server 5s\n server one {}\n",
        origin.address
    ));
    assert_eq!(get(front, "/"), "one");
    let worker = edge.workers().pop().unwrap();
    let wanted = Command::new("id").args(["-u", "haproxy"]).stderr(Stdio::null()).output().unwrap();
    let status = std::fs::read_to_string(Path::new("/proc").join(worker.to_string()).join("status")).unwrap();
    let uids = status.lines().find(|line| line.starts_with("Uid:")).unwrap();
    assert_eq!(uids.split_whitespace().nth(1), Some(String::from_utf8(wanted.stdout).unwrap().trim()), "{uids}");
}
