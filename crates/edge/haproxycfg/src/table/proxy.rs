//! Lines of `defaults`, `frontend`, `backend` and `listen` that are not rules.

use super::{Group, Keyword, Sections};
use crate::keywords::{balance, bind, option, proxy, rdp, server, source};

const DEFAULTS_BOTH: Sections = Sections::ALL;
const BOTH: Sections = Sections::FRONTEND_BACKEND;

const fn line(name: &'static str, arguments: &'static str, sections: Sections) -> Keyword {
    Keyword::new(Group::Proxy, name, arguments, "4.2").sections(sections)
}

const fn removed(name: &'static str, message: &'static str) -> Keyword {
    line(name, "", DEFAULTS_BOTH).doc("Removed from HAProxy.", "").removed(message)
}

const fn timeout(name: &'static str, sections: Sections) -> Keyword {
    Keyword::new(Group::Timeout, name, "<time>", "4.2").sections(sections).line(proxy::timeout_of)
}

/// The table.
pub const KEYWORDS: &[Keyword] = &[
    line("backlog", "<number>", Sections::DEFAULTS_FRONTEND)
        .doc("How many connections may wait to be accepted.", "backlog 10000")
        .line(proxy::connections),
    line("balance", "<algorithm> [<argument>...]", Sections::DEFAULTS_BACKEND)
        .doc(
            "How the backend chooses a server: roundrobin, static-rr, leastconn, first, source, uri, url_param, \
             hdr(<name>), hash <expression>, rdp-cookie[(<name>)], random[(<draws>)].",
            "balance leastconn",
        )
        .line(balance::balance),
    line("bind", "[<address>]:<port>[-<port>] [, ...] [<param>...]", Sections::FRONTEND)
        .doc("Listens on an address.", "bind :80")
        .line(bind::bind),
    line("bind-process", "[ all | odd | even | <process> ]...", DEFAULTS_BOTH)
        .doc("Processes that run the proxy; there is one.", "bind-process all")
        .line(proxy::bind_process)
        .deprecated("'bind-process' has no effect, is deprecated, and will be removed in version 2.7."),
    line("clitcpka-cnt", "<number>", Sections::DEFAULTS_FRONTEND)
        .doc("After how many unanswered TCP keep-alive probes a client counts as gone.", "clitcpka-cnt 3")
        .line(proxy::keepalive),
    line("clitcpka-idle", "<time>", Sections::DEFAULTS_FRONTEND)
        .doc("After how much time without data TCP keep-alive probes a client.", "clitcpka-idle 60s")
        .line(proxy::keepalive),
    line("clitcpka-intvl", "<time>", Sections::DEFAULTS_FRONTEND)
        .doc("Time between TCP keep-alive probes of a client.", "clitcpka-intvl 10s")
        .line(proxy::keepalive),
    line("clitimeout", "<time>", DEFAULTS_BOTH)
        .doc("Old word for 'timeout client'; HAProxy removed it in 2.1.", "clitimeout 50000")
        .line(proxy::old_timeout)
        .deprecated(
            "the 'clitimeout' directive is now deprecated in favor of 'timeout client', and will not be \
             supported in future versions.",
        ),
    line("contimeout", "<time>", DEFAULTS_BOTH)
        .doc("Old word for 'timeout connect'; HAProxy removed it in 2.1.", "contimeout 5000")
        .line(proxy::old_timeout)
        .deprecated(
            "the 'contimeout' directive is now deprecated in favor of 'timeout connect', and will not be \
             supported in future versions.",
        ),
    line("default-server", "[<param>...]", Sections::DEFAULTS_BACKEND)
        .doc("Sets defaults for the following 'server' lines.", "default-server check inter 5s")
        .strict()
        .line(server::default_server),
    line("default_backend", "<backend>", Sections::DEFAULTS_FRONTEND)
        .doc("The backend when no 'use_backend' holds.", "default_backend app")
        .line(proxy::default_backend),
    line("description", "<text>", BOTH)
        .doc("Text about the proxy for the statistics page.", "description the shop")
        .line(proxy::description),
    line("disabled", "", DEFAULTS_BOTH).doc("Does not start the proxy.", "disabled").line(proxy::disabled),
    line("dispatch", "<address>:<port>", Sections::BACKEND)
        .doc("Sends everything to this address, without balancing.", "dispatch 192.0.2.1:80")
        .line(proxy::dispatch),
    line("enabled", "", DEFAULTS_BOTH)
        .doc("Starts the proxy, whatever 'defaults' says.", "enabled")
        .line(proxy::disabled),
    line("fullconn", "<number>", Sections::DEFAULTS_BACKEND)
        .doc("Connections to the backend at which servers reach their maxconn.", "fullconn 10000")
        .line(proxy::connections),
    line("hash-balance-factor", "<percent>", Sections::DEFAULTS_BACKEND)
        .doc(
            "Most load that consistent hashing gives a server, in percent of the average; 0 is no limit.",
            "hash-balance-factor 150",
        )
        .line(balance::hash_balance_factor),
    line("hash-type", "<method> [<function> [avalanche]]", Sections::DEFAULTS_BACKEND)
        .doc(
            "How hashes are mapped to servers: map-based or consistent; by sdbm, djb2, wt6 or crc32.",
            "hash-type consistent",
        )
        .line(balance::hash_type),
    line("http-reuse", "{ never | safe | aggressive | always }", Sections::DEFAULTS_BACKEND)
        .doc("Which requests may use another client's idle connection to a server.", "http-reuse always")
        .line(proxy::http_reuse),
    line("id", "<number>", BOTH).doc("Number of the proxy in statistics.", "id 100").line(proxy::id),
    line("load-server-state-from-file", "{ global | local | none }", Sections::DEFAULTS_BACKEND)
        .doc("The file that states of servers are loaded from.", "load-server-state-from-file global")
        .line(proxy::load_server_state),
    line("max-keep-alive-queue", "<number>", Sections::DEFAULTS_BACKEND)
        .doc(
            "Requests in a server's queue at which a kept connection no longer ties its client to it; -1 \
             is no limit.",
            "max-keep-alive-queue 10",
        )
        .line(proxy::max_keep_alive_queue),
    line("max-session-srv-conns", "<number>", Sections::DEFAULTS_FRONTEND)
        .doc("How many connections to servers a client's connection may keep.", "max-session-srv-conns 5")
        .line(proxy::max_session_srv_conns),
    line("maxconn", "<number>", Sections::DEFAULTS_FRONTEND)
        .doc("How many connections the frontend has at a time; more wait to be accepted.", "maxconn 5000")
        .line(proxy::connections),
    line("mode", "{ tcp | http }", DEFAULTS_BOTH)
        .doc("Whether the proxy forwards bytes (tcp) or requests (http).", "mode http")
        .line(proxy::mode),
    line("option", "<name> [<argument>...]", DEFAULTS_BOTH)
        .doc("Turns an option on; 'no option' off, 'default option' to its default.", "option forwardfor")
        .negatable()
        .line(option::option),
    line("persist", "rdp-cookie[(<name>)]", Sections::DEFAULTS_BACKEND)
        .doc("Sends RDP clients back to the server that their cookie names.", "persist rdp-cookie")
        .line(rdp::persist),
    line("rate-limit", "sessions <number>", Sections::DEFAULTS_FRONTEND)
        .doc("How many new sessions per second the frontend accepts; more wait.", "rate-limit sessions 100")
        .line(proxy::rate_limit),
    line("retries", "<number>", Sections::DEFAULTS_BACKEND)
        .doc("How many times the proxy tries a failed connection to a server again.", "retries 3")
        .line(proxy::retries),
    line("retry-on", "<word>...", Sections::DEFAULTS_BACKEND)
        .doc(
            "After which failures the proxy sends a request again: conn-failure, empty-response, junk-response, \
             response-timeout, 0rtt-rejected, a status, all-retryable-errors, none.",
            "retry-on conn-failure empty-response 503",
        )
        .line(proxy::retry_on),
    line("server", "<name> <address>[:<port>] [<param>...]", Sections::BACKEND)
        .doc("A server of the backend.", "server web1 192.0.2.1:80 check")
        .strict()
        .line(server::server),
    line("server-state-file-name", "[ use-backend-name | <file> ]", Sections::DEFAULTS_BACKEND)
        .doc("The file with the states of this backend's servers.", "server-state-file-name app")
        .line(proxy::server_state_file_name),
    line("server-template", "<prefix> <number | range> <name>[:<port>] [<param>...]", Sections::BACKEND)
        .doc("Makes several servers from one name.", "server-template web 1-3 web.example.com:80 check")
        .strict()
        .line(server::template),
    line(
        "source",
        "<address>[:<port>] [usesrc { <address> | client | clientip | hdr_ip(<name>[,<number>]) }] [interface <name>]",
        Sections::DEFAULTS_BACKEND,
    )
    .doc("The local address of connections to servers.", "source 192.0.2.200")
    .line(source::proxy),
    line("srvtcpka-cnt", "<number>", Sections::DEFAULTS_BACKEND)
        .doc("After how many unanswered TCP keep-alive probes a server counts as gone.", "srvtcpka-cnt 3")
        .line(proxy::keepalive),
    line("srvtcpka-idle", "<time>", Sections::DEFAULTS_BACKEND)
        .doc("After how much time without data TCP keep-alive probes a server.", "srvtcpka-idle 60s")
        .line(proxy::keepalive),
    line("srvtcpka-intvl", "<time>", Sections::DEFAULTS_BACKEND)
        .doc("Time between TCP keep-alive probes of a server.", "srvtcpka-intvl 10s")
        .line(proxy::keepalive),
    line("srvtimeout", "<time>", DEFAULTS_BOTH)
        .doc("Old word for 'timeout server'; HAProxy removed it in 2.1.", "srvtimeout 50000")
        .line(proxy::old_timeout)
        .deprecated(
            "the 'srvtimeout' directive is now deprecated in favor of 'timeout server', and will not be \
             supported in future versions.",
        ),
    line("timeout", "<event> <time>", DEFAULTS_BOTH)
        .doc("How long something may take.", "timeout client 30s")
        .line(proxy::timeout),
    line("transparent", "", Sections::DEFAULTS_BACKEND)
        .doc("Old word for 'option transparent'.", "transparent")
        .line(proxy::transparent),
    line("usesrc", "", DEFAULTS_BOTH)
        .doc("Belongs to 'source'.", "source 0.0.0.0 usesrc clientip")
        .line(source::usesrc),
    removed("grace", "the 'grace' keyword is not supported any more since HAProxy version 2.5."),
    removed(
        "redisp",
        "keyword 'redisp' directive is not supported anymore since HAProxy 2.1. Use 'option \
             redispatch'.",
    ),
    removed(
        "redispatch",
        "keyword 'redispatch' directive is not supported anymore since HAProxy 2.1. Use 'option \
             redispatch'.",
    ),
    timeout("check", Sections::DEFAULTS_BACKEND)
        .doc("How long a check waits for an answer after it has connected.", "timeout check 2s"),
    timeout("client", Sections::DEFAULTS_FRONTEND)
        .doc("How long a client may neither send nor take data when it should.", "timeout client 30s"),
    timeout("client-fin", Sections::DEFAULTS_FRONTEND)
        .doc("How long a client may be silent after one direction is closed.", "timeout client-fin 10s"),
    timeout("connect", Sections::DEFAULTS_BACKEND)
        .doc("How long connecting to a server may take.", "timeout connect 5s"),
    timeout("http-keep-alive", DEFAULTS_BOTH)
        .doc("How long a kept connection waits for the next request.", "timeout http-keep-alive 10s"),
    timeout("http-request", DEFAULTS_BOTH)
        .doc("How long the client may take to send a whole request head.", "timeout http-request 10s"),
    timeout("queue", Sections::DEFAULTS_BACKEND).doc("How long a request may wait in a queue.", "timeout queue 30s"),
    timeout("server", Sections::DEFAULTS_BACKEND)
        .doc("How long a server may neither send nor take data when it should.", "timeout server 30s"),
    timeout("server-fin", Sections::DEFAULTS_BACKEND)
        .doc("How long a server may be silent after one direction is closed.", "timeout server-fin 10s"),
    timeout("tarpit", DEFAULTS_BOTH).doc("How long the proxy holds a tarpitted request.", "timeout tarpit 60s"),
    timeout("tunnel", Sections::DEFAULTS_BACKEND)
        .doc("How long both directions of a tunnel may be silent: CONNECT, WebSocket, TCP.", "timeout tunnel 1h"),
];
