//! Where a sample may be used.
//!
//! A fetch needs one or more *sources* (the request's headers, the server's connection); each source is there at some
//! *places* of the configuration (a use_backend rule, a log). The table below relates the two; a condition or a log format
//! is checked against the place where it stands.

/// A place of the configuration where samples are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Place {
    /// `tcp-request connection` of a frontend.
    FrontendConnection,
    /// `tcp-request session` of a frontend.
    FrontendSession,
    /// `tcp-request content` of a frontend.
    FrontendRequestContent,
    /// `http-request` of a frontend, and everything else that looks at a request's headers there.
    FrontendRequestHeaders,
    /// The request's body in a frontend.
    FrontendRequestBody,
    /// `use_backend`.
    UseBackend,
    /// `tcp-request content` of a backend.
    BackendRequestContent,
    /// `http-request` of a backend.
    BackendRequestHeaders,
    /// The request's body in a backend.
    BackendRequestBody,
    /// `use-server`, `balance`, stick matching.
    UseServer,
    /// `source` of a server.
    ServerConnect,
    /// `tcp-response content` of a backend.
    BackendResponseContent,
    /// `http-response` of a backend.
    BackendResponseHeaders,
    /// The response's body in a backend.
    BackendResponseBody,
    /// `stick store-response`.
    StickStore,
    /// `tcp-response content` of a frontend.
    FrontendResponseContent,
    /// `http-response` and `http-after-response` of a frontend.
    FrontendResponseHeaders,
    /// The response's body in a frontend.
    FrontendResponseBody,
    /// Logs.
    Log,
    /// `tcp-check` and `http-check`.
    Check,
    /// The configuration itself while it is read.
    ConfigurationParser,
    /// The command line on the statistics socket.
    CommandLine,
}

/// Every place, in order.
pub const PLACES: [Place; 22] = [
    Place::FrontendConnection,
    Place::FrontendSession,
    Place::FrontendRequestContent,
    Place::FrontendRequestHeaders,
    Place::FrontendRequestBody,
    Place::UseBackend,
    Place::BackendRequestContent,
    Place::BackendRequestHeaders,
    Place::BackendRequestBody,
    Place::UseServer,
    Place::ServerConnect,
    Place::BackendResponseContent,
    Place::BackendResponseHeaders,
    Place::BackendResponseBody,
    Place::StickStore,
    Place::FrontendResponseContent,
    Place::FrontendResponseHeaders,
    Place::FrontendResponseBody,
    Place::Log,
    Place::Check,
    Place::ConfigurationParser,
    Place::CommandLine,
];

impl Place {
    /// The name in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Place::FrontendConnection => "frontend tcp-request connection rule",
            Place::FrontendSession => "frontend tcp-request session rule",
            Place::FrontendRequestContent => "frontend tcp-request content rule",
            Place::FrontendRequestHeaders => "frontend http-request header rule",
            Place::FrontendRequestBody => "frontend http-request body rule",
            Place::UseBackend => "frontend use-backend rule",
            Place::BackendRequestContent => "backend tcp-request content rule",
            Place::BackendRequestHeaders => "backend http-request header rule",
            Place::BackendRequestBody => "backend http-request body rule",
            Place::UseServer => "backend use-server, balance or stick-match rule",
            Place::ServerConnect => "server source selection",
            Place::BackendResponseContent => "backend tcp-response content rule",
            Place::BackendResponseHeaders => "backend http-response header rule",
            Place::BackendResponseBody => "backend http-response body rule",
            Place::StickStore => "backend stick-store rule",
            Place::FrontendResponseContent => "frontend tcp-response content rule",
            Place::FrontendResponseHeaders => "frontend http-response header rule",
            Place::FrontendResponseBody => "frontend http-response body rule",
            Place::Log => "logs",
            Place::Check => "backend tcp-check rule",
            Place::ConfigurationParser => "configuration parser",
            Place::CommandLine => "CLI parser",
        }
    }
}

