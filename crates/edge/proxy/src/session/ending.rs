//! How a transaction ended, for TCP and HTTP alike.
//!
//! An [`Ending`] says what happened. Whose fault that is, whether the request may be sent again and which two letters
//! HAProxy's logs have for it follow from it.

use balance::Failure;
use live::{ShutCause, counters::Traffic};
use telemetry::Counter;

use super::{fetch::Unreachable, transaction::Transaction};
use crate::tunnel::TunnelEnd;

/// How far a transaction had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The request was received, or its rules ran.
    Request,
    /// It waited for a server that has room.
    Queue,
    /// It was connected to its server.
    Connect,
    /// The head of the response was awaited, or its rules ran.
    Headers,
    /// Bodies were under way.
    Data,
}

impl Stage {
    fn letter(self) -> u8 {
        match self {
            Self::Request => b'R',
            Self::Queue => b'Q',
            Self::Connect => b'C',
            Self::Headers => b'H',
            Self::Data => b'D',
        }
    }
}

/// Whose doing an ending is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// Nobody's: it went as it should.
    Nobody,
    /// The client's.
    Client,
    /// The server's.
    Server,
    /// Ours: rules, limits and what we found malformed.
    Proxy,
    /// The administrator's, or that of a health check.
    Order,
}

/// Why a transaction ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// It came to its end.
    #[default]
    Completed,
    /// It was answered here, as rules or a service wanted it.
    AnsweredHere(Stage),
    /// The client closed, or its connection failed.
    ClientLeft(Stage),
    /// The client was too slow.
    ClientTimedOut(Stage),
    /// What the client sent makes no sense.
    RequestMalformed(Stage),
    /// A rule or a limit refused it.
    Refused(Stage),
    /// A rule refused it after a while.
    Tarpitted,
    /// A rule could not do what it was to do.
    RuleFailed(Stage),
    /// No server may be asked.
    NoServer,
    /// The queues were full.
    QueueFull,
    /// It waited too long in a queue.
    QueueTimedOut,
    /// The request has not the source address that it is to come from.
    NoSource,
    /// The server could not be connected.
    NotConnected,
    /// To connect the server took too long.
    ConnectTimedOut,
    /// The server closed before it sent anything.
    NoResponse,
    /// The server closed, or its connection failed.
    ServerFailed(Stage),
    /// The server was too slow.
    ServerTimedOut(Stage),
    /// What the server sent makes no sense.
    ResponseMalformed,
    /// It was told to end; without a stage where the log tells none.
    Shut(ShutCause, Option<Stage>),
}

impl Ending {
    /// Whose doing it is.
    #[must_use]
    pub fn blame(self) -> Blame {
        match self {
            Self::Completed | Self::AnsweredHere(_) => Blame::Nobody,
            Self::ClientLeft(_) | Self::ClientTimedOut(_) | Self::RequestMalformed(_) => Blame::Client,
            Self::Refused(_) | Self::Tarpitted | Self::RuleFailed(_) | Self::NoSource => Blame::Proxy,
            Self::NoServer
            | Self::QueueFull
            | Self::QueueTimedOut
            | Self::NotConnected
            | Self::ConnectTimedOut
            | Self::NoResponse
            | Self::ServerFailed(_)
            | Self::ServerTimedOut(_)
            | Self::ResponseMalformed => Blame::Server,
            Self::Shut(..) => Blame::Order,
        }
    }

    /// What it is to the retry policy; `None` where no other attempt is made, whatever the configuration says.
    #[must_use]
    pub fn failure(self) -> Option<Failure> {
        Some(match self {
            Self::NotConnected => Failure::ConnectionError,
            Self::ConnectTimedOut => Failure::ConnectionTimeout,
            Self::NoResponse => Failure::EmptyResponse,
            Self::ServerFailed(Stage::Headers) => Failure::BrokenResponse,
            Self::ServerTimedOut(Stage::Headers) => Failure::ResponseTimeout,
            Self::ResponseMalformed => Failure::JunkResponse,
            _ => return None,
        })
    }

