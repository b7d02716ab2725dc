//! Client connections in virtual time, with scripted clients and servers.

use std::{sync::Arc, time::Duration};

use http::{BodyLength, Method, Version};
use net::Stream;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    task::{spawn_local, yield_now},
    time::advance,
};

use super::*;
use crate::session::{
    self,
    body::BodyPump,
    fetch::{Answer, AnswerBody, StoredBody},
    scene::{Scene, receive},
};

const GET: &str = "GET /a HTTP/1.1\r\nhost: example.com\r\n\r\n";

/// The next bytes that a client gets, as many as `expected` has.
async fn expect(client: &mut Stream, expected: &str) {
    let mut bytes = vec![0; expected.len()];
    client.read_exact(&mut bytes).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&bytes), expected);
}

#[tokio::test(start_paused = true)]
async fn requests_follow_each_other_on_both_connections() {
    Scene::run("", |scene| async move {
        let (mut client, arrival) = scene.client();
        let (worker, instance) = (Rc::clone(&scene.worker), Arc::clone(&scene.instance));
        let serving = session::serve(Rc::clone(&worker), instance, Arc::clone(&scene.frontend), 0, arrival);
        let serving = spawn_local(worker.clocked(serving));
        client.write_all(GET.as_bytes()).await.unwrap();
        let (mut server, first) = scene.served().await;
        assert_eq!(first, GET);
        server.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nab").await.unwrap();
        expect(&mut client, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nab").await;
        client.write_all(GET.as_bytes()).await.unwrap();
        assert_eq!(receive(&mut server).await, GET);
        // The server says nothing any more.
        advance(Duration::from_secs(11)).await;
        expect(&mut client, "HTTP/1.1 504 Gateway Time-out\r\n").await;
        drop(client);
        serving.await.unwrap();
        assert_eq!((scene.traffic().connects.value(), scene.traffic().reuses.value()), (1, 1));
        assert_eq!(scene.frontend.frontend.traffic.of(0).requests.value(), 2);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_no_server_gave_is_delivered() {
    Scene::run(" http-response set-header x-by %s", |scene| async move {
        let (mut client, arrival) = scene.client();
        let (worker, instance) = (Rc::clone(&scene.worker), Arc::clone(&scene.instance));
        let begun = session::begin(Rc::clone(&worker), instance, Arc::clone(&scene.frontend), 0, arrival);
        let (mut session, _) = begun.unwrap();
        let mut exchange = scene.exchange(GET, &session.side);
        exchange.response.start(Version::Http11, 200);
        exchange.response.headers.add(b"content-length", b"100000");
        exchange.answered.has_head = true;
        let body: Arc<[u8]> = vec![b'x'; 100_000].into();
        let (method, length) = (Method::Get, BodyLength::Exact(100_000));
        let answer = Answer { method, length, body: AnswerBody::Stored(StoredBody::new(body)) };
        let mut up = BodyPump::new(BodyLength::None, &scene.instance.limits(false), false);
        let delivering = spawn_local(worker.clocked(async move {
            let backend = exchange.route.backend.clone().unwrap();
            let next = session.exchange().deliver(&mut exchange, &backend, answer, &mut up).await;
            exchange.finish(&session.worker);
            (next, exchange.bytes_out)
        }));
        let head = "HTTP/1.1 200 OK\r\ncontent-length: 100000\r\nx-by: <NOSRV>\r\n\r\n";
        expect(&mut client, head).await;
        yield_now().await;
        expect(&mut client, &"x".repeat(100_000)).await;
        assert_eq!(delivering.await.unwrap(), (Next::KeepAlive, 100_000));
    })
    .await;
}

/// What a server sends and its end may come in one turn: the client gets all the same what there is.
#[tokio::test(start_paused = true)]
async fn what_is_compressed_of_a_body_that_is_cut_off_is_delivered() {
    for count in [50, 5_000, 40_000] {
        let lines = " compression algo gzip\n compression type text/plain";
        Scene::run(lines, |scene| async move {
            let (mut client, arrival) = scene.client();
            let (worker, instance) = (Rc::clone(&scene.worker), Arc::clone(&scene.instance));
            let serving = session::serve(Rc::clone(&worker), instance, Arc::clone(&scene.frontend), 0, arrival);
            let serving = spawn_local(worker.clocked(serving));
            client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\naccept-encoding: gzip\r\n\r\n").await.unwrap();
            let (mut server, _) = scene.served().await;
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 100000\r\n\r\n";
            server.write_all(format!("{head}{}", "0123456789".repeat(count / 10)).as_bytes()).await.unwrap();
            drop(server);
            let mut received = Vec::new();
            client.read_to_end(&mut received).await.unwrap();
            serving.await.unwrap();
            let text = String::from_utf8_lossy(&received);
            assert!(
                text.starts_with("HTTP/1.1 200 OK\r\n") && text.contains("content-encoding: gzip"),
                "{count}: {text}"
            );
            let body = text.split_once("\r\n\r\n").unwrap().1;
            assert!(body.len() > 20 && !body.ends_with("0\r\n\r\n"), "{count}: some of it, and no end");
        })
        .await;
    }
}
