//! Rendering of the sample edge, and comparison of the tables with the real HAProxy's.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::net::UnixStream,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use super::{
    columns::{COLUMNS, Column},
    info,
    render::{self, prometheus},
    row::{Only, Selection},
    samples::snapshot,
};

const LEGENDS: Selection = Selection { legends: true, hide_maintenance: false, hide_down: false, only: None };

fn cells<'a>(csv: &'a str, proxy: &str, service: &str) -> BTreeMap<&'a str, &'a str> {
    let mut lines = csv.lines();
    let header = lines.next().unwrap().trim_start_matches("# ").split(',');
    let start = format!("{proxy},{service},");
    let line = lines.find(|line| line.starts_with(&start)).unwrap_or_else(|| panic!("no row {start} in {csv}"));
    header.zip(line.split(',')).collect()
}

#[test]
fn csv_rows() {
    let csv = render::csv(&snapshot().proxies, LEGENDS);
    let names: Vec<_> = csv.lines().skip(1).map(|line| line.split(',').take(2).collect::<Vec<_>>().join("/")).collect();
    let expected = [
        "web/FRONTEND",
        "web/main",
        "web/sock-2",
        "app/s1",
        "app/s2",
        "app/s3",
        "app/s4",
        "app/s5",
        "app/BACKEND",
        "tcp/FRONTEND",
        "tcp/BACKEND",
    ];
    assert_eq!(names, expected);

    let s1 = cells(&csv, "app", "s1");
    for (column, value) in [
        ("scur", "3"),
        ("smax", "8"),
        ("slim", "20"),
        ("stot", "10"),
        ("status", "UP"),
        ("weight", "10"),
        ("act", "1"),
        ("bck", "0"),
        ("chkfail", "0"),
        ("type", "2"),
        ("iid", "3"),
        ("sid", "1"),
        ("rate", "4"),
        ("rate_max", "9"),
        ("check_status", "L7OK"),
        ("check_code", "200"),
        ("last_chk", "OK"),
        ("check_desc", "Layer7 check passed"),
        ("check_rise", "2"),
        ("check_fall", "3"),
        ("check_health", "4"),
        ("hrsp_2xx", "19"),
        ("hrsp_5xx", "1"),
        ("addr", "127.0.0.1:8080"),
        ("cookie", "a"),
        ("qtime", "1"),
        ("ttime_max", "105"),
        ("hanafail", "0"),
        ("lastsess", "2"),
        ("src_ilim", ""),
        ("throttle", ""),
        ("tracked", ""),
        ("req_rate", ""),
        ("-", "-"),
    ] {
        assert_eq!(s1.get(column), Some(&value), "{column}");
    }
    let s4 = cells(&csv, "app", "s4");
    for (column, value) in
        [("status", "MAINT"), ("chkfail", ""), ("downtime", ""), ("check_status", ""), ("lastsess", "-1")]
    {
        assert_eq!(s4.get(column), Some(&value), "{column}");
    }
    assert_eq!(cells(&csv, "app", "s2").get("status"), Some(&"UP 2/3"));
    assert_eq!(cells(&csv, "app", "s5").get("status"), Some(&"no check"));
    assert!(csv.contains("\"Service \"\"Unavailable\"\", sorry\""));
    let backend = cells(&csv, "app", "BACKEND");
    for (column, value) in
        [("act", "2"), ("bck", "1"), ("weight", "11"), ("uweight", "11"), ("algo", "roundrobin"), ("slim", "100")]
    {
        assert_eq!(backend.get(column), Some(&value), "{column}");
    }
    let tcp = cells(&csv, "tcp", "BACKEND");
    assert_eq!((tcp["status"], tcp["hrsp_2xx"], tcp["downtime"]), ("UP", "", ""));
    assert_eq!(cells(&csv, "web", "sock-2")["addr"], "unix");
}

#[test]
fn what_is_hidden() {
    let proxies = snapshot().proxies;
    let plain = render::csv(&proxies, Selection::default());
    assert_eq!(cells(&plain, "app", "s1")["addr"], "");
    assert_eq!(cells(&plain, "app", "BACKEND")["algo"], "");

    let no_maint = render::csv(&proxies, Selection { hide_maintenance: true, ..LEGENDS });
    assert!(!no_maint.contains("app,s4,") && no_maint.contains("app,s3,"));
    assert_eq!(cells(&no_maint, "app", "BACKEND")["status"], "UP (3/5)");
    let up = render::csv(&proxies, Selection { hide_down: true, ..LEGENDS });
    assert!(!up.contains("app,s4,") && !up.contains("app,s3,") && up.contains("app,s2,"));

    let only = |proxy, types, service| {
        let only = Some(Only { proxy, types, service });
        render::csv(&proxies, Selection { only, ..LEGENDS }).lines().count() - 1
    };
    assert_eq!(only(-1, 1, -1), 2, "frontends");
    assert_eq!(only(3, 4, -1), 5, "servers of one proxy");
    assert_eq!(only(3, 4, 2), 1, "one server");
    assert_eq!(only(2, 8, 1), 1, "one listener");
    assert_eq!(only(-1, -1, -1), 11);
    assert_eq!(only(99, -1, -1), 0);
}

