//! Requests that are refused, of a client that does not wait for answers.

use super::*;

/// What a store says to a proxy that has just come.
const GREETED: &str = "+OK\r\n";
const DOWN: &str = "-CLUSTERDOWN The cluster is down\r\n";

/// A client that has sent these at once, and a server that has them.
fn sent_at_once(lines: &str, requests: &[&str]) -> (Scene, usize) {
    let mut scene = clustered(lines);
    let client = scene.client();
    for words in requests {
        scene.ask(client, words);
    }
    assert!(scene.sent(0).ends_with(&requests.join(" ")));
    scene.reply(0, GREETED);
    (scene, client)
}

#[test]
fn what_was_refused_is_not_run_behind_what_was_sent_after_it() {
    for requests in [["SET a 1", "SET a 2"], ["SET a 1", "GET a"], ["GET a", "DEL a"]] {
        let (mut scene, client) = sent_at_once(ONE, &requests);
        // It serves again from the second one on.
        scene.reply(0, &format!("{DOWN}+OK\r\n"));
        let said = scene.said(client);
        assert!(said.starts_with("-TRYAGAIN ") && said.ends_with("was not run\r\n+OK\r\n"), "{said}");
        scene.wait(50);
        assert_eq!(scene.sent(0), "");
        scene.ask(client, "SET a 3");
        assert_eq!(scene.sent(0), "SET a 3", "it goes on");
    }
}

#[test]
fn what_was_refused_is_run_when_nothing_on_its_keys_was() {
    // "b" is in another slot than "a".
    for requests in [["SET a 1", "SET b 2"], ["GET a", "GET a"]] {
        let (mut scene, client) = sent_at_once(ONE, &requests);
        scene.reply(0, &format!("{DOWN}+2\r\n"));
        assert_eq!(scene.said(client), "");
        scene.wait(20);
        assert_eq!(scene.sent(0), requests[0]);
        scene.reply(0, "+1\r\n");
        assert_eq!(scene.said(client), "+1\r\n+2\r\n");
    }
}

#[test]
fn refused_requests_are_tried_again_in_their_order() {
    let (mut scene, client) = sent_at_once(ONE, &["SET a 1", "SET a 2", "SET a 3"]);
    scene.reply(0, DOWN);
    scene.wait(20);
    assert_eq!(scene.sent(0), "", "the server may run the others");
    scene.reply(0, &format!("{DOWN}{DOWN}"));
    for _ in 0..3 {
        scene.wait(20);
        assert_eq!(scene.sent(0), "SET a 1", "alone: who refuses it may run the next one");
        scene.reply(0, DOWN);
    }
    scene.wait(20);
    assert_eq!(scene.sent(0), "SET a 1");
    scene.reply(0, "+1\r\n");
    scene.wait(20);
    assert_eq!(scene.sent(0), "SET a 2 SET a 3");
    scene.reply(0, "+2\r\n+3\r\n");
    assert_eq!(scene.said(client), "+1\r\n+2\r\n+3\r\n");
}

#[test]
fn requests_follow_their_slot_in_their_order() {
    let (mut scene, client) = sent_at_once(ONE, &["SET a 1", "SET a 2"]);
    let moved = "-MOVED 15495 127.0.0.1:3\r\n";
    scene.reply(0, moved);
    scene.wait(20);
    scene.reply(0, moved);
    scene.wait(5);
    assert!(scene.sent(1).ends_with("SET a 1"));
    scene.reply(1, &format!("{GREETED}+1\r\n"));
    scene.wait(5);
    assert_eq!(scene.sent(1), "SET a 2");
    scene.reply(1, "+2\r\n");
    assert_eq!(scene.said(client), "+1\r\n+2\r\n");
}

#[test]
fn what_may_have_been_run_overtakes_what_was_refused_too() {
    let (mut scene, client) = sent_at_once(ONE, &["SET a 1", "SET a 2"]);
    scene.proxy.links[0].sent_ever = u64::MAX;
    scene.reply(0, DOWN);
    scene.proxy.link_failed(0, &LinkFailure::Eof);
    scene.settle();
    let said = scene.said(client);
    assert!(said.starts_with("-TRYAGAIN ") && said.contains("whether the command was done is not known"), "{said}");
    scene.wait(50);
    assert!(!scene.sent(0).contains("SET"));
}

#[test]
fn what_waits_for_a_key_waits_on_while_its_server_is_replaced() {
    const LINES: &str =
        "n1 127.0.0.1:2@0 master - 0 0 1 connected 0-16383\nn2 127.0.0.1:3@0 master,fail - 0 0 1 connected\n";
    let mut scene = clustered(LINES);
    let client = scene.client();
    let own = |scene: &Scene| scene.proxy.clients[client].own.as_ref().unwrap().link.unwrap();
    scene.ask(client, "BLPOP a 0");
    // Nobody listens there yet, so it has not been sent.
    scene.proxy.link_failed(own(&scene), &LinkFailure::Other("Connection refused".into()));
    scene.settle();
    let mut greeting = GREETED;
    for reply in [
        "-UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)\r\n",
        "-MOVED 15495 127.0.0.1:3\r\n",
        "-CLUSTERDOWN The cluster is down\r\n",
    ] {
        assert_eq!(scene.said(client), "");
        scene.wait(20);
        let link = own(&scene);
        assert!(scene.sent(link).ends_with("BLPOP a 0"), "{reply}");
        scene.reply(link, &format!("{}{reply}", std::mem::take(&mut greeting)));
    }
    scene.wait(20);
    let link = own(&scene);
    scene.sent(link);
    let ended = "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n";
    scene.reply(link, ended);
    assert_eq!(scene.said(client), ended, "somebody has ended it");
    // What was sent may have taken an element.
    scene.ask(client, "BLPOP a 0");
    let link = own(&scene);
    scene.sent(link);
    scene.proxy.link_failed(link, &LinkFailure::Eof);
    scene.settle();
    assert!(scene.said(client).ends_with("whether the command was done is not known\r\n"));
}
