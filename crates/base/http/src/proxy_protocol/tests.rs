use std::net::SocketAddr;

use super::{Decoded, Proxied, ProxyError, decode, encode_v1, encode_v2, encode_v2_local, tlv_type, tlvs};

fn inet(source: &str, destination: &str) -> Proxied {
    let parse = |text: &str| text.parse::<SocketAddr>().unwrap();
    Proxied::Inet { source: parse(source), destination: parse(destination) }
}

/// Checks a header and every beginning of it, and that what follows is not touched.
#[track_caller]
fn accepts(header: &[u8], expected: &Proxied) {
    for end in 0..header.len() {
        assert_eq!(decode(&header[..end]), Ok(Decoded::Incomplete), "first {end} bytes");
    }
    for more in [&b""[..], b"GET / HTTP/1.1\r\n\r\n", b"\0"] {
        let Ok(Decoded::Complete { consumed, proxied, .. }) = decode(&[header, more].concat()) else {
            panic!("{:?}", decode(header))
        };
        assert_eq!((consumed, &proxied), (header.len(), expected));
    }
}

#[test]
fn version_1() {
    accepts(b"PROXY TCP4 1.2.3.4 5.6.7.8 90 65535\r\n", &inet("1.2.3.4:90", "5.6.7.8:65535"));
    accepts(b"PROXY TCP4 0.0.0.0 255.255.255.255 0 1\r\n", &inet("0.0.0.0:0", "255.255.255.255:1"));
    accepts(b"PROXY TCP6 ::1 2001:DB8::a 1 2\r\n", &inet("[::1]:1", "[2001:db8::a]:2"));
    accepts(b"PROXY TCP6 ::ffff:1.2.3.4 :: 1 2\r\n", &inet("[::ffff:1.2.3.4]:1", "[::]:2"));
    accepts(b"PROXY UNKNOWN\r\n", &Proxied::Unknown);
    accepts(b"PROXY UNKNOWN what  ever\r\n", &Proxied::Unknown);
    let full = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
    accepts(format!("PROXY UNKNOWN {full} {full} 65535 65535\r\n").as_bytes(), &Proxied::Unknown);
}

#[test]
fn malformed_version_1() {
    use ProxyError::{InvalidAddress, InvalidByte, InvalidPort, LineShape, LineTooLong, NoHeader, UnknownProtocol};
    for (line, expected) in [
        ("GET / HTTP/1.1\r\n", NoHeader),
        ("PROXY\r\n", NoHeader),
        ("PROXY  TCP4 1.2.3.4 5.6.7.8 9 1\r\n", UnknownProtocol),
        ("PROXY TCP5 1.2.3.4 5.6.7.8 9 1\r\n", UnknownProtocol),
        ("PROXY tcp4 1.2.3.4 5.6.7.8 9 1\r\n", UnknownProtocol),
        ("PROXY UNKNOWNX\r\n", UnknownProtocol),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 9\r\n", LineShape),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 9 1 \r\n", LineShape),
        ("PROXY TCP4  1.2.3.4 5.6.7.8 9 1\r\n", LineShape),
        ("PROXY TCP4 01.2.3.4 5.6.7.8 9 1\r\n", InvalidAddress),
        ("PROXY TCP4 1.2.3 5.6.7.8 9 1\r\n", InvalidAddress),
        ("PROXY TCP4 1.2.3.256 5.6.7.8 9 1\r\n", InvalidAddress),
        ("PROXY TCP4 ::1 ::1 9 1\r\n", InvalidAddress),
        ("PROXY TCP6 1.2.3.4 5.6.7.8 9 1\r\n", InvalidAddress),
        ("PROXY TCP6 fe80::1%1 ::1 9 1\r\n", InvalidAddress),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 65536 1\r\n", InvalidPort),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 09 1\r\n", InvalidPort),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 +9 1\r\n", InvalidPort),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 -9 1\r\n", InvalidPort),
        ("PROXY UNKNOWN\n", InvalidByte),
        ("PROXY UNKNOWN\rx", InvalidByte),
        ("PROXY UNKNOWN\0\r\n", InvalidByte),
        ("PROXY UNKNOWN \u{e9}\r\n", InvalidByte),
    ] {
        assert_eq!(decode(line.as_bytes()), Err(expected), "{line:?}");
    }
    let long = |len: usize| format!("PROXY UNKNOWN {}\r\n", "a".repeat(len - 16));
    assert!(matches!(decode(long(107).as_bytes()), Ok(Decoded::Complete { consumed: 107, .. })));
    assert_eq!(decode(long(108).as_bytes()), Err(LineTooLong));
    assert_eq!(decode(&long(108).as_bytes()[..107]), Err(LineTooLong));
    assert_eq!(decode(long(200).as_bytes()), Err(LineTooLong));
}