#[test]
fn typed_lines() {
    let typed = render::typed(&snapshot().proxies, LEGENDS, false);
    for line in [
        "F.2.0.0.pxname.1:KNS:str:web",
        "F.2.0.33.rate.1:MRP:u32:20",
        "B.3.0.33.rate.1:MGP:u32:20",
        "S.3.1.6.slim.1:CLP:u32:20",
        "S.3.1.19.act.1:SGP:u32:1",
        "B.3.0.19.act.1:MGP:u32:2",
        "S.3.4.55.lastsess.1:MAP:s32:-1",
        "L.2.1.73.addr.1:CGS:str:0.0.0.0:80",
    ] {
        assert!(typed.lines().any(|found| found == line), "{line}");
    }
    let described = render::typed(&snapshot().proxies, LEGENDS, true);
    assert!(described.contains("S.3.1.5.smax.1:MMP:u32:8:\"Most sessions at a time\"\n"));
}

#[test]
fn json_is_json() {
    let json: serde_json::Value = serde_json::from_str(&render::json(&snapshot().proxies, LEGENDS)).unwrap();
    let rows = json.as_array().unwrap();
    assert_eq!(rows.len(), 11);
    let s3 = rows.iter().find(|row| row[1]["value"]["value"] == "s3").unwrap();
    assert_eq!((&s3[0]["objType"], &s3[0]["proxyId"], &s3[0]["id"]), (&"Server".into(), &3.into(), &3.into()));
    let last = s3.as_array().unwrap().iter().find(|value| value["field"]["name"] == "last_chk").unwrap();
    assert_eq!(last["value"]["value"], "Service \"Unavailable\", sorry");
    let schema: serde_json::Value = serde_json::from_str(render::SCHEMA).unwrap();
    assert!(schema["definitions"]["typedValue"].is_object());
    assert!(!render::SCHEMA.ends_with('\n'));
}

#[test]
fn prometheus_samples() {
    let text = prometheus::prometheus(&snapshot(), prometheus::Filter::ALL);
    for line in [
        "haproxy_process_nbthread 2",
        "haproxy_process_build_info{version=\"0.1.0\"} 1",
        "haproxy_frontend_http_requests_total{proxy=\"web\"} 300",
        "haproxy_frontend_http_responses_total{proxy=\"web\",code=\"5xx\"} 1",
        "haproxy_frontend_status{proxy=\"web\",state=\"UP\"} 1",
        "haproxy_listener_status{proxy=\"web\",listener=\"main\",state=\"OPEN\"} 1",
        "haproxy_server_status{proxy=\"app\",server=\"s3\",state=\"DOWN\"} 1",
        "haproxy_server_status{proxy=\"app\",server=\"s4\",state=\"MAINT\"} 1",
        "haproxy_server_check_status{proxy=\"app\",server=\"s3\",state=\"L7STS\"} 1",
        "haproxy_server_check_code{proxy=\"app\",server=\"s2\"} 0",
        "haproxy_server_limit_sessions{proxy=\"app\",server=\"s2\"} NaN",
        "haproxy_server_response_time_average_seconds{proxy=\"app\",server=\"s1\"} 0.030000",
        "haproxy_backend_agg_server_status{proxy=\"app\",state=\"UP\"} 3",
        "haproxy_backend_agg_check_status{proxy=\"app\",state=\"L4CON\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}");
    }
    assert!(!text.contains("haproxy_frontend_http_requests_total{proxy=\"tcp\"}"), "TCP has no requests");
    let mut headers = BTreeSet::new();
    for line in text.lines().filter(|line| line.starts_with("# TYPE")) {
        assert!(headers.insert(line), "{line} comes twice");
    }
}

#[test]
fn prometheus_scopes() {
    let count = |query: &str, prefix: &str| {
        let text = prometheus::prometheus(&snapshot(), prometheus::Filter::parse(query.as_bytes()).unwrap());
        text.lines().filter(|line| line.starts_with(prefix)).count()
    };
    assert!(count("", "haproxy_server_") > 0 && count("", "haproxy_process_") > 0);
    assert!(count("scope=server", "haproxy_server_") > 0);
    assert_eq!(count("scope=server", "haproxy_process_"), 0);
    assert!(count("scope=server&scope=*", "haproxy_process_") > 0);
    assert_eq!(count("scope=", "haproxy_"), 0);
    assert_eq!(count("scope=s%65rver&no-maint#x", "haproxy_server_status{proxy=\"app\",server=\"s4\""), 0);
    for bad in ["scope", "scope=all", "scope=%zz"] {
        assert_eq!(prometheus::Filter::parse(bad.as_bytes()), Err(prometheus::BadQuery), "{bad}");
    }
}

/// HAProxy, to compare our tables with its own.
struct Peer {
    child: Child,
    folder: std::path::PathBuf,
    metrics_port: u16,
}

const PEER: &str = "/usr/sbin/haproxy";

