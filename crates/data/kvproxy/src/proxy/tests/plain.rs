//! Servers that know no slots: what a proxy sends them, and when it says that orders are done.

use commands::cluster::Topology;

use super::{super::plain::Lease, super::*, Scene, clustered, following};
use crate::policy::ReadFrom;

/// All slots are the Redis' of port 2.
const FIRST: &str = "n1 127.0.0.1:2@0 master - 0 0 1 connected 0-16383\nn2 127.0.0.1:3@0 master - 0 0 1 connected\n";
/// The slot of "a", 15495, is that of port 3.
const SECOND: &str =
    "n1 127.0.0.1:2@0 master - 0 0 1 connected 0-14999\nn2 127.0.0.1:3@0 master - 0 0 1 connected 15000-16383\n";

fn view(scene: &mut Scene, lines: &str, stamp: u64, held: &[(u16, u16)]) {
    let servers = [2, 3].map(|port| ("127.0.0.1".to_owned(), port, None)).into();
    scene.proxy.set_view(&Topology::parse(lines).unwrap(), &Orders { stamp, servers, held: held.to_vec() });
    scene.settle();
}

fn scene() -> Scene {
    let mut scene = clustered(FIRST);
    view(&mut scene, FIRST, 1, &[]);
    scene.proxy.set_lease(Lease { stamp: 1, until: 1_000 }, 0);
    scene
}

#[test]
fn requests_on_slots_on_hold_wait_and_orders_are_done_when_what_was_under_way_is_answered() {
    let mut scene = scene();
    let (client, other) = (scene.client(), scene.client());
    scene.ask(client, "INCR a");
    assert_eq!(scene.sent(0), "INCR a", "nothing is said first to a server that knows no slots");
    view(&mut scene, FIRST, 2, &[(15_000, 16_383)]);
    assert_eq!(scene.proxy.done_orders(), None);
    scene.ask(client, "INCR a");
    scene.ask(other, "GET b");
    assert_eq!(scene.sent(0), "GET b", "the slot of b is not on hold");
    scene.reply(0, ":1\r\n");
    assert_eq!(scene.proxy.done_orders(), Some(2));
    assert_eq!(scene.said(client), ":1\r\n");
    // The new owner is told of with the end of the hold.
    view(&mut scene, SECOND, 3, &[]);
    assert_eq!(scene.sent(1), "INCR a");
    scene.reply(1, ":2\r\n");
    assert_eq!(scene.said(client), ":2\r\n");
    assert_eq!(scene.proxy.done_orders(), Some(3));
}

#[test]
fn without_a_lease_nothing_is_sent_and_what_was_not_sent_goes_where_it_belongs_then() {
    let mut scene = scene();
    let (client, late) = (scene.client(), scene.client());
    // It is still to be sent when the process is stopped.
    scene.ask(client, "INCR a");
    scene.proxy.set_lease(Lease { stamp: 1, until: 1_000 }, 1_000);
    scene.settle();
    scene.ask(late, "GET a");
    scene.wait(20);
    assert!(scene.proxy.links.iter().all(|(_, link)| link.unsent() == 0));
    // A lease for later orders is none before these are known.
    scene.proxy.set_lease(Lease { stamp: 2, until: 3_000 }, 1_100);
    scene.wait(20);
    assert!(scene.proxy.links.iter().all(|(_, link)| link.unsent() == 0));
    view(&mut scene, SECOND, 2, &[]);
    scene.proxy.set_lease(Lease { stamp: 2, until: 3_000 }, 1_200);
    scene.wait(20);
    let sent = scene.sent(1);
    assert!(sent.contains("INCR a") && sent.contains("GET a"), "{sent}");
    // Who waits for too long hears so.
    scene.proxy.set_lease(Lease { stamp: 2, until: 3_000 }, 3_000);
    let unlucky = scene.client();
    scene.ask(unlucky, "GET a");
    assert_eq!(scene.said(unlucky), "");
    scene.wait(6_000);
    assert!(scene.said(unlucky).starts_with("-CLUSTERDOWN "), "{:?}", scene.proxy.plain);
}

