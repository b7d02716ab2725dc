//! Keywords of `tcp-request` and `tcp-response` and their actions.

use super::tcp as parse;
use crate::table::{Group, Keyword, Sections};

const CHAPTER: &str = "4.2";

/// Lines that hold rules.
pub(super) const LINES: &[Keyword] = &[
    Keyword::new(
        Group::Proxy,
        "tcp-request",
        "{ connection | session | content } <action> [ { if | unless } <condition> ] | inspect-delay <timeout>",
        CHAPTER,
    )
    .sections(Sections::FRONTEND_BACKEND.with(Sections::NAMED_DEFAULTS))
    .doc(
        "A rule on connections or on what clients send first.",
        "tcp-request connection reject if { src 192.0.2.0/24 }",
    )
    .line(parse::request),
    Keyword::new(
        Group::Proxy,
        "tcp-response",
        "content <action> [ { if | unless } <condition> ] | inspect-delay <timeout>",
        CHAPTER,
    )
    .sections(Sections::BACKEND.with(Sections::NAMED_DEFAULTS))
    .strict()
    .doc("A rule on what servers send first.", "tcp-response content reject if { res.payload(0,4) -m bin 00000000 }")
    .line(parse::response),
];

macro_rules! action {
    ($group:ident, $line:literal, $name:literal, $arguments:literal, $doc:literal, $example:literal) => {
        Keyword::new(Group::$group, $name, $arguments, CHAPTER).doc($doc, concat!($line, " ", $example))
    };
}

/// Actions of all four sets.
macro_rules! everywhere {
    ($group:ident, $line:literal) => {
        &[
            action!($group, $line, "accept", "", "Ends the rules of this set.", "accept if { src 10.0.0.0/8 }")
                .tcp(parse::accept),
            action!($group, $line, "reject", "", "Closes the connection.", "reject if { src 192.0.2.0/24 }")
                .tcp(parse::reject),
            action!($group, $line, "set-mark", "<mark>", "The mark of packets to the client.", "set-mark 0x10")
                .tcp(parse::set_mark),
            action!($group, $line, "set-tos", "<tos>", "The TOS field of packets to the client.", "set-tos 0x2e")
                .tcp(parse::set_tos),
            action!(
                $group,
                $line,
                "set-var(*",
                "<name>[,<cond>...]) <expr>",
                "Sets a variable from an expression.",
                "set-var(sess.from) src"
            )
            .tcp(parse::set_var),
            action!(
                $group,
                $line,
                "set-var-fmt(*",
                "<name>[,<cond>...]) <fmt>",
                "Sets a variable from a log-format string.",
                "set-var-fmt(sess.from) %[src]:%[src_port]"
            )
            .tcp(parse::set_var),
            action!(
                $group,
                $line,
                "silent-drop",
                "",
                "Forgets the connection without telling the client.",
                "silent-drop"
            )
            .tcp(parse::silent_drop),
            action!($group, $line, "unset-var(*", "<name>)", "Forgets a variable.", "unset-var(sess.from)")
                .tcp(parse::unset_var),
            action!($group, $line, "lua.*", "<arguments>", "Runs a function in Lua.", "lua.check")
                .not_yet("it comes with Lua"),
            action!($group, $line, "sc-inc-gpc*", "(<idx>,<sc-id>)", "Increments a counter.", "sc-inc-gpc0(0)")
                .tcp(parse::increment_counter),
            action!(
                $group,
                $line,
                "sc-set-gpt*",
                "(<idx>,<sc-id>) { <int> | <expr> }",
                "Sets a tag.",
                "sc-set-gpt0(0) 1"
            )
            .tcp(parse::set_tag),
        ]
    };
}

/// Actions of `tcp-request`.
macro_rules! requests {
    ($group:ident, $line:literal) => {
        &[
            action!(
                $group,
                $line,
                "set-dst",
                "<expr>",
                "The destination address of the connection.",
                "set-dst dst,ipmask(24)"
            )
            .tcp(parse::set_address),
            action!(
                $group,
                $line,
                "set-dst-port",
                "<expr>",
                "The destination port of the connection.",
                "set-dst-port int(4000)"
            )
            .tcp(parse::set_address),
            action!(
                $group,
                $line,
                "set-src",
                "<expr>",
                "The source address of the connection.",
                "set-src src,ipmask(24)"
            )
            .tcp(parse::set_address),
            action!(
                $group,
                $line,
                "set-src-port",
                "<expr>",
                "The source port of the connection.",
                "set-src-port int(4000)"
            )
            .tcp(parse::set_address),
            action!(
                $group,
                $line,
                "track-sc*",
                "<key> [table <table>]",
                "Counts by a key.",
                "track-sc0 src table limits"
            )
            .tcp(parse::track),
        ]
    };
}

