use std::io::Read as _;

use proptest::prelude::*;

use super::*;

fn decode(coding: Coding, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut out = Vec::new();
    match coding {
        Coding::Identity => out.extend_from_slice(bytes),
        Coding::Gzip => drop(flate2::read::GzDecoder::new(bytes).read_to_end(&mut out)?),
        Coding::Deflate => drop(flate2::read::ZlibDecoder::new(bytes).read_to_end(&mut out)?),
        Coding::RawDeflate => drop(flate2::read::DeflateDecoder::new(bytes).read_to_end(&mut out)?),
        Coding::Brotli => drop(brotli::Decompressor::new(bytes, 4_096).read_to_end(&mut out)?),
        Coding::Zstd => {
            let mut decoder = zstd_safe::DCtx::create();
            let mut source = InBuffer::around(bytes);
            let mut step = [0; STEP];
            loop {
                let mut target = OutBuffer::around(&mut step);
                let left =
                    decoder.decompress_stream(&mut target, &mut source).map_err(|_| std::io::ErrorKind::Other)?;
                out.extend_from_slice(target.as_slice());
                if left == 0 {
                    break;
                }
                if source.pos() == bytes.len() && target.as_slice().is_empty() {
                    return Err(std::io::ErrorKind::UnexpectedEof.into());
                }
            }
        }
    }
    Ok(out)
}

/// What of `bytes` can be read although the end is missing.
fn decode_so_far(coding: Coding, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut byte = [0];
    let mut reader: Box<dyn std::io::Read + '_> = match coding {
        Coding::Identity => Box::new(bytes),
        Coding::Gzip => Box::new(flate2::read::GzDecoder::new(bytes)),
        Coding::Deflate => Box::new(flate2::read::ZlibDecoder::new(bytes)),
        Coding::RawDeflate => Box::new(flate2::read::DeflateDecoder::new(bytes)),
        Coding::Brotli => Box::new(brotli::Decompressor::new(bytes, 64)),
        Coding::Zstd => {
            let mut decoder = zstd_safe::DCtx::create();
            let mut room = vec![0; 1 << 20];
            let mut target = OutBuffer::around(&mut room[..]);
            decoder.decompress_stream(&mut target, &mut InBuffer::around(bytes)).unwrap();
            return target.as_slice().to_vec();
        }
    };
    while reader.read(&mut byte).is_ok_and(|count| count == 1) {
        out.push(byte[0]);
    }
    out
}

fn page() -> Vec<u8> {
    let rows = (0..4_000).map(|row| format!("<tr class=\"row\"><td>{row}</td><td>{}</td></tr>\n", row * 7919 % 1_000));
    rows.collect::<String>().into_bytes()
}

fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

fn encode(coding: Coding, input: &[u8], piece: usize) -> Vec<u8> {
    let (mut workspace, mut out) = (Workspace::default(), Vec::new());
    let mut encoder = Encoder::new(coding).unwrap();
    for piece in input.chunks(piece) {
        encoder.add(&mut workspace, piece, &mut out).unwrap();
    }
    encoder.finish(&mut out).unwrap();
    out
}

#[test]
fn comes_out_as_it_went_in() {
    let inputs = [
        Vec::new(),
        b"a".to_vec(),
        b"abcdefg".to_vec(),
        vec![b'a'; 100_000],
        vec![0xFF; 70_000],
        page(),
        noise(100_000),
        [noise(9_000), page(), noise(40_000)].concat(),
    ];
    for coding in Coding::ALL {
        for input in &inputs {
            for piece in [1_000, 16_384, 1 << 20] {
                let out = encode(coding, input, piece);
                assert!(decode(coding, &out).unwrap() == *input, "{coding:?}, {} bytes by {piece}", input.len());
                assert!(out.len() <= input.len() + input.len() / 100 + 64, "{coding:?} blows {} up", input.len());
            }
        }
        if coding != Coding::Identity {
            let out = encode(coding, &page(), 16_384);
            assert!(out.len() * 4 < page().len(), "{coding:?} makes {} of {}", out.len(), page().len());
        }
    }
}

#[test]
fn what_was_flushed_can_be_read() {
    let events = ["data: 1\n\n", "data: two\n\n", "data: äöü\n\n"];
    for coding in Coding::ALL {
        let (mut workspace, mut out) = (Workspace::default(), Vec::new());
        let mut encoder = Encoder::new(coding).unwrap();
        let mut sent = String::new();
        for event in events {
            encoder.add(&mut workspace, event.as_bytes(), &mut out).unwrap();
            encoder.flush(&mut out).unwrap();
            sent += event;
            assert_eq!(String::from_utf8(decode_so_far(coding, &out)).unwrap(), sent, "{coding:?}");
        }
    }
}

#[test]
fn goes_on_without_compressing() {
    let (mut workspace, mut out) = (Workspace::default(), Vec::new());
    let mut encoder = Encoder::new(Coding::Gzip).unwrap();
    let page = page();
    encoder.add(&mut workspace, &page, &mut out).unwrap();
    let compressed = out.len();
    encoder.set_compressing(false);
    assert!(!encoder.is_compressing());
    encoder.add(&mut workspace, &page, &mut out).unwrap();
    assert!(out.len() - compressed > page.len());
    encoder.set_compressing(true);
    encoder.add(&mut workspace, &page, &mut out).unwrap();
    encoder.finish(&mut out).unwrap();
    assert!(decode(Coding::Gzip, &out).unwrap() == page.repeat(3));
}

#[test]
fn a_workspace_remembers_nothing() {
    let mut workspace = Workspace::default();
    let mut once = |input: &[u8]| {
        let mut out = Vec::new();
        Encoder::new(Coding::Gzip).unwrap().add(&mut workspace, input, &mut out).unwrap();
        out
    };
    let alone = once(b"the secret is 12345678, the secret is out");
    once(&page());
    once(b"the secret is 99999999, the secret is out");
    assert_eq!(once(b"the secret is 12345678, the secret is out"), alone);
}

proptest! {
    #[test]
    fn any_pieces(pieces in prop::collection::vec((prop::collection::vec(b'a'..=b'd', 0..200), any::<bool>()), 0..20)) {
        let mut workspace = Workspace::default();
        for coding in Coding::ALL {
            let mut out = Vec::new();
            let mut encoder = Encoder::new(coding).unwrap();
            for (piece, flushes) in &pieces {
                encoder.add(&mut workspace, piece, &mut out).unwrap();
                if *flushes {
                    encoder.flush(&mut out).unwrap();
                }
            }
            encoder.finish(&mut out).unwrap();
            let whole: Vec<u8> = pieces.iter().flat_map(|(piece, _)| piece.clone()).collect();
            prop_assert!(decode(coding, &out).unwrap() == whole, "{:?}", coding);
        }
    }
}
