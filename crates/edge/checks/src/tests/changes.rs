//! What follows from checks: lines in logs, ended sessions, and when the next check is.

use super::*;

/// A listener that can be closed and opened again on the same port.
struct Switch {
    port: u16,
    listener: Option<TcpListener>,
}

impl Switch {
    fn off() -> Self {
        Self { port: free_port(), listener: None }
    }

    fn on(&mut self) {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.set_reuse_address(true).unwrap();
        socket.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], self.port)).into()).unwrap();
        socket.listen(100).unwrap();
        self.listener = Some(socket.into());
    }
}

/// Durations are not compared, and ports are each run's own.
fn mask(line: &str) -> String {
    let Some((before, after)) = line.split_once("check duration: ") else { return line.trim_end().to_owned() };
    let rest = after.trim_start_matches(|letter: char| letter.is_ascii_digit());
    format!("{before}check duration: N{rest}").trim_end().to_owned()
}

/// The log of servers that come and go: the same lines at the same levels, in the same order for each server.
#[test]
fn log_lines_of_servers() {
    let scenario = |ours: bool| -> Option<BTreeMap<String, Vec<String>>> {
        let (log, log_port) = syslog();
        let (mut first, mut second, mut backup) = (Switch::off(), Switch::off(), Switch::off());
        backup.on();
        let text = format!(
            "global\n  spread-checks 0\ndefaults\n  mode http\n  log 127.0.0.1:{log_port} len 4096 format priority local0\n  \
             timeout connect 5s\n  timeout server 5s\n  timeout client 5s\n  default-server inter 200ms rise 2 fall 2\n\
             backend b\n  server one 127.0.0.1:{} check\n  server two 127.0.0.1:{} check weight 0\n  \
             server spare 127.0.0.1:{} check backup\n\
             backend told\n  option log-health-checks\n  server one 127.0.0.1:{} check\n\
             backend follower\n  server f 127.0.0.1:9 track b/one\n  server g 127.0.0.1:9 track b/spare\n",
            first.port, second.port, backup.port, first.port,
        );
        let mut lines: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut step = 0;
        let take = |lines: &mut BTreeMap<String, Vec<String>>, wait: bool| {
            log.set_nonblocking(!wait).unwrap();
            let mut room = [0; 5_000];
            loop {
                let count = match log.recv(&mut room) {
                    Ok(count) => count,
                    Err(_) if wait => panic!("no more lines: {lines:#?}"),
                    Err(_) => return,
                };
                let line = mask(&String::from_utf8_lossy(&room[..count]));
                let server = line.split(' ').find(|word| word.contains('/')).unwrap_or("backends").to_owned();
                lines.entry(server).or_default().push(line);
                if wait {
                    return;
                }
            }
        };
        // Opens and closes servers when the log tells that the stage before is reached by all.
        let mut advance = |lines: &BTreeMap<String, Vec<String>>| {
            let told = |server: &str, text: &str| {
                lines.get(server).is_some_and(|lines| lines.last().is_some_and(|line| line.contains(text)))
            };
            let all = |text: &str| told("b/one", text) && told("follower/f", text) && told("told/one", text);
            match step {
                0 if all(" is DOWN") && told("b/two", " is DOWN") => {
                    first.on();
                    second.on();
                }
                1 if all(" is UP") && told("b/two", " is UP") => {
                    first.listener = None;
                    backup.listener = None;
                }
                2 if all(" is DOWN") && told("b/spare", " is DOWN") && told("follower/g", " is DOWN") => {}
                _ => return false,
            }
            step += 1;
            step == 3
        };
        if ours {
            Ours::new(&text).check_until(|_| {
                take(&mut lines, false);
                advance(&lines)
            });
        } else {
            // Without any listener haproxy would not stay.
            let _haproxy = Haproxy::start(&text.replacen("global\n", "global\n  stats socket %FOLDER%/stats\n", 1))?;
            while !advance(&lines) {
                take(&mut lines, true);
            }
        }
        Some(lines)
    };
    let ours = scenario(true).unwrap();
    assert_eq!(
        ours["b/one"].first().map(String::as_str),
        Some(
            "<129>Server b/one is DOWN, reason: Layer4 connection problem, info: \"Connection refused\", check duration: \
             Nms. 0 active and 1 backup servers left. Running on backup. 0 sessions active, 0 requeued, 0 remaining in \
             queue."
        )
    );
    let Some(theirs) = scenario(false) else { return };
    // How many servers are left depends on which of them was checked first, and whether the last line about a backend is
    // still seen on when the test stops reading.
    let compared = |lines: &BTreeMap<String, Vec<String>>| -> BTreeMap<String, Vec<String>> {
        let without_counts = |line: &String| line.split(". ").next().unwrap_or_default().to_owned();
        let mut lines: BTreeMap<_, Vec<_>> =
            lines.iter().map(|(server, lines)| (server.clone(), lines.iter().map(without_counts).collect())).collect();
        if let Some(backends) = lines.get_mut("backends") {
            backends.sort();
            backends.dedup();
        }
        lines
    };
    assert_eq!(compared(&ours), compared(&theirs));
}

