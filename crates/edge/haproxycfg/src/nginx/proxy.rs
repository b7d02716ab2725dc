//! `proxy_`, its cache, and `upstream`.

use super::{Directive, backend, says, sections};

pub(super) const DIRECTIVES: &[Directive] = &[
    backend(
        "proxy_pass",
        "a `server` line in the backend that the request goes to. A path behind the address is `http-request replace-path`.",
        "http-request replace-path ^/api/(.*) /\\1\nserver app 10.0.0.1:8080",
    ),
    backend(
        "proxy_set_header",
        "`http-request set-header`, `add-header`, `del-header`. `Host` is passed on as it came.",
        "http-request set-header x-real-ip %[src]\nhttp-request set-header x-forwarded-proto https if { ssl_fc }\noption forwardfor",
    ),
    backend(
        "proxy_hide_header proxy_pass_header",
        "`http-response del-header`. Nothing is hidden unless a rule says so.",
        "http-response del-header x-powered-by",
    ),
    says("proxy_http_version", "HTTP/1.1 with connections that are kept. `proto h2` on a `server` line speaks HTTP/2."),
    says(
        "proxy_buffering proxy_buffers proxy_buffer_size proxy_busy_buffers_size proxy_request_buffering proxy_max_temp_file_size proxy_temp_path proxy_temp_file_write_size",
        "not needed: answers are passed on as they come, with one buffer for each direction; nothing goes to a disk. A client that reads slowly holds its server: `shared-cache` and `maxconn` of a server help.",
    ),
    backend("proxy_connect_timeout", "`timeout connect`.", "timeout connect 5s"),
    backend(
        "proxy_read_timeout proxy_send_timeout",
        "`timeout server`; `timeout tunnel` for WebSockets.",
        "timeout server 60s\ntimeout tunnel 1h",
    ),
    backend(
        "proxy_next_upstream",
        "`retry-on`, for requests that may be sent twice, and `option redispatch`.",
        "retry-on conn-failure empty-response 503\noption redispatch",
    ),
    backend("proxy_next_upstream_tries proxy_next_upstream_timeout", "`retries`.", "retries 2"),
    backend(
        "proxy_redirect",
        "`http-response replace-header`.",
        "http-response replace-header location ^http://app:8080/(.*) /\\1",
    ),
    backend(
        "proxy_cookie_domain proxy_cookie_path proxy_cookie_flags",
        "`http-response replace-header` on `set-cookie`.",
        "http-response replace-header set-cookie (.*) \"\\1; Secure\"",
    ),
    backend("proxy_bind", "`source`, for the backend or a server.", "source 10.0.0.9"),
    backend(
        "proxy_intercept_errors",
        "`http-response return` by status.",
        "http-response return status 503 content-type text/plain string \"back soon\" if { status 500 502 }",
    ),
    backend("proxy_method", "`http-request set-method`.", "http-request set-method POST"),
    says(
        "proxy_pass_request_body proxy_set_body proxy_pass_request_headers",
        "bodies and headers are passed on; headers are changed one by one.",
    ),
    backend(
        "proxy_ignore_client_abort",
        "a request whose client has gone ends, at the latest in the queue with `option abortonclose`.",
        "option abortonclose",
    ),
    says(
        "proxy_ignore_headers",
        "`http-response del-header` takes fields away before caches and clients see them. `X-Accel-Redirect` does something only where an `x-accel-redirect` line says so; a condition at that line says for which requests (rules for responses come later), and no `X-Accel-...` field reaches clients then.",
    ),
    backend(
        "proxy_limit_rate limit_rate limit_rate_after",
        "a filter, and a rule that switches it on.",
        "filter bwlim-out downloads default-limit 500k default-period 1s\nhttp-response set-bandwidth-limit downloads if { res.hdr(content-type) -m beg video/ }",
    ),
    says("proxy_force_ranges slice", "ranges are answered by files and caches; servers answer theirs themselves."),
    says("proxy_store proxy_store_access", "not here: `shared-cache ... disk` keeps answers over restarts."),
    backend("proxy_socket_keepalive", "`option srvtcpka`.", "option srvtcpka"),
    says("proxy_send_lowat", "not needed."),
    backend(
        "proxy_ssl_verify proxy_ssl_trusted_certificate proxy_ssl_verify_depth",
        "`verify required ca-file`: without it no certificate is asked for, and a warning says so.",
        "server app app.internal:443 ssl verify required ca-file @system-ca",
    ),
    backend(
        "proxy_ssl_server_name proxy_ssl_name",
        "`sni`, and `verifyhost`.",
        "server app 10.0.0.1:443 ssl verify none sni req.hdr(host)",
    ),
    backend(
        "proxy_ssl_protocols proxy_ssl_ciphers proxy_ssl_conf_command proxy_ssl_session_reuse",
        "`ssl-min-ver`, `ciphers`, `ciphersuites`, `no-tls-tickets` and others on a `server` line.",
        "server app 10.0.0.1:443 ssl verify none ssl-min-ver TLSv1.2",
    ),
    says(
        "proxy_ssl_certificate proxy_ssl_certificate_key proxy_ssl_password_file proxy_ssl_crl",
        "`crt` (certificate and key in one file, or `.key` beside it) and `crl-file` on a `server` line. Keys have no password.",
    ),
    backend(
        "proxy_protocol",
        "`send-proxy` or `send-proxy-v2` on a `server` line, `accept-proxy` on a `bind` line.",
        "server app 10.0.0.1:8080 send-proxy-v2",
    ),
    says("memcached_pass memcached_key memcached_gzip_flag", "not here."),
    backend(
        "grpc_pass grpc_set_header",
        "a `server` line with `proto h2`, or `alpn h2` over TLS.",
        "server app 10.0.0.1:50051 proto h2",
    ),
];

