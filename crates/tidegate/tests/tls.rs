//! TLS with clients and with servers.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    io::{Read as _, Write as _},
    net::SocketAddr,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

use support::{Authority, ClientSettings, Edge, LogServer, Origin, SecureWire, Wanted, Wire, free_address, wait_until};

/// Versions of a client that knows no other.
const TLS13: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS13];
const TLS12: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS12];

const DEFAULTS: &str = "defaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 2s\n";

fn global(authority: &Authority) -> String {
    let folder = authority.folder.0.display();
    format!("global\n crt-base {folder}\n ca-base {folder}\n stats socket %FOLDER%/stats level admin\n")
}

/// What a page of the real curl is; the test is left out where there is none.
fn curl(arguments: &[&str]) -> Option<String> {
    let output = Command::new("curl").args(["-sS", "--max-time", "10"]).args(arguments).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr))
}

/// A frontend with TLS that proxies to a server with TLS, which is a frontend as well.
fn both_sides(authority: &Authority, front: SocketAddr, back: SocketAddr, server: &str) -> String {
    format!(
        "{}{DEFAULTS}frontend site\n bind {front} ssl crt site.pem alpn h2,http/1.1\n http-request set-header X-Forwarded-Proto \
         https if {{ ssl_fc }}\n default_backend servers\nbackend servers\n retries 0\n server s1 {back} {server}\nfrontend \
         origin\n bind {back} ssl crt site.pem\n http-request return status 200 content-type text/plain lf-string \
         \"hello %[req.hdr(x-forwarded-proto)] %ft\"\n",
        global(authority)
    )
}

