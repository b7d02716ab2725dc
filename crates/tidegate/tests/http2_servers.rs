//! Servers of HTTP/2: nginx, and HAProxy where another program's word counts.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
};

use rustix::process::Signal;
use support::{Authority, Edge, Folder, Wanted, free_address, listens, wait_until};

/// nginx, which leaves a connection after so many requests.
struct Nginx {
    address: SocketAddr,
    folder: Folder,
    child: Child,
}

impl Nginx {
    fn start(requests_max: u32) -> Self {
        Self::start_at(free_address(), requests_max)
    }

    fn start_at(address: SocketAddr, requests_max: u32) -> Self {
        Self::start_with(address, requests_max, "http2", "")
    }

    /// One that speaks TLS, with the certificate of a file, and what `protocols` says.
    fn start_secure(certificate: &Path, requests_max: u32, protocols: &str) -> Self {
        let certificate = certificate.display();
        let settings = format!("ssl_certificate {certificate}; ssl_certificate_key {certificate};");
        Self::start_with(free_address(), requests_max, &format!("ssl {protocols}"), &settings)
    }

    fn start_with(address: SocketAddr, requests_max: u32, listen: &str, settings: &str) -> Self {
        let folder = Folder::new();
        folder.file("big", vec![b'x'; 3_000_000]);
        let path = folder.0.display();
        let paths: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {path}/{name};"))
            .concat();
        let config = folder.file(
            "nginx.conf",
            format!(
                "daemon off; master_process off; error_log {path}/error.log; pid {path}/pid;\n\
                 events {{ worker_connections 4000; }}\n\
                 http {{ access_log off; {paths}\n\
                 server {{ listen {address} {listen}; {settings} keepalive_requests {requests_max}; root {path};\n\
                 location = /slow {{ alias {path}/big; limit_rate 100k; }}\n\
                 location /protocol {{ return 200 \"$server_protocol $ssl_server_name\\n\"; }}\n\
                 location /told {{ return 200 \"$request_method $scheme $host $http_x_seen\\n\"; }} }} }}\n"
            ),
        );
        let mut command = Command::new("nginx");
        command.arg("-c").arg(config).arg("-p").arg(&folder.0).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("nginx runs");
        wait_until("nginx listens", || listens(address));
        Self { address, folder, child }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        assert!(self.folder.0.exists());
    }
}

