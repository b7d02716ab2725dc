//! The page and the metrics of a store, over real sockets.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use serde_json::Value;
use store::running::Running;
use support::{Folder, start, wait_until};

/// Where the page of a store is: it was told to choose a port.
fn page_of(folder: &Folder) -> String {
    Running::find(&folder.data()).unwrap().and_then(|running| running.page).expect("it has a page")
}

/// Asks for something; the answer's head and body.
fn ask(page: &str, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(page).unwrap();
    stream.set_read_timeout(Some(support::PATIENCE)).unwrap();
    stream.write_all(format!("{}\r\n\r\n", request.replace('\n', "\r\n")).as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    (head.to_owned(), body.to_owned())
}

fn live(page: &str) -> Value {
    let (head, body) = ask(page, "GET /live.json?window=60 HTTP/1.1\nHost: localhost");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    serde_json::from_str(&body).unwrap()
}

#[test]
fn people_and_prometheus_see_how_the_store_is() {
    let folder = Folder::new();
    let words = ["--page-address", "127.0.0.1:0", "--slowlog-log-slower-than", "0", "--maxmemory", "100mb"];
    let store = start(&folder.data(), &words);
    let page = page_of(&folder);
    let mut client = store.client();
    client.text(&["CLIENT", "SETNAME", "somebody"]);
    for number in 0..50 {
        client.text(&["SET", &format!("key:{number}"), "value"]);
        client.text(&["GET", &format!("key:{number}")]);
    }
    client.text(&["LPUSH", "key:1", "x"]);
    let (head, body) = ask(&page, "GET / HTTP/1.1\nHost: 127.0.0.1");
    assert!(
        head.starts_with("HTTP/1.1 200 ") && head.contains("Content-Security-Policy: default-src 'none'"),
        "{head}"
    );
    for asset in ["look.css", "store.css", "look.js", "store.js"] {
        assert!(body.contains(&format!("/asset/{asset}?v=")), "{body}");
        let (head, body) = ask(&page, &format!("GET /asset/{asset}?v=1 HTTP/1.1"));
        assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("max-age") && body.len() > 500, "{head}");
    }
    // The charts have what happened.
    wait_until("a second is over", || live(&page)["points"]["n"].as_u64() > Some(1));
    let live = live(&page);
    assert_eq!(
        (&live["info"]["maxmemory"], &live["info"]["keyspace_hits"]),
        (&(100 << 20).into(), &50.into()),
        "{live}"
    );
    assert_eq!(live["databases"][0]["keys"], 50);
    assert!(
        live["commands"].as_array().unwrap().iter().any(|one| one["name"] == "set" && one["calls"] == 50.0),
        "{live}"
    );
    assert_eq!(live["slow"][0]["words"], "LPUSH key:1 x");
    assert_eq!(live["clients"][0]["name"], "somebody");
    assert!(live["disk"]["tables"].as_u64() > Some(0) && live["disk"]["log"].as_u64() > Some(0), "{live}");

    let (head, body) = ask(&page, "GET /metrics HTTP/1.1\nHost: localhost");
    assert!(head.contains("Content-Type: text/plain; version=0.0.4"), "{head}");
    for line in [
        "redis_up 1",
        "redis_db_keys{db=\"db0\"} 50",
        "redis_keyspace_hits_total 50",
        "redis_commands_total{cmd=\"set\"} 50",
        "redis_commands_failed_calls_total{cmd=\"lpush\"} 1",
        "redis_errors_total{err=\"WRONGTYPE\"} 1",
        "redis_memory_max_bytes 104857600",
        "redis_aof_last_write_status 1",
    ] {
        assert!(body.contains(&format!("\n{line}\n")) || body.starts_with(&format!("{line}\n")), "{line}\n{body}");
    }
    // Looking is no command.
    assert!(!client.text(&["INFO", "commandstats"]).contains("cmdstat_slowlog"));
    let (head, body) = ask(&page, "HEAD /metrics HTTP/1.1\nHost: localhost");
    assert!(head.starts_with("HTTP/1.1 200 ") && body.is_empty(), "{head}");
    for (request, status) in [
        ("POST /metrics HTTP/1.1\nHost: localhost", 405),
        ("GET /other HTTP/1.1\nHost: localhost", 404),
        ("GET /asset/../store.rs HTTP/1.1\nHost: localhost", 404),
        ("nonsense", 400),
    ] {
        let (head, _) = ask(&page, request);
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {head}");
    }
}

#[test]
fn who_may_not_ask_the_store_may_not_see_its_page() {
    let folder = Folder::new();
    let store = start(&folder.data(), &["--page-address", "127.0.0.1:0"]);
    let page = page_of(&folder);
    let mut client = store.client();
    let status = |more: &str| {
        let (head, body) = ask(&page, &format!("GET /metrics HTTP/1.1\nHost: {more}"));
        (head.split(' ').nth(1).unwrap().to_owned(), format!("{head}\n{body}"))
    };
    assert_eq!(status("localhost").0, "200");
    // Another site's page, by a name that was pointed here.
    for request in ["evil.example", "evil.example\nAuthorization: Basic OnNlY3JldA=="] {
        let (code, text) = status(request);
        assert!(code == "403" && text.contains("any site could read it"), "{text}");
    }
    client.text(&["CONFIG", "SET", "requirepass", "secret"]);
    let (code, text) = status("localhost");
    assert!(code == "401" && text.contains("WWW-Authenticate: Basic"), "{text}");
    // ":secret", "default:secret", "default:wrong", "metrics:other"
    for (credentials, expected) in [
        ("OnNlY3JldA==", "200"),
        ("ZGVmYXVsdDpzZWNyZXQ=", "200"),
        ("ZGVmYXVsdDp3cm9uZw==", "401"),
        ("bWV0cmljczpvdGhlcg==", "401"),
    ] {
        let (code, text) = status(&format!("store.example\nAuthorization: Basic {credentials}"));
        assert_eq!(code, expected, "{text}");
    }
    // A user that may read INFO and nothing else has metrics.
    client.text(&["AUTH", "secret"]);
    assert_eq!(client.text(&["ACL", "SETUSER", "metrics", "on", ">other", "+info"]), "OK");
    assert_eq!(status("localhost\nAuthorization: Basic bWV0cmljczpvdGhlcg==").0, "200");
    let (head, body) =
        ask(&page, "GET /live.json HTTP/1.1\nHost: localhost\nAuthorization: Basic bWV0cmljczpvdGhlcg==");
    assert!(head.starts_with("HTTP/1.1 401 ") && body.contains("may not run"), "{head} {body}");
}

#[test]
fn a_page_that_cannot_be_served_keeps_the_store_from_starting() {
    let folder = Folder::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let said = support::refusal(&folder.data(), &["--page-address", &taken.local_addr().unwrap().to_string()]);
    assert!(said.contains("cannot serve the page on ") && said.contains("page-address chooses the address"), "{said}");
}