#[test]
fn a_page_comes_through_tls_on_both_sides() {
    let authority = Authority::new();
    authority.certify("site.pem", &Wanted::default());
    let (front, back) = (free_address(), free_address());
    let config = both_sides(&authority, front, back, "ssl verify required ca-file ca.pem sni str(localhost)");
    let _edge = Edge::start_single(&config);
    for versions in [rustls::ALL_VERSIONS, TLS12] {
        let mut settings = authority.client();
        settings.versions = versions;
        settings.protocols = vec![b"spdy".to_vec(), b"http/1.1".to_vec()];
        let mut client = SecureWire::connect(&settings.config(), front, "localhost").unwrap();
        assert_eq!(client.0.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
        for _ in 0..3 {
            assert_eq!(client.get("/").unwrap(), "hello https origin~");
        }
        // Whoever offers nothing that is spoken is served without an agreement.
        settings.protocols = vec![b"spdy".to_vec()];
        let mut client = SecureWire::connect(&settings.config(), front, "localhost").unwrap();
        assert_eq!(client.0.conn.alpn_protocol(), None);
        assert_eq!(client.get("/").unwrap(), "hello https origin~");
    }
    let (place, url) =
        (format!("localhost:{}:{}", front.port(), front.ip()), format!("https://localhost:{}/", front.port()));
    let ca = authority.path("ca.pem");
    for (flag, version) in [("--http1.1", "1.1"), ("--http2", "2")] {
        let arguments =
            [flag, "--resolve", &place, "--cacert", ca.to_str().unwrap(), "-w", " %{http_code} %{http_version}", &url];
        if let Some(page) = curl(&arguments) {
            assert_eq!(page, format!("hello https origin~ 200 {version}"));
        }
    }
}

#[test]
fn reloads_under_load_lose_no_request() {
    let authority = Authority::new();
    authority.certify("site.pem", &Wanted::default());
    let (front, back) = (free_address(), free_address());
    let config = both_sides(&authority, front, back, "ssl verify required ca-file ca.pem sni str(localhost)");
    let edge = Edge::start(&config);
    let (stop, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let clients: Vec<_> = [1, 20]
        .map(|requests| {
            let (stop, asked, client) = (Arc::clone(&stop), Arc::clone(&asked), authority.client().config());
            thread::spawn(move || {
                while !stop.load(Relaxed) {
                    let mut wire = SecureWire::connect(&client, front, "localhost").unwrap();
                    for _ in 0..requests {
                        wire.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
                        let (head, body) = wire.answer().unwrap();
                        assert_eq!(String::from_utf8_lossy(&body), "hello https origin~");
                        asked.fetch_add(1, Relaxed);
                        if head.contains("connection: close") {
                            break;
                        }
                    }
                }
            })
        })
        .into();
    let mut former = vec![SecureWire::connect(&authority.client().config(), front, "localhost").unwrap().certificate()];
    for reload in 1..=5 {
        // The certificate is replaced on disk each time.
        authority.certify("site.pem", &Wanted { serial: 100 + reload, ..Wanted::default() });
        let before = asked.load(Relaxed);
        edge.signal(rustix::process::Signal::USR2);
        let shown = || SecureWire::connect(&authority.client().config(), front, "localhost").unwrap().certificate();
        wait_until("the new certificate is shown", || !former.contains(&shown()));
        wait_until("requests go on", || asked.load(Relaxed) > before + 20);
        former.push(shown());
    }
    stop.store(true, Relaxed);
    for client in clients {
        client.join().unwrap();
    }
}

#[test]
fn what_is_no_tls_is_logged_as_haproxy_says_it() {
    let authority = Authority::new();
    authority.certify("site.pem", &Wanted::default());
    let (front, log) = (free_address(), LogServer::start());
    let config = format!(
        "{} log {} local0\n{DEFAULTS} log global\n option httplog\n timeout client 300ms\nfrontend site\n bind {front} ssl crt site.pem\n \
         http-request return status 200\n",
        global(&authority),
        log.address
    );
    let _edge = Edge::start_single(&config);
    for bytes in
        [&b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"[..], b"\x16\x03\x01\x00\x04\x02\x00\x00\x00", b"SSH-2.0-test\r\n"]
    {
        let mut wire = Wire::connect(front);
        wire.send(bytes);
        wire.read_to_end();
        log.line_with("site/1: SSL handshake failure");
    }
    drop(Wire::connect(front));
    log.line_with("site/1: Connection closed during SSL handshake");
    // One that says nothing, and one that stops in the middle.
    for bytes in [&b""[..], b"\x16\x03\x01\x02\x00\x01\x00"] {
        let mut wire = Wire::connect(front);
        wire.send(bytes);
        log.line_with("site/1: Timeout during SSL handshake");
        wire.read_to_end();
    }
}

/// What a client gets that asks once; what went wrong otherwise.
fn once(settings: &ClientSettings, front: SocketAddr, name: &str) -> String {
    let asked = SecureWire::connect(&settings.config(), front, name).and_then(|mut wire| wire.get("/"));
    asked.unwrap_or_else(|error| error.to_string())
}

#[test]
fn certificates_of_servers_are_verified() {
    let authority = Authority::new();
    let wanted = || Wanted { names: &["www.example.com"], ..Wanted::default() };
    authority.certify("good.pem", &wanted());
    authority.certify("expired.pem", &Wanted { until: 2021, ..wanted() });
    authority.certify("revoked.pem", &Wanted { serial: 66, ..wanted() });
    authority.certify("rsa.pem", &Wanted { algorithm: &rcgen::PKCS_RSA_SHA256, ..wanted() });
    authority.certify_itself("self.pem", &wanted());
    authority.certify_below("chain.pem", &wanted(), true);
    authority.certify_below("chainless.pem", &wanted(), false);
    authority.revoke("crl.pem", &[66]);
    let ca = "verify required ca-file ca.pem";
    let cases = [
        ("good.pem", ca.to_owned(), Ok(())),
        ("good.pem", format!("{ca} sni str(www.example.com)"), Ok(())),
        ("good.pem", format!("{ca} verifyhost www.example.com"), Ok(())),
        ("good.pem", format!("{ca} sni str(www.example.com) verifyhost localhost check-sni www.example.com"), Ok(())),
        ("good.pem", "verify none sni str(www.example.com:443)".to_owned(), Ok(())),
        ("good.pem", format!("{ca} crl-file crl.pem"), Ok(())),
        ("good.pem", format!("{ca} force-tlsv12"), Ok(())),
        ("rsa.pem", format!("{ca} force-tlsv12"), Ok(())),
        ("rsa.pem", format!("{ca} force-tlsv13"), Ok(())),
        ("chain.pem", ca.to_owned(), Ok(())),
        ("self.pem", "verify required ca-file self.pem verifyhost www.example.com".to_owned(), Ok(())),
        ("expired.pem", "verify none".to_owned(), Ok(())),
        ("good.pem", format!("{ca} sni str(localhost) check-sni localhost"), Err("hostname mismatch")),
        ("good.pem", format!("{ca} verifyhost other.example"), Err("hostname mismatch")),
        // The name that is asked for counts, an address too.
        (
            "good.pem",
            format!("{ca} sni str(localhost) verifyhost www.example.com check-sni localhost"),
            Err("hostname mismatch"),
        ),
        ("good.pem", format!("{ca} sni str(127.0.0.1) check-sni 127.0.0.1"), Err("hostname mismatch")),
        ("expired.pem", ca.to_owned(), Err("certificate has expired")),
        ("revoked.pem", format!("{ca} crl-file crl.pem"), Err("certificate revoked")),
        ("self.pem", ca.to_owned(), Err("self-signed certificate")),
        ("chainless.pem", ca.to_owned(), Err("unable to get local issuer certificate")),
    ];
    let (log, mut config) = (LogServer::start(), global(&authority));
    let mut fronts = Vec::new();
    config += &format!(" log {} local0\n{DEFAULTS} log global\n option httplog\n", log.address);
    for (number, (file, words, _)) in cases.iter().enumerate() {
        let (front, back) = (free_address(), free_address());
        config += &format!(
            "listen l{number}\n bind {front}\n retries 0\n server s1 {back} ssl {words}\nbackend c{number}\n server s1 {back} ssl {words} check inter 1s\nfrontend o{number}\n bind {back} ssl \
             crt {file}\n http-request return status 200\n"
        );
        fronts.push(front);
    }
    let edge = Edge::start_single(&config);
    for (number, (file, words, expected)) in cases.iter().enumerate() {
        let status = Wire::connect(fronts[number]).get("/").status();
        let column = |name: &str| {
            let stat = edge.command("show stat");
            let mut lines = stat.lines();
            let place = lines.next().unwrap().split(',').position(|column| column == name).unwrap();
            let line = lines.find(|line| line.starts_with(&format!("c{number},s1,"))).unwrap();
            line.split(',').nth(place).unwrap().to_owned()
        };
        match expected {
            Ok(()) => {
                assert_eq!(status, 200, "{file} {words}");
                wait_until("the check passes", || column("check_status") == "L6OK");
            }
            Err(why) => {
                assert_eq!(status, 503, "{file} {words}");
                let line = log.line_with(&format!("l{number} l{number}/s1 "));
                assert!(line.contains(" 503 ") && line.contains(" SC-- "), "{line}");
                wait_until("the check fails", || column("check_status") == "L6RSP");
                // It is empty while the next one runs.
                let expected = format!("SSL handshake failure ({why})");
                wait_until(&format!("{file} {words}: {expected}"), || column("last_chk").contains(&expected));
            }
        }
    }
}

#[test]
fn certificates_of_clients_are_verified() {
    let authority = Authority::new();
    authority.certify("site.pem", &Wanted::default());
    authority.certify("ann.pem", &Wanted { names: &["ann"], serial: 0x1234, ..Wanted::default() });
    authority.certify("late.pem", &Wanted { names: &["late"], until: 2021, ..Wanted::default() });
    authority.certify("gone.pem", &Wanted { names: &["gone"], serial: 66, ..Wanted::default() });
    authority.certify_itself("stranger.pem", &Wanted { names: &["stranger"], ..Wanted::default() });
    authority.certify_itself("late-stranger.pem", &Wanted { names: &["both"], until: 2021, ..Wanted::default() });
    let names =
        |count: usize| (0..count).map(|number| format!("{number:04}.long-name.example.com")).collect::<Vec<_>>();
    let wide = names(750);
    let wide: Vec<&str> = ["wide"].into_iter().chain(wide.iter().map(String::as_str)).collect();
    authority.certify("wide.pem", &Wanted { names: &wide, ..Wanted::default() });
    authority.revoke("crl.pem", &[66]);
    let mut config = global(&authority) + DEFAULTS;
    let words = [
        "verify none",
        "verify optional",
        "verify required",
        "verify required crt-ignore-err all",
        "verify required crl-file crl.pem",
        "verify required crt-ignore-err 10",
    ];
    let fronts = words.map(|words| {
        let front = free_address();
        config += &format!(
            "frontend f{}\n bind {front} ssl crt site.pem ca-file ca.pem {words}\n http-request return status 200 content-type text/plain \
             lf-string \"%[ssl_c_used] %[ssl_c_verify] %[ssl_c_s_dn(CN)] %[ssl_c_serial,hex] %[ssl_fc_has_crt] %[ssl_fc_sni] %[ssl_c_i_dn]\"\n",
            front.port()
        );
        front
    });
    let _edge = Edge::start_single(&config);
    let ann = "1 0 ann 1234 1 localhost /CN=Authority/O=Example";
    for versions in [TLS13, TLS12] {
        let ask = |front: usize, file: Option<&str>| {
            let mut settings = authority.client();
            settings.versions = versions;
            settings.certificate = file.map(|file| authority.path(file));
            once(&settings, fronts[front], "localhost")
        };
        assert_eq!(ask(0, Some("ann.pem")), "0 0   0 localhost ");
        assert_eq!(ask(1, None), "0 0   0 localhost ");
        assert_eq!(ask(1, Some("ann.pem")), ann);
        assert_eq!(ask(2, Some("ann.pem")), ann);
        assert_eq!(ask(4, Some("ann.pem")), ann);
        // One of 23 kB, which is no part of a ticket.
        assert_eq!(ask(2, Some("wide.pem")), "1 0 wide 07 1 localhost /CN=Authority/O=Example");
        for (front, file, alert) in [
            (1, "stranger.pem", ""),
            (2, "stranger.pem", ""),
            (2, "late.pem", "CertificateExpired"),
            (4, "gone.pem", "CertificateRevoked"),
            // That one fault is let pass says nothing of others.
            (5, "late-stranger.pem", ""),
        ] {
            let error = ask(front, Some(file));
            assert!(error.contains("alert") && error.contains(alert), "{front} {file}: {error}");
        }
        assert!(ask(2, None).contains("alert"));
        assert_eq!(ask(3, Some("late.pem")), "1 10 late 07 1 localhost /CN=Authority/O=Example");
        assert_eq!(ask(5, Some("late.pem")), "1 10 late 07 1 localhost /CN=Authority/O=Example");
        assert_eq!(ask(3, Some("stranger.pem")), "1 18 stranger 07 1 localhost /CN=stranger/O=Example");
    }
}

#[test]
fn a_chain_that_cannot_be_sent_is_refused_at_the_start() {
    let authority = Authority::new();
    let names: Vec<String> = (0..1_500).map(|number| format!("{number:04}.long-name.example.com")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    authority.certify("huge.pem", &Wanted { names: &names, ..Wanted::default() });
    let config =
        format!("{DEFAULTS}frontend f\n bind {} ssl crt {}\n", free_address(), authority.path("huge.pem").display());
    let path = authority.folder.file("huge.cfg", config);
    let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let output = program.args(["haproxy", "-c", "-f"]).arg(path).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("bytes, and may have 32768"), "{said}");
}

/// What a client's library tells of its secrets: label and secret.
#[derive(Debug, Default)]
struct Told(std::sync::Mutex<Vec<(String, String)>>);

impl rustls::KeyLog for Told {
    fn log(&self, label: &str, random: &[u8], secret: &[u8]) {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let mut told = self.0.lock().unwrap();
        told.push(("random".to_owned(), hex(random)));
        told.push((label.to_lowercase(), hex(secret)));
    }
}

#[test]
fn key_logs_and_offers_are_those_of_the_client() {
    let authority = Authority::new();
    authority.certify("site.pem", &Wanted::default());
    let front = free_address();
    let labels = [
        "client_handshake_traffic_secret",
        "server_handshake_traffic_secret",
        "client_traffic_secret_0",
        "server_traffic_secret_0",
        "exporter_secret",
    ];
    let fetches: String = labels.iter().map(|label| format!("{label}=%[ssl_fc_{label}] ")).collect();
    let config = format!(
        "{} tune.ssl.keylog on\n tune.ssl.capture-buffer-size 512\n{DEFAULTS}frontend f\n bind {front} ssl crt site.pem\n \
         http-request return status 200 content-type text/plain lf-string \"random=%[ssl_fc_client_random,hex,lower] \
         client_random=%[ssl_fc_session_key,hex,lower] {fetches}offer=%[ssl_fc_cipherlist_str]\"\n",
        global(&authority)
    );
    let _edge = Edge::start_single(&config);
    for (versions, labels, suite) in
        [(TLS13, &labels[..], "TLS_AES_256_GCM_SHA384"), (TLS12, &["client_random"], "ECDHE-ECDSA-AES256-GCM-SHA384")]
    {
        let told = Arc::new(Told::default());
        let mut settings = authority.client();
        settings.versions = versions;
        let mut config = (*settings.config()).clone();
        config.key_log = Arc::clone(&told) as Arc<_>;
        let answer = SecureWire::connect(&Arc::new(config), front, "localhost").unwrap().get("/").unwrap();
        let told = told.0.lock().unwrap();
        for label in ["random"].iter().chain(labels) {
            let (_, secret) = told.iter().find(|(known, _)| known == label).unwrap();
            assert!(answer.contains(&format!("{label}={secret} ")), "{label}: {answer}");
        }
        assert!(answer.rsplit("offer=").next().unwrap().split(',').any(|name| name == suite), "{answer}");
    }
}

#[test]
fn names_choose_certificates() {
    let authority = Authority::new();
    for (file, names, serial) in [
        ("first.pem", &["first.example"][..], 1),
        ("star.pem", &["*.example.com"], 2),
        ("www.pem", &["www.example.com"], 3),
    ] {
        authority.certify(file, &Wanted { names, serial, ..Wanted::default() });
    }
    let rsa =
        Wanted { names: &["www.example.com"], serial: 4, algorithm: &rcgen::PKCS_RSA_SHA256, ..Wanted::default() };
    authority.certify("www-rsa.pem", &rsa);
    authority.certify("star-rsa.pem", &Wanted { names: &["*.example.com"], serial: 5, ..rsa });
    authority.certify("one.pem", &Wanted { names: &["one.example.com"], serial: 6, ..Wanted::default() });
    authority.folder.file("list", "first.pem [alpn h2]\nstar.pem *.example.com !secret.example.com\n");
    let (all, strict, list) = (free_address(), free_address(), free_address());
    let list_path = authority.path("list");
    let config = format!(
        "{}{DEFAULTS}frontend all\n bind {all} ssl crt first.pem crt star.pem crt www.pem crt www-rsa.pem crt star-rsa.pem crt one.pem\n bind {strict} ssl crt www.pem \
         strict-sni\n bind {list} ssl crt-list {}\n http-request return status 200 content-type text/plain lf-string \
         \"%[ssl_f_serial,hex] %[ssl_f_key_alg] %[ssl_fc_alpn]\"\n",
        global(&authority),
        list_path.display()
    );
    let _edge = Edge::start_single(&config);
    let ask = |front: SocketAddr, name: &str, more: &[&str]| {
        let (place, url) =
            (format!("{name}:{}:{}", front.port(), front.ip()), format!("https://{name}:{}/", front.port()));
        let arguments = [&["-k", "--http1.1", "--resolve", &place, &url][..], more].concat();
        curl(&arguments).unwrap_or_default()
    };
    if ask(all, "first.example", &[]).is_empty() {
        return eprintln!("skipped: curl is not installed");
    }
    let rsa_alone = ["--tls-max", "1.2", "--ciphers", "ECDHE-RSA-AES128-GCM-SHA256"];
    assert_eq!(ask(all, "first.example", &[]), "01 id-ecPublicKey ");
    assert_eq!(ask(all, "unknown.example", &[]), "01 id-ecPublicKey ");
    assert_eq!(ask(all, "a.example.com", &[]), "02 id-ecPublicKey ");
    assert_eq!(ask(all, "WWW.example.com", &[]), "03 id-ecPublicKey ");
    assert_eq!(ask(all, "www.example.com", &rsa_alone), "04 rsaEncryption ");
    // A client that takes no certificate of just this name gets one with a star.
    assert_eq!(ask(all, "one.example.com", &[]), "06 id-ecPublicKey ");
    assert_eq!(ask(all, "one.example.com", &rsa_alone), "05 rsaEncryption ");
    assert_eq!(ask(strict, "www.example.com", &[]), "03 id-ecPublicKey ");
    assert!(ask(strict, "first.example", &[]).contains("unrecognized name"));
    assert_eq!(ask(list, "a.example.com", &[]), "02 id-ecPublicKey ");
    assert_eq!(ask(list, "secret.example.com", &[]), "01 id-ecPublicKey ");
}

#[test]
fn sessions_are_resumed_also_across_a_reload() {
    let authority = Authority::new();
    authority.certify("site.pem", &Wanted::default());
    let (tickets, cached) = (free_address(), free_address());
    let config = format!(
        "{}{DEFAULTS}frontend site\n bind {tickets} ssl crt site.pem\n bind {cached} ssl crt site.pem no-tls-tickets\n http-request return \
         status 200 content-type text/plain lf-string \"%[ssl_fc_is_resumed]\"\n",
        global(&authority)
    );
    let edge = Edge::start(&config);
    let shown = || SecureWire::connect(&authority.client().config(), tickets, "localhost").unwrap().certificate();
    for (round, (front, versions)) in
        [(tickets, TLS13), (tickets, TLS12), (cached, TLS13), (cached, TLS12)].into_iter().enumerate()
    {
        let mut settings = authority.client();
        settings.versions = versions;
        let client = settings.config();
        let ask = || SecureWire::connect(&client, front, "localhost").unwrap().get("/").unwrap();
        assert_eq!((ask().as_str(), ask().as_str()), ("0", "1"), "{round}");
        let before = shown();
        authority.certify("site.pem", &Wanted { serial: 100 + round as u64, ..Wanted::default() });
        edge.signal(rustix::process::Signal::USR2);
        wait_until("the new certificate is shown", || shown() != before);
        assert_eq!(ask(), "1", "{round}");
    }
}

#[test]
fn a_slow_reader_gets_every_byte_and_costs_little() {
    const CLIENTS: usize = 40;
    const BODY: usize = 8 << 20;
    let authority = Authority::new();
    authority.certify("site.pem", &Wanted::default());
    let body: Vec<u8> = (0..BODY / 4).flat_map(|number| (number as u32).to_le_bytes()).collect();
    let answer = [format!("HTTP/1.1 200 OK\r\nContent-Length: {BODY}\r\n\r\n").as_bytes(), &body].concat();
    let origin = Origin::answering(move |_| answer.clone());
    let front = free_address();
    let config = format!(
        "{}{DEFAULTS} timeout client 60s\n timeout server 60s\nlisten site\n bind {front} ssl crt site.pem\n server s1 {}\n",
        global(&authority),
        origin.address
    );
    let edge = Edge::start_single(&config);
    let client = authority.client().config();
    let before = support::resident_kilobytes(edge.pid());
    let mut wires: Vec<SecureWire> = (0..CLIENTS)
        .map(|_| {
            let mut wire = SecureWire::connect(&client, front, "localhost").unwrap();
            wire.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
            wire
        })
        .collect();
    wait_until("the server is asked by all", || origin.heads().len() == CLIENTS);
    let grown = support::resident_kilobytes(edge.pid()).saturating_sub(before);
    assert!(grown < CLIENTS as u64 * 256, "{grown} KiB for {CLIENTS} clients that do not read");
    for wire in wires.iter_mut().step_by(8) {
        let (_, received) = wire.answer().unwrap();
        assert!(received == body);
    }
}

#[test]
fn what_is_cut_off_is_no_end() {
    let authority = Authority::new();
    authority.certify("site.pem", &Wanted::default());
    // A server behind the edge whose body ends with its connection, with and without the word that it was its end.
    let (front, relay, back) = (free_address(), free_address(), free_address());
    let origin = Origin::answering(|_| b"HTTP/1.0 200 OK\r\n\r\nhalf a page".to_vec());
    let log = LogServer::start();
    let config = format!(
        "{} log {} local0\n{DEFAULTS} option httplog\nlisten site\n log global\n bind {front}\n server s1 {relay} ssl verify none\nlisten far\n mode tcp\n bind {back} ssl crt site.pem\n server \
         s1 {}\n",
        global(&authority),
        log.address,
        origin.address
    );
    let _edge = Edge::start_single(&config);
    let whole = Arc::new(AtomicBool::new(true));
    let listener = std::net::TcpListener::bind(relay).unwrap();
    let cuts = Arc::clone(&whole);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut near, mut far) = (stream.unwrap(), std::net::TcpStream::connect(back).unwrap());
            let (mut near_end, mut far_end) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            thread::spawn(move || std::io::copy(&mut near_end, &mut far_end));
            // Record by record; the alert that says that it was the end has 19 bytes.
            let mut head = [0; 5];
            while far.read_exact(&mut head).is_ok() {
                let mut body = vec![0; usize::from(u16::from_be_bytes([head[3], head[4]]))];
                far.read_exact(&mut body).unwrap();
                if body.len() != 19 || cuts.load(Relaxed) {
                    near.write_all(&[&head[..], &body].concat()).unwrap();
                }
            }
            near.shutdown(std::net::Shutdown::Write).unwrap();
        }
    });
    for is_whole in [true, false] {
        whole.store(is_whole, Relaxed);
        let mut wire = Wire::connect(front);
        wire.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        assert!(String::from_utf8_lossy(&wire.read_to_end()).ends_with("half a page"));
        let line = log.line_with("site site/s1 ");
        assert_eq!(line.contains(" ---- "), is_whole, "{line}");
        assert_eq!(line.contains(" SD-- "), !is_whole, "{line}");
    }
}

