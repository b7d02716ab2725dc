//! Trailers behind bodies whose length was announced, between a client and a server of HTTP/2.

use super::*;
use crate::session::fetch::multiplexed::tests::Server;

const POST: [(&str, &str); 5] =
    [(":method", "POST"), (":scheme", "http"), (":authority", "a"), (":path", "/"), ("content-length", "5")];

async fn run<F: Future<Output = ()>>(lines: &str, play: impl FnOnce(Rc<Scene>) -> F) {
    Scene::run_with("proto h2 maxconn 9", lines, play).await;
}

async fn settled() {
    for _ in 0..20 {
        yield_now().await;
    }
}

/// What a server sends, and that it ends by trailers.
async fn answer_with_trailers(server: &mut Server, stream: u32) {
    server.head(stream, 200, &[("content-length", "3")]).await;
    server.data(stream, b"abc").await;
    settled().await;
    server.machine.send_trailers(server.key(stream), b"x-check: ok\r\n");
    server.machine.release(server.key(stream), ErrorCode::CANCEL);
    server.flush().await;
}

#[tokio::test(start_paused = true)]
async fn trailers_pass_in_both_directions() {
    run("", |scene| async move {
        let mut client = Client::connect(&scene).await;
        client.fields(1, &POST, false).await;
        client.send(kind::DATA, 0, 1, b"he").await;
        let mut server = Server::accept(&scene).await;
        assert_eq!((server.hear().await, server.hear().await), ("POST /".to_owned(), "DATA 1 he".to_owned()));
        client.send(kind::DATA, 0, 1, b"llo").await;
        assert_eq!(server.hear().await, "DATA 1 llo");
        client.fields(1, &[("x-sum", "1")], true).await;
        assert_eq!(server.hear().await, "TRAILERS 1 x-sum: 1");
        answer_with_trailers(&mut server, 1).await;
        client.expect("HEADERS 1 :status=200 content-length=3").await;
        client.expect("DATA 1 abc").await;
        client.expect("HEADERS 1 end x-check=ok").await;
        settled().await;
        // Both connections go on.
        client.ask(3, "GET", "/3", true).await;
        assert_eq!(server.hear().await, "GET /3");
        answer_with_trailers(&mut server, 3).await;
        client.expect("HEADERS 3 :status=200 content-length=3").await;
        client.expect("DATA 3 abc").await;
        client.expect("HEADERS 3 end x-check=ok").await;
    })
    .await;
}

/// An end that comes late and without trailers is an end.
#[tokio::test(start_paused = true)]
async fn what_ends_without_trailers_ends() {
    run("", |scene| async move {
        let mut client = Client::connect(&scene).await;
        client.fields(1, &POST, false).await;
        let mut server = Server::accept(&scene).await;
        assert_eq!(server.hear().await, "POST /");
        client.send(kind::DATA, 0, 1, b"hello").await;
        assert_eq!(server.hear().await, "DATA 1 hello");
        client.send(kind::DATA, flag::END_STREAM, 1, b"").await;
        assert_eq!(server.hear().await, "DATA 1 end ");
        server.head(1, 200, &[("content-length", "3")]).await;
        server.data(1, b"abc").await;
        client.expect("HEADERS 1 :status=200 content-length=3").await;
        client.expect("DATA 1 abc").await;
        server.end(1).await;
        client.expect("DATA 1 end ").await;
        // What is there whole goes in as few frames as before.
        client.fields(3, &POST, false).await;
        client.send(kind::DATA, flag::END_STREAM, 3, b"hello").await;
        assert_eq!((server.hear().await, server.hear().await), ("POST /".to_owned(), "DATA 3 end hello".to_owned()));
        server.answer(3, "abc").await;
        client.expect("HEADERS 3 :status=200 content-length=3").await;
        client.expect("DATA 3 end abc").await;
    })
    .await;
}

/// HTTP/1 has no place for them behind a length.
#[tokio::test(start_paused = true)]
async fn trailers_are_left_out_where_there_is_no_place() {
    Scene::run("", |scene| async move {
        let mut client = Client::connect(&scene).await;
        client.fields(1, &POST, false).await;
        client.send(kind::DATA, 0, 1, b"hello").await;
        client.fields(1, &[("x-sum", "1")], true).await;
        let (mut server, request) = scene.served().await;
        assert!(request.ends_with("content-length: 5\r\n\r\nhello"), "{request}");
        server.write_all(OK).await.unwrap();
        client.expect("HEADERS 1 :status=200 content-length=2").await;
        client.expect("DATA 1 end ab").await;
    })
    .await;
}
