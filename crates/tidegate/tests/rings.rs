//! Rings and `log-forward` over real sockets, beside Debian's HAProxy.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream, UdpSocket},
    os::unix::net::UnixStream,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::{Duration, Instant},
};

use support::{Edge, LogServer, PATIENCE, Wire, beside_haproxy, free_address, wait_until};

/// A line without what differs from run to run: the date and the process.
fn plain(line: &str) -> String {
    let line = line.trim_end();
    let (head, rest) = line.split_once("haproxy[").unwrap_or(("", line));
    let rest = rest.split_once("]: ").map_or(rest, |(_, text)| text);
    format!("{}{rest}", head.get(..head.find('>').map_or(0, |end| end + 1)).unwrap_or_default())
}

#[test]
fn lines_go_to_servers_and_to_whoever_asks() {
    let told = beside_haproxy(
        |front| {
            // The server's address is one above that of the site.
            let server = SocketAddr::new(front.ip(), front.port() + 10_000);
            format!(
                "global\n nbthread 1\n stats socket %FOLDER%/stats level admin\nring sent\n description \"to a server\"\n format rfc3164\n \
                 maxlen 100\n size 20000\n timeout connect 1s\n timeout server 1s\n server s1 {server} log-proto \
                 octet-count\nring kept\nfrontend site\n mode http\n bind {front}\n log ring@sent local1\n log ring@kept \
                 local1\n log-format \"%HM %HU\"\n http-request return status 200\n"
            )
        },
        |scene| {
            let server = TcpListener::bind(SocketAddr::new(scene.front.ip(), scene.front.port() + 10_000)).unwrap();
            let mut told = Vec::new();
            for path in ["/one", "/two", &format!("/{}", "x".repeat(200))] {
                assert_eq!(Wire::connect(scene.front).get(path).status(), 200);
            }
            // It connects again until someone is there, and nothing is lost.
            let mut read = |count| {
                let (stream, _) = server.accept().unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                let mut stream = BufReader::new(stream);
                for _ in 0..count {
                    let mut length = Vec::new();
                    stream.read_until(b' ', &mut length).unwrap();
                    let length = String::from_utf8(length).unwrap().trim().parse().unwrap();
                    let mut line = vec![0; length];
                    stream.read_exact(&mut line).unwrap();
                    // How much is left of a long one depends on the digits of the process' number.
                    let is_cut = if line.len() == 100 { " and more" } else { "" };
                    told.push(plain(&String::from_utf8(line).unwrap()).trim_end_matches('x').to_owned() + is_cut);
                }
            };
            read(3);
            for command in
                ["show events", "show events kept", "show events nosuch", "show events stdout", "show events kept -x"]
            {
                told.push(scene.edge.command(command));
            }
            told
        },
    );
    assert_eq!(told[0], "<142>GET /one");
}

#[test]
fn events_can_be_followed() {
    let front = free_address();
    let edge = Edge::start_single(&format!(
        "global\n stats socket %FOLDER%/stats level admin\ndefaults\n timeout client 5s\nring kept\nfrontend site\n mode http\n \
         bind {front}\n log ring@kept local0\n log-format \"%HM %HU\"\n http-request return status 200\n"
    ));
    Wire::connect(front).get("/before");
    wait_until("the line is in the ring", || edge.command("show events kept").contains("/before"));
    let mut socket = UnixStream::connect(edge.folder.0.join("stats")).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.write_all(b"show events kept -wn\n").unwrap();
    let mut reader = BufReader::new(socket.try_clone().unwrap());
    let mut line = String::new();
    // Nobody says when it has begun to wait.
    let is_followed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut number = 0;
            while !is_followed.load(Relaxed) {
                number += 1;
                Wire::connect(front).get(&format!("/after{number}"));
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let read = reader.read_line(&mut line);
        is_followed.store(true, Relaxed);
        asking.join().unwrap();
        read.unwrap();
    });
    assert!(line.starts_with("GET /after"), "{line}");
    socket.write_all(b"\n").unwrap();
    let mut rest = String::new();
    reader.read_to_string(&mut rest).unwrap();
    assert!(rest.lines().filter(|line| !line.is_empty()).all(|line| line.starts_with("GET /after")), "{rest}");
}

