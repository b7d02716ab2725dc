//! Where a rule stands: which set it belongs to, and what its samples may look at there.

use sample::{Place, Places};

use crate::{line::Line, scope::Scope, table::Group};

/// A set of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ruleset {
    /// `http-request`, also that of `stats`.
    HttpRequest,
    /// `http-response`.
    HttpResponse,
    /// `http-after-response`.
    HttpAfterResponse,
    /// `tcp-request connection`.
    TcpRequestConnection,
    /// `tcp-request session`.
    TcpRequestSession,
    /// `tcp-request content`.
    TcpRequestContent,
    /// `tcp-response content`.
    TcpResponseContent,
    /// `http-check` and `tcp-check`.
    Check,
    /// `global`: while the configuration is read.
    Configuration,
}

impl Ruleset {
    /// The set that the action at `index` of a line belongs to, which the words before it say.
    pub(super) fn of(line: &Line, index: usize) -> Self {
        match (line.word(0), line.word(index.saturating_sub(1))) {
            (_, "http-request") => Self::HttpRequest,
            (_, "http-response") => Self::HttpResponse,
            (_, "http-after-response") => Self::HttpAfterResponse,
            ("tcp-request", "connection") => Self::TcpRequestConnection,
            ("tcp-request", "session") => Self::TcpRequestSession,
            ("tcp-response", _) => Self::TcpResponseContent,
            ("http-check" | "tcp-check", _) => Self::Check,
            ("set-var" | "set-var-fmt", _) => Self::Configuration,
            _ => Self::TcpRequestContent,
        }
    }

    /// The words that begin a line of this set.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::HttpRequest => "http-request",
            Self::HttpResponse => "http-response",
            Self::HttpAfterResponse => "http-after-response",
            Self::TcpRequestConnection => "tcp-request connection",
            Self::TcpRequestSession => "tcp-request session",
            Self::TcpRequestContent => "tcp-request content",
            Self::TcpResponseContent => "tcp-response content",
            Self::Check => "http-check",
            Self::Configuration => "set-var",
        }
    }

    /// The keywords of its actions.
    pub(super) fn group(self) -> Group {
        match self {
            Self::HttpRequest => Group::HttpRequest,
            Self::HttpResponse => Group::HttpResponse,
            Self::HttpAfterResponse => Group::HttpAfterResponse,
            Self::TcpRequestConnection => Group::TcpRequestConnection,
            Self::TcpRequestSession => Group::TcpRequestSession,
            Self::TcpRequestContent => Group::TcpRequestContent,
            Self::TcpResponseContent => Group::TcpResponseContent,
            Self::Check => Group::HttpCheck,
            Self::Configuration => Group::Global,
        }
    }

    /// Whether its rules run on what comes from the client.
    pub(super) fn is_request(self) -> bool {
        !matches!(self, Self::HttpResponse | Self::HttpAfterResponse | Self::TcpResponseContent)
    }

    /// Where its samples are evaluated.
    pub(super) fn places(self, scope: &Scope<'_>) -> Places {
        let by_side = |frontend: Place, backend: Place| {
            let side = |there: bool, place: Place| if there { Places::only(place) } else { Places::NONE };
            side(scope.has_frontend(), frontend).union(side(scope.has_backend(), backend))
        };
        match self {
            Self::HttpRequest => scope.request_places(),
            Self::HttpResponse | Self::HttpAfterResponse => scope.response_places(),
            Self::TcpRequestConnection => Places::only(Place::FrontendConnection),
            Self::TcpRequestSession => Places::only(Place::FrontendSession),
            Self::TcpRequestContent => by_side(Place::FrontendRequestContent, Place::BackendRequestContent),
            Self::TcpResponseContent => by_side(Place::FrontendResponseContent, Place::BackendResponseContent),
            Self::Check => Places::only(Place::Check),
            Self::Configuration => Places::only(Place::ConfigurationParser),
        }
    }
}
