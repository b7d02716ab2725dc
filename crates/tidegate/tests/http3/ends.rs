//! How streams and connections end.

use std::time::Duration;

use bytes::Buf as _;
use quinn::{ConnectionError, ReadError, ReadToEndError, RecvStream, SendStream, VarInt};
use rustix::process::Signal;

use super::{
    BIG, Place,
    support::{
        self, Edge,
        http3::{Http3, block_on, connect_quic, receive},
        wait_until,
    },
};

const H3_NO_ERROR: u64 = 0x100;
const H3_INTERNAL_ERROR: u64 = 0x102;

/// The type of a frame.
const HEADERS: u8 = 1;

/// HEADERS of `GET https://a/`: entries of QPACK's static table, and an authority.
const GET: &[u8] = b"\x01\x08\x00\x00\xd1\xd7\x50\x01a\xc1";

/// HEADERS of a CONNECT to `https://a/` that asks for the protocol `websocket`.
const WEBSOCKET: &[u8] = b"\x01\x1d\x00\x00\xcf\xd7\x50\x01a\xc1\x27\x02:protocol\x09websocket";

/// The stream's type, and SETTINGS of which there are none.
const CONTROL: &[u8] = b"\x00\x04\x00";

/// A connection of which each byte is said here.
struct Raw {
    quic: quinn::Connection,
    _control: SendStream,
}

impl Raw {
    async fn connect(place: &Place, idle: Option<Duration>) -> Self {
        let quic = connect_quic(&place.authority.client(), place.front, idle).await;
        let mut control = quic.open_uni().await.unwrap();
        control.write_all(CONTROL).await.unwrap();
        Self { quic, _control: control }
    }

    /// Asks for a page on a stream; the first byte of the answer, which is that of HEADERS.
    async fn ask_on(&self, (mut half, mut answer): (SendStream, RecvStream)) -> u8 {
        half.write_all(GET).await.unwrap();
        half.finish().unwrap();
        answer.read_to_end(1_000).await.unwrap()[0]
    }

    async fn ask(&self) -> u8 {
        self.ask_on(self.quic.open_bi().await.unwrap()).await
    }

    /// Why it has ended.
    async fn end(&self) -> ConnectionError {
        tokio::time::timeout(2 * support::PATIENCE, self.quic.closed()).await.unwrap()
    }
}

#[track_caller]
fn assert_closed(why: &ConnectionError) {
    assert!(
        matches!(why, ConnectionError::ApplicationClosed(close) if close.error_code.into_inner() == H3_NO_ERROR),
        "{why:?}"
    );
}

#[test]
fn whoever_is_served_at_the_end_is_told_to_go() {
    let place = Place::new();
    let mut edge = Edge::start(&place.config(2, "alpn h3", ""));
    block_on(async {
        let mut client = Http3::connect(&place.authority.client(), place.front).await;
        let mut idle = Http3::connect(&place.authority.client(), place.front).await;
        assert_eq!(idle.get("/").await.unwrap().status, 200);
        let mut download = client.send("GET", "/big", None).await.unwrap();
        assert_eq!(download.recv_response().await.unwrap().status(), 200);
        let mut length = 0;
        edge.signal(Signal::USR1);
        while let Some(piece) = download.recv_data().await.unwrap() {
            length += piece.remaining();
        }
        assert_eq!(length, BIG);
        for client in [client, idle] {
            let why = tokio::time::timeout(support::PATIENCE, client.quic.closed()).await.unwrap();
            let quinn::ConnectionError::ApplicationClosed(close) = why else { panic!("{why:?}") };
            assert_eq!(close.error_code.into_inner(), 0x100, "H3_NO_ERROR");
        }
    });
    assert_eq!(edge.wait_end(), 0);
}

/// `timeout http-request` is each request's own.
#[test]
fn a_head_that_is_never_whole_ends_alone() {
    let place = Place::new();
    let rules = "timeout http-request 1s\n timeout client 1m\n http-request return status 200 if { path /own }";
    let edge = Edge::start(&place.config(1, "alpn h3", rules).replace("error-log-format", "# "));
    block_on(async {
        let mut client = Http3::connect(&place.authority.client(), place.front).await;
        let download = client.send("GET", "/big", None).await.unwrap();
        // Heads that overlap: there is always one that is not whole.
        let mut late = Vec::new();
        for _ in 0..3 {
            let (mut half, answer) = client.quic.open_bi().await.unwrap();
            half.write_all(&GET[..4]).await.unwrap();
            assert_eq!(client.get("/own").await.unwrap().status, 200);
            late.push((half, answer));
        }
        for (half, mut answer) in late {
            let answer = answer.read_to_end(1_000).await.unwrap();
            assert_eq!(answer[0], HEADERS);
            assert_eq!(half.stopped().await.unwrap(), Some(VarInt::from_u64(H3_NO_ERROR).unwrap()));
        }
        assert_eq!(client.get("/own").await.unwrap().status, 200);
        assert_eq!(receive(download).await.unwrap().body.len(), BIG);
    });
    let told = |line: &&str| line.contains("<BADREQ>") && line.contains(" 408 ") && line.ends_with(" cR 3");
    wait_until("they are told of", || edge.output().lines().filter(told).count() == 3);
}

