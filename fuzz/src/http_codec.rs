//! What the HTTP codec promises about any bytes.

use http::{
    BodyLength, BodyTracker, ChunkedDecoder, HeaderId, Headers, Limits, Method, ParseError, Parsed, Plus, RequestHead,
    RequestParser, ResponseHead, ResponseParser, Sender, Version, proxy_protocol,
};

/// A generator for places to cut at and edits to make: SplitMix64.
pub struct Random(pub u64);

impl Random {
    /// A number below `bound`; 0 when that is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound.max(1) as u64) as usize
    }
}

/// The first bytes say how to cut, and how strict to be; the others are the input.
fn prepare(data: &[u8]) -> Option<(Random, Limits, &[u8])> {
    let (&[seed, flags], input) = data.split_first_chunk()?;
    let (accept_invalid, accept_legacy) = (flags & 1 == 1, flags & 4 == 4);
    let mut limits = Limits { accept_invalid, accept_legacy, ..Limits::default() };
    if flags & 2 == 2 {
        limits = Limits {
            head_bytes_max: 200,
            headers_max: 5,
            target_bytes_max: 20,
            name_bytes_max: 20,
            trailer_bytes_max: 40,
            extension_bytes_max: 16,
            ..limits
        };
    }
    Some((Random(seed.into()), limits, input))
}

/// Where pieces of an input end: ascending, the last at its end.
fn cuts(random: &mut Random, len: usize) -> Vec<usize> {
    let mut ends: Vec<usize> = (0..random.below(12)).map(|_| random.below(len + 1)).collect();
    ends.push(len);
    ends.sort_unstable();
    ends
}

/// How far a body reaches and whether it ended, when it comes in these pieces.
fn follow(length: BodyLength, limits: &Limits, input: &[u8], ends: &[usize]) -> Result<(usize, bool), ParseError> {
    let mut tracker = BodyTracker::new(length, limits);
    let mut at = 0;
    for end in ends {
        let unseen = tracker.unseen_max();
        let tracked = tracker.track(&input[at..*end])?;
        assert!(tracked.belonging <= end - at);
        assert!(tracked.ended || tracked.belonging == end - at, "bytes left over before the end");
        assert!(tracked.ended || unseen <= tracked.belonging as u64 || tracker.unseen_max() > 0);
        at += tracked.belonging;
        if tracked.ended {
            break;
        }
    }
    Ok((at, tracker.has_ended()))
}

/// What holds of the bytes of any accepted head, found by the plainest of means.
fn check_lines(head: &[u8], side: Sender, version: Version, limits: &Limits) {
    let text = head.strip_suffix(b"\r\n\r\n").expect("a head ends with an empty line");
    let lines: Vec<&[u8]> =
        text.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line)).collect();
    assert!(head.len() <= limits.head_bytes_max && lines.len() <= limits.headers_max.max(1));
    assert!(text.split(|byte| *byte == b'\n').rev().skip(1).all(|line| line.ends_with(b"\r")), "bare LF");
    let (mut lengths, mut encodings, mut hosts) = (0, 0, 0);
    for line in lines.get(1..).unwrap_or_default() {
        assert!(!line.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)));
        let colon = line.iter().position(|byte| *byte == b':').expect("a field has a colon");
        let name = line[..colon].to_ascii_lowercase();
        assert!(!name.is_empty() && name.len() <= limits.name_bytes_max);
        assert!(![b' ', b'\t'].contains(&name[0]) && ![b' ', b'\t'].contains(&name[colon - 1]));
        let value = line[colon + 1..].trim_ascii();
        match &name[..] {
            b"content-length" => {
                lengths += 1;
                assert!(!value.is_empty() && value.iter().all(u8::is_ascii_digit));
            }
            b"transfer-encoding" => {
                encodings += 1;
                assert!(value.eq_ignore_ascii_case(b"chunked"));
            }
            b"host" => hosts += 1,
            _ => {}
        }
    }
    assert!(lengths + encodings <= 1, "more than one framing");
    assert!(encodings == 0 || version == Version::Http11);
    if side == Sender::Client {
        assert!(hosts <= 1 && (hosts == 1 || version == Version::Http10));
    }
}

