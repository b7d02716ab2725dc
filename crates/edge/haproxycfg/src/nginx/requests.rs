//! Requests and answers: rewrites, bodies, timeouts, headers, compression.

use super::{Directive, backend, frontend, global, says, sections};

pub(super) const DIRECTIVES: &[Directive] = &[
    frontend(
        "return",
        "`http-request return` for an answer, `http-request redirect` for another place, `http-request deny` for an error.",
        "http-request return status 200 content-type text/plain string ok if { path /health }\nhttp-request redirect scheme https code 301 unless { ssl_fc }",
    ),
    frontend(
        "rewrite",
        "`http-request replace-path` (or `replace-pathq`, with the query) for the path that goes on, `http-request redirect` for one that the client is sent to. Rules run in order; there is no `last`.",
        "http-request replace-path /user/([0-9]+) /user.php/\\1\nhttp-request redirect code 301 location %[path,regsub(^/old,/new)] if { path_beg /old/ }",
    ),
    frontend(
        "if",
        "every rule may end in `if` or `unless`; `acl` gives a condition a name.",
        "acl is_phone req.hdr(user-agent) -m sub -i mobile\nhttp-request redirect location /m if is_phone { path / }",
    ),
    says("break rewrite_log", "rules run in order until one answers."),
    sections(
        "map map_hash",
        "a map file and a converter: `map` for whole values, `map_beg`, `map_end`, `map_reg`, `map_dom`. It can be changed while it runs.",
        "frontend web\n    bind :80\n    use_backend %[req.hdr(host),lower,map(/etc/tidegate/hosts.map,site)]\n\nbackend site\n    server app 10.0.0.1:8080",
    ),
    sections(
        "geo",
        "a map file with networks, and `map_ip`.",
        "frontend web\n    bind :80\n    http-request set-var(txn.zone) src,map_ip(/etc/tidegate/zones.map,abroad)\n    default_backend site\n\nbackend site\n    server app 10.0.0.1:8080",
    ),
    frontend(
        "split_clients",
        "a number of the request: `rand(100)`, or one that stays the same for a client by a hash.",
        "use_backend trial if { src,xxh32,mod(100) lt 5 }",
    ),
    frontend(
        "valid_referers referer",
        "a condition.",
        "http-request deny if { path_end .jpg .png } { req.hdr(referer) -m found } !{ req.hdr(referer) -m sub example.com }",
    ),
    frontend(
        "client_max_body_size",
        "a condition on the length that the request says. A body in chunks has none; servers bound it.",
        "http-request deny deny_status 413 if { req.hdr_val(content-length) gt 10485760 }",
    ),
    says(
        "client_body_buffer_size client_body_temp_path client_body_in_file_only client_body_in_single_buffer",
        "bodies are passed on as they come, in bounded memory, and are never written to a disk. `option http-buffer-request` waits for one as far as it fits a buffer.",
    ),
    frontend(
        "client_header_timeout",
        "`timeout http-request`: from the first byte of a request to the end of its head.",
        "timeout http-request 10s",
    ),
    frontend(
        "client_body_timeout send_timeout",
        "`timeout client`: without a byte from the client, or to it.",
        "timeout client 30s",
    ),
    frontend("keepalive_timeout keepalive_time", "`timeout http-keep-alive`.", "timeout http-keep-alive 65s"),
    says("keepalive_requests", "without a bound. `option httpclose` ends a connection with its answer."),
    frontend("keepalive_disable", "`option httpclose`, which ends connections of all clients.", "option httpclose"),
    global(
        "client_header_buffer_size large_client_header_buffers",
        "`tune.bufsize`: a head is as long as a buffer at most (16384), less `tune.maxrewrite`.",
        "tune.bufsize 32768",
    ),
    says(
        "connection_pool_size request_pool_size subrequest_output_buffer_size postpone_output lingering_close lingering_time lingering_timeout reset_timedout_connection send_lowat",
        "not needed: the program sees to it.",
    ),
    says("tcp_nodelay tcp_nopush", "always as it is best: heads and bodies go out together, and nothing waits."),
    says(
        "ignore_invalid_headers underscores_in_headers",
        "underscores in names of headers are passed on. Names with other letters are 400, as in HAProxy.",
    ),
    sections(
        "merge_slashes",
        "other spellings of a file's path (`//a`, `/b/../a`) are redirected to the usual one. For rules and servers, `http-request normalize-uri` does so.",
        "global\n    expose-experimental-directives\n\nfrontend web\n    bind :80\n    http-request normalize-uri \
         path-merge-slashes\n    default_backend site\n\nbackend site\n    server app 10.0.0.1:8080",
    ),
    says(
        "absolute_redirect server_name_in_redirect port_in_redirect",
        "redirects of folders name the path alone; `http-request redirect` says what it is told.",
    ),
    says(
        "server_tokens",
        "no `Server` header is added. `http-response set-header server` adds one, and `del-header` removes that of a server.",
    ),
    says("satisfy", "conditions behind one `if` have to hold all; `or` parts those of which one has to."),
    frontend(
        "limit_except",
        "a condition on the method.",
        "http-request deny if !{ method GET HEAD } !{ src 10.0.0.0/8 }",
    ),
    says("mirror mirror_request_body", "not here."),
    says(
        "post_action chunked_transfer_encoding msie_padding msie_refresh ancient_browser modern_browser",
        "not here: nothing that is in use needs it.",
    ),
];

pub(super) const CONTENT: &[Directive] = &[
    backend("gzip", "`compression`: gzip, and `br` and `zstd` beside it.", "compression algo zstd br gzip"),
    backend(
        "gzip_types",
        "`compression type`.",
        "compression algo gzip\ncompression type text/html text/css application/json",
    ),
    says("gzip_vary", "always: `Vary: Accept-Encoding` goes with what is compressed."),
    says(
        "gzip_comp_level gzip_min_length gzip_buffers gzip_disable gzip_http_version gzip_proxied",
        "not needed: the encoder is a fast one, HTTP/1.0 gets what it understands, and browsers that did not understand what they asked for are known ([Compression](compression.md)).",
    ),
    says(
        "gunzip gunzip_buffers",
        "not here: `http-request del-header accept-encoding` has servers send what is not compressed.",
    ),
    backend(
        "add_header",
        "`http-response add-header` or `set-header`, for answers of servers and files; `http-after-response` for errors and redirects, too (nginx' `always`).",
        "http-response set-header x-content-type-options nosniff\nhttp-after-response set-header strict-transport-security max-age=31536000",
    ),
    says("add_trailer", "not here."),
    says(
        "sub_filter sub_filter_once sub_filter_types sub_filter_last_modified addition_types add_before_body add_after_body",
        "not here: bodies are not rewritten.",
    ),
    says(
        "ssi ssi_silent_errors ssi_types ssi_last_modified ssi_min_file_chunk ssi_value_length",
        "not here; `vcl` programs have ESI, which is the same for caches.",
    ),
    says("charset_map override_charset source_charset", "not here: charsets are not converted."),
    says(
        "userid userid_name userid_domain userid_path userid_expires userid_service userid_mark userid_p3p userid_flags",
        "not here: `unique-id-format` gives requests a name, `http-response set-header set-cookie` sets a cookie.",
    ),
];