    /// The first two letters of HAProxy's termination state: the cause, and the stage.
    #[must_use]
    #[inline]
    pub fn letters(self) -> [u8; 2] {
        match self {
            Self::Completed => *b"--",
            Self::AnsweredHere(stage) => [b'L', stage.letter()],
            Self::ClientLeft(stage) => [b'C', stage.letter()],
            Self::ClientTimedOut(stage) => [b'c', stage.letter()],
            Self::RequestMalformed(stage) | Self::Refused(stage) | Self::RuleFailed(stage) => [b'P', stage.letter()],
            Self::Tarpitted => *b"PT",
            Self::NoServer | Self::NotConnected => *b"SC",
            Self::QueueFull | Self::QueueTimedOut => *b"sQ",
            Self::NoSource => *b"IC",
            Self::ConnectTimedOut => *b"sC",
            Self::NoResponse => *b"SH",
            Self::ServerFailed(stage) => [b'S', stage.letter()],
            Self::ServerTimedOut(stage) => [b's', stage.letter()],
            Self::ResponseMalformed => *b"PH",
            Self::Shut(cause, stage) => {
                let cause = match cause {
                    ShutCause::Administrator => b'K',
                    ShutCause::ServerDown => b'D',
                    ShutCause::ServerUp => b'U',
                };
                [cause, stage.map_or(b'-', Stage::letter)]
            }
        }
    }
}

impl Unreachable {
    /// How what could not reach a server ends; `has_server` where one had been chosen.
    #[must_use]
    pub fn ending(&self, has_server: bool) -> Ending {
        match self {
            Self::NoServer => Ending::NoServer,
            Self::Refused(_) | Self::Handshake(_) => Ending::NotConnected,
            Self::QueueFull => Ending::QueueFull,
            Self::QueueTimeout => Ending::QueueTimedOut,
            Self::ConnectTimeout => Ending::ConnectTimedOut,
            // Who waits in a queue has no server yet.
            Self::ClientGone => Ending::ClientLeft(if has_server { Stage::Connect } else { Stage::Queue }),
            // HAProxy ends that as it ends a transfer.
            Self::ClientFailed => Ending::ClientLeft(Stage::Data),
            Self::Killed => Ending::Shut(ShutCause::Administrator, Some(Stage::Connect)),
            Self::NoSource => Ending::NoSource,
            Self::Elsewhere => Ending::AnsweredHere(Stage::Connect),
        }
    }
}

impl Transaction {
    /// Ends like this unless something ended it before.
    #[inline]
    pub fn end(&mut self, ending: Ending) {
        if self.ending == Ending::Completed {
            self.ending = ending;
        }
    }

    /// Ends because there is no connection to a server.
    pub fn end_unreachable(&mut self, why: &Unreachable) {
        let ending = why.ending(self.route.server.is_some());
        if matches!(why, Unreachable::ClientFailed) {
            return self.end_broken(ending);
        }
        self.end(ending);
    }

    /// Ends with its tunnel, and counts who broke it.
    pub fn end_tunnel(&mut self, end: &TunnelEnd) {
        match end {
            TunnelEnd::Closed { .. } => {}
            TunnelEnd::ClientError(_) => self.end_broken(Ending::ClientLeft(Stage::Data)),
            TunnelEnd::ServerError(_) => {
                self.count_upstream(|traffic| &traffic.response_errors);
                self.end_broken(Ending::ServerFailed(Stage::Data));
            }
            TunnelEnd::ClientTimeout => self.end_broken(Ending::ClientTimedOut(Stage::Data)),
            TunnelEnd::ServerTimeout => self.end_broken(Ending::ServerTimedOut(Stage::Data)),
            TunnelEnd::Killed(cause) => self.end(Ending::Shut(*cause, None)),
        }
    }