#[test]
fn what_waits_at_a_server_goes_on_waiting_at_the_next_one() {
    let mut scene = scene();
    let client = scene.client();
    scene.ask(client, "BLPOP a 0");
    let own = scene.proxy.clients[client].own.as_ref().unwrap().link.unwrap();
    assert_eq!(scene.sent(own), "BLPOP a 0");
    scene.wait(60_000);
    view(&mut scene, FIRST, 2, &[(15_000, 16_383)]);
    assert_eq!(scene.proxy.done_orders(), None);
    // Whoever looks after the server ends what waits there.
    scene.reply(own, "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n");
    assert_eq!(scene.proxy.done_orders(), Some(2));
    view(&mut scene, SECOND, 3, &[]);
    scene.wait(20);
    let own = scene.proxy.clients[client].own.as_ref().unwrap().link.unwrap();
    assert_eq!(scene.proxy.links[own].server, 1);
    assert_eq!(scene.sent(own), "BLPOP a 0");
    scene.reply(own, "*2\r\n$1\r\na\r\n$1\r\n7\r\n");
    assert_eq!(scene.said(client), "*2\r\n$1\r\na\r\n$1\r\n7\r\n");
}

#[test]
fn a_transaction_on_slots_on_hold_is_lost_and_others_are_not() {
    let mut scene = scene();
    let (moved, stays) = (scene.client(), scene.client());
    for (client, key) in [(moved, "a"), (stays, "b")] {
        scene.ask(client, &format!("WATCH {key}"));
        let own = scene.proxy.clients[client].own.as_ref().unwrap().link.unwrap();
        scene.sent(own);
        scene.reply(own, "+OK\r\n");
        scene.said(client);
    }
    view(&mut scene, FIRST, 2, &[(15_000, 16_383)]);
    assert_eq!(scene.proxy.done_orders(), Some(2));
    for client in [moved, stays] {
        scene.ask(client, "MULTI");
        scene.ask(client, "EXEC");
    }
    assert_eq!(scene.said(moved), "+OK\r\n*-1\r\n");
    let own = scene.proxy.clients[stays].own.as_ref().unwrap().link.unwrap();
    assert_eq!(scene.sent(own), "MULTI EXEC");
}

#[test]
fn a_proxy_does_not_take_itself_for_a_server_because_a_store_names_it() {
    let mut scene = scene();
    let client = scene.client();
    scene.ask(client, "GET a");
    scene.reply(0, "-MOVED 15495 127.0.0.1:1\r\n");
    assert_eq!(scene.proxy.pools[0].servers.len(), 2);
    view(&mut scene, SECOND, 2, &[]);
    scene.wait(20);
    assert_eq!(scene.sent(1), "GET a");
}

#[test]
fn a_replica_that_knows_no_slots_is_read_without_a_word_before_and_waited_for_too() {
    let lines = "m 127.0.0.1:2@0 master - 0 0 1 connected 0-16383\nr 127.0.0.1:3@0 slave m 0 0 1 connected\n";
    let mut scene = following(lines, ReadFrom::PreferReplica, false);
    view(&mut scene, lines, 1, &[]);
    scene.proxy.set_lease(Lease { stamp: 1, until: 60_000 }, 0);
    scene.wait(1);
    let kind = LinkKind { reads_replica: true, ..LinkKind::default() };
    let replica = scene.proxy.pools[0].servers[1].links(kind)[0];
    assert_eq!(scene.sent(replica), "ROLE", "neither READONLY nor CLUSTER CONNECTION, which it does not know");
    scene.reply(replica, "*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n:2\r\n$9\r\nconnected\r\n:7\r\n");
    let (client, late) = (scene.client(), scene.client());
    scene.ask(client, "GET a");
    assert_eq!(scene.sent(replica), "GET a");
    // What it has not answered yet may be gone there once the slot is another one's.
    view(&mut scene, lines, 2, &[(15_000, 16_383)]);
    assert_eq!(scene.proxy.done_orders(), None);
    scene.ask(late, "GET a");
    assert_eq!(scene.sent(replica), "");
    scene.reply(replica, "$1\r\n7\r\n");
    assert_eq!(scene.proxy.done_orders(), Some(2));
    assert_eq!(scene.said(client), "$1\r\n7\r\n");
    view(&mut scene, lines, 3, &[]);
    assert_eq!(scene.sent(replica), "GET a");
}

