//! What is counted, and what commands on the stats socket do, beside HAProxy where it is installed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    collections::BTreeMap,
    net::{SocketAddr, TcpStream},
    process::Command,
};

use support::{Edge, Origin, Wire, free_address, ok, wait_until};

const DEFAULTS: &str = "defaults\n mode http\n timeout client 2s\n timeout server 1s\n timeout connect 1s\n \
    timeout http-keep-alive 1s\n timeout queue 1s\n option socket-stats\n";

/// Rows by proxy and service, each with its columns by name.
type Rows = BTreeMap<(String, String), BTreeMap<String, String>>;

fn rows(csv: &str) -> Rows {
    let mut lines = csv.lines().filter(|line| !line.is_empty());
    let names: Vec<&str> = lines.next().unwrap().trim_start_matches("# ").split(',').collect();
    lines
        .map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            let row = names.iter().zip(&cells).map(|(name, cell)| ((*name).to_owned(), (*cell).to_owned()));
            ((cells[0].to_owned(), cells[1].to_owned()), row.collect())
        })
        .collect()
}

/// What differs between runs, machines or by design: times, rates and what pools hold (see docs/statistics.md).
fn is_compared(column: &str) -> bool {
    !matches!(
        column,
        "lastchg"
            | "lastsess"
            | "downtime"
            | "check_duration"
            | "last_chk"
            | "addr"
            | "smax"
            | "srv_icur"
            | "idle_conn_cur"
            | "safe_conn_cur"
            | "need_conn_est"
            | "check_status"
            | "chkfail"
            | "check_health"
            | "status"
    ) && !["rate", "time", "time_max", "rate_max"].iter().any(|end| column.ends_with(end))
        && !column.starts_with("h1_")
}

struct Scene {
    edge: Edge,
    fronts: [SocketAddr; 5],
}

impl Scene {
    /// The same scene with ours or with HAProxy; the servers are everybody's.
    fn set(start: impl Fn(&str) -> Option<Edge>, server: SocketAddr, nobody: SocketAddr) -> Option<Self> {
        let fronts = [(); 5].map(|()| free_address());
        let [web, spare, tcp, both, never] = fronts;
        let edge = start(&format!(
            "global\n stats socket %FOLDER%/stats level admin\n nbthread 1\n maxconn 500\n{DEFAULTS}\
             frontend web\n bind {web} name main\n bind {spare}\n http-request deny if {{ path /denied }}\n \
             http-request return status 200 content-type text/plain string x if {{ path /made }}\n \
             use_backend dead if {{ path /dead }}\n use_backend gone if {{ path /gone }}\n \
             use_backend empty if {{ path /empty }}\n default_backend app\n\
             backend app\n server one {server}\n server two {server} weight 2 backup\n server off {server} disabled\n\
             backend dead\n retries 2\n option redispatch\n server d1 {nobody}\n server d2 {server}\n\
             backend gone\n retries 0\n server d1 {nobody}\n\
             backend empty\n fullconn 33\n\
             listen tcp\n mode tcp\n bind {tcp}\n server t1 {server}\n\
             listen both\n bind {both}\n maxconn 33\n stats enable\n stats uri /stats\n server b1 {server}\n\
             frontend never\n mode tcp\n bind {never}\n tcp-request connection reject\n"
        ))?;
        Some(Self { edge, fronts })
    }

    fn rows(&self) -> Rows {
        rows(&self.edge.command("show stat"))
    }

    /// Sends bytes and waits for the end of whatever is answered.
    fn talk(&self, front: usize, bytes: &[u8]) {
        let mut wire = Wire::connect(self.fronts[front]);
        wire.send(bytes);
        wire.read_to_end();
    }

    /// Sends bytes, waits until they have been counted, and leaves.
    fn leave(&self, bytes: &[u8]) {
        let mut wire = Wire::connect(self.fronts[0]);
        wire.send(bytes);
        std::thread::sleep(std::time::Duration::from_millis(100));
    }