#[test]
fn servers_hear_of_a_clients_tls() {
    let authority = Authority::new();
    authority.certify("site.pem", &Wanted::default());
    authority.certify("ann.pem", &Wanted { names: &["ann"], ..Wanted::default() });
    // What stands behind the addresses of the PROXY header, as hexadecimal digits.
    let origin = Origin::start(|mut wire, _| {
        let start = wire.read(16);
        let fields = wire.read(usize::from(u16::from_be_bytes([start[14], start[15]])));
        let text: String = fields[12..].iter().map(|byte| format!("{byte:02x}")).collect();
        while wire.head().is_some() {
            wire.send(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}", text.len()));
        }
    });
    let (full, short, clear) = (free_address(), free_address(), free_address());
    let config = format!(
        "{}{DEFAULTS}frontend full\n bind {full} ssl crt site.pem ca-file ca.pem verify optional\n bind {clear}\n default_backend full\n\
         backend full\n server s1 {} send-proxy-v2 proxy-v2-options ssl,cert-cn,cert-key,cert-sig,ssl-cipher\nlisten short\n bind {short} \
         ssl crt site.pem ca-file ca.pem verify optional\n server s1 {} send-proxy-v2-ssl-cn\n",
        global(&authority),
        origin.address,
        origin.address
    );
    let _edge = Edge::start_single(&config);
    let hexadecimal = |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    let record = |kind: &str, text: &str| format!("{kind}{:04x}{}", text.len(), hexadecimal(text));
    let version = record("21", "TLSv1.3");
    let more =
        [record("25", "EC256"), record("24", "ecdsa-with-SHA256"), record("23", "TLS_AES_256_GCM_SHA384")].concat();
    let name = record("22", "ann");
    let field = |records: &str| format!("20{:04x}{records}", records.len() / 2);
    let ask = |front: SocketAddr, file: Option<&str>| {
        let mut settings = authority.client();
        settings.versions = TLS13;
        settings.certificate = file.map(|file| authority.path(file));
        once(&settings, front, "localhost")
    };
    assert_eq!(ask(full, None), field(&format!("0100000000{version}{more}")));
    assert_eq!(ask(full, Some("ann.pem")), field(&format!("0700000000{version}{name}{more}")));
    assert_eq!(ask(short, Some("ann.pem")), field(&format!("0700000000{version}{name}")));
    assert_eq!(Wire::connect(clear).get("/").text(), field("0000000000"));
}

#[test]
fn a_slow_reader_is_told_of_the_end() {
    const CLIENTS: usize = 12;
    let authority = Authority::new();
    authority.certify("site.pem", &Wanted::default());
    let body = vec![b'x'; 6 << 20];
    let answer = [b"HTTP/1.0 200 OK\r\n\r\n", &body[..]].concat();
    let origin = Origin::start(move |mut wire, _| {
        wire.head();
        wire.try_send(&answer);
    });
    let front = free_address();
    let config = format!(
        "{}{DEFAULTS} timeout client 60s\n timeout server 60s\nlisten site\n bind {front} ssl crt site.pem\n server s1 {}\n",
        global(&authority),
        origin.address
    );
    let _edge = Edge::start_single(&config);
    let client = authority.client().config();
    let mut wires: Vec<SecureWire> =
        (0..CLIENTS).map(|_| SecureWire::connect(&client, front, "localhost").unwrap()).collect();
    for wire in &mut wires {
        wire.send(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap();
    }
    for wire in &mut wires {
        let mut received = Vec::new();
        // A connection that ends without that word is an error of rustls'.
        wire.0.read_to_end(&mut received).unwrap();
        assert!(received.ends_with(&body));
    }
}
