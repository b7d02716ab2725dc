//! Messages that two parties might read differently: each class on each side is refused for its own reason, however the
//! bytes arrive.

#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

mod corpus;

use http::{
    BodyLength, BodyTracker, Limits, Method, ParseError, ParseErrorKind, Parsed, RequestHead, RequestParser,
    ResponseHead, ResponseParser, Sender, request_body_length, response_body_length,
};

use corpus::{Case, cases};

const REQUESTS: &str = include_str!("smuggling/requests.txt");
const RESPONSES: &str = include_str!("smuggling/responses.txt");

/// Reads a message that arrives in pieces with these ends, and says what becomes of it in the words of the corpus.
fn outcome(side: Sender, method: Method, input: &[u8], ends: &[usize]) -> String {
    let limits = Limits::default();
    let (mut request, mut request_head) = (RequestParser::new(), RequestHead::new());
    let (mut response, mut response_head) = (ResponseParser::new(), ResponseHead::new());
    let mut tracker = None;
    let mut at = 0;
    let mut length = BodyLength::None;
    for end in ends {
        if tracker.is_none() {
            let parsed = match side {
                Sender::Client => request.parse(&input[..*end], &limits, &mut request_head),
                Sender::Server => response.parse(&input[..*end], &limits, &mut response_head),
            };
            match parsed {
                Ok(Parsed::Incomplete) => continue,
                Ok(Parsed::Complete { consumed }) => at = consumed,
                Err(ParseError { kind, offset }) => return format!("{} at {offset}", kind.name()),
            }
            length = match side {
                Sender::Client => request_body_length(&request_head),
                Sender::Server => response_body_length(&response_head, method),
            };
        }
        let tracker = tracker.get_or_insert_with(|| BodyTracker::new(length, &limits));
        match tracker.track(&input[at..*end]) {
            Ok(tracked) => at += tracked.belonging,
            Err(ParseError { kind, offset }) => return format!("{} at body {offset}", kind.name()),
        }
    }
    let length = match length {
        _ if tracker.is_none() => return "incomplete".to_owned(),
        BodyLength::None => "none",
        BodyLength::Exact(_) => "exact",
        BodyLength::Chunked => "chunked",
        BodyLength::UntilClose => "until-close",
    };
    if !tracker.is_some_and(|mut tracker| tracker.close()) {
        return "incomplete".to_owned();
    }
    format!("ok {length}, {} left", input.len() - at)
}

/// What is not as expected of a case, given at once, byte by byte and in two pieces.
fn mistakes(side: Sender, case: &Case) -> Vec<String> {
    let Case { name, expected, bytes } = case;
    let (method, expected) = match expected.strip_prefix("to ").and_then(|rest| rest.split_once(": ")) {
        Some((method, expected)) => (Method::of(method.as_bytes()), expected),
        None => (Method::Get, &expected[..]),
    };
    let len = bytes.len();
    let cuts = (0..len).step_by(len.div_ceil(300).max(1)).map(|cut| (format!("cut at {cut}"), vec![cut, len]));
    [("at once".to_owned(), vec![len]), ("byte by byte".to_owned(), (0..=len).collect())]
        .into_iter()
        .chain(cuts)
        .map(|(way, ends)| (way, outcome(side, method, bytes, &ends)))
        .filter(|(_, found)| found != expected)
        .map(|(way, found)| format!("{name}, {way}: {found}, expected {expected}"))
        .collect()
}

#[test]
fn requests() {
    let mistakes: Vec<_> = cases(REQUESTS).iter().flat_map(|case| mistakes(Sender::Client, case)).collect();
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

#[test]
fn responses() {
    let mistakes: Vec<_> = cases(RESPONSES).iter().flat_map(|case| mistakes(Sender::Server, case)).collect();
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

/// Each reason for which a message can be refused has a case, on each side that can meet it.
#[test]
fn every_reason_has_a_case() {
    use ParseErrorKind::{
        BareCr, BareLf, BodyOnConnect, ControlByte, EmptyName, HostMismatch, Http2Preface, InvalidHost, InvalidMethod,
        InvalidStatus, InvalidTarget, InvalidTargetByte, LineTooLong, MethodTooLong, MissingHost, NoWebSocketKey,
        RepeatedHost, RequestLine, StatusLine, TargetTooLong, TooManyEmptyLines,
    };
    let only_requests = [
        TooManyEmptyLines,
        RequestLine,
        InvalidMethod,
        MethodTooLong,
        InvalidTargetByte,
        InvalidTarget,
        TargetTooLong,
        Http2Preface,
        BodyOnConnect,
        MissingHost,
        RepeatedHost,
        InvalidHost,
        HostMismatch,
        NoWebSocketKey,
        // NOTE: nobody but varnishd bounds a single line.
        LineTooLong,
    ];
    let only_responses = [StatusLine, InvalidStatus, LineTooLong];
    assert!([BareCr, BareLf, ControlByte, EmptyName].iter().all(|kind| !only_requests.contains(kind)));
    for (text, others) in [(REQUESTS, &only_responses[..]), (RESPONSES, &only_requests[..])] {
        let cases = cases(text);
        for kind in ParseErrorKind::ALL {
            let there = cases.iter().any(|case| case.expected.contains(&format!("{} at ", kind.name())));
            assert_eq!(there, !others.contains(kind), "{}", kind.name());
        }
    }
}

/// The corpus is written by hand: its own mistakes must show.
#[test]
fn the_corpus_is_sound() {
    for text in [REQUESTS, RESPONSES] {
        let cases = cases(text);
        assert!(cases.len() > 60);
        let mut names: Vec<&str> = cases.iter().map(|case| &case.name[..]).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), cases.len(), "two cases of one name");
        assert!(cases.iter().all(|case| !case.bytes.is_empty()));
    }
    let case = cases("[a]\nok\n\\{2*b\\{3*c}}\\x41\\\\\\0\n\\r\n").remove(0);
    assert_eq!(case.bytes, b"bcccbcccA\\\0\r");
}
