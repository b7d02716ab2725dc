//! A client that sends anything, and a server that answers anything.

use resp::{Limits, Progress, ProtocolError, ReplyLimits, ReplyParser, ReplyProgress, RequestParser, encode_command};

/// All commands of `data`, given in pieces.
fn commands(data: &[u8], piece: usize, limits: &Limits) -> (Vec<Vec<Vec<u8>>>, Option<ProtocolError>) {
    let mut parser = RequestParser::new();
    let mut commands = Vec::new();
    let (mut start, mut end) = (0, 0);
    loop {
        match parser.parse(&data[start..end], limits) {
            Err(error) => return (commands, Some(error)),
            Ok(Progress::Incomplete { needed }) => {
                assert!(needed > 0, "something is missing");
                assert!(parser.memory_len() <= 64 * 1024 + 64 * data.len(), "memory is bounded by what came");
                if end == data.len() {
                    return (commands, None);
                }
                end = (end + piece).min(data.len());
            }
            Ok(Progress::Empty { consumed }) => start += consumed,
            Ok(Progress::Complete { consumed }) => {
                let arguments = parser.arguments(&data[start..end]);
                commands.push(arguments.iter().map(<[u8]>::to_vec).collect());
                start += consumed;
            }
        }
    }
}

/// The first byte says into pieces of which size the rest is cut; that makes no difference, and what was parsed is parsed
/// again from what it is encoded as.
pub fn request(data: &[u8]) {
    let Some((&first, data)) = data.split_first() else { return };
    let limits = Limits { line_len_max: 200, unauthenticated: first & 1 == 1, ..Limits::default() };
    let whole = commands(data, data.len().max(1), &limits);
    assert_eq!(commands(data, usize::from(first / 8).max(1), &limits), whole);
    let mut encoded = Vec::new();
    for command in &whole.0 {
        encode_command(&mut encoded, command);
    }
    assert_eq!(commands(&encoded, usize::from(first).max(1), &Limits::default()), (whole.0, None));
}

/// The same for replies.
pub fn reply(data: &[u8]) {
    let Some((&first, data)) = data.split_first() else { return };
    let limits = ReplyLimits { depth_max: 8, memory_len_max: 64 * 1024, line_len_max: 200 };
    let values = |piece: usize| {
        let mut parser = ReplyParser::new();
        let mut values = Vec::new();
        let (mut start, mut end) = (0, 0);
        loop {
            match parser.parse(&data[start..end], &limits) {
                Err(error) => return (values, Some(error)),
                Ok(ReplyProgress::Complete { consumed, value }) => {
                    // NaN is not equal to itself; its text is.
                    values.push(format!("{value:?}"));
                    start += consumed;
                }
                Ok(ReplyProgress::Incomplete { consumed, needed }) => {
                    assert!(needed > 0, "something is missing");
                    start += consumed;
                    if end == data.len() {
                        return (values, None);
                    }
                    end = (end + piece).min(data.len());
                }
            }
        }
    };
    assert_eq!(values(usize::from(first / 4).max(1)), values(data.len().max(1)));
}