    /// Ends while bytes were going both ways, and counts who broke it.
    fn end_broken(&mut self, ending: Ending) {
        self.end(ending);
        let broken_by: fn(&Traffic) -> &Counter = match ending.blame() {
            Blame::Client => |traffic| &traffic.client_aborts,
            _ => |traffic| &traffic.server_aborts,
        };
        broken_by(self.client.frontend.frontend.traffic.of(self.worker)).increment();
        self.count_upstream(broken_by);
    }

    /// Counts for the backend and the server.
    pub(super) fn count_upstream(&self, counter: fn(&Traffic) -> &Counter) {
        if let Some(backend) = &self.route.backend {
            counter(backend.backend.traffic.of(self.worker)).increment();
        }
        if let Some(server) = &self.route.server {
            counter(server.side.traffic.of(self.worker)).increment();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_are_told_in_haproxys_letters() {
        use Stage::{Connect, Data, Headers, Queue, Request};
        let refused = || Unreachable::Refused(std::io::ErrorKind::ConnectionRefused.into());
        let kill = ShutCause::Administrator;
        // The ending, its letters, whose doing it is, whether there may be another attempt.
        let data: &[(Ending, &[u8; 2], Blame, bool)] = &[
            (Ending::Completed, b"--", Blame::Nobody, false),
            (Ending::AnsweredHere(Request), b"LR", Blame::Nobody, false),
            (Ending::AnsweredHere(Headers), b"LH", Blame::Nobody, false),
            (Ending::ClientLeft(Request), b"CR", Blame::Client, false),
            (Ending::ClientLeft(Headers), b"CH", Blame::Client, false),
            (Ending::ClientTimedOut(Data), b"cD", Blame::Client, false),
            (Ending::RequestMalformed(Request), b"PR", Blame::Client, false),
            (Ending::Refused(Request), b"PR", Blame::Proxy, false),
            (Ending::Refused(Data), b"PD", Blame::Proxy, false),
            (Ending::Tarpitted, b"PT", Blame::Proxy, false),
            (Ending::RuleFailed(Headers), b"PH", Blame::Proxy, false),
            (Unreachable::NoServer.ending(false), b"SC", Blame::Server, false),
            (Unreachable::QueueFull.ending(false), b"sQ", Blame::Server, false),
            (Unreachable::QueueTimeout.ending(false), b"sQ", Blame::Server, false),
            (Unreachable::ClientGone.ending(false), b"CQ", Blame::Client, false),
            (Unreachable::ClientGone.ending(true), b"CC", Blame::Client, false),
            (Unreachable::ClientFailed.ending(true), b"CD", Blame::Client, false),
            (Unreachable::Killed.ending(true), b"KC", Blame::Order, false),
            (Unreachable::NoSource.ending(true), b"IC", Blame::Proxy, false),
            (Unreachable::Elsewhere.ending(true), b"LC", Blame::Nobody, false),
            (refused().ending(true), b"SC", Blame::Server, true),
            (Unreachable::ConnectTimeout.ending(true), b"sC", Blame::Server, true),
            (Ending::NoResponse, b"SH", Blame::Server, true),
            (Ending::ServerFailed(Headers), b"SH", Blame::Server, true),
            (Ending::ServerFailed(Data), b"SD", Blame::Server, false),
            (Ending::ServerTimedOut(Headers), b"sH", Blame::Server, true),
            (Ending::ServerTimedOut(Data), b"sD", Blame::Server, false),
            (Ending::ResponseMalformed, b"PH", Blame::Server, true),
            (Ending::Shut(kill, Some(Connect)), b"KC", Blame::Order, false),
            (Ending::Shut(ShutCause::ServerDown, Some(Headers)), b"DH", Blame::Order, false),
            (Ending::Shut(ShutCause::ServerUp, None), b"U-", Blame::Order, false),
            (Ending::ClientLeft(Queue), b"CQ", Blame::Client, false),
        ];
        for (ending, letters, blame, may_try_again) in data {
            assert_eq!(ending.letters(), **letters, "{ending:?}");
            assert_eq!(ending.blame(), *blame, "{ending:?}");
            assert_eq!(ending.failure().is_some(), *may_try_again, "{ending:?}");
        }
    }
}
