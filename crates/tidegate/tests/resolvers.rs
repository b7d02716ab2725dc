//! Names of servers that are looked up at run time, beside Debian's HAProxy and with Debian's dnsmasq.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    collections::BTreeMap,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use support::{Edge, LogServer, NameServer, Oracle, Origin, Wire, dns_answer, free_address, ok, wait_until};

/// Server, address, administrative state, weight, host and service of each server.
fn states(edge: &Edge) -> Vec<String> {
    let answer = edge.command("show servers state");
    let rows = answer.lines().filter(|line| !line.starts_with('#') && line.contains(' '));
    rows.map(|row| {
        let fields: Vec<&str> = row.split(' ').collect();
        [3, 4, 6, 7, 12, 13, 17, 18, 19].map(|field| fields[field]).join(" ")
    })
    .collect()
}

#[track_caller]
fn wait_states(edge: &Edge, expected: &[&str]) {
    let mut found = Vec::new();
    for _ in 0..500 {
        found = states(edge);
        if found == expected {
            return;
        }
        thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(found, expected, "{}", edge.output());
}

/// What was logged of each server, in order; how many others are left depends on who is first.
fn logged(log: &LogServer) -> BTreeMap<String, Vec<String>> {
    let mut by_server: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in log.lines_so_far() {
        let text = line.split_once("]: ").map_or(line.as_str(), |(_, text)| text);
        let text = text.split("). ").next().unwrap_or(text);
        let server = text.split(' ').find(|word| word.contains('/') && word.starts_with("app"));
        if let Some(server) = server {
            by_server.entry(server.to_owned()).or_default().push(text.to_owned());
        }
    }
    by_server
}

const RECORDS: [&str; 8] = [
    "host-record=web.test,127.0.0.1",
    "host-record=web.test,127.0.0.2",
    "host-record=six.test,::1",
    "cname=also.test,six.test",
    "host-record=n1.test,127.0.1.1",
    "host-record=n2.test,127.0.1.2",
    "srv-host=_http._tcp.x.test,n1.test,8081,0,256",
    "srv-host=_http._tcp.x.test,n2.test,8082,0,0",
];

/// Servers from names, templates and services, as their records come, change, are lost and come back.
fn follow(start: fn(&str) -> Option<Edge>) -> Option<BTreeMap<String, Vec<String>>> {
    let mut names = NameServer::start(&RECORDS)?;
    let (log, front) = (LogServer::start(), free_address());
    let edge = start(&format!(
        "global\n log {} local0\n nbthread 1\n stats socket %FOLDER%/stats level admin\nresolvers d\n nameserver ns1 {}\n \
         timeout resolve 50\n timeout retry 50\n hold nx 200\n hold timeout 200\n hold other 200\n \
         resolve_retries 2\ndefaults\n mode http\n log global\n timeout client 5s\n timeout server 5s\n timeout connect 1s\n \
         default-server resolvers d init-addr none\nlisten app\n bind {front}\n server-template t 3 web.test:80 \
         resolve-prefer ipv4\n server one also.test:81\nbackend app2\n server-template s 2-4 _http._tcp.x.test \
         resolve-prefer ipv4\n server lost nowhere.test:1 resolve-prefer ipv4\nbackend app3\n server dup1 web.test:80 \
         resolve-opts allow-dup-ip resolve-prefer ipv4 resolve-net 127.0.0.2/32\n server dup2 web.test:80 resolve-opts \
         allow-dup-ip resolve-prefer ipv4 resolve-net 127.0.0.2/32\n server-template i 1 _http._tcp.x.test resolve-opts \
         ignore-weight resolve-prefer ipv4\n",
        log.address, names.address
    ))?;
    let start = [
        "t1 127.0.0.2 0 1 0 0 web.test 80 -",
        "t2 127.0.0.1 0 1 0 0 web.test 80 -",
        "t3 - 32 1 0 0 web.test 80 -",
        "one ::1 0 1 0 0 also.test 81 -",
        "s2 127.0.1.2 64 0 0 0 n2.test 8082 _http._tcp.x.test",
        "s3 127.0.1.1 64 1 0 0 n1.test 8081 _http._tcp.x.test",
        "s4 - 32 1 0 0 - 0 _http._tcp.x.test",
        "lost - 32 1 0 0 nowhere.test 1 -",
        "dup1 127.0.0.2 0 1 0 0 web.test 80 -",
        "dup2 127.0.0.2 0 1 0 0 web.test 80 -",
        "i1 127.0.1.2 64 1 0 0 n2.test 8082 _http._tcp.x.test",
    ];
    wait_states(&edge, &start);
    names.serve(&[
        "host-record=web.test,127.0.0.3",
        "host-record=six.test,127.0.0.6",
        "cname=also.test,six.test",
        "host-record=n2.test,127.0.1.2",
        "srv-host=_http._tcp.x.test,n2.test,8082,0,65535",
    ]);
    let changed = [
        "t1 127.0.0.3 0 1 0 0 web.test 80 -",
        "t2 - 32 1 0 0 web.test 80 -",
        "t3 - 32 1 0 0 web.test 80 -",
        "one 127.0.0.6 0 1 0 0 also.test 81 -",
        "s2 127.0.1.2 64 256 0 0 n2.test 8082 _http._tcp.x.test",
        "s3 - 96 1 0 0 - 0 _http._tcp.x.test",
        "s4 - 32 1 0 0 - 0 _http._tcp.x.test",
        "lost - 32 1 0 0 nowhere.test 1 -",
        "dup1 127.0.0.3 0 1 0 0 web.test 80 -",
        "dup2 127.0.0.3 0 1 0 0 web.test 80 -",
        "i1 127.0.1.2 64 1 0 0 n2.test 8082 _http._tcp.x.test",
    ];
    wait_states(&edge, &changed);
    names.stop();
    wait_until("all are lost", || states(&edge).iter().all(|server| server.contains(" - ")));
    names.serve(&RECORDS);
    wait_until("they are back", || states(&edge).iter().filter(|server| server.contains(" 127.")).count() == 7);
    assert_eq!(
        edge.command("set server app2/s2 fqdn n2.test").trim_end(),
        "set server <b>/<s> fqdn failed because SRV resolution is configured."
    );
    let said = edge.command("set server app/one fqdn n1.test");
    assert_eq!(said.trim_end(), "app/one changed its FQDN from also.test to n1.test by 'stats socket command'");
    wait_until("it has moved", || states(&edge).contains(&"one 127.0.1.1 0 1 0 0 n1.test 81 -".to_owned()));
    let counters = edge.command("show resolvers d");
    assert!(counters.starts_with("Resolvers section d\n nameserver ns1:\n  sent:        "), "{counters}");
    let statistics = edge.command("show stat domain resolvers");
    assert!(statistics.starts_with("# id,pid,sent,send_error,valid,update,cname,"), "{statistics}");
    assert!(statistics.contains("\nns1,d,"), "{statistics}");
    let typed = edge.command("show stat domain resolvers typed");
    assert!(typed.starts_with("N.0.id:CGP:str:ns1\nN.1.pid:CGP:str:d\nN.2.sent:MGP:u64:"), "{typed}");
    let json = edge.command("show stat domain resolvers json");
    let field = r#"[[{"field":{"pos":0,"name":"id"},"tags":{"origin":"Config","nature":"Gauge","scope":"Process"},"value":{"type":"str","value":"ns1"}},"#;
    assert!(json.starts_with(field), "{json}");
    assert_eq!(edge.command("show resolvers e").trim_end(), "Can't find that resolvers section");
    Some(logged(&log))
}

/// Plays the same for this program and for Debian's HAProxy, beside each other.
#[track_caller]
fn beside<T: Send + std::fmt::Debug + PartialEq>(play: impl Fn(fn(&str) -> Option<Edge>) -> Option<T> + Sync) {
    let (ours, theirs) = thread::scope(|scope| {
        let theirs = scope.spawn(|| play(Edge::start_haproxy));
        (play(|config| Some(Edge::start_single(config))), theirs.join().unwrap())
    });
    if let (Some(ours), Some(theirs)) = (ours, theirs) {
        assert_eq!(ours, theirs, "ours and HAProxy's");
    }
}

#[test]
fn servers_follow_their_names() {
    beside(follow);
}

/// A server that has had an address only gets a name while it runs, as those do that stand by for what starts later.
fn name_an_address(start: fn(&str) -> Option<Edge>) -> Option<Vec<String>> {
    let names = NameServer::start(&RECORDS)?;
    let edge = start(&format!(
        "global\n nbthread 1\n stats socket %FOLDER%/stats level admin\nresolvers d\n nameserver ns1 {}\n timeout resolve 50\n \
         timeout retry 50\ndefaults\n timeout client 5s\n timeout server 5s\n timeout connect 1s\nlisten app\n bind {}\n \
         server spare 127.0.9.9:82 resolvers d resolve-prefer ipv4\n",
        names.address,
        free_address()
    ))?;
    let said = edge.command("set server app/spare fqdn n1.test");
    wait_until("it has moved", || states(&edge) == ["spare 127.0.1.1 0 1 2 0 n1.test 82 -"]);
    let again = edge.command("set server app/spare fqdn n2.test");
    wait_until("it has moved again", || states(&edge) == ["spare 127.0.1.2 0 1 2 0 n2.test 82 -"]);
    Some(vec![said, again])
}

#[test]
fn a_server_with_an_address_can_be_given_a_name() {
    beside(name_an_address);
}

/// How a name server answers a question.
type Answers = fn(&[u8]) -> Vec<Vec<u8>>;

/// What a name server may say that is of no use, and the number that counts it.
fn lies() -> Vec<(&'static str, Answers)> {
    const OWNER: &[u8] = &[0xC0, 12];
    const ADDRESS: &[u8] = &[127, 0, 0, 9];
    vec![
        ("outdated", |question| {
            let mut wrong = dns_answer(question, 0x8180, &[(OWNER, ADDRESS)]);
            wrong[0] ^= 0x55;
            vec![wrong]
        }),
        ("invalid", |question| {
            let mut wrong = dns_answer(question, 0x8180, &[(OWNER, ADDRESS)]);
            wrong[13] = b'z';
            vec![wrong]
        }),
        ("invalid", |question| vec![dns_answer(question, 0x8180, &[(&[0xC0, 200], ADDRESS)])]),
        ("invalid", |question| {
            let mut here = dns_answer(question, 0x8180, &[]);
            let end = u8::try_from(here.len()).unwrap();
            // The owner's name begins with itself.
            here = dns_answer(question, 0x8180, &[(&[0xC0, end], ADDRESS)]);
            vec![here]
        }),
        ("invalid", |question| vec![dns_answer(question, 0x8180, &[(OWNER, &[1, 2, 3])])]),
        ("invalid", |question| vec![dns_answer(question, 0x8180, &[(OWNER, ADDRESS)])[..30].to_vec()]),
        ("invalid", |question| vec![question[..1].to_vec()]),
        ("any_err", |question| vec![dns_answer(question, 0x8180, &[])]),
        ("nx", |question| vec![dns_answer(question, 0x8183, &[])]),
        ("refused", |question| vec![dns_answer(question, 0x8185, &[])]),
        ("other", |question| vec![dns_answer(question, 0x8182, &[])]),
        ("truncated", |question| vec![dns_answer(question, 0x8380, &[(OWNER, ADDRESS)])]),
        ("too_big", |question| {
            let mut long = dns_answer(question, 0x8180, &[(OWNER, ADDRESS)]);
            long.resize(513, 0);
            vec![long]
        }),
        ("", |_| Vec::new()),
    ]
}

/// A section for each lie: what is counted beside what was sent, and what becomes of its server.
fn endure(start: fn(&str) -> Option<Edge>) -> Option<Vec<String>> {
    let oracles: Vec<Oracle> = lies().into_iter().map(|(_, answers)| Oracle::start(answers)).collect();
    let front = free_address();
    let mut config = format!(
        "global\n nbthread 1\n stats socket %FOLDER%/stats\ndefaults\n mode http\n timeout client 5s\n timeout server 5s\n \
         timeout connect 1s\nlisten site\n bind {front}\n"
    );
    for place in 0..oracles.len() {
        config += &format!(" server s{place} a.test:80 resolvers r{place} resolve-prefer ipv4 init-addr 127.0.0.1\n");
    }
    for (place, oracle) in oracles.iter().enumerate() {
        config += &format!(
            "resolvers r{place}\n nameserver n {}\n timeout resolve 50\n timeout retry 50\n resolve_retries 2\n hold nx 150\n \
             hold refused 150\n hold timeout 150\n hold other 150\n",
            oracle.address
        );
    }
    let edge = start(&config)?;
    wait_until("the servers are lost", || states(&edge).iter().all(|server| server.contains(" - 32 ")));
    let answer = edge.command("show resolvers");
    let sections = answer.split("Resolvers section ").skip(1).take(oracles.len());
    Some(
        sections
            .map(|section| {
                let counted = section.lines().filter_map(|line| line.trim().split_once(':'));
                let counted = counted.filter(|(name, count)| *name != "sent" && !["", "0"].contains(&count.trim()));
                counted.map(|(name, _)| name).collect::<Vec<_>>().join(" ")
            })
            .collect(),
    )
}

#[test]
fn name_servers_that_are_of_no_use() {
    let expected: Vec<&str> = lies().into_iter().map(|(counter, _)| counter).collect();
    beside(|start| {
        let found = endure(start)?;
        assert_eq!(found, expected);
        Some(found)
    });
}

/// A forward proxy as the manual has it: the name that is asked for is looked up, and the connection goes there.
fn forward(start: fn(&str) -> Option<Edge>) -> Option<Vec<String>> {
    let (first, second) = (Origin::answering(|_| ok("first")), Origin::answering(|_| ok("second")));
    let names =
        NameServer::start(&[&format!("host-record=first.test,{}", first.address.ip()), "host-record=six.test,::1"])?;
    let [front, tcp]: [SocketAddr; 2] = [free_address(), free_address()];
    let edge = start(&format!(
        "global\n stats socket %FOLDER%/stats\nresolvers d\n nameserver ns1 {}\n timeout retry 50\n resolve_retries 2\n\
         defaults\n timeout client 5s\n timeout server 5s\n timeout connect 1s\nlisten site\n mode http\n bind {front}\n \
         http-request do-resolve(txn.ip,d,ipv4) hdr(host),lower,field(1,:)\n http-request deny deny_status 404 unless {{ \
         var(txn.ip) -m found }}\n http-request return status 200 content-type text/plain lf-string %[var(txn.ip)] if {{ \
         path /tell }}\n http-request set-dst var(txn.ip)\n http-request set-dst-port hdr(host),field(2,:)\n server clear \
         0.0.0.0:0\nlisten tcp\n mode tcp\n bind {tcp}\n tcp-request inspect-delay 2s\n tcp-request content \
         do-resolve(sess.ip,d,ipv4) str(first.test)\n tcp-request content set-dst var(sess.ip)\n tcp-request content \
         set-dst-port int({})\n server any *:0\n",
        names.address,
        second.address.port(),
    ))?;
    let mut said = Vec::new();
    let mut ask = |wire: &mut Wire, path: &str, host: &str| {
        let answer = wire.ask(format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n"));
        said.push(format!("{path} {host}: {} {}", answer.status(), answer.text().lines().last().unwrap_or_default()));
    };
    let mut wire = Wire::connect(front);
    let ports = [first.address.port(), second.address.port()];
    ask(&mut wire, "/", &format!("first.test:{}", ports[0]));
    ask(&mut wire, "/", &format!("FIRST.test:{}", ports[1]));
    ask(&mut wire, "/tell", "six.test");
    ask(&mut wire, "/", "nowhere.test:80");
    ask(&mut wire, "/", "..:80");
    ask(&mut Wire::connect(front), "/tell", "six.test");
    let mut through = Wire::connect(tcp);
    ask(&mut through, "/", "any");
    drop(edge);
    let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
    Some(said.into_iter().map(|line| line.replace(&ports[0], "P1").replace(&ports[1], "P2")).collect())
}

#[test]
fn requests_wait_for_names() {
    beside(|start| {
        let said = forward(start)?;
        let text: Vec<&str> = said.iter().map(|line| line.split(' ').nth(2).unwrap()).collect();
        assert_eq!(text, ["200", "200", "200", "404", "404", "200", "200"], "{said:?}");
        assert!(said[0].ends_with("first") && said[1].ends_with("second") && said[2].ends_with("::1"), "{said:?}");
        Some(said)
    });
}

/// A reload moves no server, and sections of the former configuration have no servers any more.
#[test]
fn a_reload_keeps_what_was_found() {
    let Some(names) = NameServer::start(&RECORDS) else { return };
    let front = free_address();
    let edge = Edge::start(&format!(
        "global\n stats socket %FOLDER%/stats\nresolvers d\n nameserver ns1 tcp@{}\n timeout resolve 50\ndefaults\n mode \
         http\n timeout client 5s\n timeout server 5s\n timeout connect 1s\n default-server resolvers d\nlisten app\n bind \
         {front}\n server-template t 3 web.test:80 resolve-prefer ipv4 init-addr none\n server-template s 3 \
         _http._tcp.x.test resolve-prefer ipv4\n",
        names.address
    ));
    let found = [
        "t1 127.0.0.2 0 1 0 0 web.test 80 -",
        "t2 127.0.0.1 0 1 0 0 web.test 80 -",
        "t3 - 32 1 0 0 web.test 80 -",
        "s1 127.0.1.2 64 0 0 0 n2.test 8082 _http._tcp.x.test",
        "s2 127.0.1.1 64 1 0 0 n1.test 8081 _http._tcp.x.test",
        "s3 - 32 1 0 0 - 0 _http._tcp.x.test",
    ];
    wait_states(&edge, &found);
    let changes = || edge.output().matches("changed its IP").count();
    let before = changes();
    edge.signal(rustix::process::Signal::USR2);
    wait_until("it has been reloaded", || {
        edge.output().contains("Reload") || edge.command("show info").contains("Reloads")
    });
    let sent = || {
        edge.command("show resolvers d")
            .split_ascii_whitespace()
            .skip_while(|word| *word != "sent:")
            .nth(1)
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    wait_until("the new section asks", || sent() > 6);
    assert_eq!(
        states(&edge).iter().map(|state| state.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect::<Vec<_>>(),
        found.iter().map(|state| state.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
    );
    assert_eq!(changes(), before, "{}", edge.output());
}

/// Reads a question from a connection.
fn question(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut length = [0; 2];
    stream.read_exact(&mut length).ok()?;
    let mut question = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut question).ok()?;
    Some(question)
}

fn framed(message: &[u8]) -> Vec<u8> {
    [&u16::try_from(message.len()).unwrap().to_be_bytes()[..], message].concat()
}

/// One connection after the other goes wrong in its own way; the next one is tried each time.
#[test]
fn a_name_server_over_tcp_may_fail_in_every_way() {
    type Way = fn(&mut TcpStream, &[u8]);
    let fine = |question: &[u8]| framed(&dns_answer(question, 0x8180, &[(b"\xC0\x0c", &[127, 0, 9, 9])]));
    let ways: [Way; 7] = [
        |_, _| {},
        // Half a message.
        |stream, question| drop(stream.write_all(&framed(question)[..9])),
        // The same, and the connection stays.
        |stream, question| {
            let _ = stream.write_all(&framed(question)[..9]);
            let _ = stream.read(&mut [0; 1]);
            thread::sleep(Duration::from_secs(5));
        },
        // Longer than all that follows.
        |stream, _| {
            let _ = stream.write_all(&[0xFF; 3_000]);
            thread::sleep(Duration::from_secs(5));
        },
        // A byte now and then.
        |stream, question| {
            for byte in framed(question) {
                thread::sleep(Duration::from_millis(40));
                if stream.write_all(&[byte]).is_err() {
                    return;
                }
            }
        },
        // Of the greatest length, and nonsense.
        |stream, question| {
            let mut message = framed(&[0xC0; 65_535]);
            message[2..4].copy_from_slice(&question[..2]);
            let _ = stream.write_all(&message);
            let _ = stream.read(&mut [0; 1]);
        },
        // Says nothing.
        |stream, _| while stream.read(&mut [0; 512]).is_ok_and(|count| count > 0) {},
    ];
    let listener = TcpListener::bind(free_address()).unwrap();
    let (address, count) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let connections = Arc::clone(&count);
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let number = connections.fetch_add(1, SeqCst);
            thread::spawn(move || {
                let Some(first) = question(&mut stream) else { return };
                if let Some(way) = ways.get(number) {
                    return way(&mut stream, &first);
                }
                let mut asked = Some(first);
                while let Some(question) = asked {
                    let _ = stream.write_all(&fine(&question));
                    asked = self::question(&mut stream);
                }
            });
        }
    });
    let edge = Edge::start_single(&format!(
        "global\n stats socket %FOLDER%/stats level admin\nresolvers d\n nameserver ns1 tcp@{address}\n timeout resolve 50\n \
         timeout retry 100\n resolve_retries 1\n hold other 0\n hold timeout 0\ndefaults\n mode http\n timeout client 5s\n \
         timeout server 5s\n timeout connect 1s\nlisten app\n bind {}\n server s web.test:80 resolvers d init-addr none \
         resolve-prefer ipv4\n",
        free_address()
    ));
    wait_until("the eighth connection brings an address", || states(&edge)[0].starts_with("s 127.0.9.9 "));
    assert!(count.load(SeqCst) > ways.len(), "{count:?}");
}