fn same_fields(headers: &Headers, fields: &[httparse::Header<'_>]) {
    let ours: Vec<_> = headers.iter().map(|(name, value)| (name.to_vec(), value)).collect();
    // Names are put into lower case.
    let theirs: Vec<_> =
        fields.iter().map(|field| (field.name.to_ascii_lowercase().into_bytes(), field.value)).collect();
    assert_eq!(ours, theirs, "httparse reads other fields");
}

/// Requests: cutting changes nothing, what is accepted is sound and means the same to httparse, and survives writing.
pub fn request(data: &[u8]) {
    let Some((mut random, limits, input)) = prepare(data) else { return };
    let ends = cuts(&mut random, input.len());
    let parse = |input: &[u8], ends: &[usize]| {
        let (mut parser, mut head) = (RequestParser::new(), RequestHead::new());
        for end in ends {
            match parser.parse(&input[..*end], &limits, &mut head) {
                Ok(Parsed::Incomplete) => {}
                Ok(Parsed::Complete { consumed }) => return Ok(Some((consumed, head))),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    };
    let whole = parse(input, &[input.len()]);
    let cut = parse(input, &ends);
    assert_eq!(format!("{whole:?}"), format!("{cut:?}"), "cut at {ends:?}");
    let (consumed, mut head) = match whole {
        Ok(Some(complete)) => complete,
        Ok(None) => return assert!(input.len() < limits.head_bytes_max),
        Err(error) => {
            assert!(error.offset <= input.len() as u64);
            return assert!([400, 414, 422, 431, 505].contains(&error.status(Sender::Client)));
        }
    };
    let (head_bytes, rest) = input.split_at(consumed);
    let start = head_bytes.iter().position(|byte| !b"\r\n".contains(byte)).unwrap_or(0);
    let is_http09 = !head_bytes.ends_with(b"\r\n\r\n");
    if !is_http09 {
        check_lines(&head_bytes[start..], Sender::Client, head.version(), &limits);
    }
    assert!(head.method_kind() != Method::Connect || http::request_body_length(&head).is_empty());

    let mut fields = [httparse::EMPTY_HEADER; 128];
    let mut theirs = httparse::Request::new(&mut fields);
    if !limits.accept_invalid && !head_bytes[start..].windows(8).any(is_later_version) {
        assert_eq!(theirs.parse(head_bytes), Ok(httparse::Status::Complete(consumed)));
        assert_eq!(theirs.method.map(str::as_bytes), Some(head.method()));
        assert_eq!(theirs.path.map(str::as_bytes), Some(head.target()));
        assert_eq!(theirs.version == Some(1), head.version() == Version::Http11);
        same_fields(&head.headers, theirs.headers);
    }

    let length = http::request_body_length(&head);
    assert_ne!(length, BodyLength::UntilClose);
    assert_eq!(
        follow(length, &limits, rest, &[rest.len()]),
        follow(length, &limits, rest, &cuts(&mut random, rest.len()))
    );

    http::enforce_request_framing(&mut head);
    let mut written = Vec::new();
    head.write_to(&mut written);
    let roomy = Limits { accept_invalid: limits.accept_invalid, ..Limits::default() };
    let (mut parser, mut again) = (RequestParser::new(), RequestHead::new());
    assert_eq!(parser.parse(&written, &roomy, &mut again), Ok(Parsed::Complete { consumed: written.len() }));
    assert_eq!(
        (again.method(), again.target(), again.version_bytes()),
        (head.method(), head.target(), head.version_bytes())
    );
    assert_eq!(again.headers.iter().collect::<Vec<_>>(), head.headers.iter().collect::<Vec<_>>());
    assert_eq!(http::request_body_length(&again), length);
}

/// HTTP/1.2 to HTTP/1.9, which httparse does not know.
fn is_later_version(text: &[u8]) -> bool {
    matches!(text, [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'2'..=b'9'])
}

/// Responses: as requests.
pub fn response(data: &[u8]) {
    let Some((mut random, limits, input)) = prepare(data) else { return };
    let ends = cuts(&mut random, input.len());
    let parse = |input: &[u8], ends: &[usize]| {
        let (mut parser, mut head) = (ResponseParser::new(), ResponseHead::new());
        for end in ends {
            match parser.parse(&input[..*end], &limits, &mut head) {
                Ok(Parsed::Incomplete) => {}
                Ok(Parsed::Complete { consumed }) => return Ok(Some((consumed, head))),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    };
    let whole = parse(input, &[input.len()]);
    let cut = parse(input, &ends);
    assert_eq!(format!("{whole:?}"), format!("{cut:?}"), "cut at {ends:?}");
    let (consumed, mut head) = match whole {
        Ok(Some(complete)) => complete,
        Ok(None) => return assert!(input.len() < limits.head_bytes_max),
        Err(error) => return assert_eq!(error.status(Sender::Server), 502),
    };
    let (head_bytes, rest) = input.split_at(consumed);
    if !limits.accept_legacy {
        check_lines(head_bytes, Sender::Server, head.version(), &limits);
        assert!((100..=999).contains(&head.status()));
    }

    let mut fields = [httparse::EMPTY_HEADER; 128];
    let mut theirs = httparse::Response::new(&mut fields);
    if !limits.accept_invalid && !limits.accept_legacy && !is_later_version(&head_bytes[..8]) {
        assert_eq!(theirs.parse(head_bytes), Ok(httparse::Status::Complete(consumed)));
        assert_eq!(theirs.code, Some(head.status()));
        same_fields(&head.headers, theirs.headers);
    }

    let method = [Method::Get, Method::Head, Method::Connect][random.below(3)];
    let length = http::response_body_length(&head, method);
    assert_eq!(
        follow(length, &limits, rest, &[rest.len()]),
        follow(length, &limits, rest, &cuts(&mut random, rest.len()))
    );

    http::enforce_response_framing(&mut head, method);
    let mut written = Vec::new();
    head.write_to(&mut written);
    // What was put in order is read by the strictest reader, but for a status that is none.
    let accept_legacy = !(100..=999).contains(&head.status());
    let roomy = Limits { accept_invalid: limits.accept_invalid, accept_legacy, ..Limits::default() };
    let (mut parser, mut again) = (ResponseParser::new(), ResponseHead::new());
    assert_eq!(parser.parse(&written, &roomy, &mut again), Ok(Parsed::Complete { consumed: written.len() }));
    assert_eq!((again.status(), again.reason()), (head.status(), head.reason()));
    assert_eq!(again.headers.iter().collect::<Vec<_>>(), head.headers.iter().collect::<Vec<_>>());
    assert_eq!(http::response_body_length(&again, method), length);
}

/// Chunked bodies: cutting changes nothing, and what is accepted means the same to a decoder of another make.
pub fn chunked(data: &[u8]) {
    let Some((mut random, limits, input)) = prepare(data) else { return };
    let decode = |ends: &[usize]| {
        let mut decoder = ChunkedDecoder::new(&limits);
        let (mut at, mut data) = (0, Vec::new());
        for end in ends {
            let progress = decoder.decode_into(&input[at..*end], &mut data)?;
            at += progress.consumed;
            assert_eq!(progress.done, decoder.is_done());
            assert!(progress.done || at == *end);
            if progress.done {
                break;
            }
        }
        Ok::<_, ParseError>((at, decoder.is_done(), data))
    };
    let whole = decode(&[input.len()]);
    assert_eq!(whole, decode(&cuts(&mut random, input.len())));
    if let Ok((consumed, true, data)) = whole {
        assert_eq!(reference(&input[..consumed]), Some(data), "the other decoder disagrees");
    }
}

/// The data of a whole chunked body, read with httparse's reader of size lines.
fn reference(mut input: &[u8]) -> Option<Vec<u8>> {
    let mut data = Vec::new();
    loop {
        let Ok(httparse::Status::Complete((start, size))) = httparse::parse_chunk_size(input) else { return None };
        input = &input[start..];
        if size == 0 {
            break;
        }
        let size = usize::try_from(size).ok()?;
        data.extend_from_slice(input.get(..size)?);
        input = input.get(size..)?.strip_prefix(b"\r\n")?;
    }
    let mut fields = [httparse::EMPTY_HEADER; 10_000];
    match httparse::parse_headers(input, &mut fields) {
        Ok(httparse::Status::Complete((len, _))) if len == input.len() => Some(data),
        _ => None,
    }
}

/// Edits of a head: the block does what a plain list does, and whatever is put in, no line comes out that was not.
pub fn edits(data: &[u8]) {
    const NAMES: &[&[u8]] = &[b"Host", b"HOST", b"X-A", b"x-a", b"X-B", b"Cookie", b"content-length"];
    let mut headers = Headers::new();
    let mut model: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    let clean = |value: &[u8]| value.iter().map(|byte| if b"\r\n\0".contains(byte) { b' ' } else { *byte }).collect();
    let mut rest = data;
    let mut head = RequestHead::new();
    head.start(b"GET", b"/", Version::Http11);
    while let [operation, name, len, after @ ..] = rest {
        let (value, after) = after.split_at(after.len().min(usize::from(*len % 40)));
        rest = after;
        let index = usize::from(*len) % 8;
        let name = NAMES[usize::from(*name) % NAMES.len()];
        let is = |(found, _): &(Vec<u8>, Vec<u8>)| found.eq_ignore_ascii_case(name);
        match operation % 14 {
            0 | 1 => {
                headers.add(name, value);
                model.push((name.to_vec(), clean(value)));
            }
            2 => {
                headers.insert_at(index, name, value);
                model.insert(index.min(model.len()), (name.to_vec(), clean(value)));
            }
            3 => {
                assert_eq!(headers.remove(name), model.iter().any(is));
                model.retain(|field| !is(field));
            }
            4 => {
                headers.remove_known(HeaderId::of(name));
                model.retain(|(found, _)| HeaderId::of(found) != HeaderId::of(name));
            }
            5 => {
                headers.set(name, value);
                model.retain(|field| !is(field));
                model.push((name.to_vec(), clean(value)));
            }
            6 => {
                assert_eq!(headers.set_value_at(index, value), index < model.len());
                if let Some(field) = model.get_mut(index) {
                    field.1 = clean(value);
                }
            }
            7 => {
                headers.rename(name, b"X-B");
                model.iter_mut().filter(|field| is(field)).for_each(|field| field.0 = b"X-B".to_vec());
            }
            8 => {
                headers.rewrite(|found, old| (found == name).then(|| [old, value].concat()));
                for field in model.iter_mut().filter(|field| field.0 == name) {
                    field.1 = clean(&[&field.1, value].concat());
                }
            }
            9 => {
                assert_eq!(headers.remove_at(index), index < model.len());
                if index < model.len() {
                    model.remove(index);
                }
            }
            10 => head.set_path(value),
            11 => head.set_query(value),
            12 => head.set_path_and_query(value),
            _ => head.set_target(value),
        }
        assert_eq!(headers.first(name), model.iter().find(|field| is(field)).map(|(_, value)| &value[..]));
        assert_eq!(headers.all(name).count(), model.iter().filter(|field| is(field)).count());
    }
    let mut written = Vec::new();
    headers.write_to(&mut written);
    let expected: Vec<u8> =
        model.iter().flat_map(|(name, value)| [name, &b": "[..], value, b"\r\n"].concat()).collect();
    assert_eq!(written, expected);

    let mut line = Vec::new();
    head.write_request_line(&mut line);
    assert_eq!(line.iter().filter(|byte| byte.is_ascii_whitespace()).count(), 4, "{line:?}");
}

/// Lists, cookies, parameters, percent-encoding, credentials: nothing panics, and pieces are pieces of the input.
pub fn values(data: &[u8]) {
    let within = |piece: &[u8]| piece.is_empty() || data.as_ptr_range().contains(&piece.as_ptr());
    let is_blank = |byte: Option<&u8>| byte.is_none_or(|byte| b" \t".contains(byte));
    for element in http::elements(data) {
        assert!(within(element) && !is_blank(element.first()) && !is_blank(element.last()));
    }
    assert!(http::cookies(data).all(|(name, value)| within(name) && within(value)));
    assert!(http::query_parameters(data).all(|(name, value)| within(name) && within(value)));
    let _ = http::set_cookie(data);
    let _ = http::basic_credentials(data);
    for plus in [Plus::Literal, Plus::Space, Plus::SpaceInQuery] {
        let mut decoded = Vec::new();
        if http::percent_decode(data, plus, &mut decoded).is_some() {
            let mut encoded = Vec::new();
            decoded.iter().for_each(|byte| http::push_encoded(*byte, &mut encoded));
            let mut again = Vec::new();
            assert!(http::percent_decode(&encoded, plus, &mut again).is_some());
            assert_eq!(again, decoded);
        }
    }
}

/// PROXY headers: each beginning of a header is the beginning of one, an error stays one, and what is read can be
/// written.
pub fn proxy_protocol(data: &[u8]) {
    use proxy_protocol::{Decoded, Proxied, decode, encode_v1, encode_v2, tlvs};
    let whole = decode(data);
    for end in 0..data.len().min(300) {
        match (decode(&data[..end]), &whole) {
            (Ok(Decoded::Incomplete), Ok(Decoded::Complete { consumed, .. })) => assert!(end < *consumed),
            (complete @ Ok(Decoded::Complete { .. }), whole) => assert_eq!(&complete, whole),
            (Ok(Decoded::Incomplete), _) => {}
            (Err(_), whole) => assert!(whole.is_err(), "an error that more bytes mended"),
        }
    }
    let Ok(Decoded::Complete { consumed, proxied, tlvs: range }) = whole else { return };
    assert!(consumed <= data.len() && range.end <= consumed);
    assert!(tlvs(&data[range]).map(|(_, value)| value.len() + 3).sum::<usize>() <= consumed);
    if let Proxied::Inet { source, destination } = proxied {
        let mut written = [Vec::new(), Vec::new()];
        encode_v1(Some((source, destination)), &mut written[0]);
        encode_v2(Some((source, destination)), &[(4, b"x")], &mut written[1]);
        for header in written {
            let Ok(Decoded::Complete { consumed, proxied, .. }) = decode(&header) else { panic!("{header:?}") };
            let Proxied::Inet { source: from, destination: to } = proxied else { panic!("{header:?}") };
            assert_eq!(consumed, header.len());
            assert_eq!((from.port(), to.port()), (source.port(), destination.port()));
            assert_eq!(from.ip().to_canonical(), source.ip().to_canonical());
            assert_eq!(to.ip().to_canonical(), destination.ip().to_canonical());
        }
    }
}

/// More bytes never mend or change a header of a NetScaler.
pub fn netscaler(data: &[u8]) {
    use http::netscaler::{Decoded, decode};
    let whole = decode(data, 77);
    for end in 0..data.len().min(200) {
        match decode(&data[..end], 77) {
            Ok(Decoded::Incomplete) => {}
            other => assert_eq!(other, whole),
        }
    }
    if let Ok(Decoded::Complete { consumed, .. }) = whole {
        assert!(consumed <= data.len());
    }
}
