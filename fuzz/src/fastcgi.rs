//! What FastCGI's client and the heads of programs promise about any bytes.

use fastcgi::{AnswerHead, Client, ErrorLines, Event, Pairs, Settings, head_end, write_pair};
use http::{Limits, Parsed, ResponseHead, ResponseParser};

/// An event: its kind, its place, its bytes.
type Said = (u8, usize, Vec<u8>);

/// What a client says of `input`, given in pieces of so many bytes: its events with their bytes, and whether it can go on.
fn read(input: &[u8], piece: usize, asks_values: bool) -> (Vec<Said>, bool) {
    let mut client = Client::new(Settings { keeps_connection: true, requests_max: 3 });
    if asks_values {
        client.ask_values(&mut Vec::new());
    }
    let keys: Vec<_> = (0..3).filter_map(|_| client.begin(b"", &mut Vec::new())).collect();
    if let Some(key) = keys.get(1) {
        client.abort(*key, &mut Vec::new());
    }
    let (mut found, mut held) = (Vec::<Said>::new(), Vec::new());
    for bytes in input.chunks(piece.max(1)) {
        held.extend_from_slice(bytes);
        let mut used = 0;
        loop {
            let event = match client.next(&held, &mut used) {
                Ok(Some(event)) => event,
                Ok(None) => break,
                Err(_) => return (found, false),
            };
            let (kind, slot, content) = match event {
                Event::Stdout { key, from, to } => (0, key.slot(), held[from..to].to_vec()),
                Event::Stderr { key, from, to } => (1, key.slot(), held[from..to].to_vec()),
                Event::StdoutEnd(key) => (2, key.slot(), Vec::new()),
                Event::End { key, .. } => (3, key.slot(), Vec::new()),
                Event::Values(values) => (4, values.requests_at_a_time((true, 3)), Vec::new()),
            };
            assert!(kind == 4 || slot < 3 && slot != 1, "nothing is told of a request that nobody wants");
            match found.last_mut() {
                Some((last, at, all)) if (*last, *at) == (kind, slot) && kind < 2 => all.extend_from_slice(&content),
                _ => found.push((kind, slot, content)),
            }
        }
        held.drain(..used);
        assert!(held.len() < 8, "no more than a header waits");
    }
    (found, true)
}

/// What comes of records is the same however their bytes arrive, and no more of them is kept than a header.
pub fn records(data: &[u8]) {
    let Some((first, input)) = data.split_first() else { return };
    let asks_values = first & 1 == 1;
    let (whole, goes_on) = read(input, usize::MAX, asks_values);
    let (parts, parts_go_on) = read(input, usize::from(first >> 1) % 11 + 1, asks_values);
    assert_eq!(goes_on, parts_go_on);
    if goes_on {
        assert_eq!(whole, parts);
    }
}

/// Names and values that are read are those that were written.
pub fn pairs(data: &[u8]) {
    let mut again = Vec::new();
    let mut is_whole = true;
    for pair in Pairs::new(data) {
        match pair {
            Ok((name, value)) => write_pair(name, value, &mut again),
            Err(()) => is_whole = false,
        }
    }
    assert!(again.len() <= data.len());
    if is_whole {
        let read: Vec<_> = Pairs::new(data).flatten().collect();
        let written: Vec<_> = Pairs::new(&again).flatten().collect();
        assert_eq!(read, written);
    }
}

/// A head ends where it ends, however it arrives; what becomes of it is one head of HTTP, or none; complaints hold no control
/// characters.
pub fn heads(data: &[u8]) {
    let end = head_end(data, 0);
    let piecewise = (0..=data.len()).find_map(|length| head_end(&data[..length], length.saturating_sub(1)));
    assert_eq!(end, piecewise);
    let head = &data[..end.unwrap_or(data.len())];
    let mut text = Vec::new();
    if let Ok(found) = AnswerHead::write(head, &mut text) {
        assert!((200..=999).contains(&found.status));
        text.extend_from_slice(b"\r\n");
        let mut response = ResponseHead::new();
        let limits = Limits { head_bytes_max: usize::MAX, headers_max: usize::MAX, ..Limits::default() };
        if let Ok(parsed) = ResponseParser::new().parse(&text, &limits, &mut response) {
            assert_eq!(parsed, Parsed::Complete { consumed: text.len() });
            assert_eq!(response.status(), found.status);
        }
    }
    let mut lines = ErrorLines::default();
    let mut check = |line: &str| assert!(!line.is_empty() && !line.chars().any(char::is_control));
    data.chunks(7).for_each(|bytes| lines.push(bytes, &mut check));
    lines.finish(&mut check);
}
