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
        "A rule on connections or on the first data of clients.",
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
    .doc("A rule on the first data of servers.", "tcp-response content reject if { res.payload(0,4) -m bin 00000000 }")
    .line(parse::response),
];

/// Actions of all four sets.
macro_rules! everywhere {
    ($group:ident, $line:literal) => {
        &[
            action!(
                $group,
                $line,
                "accept",
                "",
                "Ends the evaluation of this set of rules.",
                "accept if { src 10.0.0.0/8 }"
            )
            .tcp(parse::accept),
            action!($group, $line, "reject", "", "Closes the connection.", "reject if { src 192.0.2.0/24 }")
                .tcp(parse::reject),
            stream_action!($group, $line, "set-mark"),
            stream_action!($group, $line, "set-tos"),
            stream_action!($group, $line, "set-var(*", "set-var(sess.from) src"),
            stream_action!($group, $line, "set-var-fmt(*", "set-var-fmt(sess.from) %[src]:%[src_port]"),
            action!(
                $group,
                $line,
                "silent-drop",
                "",
                "Drops the connection without telling the client.",
                "silent-drop"
            )
            .tcp(parse::silent_drop),
            stream_action!($group, $line, "unset-var(*", "unset-var(sess.from)"),
            action!($group, $line, "lua.*", "<arguments>", "Runs a function in Lua.", "lua.check")
                .not_yet("it comes with Lua"),
            stream_action!($group, $line, "sc-inc-gpc*"),
            stream_action!($group, $line, "sc-set-gpt*"),
        ]
    };
}

/// Actions of `tcp-request`.
macro_rules! requests {
    ($group:ident, $line:literal) => {
        &[
            stream_action!($group, $line, "set-dst", "set-dst dst,ipmask(24)"),
            stream_action!($group, $line, "set-dst-port"),
            stream_action!($group, $line, "set-src", "set-src src,ipmask(24)"),
            stream_action!($group, $line, "set-src-port"),
            stream_action!($group, $line, "track-sc*"),
        ]
    };
}

/// Actions of `tcp-request content` and `tcp-response content`.
macro_rules! contents {
    ($group:ident, $line:literal) => {
        &[
            stream_action!(
                $group,
                $line,
                "set-log-level",
                "Sets the level of this stream's line in the log.",
                "set-log-level silent"
            ),
            stream_action!($group, $line, "set-bandwidth-limit", "set-bandwidth-limit uploads"),
            action!($group, $line, "set-nice", "<nice>", "Sets the priority of the task.", "set-nice -100")
                .harmless("tasks have no priorities here"),
            action!(
                $group,
                $line,
                "send-spoe-group",
                "<engine> <group>",
                "Asks an SPOE agent.",
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
        stream_action!(
            TcpRequestContent,
            "tcp-request content",
            "capture",
            "<sample> len <length>",
            "capture req.payload(0,16) len 16"
        ),
        stream_action!(TcpRequestContent, "tcp-request content", "set-priority-class"),
        stream_action!(TcpRequestContent, "tcp-request content", "set-priority-offset"),
        action!(
            TcpRequestContent,
            "tcp-request content",
            "switch-mode",
            "http [ proto <name> ]",
            "Switches the connection to HTTP mode.",
            "switch-mode http if HTTP"
        )
        .tcp(parse::switch_mode),
        stream_action!(
            TcpRequestContent,
            "tcp-request content",
            "do-resolve(*",
            "do-resolve(txn.ip,dns) str(example.com)"
        ),
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
