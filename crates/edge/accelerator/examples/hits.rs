//! What a hit costs without sockets: `valgrind --tool=callgrind target/quick/examples/hits builtin 10000`. The other program is
//! `long`, one of sixty lines. A third word, `log`, has each hit logged too, into a ring of its own.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a measurement that cannot go on ends")]

use std::sync::Arc;

use accelerator::{
    Connection,
    backend::{AcceptedBody, Backend, Step as FetchStep},
    client::{Client, Fetched, Step},
    load::load,
    loaded::{AllHealthy, Loaded, Parts, Storages},
    log::{Account, LogLimits, LogSink},
    publication::Mask,
    settings::Settings,
};
use cache::{index::Cache, storage::Stevedore};
use http::{Limits, RequestHead, RequestParser, ResponseHead, Version};
use telemetry::vsl::VslTag;
use vsm::{Publisher, WorkingDirectory};

const LONG: &str = include_str!("../../../../bench/hit.vcl");
const REQUEST: &[u8] =
    b"GET /some/path?with=query HTTP/1.1\r\nHost: www.example.com\r\nUser-Agent: test/1.0\r\nAccept: */*\r\n\r\n";

fn loaded(text: &str) -> Arc<Loaded> {
    let options = vcl::Options { unused_is_error: false, ..vcl::Options::default() };
    let compiled = vcl::compile("hit.vcl", text, &options).unwrap_or_else(|wrong| panic!("{}", wrong.message()));
    let parts = Parts {
        name: "boot".to_owned(),
        settings: Settings::default(),
        cache: Cache::new(),
        storages: Arc::new(Storages::new(
            vec![Arc::new(Stevedore::malloc("s0", 1 << 20))],
            Arc::new(Stevedore::malloc("Transient", 1 << 20)),
        )),
        backends: Arc::new(AllHealthy),
        lasting: Arc::default(),
    };
    load(Arc::new(compiled.program), parts).unwrap()
}

/// Where records go, and what must stay for that.
fn published(folder: &std::path::Path) -> (std::rc::Rc<LogSink>, Publisher, WorkingDirectory) {
    let directory = WorkingDirectory::create_for_worker(folder).unwrap();
    let mut worker = directory.worker().unwrap();
    let log = worker.log(16 << 20).unwrap();
    let mask = Mask::default();
    VslTag::ALL.iter().for_each(|tag| log.set_written(*tag, mask.writes(*tag)));
    (LogSink::new(log.writer(), Arc::default(), LogLimits::default()), worker, directory)
}

fn request() -> RequestHead {
    let mut head = RequestHead::default();
    RequestParser::new().parse(REQUEST, &Limits::default(), &mut head).unwrap();
    head
}

/// Fetches the object.
fn fetch(order: accelerator::backend::Order) -> Fetched {
    let mut backend = Backend::new(order, 1_795_000_000.0, false);
    let FetchStep::Ask(_) = backend.begin() else { panic!("nobody is asked") };
    let mut head = ResponseHead::default();
    head.start(Version::Http11, 200);
    head.set_reason(b"OK");
    for (name, value) in [("content-length", "12"), ("content-type", "text/plain"), ("etag", "\"x\"")] {
        head.headers.add(name.as_bytes(), value.as_bytes());
    }
    let FetchStep::Accept(accepted) = backend.responded(head, 1_795_000_000.0) else { panic!("not accepted") };
    assert!(matches!(accepted.body, AcceptedBody::Backend(_)));
    let mut stored = accepted.stored.unwrap();
    stored.filler.write(b"hello world\n").unwrap();
    stored.filler.finish();
    stored.fetch.unwrap().publish(Arc::clone(&stored.object));
    Fetched::Object(stored.object)
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let text = match words.get(1).map(String::as_str) {
        Some("long") => LONG,
        _ => "vcl 4.1; backend default { .host = \"192.0.2.1\"; }",
    };
    let count: usize = words.get(2).and_then(|count| count.parse().ok()).unwrap_or(10_000);
    let loaded = loaded(text);
    let folder = std::env::temp_dir().join(format!("tidegate-hits-{}", std::process::id()));
    let logged = words.get(3).is_some_and(|word| word == "log").then(|| published(&folder));
    let connection = Connection {
        client: Some(([192, 0, 2, 7], 5_000).into()),
        server: Some(([192, 0, 2, 1], 80).into()),
        ..Connection::default()
    };
    let head = request();
    let mut hits = 0;
    let mut spare = (RequestHead::default(), ResponseHead::default());
    for number in 0..count {
        let now = 1_795_000_000.0 + number as f64 / 1e4;
        let mut request = std::mem::take(&mut spare.0);
        request.copy_from(&head, 256, 4);
        let numbers = std::rc::Rc::new(move || number as u64);
        let mut client = Client::new(&loaded, request, connection.clone(), now, numbers, false);
        client.lend(std::mem::take(&mut spare.1));
        if let Some((sink, ..)) = &logged {
            client.log_to(Some(sink), "rxreq", now);
        }
        let mut step = client.begin();
        if let Step::Fetch(order) = step {
            step = client.fetched(fetch(*order), now);
        } else {
            hits += 1;
        }
        let mut log = client.take_log();
        let Step::Deliver(delivery) = step else { panic!("not delivered") };
        log.field(VslTag::RespHeader, b"Connection", b"keep-alive");
        log.end_request(Account { request_head: 97, response_head: 200, response_body: 12, ..Account::default() }, now);
        assert_eq!(delivery.head.status(), 200);
        spare = (client.take_request(), delivery.head);
    }
    drop(logged);
    let _ = std::fs::remove_dir_all(&folder);
    println!("{hits} hits of {count}");
}
