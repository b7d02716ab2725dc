//! What is said to a worker, what a program is recorded with, and the sections that its backends become.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::{fs, net::SocketAddr};

use varnishcli::Parameters;
use varnishd::{
    Frontend, Listen, Place, backends, configuration,
    manager::addresses,
    orders::{self, Order, Patience},
    recorded::Recorder,
};
use vcl::{compile::Resolver as _, source::Files as _};

#[test]
fn orders_come_as_they_went() {
    let order = Order::Label { label: "api".to_owned(), name: "zwölf \"a\"".to_owned() };
    let bytes = orders::encode(&order).unwrap();
    let back: Order = orders::receive(&mut &bytes[..]).unwrap();
    assert!(matches!(back, Order::Label { label, name } if label == "api" && name == "zwölf \"a\""));
    assert!(orders::receive::<Order>(&mut &bytes[..bytes.len() - 1]).is_err());
    assert!(orders::length([255; 4]).is_err(), "no message is as long");
}

#[test]
fn what_was_read_is_read_again_without_the_files() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.vcl", "b.vcl", "c.txt"] {
        fs::write(folder.path().join(name), name).unwrap();
    }
    let recorder = Recorder::new(folder.path().to_str().unwrap(), false);
    let pattern = format!("{}/*.vcl", folder.path().display());
    let files = recorder.glob(&pattern).unwrap();
    assert_eq!(files.len(), 2, "{files:?}");
    assert_eq!(recorder.read("a.vcl").unwrap(), "a.vcl", "found along vcl_path");
    assert!(recorder.read(&files[0]).unwrap_err().contains("is unsafe"));
    assert!(recorder.read("missing.vcl").is_err());
    let found = recorder.resolve("127.0.0.1").unwrap();
    let recorded = recorder.recorded();
    drop(folder);
    assert_eq!(recorded.read("a.vcl").unwrap(), "a.vcl");
    assert_eq!(recorded.glob(&pattern).unwrap(), files);
    assert_eq!(recorded.resolve("127.0.0.1").unwrap(), found);
    assert!(recorded.read("c.txt").unwrap_err().contains("not asked for"));
}

#[test]
fn backends_become_sections() {
    let text =
        "vcl 4.1; backend a { .host = \"192.0.2.1\"; .port = \"81\"; .connect_timeout = 2s; .max_connections = 3; }
        backend b { .path = \"/run/b\"; .proxy_header = 1; } backend c none;
        sub vcl_recv { set req.backend_hint = b; set req.backend_hint = c; }";
    let compiled = vcl::compile("x", text, &vcl::Options::default()).unwrap();
    let patience = Patience { connect: 3.5, first_byte: 60.0 };
    let sections = backends::sections("boot", &compiled.program, patience, &vcl::compile::NumbersOnly);
    for line in [
        "    timeout connect 3500ms\n",
        "backend boot.a\n    timeout connect 2000ms\n    server a 192.0.2.1:81 maxconn 3\n",
        "backend boot.b\n    server b unix@/run/b send-proxy\n",
    ] {
        assert!(sections.contains(line), "{line}\n{sections}");
    }
    assert!(!sections.contains("boot.c"), "{sections}");
}

#[test]
fn options_become_a_frontend() {
    let address: SocketAddr = "127.0.0.1:81".parse().unwrap();
    let rights = vec![("mode".to_owned(), "660".to_owned())];
    let frontend = Frontend {
        listen: vec![
            Listen { name: "a0".to_owned(), place: Place::Inet(address), is_proxy: true },
            Listen { name: "a1".to_owned(), place: Place::Path { path: "/run/v".to_owned(), rights }, is_proxy: false },
        ],
        storages: vec!["s0=malloc,1m".to_owned()],
        ..Frontend::default()
    };
    let text = configuration(&frontend, &Parameters::default());
    for line in [
        "    timeout http-keep-alive 5000ms\n",
        "    bind 127.0.0.1:81 name a0 accept-proxy\n",
        "    bind /run/v mode 660 name a1\n",
        "    vcl managed storage s0=malloc,1m\n",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[test]
fn addresses_are_said_in_varnishs_ways() {
    let of = |word: &str| addresses(word, None).map(|found| found[0].to_string());
    assert_eq!(of("127.0.0.1:6082").unwrap(), "127.0.0.1:6082");
    assert_eq!(of("127.0.0.1 6082").unwrap(), "127.0.0.1:6082");
    assert_eq!(of("[::1]:6082").unwrap(), "[::1]:6082");
    assert_eq!(of(":6082").unwrap(), "0.0.0.0:6082");
    assert!(of("127.0.0.1").unwrap_err().contains("no port"));
    assert!(of("127.0.0.1:many").unwrap_err().contains("is no port"));
    assert_eq!(addresses("127.0.0.1", Some("80")).unwrap()[0].port(), 80);
}
