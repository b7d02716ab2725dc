use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream, UdpSocket},
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::net::UnixDatagram,
    },
    sync::Arc,
    time::{Duration, SystemTime},
};

use haproxycfg::model::{Global, LogDestination, LogLineFormat, LogTarget};
use rustix::pipe::{PipeFlags, pipe_with};

use super::{descriptor::Descriptor, unix::UnixSyslog, *};
use crate::side_by_side::{Haproxy, PATIENCE, free_port, receive, syslog};

#[path = "../../../../fuzz/src/log_lines.rs"]
mod received;

const FORMATS: [(&str, LogLineFormat); 9] = [
    ("", LogLineFormat::Unspecified),
    ("local", LogLineFormat::Local),
    ("rfc3164", LogLineFormat::Rfc3164),
    ("rfc5424", LogLineFormat::Rfc5424),
    ("priority", LogLineFormat::Priority),
    ("short", LogLineFormat::Short),
    ("timed", LogLineFormat::Timed),
    ("iso", LogLineFormat::Iso),
    ("raw", LogLineFormat::Raw),
];

fn target(destination: LogDestination, format: LogLineFormat) -> LogTarget {
    LogTarget { destination, len: 1024, format, sample: None, facility: 16, level: 7, minlevel: 0 }
}

fn udp(socket: &UdpSocket, format: LogLineFormat) -> LogTarget {
    target(LogDestination::Udp(socket.local_addr().unwrap()), format)
}

fn identity(hostname: Option<&str>, pid: u32) -> Identity {
    Identity { tag: "haproxy".into(), hostname: hostname.map(str::to_owned), pid }
}

struct Logger {
    outputs: Arc<Outputs>,
    sender: LogSender,
    targets: LogTargets,
}

impl Logger {
    fn new(lines: &[LogTarget], identity: &Identity) -> Self {
        let outputs = Arc::new(Outputs::new());
        let targets = LogTargets::new(lines, None, identity, &outputs);
        Self { sender: LogSender::new(Arc::clone(&outputs)), outputs, targets }
    }

    fn log(&mut self, level: LogLevel, text: &str) {
        self.sender.queue(&self.targets, &LogLine::new(level, text.as_bytes()), SystemTime::now());
    }
}

/// Dates and process ids differ between two programs, but not their form.
fn mask(line: &str) -> String {
    line.chars().map(|letter| if letter.is_ascii_digit() { '9' } else { letter }).collect()
}

#[test]
fn headers_of_each_format() {
    let cases = [
        ("", None, "<134>Nov  1 00:00:00 haproxy[77]: hello\n"),
        ("", Some("box"), "<134>Nov  1 00:00:00 box haproxy[77]: hello\n"),
        ("local", Some("box"), "<134>Nov  1 00:00:00 haproxy[77]: hello\n"),
        ("rfc3164", None, "<134>Nov  1 00:00:00 localhost haproxy[77]: hello\n"),
        ("rfc3164", Some("box"), "<134>Nov  1 00:00:00 box haproxy[77]: hello\n"),
        ("rfc5424", None, "<134>1 2026-11-01T00:00:00.000000+00:00 - haproxy 77 - - hello\n"),
        ("rfc5424", Some("box"), "<134>1 2026-11-01T00:00:00.000000+00:00 box haproxy 77 - - hello\n"),
        ("priority", Some("box"), "<134>hello\n"),
        ("short", Some("box"), "<6>hello\n"),
        ("timed", Some("box"), "<6>2026-11-01T00:00:00.000000+00:00 hello\n"),
        ("iso", Some("box"), "2026-11-01T00:00:00.000000+00:00 hello\n"),
        ("raw", Some("box"), "hello\n"),
    ];
    // Local time is not ours to choose here: only its form is compared.
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_793_491_200);
    for (name, hostname, expected) in cases {
        let (socket, _) = syslog();
        let format = FORMATS.iter().find(|(known, _)| *known == name).unwrap().1;
        let mut logger = Logger::new(&[udp(&socket, format)], &identity(hostname, 77));
        logger.sender.queue(&logger.targets, &LogLine::new(LogLevel::Info, b"hello\n\0\n"), now);
        logger.sender.flush();
        let line = receive(&socket);
        assert_eq!(mask(&line), mask(expected), "{name}");
        assert_eq!(
            line.split('>').next(),
            expected.split('>').next().filter(|_| line.starts_with('<')).or(line.split('>').next()),
            "{name}"
        );
        assert_eq!(line.contains("77"), expected.contains("77"), "{name}");
    }
}

