//! Words that are the values of settings and that people ask about as often as about the settings: one table for `explain`.
//! The tests give each example to the parser.

/// A word that stands behind a keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    /// The word.
    pub name: &'static str,
    /// The keyword that it is a value of.
    pub of: &'static str,
    /// What it means.
    pub doc: &'static str,
    /// A line with it.
    pub example: &'static str,
}

const fn value(of: &'static str, name: &'static str, example: &'static str, doc: &'static str) -> Value {
    Value { name, of, doc, example }
}

/// All of them.
pub const VALUES: &[Value] = &[
    value(
        "balance",
        "roundrobin",
        "balance roundrobin",
        "Servers take turns, each as often as its weight says; weights may change at run time.",
    ),
    value("balance", "static-rr", "balance static-rr", "As roundrobin, with weights that stay as they are."),
    value(
        "balance",
        "leastconn",
        "balance leastconn",
        "The server with the fewest connections for its weight: for long ones, as of databases or WebSockets.",
    ),
    value(
        "balance",
        "first",
        "balance first",
        "The first server that has room below its maxconn, so that the others may be idle or off.",
    ),
    value(
        "balance",
        "source",
        "balance source",
        "By a hash of the client's address: a client keeps its server as long as the servers stay.",
    ),
    value(
        "balance",
        "uri",
        "balance uri",
        "By a hash of the path, so that each server's cache holds its part of a site.",
    ),
    value("balance", "url_param", "balance url_param user", "By a hash of a parameter of the query."),
    value("balance", "hdr(name)", "balance hdr(Host)", "By a hash of a header of the request."),
    value("balance", "random", "balance random(2)", "The better one of two servers (or N) that are drawn by lot."),
    value("balance", "hash", "balance hash src,ipmask(24)", "By a hash of a sample."),
    value(
        "balance",
        "rdp-cookie",
        "balance rdp-cookie(mstshash)",
        "By a hash of the cookie of a remote desktop's client.",
    ),
    value(
        "hash-type",
        "consistent",
        "hash-type consistent",
        "A server that comes or goes takes its own share along, and the others keep theirs.",
    ),
    value(
        "hash-type",
        "map-based",
        "hash-type map-based",
        "Evenly, but a server that comes or goes moves nearly everybody.",
    ),
    value("http-reuse", "never", "http-reuse never", "Each client has connections to servers of its own."),
    value(
        "http-reuse",
        "safe",
        "http-reuse safe",
        "A client's first request has a connection of its own, later ones may use any that is idle.",
    ),
    value(
        "http-reuse",
        "aggressive",
        "http-reuse aggressive",
        "As safe, and first requests may use a connection that has been used again before.",
    ),
    value("http-reuse", "always", "http-reuse always", "Every request may use any idle connection."),
    value("retry-on", "conn-failure", "retry-on conn-failure", "The server took no connection."),
    value(
        "retry-on",
        "empty-response",
        "retry-on empty-response",
        "The server closed the connection without an answer.",
    ),
    value("retry-on", "junk-response", "retry-on junk-response", "What the server sent is no answer."),
    value(
        "retry-on",
        "response-timeout",
        "retry-on response-timeout",
        "The server did not answer within `timeout server`.",
    ),
    value(
        "retry-on",
        "all-retryable-errors",
        "retry-on all-retryable-errors",
        "All failures after which a request may be sent again, answers 500, 502, 503 and 504 included.",
    ),
];
