//! Certificates by themselves, from Let's Encrypt's test authority.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{net::SocketAddr, os::unix::fs::PermissionsExt as _, path::Path, sync::Arc, time::Duration};

use rustls::ClientConfig;
use support::{
    Edge, Folder, Origin, SecureWire, Wire, free_address, listens,
    pebble::{Habits, Pebble},
    wait_within,
};

/// How long an order may take.
const ORDER_TIME: Duration = Duration::from_secs(60);

/// What a configuration says besides.
struct Site<'a> {
    pebble: &'a Pebble,
    /// Lines of the acme section.
    acme: &'a str,
    domains: &'a str,
    /// The folder of certificates.
    folder: &'a Path,
    tls: SocketAddr,
}

impl Site<'_> {
    fn config(&self) -> String {
        let Self { pebble, acme, domains, folder, tls } = self;
        format!(
            "global\n stats socket %FOLDER%/stats level admin\n httpclient.ssl.ca-file {}\ndefaults\n mode http\n timeout client 5s\n \
             timeout server 5s\n timeout connect 2s\nacme LE\n directory {}\n account-key {folder}/account.key\n{acme}\n\
             crt-store\n crt-base {folder}\n load crt site.pem acme LE domains {domains}\nfrontend site\n bind {}\n bind {tls} ssl crt \
             site.pem alpn h2,http/1.1\n http-request redirect scheme https unless {{ ssl_fc }}\n http-request return status 200 \
             content-type text/plain string hello\n",
            pebble.anchors().display(),
            pebble.directory(),
            pebble.http,
            folder = folder.display(),
        )
    }
}