#[test]
fn structured_data_stands_in_rfc5424_alone() {
    let (socket, _) = syslog();
    for (format, data, expected) in [
        (LogLineFormat::Rfc5424, "[id@1 a=\"b\"]  ", " - [id@1 a=\"b\"] text\n"),
        (LogLineFormat::Rfc5424, "", " - - text\n"),
        (LogLineFormat::Rfc3164, "[id@1 a=\"b\"]", ": text\n"),
    ] {
        let mut logger = Logger::new(&[udp(&socket, format)], &identity(None, 1));
        let line = LogLine { level: LogLevel::Info, text: b"text", structured_data: data.as_bytes() };
        logger.sender.queue(&logger.targets, &line, SystemTime::now());
        logger.sender.flush();
        let line = receive(&socket);
        assert!(line.ends_with(expected), "{line}");
    }
}

#[test]
fn levels_are_filtered_and_lowered() {
    let (socket, _) = syslog();
    let line = LogTarget { level: 5, minlevel: 3, ..udp(&socket, LogLineFormat::Priority) };
    let mut logger = Logger::new(&[line], &identity(None, 1));
    for (level, text) in [
        (LogLevel::Debug, "debug"),
        (LogLevel::Info, "info"),
        (LogLevel::Notice, "notice"),
        (LogLevel::Error, "error"),
        (LogLevel::Emergency, "emergency"),
    ] {
        logger.log(level, text);
    }
    logger.sender.flush();
    let lines: Vec<_> = (0..3).map(|_| receive(&socket)).collect();
    assert_eq!(lines, ["<133>notice\n", "<131>error\n", "<131>emergency\n"]);
}

#[test]
fn samples_take_their_ranges_of_each_round() {
    let (socket, _) = syslog();
    let line = LogTarget { sample: Some((vec![(2, 3), (5, 5)], 5)), ..udp(&socket, LogLineFormat::Raw) };
    let mut logger = Logger::new(&[line], &identity(None, 1));
    for number in 1..=10 {
        logger.log(LogLevel::Info, &number.to_string());
    }
    logger.sender.flush();
    let lines: Vec<_> = (0..6).map(|_| receive(&socket)).collect();
    assert_eq!(lines.concat(), "2\n3\n5\n7\n8\n10\n");
}

#[test]
fn log_tag_of_a_proxy_and_hostname_of_the_machine() {
    let mut global = Global { log_send_hostname: Some(String::new()), ..Global::default() };
    let found = Identity::new(&global);
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    assert_eq!((found.tag.as_str(), found.hostname, found.pid), ("haproxy", Some(name), std::process::id()));
    global.log_tag = Some("web".into());
    global.log_send_hostname = None;
    let found = Identity::new(&global);
    assert_eq!((found.tag.as_str(), found.hostname.is_none()), ("web", true));
    let (socket, _) = syslog();
    let outputs = Arc::new(Outputs::new());
    let targets = LogTargets::new(&[udp(&socket, LogLineFormat::Local)], Some("shop"), &found, &outputs);
    let mut sender = LogSender::new(outputs);
    sender.queue(&targets, &LogLine::new(LogLevel::Info, b"x"), SystemTime::now());
    sender.flush();
    assert!(receive(&socket).contains(&format!(" shop[{}]: x", std::process::id())));
}