/// Actions of `tcp-request content` and `tcp-response content`.
macro_rules! contents {
    ($group:ident, $line:literal) => {
        &[
            action!(
                $group,
                $line,
                "set-log-level",
                "{ <level> | silent }",
                "The level of this stream's line in the log.",
                "set-log-level silent"
            )
            .tcp(parse::set_log_level),
            action!(
                $group,
                $line,
                "set-bandwidth-limit",
                "<name> [limit { <expr> | <size> }] [period { <expr> | <time> }]",
                "Turns a bandwidth limitation filter on; HAProxy 2.7's.",
                "set-bandwidth-limit uploads"
            )
            .tcp(super::filters::tcp_limit),
            action!($group, $line, "set-nice", "<nice>", "The priority of the task.", "set-nice -100")
                .harmless("tasks have no priorities here"),
            action!(
                $group,
                $line,
                "send-spoe-group",
                "<engine> <group>",
                "Asks an agent.",
                "send-spoe-group engine group"
            )
            .not_yet("it comes with filters"),
        ]
    };
}

/// Actions of `tcp-request connection`.
pub(super) const CONNECTION: [&[Keyword]; 3] = [
    everywhere!(TcpRequestConnection, "tcp-request connection"),
    requests!(TcpRequestConnection, "tcp-request connection"),
    &[
        action!(
            TcpRequestConnection,
            "tcp-request connection",
            "expect-proxy",
            "layer4",
            "Reads the PROXY protocol's header.",
            "expect-proxy layer4 if { src 10.0.0.1 }"
        )
        .tcp(parse::expect_proxy),
        action!(
            TcpRequestConnection,
            "tcp-request connection",
            "expect-netscaler-cip",
            "layer4",
            "Reads NetScaler's header.",
            "expect-netscaler-cip layer4"
        )
        .tcp(parse::expect_netscaler),
    ],
];

/// Actions of `tcp-request session`.
pub(super) const SESSION: [&[Keyword]; 2] =
    [everywhere!(TcpRequestSession, "tcp-request session"), requests!(TcpRequestSession, "tcp-request session")];

/// Actions of `tcp-request content`.
pub(super) const REQUEST_CONTENT: [&[Keyword]; 4] = [
    everywhere!(TcpRequestContent, "tcp-request content"),
    requests!(TcpRequestContent, "tcp-request content"),
    contents!(TcpRequestContent, "tcp-request content"),
    &[
        action!(
            TcpRequestContent,
            "tcp-request content",
            "capture",
            "<sample> len <length>",
            "Keeps a sample for the log.",
            "capture req.payload(0,16) len 16"
        )
        .tcp(parse::capture),
        action!(
            TcpRequestContent,
            "tcp-request content",
            "set-priority-class",
            "<expr>",
            "The class in the queue.",
            "set-priority-class int(1)"
        )
        .tcp(parse::set_priority),
        action!(
            TcpRequestContent,
            "tcp-request content",
            "set-priority-offset",
            "<expr>",
            "The offset in the queue.",
            "set-priority-offset int(1)"
        )
        .tcp(parse::set_priority),
        action!(
            TcpRequestContent,
            "tcp-request content",
            "switch-mode",
            "http [ proto <name> ]",
            "Goes on in HTTP mode.",
            "switch-mode http if HTTP"
        )
        .tcp(parse::switch_mode),
        action!(
            TcpRequestContent,
            "tcp-request content",
            "do-resolve(*",
            "<var>,<resolvers>,[ipv4,ipv6]) <expr>",
            "Looks a name up.",
            "do-resolve(txn.ip,dns) str(example.com)"
        )
        .tcp(parse::do_resolve),
        action!(
            TcpRequestContent,
            "tcp-request content",
            "use-service",
            "<service>",
            "Answers with a service.",
            "use-service lua.deny"
        )
        .not_yet("services in TCP mode come with Lua"),
    ],
];

/// Actions of `tcp-response content`.
pub(super) const RESPONSE_CONTENT: [&[Keyword]; 3] = [
    everywhere!(TcpResponseContent, "tcp-response content"),
    contents!(TcpResponseContent, "tcp-response content"),
    &[action!(
        TcpResponseContent,
        "tcp-response content",
        "close",
        "",
        "Closes the server's side at once.",
        "close if { res.len ge 100000 }"
    )
    .tcp(parse::close)],
];
