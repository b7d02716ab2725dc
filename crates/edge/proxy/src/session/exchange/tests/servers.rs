//! Servers of tests: of HTTP/1, and of frames. Their answers follow from the request and a seed.

use std::rc::Rc;

use http::{BodyLength, ChunkedDecoder, Limits, Parsed, RequestHead, RequestParser};
use net::Stream;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    task::spawn_local,
};

use super::body_of;
use crate::session::{
    fetch::framed::{read_frame, write_frame},
    scene::{FRAMED_PORT, Scene, Seeded},
};

/// The body that answers the request of this number.
pub fn answer_to(seed: u64, number: usize, body: &[u8]) -> Vec<u8> {
    let length = [0, 1, 3_000, 70_000][Seeded::new(seed + number as u64).below(4)];
    let mut answer = format!("{number} {} ", body.len()).into_bytes();
    answer.extend_from_slice(&body[..body.len().min(100)]);
    answer.extend(body_of(seed * 100 + number as u64, length));
    answer
}

/// Serves every connection that comes.
pub async fn serve(scene: Rc<Scene>, seed: u64, random: Rc<Seeded>) {
    loop {
        let (address, connection) = scene.accept().await;
        let random = Rc::clone(&random);
        if address.port() == FRAMED_PORT {
            spawn_local(serve_framed(connection, seed, random));
        } else {
            spawn_local(serve_http(connection, seed, random));
        }
    }
}

/// The number that a request names.
fn number_of(head: &RequestHead) -> usize {
    std::str::from_utf8(&head.target()[1..]).unwrap().parse().unwrap()
}

async fn serve_http(mut connection: Stream, seed: u64, random: Rc<Seeded>) {
    let mut bytes = Vec::new();
    loop {
        let mut head = RequestHead::default();
        let consumed = loop {
            if let Ok(Parsed::Complete { consumed }) = RequestParser::new().parse(&bytes, &Limits::default(), &mut head)
            {
                break consumed;
            }
            if connection.read_buf(&mut bytes).await.unwrap() == 0 {
                return;
            }
        };
        bytes.drain(..consumed);
        let body = loop {
            match http::request_body_length(&head) {
                BodyLength::Exact(length) if bytes.len() as u64 >= length => {
                    break bytes.drain(..usize::try_from(length).unwrap()).collect::<Vec<_>>();
                }
                BodyLength::None => break Vec::new(),
                BodyLength::Chunked => {
                    let mut body = Vec::new();
                    if ChunkedDecoder::new(&Limits::default()).decode_into(&bytes, &mut body).unwrap().done {
                        bytes.clear();
                        break body;
                    }
                }
                _ => {}
            }
            assert_ne!(connection.read_buf(&mut bytes).await.unwrap(), 0);
        };
        let answer = answer_to(seed, number_of(&head), &body);
        let is_chunked = random.below(2) == 0;
        let mut message = match is_chunked {
            true => b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec(),
            false => format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", answer.len()).into_bytes(),
        };
        for piece in answer.chunks(1 + random.below(20_000)) {
            match is_chunked {
                true => http::write_chunk(piece, &mut message),
                false => message.extend_from_slice(piece),
            }
        }
        if is_chunked {
            http::write_last_chunk(&mut message);
        }
        for piece in message.chunks(1 + random.below(10_000)) {
            random.pause().await;
            connection.write_all(piece).await.unwrap();
        }
    }
}

async fn serve_framed(mut connection: Stream, seed: u64, random: Rc<Seeded>) {
    let mut bytes = Vec::new();
    let (mut head, mut body) = (RequestHead::default(), Vec::new());
    loop {
        let Some((kind, payload)) = read_frame(&bytes) else {
            if connection.read_buf(&mut bytes).await.unwrap() == 0 {
                return;
            }
            continue;
        };
        let (kind, payload) = (kind, payload.to_vec());
        bytes.drain(..3 + payload.len());
        match kind {
            b'H' => {
                let parsed = RequestParser::new().parse(&payload, &Limits::default(), &mut head);
                assert!(matches!(parsed, Ok(Parsed::Complete { .. })));
            }
            b'D' => body.extend_from_slice(&payload),
            _ => {}
        }
        let is_whole = match http::request_body_length(&head) {
            BodyLength::Chunked => kind == b'E',
            length => body.len() as u64 == length.announced().unwrap_or(0),
        };
        if is_whole {
            let answer = answer_to(seed, number_of(&head), &std::mem::take(&mut body));
            let mut message = Vec::new();
            if random.below(2) == 0 {
                write_frame(b'H', b"HTTP/1.1 103 Early Hints\r\n\r\n", &mut message);
            }
            let length = match random.below(2) {
                0 => format!("content-length: {}\r\n", answer.len()),
                _ => String::new(),
            };
            write_frame(b'H', format!("HTTP/1.1 200 OK\r\n{length}\r\n").as_bytes(), &mut message);
            answer.chunks(1 + random.below(5_000)).for_each(|piece| write_frame(b'D', piece, &mut message));
            if length.is_empty() {
                write_frame(b'E', b"", &mut message);
            }
            for piece in message.chunks(1 + random.below(10_000)) {
                random.pause().await;
                connection.write_all(piece).await.unwrap();
            }
        }
    }
}
