//! What every home of a coordinator promises, for both of them. etcd is a real one of its own; where none is installed, its part is
//! left out and says so.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::{
    net::TcpListener,
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use coord::{Change, CoordError, Coordinator, Embedded, Etcd, Transaction};

/// What etcd needs to be told of a lease's end: its leases are of whole seconds, and it looks each half.
const LEASE_PATIENCE: Duration = Duration::from_secs(20);

struct Server {
    child: Child,
    url: String,
    folder: tempfile::TempDir,
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Server {
    fn start() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let (client, peer) = (free_port(), free_port());
        let (url, peer_url) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
        let child = Self::spawn(folder.path(), &url, &peer_url)?;
        let server = Self { child, url, folder };
        let etcd = Etcd::new(&server.url).unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        while let Err(error) = etcd.read("/") {
            assert!(Instant::now() < end, "etcd does not start: {error}");
            thread::sleep(Duration::from_millis(50));
        }
        Some(server)
    }

    fn spawn(folder: &std::path::Path, url: &str, peer_url: &str) -> Option<Child> {
        let started = Command::new("etcd")
            .args(["--data-dir", &folder.join("data").display().to_string(), "--log-level", "error"])
            .args(["--listen-client-urls", url, "--advertise-client-urls", url])
            .args(["--listen-peer-urls", peer_url, "--initial-advertise-peer-urls", peer_url])
            .args(["--initial-cluster", &format!("default={peer_url}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        started
            .inspect_err(|error| eprintln!("etcd is left out: it cannot be started ({error}); .ci/tools installs it"))
            .ok()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = &self.folder;
    }
}

/// Runs a test with both homes.
fn in_both(test: impl Fn(Arc<dyn Coordinator>)) {
    let folder = tempfile::tempdir().unwrap();
    test(Arc::new(Embedded::open(folder.path()).unwrap()));
    if let Some(server) = Server::start() {
        test(Arc::new(Etcd::new(&server.url).unwrap()));
    }
}

fn version(home: &dyn Coordinator, key: &str) -> u64 {
    home.read(key).unwrap().map_or(0, |found| found.version)
}

#[test]
fn whoever_has_seen_an_old_version_changes_nothing() {
    in_both(|home| {
        let first = home.commit(Transaction::new().if_version("/a", 0).put("/a", "1").put("/b", "1")).unwrap();
        assert_eq!(version(&*home, "/a"), first);
        let late = home.commit(Transaction::new().if_version("/a", 0).put("/a", "2").delete("/b"));
        let Err(CoordError::Conflict { key, expected: 0, found }) = late else { panic!("{late:?}") };
        assert_eq!((key.as_str(), found), ("/a", first));
        assert_eq!(home.read("/b").unwrap().unwrap().value, b"1");
        let second = home.commit(Transaction::new().if_version("/a", first).if_version("/c", 0).delete("/a")).unwrap();
        assert!(second > first);
        assert_eq!(home.read("/a").unwrap(), None);
        // Any bytes, and none.
        let bytes = [0, 0xff, b'\n', b'"'];
        home.commit(Transaction::new().put("/bytes", bytes.to_vec()).put("/none", "")).unwrap();
        assert_eq!(home.read("/bytes").unwrap().unwrap().value, bytes);
        assert_eq!(home.read("/none").unwrap().unwrap().value, b"");
        let large = home.commit(Transaction::new().put("/large", vec![0; (1 << 20) + 1]));
        assert!(matches!(large, Err(CoordError::TooLarge { .. })), "{large:?}");
    });
}

#[test]
fn of_many_who_want_the_same_one_gets_it() {
    in_both(|home| {
        let threads: Vec<_> = (0..8)
            .map(|number| {
                let home = Arc::clone(&home);
                thread::spawn(move || {
                    let transaction = Transaction::new().if_version("/leader", 0).put("/leader", number.to_string());
                    home.commit(transaction).is_ok()
                })
            })
            .collect();
        let winners = threads.into_iter().map(|thread| thread.join().unwrap()).filter(|won| *won);
        assert_eq!(winners.count(), 1);
    });
}

#[test]
fn all_values_of_a_prefix_are_listed_in_order() {
    in_both(|home| {
        // More than are asked for at once.
        for chunk in (0..450).collect::<Vec<u32>>().chunks(90) {
            let transaction = chunk
                .iter()
                .fold(Transaction::new(), |all, number| all.put(format!("/x/{number:03}"), number.to_string()));
            home.commit(transaction).unwrap();
        }
        let last = home.commit(Transaction::new().put("/y", "no").put("/x", "no")).unwrap();
        let (revision, found) = home.list("/x/").unwrap();
        assert_eq!((revision, found.len()), (last, 450));
        assert!(found.iter().enumerate().all(|(place, (key, _))| *key == format!("/x/{place:03}")));
        assert_eq!(home.list("").unwrap().1.len(), 452);
        assert!(home.list("/z").unwrap().1.is_empty());
    });
}

#[test]
fn whoever_watches_gets_every_change_in_order() {
    in_both(|home| {
        let before = home.commit(Transaction::new().put("/x/0", "v")).unwrap();
        let watcher = Arc::clone(&home);
        let seen = thread::spawn(move || watcher.watch("/x/", before, Duration::from_secs(30)).unwrap());
        home.commit(Transaction::new().put("/y", "no")).unwrap();
        let both = home.commit(Transaction::new().put("/x/1", "yes").delete("/x/0")).unwrap();
        let first = seen.join().unwrap();
        let mut expected = [
            Change { revision: both, key: "/x/0".into(), value: None },
            Change { revision: both, key: "/x/1".into(), value: Some(b"yes".to_vec()) },
        ];
        let sorted = |mut changes: Vec<Change>| {
            changes.sort_by(|a, b| (a.revision, &a.key).cmp(&(b.revision, &b.key)));
            changes
        };
        assert_eq!(sorted(first), expected);
        // What happened meanwhile is told, too; a transaction is never told in part.
        expected[0].revision = both;
        assert_eq!(sorted(home.watch("/x/", before, Duration::ZERO).unwrap()), expected);
        assert!(home.watch("/x/", both, Duration::ZERO).unwrap().is_empty());
    });
}

#[test]
fn what_is_under_a_lease_goes_with_it() {
    in_both(|home| {
        let lease = home.grant(Duration::from_secs(2)).unwrap();
        home.commit(Transaction::new().put_under("/agent", "a", lease).put("/other", "b")).unwrap();
        let granted = Instant::now();
        while granted.elapsed() < Duration::from_secs(4) {
            home.keep_alive(lease).unwrap();
            thread::sleep(Duration::from_millis(200));
        }
        assert!(home.read("/agent").unwrap().is_some());
        let end = Instant::now() + LEASE_PATIENCE;
        while home.read("/agent").unwrap().is_some() {
            assert!(Instant::now() < end, "the lease does not end");
            thread::sleep(Duration::from_millis(50));
        }
        assert!(home.read("/other").unwrap().is_some());
        assert!(matches!(home.keep_alive(lease), Err(CoordError::NoLease(_))));
        let late = home.commit(Transaction::new().put_under("/agent", "a", lease));
        assert!(matches!(late, Err(CoordError::NoLease(found)) if found == lease), "{late:?}");
        let another = home.grant(Duration::from_secs(60)).unwrap();
        home.commit(Transaction::new().put_under("/agent", "a", another)).unwrap();
        home.revoke(another).unwrap();
        home.revoke(another).unwrap();
        assert_eq!(home.read("/agent").unwrap(), None);
    });
}

#[test]
fn changes_that_etcd_has_forgotten_are_said_to_be() {
    let Some(server) = Server::start() else { return };
    let etcd = Etcd::new(&format!("http://127.0.0.1:1,{}", server.url)).unwrap();
    etcd.commit(Transaction::new().put("/a", "1")).unwrap();
    let last = etcd.commit(Transaction::new().put("/a", "2")).unwrap();
    let status = Command::new("etcdctl")
        .env("ETCDCTL_API", "3")
        .args(["--endpoints", &server.url, "compact", &last.to_string()])
        .stdout(Stdio::null())
        .status();
    if status.is_ok_and(|status| status.success()) {
        let old = etcd.watch("/a", 0, Duration::from_secs(5));
        assert!(matches!(old, Err(CoordError::Compacted(0))), "{old:?}");
    }
    assert!(etcd.watch("/a", last, Duration::ZERO).unwrap().is_empty());
}