impl Peer {
    /// Starts it with every kind of object; `None` where it is not installed.
    fn start(name: &str) -> Option<Self> {
        if !Path::new(PEER).exists() {
            eprintln!("{PEER} is not installed: nothing to compare with");
            return None;
        }
        let folder = std::env::temp_dir().join(format!("tidegate-stats-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let free_port = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (web, metrics_port, closed) = (free_port(), free_port(), free_port());
        let config = format!(
            "global\n stats socket {0}/socket level admin\n description a description\n\
             defaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 1s\n\
             frontend web\n bind 127.0.0.1:{web}\n option socket-stats\n default_backend app\n\
             backend app\n option httpchk\n cookie C insert\n stick-table type ip size 1k\n\
             server s1 127.0.0.1:{closed} check cookie a maxconn 5 maxqueue 3 pool-max-conn 7 observe layer7 on-error mark-down\n\
             server s2 127.0.0.1:{closed} track app/s1\n server s3 127.0.0.1:{closed} disabled\n\
             frontend metrics\n bind 127.0.0.1:{metrics_port}\n http-request use-service prometheus-exporter\n",
            folder.display()
        );
        let file = folder.join("haproxy.cfg");
        std::fs::write(&file, config).unwrap();
        let child = Command::new(PEER)
            .args(["-db", "-f"])
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let peer = Self { child, folder, metrics_port };
        for _ in 0..200 {
            if UnixStream::connect(peer.folder.join("socket")).is_ok() {
                return Some(peer);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("HAProxy does not open its socket");
    }

    fn command(&self, command: &str) -> String {
        let mut stream = UnixStream::connect(self.folder.join("socket")).unwrap();
        writeln!(stream, "{command}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn metrics(&self) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.metrics_port)).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Position, name, tags and type of each value of typed output by its object's letter (none for `show info`).
fn typed_kinds(typed: &str) -> BTreeSet<String> {
    let kind = |line: &str| {
        let mut parts = line.splitn(4, ':');
        let (key, tags, kind) = (parts.next()?, parts.next()?, parts.next()?);
        let key: Vec<_> = key.split('.').collect();
        let [letter, _, _, position, name, _] = key[..] else { return Some(format!("{key:?} {tags} {kind}")) };
        Some(format!("{letter} {position} {name} {tags} {kind}"))
    };
    typed.lines().filter_map(kind).collect()
}

#[test]
fn columns_are_haproxys() {
    let Some(peer) = Peer::start("columns") else { return };
    let theirs = peer.command("show stat");
    let ours = render::csv(&[], Selection::default());
    let own = |csv: &str| csv.lines().next().unwrap().split_once(",-,").unwrap().0.to_owned();
    assert_eq!(own(&ours), own(&theirs), "names and order of the columns");

    // What HAProxy's modules add behind its own columns belongs to TLS and HTTP/2.
    let theirs = typed_kinds(&peer.command("show stat typed"));
    let mut compared = 0;
    for column in Column::ALL {
        let definition = column.definition();
        for object in ["F", "L", "S", "B"] {
            let start = format!("{object} {} {} ", column.position(), definition.name);
            let Some(line) = theirs.iter().find(|line| line.starts_with(&start)) else { continue };
            let object = match object {
                "F" => super::columns::Object::Frontend,
                "L" => super::columns::Object::Listener,
                "S" => super::columns::Object::Server,
                _ => super::columns::Object::Backend,
            };
            assert!(definition.objects.contains(object), "{line}");
            let mut tags = String::new();
            column.tags(object).write_letters(&mut tags);
            assert!(line.starts_with(&format!("{start}{tags} ")), "{line}, ours {tags}");
            compared += 1;
        }
    }
    assert!(compared > COLUMNS + COLUMNS / 2, "only {compared} values were compared");
    let typed = typed_kinds(&render::typed(&snapshot().proxies, LEGENDS, false));
    let unknown: Vec<_> = typed.iter().filter(|kind| !theirs.contains(*kind)).collect();
    // The peer's only checked server never answered, so it has no code.
    assert!(unknown.iter().all(|kind| kind.contains("check_code")), "{unknown:?}");
}

#[test]
fn info_fields_are_haproxys() {
    let Some(peer) = Peer::start("info") else { return };
    let mut process = snapshot().process;
    process.description = Some("a description".to_owned());
    let ours = info::show_info(&process, info::InfoForm::Typed, false, false);
    assert_eq!(typed_kinds(&ours), typed_kinds(&peer.command("show info typed")));
    let names =
        |plain: &str| plain.lines().filter_map(|line| Some(line.split_once(": ")?.0.to_owned())).collect::<Vec<_>>();
    let plain = info::show_info(&process, info::InfoForm::Plain, false, false);
    assert_eq!(names(&plain), names(&peer.command("show info")));
}

#[test]
fn metrics_are_haproxys() {
    let Some(peer) = Peer::start("metrics") else { return };
    let types = |text: &str| {
        let lines = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).map(str::to_owned);
        lines.collect::<Vec<_>>()
    };
    assert_eq!(types(&prometheus::prometheus(&snapshot(), prometheus::Filter::ALL)), types(&peer.metrics()));
}
