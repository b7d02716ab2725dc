//! Keys that go to another server.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use support::{Client, Folder, redis_server, start};

fn move_all(client: &mut Client, port: &str, rest: &[&str], keys: &[&str]) -> String {
    let mut words = vec!["MIGRATE", "127.0.0.1", port, "", "0", "5000"];
    words.extend_from_slice(rest);
    words.push("KEYS");
    words.extend_from_slice(keys);
    client.text(&words)
}

const KEYS: &[&str] = &["string", "list", "hash", "zset", "stream", "short"];

fn fill(client: &mut Client) {
    client.text(&["SET", "string", "value"]);
    client.text(&["RPUSH", "list", "a", "b"]);
    client.text(&["HSET", "hash", "field", "value"]);
    client.text(&["ZADD", "zset", "1.5", "member"]);
    client.text(&["XADD", "stream", "1-1", "field", "value"]);
    client.text(&["XGROUP", "CREATE", "stream", "group", "0"]);
    client.text(&["SET", "short", "x", "EX", "1000"]);
}

/// To a store, from there to a Redis, and back: nothing is lost and nothing is there twice, also after a crash.
#[test]
fn keys_go_from_server_to_server() {
    let (first_folder, second_folder, redis_folder) = (Folder::new(), Folder::new(), Folder::new());
    let words = ["--appendfsync", "always", "--enable-debug-command", "yes"];
    let mut first = start(&first_folder.data(), &words);
    let second = start(&second_folder.data(), &["--requirepass", "secret"]);
    let redis = redis_server(&redis_folder.0, &[]);
    let [at_second, at_redis] = [&second, &redis].map(|one| one.address.port().to_string());
    let mut client = first.client();
    let mut other = second.client();
    other.text(&["AUTH", "secret"]);
    fill(&mut client);
    let digest = client.text(&["DEBUG", "DIGEST"]);

    let refused = move_all(&mut client, &at_second, &[], KEYS);
    assert!(refused.contains("ERR Target instance replied with error: NOAUTH"), "{refused}");
    assert_eq!(move_all(&mut client, &at_second, &["AUTH", "secret", "COPY"], KEYS), "OK");
    assert_eq!((client.text(&["DBSIZE"]), other.text(&["DBSIZE"])), ("6".into(), "6".into()));
    let busy = move_all(&mut client, &at_second, &["AUTH", "secret"], KEYS);
    assert!(busy.contains("BUSYKEY") && client.text(&["DBSIZE"]) == "6", "{busy}");
    assert_eq!(move_all(&mut client, &at_second, &["AUTH2", "default", "secret", "REPLACE"], KEYS), "OK");
    assert_eq!(client.text(&["DBSIZE"]), "0");
    assert_eq!(move_all(&mut client, &at_second, &[], KEYS), "NOKEY");

    // What was answered is in the log.
    first.kill();
    let first = start(&first_folder.data(), &words);
    let mut client = first.client();
    assert_eq!(client.text(&["DBSIZE"]), "0");

    let at_first = first.address.port().to_string();
    let mut real = redis.client();
    assert_eq!(move_all(&mut other, &at_redis, &[], KEYS), "OK");
    assert_eq!(move_all(&mut real, &at_first, &[], KEYS), "OK");
    assert_eq!((other.text(&["DBSIZE"]), real.text(&["DBSIZE"])), ("0".into(), "0".into()));
    assert_eq!(client.text(&["DEBUG", "DIGEST"]), digest);
    assert_eq!(client.text(&["XGROUP", "CREATECONSUMER", "stream", "group", "me"]), "1");
    assert!(client.text(&["TTL", "short"]).parse::<i64>().unwrap() > 900);
}

/// A key that changes while the other server is silent is not lost, and others are served meanwhile.
#[test]
fn what_changes_on_its_way_stays() {
    let (first_folder, second_folder) = (Folder::new(), Folder::new());
    let first = start(&first_folder.data(), &[]);
    let second = start(&second_folder.data(), &["--enable-debug-command", "yes"]);
    let port = second.address.port().to_string();
    let (mut client, mut other) = (first.client(), first.client());
    fill(&mut client);
    let mut sleeping = Vec::new();
    resp::encode_command(&mut sleeping, &["DEBUG", "SLEEP", "0.5"]);
    let mut sleeper = second.client();
    sleeper.send(&sleeping);
    let mut moving = Vec::new();
    resp::encode_command(
        &mut moving,
        &["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS", "string", "stream", "hash"],
    );
    client.send(&moving);
    support::wait_until("the client waits", || other.text(&["INFO", "clients"]).contains("blocked_clients:1"));
    assert_eq!(other.text(&["APPEND", "string", "!"]), "6");
    assert_eq!(other.text(&["XGROUP", "CREATECONSUMER", "stream", "group", "me"]), "1");
    let Some(resp::Value::Error(reply)) = client.reply() else { panic!("it went well") };
    let reply = String::from_utf8_lossy(&reply);
    assert!(reply.contains("has changed on its way"), "{reply}");
    assert_eq!(other.text(&["GET", "string"]), "value!");
    assert_eq!(other.text(&["EXISTS", "stream", "hash"]), "1");
    assert_eq!(second.client().text(&["GET", "string"]), "value");

    // Nobody there, and where everybody would have to wait.
    let nobody = support::free_address().port().to_string();
    let gone = client.text(&["MIGRATE", "127.0.0.1", &nobody, "string", "0", "1000"]);
    assert!(gone.contains("IOERR"), "{gone}");
    client.text(&["MULTI"]);
    client.text(&["MIGRATE", "127.0.0.1", &port, "string", "0", "1000"]);
    let replies = client.command(&["EXEC"]);
    let refused = matches!(replies.as_slice(), Some([resp::Value::Error(text)]) if text.starts_with(b"ERR MIGRATE"));
    assert!(refused, "{replies:?}");
    assert_eq!(other.text(&["GET", "string"]), "value!");
}

/// As Redis says it: it writes before it looks whether the connection came about.
#[test]
fn who_does_not_listen_is_an_error_of_writing() {
    let (folder, redis_folder) = (Folder::new(), Folder::new());
    let store = start(&folder.data(), &[]);
    let redis = redis_server(&redis_folder.0, &[]);
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = nobody.local_addr().unwrap().port().to_string();
    drop(nobody);
    for port in [closed.as_str(), "0", "port", "65536", "-1"] {
        let [ours, theirs] = [store.client(), redis.client()].map(|mut client| {
            client.text(&["SET", "string", "value"]);
            move_all(&mut client, port, &[], &["string"])
        });
        assert_eq!(ours, theirs, "{port}");
        let expected = if port == "-1" { "connecting to the client" } else { "writing to target instance" };
        assert!(ours.contains(&format!("IOERR error or timeout {expected}")), "{ours}");
    }
}
