//! HTTP/2 from real clients, in clear text and over TLS.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{io::Write as _, net::SocketAddr, process::Command};

use rustix::process::Signal;
use support::{Edge, Origin, Scene, beside_haproxy, free_address, ok, wait_until};

/// What curl prints, which speaks HTTP/2 from the first byte on.
fn curl(arguments: &[&str], body: &[u8]) -> String {
    let mut command = Command::new("curl");
    command.args(["--silent", "--max-time", "10", "--http2-prior-knowledge", "--include"]).args(arguments);
    let child = command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn();
    let mut child = child.expect("curl runs");
    let mut stdin = child.stdin.take().unwrap();
    let body = body.to_vec();
    let writing = std::thread::spawn(move || stdin.write_all(&body));
    let output = child.wait_with_output().unwrap();
    let _ = writing.join();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A server that tells what it got.
fn telling() -> Origin {
    Origin::answering(|request| match request.head.split(' ').nth(1) {
        Some("/chunks") => {
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\nx-check: ok\r\n\r\n"
                .to_vec()
        }
        Some("/close") => b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nup to the end".to_vec(),
        _ => {
            let head = request.head.replace("\r\n", "|");
            ok(&format!(
                "{head}{} bytes, sum {}",
                request.body.len(),
                request.body.iter().map(|b| u64::from(*b)).sum::<u64>()
            ))
        }
    })
}

fn site(server: SocketAddr) -> impl Fn(SocketAddr) -> String {
    move |front| {
        format!(
            "frontend site\n mode http\n bind {front} proto h2\n option httplog\n\
             log-format \"%ST %B %U %{{+Q}}r %HM %HP %HV %[fc_http_major] %[var(txn.seen)] %ts\"\n\
             http-request set-var(txn.url) url\n\
             http-request set-var-fmt(txn.seen) \"%[url] %[req.ver] %[path] %[base] %[http_first_req] %[req.hdr(cookie)]\"\n\
             http-request return status 200 content-type text/plain string hello if {{ path /own }}\n\
             http-request deny if {{ path /denied }}\n\
             default_backend servers\n\
             backend servers\n mode http\n server s1 {server}\n"
        )
    }
}

#[test]
fn pages_are_served_and_told_of_as_by_haproxy() {
    let origin = telling();
    let told = beside_haproxy(site(origin.address), |scene: &Scene| {
        let url = |path: &str| format!("http://{}{path}", scene.front);
        let body = "0123456789".repeat(30_000);
        let mut told = Vec::new();
        for (arguments, body) in [
            (vec!["/own"], ""),
            (vec!["/"], ""),
            (vec!["/a?b=c", "-H", "Cookie: a=1", "-H", "X-Own: y"], ""),
            (vec!["/", "-I"], ""),
            (vec!["/", "--data-binary", "@-"], body.as_str()),
            (vec!["/", "-X", "POST", "-T", "-"], body.as_str()),
            (vec!["/chunks"], ""),
            (vec!["/close"], ""),
            (vec!["/denied"], ""),
        ] {
            let url = url(arguments[0]);
            let arguments: Vec<&str> = [&url[..]].into_iter().chain(arguments[1..].iter().copied()).collect();
            let answer = curl(&arguments, body.as_bytes()).replace(&scene.front.to_string(), "SITE");
            let mut line = scene.log.line().replace(&scene.front.to_string(), "SITE");
            if arguments[0].ends_with("/chunks") || arguments.contains(&"-T") {
                // Trailers count for HAProxy, whatever the protocol, and the end of chunks does or does not.
                line = line.split(' ').skip(3).collect::<Vec<_>>().join(" ");
            }
            told.push(format!("{answer}\n{line}"));
        }
        told
    });
    assert!(told[0].starts_with("HTTP/2 200 \r\n") && told[0].contains("\r\n\r\nhello\n"), "{}", told[0]);
    assert!(told[4].contains("300000 bytes, sum 15750000") && told[5].contains("300000 bytes, sum 15750000"));
    assert!(told[6].contains("abcde") && told[6].contains("x-check: ok"), "{}", told[6]);
}

#[test]
fn a_preface_makes_http2_of_a_connection_unless_it_may_not() {
    let front = free_address();
    let (never, only, posts) = (free_address(), free_address(), free_address());
    let origin = telling();
    let server = origin.address;
    let _edge = Edge::start_single(&format!(
        "defaults\n mode http\n timeout client 5s\n\
         frontend either\n bind {front}\n bind {only} proto h1\n http-request return status 200 content-type text/plain lf-string %[fc_http_major]\n\
         listen posts\n bind {posts}\n server s1 {server}\n\
         frontend never\n bind {never}\n option disable-h2-upgrade\n http-request return status 200\n"
    ));
    assert!(curl(&[&format!("http://{front}/")], b"").contains("HTTP/2 200"));
    // What comes with the preface fills the buffer before anybody knows that it is one.
    let posted = curl(&[&format!("http://{posts}/"), "--data-binary", "@-"], &[b'x'; 60_000]);
    assert!(posted.contains("60000 bytes"), "{posted}");
    let plain = Command::new("curl").args(["--silent", "--http1.1", &format!("http://{front}/")]).output().unwrap();
    assert_eq!(plain.stdout, b"1");
    for refusing in [never, only] {
        let mut command = Command::new("curl");
        let url = format!("http://{refusing}/");
        let output = command.args(["--silent", "--max-time", "5", "--http2-prior-knowledge", &url]).output().unwrap();
        assert!(!output.status.success(), "{output:?}");
    }
}

/// The lines of h2load's report.
fn h2load(arguments: &[&str]) -> String {
    let output = Command::new("h2load").args(arguments).output().expect("h2load runs");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn no_request_is_lost_in_a_reload() {
    let (origin, front) = (telling(), free_address());
    let edge = Edge::start(&format!(
        "defaults\n mode http\n timeout client 20s\n timeout server 20s\n timeout connect 5s\n\
         frontend site\n bind {front} proto h2\n default_backend servers\n\
         backend servers\n server s1 {} maxconn 8\n",
        origin.address
    ));
    let url = format!("http://{front}/");
    let loading = std::thread::spawn(move || h2load(&["-n", "6000", "-c", "4", "-m", "16", &url]));
    for _ in 0..3 {
        let before = origin.heads().len();
        wait_until("requests go on", || origin.heads().len() > before + 300);
        edge.signal(Signal::USR2);
    }
    let report = loading.join().unwrap();
    assert!(report.contains("6000 succeeded, 0 failed, 0 errored"), "{report}");
}

#[test]
fn a_slow_download_outlasts_an_upgrade() {
    const BYTES: usize = 6 << 20;
    let body = "0123456789abcdef".repeat(BYTES / 16);
    let (sent, front) = (body.clone(), free_address());
    let origin = Origin::answering(move |_| ok(&sent));
    let edge = Edge::start(&format!(
        "defaults\n mode http\n timeout client 20s\n timeout server 20s\n timeout connect 5s\n\
         listen site\n bind {front} proto h2\n server s1 {}\n",
        origin.address
    ));
    let url = format!("http://{front}/");
    let loading: Vec<_> = (0..4)
        .map(|_| {
            let url = url.clone();
            std::thread::spawn(move || curl(&[&url, "--limit-rate", "2M"], b""))
        })
        .collect();
    wait_until("all downloads have begun", || origin.heads().len() == 4);
    let former = edge.workers();
    let mut program = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let output = program.args(["upgrade", "--pid", &edge.pid().to_string()]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(loading.iter().all(|download| !download.is_finished()), "they are still under way");
    for download in loading {
        let got = download.join().unwrap();
        assert!(got.ends_with(&body), "{} bytes", got.len());
    }
    wait_until("the former worker has ended", || edge.workers() != former && edge.workers().len() == 1);
}

/// A certificate with its key for `localhost`, in a file that lies in this folder.
fn certificate(folder: &std::path::Path) -> String {
    let (key, crt) = (folder.join("key.pem"), folder.join("crt.pem"));
    let mut command = Command::new("openssl");
    command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]);
    command.args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout"]).arg(&key);
    let output = command.arg("-out").arg(&crt).output().expect("openssl runs");
    assert!(output.status.success(), "{output:?}");
    let both = folder.join("site.pem");
    std::fs::write(&both, [std::fs::read(crt).unwrap(), std::fs::read(key).unwrap()].concat()).unwrap();
    both.to_str().unwrap().to_owned()
}

#[test]
fn who_has_agreed_on_it_speaks_it_over_tls() {
    let (origin, front, folder) = (telling(), free_address(), tempfile::tempdir().unwrap());
    let edge = Edge::start(&format!(
        "defaults\n mode http\n timeout client 20s\n timeout server 20s\n timeout connect 5s\n\
         frontend site\n bind {front} ssl crt {} alpn h2,http/1.1\n default_backend servers\n\
         http-request return status 200 content-type text/plain lf-string %[fc_http_major] if {{ path /own }}\n\
         backend servers\n server s1 {}\n",
        certificate(folder.path()),
        origin.address
    ));
    let own = format!("https://{front}/own");
    for (arguments, version) in [(&["--http2"][..], "2"), (&["--http1.1"], "1"), (&["--http2", "--no-alpn"], "1")] {
        let output = Command::new("curl").args(["--silent", "--insecure", &own]).args(arguments).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), version, "{arguments:?}");
    }
    let url = format!("https://{front}/");
    let loading = std::thread::spawn(move || h2load(&["-n", "3000", "-c", "4", "-m", "16", &url]));
    let before = origin.heads().len();
    wait_until("requests go on", || origin.heads().len() > before + 300);
    edge.signal(Signal::USR2);
    let report = loading.join().unwrap();
    assert!(report.contains("3000 succeeded, 0 failed, 0 errored"), "{report}");
    assert!(report.contains("Application protocol: h2"), "{report}");
}