pub(super) const CACHING: &[Directive] = &[
    backend(
        "proxy_cache proxy_cache_path fastcgi_cache_path",
        "`shared-cache`, by the rules of HTTP; on a disk too, if it says so ([Add a cache](add-a-cache.md)).",
        "shared-cache size 256m\nserver app 10.0.0.1:8080",
    ),
    backend(
        "proxy_cache_valid",
        "what the answer says counts; a rule says it where the server does not. Or `vcl`, whose program decides.",
        "http-response set-header cache-control max-age=600 if { status 200 } !{ res.hdr(cache-control) -m found }",
    ),
    says(
        "proxy_cache_key",
        "host and target, and what `Vary` names; `hash_data()` in a `vcl` program says it otherwise.",
    ),
    backend(
        "proxy_cache_bypass proxy_no_cache",
        "`Cache-Control` of a request or an answer.",
        "http-request set-header cache-control no-cache if { req.cook(session) -m found }",
    ),
    says(
        "proxy_cache_lock proxy_cache_lock_age proxy_cache_lock_timeout",
        "always: requests for the same thing wait for one fetch.",
    ),
    says(
        "proxy_cache_use_stale proxy_cache_background_update",
        "`stale-while-revalidate` and `stale-if-error` in `Cache-Control`; `vcl` has grace.",
    ),
    says("proxy_cache_revalidate", "always: what has a validator is asked about with it."),
    says(
        "proxy_cache_methods proxy_cache_min_uses proxy_cache_max_range_offset proxy_cache_convert_head",
        "GET is kept and answers HEAD; objects that nobody asks for again go first. A range of a thing that is not kept is fetched as a range.",
    ),
    says(
        "proxy_cache_purge",
        "`PURGE` requests and tags ([Add a cache](add-a-cache.md)); nginx has it only for money.",
    ),
];

pub(super) const UPSTREAMS: &[Directive] = &[
    sections(
        "upstream",
        "a `backend` with several `server` lines.",
        "backend app\n    balance leastconn\n    option httpchk GET /health\n    server app1 10.0.0.1:8080 check weight 5 maxconn 200\n    server app2 10.0.0.2:8080 check\n    server spare 10.0.0.3:8080 check backup",
    ),
    backend("least_conn", "`balance leastconn`.", "balance leastconn"),
    backend("ip_hash", "`balance source`.", "balance source\nhash-type consistent"),
    backend(
        "hash",
        "`balance hash`, with `hash-type consistent` for few changes when servers come and go.",
        "balance hash req.hdr(x-user)\nhash-type consistent",
    ),
    backend("random", "`balance random`: two are drawn, and the one with fewer requests gets it.", "balance random"),
    backend(
        "max_fails fail_timeout",
        "checks find out who is dead, before a client does; `observe` looks at real traffic, too.",
        "server app 10.0.0.1:8080 check inter 2s fall 3 rise 2 observe layer7",
    ),
    backend(
        "max_conns queue",
        "`maxconn` of a server; what is above waits in order, for `timeout queue`.",
        "timeout queue 5s\nserver app 10.0.0.1:8080 maxconn 100",
    ),
    says(
        "keepalive",
        "`http-reuse safe`, as it is unless told otherwise; `pool-max-conn` on a `server` line bounds idle connections.",
    ),
    backend(
        "sticky",
        "`cookie`; nginx has it only for money.",
        "cookie app insert indirect nocache\nserver app1 10.0.0.1:8080 cookie a",
    ),
    says(
        "zone state upstream_conf api",
        "servers' states are shared by all threads, and change while it runs ([the stats socket](reference/runtime-api.md)); `server-state-file` keeps them over restarts.",
    ),
    backend("slow_start", "`slowstart`; nginx has it only for money.", "server app 10.0.0.1:8080 check slowstart 30s"),
    backend(
        "health_check",
        "`option httpchk` and `http-check` lines; nginx has it only for money.",
        "option httpchk GET /health\nhttp-check expect status 200\nserver app 10.0.0.1:8080 check",
    ),
];