/// The same line through each format, from Debian's haproxy and from us.
#[test]
fn haproxy_writes_the_same_lines() {
    let text =
        "hello \"world\" 'of' <logs>, long enough that a target of eighty bytes has to cut it in any of the formats";
    for hostname in [None, Some("box.example")] {
        let sockets: Vec<_> = FORMATS.iter().map(|_| syslog()).collect();
        let (short, short_port) = syslog();
        let mut lines = String::new();
        for ((name, _), (_, port)) in FORMATS.iter().zip(&sockets) {
            let format = if name.is_empty() { String::new() } else { format!("format {name}") };
            lines += &format!("  log 127.0.0.1:{port} {format} local0 info\n");
        }
        let port = free_port();
        let send = hostname.map(|name| format!("  log-send-hostname {name}\n")).unwrap_or_default();
        let configuration = format!(
            "global\n  log-tag haproxy\n{send}  stats socket %FOLDER%/stats\ndefaults\n  timeout connect 5s\n  timeout client 5s\n  \
             timeout server 5s\nfrontend f\n  bind 127.0.0.1:{port}\n  mode http\n{lines}  log 127.0.0.1:{short_port} len 100 \
             format rfc5424 local0 info\n  log stdout len 80 format timed local0 info\n  log-format '{}'\n  log-format-sd \
             '[x@1 y=\"z\"] '\n  http-request return status 200\n",
            text.replace('\'', "\\'").replace("\\'", "'\\''")
        );
        let Some(mut haproxy) = Haproxy::start(&configuration) else { return };
        haproxy.ask("show info");
        let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        client.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        client.read_to_end(&mut Vec::new()).unwrap();

        let identity = identity(hostname, haproxy.pid());
        let ours: Vec<_> = FORMATS.iter().map(|_| syslog()).collect();
        let (ours_short, _) = syslog();
        let (read_end, write_end) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let mut targets: Vec<_> =
            ours.iter().zip(FORMATS).map(|((socket, _), (_, format))| udp(socket, format)).collect();
        targets.push(LogTarget { len: 100, ..udp(&ours_short, LogLineFormat::Rfc5424) });
        let stdout = LogDestination::Descriptor(write_end.as_raw_fd());
        targets.push(LogTarget { len: 80, ..target(stdout, LogLineFormat::Timed) });
        let mut logger = Logger::new(&targets, &identity);
        let line = LogLine { level: LogLevel::Info, text: text.as_bytes(), structured_data: b"[x@1 y=\"z\"] " };
        logger.sender.queue(&logger.targets, &line, SystemTime::now());
        logger.sender.flush();

        let pid = haproxy.pid().to_string();
        for (((theirs, _), (ours, _)), (name, _)) in sockets.iter().zip(&ours).zip(FORMATS) {
            let (theirs, ours) = (receive(theirs), receive(ours));
            assert_eq!(mask(&theirs), mask(&ours), "{name}");
            assert_eq!(theirs.get(..3), ours.get(..3), "{name}: {theirs} {ours}");
            assert_eq!(theirs.contains(&pid), ours.contains(&pid), "{name}: {theirs} {ours}");
        }
        let (theirs, ours) = (receive(&short), receive(&ours_short));
        assert_eq!((mask(&theirs), theirs.len()), (mask(&ours), 101));
        let theirs = haproxy.output().next().unwrap();
        let mut ours = vec![0; 200];
        let count = rustix::io::read(&read_end, &mut ours).unwrap();
        let ours = String::from_utf8_lossy(&ours[..count]).into_owned();
        assert_eq!((mask(&theirs) + "\n", ours.len()), (mask(&ours), 80));
    }
}

#[test]
fn lines_of_one_turn_arrive_in_order() {
    let (socket, _) = syslog();
    let unix_path = std::env::temp_dir().join(format!("tidegate-syslog-{}", std::process::id()));
    let _ = std::fs::remove_file(&unix_path);
    let unix = UnixDatagram::bind(&unix_path).unwrap();
    unix.set_read_timeout(Some(PATIENCE)).unwrap();
    let destination = LogDestination::Unix(unix_path.to_str().unwrap().to_owned());
    let targets = [udp(&socket, LogLineFormat::Raw), target(destination, LogLineFormat::Raw)];
    let mut logger = Logger::new(&targets, &identity(None, 1));
    // A unix socket queues ten datagrams, so the lines are read as they come.
    for first in (0..100).step_by(5) {
        for number in first..first + 5 {
            logger.log(LogLevel::Info, &number.to_string());
        }
        assert!(logger.sender.is_waiting());
        logger.sender.flush();
        assert!(!logger.sender.is_waiting());
        for number in first..first + 5 {
            assert_eq!(receive(&socket), format!("{number}\n"));
            let mut buffer = [0; 100];
            let count = unix.recv(&mut buffer).unwrap();
            assert_eq!(buffer[..count], *format!("{number}\n").as_bytes());
        }
    }
    std::fs::remove_file(unix_path).unwrap();
    assert_eq!((logger.outputs.counters().dropped(), logger.outputs.counters().failed()), (0, 0));
}