/// QUIC opens streams in their order: of those that are passed over nothing may ever come.
#[test]
fn streams_that_were_passed_over_keep_no_connection() {
    let place = Place::new();
    let rules = "http-request return status 200 if { path / }\n timeout http-keep-alive 1s\n timeout client 1m";
    let mut edge = Edge::start(&place.config(1, "alpn h3", rules));
    block_on(async {
        let late = Raw::connect(&place, None).await;
        let silent = Raw::connect(&place, None).await;
        let passed_over = (late.quic.open_bi().await.unwrap(), silent.quic.open_bi().await.unwrap());
        assert_eq!([late.ask().await, silent.ask().await], [HEADERS; 2]);
        assert_eq!(late.ask_on(passed_over.0).await, HEADERS);
        // It is idle for too long.
        assert_closed(&silent.end().await);
        let client = Raw::connect(&place, None).await;
        let _passed_over = client.quic.open_bi().await.unwrap();
        assert_eq!(client.ask().await, HEADERS);
        edge.signal(Signal::USR1);
        assert_closed(&client.end().await);
    });
    assert_eq!(edge.wait_end(), 0);
}

#[test]
fn who_is_idle_for_too_long_is_told_to_go_first() {
    let place = Place::new();
    let rules = "http-request return status 200 if { path / }\n timeout http-keep-alive 1s";
    let edge = Edge::start(&place.config(1, "alpn h3", rules));
    block_on(async {
        let client = Raw::connect(&place, None).await;
        let mut control = client.quic.accept_uni().await.unwrap();
        assert_eq!(client.ask().await, HEADERS);
        let sessions = edge.command("show sess idle");
        assert!(sessions.contains(": proto=quic4 src=127."), "{sessions}");
        let (mut said, mut piece) = (Vec::new(), [0; 100]);
        let is_told = |said: &[u8]| said.ends_with(b"\x07\x08\xff\xff\xff\xff\xff\xff\xff\xfc");
        while !is_told(&said) {
            let count = control.read(&mut piece).await.unwrap().unwrap();
            said.extend_from_slice(&piece[..count]);
        }
        // A request that crosses that is answered.
        assert_eq!(client.ask().await, HEADERS);
        let mut last = Vec::new();
        let why = loop {
            match control.read(&mut piece).await {
                Ok(count) => last.extend_from_slice(&piece[..count.unwrap()]),
                Err(ReadError::ConnectionLost(why)) => break why,
                Err(error) => panic!("{error:?}"),
            }
        };
        assert_eq!(last, b"\x07\x01\x08", "the requests of streams 0 and 4 were served");
        assert_closed(&why);
    });
}

#[test]
fn who_is_dropped_silently_hears_nothing() {
    let place = Place::new();
    let rules = "http-request silent-drop if { hdr(host) a }";
    let edge = Edge::start(&place.config(2, "alpn h3", rules));
    block_on(async {
        let client = Raw::connect(&place, Some(Duration::from_secs(2))).await;
        let _control = client.quic.accept_uni().await.unwrap();
        // What belongs to the handshake has come when nothing has for some time.
        let mut heard = 0;
        while heard != client.quic.stats().udp_rx.datagrams {
            heard = client.quic.stats().udp_rx.datagrams;
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        let (mut half, _answer) = client.quic.open_bi().await.unwrap();
        half.write_all(GET).await.unwrap();
        half.finish().unwrap();
        let why = client.end().await;
        assert!(matches!(why, ConnectionError::TimedOut), "{why:?}");
        assert_eq!(client.quic.stats().udp_rx.datagrams, heard);
        assert!(client.quic.stats().udp_tx.datagrams > 3, "it has tried");
    });
    // Nothing of it is left that would count.
    wait_until("the connection is over", || edge.command("show info").contains("CurrConns: 0\n"));
}

/// RFC 8441 section 5: only 101 of a server begins the protocol. A client would take 200 for that.
#[test]
fn a_protocol_that_a_server_does_not_begin_is_refused() {
    let place = Place::new();
    let _edge = Edge::start(&place.config(1, "alpn h3", "timeout client 1m"));
    block_on(async {
        let client = Raw::connect(&place, None).await;
        for _ in 0..2 {
            let (mut half, mut answer) = client.quic.open_bi().await.unwrap();
            half.write_all(WEBSOCKET).await.unwrap();
            let answer = tokio::time::timeout(support::PATIENCE, answer.read_to_end(10_000)).await.unwrap();
            let Err(ReadToEndError::Read(ReadError::Reset(code))) = answer else { panic!("{answer:?}") };
            assert_eq!(code.into_inner(), H3_INTERNAL_ERROR);
        }
    });
}
