use std::num::NonZeroUsize;

use proptest::prelude::*;

use super::{ChunkPart, ChunkProgress, ChunkedDecoder, write_chunk, write_chunk_start, write_last_chunk};
use crate::error::{ParseError, ParseErrorKind};
use crate::limits::Limits;

fn limits() -> Limits {
    Limits { extension_bytes_max: 20, trailer_bytes_max: 60, name_bytes_max: 30, ..Limits::default() }
}

/// The data and how much was consumed, or the error; None when the body has not ended.
fn decode(input: &[u8]) -> Result<Option<(Vec<u8>, usize)>, ParseError> {
    let mut data = Vec::new();
    let progress = ChunkedDecoder::new(&limits()).decode_into(input, &mut data)?;
    assert_eq!(progress.data_len, data.len());
    Ok(progress.done.then_some((data, progress.consumed)))
}

/// Checks a body given at once and byte by byte.
#[track_caller]
fn check(input: &str, expected: Result<Option<(&str, usize)>, (ParseErrorKind, u64)>) {
    let expected = expected
        .map(|decoded| decoded.map(|(data, consumed)| (data.as_bytes().to_vec(), consumed)))
        .map_err(|(kind, offset)| ParseError { kind, offset });
    assert_eq!(decode(input.as_bytes()), expected, "{input:?}");

    let mut decoder = ChunkedDecoder::new(&limits());
    let mut data = Vec::new();
    let mut consumed = 0;
    for byte in input.as_bytes() {
        match decoder.decode_into(&[*byte], &mut data) {
            Ok(progress) => consumed += progress.consumed,
            Err(error) => return assert_eq!(Err(error), expected, "{input:?}"),
        }
    }
    assert_eq!(Ok(decoder.is_done().then_some((data, consumed))), expected, "{input:?}");
}

#[test]
fn whole_bodies() {
    for (input, data) in [
        ("0\r\n\r\n", ""),
        ("5\r\nhello\r\n0\r\n\r\n", "hello"),
        ("1\r\na\r\n2\r\nbc\r\n0\r\n\r\n", "abc"),
        ("00000000000000a\r\n0123456789\r\n0000000000000000\r\n\r\n", "0123456789"),
        ("A\r\n0123456789\r\n0\r\n\r\n", "0123456789"),
        ("2\r\n\r\n\r\n0\r\n\r\n", "\r\n"),
        ("1;a\r\nx\r\n0;b\r\n\r\n", "x"),
        ("1;a=b; c = \"d;\\\"e\"\r\nx\r\n0\r\n\r\n", "x"),
        ("0\r\nA: b\r\n\r\n", ""),
        ("0\r\nA:\r\nLong-Name:  v \t\r\n\r\n", ""),
    ] {
        if input.ends_with("\n\r\n") {
            check(input, Ok(Some((data, input.len()))));
            check(&format!("{input}GET / HTTP/1.1\r\n"), Ok(Some((data, input.len()))));
        }
        for end in 0..input.len() {
            check(&input[..end], Ok(None));
        }
    }
}