#[test]
fn a_worker_sends_at_the_end_of_its_turn() {
    let runtime = tokio::runtime::Builder::new_current_thread().build_local(Default::default()).unwrap();
    runtime.block_on(async {
        let (socket, _) = syslog();
        socket.set_nonblocking(true).unwrap();
        let outputs = Arc::new(Outputs::new());
        let targets = LogTargets::new(&[udp(&socket, LogLineFormat::Raw)], None, &identity(None, 1), &outputs);
        let log = WorkerLog::new(outputs);
        let mut buffer = [0; 100];
        // Before the flusher runs, lines go out at once: none is ever stuck.
        log.send(&targets, &LogLine::new(LogLevel::Info, b"early"), SystemTime::now());
        assert_eq!(socket.recv(&mut buffer).unwrap(), 6);

        tokio::task::spawn_local(log.clone().run());
        tokio::task::yield_now().await;
        for _ in 0..3 {
            for _ in 0..2 {
                log.send(&targets, &LogLine::new(LogLevel::Info, b"line"), SystemTime::now());
            }
            assert!(socket.recv(&mut buffer).is_err(), "not yet");
            tokio::task::yield_now().await;
            assert_eq!(socket.recv(&mut buffer).unwrap(), 5);
            assert_eq!(socket.recv(&mut buffer).unwrap(), 5);
        }
    });
}

fn pipe() -> (OwnedFd, OwnedFd) {
    pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap()
}

fn drain(read_end: &OwnedFd) -> Vec<u8> {
    let (mut all, mut buffer) = (Vec::new(), vec![0; 65_536]);
    while let Ok(count @ 1..) = rustix::io::read(read_end, &mut buffer) {
        all.extend_from_slice(&buffer[..count]);
    }
    all
}

#[test]
fn a_full_pipe_drops_lines_and_never_breaks_one() {
    let (read_end, write_end) = pipe();
    let line =
        LogTarget { len: 20_000, ..target(LogDestination::Descriptor(write_end.as_raw_fd()), LogLineFormat::Raw) };
    let mut logger = Logger::new(&[line], &identity(None, 1));
    let (mut sent, mut arrived) = (0, Vec::new());
    // The original keeps its flags: whoever shares it is not made non-blocking behind his back.
    let flags = rustix::fs::fcntl_getfl(&write_end).unwrap();
    for round in 0..40 {
        for index in 0..40 {
            let length = if index % 7 == 0 { 9_000 } else { 50 + index };
            logger.log(LogLevel::Info, &format!("{sent:06} {}", "x".repeat(length)));
            sent += 1;
        }
        logger.sender.flush();
        if round % 3 == 0 {
            arrived.extend(drain(&read_end));
        }
    }
    arrived.extend(drain(&read_end));
    logger.log(LogLevel::Info, &format!("{sent:06} last"));
    sent += 1;
    logger.sender.flush();
    arrived.extend(drain(&read_end));
    assert_eq!(rustix::fs::fcntl_getfl(&write_end).unwrap(), flags);
    let arrived = String::from_utf8(arrived).unwrap();
    assert!(arrived.ends_with(" last\n"));
    let mut last = None;
    for line in arrived.lines() {
        let (number, text) = line.split_at(6);
        let number: u64 = number.parse().unwrap_or_else(|_| panic!("broken line {line}"));
        assert!(last.is_none_or(|last| number > last));
        assert!(text == " last" || text.trim_start().chars().all(|letter| letter == 'x'), "broken line {line}");
        last = Some(number);
    }
    let dropped = logger.outputs.counters().dropped();
    assert!(dropped > 0);
    assert_eq!(arrived.lines().count() as u64 + dropped, sent, "every line arrived or was counted");
}

