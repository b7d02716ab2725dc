//! Servers of HTTP/2 that have not begun with a request whose body is still on its way.

use h2::ErrorCode;

use super::*;
use crate::session::fetch::multiplexed::tests::Server;

/// Asks with a body of which a server has so much when it refuses the request, and another one gets all of it; the status, and whether there
/// was another one.
async fn play(length: usize) -> (u16, bool) {
    let result = Rc::new(Cell::new(None));
    let told = Rc::clone(&result);
    Scene::run_with("proto h2", " http-reuse never\n timeout connect 10ms", |scene| async move {
        let side = Rc::new(ClientSide::nobody(&scene.instance, Arc::clone(&scene.frontend), scene.worker.now()));
        let connection = Connection::default();
        let (part, upload) = connection.begin(0);
        let first = "x".repeat(length);
        let head = format!("POST /p HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n", length + 5);
        let was_asked_again = Cell::new(false);
        let script = async {
            let mut refusing = Server::accept(&scene).await;
            assert_eq!(refusing.hear().await, "POST /p");
            upload.send(first.as_bytes());
            let mut heard = String::new();
            while heard.len() < length {
                heard += refusing.hear().await.strip_prefix("DATA 1 ").unwrap();
            }
            refusing.refuse(1, ErrorCode::REFUSED_STREAM).await;
            let mut server = Server::accept(&scene).await;
            was_asked_again.set(true);
            assert_eq!(server.hear().await, "POST /p");
            assert_eq!(server.hear().await, format!("DATA 1 {first}"));
            upload.send(b"world");
            upload.end();
            assert_eq!(server.hear().await, "DATA 1 end world");
            server.answer(1, "done").await;
            std::future::pending::<()>().await;
        };
        let (transaction, _) = tokio::select! {
            answered = exchange(&scene, &side, part, &head) => answered,
            () = script => unreachable!(),
        };
        told.set(Some((transaction.answered.status, was_asked_again.get())));
    })
    .await;
    result.take().unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_has_gone_of_a_body_goes_again_as_long_as_it_is_little() {
    assert_eq!(play(6).await, (200, true));
    // It is not all there any more.
    let (status, was_asked_again) = play(20_000).await;
    assert!(status != 200 && !was_asked_again, "{status}");
}