fn quiet_defaults(words: &str) -> String {
    format!(
        "defaults\n  mode http\n  timeout connect 5s\n  timeout server 5s\n  timeout client 5s\n  default-server {words}\n"
    )
}

#[test]
fn sessions_are_ended_when_servers_change() {
    let mut first = Switch::off();
    let mut spare = Switch::off();
    spare.on();
    let ours = Ours::new(&format!(
        "{}backend b\n  server one 127.0.0.1:{} check on-marked-down shutdown-sessions on-marked-up \
         shutdown-backup-sessions\n  server spare 127.0.0.1:{} check backup\n",
        quiet_defaults("inter 20ms rise 1 fall 1"),
        first.port,
        spare.port
    ));
    let epoch = |ours: &Ours, place: usize| {
        let proxy = ours.instance.backend("b").unwrap();
        proxy.servers.get(place).unwrap().shut_mark() >> 8
    };
    ours.check_until(|ours| ours.stats("b", "one").status.to_string() == "DOWN");
    assert_eq!((epoch(&ours, 0), epoch(&ours, 1)), (1, 0), "sessions of the server that went down");
    let stats = ours.stats("b", "one");
    assert!(stats.failed_checks >= 1);
    assert_eq!(stats.went_down, 1);
    first.on();
    ours.check_until(|ours| ours.stats("b", "one").status.to_string() == "UP");
    assert_eq!((epoch(&ours, 0), epoch(&ours, 1)), (1, 1), "sessions of the backup server");
}

/// Errors seen in the traffic bring a check forward that would have been due in an hour.
#[test]
fn errors_in_the_traffic_make_a_check_urgent() {
    let mut server = Switch::off();
    server.on();
    let ours = Ours::new(&format!(
        "{}backend b\n  server s 127.0.0.1:{} check observe layer7 error-limit 3 on-error fastinter\n",
        quiet_defaults("inter 1h fastinter 50ms rise 1 fall 1"),
        server.port
    ));
    let checks = std::cell::Cell::new(0);
    let first_check = |ours: &Ours| ours.outcome("b").is_some();
    ours.check_until(|ours| {
        if !first_check(ours) {
            return false;
        }
        if checks.replace(checks.get() + 1) == 0 {
            server.listener = None;
            let proxy = ours.instance.backend("b").unwrap();
            for _ in 0..3 {
                let now_ms = ours.instance.process.milliseconds(Instant::now());
                let seen = balance::Observation::ResponseStatus;
                proxy.with_farm(|farm| farm.observe(balance::ServerId::new(0), seen, now_ms));
            }
        }
        ours.stats("b", "s").status.to_string() == "DOWN"
    });
}

#[test]
fn many_servers_are_spread_over_time_and_all_checked() {
    let port = serve(|mut stream| drop(stream.read(&mut [0; 10])));
    let mut text = quiet_defaults("inter 1s");
    for backend in 0..10 {
        text += &format!("backend b{backend}\n");
        for server in 0..100 {
            text += &format!("  server s{server} 127.0.0.1:{port} check\n");
        }
    }
    let ours = Ours::new(&text);
    prepare(&ours.instance);
    let due: Vec<u64> = ours
        .instance
        .proxies
        .iter()
        .flat_map(|proxy| {
            let farm = proxy.farm();
            farm.servers()
                .map(|server| farm.check_due_ms(server, balance::CheckKind::Health).unwrap())
                .collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(due.len(), 1_000);
    assert!(due.is_sorted());
    assert!(due.windows(2).all(|pair| pair[1] - pair[0] <= 1), "one after the other");
    assert!((990..1_100).contains(&(due[999] - due[0])), "over one interval");
    ours.check_until(|ours| {
        ours.instance.proxies.iter().all(|proxy| {
            let farm = proxy.farm();
            farm.servers().all(|server| {
                let check = farm.server_stats(server, 0).unwrap().check.unwrap();
                check.status == CheckStatus::Layer4Ok
            })
        })
    });
}

/// Each server is checked by one worker, whichever; what is dropped checks no more.
#[test]
fn servers_belong_to_one_worker_each() {
    let port = serve(|mut stream| drop(stream.read(&mut [0; 10])));
    let mut text = quiet_defaults("inter 20ms");
    text += "backend b\n";
    for server in 0..30 {
        text += &format!("  server s{server} 127.0.0.1:{port} check\n");
    }
    let ours = Ours::new(&text);
    let checked = |ours: &Ours| {
        let farm = ours.instance.proxies[0].farm();
        let done = |server| farm.server_stats(server, 0).unwrap().check.unwrap().status == CheckStatus::Layer4Ok;
        farm.servers().filter(|server| done(*server)).count()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default()).unwrap();
    runtime.block_on(async {
        prepare(&ours.instance);
        let mut counts = Vec::new();
        for worker in 0..3 {
            let checks = start(&ours.instance, &ours.board, None, worker, 3);
            let patience = Instant::now() + PATIENCE;
            while checked(&ours) < 10 * (worker + 1) {
                assert!(Instant::now() < patience);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            tokio::time::sleep(Duration::from_millis(60)).await;
            drop(checks);
            tokio::task::yield_now().await;
            counts.push(checked(&ours));
        }
        assert_eq!(counts, [10, 20, 30]);
    });
}
