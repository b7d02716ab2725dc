//! Keywords of `http-request`, `http-response`, `http-after-response` and their actions.

use super::{http, http_actions as parse};
use crate::table::{Group, Keyword, Sections};

const CHAPTER: &str = "4.2";

/// Where lines of rules may stand: `defaults` only with a name.
const RULES: Sections = Sections::FRONTEND_BACKEND.with(Sections::NAMED_DEFAULTS);

/// Lines that hold rules.
pub(super) const LINES: &[Keyword] = &[
    Keyword::new(Group::Proxy, "http-request", "<action> [options...] [ { if | unless } <condition> ]", CHAPTER)
        .sections(RULES)
        .doc("A rule on requests; rules run in order.", "http-request deny if { path_beg /private }")
        .line(http::line),
    Keyword::new(Group::Proxy, "http-response", "<action> [options...] [ { if | unless } <condition> ]", CHAPTER)
        .sections(RULES)
        .doc("A rule on responses of servers; rules run in order.", "http-response del-header Server")
        .line(http::line),
    Keyword::new(Group::Proxy, "http-after-response", "<action> [options...] [ { if | unless } <condition> ]", CHAPTER)
        .sections(RULES)
        .doc(
            "A rule on all responses, also the edge's own.",
            "http-after-response set-header Strict-Transport-Security \"max-age=31536000\"",
        )
        .line(http::line),
    Keyword::new(
        Group::Proxy,
        "redirect",
        "{ location | prefix | scheme } <to> [code <code>] [drop-query] [append-slash] [ignore-empty] \
         [{ set-cookie | clear-cookie } <name[=value]>] [ { if | unless } <condition> ]",
        CHAPTER,
    )
    .sections(Sections::FRONTEND_BACKEND)
    .doc("Redirects; runs after all http-request rules.", "redirect scheme https if !{ ssl_fc }")
    .line(http::redirect_line),
];

/// Actions of all three sets.
macro_rules! everywhere {
    ($group:ident, $line:literal, $capture:literal, $capture_example:literal) => {
        &[
            action!($group, $line, "add-header", "<name> <fmt>", "Appends a header.", "add-header X-Via edge")
                .http(parse::header),
            action!(
                $group,
                $line,
                "allow",
                "",
                "Ends the evaluation of this set of rules.",
                "allow if { src 10.0.0.0/8 }"
            )
            .http(parse::allow),
            stream_action!($group, $line, "capture", $capture, $capture_example),
            action!(
                $group,
                $line,
                "del-header",
                "<name> [ -m { str | beg | end | sub | reg } ]",
                "Removes headers by name, or by part of the name.",
                "del-header X-Internal- -m beg"
            )
            .http(parse::delete_header),
            action!(
                $group,
                $line,
                "replace-header",
                "<name> <match-regex> <replace-fmt>",
                "Rewrites whole values of a header that match; \\1 is the first group.",
                "replace-header Cookie foo=([^;]*);(.*) foo=\\1;ip=%bi;\\2"
            )
            .http(parse::replace_header),
            action!(
                $group,
                $line,
                "replace-value",
                "<name> <match-regex> <replace-fmt>",
                "Rewrites those of a header's comma-separated values that match.",
                "replace-value X-Forwarded-For ^192\\.168\\.(.*)$ 172.16.\\1"
            )
            .http(parse::replace_header),
            action!($group, $line, "set-header", "<name> <fmt>", "Sets a header.", "set-header X-Id %[unique-id]")
                .http(parse::header),
            stream_action!($group, $line, "set-var(*", "set-var(txn.start) date()"),
            stream_action!($group, $line, "set-var-fmt(*", "set-var-fmt(txn.from) %[src]:%[src_port]"),
            action!(
                $group,
                $line,
                "strict-mode",
                "{ on | off }",
                "Says whether a later rule that cannot rewrite a message ends the request with an error.",
                "strict-mode off"
            )
            .http(parse::strict_mode),
            stream_action!($group, $line, "unset-var(*", "unset-var(txn.start)"),
        ]
    };
}

