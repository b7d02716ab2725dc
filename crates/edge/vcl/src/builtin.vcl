# What a program does where it says nothing itself. It stands behind every program, so a subroutine that returns nothing goes on
# here. The names are Varnish's, so that each step can be taken over by itself.
vcl 4.0;

sub vcl_recv {
    call vcl_builtin_recv;
    return (hash);
}

sub vcl_builtin_recv {
    call vcl_req_host;
    call vcl_req_method;
    call vcl_req_authorization;
    call vcl_req_cookie;
}

# One host is one host, however it is written. HTTP/1.1 must name it (RFC 9112 section 3.2).
sub vcl_req_host {
    if (req.http.Host ~ "[[:upper:]]") {
        set req.http.Host = req.http.Host.lower();
    }
    if (!req.http.Host && req.esi_level == 0 && req.proto == "HTTP/1.1") {
        return (synth(400));
    }
}

# Only GET and HEAD are asked of the cache; what nobody knows is passed on without a look.
sub vcl_req_method {
    if (req.method == "PRI") {
        return (synth(405));
    }
    if (req.method !~ "^(GET|HEAD|PUT|POST|TRACE|OPTIONS|DELETE|PATCH)$") {
        return (pipe);
    }
    if (req.method != "GET" && req.method != "HEAD") {
        return (pass);
    }
}

# What is for one user alone is not kept for others.
sub vcl_req_authorization {
    if (req.http.Authorization) {
        return (pass);
    }
}

sub vcl_req_cookie {
    if (req.http.Cookie) {
        return (pass);
    }
}

sub vcl_pipe {
    call vcl_builtin_pipe;
    return (pipe);
}

sub vcl_builtin_pipe {
}

sub vcl_pass {
    call vcl_builtin_pass;
    return (fetch);
}

sub vcl_builtin_pass {
}

sub vcl_hash {
    call vcl_builtin_hash;
    return (lookup);
}

sub vcl_builtin_hash {
    hash_data(req.url);
    if (req.http.Host) {
        hash_data(req.http.Host);
    } else {
        hash_data(server.ip);
    }
}

sub vcl_purge {
    call vcl_builtin_purge;
    return (synth(200, "Purged"));
}

sub vcl_builtin_purge {
}

sub vcl_hit {
    call vcl_builtin_hit;
    return (deliver);
}

sub vcl_builtin_hit {
}

sub vcl_miss {
    call vcl_builtin_miss;
    return (fetch);
}

sub vcl_builtin_miss {
}

sub vcl_deliver {
    call vcl_builtin_deliver;
    return (deliver);
}

sub vcl_builtin_deliver {
}

sub vcl_synth {
    call vcl_builtin_synth;
    return (deliver);
}

sub vcl_builtin_synth {
    set resp.http.Content-Type = "text/html; charset=utf-8";
    set resp.http.Retry-After = "5";
    set resp.body = {"<!DOCTYPE html>
<html lang="en">
<head><title>"} + resp.status + " " + resp.reason + {"</title></head>
<body>
<h1>Error "} + resp.status + " " + resp.reason + {"</h1>
<p>"} + resp.reason + {"</p>
<p>XID: "} + req.xid + {"</p>
</body>
</html>
"};
}

sub vcl_backend_fetch {
    call vcl_builtin_backend_fetch;
    return (fetch);
}

sub vcl_builtin_backend_fetch {
    if (bereq.method == "GET") {
        unset bereq.body;
    }
}

sub vcl_backend_response {
    call vcl_builtin_backend_response;
    return (deliver);
}

sub vcl_builtin_backend_response {
    if (bereq.uncacheable) {
        return (deliver);
    }
    call vcl_beresp_stale;
    call vcl_beresp_cookie;
    call vcl_beresp_control;
    call vcl_beresp_vary;
}

sub vcl_beresp_stale {
    if (beresp.ttl <= 0s) {
        call vcl_beresp_hitmiss;
    }
}

sub vcl_beresp_cookie {
    if (beresp.http.Set-Cookie) {
        call vcl_beresp_hitmiss;
    }
}

sub vcl_beresp_control {
    if (beresp.http.Surrogate-Control ~ "(?i)no-store" ||
        (!beresp.http.Surrogate-Control && beresp.http.Cache-Control ~ "(?i)(no-cache|no-store|private)")) {
        call vcl_beresp_hitmiss;
    }
}

sub vcl_beresp_vary {
    if (beresp.http.Vary == "*") {
        call vcl_beresp_hitmiss;
    }
}

# For two minutes requests for it do not wait for one another.
sub vcl_beresp_hitmiss {
    set beresp.ttl = 120s;
    set beresp.uncacheable = true;
    return (deliver);
}

sub vcl_backend_error {
    call vcl_builtin_backend_error;
    return (deliver);
}

sub vcl_builtin_backend_error {
    set beresp.http.Content-Type = "text/html; charset=utf-8";
    set beresp.http.Retry-After = "5";
    set beresp.body = {"<!DOCTYPE html>
<html lang="en">
<head><title>"} + beresp.status + " " + beresp.reason + {"</title></head>
<body>
<h1>Error "} + beresp.status + " " + beresp.reason + {"</h1>
<p>"} + beresp.reason + {"</p>
<p>XID: "} + bereq.xid + {"</p>
</body>
</html>
"};
}

sub vcl_init {
    return (ok);
}

sub vcl_fini {
    return (ok);
}
