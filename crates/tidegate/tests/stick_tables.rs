//! Stick tables beside Debian's HAProxy: what is counted when, which server a client keeps, what the commands say.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    thread,
    time::Duration,
};

use rustix::process::Signal;

use support::{Edge, Origin, Scene, Wire, beside_haproxy, free_address, ok, wait_until};

const STATS: &str = "global\n stats socket %FOLDER%/stats level admin\n";

/// A server that answers with its name, and with the status that a path such as `/404` names. `/junk` is no response,
/// `/gone` none at all.
fn origin(name: &'static str) -> Origin {
    Origin::answering(move |request| {
        let path = request.start_line().split(' ').nth(1).unwrap_or_default().trim_start_matches('/').to_owned();
        let id = path.strip_prefix("id-").map(|id| format!("x-id: {id}\r\n")).unwrap_or_default();
        match (path.parse::<u16>(), &*path) {
            (Ok(status), _) => format!("HTTP/1.1 {status} x\r\ncontent-length: 0\r\n\r\n").into_bytes(),
            (_, "junk") => b"220 junk\r\n\r\n".to_vec(),
            _ => format!("HTTP/1.1 200 OK\r\n{id}content-length: {}\r\n\r\n{name}", name.len()).into_bytes(),
        }
    })
}

/// What a table holds, once nobody tracks any of it, without what differs from one moment to the next.
#[track_caller]
fn table(edge: &Edge, name: &str) -> String {
    let mut shown = String::new();
    wait_until(&format!("nobody tracks {name}"), || {
        let Some(answer) = edge.try_command(&format!("show table {name}")) else { return false };
        shown = answer;
        shown.lines().skip(1).all(|line| line.is_empty() || line.contains(" use=0 "))
    });
    still(&shown)
}

/// The same without addresses and times.
fn still(shown: &str) -> String {
    let word = |word: &str| match word {
        _ if word.starts_with("0x") => String::new(),
        _ if word.starts_with("exp=") => String::new(),
        _ => format!(" {word}"),
    };
    let line = |line: &str| line.split(' ').map(word).collect::<String>();
    shown.lines().filter(|line| !line.is_empty()).map(line).collect::<Vec<_>>().join("\n")
}

/// A request of its own connection, and what came of it: status, body and the fields that rules set.
fn ask(front: SocketAddr, path: &str, fields: &str) -> String {
    let fields: String = fields.split_terminator('\n').map(|field| format!("{field}\r\n")).collect();
    let mut wire = Wire::connect(front);
    wire.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n"));
    let Some(answer) = wire.answer_to(false) else { return format!("{path} nothing") };
    format!(
        "{path} {} {} {:?}",
        answer.status(),
        answer.text().lines().next().unwrap_or_default(),
        answer.fields("x-v")
    )
}