fn curl(arguments: &[&str]) -> String {
    let mut command = Command::new("curl");
    let output = command.args(["--silent", "--max-time", "20"]).args(arguments).output().expect("curl runs");
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn h2load(arguments: &[&str]) -> String {
    let output = Command::new("h2load").args(arguments).output().expect("h2load runs");
    String::from_utf8(output.stdout).unwrap()
}

fn site(front: SocketAddr, server: SocketAddr, words: &str) -> String {
    format!(
        "global\n stats socket %FOLDER%/stats level admin\ndefaults\n mode http\n timeout client 20s\n timeout server 20s\n timeout connect 5s\n\
         frontend one\n bind {front}\n default_backend servers\n\
         backend servers\n option httpchk\n http-check send meth GET uri /told hdr host checks\n http-request set-header x-seen yes\n\
         server s1 {server} proto h2 {words}\n"
    )
}

/// A column of the server's statistics.
fn stat(edge: &Edge, name: &str) -> String {
    let text = edge.command("show stat");
    let mut lines = text.lines();
    let at = lines.next().unwrap().trim_start_matches("# ").split(',').position(|column| column == name).unwrap();
    lines.find(|line| line.starts_with("servers,s1,")).unwrap().split(',').nth(at).unwrap().to_owned()
}

#[test]
fn clients_of_either_protocol_are_served() {
    let (nginx, front) = (Nginx::start(1_000_000), free_address());
    let edge = Edge::start_single(&site(front, nginx.address, "check inter 200ms"));
    wait_until("checks speak HTTP/2", || stat(&edge, "check_status") == "L7OK");
    let (told, big) = (format!("http://{front}/told"), format!("http://{front}/big"));
    for protocol in ["--http1.1", "--http2-prior-knowledge"] {
        let host = front.ip().to_string();
        assert_eq!(curl(&[protocol, &told]), format!("GET http {host} yes\n"));
        assert_eq!(curl(&[protocol, "--data", "abc", &told]), format!("POST http {host} yes\n"));
        assert_eq!(curl(&[protocol, &big]).len(), 3_000_000);
        assert!(curl(&[protocol, "--head", &big]).contains("content-length: 3000000"));
        assert!(curl(&[protocol, "--include", &format!("http://{front}/none")]).contains(" 404"));
    }
    let report = h2load(&["-n", "3000", "-c", "4", "-m", "25", &told]);
    assert!(report.contains("3000 succeeded, 0 failed, 0 errored"), "{report}");
    // A hundred requests at a time need no more than a few connections.
    let connects: u32 = stat(&edge, "connect").parse().unwrap();
    assert!(connects <= 8, "{connects}");
    assert_eq!((stat(&edge, "eresp"), stat(&edge, "scur")), ("0".to_owned(), "0".to_owned()));
    drop(nginx);
    wait_until("checks notice", || stat(&edge, "status").starts_with("DOWN"));
}

#[test]
fn no_request_is_lost_when_a_server_leaves_or_the_edge_reloads() {
    let (nginx, front) = (Nginx::start(10), free_address());
    let edge = Edge::start(&site(front, nginx.address, ""));
    let url = format!("http://{front}/told");
    for protocol in [&["--h1"][..], &["-m", "16"]] {
        let arguments = [&["-n", "3000", "-c", "4"], protocol, &[&url]].concat();
        let report = h2load(&arguments);
        assert!(report.contains("3000 succeeded, 0 failed, 0 errored"), "{report}");
    }
    assert_eq!(stat(&edge, "eresp"), "0");
    let loading = std::thread::spawn(move || h2load(&["-n", "6000", "-c", "4", "-m", "16", &url]));
    wait_until("requests go on", || stat(&edge, "scur") != "0");
    edge.signal(Signal::USR2);
    let report = loading.join().unwrap();
    assert!(report.contains("6000 succeeded, 0 failed, 0 errored"), "{report}");
}

#[test]
fn a_server_that_dies_in_the_middle_fails_its_own_requests_alone() {
    let (nginx, front) = (Nginx::start(1_000_000), free_address());
    let address = nginx.address;
    let _edge = Edge::start_single(&site(front, address, ""));
    let url = format!("http://{front}/big");
    // The server is slow, not the client: much of what it had sent could be on its way to that one.
    let slow = format!("http://{front}/slow");
    let mut command = Command::new("curl");
    let folder = Folder::new();
    let got = folder.0.join("got");
    command.args(["--silent", "--no-buffer", "--http2-prior-knowledge", &slow, "--output"]).arg(&got);
    let mut slow = command.spawn().unwrap();
    wait_until("its body is under way", || got.metadata().is_ok_and(|got| got.len() > 0));
    drop(nginx);
    // The stream is reset: curl must not take what it has for the whole.
    assert!(!slow.wait().unwrap().success());
    assert!(curl(&["--include", &url]).contains(" 503 "));
    let _again = Nginx::start_at(address, 1_000_000);
    assert_eq!(curl(&[&url]).len(), 3_000_000);
}

/// A backend whose server is spoken with over TLS.
fn secure_site(front: SocketAddr, nginx: &Nginx, authority: &Authority, words: &str) -> String {
    format!(
        "global\n stats socket %FOLDER%/stats level admin\ndefaults\n mode http\n timeout client 20s\n timeout server 20s\n timeout connect 5s\n\
         frontend one\n bind {front}\n http-response set-header x-alpn \"<%[ssl_bc_alpn]>\"\n default_backend servers\n\
         backend servers\n option httpchk\n http-check send meth GET uri /told hdr host checks\n\
         server s1 {} ssl verify required ca-file {} sni str(localhost) check inter 2s fall 100 {words}\n",
        nginx.address,
        authority.path("ca.pem").display()
    )
}

#[test]
fn servers_choose_http_2_over_tls() {
    let authority = Authority::new();
    authority.certify("server.pem", &Wanted::default());
    let certificate = authority.path("server.pem");
    for (protocols, words, chosen, version) in [
        ("http2", "alpn h2,http/1.1 check-alpn h2", "<h2>", "HTTP/2.0"),
        ("http2", "alpn http/1.1", "<http/1.1>", "HTTP/1.1"),
        ("", "alpn h2,http/1.1", "<http/1.1>", "HTTP/1.1"),
    ] {
        let (nginx, front) = (Nginx::start_secure(&certificate, 1_000_000, protocols), free_address());
        let edge = Edge::start_single(&secure_site(front, &nginx, &authority, words));
        wait_until("checks succeed", || stat(&edge, "check_status") == "L7OK");
        let [told, protocol, big] = ["told", "protocol", "big"].map(|path| format!("http://{front}/{path}"));
        for from in ["--http1.1", "--http2-prior-knowledge"] {
            let host = front.ip();
            assert_eq!(curl(&[from, &protocol]), format!("{version} localhost\n"), "{words}");
            let head = curl(&[from, "--head", &told]);
            assert!(head.contains(&format!("x-alpn: {chosen}")), "{words}: {head}");
            assert_eq!(curl(&[from, "--data", "abc", &told]), format!("POST https {host} \n"), "{words}");
            assert_eq!(curl(&[from, &big]).len(), 3_000_000, "{words}");
        }
        let before: u32 = stat(&edge, "connect").parse().unwrap();
        let report = h2load(&["-n", "2000", "-c", "4", "-m", "25", &told]);
        assert!(report.contains("2000 succeeded, 0 failed, 0 errored"), "{words}: {report}");
        if chosen == "<h2>" {
            let connects = stat(&edge, "connect").parse::<u32>().unwrap() - before;
            assert!(connects <= 8, "a hundred requests at a time, {connects} connections");
        }
        assert_eq!((stat(&edge, "eresp"), stat(&edge, "econ")), ("0".to_owned(), "0".to_owned()), "{words}");
    }
}

#[test]
fn no_request_is_lost_when_a_server_leaves_a_connection_over_tls() {
    let authority = Authority::new();
    authority.certify("server.pem", &Wanted::default());
    let (nginx, front) = (Nginx::start_secure(&authority.path("server.pem"), 10, "http2"), free_address());
    let edge = Edge::start(&secure_site(front, &nginx, &authority, "alpn h2"));
    let url = format!("http://{front}/told");
    for protocol in [&["--h1"][..], &["-m", "16"]] {
        let report = h2load(&[&["-n", "2000", "-c", "4"], protocol, &[&url]].concat());
        assert!(report.contains("2000 succeeded, 0 failed, 0 errored"), "{report}");
    }
    assert_eq!(stat(&edge, "eresp"), "0");
}