#[test]
fn received_lines_are_forwarded() {
    const LINES: [&str; 9] = [
        "<134>Nov 21 10:00:00 host1 app[123]: hello legacy",
        "<13>1 2026-11-21T10:00:00.123456Z host2 app2 456 ID47 [x@1 a=\"b\"] hello 5424",
        "<13>1 2026-11-21T10:00:00+02:00 host2 - - - - nil fields",
        "<13>1 - host2 a 1 - - no time",
        "no priority at all",
        "<165>just text here that is long enough to look",
        "<14>Nov  1 10:00:00 host3 no tag here",
        "<14>Nov  1 10:00:00 host3 tag: x",
        "<191>",
    ];
    let as_it_is = LogServer::start();
    let (as_new, some) = (LogServer::start(), LogServer::start());
    let told = beside_haproxy(
        |front| {
            let input = SocketAddr::new(front.ip(), front.port() + 10_000);
            format!(
                "frontend site\n bind {front}\nlog-forward f\n dgram-bind {input}\n bind {input}\n log {} local0\n log {} format \
                 rfc5424 local0\n log {} sample 1:2 local0 err\n",
                as_it_is.address, as_new.address, some.address
            )
        },
        |scene| {
            let input = SocketAddr::new(scene.front.ip(), scene.front.port() + 10_000);
            let socket = UdpSocket::bind((scene.front.ip(), 0)).unwrap();
            let mut told = Vec::new();
            let has_date = |line: &str| line.contains("10:00:00") || line.contains("- host2");
            let mut take = |count: usize| {
                for _ in 0..count {
                    told.push(as_it_is.raw());
                    let new = as_new.raw();
                    // A date of its own is of now.
                    let text = new.split(' ').skip(2).collect::<Vec<_>>().join(" ");
                    told.push(if has_date(&new) { new } else { text });
                }
            };
            for line in LINES {
                socket.send_to(line.as_bytes(), input).unwrap();
                take(1);
            }
            let mut stream = TcpStream::connect(input).unwrap();
            stream
                .write_all(
                    b"<134>Nov 21 10:00:00 h t[1]: one\r\n<134>Nov 21 10:00:00 h t[1]: two\n20 <13>octets counted 1",
                )
                .unwrap();
            take(3);
            stream.write_all(b"no line").unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            assert_eq!(stream.read(&mut [0; 9]).unwrap_or(0), 0, "what is malformed ends the connection");
            told.extend(some.lines_so_far());
            told
        },
    );
    assert_eq!(told[0], LINES[0]);
}

/// Has a master do something by the program's own command, which ends when it is done.
#[track_caller]
fn tell(edge: &Edge, command: &str) {
    let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let output = program.args([command, "--pid", &edge.pid().to_string()]).output().unwrap();
    assert!(output.status.success(), "{command}: {}{}", String::from_utf8_lossy(&output.stderr), edge.output());
}

/// The numbers of lines like `... line 12`.
fn numbers(lines: &[String], of: &str) -> Vec<usize> {
    let number = |line: &String| line.split_once(&format!("{of} line ")).and_then(|(_, number)| number.parse().ok());
    let mut numbers: Vec<usize> = lines.iter().filter_map(number).collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn no_line_is_lost_over_reloads_and_upgrades() {
    const LINES: usize = 600;
    let (front, input, sink) = (free_address(), free_address(), LogServer::start());
    let config = format!(
        "frontend site\n bind {front}\n mode http\n timeout client 5s\n http-request return status 200\nlog-forward f\n \
         dgram-bind {input}\n bind {input}\n log {} local0\n",
        sink.address
    );
    let edge = Edge::start(&config);
    let lines = std::thread::scope(|scope| {
        let talk = |name: &'static str, mut send: Box<dyn FnMut(&str) + Send>| {
            scope.spawn(move || {
                for number in 0..LINES {
                    send(&format!("<134>Nov 21 10:00:00 host app: {name} line {number}"));
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
        };
        let mut kept = TcpStream::connect(input).unwrap();
        talk("kept", Box::new(move |line| kept.write_all(format!("{line}\n").as_bytes()).unwrap()));
        talk(
            "short",
            Box::new(move |line| TcpStream::connect(input).unwrap().write_all(format!("{line}\n").as_bytes()).unwrap()),
        );
        let datagrams = UdpSocket::bind((input.ip(), 0)).unwrap();
        talk("datagram", Box::new(move |line| assert!(datagrams.send_to(line.as_bytes(), input).unwrap() > 0)));
        scope.spawn(|| {
            for command in ["reload", "upgrade", "reload", "upgrade"] {
                std::thread::sleep(Duration::from_millis(50));
                tell(&edge, command);
            }
        });
        let (mut lines, began) = (Vec::new(), Instant::now());
        while lines.len() < 3 * LINES && began.elapsed() < PATIENCE {
            lines.extend(sink.lines_so_far());
            std::thread::sleep(Duration::from_millis(2));
        }
        lines
    });
    for name in ["kept", "short", "datagram"] {
        let found = numbers(&lines, name);
        let missing: Vec<usize> = (0..LINES).filter(|number| !found.contains(number)).collect();
        assert_eq!((found.len(), missing), (LINES, Vec::new()), "{name}");
    }
}

#[test]
fn a_full_section_is_loaded_again() {
    let (front, input, sink) = (free_address(), free_address(), LogServer::start());
    let edge = Edge::start(&format!(
        "frontend site\n bind {front}\n mode http\n timeout client 5s\n http-request return status 200\nlog-forward f\n \
         maxconn 1\n bind {input}\n log {} local0\n",
        sink.address
    ));
    let mut first = TcpStream::connect(input).unwrap();
    first.write_all(b"<14>one\n").unwrap();
    assert_eq!(sink.raw(), "<14>one");
    let mut second = TcpStream::connect(input).unwrap();
    second.write_all(b"<14>another\n").unwrap();
    tell(&edge, "reload");
    first.write_all(b"<14>two\n").unwrap();
    drop(first);
    let mut lines = [sink.raw(), sink.raw()];
    lines.sort();
    assert_eq!(lines, ["<14>another", "<14>two"]);
}