#[test]
fn counting() {
    let server = origin("s");
    let section = |front: SocketAddr| {
        let all = "http_req_cnt,http_req_rate(60s),http_err_cnt,http_err_rate(60s),http_fail_cnt,conn_cnt,conn_rate(60s),\
                   conn_cur,sess_cnt,sess_rate(60s),bytes_in_cnt,bytes_out_cnt,gpc0,gpc0_rate(60s),gpt0";
        format!(
            "{STATS}frontend front\n mode http\n bind {front}\n timeout http-request 200ms\n timeout tarpit 20ms\n \
             tcp-request connection track-sc0 src table by_connection\n \
             tcp-request content track-sc1 src table by_content\n \
             http-request track-sc2 path table by_path\n \
             http-request deny if {{ path /deny }}\n http-request tarpit if {{ path /tarpit }}\n \
             http-request auth if {{ path /auth }}\n http-request reject if {{ path /reject }}\n \
             http-request redirect location / if {{ path /redirect }}\n \
             http-request sc-inc-gpc0(0) if {{ path /mark }}\n http-request sc-set-gpt0(1) path,length if {{ path /mark }}\n \
             http-request sc-inc-gpc(1,2) if {{ path /mark }}\n http-response sc-inc-gpc0(1) if {{ status 404 }}\n \
             http-response set-header x-v \"%[sc0_http_req_cnt],%[sc1_http_req_rate],%[sc2_conn_cur],%[sc_trackers(0)],\
             %[sc2_tracked],%[sc_get_gpc(1,2)],%[sc0_http_err_cnt(by_content)],%[src_conn_cnt(by_connection)],\
             %[src,table_gpc0(by_connection)],%[str(nobody),in_table(by_path)],%[table_cnt(by_path)]\"\n \
             use_backend closed if {{ path /closed }}\n use_backend second if {{ path_beg /second }}\n \
             default_backend site\n\
             backend site\n mode http\n retries 0\n server s {0}\n\
             backend closed\n mode http\n retries 0\n server s 127.0.0.1:1\n\
             backend second\n mode http\n tcp-request content track-sc2 src table by_backend\n server s {0}\n \
             http-response track-sc2 status table by_backend\n\
             backend by_connection\n stick-table type ip size 10 expire 1m store {all}\n\
             backend by_content\n stick-table type ip size 10 expire 1m store {all}\n\
             backend by_path\n stick-table type string len 12 size 100 expire 1m store gpc(3),gpc_rate(2,60s),http_req_cnt,\
             http_err_cnt,http_fail_cnt,conn_cur\n\
             backend by_backend\n stick-table type string size 100 expire 1m store http_req_cnt,http_err_cnt,conn_cnt\n",
            server.address
        )
    };
    let play = |scene: &Scene| {
        let mut told = Vec::new();
        for path in [
            "/",
            "/mark",
            "/404",
            "/404",
            "/500",
            "/501",
            "/503",
            "/deny",
            "/tarpit",
            "/auth",
            "/reject",
            "/redirect",
            "/junk",
            "/closed",
            "/second",
            "/second/404",
            "/a/longer/path",
        ] {
            told.push(ask(scene.front, path, ""));
            for name in ["by_connection", "by_content", "by_path", "by_backend"] {
                told.push(table(&scene.edge, name));
            }
        }
        for request in ["GET / HTTP/1.1\r\nno field\r\n\r\n", "GET / HT"] {
            let mut wire = Wire::connect(scene.front);
            wire.send(request);
            wire.read_to_end();
            told.push(format!("{request:?}: {}", table(&scene.edge, "by_connection")));
        }
        // Requests of one connection: each is tracked anew, the connection once.
        let mut wire = Wire::connect(scene.front);
        for _ in 0..3 {
            told.push(wire.get("/kept").fields("x-v").join(""));
        }
        told.push(scene.edge.command("show table by_connection").contains(" use=1 ").to_string());
        drop(wire);
        told.push(table(&scene.edge, "by_connection"));
        told
    };
    let told = beside_haproxy(section, play);
    assert!(told.last().unwrap().contains("http_req_cnt=22"), "{told:#?}");
}

#[test]
fn counting_in_tcp_mode() {
    let server = origin("s");
    let section = |front: SocketAddr| {
        format!(
            "{STATS}listen front\n mode tcp\n bind {front}\n \
             stick-table type ip size 10 expire 1m store conn_cnt,conn_cur,sess_cnt,bytes_in_cnt,bytes_out_cnt,gpc0\n \
             tcp-request connection track-sc0 src\n tcp-request connection reject if {{ sc0_conn_cnt gt 3 }}\n \
             tcp-request session sc-inc-gpc0(0)\n tcp-request session reject if {{ sc0_conn_cnt gt 2 }}\n \
             tcp-request content track-sc1 src table content\n tcp-response content sc-inc-gpc0(1)\n server s {}\n\
             backend content\n stick-table type ip size 10 expire 1m store conn_cnt,bytes_in_cnt,bytes_out_cnt,gpc0\n",
            server.address
        )
    };
    beside_haproxy(section, |scene| {
        let mut told = Vec::new();
        for _ in 0..4 {
            let mut stream = TcpStream::connect(scene.front).unwrap();
            // Who is refused may see a reset at any time.
            let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            let _ = stream.shutdown(Shutdown::Write);
            let _ = stream.read_to_end(&mut Vec::new());
            drop(stream);
            told.extend([table(&scene.edge, "front"), table(&scene.edge, "content")]);
        }
        told
    });
}

