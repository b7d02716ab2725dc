//! Commands on the stats socket, beside HAProxy where it is installed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

use support::{Edge, Origin, Wire, free_address, wait_until};

const DEFAULTS: &str = "defaults\n mode http\n timeout client 2s\n timeout server 1s\n timeout connect 1s\n";

fn get(front: SocketAddr) -> String {
    let answer = Wire::connect(front).get("/");
    format!("{} {}", answer.status(), answer.text())
}

/// Without the time since a server's last change.
fn timeless(answer: &str) -> String {
    let line = |line: &str| {
        let mut fields: Vec<&str> = line.split(' ').collect();
        if fields.len() == 25 && !line.starts_with('#') {
            fields[9] = "T";
        }
        fields.join(" ")
    };
    answer.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// Answers of both to the same commands, one after the other; what differs is returned.
fn differences(ours: &Edge, theirs: &Edge, commands: &[&str]) -> Vec<String> {
    let differs = |command: &&str| {
        let (mine, other) = (timeless(&ours.command(command)), timeless(&theirs.command(command)));
        (mine != other).then(|| format!("{command}\n ours   {mine:?}\n theirs {other:?}"))
    };
    commands.iter().filter_map(differs).collect()
}

/// The same configuration with ours and with HAProxy; `FRONT` stands for an address of each one's own.
fn both(config: &str) -> Option<(Edge, Edge)> {
    let ours = Edge::start_single(&config.replace("FRONT", &free_address().to_string()));
    Some((ours, Edge::start_haproxy(&config.replace("FRONT", &free_address().to_string()))?))
}

#[test]
fn servers_are_added_and_taken_away_in_haproxys_words() {
    let nobody = free_address();
    let config = format!(
        "global\n stats socket %FOLDER%/stats level admin\n nbthread 1\n{DEFAULTS}frontend fe\n bind FRONT\n \
         default_backend be\nbackend be\n balance roundrobin\n option httpchk\n server s1 {nobody} check inter 1m\n \
         server s2 {nobody} disabled\n server s3 {nobody} weight 10\nbackend fixed\n balance static-rr\n \
         server s1 {nobody}\nbackend empty\n"
    );
    let Some((ours, theirs)) = both(&config) else { return };
    let commands = [
        "add server be/s1 127.0.0.1:1",
        "add server be/n1",
        "add server be/n1 127.0.0.1:1 wieght 3",
        "add server be/n1 127.0.0.1:1 cookie x",
        "add server be/n1 127.0.0.1:1 weight 1000",
        "add server be/n1 127.0.0.1 check",
        "add server be/n!1 127.0.0.1:1",
        "add server be/n1 127.0.0.1:1 id 0",
        "add server be/nn 127.0.0.1:1 check inter 1m weight 5 maxconn 3 slowstart 2s port 2 addr 127.0.0.2",
        "add server be/n2 127.0.0.1:1 track be/s2",
        "add server be/n2 127.0.0.1:1 track be/s1",
        "add server be/n3 127.0.0.1:1 track be/n2",
        "add server be/n3 127.0.0.1:1 track foo/n2",
        "add server be/n3 127.0.0.1:1 track be/s1 check",
        "add server be/n5 127.0.0.1:1 disabled",
        "add server be/n6 127.0.0.1:1 enabled id 20",
        "add server be/n7 /tmp/x.sock backup",
        "add server be/",
        "add server be",
        "add server",
        "add server fixed/xx 127.0.0.1:1",
        "add server nosuch/xx 127.0.0.1:1",
        "show servers state be",
        "del server be/nn",
        "del server be/n6",
        "del server be/s3",
        "del server be/s1",
        "del server",
        "del server be/nosuch",
        "del server nosuch/nosuch",
        "add server empty/a 127.0.0.1:1 id 7",
        "add server empty/b 127.0.0.1:1",
        "show servers state",
        "enable health be/n7",
        "enable server be/n7",
        "enable server be/nosuch",
        "get weight be/n7",
        "add server be/again 127.0.0.1:1",
        "show servers state be",
    ];
    assert_eq!(differences(&ours, &theirs, &commands), Vec::<String>::new());
}

#[test]
fn an_added_server_serves_until_it_is_taken_away() {
    let (origin, front) = (Origin::named("added"), free_address());
    let edge = Edge::start(&format!(
        "global\n stats socket %FOLDER%/stats level admin\n nbthread 2\n{DEFAULTS}listen site\n bind {front}\n \
         option httpchk GET /\n http-check expect status 200\n"
    ));
    assert!(get(front).starts_with("503"));
    for round in 0..3 {
        let words = format!("add server site/s{round} {} check inter 20ms rise 1 fall 1", origin.address);
        assert_eq!(edge.command(&words), "New server registered.\n\n");
        assert!(get(front).starts_with("503"), "it begins in maintenance");
        edge.command(&format!("enable server site/s{round}; enable health site/s{round}"));
        let row = |part: &str| edge.command("show stat").lines().any(|row| row.contains(part));
        wait_until("a check has passed", || row("L7OK"));
        assert_eq!(get(front), "200 added");
        let refused = edge.command(&format!("del server site/s{round}"));
        assert_eq!(refused, "Only servers in maintenance mode can be deleted.\n");
        edge.command(&format!("set server site/s{round} state maint"));
        // The client may have its answer a moment before the server is free.
        let delete = format!("del server site/s{round}");
        wait_until("it is taken away", || edge.command(&delete) == "Server deleted.\n");
        assert!(!row(&format!("site,s{round}")));
    }
    assert!(get(front).starts_with("503"));
}

#[test]
fn commands_answer_as_haproxys() {
    let nobody = free_address();
    let config = format!(
        "global\n stats socket %FOLDER%/stats level admin severity-output number\n nbthread 1\n{DEFAULTS}frontend fe\n \
         bind FRONT\n default_backend be\nbackend be\n cookie SRV insert\n server s1 {nobody} weight 4\n \
         server s2 {nobody} check inter 1m port 1\nbackend fixed\n balance static-rr\n server s1 {nobody}\n"
    );
    let Some((ours, theirs)) = both(&config) else { return };
    let commands = [
        "set server be/s1",
        "set server be/s1 weight x",
        "set server be/s1 weight 1x",
        "set server be/s1 weight 300",
        "set severity-output string; set server be/s1 state x; set severity-output none; set server be/s1 state x",
        "set maxconn server be/s1",
        "set maxconn server be/s1 x",
        "set maxconn server be/s1 1x",
        "set maxconn server be/s1 5",
        "set maxconn frontend fe 5",
        "set maxconn global -1",
        "set rate-limit sessions global 5",
        "set rate-limit sessions global x",
        "disable frontend fe",
        "disable frontend fe",
        "enable frontend fe",
        "enable frontend fe",
        "enable dynamic-cookie backend be",
        "enable dynamic-cookie backend nosuch",
        "set dynamic-cookie-key backend be",
        "set dynamic-cookie-key backend be secret",
        "set dynamic-cookie-key backend",
        "disable dynamic-cookie backend be",
        "set server be/s1 addr 127.0.0.9 port 81",
        "set server be/s1 addr 127.0.0.9 port 81",
        "set server be/s1 addr 127.0.0.9 port +5",
        "set server be/s2 addr 127.0.0.9 port +5",
        "set server be/s2 addr 127.0.0.9 port +5",
        "set server be/s2 addr 127.0.0.8 port -5",
        "set server be/s2 addr 127.0.0.8 port -7",
        "set server be/s2 addr 127.0.0.8 port 99",
        "set server be/s1 addr 127.0.0.8 port x",
        "set server be/s1 addr 127.0.0.8 port 80",
        "set server be/s2 addr 127.0.0.8 port +1",
        "set server be/s1 addr nowhere",
        "set server fixed/s1 weight 5",
        "set server fixed/s1 weight 100%",
        "set profiling tasks off",
        "set profiling tasks x",
        "set profiling memory on",
        "set profiling x on",
        "show profiling status",
        "trace 0",
        "show cli sockets x",
        "get var proc.x",
        "experimental-mode on; set var proc.x int(5); get var proc.x",
        "expert-mode on; expert-mode; expert-mode off; expert-mode",
        "operator; show cli level; set weight be/s1 3",
        "user; show startup-logs",
        "user; show fd",
        "user; trace 0",
        "show startup-logs",
        "show servers state nosuch",
        "show stat domain x",
        "shutdown session 0x1",
        "shutdown sessions server be/s1",
        "shutdown frontend fe",
        "enable frontend fe",
        "show servers state",
    ];
    let without_folder = |edge: &Edge, text: String| text.replace(&edge.folder.0.display().to_string(), "FOLDER");
    for command in commands {
        let mine = timeless(&without_folder(&ours, ours.command(command)));
        assert_eq!(mine, timeless(&without_folder(&theirs, theirs.command(command))), "{command}");
    }
}

#[test]
fn dynamic_cookies_follow_commands() {
    let (origin, front) = (Origin::named("hello"), free_address());
    let edge = Edge::start(&format!(
        "global\n stats socket %FOLDER%/stats level admin\n nbthread 2\n{DEFAULTS}listen site\n bind {front}\n \
         cookie SRV insert indirect nocache\n server s1 {}\n",
        origin.address
    ));
    let cookie = || Wire::connect(front).get("/").field("set-cookie").map(str::to_owned);
    assert!(cookie().is_none_or(|cookie| cookie.starts_with("SRV=;")), "the server has no value");
    edge.command("set dynamic-cookie-key backend site secret; enable dynamic-cookie backend site");
    let first = cookie().expect("one is made of its address");
    assert!(first.starts_with("SRV=") && edge.command("show stat").contains(&first[4..20]), "{first}");
    edge.command("set dynamic-cookie-key backend site other");
    assert_ne!(cookie().unwrap(), first);
    edge.command("disable dynamic-cookie backend site");
    assert!(cookie().is_none_or(|cookie| cookie.starts_with("SRV=;")));
}

/// What a listing of sessions says, without numbers that differ from process to process; sorted, as their order differs too.
fn sessions(answer: &str) -> Vec<String> {
    // Of HAProxy's inner parts, and addresses that are not known here.
    let inner = ["  txn=", "  req=", "  res=", "      an_exp=", "      buf=", "      htx="];
    let lines = answer.lines().filter(|line| !line.is_empty() && !inner.iter().any(|start| line.starts_with(start)));
    let plain = |line: &str| {
        let is_far = line.starts_with("  server=");
        let words = line.split(' ').filter(|word| is_far || !word.starts_with("addr="));
        let fixed = |word: &str| match word.split_once('=') {
            Some((
                name @ ("fe" | "be" | "srv" | "proto" | "frontend" | "backend" | "server" | "(id" | "mode"),
                value,
            )) => {
                format!("{name}={value}")
            }
            Some((name @ ("state" | "ctrl" | "mux" | "data" | "conn_exp" | "endp" | "target"), value)) => {
                format!("{name}={}", value.split([':', ',']).next().unwrap())
            }
            Some((name, _)) => format!("{name}="),
            None if word.starts_with("0x") || word == "(nil):" => "POINTER".to_owned(),
            None if word.starts_with('[') => "DATE".to_owned(),
            None => word.to_owned(),
        };
        words.map(fixed).collect::<Vec<_>>().join(" ")
    };
    let mut found: Vec<String> = Vec::new();
    for line in lines.map(plain) {
        match found.last_mut() {
            Some(last) if line.starts_with(' ') => last.push_str(&format!("\n{line}")),
            _ => found.push(line),
        }
    }
    found.retain(|session| !session.contains("frontend=GLOBAL"));
    found.sort();
    found
}

#[test]
fn sessions_are_listed_as_haproxy_does() {
    let origin = Origin::start(|mut wire, _| {
        wire.fill();
        std::thread::sleep(std::time::Duration::from_millis(1_500));
    });
    let server = origin.address;
    let config = |front: SocketAddr, raw: SocketAddr| {
        format!(
            "global\n stats socket %FOLDER%/stats level admin\n nbthread 1\ndefaults\n mode http\n timeout client 9s\n timeout \
             server 9s\n timeout connect 1s\nfrontend web\n bind {front} name here id 7\n http-request return status 200 if {{ \
             path /idle }}\n default_backend app\nbackend app\n server s1 {server} id 9\nlisten raw\n mode tcp\n bind {raw}\n \
             server s2 {server}\n"
        )
    };
    let play = |edge: &Edge, front, raw| {
        let (mut idle, mut slow, mut tcp) = (Wire::connect(front), Wire::connect(front), Wire::connect(raw));
        assert_eq!(idle.get("/idle").status(), 200);
        slow.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
        tcp.send("hello");
        wait_until("both are at the server", || edge.command("show sess").matches("srv=s").count() == 2);
        (sessions(&edge.command("show sess")), sessions(&edge.command("show sess all")))
    };
    let (front, raw) = (free_address(), free_address());
    let ours = play(&Edge::start_single(&config(front, raw)), front, raw);
    assert_eq!((ours.0.len(), ours.1.len()), (3, 2), "{ours:#?}");
    let (front, raw) = (free_address(), free_address());
    let Some(theirs) = Edge::start_haproxy(&config(front, raw)) else { return };
    assert_eq!(ours, play(&theirs, front, raw));
}

/// Scripts go on when they have their answer: what they asked for must be so by then, on every worker.
#[test]
fn frontends_listen_or_not_once_it_is_answered() {
    let front = free_address();
    let edge = Edge::start_single(&format!(
        "global\n stats socket %FOLDER%/stats level admin\n nbthread 4\n{DEFAULTS}frontend fe\n bind {front}\n http-request \
         return status 200 content-type text/plain string \"here\"\n"
    ));
    for _ in 0..100 {
        assert_eq!(edge.command("disable frontend fe"), "\n");
        let refused = std::net::TcpStream::connect(front).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
        assert_eq!(edge.command("enable frontend fe"), "\n");
        assert_eq!(get(front), "200 here");
    }
    assert_eq!(edge.command("shutdown frontend fe"), "\n");
    assert!(std::net::TcpStream::connect(front).is_err());
}

/// What `show info` says under these names.
fn info(edge: &Edge, names: &[&str]) -> Vec<String> {
    let answer = edge.command("show info");
    names
        .iter()
        .map(|name| {
            let start = format!("{name}: ");
            answer.lines().find_map(|line| line.strip_prefix(&start)).unwrap().to_owned()
        })
        .collect()
}

/// What `show stat` says in this column of every line that has a number there.
fn column(edge: &Edge, name: &str) -> Vec<String> {
    let answer = edge.command("show stat");
    let mut lines = answer.lines().filter(|line| !line.is_empty());
    let place = lines.next().unwrap().split(',').position(|column| column == name).unwrap();
    let cell = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        (!cells[place].is_empty()).then(|| format!("{}/{} {}", cells[0], cells[1], cells[place]))
    };
    lines.filter_map(cell).collect()
}

