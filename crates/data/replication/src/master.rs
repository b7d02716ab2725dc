//! A master's end: what a replica that comes is given, and what it says then.

use oplog::{Offset, ReplicationId};
use resp::{Limits, Progress, RequestParser};

/// What a replica asks for with `PSYNC`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The history that it has; nothing if it has none (`?`), or none of the form that histories have.
    pub history: Option<ReplicationId>,
    /// The next byte that it wants, counted from 1.
    pub next: i64,
}

impl Request {
    /// Of the words of `PSYNC`.
    #[must_use]
    pub fn parse(history: &[u8], next: &[u8]) -> Option<Self> {
        let next = resp::parse_integer(next)?;
        Some(Self { history: ReplicationId::parse(history), next })
    }

    /// How many bytes of the stream the replica has.
    fn offset(&self) -> Option<Offset> {
        Some(Offset(u64::try_from(self.next.checked_sub(1)?).ok()?))
    }
}

/// What a master's log has.
#[derive(Debug, Clone)]
pub struct LogView {
    /// The histories that it tells, the oldest first, each with the offset from which on it does.
    pub histories: Vec<(ReplicationId, Offset)>,
    /// Where it begins.
    pub first: Offset,
    /// Where it ends.
    pub end: Offset,
}

/// What a replica is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The log from an offset on, under this history.
    Continue {
        /// The history that the log tells at its end.
        history: ReplicationId,
        /// What the replica has.
        from: Offset,
    },
    /// All keys, and the log behind.
    Full(WhyFull),
}

/// Why a replica needs all keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WhyFull {
    /// It has none.
    #[error("it has no data yet")]
    New,
    /// What it has is of another history.
    #[error("it has another history than this log")]
    OtherHistory,
    /// It has more of a former history than this log.
    #[error("its history goes on behind offset {0}, where this log has parted from it")]
    Parted(Offset),
    /// It has more than this log.
    #[error("it has more of this history than this log, which ends at offset {0}")]
    Ahead(Offset),
    /// What it lacks is not kept any more.
    #[error("what it lacks is not in the log any more, which begins at offset {0}")]
    Removed(Offset),
}

/// Whether what a replica has is a part of the log, so that it can go on.
#[must_use]
pub fn answer(request: &Request, log: &LogView) -> Answer {
    let Some(history) = request.history else { return Answer::Full(WhyFull::New) };
    let Some(place) = log.histories.iter().rposition(|(id, _)| *id == history) else {
        return Answer::Full(WhyFull::OtherHistory);
    };
    let Some((current, from)) = log.histories.last().map(|(id, _)| *id).zip(request.offset()) else {
        return Answer::Full(WhyFull::New);
    };
    match log.histories.get(place + 1) {
        Some((_, parted)) if from > *parted => Answer::Full(WhyFull::Parted(*parted)),
        _ if from > log.end => Answer::Full(WhyFull::Ahead(log.end)),
        _ if from < log.first => Answer::Full(WhyFull::Removed(log.first)),
        _ => Answer::Continue { history: current, from },
    }
}

/// How far a replica is, as it says itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Acknowledged {
    /// It has run the stream up to there.
    pub applied: Offset,
    /// It would lose nothing before that in a crash; nothing if it does not say.
    pub durable: Option<Offset>,
}

/// The longest command that a replica sends.
const COMMAND_LEN_MAX: usize = 64 << 10;

/// Why a replica is given up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamError {
    /// It sends what is no command.
    #[error("it sends what is no command: {0}")]
    NoCommand(String),
    /// It sends a command without end.
    #[error("it sends a command of more than {COMMAND_LEN_MAX} bytes")]
    TooLong,
    /// It has said nothing for too long.
    #[error("it has said nothing for {0} s (repl-timeout)")]
    Silent(i64),
    /// It has taken nothing for too long.
    #[error("it has taken nothing for {0} s (repl-timeout)")]
    Stuck(i64),
}

/// What a replica sends while it is given the log.
#[derive(Debug, Default)]
pub struct Upstream {
    buffer: Vec<u8>,
    parser: RequestParser,
}

impl Upstream {
    /// Takes what has come. Returns the last acknowledgement in it; whatever else it says is not answered.
    ///
    /// # Errors
    ///
    /// It sends what no replica would.
    pub fn handle_bytes(&mut self, bytes: &[u8]) -> Result<Option<Acknowledged>, UpstreamError> {
        self.buffer.extend_from_slice(bytes);
        let limits = Limits { bulk_len_max: COMMAND_LEN_MAX as u64, ..Limits::default() };
        let (mut at, mut last) = (0, None);
        loop {
            let rest = self.buffer.get(at..).unwrap_or_default();
            let failed = |error: resp::ProtocolError| UpstreamError::NoCommand(error.to_string());
            match self.parser.parse(rest, &limits).map_err(failed)? {
                Progress::Incomplete { .. } => break,
                Progress::Empty { consumed } => at += consumed,
                Progress::Complete { consumed } => {
                    let words: Vec<&[u8]> = self.parser.arguments(rest).iter().collect();
                    last = acknowledgement(&words).or(last);
                    at += consumed;
                }
            }
        }
        self.buffer.drain(..at);
        if self.buffer.len() > COMMAND_LEN_MAX { Err(UpstreamError::TooLong) } else { Ok(last) }
    }
}