#[test]
fn backends_and_servers_by_the_first_bytes_in_tcp_mode() {
    let server = origin("s");
    let section = |front: SocketAddr| {
        format!(
            "{STATS}frontend front\n mode tcp\n bind {front}\n tcp-request inspect-delay 5s\n \
             tcp-request content accept if {{ req.len gt 5 }}\n use_backend known if {{ req.payload(0,5) -m str \"GET /\" }}\n\
             backend known\n mode tcp\n stick-table type string len 8 size 10 expire 1m\n stick on req.payload(4,5)\n \
             tcp-response inspect-delay 5s\n tcp-response content accept if {{ res.len gt 12 }}\n \
             stick store-response res.payload(9,3) table answers\n server s {}\n\
             backend answers\n stick-table type string len 8 size 10 expire 1m\n",
            server.address
        )
    };
    let told = beside_haproxy(section, |scene| {
        let mut told = Vec::new();
        for path in ["/one", "/two", "/one"] {
            let mut stream = TcpStream::connect(scene.front).unwrap();
            stream
                .write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").as_bytes())
                .unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            stream.read_to_end(&mut Vec::new()).unwrap();
            told.extend([table(&scene.edge, "known"), table(&scene.edge, "answers")]);
        }
        told
    });
    assert!(told[4].contains("used:2") && told[4].contains("key=/two"), "{told:#?}");
}

#[test]
fn stickiness() {
    let (one, two) = (origin("one"), origin("two"));
    let section = |front: SocketAddr| {
        let servers = format!("server one {} cookie c1\n server two {} cookie c2\n", one.address, two.address);
        format!(
            "{STATS}frontend front\n mode http\n bind {front}\n use_backend %[path,field(2,/)]\n\
             backend plain\n mode http\n stick-table type string len 8 size 100 expire 1m\n stick on req.hdr(x-user)\n {servers}\
             backend address\n mode http\n stick-table type string size 100 expire 1m srvkey addr\n \
             stick match path,field(3,/)\n stick store-response res.hdr(x-id)\n stick match req.hdr(x-user) table plain\n \
             {servers}\
             backend ordered\n mode http\n stick store-request req.hdr(x-first) table other if {{ path_end /yes }}\n \
             stick store-request req.hdr(x-user) table other\n stick match req.hdr(x-user) table other\n {servers}\
             backend other\n stick-table type string size 100 expire 1m\n\
             backend unstuck\n mode http\n stick-table type string size 100 expire 1m\n stick on req.hdr(x-user)\n \
             server one {0}\n server two {1} non-stick\n\
             backend moved\n mode http\n retries 1\n option redispatch 1\n stick-table type string size 100 expire 1m\n \
             stick on req.hdr(x-user)\n server gone 127.0.0.1:1\n server two {1}\n\
             backend cookies\n mode http\n cookie C insert indirect\n stick-table type string size 100 expire 1m\n \
             stick on req.hdr(x-user)\n use-server two if {{ path_end /two }}\n {servers}",
            one.address, two.address
        )
    };
    let play = |scene: &Scene| {
        let mut told = Vec::new();
        for (path, fields) in [
            ("/plain", "x-user: a"),
            ("/plain", "x-user: b"),
            ("/plain", "x-user: b"),
            ("/plain", "x-user: a"),
            ("/plain", ""),
            ("/plain", "x-user: a"),
            ("/plain", "x-user: longer than that"),
            ("/plain", "x-user: longer t"),
            ("/address", "x-user: a"),
            ("/address", "x-user: b"),
            ("/ordered/yes", "x-user: a\nx-first: f"),
            ("/ordered", "x-user: f"),
            ("/ordered", "x-user: a"),
            ("/ordered/yes", "x-user: z"),
            ("/unstuck", "x-user: a"),
            ("/unstuck", "x-user: b"),
            ("/unstuck", "x-user: b"),
            ("/moved", "x-user: a"),
            ("/moved", "x-user: a"),
            ("/cookies", "x-user: a"),
            ("/cookies", "x-user: a\ncookie: C=c2"),
            ("/cookies", "x-user: a"),
            ("/cookies/two", "x-user: b"),
            ("/cookies", "x-user: b"),
        ] {
            told.push(ask(scene.front, path, fields));
        }
        let mut id = |path: &str| told.push(ask(scene.front, path, "x-id: 1"));
        id("/address/id-5");
        id("/address/id-5");
        for server in ["plain/one", "plain/two"] {
            scene.edge.command(&format!("set server {server} state maint"));
            told.push(ask(scene.front, "/plain", "x-user: a"));
            scene.edge.command(&format!("set server {server} state ready"));
        }
        let tables = ["plain", "address", "other", "unstuck", "moved", "cookies"].map(|name| table(&scene.edge, name));
        // Ports are others each time.
        let ports = |text: String| text.split("127.0.0.1:").next().unwrap_or_default().to_owned();
        told.extend(tables.map(ports));
        told
    };
    let told = beside_haproxy(section, play);
    assert!(told.iter().any(|told| told.contains("server_key=two")), "{told:#?}");
}

