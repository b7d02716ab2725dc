//! What is promised about lines that others send to `log-forward` sections.

use std::time::{Duration, UNIX_EPOCH};

use haproxycfg::model::LogLineFormat;
use logs::{Framed, Message, framed, rewritten};

const LINE_BYTES_MAX: usize = 200;
const BYTES_MAX: usize = 100;

/// The bytes are a line and a stream of lines. A line is never longer than is allowed, whatever format it is written in, has
/// one end, and says the same when it is read again; a stream comes to an end.
pub fn log_lines(data: &[u8]) {
    line(data);
    let mut rest = data;
    loop {
        match framed(rest, LINE_BYTES_MAX) {
            Framed::Line { start, end, next } => {
                assert!(start <= end && end <= next && next > 0);
                assert!(end - start <= LINE_BYTES_MAX);
                line(&rest[start..end]);
                rest = &rest[next..];
            }
            // More is asked for only as long as a line may become one.
            Framed::Incomplete => {
                assert!(rest.len() <= LINE_BYTES_MAX + 4);
                break;
            }
            Framed::Malformed => break,
        }
    }
}

fn line(line: &[u8]) {
    let now = UNIX_EPOCH + Duration::from_secs(1_795_255_761);
    let write = |line: &[u8], format, most| rewritten(line, format, 17, most, now);
    use LogLineFormat::{Iso, Local, Priority, Raw, Rfc3164, Rfc5424, Short, Timed, Unspecified};
    for format in [Iso, Local, Priority, Raw, Rfc3164, Rfc5424, Short, Timed, Unspecified] {
        let written = write(line, format, BYTES_MAX);
        assert!(written.len() <= BYTES_MAX + 1 && written.last() == Some(&b'\n'), "{format:?}");
    }
    let message = Message::parse(line);
    if !has_plain_date(message.time) {
        return;
    }
    let most = line.len() + 300;
    let written = write(line, Rfc5424, most);
    let again = Message::parse(&written[..written.len() - 1]);
    assert_eq!(write(&written, Rfc5424, most), written);
    if !message.host.is_empty() {
        assert_eq!((again.host, again.tag, again.pid), (message.host, message.tag, message.pid));
    }
}

/// Dates are handed on as they are: what is wrong in one stays wrong.
fn has_plain_date(time: &[u8]) -> bool {
    match time {
        b"" | b"-" => true,
        _ if time.len() == 15 => {
            let is_plain = |(at, byte): (usize, &u8)| match at {
                0..=2 => byte.is_ascii_alphabetic(),
                3 | 6 => *byte == b' ',
                4 => *byte == b' ' || byte.is_ascii_digit(),
                9 | 12 => *byte == b':',
                _ => byte.is_ascii_digit(),
            };
            time.iter().enumerate().all(is_plain)
        }
        _ => time.iter().enumerate().all(|(at, byte)| match at {
            0..=3 | 5 | 6 | 8 | 9 | 11 | 12 | 14 | 15 | 17 | 18 => byte.is_ascii_digit(),
            _ => byte.is_ascii_graphic(),
        }),
    }
}
