use std::{
    collections::VecDeque,
    io::{self, Read, Write},
};

use http::Limits;

use crate::{Answer, Answerer, Outcome, Request, serve};

/// What comes, a few bytes at a time, and what is sent.
struct Stream {
    coming: VecDeque<u8>,
    piece: usize,
    sent: Vec<u8>,
}

impl Read for Stream {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let most = self.piece.min(room.len()).min(self.coming.len());
        for (to, from) in room.iter_mut().zip(self.coming.drain(..most)) {
            *to = from;
        }
        Ok(most)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sent.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Does what the path says.
struct Sample;

impl Answerer for Sample {
    fn about(&self) -> &'static str {
        "for tests"
    }

    fn answer(&self, request: &mut Request<'_>) -> Answer {
        match request.path() {
            b"/panic" => panic!("it was asked to"),
            b"/late-panic" => Answer::new(200).written(|_, _| panic!("later")),
            b"/status" => Answer::new(99),
            b"/break" => Answer::new(200).header("x", "a\r\nb: c"),
            b"/framing" => Answer::new(200).header("Content-Length", "7"),
            b"/empty" => Answer::new(204),
            b"/echo" => Answer::new(200).written(|body, out| io::copy(body, out).map(drop)),
            b"/cut" => Answer::new(200).written(|_, out| {
                out.write_all(b"a part")?;
                Err(io::Error::other("no more"))
            }),
            _ => match request.read_body(10) {
                Ok(body) => {
                    Answer::new(200).text(format!("{} {:?}", String::from_utf8_lossy(&body), request.arguments()))
                }
                Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Answer::new(413),
                Err(_) => Answer::new(400),
            },
        }
    }
}

fn served(request: &str, piece: usize) -> (String, Outcome) {
    let mut stream = Stream { coming: request.bytes().collect(), piece, sent: Vec::new() };
    let outcome = serve(&mut stream, &Sample, &["word".to_owned()], &Limits::default());
    (String::from_utf8(stream.sent).unwrap(), outcome)
}

#[test]
fn answers_are_framed() {
    let whole = |body: &str| {
        format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        )
    };
    let chunked =
        |body: &str| format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n{body}");
    for (request, expected) in [
        ("GET / HTTP/1.1\r\nhost: a\r\n\r\n", whole(" [\"word\"]")),
        ("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhello", whole("hello [\"word\"]")),
        (
            "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n",
            whole("hello [\"word\"]"),
        ),
        (
            "POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\nhi",
            // It had come already.
            whole("hi [\"word\"]"),
        ),
        ("POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhello", chunked("5\r\nhello\r\n0\r\n\r\n")),
        ("HEAD /echo HTTP/1.1\r\nhost: a\r\n\r\n", chunked("")),
        (
            "POST /echo HTTP/1.0\r\ncontent-length: 2\r\n\r\nhi",
            "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nhi".to_owned(),
        ),
        ("GET /empty HTTP/1.1\r\nhost: a\r\n\r\n", "HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n".to_owned()),
        (
            "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 11\r\n\r\nhello world",
            format!("HTTP/1.1 413 {}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n", http::reason_phrase(413)),
        ),
    ] {
        for piece in [usize::MAX, 1] {
            let (sent, outcome) = served(request, piece);
            let sent = sent.strip_prefix("HTTP/1.1 100 Continue\r\n\r\n").unwrap_or(&sent);
            assert_eq!((sent, outcome), (expected.as_str(), Outcome::Answered), "{request:?}, pieces of {piece}");
        }
    }
}

#[test]
fn a_client_is_told_to_send_what_the_plugin_wants() {
    // Nothing of the body has come when the plugin asks for it.
    let request = "POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\nhi";
    let (sent, _) = served(request, request.len() - 2);
    assert!(sent.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200"), "{sent}");
    let (sent, _) = served(&request.replace("POST / ", "POST /empty "), request.len() + 3);
    assert!(sent.starts_with("HTTP/1.1 204"), "{sent}");
}

#[test]
fn what_fails_is_an_error_and_never_a_part_that_looks_whole() {
    for (path, expected) in [
        ("/panic", Outcome::Panicked("it was asked to".into())),
        ("/status", Outcome::Unusable("its status is 99, not one from 200 to 599".into())),
        ("/break", Outcome::Unusable("the value of the field x has a line break or a NUL".into())),
        ("/framing", Outcome::Unusable("it sets the field Content-Length, which follows from the body".into())),
    ] {
        let (sent, outcome) = served(&format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n"), usize::MAX);
        assert!(sent.starts_with("HTTP/1.1 500 "), "{sent}");
        assert_eq!(outcome, expected);
    }
    for (path, expected) in [("/late-panic", Outcome::Panicked("later".into())), ("/cut", Outcome::CutOff)] {
        let (sent, outcome) = served(&format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n"), usize::MAX);
        assert!(sent.starts_with("HTTP/1.1 200 ") && !sent.ends_with("0\r\n\r\n"), "{sent}");
        assert_eq!(outcome, expected);
    }
    assert_eq!(served("GET / HT", usize::MAX), (String::new(), Outcome::CutOff));
    // A body that ends too early is no body.
    let (sent, _) = served("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhel", usize::MAX);
    assert!(sent.starts_with("HTTP/1.1 400 "), "{sent}");
}