/// A version 2 header from its command, family, and what follows the length.
fn v2(command: u8, family: u8, payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(payload.len()).unwrap().to_be_bytes();
    [b"\r\n\r\n\0\r\nQUIT\n", &[command, family][..], &len, payload].concat()
}

const TCP4: &[u8] = &[1, 2, 3, 4, 5, 6, 7, 8, 0, 90, 255, 255];

fn tcp4_with(tlvs: &[u8]) -> Vec<u8> {
    v2(0x21, 0x11, &[TCP4, tlvs].concat())
}

#[test]
fn version_2() {
    let expected = inet("1.2.3.4:90", "5.6.7.8:65535");
    accepts(&v2(0x21, 0x11, TCP4), &expected);
    accepts(&v2(0x21, 0x12, TCP4), &expected);
    accepts(&tcp4_with(b"\x02\0\x0512345\x04\0\0\xea\0\x01x"), &expected);

    let tcp6 = [[0; 15].as_slice(), &[1], &[0x20; 16], &[0, 1, 0, 2]].concat();
    accepts(&v2(0x21, 0x21, &tcp6), &inet("[::1]:1", "[2020:2020:2020:2020:2020:2020:2020:2020]:2"));

    let mut unix = [0; 216];
    unix[..5].copy_from_slice(b"/a/b\xff");
    unix[108..110].copy_from_slice(b"\0c");
    let expected = Proxied::Unix { source: b"/a/b\xff".to_vec(), destination: b"\0c".to_vec() };
    accepts(&v2(0x21, 0x31, &unix), &expected);

    accepts(&v2(0x20, 0x00, b""), &Proxied::Local);
    // All of a local header is to be ignored, whatever it says.
    accepts(&v2(0x20, 0x11, TCP4), &Proxied::Local);
    accepts(&v2(0x20, 0xff, b"\x02\xff"), &Proxied::Local);
    accepts(&v2(0x21, 0x00, b"anything"), &Proxied::Unknown);
    accepts(&v2(0x21, 0x10, TCP4), &Proxied::Unknown);
}

#[test]
fn malformed_version_2() {
    use ProxyError::{
        InvalidTlv, NoHeader, TooLong, TooShort, UnknownCommand, UnknownProtocol, UnsupportedVersion, WrongChecksum,
    };
    for (header, expected) in [
        (b"\r\n\r\n\0\r\nQUIT\r".to_vec(), NoHeader),
        (b"\r\nGET".to_vec(), NoHeader),
        (b"\r\n\r\n\0\r\nQUIT\n\x11".to_vec(), UnsupportedVersion),
        (v2(0x11, 0x11, TCP4), UnsupportedVersion),
        (v2(0x31, 0x11, TCP4), UnsupportedVersion),
        (v2(0x22, 0x11, TCP4), UnknownCommand),
        (v2(0x21, 0x13, TCP4), UnknownProtocol),
        (v2(0x21, 0x41, TCP4), UnknownProtocol),
        (v2(0x21, 0x11, &TCP4[..11]), TooShort),
        (v2(0x21, 0x21, &[0; 35]), TooShort),
        (v2(0x21, 0x31, &[0; 215]), TooShort),
        (v2(0x21, 0x11, &[0; 4_097]), TooLong),
        (tcp4_with(b"\x02"), InvalidTlv),
        (tcp4_with(b"\x02\0"), InvalidTlv),
        (tcp4_with(b"\x02\0\x01"), InvalidTlv),
        (tcp4_with(b"\x02\0\x041234\x02\0\x0512"), InvalidTlv),
        (tcp4_with(b"\x02\0\x0412345"), InvalidTlv),
        (tcp4_with(b"\x03\0\x03123"), InvalidTlv),
        (tcp4_with(b"\x03\0\x041234"), WrongChecksum),
        (tcp4_with(&[&b"\x05\0\x81"[..], &[0; 129]].concat()), InvalidTlv),
    ] {
        assert_eq!(decode(&header), Err(expected), "{header:?}");
    }
}