#[test]
fn commands() {
    let section = |front: SocketAddr| {
        format!(
            "{STATS}frontend front\n mode http\n bind {front}\n\
             backend ints\n stick-table type integer size 20 expire 1h store gpc0,bytes_in_cnt,http_req_rate(10s),server_id\n\
             backend texts\n stick-table type string len 10 size 20 expire 1h store gpc(2),gpt(2),gpc_rate(2,10s),server_key\n\
             backend ips\n stick-table type ip size 4 nopurge store gpt0\n\
             backend ipv6s\n stick-table type ipv6 size 4 store gpt0\n\
             backend bytes\n stick-table type binary len 4 size 4 store gpt0\n"
        )
    };
    let play = |scene: &Scene| {
        let commands = "set table ints key 1 data.gpc0 5 data.bytes_in_cnt 9000000000 data.http_req_rate 40
set table ints key 2 data.gpc0 6 data.server_id -2
set table ints key 300 data.gpc0 7
set table ints key 4294967295
set table ints key 4294967296
set table ints key -1
set table ints key x
set table ints key
set table
set table ints foo
set table ints data.gpc0 gt 1
set table nosuch key 1
set table ints key 3 data.nosuch 1
set table ints key 3 data.gpc1 1
set table ints key 3 data.gpc0
set table ints key 3 data.gpc0 x
set table ints key 3 gpc0 1
set table texts key a\\ b data.gpc 3 data.gpt 4 data.gpc_rate 5 data.server_key 6
set table texts key longer-than-ten
set table texts key tab\\\\t=x
set table ips key 10.0.0.1 data.gpt0 1
set table ips key 10.0.0.2
set table ips key 10.0.0.3
set table ips key 10.0.0.4
set table ips key 10.0.0.5
set table ips key nonsense
set table ipv6s key 2001:db8::1 data.gpt0 4294967297
set table ipv6s key 10.0.0.1
set table ipv6s key ::ffff:10.0.0.1
set table bytes key a
show table bytes key a
clear table bytes key a
show table
show table nosuch
show table ints
show table ints key 1
show table ints key 77
show table ints key
show table ints foo
show table ints data.gpc0 gt 5
show table ints data.gpc0 ge 5 data.gpc0 lt 7
show table ints data.gpc0 ne 5 data.server_id eq 0 data.gpc0 le 9
show table ints data.http_req_rate eq 40
show table ints data.gpc0 xx 5
show table ints data.gpc0 eq
show table ints data.gpc0 eq x
show table ints data.nosuch eq 1
show table ints data.gpc1 eq 1
show table ints data.gpc0 eq 1 data.gpc0 eq 1 data.gpc0 eq 1 data.gpc0 eq 1 data.gpc0 eq 1
show table texts
show table ips
show table ipv6s
clear table
clear table nosuch
clear table ints foo
clear table ints key 77
clear table ints key 2
clear table ints data.gpc0 eq 7
show table ints
clear table ints
show table ints
operator;show table ints";
        commands.lines().map(|command| format!("{command}: {}", still(&scene.edge.command(command)))).collect()
    };
    // NOTE: not asked is `set table ints` alone, with which HAProxy clears the whole table.
    let told = beside_haproxy(section, play);
    assert!(told.iter().any(|told| told.contains("key=a\\ b")), "{told:#?}");
}

/// The first entries that come must go, and those that are used stay.
#[test]
fn the_oldest_make_room() {
    let section = |front: SocketAddr| {
        format!(
            "{STATS}frontend front\n mode http\n bind {front}\n http-request track-sc0 path table few\n \
             http-request track-sc1 path table kept\n http-request return status 200 hdr x-v \
             %[sc0_tracked],%[sc1_tracked],%[table_avl(few)],%[path,table_expire(kept,-1)] if {{ path /none }}\n \
             http-request return status 200 hdr x-v %[sc0_tracked],%[sc1_tracked],%[table_avl(few)]\n\
             backend few\n stick-table type string size 4 expire 1m store conn_cnt\n\
             backend kept\n stick-table type string size 4 expire 1m nopurge store conn_cnt\n"
        )
    };
    beside_haproxy(section, |scene| {
        let mut told = Vec::new();
        for step in [1, 2, 3, 4, 1, 5, 1, 6, 7, 2, 1, 8, 9, 9, 1, 3, 4] {
            told.push(ask(scene.front, &format!("/{step}"), ""));
            told.extend([table(&scene.edge, "few"), table(&scene.edge, "kept")]);
            // Entries of one millisecond have no order.
            thread::sleep(Duration::from_millis(3));
        }
        told
    });
}

