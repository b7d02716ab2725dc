//! `option X`, but for those of logs and checks.

use super::{Group, Keyword, Sections};
use crate::keywords::option;

const FRONTEND: Sections = Sections::DEFAULTS_FRONTEND;
const BACKEND: Sections = Sections::DEFAULTS_BACKEND;
const ALL: Sections = Sections::ALL;

const fn word(name: &'static str, arguments: &'static str, sections: Sections) -> Keyword {
    Keyword::new(Group::Option, name, arguments, "4.2").sections(sections)
}

const fn switch(name: &'static str, sections: Sections) -> Keyword {
    word(name, "", sections).negatable().line(option::switch)
}

/// The table.
pub const KEYWORDS: &[Keyword] = &[
    switch("abortonclose", BACKEND)
        .doc("Drops a request that waits for a server when its client closes.", "option abortonclose"),
    switch("accept-invalid-http-request", FRONTEND).doc(
        "Accepts some malformed requests. The edge still refuses requests that could be used for \
             smuggling.",
        "option accept-invalid-http-request",
    ),
    switch("accept-invalid-http-response", BACKEND).doc(
        "Accepts some malformed responses. The edge still refuses responses that could be used for \
             smuggling.",
        "option accept-invalid-http-response",
    ),
    switch("allbackups", BACKEND)
        .doc("Shares the load among all backup servers, instead of using only the first.", "option allbackups"),
    switch("checkcache", BACKEND).doc("Blocks responses that set a cookie and could be cached.", "option checkcache"),
    switch("clitcpka", FRONTEND).doc("Turns on TCP keep-alive toward clients.", "option clitcpka"),
    switch("contstats", FRONTEND)
        .doc("Counts bytes while they pass, instead of at the end.", "option contstats")
        .without_effect("what passes is counted when its transfer ends"),
    switch("disable-h2-upgrade", FRONTEND)
        .doc("A connection that begins with HTTP/2's preface stays HTTP/1.", "option disable-h2-upgrade"),
    word("forwardfor", "[ except <network> ] [ header <name> ] [ if-none ]", ALL)
        .doc("Adds the client's address to requests in X-Forwarded-For.", "option forwardfor except 127.0.0.0/8")
        .line(option::forwarded),
    switch("h1-case-adjust-bogus-client", FRONTEND).doc(
        "Writes header names of responses in the case that h1-case-adjust gives.",
        "option h1-case-adjust-bogus-client",
    ),
    switch("h1-case-adjust-bogus-server", BACKEND).doc(
        "Writes header names of requests in the case that h1-case-adjust gives.",
        "option h1-case-adjust-bogus-server",
    ),
    switch("http-buffer-request", ALL)
        .doc("Waits for the request's body, up to a buffer, before going on.", "option http-buffer-request"),
    switch("http-ignore-probes", FRONTEND)
        .doc("Neither logs nor answers connections without a request.", "option http-ignore-probes"),
    word("http-keep-alive", "", ALL)
        .doc("Keeps connections of both sides open; the default.", "option http-keep-alive")
        .negatable()
        .line(option::connection_mode),
    switch("http-no-delay", ALL)
        .doc("Sends each piece of a body at once; Tidegate always does.", "option http-no-delay"),
    switch("http-pretend-keepalive", BACKEND).doc(
        "With 'httpclose', does not tell servers that the connection will be closed.",
        "option http-pretend-keepalive",
    ),
    word("http-restrict-req-hdr-names", "{ preserve | delete | reject }", ALL)
        .doc(
            "Says what to do with request headers whose names have other characters than letters, digits \
             and '-'.",
            "option http-restrict-req-hdr-names delete",
        )
        .line(option::restrict_names),
    word("http-server-close", "", ALL)
        .doc("Keeps connections of clients open and closes those of servers.", "option http-server-close")
        .negatable()
        .line(option::connection_mode),
    word("http-tunnel", "", ALL).doc("Removed from HAProxy.", "").removed(
        "option 'http-tunnel' is not supported any more since HAProxy 2.1, please just remove it, it \
             shouldn't be needed.",
    ),
    switch("http-use-proxy-header", FRONTEND).doc(
        "Proxy-Connection stands for Connection in requests with an absolute URI.",
        "option http-use-proxy-header",
    ),
    word("http_proxy", "", ALL).doc("Removed from HAProxy.", "").removed(
        "option 'http_proxy' is not supported any more since HAProxy 2.5. This option stopped working \
             in HAProxy 1.9 and usually had nasty side effects. It can be more reliably implemented with \
             combinations of 'http-request set-dst' and 'http-request set-uri', and even 'http-request \
             do-resolve' if DNS resolution is desired.",
    ),
    word("forceclose", "", ALL).doc("Removed from HAProxy.", "").removed(
        "option 'forceclose' is not supported any more since HAProxy 2.0, please just remove it, or \
             use 'option httpclose' if absolutely needed.",
    ),
    word("httpclose", "", ALL)
        .doc(
            "Closes connections after each response: in a frontend those of both sides, in a backend the server's.",
            "option httpclose",
        )
        .negatable()
        .line(option::connection_mode),
    switch("idle-close-on-response", FRONTEND)
        .doc("At a soft stop, closes idle connections only with their next response.", "option idle-close-on-response"),
    switch("independent-streams", ALL)
        .doc("Lets data in one direction not renew the timeout of the other.", "option independent-streams"),
    switch("nolinger", ALL).doc("Closes connections with a reset, without waiting for data.", "option nolinger"),
    word("originalto", "[ except <network> ] [ header <name> ]", ALL)
        .doc("Adds the address that the client connected to, in X-Original-To.", "option originalto")
        .line(option::forwarded),
    switch("persist", BACKEND).doc("Uses the server of a cookie even while it is down.", "option persist"),
    switch("prefer-last-server", BACKEND)
        .doc("Sends a client's next request to the same server if that is usable.", "option prefer-last-server"),
    word("redispatch", "[<interval>]", BACKEND)
        .doc(
            "Tries another server after a failed connection: at the last attempt, or at every n-th.",
            "option redispatch",
        )
        .negatable()
        .line(option::redispatch),
    switch("socket-stats", FRONTEND).doc("Counts statistics for each listening socket.", "option socket-stats"),
    switch("splice-auto", ALL)
        .doc("Splices where it is likely to help.", "option splice-auto")
        .without_effect("large bodies are always spliced; tune.splice.min says from when on"),
    switch("splice-request", ALL)
        .doc("Splices requests.", "option splice-request")
        .without_effect("large bodies are always spliced; tune.splice.min says from when on"),
    switch("splice-response", ALL)
        .doc("Splices responses.", "option splice-response")
        .without_effect("large bodies are always spliced; tune.splice.min says from when on"),
    switch("srvtcpka", BACKEND).doc("Turns on TCP keep-alive toward servers.", "option srvtcpka"),
    word("tcp-smart-accept", "", FRONTEND)
        .doc("Sends no empty acknowledgement of a request; the default in HTTP mode.", "option tcp-smart-accept")
        .negatable()
        .line(option::switch)
        .without_effect("the system delays acknowledgements as it sees fit"),
    switch("tcp-smart-connect", BACKEND)
        .doc("Sends the first data with the acknowledgement of a server's connection.", "option tcp-smart-connect")
        .without_effect("the system delays acknowledgements as it sees fit"),
    word("tcpka", "", ALL).doc("Turns on TCP keep-alive on both sides.", "option tcpka").line(option::tcpka),
    switch("transparent", BACKEND).doc("Connects to the address that the client connected to.", "option transparent"),
];