#[test]
fn a_server_that_knows_no_slots_gets_its_own_password_and_not_that_of_the_stores() {
    let mut scene = clustered(FIRST);
    scene.proxy.pools[0].config.redis_auth = Some("of-stores".into());
    let own = Credentials { user: Some("proxy".into()), password: "own".into() };
    let servers = vec![("127.0.0.1".to_owned(), 2, Some(own))];
    scene.proxy.set_view(&Topology::parse(SECOND).unwrap(), &Orders { stamp: 1, servers, held: Vec::new() });
    scene.proxy.set_lease(Lease { stamp: 1, until: 1_000 }, 0);
    let client = scene.client();
    scene.proxy.clients[client].is_authenticated = true;
    scene.ask(client, "GET b");
    scene.ask(client, "GET a");
    assert_eq!(scene.sent(0), "AUTH proxy own GET b");
    assert_eq!(scene.sent(1), "AUTH of-stores CLUSTER CONNECTION PROXY GET a");
}

#[test]
fn how_long_one_request_has_waited_is_not_counted_for_the_next() {
    let mut scene = scene();
    let client = scene.client();
    view(&mut scene, FIRST, 2, &[(15_000, 16_383)]);
    scene.ask(client, "INCR a");
    // With the end of the hold nobody waits, and nobody looks at requests.
    view(&mut scene, FIRST, 3, &[]);
    assert_eq!(scene.sent(0), "INCR a");
    scene.reply(0, ":1\r\n");
    assert_eq!(scene.said(client), ":1\r\n");
    scene.wait(60_000);
    view(&mut scene, FIRST, 4, &[(15_000, 16_383)]);
    scene.ask(client, "INCR a");
    assert_eq!(scene.said(client), "", "it waits");
}

/// A lease for orders of a stamp, and what time it is.
fn lease(scene: &mut Scene, (stamp, until): (u64, u64), now: u64) {
    scene.proxy.set_lease(Lease { stamp, until }, now);
    scene.settle();
}

#[test]
fn what_is_found_after_the_lease_is_no_answer_once_there_are_other_orders() {
    let mut scene = scene();
    let (reader, writer) = (scene.client(), scene.client());
    scene.ask(reader, "GET a");
    scene.ask(writer, "INCR a");
    scene.sent(0);
    // The process was stopped, and finds what the server has said at some time.
    lease(&mut scene, (1, 1_000), 2_000);
    scene.reply(0, "$1\r\n7\r\n:8\r\n");
    assert_eq!((scene.said(reader), scene.said(writer)), (String::new(), String::new()));
    view(&mut scene, SECOND, 3, &[]);
    let error =
        "-ERR the proxy has had no lease for it (server 127.0.0.1:2): whether the command was done is not known\r\n";
    assert_eq!((scene.said(reader).as_str(), scene.said(writer).as_str()), ("", error));
    assert_eq!(scene.proxy.done_orders(), Some(3));
    lease(&mut scene, (3, 4_000), 2_010);
    scene.wait(20);
    assert_eq!(scene.sent(1), "GET a", "what only reads is asked again, where the key is now");
    scene.reply(1, "$1\r\n9\r\n");
    assert_eq!(scene.said(reader), "$1\r\n9\r\n");
}