#[test]
fn malformed_bodies() {
    use ParseErrorKind::{
        BareCr, BareLf, ChunkExtensionTooLong, ChunkSizeTooLarge, ChunkSizeTooLong, ControlByte, EmptyName,
        ForbiddenTrailer, InvalidChunkExtension, InvalidChunkSize, InvalidNameByte, MissingChunkEnd, MissingColon,
        NameTooLong, Nul, ObsoleteFold, SpaceBeforeColon, TrailersTooLarge,
    };
    for (input, kind, offset) in [
        ("\r\n", InvalidChunkSize, 0),
        (";a\r\n", InvalidChunkSize, 0),
        (" 5\r\n", InvalidChunkSize, 0),
        ("5 \r\n", InvalidChunkSize, 1),
        ("5\t;a\r\n", InvalidChunkSize, 1),
        ("+5\r\n", InvalidChunkSize, 0),
        ("-5\r\n", InvalidChunkSize, 0),
        ("0x5\r\n", InvalidChunkSize, 1),
        ("5g\r\n", InvalidChunkSize, 1),
        ("5_0\r\n", InvalidChunkSize, 1),
        ("\0", Nul, 0),
        ("5\n", BareLf, 1),
        ("5\rx", BareCr, 2),
        ("5\r\r\n", BareCr, 2),
        ("00000000000000005\r\n", ChunkSizeTooLong, 16),
        ("10000000000000\r\n", ChunkSizeTooLarge, 13),
        ("0010000000000000\r\n", ChunkSizeTooLarge, 15),
        ("ffffffffffffffff\r\n", ChunkSizeTooLarge, 13),
        ("1\r\nab\r\n", MissingChunkEnd, 4),
        ("1\r\na\n", MissingChunkEnd, 4),
        ("1\r\na\r0", BareCr, 5),
        ("1\r\na0\r\n", MissingChunkEnd, 4),
        ("1;\r\n", InvalidChunkExtension, 2),
        ("1;a=\r\n", InvalidChunkExtension, 4),
        ("1;a \r\n", InvalidChunkExtension, 4),
        ("1;a=b \r\n", InvalidChunkExtension, 6),
        ("1;a b\r\n", InvalidChunkExtension, 4),
        ("1;a=b=c\r\n", InvalidChunkExtension, 5),
        ("1;a=\"b\"c\r\n", InvalidChunkExtension, 7),
        ("1;a=\"b\r\n", InvalidChunkExtension, 6),
        ("1;a=\"\\\r\n", InvalidChunkExtension, 6),
        ("1;(\r\n", InvalidChunkExtension, 2),
        ("1;a\n", BareLf, 3),
        ("1;a=\"\n", BareLf, 5),
        ("1;\0", Nul, 2),
        ("1;aaaaaaaaaaaaaaaaaaaaa\r\n", ChunkExtensionTooLong, 22),
        ("0\r\n\n", BareLf, 3),
        ("0\r\n\r\r", BareCr, 4),
        ("0\r\nA: b\n", BareLf, 7),
        ("0\r\nA: b\rc", BareCr, 8),
        ("0\r\nA: \x01\r\n", ControlByte, 6),
        ("0\r\nA: \0\r\n", Nul, 6),
        ("0\r\n: b\r\n", EmptyName, 3),
        ("0\r\nA\r\n", MissingColon, 4),
        ("0\r\nA : b\r\n", SpaceBeforeColon, 4),
        ("0\r\n A: b\r\n", ObsoleteFold, 3),
        ("0\r\nA: b\r\n\tc\r\n", ObsoleteFold, 9),
        ("0\r\nA(: b\r\n", InvalidNameByte, 4),
        ("0\r\nContent-Length: 5\r\n", ForbiddenTrailer, 17),
        ("0\r\nA: b\r\ntransfer-encoding: chunked\r\n", ForbiddenTrailer, 26),
        ("0\r\nHOST: a\r\n", ForbiddenTrailer, 7),
        ("0\r\nProxy-Authorization: a\r\n", ForbiddenTrailer, 22),
        ("0\r\naaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa: a\r\n", NameTooLong, 33),
        ("0\r\nA: bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\r\n", TrailersTooLarge, 63),
    ] {
        check(input, Err((kind, offset)));
    }
}

/// The limit on extensions is one of each chunk.
#[test]
fn extension_limit_starts_again() {
    let chunk = "1;aaaaaaaaaaaaaaaaa\r\nx\r\n";
    let input = format!("{}0\r\n\r\n", chunk.repeat(50));
    check(&input, Ok(Some((&"x".repeat(50), input.len()))));
}

#[test]
fn tells_parts() {
    let mut decoder = ChunkedDecoder::new(&limits());
    assert_eq!(decoder.next_part(b""), Ok(ChunkPart::Framing(0)));
    assert_eq!(decoder.account(5), 0);
    assert_eq!(decoder.next_part(b"5\r\nhello"), Ok(ChunkPart::Framing(3)));
    assert_eq!(decoder.data_ahead(), 5);
    assert_eq!(decoder.next_part(b"he"), Ok(ChunkPart::Data(2)));
    assert_eq!(decoder.account(100), 3);
    assert_eq!(decoder.account(1), 0);
    assert_eq!(decoder.next_part(b"\r\n0\r\n\r\nx"), Ok(ChunkPart::End(7)));
    assert_eq!(decoder.next_part(b"x"), Ok(ChunkPart::End(0)));
    assert_eq!(decoder.advance(b"x"), Ok(ChunkProgress { done: true, ..ChunkProgress::default() }));
}

#[test]
fn writes_sizes() {
    for len in [1, 9, 10, 15, 16, 255, 256, 4095, 4096, 1 << 20, usize::MAX] {
        let mut out = Vec::new();
        write_chunk_start(NonZeroUsize::new(len).unwrap(), &mut out);
        assert_eq!(out, format!("{len:x}\r\n").as_bytes());
    }
    let mut out = Vec::new();
    write_chunk(b"", &mut out);
    assert!(out.is_empty());
}

proptest! {
    #[test]
    fn round_trip(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..8), cut: prop::sample::Index) {
        let mut encoded = Vec::new();
        for chunk in &chunks {
            write_chunk(chunk, &mut encoded);
        }
        write_last_chunk(&mut encoded);
        let len = encoded.len();
        encoded.extend_from_slice(b"next");

        let (before, after) = encoded.split_at(cut.index(encoded.len()));
        let mut decoder = ChunkedDecoder::new(&limits());
        let mut data = Vec::new();
        let first = decoder.decode_into(before, &mut data).unwrap();
        let second = decoder.decode_into(after, &mut data).unwrap();
        prop_assert_eq!(first.consumed + second.consumed, len);
        prop_assert!(second.done);
        prop_assert_eq!(data, chunks.concat());
    }
}