/// The polynomial is checked against the value that RFC 3720 appendix B.4 gives for 32 bytes of zeros.
#[test]
fn checksums() {
    assert_eq!(super::decode::checksum(&[0; 32], 0), 0x8a91_36aa);
    let mut header = tcp4_with(b"\x04\0\x01a\x03\0\x04\0\0\0\0\x04\0\x01b");
    let place = header.len() - 8;
    let sum = super::decode::checksum(&header, place);
    header[place..place + 4].copy_from_slice(&sum.to_be_bytes());
    accepts(&header, &inet("1.2.3.4:90", "5.6.7.8:65535"));
    header[20] ^= 1;
    assert_eq!(decode(&header), Err(ProxyError::WrongChecksum));
}

#[test]
fn gives_tlvs() {
    let header = tcp4_with(b"\x02\0\x0512345\x05\0\x02id");
    let Ok(Decoded::Complete { tlvs: range, .. }) = decode(&header) else { panic!() };
    let found: Vec<_> = tlvs(&header[range]).collect();
    assert_eq!(found, [(tlv_type::AUTHORITY, &b"12345"[..]), (tlv_type::UNIQUE_ID, b"id")]);
}

#[test]
fn encodes() {
    let address = |text: &str| text.parse::<SocketAddr>().unwrap();
    for (source, destination, line) in [
        ("1.2.3.4:90", "5.6.7.8:65535", "PROXY TCP4 1.2.3.4 5.6.7.8 90 65535\r\n"),
        ("[::1]:1", "[2001:db8::a]:2", "PROXY TCP6 ::1 2001:db8::a 1 2\r\n"),
        ("1.2.3.4:1", "[::1]:2", "PROXY TCP6 ::ffff:1.2.3.4 ::1 1 2\r\n"),
        ("[::ffff:1.2.3.4]:1", "[::ffff:5.6.7.8]:2", "PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n"),
    ] {
        let pair = (address(source), address(destination));
        let mut out = b"before".to_vec();
        encode_v1(Some(pair), &mut out);
        assert_eq!(String::from_utf8_lossy(&out[6..]), line);
        let mut version_2 = Vec::new();
        encode_v2(Some(pair), &[(tlv_type::AUTHORITY, b"host")], &mut version_2);
        let Ok(Decoded::Complete { proxied, tlvs: range, consumed }) = decode(&version_2) else { panic!() };
        let Ok(Decoded::Complete { proxied: from_line, .. }) = decode(&out[6..]) else { panic!() };
        assert_eq!(consumed, version_2.len());
        assert_eq!(proxied, from_line);
        assert_eq!(tlvs(&version_2[range]).collect::<Vec<_>>(), [(tlv_type::AUTHORITY, &b"host"[..])]);
    }

    let mut out = Vec::new();
    encode_v1(None, &mut out);
    assert_eq!(out, b"PROXY UNKNOWN\r\n");
    let mut out = Vec::new();
    encode_v2_local(&mut out);
    assert_eq!(out, v2(0x20, 0x00, b""));

    // What does not fit is left out, what follows it is not.
    let pair = (address("1.2.3.4:1"), address("1.2.3.4:2"));
    let mut out = Vec::new();
    encode_v2(Some(pair), &[(1, &[0; 65_530]), (2, b"fits")], &mut out);
    assert_eq!(out.len(), 16 + 12 + 3 + 4);
}

/// The checksum that is written is the one that is wanted, whatever the addresses are.
#[test]
fn written_checksums() {
    let ends = |text: &str| Some((text.parse().unwrap(), text.parse().unwrap()));
    for addresses in [None, ends("192.0.2.1:80"), ends("[2001:db8::1]:443")] {
        let mut out = b"before".to_vec();
        let tlvs: [(u8, &[u8]); 2] = [(tlv_type::CRC32C, &[0; 4]), (tlv_type::UNIQUE_ID, b"abc")];
        encode_v2(addresses, &tlvs, &mut out);
        let header = out.get_mut(6..).unwrap();
        assert!(matches!(decode(header), Ok(Decoded::Complete { .. })), "{addresses:?}");
        *header.last_mut().unwrap() ^= 1;
        // Nobody looks at what a header says of a connection that is the sender's own.
        assert_eq!(decode(header).is_ok(), addresses.is_none());
    }
}