/// Actions of `http-request` and `http-response`.
macro_rules! messages {
    ($group:ident, $line:literal) => {
        &[
            action!(
                $group,
                $line,
                "deny",
                "[ { status | deny_status } <code> ] [content-type <type>] [ { default-errorfiles | errorfile <file> | errorfiles <name> | file <file> | lf-file <file> | string <str> | lf-string <fmt> } ] [ hdr <name> <fmt> ]*",
                "Refuses the message and answers with an error.",
                "deny deny_status 429 if { src 192.0.2.0/24 }"
            )
            .http(parse::deny),
            action!(
                $group,
                $line,
                "redirect",
                "{ location | prefix | scheme } <fmt> [code <code>] [drop-query] [append-slash] [ignore-empty] [{ set-cookie | clear-cookie } <name[=value]>]",
                "Answers with a redirection.",
                "redirect location https://example.com/login code 301"
            )
            .http(parse::redirect),
            action!(
                $group,
                $line,
                "return",
                "[status <code>] [content-type <type>] [ { default-errorfiles | errorfile <file> | errorfiles <name> | file <file> | lf-file <file> | string <str> | lf-string <fmt> } ] [ hdr <name> <fmt> ]*",
                "Answers with the response that the rule describes.",
                "return status 200 content-type text/plain string \"ok\" if { path /ping }"
            )
            .http(parse::respond),
            stream_action!($group, $line, "set-bandwidth-limit", "set-bandwidth-limit downloads if { path_beg /files/ }"),
            stream_action!($group, $line, "set-log-level", "Sets the level of this transaction's line in the log.", "set-log-level silent if { path /health }"),
            stream_action!($group, $line, "set-mark"),
            action!($group, $line, "set-nice", "<nice>", "Sets the priority of the task.", "set-nice -100")
                .harmless("tasks have no priorities here"),
            stream_action!($group, $line, "set-tos"),
            action!($group, $line, "silent-drop", "", "Drops the connection without telling the client.", "silent-drop")
                .http(parse::silent_drop),
            action!(
                $group,
                $line,
                "wait-for-body",
                "time <time> [ at-least <bytes> ]",
                "Waits for the body, so that rules after it can look at it.",
                "wait-for-body time 1s at-least 10k"
            )
            .http(parse::wait_for_body),
            action!($group, $line, "add-acl(*", "<file>) <key fmt>", "Adds an entry to an ACL.", "add-acl(bad.lst) %[src]")
                .http(parse::change_patterns),
            action!($group, $line, "del-acl(*", "<file>) <key fmt>", "Removes an entry from an ACL.", "del-acl(bad.lst) %[src]")
                .http(parse::change_patterns),
            action!($group, $line, "set-map(*", "<file>) <key fmt> <value fmt>", "Sets an entry of a map.", "set-map(m.lst) %[src] 1")
                .http(parse::change_patterns),
            action!($group, $line, "del-map(*", "<file>) <key fmt>", "Removes an entry from a map.", "del-map(m.lst) %[src]")
                .http(parse::change_patterns),
            action!($group, $line, "lua.*", "<arguments>", "Runs a function in Lua.", "lua.check")
                .not_yet("it comes with Lua"),
            stream_action!($group, $line, "sc-inc-gpc*"),
            stream_action!($group, $line, "sc-set-gpt*"),
            action!($group, $line, "send-spoe-group", "<engine> <group>", "Asks an SPOE agent.", "send-spoe-group engine group")
                .not_yet("it comes with filters"),
            stream_action!($group, $line, "track-sc*"),
        ]
    };
}

