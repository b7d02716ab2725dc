//! Connections when a process loads anew, is replaced or dies.

use std::{
    net::UdpSocket,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
};

use bytes::{Buf as _, Bytes};
use rustix::process::Signal;

use super::{
    BIG, Place,
    support::{
        self, Edge,
        http3::{Http3, block_on, receive},
        wait_until,
    },
};

/// Clients that ask one request after the other, each on a connection of its own, until they are told to end.
struct Load {
    ends: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
    clients: Vec<std::thread::JoinHandle<(usize, Vec<String>)>>,
}

impl Load {
    fn start(place: &Place, clients: usize) -> Self {
        let (ends, asked) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let clients = (0..clients).map(|_| {
            let (ends, asked) = (Arc::clone(&ends), Arc::clone(&asked));
            let (settings, front) = (place.authority.client(), place.front);
            std::thread::spawn(move || {
                block_on(async {
                    let (mut connections, mut failures) = (0, Vec::new());
                    while !ends.load(Relaxed) {
                        let mut client = Http3::connect(&settings, front).await;
                        connections += 1;
                        while !ends.load(Relaxed) {
                            // A connection that is to end takes no request: nothing has been sent.
                            let Ok(stream) = client.send("GET", "/", None).await else { break };
                            match receive(stream).await {
                                Ok(page) if page.status == 200 => asked.fetch_add(1, Relaxed),
                                other => {
                                    failures.push(format!("{other:?}"));
                                    break;
                                }
                            };
                        }
                    }
                    (connections, failures)
                })
            })
        });
        Self { clients: clients.collect(), ends, asked }
    }

    /// Waits until so many more requests have been answered.
    fn wait_more(&self, count: usize) {
        let before = self.asked.load(Relaxed);
        wait_until("requests go on", || self.asked.load(Relaxed) >= before + count);
    }

    /// How many connections there were, and what failed.
    fn end(self) -> (usize, Vec<String>) {
        self.ends.store(true, Relaxed);
        let mut all = (0, Vec::new());
        for client in self.clients {
            let (connections, failures) = client.join().unwrap();
            all.0 += connections;
            all.1.extend(failures);
        }
        all
    }
}

#[test]
fn a_reload_fails_no_request_and_ends_no_connection() {
    let place = Place::new();
    let config = place.config(2, "alpn h3", "");
    let edge = Edge::start(&config);
    let load = Load::start(&place, 3);
    for round in 0..5 {
        load.wait_more(20);
        let text = format!("{config} http-response set-header x-round {round}\n");
        write(&edge, &text);
        tell(&edge, "reload");
        let page =
            block_on(async { Http3::connect(&place.authority.client(), place.front).await.get("/").await.unwrap() });
        assert_eq!(page.head.headers()["x-round"], round.to_string().as_str());
    }
    load.wait_more(20);
    assert_eq!(load.end(), (3, Vec::new()));
}

/// Changes the file that a process has loaded.
fn write(edge: &Edge, config: &str) {
    edge.folder.file("haproxy.cfg", config.replace("%FOLDER%", &edge.folder.0.display().to_string()));
}

fn tell(edge: &Edge, command: &str) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let output = program.args([command, "--pid", &edge.pid().to_string()]).output().unwrap();
    assert!(output.status.success(), "{command}: {}{}", String::from_utf8_lossy(&output.stderr), edge.output());
}

#[test]
fn an_upgrade_fails_no_request_and_lets_downloads_end() {
    let place = Place::new();
    let edge = Edge::start(&place.config(2, "alpn h3", ""));
    let load = Load::start(&place, 3);
    load.wait_more(20);
    block_on(async {
        let mut client = Http3::connect(&place.authority.client(), place.front).await;
        let mut downloads = Vec::new();
        for _ in 0..4 {
            downloads.push(client.send("GET", "/big", None).await.unwrap());
        }
        let first = receive(downloads.remove(0)).await.unwrap();
        assert_eq!(first.body.len(), BIG);
        for _ in 0..2 {
            tell(&edge, "upgrade");
            load.wait_more(20);
        }
        for download in downloads {
            assert_eq!(receive(download).await.unwrap().body.len(), BIG);
        }
    });
    load.wait_more(20);
    let (_, failures) = load.end();
    assert_eq!(failures, Vec::<String>::new());
    wait_until("the former workers have ended", || edge.workers().len() == 1);
}

