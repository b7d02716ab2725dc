//! TLS, HTTP/2, who may do how much, logs.

use super::{Directive, backend, frontend, global, says, sections};

pub(super) const TLS: &[Directive] = &[
    says(
        "ssl_certificate ssl_certificate_key",
        "`bind :443 ssl crt FILE`: certificates and key in one file, or the key in FILE`.key` beside it. `crt FOLDER` takes all; the client's SNI chooses. Or `acme`, which gets them ([Serve HTTPS](serve-https.md)).",
    ),
    global("ssl_protocols", "`ssl-min-ver` on `bind`, or for all.", "ssl-default-bind-options ssl-min-ver TLSv1.2"),
    global(
        "ssl_ciphers ssl_conf_command",
        "`ciphers` and `ciphersuites`, on `bind` or for all.",
        "ssl-default-bind-ciphers ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256\nssl-default-bind-ciphersuites TLS_AES_128_GCM_SHA256",
    ),
    says(
        "ssl_prefer_server_ciphers",
        "the server's order counts, as in HAProxy, unless `prefer-client-ciphers` says otherwise.",
    ),
    global(
        "ssl_session_cache ssl_session_timeout",
        "`tune.ssl.cachesize` and `tune.ssl.lifetime`.",
        "tune.ssl.cachesize 50000\ntune.ssl.lifetime 600",
    ),
    says(
        "ssl_session_tickets ssl_session_ticket_key",
        "tickets are on; `no-tls-tickets` turns them off. Their keys change by themselves, or come from `tls-ticket-keys`.",
    ),
    says("ssl_dhparam", "not needed: finite-field Diffie-Hellman is not used."),
    says("ssl_ecdh_curve", "`curves` on `bind`."),
    says(
        "ssl_stapling ssl_stapling_file ssl_stapling_verify ssl_stapling_responder",
        "a file `.ocsp` beside the certificate is sent along; `set ssl ocsp-response` changes it.",
    ),
    says(
        "ssl_client_certificate ssl_verify_client ssl_trusted_certificate ssl_verify_depth ssl_crl",
        "`verify required ca-file FILE` on `bind`, `verify optional`, `crl-file`. `ssl_c_verify`, `ssl_c_s_dn` and others say who it is.",
    ),
    says("ssl_reject_handshake", "`strict-sni` on `bind`: a name without a certificate is refused."),
    says(
        "ssl_early_data ssl_password_file ssl_ocsp ssl_ocsp_cache ssl_ocsp_responder ssl_engine ssl_buffer_size",
        "not here, or not needed.",
    ),
    says("ssl", "`ssl` on `bind`."),
    says("http2 listen_http2", "`alpn h2,http/1.1` on `bind ... ssl`; `proto h2` speaks it without TLS."),
    says("http3 quic", "`bind quic4@:443 ssl crt FILE alpn h3` ([HTTP/3](http3.md))."),
    global("http2_max_concurrent_streams", "`tune.h2.max-concurrent-streams`.", "tune.h2.max-concurrent-streams 128"),
    says("http2_push http2_push_preload http2_max_concurrent_pushes", "not here: browsers have given it up."),
    says(
        "http2_recv_buffer_size http2_chunk_size http2_idle_timeout http2_recv_timeout http2_max_field_size http2_max_header_size http2_max_requests http2_body_preread_size",
        "the limits of HTTP/1 hold; windows grow by themselves up to `tune.h2.initial-window-size`.",
    ),
];

pub(super) const ACCESS: &[Directive] = &[
    frontend(
        "allow deny",
        "a rule. The first that applies counts; what no rule refuses is let in.",
        "http-request deny unless { src 10.0.0.0/8 192.168.0.0/16 }",
    ),
    sections(
        "auth_basic auth_basic_user_file",
        "`htpasswd FILE` in a `userlist`, and `http-request auth`.",
        "userlist people\n    htpasswd /etc/tidegate/users\n\nfrontend web\n    bind :80\n    http-request auth realm private if { path_beg /private/ } !{ http_auth(people) }\n    default_backend site\n\nbackend site\n    root /srv/www",
    ),
    sections(
        "limit_req limit_req_zone limit_req_status",
        "a stick table with a rate, and a rule ([Limit rates](rate-limiting.md)). A request above the limit is refused; none is delayed, as with `nodelay`.",
        "frontend web\n    bind :80\n    stick-table type ip size 100k expire 1m store http_req_rate(10s)\n    http-request track-sc0 src\n    http-request deny deny_status 429 if { sc_http_req_rate(0) gt 100 }\n    default_backend site\n\nbackend site\n    server app 10.0.0.1:8080",
    ),
    sections(
        "limit_conn limit_conn_zone limit_conn_status",
        "a stick table with `conn_cur`, and a rule.",
        "frontend web\n    bind :80\n    stick-table type ip size 100k expire 1m store conn_cur\n    tcp-request connection track-sc0 src\n    tcp-request connection reject if { sc_conn_cur(0) gt 20 }\n    default_backend site\n\nbackend site\n    server app 10.0.0.1:8080",
    ),
    says(
        "limit_req_dry_run limit_req_log_level limit_conn_dry_run limit_conn_log_level",
        "a rule that only logs: `http-request set-var` or `set-log-level` instead of `deny`.",
    ),
    frontend(
        "set_real_ip_from real_ip_header real_ip_recursive",
        "`http-request set-src`, by a condition on who says it.",
        "http-request set-src req.hdr(x-forwarded-for,-1) if { src 10.0.0.0/8 }",
    ),
    backend("http_x_forwarded_for proxy_add_x_forwarded_for", "`option forwardfor`.", "option forwardfor"),
];

pub(super) const LOGS: &[Directive] = &[
    frontend(
        "access_log log_format",
        "`log file@/path` or `log stdout`, and `option httplog combined`, `common` or `json`; `option httplog` alone is HAProxy's format, `log-format` one of your own ([Logs](logs.md)).",
        "log file@/var/log/tidegate/access.log local0\noption httplog combined",
    ),
    frontend(
        "error_log",
        "what is wrong with a request stands in the same log; `option dontlognull` and `log-separate-errors` say how. What concerns the program goes to standard error.",
        "option log-separate-errors",
    ),
    says("open_log_file_cache log_subrequest", "not needed."),
    frontend(
        "stub_status",
        "`stats enable` is a page with curves, `http-request use-service prometheus-exporter` gives metrics.",
        "stats enable\nstats uri /stats\nhttp-request use-service prometheus-exporter if { path /metrics }",
    ),
];