/// A set of places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places(u32);

impl Places {
    /// No place.
    pub const NONE: Places = Places(0);
    /// Every place.
    pub const ALL: Places = Places((1 << PLACES.len()) - 1);
    /// Those where the request is looked at.
    pub const REQUEST: Places = Places(0x3ff | 1 << Place::Check as u8);
    /// Those where the response is looked at.
    pub const RESPONSE: Places = Places(0x7_fc00 | 1 << Place::Check as u8);

    /// The set of one place.
    #[must_use]
    pub const fn only(place: Place) -> Places {
        Places(1 << place as u8)
    }

    /// The set of these places.
    #[must_use]
    pub const fn of(places: &[Place]) -> Places {
        let mut bits = 0;
        let mut rest = places;
        while let [first, tail @ ..] = rest {
            bits |= 1 << *first as u8;
            rest = tail;
        }
        Places(bits)
    }

    /// Whether `place` is in the set.
    #[must_use]
    pub const fn contains(self, place: Place) -> bool {
        self.0 & (1 << place as u8) != 0
    }

    /// Whether the sets share a place.
    #[must_use]
    pub const fn intersects(self, other: Places) -> bool {
        self.0 & other.0 != 0
    }

    /// The places of either set.
    #[must_use]
    pub const fn union(self, other: Places) -> Places {
        Places(self.0 | other.0)
    }

    /// The places of both sets.
    #[must_use]
    pub const fn intersection(self, other: Places) -> Places {
        Places(self.0 & other.0)
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The places in order.
    pub fn iter(self) -> impl Iterator<Item = Place> {
        PLACES.into_iter().filter(move |place| self.contains(*place))
    }
}

/// What a fetch reads from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Source {
    /// Constants.
    Constant,
    /// State of the process.
    Internal,
    /// The listener.
    Listener,
    /// The frontend.
    Frontend,
    /// Addresses of the client's connection.
    Client,
    /// The client's connection above the transport.
    ClientSession,
    /// Tracked counters.
    Track,
    /// Raw bytes of the request.
    RequestBuffer,
    /// Headers of the request, which are gone once it is sent.
    RequestHeaders,
    /// What is kept of the request.
    Request,
    /// The request's body.
    RequestBody,
    /// The backend.
    Backend,
    /// The server.
    Server,
    /// Addresses of the server's connection.
    ServerAddress,
    /// The server's connection above the transport.
    ServerSession,
    /// Raw bytes of the response.
    ResponseBuffer,
    /// Headers of the response, which are gone once it is sent.
    ResponseHeaders,
    /// What is kept of the response.
    Response,
    /// The response's body.
    ResponseBody,
}

const SOURCES: [Source; 19] = [
    Source::Constant,
    Source::Internal,
    Source::Listener,
    Source::Frontend,
    Source::Client,
    Source::ClientSession,
    Source::Track,
    Source::RequestBuffer,
    Source::RequestHeaders,
    Source::Request,
    Source::RequestBody,
    Source::Backend,
    Source::Server,
    Source::ServerAddress,
    Source::ServerSession,
    Source::ResponseBuffer,
    Source::ResponseHeaders,
    Source::Response,
    Source::ResponseBody,
];