#[test]
fn a_reload_keeps_what_is_known() {
    let server = Origin::answering(|_| ok("hello"));
    let front = free_address();
    let text = |limits: &str, more: &str| {
        format!(
            "global\n stats socket FOLDER/stats level admin\ndefaults\n mode http\n timeout client 10s\n timeout server 10s\n \
             timeout connect 1s\nfrontend front\n bind {front}\n http-request track-sc0 src table limits\n \
             http-request track-sc1 src table other\n http-request deny deny_status 429 if {{ sc0_http_req_cnt gt 4 }}\n \
             default_backend site\n{more}backend site\n server s {}\n\
             backend limits\n stick-table type ip size {limits} expire 1h store http_req_cnt\n\
             backend other\n stick-table type ip size 10 expire 1h store http_req_cnt\n",
            server.address
        )
    };
    let edge = Edge::start(&text("10", "").replace("FOLDER", "%FOLDER%"));
    let status = || Wire::connect(front).get("/").status();
    let mut kept = Wire::connect(front);
    assert_eq!((kept.get("/").status(), status(), status()), (200, 200, 200));
    let reload = |limits: &str, more: &str| {
        std::fs::write(&edge.config, text(limits, more).replace("FOLDER", &edge.folder.0.display().to_string()))
            .unwrap();
        let before = edge.command("show info");
        edge.signal(Signal::USR2);
        wait_until("the new configuration runs", || {
            edge.command("show table").contains(&format!("# table: limits, type: ip, size:{limits},"))
                && (more.is_empty() || edge.command("show backend").contains("more"))
        });
        before
    };
    reload("10", "backend more\n server s 127.0.0.1:1\n");
    assert_eq!((kept.get("/").status(), status(), kept.get("/").status()), (200, 429, 429));
    assert!(table(&edge, "limits").contains("http_req_cnt=6"));
    // Another definition is another table, with the entries of the one before.
    reload("20", "");
    assert_eq!((status(), kept.get("/").status()), (429, 429));
    assert!(table(&edge, "limits").contains("http_req_cnt=8"));
    assert!(table(&edge, "other").contains("http_req_cnt=8"));
    // Another worker process gets what this one knows. What it tracks itself stays with it.
    let former = edge.workers();
    support::signal_process(former[0], Signal::USR1);
    wait_until("another process knows them", || {
        edge.workers() != former && table(&edge, "other").contains("use=0 ") && table(&edge, "limits").contains("=8")
    });
    assert_eq!((status(), kept.get("/").status()), (429, 429));
    assert!(table(&edge, "limits").contains("http_req_cnt=9"));
}

#[test]
fn workers_share_tables() {
    let front = free_address();
    let edge = Edge::start(&format!(
        "global\n nbthread 3\n stats socket %FOLDER%/stats level admin\ndefaults\n mode http\n timeout client 10s\n\
         frontend front\n bind {front}\n tcp-request connection track-sc0 src table clients\n \
         http-request track-sc1 path table paths\n http-request return status 200\n\
         backend clients\n stick-table type ip size 10 expire 1h store conn_cnt,conn_cur,sess_cnt,http_req_cnt,bytes_in_cnt\n\
         backend paths\n stick-table type string size 10k expire 1h store http_req_cnt,conn_cnt,conn_cur\n"
    ));
    thread::scope(|scope| {
        for client in 0..8 {
            scope.spawn(move || {
                for connection in 0..5 {
                    let mut wire = Wire::connect(front);
                    for _ in 0..10 {
                        assert_eq!(wire.get(&format!("/{}", (client + connection) % 3)).status(), 200);
                    }
                }
            });
        }
    });
    let clients = table(&edge, "clients");
    // What looked whether it listens counts too, as a connection.
    assert!(clients.contains("conn_cur=0") && clients.contains("http_req_cnt=400"), "{clients}");
    let paths = table(&edge, "paths");
    let requests: u32 = paths
        .split("http_req_cnt=")
        .skip(1)
        .map(|rest| rest.split('\n').next().unwrap().trim().parse::<u32>().unwrap())
        .sum();
    assert_eq!((requests, paths.matches("conn_cur=0").count()), (400, 3), "{paths}");
}