#[test]
fn clients_of_a_process_that_has_crashed_are_told_so() {
    let place = Place::new();
    let config = place.config(1, "alpn h3", "").replace("global\n", "global\n cluster-secret s3cr3t\n");
    let edge = Edge::start(&config);
    block_on(async {
        let mut client = Http3::connect(&place.authority.client(), place.front).await;
        assert_eq!(client.get("/").await.unwrap().status, 200);
        let former = edge.workers();
        support::signal_process(former[0], Signal::KILL);
        // Its keep-alive is answered by the next process.
        let why = tokio::time::timeout(support::PATIENCE, client.quic.closed()).await.unwrap();
        assert!(matches!(why, quinn::ConnectionError::Reset), "{why:?}");
        let mut again = Http3::connect(&place.authority.client(), place.front).await;
        assert_eq!(again.get("/").await.unwrap().status, 200);
    });
}

/// The sockets are as many as before: a worker has several of one address.
#[test]
fn connections_live_on_where_there_are_fewer_workers_after_an_upgrade() {
    let place = Place::new();
    let config = place.config(4, "alpn h3", "");
    let edge = Edge::start(&config);
    write(&edge, &config.replace("nbthread 4", "nbthread 1"));
    tell(&edge, "upgrade");
    block_on(async {
        let mut downloads = Vec::new();
        for _ in 0..12 {
            let mut client = Http3::connect(&place.authority.client(), place.front).await;
            for _ in 0..3 {
                assert_eq!(client.get("/").await.unwrap().status, 200);
                client.endpoint.rebind(UdpSocket::bind((place.front.ip(), 0)).unwrap()).unwrap();
            }
            let mut download = client.send("GET", "/big", None).await.unwrap();
            assert_eq!(download.recv_response().await.unwrap().status(), 200);
            downloads.push((client, download));
        }
        tell(&edge, "upgrade");
        for (_client, mut download) in downloads {
            let mut length = 0;
            while let Some(piece) = download.recv_data().await.unwrap() {
                length += piece.remaining();
            }
            assert_eq!(length, BIG);
        }
    });
    wait_until("the former workers have ended", || edge.workers().len() == 1);
}

/// What it has no room for is lost, as any datagram may be: its clients are told nothing else.
#[test]
fn clients_of_a_former_process_that_is_slow_are_not_told_that_it_is_gone() {
    let place = Place::new();
    let config = place.config(1, "alpn h3", "").replace("global\n", "global\n cluster-secret s3cr3t\n");
    let edge = Edge::start(&config);
    let former = edge.workers();
    block_on(async {
        let mut client = Http3::connect(&place.authority.client(), place.front).await;
        let request = http3_client_types::Request::post("https://localhost/echo").body(()).unwrap();
        let mut upload = client.requests.send_request(request).await.unwrap();
        upload.send_data(Bytes::from(vec![b'x'; BIG])).await.unwrap();
        tell(&edge, "upgrade");
        support::signal_process(former[0], Signal::STOP);
        let sent = || client.quic.stats().udp_tx.datagrams;
        let before = sent();
        let sending = async {
            upload.send_data(Bytes::from(vec![b'y'; BIG])).await.unwrap();
            upload.finish().await.unwrap();
            receive(upload).await.unwrap()
        };
        let resuming = async {
            // More than a unix socket takes.
            while sent() < before + 100 {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
            support::signal_process(former[0], Signal::CONT);
        };
        let (page, ()) = tokio::join!(sending, resuming);
        assert_eq!(page.body, [vec![b'x'; BIG], vec![b'y'; BIG]].concat());
    });
}
