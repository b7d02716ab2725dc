//! Cases that are played with the edge and with Debian's HAProxy: what clients see, which the cases assert themselves, and
//! what is logged must be the same.

use std::{net::SocketAddr, thread, time::Duration};

use super::{Edge, LogServer, Origin, free_address, ok};

/// One way of using a proxy, named by what is special about it.
pub struct Case {
    pub name: &'static str,
    /// Lines of the `listen` section; `SERVER` stands for the server's address, `PORT` for its port. Lines that begin with
    /// `GLOBAL` go to the `global` section.
    pub lines: &'static str,
    pub play: fn(SocketAddr),
    /// The log line of it, with numbers that change replaced; empty when nothing is logged.
    pub expected: &'static str,
}

fn server() -> Origin {
    Origin::start(|mut wire, _| {
        while let Some(request) = wire.request() {
            match request.start_line().split(' ').nth(1).unwrap() {
                "/slow" => thread::sleep(Duration::from_millis(800)),
                "/gone" => return,
                "/junk" => {
                    wire.try_send("220 junk\r\n\r\n");
                    return;
                }
                "/old" => {
                    wire.try_send("HTTP/1.0 200 OK\r\nserver: old\r\n\r\nhello");
                    return;
                }
                "/old-kept" => {
                    wire.try_send("HTTP/1.0 200 OK\r\ncontent-length: 5\r\nconnection: keep-alive\r\n\r\nhello");
                    continue;
                }
                "/chunks" => {
                    wire.try_send(
                        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n",
                    );
                    continue;
                }
                "/two" => {
                    wire.try_send("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello");
                    thread::sleep(Duration::from_millis(200));
                    wire.try_send("world");
                    continue;
                }
                "/never" => {
                    wire.try_send("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello");
                    thread::sleep(Duration::from_millis(800));
                    return;
                }
                "/trickle" => {
                    for _ in 0..40 {
                        if !wire.try_send("drop") {
                            return;
                        }
                        thread::sleep(Duration::from_millis(20));
                    }
                    return;
                }
                "/half" => {
                    wire.try_send("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhello");
                    return;
                }
                "/bad-chunk" => {
                    wire.try_send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\nnonsense\r\n");
                    return;
                }
                "/later-bad-chunk" => {
                    wire.try_send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n");
                    thread::sleep(Duration::from_millis(50));
                    wire.try_send("nonsense\r\n");
                    return;
                }
                "/endless" => {
                    wire.try_send("HTTP/1.1 200 OK\r\ncontent-length: 100000000\r\n\r\n");
                    while wire.try_send([b'x'; 10000]) {}
                    return;
                }
                _ => {}
            }
            if !wire.try_send(ok("hello")) {
                return;
            }
        }
    })
}

fn config(case: &Case, front: SocketAddr, log: &LogServer, server: &Origin) -> String {
    let (global, lines): (Vec<&str>, Vec<&str>) =
        case.lines.split('\n').partition(|line| line.trim_start().starts_with("GLOBAL "));
    let global: String = global.iter().map(|line| line.replacen("GLOBAL", "", 1) + "\n").collect();
    let lines = lines.join("\n");
    format!(
        "global\n log {} local0\n nbthread 1\n{global}defaults\n log global\n mode http\n option httplog\n timeout client 5s\n timeout server 5s\n timeout connect 1s\nlisten site\n bind {front}\n {}\n",
        log.address,
        lines.replace("SERVER", &server.address.to_string()).replace("PORT", &server.address.port().to_string()),
    )
}

/// Replaces what differs from run to run: the client, dates and times that were measured.
fn normalize(line: &str) -> String {
    let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    for word in &mut words {
        if word.starts_with("127.") && word.contains(':') {
            "CLIENT".clone_into(word);
        } else if word.starts_with('[') && word.contains(':') {
            "[DATE]".clone_into(word);
        }
    }
    if words.len() > 5 && words[1] == "[DATE]" {
        let times: Vec<&str> = words[4]
            .split('/')
            .map(|time| match time {
                "-1" => "-1",
                time if time.starts_with('+') => "+N",
                _ => "N",
            })
            .collect();
        words[4] = times.join("/");
    }
    words.join(" ")
}

fn matches(expected: &str, found: &str) -> bool {
    let (mut left, mut right) = (expected.split(' '), found.split(' '));
    loop {
        match (left.next(), right.next()) {
            (None, None) => return true,
            (Some("N"), Some(number)) if number.parse::<u64>().is_ok() => {}
            (Some("+N"), Some(number)) if number.starts_with('+') && number[1..].parse::<u64>().is_ok() => {}
            (left, right) if left == right => {}
            _ => return false,
        }
    }
}

fn logged(case: &Case, start: impl FnOnce(&str) -> Option<Edge>) -> Option<String> {
    let (log, server, front) = (LogServer::start(), server(), free_address());
    let edge = start(&config(case, front, &log, &server))?;
    (case.play)(front);
    let line = loop {
        let line = log.line();
        if !line.starts_with("Proxy ")
            && !line.contains("Server ")
            && !line.contains("has no server")
            && !line.contains("is going")
        {
            break line;
        }
    };
    drop(edge);
    Some(normalize(&line))
}

/// What each case gives beside what it should, for those that differ; cases run beside each other.
pub fn differences(cases: &[Case], start: fn(&str) -> Option<Edge>) -> Vec<String> {
    let check = |case: &Case| {
        let found = logged(case, start)?;
        let differs = !matches(case.expected, &found);
        differs.then(|| format!("{}:\n expected {}\n found    {found}", case.name, case.expected))
    };
    thread::scope(|scope| {
        let running: Vec<_> = cases
            .chunks(cases.len().div_ceil(4))
            .map(|part| scope.spawn(move || part.iter().filter_map(check).collect()))
            .collect();
        running.into_iter().flat_map(|part| -> Vec<String> { part.join().unwrap() }).collect()
    })
}