#[test]
fn a_full_syslog_socket_drops_lines() {
    let path = std::env::temp_dir().join(format!("tidegate-full-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let unix = UnixDatagram::bind(&path).unwrap();
    let destination = LogDestination::Unix(path.to_str().unwrap().to_owned());
    let mut logger = Logger::new(&[target(destination, LogLineFormat::Raw)], &identity(None, 1));
    for number in 0..2_000 {
        logger.log(LogLevel::Info, &number.to_string());
    }
    logger.sender.flush();
    unix.set_nonblocking(true).unwrap();
    let mut arrived = 0;
    while unix.recv(&mut [0; 100]).is_ok() {
        arrived += 1;
    }
    assert!(arrived > 0);
    assert_eq!(logger.outputs.counters().dropped() + arrived, 2_000);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_syslog_daemon_may_come_late_and_come_back() {
    let path = std::env::temp_dir().join(format!("tidegate-late-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let bind = || {
        let unix = UnixDatagram::bind(&path).unwrap();
        unix.set_nonblocking(true).unwrap();
        unix
    };
    let output = UnixSyslog::open(path.to_str().unwrap().as_bytes().to_vec());
    let send = || output.send([&b"line\n"[..]].into_iter());
    assert_eq!(send().failed, 1, "nobody there");
    // No line is lost once it is there, however soon that is.
    let first = bind();
    assert_eq!(send().failed, 0);
    first.recv(&mut [0; 10]).unwrap();
    drop(first);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(send().failed, 1);
    let second = bind();
    assert_eq!(send().failed, 0);
    second.recv(&mut [0; 10]).unwrap();
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn files_are_appended_to_from_where_they_are() {
    let path = std::env::temp_dir().join(format!("tidegate-file-{}", std::process::id()));
    let mut file = std::fs::File::create(&path).unwrap();
    file.write_all(b"before\n").unwrap();
    let mut logger =
        Logger::new(&[target(LogDestination::Descriptor(file.as_raw_fd()), LogLineFormat::Raw)], &identity(None, 1));
    logger.log(LogLevel::Info, "ours");
    logger.sender.flush();
    file.write_all(b"after\n").unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "before\nours\nafter\n");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn what_cannot_be_sent_is_counted() {
    let nowhere: SocketAddr = "127.0.0.1:1".parse().unwrap();
    let mut logger = Logger::new(
        &[
            target(LogDestination::Udp(nowhere), LogLineFormat::Raw),
            target(LogDestination::Descriptor(987_654), LogLineFormat::Raw),
            target(LogDestination::Unix("/no/such/socket".into()), LogLineFormat::Raw),
            target(LogDestination::Ring("none".into()), LogLineFormat::Raw),
        ],
        &identity(None, 1),
    );
    logger.log(LogLevel::Info, "x");
    logger.sender.flush();
    // Nobody tells a UDP sender that nobody listens.
    assert_eq!(logger.outputs.counters().failed(), 3);
    assert_eq!(logger.outputs.counters().dropped(), 0);
    assert_eq!(Descriptor::copy(-1).write(b"x\n", &[2]).failed, 1);
}

#[test]
fn outputs_of_an_old_configuration_are_closed() {
    let (socket, _) = syslog();
    let outputs = Arc::new(Outputs::new());
    let mut sender = LogSender::new(Arc::clone(&outputs));
    let mut targets = LogTargets::default();
    for _ in 0..5 {
        let next = LogTargets::new(&[udp(&socket, LogLineFormat::Raw)], None, &identity(None, 1), &outputs);
        let old = std::mem::replace(&mut targets, next);
        drop(old);
        sender.queue(&targets, &LogLine::new(LogLevel::Info, b"x"), SystemTime::now());
        sender.flush();
        assert_eq!(receive(&socket), "x\n");
    }
    let open = || outputs.count_open();
    outputs.close_unused();
    assert_eq!(open(), 1, "in use");
    drop(targets);
    assert_eq!(open(), 1, "until it is certain that nobody wants it");
    outputs.close_unused();
    assert_eq!(open(), 0);
    sender.flush();
    assert!(!sender.is_waiting());
}

#[test]
fn messages_of_proxies_go_to_the_log_and_to_the_console() {
    let (socket, _) = syslog();
    let outputs = Arc::new(Outputs::new());
    let targets = LogTargets::new(&[udp(&socket, LogLineFormat::Priority)], None, &identity(None, 1), &outputs);
    let log = AdminLog::new(outputs, false);
    log.proxy_stopped(&targets, "web", 12, 34);
    assert_eq!(receive(&socket), "<132>Proxy web stopped (cumulated conns: FE: 12, BE: 34).\n");
    log.proxy_paused(&targets, haproxycfg::model::ProxyKind::Listen, "web");
    assert_eq!(receive(&socket), "<132>Paused proxy web.\n");
    log.log(&targets, LogLevel::Alert, "Server b/s is DOWN");
    assert_eq!(receive(&socket), "<129>Server b/s is DOWN\n");
}

/// Every cut of every line, lines with a byte changed, and streams of them.
#[test]
fn nonsense_is_text() {
    for line in [
        "<134>Nov 21 10:00:00 host1 app[123]: hello legacy",
        "<13>1 2026-11-21T10:00:00.123456Z host2 app2 456 ID47 [x@1 a=\"b\"] hello 5424",
        "20 <13>octets counted 1<14>Nov  1 10:00:00 h t[1]: two\r\n",
    ] {
        for at in 0..line.len() {
            received::log_lines(&line.as_bytes()[..at]);
            for byte in [b' ', b'[', b'\\', 0xFF, b'9', b'<', b'\n', 0] {
                let mut changed = line.as_bytes().to_vec();
                changed[at] = byte;
                received::log_lines(&changed);
            }
        }
    }
}