impl Source {
    /// The name in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Source::Constant => "constant",
            Source::Internal => "internal state",
            Source::Listener => "listener",
            Source::Frontend => "frontend",
            Source::Client => "client address",
            Source::ClientSession => "client-side connection",
            Source::Track => "track counters",
            Source::RequestBuffer => "request buffer",
            Source::RequestHeaders => "HTTP request headers",
            Source::Request => "HTTP request",
            Source::RequestBody => "HTTP request body",
            Source::Backend => "backend",
            Source::Server => "server",
            Source::ServerAddress => "server address",
            Source::ServerSession => "server-side connection",
            Source::ResponseBuffer => "response buffer",
            Source::ResponseHeaders => "HTTP response headers",
            Source::Response => "HTTP response",
            Source::ResponseBody => "HTTP response body",
        }
    }

    /// Where this source is there.
    #[must_use]
    pub const fn places(self) -> Places {
        // From one place on, up to another, both included: processing runs through the places in their order.
        const fn span(from: Place, to: Place) -> u32 {
            ((1 << (to as u8 + 1)) - 1) & !((1 << from as u8) - 1)
        }
        const CHECK: u32 = 1 << Place::Check as u8;
        const CONFIGURATION: u32 = 1 << Place::ConfigurationParser as u8;
        const COMMAND_LINE: u32 = 1 << Place::CommandLine as u8;
        Places(match self {
            Source::Constant => span(Place::FrontendConnection, Place::Log) | CHECK | CONFIGURATION | COMMAND_LINE,
            Source::Internal => span(Place::FrontendConnection, Place::Log) | CHECK | COMMAND_LINE,
            Source::Listener | Source::Frontend | Source::Track => span(Place::FrontendConnection, Place::Log),
            Source::Client => span(Place::FrontendConnection, Place::Log) | CHECK,
            Source::ClientSession => span(Place::FrontendSession, Place::Log),
            Source::RequestBuffer | Source::RequestHeaders => span(Place::FrontendRequestContent, Place::ServerConnect),
            Source::Request => span(Place::FrontendRequestContent, Place::Log),
            Source::RequestBody => span(Place::FrontendRequestBody, Place::ServerConnect),
            Source::Backend => span(Place::BackendRequestContent, Place::Log) | CHECK,
            Source::Server => span(Place::ServerConnect, Place::Log) | CHECK,
            Source::ServerAddress | Source::ServerSession | Source::Response => {
                span(Place::BackendResponseContent, Place::Log) | CHECK
            }
            Source::ResponseBuffer | Source::ResponseHeaders => {
                span(Place::BackendResponseContent, Place::FrontendResponseBody) | CHECK
            }
            Source::ResponseBody => span(Place::BackendResponseBody, Place::FrontendResponseBody) | CHECK,
        })
    }
}

/// A set of sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sources(u32);

impl Sources {
    /// No source.
    pub const NONE: Sources = Sources(0);
    /// Everything that only an HTTP message has.
    pub const HTTP: Sources = Sources::of(&[
        Source::RequestHeaders,
        Source::Request,
        Source::RequestBody,
        Source::ResponseHeaders,
        Source::Response,
        Source::ResponseBody,
    ]);
    /// Raw bytes of either direction, which an HTTP proxy does not look at.
    pub const BUFFERS: Sources = Sources::of(&[Source::RequestBuffer, Source::ResponseBuffer]);

    /// The set of these sources.
    #[must_use]
    pub const fn of(sources: &[Source]) -> Sources {
        let mut bits = 0;
        let mut rest = sources;
        while let [first, tail @ ..] = rest {
            bits |= 1 << *first as u8;
            rest = tail;
        }
        Sources(bits)
    }

    /// Whether `source` is in the set.
    #[must_use]
    pub const fn contains(self, source: Source) -> bool {
        self.0 & (1 << source as u8) != 0
    }

    /// Whether the sets share a source.
    #[must_use]
    pub const fn intersects(self, other: Sources) -> bool {
        self.0 & other.0 != 0
    }

    /// The sources of either set.
    #[must_use]
    pub const fn union(self, other: Sources) -> Sources {
        Sources(self.0 | other.0)
    }

    /// The sources in order.
    pub fn iter(self) -> impl Iterator<Item = Source> {
        SOURCES.into_iter().filter(move |source| self.contains(*source))
    }

    /// Where at least one of the sources is there.
    #[must_use]
    pub fn places(self) -> Places {
        self.iter().fold(Places::NONE, |places, source| places.union(source.places()))
    }

    /// The names, separated by commas.
    #[must_use]
    pub fn names(self) -> String {
        self.iter().map(Source::name).collect::<Vec<_>>().join(",")
    }
}