#[test]
fn numbers_of_the_process_are_haproxys() {
    let asked = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&asked);
    let server = Origin::start(move |mut wire, _| {
        wire.fill();
        seen.fetch_add(1, SeqCst);
        // Asked, it never answers.
        wire.read_to_end();
    });
    let config = |front: SocketAddr, logs: SocketAddr| {
        format!(
            "global\n stats socket %FOLDER%/stats level admin\n stats socket %FOLDER%/other level user\n nbthread 1\n \
             maxconn 100\n expose-experimental-directives\ndefaults\n mode http\n timeout client 9s\n timeout server 9s\n \
             timeout connect 1s\nfrontend web\n bind {front}\n http-request normalize-uri path-merge-slashes if {{ path_beg \
             /odd }}\n http-request return status 200 if {{ path_beg /odd }}\n default_backend app\nfrontend own\n bind {}\n \
             maxconn 7\n default_backend app\nbackend app\n server s1 {}\n server s2 {} agent-check agent-port 1 agent-inter 1h \
             backup\nlog-forward logs\n bind {logs}\n dgram-bind {logs}\n log 127.0.0.1:9 local0\n",
            free_address(),
            server.address,
            server.address
        )
    };
    let play = |edge: &Edge, front| {
        let mut seen = Vec::new();
        wait_until("whoever looked whether it listens has gone", || info(edge, &["CurrConns"]) == ["0"]);
        seen.push(info(edge, &["Listeners", "Jobs", "Tainted"]));
        let total = || -> Vec<u64> {
            info(edge, &["CumConns", "CumReq"]).iter().map(|number| number.parse().unwrap()).collect()
        };
        let before = total();
        let mut client = Wire::connect(front);
        for _ in 0..3 {
            assert_eq!(client.get("/odd//x").status(), 200);
        }
        let after = total();
        seen.push(before.iter().zip(&after).map(|(before, after)| (after - before).to_string()).collect());
        seen.push(info(edge, &["Jobs", "Tainted"]));
        // The first look at the agent may be over or not.
        let durations = column(edge, "agent_duration");
        seen.push(durations.iter().filter_map(|row| row.split(' ').next()).map(str::to_owned).collect());
        edge.command("set maxconn global 50");
        seen.push(column(edge, "slim"));
        seen.push(info(edge, &["Maxconn"]));
        let (before, mut client) = (asked.load(SeqCst), Wire::connect(front));
        client.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
        wait_until("the server is asked", || asked.load(SeqCst) > before);
        edge.command("shutdown sessions server app/s1");
        assert_eq!(client.answer().status(), 502);
        seen.push(column(edge, "eresp"));
        seen
    };
    let front = free_address();
    let ours = play(&Edge::start_single(&config(front, free_address())), front);
    assert_eq!(ours[0], ["6", "7", "0x1"], "listeners, with who asks, and what is declared");
    assert_eq!(ours[1], ["2", "4"], "a client, its three requests, and who asks");
    assert_eq!(ours[3], ["app/s2"]);
    assert_eq!(ours[6], ["app/s1 1", "app/s2 0", "app/BACKEND 1"]);
    let front = free_address();
    let Some(theirs) = Edge::start_haproxy(&config(front, free_address())) else { return };
    assert_eq!(ours, play(&theirs, front));
}