/// Whether a client that trusts the authority gets the page.
fn is_served(client: &Arc<ClientConfig>, address: SocketAddr, name: &str) -> bool {
    SecureWire::connect(client, address, name).is_ok_and(|mut wire| wire.get("/").is_ok_and(|page| page == "hello"))
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// The columns of the one line of `acme status`.
fn status(edge: &Edge) -> Vec<String> {
    let text = edge.command("acme status");
    text.lines().nth(1).unwrap().split('\t').map(str::to_owned).collect()
}

#[test]
fn a_certificate_comes_is_renewed_and_stays() {
    let Some(pebble) = Pebble::start(&Habits::default()) else { return };
    let (folder, tls) = (Folder::new(), free_address());
    let certificates = folder.0.join("certificates");
    let site = Site {
        pebble: &pebble,
        acme: " contact ops@example.com\n curves P-256",
        domains: "a.test,b.test",
        folder: &certificates,
        tls,
    };
    let edge = Edge::start(&site.config());
    let client = pebble.client().config();
    wait_within(ORDER_TIME, "the certificate is served", || is_served(&client, tls, "b.test"));
    let first = SecureWire::connect(&client, tls, "a.test").unwrap().certificate();
    let (file, account) = (certificates.join("site.pem"), certificates.join("account.key"));
    assert_eq!([mode(&certificates), mode(&file), mode(&account)], [0o700, 0o600, 0o600]);
    wait_within(ORDER_TIME, "it waits for its renewal", || status(&edge)[2] == "Scheduled");
    let now = status(&edge);
    assert_eq!([&now[0], &now[1], &now[7], &now[8]], ["site.pem", "LE", "0", "-"]);
    let days = |text: &str| text.split('d').next().unwrap().parse::<u32>().unwrap();
    assert!((88..=90).contains(&days(&now[4])) && (40..=75).contains(&days(&now[6])), "{now:?}");
    // What is nobody's proof goes where requests go.
    let mut wire = Wire::connect(pebble.http);
    wire.send(b"GET /.well-known/acme-challenge/other HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(wire.answer().status(), 302);
    // It is renewed by command, without a reload.
    let asked = edge.command("acme renew site.pem");
    assert!(asked.contains("is asked for"), "{asked}");
    let shown = || SecureWire::connect(&client, tls, "a.test").unwrap().certificate();
    wait_within(ORDER_TIME, "the renewed one is served", || shown() != first);
    let second = shown();
    assert!(edge.command("acme renew other.pem").contains("no certificate 'other.pem' of an acme section."));
    // A reload and a restart go on with it, and ask for none.
    edge.signal(rustix::process::Signal::USR2);
    edge.wait_output("serves the new configuration");
    assert_eq!(shown(), second);
    drop(edge);
    wait_within(ORDER_TIME, "the former process is gone", || !listens(tls));
    let edge = Edge::start(&site.config());
    assert_eq!(shown(), second);
    assert_eq!(status(&edge)[2], "Scheduled");
    assert!(!edge.output().contains("has come"), "{}", edge.output());
}

#[test]
fn tls_proves_a_name_though_nonces_are_refused() {
    let habits =
        Habits { environment: &[("PEBBLE_WFE_NONCEREJECT", "50"), ("PEBBLE_AUTHZREUSE", "100")], ..Habits::default() };
    let Some(pebble) = Pebble::start(&habits) else { return };
    let (folder, tls) = (Folder::new(), pebble.tls);
    let site = Site {
        pebble: &pebble,
        acme: " challenge tls-alpn-01\n keytype RSA",
        domains: "a.test,b.test",
        folder: &folder.0,
        tls,
    };
    let edge = Edge::start_single(&site.config());
    let client = pebble.client().config();
    wait_within(ORDER_TIME, "the certificate is served", || is_served(&client, tls, "a.test"));
    let first = SecureWire::connect(&client, tls, "a.test").unwrap().certificate();
    // All names are proven already.
    edge.command("acme renew site.pem");
    let shown = || SecureWire::connect(&client, tls, "a.test").unwrap().certificate();
    wait_within(ORDER_TIME, "the renewed one is served", || shown() != first);
}

#[test]
fn records_of_dns_prove_a_name_and_its_wildcard() {
    let (folder, records, tls) = (Folder::new(), Folder::new(), free_address());
    let external = "bWFrZSBzdXJlIHRoYXQgdGhpcyBrZXkgaXMgbG9uZyBlbm91Z2g";
    let habits = Habits { records: Some(&records.0), external: Some(external), ..Habits::default() };
    let Some(pebble) = Pebble::start(&habits) else { return };
    // Both records have one name.
    let script = format!(
        "#!/bin/sh\ncd {} || exit 1\nif [ \"$1\" = set ]; then echo \"$3\" >> \"$2\"; else grep -vxF -e \"$3\" \"$2\" > \"$2.new\"; mv \"$2.new\" \"$2\"; fi\n",
        records.0.display()
    );
    let program = folder.file("program", script);
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (id, key) = (folder.file("eab.id", "kid-1\n"), folder.file("eab.key", format!("{external}\n")));
    let acme = format!(
        " challenge dns-01\n challenge-program {}\n eab-key-id {}\n eab-mac-key {}",
        program.display(),
        id.display(),
        key.display()
    );
    let site = Site { pebble: &pebble, acme: &acme, domains: "a.test,*.a.test", folder: &folder.0, tls };
    let edge = Edge::start_single(&site.config());
    let client = pebble.client().config();
    wait_within(ORDER_TIME, &format!("the certificate is served {}", edge.output()), || {
        is_served(&client, tls, "x.a.test")
    });
    assert!(is_served(&client, tls, "a.test"));
    wait_within(ORDER_TIME, "the records are gone", || {
        std::fs::read_to_string(records.0.join("_acme-challenge.a.test")).is_ok_and(|text| text.is_empty())
    });
}

#[test]
fn without_its_authority_a_site_starts_and_says_why() {
    let Some(mut pebble) = Pebble::start(&Habits::default()) else { return };
    let (folder, tls) = (Folder::new(), free_address());
    pebble.stop();
    let site = Site { pebble: &pebble, acme: "", domains: "a.test", folder: &folder.0, tls };
    let edge = Edge::start(&site.config());
    edge.wait_output("certificate 'site.pem' has not come (attempt 1): cannot ask 127.");
    edge.wait_output("Connection refused");
    let now = status(&edge);
    assert_eq!([&now[2], &now[3], &now[7]], ["Scheduled", "-", "1"], "{now:?}");
    // A client that trusts nobody sees the temporary certificate; one that does is not deceived.
    let client = support::Authority::new().client().config();
    assert!(SecureWire::connect(&client, tls, "a.test").is_err());
    // Not before its time, whatever restarts.
    drop(edge);
    wait_within(ORDER_TIME, "the former process is gone", || !listens(tls));
    let edge = Edge::start(&site.config());
    pebble.go_on();
    assert_eq!(status(&edge)[7], "1");
    let client = pebble.client().config();
    edge.command("acme renew site.pem");
    wait_within(ORDER_TIME, "the certificate is served", || is_served(&client, tls, "a.test"));
    let metrics = edge.command("acme status");
    assert!(metrics.contains("Scheduled") || metrics.contains("Running"), "{metrics}");
}

#[test]
fn an_authority_that_talks_nonsense_is_left_alone() {
    for (status, fields, body, expected, least_s) in [
        ("200 OK", "", "<html>", "sends what is no answer of ACME (RFC 8555)", 55),
        ("500 Oops", "", "", "shows no directory (status 500): it gives no reason", 55),
        (
            "429 Slow",
            "Retry-After: 7200\r\n",
            "{\"type\":\"urn:ietf:params:acme:error:rateLimited\",\"detail\":\"not so fast\"}",
            "shows no directory (status 429): not so fast (rateLimited)",
            7_190,
        ),
        ("200 OK", "Content-Length: 5\r\n", "too much to be five", "sends what is no answer of ACME", 55),
    ] {
        let length = if fields.contains("Content-Length") {
            String::new()
        } else {
            format!("Content-Length: {}\r\n", body.len())
        };
        let answer = format!("HTTP/1.1 {status}\r\n{fields}{length}\r\n{body}");
        let origin = Origin::answering(move |_| answer.clone().into_bytes());
        let (folder, front) = (Folder::new(), free_address());
        let config = format!(
            "global\n stats socket %FOLDER%/stats level admin\ndefaults\n mode http\n timeout client 5s\nacme LE\n directory \
             http://{}/dir\n account-key {1}/account.key\ncrt-store\n load crt {1}/site.pem acme LE domains a.test\nfrontend \
             site\n bind {front} ssl crt {1}/site.pem\n",
            origin.address,
            folder.0.display()
        );
        let edge = Edge::start_single(&config);
        edge.wait_output(expected);
        let asked = origin.connections();
        let now = status_of(&edge, "Scheduled");
        let seconds = seconds(&now[6]);
        assert!(seconds >= least_s, "{now:?}");
        // It has asked once, and asks no more.
        assert_eq!((asked, origin.connections()), (1, 1));
    }
}

/// `0d 1h59m58s` in seconds.
fn seconds(text: &str) -> u64 {
    text.split(|letter: char| !letter.is_ascii_digit())
        .filter(|part| !part.is_empty())
        .zip([86_400, 3_600, 60, 1])
        .map(|(part, unit)| part.parse::<u64>().unwrap() * unit)
        .sum()
}

/// The columns, once the certificate is in that state.
fn status_of(edge: &Edge, state: &str) -> Vec<String> {
    wait_within(ORDER_TIME, &format!("the state is {state}"), || status(edge)[2] == state);
    status(edge)
}

#[test]
fn an_order_is_picked_up_after_a_crash() {
    // Pebble looks at proofs after some seconds, so the process is killed meanwhile.
    let habits =
        Habits { environment: &[("PEBBLE_VA_NOSLEEP", "0"), ("PEBBLE_VA_SLEEPTIME", "3")], ..Habits::default() };
    let Some(pebble) = Pebble::start(&habits) else { return };
    let (folder, tls) = (Folder::new(), free_address());
    let site = Site { pebble: &pebble, acme: "", domains: "a.test", folder: &folder.0, tls };
    let edge = Edge::start_single(&site.config());
    let kept = folder.0.join(".site.pem.acme");
    wait_within(ORDER_TIME, "the order is noted", || {
        std::fs::read_to_string(&kept).is_ok_and(|text| text.contains("my-order"))
    });
    let order = |text: String| text.split("\"url\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let before = order(std::fs::read_to_string(&kept).unwrap());
    assert_eq!(mode(&kept), 0o600);
    edge.signal(rustix::process::Signal::KILL);
    drop(edge);
    assert_eq!(order(std::fs::read_to_string(&kept).unwrap()), before);
    let _edge = Edge::start_single(&site.config());
    let client = pebble.client().config();
    let mut orders = vec![before];
    wait_within(ORDER_TIME, "the certificate is served", || {
        if let Ok(text) = std::fs::read_to_string(&kept)
            && text.contains("my-order")
        {
            orders.push(order(text));
        }
        is_served(&client, tls, "a.test")
    });
    orders.dedup();
    assert_eq!(orders.len(), 1, "no other order was made");
}

#[test]
fn one_line_is_a_site_with_https() {
    let Some(pebble) = Pebble::start(&Habits::default()) else { return };
    let (folder, tls) = (Folder::new(), free_address());
    let origin = Origin::answering(|request| {
        support::ok(if request.field("x-forwarded-proto") == Some("https") { "secure" } else { "plain" })
    });
    let port = tls.port();
    let (site, plain) = (format!("https://a.test:{port}"), pebble.http.to_string());
    let (directory, anchors) = (pebble.directory(), pebble.anchors().display().to_string());
    let (to, certificates) = (origin.address.to_string(), folder.0.join("certificates").display().to_string());
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["edge", "--from", &site, &plain, "--to", &to, "--directory", &directory, "--directory-ca", &anchors])
        .args(["--folder", &certificates, "--stats", "none", "--email", "ops@example.com", "--print"])
        .output()
        .unwrap();
    // At the address of this test alone, instead of at all of the machine.
    let text = String::from_utf8(output.stdout).unwrap();
    let config = text
        .replace(&format!("[::]:{port} v4v6"), &tls.to_string())
        .replace(&format!(" :{port} "), &format!(" {tls} "));
    assert!(config.contains(&format!("bind {tls} ssl")), "{text}");
    let edge = Edge::start(&config);
    let client = pebble.client().config();
    wait_within(ORDER_TIME, "the site is served", || {
        SecureWire::connect(&client, tls, "a.test")
            .is_ok_and(|mut wire| wire.get("/").is_ok_and(|page| page == "secure"))
    });
    assert!(edge.output().contains("a.test.pem' has come from 127."), "{}", edge.output());
    let mut wire = SecureWire::connect(&client, tls, "a.test").unwrap();
    wire.send(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
    let (head, _) = wire.answer().unwrap();
    assert!(head.contains("strict-transport-security: max-age=31536000"), "{head}");
    let answer = Wire::connect(pebble.http).ask("GET /x?y HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(answer.status(), 308);
    assert_eq!(answer.field("location"), Some(format!("https://a.test:{port}/x?y").as_str()));
}

#[test]
#[ignore = "it waits for a certificate that lasts half a minute to be renewed: make acme"]
fn a_certificate_is_renewed_when_its_time_comes() {
    let habits = Habits { life_s: Some(24), ..Habits::default() };
    let Some(pebble) = Pebble::start(&habits) else { return };
    let (folder, tls) = (Folder::new(), free_address());
    let site = Site { pebble: &pebble, acme: " reuse-key on", domains: "a.test", folder: &folder.0, tls };
    let edge = Edge::start_single(&site.config());
    let client = pebble.client().config();
    let mut seen = Vec::new();
    wait_within(Duration::from_secs(120), "it was renewed three times", || {
        // Never is there one that has ended.
        if let Ok(wire) = SecureWire::connect(&client, tls, "a.test") {
            let shown = wire.certificate();
            if !seen.contains(&shown) {
                seen.push(shown);
            }
        } else {
            assert!(seen.is_empty(), "{}", edge.output());
        }
        seen.len() == 4
    });
}