/// Actions of `http-request`.
pub(super) const REQUEST: [&[Keyword]; 3] = [
    everywhere!(
        HttpRequest,
        "http-request",
        "<sample> { len <length> | id <id> }",
        "capture req.hdr(user-agent) len 64"
    ),
    messages!(HttpRequest, "http-request"),
    &[
        action!(
            HttpRequest,
            "http-request",
            "auth",
            "[realm <realm>]",
            "Asks the client for an account, with a 401.",
            "auth realm Staff unless { http_auth(staff) }"
        )
        .http(parse::auth),
        action!(
            HttpRequest,
            "http-request",
            "disable-l7-retry",
            "",
            "Does not retry this request after an answer.",
            "disable-l7-retry if METH_POST"
        )
        .http(parse::disable_l7_retry),
        action!(
            HttpRequest,
            "http-request",
            "early-hint",
            "<name> <fmt>",
            "Sends a 103 response with this header at once.",
            "early-hint Link \"</style.css>; rel=preload; as=style\""
        )
        .http(parse::header),
        action!(
            HttpRequest,
            "http-request",
            "normalize-uri",
            "<normalizer>",
            "Rewrites the URI into a normal form.",
            "normalize-uri path-merge-slashes"
        )
        .http(parse::normalize_uri)
        .experimental(),
        action!(
            HttpRequest,
            "http-request",
            "reject",
            "",
            "Closes the connection without a response.",
            "reject if { src 192.0.2.0/24 }"
        )
        .http(parse::reject),
        action!(
            HttpRequest,
            "http-request",
            "replace-path",
            "<match-regex> <replace-fmt>",
            "Rewrites the path.",
            "replace-path /api/(.*) /\\1"
        )
        .http(parse::replace_uri),
        action!(
            HttpRequest,
            "http-request",
            "replace-pathq",
            "<match-regex> <replace-fmt>",
            "Rewrites path and query.",
            "replace-pathq (.*)\\?old=(.*) \\1?new=\\2"
        )
        .http(parse::replace_uri),
        action!(
            HttpRequest,
            "http-request",
            "replace-uri",
            "<match-regex> <replace-fmt>",
            "Rewrites the URI.",
            "replace-uri ^http://[^/]*(.*) \\1"
        )
        .http(parse::replace_uri),
        stream_action!(HttpRequest, "http-request", "set-dst", "set-dst hdr(x-dst)"),
        stream_action!(HttpRequest, "http-request", "set-dst-port"),
        action!(HttpRequest, "http-request", "set-method", "<fmt>", "Sets the method.", "set-method GET if METH_HEAD")
            .http(parse::set_request_line),
        action!(
            HttpRequest,
            "http-request",
            "set-path",
            "<fmt>",
            "Sets the path; the query stays.",
            "set-path /app%[path]"
        )
        .http(parse::set_request_line),
        action!(HttpRequest, "http-request", "set-pathq", "<fmt>", "Sets path and query.", "set-pathq /app%[pathq]")
            .http(parse::set_request_line),
        action!(HttpRequest, "http-request", "set-query", "<fmt>", "Sets the query.", "set-query from=edge")
            .http(parse::set_request_line),
        stream_action!(HttpRequest, "http-request", "set-src", "set-src hdr_ip(x-forwarded-for)"),
        stream_action!(HttpRequest, "http-request", "set-src-port"),
        action!(
            HttpRequest,
            "http-request",
            "set-timeout",
            "{ server | tunnel } { <timeout> | <expr> }",
            "Sets a timeout for this request.",
            "set-timeout server 5s if { path_beg /slow }"
        )
        .http(parse::set_timeout),
        action!(
            HttpRequest,
            "http-request",
            "set-uri",
            "<fmt>",
            "Sets the URI.",
            "set-uri http://%[req.hdr(host)]%[pathq]"
        )
        .http(parse::set_request_line),
        action!(
            HttpRequest,
            "http-request",
            "tarpit",
            "[ { status | deny_status } <code> ] [arguments as of deny]",
            "Keeps the client waiting, then refuses.",
            "tarpit deny_status 429 if { src 192.0.2.0/24 }"
        )
        .http(parse::deny),
        action!(
            HttpRequest,
            "http-request",
            "use-service",
            "<service> [ <argument>... ]",
            "Answers with a service of the edge: prometheus-exporter, or plugin.NAME, a plugin that the program has.",
            "use-service prometheus-exporter if { path /metrics }"
        )
        .http(parse::use_service),
        action!(HttpRequest, "http-request", "cache-use", "<name>", "Answers from a cache.", "cache-use small")
            .http(parse::cache_use),
        stream_action!(HttpRequest, "http-request", "do-resolve(*", "do-resolve(txn.ip,dns) hdr(host)"),
        stream_action!(HttpRequest, "http-request", "set-priority-class"),
        stream_action!(HttpRequest, "http-request", "set-priority-offset"),
        action!(
            HttpRequest,
            "http-request",
            "wait-for-handshake",
            "",
            "Waits for the TLS handshake.",
            "wait-for-handshake if METH_POST"
        )
        .harmless("no TLS handshake is under way when a request is there"),
    ],
];

/// Actions of `http-response`.
pub(super) const RESPONSE: [&[Keyword]; 3] = [
    everywhere!(HttpResponse, "http-response", "<sample> id <id>", "capture res.hdr(server) id 0"),
    messages!(HttpResponse, "http-response"),
    &[
        action!(
            HttpResponse,
            "http-response",
            "set-status",
            "<status> [reason <str>]",
            "Sets the status.",
            "set-status 431 reason \"Too large\""
        )
        .http(parse::set_status),
        action!(
            HttpResponse,
            "http-response",
            "cache-store",
            "<name>",
            "Stores the response in a cache.",
            "cache-store small"
        )
        .http(parse::cache_store),
    ],
];

/// Actions of `http-after-response`.
pub(super) const AFTER_RESPONSE: [&[Keyword]; 2] = [
    everywhere!(HttpAfterResponse, "http-after-response", "<sample> id <id>", "capture res.hdr(server) id 0"),
    &[action!(
        HttpAfterResponse,
        "http-after-response",
        "set-status",
        "<status> [reason <str>]",
        "Sets the status.",
        "set-status 503 reason \"Busy\""
    )
    .http(parse::set_status)],
];