    fn play(&self) {
        let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").into_bytes();
        for path in ["/", "/304", "/404", "/503", "/hints", "/denied", "/made", "/dead", "/dead", "/gone", "/empty"] {
            self.talk(0, &get(path));
        }
        for path in ["/broken", "/short", "/nothing", "/late"] {
            self.talk(0, &get(path));
        }
        let kept = b"GET /a HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        self.talk(0, kept);
        self.talk(0, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi");
        self.talk(0, b"NONSENSE\r\n\r\n");
        self.talk(0, b"GET / HTTP/1.1\r\nBad Name: x\r\n\r\n");
        self.talk(0, b"GET / HTTP/1.1\r\nHost: a");
        self.leave(b"");
        self.leave(b"GET / HT");
        self.leave(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n");
        for front in [1, 2, 3] {
            self.talk(front, &get("/"));
        }
        self.talk(3, &get("/stats;csv"));
        // It may be reset before connecting has returned; what ends it counts it first.
        if let Ok(mut refused) = TcpStream::connect(self.fronts[4]) {
            let _ = std::io::Read::read(&mut refused, &mut [0]);
        }
    }
}

fn play_server(request: &support::Answer) -> Vec<u8> {
    let empty = |status: &str| format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n").into_bytes();
    match request.start_line().split(' ').nth(1).unwrap() {
        "/304" => empty("304 Not Modified"),
        "/404" => empty("404 Not Found"),
        "/503" => empty("503 Service Unavailable"),
        "/hints" => [b"HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n".to_vec(), ok("hints")].concat(),
        "/broken" => b"HTTP/1.1 200 OK\r\nBad Name: x\r\nconnection: close\r\n\r\n".to_vec(),
        "/short" => b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\nconnection: close\r\n\r\nabc".to_vec(),
        "/nothing" => b"HTTP/1.1 200 OK\r\nconnection: close".to_vec(),
        "/late" => {
            std::thread::sleep(std::time::Duration::from_millis(1_500));
            ok("late")
        }
        _ => ok("here"),
    }
}

#[test]
fn every_column_counts_what_haproxy_counts() {
    let server = Origin::answering(play_server);
    let nobody = free_address();
    let ours = Scene::set(|config| Some(Edge::start_single(config)), server.address, nobody).unwrap();
    let Some(theirs) = Scene::set(Edge::start_haproxy, server.address, nobody) else { return };
    let header = |scene: &Scene| scene.edge.command("show stat").lines().next().unwrap().to_owned();
    assert_eq!(header(&ours), header(&theirs));
    std::thread::scope(|scope| {
        scope.spawn(|| ours.play());
        theirs.play();
    });
    let mut wrong = Vec::new();
    wait_until("both have counted everything", || {
        let (ours, theirs) = (ours.rows(), theirs.rows());
        assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>());
        wrong.clear();
        for (name, row) in &theirs {
            // The statistics that this one served are longer or shorter than the other's.
            let of_statistics = |column: &str| name.0 == "both" && column == "bout";
            for (column, theirs) in row.iter().filter(|(column, _)| is_compared(column) && !of_statistics(column)) {
                let ours = &ours[name][column];
                if ours != theirs {
                    wrong.push(format!("{}/{} {column}: HAProxy {theirs}, we {ours}", name.0, name.1));
                }
            }
        }
        // Whatever is still different then is different for good.
        wrong.is_empty() || ours[&("app".to_owned(), "BACKEND".to_owned())]["scur"] == "0"
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // The bytes of invalid messages, where they are wrong, and whose they are; ports and buffers are of each run.
    let captured = |scene: &Scene| -> Vec<String> {
        let text = scene.edge.command("show errors");
        let lines = text
            .lines()
            .filter(|line| line.contains("invalid") || line.starts_with("  0") || line.starts_with("  len "));
        let plain = lines.map(|line| line.split_once("] ").map_or(line, |(_, rest)| rest));
        plain.map(|line| line.replace("wraps at 16336", "wraps at 16384")).collect()
    };
    assert_eq!(captured(&ours), captured(&theirs));
    assert!(captured(&ours).len() > 6, "{:?}", captured(&ours));
    let count = |row: &str, column: &str| ours.rows()[&("web".to_owned(), row.to_owned())][column].clone();
    for column in ["bin", "bout"] {
        let [all, main, spare] = ["FRONTEND", "main", "sock-2"].map(|row| count(row, column).parse::<u64>().unwrap());
        assert!(main > spare && spare > 0 && all == main + spare, "{column}: {all} {main} {spare}");
    }
}

#[test]
fn commands_answer_alike_and_take_effect() {
    let (server, other) = (Origin::named("here"), Origin::named("there"));
    for start in [|config: &str| Some(Edge::start(config)), Edge::start_haproxy] {
        let front = free_address();
        let Some(edge) = start(&format!(
            "global\n stats socket %FOLDER%/stats level admin\n set-var proc.a int(5)\n{DEFAULTS}\
             listen web\n bind {front}\n server one {0} check inter 100ms fall 1 rise 1\n server two {0}\n",
            server.address
        )) else {
            continue;
        };
        let value =
            |column: &str| rows(&edge.command("show stat"))[&("web".to_owned(), "one".to_owned())][column].clone();
        let says = |command: &str, answer: &str| assert_eq!(edge.command(command), answer, "{command}");
        wait_until("it is checked", || value("check_status") == "L4OK");
        says("set server web/one check-port 1", "\n");
        wait_until("its checks go where nobody is", || value("status") == "DOWN");
        assert_eq!(Wire::connect(front).get("/").text(), "here", "the other one serves");
        let place = other.address;
        says(&format!("set server web/one check-addr {} port {}", place.ip(), place.port()), "\n");
        wait_until("its checks go where someone is", || value("status") == "UP");
        let states = edge.command("show servers state web");
        let line = states.lines().find(|line| line.contains(" one ")).unwrap();
        assert!(line.contains(&format!(" {} {} ", place.port(), place.ip())), "{line}");
        says("set server web/two check-port 1", "health checks are not enabled on this server\n");
        says("set server web/two health down", "\n");
        wait_until("it is down without checks", || {
            rows(&edge.command("show stat"))[&("web".to_owned(), "two".to_owned())]["status"] == "DOWN"
        });
        says("get var proc.a", "proc.a: type=sint value=<5>\n");
        says(
            "experimental-mode on;set var proc.a expr int(1),add(2);get var proc.a",
            "\n\nproc.a: type=sint value=<3>\n",
        );
        says("experimental-mode on;set var proc.a nosuch", "\nunknown fetch method 'nosuch'\n");
        let info = |name: &str| {
            let info = edge.command("show info");
            info.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")).map(str::to_owned)).unwrap()
        };
        says("set rate-limit connections global 2", "\n");
        says("set rate-limit sessions global 3", "\n");
        assert_eq!((info("ConnRateLimit"), info("SessRateLimit")), ("2".to_owned(), "3".to_owned()));
        let began = std::time::Instant::now();
        for _ in 0..5 {
            assert_eq!(Wire::connect(front).get("/").text(), "here");
        }
        // A bound from below, which holds however slow the machine is.
        assert!(began.elapsed() > std::time::Duration::from_millis(400), "they had to wait");
    }
}

#[test]
fn frontends_pause_and_stop() {
    let server = Origin::named("here");
    for start in [|config: &str| Some(Edge::start(config)), Edge::start_haproxy] {
        let (front, other) = (free_address(), free_address());
        let Some(edge) = start(&format!(
            "global\n stats socket %FOLDER%/stats level admin\n nbthread 2\n{DEFAULTS}\
             frontend web\n bind {front}\n default_backend app\nlisten other\n bind {other}\n server s {0}\n\
             backend app\n server one {0}\n",
            server.address
        )) else {
            continue;
        };
        let status = || rows(&edge.command("show stat"))[&("web".to_owned(), "FRONTEND".to_owned())]["status"].clone();
        let refuses = || (0..10).all(|_| TcpStream::connect(front).is_err());
        let serves = || (0..10).all(|_| TcpStream::connect(front).is_ok());
        let mut held = Wire::connect(front);
        assert_eq!(held.get("/").text(), "here");
        assert_eq!(edge.command("disable frontend web"), "\n");
        wait_until("it refuses", refuses);
        assert_eq!(status(), "PAUSED");
        edge.wait_output("Paused frontend web.");
        assert_eq!(held.get("/").text(), "here", "connections that stand go on");
        assert_eq!(edge.command("disable frontend web"), "All sockets are already disabled.\n\n");
        assert_eq!(edge.command("enable frontend web"), "\n");
        wait_until("it serves", serves);
        edge.wait_output("Resumed frontend web.");
        assert_eq!(status(), "OPEN");
        assert_eq!(Wire::connect(front).get("/").text(), "here");
        let listeners =
            || edge.command("show info").lines().find(|line| line.starts_with("Listeners")).unwrap().to_owned();
        let before = listeners();
        assert_eq!(edge.command("shutdown frontend web"), "\n");
        wait_until("it refuses", refuses);
        edge.wait_output("Proxy web stopped (cumulated conns: FE: ");
        assert_eq!(status(), "STOP");
        assert_ne!(listeners(), before);
        for (command, answer) in [
            ("shutdown", "Frontend was already shut down.\n\n"),
            ("enable", "Frontend was previously shut down, cannot enable.\n\n"),
            ("disable", "Frontend was previously shut down, cannot disable.\n\n"),
        ] {
            assert_eq!(edge.command(&format!("{command} frontend web")), answer);
        }
        assert!(refuses());
        assert_eq!(Wire::connect(other).get("/").text(), "here");
    }
}

/// What `tidegate log` shows of everything so far.
fn log(edge: &Edge, words: &[&str]) -> String {
    let pid = edge.pid().to_string();
    let program = env!("CARGO_BIN_EXE_tidegate");
    let output = Command::new(program).args(["log", "--pid", &pid, "-d", "--no-wait"]).args(words).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn sessions_and_checks_are_recorded() {
    let server = Origin::named("here");
    let front = free_address();
    let edge = Edge::start(&format!(
        "global\n nbthread 2\n{DEFAULTS}listen web\n bind {front} name main\n server one {0} check inter 100ms\n \
         server two {1} check inter 100ms fall 1\n",
        server.address,
        free_address()
    ));
    let mut client = Wire::connect(front);
    for path in ["/first", "/second"] {
        client.get(path);
    }
    let port = client.stream.local_addr().unwrap().port();
    Wire::connect(front).get("/other");
    assert!(!log(&edge, &["-g", "session", "-q", "ReqURL eq \"/first\""]).contains("SessClose"), "it is still open");
    drop(client);
    let mut session = String::new();
    wait_until("the session is over", || {
        session = log(&edge, &["-g", "session", "-q", "ReqURL eq \"/first\""]);
        session.contains("SessClose")
    });
    let begins = |text: &str| session.lines().filter(|line| line.starts_with(&format!("-   {text}"))).count();
    assert_eq!((begins("Begin          sess 0 HTTP/1"), begins("Begin          req ")), (1, 2), "{session}");
    assert_eq!((begins("ReqURL         /first"), begins("ReqURL         /second")), (1, 1), "{session}");
    assert!(!session.contains("/other"), "{session}");
    let opened = format!("SessOpen       127.0.0.1 {port} main {} {}\n", front.ip(), front.port());
    assert!(session.contains(&opened), "{session}");
    let ends: Vec<&str> = session.lines().filter(|line| !line.is_empty()).rev().take(2).collect();
    assert!(ends[0].starts_with("-   End") && ends[1].starts_with("-   SessClose      closed "), "{session}");
    let requests = log(&edge, &["--long"]);
    assert_eq!(requests.matches("*   transaction").count(), 3, "{requests}");
    assert!(!requests.contains("Sess") && !requests.contains("Health"), "{requests}");
    let mut checks = String::new();
    wait_until("checks are recorded", || {
        checks = log(&edge, &["-g", "raw", "-i", "Health"]);
        checks.contains("web/one UP L4OK 0 ") && checks.contains("web/two DOWN L4CON 0 ")
    });
    assert!(checks.contains("Connection refused"), "{checks}");
}

/// Rules for responses see what the exporter says, as in HAProxy.
#[test]
fn rules_change_and_refuse_the_exporters_response() {
    let section = |front| {
        format!(
            "listen site\n mode http\n option httplog\n bind {front}\n http-request use-service prometheus-exporter\n \
             http-response set-header x-rule one\n http-after-response set-header x-after two\n \
             http-response wait-for-body time 1s\n http-response deny deny_status 429 if {{ capture.req.uri -m end secret }}\n"
        )
    };
    let told = support::beside_haproxy(section, |scene| {
        let paths = ["/metrics?scope=global", "/secret"];
        let answers = paths.map(|path| {
            let answer = Wire::connect(scene.front).get(path);
            let (rule, after) = (answer.field("x-rule"), answer.field("x-after"));
            format!("{} {rule:?} {after:?} {}", answer.status(), support::server_and_end(&scene.log.line()))
        });
        answers.to_vec()
    });
    assert!(told[0].starts_with("200 Some(\"one\") Some(\"two\")"), "{told:?}");
    assert!(told[1].starts_with("429 None Some(\"two\")"), "{told:?}");
}

/// The page is for GET, HEAD and POST; what else is asked for at its place goes on to the servers, as in HAProxy.
#[test]
fn other_methods_pass_the_page() {
    let server = Origin::named("app");
    let section = |front| {
        format!(
            "listen site\n mode http\n option httplog\n bind {front}\n stats uri /stats\n server s1 {}\n",
            server.address
        )
    };
    let told = support::beside_haproxy(section, |scene| {
        let methods = ["GET", "PUT", "DELETE", "OPTIONS", "PATCH"];
        let lines = methods.map(|method| {
            let request = format!("{method} /stats HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
            let status = Wire::connect(scene.front).ask(request).status();
            format!("{method} {status} {}", support::server_and_end(&scene.log.line()))
        });
        lines.to_vec()
    });
    assert_eq!(told[0], "GET 200 site/<STATS> LR");
    assert_eq!(told[2], "DELETE 200 site/s1 --");
}