#[test]
fn what_is_found_after_the_lease_is_an_answer_if_nothing_was_ordered_meanwhile() {
    let mut scene = scene();
    let client = scene.client();
    scene.ask(client, "INCR a");
    scene.sent(0);
    lease(&mut scene, (1, 1_000), 2_000);
    scene.reply(0, ":8\r");
    scene.reply(0, "\n");
    assert_eq!(scene.said(client), "");
    // A lease for orders that are not known says nothing of what was there before.
    lease(&mut scene, (2, 4_000), 2_001);
    assert_eq!(scene.said(client), "");
    lease(&mut scene, (1, 4_000), 2_002);
    assert_eq!(scene.said(client), ":8\r\n");
    // Orders that come in time change nothing for what is under way.
    scene.ask(client, "INCR b");
    scene.sent(0);
    lease(&mut scene, (2, 4_500), 2_003);
    view(&mut scene, FIRST, 2, &[]);
    scene.reply(0, ":9\r\n");
    assert_eq!(scene.said(client), ":9\r\n");
}

#[test]
fn who_waits_for_an_answer_that_is_not_believed_hears_so_in_the_end() {
    let mut scene = scene();
    let client = scene.client();
    scene.ask(client, "INCR a");
    scene.sent(0);
    lease(&mut scene, (1, 1_000), 2_000);
    scene.reply(0, ":8\r\n");
    scene.wait(6_000);
    assert!(scene.said(client).ends_with("whether the command was done is not known\r\n"));
}

#[test]
fn a_proxy_that_was_stopped_while_it_held_slots_believes_nothing_of_before() {
    let mut scene = scene();
    let client = scene.client();
    scene.ask(client, "INCR a");
    scene.sent(0);
    view(&mut scene, FIRST, 2, &[(15_000, 16_383)]);
    lease(&mut scene, (2, 1_500), 100);
    assert_eq!(scene.proxy.done_orders(), None);
    // It is stopped, so nobody waits for it; the orders' lease goes on for others.
    lease(&mut scene, (2, 1_500), 5_000);
    lease(&mut scene, (2, 6_000), 5_000);
    scene.reply(0, ":8\r\n");
    assert!(scene.said(client).ends_with("whether the command was done is not known\r\n"));
    assert_eq!(scene.proxy.done_orders(), Some(2));
}

#[test]
fn what_waits_for_a_key_waits_on_through_a_time_without_a_lease_where_the_key_stays() {
    let mut scene = scene();
    let (stays, moved) = (scene.client(), scene.client());
    let own = |scene: &Scene, client: usize| scene.proxy.clients[client].own.as_ref().unwrap().link.unwrap();
    for (client, key) in [(stays, "b"), (moved, "a")] {
        scene.ask(client, &format!("BLPOP {key} 0"));
        let link = own(&scene, client);
        scene.sent(link);
    }
    lease(&mut scene, (1, 1_000), 2_000);
    view(&mut scene, SECOND, 2, &[]);
    lease(&mut scene, (2, 4_000), 2_010);
    assert!(scene.said(moved).ends_with("whether the command was done is not known\r\n"));
    let link = own(&scene, stays);
    scene.reply(link, "*2\r\n$1\r\nb\r\n$1\r\n7\r\n");
    assert_eq!(scene.said(stays), "*2\r\n$1\r\nb\r\n$1\r\n7\r\n");
}

#[test]
fn what_waits_for_a_key_is_sent_again_to_a_master_that_does_not_know_yet_that_it_is_one() {
    let mut scene = scene();
    let client = scene.client();
    let own = |scene: &Scene| scene.proxy.clients[client].own.as_ref().unwrap().link.unwrap();
    const NOT_YET: &str = "-READONLY You can't write against a read only replica.\r\n";
    scene.ask(client, "BLPOP a 0");
    // However long it took to hear that.
    scene.wait(60_000);
    for _ in 0..3 {
        let link = own(&scene);
        assert_eq!(scene.sent(link), "BLPOP a 0");
        scene.reply(link, NOT_YET);
        assert_eq!(scene.said(client), "");
        scene.wait(20);
    }
    let link = own(&scene);
    assert_eq!(scene.sent(link), "BLPOP a 0");
    // It has waited there for long, and is refused once more, for good.
    scene.wait(60_000);
    let mut said = String::new();
    for _ in 0..400 {
        let link = own(&scene);
        scene.reply(link, NOT_YET);
        scene.wait(20);
        said = scene.said(client);
        if !said.is_empty() {
            break;
        }
    }
    assert_eq!(said, NOT_YET);
}