/// What `REPLCONF ACK <offset> [FACK <offset>]` says.
#[must_use]
pub fn acknowledgement(words: &[&[u8]]) -> Option<Acknowledged> {
    let is = |index: usize, name: &str| words.get(index).is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()));
    let offset = |index: usize| {
        let number = resp::parse_integer(words.get(index)?)?;
        u64::try_from(number).ok().map(Offset)
    };
    if !is(0, "REPLCONF") || !is(1, "ACK") {
        return None;
    }
    let durable = if is(3, "FACK") { offset(4) } else { None };
    Some(Acknowledged { applied: offset(2)?, durable })
}

/// When a replica is given up: it takes nothing of what there is for it, or says nothing.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    timeout_ms: i64,
    /// When it was sent something last, or there was nothing for it.
    moved: i64,
    /// When it was heard of last; nothing while it is loading what it was sent, and need not say anything.
    heard: Option<i64>,
}

impl Patience {
    /// Of a replica that has come now.
    #[must_use]
    pub fn new(timeout_ms: i64, now: i64) -> Self {
        Self { timeout_ms, moved: now, heard: None }
    }

    /// The setting may have changed.
    pub fn set_timeout(&mut self, timeout_ms: i64) {
        self.timeout_ms = timeout_ms;
    }

    /// Some of what there was for it has been sent, or there was nothing.
    pub fn handle_sent(&mut self, now: i64) {
        self.moved = now;
    }

    /// It has said something.
    pub fn handle_heard(&mut self, now: i64) {
        self.heard = Some(now);
    }

    /// It is expected to say something each second from now on.
    pub fn expect_words(&mut self, now: i64) {
        self.heard = Some(now);
    }

    /// Fails if it is to be given up.
    ///
    /// # Errors
    ///
    /// It is.
    pub fn check(&self, now: i64) -> Result<(), UpstreamError> {
        let is_over = |since: i64| now.saturating_sub(since) > self.timeout_ms;
        if is_over(self.moved) {
            Err(UpstreamError::Stuck(self.timeout_ms / 1000))
        } else if self.heard.is_some_and(is_over) {
            Err(UpstreamError::Silent(self.timeout_ms / 1000))
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn id(byte: u8) -> ReplicationId {
        ReplicationId::from_random([byte; 20])
    }

    #[test]
    fn a_replica_goes_on_where_its_history_is_a_part_of_the_log() {
        let log =
            LogView { histories: vec![(id(1), Offset(0)), (id(2), Offset(500))], first: Offset(100), end: Offset(900) };
        let full = |why| Answer::Full(why);
        let on = |from| Answer::Continue { history: id(2), from: Offset(from) };
        for (history, next, expected) in [
            (None, -1, full(WhyFull::New)),
            (Some(3), 500, full(WhyFull::OtherHistory)),
            (Some(2), 901, on(900)),
            (Some(2), 902, full(WhyFull::Ahead(Offset(900)))),
            (Some(2), 101, on(100)),
            (Some(2), 100, full(WhyFull::Removed(Offset(100)))),
            // What came before both have parted they have in common.
            (Some(2), 301, on(300)),
            (Some(1), 301, on(300)),
            (Some(1), 501, on(500)),
            (Some(1), 502, full(WhyFull::Parted(Offset(500)))),
            (Some(1), 0, full(WhyFull::New)),
            (Some(1), i64::MIN, full(WhyFull::New)),
        ] {
            let request = Request { history: history.map(id), next };
            assert_eq!(answer(&request, &log), expected, "{request:?}");
        }
    }

    #[test]
    fn words_of_psync_are_read_as_redis_reads_them() {
        let digits = id(7).to_string();
        assert_eq!(Request::parse(digits.as_bytes(), b"12"), Some(Request { history: Some(id(7)), next: 12 }));
        assert_eq!(Request::parse(b"?", b"-1"), Some(Request { history: None, next: -1 }));
        assert_eq!(Request::parse(b"?", b"x"), None);
    }

    #[test]
    fn acknowledgements_come_in_any_pieces() {
        let stream = b"*3\r\n$8\r\nREPLCONF\r\n$3\r\nACK\r\n$2\r\n12\r\n\n*5\r\n$8\r\nREPLCONF\r\n$3\r\nACK\r\n$2\r\n20\r\n$4\r\nFACK\r\n$2\r\n15\r\n";
        for step in 1..stream.len() {
            let mut upstream = Upstream::default();
            let mut last = None;
            for bytes in stream.chunks(step) {
                last = upstream.handle_bytes(bytes).unwrap().or(last);
            }
            assert_eq!(last, Some(Acknowledged { applied: Offset(20), durable: Some(Offset(15)) }), "{step}");
        }
        let mut upstream = Upstream::default();
        assert!(upstream.handle_bytes(b"*1\r\n+1\r\n").is_err());
        let mut upstream = Upstream::default();
        assert!(upstream.handle_bytes(b"*2\r\n$60000\r\n").is_ok());
        assert!((0..3).any(|_| upstream.handle_bytes(&[b'x'; 60_000]).is_err()), "it is bounded");
    }

    #[test]
    fn a_replica_that_is_silent_or_stuck_is_given_up() {
        let mut patience = Patience::new(60_000, 0);
        assert!(patience.check(60_000).is_ok());
        assert_eq!(patience.check(60_001), Err(UpstreamError::Stuck(60)));
        patience.handle_sent(50_000);
        assert!(patience.check(110_000).is_ok(), "one that loads says nothing");
        patience.expect_words(50_000);
        patience.handle_sent(110_000);
        assert_eq!(patience.check(110_001), Err(UpstreamError::Silent(60)));
        patience.handle_heard(110_000);
        assert!(patience.check(150_000).is_ok());
    }
}
